"""Exits: how a program ended.

>>> outcome(Succeeded(3)), outcome(Failed(Cause((Fail("no"),))))
(<Success: 3>, <Failure: no>)
"""

from __future__ import annotations

from typing import Generic, Never, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Fail, Interrupt

__all__ = ["Exit", "Failed", "Succeeded", "ending", "outcome"]

_A = TypeVar("_A")
_E = TypeVar("_E")
_A_co = TypeVar("_A_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)


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
