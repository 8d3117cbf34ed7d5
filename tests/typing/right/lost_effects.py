"""Values of each kind that `fx.sync` and `fx.wait` give, and that a program may discard."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Never, Protocol, TypedDict, TypeVar, assert_type

from fxai.agents import Agent
from fxai.effects import Effect, EffectOf, Gen, Stream, fx

T = TypeVar("T")


class Closes(Protocol):
    def close(self) -> int: ...


class Row(TypedDict):
    at: int


class Plain:
    pass


async def given(value: T) -> T:
    return value


def of_any(f: Callable[[], T]) -> Effect[T]:
    return fx.sync(f)


def kept(value: object, row: Row, protocol: Closes, anything: Any, kind: type[Plain], f: Callable[[], int]) -> None:
    """The type of an effect contains the type of its value."""
    assert_type(fx.sync(lambda: value), EffectOf[object, Never, None])
    assert_type(fx.sync(lambda: row), EffectOf[Row, Never, None])
    assert_type(fx.sync(lambda: protocol), EffectOf[Closes, Never, None])
    assert_type(fx.sync(lambda: kind), EffectOf[type[Plain], Never, None])
    assert_type(fx.sync(lambda: f), EffectOf[Callable[[], int], Never, None])
    assert_type(fx.sync(lambda: [1]), EffectOf[list[int], Never, None])
    assert_type(fx.sync(lambda: print("x")), EffectOf[None, Never, None])
    assert_type(fx.wait(lambda: given(1)), EffectOf[int, Never, None])
    assert_type(fx.wait(lambda: given(protocol)), EffectOf[Closes, Never, None])
    count: Effect[int] = fx.sync(lambda: anything)
    fx.run(fx.sync(lambda: json.loads("1")))
    fx.run(count.tap(lambda _: fx.sync(lambda: anything)))


def more(number: int | None, waits: Awaitable[int], rows: Iterator[int], block: AbstractContextManager[int]) -> None:
    """The protocols of the standard library, and unions."""
    assert_type(fx.sync(lambda: number), EffectOf[int | None, Never, None])
    assert_type(fx.sync(lambda: waits), EffectOf[Awaitable[int], Never, None])
    assert_type(fx.sync(lambda: rows), EffectOf[Iterator[int], Never, None])
    assert_type(fx.sync(lambda: block), EffectOf[AbstractContextManager[int], Never, None])


def discarded(value: object, row: Row, kind: type[Plain], f: Callable[[], int], waits: Awaitable[int]) -> None:
    """A program may discard a value that is no effect."""
    one = fx.succeed(1)
    numbers = Stream.from_iterable([1, 2])
    fx.run(one.ensuring(fx.sync(lambda: print("x"))).ensuring(fx.succeed([1])).on_exit(lambda _: fx.succeed(value)))
    fx.run(one.tap(lambda _: fx.sync(lambda: kind)).tap(lambda _: fx.succeed(f)).tap(lambda _: fx.succeed(row)))
    fx.run(one.tap(lambda _: fx.succeed(waits)).tap(lambda _: fx.succeed(of_any(lambda: 1)).flat_map(lambda e: e)))
    fx.run(fx.scoped(fx.acquire_release(one, lambda n: fx.sync(lambda: json.loads(str(n))))))
    fx.run(numbers.tap(lambda n: fx.sync(lambda: print(n))).for_each(lambda n: fx.succeed(str(n))))
    Agent.make("a").on_step(lambda step: fx.sync(lambda: print(step)))


# --- an effect of an effect is a value as long as somebody runs it
nested = fx.succeed(1).map(lambda n: fx.succeed(str(n)))
assert_type(nested, EffectOf[EffectOf[str, Never, None], Never, None])
assert_type(fx.run(nested.flat_map(lambda effect: effect)), str)


@fx.gen
def program() -> Gen[int]:
    value: int = yield from fx.sync(lambda: json.loads("1"))
    return value + (yield from fx.wait(lambda: given(2)))
