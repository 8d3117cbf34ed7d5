"""The law of foreign cancellations: a cancellation that nobody requested is a defect of the step that raised it.

Random programs raise `CancelledError`, and trio's `Cancelled`, although no scope and no task of the run was cancelled.
Each program is compared with its twin, which raises an ordinary bug at the same places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, EffectOf, Exit, Failed, ForeignCancellationError, fx
from tests.kit.journal import boom, ending_of, running_tasks, turns
from tests.kit.random_program import LEAVES, Node, Program, World, check, programs
from tests.kit.trials import examples


async def _of_a_future() -> None:
    """Wait for a future that other code cancelled; only asyncio has these."""
    if trio.lowlevel.in_trio_run():
        raise asyncio.CancelledError
    future = asyncio.get_running_loop().create_future()
    future.cancel("by a pool")
    await future


async def _of_a_scope() -> None:
    """Raise the cancellation of a scope again, after that scope ended."""
    raise await _cancellation_of_a_scope()


async def _cancellation_of_a_scope() -> BaseException:
    caught: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await checkpoint()
        except BaseException as raised:
            caught.append(raised)
            raise
    return caught[0]


async def _of_a_group() -> None:
    """Raise a foreign cancellation inside of a group of exceptions."""
    raise BaseExceptionGroup("both", [asyncio.CancelledError(), ZeroDivisionError()])


def _cancelled() -> None:
    raise asyncio.CancelledError


FOREIGN: dict[str, Callable[[], Awaitable[None]]] = {
    "future": _of_a_future,
    "scope": _of_a_scope,
    "group": _of_a_group,
}


class Twins(World):
    """A world whose steps raise foreign cancellations; a plain one raises bugs at the same places."""

    def __init__(self, *, is_plain: bool) -> None:
        super().__init__()
        self.is_plain = is_plain

    def awaited(self, kind: str) -> Program:
        """Return a step that takes a turn, and fails."""

        async def fail() -> None:
            await checkpoint()
            if self.is_plain and kind == "scope":
                await _cancellation_of_a_scope()  # as many turns as its twin
            if self.is_plain:
                boom()
            await FOREIGN[kind]()

        return fx.wait(fail)

    def at_once(self) -> Program:
        """Return a step that fails without waiting."""
        return fx.sync(boom if self.is_plain else _cancelled)

    def finalized(self, program: Program) -> Program:
        """Return the program with a finalizer that fails."""
        return program.ensuring(self.awaited("future"))


def _leaf(kind: str) -> Node:
    return lambda world: cast(Twins, world).awaited(kind)


LEAVES_WITH_FOREIGN: dict[str, Node] = {
    **LEAVES,
    **{kind: _leaf(kind) for kind in FOREIGN},
    "at once": lambda world: cast(Twins, world).at_once(),
    "in a finalizer": lambda world: cast(Twins, world).finalized(fx.checkpoint()),
    "in a finalizer of never": lambda world: cast(Twins, world).finalized(fx.never()),
}
NODES = programs(LEAVES_WITH_FOREIGN)
STEADY = programs(LEAVES_WITH_FOREIGN, timed=False)


async def _end_of(node: Node, world: World) -> Exit[Any, Any]:
    program = fx.scoped(node(world)).timeout(0.002)
    return await fx.run_async_exit(cast("EffectOf[Any, Any, None]", program))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(150))
@given(node=NODES)
def test_a_run_that_nobody_cancelled_ends_as_with_a_bug_in_the_place_of_each_foreign_cancellation(
    backend: Backend, node: Node
) -> None:
    """Nothing is raised out of the run, every finalizer runs once, and no task is left."""
    world = Twins(is_plain=False)

    async def main() -> tuple[int, int, Exit[Any, Any]]:
        before = running_tasks()
        end = await _end_of(node, world)
        await turns(1)
        return before, running_tasks(), end

    before, left, end = anyio.run(main, backend=backend)

    assert before == left
    assert not isinstance(end, Failed) or all(isinstance(one, Exception) for one in end.cause.defects)
    check(world)


@settings(max_examples=examples(150))
@given(node=STEADY, after=st.integers(0, 12))
def test_a_foreign_cancellation_has_the_outcome_of_a_bug(node: Node, after: int) -> None:
    """With and without a cancellation of the task: the reasons are the same, in the same order.

    asyncio takes turns in a fixed order, so both runs meet the cancellation at the same place.
    """
    ends: list[list[str]] = []
    for is_plain in (True, False):
        world = Twins(is_plain=is_plain)
        seen: list[str] = []

        async def run(world: World = world, seen: list[str] = seen) -> None:
            seen.append("started")
            program = cast("EffectOf[Any, Any, None]", fx.scoped(node(world)))
            seen.append(ending_of(await fx.run_async_exit(program)))

        async def main(seen: list[str] = seen, run: Callable[[], Any] = run) -> None:
            task = asyncio.ensure_future(run())
            await turns(after)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
                seen.append("not cancelled")

        asyncio.run(main())
        check(world)
        ends.append(seen)

    assert ends[0] == ends[1]


WHERE: dict[str, Callable[[Program], Program]] = {
    "plain": lambda step: step,
    "masked": lambda step: step.uninterruptible(),
    "finalizer": lambda step: fx.checkpoint().ensuring(step),
    "for_each": lambda step: fx.for_each([step, fx.checkpoint()], lambda one: one, concurrency=None),
    "join": lambda step: fx.scoped(fx.fork(step).flat_map(lambda handle: handle.join())),
    "timeout": lambda step: step.timeout(60),
}


@pytest.mark.parametrize("where", list(WHERE))
@pytest.mark.parametrize("kind", list(FOREIGN))
def test_a_foreign_cancellation_is_one_defect(kind: str, where: str, backend: Backend) -> None:
    """The defect is a `ForeignCancellationError`, and its cause is the exception that the step raised."""
    end = fx.run_exit(WHERE[where](fx.wait(FOREIGN[kind])), backend=backend)

    assert ending_of(end) == "defect"
    assert [type(one) for one in cast("Any", end).cause.defects] == [ForeignCancellationError]
    assert cast("Any", end).cause.defects[0].__cause__ is not None


@pytest.mark.parametrize("way", ["swallowed", "in a handler"])
def test_a_cancellation_that_the_caller_caught_is_not_the_reason_of_a_later_one(way: str) -> None:
    """The task was cancelled before the run, and that is over: a foreign cancellation stays a defect."""

    async def main() -> Exit[Any, Any]:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if way == "in a handler":
                return await fx.run_async_exit(fx.wait(_of_a_future))
        return await fx.run_async_exit(fx.wait(_of_a_future))

    assert ending_of(asyncio.run(main())) == "defect"


def test_attempt_async_turns_a_foreign_cancellation_into_a_typed_failure(backend: Backend) -> None:
    """The function that explains exceptions receives the `ForeignCancellationError`."""
    attempted = fx.attempt_async(_of_a_future, ForeignCancellationError)
    not_explained = fx.attempt_async(_of_a_future, OSError)

    assert ending_of(fx.run_exit(attempted, backend=backend)) == "failure"
    assert ending_of(fx.run_exit(not_explained, backend=backend)) == "defect"
    assert fx.run(attempted.catch_all(lambda _: fx.succeed("caught")), backend=backend) == "caught"


def test_attempt_async_leaves_a_requested_cancellation_alone() -> None:
    """A task that is cancelled while it waits in `attempt_async` ends as cancelled."""
    seen: list[Exception] = []

    def explain(error: Exception) -> str:
        seen.append(error)
        return "failed"

    async def main() -> bool:
        task = asyncio.ensure_future(fx.run_async_exit(fx.attempt_async(lambda: asyncio.sleep(60), explain)))
        await turns(2)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
    assert seen == []


def test_a_foreign_cancellation_in_a_finalizer_of_a_cancelled_run_is_attached() -> None:
    """The run ends as cancelled, and the note of the exception names the defect of the finalizer."""

    async def main() -> BaseException:
        program = fx.never().ensuring(fx.wait(_of_a_future))
        task: asyncio.Task[None] = asyncio.ensure_future(fx.run_async(program))
        await turns(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    (note,) = asyncio.run(main()).__notes__
    assert note.startswith("meanwhile: defect ForeignCancellationError(")
