"""Errors: values that say where, what and what to do; and what an HTTP answer means."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, get_args

import pytest

from fxai.messages import (
    AiError,
    AuthenticationError,
    ContentPolicyError,
    ContextOverflowError,
    InternalProviderError,
    InvalidApprovalError,
    InvalidOutputError,
    InvalidRequestError,
    ModelUnavailableError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
    StructuredOutputError,
    UnknownError,
    UnsupportedSchemaError,
)
from fxai.messages.errors import error_in, reason_of_body
from tests.kit.every import every


def _reason(status: int, body: object = None, **headers: str) -> Reason:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return AiError.from_status("Acme", "generate_text", status, body, named).reason


def test_an_error_is_a_value() -> None:
    """Errors compare, have a hash, can be pickled and are no exceptions."""
    error = AiError("Acme", "generate_text", RateLimitError("slow down", retry_after=7.5))

    assert error == AiError("Acme", "generate_text", RateLimitError("slow down", retry_after=7.5))
    assert error != AiError("Acme", "generate_text", RateLimitError("slow down"))
    assert len({error, pickle.loads(pickle.dumps(error))}) == 1
    assert BaseException not in AiError.__mro__


def test_every_reason_has_a_message_and_advice() -> None:
    """No reason is silent, each puts its advice behind its message, and its name is its tag."""
    given: dict[str, Any] = {"model": "m", "problem": "missing", "text": "t", "description": "d"}
    given |= {"pending_approvals": ("d",), "approval_id": "a", "guard": "g", "at": "request"}
    kinds = {AuthenticationError: "ExpiredKey", NetworkError: "EncodeError"}
    for kind in get_args(Reason):
        fields = {name: value for name, value in given.items() if name in kind.__struct_fields__}
        fields |= {"problem": "used"} if kind is InvalidApprovalError else {}
        fields |= {"kind": kinds[kind]} if kind in kinds else {}
        reason: Reason = kind(**fields)

        assert "d" in reason.message
        assert str(reason) == f"{reason.message}. {reason.advice}"
        assert reason.advice
        assert AiError("M", "f", reason).to_data()["reason"]["_tag"] == kind.__name__


@every(
    ("reason", "message"),
    [
        (InvalidRequestError(), "Invalid request"),
        (InvalidRequestError("p"), "Invalid request: parameter 'p'"),
        (InvalidRequestError(description="d"), "Invalid request: d"),
        (InternalProviderError("d", 529, overloaded=True), "Provider overloaded (status 529): d"),
        (NetworkError("TransportError", "reset by peer"), "TransportError: The connection failed: reset by peer"),
        (RequestTimeoutError(2.5), "No answer within 2.5 s"),
        (RequestTimeoutError(), "No answer in time"),
        (
            StructuredOutputError("{}", "/a", "expected integer"),
            "The answer does not fit its schema at /a: expected integer",
        ),
        (
            StructuredOutputError("{}", "/a/0", "/a/0: expected integer, found null; /b: expected a string"),
            "The answer does not fit its schema: /a/0: expected integer, found null; /b: expected a string",
        ),
        (
            StructuredOutputError("{}", "/a", "/a/0: expected integer, found null"),
            "The answer does not fit its schema at /a: /a/0: expected integer, found null",
        ),
        (
            InvalidOutputError("the item at /output: no list", "/output"),
            "Invalid output: the item at /output: no list",
        ),
        (
            UnsupportedSchemaError("the tool 't' is strict, and there is no form: /a: type: anything", "/a", "type"),
            "Unsupported schema (keyword 'type'): the tool 't' is strict, and there is no form: /a: type: anything",
        ),
        (
            UnsupportedSchemaError("no recursion", "/$defs/T", "$ref"),
            "Unsupported schema at /$defs/T (keyword '$ref'): no recursion",
        ),
        (ContextOverflowError(900, 512), "Context window full, 900 tokens, limit 512"),
        (ModelUnavailableError("m", "checksum"), "Model 'm' is unavailable: the file is not the expected file"),
        (UnknownError(status=402), "Unknown error (status 402)"),
    ],
)
def test_messages_say_what_is_known(reason: Reason, message: str) -> None:
    """A message holds what the reason knows, and no gap for what it does not."""
    assert reason.message == message


def test_advice_says_how_long_to_wait() -> None:
    """Where the provider said when to come back, the advice says it too."""
    assert "Wait 7 s" in RateLimitError(retry_after=7.0).advice
    assert "Wait a while" in RateLimitError().advice


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"_tag": "AiError", "module": "M", "method": "f", "reason": {"_tag": "Nonsense"}}, "/reason/_tag"),
        ({"_tag": "AiError", "module": "M", "method": "f"}, "/reason"),
        ({"_tag": "AiError", "module": 3, "method": "f", "reason": {"_tag": "UnknownError"}}, "/module"),
    ],
)
def test_what_is_no_error_is_a_failure_with_a_place(data: object, pointer: str) -> None:
    """An unknown reason, a missing or a wrong field point at their place."""
    assert [fault.pointer for fault in AiError.from_data(data).failure().faults] == [pointer]
    assert [fault.pointer for fault in AiError.from_json(json.dumps(data)).failure().faults] == [pointer]


@every(
    ("status", "body", "kind"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "m"}}, QuotaExhaustedError),
        (429, {"error": {"type": "rate_limit_error", "message": "m"}}, RateLimitError),
        (
            400,
            {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
            QuotaExhaustedError,
        ),
        (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, ContextOverflowError),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
            ContextOverflowError,
        ),
        (400, {"error": {"code": "content_policy_violation", "message": "m"}}, ContentPolicyError),
        (
            404,
            {"error": {"code": "model_not_found", "message": "The model `x-1` does not exist"}},
            ModelUnavailableError,
        ),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x-1"}}, ModelUnavailableError),
        (404, {"error": {"message": "no such file"}}, InvalidRequestError),
        (504, None, RequestTimeoutError),
        (599, None, InternalProviderError),
        (418, None, UnknownError),
    ],
)
def test_the_body_refines_the_status(status: int, body: object, kind: type[Reason]) -> None:
    """Codes and words that providers put into the body tell what the status alone does not."""
    written = json.dumps(body)

    assert type(_reason(status, body)) is kind
    assert type(_reason(status, written)) is kind
    assert type(_reason(status, written.encode())) is kind


def test_an_unknown_model_is_named() -> None:
    """The name is read from what the provider said of it."""
    said = _reason(404, {"error": {"code": "model_not_found", "message": "The model `x-1` does not exist"}})

    assert isinstance(said, ModelUnavailableError)
    assert said.model == "x-1"


def test_an_invalid_request_names_its_parameter() -> None:
    """The parameter that the provider blames is in the reason and in the message."""
    assert _reason(400, {"error": {"message": "m", "param": "tools[0]"}}) == InvalidRequestError("tools[0]", None, "m")
    assert _reason(400, {"error": {"message": "m", "param": 3}}) == InvalidRequestError(None, None, "m")


@every(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"Retry_After": "0.5"}, 0.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "Fri, 02 Jan 2026 12:00:09 GMT", "date": "Fri, 02 Jan 2026 12:00:00 GMT"}, 9.0),
        ({"retry_after": "Fri, 02 Jan 2026 11:00:00 GMT", "date": "Fri, 02 Jan 2026 12:00:00 GMT"}, 0.0),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "Fri, 02 Jan 2026 12:00:09 GMT"}, 0.0),
        ({"retry_after": "2026-01-02T12:00:09Z", "date": "Fri, 02 Jan 2026 12:00:00 GMT"}, 9.0),
        ({"retry_after": "1m30s"}, 90.0),
        ({"retry_after": "7.5s"}, 7.5),
        ({"retry_after": "250 ms"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds and dates against the answer's own date; nonsense is as if nothing was said."""
    assert _reason(429, None, **headers).retry_after == seconds
    assert _reason(503, None, **headers).retry_after == seconds


def test_a_date_without_the_date_of_the_answer_is_compared_with_the_clock() -> None:
    """A date in the future asks to wait, and a date in the past does not."""
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    wait = _reason(503, None, retry_after=later).retry_after

    assert wait is not None
    assert 0 < wait <= 3600


@every(
    ("status", "advice", "expected"),
    [
        (409, None, True),
        (409, "false", False),
        (400, None, False),
        (400, "true", True),
        (422, " True ", True),
        (429, "false", False),
        (500, "false", False),
        (500, "maybe", True),
        (529, None, True),
        (408, None, True),
        (504, "true", True),
    ],
)
def test_the_server_advises_about_a_retry(status: int, advice: str | None, expected: bool) -> None:
    """`x-should-retry` wins over the status. A conflict (409) can pass, as the official SDKs assume."""
    reason = _reason(status, None, **({} if advice is None else {"X_Should_Retry": advice}))

    assert reason.is_retryable is expected
    assert ("retry" in reason.advice.lower()) or not expected
    assert AiError.from_json(AiError("m", "ask", reason).to_json()).unwrap().is_retryable is expected


@every(
    ("words", "seconds"),
    [
        ("Rate limit reached for gpt-5.5 on tokens per min: Limit 30000. Please try again in 7.66s.", 7.66),
        ("Please try again in 1m12.5s. Visit https://example.com/limits.", 72.5),
        ("Please try again in 850ms.", 0.85),
        ("Try again in 20 seconds", 20.0),
        ("Please retry after 6 seconds.", 6.0),
        ("Please retry in 13.58s", 13.58),
        ("Rate limited; wait 2 minutes and 5 seconds", 125.0),
        ("You can try again in about 1 hour", 3600.0),
        ("Too many requests, retry after 20.", 20.0),
        ("try again after 3 attempts", None),
        ("The limit is 7 requests in 30 seconds.", None),
        ("Slow down.", None),
    ],
)
def test_the_words_of_an_error_state_how_long_to_wait(words: str, seconds: float | None) -> None:
    """In the body of a status, and in the body of a 200 or an event; a header wins over the words."""
    assert _reason(429, {"error": {"message": words}}).retry_after == seconds
    assert reason_of_body({"error": {"code": 429, "message": words}}).retry_after == seconds
    assert _reason(429, {"error": {"message": words}}, retry_after="3").retry_after == 3.0
    assert _reason(400, {"error": {"message": words}}).retry_after is None


@every(
    ("error", "seconds"),
    [
        ({"code": 429, "retry_after": 4}, 4.0),
        ({"code": 429, "retry_after_ms": 1500}, 1.5),
        ({"code": 429, "metadata": {"headers": {"Retry-After": "9"}}}, 9.0),
        ({"code": 429, "details": [{"@type": "x"}, {"retryDelay": "13s"}]}, 13.0),
        ({"code": 429, "retry_after": True, "details": {}, "metadata": [1]}, None),
    ],
)
def test_a_field_of_an_error_states_how_long_to_wait(error: dict[str, Any], seconds: float | None) -> None:
    """Routers repeat headers, and Google's servers write a duration."""
    assert reason_of_body({"error": error}).retry_after == seconds


@every(
    ("error", "kind", "again"),
    [
        ("upstream connection lost", InternalProviderError, True),
        ("Too many requests", RateLimitError, True),
        ("The model is overloaded", InternalProviderError, True),
        ("Request timed out", RequestTimeoutError, True),
        ("no", InternalProviderError, True),
        ({"message": "upstream lost", "code": 502}, InternalProviderError, True),
        ({"message": "m", "code": "503"}, InternalProviderError, True),
        ({"message": "m", "status_code": 529}, InternalProviderError, True),
        ({"message": "m", "type": "overloaded_error"}, InternalProviderError, True),
        ({"message": "m", "type": "upstream_error"}, InternalProviderError, True),
        ({"message": "m", "code": "engine_overloaded"}, InternalProviderError, True),
        ({"message": "m", "code": "RESOURCE_EXHAUSTED"}, RateLimitError, True),
        ({"message": "m", "code": "gateway_timeout"}, RequestTimeoutError, True),
        ({"message": "m", "type": "invalid_request_error"}, InvalidRequestError, False),
        ({"message": "m", "type": "conflict_error"}, InvalidRequestError, True),
        ({"message": "m", "type": "authentication_error"}, AuthenticationError, False),
        ({"message": "m", "code": "insufficient_quota"}, QuotaExhaustedError, False),
        ({"message": "m", "code": "cyber_policy"}, ContentPolicyError, False),
    ],
)
def test_an_error_without_status_is_typed(error: object, kind: type[Any], again: bool) -> None:
    """The code or the words of an error in a 200 decide which reason it is, and whether a retry can help."""
    for body in ({"error": error}, error):
        reason = reason_of_body(body)

        assert isinstance(reason, kind)
        assert reason.is_retryable is again


@every(
    ("answer", "is_error"),
    [
        ({"choices": []}, False),
        ({"choices": [], "message": "usage"}, False),
        ({"choices": [], "error": {"message": "m"}}, True),
        ({"error": "m"}, True),
        ({"object": "error", "message": "m", "code": 40303}, True),
        ({"type": "error", "message": "m"}, True),
        ({"detail": "no worker"}, True),
        ({"message": "no worker", "success": False}, True),
        ({"errors": [{"message": "m"}], "success": False}, True),
        ({"id": "x"}, False),
        ({}, False),
    ],
)
def test_an_answer_without_content_is_an_error(answer: dict[str, Any], is_error: bool) -> None:
    """Servers write errors of status 200 in many forms; content is never taken for one."""
    assert (error_in(answer, "choices") is not None) is is_error


@every(
    ("body", "words"),
    [
        (b"\xff\xfe", "Internal provider error (status 500): "),
        (b"", "Internal provider error (status 500)"),
        ("<html>\n  Bad   gateway</html>", "<html> Bad gateway</html>"),
        ({"error": "overloaded just now"}, "overloaded just now"),
        ({"message": "flat"}, "flat"),
        ([1, 2], "Internal provider error (status 500)"),
        ("[" * 100_000, "Internal provider error (status 500): [["),
        (json.dumps({"error": {"message": "m" * 10_000}}), "m" * 400),
    ],
)
def test_any_body_gives_a_short_description(body: object, words: str) -> None:
    """Bytes that are no text, markup, JSON of any form and endless words are taken without harm and cut short."""
    message = _reason(500, body).message

    assert words in message
    assert "\n" not in message
    assert len(message) < 700


def test_both_ends_of_a_long_message_are_kept() -> None:
    """What was left out of its middle is counted."""
    message = _reason(500, {"error": {"message": "wrong: " + "m" * 1000 + " do this"}}).message

    assert "wrong: m" in message
    assert message.endswith("mmm do this")
    assert " (515 characters omitted) " in message


def test_the_request_id_is_in_the_message() -> None:
    """What the provider's support will ask for is there."""
    assert _reason(500, {"error": {"message": "m"}}, X_Request_Id="req_1").message.endswith("m (request req_1)")
    assert _reason(500, None, request_id="req_2").message.endswith("(request req_2)")


def test_a_reason_says_the_providers_code_and_the_id_of_the_request() -> None:
    """The code, else the type; the id from a header, else from the body, and in the message: support asks for it."""
    body = {"error": {"code": "invalid_value", "type": "invalid_request_error", "message": "m"}, "request_id": "req_1"}
    reason = _reason(400, body)
    bare = _reason(500, {"error": {"type": "api_error", "code": None, "message": "m"}})

    assert (reason.code, reason.request_id) == ("invalid_value", "req_1")
    assert "(request req_1)" in str(reason)
    assert (bare.code, bare.request_id) == ("api_error", None)
    assert _reason(500, {"error": {"code": [1], "type": True, "message": "m"}, "request_id": {}}).code is None
    assert AiError.from_json(AiError("m", "ask", reason).to_json()).unwrap().reason == reason


def test_codes_of_any_length_are_read_once() -> None:
    """A server may write anything there: it is cut before it is searched, and what is no name is left out."""
    body: object = {"error": {"message": "x", "type": "not_found_error " * 60_000, "code": {"deep": 1}}}
    reason = _reason(404, body)

    assert isinstance(reason, InvalidRequestError)
    assert reason.code is not None
    assert len(reason.code) <= 500
