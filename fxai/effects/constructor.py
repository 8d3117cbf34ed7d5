"""Functions that create effects from values, functions, coroutines, and containers of `returns`, or convert them back.

>>> from fxai.effects import fx
>>> fx.run_sync(lift(Success(2)).map(lambda n: n * 2))
4
"""

# The overloads of `sync` and `wait` overlap on purpose. One overload finds effects, one is for protocols in mypy.
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

from fxai.effects import development
from fxai.effects.blocking import time_calls
from fxai.effects.cause import Cause, Die, Exit, Fail, Failed, ForeignCancellationError, Succeeded, outcome
from fxai.effects.context import EMPTY, AnyContext, ContextOf, ServiceKey
from fxai.effects.effect import (
    TURN,
    AnyEffect,
    Ask,
    Await,
    AwaitExit,
    AwaitValue,
    EffectOf,
    FailCause,
    Fetch,
    FlatMap,
    Generate,
    Succeed,
    Suspend,
    Sync,
)
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.mistake import Discarded, EffectInEffect, PlainAwaitable
from fxai.effects.tracing import AttributeValue, Tracer

if TYPE_CHECKING:
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
        """Return the effect that succeeds with `value`."""
        ...

    # The overloads reject a function that returns an effect, because fxai would not run that effect. The last overload
    # is for values of protocols in mypy.
    @overload
    def sync(f: Callable[[], _V]) -> EffectOf[_V, Never, None]: ...  # type: ignore[overload-overlap]
    @overload
    def sync(  # type: ignore[overload-overlap]
        f: Callable[[], AnyEffect | None],
    ) -> EffectOf[EffectInEffect, Never, EffectInEffect]: ...
    @overload
    def sync(f: Callable[[], _A]) -> EffectOf[_A, Never, None]: ...  # type: ignore[overload-cannot-match]
    def sync(f: Callable[[], Any]) -> AnyEffect:
        """Return the effect that calls `f` and returns its value. An exception in `f` is a defect."""
        ...

    def suspend(f: Callable[[], EffectOf[_A, _E, _R]]) -> EffectOf[_A, _E, _R]:
        """Return the effect that calls `f` in each run and runs the effect that `f` returns."""
        ...

else:  # the instructions themselves, because a function around each instruction would double its cost
    succeed, sync, suspend = Succeed, Sync, Suspend
    if development.ON:
        sync, suspend = (lambda f: Sync(time_calls(f))), (lambda f: Suspend(time_calls(f)))


def fail(error: _E) -> EffectOf[Never, _E, None]:
    """Return the effect that fails with `error`. Any value can be an error. Prefer a frozen record."""
    return FailCause(Cause((Fail(error),)))


def fail_cause(cause: Cause[_E]) -> EffectOf[Never, _E, None]:
    """Return the effect that ends with `cause`."""
    return FailCause(cause)


def die(defect: BaseException) -> EffectOf[Never, Never, None]:
    """Return the effect that ends with a defect. Use it for situations that only a bug can cause."""
    return FailCause(Cause((Die(defect),)))


@overload
def attempt(f: Callable[[], _A], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def attempt(f: Callable[[], _A], error: Callable[[Exception], _E | None]) -> EffectOf[_A, _E, None]: ...
def attempt(f: Callable[[], _A], error: Callable[[Exception], Any]) -> EffectOf[_A, Any, None]:
    """Return the effect that calls `f`. Exceptions of the class `error` are its failures, other exceptions are defects.

    `error` can also be a function. It returns the typed failure of an exception, or None for a defect.
    """
    return attempt_work(f, error, in_thread=False)


def _explainer(error: Any) -> Callable[[Exception], Any]:
    """Return a function unchanged. Convert a class of exceptions to a function that returns its instances."""
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
    """Return the effect that awaits `f()` and returns its value. An exception is a defect."""
    return AwaitValue(f)


@overload
def attempt_async(f: Callable[[], PlainAwaitable[_A]], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def attempt_async(
    f: Callable[[], PlainAwaitable[_A]], error: Callable[[Exception], _E | None]
) -> EffectOf[_A, _E, None]: ...
def attempt_async(f: Callable[[], PlainAwaitable[_A]], error: Callable[[Exception], Any]) -> EffectOf[_A, Any, None]:
    """Return the effect that awaits `f()`. `error` is a class or a function, like the parameter of `attempt`.

    If `f()` raises a cancellation that no scope and no task requested, `error` receives a `ForeignCancellationError`.
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


@overload
def attempt_work(f: Callable[[], _A], error: type[_X], *, in_thread: bool = True) -> EffectOf[_A, _X, None]: ...
@overload
def attempt_work(
    f: Callable[[], _A], error: Callable[[Exception], _E | None], *, in_thread: bool = True
) -> EffectOf[_A, _E, None]: ...
def attempt_work(
    f: Callable[[], _A], error: Callable[[Exception], Any], *, in_thread: bool = True
) -> EffectOf[_A, Any, None]:
    """Return the effect that calls `f` in a worker thread, or inline if `in_thread` is False.

    `error` is a class or a function, like the parameter of `attempt`. If you cancel the run, the thread still finishes
    `f`, see `fxai.effects.thread`.
    """
    explain = _explainer(error)
    if development.ON and not in_thread:
        f = time_calls(f)

    def start() -> Awaitable[_A]:
        from fxai.effects import thread  # not every program has threads

        return thread.in_thread(f)

    def call() -> EffectOf[_A, Any, None]:
        try:
            return Succeed(f())
        except Exception as raised:
            failure = explain(raised)
            if failure is None:
                raise
            return FailCause(Cause((Fail(failure),)))

    return attempt_async(start, explain) if in_thread else Suspend(call)


@overload
def in_thread(f: Callable[[], _A]) -> EffectOf[_A, Never, None]: ...
@overload
def in_thread(f: Callable[[], _A], error: type[_X]) -> EffectOf[_A, _X, None]: ...
@overload
def in_thread(f: Callable[[], _A], error: Callable[[Exception], _E | None]) -> EffectOf[_A, _E, None]: ...
def in_thread(f: Callable[[], _A], error: Callable[[Exception], Any] = lambda _: None) -> EffectOf[_A, Any, None]:
    """Return the effect that calls the blocking function `f` in a worker thread. At most 40 threads work concurrently.

    An exception of `f` is a defect, or the typed failure that `error` returns for it, as in `attempt`. fxai cannot stop
    a thread. If you cancel the program, it waits until `f` ends.
    """
    return attempt_work(f, error)


def gen(f: Callable[_P, Generator[EffectOf[Any, _E, _R], object, _A]]) -> Callable[_P, EffectOf[_A, _E, _R]]:
    """Decorate a generator function, so that it returns an effect.

    Inside, `value = yield from effect` runs an effect. A typed failure leaves the generator at that line: Python runs
    `finally` and `with`, but not `except`. A defect arrives as its exception. Annotate the return with `Gen`.
    """

    @wraps(f)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> EffectOf[_A, _E, _R]:
        return Generate(f, args, kwargs)

    return make


def service(key: ServiceKey[_I, _S]) -> EffectOf[_S, Never, _I | None]:
    """Return the effect of the service of `key`. The program then needs this service."""
    if not hasattr(key, "__fx_key__"):
        raise TypeError(f"service key must be a Service class or a Tag, got {key!r}")
    return Fetch(key.__fx_key__())


def reference(key: ServiceKey[Any, _S]) -> EffectOf[_S, Never, None]:
    """Return the effect of the service of a `Reference`. Without a layer, the effect returns the default."""
    return Fetch(key.__fx_key__())


def context() -> EffectOf[AnyContext, Never, None]:
    """Return the effect of the current context."""
    return Ask(lambda services: cast("AnyContext", services))


def annotate_span(attributes: Mapping[str, AttributeValue]) -> EffectOf[None, Never, None]:
    """Return the effect that adds attributes to the current span. If no tracer exists, it does nothing.

    Args:
        attributes: Values by name, such as `{"orders.found": 3}`. They replace existing values.
    """

    def annotate(services: AnyContext) -> None:
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is not None:
            tracer.annotate(attributes)

    return Ask(annotate)


def sleep(seconds: float) -> EffectOf[None, Never, None]:
    """Return the effect that ends after `seconds` of the `Clock`."""
    return Await(lambda fiber: fiber.clock().sleep(seconds))


def checkpoint() -> EffectOf[None, Never, None]:
    """Return the effect that lets other tasks run. Long synchronous programs do so automatically."""
    return TURN


def never() -> EffectOf[Never, Never, None]:
    """Return the effect that never ends by itself."""
    return Await(lambda _: sleep_forever())


@final
class Absent(msgspec.Struct, frozen=True):
    """The failure of an effect created from `Nothing`."""


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
    """Convert a `Result`, `IOResult`, `Maybe`, `FutureResult`, generator, or an awaitable of one of these to an effect.

    Python can run a generator or an awaitable only once, so its effect can also run only once. To run a program many
    times, use a function under `fx.gen`.

    Raises:
        TypeError: If `x` has another type.
    """
    lifted = lift_any(x)
    if lifted is None:
        raise TypeError(
            f"fx.lift must get an effect, a container of returns, a generator, or an awaitable of one, got {x!r}"
        )
    return lifted


def lift_any(x: Any) -> AnyEffect | None:
    """Convert a container to an effect, like `lift`. Return None for any other value."""
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
    """Return true if `x` is an awaitable but not an effect. An awaited effect would run without services."""
    return isinstance(x, Awaitable) and not isinstance(x, EffectOf)


def _require_unused(generator: GeneratorType[Any, Any, Any]) -> GeneratorType[Any, Any, Any]:
    if getgeneratorstate(generator) != GEN_CREATED:
        raise RuntimeError("this generator ran already. Decorate its function with @fx.gen to run it many times.")
    return generator


def _await(awaitable: Awaitable[Any]) -> AnyEffect:
    def go(given: Any) -> AnyEffect:
        lifted = lift_any(given)
        if lifted is None:
            raise TypeError(f"the awaitable returned {given!r}. Return a Result, an IOResult, or an effect.")
        return lifted

    return FlatMap(AwaitValue(lambda: awaitable), go)


def of_result(result: Result[_A, _E]) -> EffectOf[_A, _E, None]:
    """Convert a `Result` to an effect."""
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
    """Convert a reader to an effect. The service of `key` is the environment of the reader."""

    def call(service: Any) -> AnyEffect:
        return Suspend(lambda: _await(cast("Awaitable[Any]", reader(service))))

    return FlatMap(Fetch(key.__fx_key__()), call)


def to_future_result(effect: EffectOf[_A, _E, None]) -> FutureResult[_A, _E]:
    """Convert `effect` to a future. A typed failure becomes a `Failure`. Awaiting it raises a defect."""
    return _future(effect, EMPTY)


def to_reader(effect: EffectOf[_A, _E, _R]) -> RequiresContextFutureResult[_A, _E, ContextOf[_R]]:
    """Convert `effect` to a reader. The environment of the reader is a `Context`."""
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
    """Return the effect that succeeds with `value`, or fails with `error` if `value` is None.

    `error` is the failure, or a function or class that creates it. fxai calls this function only if the value is None:
    `order = yield from fx.some(orders.get(number), NoSuchOrder(number))`.
    """
    if value is not None:
        return Succeed(value)
    failure: Any = error() if callable(error) else error
    return fail(failure)


def maybe(effect: EffectOf[_A, Any, _R]) -> EffectOf[Maybe[_A], Never, _R]:
    """Return the effect that succeeds with `Some(value)`, or with `Nothing` after a typed failure."""
    nothing: Maybe[_A] = Nothing
    return effect.match(lambda _: nothing, Some)
