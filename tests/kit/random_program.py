"""Random programs that acquire, wait, fork, race, fail and catch, and a world that counts what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

from fxai.effects import EffectOf, Gen, Layer, Scope, Stream, Tag, fx, stream_steps
from tests.kit.journal import boom

__all__ = ["LEAVES", "Node", "Program", "World", "check", "programs"]

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

        def start() -> int:
            number = self.number()
            self.begun.append(number)
            return number

        @fx.gen
        def stepped() -> Gen[Any, Any, Any]:
            number = start()
            try:
                return (yield from program)
            finally:
                yield from fx.sync(lambda: self.ended.append(number))
                yield from fx.checkpoint()

        if by_generator:
            return stepped()
        return fx.sync(start).flat_map(lambda number: program.ensuring(end(number)))


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
    steps: Any = stream_steps
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


def programs(leaves: dict[str, Node], *, timed: bool = True) -> st.SearchStrategy[Node]:
    """Return a strategy of programs with these leaves; without timeouts, asyncio runs each in the same way every time.

    Args:
        leaves: The programs that hold no other.
        timed: True if a program can contain a timeout. Default: True.
    """
    names = [name for name in AROUND if timed or name != "timeout"]

    def around(kind: str, node: Node) -> Node:
        return lambda world: fx.suspend(lambda: AROUND[kind](world, node(world)))

    def joined(kind: str, nodes: list[Node]) -> Node:
        return lambda world: fx.suspend(lambda: JOINED[kind]([node(world) for node in nodes]))

    def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        return st.one_of(
            st.builds(around, st.sampled_from(names), inner),
            st.builds(joined, st.sampled_from(list(JOINED)), st.lists(inner, min_size=1, max_size=4)),
        )

    return st.recursive(st.sampled_from(list(leaves)).map(leaves.__getitem__), grown, max_leaves=12)


def check(world: World) -> None:
    """Everything that was acquired is released, per scope in reverse, and every guarded program ended, once."""
    assert {scope: numbers[::-1] for scope, numbers in world.acquired.items()} == world.released
    assert sorted(world.begun) == sorted(world.ended)
    assert world.debits == world.credits
