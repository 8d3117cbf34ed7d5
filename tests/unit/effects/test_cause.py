"""Causes and exits: why and how a program ended."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from returns.result import Failure, Success

from fxai.effects import Cause, Die, Fail, Failed, FailureError, Interrupt, InterruptedProgramError, Succeeded
from fxai.effects.cause import ending, outcome
from tests.kit.journal import Lost


class LostError(Exception):
    """A typed failure that is an exception."""


def test_a_cause_keeps_its_kinds_of_reasons_apart_and_in_order() -> None:
    """Failures, defects and interruption are asked for one by one, each in the order they arose."""
    bug, other = ValueError("bug"), KeyError("other")
    cause = Cause((Fail("a"), Die(bug), Interrupt(), Fail("b"), Die(other)))

    assert cause.failures == ("a", "b")
    assert cause.defects == (bug, other)
    assert cause.interrupted
    assert not Cause((Fail("a"),)).interrupted


def test_combining_keeps_every_reason() -> None:
    """`combine` loses nothing: these reasons, then the other's."""
    one, two = Cause((Fail("a"), Interrupt())), Cause((Fail("b"),))

    assert one.combine(two).reasons == (Fail("a"), Interrupt(), Fail("b"))


def test_mapping_changes_typed_failures_only() -> None:
    """`map` leaves defects and interruption as they are."""
    bug = ValueError("bug")

    assert Cause((Fail(1), Die(bug), Interrupt())).map(str).reasons == (Fail("1"), Die(bug), Interrupt())


def test_causes_and_exits_are_values() -> None:
    """They are frozen, compare by content, hash and pickle."""
    failed = Failed(Cause((Fail(Lost("key")), Interrupt())))

    assert pickle.loads(pickle.dumps(failed)) == failed
    assert len({failed, Failed(Cause((Fail(Lost("key")), Interrupt())))}) == 1
    assert len({Succeeded(1), Succeeded(1), Succeeded(2)}) == 2
    with pytest.raises(AttributeError):
        setattr(failed, "cause", None)  # noqa: B010


@pytest.mark.parametrize(
    "reasons", [(Fail(LostError("x")), Die(ValueError())), (Interrupt(), Die(ValueError()), Fail(LostError("x")))]
)
def test_a_failure_is_graver_than_a_defect_and_than_an_interruption(reasons: tuple[Any, ...]) -> None:
    """`squash` gives the failure wherever it stands; an exception is given as itself."""
    cause: Cause[Any] = Cause(reasons)

    assert cause.squash() is cause.failures[0]


def test_a_failure_that_is_no_exception_is_carried_by_one() -> None:
    """`FailureError` holds the whole cause and can be pickled."""
    cause = Cause((Fail(Lost("key")),))
    error = cause.squash()

    assert isinstance(error, FailureError)
    assert error.cause == cause
    assert pickle.loads(pickle.dumps(error)).cause == cause


def test_a_defect_is_graver_than_an_interruption() -> None:
    """Without a failure `squash` gives the defect, without one of these the interruption."""
    bug = ValueError("bug")

    assert Cause((Interrupt(), Die(bug))).squash() is bug
    assert isinstance(Cause((Interrupt(),)).squash(), InterruptedProgramError)
    assert isinstance(Cause(()).squash(), InterruptedProgramError)


def test_what_is_not_raised_is_told_in_the_notes_once() -> None:
    """The notes of the squashed exception tell each other reason, and squashing again repeats nothing."""
    bug = ValueError("bug")
    bug.add_note("the user's own")
    cause: Cause[str] = Cause((Interrupt(), Die(bug), Die(KeyError("late"))))

    cause.squash()
    cause.squash()

    assert bug.__notes__ == ["the user's own", "2 more: interruption; defect KeyError('late')"]


def test_a_lone_reason_gets_no_note() -> None:
    """Nothing is said of other reasons where there are none."""
    error = Cause((Fail(LostError("x")),)).squash()

    assert not hasattr(error, "__notes__")


def test_the_outcome_of_an_exit_is_a_result() -> None:
    """Success is `Success`, the first typed failure is `Failure`."""
    assert outcome(Succeeded(3)) == Success(3)
    assert outcome(Failed(Cause((Interrupt(), Fail("a"), Fail("b"))))) == Failure("a")


def test_defects_and_interruption_are_no_results() -> None:
    """`outcome` raises what is no typed failure."""
    with pytest.raises(ZeroDivisionError):
        outcome(Failed(Cause((Die(ZeroDivisionError()),))))
    with pytest.raises(InterruptedProgramError):
        outcome(Failed(Cause((Interrupt(),))))


def test_the_ending_of_a_block_of_python() -> None:
    """No error is success, an exception a defect, anything graver an interruption."""
    bug = ValueError("bug")

    assert ending(None) == Succeeded(None)
    assert ending(bug) == Failed(Cause((Die(bug),)))
    assert ending(KeyboardInterrupt()) == Failed(Cause((Interrupt(),)))


def test_failures_serialise() -> None:
    """A cause of structs goes through msgspec, since it is made of them."""
    assert msgspec.json.encode(Cause((Fail(Lost("key")),))) == b'{"reasons":[{"error":{"what":"key"}}]}'
