"""Constructors: effects from values, functions and coroutines, and from the containers of `returns`; and the way back.

>>> from fxai.effects import fx
>>> fx.run_sync(lift(Success(2)).map(lambda n: n * 2))
4
"""

# The overloads of `sync` and `wait` overlap on purpose: one finds effects, one is for protocols in mypy.
# pyright: reportOverlappingOverload=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import wraps
from inspect import GEN_CREATED, getgeneratorstate
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Never, ParamSpec, cast, final, overload

import msgspec
from anyio import sleep_forever
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success
from returns.unsafe import unsafe_perform_io
from typing_extensions import TypeIs, TypeVar

from fxai.effects.cause import Cause, Die, Exit, Fail, Failed, ForeignCancellationError, Succeeded, outcome
from fxai.effects.context import EMPTY, ContextOf, ServiceKey
from fxai.effects.effect import (
    TURN,
    AnyEffect,
    Ask,
    Await,
    AwaitExit,
    EffectOf,
    FailCause,
    Fetch,
    FlatMap,
    Generate,
    Succeed,
    Suspend,
    Sync,
    Wait,
)
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.mistake import Discarded, EffectInEffect, PlainAwaitable
from fxai.effects.tracing import AttributeValue, Tracer

_P = ParamSpec("_P")
_A = TypeVar("_A")
_V = TypeVar("_V", bound=Discarded)
_E = TypeVar("_E")
_X = TypeVar("_X", bound=Exception)
_R = TypeVar("_R")
_I = TypeVar("_I")
_S = TypeVar("_S")


if TYPE_CHECKING:

    def succeed(value: _A) -> EffectOf[_A, Never, None]:
        """The effect of `value`."""
        ...

    # A function that gives an effect is refused, because nothing would run that effect. The last overload is for values
    # of protocols in mypy.
    @overload
    def sync(f: Callable[[], _V]) -> EffectOf[_V, Never, None]: ...  # type: ignore[overload-overlap]
    @overload
    def sync(  # type: ignore[overload-overlap]
        f: Callable[[], AnyEffect | None],
    ) -> EffectOf[EffectInEffect, Never, EffectInEffect]: ...
    @overload
    def sync(f: Callable[[], _A]) -> EffectOf[_A, Never, None]: ...  # type: ignore[overload-cannot-match]
    def sync(f: Callable[[], Any]) -> AnyEffect:
        """Return the effect that calls `f` and gives its value. An exception in `f` is a defect."""
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


@overload
def attempt(f: Callable[[], _A], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def attempt(f: Callable[[], _A], error: Callable[[Exception], _E | None]) -> EffectOf[_A, _E, None]: ...
def attempt(f: Callable[[], _A], error: Callable[[Exception], Any]) -> EffectOf[_A, Any, None]:
    """The effect of calling `f`: exceptions of class `error` are its typed failure, others are defects.

    `error` may be a function, too: it gives the typed failure of an exception, or None for a defect.
    """
    return attempt_work(f, _explainer(error), in_thread=False)


def _explainer(error: Any) -> Callable[[Exception], Any]:
    """A function as it is; of a class of exceptions, the function that gives those back and None for others."""
    if not isinstance(error, type):
        explain: Callable[[Exception], Any] = error
        return explain
    return lambda raised: raised if isinstance(raised, error) else None


@overload
def wait(f: Callable[[], PlainAwaitable[_V]]) -> EffectOf[_V, Never, None]: ...  # type: ignore[overload-overlap]
@overload
def wait(  # type: ignore[overload-overlap]
    f: Callable[[], PlainAwaitable[AnyEffect | None]],
) -> EffectOf[EffectInEffect, Never, EffectInEffect]: ...
@overload
def wait(f: Callable[[], PlainAwaitable[_A]]) -> EffectOf[_A, Never, None]: ...  # type: ignore[overload-cannot-match]
def wait(f: Callable[[], PlainAwaitable[Any]]) -> AnyEffect:
    """Return the effect that awaits `f()` and gives its value. An exception is a defect."""
    return Wait(f)


@overload
def attempt_async(f: Callable[[], PlainAwaitable[_A]], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def attempt_async(
    f: Callable[[], PlainAwaitable[_A]], error: Callable[[Exception], _E | None]
) -> EffectOf[_A, _E, None]: ...
def attempt_async(f: Callable[[], PlainAwaitable[_A]], error: Callable[[Exception], Any]) -> EffectOf[_A, Any, None]:
    """The effect of awaiting `f()`: `error` is a class or a function, as for `attempt`.

    If `f()` raises a cancellation that nobody requested, `error` receives a `ForeignCancellationError`.
    """
    explain = _explainer(error)

    async def go(fiber: Fiber) -> Exit[_A, _E]:
        try:
            return Succeeded(await f())
        except BaseException as raised:
            known = ForeignCancellationError.of(raised) if fiber.is_foreign(raised) else raised
            failure = explain(known) if isinstance(known, Exception) else None
            if failure is None:
                raise
            return Failed(Cause((Fail(failure),)))

    return AwaitExit(go)


def attempt_work(
    f: Callable[[], _A], error: Callable[[Exception], _E | None], *, in_thread: bool = True
) -> EffectOf[_A, _E, None]:
    """The effect of calling `f`, in a worker thread where it blocks; `error` is as for `attempt_async`.

    A thread works to its end also where the run is cancelled, see `fxai.effects.thread`.
    """

    def start() -> Awaitable[_A]:
        from fxai.effects import thread  # not every program has threads

        return thread.in_thread(f)

    def call() -> EffectOf[_A, _E, None]:
        try:
            return Succeed(f())
        except Exception as raised:
            failure = error(raised)
            if failure is None:
                raise
            return FailCause(Cause((Fail(failure),)))

    return attempt_async(start, error) if in_thread else Suspend(call)


@overload
def in_thread(f: Callable[[], _A]) -> EffectOf[_A, Never, None]: ...
@overload
def in_thread(f: Callable[[], _A], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def in_thread(f: Callable[[], _A], error: Callable[[Exception], _E | None]) -> EffectOf[_A, _E, None]: ...
def in_thread(f: Callable[[], _A], error: Callable[[Exception], Any] = lambda _: None) -> EffectOf[_A, Any, None]:
    """The effect of calling `f`, which blocks, in a worker thread; at most 40 of them work at once.

    What it raises is a defect, or the typed failure that `error` makes of it, as for `attempt`. A thread cannot be
    stopped: where the program is cancelled, it waits for `f` to end.
    """
    return attempt_work(f, _explainer(error))


def gen(f: Callable[_P, Generator[EffectOf[Any, _E, _R], object, _A]]) -> Callable[_P, EffectOf[_A, _E, _R]]:
    """A decorator: the generator function as a function that gives an effect.

    Inside, `value = yield from effect` runs a step. A typed failure leaves the generator at that line: `finally` and
    `with` run, `except` does not see it; a defect arrives as the exception it is. Annotate the return with `Gen`.
    """

    @wraps(f)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> EffectOf[_A, _E, _R]:
        return Generate(f, args, kwargs)

    return make


def service(key: ServiceKey[_I, _S]) -> EffectOf[_S, Never, _I | None]:
    """The service of `key`, which the program then needs."""
    return Fetch(key.__fx_key__())


def reference(key: ServiceKey[Any, _S]) -> EffectOf[_S, Never, None]:
    """The service of a `Reference`: its default where no layer gives another."""
    return Fetch(key.__fx_key__())


def context() -> EffectOf[ContextOf[Any], Never, None]:
    """The services that are there."""
    return Ask(lambda services: cast("ContextOf[Any]", services))


def annotate_span(attributes: Mapping[str, AttributeValue]) -> EffectOf[None, Never, None]:
    """Adds attributes to the span that the program stands in; does nothing where it is not traced.

    Args:
        attributes: by name, such as `{"orders.found": 3}`; one that is there already is replaced.
    """

    def annotate(services: ContextOf[Any]) -> None:
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is not None:
            tracer.annotate(attributes)

    return Ask(annotate)


def sleep(seconds: float) -> EffectOf[None, Never, None]:
    """The effect that ends `seconds` later by the `Clock`."""
    return Await(lambda fiber: fiber.clock().sleep(seconds))


def checkpoint() -> EffectOf[None, Never, None]:
    """Lets other tasks run; long synchronous programs take such turns by themselves."""
    return TURN


def never() -> EffectOf[Never, Never, None]:
    """The effect that does not end by itself."""
    return Await(lambda _: sleep_forever())


@final
class Absent(msgspec.Struct, frozen=True):
    """The failure of an effect that was made from `Nothing`."""


@overload
def lift(x: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E, _R]: ...
@overload
def lift(x: Generator[EffectOf[Any, _E, _R], object, _A]) -> EffectOf[_A, _E, _R]: ...
@overload
def lift(x: Result[_A, _E] | IOResult[_A, _E]) -> EffectOf[_A, _E, None]: ...
@overload
def lift(x: Maybe[_A]) -> EffectOf[_A, Absent, None]: ...
@overload
def lift(x: Awaitable[IOResult[_A, _E]] | Awaitable[Result[_A, _E]]) -> EffectOf[_A, _E, None]: ...
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
        return Generate(_require_unused, (cast("Any", x),), {})
    if isinstance(x, IOResult):
        return of_result(cast("Result[Any, Any]", unsafe_perform_io(cast(Any, x))))
    if isinstance(x, Maybe):
        absent: EffectOf[Any, Any] = FailCause(Cause((Fail(Absent()),)))
        return Succeed(x.unwrap()) if isinstance(x, Some) else absent
    if isinstance(x, Awaitable):
        return _await(cast("Any", x))
    return None


def is_plain_awaitable(x: object) -> TypeIs[PlainAwaitable[Any]]:
    """Whether `x` is an awaitable and no effect: awaited, an effect would run without the services around."""
    return isinstance(x, Awaitable) and not isinstance(x, EffectOf)


def _require_unused(generator: GeneratorType[Any, Any, Any]) -> GeneratorType[Any, Any, Any]:
    if getgeneratorstate(generator) != GEN_CREATED:
        raise RuntimeError("this generator was run already: @fx.gen on its function makes a new one for each run")
    return generator


def _await(awaitable: Awaitable[Any]) -> AnyEffect:
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


def is_success(result: Result[_A, Any]) -> TypeIs[Success[_A]]:
    """Return True if `result` is a `Success`. Both checkers then know the type of `result.unwrap()`.

    After `isinstance(result, Success)`, and in `case Success(value)`, mypy knows only `Any`.

    >>> is_success(Success(1)), is_success(Failure("no"))
    (True, False)
    """
    return isinstance(result, Success)


def is_failure(result: Result[Any, _E]) -> TypeIs[Failure[_E]]:
    """Return True if `result` is a `Failure`. Both checkers then know the type of `result.failure()`.

    >>> is_failure(Success(1)), is_failure(Failure("no"))
    (False, True)
    """
    return isinstance(result, Failure)


def is_some(value: Maybe[_A]) -> TypeIs[Some[_A]]:
    """Return True if `value` is a `Some`. Both checkers then know the type of `value.unwrap()`.

    >>> is_some(Some(1)), is_some(Nothing)
    (True, False)
    """
    return isinstance(value, Some)


def from_reader(
    reader: RequiresContextFutureResult[_A, _E, _S], key: ServiceKey[_I, _S]
) -> EffectOf[_A, _E, _I | None]:
    """The effect of a reader; the service of `key` is its environment."""

    def call(service: Any) -> AnyEffect:
        return Suspend(lambda: _await(cast("Awaitable[Any]", reader(service))))

    return FlatMap(Fetch(key.__fx_key__()), call)


def to_future_result(effect: EffectOf[_A, _E, None]) -> FutureResult[_A, _E]:
    """The future of `effect`: a typed failure is a `Failure`; a defect is raised when awaited, cancellation passes."""
    return _future(effect, EMPTY)


def to_reader(effect: EffectOf[_A, _E, _R]) -> RequiresContextFutureResult[_A, _E, ContextOf[_R]]:
    """The reader of `effect`; its environment is a `Context`."""
    return RequiresContextFutureResult(lambda context: _future(effect, context))


def _future(effect: EffectOf[_A, _E, _R], context: ContextOf[_R]) -> FutureResult[_A, _E]:
    async def inner() -> Result[_A, _E]:
        return outcome(await run_fiber(effect, context))

    return FutureResult(inner())


@overload
def some(value: _A | None, error: Callable[[], _E]) -> EffectOf[_A, _E, None]: ...
@overload
def some(value: _A | None, error: _E) -> EffectOf[_A, _E, None]: ...
def some(value: _A | None, error: Any) -> EffectOf[_A, Any, None]:
    """The effect of `value` where it is not None; it fails with `error` where it is, so that what follows has a value.

    `error` is the failure, or a function or class that makes it, which is called for None alone:
    `order = yield from fx.some(orders.get(number), NoSuchOrder(number))`.
    """
    if value is not None:
        return Succeed(value)
    failure: Any = error() if callable(error) else error
    return fail(failure)


def maybe(effect: EffectOf[_A, Any, _R]) -> EffectOf[Maybe[_A], Never, _R]:
    """The effect that gives `Some(value)`, or `Nothing` for a typed failure."""
    nothing: Maybe[_A] = Nothing
    return effect.match(lambda _: nothing, Some)
