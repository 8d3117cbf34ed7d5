"""Conversions to and from the containers of `returns`.

>>> from fxai.effects import fx
>>> from returns.result import Success
>>> fx.run_sync(lift(Success(2)).map(lambda n: n * 2))
4
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from inspect import GEN_CREATED, getgeneratorstate
from types import GeneratorType
from typing import Any, Never, cast, final, overload

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success
from returns.unsafe import unsafe_perform_io
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Fail
from fxai.effects.context import EMPTY, ContextOf, Key
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fetch, FlatMap, Generate, Succeed, Suspend, Wait
from fxai.effects.exit import outcome
from fxai.effects.fiber import run_fiber

__all__ = ["Absent", "from_reader", "lift", "lift_any", "maybe", "to_future_result", "to_reader"]

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")
_I = TypeVar("_I")
_S = TypeVar("_S")


@final
class Absent(msgspec.Struct, frozen=True):
    """The failure of an effect that was made from `Nothing`."""


@overload
def lift(x: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E, _R]: ...
@overload
def lift(x: Generator[EffectOf[Any, _E, _R], object, _A]) -> EffectOf[_A, _E, _R]: ...
@overload
def lift(x: Result[_A, _E]) -> EffectOf[_A, _E, None]: ...
@overload
def lift(x: IOResult[_A, _E]) -> EffectOf[_A, _E, None]: ...
@overload
def lift(x: Maybe[_A]) -> EffectOf[_A, Absent, None]: ...
@overload
def lift(x: Awaitable[IOResult[_A, _E]]) -> EffectOf[_A, _E, None]: ...
@overload
def lift(x: Awaitable[Result[_A, _E]]) -> EffectOf[_A, _E, None]: ...
@overload
def lift(x: Awaitable[EffectOf[_A, _E, _R]]) -> EffectOf[_A, _E, _R]: ...
def lift(x: Any) -> Any:
    """The effect of a container: a `Result`, `IOResult`, `Maybe`, `FutureResult`, generator, or an awaitable of one.

    A generator or an awaitable can be run once, since Python's can; a function under `fx.gen` has no such limit.

    Raises:
        TypeError: `x` is none of these.
    """
    lifted = lift_any(x)
    if lifted is None:
        raise TypeError(
            f"fx.lift takes an effect, a container of returns, a generator or an awaitable of one, not {x!r}"
        )
    return lifted


def lift_any(x: Any) -> AnyEffect | None:
    """What `lift` gives, or None for a bare value."""
    if isinstance(x, Success | Failure):
        return of_result(cast("Result[Any, Any]", x))
    if isinstance(x, EffectOf):
        return cast("AnyEffect", x)  # type: ignore[redundant-cast]
    if isinstance(x, GeneratorType):
        return Generate(_unused, (cast("Any", x),), {})
    if isinstance(x, IOResult):
        return of_result(cast("Result[Any, Any]", unsafe_perform_io(cast(Any, x))))
    if isinstance(x, Maybe):
        absent: EffectOf[Any, Any] = FailCause(Cause((Fail(Absent()),)))
        return Succeed(x.unwrap()) if isinstance(x, Some) else absent
    if isinstance(x, Awaitable):
        return _awaited(cast("Any", x))
    return None


def _unused(generator: GeneratorType[Any, Any, Any]) -> GeneratorType[Any, Any, Any]:
    if getgeneratorstate(generator) != GEN_CREATED:
        raise RuntimeError("this generator was run already: @fx.gen on its function makes a new one for each run")
    return generator


def _awaited(awaitable: Awaitable[Any]) -> AnyEffect:
    def go(given: Any) -> AnyEffect:
        lifted = lift_any(given)
        if lifted is None:
            raise TypeError(f"what was awaited gave {given!r}: it must give a Result, an IOResult or an effect")
        return lifted

    return FlatMap(Wait(lambda: awaitable), go)


def of_result(result: Result[_A, _E]) -> EffectOf[_A, _E, None]:
    """The effect of a `Result`."""
    if isinstance(result, Success):
        return Succeed(result.unwrap())
    return FailCause(Cause((Fail(result.failure()),)))


def from_reader(reader: RequiresContextFutureResult[_A, _E, _S], key: Key[_I, _S]) -> EffectOf[_A, _E, _I | None]:
    """The effect of a reader; the service of `key` is its environment."""

    def call(service: Any) -> AnyEffect:
        return Suspend(lambda: _awaited(cast("Awaitable[Any]", reader(service))))

    return FlatMap(Fetch(key.__fx_key__()), call)


def to_future_result(effect: EffectOf[_A, _E, None]) -> FutureResult[_A, _E]:
    """The future of `effect`: a typed failure is a `Failure`; a defect is raised when awaited, cancellation passes."""

    async def inner() -> Result[_A, _E]:
        return outcome(await run_fiber(effect, EMPTY))

    return FutureResult(inner())


def to_reader(effect: EffectOf[_A, _E, _R]) -> RequiresContextFutureResult[_A, _E, ContextOf[_R]]:
    """The reader of `effect`; its environment is a `Context`."""

    def call(context: ContextOf[_R]) -> FutureResult[_A, _E]:
        async def inner() -> Result[_A, _E]:
            return outcome(await run_fiber(effect, context))

        return FutureResult(inner())

    return RequiresContextFutureResult(call)


def maybe(effect: EffectOf[_A, Any, _R]) -> EffectOf[Maybe[_A], Never, _R]:
    """The effect that gives `Some(value)`, or `Nothing` for a typed failure."""
    nothing: Maybe[_A] = Nothing
    return effect.match(lambda _: nothing, Some)
