"""An effect that is taken for its value says so, at once; awaited in a coroutine, it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from fxai.effects import Backend, Effect, FailureError, Gen, Layer, MissingServiceError, Stream, Tag, fx
from tests.kit.every import every
from tests.kit.journal import Journal, Lost


class Name(Tag[str]):
    """A service."""


@fx.gen
def counted(journal: Journal) -> Gen[int]:
    """A program of two steps."""
    yield from journal.note("step")
    return 3


_AS_VALUE: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "not": lambda effect: not effect,
    "if": lambda effect: 1 if effect else 2,
    "or": lambda effect: effect or 2,
    "format": lambda effect: f"{effect}",
    "str.format": "{}".format,
    "percent": lambda effect: "%s" % effect,  # noqa: UP031  # the form that is refused
    "str": str,
    "in": lambda effect: 1 in effect,
}


@every("way", list(_AS_VALUE))
def test_an_effect_has_no_truth_no_text_and_no_items(way: str) -> None:
    """The error says how its value is had; nothing is run."""
    journal = Journal()

    for effect in (counted(journal), fx.succeed(1), journal.note("x").map(str), fx.fail("no")):
        with pytest.raises(TypeError, match=r"value = yield from effect.*await effect"):
            _AS_VALUE[way](effect)
    with pytest.raises(TypeError, match=r"yield from stream\.collect\(\)"):
        _AS_VALUE[way](Stream.make(1))

    assert journal.lines == []


_AS_ITEMS: dict[str, Callable[[Any], object]] = {
    "collect": fx.collect,
    "for_each": lambda effect: fx.for_each(effect, fx.succeed),
    "for_each at once": lambda effect: fx.for_each(effect, fx.succeed, concurrency=None),
    "from_iterable": Stream.from_iterable,
}


@pytest.mark.parametrize("way", list(_AS_ITEMS))
def test_an_effect_is_no_list_of_effects(way: str) -> None:
    """It is iterable, for `yield from`, so that checkers take it for one; the error comes at once, and not `[]`."""
    with pytest.raises(TypeError, match=r"an effect is not its value"):
        _AS_ITEMS[way](fx.succeed([1, 2]))


def test_an_effect_can_be_shown() -> None:
    """`repr` works, also in a text, for people that look for a fault."""
    effect = fx.succeed(1)

    assert f"{effect!r}" == repr(effect) == "Succeed(value=1)"


def test_a_mistake_in_a_program_is_its_defect() -> None:
    """A condition on an effect ends the program, instead of always being true."""

    @fx.gen
    def program() -> Gen[int]:
        exists: Any = fx.succeed(False)
        return 1 if exists else (yield from fx.succeed(2))

    with pytest.raises(TypeError, match="an effect is not its value"):
        fx.run_sync(program())


def test_a_coroutine_awaits_an_effect(backend: Backend) -> None:
    """It is run anew each time, and gives its value."""
    journal = Journal()
    effect = counted(journal)

    async def main() -> list[int]:
        return [await effect, await effect.map(lambda n: n + 1), await fx.sleep(0).as_(5)]

    assert anyio.run(main, backend=backend) == [3, 4, 5]
    assert journal.lines == ["step", "step"]


def test_awaiting_raises_as_run_async_does(backend: Backend) -> None:
    """A failure that is no exception as `FailureError`, an exception and a defect as themselves."""

    async def main() -> None:
        with pytest.raises(FailureError) as failed:
            await fx.fail(Lost("x"))
        assert failed.value.cause.failures == (Lost("x"),)
        with pytest.raises(ZeroDivisionError):
            await fx.sync(lambda: 1 // 0)
        with pytest.raises(LookupError):
            await fx.fail(LookupError("gone"))
        untyped: Any = fx.service(Name)
        with pytest.raises(MissingServiceError):
            await untyped
        assert await fx.service(Name).provide(Layer.succeed(Name, "Ann")) == "Ann"

    anyio.run(main, backend=backend)


def test_asyncio_takes_an_effect_for_an_awaitable() -> None:
    """`gather`, `wait_for` and tasks take effects; a cancellation runs the finalizers."""
    journal = Journal()

    async def main() -> list[int]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fx.never().ensuring(journal.note("released")), 0.01)
        return list(await asyncio.gather(fx.succeed(1), fx.sleep(0).as_(2)))

    assert asyncio.run(main()) == [1, 2]
    assert journal.lines == ["released"]


def test_a_program_does_not_wait_for_an_effect_as_an_awaitable(backend: Backend) -> None:
    """It would run without the services around, and its typed failures would be defects."""
    given: Any = fx.succeed(1)

    with pytest.raises(TypeError, match=r"fx\.wait must get an awaitable, got an effect"):
        fx.run(fx.wait(lambda: given), backend=backend)
    with pytest.raises(TypeError, match=r"fx\.wait must get an awaitable, got an effect"):
        fx.run(fx.wait(lambda: given).uninterruptible(), backend=backend)


def test_a_coroutine_inside_a_program_may_await_effects(backend: Backend) -> None:
    """The coroutine of a library that takes effects, say."""

    async def double(effect: Effect[int]) -> int:
        return 2 * await effect

    assert fx.run(fx.wait(lambda: double(fx.sleep(0).as_(2))), backend=backend) == 4
