"""Turns that do not end well: stopped at any chunk, failed in any part, cut off; what is sent and kept is whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Never, TypeVar

import anyio
import msgspec
import pytest
from returns.result import Success
from typing_extensions import override

from fxai import Agent, Budget, CallContext, Gen, Prompt, Tool, Toolkit, fx, runtime
from fxai.effects import Backend, Effect, EffectOf, Layer, Scope, StreamOf
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, Turn, call, delay, fails, text
from fxai.ui import (
    Accepted,
    ChatTurn,
    Chunk,
    Conversation,
    ConversationError,
    Conversations,
    ConversationSummary,
    DataPart,
    Stop,
    StreamOptions,
    StreamStore,
    UIMessage,
)
from fxai.ui import Turn as KeptTurn
from fxai.ui.turn import ChatJob
from tests.kit.every import every

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")


class City(msgspec.Struct, frozen=True):
    """A city."""

    city: str


look = Tool.make("look", parameters=City, success=str)
wait = Tool.make("wait", parameters=City, success=str)
crash = Tool.make("crash", parameters=City, success=str)
kit = Toolkit.make(look, wait, crash)
began: list[str] = []
ended: list[str] = []


def on_wait(_: City, context: CallContext) -> Gen[str]:
    """Waits for ever, after a preliminary result."""
    began.append("wait")
    yield from context.preliminary("soon")
    try:
        yield from fx.sleep(3600)
    finally:
        ended.append("wait")
    return "never"


def on_crash(_: City) -> Success[str]:
    """Has a bug."""
    raise RuntimeError("the secret of the handler")


handlers = kit.to_layer(look.handler(lambda _: Success("seen")) | wait.handler(on_wait) | crash.handler(on_crash))
LONG: list[Turn] = [
    [call("look", {"city": "Rome"}, id="c1"), call("look", {"city": "Oslo"}, id="c2")],
    ["One ", delay(0.001), "two ", delay(0.001), "three."],
]


class World:
    """Stores, and turns of one conversation in them."""

    def __init__(self, conversations: Conversations | None = None, streams: StreamStore | None = None) -> None:
        self.conversations = conversations or Conversations.in_process()
        self.streams = streams or StreamStore.in_process()
        self.count = 0

    def job(self, answerer: Any, **options: Any) -> ChatJob:
        """A turn of the user's that goes on from the head."""
        self.count += 1
        user = UIMessage.make(f"u{self.count}", "user", f"Say {self.count}")
        added = Prompt.make(user.text)

        def accept(known: Conversation | None, new_id: Callable[[], str]) -> Any:
            return Success(Accepted(None if known is None else known.head, user, new_id(), added))

        leave = options.pop("on_leave", "continue")
        given = StreamOptions(**options)
        return ChatJob(
            "c", "ann", None, accept, {}, answerer, self.conversations, self.streams, options=given, on_leave=leave
        )

    async def run(self, answerer: Any, layer: Any = handlers, **options: Any) -> tuple[ChatJob, list[Chunk]]:
        """Runs a turn to its end; its chunks."""
        job = self.job(answerer, **options)
        async with runtime(layer) as services:
            await job.run(services)
            return job, await self.chunks(services)

    async def chunks(self, services: Any) -> list[Chunk]:
        """The chunks of the last stream; its last event is `[DONE]`."""
        body = b"".join(await services.run(self.streams.read("c").collect())).decode()
        events = [event.removeprefix("data: ") for event in body.split("\n\n") if event]
        assert events[-1:] == ["[DONE]"] or not events
        return [json.loads(event) for event in events[:-1]]

    async def last(self) -> KeptTurn:
        """The last turn as it is kept."""
        async with runtime(Layer.empty()) as services:
            known = await services.run(self.conversations.load("c"))
            assert known is not None
            assert await services.run(self.streams.active("c")) is None
            return known.turns[-1]


def agent(turns: list[Turn], **more: Any) -> Callable[[Any], Any]:
    """What answers with an agent that says this."""

    def answer(_: Any) -> Any:
        return Agent.make("desk", toolkit=kit, model=ScriptedModel.make(turns).layer, **more)

    return answer


def _is_complete(turn: KeptTurn) -> bool:
    """Whether each call has a result, so that the next turn can go on."""
    return not turn.messages.pending


def _types(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def _open(chunks: list[Chunk]) -> set[str]:
    """The calls of a stream that have no end."""
    begun = {chunk["toolCallId"] for chunk in chunks if chunk["type"].startswith("tool-input")}
    over = {
        chunk["toolCallId"]
        for chunk in chunks
        if chunk["type"].startswith("tool-output") and not chunk.get("preliminary")
    }
    return begun - over


def run(program: Callable[[], Any], backend: Backend) -> Any:
    """Runs a coroutine function on an event loop."""
    return anyio.run(program, backend=backend)


# -- it fails


def broken(_: ChatTurn) -> Agent[Any, Any, Any, Any]:
    """Has a bug."""
    raise ZeroDivisionError


def giving(value: Any) -> Callable[[ChatTurn], Any]:
    """A function that gives a value."""

    def give(_: ChatTurn) -> Any:
        return value

    return give


FAILURES: dict[str, tuple[Any, str]] = {
    "the model fails": (agent([["Half ", fails(NetworkError("TransportError", "refused"))]]), "failed"),
    "the model fails in its second step": (
        agent([LONG[0], ["Half ", fails(NetworkError("TransportError", "refused"))]]),
        "failed",
    ),
    "a handler has a bug": (agent([call("crash", {"city": "x"}), text("on")]), "failed"),
    "the budget is used up": (agent([LONG[0], LONG[1]], budget=Budget(rounds=1)), "failed"),
    "the script is too short": (agent([LONG[0]]), "failed"),
    "the output is none": (agent([text("no number")] * 5, output=int), "failed"),
    "the function raises": (broken, "failed"),
    "the function gives nothing": (giving(None), "failed"),
    "the function's effect fails": (giving(fx.fail("no agent")), "failed"),
    "the parts fail": (giving(StreamOf.fail("no parts")), "failed"),
    "the parts are none": (giving(StreamOf.make("text")), "failed"),
}


@every("case", FAILURES)
def test_a_turn_that_fails_says_so_and_is_kept(case: str, backend: Backend) -> None:
    """The last chunk is an error without details; calls have results; the next turn is answered."""
    answerer, how = FAILURES[case]
    world = World()

    async def play() -> None:
        _, chunks = await world.run(answerer)
        kept = await world.last()
        again, more = await world.run(agent([text("Well.")]))

        assert _types(chunks)[0] == "start"
        assert _types(chunks)[-1] == "error"
        assert chunks[-1]["errorText"] == "An error occurred."
        assert "secret" not in json.dumps(chunks)
        assert _open(chunks) == set()
        assert (kept.ended, kept.error, _is_complete(kept)) == (how, "An error occurred.", True)
        assert again.refused is None
        assert _types(more)[-1] == "finish"

    run(play, backend)


def test_what_was_said_before_a_failure_stays(backend: Backend) -> None:
    """In the message, and in what the model reads next."""
    world = World()
    model = ScriptedModel.make([text("Well.")])

    async def play() -> None:
        await world.run(FAILURES["the model fails in its second step"][0])
        kept = await world.last()
        await world.run(giving(Agent.make("desk", toolkit=kit, model=model.layer)))

        assert kept.message is not None
        assert kept.message.text == "Half "
        roles = [message.role for message in model.requests[0].prompt]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]

    run(play, backend)


# -- the stores fail


class Failing(Conversations):
    """A store that fails at one of its calls, and else does what another one does."""

    def __init__(self, doing: str) -> None:
        self._store = Conversations.in_process()
        self._doing = doing

    def _do(self, doing: str, effect: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E | ConversationError, _R | None]:
        full: EffectOf[Never, ConversationError] = fx.fail(ConversationError("c", "save", "the disk is full"))
        if doing == self._doing:
            return full
        return effect

    @override
    def hold(self, conversation_id: str) -> Effect[None, Any, Scope]:
        return self._do("hold", self._store.hold(conversation_id))

    @override
    def load(self, conversation_id: str) -> Effect[Conversation | None, ConversationError]:
        return self._do("load", self._store.load(conversation_id))

    @override
    def summary(self, conversation_id: str) -> Effect[ConversationSummary | None, ConversationError]:
        return self._do("summary", self._store.summary(conversation_id))

    @override
    def list(
        self, owner: str, *, limit: int = 50, before: float | None = None
    ) -> Effect[tuple[ConversationSummary, ...], ConversationError]:
        return self._do("list", self._store.list(owner, limit=limit, before=before))

    @override
    def begin(self, conversation_id: str, owner: str, turn: KeptTurn) -> Effect[None, ConversationError]:
        return self._do("begin", self._store.begin(conversation_id, owner, turn))

    @override
    def end(self, conversation_id: str, turn: KeptTurn) -> Effect[None, ConversationError]:
        return self._do("end", self._store.end(conversation_id, turn))

    @override
    def choose(self, conversation_id: str, turn_id: str) -> Effect[None, ConversationError]:
        return self._do("choose", self._store.choose(conversation_id, turn_id))

    @override
    def rename(self, conversation_id: str, title: str) -> Effect[None, ConversationError]:
        return self._do("rename", self._store.rename(conversation_id, title))

    @override
    def delete(self, conversation_id: str) -> Effect[None, ConversationError]:
        return self._do("delete", self._store.delete(conversation_id))


@pytest.mark.parametrize("doing", ["hold", "load", "begin"])
def test_a_turn_that_cannot_begin_is_refused(doing: str, backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """No model is asked; the client is told, without the reason, which is in the log."""
    world = World(Failing(doing))
    model = ScriptedModel.make([text("Hello.")])

    async def play() -> None:
        job, chunks = await world.run(giving(Agent.make("desk", model=model.layer)))
        assert job.refused is not None
        assert (job.refused.status, "disk" in job.refused.message) == (500, False)
        assert (chunks, model.requests) == ([], [])

    run(play, backend)

    assert "the disk" in caplog.text


def test_a_turn_that_cannot_be_kept_fails(backend: Backend) -> None:
    """The page is told so in place of `finish`: what it shows is not kept."""
    world = World(Failing("end"))

    async def play() -> None:
        _, chunks = await world.run(agent([text("Hello.")]))
        assert _types(chunks)[-1] == "error"
        assert "finish" not in _types(chunks)

    run(play, backend)


def test_a_stream_that_is_too_large_fails_and_is_kept(backend: Backend) -> None:
    """The turn ends, as far as it came."""
    world = World(streams=StreamStore.in_process(most_bytes=2_000))

    async def play() -> None:
        await world.run(agent([[f"word {n} " for n in range(500)]]))
        kept = await world.last()
        assert kept.ended == "failed"
        assert kept.message is not None
        assert kept.message.text.startswith("word 0 word 1 ")

    run(play, backend)


# -- it is stopped


async def _stopped(world: World, answerer: Any, at: int, layer: Any = handlers) -> tuple[list[Chunk], ChatJob]:
    """A turn that is stopped when a reader has had some chunks; its chunks."""
    job = world.job(answerer)
    async with runtime(layer) as services, anyio.create_task_group() as group:
        group.start_soon(job.run, services)
        await job.begun.wait()
        seen = 0
        async with world.streams.read("c").iterate() as batches:
            async for batch in batches:
                seen += batch.count(b"\n\n")
                if seen > at:
                    break
        await services.run(world.streams.signal("c", Stop()))
        await world.chunks(services)  # to its end
    async with runtime(Layer.empty()) as services:
        return await world.chunks(services), job


@every("at", range(14))
def test_a_turn_is_stopped_at_any_chunk(at: int, backend: Backend) -> None:
    """The stream ends in order, each call with a result; what is kept is what was sent, and the next turn goes on."""
    world = World()

    async def play() -> None:
        chunks, _ = await _stopped(world, agent([*LONG, text("More.")]), at)
        kept = await world.last()
        _, more = await world.run(agent([text("Well.")]))

        assert _types(chunks)[-1] in ("abort", "finish")
        assert kept.ended == ("stopped" if _types(chunks)[-1] == "abort" else "done")
        assert _open(chunks) == set()
        assert _is_complete(kept)
        sent = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
        assert kept.message is not None
        assert kept.message.text == sent
        assert _types(more)[-1] == "finish"

    run(play, backend)


def test_a_stop_ends_the_handlers(backend: Backend) -> None:
    """A call that goes on is interrupted, with its finalizers; the model reads that the user stopped it."""
    world = World()
    began.clear()
    ended.clear()

    async def play() -> None:
        chunks, _ = await _stopped(world, agent([call("wait", {"city": "x"}, id="c1"), text("on")]), 3)
        kept = await world.last()
        (result,) = [part for message in kept.messages if message.role == "tool" for part in message.content]

        assert (began, ended) == (["wait"], ["wait"])
        assert [chunk["errorText"] for chunk in chunks if chunk["type"] == "tool-output-error"] == [
            "the user stopped it"
        ]
        assert "the user stopped it" in repr(result)

    run(play, backend)


# -- it is cut off


@pytest.mark.parametrize("after", [0, 0.01, 0.05])
def test_a_server_that_is_cancelled_keeps_the_turn(after: float) -> None:
    """Native cancellation of the task, as servers do it, ends the stream and keeps the turn as stopped."""
    world = World()

    async def play() -> None:
        job = world.job(agent([call("wait", {"city": "x"}, id="c1")]))
        async with runtime(handlers) as services:
            task = asyncio.create_task(job.run(services))
            await job.begun.wait()
            await asyncio.sleep(after)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            chunks = await world.chunks(services)
        kept = await world.last()

        assert (kept.ended, _is_complete(kept)) == ("stopped", True)
        assert _types(chunks)[-1] == "abort"
        assert _open(chunks) == set()

    asyncio.run(play())


def test_data_of_a_handler_comes_between_the_parts(backend: Backend) -> None:
    """It is shown, kept in the message, and no part of what the model reads."""
    world = World()
    parts: StreamOf[Any, Any, None] = StreamOf.make(DataPart("note", 1, id="n"), DataPart("note", 2, id="n"))

    async def play() -> None:
        _, chunks = await world.run(giving(parts))
        kept = await world.last()
        assert [chunk["data"] for chunk in chunks if chunk["type"] == "data-note"] == [1, 2]
        assert kept.message is not None
        assert [part["data"] for part in kept.message.parts if part["type"] == "data-note"] == [2]
        assert [message.role for message in kept.messages] == ["user"]

    run(play, backend)
