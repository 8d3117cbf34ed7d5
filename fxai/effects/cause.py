"""Exits and causes: how a program ended, and why it did not succeed.

An `Exit` is `Succeeded`, with a value, or `Failed`, with a `Cause`. There are three reasons for not succeeding, which
are never mixed: a typed failure (`Fail`), a defect, which is an exception that no type declares (`Die`), and an
interruption (`Interrupt`). A `Cause` holds every reason in the order in which they arose, so that a failure and a
finalizer that failed after it are both kept.

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
    """An expected failure: a value of the error channel."""

    error: _E_co


@final
class Die(msgspec.Struct, frozen=True):
    """A defect: an exception that no type declares, with its traceback."""

    defect: BaseException


@final
class Interrupt(msgspec.Struct, frozen=True):
    """The program was cancelled."""


Reason: TypeAlias = Fail[_E] | Die | Interrupt


@final
class Cause(msgspec.Struct, Generic[_E_co], frozen=True, eq=False):
    """Every reason why a program did not succeed, in the order they arose."""

    _reasons: tuple[Fail[_E_co] | Die | Interrupt, ...] = msgspec.field(name="reasons")  # or two causes, if many

    if not TYPE_CHECKING:
        __match_args__ = ("reasons",)  # checkers take the field's, of the same type

    @property
    def reasons(self) -> tuple[Fail[_E_co] | Die | Interrupt, ...]:
        """The reasons, first one first."""
        held: Any = self._reasons
        if held.__class__ is _Joined:
            msgspec.structs.force_setattr(self, "_reasons", self._flat())
        return self._reasons

    def _flat(self) -> tuple[Reason[Any], ...]:
        reasons: list[Reason[Any]] = []
        todo: list[Cause[Any]] = [self]
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
        """The typed failures, first one first."""
        return tuple(r.error for r in self.reasons if isinstance(r, Fail))

    @property
    def defects(self) -> tuple[BaseException, ...]:
        """The unexpected exceptions, first one first."""
        return tuple(r.defect for r in self.reasons if isinstance(r, Die))

    @property
    def interrupted(self) -> bool:
        """True when cancellation is among the reasons."""
        return any(isinstance(r, Interrupt) for r in self.reasons)

    def combine(self, other: Cause[_E2]) -> Cause[_E_co | _E2]:
        """The cause with the reasons of both, these first."""
        reasons: Any = self._reasons
        if reasons.__class__ is not _Joined and len(reasons) < _MANY:
            return Cause((*reasons, *other.reasons))
        return Cause(cast(Any, _Joined(self, other)))

    def whole(self) -> Cause[_E_co]:
        """This cause, once its reasons are put together: msgspec encodes it then."""
        _ = self.reasons
        return self

    def besides_interruption(self) -> Cause[_E_co]:
        """The cause without interruption: what else went wrong, in finalizers mostly."""
        return Cause(tuple(r for r in self.reasons if not isinstance(r, Interrupt)))

    def map(self, f: Callable[[_E_co], _E2]) -> Cause[_E2]:
        """The same cause, with each typed failure changed by `f`."""
        return Cause(tuple(Fail(f(r.error)) if isinstance(r, Fail) else r for r in self.reasons))

    def squash(self) -> BaseException:
        """The gravest reason as an exception: a failure, else a defect, else the interruption.

        A failure that is an exception is given as itself, any other one inside a `FailureError`. Reasons that
        are not the one given stand in the exception's notes, so that none is lost.
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

        return reason.defect if isinstance(reason, Die) else InterruptedProgramError("the program was interrupted")


def attach(error: BaseException, cause: Cause[Any]) -> None:
    """Keeps what failed while `error` passed, finalizers mostly: in a note, and for `attachment`; each reason once."""
    known = attachment(error).reasons
    seen = {id(reason) for reason in known}
    new = tuple(reason for reason in cause.reasons if id(reason) not in seen)
    if new:
        vars(error)[_ATTACHED] = Cause((*known, *new))
        error.add_note(f"meanwhile: {_list(new)}")


def attachment(error: BaseException) -> Cause[Any]:
    """What `attach` stored with the exception."""
    cause: Cause[Any] = vars(error).get(_ATTACHED, _NOTHING)
    return cause


_ATTACHED = "__fxai_attached__"
_NOTHING: Cause[Any] = Cause(())


_MANY = 64


class _Joined(msgspec.Struct, eq=False):
    """The reasons of two causes, joined when they are read: a tuple each time would make many failures quadratic."""

    first: Cause[Any]
    second: Cause[Any]


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
    """Raised by `fx.run` for a typed failure that is not an exception itself; `cause` holds all of it."""

    def __init__(self, cause: Cause[Any]) -> None:
        super().__init__(*cause.failures)
        self.cause = cause

    def __reduce__(self) -> tuple[type[FailureError], tuple[Cause[Any]]]:
        return (FailureError, (self.cause,))


class InterruptedProgramError(Exception):
    """Raised by `fx.run` when a program was interrupted from inside, with no cancellation of its task."""


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
    """The program gave `value`."""

    value: _A_co


@final
class Failed(msgspec.Struct, Generic[_E_co], frozen=True):
    """The program gave no value, because of `cause`."""

    cause: Cause[_E_co]


Exit: TypeAlias = Succeeded[_A] | Failed[_E]


def ending(error: BaseException | None) -> Exit[None, Never]:
    """The exit of a block of plain Python that was left by `error`, or by none."""
    if error is None:
        return Succeeded(None)
    return Failed(Cause((Die(error) if isinstance(error, Exception) else Interrupt(),)))


def outcome(exit_: Exit[_A, _E]) -> Result[_A, _E]:
    """The exit as a `Result`: the first typed failure is a `Failure`.

    Raises:
        BaseException: the defect or the interruption, when there is no typed failure: they are never values here.
    """
    if isinstance(exit_, Succeeded):
        return Success(exit_.value)

    for reason in () if exit_.cause.defects else exit_.cause.reasons:
        if isinstance(reason, Fail):
            return Failure(reason.error)

    raise exit_.cause.squash()
