"""The law of finalizers: exactly once, in reverse, wherever a program is stopped.

Random programs acquire, wait, fork, race, fail and catch. Each is run to its end, and cancelled after a random number
of turns of the event loop; whatever happens, what was acquired in a scope is released in reverse, exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, EffectOf, Exit, Gen, Layer, Scope, Stream, Tag, fx
from tests.kit.journal import boom, running_tasks, turns
from tests.kit.trials import examples

Program: TypeAlias = EffectOf[Any, Any, Any]


class World:
    """What random programs did: each acquisition and each guarded program has a number of its own."""

    def __init__(self) -> None:
        self.count = 0
        self.acquired: dict[int, list[int]] = {}  # by scope
        self.released: dict[int, list[int]] = {}
        self.scopes: list[Scope] = []  # kept, so that identities are not used again
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.debits = 0
        self.credits = 0

    def number(self) -> int:
        """A new number."""
        self.count += 1
        return self.count

    def acquire(self, *, waits: bool) -> Program:
        """A resource in the scope around, whose acquisition and release may wait."""
        pause = fx.checkpoint() if waits else fx.succeed(None)

        def acquired(scope: Scope) -> tuple[int, int]:
            number = self.number()
            self.scopes.append(scope)
            self.acquired.setdefault(id(scope), []).append(number)
            return id(scope), number

        def release(held: tuple[int, int]) -> Program:
            return pause.and_then(fx.sync(lambda: self.released.setdefault(held[0], []).append(held[1])))

        taking = pause.and_then(fx.context().map(lambda context: acquired(context.fetch(Scope))))
        return fx.acquire_release(taking, release)

    def transfer(self) -> Program:
        """A debit and its credit with waits between them, not to be interrupted."""

        def debit() -> None:
            self.debits += 1

        def credit() -> None:
            self.credits += 1

        waits = fx.checkpoint().and_then(fx.sleep(0))
        return fx.sync(debit).and_then(waits).and_then(fx.sync(credit)).uninterruptible()

    def guarded(self, program: Program, *, by_generator: bool) -> Program:
        """The program with a finalizer that waits, as a combinator or as a `finally`.

        As in Python, what waits in a `finally` that no cancellation caused can be cancelled itself: so it notes first.
        """

        def end(number: int) -> Program:
            return fx.checkpoint().and_then(fx.sync(lambda: self.ended.append(number)))

        def begin() -> int:
            number = self.number()
            self.begun.append(number)
            return number

        @fx.gen
        def stepped() -> Gen[Any, Any, Any]:
            number = begin()
            try:
                return (yield from program)
            finally:
                yield from fx.sync(lambda: self.ended.append(number))
                yield from fx.checkpoint()

        if by_generator:
            return stepped()
        return fx.sync(begin).flat_map(lambda number: program.ensuring(end(number)))


Node: TypeAlias = Callable[[World], Program]


class Held(Tag[int]):
    """A service that a layer holds."""


LEAVES: dict[str, Node] = {
    "value": lambda _: fx.succeed(1),
    "turn": lambda _: fx.checkpoint(),
    "turns": lambda _: fx.for_each(range(3), lambda _: fx.checkpoint()),
    "never": lambda _: fx.never(),
    "transfer": lambda world: world.transfer(),
    "acquire": lambda world: world.acquire(waits=False),
    "acquire slowly": lambda world: world.acquire(waits=True),
    "fail": lambda _: fx.fail("failure"),
    "die": lambda _: fx.sync(boom),
}


def stepped(produce: Callable[[Any], Program]) -> Any:
    """A stream that runs the program from one emitted value to the next."""
    steps: Any = Stream.steps
    return steps(produce)


def left(world: World, program: Program) -> Program:
    """Such a stream, left while its program stands still."""

    def produce(emit: Any) -> Program:
        return world.guarded(program.and_then(emit(1)).and_then(emit(2)), by_generator=False)

    return cast("Program", stepped(produce).take(1).drain())


AROUND: dict[str, Callable[[World, Program], Program]] = {
    "guarded": lambda world, p: world.guarded(p, by_generator=False),
    "finally": lambda world, p: world.guarded(p, by_generator=True),
    "scoped": lambda _, p: fx.scoped(p),
    "fork": lambda _, p: fx.fork(p),
    "join": lambda _, p: fx.fork(p).flat_map(lambda handle: handle.join()),
    "stop": lambda _, p: fx.fork(p).flat_map(lambda handle: fx.checkpoint().and_then(handle.interrupt())),
    "masked": lambda _, p: fx.race(p, fx.checkpoint().and_then(fx.checkpoint())).uninterruptible(),
    "caught": lambda _, p: p.catch_all(fx.succeed),
    "cause": lambda _, p: p.catch_cause(lambda _: fx.succeed(0)),
    "timeout": lambda _, p: p.timeout(0.0005),
    "layer": lambda world, p: p.provide(cast("Any", Layer.scoped(Held, world.acquire(waits=True).as_(1)))),
    "buffered": lambda _, p: Stream.make(1, 2).map_effect(lambda _: p).buffer(1).drain(),
    "stepped": lambda _, p: stepped(lambda emit: emit(1).and_then(p).and_then(emit(2))).drain(),
    "left": left,
    "spread": lambda _, p: Stream.make(1, 2, 3).map_effect(lambda _: p, concurrency=2).take(2).drain(),
}

JOINED: dict[str, Callable[[list[Program]], Program]] = {
    "sequence": fx.collect,
    "at once": lambda ps: fx.for_each(ps, lambda p: p, concurrency=None),
    "two at once": lambda ps: fx.for_each(ps, lambda p: p, concurrency=2),
    "race": lambda ps: fx.race(ps[0], ps[-1]) if ps else fx.succeed(None),
    "merged": lambda ps: Stream.from_effect(fx.collect(ps)).merge(Stream.from_effect(fx.checkpoint())).drain(),
}


def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Programs around and of programs."""

    def around(kind: str, node: Node) -> Node:
        return lambda world: fx.suspend(lambda: AROUND[kind](world, node(world)))

    def joined(kind: str, nodes: list[Node]) -> Node:
        return lambda world: fx.suspend(lambda: JOINED[kind]([node(world) for node in nodes]))

    return st.one_of(
        st.builds(around, st.sampled_from(list(AROUND)), inner),
        st.builds(joined, st.sampled_from(list(JOINED)), st.lists(inner, min_size=1, max_size=4)),
    )


NODES = st.recursive(st.sampled_from(list(LEAVES)).map(LEAVES.__getitem__), grown, max_leaves=12)


def check(world: World) -> None:
    """Everything that was acquired is released, per scope in reverse, and every guarded program ended, once."""
    assert {scope: numbers[::-1] for scope, numbers in world.acquired.items()} == world.released
    assert sorted(world.begun) == sorted(world.ended)
    assert world.debits == world.credits


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
