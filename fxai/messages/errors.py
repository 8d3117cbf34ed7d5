"""Errors of models and of their requests: the wrapper `AiError` with a closed set of reasons.

    AiError(module, method, reason)
    │
    ├── RateLimitError            retryable   too many requests or tokens in a period
    ├── QuotaExhaustedError                   the account has no remaining quota
    ├── AuthenticationError                   the key: missing, invalid, expired, not permitted
    ├── ContentPolicyError                    refused for its content
    ├── InvalidRequestError                   the request is invalid
    ├── InternalProviderError     retryable   the provider failed or is overloaded
    ├── NetworkError              retryable   a connection failed; not retryable if fxai could not write the request
    ├── RequestTimeoutError       retryable   no complete answer in time
    ├── InvalidOutputError        retryable   the provider sent invalid data
    ├── StructuredOutputError     retryable   the answer does not satisfy the requested schema
    ├── UnsupportedSchemaError                found before the request
    ├── ToolkitRequiredError                  approvals without their tools
    ├── InvalidApprovalError                  an untrusted answer to an approval request
    ├── InvalidUserInputError                 a part of the prompt cannot be sent
    ├── ContextOverflowError                  prompt and answer exceed the context window of the model
    ├── GuardRefusalError                     a guard of the program refused the request or the answer
    ├── ModelUnavailableError                 the model is unknown, or not on this machine
    └── UnknownError                          any other error

Errors are values: frozen, comparable, hashable, with a tagged JSON form that fxai can read back. For failures of tools,
see `fxai.tools`.

>>> error = AiError("Acme", "generate_text", RateLimitError(retry_after=7.0))
>>> print(error)
Acme.generate_text: Rate limit exceeded. Wait 7 s and retry, or send fewer requests at a time
>>> AiError.from_json(error.to_json()).unwrap() == error
True
>>> reason_of_status(400, b'{"error": {"code": "context_length_exceeded", "message": "too long"}}', {}).message
'Context window full: too long'
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from returns.result import Result

from fxai.messages.reason import (
    AuthenticationError,
    ContentPolicyError,
    ContextOverflowError,
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    ModelUnavailableError,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
    UnknownError,
)
from fxai.schema.codec import Schema
from fxai.schema.data import JSON_ERRORS
from fxai.schema.fault import DecodeFailure


class AiError(msgspec.Struct, frozen=True, tag_field="_tag", tag="AiError", forbid_unknown_fields=True):
    """An error of a model or of its request. A run of an agent fails with a subclass that contains its history."""

    module: str
    """The provider or the service that reports it, such as "OpenAI"."""
    method: str
    """The operation that failed, such as "generate_text"."""
    reason: Reason
    """The reason from a closed set. Use `match` to distinguish the reasons."""

    @property
    def is_retryable(self) -> bool:
        """True if the same request can succeed later, as the reason states."""
        return self.reason.is_retryable

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry, or None if the provider did not state them."""
        return self.reason.retry_after

    @property
    def message(self) -> str:
        """The location and the error in one line. `str(error)` adds the advice."""
        return f"{self.module}.{self.method}: {self.reason.message}"

    @property
    def advice(self) -> str:
        """The remedy in one line."""
        return self.reason.advice

    def __str__(self) -> str:
        return f"{self.module}.{self.method}: {self.reason}"

    def to_data(self) -> dict[str, Any]:
        """Return the error as a JSON value: `{"_tag": "AiError", "module", "method", "reason": {"_tag", …}}`."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def to_json(self) -> str:
        """Return the error as a JSON string, in the form of `to_data`."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_data(data: object) -> Result[AiError, DecodeFailure]:
        """Return the error from a JSON value of `to_data`.

        Fails with:
            DecodeFailure: If the value does not have this form. It contains JSON pointers.
        """
        return Schema.of(AiError).decode(data)

    @staticmethod
    def from_json(text: str | bytes) -> Result[AiError, DecodeFailure]:
        """Return the error from a JSON string of `to_json`.

        Fails with:
            DecodeFailure: If the string is not JSON or does not have this form. It contains JSON pointers.
        """
        return Schema.of(AiError).decode_json(text)

    @staticmethod
    def from_status(
        module: str, method: str, status: int, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AiError:
        """Return the error of an HTTP response.

        The function maps the status codes of RFC 9110. Error codes in the body refine the reason: an exhausted quota, a
        full context, refused content, or an unknown model. It reads all forms of `retry-after`.

        Args:
            module: The provider or the service that reports it.
            method: The operation that failed.
            status: The HTTP status, at least 400.
            body: The body as bytes, text, or parsed JSON. Default: None.
            headers: The headers, with names in upper or lower case. Default: None.

        >>> AiError.from_status("Acme", "generate_text", 429, headers={"Retry-After": "7"}).retry_after
        7.0
        """
        return AiError(module, method, reason_of_status(status, body, headers or {}))


# ---- the reason of an HTTP response

_LONGEST = 500
_LONGEST_START = 400
# patterns as strings, because the compilation of all of them takes 3 ms at the import, and `re` caches each
_QUOTA = "(?i)insufficient_quota|insufficient_balance|billing|credit balance"
_OVERFLOW = "(?i)context_length_exceeded|context_window|maximum context length|prompt is too long|exceed_context_size"
_POLICY = "(?i)content_policy|content_filter|ResponsibleAIPolicyViolation"
_NO_MODEL = r"(?i)model_not_found|model_not_available|not_found_error.*\bmodel\b"
_MODEL_NAME = r"(?i)model:? [`'\"]?([\w./:@-]*\w)"


class _ErrorBody(msgspec.Struct, frozen=True):
    """The body of an error: its text for people, its codes, and the parameter or output that it names."""

    description: str = ""
    codes: str = ""
    parameter: str | None = None
    written: str | None = None
    code: str | None = None
    request: str | None = None
    wait: float | None = None


def reason_of_status(status: int, body: object, headers: Mapping[str, str]) -> Reason:
    """Return the reason of a response with a status of at least 400, from its original body and headers.

    The headers `retry-after`, `retry-after-ms`, and `x-should-retry` state advice about a retry. Without them, the text
    of the error can contain the time to wait.
    """
    named = {name.lower(): value for name, value in headers.items()}
    error = _read(body, named)
    reason = _of_codes(status, error) or _of_status(status, error)
    advised = _ADVICE.get(named.get("x-should-retry", "").strip().lower())
    about = {"should_retry": advised, "code": error.code, "request_id": error.request}
    known: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
    reason = msgspec.structs.replace(reason, **known) if known else reason
    wait = retry_after_of(named)
    wait = error.wait if wait is None and reason.is_retryable else wait
    return reason if wait is None else msgspec.structs.replace(reason, retry_after=wait)


_ADVICE: Mapping[str, bool] = {"true": True, "false": False}


# -- errors without a status: in the body of a 200, in a choice, in an event

_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "api_error": 500,
    "overloaded": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_REFUSALS = frozenset(("bio_policy", "misalignment_policy_violation", "cyber_policy"))
_OUTAGES: tuple[tuple[str, int], ...] = (
    ("(?i)rate.?limit|too.?many.?requests|throttl|resource.?exhausted", 429),
    ("(?i)overload|unavailable|capacity|insufficient.?system.?resource|busy", 503),
    ("(?i)time.?out|timed.out|deadline.?exceeded", 504),
    (r"(?i)upstream|gateway|network|internal|server.?error|connection|abort(?:ed)?\b", 500),
)


def reason_of_body(body: object, otherwise: int | None = None, headers: Mapping[str, str] = {}) -> Reason:
    """Return the reason of an error without a status, by its code or otherwise by its text.

    Args:
        body: The object that contains the error under `error`, or the error itself: an object or a string.
        otherwise: The status for an unknown code. Default: 400.
        headers: The headers of the response with advice about a retry. Default: no headers.

    >>> reason_of_body({"error": {"code": "rate_limit_exceeded", "message": "Try again in 7.66s."}}).retry_after
    7.66
    >>> reason_of_body({"error": "the upstream server is lost"}).is_retryable
    True
    """
    whole = _mapping(body)
    inner = whole.get("error") or body
    fields = _mapping(inner)
    given = [fields.get(key) for key in _CODES]
    number = next((status for one in given if (status := _status_number(one)) is not None), None)
    code = next((one for one in given if isinstance(one, str) and one not in ("", "error")), None)
    if code is not None and (code in _REFUSALS or code.endswith("_policy_violation")):
        return ContentPolicyError(_words(fields))
    words = code or _words(fields) or str(inner)
    outage = next((status for pattern, status in _OUTAGES if re.search(pattern, words)), None)
    status = number or _STATUSES.get(code or "") or outage
    status = status or (500 if code is None else otherwise or 400)
    about = {key: value for key, value in whole.items() if key == "request_id"}
    return reason_of_status(status, {"error": inner, **about}, headers)


_CODES = ("code", "type", "status", "status_code")


def _status_number(code: object) -> int | None:
    """Return the HTTP status in a code, or None. A number that is not an error status counts as 500."""
    if isinstance(code, int) and not isinstance(code, bool):
        return code if 400 <= code < 600 else 500
    return int(code) if isinstance(code, str) and re.fullmatch(r"[45]\d\d", code) else None


def error_in(answer: Mapping[str, Any], *content: str) -> object:
    """Return the error that an answer contains instead of its content, or None.

    Args:
        answer: The answer or the event.
        content: The names of the members that contain the content of an answer.

    >>> error_in({"error": None, "choices": []}, "choices"), error_in({"detail": "no worker is left"}, "choices")
    (None, {'detail': 'no worker is left'})
    """
    if answer.get("error"):
        return answer["error"]
    if answer.get("object") == "error" or answer.get("type") == "error":
        return answer
    if any(answer.get(name) is not None for name in content):
        return None
    errors = answer.get("errors")
    if isinstance(errors, list) and errors:
        return cast("list[object]", errors)[0]
    return answer if any(isinstance(answer.get(name), str) and answer[name] for name in _MESSAGES) else None


_BROKEN_OFF: Mapping[str, int] = {
    "error": 500,
    "server_error": 500,
    "model_error": 500,
    "network_error": 500,
    "abort": 500,
    "insufficient_system_resource": 503,
}


def error_of_finish(reason: object) -> object:
    """Return the error for a finish reason that states that the server interrupted the answer, or None.

    >>> reason_of_body(error_of_finish("insufficient_system_resource")).overloaded
    True
    >>> error_of_finish("stop") is None
    True
    """
    if not isinstance(reason, str) or reason not in _BROKEN_OFF:
        return None
    message = f"the server ended the answer with the reason {reason!r}"
    return {"code": reason, "status_code": _BROKEN_OFF[reason], "message": message}


# -- the time to wait

_UNITS: Mapping[str, float] = {"m": 60.0, "s": 1.0, "h": 3600.0, "d": 86_400.0}
_UNIT = r"(?:milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)(?![a-z])"
_AMOUNT = rf"(\d+(?:\.\d+)?)\s*({_UNIT})"
_DURATION = f"(?i){_AMOUNT}"
_WAIT = (
    r"(?i)\b(?:again|retry|wait|reset|resets|available)\b[^.\n\d]{0,60}?"
    rf"(?:((?:{_AMOUNT}[,\s]*(?:and\s+)?)+)|(?<=after )(\d+(?:\.\d+)?)(?=[.\s]*$))"
)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from the headers (with names in lower case), or None.

    For a date (RFC 9110 section 10.2.3), the function subtracts the header `date` of the response, or the local time.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    given = headers.get("retry-after", "")
    duration = _seconds(given) if re.fullmatch(rf"(?:{_AMOUNT}\s*)+", given.strip(), re.IGNORECASE) else None
    return _until(given, headers.get("date")) if duration is None else duration


def _until(given: str, date: str | None) -> float | None:
    until, now = _time(given), None if date is None else _time(date)
    if until is None:
        return None
    return max(until - (time.time() if now is None else now), 0.0)


def _time(text: str) -> float | None:
    """Return the seconds since 1970 of a date in the form of RFC 9110 or ISO 8601. The default time zone is UTC."""
    from email.utils import parsedate_to_datetime

    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = parse(text.strip())
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _seconds(text: str) -> float:
    """Return the sum of the amounts of time in a string, such as "1m30s"."""
    amounts = ((float(number), unit.lower()) for number, unit in re.findall(_DURATION, text))
    return math.fsum(
        number * (0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]]) for number, unit in amounts
    )


def _wait_in(error: Mapping[str, Any], words: str) -> float | None:
    """Return the seconds to wait from an error: from a field, the headers of a router, or its text."""
    for name, scale in (("retry_after_ms", 1000.0), ("retry_after", 1.0), ("retryAfter", 1.0)):
        given = error.get(name)
        if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
            return max(given / scale, 0.0)
    upstream = _mapping(_mapping(error.get("metadata")).get("headers"))
    wait = retry_after_of({name.lower(): str(value) for name, value in upstream.items()})
    details = error.get("details")
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        delay = _mapping(detail).get("retryDelay")  # google.rpc.RetryInfo
        wait = _seconds(delay) if wait is None and isinstance(delay, str) and re.search(_DURATION, delay) else wait
    found = re.search(_WAIT, words) if wait is None else None
    if found is None:
        return wait
    return _seconds(found[1]) if found[1] is not None else float(found[4])


def _of_codes(status: int, error: _ErrorBody) -> Reason | None:
    text = f"{error.codes} {error.description}"
    if error.written is not None:  # Groq reports invalid output of a model as an invalid request
        return InvalidOutputError(f"{error.description}; the model wrote: {_shorten(error.written) or 'nothing'}")
    if status in {400, 402, 403, 429} and re.search(_QUOTA, text):
        return QuotaExhaustedError(error.description)
    if status in {400, 413, 422} and re.search(_OVERFLOW, text):
        return ContextOverflowError(description=error.description)
    if status in {400, 403, 422} and re.search(_POLICY, text):
        return ContentPolicyError(error.description)
    if status in {400, 404} and re.search(_NO_MODEL, text):
        model = re.search(_MODEL_NAME, error.description)
        return ModelUnavailableError(model[1] if model else "(unnamed)", "unknown-model", error.description)
    return None


def _of_status(status: int, error: _ErrorBody) -> Reason:
    match status:
        case 400 | 404 | 409 | 413 | 415 | 422:
            again = True if status == 409 else None  # a conflict with another request, which can pass
            words = error.description or f"status {status}"
            return InvalidRequestError(error.parameter, None, words, should_retry=again)
        case 401:
            return AuthenticationError("InvalidKey", error.description)
        case 403:
            return AuthenticationError("InsufficientPermissions", error.description)
        case 408 | 504:
            return RequestTimeoutError(None, error.description)
        case 429:
            return RateLimitError(error.description)
        case _ if status >= 500:
            return InternalProviderError(error.description, status, overloaded=status in {503, 529})
        case _:
            return UnknownError(error.description, status)


def _read(body: object, headers: Mapping[str, str]) -> _ErrorBody:
    data, text = body, ""
    if isinstance(body, bytes | bytearray):
        text = bytes(body).decode("utf-8", "replace")
    elif isinstance(body, str):
        text = body
    if text:
        try:
            data = msgspec.json.decode(text)
        except JSON_ERRORS:
            data = None
    content = _mapping(data).get("error", data)
    error = _mapping(content)
    words = _words(error) or error.get("message") or (content if isinstance(content, str) else "")
    words = words or ("" if error else text.strip())
    words = _with_upstream(str(words), _mapping(error.get("metadata")))
    request = headers.get("x-request-id") or headers.get("request-id") or _text(_mapping(data).get("request_id"))
    description = _shorten(" ".join(str(words).split())) + (f" (request {request})" if request else "")
    codes = [one for key in _CODES if (one := _text(error.get(key))) and one != "error"]
    code = codes[0] if codes else None
    parameter = error.get("param")
    named, written = (one if isinstance(one, str) else None for one in (parameter, error.get("failed_generation")))
    wait = _wait_in(error, str(words))
    return _ErrorBody(description.strip(), " ".join(codes), named, written, code, request, wait)


_MESSAGES = ("message", "detail", "msg", "error_message")


def _words(error: Mapping[str, Any]) -> str:
    """Return the text of an error for people, or an empty string."""
    return next((one for key in _MESSAGES if isinstance(one := error.get(key), str) and one), "")


def _with_upstream(words: str, metadata: Mapping[str, Any]) -> str:
    """Return the text of a router with the text of its server, which OpenRouter returns in `metadata`."""
    name, raw = metadata.get("provider_name"), metadata.get("raw")
    more = raw if isinstance(raw, str) else "" if raw is None else msgspec.json.encode(raw).decode()
    who = f"{name}: " if isinstance(name, str) and name else ""
    return f"{words}: {who}{more}" if more and more not in words else words


def _text(value: object) -> str | None:
    """Return a name or a number as a string, or None for any other value."""
    plain = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    return str(value)[:_LONGEST] if plain else None


def _shorten(words: str) -> str:
    """Return both ends of a long text, because the start often states the error and the end the remedy."""
    left_out = len(words) - _LONGEST
    if left_out <= 0:
        return words
    return f"{words[:_LONGEST_START]} … ({left_out} characters omitted) … {words[_LONGEST_START - _LONGEST :]}"


def _mapping(data: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
