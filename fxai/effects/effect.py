"""Effects: programs as values.

An `Effect[A, E, R]` is a lazy, immutable description of a program. It succeeds with an `A`, fails with an
`E`, and needs the services `R`. Nothing happens until it is run, and it can be run any number of times.

>>> from fxai.effects import fx
>>> half = fx.succeed(42).map(lambda n: n // 2)
>>> fx.run_sync(half.flat_map(lambda n: fx.succeed(n) if n > 20 else fx.fail("too small")))
21

Inside a generator, `yield from` runs a step and gives its value:

>>> @fx.gen
... def sum_of(a: int, b: int) -> Gen[int]:
...     x = yield from fx.succeed(a)
...     y = yield from fx.succeed(b)
...     return x + y
>>> fx.run_sync(sum_of(2, 3))
5

The class is called `EffectOf`; `Effect` is how users write it. The `R` of an `EffectOf` is a union that always
holds `None` ("needs nothing else"): the `None` lets both checkers compute what is left of a union when a layer
supplies part of it. The alias `Effect` adds it. In the parameters of your own generic functions write `EffectOf`: mypy
solves the `R` of `Effect[A, E, R]` with the classes' common base where a program needs several services.
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
from fxai.effects.cause import Cause, Die, Exit, Fail, Failed, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.mistake import MYPY, Discarded, NotItsValue, Unprovided, not_an_effect, refuse_as_value
from fxai.effects.tracing import AttributeValue, Named, Operation, Tracer

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
class Timeout(msgspec.Struct, frozen=True):
    """The failure of a program that took longer than it was given; `seconds` is what it was given."""

    seconds: float


class Policy(Protocol[_In_contra]):
    """When an effect is run again, by its failures or values of type `In`: a `Schedule`."""

    def __fx_input__(self, x: _In_contra, /) -> None:
        """For checkers: what it decides by."""

    def retrying(self, effect: EffectOf[_B, _E2, _R2], /) -> EffectOf[_B, _E2, _R2]:
        """The effect, run again after its failures."""
        ...

    def repeating(self, effect: EffectOf[_B, _E2, _R2], /) -> EffectOf[_B, _E2, _R2]:
        """The effect, run again after its values."""
        ...


@final
class Needs(Generic[_T_co]):
    """What a layer is asked to supply. A type only, never made."""


class EffectOf(msgspec.Struct, Generic[_A_co, _E_co, _R_co], eq=False):
    """A lazy description of a program: `A` on success, `E` on expected failure, `R` needed to run it."""

    op: ClassVar[int]
    __fx_run__: ClassVar[Callable[[Any], Awaitable[Any]]]  # set by `runtime`, which stands on this

    def __iter__(self) -> Generator[EffectOf[Any, _E_co, _R_co], Any, _A_co]:
        """`yield from effect` inside a generator under `fx.gen`: runs it and gives its value."""
        if _observers:
            note_handled()
        value: _A_co = yield self
        return value

    @overload
    def __await__(self: EffectOf[_A, Any, None]) -> Generator[Any, Unprovided, _A]: ...
    @overload
    def __await__(self) -> Unprovided: ...
    def __await__(self) -> Any:
        """`await effect` in a coroutine, where it needs nothing more: what `fx.run_async(effect)` gives or raises.

        Raises:
            TypeError: a program waits for it, by `fx.wait` say, where it would run without the services around.
        """
        frame = currentframe()
        caller = frame and frame.f_back
        if caller and caller.f_globals.get("__name__") in _INTERPRETER:
            raise TypeError("fx.wait takes an awaitable that is no effect: write the effect itself, or fx.suspend(…)")
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

        def __bool__(self) -> NotItsValue:  # noqa: PLE0304  # as pyright tells it
            refuse_as_value(self)

    # -- success

    def map(self, f: Callable[[_A_co], _B]) -> EffectOf[_B, _E_co, _R_co]:
        """The effect with its value changed by `f`; an exception in `f` is a defect."""
        return Map(self, f)

    def as_(self, value: _B) -> EffectOf[_B, _E_co, _R_co]:
        """The effect with `value` in place of its own."""
        return As(self, value)

    def flat_map(self, f: Callable[[_A_co], EffectOf[_B, _E2, _R2]]) -> EffectOf[_B, _E_co | _E2, _R_co | _R2]:
        """This effect, then the one that `f` makes of its value."""
        return FlatMap(self, f)

    def and_then(self, other: EffectOf[_B, _E2, _R2]) -> EffectOf[_B, _E_co | _E2, _R_co | _R2]:
        """This effect, then `other`; gives the value of `other`."""
        return Then(self, other)

    def tap(self, f: Callable[[_A_co], EffectOf[Discarded, _E2, _R2]]) -> EffectOf[_A_co, _E_co | _E2, _R_co | _R2]:
        """This effect, then the one that `f` makes of its value; keeps this one's value."""
        return FlatMap(self, lambda a: As(f(a), a))

    # -- failure

    def map_error(self, f: Callable[[_E_co], _E2]) -> EffectOf[_A_co, _E2, _R_co]:
        """The effect with each typed failure changed by `f`; defects and interruption pass."""
        return Fold(self, lambda c: FailCause(c.map(f)) if _fails(c) else None, None)

    def catch_all(self, f: Callable[[_E_co], EffectOf[_B, _E2, _R2]]) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """On a typed failure, the effect that `f` makes of it; defects and interruption pass.

        A failure with a defect beside it, of a finalizer say, passes too, so that no defect is lost; this holds for
        all that handles typed failures. To handle one kind only, give the others back:
        `catch_all(lambda e: handle(e) if isinstance(e, Lost) else fx.fail(e))`.
        """

        def on_cause(cause: Cause[Any]) -> Any:
            failure = _failure(cause)
            return None if failure is None else _require_effect(f(failure.error))

        return Fold(self, on_cause, None)

    def catch_cause(
        self, f: Callable[[Cause[_E_co]], EffectOf[_B, _E2, _R2]]
    ) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """On any cause, defects too, the effect that `f` makes of it; a cancellation of the task passes."""
        return Fold(self, lambda cause: _require_effect(f(cause.whole())), None)

    def or_else(self, other: EffectOf[_B, _E2, _R2]) -> EffectOf[_A_co | _B, _E2, _R_co | _R2]:
        """On a typed failure, `other` instead."""
        return Fold(self, lambda c: None if _failure(c) is None else _require_effect(other), None)

    def match(
        self, on_failure: Callable[[_E_co], _B], on_success: Callable[[_A_co], _C]
    ) -> EffectOf[_B | _C, Never, _R_co]:
        """The effect that cannot fail: both ways of ending made into a value."""

        def fail(cause: Cause[Any]) -> EffectOf[_B] | None:
            failure = _failure(cause)
            return None if failure is None else Succeed(on_failure(failure.error))

        return Fold(self, fail, lambda a: Succeed(on_success(a)))

    def or_die(self) -> EffectOf[_A_co, Never, _R_co]:
        """The effect whose typed failures are defects: for failures that would be a bug here."""
        return Fold(self, lambda c: FailCause(Cause((Die(c.squash()),))) if _fails(c) else None, None)

    def result(self) -> EffectOf[Result[_A_co, _E_co], Never, _R_co]:
        """The effect that gives a `Result` and does not fail; defects and interruption pass."""
        return self.match(Failure, Success)

    def exit(self) -> EffectOf[Exit[_A_co, _E_co], Never, _R_co]:
        """The effect that gives an `Exit`, defects included; a cancellation of the task passes."""
        return Fold(self, lambda c: Succeed(Failed(c.whole())), lambda a: Succeed(Succeeded(a)))

    # -- finalizers

    def on_exit(
        self, f: Callable[[Exit[_A_co, _E_co]], EffectOf[Discarded, Never, _R2]]
    ) -> EffectOf[_A_co, _E_co, _R_co | _R2]:
        """Runs what `f` makes of the exit, whichever it is, exactly once, and cannot be interrupted in it."""
        return OnExit(self, lambda exit_: As(f(exit_), None))

    def ensuring(self, finalizer: EffectOf[Discarded, Never, _R2]) -> EffectOf[_A_co, _E_co, _R_co | _R2]:
        """Runs `finalizer` after this effect, however it ended, exactly once and uninterrupted."""
        return OnExit(self, lambda _: As(finalizer, None))

    def uninterruptible(self) -> EffectOf[_A_co, _E_co, _R_co]:
        """The effect that a cancellation waits for."""
        return Mask(self)

    # -- time

    def timeout(self, seconds: float) -> EffectOf[_A_co, _E_co | Timeout, _R_co]:
        """Fails with `Timeout` after `seconds` by the `Clock`, when its finalizers have run."""
        return AwaitExit(lambda fiber: fiber.timeout(self, seconds))

    def delay(self, seconds: float) -> EffectOf[_A_co, _E_co, _R_co]:
        """The effect, begun `seconds` later by the `Clock`."""
        return Then(Await(lambda fiber: fiber.clock().sleep(seconds)), self)

    def retry(self, schedule: Policy[_E_co]) -> EffectOf[_A_co, _E_co, _R_co]:
        """Tries again after typed failures for as long as `schedule` says; then the last failure stands.

        A failure that has `is_retryable` and says False is not tried again, and one with a `retry_after`
        in seconds is waited for at least that long.
        """
        return schedule.retrying(self)

    def repeat(self, schedule: Policy[_A_co]) -> EffectOf[_A_co, _E_co, _R_co]:
        """Runs again after each success for as long as `schedule` says; gives the last value."""
        return schedule.repeating(self)

    # -- services

    def provide(self, layer: Callable[[EffectOf[_A_co, _E_co, _R_co | None]], _T]) -> _T:
        """The effect with the services of `layer`: what the layer supplies is no longer needed.

        The layer is built when the effect starts and released when it ends. A layer that is already built
        further out is shared. In the body of a function whose own `R` is a type variable, write `layer(effect)`: the
        checkers cannot solve `effect.provide(layer)` there.
        """
        return layer(self)

    def provide_context(self, context: ContextOf[_R_co | None]) -> EffectOf[_A_co, _E_co, None]:
        """The effect with services that exist already."""
        return Local(self, lambda outer: outer.merge(context))

    # -- what is told of it

    def span(self, name: str, /, **attributes: AttributeValue) -> EffectOf[_A_co, _E_co, _R_co]:
        """The effect in a span of its own where the program is traced (see `fxai.telemetry`); else as it was.

        `name` says what it does, the same in each run; what differs is an attribute. See also `fx.annotate_span`.
        """
        return Observe(self, Named(name, attributes))

    def pipe(self, f: Callable[[EffectOf[_A_co, _E_co, _R_co]], _T]) -> _T:
        """`f(self)`: for functions of the floors above, in reading order."""
        return f(self)

    if not TYPE_CHECKING:

        @classmethod
        def __class_getitem__(cls, _: Any) -> Any:
            return cls  # subscripts are for checkers only; `Effect[int, E, R]` stays this class


AnyEffect: TypeAlias = EffectOf[Any, Any, Any]
"""An effect whose types are looked at nowhere: what an interpreter, or an operator of any effects, takes and gives."""

if TYPE_CHECKING:
    Effect: TypeAlias = EffectOf[_A, _E, _R | None]
    Gen = TypeAliasType("Gen", Generator[EffectOf[Any, _E, _R | None], object, _A], type_params=(_A, _E, _R))
else:
    Effect = EffectOf

    class Gen:
        """The return annotation of a generator under `fx.gen`: `Gen[A, E, R]`; a tool's types are read from it."""

        def __class_getitem__(cls, arguments: Any) -> Any:
            return GenericAlias(cls, arguments)


# The instructions. Their numbers are what the interpreter branches on: first those that begin with a source, then those
# that go on at once.


class Instruction(AnyEffect, eq=False):
    """An effect that the interpreter knows by its `op`.

    Where one needs several closures, a class with the same `op` and its functions as methods costs less.
    """


@final
class Succeed(Instruction, eq=False):
    """The effect of `value`."""

    value: Any
    op = 0

    def __iter__(self) -> Generator[Any, object, Any]:
        """Gives the value with no trip through the interpreter; one in many takes a turn, so loops stay fair."""
        if next(_turns):
            if _observers:
                note_handled()
            yield TURN
        return self.value


@final
class Map(Instruction, eq=False):
    """The value changed by `f`."""

    source: Any
    f: Callable[[Any], Any]
    op = 1


@final
class FlatMap(Instruction, eq=False):
    """The effect that `f` makes of the value."""

    source: Any
    f: Callable[[Any], Any]
    op = 2


@final
class Fold(Instruction, eq=False):
    """The effects that follow a cause, or a value."""

    source: Any
    on_cause: Callable[[Any], Any]  # an effect, or None: not handled here
    on_value: Callable[[Any], Any] | None  # None: pass the value on
    op = 3


@final
class As(Instruction, eq=False):
    """Another value in place of the source's."""

    source: Any
    value: Any
    op = 4


@final
class Then(Instruction, eq=False):
    """Another effect after the source."""

    source: Any
    other: Any
    op = 5


@final
class OnExit(Instruction, eq=False):
    """The effect with a finalizer made of its exit."""

    source: Any
    f: Callable[[Any], Any]
    op = 6


@final
class Generate(Instruction, eq=False):
    """A generator of effects, run to its return."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    op = 7

    def __iter__(self) -> Generator[Any, Any, Any]:
        """Shallow nesting is delegated natively, which is fast; deeper nesting goes by the interpreter's stack."""
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
    """The service under a raw key."""

    key: Any  # a raw key
    op = 8


@final
class Sync(Instruction, eq=False):
    """The effect of calling `f`; what it raises is a defect."""

    f: Callable[[], Any]
    op = 9


@final
class Ask(Instruction, eq=False):
    """What `f` gives of the context."""

    f: Callable[[Any], Any]
    op = 10


@final
class Suspend(Instruction, eq=False):
    """The effect that `f` gives, made anew for each run."""

    f: Callable[[], Any]
    op = 11


@final
class Within(Instruction, eq=False):
    """The effect that `f` makes of the context."""

    f: Callable[[Any], Any]  # of the context, an effect
    op = 12


@final
class Observe(Instruction, eq=False):
    """The effect, told of to the tracer of the context, if there is one."""

    source: Any
    operation: Operation
    op: ClassVar[int] = Within.op

    def f(self, context: ContextOf[Any]) -> Any:
        """The effect, in a span where there is a tracer."""
        tracer: Tracer | None = context.services.get(Tracer)
        return self.source if tracer is None else tracer.trace(self.operation, self.source)


@final
class Wait(Instruction, eq=False):
    """The value of the awaitable that `f` gives."""

    f: Callable[[], Any]
    op = 13


@final
class Await(Instruction, eq=False):
    """The value of an awaitable that `f` makes of the fiber."""

    f: Callable[[Any], Any]  # Fiber -> awaitable of the value
    op = 14


@final
class AwaitExit(Instruction, eq=False):
    """The exit of an awaitable that `f` makes of the fiber, or the exit at once."""

    f: Callable[[Any], Any]  # Fiber -> awaitable of an Exit
    op = 15


@final
class FailCause(Instruction, eq=False):
    """The effect that ends with `cause`."""

    cause: Any
    op = 16


@final
class Local(Instruction, eq=False):
    """The effect in the context that `f` makes."""

    source: Any
    f: Callable[[Any], Any]
    op = 17


@final
class Mask(Instruction, eq=False):
    """The effect that is not interrupted."""

    source: Any
    op = 18


@final
class _Turn(Instruction, eq=False):
    op = 19


TURN = _Turn()  # lets other tasks run


if development.ON:
    development.watch(EffectOf, *Instruction.__subclasses__())


# What the interpreter itself puts between instructions.


@final
class Restore(msgspec.Struct, eq=False):
    """Go back to the context `env`."""

    env: Any
    op: ClassVar[int] = 20


@final
class Resume(msgspec.Struct, eq=False):
    """A finalizer has run: go on with the value or the cause from before it."""

    value: Any
    cause: Any
    op: ClassVar[int] = 22


@final
class Start(msgspec.Struct, eq=False):
    """Begin `effect`."""

    effect: Any
    op: ClassVar[int] = 24


@final
class Mark(msgspec.Struct, eq=False):
    """A place that holds nothing."""

    op: int


class _Here:
    __slots__ = ("begun", "depth", "handled")

    def __init__(self) -> None:
        self.depth: int = 0  # generators delegated natively, in the step that runs now
        self.begun: int = 0  # steps of children inside the steps of their parents
        self.handled: BaseException | None = None  # where a generator yielded last, while `observe` runs it


class _Nesting(threading.local):
    def __init__(self) -> None:
        self.here: _Here = _Here()  # a thread's own attributes are slow: each step reads one of them, once


_INTERPRETER = ("fxai.effects.fiber", "fxai.effects.cancellation")  # the modules that await what a program waits for
_NATIVE_DEPTH = 6  # native delegation costs O(depth) per leaf and would use the C stack
nesting: _Nesting = _Nesting()
_observers: list[None] = []  # one for each call of `observe`, in any thread
_turns = cycle((*repeat(0, 4095), 1))  # the cheapest counter there is


def note_handled() -> None:
    """Note which exception the generator handles that yields a step now."""
    nesting.here.handled = sys.exception()


def observe(step: Callable[[], Any]) -> tuple[Any, bool]:
    """Resume a generator by `step`; return its next step, and True if it yields that in an `except` or a `finally`.

    Python keeps the exception that a generator handles for each generator, and tells it only inside of the generator.
    `yield from effect` runs `__iter__` of the effect there, and that notes the exception.
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
    """What to raise where a function under `fx.gen` gave no generator; any other error as it is."""
    message = str(raised)
    if step.op != Generate.op or not message.endswith("is not an iterator"):
        return raised
    name = getattr(step.f, "__name__", "the function")
    why = "has no `yield from`, so it is no generator: write `yield from` before its steps, or take the decorator away"
    if "'coroutine'" in message:
        why = "is a coroutine function: write `def` for `async def`, and `yield from fx.wait(lambda: …)` for `await …`"
    return TypeError(f"@fx.gen is for a generator function, and {name} {why}")


def _require_effect(effect: Any) -> Any:
    """What a handler made, which has to be an effect: to the interpreter None would mean that it does not handle."""
    if effect is None:
        raise not_an_effect(None)
    return effect


def require_no_effect(value: object) -> None:
    """Does nothing for the value of a program that ran.

    Raises:
        TypeError: it is an effect itself, which was not run.
    """
    if isinstance(value, EffectOf):
        raise TypeError(
            "a program gave an effect that was not run: write `return (yield from effect)` for "
            "`return effect` in a generator, `flat_map` for `map`, `fx.suspend` for `fx.sync`, or "
            "`.flat_map(lambda effect: effect)` to run what a program gives"
        )


def _fails(cause: Cause[Any]) -> bool:
    return any(isinstance(r, Fail) for r in cause.reasons)


def _failure(cause: Cause[Any]) -> Fail[Any] | None:
    """The first typed failure of a cause that holds no defect."""
    found: Fail[Any] | None = None
    for reason in cause.reasons:
        if isinstance(reason, Die):
            return None
        if found is None and isinstance(reason, Fail):
            found = reason
    return found
