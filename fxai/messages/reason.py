"""Reasons why a model could not be asked or understood: a closed set of records.

Each tells what happened (`message`), what to do (`advice`), whether the same request can succeed later
(`is_retryable`) and how many seconds to wait first (`retry_after`). They are values in the error channel and are never
raised. Their names end in `Error` because `RateLimit`, `StructuredOutput` or `Authentication` alone would name a
feature, and because the field and its JSON use these names: the name of the class is the tag.

>>> reason = InvalidRequestError("max_tokens", "must be > 0")
>>> reason.message, reason.is_retryable
("Invalid request: parameter 'max_tokens' must be > 0", False)
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

import msgspec


def sentence(summary: str, description: str) -> str:
    """The summary, with the description behind it where there is one."""
    return f"{summary}: {description}" if description else summary


def place_in(pointer: str, description: str) -> str:
    """The place that a summary names, by its pointer; empty where the description names it itself.

    >>> place_in("/a", "expected integer"), place_in("/a", "/a: expected integer")
    (' at /a', '')
    """
    names_it = description.startswith(f"{pointer}: ") or f" {pointer}: " in description
    return f" at {pointer}" if pointer and not names_it else ""


class ReasonBase(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="_tag", omit_defaults=True, forbid_unknown_fields=True
):
    """What every reason offers, and what the provider said of the failure, where it did.

    Attributes:
        retry_after: The seconds to wait.
        code: The provider's own code of it, such as `"insufficient_quota"`: of no closed set.
        request_id: The provider's id of the request, which its support asks for.
        should_retry: The advice of the provider about a retry, which wins over the kind of the reason, or None.
    """

    retry_after: float | None = None
    code: str | None = None
    request_id: str | None = None
    should_retry: bool | None = None

    __retryable__: ClassVar[bool] = False
    __advice__: ClassVar[str] = ""

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed when it is sent again."""
        return self.__may_pass__() if self.should_retry is None else self.should_retry

    @property
    def message(self) -> str:
        """What happened, in one line."""
        return self.__summary__()

    @property
    def advice(self) -> str:
        """What to do about it, in one line."""
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


_RETRY = "Retry with growing pauses; if it lasts, look at the provider's status page"

AuthenticationKind: TypeAlias = Literal["MissingKey", "InvalidKey", "ExpiredKey", "InsufficientPermissions", "Unknown"]
"""What is wrong with the key."""

NetworkKind: TypeAlias = Literal["TransportError", "EncodeError", "InvalidUrlError"]
"""Where a request got stuck: on the way, or before it could leave."""

ApprovalProblem: TypeAlias = Literal[
    "no-request", "no-call", "altered", "forged", "expired", "used", "denied", "in-doubt"
]
"""What is wrong with the answer to an approval request: there is no such request, or it is answered already;
its call is not there; call or tool are not what was asked about; the request is not signed by a key that is trusted
here; it is too late; it was used before; it was denied before; its call was begun before, and whether it was run to its
end is not known."""

ModelProblem: TypeAlias = Literal["missing", "checksum", "not-installed", "unreadable", "unknown-model"]
"""Why a model cannot be used: its file is missing or not the expected one, the package that runs it is not installed,
the file cannot be loaded, or the provider does not know the model."""


@final
class RateLimitError(ReasonBase, frozen=True):
    """Too many requests or tokens in too short a time. Retryable, after `retry_after` seconds where it is known."""

    __retryable__: ClassVar[bool] = True

    description: str = ""

    def __summary__(self) -> str:
        return sentence("Rate limit exceeded", self.description)

    def __remedy__(self) -> str:
        wait = "a while" if self.retry_after is None else f"{self.retry_after:g} s"
        return f"Wait {wait} and retry, or send fewer requests at a time"


@final
class QuotaExhaustedError(ReasonBase, frozen=True):
    """The account has nothing left to spend. Not retryable."""

    __advice__: ClassVar[str] = "Check the plan and billing of the account; retrying does not help"

    description: str = ""

    def __summary__(self) -> str:
        return sentence("Quota exhausted", self.description)


_KEY_MESSAGES: dict[AuthenticationKind, tuple[str, str]] = {
    "MissingKey": ("No API key provided", "Set the appropriate environment variable"),
    "InvalidKey": ("The API key was refused", "Check that it is whole and belongs to this provider"),
    "ExpiredKey": ("The API key has expired", "Make a new one"),
    "InsufficientPermissions": ("The API key may not do this", "Use one with the permission, or ask for it"),
    "Unknown": ("The provider refused to say who we are", "Check the API key"),
}


@final
class AuthenticationError(ReasonBase, frozen=True):
    """The provider refuses the key, or what it may do. Not retryable."""

    kind: AuthenticationKind
    description: str = ""

    def __summary__(self) -> str:
        return sentence(f"{self.kind}: {_KEY_MESSAGES[self.kind][0]}", self.description)

    def __remedy__(self) -> str:
        return _KEY_MESSAGES[self.kind][1]


@final
class ContentPolicyError(ReasonBase, frozen=True):
    """The provider refused the content of the request or of the answer. Not retryable."""

    __advice__: ClassVar[str] = "Change what is asked; the same request will be refused again"

    description: str = ""

    def __summary__(self) -> str:
        return sentence("Content policy violation", self.description)


@final
class InvalidRequestError(ReasonBase, frozen=True):
    """The provider found the request wrong. Not retryable.

    Attributes:
        parameter: The parameter that is wrong, if it is known.
        constraint: What it has to be, such as "must be > 0".
        description: The words of the provider.
    """

    __advice__: ClassVar[str] = "Change the request; the same one will fail again"

    parameter: str | None = None
    constraint: str | None = None
    description: str = ""

    def __summary__(self) -> str:
        words = (f"parameter '{self.parameter}'" if self.parameter else "", self.constraint or "")
        about = " ".join(word for word in words if word)
        return sentence("Invalid request", ". ".join(word for word in (about, self.description) if word))


@final
class InternalProviderError(ReasonBase, frozen=True):
    """The provider failed, or with `overloaded` has no room just now. Retryable."""

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = _RETRY

    description: str = ""
    status: int | None = None
    overloaded: bool = False

    def __summary__(self) -> str:
        status = "" if self.status is None else f" (status {self.status})"
        summary = "Provider overloaded" if self.overloaded else "Internal provider error"
        return sentence(summary + status, self.description)


@final
class NetworkError(ReasonBase, frozen=True):
    """The request did not reach the provider, or the answer did not reach us. Retryable if it got stuck on the way."""

    kind: NetworkKind
    description: str = ""

    def __may_pass__(self) -> bool:
        return self.kind == "TransportError"

    def __summary__(self) -> str:
        return sentence(f"{self.kind}: {_NETWORK_MESSAGES[self.kind][0]}", self.description)

    def __remedy__(self) -> str:
        return _NETWORK_MESSAGES[self.kind][1]


_NETWORK_MESSAGES: dict[NetworkKind, tuple[str, str]] = {
    "TransportError": ("The connection failed", "Check the connection to the provider, then retry"),
    "EncodeError": ("The request could not be written", "Give only what JSON can carry"),
    "InvalidUrlError": ("The address is not valid", "Check the provider's base_url"),
}


@final
class RequestTimeoutError(ReasonBase, frozen=True):
    """No whole answer came within the time allowed. Retryable."""

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry, allow more time, or ask for less"

    seconds: float | None = None
    description: str = ""

    def __summary__(self) -> str:
        within = "in time" if self.seconds is None else f"within {self.seconds:g} s"
        return sentence(f"No answer {within}", self.description)


@final
class InvalidOutputError(ReasonBase, frozen=True):
    """What the provider sent is not what it should be. Retryable: a model may do better when asked again.

    `pointer` is the place in the provider's data, as a JSON pointer; empty for the whole.
    """

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry; if it lasts, the provider speaks a protocol that this version does not know"

    description: str
    pointer: str = ""

    def __summary__(self) -> str:
        where = place_in(self.pointer, self.description)
        return sentence(f"Invalid output{where}", self.description)


@final
class StructuredOutputError(ReasonBase, frozen=True):
    """The answer does not fit the schema that was asked for. Retryable: a model may do better when asked again.

    Attributes:
        text: The answer, as the model wrote it.
        pointer: Where it does not fit, as a JSON pointer; empty for the whole.
        description: What is wrong there.
        tool_results: The results of the calls in the same answer, as plain JSON data: they are not lost.
    """

    __retryable__: ClassVar[bool] = True
    __advice__: ClassVar[str] = "Retry, give an example of the answer, or take a simpler schema"

    text: str
    pointer: str = ""
    description: str = ""
    tool_results: tuple[dict[str, Any], ...] = ()

    def __hash__(self) -> int:
        return hash((self.text, self.pointer))  # results are plain data

    def __summary__(self) -> str:
        where = place_in(self.pointer, self.description)
        return sentence(f"The answer does not fit its schema{where}", self.description)


@final
class UnsupportedSchemaError(ReasonBase, frozen=True):
    """A schema that this provider cannot hold a model to, found before anything was sent. Not retryable.

    Attributes:
        description: Which schema, and what in it.
        pointer: Where in the schema, as a JSON pointer.
        keyword: The JSON Schema keyword, if it is one.
    """

    __advice__: ClassVar[str] = "Change the schema there, or do not ask for it to be enforced"

    description: str
    pointer: str = ""
    keyword: str | None = None

    def __summary__(self) -> str:
        keyword = f" (keyword '{self.keyword}')" if self.keyword else ""
        where = place_in(self.pointer, self.description)
        return sentence(f"Unsupported schema{where}{keyword}", self.description)


@final
class ToolkitRequiredError(ReasonBase, frozen=True):
    """Approvals are answered, but the toolkit that holds their tools was not given. Not retryable."""

    __advice__: ClassVar[str] = "Give the toolkit that holds these tools"

    pending_approvals: tuple[str, ...]

    def __summary__(self) -> str:
        return f"Toolkit required to resolve pending tool approvals: {', '.join(self.pending_approvals)}"


@final
class InvalidApprovalError(ReasonBase, frozen=True):
    """An answer to an approval request that is not to be trusted, so nothing was run and nothing asked. Not retryable.

    Attributes:
        approval_id: Which approval.
        problem: What is wrong with it.
        description: The same in words.
    """

    approval_id: str
    problem: ApprovalProblem
    description: str = ""

    def __summary__(self) -> str:
        return sentence(
            f"The approval {self.approval_id!r} is refused: {_APPROVAL_MESSAGES[self.problem][0]}", self.description
        )

    def __remedy__(self) -> str:
        return _APPROVAL_MESSAGES[self.problem][1]


@final
class InvalidUserInputError(ReasonBase, frozen=True):
    """Something in the prompt cannot be sent to this provider. Not retryable."""

    __advice__: ClassVar[str] = "Change or leave out that part of the prompt"

    description: str

    def __summary__(self) -> str:
        return f"Invalid user input: {self.description}"


@final
class ContextOverflowError(ReasonBase, frozen=True):
    """Prompt and answer, of so many `tokens`, do not fit into the model's context window of `limit`. Not retryable."""

    __advice__: ClassVar[str] = "Shorten the history or the tools, or take a model with a larger window"

    tokens: int | None = None
    limit: int | None = None
    description: str = ""

    def __summary__(self) -> str:
        tokens = "" if self.tokens is None else f", {self.tokens} tokens"
        limit = "" if self.limit is None else f", room for {self.limit}"
        return sentence(f"Context window full{tokens}{limit}", self.description)


_APPROVAL_MESSAGES: dict[ApprovalProblem, tuple[str, str]] = {
    "no-request": ("no request of this id waits for an answer", "Answer each request once, behind the turn that asked"),
    "no-call": ("the call that it is about is not there", "Keep the call beside its request"),
    "altered": ("the call or the tool is not what was asked about", "Deny it, and let the model call again"),
    "forged": ("the request was not signed here", "Deny it, or give the `ApprovalKey` that it was signed with"),
    "expired": ("the request is too old", "Answer with `pending.expire()`, and let the model call again"),
    "used": ("it was used before", "Go on from the history that holds the result; an approval runs a call once"),
    "denied": (
        "it was denied before",
        "Let the model call again: a denial is final, and a new request can be approved",
    ),
    "in-doubt": (
        "its call was begun before, and whether it was run to its end is not known: it runs still, or was cut off",
        "Look what it did, then deny this request: the model is told of the doubt, and asks anew where it calls again",
    ),
}

_MODEL_MESSAGES: dict[ModelProblem, tuple[str, str]] = {
    "missing": ("the file is missing", "Install or download it"),
    "checksum": ("the file is not the expected one", "Download it again"),
    "not-installed": ("the package that runs it is not installed", "Install the extra that brings it"),
    "unreadable": ("the file cannot be loaded", "Check that it is whole and of a supported format"),
    "unknown-model": ("the provider does not know it", "Check the model's name and what the key may use"),
}


@final
class ModelUnavailableError(ReasonBase, frozen=True):
    """The model cannot be used. Not retryable."""

    model: str
    problem: ModelProblem
    description: str = ""

    def __summary__(self) -> str:
        return sentence(f"Model '{self.model}' is unavailable: {_MODEL_MESSAGES[self.problem][0]}", self.description)

    def __remedy__(self) -> str:
        return _MODEL_MESSAGES[self.problem][1]


@final
class UnknownError(ReasonBase, frozen=True):
    """Something that no other reason describes. Not retryable."""

    __advice__: ClassVar[str] = "Look at the description and at the provider's documentation"

    description: str = ""
    status: int | None = None

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
    | ModelUnavailableError
    | UnknownError
)
"""Every reason there is. A `match` over it is checked for completeness."""
