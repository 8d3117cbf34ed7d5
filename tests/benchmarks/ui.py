"""Runs as streams that pages read: the encoders, and the whole application, asked without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fxai import Gen, Prompt
from fxai.agents import Agent
from fxai.effects import Effect, Layer, Stream, StreamOf, fx
from fxai.messages import AiError, AssistantMessage, Finish, Part, StreamPart, TextDelta, TextEnd, TextStart
from fxai.models import LanguageModel, ModelRequest
from fxai.ui import (
    HEADERS,
    AppOptions,
    ChatApp,
    Conversations,
    StreamStore,
    Turn,
    UIMessage,
    chat_app,
    encode_ag_ui,
    encode_stream,
    to_event,
)
from tests.benchmarks.measure import FXAI, HAND, Budget, Work
from tests.benchmarks.rivals.inputs import Exchange

__all__ = ["Words", "works"]

FEW, ONE = "the same, a tenth as long", "one reader"
WORD = "word "
FLAT = 1.3
FREE = AppOptions(turns_per_minute=10**9, ag_ui=True)


def works() -> Iterator[Work]:
    """What a delta costs, what a message before it does, what a first chunk does, and what each reader more does."""
    loop = asyncio.new_event_loop()
    yield from _encoders(loop.run_until_complete)
    for work in (_deltas, _first_chunks, _messages):
        yield from work(loop.run_until_complete)
    yield from _readers(loop.run_until_complete)
    loop.close()


Run = Callable[[Coroutine[Any, Any, Any]], Any]


# -- the encoders


def _parts(deltas: int) -> list[StreamPart]:
    return [TextStart("t"), *(TextDelta("t", WORD) for _ in range(deltas)), TextEnd("t"), Finish("stop")]


def _encoders(run: Run) -> Iterator[Work]:
    few = partial(_again, lambda: run(_encode(_parts(1_000))), 10)
    for deltas in (1_000, 10_000):
        parts = _parts(deltas)
        contenders: dict[str, Callable[[], object]] = {
            FXAI: partial(_run, run, _encode, parts),
            HAND: partial(_run, run, _encode_by_hand, deltas),
        }
        budgets: list[Budget] = []
        if deltas > 1_000:
            contenders[FEW] = few
            budgets.append(Budget(FLAT, FEW))
        yield Work(f"a delta encoded, of {deltas:,}", contenders, deltas, tuple(budgets))
    parts = _parts(2_000)
    ag_ui: dict[str, Callable[[], object]] = {
        FXAI: partial(_run, run, _encode_ag_ui, parts),
        "the AI SDK's": partial(_run, run, _encode, parts),
    }
    yield Work("a delta encoded for AG-UI, of 2,000", ag_ui, 2_000, (Budget(2, "the AI SDK's"),))


def _run(run: Run, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
    run(work(*arguments))


def _again(some: Callable[[], object], times: int) -> None:
    for _ in range(times):
        some()


async def _encode(parts: list[StreamPart]) -> None:
    async with encode_stream(StreamOf.from_iterable(parts), message_id="m").map(to_event).iterate() as events:
        async for _ in events:
            pass


async def _encode_ag_ui(parts: list[StreamPart]) -> None:
    async with encode_ag_ui(StreamOf.from_iterable(parts), "thread", "run").map(to_event).iterate() as events:
        async for _ in events:
            pass


async def _encode_by_hand(deltas: int) -> None:
    async for _ in _events_by_hand(deltas):
        pass


async def _events_by_hand(deltas: int) -> AsyncIterator[bytes]:
    for _ in range(deltas):
        yield b"data: %s\n\n" % msgspec.json.encode({"type": "text-delta", "id": "t", "delta": WORD})


# -- the application


class Words(LanguageModel):
    """A model whose answer is so many words."""

    def __init__(self, words: int) -> None:
        self._parts = _parts(words)

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Nothing: this model only streams."""
        return fx.die(NotImplementedError("this model only streams"))

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The words."""
        return Stream.from_async(self._read)

    async def _read(self) -> AsyncIterator[StreamPart]:
        for part in self._parts:
            yield part


def _app(words: int, **more: Any) -> ChatApp:
    return chat_app(Agent.make("bench"), layer=Layer.succeed(LanguageModel, Words(words)), options=FREE, **more)


def _app_by_hand(words: int) -> Any:
    async def answer(request: Request) -> Response:
        msgspec.json.decode(await request.body())
        return StreamingResponse(_events_by_hand(words), headers=dict(HEADERS))

    return Starlette(routes=[Route("/api/chat", answer, methods=["POST"])])


_numbers = count()


def _said(number: object) -> dict[str, Any]:
    return {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": "Go on."}]}


def _body(conversation: str | None = None, before: int = 0) -> bytes:
    """A request with so many turns that it repeats, and a new message; without a name of a new conversation."""
    messages: list[Any] = []
    for number in range(before):
        answered = [{"type": "step-start"}, {"type": "text", "text": WORD, "state": "done"}]
        messages += [_said(number), {"id": f"a{number}", "role": "assistant", "parts": answered}]
    new = next(_numbers)
    return msgspec.json.encode(
        {"id": conversation or f"c{new}", "trigger": "submit-message", "messages": [*messages, _said(f"new{new}")]}
    )


def _whole(run: Run, app: Any, times: int = 1) -> None:
    for _ in range(times):
        run(Exchange(app, _body()).read())


def _deltas(run: Run) -> Iterator[Work]:
    few = partial(_whole, run, _app(1_000), 10)
    for deltas in (1_000, 10_000):
        contenders: dict[str, Callable[[], object]] = {
            FXAI: partial(_whole, run, _app(deltas)),
            HAND: partial(_whole, run, _app_by_hand(deltas)),
        }
        budgets: list[Budget] = []
        if deltas > 1_000:
            contenders[FEW] = few
            budgets.append(Budget(FLAT, FEW))
        yield Work(f"a delta of the application, of {deltas:,}", contenders, deltas, tuple(budgets))


def _first_chunks(run: Run) -> Iterator[Work]:
    """From the request to the first chunk of an answer of three words."""

    def first(app: Any) -> None:
        for _ in range(20):
            run(Exchange(app, _body()).read_first())

    contenders: dict[str, Callable[[], object]] = {
        FXAI: partial(first, _app(3)),
        HAND: partial(first, _app_by_hand(3)),
    }
    yield Work("a first chunk", contenders, 20)


def _messages(run: Run) -> Iterator[Work]:
    """A request in a conversation of so many messages, which the client repeats and the server has kept."""
    few = partial(_go_on, run, _talk(100), 50, 10)
    for messages in (100, 1_000):
        contenders: dict[str, Callable[[], object]] = {FXAI: partial(_go_on, run, _talk(messages), messages // 2, 1)}
        budgets: tuple[Budget, ...] = ()
        if messages > 100:
            contenders[FEW] = few
            budgets = (Budget(FLAT, FEW),)
        yield Work(f"a message repeated, of {messages:,}", contenders, messages, budgets)


def _go_on(run: Run, app: Any, turns: int, times: int) -> None:
    for _ in range(times):
        run(Exchange(app, _body("talk", turns)).read())


def _talk(messages: int) -> ChatApp:
    conversations = Conversations.in_process()

    @fx.gen
    def fill() -> Gen[None, Any]:
        for number in range(messages // 2):
            said = UIMessage.make(f"u{number}", "user", "Go on.")
            parent = f"t{number - 1}" if number else None
            turn = Turn.make(f"t{number}", parent, said, f"a{number}", Prompt.make("Go on."), float(number))
            yield from conversations.begin("talk", "local", turn)
            answered = UIMessage.make(f"a{number}", "assistant", {"type": "step-start"}, WORD)
            whole = Prompt((*turn.messages, AssistantMessage.make(WORD)))
            yield from conversations.end("talk", replace(turn, message=answered, messages=whole, ended="done"))

    fx.run(fill())
    return _app(3, conversations=conversations)


def _readers(run: Run) -> Iterator[Work]:
    """A delta for each of so many readers of one stream, from its first one on."""
    events = [to_event({"type": "text-delta", "id": "t", "delta": WORD})] * 2_000

    @fx.gen
    def write(readers: int) -> Gen[None, Any, Any]:
        store = StreamStore.in_process()
        writer = yield from store.open("c", "t")
        for _ in range(readers):
            yield from fx.fork(store.read("c", "t").drain())
        for event in events:
            yield from writer.write((event,))

    def played(readers: int) -> None:
        run(write_all(readers))

    async def write_all(readers: int) -> None:
        await fx.run_async(fx.scoped(write(readers)))

    contenders: dict[str, Callable[[], object]] = {FXAI: partial(played, 100), ONE: partial(played, 1)}
    yield Work("2,000 deltas for 100 readers", contenders, 1, (Budget(50, ONE),))
