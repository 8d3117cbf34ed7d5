"""The laws of cancelled runs: each way to cancel a run keeps its usage and its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai import Agent, Tool, Toolkit, fx
from fxai.agents import RunRecord, history_of, usage_of
from fxai.effects import Backend, InterruptedProgramError, Timeout
from fxai.messages import Usage
from fxai.testing import ScriptedModel, TestClock, call, finish

BACKENDS: Final[tuple[Backend, ...]] = ("asyncio", "trio")
look = Tool.make("look", success=str)
wait = Tool.make("wait", success=str)
kit = Toolkit.make(look, wait)


class Trial:
    """A run that finishes some steps and then waits forever in a call. `waits` is set at this time."""

    def __init__(self, usages: list[Usage], *, streams: bool = False) -> None:
        turns = [[call("look", {}), finish("tool-calls", usage)] for usage in usages]
        self.waits = anyio.Event()
        model = ScriptedModel.make([*turns, [call("wait", {}), finish("tool-calls", Usage(7, 7))]])
        agent = Agent.make("a", toolkit=kit)
        handlers = look.handler(lambda _: fx.succeed("seen")) | wait.handler(lambda _: self._wait())
        running: Any = agent.stream("Go.").collect() if streams else agent.execute("Go.")
        self.run: Any = running.provide(handlers).provide(model.layer)

    def _wait(self) -> Any:
        return fx.sync(self.waits.set).flat_map(lambda _: fx.wait(anyio.sleep_forever))


async def _by_scope(trial: Trial) -> Any:
    ended: list[Any] = []
    async with anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await trial.waits.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(cancel)
        try:
            await fx.run_async(trial.run)
        except BaseException as raised:
            ended.append(raised)
            raise
    return ended[0]


async def _by_exit_in_a_race(trial: Trial) -> Any:
    ended: list[Any] = []

    def note(end: Any) -> Any:
        return fx.sync(lambda: ended.append(end))

    loser = trial.run.on_exit(note)
    await fx.run_async(fx.race(loser, fx.wait(trial.waits.wait)))
    return ended[0]


async def _by_timeout(trial: Trial) -> Any:
    clock, ended = TestClock(), list[Any]()

    async def limited() -> None:
        ended.append(await fx.run_async_exit(trial.run.timeout(60).provide(clock.layer)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limited)
        await trial.waits.wait()
        await fx.run_async(clock.advance(60))
    assert ended[0].cause.failures == (Timeout(60),)
    return ended[0]


async def _by_fiber(trial: Trial) -> Any:
    @fx.gen
    def program() -> Any:
        handle: Any = yield from fx.fork(trial.run)
        yield from fx.wait(trial.waits.wait)
        yield from handle.interrupt()
        return cast(Any, (yield from handle.exit()))

    return await fx.run_async(fx.scoped(program()))


async def _by_join(trial: Trial) -> Any:
    @fx.gen
    def program() -> Any:
        handle: Any = yield from fx.fork(trial.run)
        yield from fx.wait(trial.waits.wait)
        yield from handle.interrupt()
        return cast(Any, (yield from handle.join()))

    with pytest.raises(InterruptedProgramError) as caught:
        await fx.run_async(fx.scoped(program()))
    return caught.value


async def _by_task(trial: Trial) -> Any:
    task = asyncio.ensure_future(fx.run_async(trial.run))
    await trial.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    return caught.value


async def _by_timeout_of_asyncio(trial: Trial) -> Any:
    async def limited() -> None:
        async with asyncio.timeout(None) as limit:
            expiring = asyncio.ensure_future(expire(limit))
            await fx.run_async(trial.run)
            await expiring

    async def expire(limit: asyncio.Timeout) -> None:
        await trial.waits.wait()
        limit.reschedule(0)

    with pytest.raises(TimeoutError) as caught:
        await limited()
    return caught.value


Way = Callable[[Trial], Awaitable[Any]]
ON_BOTH: Final[tuple[Way, ...]] = (_by_scope, _by_exit_in_a_race, _by_timeout, _by_fiber, _by_join)
WAYS: Final = [
    *[(way, backend) for way in ON_BOTH for backend in BACKENDS],
    (_by_task, "asyncio"),
    (_by_timeout_of_asyncio, "asyncio"),
]
COUNTS: Final = st.none() | st.integers(0, 1000)
USAGES: Final = st.lists(st.builds(Usage, COUNTS, COUNTS), max_size=4)


@pytest.mark.parametrize(("way", "backend"), WAYS)
@given(usages=USAGES, streams=st.booleans())
def test_a_cancelled_run_has_its_usage_and_its_conversation(
    way: Way, backend: Backend, usages: list[Usage], streams: bool
) -> None:
    """The usage is the sum of the finished turns, and the conversation ends before the cancelled turn."""

    async def main() -> Any:
        return await way(Trial(usages, streams=streams))

    ended = anyio.run(main, backend=backend)
    history = history_of(ended)

    assert usage_of(ended) == sum(usages, Usage())
    assert history is not None
    assert [message.role for message in history] == ["user", *["assistant", "tool"] * len(usages)]
    record = RunRecord.of(ended)
    assert len(record.steps) == len(usages)
    assert record.ended == ("failed" if way in (_by_timeout, _by_timeout_of_asyncio) else "cancelled")
