"""Laws of handlers that are coroutine functions: their first step within the step of a fiber, or in an await."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, cast

import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.effects import fx, stream_steps
from fxai.effects.context import EMPTY
from fxai.effects.fiber import Fiber
from fxai.tools import Tool, Toolkit

ACTIONS = ("wait", "set", "raise", "fail", "cut", "ask", "foreign", "again", "effect", "exit")
SCRIPTS = st.lists(st.sampled_from(ACTIONS), max_size=5)
number: ContextVar[int] = ContextVar("number", default=0)
play = Tool.make("play", parameters=list[str], success=int, failure=str)
kit = Toolkit.make(play)


def _layer(seen: list[tuple[object, ...]]) -> Any:
    async def on_play(script: list[str]) -> Any:
        for at, action in enumerate(script):
            seen.append((action, number.get(), _current()))
            try:
                ended = await _act(action, script[at + 1 :], seen)
            except asyncio.CancelledError:
                seen.append(("cancelled",))
                raise
            if ended is not None:
                return ended
        return Success(len(script))

    return kit.to_layer(play.handler(on_play))


async def _act(action: str, rest: list[str], seen: list[tuple[object, ...]]) -> Any:
    match action:
        case "wait":
            await asyncio.sleep(0)
        case "set":
            number.set(number.get() + 1)
        case "raise":
            raise ValueError("a bug")
        case "cut":
            with anyio.move_on_after(-1):
                await anyio.lowlevel.checkpoint()
        case "ask":  # the task cancels itself, and the next wait raises that
            _current().cancel()
        case "foreign":
            raise asyncio.CancelledError("by nobody")
        case "again":
            inner: Result[Any, Any] = await fx.run_async(kit.call("play", rest).result().provide(_layer(seen)))
            seen.append((type(inner),))
        case "exit":
            raise SystemExit(3)
        case "fail":
            return Failure("no")
        case _:
            return fx.succeed(7)
    return None


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _run(script: list[str], *, has_task: bool) -> tuple[Any, ...]:
    """Return everything that a caller can observe of a call in its own task."""
    seen = list[tuple[object, ...]]()

    async def main() -> None:
        fiber = Fiber(EMPTY, has_task=has_task)
        call: Any = kit.call("play", script).result().provide(_layer(seen))
        try:
            end: object = repr(await fiber.drive(fiber.step(call, None, None)))
        except BaseException as raised:
            end = type(raised), str(raised)
        seen.append((end, number.get(), _current().cancelling()))

    task = asyncio.create_task(main())
    await asyncio.wait([task])
    return task.cancelled(), [tuple("the task" if item is task else item for item in one) for one in seen]


@given(SCRIPTS)
def test_a_coroutine_that_starts_within_a_step_behaves_like_an_awaited_one(script: list[str]) -> None:
    """The end, the context variables, the task, and the cancellations of the task are the same."""

    async def main() -> None:
        assert await _run(script, has_task=True) == await _run(script, has_task=False)

    asyncio.run(main())


@given(SCRIPTS.filter(lambda script: "exit" not in script), st.sampled_from(["uninterruptible", "child", "stream"]))
def test_a_coroutine_runs_in_one_task(script: list[str], kind: str) -> None:
    """A guard of the wait, a concurrent operator, and the reader of a stream each need the whole coroutine."""
    seen = list[tuple[object, ...]]()
    call: Any = kit.call("play", script).result().provide(_layer(seen))

    async def main() -> None:
        if kind == "child":
            await fx.run_async_exit(fx.all_(call, fx.sleep(0)))
        elif kind == "stream":
            steps: Any = stream_steps(lambda emit: call.and_then(cast("Any", emit)(1)).and_then(call))
            await fx.run_async_exit(steps.collect())
        else:
            await fx.run_async_exit(call.uninterruptible())

    async def run() -> None:
        task = asyncio.create_task(main())
        await asyncio.wait([task])
        if task.done() and not task.cancelled():
            task.exception()

    asyncio.run(run())

    assert len({one[2] for one in seen if len(one) == 3}) <= 1
