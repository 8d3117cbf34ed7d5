"""The reason that an HTTP answer means, by its status and by what providers write into the body.

>>> reason_of_status(503, b"", {}).is_retryable
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

from fxai.messages.reason import (
    AuthenticationError,
    ContentPolicyError,
    ContextOverflowError,
    InternalProviderError,
    InvalidRequestError,
    ModelUnavailableError,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
    UnknownError,
)

__all__ = ["reason_of_status", "retry_after_of"]

_LONGEST = 500
_QUOTA = re.compile(r"insufficient_quota|insufficient_balance|billing|credit balance", re.IGNORECASE)
_OVERFLOW = re.compile(
    r"context_length_exceeded|context_window|maximum context length|prompt is too long|exceed_context_size",
    re.IGNORECASE,
)
_POLICY = re.compile(r"content_policy|content_filter|ResponsibleAIPolicyViolation", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found|model_not_available|not_found_error.*\bmodel\b", re.IGNORECASE)
_MODEL_NAME = re.compile(r"model:? [`'\"]?([\w./:@-]*\w)", re.IGNORECASE)


class _Said(msgspec.Struct, frozen=True):
    """What a provider wrote: its words for people, its codes for programs, and the parameter it blames."""

    description: str = ""
    codes: str = ""
    parameter: str | None = None


def reason_of_status(status: int, body: object, headers: Mapping[str, str]) -> Reason:
    """The reason of an answer with this status, of 400 and above; body and headers as they came."""
    named = {name.lower(): value for name, value in headers.items()}
    said = _read(body, named)
    reason = _of_codes(status, said) or _of_status(status, said)
    wait = retry_after_of(named)
    return reason if wait is None else msgspec.structs.replace(reason, retry_after=wait)


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


def _of_codes(status: int, said: _Said) -> Reason | None:
    text = f"{said.codes} {said.description}"
    if status in {400, 402, 403, 429} and _QUOTA.search(text):
        return QuotaExhaustedError(said.description)
    if status in {400, 413, 422} and _OVERFLOW.search(text):
        return ContextOverflowError(description=said.description)
    if status in {400, 403, 422} and _POLICY.search(text):
        return ContentPolicyError(said.description)
    if status in {400, 404} and _NO_MODEL.search(text):
        model = _MODEL_NAME.search(said.description)
        return ModelUnavailableError(model[1] if model else "(unnamed)", "unknown-model", said.description)
    return None


def _of_status(status: int, said: _Said) -> Reason:
    match status:
        case 400 | 404 | 409 | 413 | 415 | 422:
            return InvalidRequestError(said.parameter, None, said.description or f"status {status}")
        case 401:
            return AuthenticationError("InvalidKey", said.description)
        case 403:
            return AuthenticationError("InsufficientPermissions", said.description)
        case 408 | 504:
            return RequestTimeoutError(None, said.description)
        case 429:
            return RateLimitError(said.description)
        case _ if status >= 500:
            return InternalProviderError(said.description, status, overloaded=status in {503, 529})
        case _:
            return UnknownError(said.description, status)


def _read(body: object, headers: Mapping[str, str]) -> _Said:
    data, text = body, ""
    if isinstance(body, bytes | bytearray):
        text = bytes(body).decode("utf-8", "replace")
    elif isinstance(body, str):
        text = body
    if text:
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            data = None
    error = _mapping(data).get("error", data)
    said = _mapping(error)
    words = said.get("message") or (error if isinstance(error, str) else "") or ("" if said else text.strip())
    request = headers.get("x-request-id") or headers.get("request-id")
    description = " ".join(str(words).split())[:_LONGEST] + (f" (request {request})" if request else "")
    codes = " ".join(str(said[key]) for key in ("code", "type", "status") if said.get(key))
    parameter = said.get("param")
    return _Said(description.strip(), codes, parameter if isinstance(parameter, str) else None)


def _mapping(data: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
