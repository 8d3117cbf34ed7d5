"""Exits and causes, which describe how and why a program ended. Use them to inspect the outcome of a run.

An `Exit` is `Succeeded` with a value, or `Failed` with a `Cause`. A cause contains reasons of three kinds, which fxai
never mixes: a typed failure (`Fail`), a defect (`Die`), which is an exception that no type declares, and an
interruption (`Interrupt`). A `Cause` stores all reasons in the order of their occurrence. It keeps a failure
and also the failure of a later finalizer.

>>> cause = Cause((Fail("lost"),)).combine(Cause((Interrupt(),)))
>>> cause.failures, cause.interrupted
(('lost',), True)
>>> outcome(Succeeded(3)), outcome(Failed(Cause((Fail("no"),))))
(<Success: 3>, <Failure: no>)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, cast, final

import msgspec
import msgspec.structs
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

_E = TypeVar("_E")
_E2 = TypeVar("_E2")
_E_co = TypeVar("_E_co", covariant=True, default=Never)


@final
class Fail(msgspec.Struct, Generic[_E_co], frozen=True):
    """An expected failure. Its `error` is a value of the type `E`."""

    error: _E_co
    """The failure."""


@final
class Die(msgspec.Struct, frozen=True):
    """A defect. It is an exception that no type declares, with its traceback."""

    defect: BaseException
    """The exception."""


@final
class Interrupt(msgspec.Struct, frozen=True, dict=True):
    """A cancellation of the program."""


Reason: TypeAlias = Fail[_E] | Die | Interrupt


@final
class Cause(msgspec.Struct, Generic[_E_co], frozen=True, eq=False):
    """The reasons why a program failed, in the order of their occurrence."""

    _reasons: tuple[Fail[_E_co] | Die | Interrupt, ...] = msgspec.field(name="reasons")  # two causes if it is long

    if not TYPE_CHECKING:
        __match_args__ = ("reasons",)  # checkers use the field, which has the same type

    @property
    def reasons(self) -> tuple[Fail[_E_co] | Die | Interrupt, ...]:
        """The reasons in the order of their occurrence."""
        held: Any = self._reasons
        if held.__class__ is _Joined:
            msgspec.structs.force_setattr(self, "_reasons", self._flat())
        return self._reasons

    def _flat(self) -> tuple[Reason[Any], ...]:
        reasons: list[Reason[Any]] = []
        todo: list[AnyCause] = [self]
        while todo:
            held: Any = todo.pop()._reasons
            if held.__class__ is _Joined:
                todo += (held.second, held.first)
            else:
                reasons += held
        return tuple(reasons)

    @override
    def __eq__(self, other: object) -> bool:
        return other.__class__ is Cause and self.reasons == cast(Any, other).reasons

    @override
    def __hash__(self) -> int:
        return hash(self.reasons)

    @override
    def __repr__(self) -> str:
        return f"Cause(reasons={self.reasons!r})"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return (Cause, (self.reasons,))

    @property
    def failures(self) -> tuple[_E_co, ...]:
        """The typed failures in the order of their occurrence."""
        return tuple(r.error for r in self.reasons if isinstance(r, Fail))

    @property
    def defects(self) -> tuple[BaseException, ...]:
        """The unexpected exceptions in the order of their occurrence."""
        return tuple(r.defect for r in self.reasons if isinstance(r, Die))

    @property
    def interrupted(self) -> bool:
        """True if the reasons contain a cancellation."""
        return any(isinstance(r, Interrupt) for r in self.reasons)

    def combine(self, other: Cause[_E2]) -> Cause[_E_co | _E2]:
        """Return the cause with the reasons of this cause and of `other`, in this order."""
        reasons: Any = self._reasons
        if reasons.__class__ is not _Joined and len(reasons) < _MANY:
            return Cause((*reasons, *other.reasons))
        return Cause(cast(Any, _Joined(self, other)))

    def whole(self) -> Cause[_E_co]:
        """Return this cause after it joined its reasons to a tuple, which msgspec can encode."""
        _ = self.reasons
        return self

    def besides_interruption(self) -> Cause[_E_co]:
        """Return the cause without interruptions. The remaining reasons come mostly from finalizers."""
        return Cause(tuple(r for r in self.reasons if not isinstance(r, Interrupt)))

    def map(self, f: Callable[[_E_co], _E2]) -> Cause[_E2]:
        """Return the cause with `f` applied to each typed failure."""
        return Cause(tuple(Fail(f(r.error)) if isinstance(r, Fail) else r for r in self.reasons))

    def squash(self) -> BaseException:
        """Return the most important reason as an exception: a failure, otherwise a defect, otherwise the interruption.

        A failure that is an exception stays unchanged. A `FailureError` wraps any other failure. The notes of the
        exception list the other reasons, so that no reason is lost.
        """
        gravest = min(self.reasons, key=_gravity, default=None)
        others = [reason for reason in self.reasons if reason is not gravest]
        chosen = self._raisable(gravest)
        note = f"{len(others)} more: {_list(others)}"
        if others and note not in getattr(chosen, "__notes__", ()):
            chosen.add_note(note)

        return chosen

    def _raisable(self, reason: Reason[Any] | None) -> BaseException:
        if isinstance(reason, Fail):
            error = reason.error
            return error if isinstance(error, BaseException) else FailureError(self)

        if isinstance(reason, Die):
            return reason.defect
        error = InterruptedProgramError("the program was interrupted")
        pass_on(reason, error)
        return error


def attach(error: BaseException, cause: AnyCause) -> None:
    """Store later failures, mostly of finalizers, with `error`, each once: in a note and for `attachment`."""
    known = attachment(error).reasons
    seen = {id(reason) for reason in known}
    new = tuple(reason for reason in cause.reasons if id(reason) not in seen)
    if new:
        vars(error)[_ATTACHED] = Cause((*known, *new))
        error.add_note(f"meanwhile: {_list(new)}")


def attachment(error: BaseException) -> AnyCause:
    """Return the cause that `attach` stored with the exception."""
    cause: AnyCause = vars(error).get(_ATTACHED, _NOTHING)
    return cause


def leave(end: BaseException | Interrupt, data: object) -> None:
    """Store the data of a stopped program with its end, for `left_in`. The data of an enclosing program replaces it."""
    vars(end)[_LEFT] = data


def left_in(end: object) -> object:
    """Return the data that `leave` stored with an exception, an interruption, or the failure of a timeout, or None."""
    return getattr(end, _LEFT, None)


def pass_on(end: object, later: object) -> None:
    """Store the data of an end also with a later end of the same program."""
    data = left_in(end)
    if data is not None:
        vars(later)[_LEFT] = data


_ATTACHED = "__fxai_attached__"
_LEFT = "__fxai_left__"
_NOTHING: AnyCause = Cause(())


_MANY = 64


class _Joined(msgspec.Struct, eq=False):
    """The reasons of two causes, joined on the first read. Joining them earlier would make many failures quadratic."""

    first: AnyCause
    second: AnyCause


def _gravity(reason: Reason[Any]) -> int:
    return 0 if isinstance(reason, Fail) else 1 if isinstance(reason, Die) else 2


_LISTED = 20  # reasons in a note


def _list(reasons: Sequence[Reason[Any]]) -> str:
    more = len(reasons) - _LISTED
    return "; ".join([*map(_words, reasons[:_LISTED]), *([f"and {more} more"] if more > 0 else [])])


def _words(reason: Fail[Any] | Die | Interrupt) -> str:
    match reason:
        case Fail(error):
            return f"failure {error!r}"
        case Die(defect):
            return f"defect {defect!r}"
        case Interrupt():
            return "interruption"


class FailureError(Exception):
    """The exception that `fx.run` raises for a typed failure that is not an exception. `cause` contains all reasons."""

    def __init__(self, cause: AnyCause) -> None:
        super().__init__(*cause.failures)
        self.cause = cause

    def __reduce__(self) -> tuple[type[FailureError], tuple[AnyCause]]:
        return (FailureError, (self.cause,))


class InterruptedProgramError(Exception):
    """The exception that `fx.run` raises if a program interrupts itself, without a cancellation of its task."""


class ForeignCancellationError(Exception):
    """The defect of a step that raised a cancellation although no scope and no task of the run requested one.

    `__cause__` is the `CancelledError`, or trio's `Cancelled`, as the step raised it.
    """

    @staticmethod
    def of(raised: BaseException) -> ForeignCancellationError:
        """Return the defect for an exception that a step raised."""
        error = ForeignCancellationError(
            f"a step raised {type(raised).__name__}, but no scope and no task of the run requested a cancellation. "
            "Catch the error at the `await` of the future or task that other code can cancel."
        )
        error.__cause__ = raised
        return error


_A = TypeVar("_A")
_A_co = TypeVar("_A_co", covariant=True)


@final
class Succeeded(msgspec.Struct, Generic[_A_co], frozen=True):
    """The exit of a program that succeeded with `value`."""

    value: _A_co
    """The value of the effect."""


@final
class Failed(msgspec.Struct, Generic[_E_co], frozen=True):
    """The exit of a program that did not succeed because of `cause`."""

    cause: Cause[_E_co]
    """The cause of the failure."""


Exit: TypeAlias = Succeeded[_A] | Failed[_E]

AnyExit: TypeAlias = "Exit[Any, Any]"
"""An exit of unknown types. The interpreter uses it."""

AnyCause: TypeAlias = "Cause[Any]"
"""A cause of any failures."""


def ending(error: BaseException | None) -> Exit[None, Never]:
    """Return the exit of a block of plain Python that raised `error`, or that raised no exception if it is None."""
    if error is None:
        return Succeeded(None)
    return Failed(Cause((Die(error) if isinstance(error, Exception) else Interrupt(),)))


def outcome(exit_: Exit[_A, _E]) -> Result[_A, _E]:
    """Return the exit as a `Result`. The first typed failure becomes a `Failure`.

    Raises:
        BaseException: The defect or the interruption, if the cause contains a defect or no typed failure. They are
            never values of a `Result`.
    """
    if isinstance(exit_, Succeeded):
        return Success(exit_.value)

    for reason in () if exit_.cause.defects else exit_.cause.reasons:
        if isinstance(reason, Fail):
            return Failure(reason.error)

    raise exit_.cause.squash()
