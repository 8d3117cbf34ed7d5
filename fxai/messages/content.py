"""What a message of a prompt is made of: texts, files, reasoning, tool calls and their results.

Parts are immutable records told apart by `type`, in code and in JSON. Both checkers narrow by it.

>>> part: UserContent = TextPart("What is this?")
>>> part.text if part.type == "text" else part.media_type
'What is this?'
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

import msgspec

from fxai.messages.metadata import Carrier

__all__ = [
    "AssistantContent",
    "Content",
    "FilePart",
    "FileUrl",
    "ReasoningPart",
    "TextPart",
    "ToolApprovalRequestPart",
    "ToolApprovalResponsePart",
    "ToolCallPart",
    "ToolContent",
    "ToolResultPart",
    "UserContent",
]


@final
class FileUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a file is, for the provider to fetch; fxai itself never does. `data:` URLs are kept as they are."""

    url: str


@final
class TextPart(Carrier, frozen=True, tag_field="type", tag="text"):
    """Something said in words."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@final
class ReasoningPart(Carrier, frozen=True, tag_field="type", tag="reasoning"):
    """What a model thought before it spoke. The text may be empty where the provider encrypts it into the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@final
class FilePart(Carrier, frozen=True, tag_field="type", tag="file"):
    """A file: its media type, and its bytes or where they are.

    In JSON the bytes are base64 text, and a URL is an object: `"data": "aGk="` or `"data": {"url": "https://…"}`.

    >>> FilePart.of_url("image/png", "https://example.org/cat.png").data
    FileUrl(url='https://example.org/cat.png')
    """

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    data: bytes | FileUrl
    file_name: str | None = None

    @staticmethod
    def of_url(media_type: str, url: str, file_name: str | None = None) -> FilePart:
        """A file that the provider fetches from `url`."""
        return FilePart(media_type, FileUrl(url), file_name)


@final
class ToolCallPart(Carrier, frozen=True, tag_field="type", tag="tool-call"):
    """A tool that the model asked for.

    Attributes:
        id: What the result refers to.
        name: The tool's name.
        params: The parameters as plain JSON data, as the tool was run with; None when they were no JSON.
        provider_executed: Whether the provider ran the tool itself.
        dynamic: Whether the tool was a dynamic one.
        params_text: What the model wrote in place of JSON; None when the parameters were JSON.
        json_text: Where the model wrote JSON text in place of an object or an array, as JSON pointers: here stands what
            it says.
    """

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    id: str
    name: str
    params: Any
    provider_executed: bool = False
    dynamic: bool = False
    params_text: str | None = None
    json_text: tuple[str, ...] = ()


@final
class ToolResultPart(Carrier, frozen=True, tag_field="type", tag="tool-result"):
    """What a tool call gave, as plain JSON data: its success, or with `is_failure` its failure."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    id: str
    name: str
    result: Any
    is_failure: bool = False
    provider_executed: bool = False
    dynamic: bool = False


@final
class ToolApprovalRequestPart(Carrier, frozen=True, tag_field="type", tag="tool-approval-request"):
    """A question to a person: may the call `tool_call_id` run?

    Attributes:
        approval_id: What the answer refers to.
        tool_call_id: Which call of the same turn.
        digest: What the approval is bound to: a digest of tool, schemas and parameters. Empty for a provider's own.
        expires: Until when it may be answered by yes, in seconds since 1970; None: as long as you like.
        signature: Who asks, by an `ApprovalKey`.
    """

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    digest: str = ""
    expires: float | None = None
    signature: str = ""


@final
class ToolApprovalResponsePart(Carrier, frozen=True, tag_field="type", tag="tool-approval-response"):
    """A person's answer to the request `approval_id`, or that there is none.

    Attributes:
        approval_id: Which request.
        approved: Whether the call may run.
        reason: Why, for the model.
        unanswered: Why nobody answered, with `approved=False`: the time is over, or nobody can be asked. The model then
            reads it as what it is, and not as a denial.
    """

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    approved: bool
    reason: str | None = None
    unanswered: Literal["expired", "unavailable"] | None = None


UserContent: TypeAlias = TextPart | FilePart
"""What a user can say."""

AssistantContent: TypeAlias = (
    TextPart | ReasoningPart | FilePart | ToolCallPart | ToolResultPart | ToolApprovalRequestPart
)
"""What a model can say. Results are here when the provider ran the tool."""

ToolContent: TypeAlias = ToolResultPart | ToolApprovalResponsePart
"""What comes back for a model's calls."""

Content: TypeAlias = AssistantContent | ToolApprovalResponsePart
"""Any part of any message."""
