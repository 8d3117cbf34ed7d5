"""Cancellation in the middle of a handler: its finalizers ran once, and nothing is left running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.agents import Agent
from fxai.effects import Backend, Effect, Gen, Timeout, fx
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, TestClock, call, text
from fxai.tools import CallContext, Tool, Toolkit
from tests.kit.every import every
from tests.kit.journal import Journal, running_tasks
from tests.kit.trials import examples


class Job(msgspec.Struct, frozen=True):
    """What is to be done."""

    name: str


class Bench:
    """One tool whose handlers begin, wait for ever, and say when they are stopped; and every way to run it."""

    def __init__(self, form: str = "effect") -> None:
        self.journal = Journal()
        self.begun = anyio.Event()
        self.tool = Tool.make("job", parameters=Job, success=int)
        self.kit = Toolkit.make(self.tool)
        self.clock = TestClock()
        self._form = form

    def _start(self, name: str) -> None:
        self.journal.add(f"begin {name}")
        self.begun.set()

    def _effect(self, p: Job) -> Effect[int]:
        held = fx.acquire_release(self.journal.note(f"+{p.name}"), lambda _: fx.sleep(0).and_then(self._released(p)))
        endless: Effect[int] = fx.sync(lambda: self._start(p.name)).and_then(fx.never())
        return fx.scoped(held.and_then(endless))

    def _released(self, p: Job) -> Effect[None]:
        return self.journal.note(f"-{p.name}")

    def _generator(self, p: Job, context: CallContext) -> Gen[int]:
        self.journal.add(f"+{p.name}")
        try:
            yield from context.preliminary(1)
            self._start(p.name)
            yield from fx.never()
        finally:
            self.journal.add(f"-{p.name}")
        return 1

    async def _coroutine(self, p: Job) -> Any:
        self.journal.add(f"+{p.name}")
        try:
            self._start(p.name)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.journal.add(f"-{p.name}")
        return Success(1)

    def served(self, program: Any) -> Any:
        """The program with its handlers and with a model that makes two calls."""
        forms: dict[str, Any] = {
            "effect": self._effect,
            "generator": self._generator,
            "coroutine": self._coroutine,
        }
        calls = [call("job", {"name": "a"}, id="a"), call("job", {"name": "b"}, id="b")]
        model = ScriptedModel.make([calls, text("never")])
        handlers: Any = self.tool.handler(forms[self._form])
        return program.provide(handlers).provide(model.layer)

    @property
    def ways(self) -> dict[str, Any]:
        """Every program that runs a handler; those of a model run two at once."""
        agent = Agent.make("worker", toolkit=self.kit)
        programs: dict[str, Any] = {
            "generate_text": LanguageModel.generate_text("go", toolkit=self.kit),
            "generate_object": LanguageModel.generate_object("go", Job, toolkit=self.kit),
            "stream_text": LanguageModel.stream_text("go", toolkit=self.kit).drain(),
            "execute": agent.execute("go"),
            "stream": agent.stream("go").drain(),
            "call": self.kit.call("job", {"name": "a"}),
            "typed call": self.tool.call(Job("a")),
            "handle": self.kit.handle("job", {"name": "a"}).drain(),
        }
        return programs

    def check(self) -> None:
        """Each handler that began was stopped, once, before anything else went on."""
        lines = self.journal.lines
        began = sorted(line[1:] for line in lines if line.startswith("+"))
        stopped = sorted(line[1:] for line in lines if line.startswith("-"))
        assert began
        assert began == stopped
        assert len(set(stopped)) == len(stopped)
        assert lines[-1] == "over"


WAYS = [
    "generate_text",
    "generate_object",
    "stream_text",
    "execute",
    "stream",
    "call",
    "typed call",
    "handle",
]
FORMS = ["effect", "generator", "coroutine"]


async def _quiet(bench: Bench, main: Callable[[], Awaitable[None]]) -> None:
    """Runs `main`; as many tasks run afterwards as before."""
    before = running_tasks()
    await main()
    bench.journal.add("over")
    await anyio.lowlevel.checkpoint()
    assert running_tasks() == before


@every("form", FORMS)
@every("way", WAYS)
def test_a_cancel_scope_stops_the_handlers(way: str, form: str, backend: Backend) -> None:
    """Whatever runs them, in every form of handler."""
    bench = Bench(form)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, bench.served(bench.ways[way]))
            await bench.begun.wait()
            tasks.cancel_scope.cancel()

    anyio.run(_quiet, bench, main, backend=backend)

    bench.check()


@every("way", WAYS)
def test_a_native_cancellation_stops_the_handlers(way: str) -> None:
    """`Task.cancel` of asyncio, which knows nothing of anyio; the task ends as cancelled."""
    bench = Bench()

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(bench.served(bench.ways[way])))
        await bench.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(_quiet(bench, main))

    bench.check()


@every("cut", ["wait_for", "timeout", "three times"])
@every("way", WAYS)
def test_asyncio_cannot_cut_the_finalizers_of_handlers_short(way: str, cut: str) -> None:
    """As a web server cancels: each handler is stopped, once, and released, before the caller goes on."""
    bench = Bench()

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(bench.served(bench.ways[way])))
        await bench.begun.wait()
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await _cut_off(task, cut)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    asyncio.run(_quiet(bench, main))

    bench.check()


async def _cut_off(task: asyncio.Task[Any], cut: str) -> None:
    """Waits for a task that ends as cancelled."""
    if cut == "wait_for":
        await asyncio.wait_for(task, 0)
    elif cut == "timeout":
        async with asyncio.timeout(0.001):
            await task
    else:
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        await task


@settings(max_examples=examples(60))
@given(
    pauses=st.lists(st.integers(0, 25), min_size=1, max_size=3), way=st.sampled_from(WAYS), form=st.sampled_from(FORMS)
)
def test_asyncio_cancels_a_run_anywhere_and_nothing_is_left(pauses: list[int], way: str, form: str) -> None:
    """After any number of turns, any number of times: what began has stopped."""
    bench = Bench(form if len(pauses) == 1 else "effect")  # a coroutine's own `finally` is asyncio's

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(bench.served(bench.ways[way])))
        for pause in pauses:
            for _ in range(pause):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(_quiet(bench, main))

    lines = bench.journal.lines
    assert sorted(line[1:] for line in lines if line[0] == "+") == sorted(line[1:] for line in lines if line[0] == "-")


@every("form", FORMS)
@every("way", WAYS)
def test_a_timeout_stops_the_handlers(way: str, form: str, backend: Backend) -> None:
    """It is a typed failure, told when the finalizers have run."""
    bench = Bench(form)
    cut = bench.served(bench.ways[way]).timeout(5).result()

    async def main() -> None:
        ended: Any = await fx.run_async(fx.all_(cut, bench.clock.advance(10)).provide(bench.clock.layer))
        assert ended[0].failure() == Timeout(5)

    anyio.run(_quiet, bench, main, backend=backend)

    bench.check()


@every("form", FORMS)
@every("way", ["stream_text", "stream", "handle"])
def test_leaving_a_stream_stops_the_handlers(way: str, form: str, backend: Backend) -> None:
    """The reader goes on when they have stopped."""
    bench = Bench(form)
    agent = Agent.make("worker", toolkit=bench.kit)
    streams: dict[str, Any] = {
        "stream_text": LanguageModel.stream_text("go", toolkit=bench.kit),
        "stream": agent.stream("go"),
        "handle": bench.kit.handle("job", {"name": "a"}),
    }

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks, bench.served(streams[way]).iterate() as items:

                async def leave() -> None:
                    await bench.begun.wait()
                    scope.cancel()

                tasks.start_soon(leave)
                async for _ in items:
                    pass

    anyio.run(_quiet, bench, main, backend=backend)

    bench.check()


def test_a_break_stops_the_handlers(backend: Backend) -> None:
    """Without any cancellation: the reader had enough."""
    bench = Bench("generator")

    async def main() -> None:
        async with bench.served(LanguageModel.stream_text("go", toolkit=bench.kit)).iterate() as parts:
            async for part in parts:
                if part.type == "tool-result":
                    break

    anyio.run(_quiet, bench, main, backend=backend)

    bench.check()


def test_cancelling_one_run_leaves_the_others_alone(backend: Backend) -> None:
    """Two runs of one agent: one is cancelled, the other comes to its end."""
    stopped, done = Bench(), Journal()
    agent: Any = Agent.make("worker", toolkit=stopped.kit)
    quick: Any = stopped.tool.handler(lambda p: done.note(p.name).as_(1))
    model = ScriptedModel.make([call("job", {"name": "x"}), text("done")])

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, stopped.served(agent.execute("go")))
            await stopped.begun.wait()
            answer = await fx.run_async(agent.execute("go").provide(quick).provide(model.layer))
            assert answer.text == "done"
            tasks.cancel_scope.cancel()

    anyio.run(_quiet, stopped, main, backend=backend)

    stopped.check()
    assert done.lines == ["x"]


def test_a_finalizer_that_fails_does_not_hide_the_cancellation(backend: Backend) -> None:
    """The task is cancelled all the same, and the other handler's finalizer runs."""
    journal = Journal()
    begun = anyio.Event()
    tool = Tool.make("job", parameters=Job, success=int)

    def handler(p: Job) -> Effect[int]:
        last: Effect[Any] = fx.die(RuntimeError("late")) if p.name == "a" else journal.note(f"-{p.name}")
        endless: Effect[int] = fx.sync(begun.set).and_then(fx.never())
        return endless.ensuring(journal.note(f"+{p.name}").and_then(last))

    calls = [call("job", {"name": "a"}), call("job", {"name": "b"})]
    program: Any = LanguageModel.generate_text("go", toolkit=Toolkit.make(tool)).provide(tool.handler(handler))

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fx.run_async, program.provide(ScriptedModel.make([calls]).layer))
                await begun.wait()
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        assert scope.cancelled_caught

    anyio.run(main, backend=backend)

    assert sorted(journal.lines) == ["+a", "+b", "-b"]
