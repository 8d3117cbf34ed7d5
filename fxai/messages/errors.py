"""Errors of models and of the requests to them: one wrapper, `AiError`, with a closed set of reasons.

    AiError(module, method, reason)
    │
    ├── RateLimitError            retryable   too much in too short a time
    ├── QuotaExhaustedError                   nothing left to spend
    ├── AuthenticationError                   the key: missing, invalid, expired, not permitted
    ├── ContentPolicyError                    refused for its content
    ├── InvalidRequestError                   the request is wrong
    ├── InternalProviderError     retryable   the provider failed or is overloaded
    ├── NetworkError              retryable   on the way; not when the request could not be written
    ├── RequestTimeoutError       retryable   no whole answer in time
    ├── InvalidOutputError        retryable   what the provider sent is not what it should be
    ├── StructuredOutputError     retryable   the answer does not fit the schema asked for
    ├── UnsupportedSchemaError                found before the request
    ├── ToolkitRequiredError                  approvals without their tools
    ├── InvalidApprovalError                  an answer to an approval request that is not trusted
    ├── InvalidUserInputError                 a part of the prompt cannot be sent
    ├── ContextOverflowError                  prompt and answer do not fit the model
    ├── ModelUnavailableError                 no such model, or not on this machine
    └── UnknownError                          anything else

Errors are values: frozen, comparable, hashable, written to tagged JSON and read back. Failures of tools are
described in `fxai.tools`.

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
from collections.abc import Mapping
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
    """What went wrong with a model or on the way to it. A run of an agent fails with one that holds its history.

    Attributes:
        module: The provider or the service that reports it, such as "OpenAI".
        method: The operation that failed, such as "generate_text".
        reason: Why: one of a closed set; `match` tells them apart.
    """

    module: str
    method: str
    reason: Reason

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed when it is sent again, as the reason says."""
        return self.reason.is_retryable

    @property
    def retry_after(self) -> float | None:
        """The seconds to wait before that, where the provider gave them; else None."""
        return self.reason.retry_after

    @property
    def message(self) -> str:
        """Where it happened and what, in one line; `str(error)` adds the advice."""
        return f"{self.module}.{self.method}: {self.reason.message}"

    @property
    def advice(self) -> str:
        """What to do about it, in one line."""
        return self.reason.advice

    def __str__(self) -> str:
        return f"{self.module}.{self.method}: {self.reason}"

    def to_data(self) -> dict[str, Any]:
        """The error as plain JSON data: `{"_tag": "AiError", "module", "method", "reason": {"_tag", …}}`."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def to_json(self) -> str:
        """The error as JSON text, in the form of `to_data`."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_data(data: object) -> Result[AiError, DecodeFailure]:
        """The error that `to_data` wrote.

        Fails with:
            DecodeFailure: What is not in that form, by JSON pointer.
        """
        return Schema.of(AiError).decode(data)

    @staticmethod
    def from_json(text: str | bytes) -> Result[AiError, DecodeFailure]:
        """The error that `to_json` wrote.

        Fails with:
            DecodeFailure: What is not JSON or not in that form, by JSON pointer.
        """
        return Schema.of(AiError).decode_json(text)

    @staticmethod
    def from_status(
        module: str, method: str, status: int, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AiError:
        """The error that an HTTP answer means.

        A pure mapping of RFC 9110 status codes, refined by the error codes that providers put into the body: an
        exhausted quota, a full context, refused content, an unknown model. `retry-after` is read in all its forms.

        Args:
            module: The provider or the service that reports it.
            method: The operation that failed.
            status: The HTTP status, 400 and above.
            body: The body: bytes, text or parsed JSON.
            headers: The headers, their names in any case.

        >>> AiError.from_status("Acme", "generate_text", 429, headers={"Retry-After": "7"}).retry_after
        7.0
        """
        return AiError(module, method, reason_of_status(status, body, headers or {}))


# ---- the reason that an HTTP answer means

_LONGEST = 500
_LONGEST_START = 400
_QUOTA = re.compile(r"insufficient_quota|insufficient_balance|billing|credit balance", re.IGNORECASE)
_OVERFLOW = re.compile(
    r"context_length_exceeded|context_window|maximum context length|prompt is too long|exceed_context_size",
    re.IGNORECASE,
)
_POLICY = re.compile(r"content_policy|content_filter|ResponsibleAIPolicyViolation", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found|model_not_available|not_found_error.*\bmodel\b", re.IGNORECASE)
_MODEL_NAME = re.compile(r"model:? [`'\"]?([\w./:@-]*\w)", re.IGNORECASE)


class _ErrorBody(msgspec.Struct, frozen=True):
    """The body of an error: its text for people, its codes for programs, and the parameter or output that it blames."""

    description: str = ""
    codes: str = ""
    parameter: str | None = None
    written: str | None = None
    code: str | None = None
    request: str | None = None


def reason_of_status(status: int, body: object, headers: Mapping[str, str]) -> Reason:
    """The reason of an answer with this status, of 400 and above; body and headers as they came."""
    named = {name.lower(): value for name, value in headers.items()}
    error = _read(body, named)
    reason = _of_codes(status, error) or _of_status(status, error)
    about = {"retry_after": retry_after_of(named), "code": error.code, "request_id": error.request}
    known: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
    return msgspec.structs.replace(reason, **known) if known else reason


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """The seconds that the headers (named in lower case) ask to wait; None if they do not, or cannot be read.

    A date (RFC 9110 section 10.2.3) is measured against the answer's own `date`, so that no clock is asked.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    if "retry-after" not in headers or "date" not in headers:
        return None
    from email.utils import parsedate_to_datetime

    try:
        until, now = parsedate_to_datetime(headers["retry-after"]), parsedate_to_datetime(headers["date"])
        return max((until - now).total_seconds(), 0.0)
    except (TypeError, ValueError):  # no date at all, or one with a time zone against one without
        return None


def _of_codes(status: int, error: _ErrorBody) -> Reason | None:
    text = f"{error.codes} {error.description}"
    if error.written is not None:  # Groq refuses what a model wrote as the fault of the request
        return InvalidOutputError(f"{error.description}; the model wrote: {_shorten(error.written) or 'nothing'}")
    if status in {400, 402, 403, 429} and _QUOTA.search(text):
        return QuotaExhaustedError(error.description)
    if status in {400, 413, 422} and _OVERFLOW.search(text):
        return ContextOverflowError(description=error.description)
    if status in {400, 403, 422} and _POLICY.search(text):
        return ContentPolicyError(error.description)
    if status in {400, 404} and _NO_MODEL.search(text):
        model = _MODEL_NAME.search(error.description)
        return ModelUnavailableError(model[1] if model else "(unnamed)", "unknown-model", error.description)
    return None


def _of_status(status: int, error: _ErrorBody) -> Reason:
    match status:
        case 400 | 404 | 409 | 413 | 415 | 422:
            return InvalidRequestError(error.parameter, None, error.description or f"status {status}")
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
    words = error.get("message") or (content if isinstance(content, str) else "") or ("" if error else text.strip())
    words = _with_upstream(str(words), _mapping(error.get("metadata")))
    request = headers.get("x-request-id") or headers.get("request-id") or _text(_mapping(data).get("request_id"))
    description = _shorten(" ".join(str(words).split())) + (f" (request {request})" if request else "")
    codes = [one for key in ("code", "type", "status") if (one := _text(error.get(key)))]
    code = codes[0] if codes else None
    parameter = error.get("param")
    named, written = (one if isinstance(one, str) else None for one in (parameter, error.get("failed_generation")))
    return _ErrorBody(description.strip(), " ".join(codes), named, written, code, request)


def _with_upstream(words: str, metadata: Mapping[str, Any]) -> str:
    """The words of a router with those of the server behind it, which OpenRouter has in `metadata`."""
    name, raw = metadata.get("provider_name"), metadata.get("raw")
    more = raw if isinstance(raw, str) else "" if raw is None else msgspec.json.encode(raw).decode()
    who = f"{name}: " if isinstance(name, str) and name else ""
    return f"{words}: {who}{more}" if more and more not in words else words


def _text(value: object) -> str | None:
    """A name or a number as a text; None for nothing, and for whatever else stands there."""
    plain = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    return str(value)[:_LONGEST] if plain else None


def _shorten(words: str) -> str:
    """Both ends of what is too long for a message: what is wrong often stands first, and what to do last."""
    left_out = len(words) - _LONGEST
    if left_out <= 0:
        return words
    return f"{words[:_LONGEST_START]} … ({left_out} characters left out) … {words[_LONGEST_START - _LONGEST :]}"


def _mapping(data: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
