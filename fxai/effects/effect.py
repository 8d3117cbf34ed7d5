"""Effects: programs as values.

An `Effect[A, E, R]` is a lazy, immutable description of a program. The program succeeds with an `A`, fails with an
`E`, and needs the services `R`. fxai executes nothing until you run the effect. You can run an effect many times.

>>> from fxai.effects import fx
>>> half = fx.succeed(42).map(lambda n: n // 2)
>>> fx.run_sync(half.flat_map(lambda n: fx.succeed(n) if n > 20 else fx.fail("too small")))
21

Inside a generator, `yield from` runs an effect and returns its value:

>>> @fx.gen
... def sum_of(a: int, b: int) -> Gen[int]:
...     x = yield from fx.succeed(a)
...     y = yield from fx.succeed(b)
...     return x + y
>>> fx.run_sync(sum_of(2, 3))
5

The class is called `EffectOf`. Users write `Effect`. The `R` of an `EffectOf` is a union that always contains `None`,
which means "needs nothing else". With this `None`, both checkers can compute the remaining services if a layer supplies
part of the union. The alias `Effect` adds the `None`. In the parameters of your own generic functions, write
`EffectOf`. If a program needs several services, mypy solves the `R` of `Effect[A, E, R]` with their common base class.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from inspect import currentframe
from itertools import cycle, repeat
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, Protocol, TypeAlias, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects import development
from fxai.effects.cause import AnyCause, Cause, Die, Exit, Fail, Failed, Succeeded
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.mistake import MYPY, Discarded, NotItsValue, Unprovided, not_a_layer, not_an_effect, refuse_as_value
from fxai.effects.tracing import AttributeValue, Named, Operation, Tracer

if TYPE_CHECKING:
    _A = TypeVar("_A", default=None)
    _E = TypeVar("_E", default=Never)
    _R = TypeVar("_R", default=None)
    _B = TypeVar("_B")
    _C = TypeVar("_C")
    _E2 = TypeVar("_E2")
    _R2 = TypeVar("_R2")
    _T = TypeVar("_T")

_T_co = TypeVar("_T_co", covariant=True)
_A_co = TypeVar("_A_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)
_In_contra = TypeVar("_In_contra", contravariant=True)


@final
class Timeout(msgspec.Struct, frozen=True, dict=True):
    """The failure of a program that exceeded its time limit. `seconds` is the limit."""

    seconds: float
    """The limit in seconds."""


class Policy(Protocol[_In_contra]):
    """The rule for running an effect again, based on its failures or values of type `In`. `Schedule` implements it."""

    def __fx_input__(self, x: _In_contra, /) -> None:
        """Declare the type of the policy's input to the checkers."""

    def retrying(self, effect: EffectOf[_B, _E2, _R2], /) -> EffectOf[_B, _E2, _R2]:
        """Return an effect that runs `effect` again after its failures."""
        ...

    def repeating(self, effect: EffectOf[_B, _E2, _R2], /) -> EffectOf[_B, _E2, _R2]:
        """Return an effect that runs `effect` again after its values."""
        ...


@final
class Needs(Generic[_T_co]):
    """The services that an effect requires from a layer. Only type checkers use this class. It has no instances."""


class EffectOf(msgspec.Struct, Generic[_A_co, _E_co, _R_co], eq=False):
    """A lazy description of a program: `A` on success, `E` on expected failure, `R` needed to run it."""

    op: ClassVar[int]
    __fx_run__: ClassVar[Callable[[Any], Awaitable[Any]]]  # set by `runtime`, which imports this module

    def __iter__(self) -> Generator[EffectOf[Any, _E_co, _R_co], Any, _A_co]:
        """Run the effect with `yield from effect`, inside a generator under `fx.gen`, and return its value."""
        if _observers:
            note_handled()
        value: _A_co = yield self
        return value

    @overload
    def __await__(self: EffectOf[_A, Any, None]) -> Generator[Any, Unprovided, _A]: ...
    @overload
    def __await__(self) -> Unprovided: ...
    def __await__(self) -> Any:
        """Run the effect with `await effect` in a coroutine, like `fx.run_async(effect)`.

        The effect must need no services.

        Raises:
            TypeError: If a program awaits the effect, for example with `fx.wait`. The effect would run without the
                services of the program.
        """
        frame = currentframe()
        caller = frame and frame.f_back
        if caller and caller.f_globals.get("__name__") in _INTERPRETER:
            raise TypeError("fx.wait must get an awaitable, got an effect. Write the effect itself, or fx.suspend(…).")
        return EffectOf.__fx_run__(self).__await__()

    if not TYPE_CHECKING:
        __contains__ = __format__ = __str__ = refuse_as_value
        if development.ON:
            __post_init__, __del__ = development.make, development.drop
    else:

        def __sizeof__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
        ) -> NotItsValue:
            refuse_as_value(self)

        def __fx_needs__(self) -> Needs[_R_co]:
            raise NotImplementedError

        def __fx_ends__(self) -> EffectOf[_A_co, _E_co, Any]:
            raise NotImplementedError

    if not MYPY:

        def __bool__(self) -> NotItsValue:  # noqa: PLE0304  # pyright reports each use as an error
            refuse_as_value(self)

    # -- success

    def map(self, f: Callable[[_A_co], _B]) -> EffectOf[_B, _E_co, _R_co]:
        """Return an effect that applies `f` to the value. An exception in `f` is a defect."""
        return Map(self, f)

    def as_(self, value: _B) -> EffectOf[_B, _E_co, _R_co]:
        """Return an effect that replaces the value with `value`."""
        return As(self, value)

    def flat_map(self, f: Callable[[_A_co], EffectOf[_B, _E2, _R2]]) -> EffectOf[_B, _E_co | _E2, _R_co | _R2]:
        """Return an effect that runs this effect, then the effect that `f` returns for its value."""
        return FlatMap(self, f)

    def and_then(self, other: EffectOf[_B, _E2, _R2]) -> EffectOf[_B, _E_co | _E2, _R_co | _R2]:
        """Return an effect that runs this effect, then `other`, and returns the value of `other`."""
        return Then(self, other)

    def tap(self, f: Callable[[_A_co], EffectOf[Discarded, _E2, _R2]]) -> EffectOf[_A_co, _E_co | _E2, _R_co | _R2]:
        """Return an effect that runs `f(value)` after this effect and keeps the value of this effect."""
        return FlatMap(self, lambda a: As(f(a), a))

    # -- failure

    def map_error(self, f: Callable[[_E_co], _E2]) -> EffectOf[_A_co, _E2, _R_co]:
        """Return an effect that applies `f` to each typed failure. Defects and interruptions stay unchanged."""
        return Fold(self, lambda c: FailCause(c.map(f)) if _fails(c) else None, None)

    def catch_all(self, f: Callable[[_E_co], EffectOf[_B, _E2, _R2]]) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """Return an effect that handles a typed failure with the effect `f(failure)`.

        Defects and interruptions stay unhandled. If a cause also contains a defect, for example from a finalizer, the
        failure stays unhandled too, so that no defect is lost. This rule applies to every method that handles typed
        failures. To handle only one kind of failure, fail again with the others:
        `catch_all(lambda e: handle(e) if isinstance(e, Lost) else fx.fail(e))`.
        """

        def on_cause(cause: AnyCause) -> Any:
            failure = _failure(cause)
            return None if failure is None else _require_effect(f(failure.error))

        return Fold(self, on_cause, None)

    def catch_cause(
        self, f: Callable[[Cause[_E_co]], EffectOf[_B, _E2, _R2]]
    ) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """Return an effect that handles every cause with `f(cause)`, except a cancellation of the task."""
        return Fold(self, lambda cause: _require_effect(f(cause.whole())), None)

    def or_else(self, other: EffectOf[_B, _E2, _R2]) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """Return an effect that runs `other` after a typed failure."""
        return Fold(self, lambda c: None if _failure(c) is None else _require_effect(other), None)

    def match(
        self, on_failure: Callable[[_E_co], _B], on_success: Callable[[_A_co], _C]
    ) -> EffectOf[_B | _C, Never, _R_co]:
        """Return an effect that cannot fail. `on_failure` or `on_success` computes its value."""

        def fail(cause: AnyCause) -> EffectOf[_B] | None:
            failure = _failure(cause)
            return None if failure is None else Succeed(on_failure(failure.error))

        return Fold(self, fail, lambda a: Succeed(on_success(a)))

    def or_die(self) -> EffectOf[_A_co, Never, _R_co]:
        """Return an effect that turns typed failures into defects. Use it if a failure would be a bug here."""
        return Fold(self, lambda c: FailCause(Cause((Die(c.squash()),))) if _fails(c) else None, None)

    def result(self) -> EffectOf[Result[_A_co, _E_co], Never, _R_co]:
        """Return an effect that succeeds with a `Result`. Defects and interruptions stay unchanged."""
        return self.match(Failure, Success)

    def exit(self) -> EffectOf[Exit[_A_co, _E_co], Never, _R_co]:
        """Return an effect that succeeds with an `Exit`, even after a defect. Cancelling the task still cancels it."""
        return Fold(self, lambda c: Succeed(Failed(c.whole())), lambda a: Succeed(Succeeded(a)))

    # -- finalizers

    def on_exit(
        self, f: Callable[[Exit[_A_co, _E_co]], EffectOf[Discarded, Never, _R2]]
    ) -> EffectOf[_A_co, _E_co, _R_co | _R2]:
        """Return an effect that runs `f(exit)` after this effect, always, exactly once, and uninterrupted."""
        return OnExit(self, lambda exit_: As(f(exit_), None))

    def ensuring(self, finalizer: EffectOf[Discarded, Never, _R2]) -> EffectOf[_A_co, _E_co, _R_co | _R2]:
        """Return an effect that runs `finalizer` after this effect, always, exactly once, and uninterrupted."""
        return OnExit(self, lambda _: As(finalizer, None))

    def uninterruptible(self) -> EffectOf[_A_co, _E_co, _R_co]:
        """Return an effect that a cancellation cannot interrupt. The cancellation waits until it ends."""
        return Mask(self)

    # -- time

    def timeout(self, seconds: float) -> EffectOf[_A_co, _E_co | Timeout, _R_co]:
        """Return an effect that fails with `Timeout` after `seconds` of the `Clock`, once its finalizers ended.

        An effect that awaits nothing also runs without an event loop.
        """
        return AwaitExit(lambda fiber: fiber.timeout(self, seconds))

    def delay(self, seconds: float) -> EffectOf[_A_co, _E_co, _R_co]:
        """Return an effect that starts `seconds` later, measured with the `Clock`."""
        return Then(Await(lambda fiber: fiber.clock().sleep(seconds)), self)

    def retry(self, schedule: Policy[_E_co]) -> EffectOf[_A_co, _E_co, _R_co]:
        """Return an effect that tries again after typed failures until `schedule` ends, then fails with the last one.

        If the attribute `is_retryable` of a failure is False, fxai does not try again. If a failure has a
        `retry_after` in seconds, fxai waits at least that long.
        """
        return schedule.retrying(self)

    def repeat(self, schedule: Policy[_A_co]) -> EffectOf[_A_co, _E_co, _R_co]:
        """Return an effect that runs again after each success, until `schedule` ends. It returns the last value."""
        return schedule.repeating(self)

    # -- services

    def provide(self, layer: Callable[[EffectOf[_A_co, _E_co, _R_co | None]], _T]) -> _T:
        """Return the effect with the services of `layer`. The effect no longer needs these services.

        The effect builds the layer when it starts and releases the layer when it ends. If an enclosing program has
        built the layer already, the effect shares it. In the body of a function whose own `R` is a type variable,
        write `layer(effect)`, because the checkers cannot solve `effect.provide(layer)` there.

        Raises:
            TypeError: If `layer` is not a layer.
        """
        if isinstance(layer, type) or not callable(layer):
            raise not_a_layer(layer)
        return layer(self)

    def provide_context(self, context: ContextOf[_R_co | None]) -> EffectOf[_A_co, _E_co, None]:
        """Return the effect with existing services."""
        return Local(self, context.__fx_onto__)

    # -- tracing

    def span(self, name: str, /, **attributes: AttributeValue) -> EffectOf[_A_co, _E_co, _R_co]:
        """Return the effect in its own span. If no tracer is in the context, the effect stays unchanged.

        `name` describes the work and is the same in each run. Pass variable data as attributes. See also
        `fx.annotate_span` and `fxai.telemetry`.
        """
        return Observe(self, Named(name, attributes))

    def pipe(self, f: Callable[[EffectOf[_A_co, _E_co, _R_co]], _T]) -> _T:
        """Return `f(self)`. Use it to write functions of higher packages in reading order."""
        return f(self)

    if not TYPE_CHECKING:

        @classmethod
        def __class_getitem__(cls, arguments: Any) -> Any:
            return GenericAlias(cls, arguments)  # any number of arguments, unlike `Generic`


AnyEffect: TypeAlias = EffectOf[Any, Any, Any]
"""An effect of unknown types. The interpreter and generic operators use it."""

if TYPE_CHECKING:
    Effect: TypeAlias = EffectOf[_A, _E, _R | None]
    Gen = TypeAliasType("Gen", Generator[EffectOf[Any, _E, _R | None], object, _A], type_params=(_A, _E, _R))
else:
    Effect = EffectOf

    class Gen:
        """The return annotation of a generator under `fx.gen`: `Gen[A, E, R]`. Tools read their types from it."""

        def __class_getitem__(cls, arguments: Any) -> Any:
            return GenericAlias(cls, arguments)


# The instructions. The interpreter branches on their numbers: first the instructions that start with a source, then the
# instructions that complete immediately.


class Instruction(AnyEffect, eq=False):
    """An effect that the interpreter identifies by its `op`.

    If an instruction needs several closures, a class with the same `op` and with methods costs less.
    """


@final
class Succeed(Instruction, eq=False):
    """The effect that succeeds with `value`."""

    value: Any
    op = 0

    def __iter__(self) -> Generator[Any, object, Any]:
        """Return the value without the interpreter. Every 4,096th call lets other tasks run, for fairness."""
        if next(_turns):
            if _observers:
                note_handled()
            yield TURN
        return self.value


@final
class Map(Instruction, eq=False):
    """The effect that applies `f` to the value of the source."""

    source: Any
    f: Callable[[Any], Any]
    op = 1


@final
class FlatMap(Instruction, eq=False):
    """The effect that runs the source, then `f(value)`."""

    source: Any
    f: Callable[[Any], Any]
    op = 2


@final
class Fold(Instruction, eq=False):
    """The effect that handles the cause or the value of the source."""

    source: Any
    on_cause: Callable[[Any], Any]  # returns an effect, or None if it does not handle the cause
    on_value: Callable[[Any], Any] | None  # None: keep the value
    op = 3


@final
class As(Instruction, eq=False):
    """The effect that replaces the value of the source."""

    source: Any
    value: Any
    op = 4


@final
class Then(Instruction, eq=False):
    """The effect that runs another effect after the source."""

    source: Any
    other: Any
    op = 5


@final
class OnExit(Instruction, eq=False):
    """The effect that runs a finalizer, `f(exit)`, after the source."""

    source: Any
    f: Callable[[Any], Any]
    op = 6


@final
class Generate(Instruction, eq=False):
    """The effect that runs a generator of effects until it returns."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    op = 7

    def __iter__(self) -> Generator[Any, Any, Any]:
        """Delegate shallow nesting natively, which is fast. Deeper nesting uses the stack of the interpreter."""
        here = nesting.here
        depth = here.depth
        if depth >= _NATIVE_DEPTH:
            if _observers:
                note_handled()
            return (yield self)

        here.depth = depth + 1
        try:
            generator: Generator[Any, Any, Any] = self.f(*self.args, **self.kwargs)
            result: Any = yield from generator
        finally:
            nesting.here.depth = depth
        return result


@final
class Fetch(Instruction, eq=False):
    """The effect that returns the service of a raw key."""

    key: Any
    op = 8


@final
class Sync(Instruction, eq=False):
    """The effect that calls `f`. An exception in `f` is a defect."""

    f: Callable[[], Any]
    op = 9


@final
class Ask(Instruction, eq=False):
    """The effect that returns `f(context)`."""

    f: Callable[[Any], Any]
    op = 10


@final
class Suspend(Instruction, eq=False):
    """The effect that calls `f` in each run and runs the effect that `f` returns."""

    f: Callable[[], Any]
    op = 11


@final
class Within(Instruction, eq=False):
    """The effect that runs `f(context)`."""

    f: Callable[[Any], Any]  # ContextOf -> effect
    op = 12


@final
class Enter(Instruction, eq=False):
    """The effect that runs `f(fiber)`."""

    f: Callable[[Any], Any]  # Fiber -> effect
    op = 13


@final
class Observe(Instruction, eq=False):
    """The effect that reports the source to the tracer of the context, if a tracer exists."""

    source: Any
    operation: Operation
    op: ClassVar[int] = Within.op

    def f(self, context: AnyContext) -> Any:
        """Return the source, in a span if the context contains a tracer."""
        tracer: Tracer | None = context.services.get(Tracer)
        return self.source if tracer is None else tracer.trace(self.operation, self.source)


@final
class AwaitValue(Instruction, eq=False):
    """The effect that awaits the awaitable that `f` returns."""

    f: Callable[[], Any]
    op = 14


@final
class Await(Instruction, eq=False):
    """The effect that awaits `f(fiber)` and returns its value."""

    f: Callable[[Any], Any]  # Fiber -> awaitable of the value
    op = 15


@final
class AwaitExit(Instruction, eq=False):
    """The effect that ends with the exit of `f(fiber)`, which is an awaitable or an exit."""

    f: Callable[[Any], Any]  # Fiber -> awaitable of an Exit
    op = 16


@final
class FailCause(Instruction, eq=False):
    """The effect that ends with `cause`."""

    cause: Any
    op = 17


@final
class Local(Instruction, eq=False):
    """The effect that runs the source in the context `f(context)`."""

    source: Any
    f: Callable[[Any], Any]
    op = 18


@final
class Mask(Instruction, eq=False):
    """The effect that runs the source uninterrupted."""

    source: Any
    op = 19


@final
class _Turn(Instruction, eq=False):
    op = 20


TURN = _Turn()  # lets other tasks run


if development.ON:
    development.watch(EffectOf, *Instruction.__subclasses__())


# The interpreter inserts these between instructions.


@final
class Restore(msgspec.Struct, eq=False):
    """The instruction to return to the context `env`."""

    env: Any
    op: ClassVar[int] = 21


@final
class Resume(msgspec.Struct, eq=False):
    """The instruction to continue with an earlier value or cause after a finalizer."""

    value: Any
    cause: Any
    op: ClassVar[int] = 23


@final
class Start(msgspec.Struct, eq=False):
    """The instruction to start `effect`."""

    effect: Any
    op: ClassVar[int] = 25


@final
class Mark(msgspec.Struct, eq=False):
    """An empty entry of the stack."""

    op: int


class _Here:
    __slots__ = ("begun", "depth", "handled")

    def __init__(self) -> None:
        self.depth: int = 0  # generators delegated natively, in the current step
        self.begun: int = 0  # steps of children inside the steps of their parents
        self.handled: BaseException | None = None  # at the last yield of a generator, while `observe` resumes it


class _Nesting(threading.local):
    def __init__(self) -> None:
        self.here: _Here = _Here()  # the attributes of a thread are slow, so each step reads only this attribute, once


_INTERPRETER = ("fxai.effects.fiber", "fxai.effects.cancellation")  # the modules that await for a program
_NATIVE_DEPTH = 6  # native delegation costs O(depth) per leaf and would use the C stack
nesting: _Nesting = _Nesting()
_observers: list[None] = []  # an entry for each active call of `observe`, in any thread
_turns = cycle((*repeat(0, 4095), 1))  # the cheapest counter in Python


def note_handled() -> None:
    """Record the exception that the current generator handles."""
    nesting.here.handled = sys.exception()


def observe(step: Callable[[], Any]) -> tuple[Any, bool]:
    """Resume a generator with `step`. Return its next effect, and True if it yields inside an `except` or a `finally`.

    Python stores the handled exception separately for each generator, and only code inside the generator can read it.
    `yield from effect` runs `__iter__` of the effect inside the generator, so `__iter__` records the exception.
    """
    here = nesting.here
    around = here.handled = sys.exception()
    _observers.append(None)
    try:
        effect = step()
    finally:
        _observers.pop()
    return effect, here.handled is not around


def not_a_generator(raised: TypeError, step: Any) -> TypeError:
    """Return the error to raise if a function under `fx.gen` returned no generator. Return other errors unchanged."""
    message = str(raised)
    if step.op != Generate.op or not message.endswith("is not an iterator"):
        return raised
    name = getattr(step.f, "__name__", "the function")
    why = "contains no `yield from`. Write `yield from` before its steps, or remove the decorator."
    if "'coroutine'" in message:
        why = "is a coroutine function. Write `def` for `async def`, and `yield from fx.wait(lambda: …)` for `await …`."
    return TypeError(f"@fx.gen must decorate a generator function, and {name} {why}")


def _require_effect(effect: Any) -> Any:
    """Return the effect of a handler. Reject None, because the interpreter reads None as "does not handle"."""
    if effect is None:
        raise not_an_effect(None)
    return effect


def require_no_effect(value: object) -> None:
    """Check that the value of a finished program is not an effect.

    Raises:
        TypeError: If the value is an effect. fxai did not run this effect.
    """
    if isinstance(value, EffectOf):
        raise TypeError(
            "the program returned an effect that was not run. Write `return (yield from effect)` for "
            "`return effect` in a generator, `flat_map` for `map` (`map_effect` in a stream), `fx.suspend` for "
            "`fx.sync`, or `.flat_map(lambda effect: effect)` to run the returned effect."
        )


def _fails(cause: AnyCause) -> bool:
    return any(isinstance(r, Fail) for r in cause.reasons)


def _failure(cause: AnyCause) -> Fail[Any] | None:
    """Return the first typed failure of a cause. Return None if the cause contains a defect."""
    found: Fail[Any] | None = None
    for reason in cause.reasons:
        if isinstance(reason, Die):
            return None
        if found is None and isinstance(reason, Fail):
            found = reason
    return found
