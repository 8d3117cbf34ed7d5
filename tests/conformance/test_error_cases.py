"""Errors: the conformance cases of the area `error.taxonomy`.

The cases name five reasons that are a tool's and not the model's or the wire's (`ToolNotFoundError`,
`ToolParameterValidationError`, `InvalidToolResultError`, `ToolResultEncodingError`, `ToolConfigurationError`): they are
failures of the floor of tools, and held there.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from fxai.messages import (
    AiError,
    AuthenticationError,
    ContentPolicyError,
    ContextOverflowError,
    GuardRefusalError,
    InternalProviderError,
    InvalidApprovalError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
    StructuredOutputError,
    ToolkitRequiredError,
    UnknownError,
    UnsupportedSchemaError,
)
from tests.kit.conformance import Case, case

_OF_TOOLS = {
    "ToolNotFoundError",
    "ToolParameterValidationError",
    "InvalidToolResultError",
    "ToolResultEncodingError",
    "ToolConfigurationError",
}
_OURS = {
    "RequestTimeoutError": True,
    "ContextOverflowError": False,
    "GuardRefusalError": False,
    "ModelUnavailableError": False,
    "InvalidApprovalError": False,
}
_EXAMPLES: tuple[Reason, ...] = (
    RateLimitError(),
    QuotaExhaustedError(),
    AuthenticationError("Unknown"),
    ContentPolicyError("d"),
    InvalidRequestError(),
    InternalProviderError(),
    NetworkError("TransportError"),
    InvalidOutputError("d"),
    StructuredOutputError("{}"),
    UnsupportedSchemaError("d"),
    UnknownError(),
    ToolkitRequiredError(("a",)),
    InvalidUserInputError("d"),
    InvalidApprovalError("a", "used"),
    RequestTimeoutError(),
    ContextOverflowError(),
    GuardRefusalError("g", "request"),
    ModelUnavailableError("m", "missing"),
)


def _named(reason: Reason) -> str:
    """The reason as the cases write it."""
    name = type(reason).__name__
    return f"{name}({reason.kind})" if isinstance(reason, AuthenticationError) else name


@case("error.taxonomy/145")
def test_which_reasons_can_be_retried(case: Case) -> None:
    """Each reason says whether asking again can help; of network errors only what got stuck on the way."""
    expected: dict[str, Any] = {**case.expect["isRetryable"], "NetworkError": True, **_OURS}

    assert {type(reason) for reason in _EXAMPLES} == set(get_args(Reason))
    assert {type(reason).__name__ for reason in _EXAMPLES} == (set(case.given["reasons"]) | set(_OURS)) - _OF_TOOLS
    for reason in _EXAMPLES:
        assert reason.is_retryable is expected[type(reason).__name__]
    assert not NetworkError("EncodeError").is_retryable
    assert not NetworkError("InvalidUrlError").is_retryable


@case("error.taxonomy/146")
def test_an_error_is_what_its_reason_is(case: Case) -> None:
    """The outer error delegates retryability, waiting time and message to its reason."""
    error = AiError(case.given["module"], case.given["method"], ContentPolicyError("d"))

    assert error.message == case.expect["message"]
    assert str(error) == f"{case.expect['message']}. {error.reason.advice}"
    assert error.retry_after is case.expect["retryAfter"]
    assert not error.is_retryable
    assert AiError("M", "f", RateLimitError(retry_after=7.0)).retry_after == 7.0


@case("error.taxonomy/147")
def test_what_an_http_status_means(case: Case) -> None:
    """Each status has its reason; 404, 409 and 422 are invalid requests and 408 can be retried, as the case notes."""
    expected = dict(zip(case.given["statuses"], case.expect["reasons"], strict=True))
    expected.update({404: "InvalidRequestError", 409: "InvalidRequestError", 422: "InvalidRequestError"})
    expected[408] = "RequestTimeoutError"

    assert {one: _named(AiError.from_status("M", "f", one).reason) for one in expected} == expected
    assert AiError.from_status("M", "f", 408).is_retryable


@case("error.taxonomy/148")
def test_the_messages(case: Case) -> None:
    """Messages say what is wrong; the first is a tool's. `str` adds the advice that a message does not hold yet."""
    reasons = (
        ToolkitRequiredError(("a", "b")),
        InvalidRequestError("p", "must be > 0", "d"),
        AuthenticationError("MissingKey"),
    )
    of_a_tool, *expected = case.expect["messages"]

    assert of_a_tool.startswith("Tool 'x' not found")
    assert [reason.message for reason in reasons[:2]] == expected[:2]
    assert str(reasons[2]) == expected[2]
    assert all(str(reason).startswith(text) for reason, text in zip(reasons, expected, strict=True))


@case("error.taxonomy/149")
def test_errors_are_tagged_json(case: Case) -> None:
    """An error is written with a tag for itself and one for its reason, and read back."""
    expected = case.expect["json"]
    error = AiError(expected["module"], expected["method"], ToolkitRequiredError(("a",)))
    written = json.loads(error.to_json())

    assert written == {**expected, "reason": {"_tag": "ToolkitRequiredError", "pending_approvals": ["a"]}}
    assert AiError.from_json(error.to_json()).unwrap() == error
    for reason in _EXAMPLES:
        assert AiError.from_data(AiError("M", "f", reason).to_data()).unwrap() == AiError("M", "f", reason)
