"""What goes wrong with a host, in words for people, and as the reason of a model's failure."""

from __future__ import annotations

from typing import Any

from fxai.messages import (
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    Reason,
    RequestTimeoutError,
    UnknownError,
)
from fxai.providers.host import HostFailure, HostProblem
from fxai.providers.host.host import reason_of
from tests.kit.every import every

_AFTER = {"retryable": True, "retry_after": 2.0}


@every(
    ("problem", "more", "helps", "message", "reason"),
    [
        ("not-found", {}, False, "cannot be started: so", ModelUnavailableError("it", "missing", "{}")),
        ("refused", {}, False, "rejected its params: so", InvalidRequestError("params", None, "{}")),
        ("invalid-input", {}, False, "cannot receive this request: so", InvalidUserInputError("{}")),
        ("ended", {"exit_code": 3}, True, "ended (exit code 3): so", InternalProviderError("{}")),
        ("ended", {"exit_code": 0}, True, "ended (exit code 0): so", InternalProviderError("{}")),
        ("timeout", {"seconds": 1.5}, True, "did not answer in time (1.5 s): so", RequestTimeoutError(1.5, "{}")),
        ("invalid-output", {}, True, "violated the protocol: so", InvalidOutputError("{}")),
        ("too-much", {}, False, "exceeded a size limit: so", InvalidOutputError("{}")),
        ("reported", {}, False, "reported an error: so", UnknownError("{}")),
        ("reported", _AFTER, True, "reported an error: so", InternalProviderError("{}", retry_after=2.0)),
    ],
)
def test_each_problem_is_told_in_words_and_as_a_reason(
    problem: HostProblem, more: Any, helps: bool, message: str, reason: Any
) -> None:
    """The message has the code or the seconds where they are known; the reason carries it, and whether to try again."""
    failure = HostFailure("it", problem, "so", **more)
    told = f"Program 'it' {message}"
    expected: Reason = type(reason)(
        **{name: told if getattr(reason, name) == "{}" else getattr(reason, name) for name in reason.__struct_fields__}
    )

    assert (failure.message, failure.is_retryable) == (told, helps)
    assert reason_of(failure) == expected
    assert str(failure) == f"{told}. {failure.advice}"
    assert len(failure.advice) > len("See what")


def test_the_end_of_stderr_is_told_and_no_more_of_it() -> None:
    """What a program wrote to stderr stands behind the message, its last 500 characters; without any, no word of it."""
    failure = HostFailure("it", "ended", stderr=f"begin{'x' * 499}y\n")

    assert failure.full_message == f"Program 'it' ended; its stderr ends: {'x' * 499}y"
    assert HostFailure("it", "ended", stderr=" \n").full_message == "Program 'it' ended"
    assert "stderr" not in failure.message
