"""Conversions to and from the containers of `returns`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import msgspec
import pytest
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOFailure, IOResult, IOSuccess
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from fxai.effects import Absent, Backend, Context, Effect, EffectOf, Gen, Layer, Tag, fx
from fxai.effects.constructor import lift_any
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of


class Base(Tag[int]):
    """A number."""


def generator() -> Gen[int]:
    """A generator of five."""
    return (yield from fx.succeed(5))


async def success() -> Result[int, str]:
    """A coroutine of a success."""
    return Success(1)


async def failure() -> Result[int, str]:
    """A coroutine of a failure."""
    return Failure("e")


async def io_success() -> IOResult[int, str]:
    """A coroutine of an `IOResult`."""
    return IOSuccess(2)


async def effect() -> Effect[int]:
    """A coroutine of an effect."""
    return fx.sleep(0).as_(3)


@every(
    ("make", "expected"),
    [
        (lambda: Success(1), Success(1)),
        (lambda: Failure("e"), Failure("e")),
        (lambda: IOSuccess(2), Success(2)),
        (lambda: IOFailure("x"), Failure("x")),
        (lambda: Some(4), Success(4)),
        (lambda: Some(None), Success(None)),
        (lambda: Nothing, Failure(Absent())),
        (lambda: FutureResult.from_value(3), Success(3)),
        (lambda: FutureResult.from_failure("f"), Failure("f")),
        (success, Success(1)),
        (failure, Failure("e")),
        (io_success, Success(2)),
        (effect, Success(3)),
        (generator, Success(5)),
        (lambda: fx.succeed(9), Success(9)),
    ],
)
def test_lift_makes_an_effect_of_every_container(
    make: Callable[[], Any], expected: Result[Any, Any], backend: Backend
) -> None:
    """Success is the value, failure the typed failure."""
    assert fx.run_result(cast("Effect[Any, Any]", fx.lift(make())), backend=backend) == expected


@every("value", [1, None, "text", [fx.succeed(1)], object()])
def test_lift_refuses_a_bare_value(value: Any) -> None:
    """The error says what may be given; `lift_any` gives None for it."""
    with pytest.raises(TypeError, match=r"fx\.lift must get an effect, a container of returns"):
        _ = fx.lift(value)
    assert lift_any(value) is None


def test_an_awaitable_must_give_a_container(backend: Backend) -> None:
    """A coroutine of a bare value is a defect that says so."""

    async def bare() -> int:
        return 1

    ended = fx.run_exit(cast("Effect[Any]", fx.lift(cast("Any", bare()))), backend=backend)

    assert "Return a Result" in str(cast("Any", ended).cause.defects[0])


def test_what_an_awaitable_raises_is_a_defect(backend: Backend) -> None:
    """An exception is no `Failure`."""

    async def broken() -> Result[int, str]:
        return Success(boom())

    assert ending_of(fx.run_exit(fx.lift(broken()), backend=backend)) == "defect"


def test_a_lifted_generator_runs_once() -> None:
    """A second run is refused with the remedy; the first stands."""
    lifted = fx.lift(generator())

    assert fx.run_sync(lifted) == 5
    with pytest.raises(RuntimeError, match=r"ran already\. .*@fx\.gen"):
        fx.run_sync(lifted)


def test_maybe_gives_nothing_for_a_typed_failure() -> None:
    """`Some(value)` or `Nothing`; defects pass."""
    lost: Effect[int, Lost] = fx.fail(Lost())
    found: Maybe[int] = fx.run_sync(fx.maybe(fx.succeed(1)))

    assert found == Some(1)
    assert fx.run_sync(fx.maybe(lost)) == Nothing
    assert ending_of(fx.run_sync(fx.maybe(fx.sync(boom)).exit())) == "defect"


def test_a_future_result_is_made_of_an_effect(backend: Backend) -> None:
    """A typed failure is a `Failure`, a defect is raised when awaited."""

    async def main() -> list[Any]:
        with pytest.raises(ZeroDivisionError):
            await fx.to_future_result(fx.sync(boom))
        return [
            await fx.to_future_result(fx.sleep(0).as_(1)),
            await fx.to_future_result(fx.fail("no")),
            await fx.to_future_result(fx.succeed(1)).map(lambda n: n + 1),
        ]

    assert anyio.run(main, backend=backend) == [IOSuccess(1), IOFailure("no"), IOSuccess(2)]


def test_a_reader_is_made_of_an_effect_and_back(backend: Backend) -> None:
    """Its environment is a context; `from_reader` takes the service of a key as the environment."""
    needs = fx.service(Base).map(lambda n: n + 1)
    reader: RequiresContextFutureResult[int, str, int] = RequiresContextFutureResult(
        lambda base: FutureResult.from_value(base * 2) if base else FutureResult.from_failure("zero")
    )

    async def main() -> list[Any]:
        back: EffectOf[int, str, None] = fx.from_reader(reader, Base).provide(Layer.succeed(Base, 4))
        zero: EffectOf[int, str, None] = fx.from_reader(reader, Base).provide(Layer.succeed(Base, 0))
        return [
            await fx.to_reader(needs)(Context.make(Base, 1)),
            await fx.run_async(back.result()),
            await fx.run_async(zero.result()),
        ]

    assert anyio.run(main, backend=backend) == [IOSuccess(2), Success(8), Failure("zero")]


def test_cancelling_what_was_lifted_runs_its_finalizers(backend: Backend) -> None:
    """An effect that an awaitable gave is part of the program."""
    journal = Journal()

    async def slow() -> Effect[None]:
        return fx.never().on_exit(journal.ends)

    fx.run_exit(fx.lift(slow()).timeout(0.005), backend=backend)

    assert journal.lines == ["interruption"]


class NotThere(msgspec.Struct, frozen=True):
    """A failure that a class makes without arguments."""

    name: str = "x"


@pytest.mark.parametrize("error", [NotThere(), NotThere, lambda: NotThere("x")], ids=["value", "class", "function"])
def test_some_fails_for_none_alone(error: Any) -> None:
    """Whatever else is false is a value; the failure is made where it is needed."""
    assert [fx.run_sync(fx.some(value, error)) for value in (1, 0, "", False)] == [1, 0, "", False]
    gone: Effect[int, NotThere] = fx.some(None, error)
    assert fx.run_result(gone) == Failure(NotThere())


def test_some_makes_no_failure_for_a_value() -> None:
    """The function is not called."""
    assert fx.run_sync(fx.some(1, boom)) == 1
