"""Errors of the model and the wire: one wrapper, `AiError`, with a closed set of reasons.

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

Errors are values: frozen, comparable, hashable, written to tagged JSON and read back. What goes wrong in a *tool* is
told by the floor above.

>>> error = AiError("Acme", "generate_text", RateLimitError(retry_after=7.0))
>>> print(error)
Acme.generate_text: Rate limit exceeded. Wait 7 s and retry, or send fewer requests at a time
>>> AiError.from_json(error.to_json()).unwrap() == error
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from returns.result import Result

from fxai.messages.reason import (
    ApprovalProblem,
    AuthenticationError,
    AuthenticationKind,
    ContentPolicyError,
    ContextOverflowError,
    InternalProviderError,
    InvalidApprovalError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelProblem,
    ModelUnavailableError,
    NetworkError,
    NetworkKind,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
    StructuredOutputError,
    ToolkitRequiredError,
    UnknownError,
    UnsupportedSchemaError,
)
from fxai.messages.status import reason_of_status
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure

__all__ = [
    "AiError",
    "ApprovalProblem",
    "AuthenticationError",
    "AuthenticationKind",
    "ContentPolicyError",
    "ContextOverflowError",
    "InternalProviderError",
    "InvalidApprovalError",
    "InvalidOutputError",
    "InvalidRequestError",
    "InvalidUserInputError",
    "ModelProblem",
    "ModelUnavailableError",
    "NetworkError",
    "NetworkKind",
    "QuotaExhaustedError",
    "RateLimitError",
    "Reason",
    "RequestTimeoutError",
    "StructuredOutputError",
    "ToolkitRequiredError",
    "UnknownError",
    "UnsupportedSchemaError",
]


class AiError(msgspec.Struct, frozen=True, tag_field="_tag", tag="AiError", forbid_unknown_fields=True):
    """What went wrong with a model or on the way to it. A run of an agent fails with one that holds its history.

    Attributes:
        module: Who reports it: the provider or the service, such as "OpenAI".
        method: What it was doing, such as "generate_text".
        reason: Why: one of a closed set, to be told apart by `match`.
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
        """The seconds to wait before that, if the provider said; else None."""
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
        """The error that `to_data` was asked of.

        Fails with:
            DecodeFailure: What is not in that form, by JSON pointer.
        """
        return Schema.of(AiError).decode(data)

    @staticmethod
    def from_json(text: str | bytes) -> Result[AiError, DecodeFailure]:
        """The error that `to_json` was asked of.

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
            module: Who reports it.
            method: What it was doing.
            status: The HTTP status, 400 and above.
            body: The body: bytes, text or parsed JSON.
            headers: The headers, their names in any case.

        >>> AiError.from_status("Acme", "generate_text", 429, headers={"Retry-After": "7"}).retry_after
        7.0
        """
        return AiError(module, method, reason_of_status(status, body, headers or {}))
