"""What a model answers, part by part, as it comes and as a whole.

A text, a line of reasoning and the parameters of a call come in pieces: a start, deltas and an end that share an id.
Everything else comes whole. `StreamPart` is what a stream gives, `Part` what a finished response holds.

>>> parts: list[StreamPart] = [TextStart("1"), TextDelta("1", "Hel"), TextDelta("1", "lo"), TextEnd("1")]
>>> "".join(part.delta for part in parts if part.type == "text-delta")
'Hello'
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, final

import msgspec

from fxai.messages.content import FileUrl
from fxai.messages.errors import AiError
from fxai.messages.metadata import Carrier
from fxai.messages.usage import Usage

__all__ = [
    "AnyPart",
    "ApprovalRequest",
    "ErrorPart",
    "File",
    "Finish",
    "FinishReason",
    "Part",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningStart",
    "ResponseMetadata",
    "Source",
    "StreamPart",
    "Text",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ToolCall",
    "ToolParamsDelta",
    "ToolParamsEnd",
    "ToolParamsStart",
    "ToolResult",
    "WarningKind",
    "WarningPart",
]

FinishReason: TypeAlias = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "pause", "pending", "other", "unknown"
]
"""Why a turn ended.

`stop`: the model was done. `length`: a token limit cut it. `content-filter`: the provider's filter did. `tool-calls`:
it waits for results. `pause`: the provider stopped a long turn, to be asked again. `pending`: approvals or calls of
others are open. `error`: it broke off. `other`: a reason that we have no word for. `unknown`: none was given.
"""

WarningKind: TypeAlias = Literal["unsupported-option", "unsupported-tool", "not-strict", "other"]
"""What a warning is about."""


@final
class Text(Carrier, frozen=True, tag_field="type", tag="text"):
    """A whole text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@final
class TextStart(Carrier, frozen=True, tag_field="type", tag="text-start"):
    """The text `id` starts, at this place of the response."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str


@final
class TextDelta(Carrier, frozen=True, tag_field="type", tag="text-delta"):
    """The text `id` goes on with `delta`."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    delta: str


@final
class TextEnd(Carrier, frozen=True, tag_field="type", tag="text-end"):
    """The text `id` is whole."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str


@final
class Reasoning(Carrier, frozen=True, tag_field="type", tag="reasoning"):
    """A whole piece of reasoning; the text may be empty where the provider encrypts it into the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@final
class ReasoningStart(Carrier, frozen=True, tag_field="type", tag="reasoning-start"):
    """The reasoning `id` starts, at this place of the response."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str


@final
class ReasoningDelta(Carrier, frozen=True, tag_field="type", tag="reasoning-delta"):
    """The reasoning `id` goes on with `delta`."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    delta: str


@final
class ReasoningEnd(Carrier, frozen=True, tag_field="type", tag="reasoning-end"):
    """The reasoning `id` is whole."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str


@final
class ToolParamsStart(Carrier, frozen=True, tag_field="type", tag="tool-params-start"):
    """The model starts to write the parameters of the call `id` of the tool `name`."""

    type: ClassVar[Literal["tool-params-start"]] = "tool-params-start"
    id: str
    name: str
    provider_executed: bool = False
    dynamic: bool = False


@final
class ToolParamsDelta(Carrier, frozen=True, tag_field="type", tag="tool-params-delta"):
    """More of the JSON text of the call `id`."""

    type: ClassVar[Literal["tool-params-delta"]] = "tool-params-delta"
    id: str
    delta: str


@final
class ToolParamsEnd(Carrier, frozen=True, tag_field="type", tag="tool-params-end"):
    """The JSON text of the call `id` is whole; the call itself follows as a `ToolCall`."""

    type: ClassVar[Literal["tool-params-end"]] = "tool-params-end"
    id: str


@final
class ToolCall(Carrier, frozen=True, tag_field="type", tag="tool-call"):
    """A tool that the model asks for.

    Attributes:
        id: What the result refers to; unique in the response.
        name: The tool's name.
        params: The parameters as plain JSON data; None when the model wrote no JSON.
        provider_executed: Whether the provider runs the tool itself.
        dynamic: Whether the tool is a dynamic one.
        params_text: What the model wrote in place of JSON, or as much of it as came before a stream was cut; None when
            the parameters are JSON. A call with a text here cannot be run.
        repaired: Whether it stands for a call of the model's that could not be run. In a stream it comes after that
            call, under the same id, before its result: whoever shows or gathers calls puts it in that call's place.
        json_text: Where the model wrote JSON text in place of an object or an array, as JSON pointers: it was read as
            what it says, so that the parameters fit. Such a call is marked as repaired, too.
    """

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    id: str
    name: str
    params: Any
    provider_executed: bool = False
    dynamic: bool = False
    params_text: str | None = None
    repaired: bool = False
    json_text: tuple[str, ...] = ()


@final
class ToolResult(Carrier, frozen=True, tag_field="type", tag="tool-result"):
    """What a tool call gave.

    Attributes:
        id: The call's id.
        name: The tool's name.
        result: The success or failure as the Python value that the handler gave.
        encoded_result: The same as plain JSON data: what the model reads and what history keeps. `result` by default.
        is_failure: Whether it is a failure.
        preliminary: Whether more is to come; of each call exactly one result is not preliminary.
        provider_executed: Whether the provider ran the tool.
        dynamic: Whether the tool is a dynamic one.
    """

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    id: str
    name: str
    result: Any
    encoded_result: Any = msgspec.UNSET
    is_failure: bool = False
    preliminary: bool = False
    provider_executed: bool = False
    dynamic: bool = False

    def __post_init__(self) -> None:
        if self.encoded_result is msgspec.UNSET:
            msgspec.structs.force_setattr(self, "encoded_result", self.result)


@final
class ApprovalRequest(Carrier, frozen=True, tag_field="type", tag="tool-approval-request"):
    """The call `tool_call_id` waits until a person answers `approval_id`.

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
class File(Carrier, frozen=True, tag_field="type", tag="file"):
    """A file that the model made: its media type, and its bytes or where they are."""

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    data: bytes | FileUrl
    file_name: str | None = None


@final
class Source(Carrier, frozen=True, tag_field="type", tag="source"):
    """Something that the answer rests on: a page with a `url`, or a document with a `media_type`."""

    type: ClassVar[Literal["source"]] = "source"
    id: str
    title: str | None = None
    url: str | None = None
    media_type: str | None = None
    file_name: str | None = None


@final
class ResponseMetadata(Carrier, frozen=True, tag_field="type", tag="response-metadata"):
    """What the provider says of the response: its id there, the model that answered, when it did."""

    type: ClassVar[Literal["response-metadata"]] = "response-metadata"
    id: str | None = None
    model: str | None = None
    timestamp: datetime | None = None


@final
class Finish(Carrier, frozen=True, tag_field="type", tag="finish"):
    """The turn ended: why, and what it took."""

    type: ClassVar[Literal["finish"]] = "finish"
    reason: FinishReason
    usage: Usage = Usage()


@final
class ErrorPart(Carrier, frozen=True, tag_field="type", tag="error"):
    """The provider reported an error in the middle of its answer."""

    type: ClassVar[Literal["error"]] = "error"
    error: AiError


@final
class WarningPart(Carrier, frozen=True, tag_field="type", tag="warning"):
    """Something that was asked for and not done, which is no failure.

    Attributes:
        message: What, and why, in words.
        kind: What it is about.
        subject: The option's or the tool's name, if it is about one.
    """

    type: ClassVar[Literal["warning"]] = "warning"
    message: str
    kind: WarningKind = "other"
    subject: str | None = None


Part: TypeAlias = (
    Text
    | Reasoning
    | ToolCall
    | ToolResult
    | ApprovalRequest
    | File
    | Source
    | ResponseMetadata
    | Finish
    | ErrorPart
    | WarningPart
)
"""What a whole response holds."""

StreamPart: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolParamsStart
    | ToolParamsDelta
    | ToolParamsEnd
    | ToolCall
    | ToolResult
    | ApprovalRequest
    | File
    | Source
    | ResponseMetadata
    | Finish
    | ErrorPart
    | WarningPart
)
"""What a stream gives."""

AnyPart: TypeAlias = Part | StreamPart
"""Either."""
