"""The law of runs that are cut off: whatever cancels them, in whichever turn of the event loop, nothing is half done.

Agents with memories, sub-agents, stored chats, streams that are left and approvals are cancelled by asyncio itself
(`Task.cancel` once or more often, `wait_for`, `timeout`, a sibling in a `TaskGroup`) and by a cancel scope on asyncio
and trio. Every handler that began ended, once; every call in a history is answered; a memory has a turn or has it not;
no approval lets a call run twice; no task is left; and the cancellation went on.

Time is counted in turns of the loop, so a timeout after `n` seconds is one after `n` turns.
"""

from __future__ import annotations

import asyncio
import selectors
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from fxai.agents import Agent, Memory
from fxai.effects import Backend, Effect, EffectOf, Gen, Layer, fx, runtime
from fxai.messages import AiError, Finish, Part, Prompt, Text, ToolMessage
from fxai.models import ApprovalLedger, Chat, ChatStore, LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, call
from fxai.tools import Tool, Toolkit
from tests.kit.journal import running_tasks, turns
from tests.kit.memories import KINDS, memory_of
from tests.kit.reaching import Reached
from tests.kit.runs import unanswered
from tests.kit.trials import examples

Program: TypeAlias = EffectOf[Any, Any, Any]

# -- a world in which it is noted what began and what ended


class Job(msgspec.Struct, frozen=True):
    """What a handler is asked for."""

    id: str
    waits: int = 0


class World:
    """An agent, its tools and its model, and what they did."""

    def __init__(self, rounds: int, waits: int) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.rounds = rounds
        self.waits = waits
        self._ids = 0
        self.job: Any = Tool.make("job", parameters=Job, success=str)
        self.wipe: Any = Tool.make("wipe", parameters=Job, success=str, needs_approval=True)
        self.kit: Toolkit[Any] = Toolkit.of([self.job, self.wipe])
        self.worker: Any = Agent.make("worker", toolkit=self.kit)
        self.boss: Any = Agent.make("boss").with_tools(self.worker.as_tool())

    def handle(self, job: Job) -> Program:
        """Waits for some turns; its finalizer waits too."""

        def start() -> None:
            self.begun.append(job.id)

        @fx.gen
        def waiting() -> Gen[str]:
            for _ in range(job.waits):
                yield from fx.checkpoint()
            return job.id

        ended = fx.checkpoint().and_then(fx.sync(lambda: self.ended.append(job.id)))
        return fx.sync(start).flat_map(lambda _: waiting().ensuring(ended))

    def served(self, program: Any) -> Any:
        """The program with handlers and model."""
        handlers = self.job.handler(self.handle) | self.wipe.handler(self.handle)
        return program.provide(handlers).provide(_Model(self).layer)

    def asked(self) -> Prompt:
        """The history of a run in which two calls wait to be approved."""
        calls = [call("wipe", {"id": id_, "waits": self.waits}, id=id_) for id_ in (self.number(), self.number())]
        program: Any = self.worker.execute("wipe").provide(
            self.wipe.handler(self.handle) | self.job.handler(self.handle)
        )
        answer: Any = fx.run_sync(program.provide(ScriptedModel.make([calls]).layer))
        assert len(answer.history.pending) == 2
        history: Prompt = answer.history
        return history

    def number(self) -> str:
        """A new id."""
        self._ids += 1
        return f"c{self._ids}"

    def check(self) -> None:
        """Every handler that began ended, and none of them ran twice."""
        assert sorted(self.begun) == sorted(self.ended)
        assert len(set(self.begun)) == len(self.begun)


class _Model(LanguageModel):
    """Calls what it has, two at a time, for some rounds since the user spoke; then it is done."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def layer(self) -> Any:
        """The layer that gives it."""
        return Layer.succeed(LanguageModel, cast("LanguageModel", self))

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.checkpoint().map(lambda _: self._turn(request))

    def _turn(self, request: ModelRequest) -> tuple[Part, ...]:
        roles = [message.role for message in request.prompt]
        since = roles[len(roles) - roles[::-1].index("user") :]
        names = [tool.name for tool in request.tools]
        if since.count("tool") >= self._world.rounds or not names:
            return Text("done"), Finish("stop")
        if "worker" in names:
            calls = [call("worker", {"prompt": "go"}, id=self._world.number()) for _ in range(2)]
        else:
            ids = [self._world.number() for _ in range(2)]
            calls = [call("job", {"id": id_, "waits": self._world.waits}, id=id_) for id_ in ids]
        return *calls, Finish("tool-calls")


def is_complete(history: Prompt) -> bool:
    """Whether each call is answered, but those that wait to be approved."""
    return set(unanswered(history)) <= {one.id for one in history.pending}


# -- time in turns


class _Turns(selectors.DefaultSelector):
    """A turn of the loop takes a second; so does half a millisecond in which it waits for a thread."""

    now = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else min(timeout, 0.0005))
        self.now += 1
        return ready


class _CountingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time are its turns."""

    def __init__(self) -> None:
        self._clock = _Turns()
        super().__init__(self._clock)

    @override
    def time(self) -> float:
        return self._clock.now


# -- ways to cancel


def _task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", asyncio.current_task())


async def by_task(run: Callable[[], Awaitable[Any]], pauses: list[int]) -> bool:
    """`Task.cancel` after each of the pauses."""
    came: list[bool] = []

    async def noting() -> None:
        try:
            await run()
        finally:
            came.append(_task().cancelling() > 0)

    task = asyncio.ensure_future(noting())
    for pause in pauses:
        await turns(pause)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == (came != [False])
    if not task.cancelled():
        await task
    return task.cancelled()


async def by_wait_for(run: Callable[[], Awaitable[Any]], pauses: list[int]) -> bool:
    """`asyncio.wait_for`."""
    try:
        await asyncio.wait_for(run(), sum(pauses))
    except TimeoutError:
        return True
    return False


async def by_timeout(run: Callable[[], Awaitable[Any]], pauses: list[int]) -> bool:
    """`asyncio.timeout`, in another one that is over a little later."""
    try:
        async with asyncio.timeout(sum(pauses)), asyncio.timeout(pauses[0]):
            await run()
    except TimeoutError:
        return True
    return False


async def by_sibling(run: Callable[[], Awaitable[Any]], pauses: list[int]) -> bool:
    """Another task of its `TaskGroup` fails."""

    async def failing() -> None:
        await turns(sum(pauses))
        raise ZeroDivisionError

    ended: list[bool] = []

    async def noting() -> None:
        await run()
        ended.append(True)

    async def together() -> None:
        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(noting())
                tasks.create_task(failing())

    await asyncio.ensure_future(together())  # before Python 3.13 a group leaves a count in its own task
    return not ended


async def by_scope(run: Callable[[], Awaitable[Any]], pauses: list[int]) -> bool:
    """A cancel scope."""
    ended: list[bool] = []

    async def noting() -> None:
        await run()
        ended.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(noting)
        await turns(sum(pauses))
        tasks.cancel_scope.cancel()
    return not ended


Way: TypeAlias = Callable[[Callable[[], Awaitable[Any]], list[int]], Awaitable[bool]]
NATIVE: list[Way] = [by_task, by_task, by_wait_for, by_timeout, by_sibling]


async def cut(way: Way, run: Callable[[], Awaitable[Any]], cutting: Cutting, world: World) -> bool:
    """Whether the run was cut; it left no task, no count of cancellations, and nothing that runs on."""
    before = running_tasks()
    was_cut = await way(run, cutting.pauses)
    noted = len(world.begun), len(world.ended)
    await turns(3)
    assert noted == (len(world.begun), len(world.ended))
    assert running_tasks() == before
    if way is not by_scope:
        assert _task().cancelling() == 0
    world.check()
    return was_cut


def looped(main: Callable[[], Awaitable[None]], backend: Backend = "asyncio") -> None:
    """Runs it, where the time is counted in turns."""
    options = {"loop_factory": _CountingLoop} if backend == "asyncio" else {}
    anyio.run(main, backend=backend, backend_options=options)


# -- what is run


class Cutting(msgspec.Struct, frozen=True):
    """How a run is read, and when it is cut."""

    kind: str
    pauses: list[int]
    after: int

    async def run(self, program: Any, stream: Any) -> None:
        """The run as a whole, or as a stream: drained, read by plain Python, or left after some parts."""
        if self.kind == "whole":
            await fx.run_async(program)
        elif self.kind == "drained":
            await fx.run_async(stream.drain())
        else:
            async with stream.iterate() as items:
                seen = 0
                async for _ in items:
                    seen += 1
                    if self.kind == "left" and seen == self.after:
                        return
                    await turns(1)


def cuttings() -> st.SearchStrategy[Cutting]:
    """One that comes early or late, once or several times."""
    return st.builds(
        Cutting,
        kind=st.sampled_from(["whole", "drained", "read", "left"]),
        pauses=st.lists(st.integers(0, 12) | st.integers(0, 45), min_size=1, max_size=3),
        after=st.integers(1, 9),
    )


def worlds() -> st.SearchStrategy[World]:
    """Models that call for no to two rounds, and handlers that wait for no to three turns."""
    return st.builds(World, rounds=st.integers(0, 2), waits=st.integers(0, 3))


LOOPS = pytest.mark.parametrize(
    ("ways", "backend"),
    [(NATIVE, "asyncio"), ([by_scope], "asyncio"), ([by_scope], "trio")],
    ids=["native", "scope-asyncio", "scope-trio"],
)


@pytest.mark.slow
@LOOPS
def test_a_run_that_is_cut_is_remembered_whole_or_not_at_all(ways: list[Way], backend: Backend) -> None:
    """Also with sub-agents; the next run on that memory goes on."""
    reached = Reached()

    async def main(way: Way, cutting: Cutting, agent: Any, memory: Memory, world: World) -> None:
        program, stream = agent.execute("go"), agent.stream("go")
        was_cut = await cut(way, lambda: cutting.run(world.served(program), world.served(stream)), cutting, world)
        kept = await fx.run_async(memory.turns())
        reached("cut", was_cut)
        reached("kept", bool(kept))
        reached("cut in a handler", was_cut and bool(world.begun) and not kept)
        assert len(kept) <= 1
        assert was_cut or cutting.kind == "left" or kept
        assert all(is_complete(turn) and turn[-1].role == "assistant" for turn in kept)

        await fx.run_async(world.served(agent.execute("again")))
        assert len(await fx.run_async(memory.turns())) == len(kept) + 1
        world.check()

    @settings(max_examples=examples(30, least=30))
    @given(st.sampled_from(ways), cuttings(), worlds(), st.sampled_from(KINDS), st.booleans())
    def law(way: Way, cutting: Cutting, world: World, kind: str, boss: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            memory = memory_of(kind, Path(folder))
            agent: Any = (world.boss if boss else world.worker).with_memory(memory)
            looped(lambda: main(way, cutting, agent, memory, world), backend)

    reached.by(law, **{"cut": 10, "kept": 10, "cut in a handler": 2})


@pytest.mark.slow
@LOOPS
def test_a_turn_of_a_stored_chat_that_is_cut_is_kept_whole_or_not_at_all(ways: list[Way], backend: Backend) -> None:
    """In process, in files and in SQLite; the chat is free for the next turn."""
    reached = Reached()

    opened: Any = fx.service(cast("Any", Chat))

    async def main(way: Way, cutting: Cutting, stores: Any, world: World) -> None:
        async with runtime(Chat.stored("c").provide(stores)) as services:
            chat: Chat = await services.run(opened)
            program = chat.generate_text("go", toolkit=world.kit)
            stream = chat.stream_text("go", toolkit=world.kit)
            was_cut = await cut(way, lambda: cutting.run(world.served(program), world.served(stream)), cutting, world)
            kept = await services.run(chat.history)
            reached("cut", was_cut)
            reached("kept", bool(kept))
            assert is_complete(kept)
            assert was_cut or cutting.kind == "left" or kept

            await services.run(world.served(chat.generate_text("again", toolkit=world.kit)))
            after = await services.run(chat.history)
            assert list(after)[: len(kept)] == list(kept)
            assert is_complete(after)
            assert len(after) > len(kept)
            world.check()

    @settings(max_examples=examples(30, least=30))
    @given(st.sampled_from(ways), cuttings(), worlds(), st.sampled_from(["memory", "files", "sqlite"]))
    def law(way: Way, cutting: Cutting, world: World, kind: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made: dict[str, Callable[[], Any]] = {
                "memory": ChatStore.in_memory,
                "files": lambda: ChatStore.files(Path(folder) / "chats"),
                "sqlite": lambda: ChatStore.sqlite(Path(folder) / "chats.db"),
            }
            looped(lambda: main(way, cutting, made[kind](), world), backend)

    reached.by(law, cut=10, kept=10)


@pytest.mark.slow
@LOOPS
def test_an_approval_lets_its_call_run_once_however_the_run_is_cut(ways: list[Way], backend: Backend) -> None:
    """Approved calls run in a run that is cut; the same approval, given again, lets nothing run again."""
    reached = Reached()

    async def main(way: Way, cutting: Cutting, ledger: Any, world: World, remembered: bool) -> None:
        memory = Memory.in_process()
        agent: Any = world.worker.with_memory(memory) if remembered else world.worker
        asked = world.asked()
        answer = Prompt([ToolMessage(tuple(one.approve() for one in asked.pending))])
        if remembered:
            await fx.run_async(memory.commit(asked))
        said = answer if remembered else asked + answer

        def again() -> Any:
            return cutting.run(
                world.served(agent.execute(said)).provide(ledger), world.served(agent.stream(said)).provide(ledger)
            )

        was_cut = await cut(way, again, cutting, world)
        reached("cut after it began", was_cut and bool(world.begun))
        approved = {one.id for one in asked.pending}
        had_run = approved & set(world.begun)
        for _ in range(2):
            await fx.run_async_exit(world.served(agent.execute(said)).provide(ledger))
            assert not had_run or approved & set(world.begun) == had_run
            world.check()
        kept = await fx.run_async(memory.turns())
        assert all(is_complete(turn) for turn in kept)

    @settings(max_examples=examples(30, least=30))
    @given(st.sampled_from(ways), cuttings(), worlds(), st.booleans(), st.booleans())
    def law(way: Way, cutting: Cutting, world: World, remembered: bool, in_file: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            if in_file:
                ledger: Any = ApprovalLedger.sqlite(Path(folder) / "ledger.db")
            else:
                kept = fx.run_sync(fx.service(ApprovalLedger).provide(ApprovalLedger.in_process()))
                ledger = Layer.succeed(ApprovalLedger, kept)
            looped(lambda: main(way, cutting, ledger, world, remembered), backend)

    reached.by(law, **{"cut after it began": 5})
