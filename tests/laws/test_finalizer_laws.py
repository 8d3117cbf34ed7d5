"""The law of finalizers: exactly once, in reverse, wherever a program is stopped.

Random programs acquire, wait, fork, race, fail and catch. Each is run to its end, and cancelled after a random number
of turns of the event loop; whatever happens, what was acquired in a scope is released in reverse, exactly once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, EffectOf, Exit, Stream, fx
from tests.kit.journal import running_tasks, turns
from tests.kit.random_program import LEAVES, Node, Program, World, check, programs
from tests.kit.trials import examples

NODES = programs(LEAVES)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(150))
@given(node=NODES, after=st.integers(0, 15))
def test_a_program_cancelled_at_any_point_releases_everything_once_in_reverse(
    backend: Backend, node: Node, after: int
) -> None:
    """After any number of turns; the cancellation goes on, and no task is left."""
    world = World()
    ends: list[Exit[Any, Any]] = []

    async def run() -> None:
        ends.append(await fx.run_async_exit(cast("EffectOf[Any, Any, None]", fx.scoped(node(world)))))

    async def main() -> tuple[int, int]:
        before = running_tasks()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await turns(after)
            tasks.cancel_scope.cancel()
        count = world.count, len(world.ended)
        await turns(2)
        assert count == (world.count, len(world.ended))
        return before, running_tasks()

    before, left = anyio.run(main, backend=backend)

    assert before == left
    check(world)


async def _cancelled_natively(task: asyncio.Task[Any], pauses: list[int], way: str) -> None:
    """Cancels after each of these numbers of turns: the task, or every task but this one, its children before it."""
    for pause in pauses:
        await turns(pause)
        others = asyncio.all_tasks() - {asyncio.current_task()} if way == "all tasks" else {task}
        for other in sorted(others, key=lambda t: t is task):
            other.cancel()
    await asyncio.wait([task])


@settings(max_examples=examples(300))
@given(
    node=NODES,
    pauses=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    way=st.sampled_from(["task", "task", "all tasks"]),
)
def test_a_program_cancelled_by_asyncio_itself_releases_everything_once_in_reverse(
    node: Node, pauses: list[int], way: str
) -> None:
    """`Task.cancel`, after any number of turns, any number of times, also of tasks that the program started.

    Each cancellation that came before the end is counted, the task ends as cancelled, and no other task is left.
    """
    world = World()
    came: list[bool] = []

    async def run() -> None:
        try:
            await fx.run_async_exit(cast("EffectOf[Any, Any, None]", fx.scoped(node(world))))
        finally:
            came.append(cast("asyncio.Task[Any]", asyncio.current_task()).cancelling() > 0)

    async def main() -> tuple[int, int]:
        before = running_tasks()
        task = asyncio.ensure_future(run())
        await _cancelled_natively(task, pauses, way)
        assert task.cancelled() == (came != [False])
        count = world.count, len(world.ended)
        await turns(2)
        assert count == (world.count, len(world.ended))
        return before, running_tasks()

    before, left = asyncio.run(main())

    assert before == left
    check(world)


@settings(max_examples=examples(60))
@given(node=NODES, seconds=st.sampled_from([0, 0.0001, 0.0005, 0.001]), way=st.sampled_from(["wait_for", "timeout"]))
def test_a_program_in_a_timeout_of_asyncio_releases_everything_once_in_reverse(
    node: Node, seconds: float, way: str
) -> None:
    """`asyncio.wait_for` and `asyncio.timeout`: what was cancelled fails with `TimeoutError`, and no count is left."""
    world = World()
    program = cast("EffectOf[Any, Any, None]", fx.scoped(node(world)))

    async def main() -> tuple[int, int]:
        before = running_tasks()
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        with suppress(TimeoutError):
            if way == "wait_for":
                await asyncio.wait_for(fx.run_async_exit(program), seconds)
            else:
                async with asyncio.timeout(seconds):
                    await fx.run_async_exit(program)
        assert task.cancelling() == 0
        await turns(2)
        return before, running_tasks()

    before, left = asyncio.run(main())

    assert before == left
    check(world)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(100))
@given(node=NODES)
def test_a_program_that_ends_or_is_timed_out_releases_everything_once_in_reverse(backend: Backend, node: Node) -> None:
    """On success, failure, defect and timeout."""
    world = World()

    async def main() -> tuple[int, int]:
        before = running_tasks()
        program = fx.scoped(node(world)).timeout(0.002)
        await fx.run_async_exit(cast("EffectOf[Any, Any, None]", program))
        await turns(1)
        return before, running_tasks()

    before, left = anyio.run(main, backend=backend)

    assert before == left
    check(world)


@settings(max_examples=examples(100))
@given(node=NODES)
def test_a_program_that_is_refused_without_a_loop_releases_everything_once_in_reverse(node: Node) -> None:
    """Where no event loop runs, what would wait is a defect, and everything is released all the same."""
    world = World()

    fx.run_sync(cast("EffectOf[Any, Any, None]", fx.scoped(node(world))).exit())

    assert set(world.begun) == set(world.ended)
    assert set(world.released) <= set(world.acquired)
    check_order(world)


def check_order(world: World) -> None:
    """What was released was released in reverse; a release that would wait is refused, so some are missing."""
    for scope, numbers in world.released.items():
        assert numbers == [n for n in world.acquired[scope][::-1] if n in numbers]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(60))
@given(nodes=st.lists(NODES, min_size=1, max_size=3), after=st.integers(1, 6))
def test_a_stream_that_is_left_at_any_value_releases_everything_once_in_reverse(
    backend: Backend, nodes: list[Node], after: int
) -> None:
    """Read from plain Python and left after some values, or ended by a failure of the stream."""
    world = World()

    def step(node: Node) -> Program:
        return node(world).timeout(0.0005).exit()

    async def main() -> tuple[int, int]:
        before = running_tasks()
        stream: Any = Stream.from_iterable(nodes * 3).map_effect(step).buffer(2)
        async with stream.iterate() as items:
            seen = 0
            async for _ in items:
                seen += 1
                if seen == after:
                    break
        await turns(1)
        return before, running_tasks()

    before, left = anyio.run(main, backend=backend)

    assert before == left
    check(world)
