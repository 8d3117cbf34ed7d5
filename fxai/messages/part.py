"""Parts in a model's response, streamed and whole, and the token usage. Use it to read streams and responses.

Providers stream a text, reasoning, and the parameters of a call in pieces: a start, deltas, and an end with the same
id. All other parts are whole. `StreamPart` is an item of a stream, `Part` an item of a finished response.

>>> parts: list[StreamPart] = [TextStart("1"), TextDelta("1", "Hel"), TextDelta("1", "lo"), TextEnd("1")]
>>> "".join(part.delta for part in parts if part.type == "text-delta")
'Hello'
>>> Usage(input_tokens=5) + Usage(input_tokens=2, output_tokens=1)
Usage(input_tokens=7, output_tokens=1)
>>> Usage().total_tokens is None
True
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, final

import msgspec

from fxai.messages.errors import AiError
from fxai.messages.message import FileUrl, WithMetadata
from fxai.messages.reason import ContentPolicyError


def _plus(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right


@final
class Usage(msgspec.Struct, frozen=True, repr_omit_defaults=True, omit_defaults=True, forbid_unknown_fields=True):
    """The token usage of a request, counted by the provider. None means that the provider stated no number.

    An invalid number of tokens, such as a negative number, also becomes None.
    """

    input_tokens: int | None = None
    """All tokens in the prompt, including cached tokens."""
    output_tokens: int | None = None
    """All tokens in the answer, including reasoning."""
    cached_input_tokens: int | None = None
    """The input tokens that the provider read from its cache."""
    cache_write_input_tokens: int | None = None
    """The input tokens that the provider wrote to its cache."""
    reasoning_tokens: int | None = None
    """The output tokens of reasoning."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            count: object = getattr(self, name)
            if count is not None and (type(count) is not int or count < 0):  # a server can state an invalid number
                msgspec.structs.force_setattr(self, name, None)

    def __add__(self, other: Usage) -> Usage:
        """Return the sum. It is associative and commutative, with the neutral value `Usage()`."""
        return Usage(
            _plus(self.input_tokens, other.input_tokens),
            _plus(self.output_tokens, other.output_tokens),
            _plus(self.cached_input_tokens, other.cached_input_tokens),
            _plus(self.cache_write_input_tokens, other.cache_write_input_tokens),
            _plus(self.reasoning_tokens, other.reasoning_tokens),
        )

    @property
    def total_tokens(self) -> int | None:
        """The sum of the known input and output tokens, or None if both are unknown."""
        return _plus(self.input_tokens, self.output_tokens)


FinishReason: TypeAlias = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "pause", "pending", "other", "unknown"
]
"""The reason why a turn ended.

- `stop`: the model finished.
- `length`: a token limit cut the answer short.
- `content-filter`: a filter of the provider cut the answer short.
- `tool-calls`: the model needs results.
- `pause`: the provider interrupted a long turn, which another request continues.
- `pending`: approvals or external results are missing.
- `error`: the answer ended with an error.
- `other`: a reason without a portable name.
- `unknown`: the provider stated no reason.
"""

PrefixBreak: TypeAlias = Literal["model", "tools", "instructions", "rewrite", "window", "compaction", "edit"]
"""The reason why a request does not extend the previous request of its conversation.

The value `model` means another model, `tools` means other tools, and `instructions` means another system prompt. The
value `rewrite` means that a stateful prompt shows its changed definitions at their usual place. With `window`, the
oldest messages are missing. With `compaction`, a compaction shortened the messages. With `edit`, an earlier message
changed.
"""

WarningKind: TypeAlias = Literal["unsupported-option", "unsupported-tool", "not-strict", "history", "other"]
"""The subject of a warning. With `history`, the request contains an earlier message in a changed form."""


@final
class Text(WithMetadata, frozen=True, tag_field="type", tag="text"):
    """A whole text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    """The text."""


@final
class TextStart(WithMetadata, frozen=True, tag_field="type", tag="text-start"):
    """The start of the text `id`, at this position of the response."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str
    """The id of the text in the stream."""


@final
class TextDelta(WithMetadata, frozen=True, tag_field="type", tag="text-delta"):
    """A piece of the text `id`."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    """The id of the text in the stream."""
    delta: str
    """The piece, which follows the earlier pieces."""


@final
class TextEnd(WithMetadata, frozen=True, tag_field="type", tag="text-end"):
    """The end of the text `id`."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str
    """The id of the text in the stream."""


@final
class Reasoning(WithMetadata, frozen=True, tag_field="type", tag="reasoning"):
    """Whole reasoning. The text can be empty if the provider encrypts it in the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    """The reasoning."""


@final
class ReasoningStart(WithMetadata, frozen=True, tag_field="type", tag="reasoning-start"):
    """The start of the reasoning `id`, at this position of the response."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str
    """The id of the reasoning in the stream."""


@final
class ReasoningDelta(WithMetadata, frozen=True, tag_field="type", tag="reasoning-delta"):
    """A piece of the reasoning `id`."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    """The id of the reasoning in the stream."""
    delta: str
    """The piece, which follows the earlier pieces."""


@final
class ReasoningEnd(WithMetadata, frozen=True, tag_field="type", tag="reasoning-end"):
    """The end of the reasoning `id`."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str
    """The id of the reasoning in the stream."""


@final
class ToolParamsStart(WithMetadata, frozen=True, tag_field="type", tag="tool-params-start"):
    """The start of the parameters of the call `id` of the tool `name`."""

    type: ClassVar[Literal["tool-params-start"]] = "tool-params-start"
    id: str
    """The id of the call."""
    name: str
    """The name of the tool."""
    provider_executed: bool = False
    """True if the provider runs the tool."""
    dynamic: bool = False
    """True if the tool is dynamic."""


@final
class ToolParamsDelta(WithMetadata, frozen=True, tag_field="type", tag="tool-params-delta"):
    """A piece of the JSON text of the call `id`."""

    type: ClassVar[Literal["tool-params-delta"]] = "tool-params-delta"
    id: str
    """The id of the call."""
    delta: str
    """The piece of the JSON text, which follows the earlier pieces."""


@final
class ToolParamsEnd(WithMetadata, frozen=True, tag_field="type", tag="tool-params-end"):
    """The end of the JSON text of the call `id`. The call itself follows as a `ToolCall`."""

    type: ClassVar[Literal["tool-params-end"]] = "tool-params-end"
    id: str
    """The id of the call."""


@final
class ToolCall(WithMetadata, frozen=True, tag_field="type", tag="tool-call"):
    """A call of a tool by the model."""

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    id: str
    """The call id, unique in the response. Its result repeats the id."""
    name: str
    """The tool name."""
    params: Any
    """The parameters as JSON values. None if the model wrote invalid JSON."""
    provider_executed: bool = False
    """True if the provider runs the tool."""
    dynamic: bool = False
    """True if the tool is dynamic."""
    params_text: str | None = None
    """The text of the model if it is not JSON, or the text until the stream was interrupted. None if the parameters are
    JSON. A call with this text cannot run."""
    repaired: bool = False
    """True if it replaces an invalid call of the model. In a stream, it follows that call with the same id, before its
    result."""
    json_text: tuple[str, ...] = ()
    """JSON pointers to objects and arrays that the model wrote as JSON strings. `params` contains the parsed values.
    These calls are also marked as repaired."""


@final
class ToolResult(WithMetadata, frozen=True, tag_field="type", tag="tool-result", gc=True):  # it contains any object
    """The result of a tool call."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    id: str
    """The call id."""
    name: str
    """The tool name."""
    result: Any
    """The success or failure as the Python value that the handler returned."""
    encoded_result: Any = msgspec.UNSET
    """The result as a JSON value for the model and the history. Default: `result`."""
    is_failure: bool = False
    """True if it is a failure."""
    preliminary: bool = False
    """True if another result of the call follows. Each call has exactly one final result."""
    provider_executed: bool = False
    """True if the provider ran the tool."""
    dynamic: bool = False
    """True if the tool is dynamic."""

    def __post_init__(self) -> None:
        if self.encoded_result is msgspec.UNSET:
            msgspec.structs.force_setattr(self, "encoded_result", self.result)


@final
class ApprovalRequest(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-request"):
    """A request for approval of the call `tool_call_id`. The call is pending until a user answers `approval_id`."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    """The request id, which the answer repeats."""
    tool_call_id: str
    """The call id in the same turn."""
    digest: str = ""
    """The digest of the approved tool, schemas, and parameters. Empty for a request of the provider."""
    expires: float | None = None
    """The time when the request expires, in seconds since 1970, or None for no limit."""
    signature: str = ""
    """The signature of the requesting program by its `ApprovalKey`."""


@final
class File(WithMetadata, frozen=True, tag_field="type", tag="file"):
    """A file that the model created: its media type, and its bytes or its location."""

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    """The media type, such as `"image/png"`."""
    data: bytes | FileUrl
    """The bytes, or the location."""
    file_name: str | None = None
    """The name of the file, or None."""


@final
class Source(WithMetadata, frozen=True, tag_field="type", tag="source"):
    """A source of the answer: a page with a `url`, or a document with a `media_type`."""

    type: ClassVar[Literal["source"]] = "source"
    id: str
    """The id of the source in the response."""
    title: str | None = None
    """The title, or None."""
    url: str | None = None
    """The URL of a page, or None."""
    media_type: str | None = None
    """The media type of a document, or None."""
    file_name: str | None = None
    """The name of a document, or None."""


@final
class ResponseMetadata(WithMetadata, frozen=True, tag_field="type", tag="response-metadata"):
    """The provider's data about the response: its id, the model that answered, and the time of the answer."""

    type: ClassVar[Literal["response-metadata"]] = "response-metadata"
    id: str | None = None
    """The provider's id of the response, or None."""
    model: str | None = None
    """The name of the model that answered, or None."""
    timestamp: datetime | None = None
    """The time of the answer, or None."""
    prefix_break: PrefixBreak | None = None
    """The reason why the request did not extend the previous request, or None if it did."""


@final
class Finish(WithMetadata, frozen=True, tag_field="type", tag="finish"):
    """The end of a turn: the reason, and the token usage."""

    type: ClassVar[Literal["finish"]] = "finish"
    reason: FinishReason
    """The reason why the turn ended."""
    usage: Usage = Usage()
    """The token usage of the turn."""
    refusal: ContentPolicyError | None = None
    """The refusal of the model or of a filter of the provider, or None."""


@final
class ErrorPart(WithMetadata, frozen=True, tag_field="type", tag="error"):
    """An error that the provider reported during its answer."""

    type: ClassVar[Literal["error"]] = "error"
    error: AiError
    """The error."""


@final
class WarningPart(WithMetadata, frozen=True, tag_field="type", tag="warning"):
    """A requested feature that fxai or the provider did not apply, without a failure."""

    type: ClassVar[Literal["warning"]] = "warning"
    message: str
    """The feature and the reason."""
    kind: WarningKind = "other"
    """The kind of the subject."""
    subject: str | None = None
    """The name of the option or tool, or None."""


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
"""An item of a whole response."""

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
"""An item of a stream."""

AnyPart: TypeAlias = Part | StreamPart
"""A part of a response or of a stream."""
