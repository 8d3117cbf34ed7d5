"""Reasons for failed requests to a model: a closed set of records. Use them to decide how to handle an `AiError`.

Each reason states what happened (`message`), the remedy (`advice`), whether the same request can succeed later
(`is_retryable`), and the seconds to wait before a retry (`retry_after`). Reasons are values in the error channel, and
fxai never raises them. Their names end in `Error` because `RateLimit`, `StructuredOutput`, or `Authentication` alone
would name a feature. The name of the class is also the tag in JSON.

>>> reason = InvalidRequestError("max_tokens", "must be > 0")
>>> reason.message, reason.is_retryable
("Invalid request: parameter 'max_tokens' must be > 0", False)
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

import msgspec


def sentence(summary: str, description: str) -> str:
    """Return the summary, followed by the description if it is not empty."""
    return f"{summary}: {description}" if description else summary


def location_in(pointer: str, description: str) -> str:
    """Return the location for a summary, or an empty string if the description already contains the pointer.

    >>> location_in("/a", "expected integer"), location_in("/a", "/a: expected integer")
    (' at /a', '')
    """
    names_it = description.startswith(f"{pointer}: ") or f" {pointer}: " in description
    return f" at {pointer}" if pointer and not names_it else ""


class ReasonBase(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="_tag", omit_defaults=True, forbid_unknown_fields=True
):
    """The common fields of all reasons: the data of the provider about the failure."""

    retry_after: float | None = None
    """Seconds to wait before a retry, or None."""
    code: str | None = None
    """The provider's code of the failure, such as `"insufficient_quota"`, or None. The set of codes is open."""
    request_id: str | None = None
    """The provider's id of the request for its support, or None."""
    should_retry: bool | None = None
    """The advice of the provider about a retry, which overrides the kind of the reason, or None."""

    __retryable__: ClassVar[bool] = False
    __advice__: ClassVar[str] = ""

    @property
    def is_retryable(self) -> bool:
        """True if the same request can succeed later."""
        return self.__may_pass__() if self.should_retry is None else self.should_retry

    @property
    def message(self) -> str:
        """The failure in one line."""
        return self.__summary__()

    @property
    def advice(self) -> str:
        """The remedy in one line."""
        if self.should_retry is None or self.should_retry == self.__may_pass__():
            return self.__remedy__()
        return _RETRY if self.should_retry else "Do not retry: the provider states that the request will fail again"

    def __may_pass__(self) -> bool:
        return self.__retryable__

    def __summary__(self) -> str:
        raise NotImplementedError

    def __remedy__(self) -> str:
        return self.__advice__

    def __str__(self) -> str:
        return f"{self.message.removesuffix('.')}. {self.advice}"


_RETRY = "Retry with growing pauses. If the failure persists, check the status page of the provider"

AuthenticationKind: TypeAlias = Literal["MissingKey", "InvalidKey", "ExpiredKey", "InsufficientPermissions", "Unknown"]
"""The problem with the key."""

NetworkKind: TypeAlias = Literal["TransportError", "EncodeError", "InvalidUrlError"]
"""The failed phase of a request: its way to the provider, or its preparation."""

ApprovalProblem: TypeAlias = Literal[
    "no-request", "no-call", "altered", "forged", "expired", "used", "denied", "in-doubt"
]
"""The problem with the answer to an approval request.

- `no-request`: the request does not exist, or already has an answer.
- `no-call`: the call of the request does not exist.
- `altered`: the call or the tool differs from the request.
- `forged`: no trusted key signed the request.
- `expired`: the request has expired.
- `used`: an earlier answer already used the approval.
- `denied`: a user denied the call before.
- `in-doubt`: the outcome of the call is unknown, because it started but has no recorded end.
"""

ModelProblem: TypeAlias = Literal["missing", "checksum", "not-installed", "unreadable", "unknown-model"]
"""The problem with a model: its file is missing, has another checksum, or is unreadable, the package that runs it is
missing, or its name is unknown."""


@final
class RateLimitError(ReasonBase, frozen=True):
    """Too many requests or tokens in a period. The request is retryable after `retry_after` seconds."""

    __retryable__: ClassVar[bool] = True

    description: str = ""
    """The words from the provider, or an empty string."""

    def __summary__(self) -> str:
        return sentence("Rate limit exceeded", self.description)

    def __remedy__(self) -> str:
        wait = "a while" if self.retry_after is None else f"{self.retry_after:g} s"
        return f"Wait {wait} and retry, or send fewer requests at a time"


@final
class QuotaExhaustedError(ReasonBase, frozen=True):
    """An account without remaining quota. The request is not retryable."""

    __advice__: ClassVar[str] = "Retrying does not help. Check the plan and billing of the account"

    description: str = ""
    """The words from the provider, or an empty string."""

    def __summary__(self) -> str:
        return sentence("Quota exhausted", self.description)


_KEY_MESSAGES: dict[AuthenticationKind, tuple[str, str]] = {
    "MissingKey": ("No API key provided", "Set the appropriate environment variable"),
    "InvalidKey": ("The API key was refused", "Check that the key is complete and belongs to this provider"),
    "ExpiredKey": ("The API key has expired", "Create a new key"),
    "InsufficientPermissions": ("The API key lacks a permission", "Use a key with the permission, or request it"),
    "Unknown": ("The provider refused the authentication", "Check the API key"),
}


@final
class AuthenticationError(ReasonBase, frozen=True):
    """An invalid key, or a key without a permission. The request is not retryable."""

    kind: AuthenticationKind
    """The problem with the key."""
    description: str = ""
    """The words from the provider, or an empty string."""

    def __summary__(self) -> str:
        return sentence(f"{self.kind}: {_KEY_MESSAGES[self.kind][0]}", self.description)

    def __remedy__(self) -> str:
        return _KEY_MESSAGES[self.kind][1]


@final
class ContentPolicyError(ReasonBase, frozen=True):
    """Content of the request or the answer that the provider refused. The request is not retryable."""

    __advice__: ClassVar[str] = "The provider will refuse the same request again. Change the request"

    description: str = ""
    """The words from the provider, or an empty string."""

    def __summary__(self) -> str:
        return sentence("Content policy violation", self.description)


@final
class InvalidRequestError(ReasonBase, frozen=True):
    """A request that the provider found invalid. The request is not retryable."""

    __advice__: ClassVar[str] = "The same request will fail again. Change the request"

    parameter: str | None = None
    """The invalid parameter, or None if it is unknown."""
    constraint: str | None = None
    """The requirement of the parameter, such as "must be > 0", or None."""
    description: str = ""
    """The words from the provider."""

    def __summary__(self) -> str:
        words = (f"parameter '{self.parameter}'" if self.parameter else "", self.constraint or "")
        about = " ".join(word for word in words if word)
        return sentence("Invalid request", ". ".join(word for word in (about, self.description) if word))


@final
class InternalProviderError(ReasonBase, frozen=True):
    """A failure of the provider, or its overload if `overloaded` is true. The request is retryable."""

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = _RETRY

    description: str = ""
    """The words from the provider, or an empty string."""
    status: int | None = None
    """The HTTP status, or None."""
    overloaded: bool = False
    """True if the provider is overloaded."""

    def __summary__(self) -> str:
        status = "" if self.status is None else f" (status {self.status})"
        summary = "Provider overloaded" if self.overloaded else "Internal provider error"
        return sentence(summary + status, self.description)


@final
class NetworkError(ReasonBase, frozen=True):
    """A request or an answer that did not arrive. The request is retryable after a failed connection."""

    kind: NetworkKind
    """The failed phase."""
    description: str = ""
    """The reason."""

    def __may_pass__(self) -> bool:
        return self.kind == "TransportError"

    def __summary__(self) -> str:
        return sentence(f"{self.kind}: {_NETWORK_MESSAGES[self.kind][0]}", self.description)

    def __remedy__(self) -> str:
        return _NETWORK_MESSAGES[self.kind][1]


_NETWORK_MESSAGES: dict[NetworkKind, tuple[str, str]] = {
    "TransportError": ("The connection failed", "Check the connection to the provider, then retry"),
    "EncodeError": ("The request could not be written", "Pass only JSON values"),
    "InvalidUrlError": ("The address is not valid", "Check the provider's base_url"),
}


@final
class RequestTimeoutError(ReasonBase, frozen=True):
    """A missing or incomplete answer within the time limit. The request is retryable."""

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry, allow more time, or request less"

    seconds: float | None = None
    """The time limit in seconds, or None if it is unknown."""
    description: str = ""
    """The reason."""

    def __summary__(self) -> str:
        within = "in time" if self.seconds is None else f"within {self.seconds:g} s"
        return sentence(f"No answer {within}", self.description)


@final
class InvalidOutputError(ReasonBase, frozen=True):
    """Invalid data from the provider. The request is retryable, because the next answer from a model can be valid.

    `pointer` is the location in the data as a JSON pointer, or an empty string for the whole data.
    """

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry. If the failure persists, this version does not support the provider's protocol"

    description: str
    """The error at this location."""
    pointer: str = ""
    """The location as a JSON pointer."""

    def __summary__(self) -> str:
        where = location_in(self.pointer, self.description)
        return sentence(f"Invalid output{where}", self.description)


@final
class StructuredOutputError(ReasonBase, frozen=True):
    """An answer that does not satisfy the requested schema. The request is retryable, because answers differ."""

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry, give an example of the answer, or use a simpler schema"

    text: str
    """The answer text."""
    pointer: str = ""
    """The location of the error as a JSON pointer, or an empty string for the whole answer."""
    description: str = ""
    """The error at this location."""
    tool_results: tuple[dict[str, Any], ...] = ()
    """The results of the calls in the same turn as JSON values."""

    def __hash__(self) -> int:
        return hash((self.text, self.pointer))  # the results may be unhashable

    def __summary__(self) -> str:
        where = location_in(self.pointer, self.description)
        return sentence(f"The answer does not fit its schema{where}", self.description)


@final
class UnsupportedSchemaError(ReasonBase, frozen=True):
    """A schema that the provider cannot enforce, found before the request. The request is not retryable."""

    __advice__: ClassVar[str] = "Change the schema at this location, or do not require its enforcement"

    description: str
    """The schema and the problem in it."""
    pointer: str = ""
    """The location in the schema as a JSON pointer."""
    keyword: str | None = None
    """The JSON Schema keyword, or None."""

    def __summary__(self) -> str:
        keyword = f" (keyword '{self.keyword}')" if self.keyword else ""
        where = location_in(self.pointer, self.description)
        return sentence(f"Unsupported schema{where}{keyword}", self.description)


@final
class ToolkitRequiredError(ReasonBase, frozen=True):
    """Answered approvals without the toolkit that contains their tools. The request is not retryable."""

    __advice__: ClassVar[str] = "Pass the toolkit that contains these tools"

    pending_approvals: tuple[str, ...]
    """The ids of the approval requests."""

    def __summary__(self) -> str:
        return f"Toolkit required to resolve pending tool approvals: {', '.join(self.pending_approvals)}"


@final
class InvalidApprovalError(ReasonBase, frozen=True):
    """An untrusted answer to an approval request, so that fxai ran no call. The request is not retryable."""

    approval_id: str
    """The approval id."""
    problem: ApprovalProblem
    """The problem with the answer."""
    description: str = ""
    """The problem as text."""

    def __summary__(self) -> str:
        return sentence(
            f"The approval {self.approval_id!r} is refused: {_APPROVAL_MESSAGES[self.problem][0]}", self.description
        )

    def __remedy__(self) -> str:
        return _APPROVAL_MESSAGES[self.problem][1]


@final
class InvalidUserInputError(ReasonBase, frozen=True):
    """A part of the prompt that this provider cannot receive. The request is not retryable."""

    __advice__: ClassVar[str] = "Change or remove that part of the prompt"

    description: str
    """The part and the reason."""

    def __summary__(self) -> str:
        return f"Invalid user input: {self.description}"


@final
class ContextOverflowError(ReasonBase, frozen=True):
    """A prompt and an answer of `tokens` tokens that exceed the context window of `limit`. Not retryable."""

    __advice__: ClassVar[str] = "Shorten the history or the tools, or use a model with a larger window"

    tokens: int | None = None
    """The number of tokens, or None if it is unknown."""
    limit: int | None = None
    """The size of the context window in tokens, or None if it is unknown."""
    description: str = ""
    """The words from the provider, or an empty string."""

    def __summary__(self) -> str:
        tokens = "" if self.tokens is None else f", {self.tokens} tokens"
        limit = "" if self.limit is None else f", limit {self.limit}"
        return sentence(f"Context window full{tokens}{limit}", self.description)


_APPROVAL_MESSAGES: dict[ApprovalProblem, tuple[str, str]] = {
    "no-request": ("no open request has this id", "Answer each request once, after the turn of its call"),
    "no-call": ("the call of the request is missing", "Keep the call next to its request"),
    "altered": ("the call or the tool differs from the request", "Deny it, and let the model call again"),
    "forged": ("the request has no valid signature", "Deny it, or provide the `ApprovalKey` that signed it"),
    "expired": ("the request has expired", "Answer with `pending.expire()`, and let the model call again"),
    "used": ("it was used before", "Continue from the history with the result. An approval runs a call only once"),
    "denied": (
        "it was denied before",
        "Let the model call again. A denial is final, but a user can approve a new request",
    ),
    "in-doubt": (
        "the outcome of its call is unknown: the call started, and either still runs or was stopped",
        "Check its effect, then deny this request. The model receives the unknown outcome, and can call again",
    ),
}

_MODEL_MESSAGES: dict[ModelProblem, tuple[str, str]] = {
    "missing": ("the file is missing", "Install or download it"),
    "checksum": ("the file is not the expected file", "Download it again"),
    "not-installed": ("the package that runs it is not installed", "Install the extra that contains it"),
    "unreadable": ("the file cannot be loaded", "Check that the file is complete and has a supported format"),
    "unknown-model": ("the provider does not know it", "Check the name of the model and the permissions of the key"),
}


@final
class GuardRefusalError(ReasonBase, frozen=True):
    """A request or an answer that a guard of the program refused. The request is not retryable."""

    __advice__: ClassVar[str] = "The guard will refuse the same content again. Change the request"

    guard: str
    """The name of the guard."""
    at: Literal["request", "response"]
    """`"request"` if fxai sent nothing to the model, or `"response"` if the model answered."""
    description: str = ""
    """The reason of the guard."""
    sent: int = 0
    """The number of characters of the answer that the reader of a stream had already received."""
    usage: dict[str, int] = {}
    """The known token numbers of the refused answer, by the names of the fields of `Usage`."""

    def __hash__(self) -> int:
        return hash((self.guard, self.at, self.description, self.sent))  # a dict is not hashable

    def __summary__(self) -> str:
        left = f" after {self.sent} characters of it had left" if self.sent else ""
        return sentence(f"The guard {self.guard!r} refused the {self.at}{left}", self.description)


@final
class ModelUnavailableError(ReasonBase, frozen=True):
    """A model that cannot be used. The request is not retryable."""

    model: str
    """The name of the model, or its file."""
    problem: ModelProblem
    """The problem with the model."""
    description: str = ""
    """The details."""

    def __summary__(self) -> str:
        return sentence(f"Model '{self.model}' is unavailable: {_MODEL_MESSAGES[self.problem][0]}", self.description)

    def __remedy__(self) -> str:
        return _MODEL_MESSAGES[self.problem][1]


@final
class UnknownError(ReasonBase, frozen=True):
    """A failure that no other reason describes. The request is not retryable."""

    __advice__: ClassVar[str] = "Read the description and the documentation of the provider"

    description: str = ""
    """The words from the provider, or an empty string."""
    status: int | None = None
    """The HTTP status, or None."""

    def __summary__(self) -> str:
        status = "" if self.status is None else f" (status {self.status})"
        return sentence(f"Unknown error{status}", self.description)


Reason: TypeAlias = (
    RateLimitError
    | QuotaExhaustedError
    | AuthenticationError
    | ContentPolicyError
    | InvalidRequestError
    | InternalProviderError
    | NetworkError
    | RequestTimeoutError
    | InvalidOutputError
    | StructuredOutputError
    | UnsupportedSchemaError
    | ToolkitRequiredError
    | InvalidApprovalError
    | InvalidUserInputError
    | ContextOverflowError
    | GuardRefusalError
    | ModelUnavailableError
    | UnknownError
)
"""All reasons. Type checkers verify that a `match` over it is complete."""
