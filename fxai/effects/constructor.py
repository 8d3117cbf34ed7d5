"""Constructors: effects from values, functions and coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, Never, ParamSpec, cast

from anyio import sleep_forever
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.context import ContextOf, Key
from fxai.effects.effect import (
    TURN,
    Ask,
    Await,
    AwaitExit,
    EffectOf,
    FailCause,
    Fetch,
    Generate,
    Succeed,
    Suspend,
    Sync,
    Wait,
)
from fxai.effects.exit import Exit, Failed, Succeeded
from fxai.effects.fiber import Fiber

__all__ = [
    "attempt",
    "attempt_async",
    "checkpoint",
    "context",
    "die",
    "fail",
    "fail_cause",
    "gen",
    "never",
    "reference",
    "service",
    "sleep",
    "succeed",
    "suspend",
    "sync",
    "wait",
]

_P = ParamSpec("_P")
_A = TypeVar("_A")
_E = TypeVar("_E")
_X = TypeVar("_X", bound=Exception)
_R = TypeVar("_R")
_I = TypeVar("_I")
_S = TypeVar("_S")


if TYPE_CHECKING:

    def succeed(value: _A) -> EffectOf[_A, Never, None]:
        """The effect of `value`."""
        ...

    def sync(f: Callable[[], _A]) -> EffectOf[_A, Never, None]:
        """The effect of calling `f`; what it raises is a defect."""
        ...

    def suspend(f: Callable[[], EffectOf[_A, _E, _R]]) -> EffectOf[_A, _E, _R]:
        """The effect that `f` gives, made anew for each run."""
        ...

else:  # the instructions themselves: a function around each would cost as much as running it
    succeed, sync, suspend = Succeed, Sync, Suspend


def fail(error: _E) -> EffectOf[Never, _E, None]:
    """The effect that fails with `error`: any value, a frozen record for choice."""
    return FailCause(Cause((Fail(error),)))


def fail_cause(cause: Cause[_E]) -> EffectOf[Never, _E, None]:
    """The effect that ends with `cause`."""
    return FailCause(cause)


def die(defect: BaseException) -> EffectOf[Never, Never, None]:
    """The effect that ends with a defect: for what cannot happen unless there is a bug."""
    return FailCause(Cause((Die(defect),)))


def attempt(f: Callable[[], _A], error: type[_X]) -> EffectOf[_A, _X, None]:
    """The effect of calling `f`: exceptions of class `error` are its typed failure, others are defects."""

    def go() -> EffectOf[_A, _X, None]:
        try:
            return Succeed(f())
        except error as raised:
            return FailCause(Cause((Fail(raised),)))

    return Suspend(go)


def wait(f: Callable[[], Awaitable[_A]]) -> EffectOf[_A, Never, None]:
    """The effect of awaiting `f()`; what it raises is a defect."""
    return Wait(f)


def attempt_async(f: Callable[[], Awaitable[_A]], error: Callable[[Exception], _E | None]) -> EffectOf[_A, _E, None]:
    """The effect of awaiting `f()`: `error` gives the typed failure of an exception, or None for a defect."""

    async def go(_: Fiber) -> Exit[_A, _E]:
        try:
            return Succeeded(await f())
        except Exception as raised:
            failure = error(raised)
            if failure is None:
                raise
            return Failed(Cause((Fail(failure),)))

    return AwaitExit(go)


def gen(f: Callable[_P, Generator[EffectOf[Any, _E, _R], object, _A]]) -> Callable[_P, EffectOf[_A, _E, _R]]:
    """A decorator: the generator function as a function that gives an effect.

    Inside, `value = yield from effect` runs a step. A typed failure leaves the generator at that line: `finally` and
    `with` run, `except` does not see it; a defect arrives as the exception it is. Annotate the return with `Gen`.
    """

    @wraps(f)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> EffectOf[_A, _E, _R]:
        return Generate(f, args, kwargs)

    return make


def service(key: Key[_I, _S]) -> EffectOf[_S, Never, _I | None]:
    """The service of `key`, which the program then needs."""
    return Fetch(key.__fx_key__())


def reference(key: Key[Any, _S]) -> EffectOf[_S, Never, None]:
    """The service of a `Reference`: its default where no layer gives another."""
    return Fetch(key.__fx_key__())


def context() -> EffectOf[ContextOf[Any], Never, None]:
    """The services that are there."""
    return Ask(lambda services: cast("ContextOf[Any]", services))


def sleep(seconds: float) -> EffectOf[None, Never, None]:
    """The effect that ends `seconds` later by the `Clock`."""
    return Await(lambda fiber: fiber.clock().sleep(seconds))


def checkpoint() -> EffectOf[None, Never, None]:
    """Lets other tasks run; long synchronous programs take such turns by themselves."""
    return TURN


def never() -> EffectOf[Never, Never, None]:
    """The effect that does not end by itself."""
    return Await(lambda _: sleep_forever())
