"""Parts of a model's response, streamed and whole, and the tokens that it used.

A text, a piece of reasoning and the parameters of a call are streamed in pieces: a start, deltas and an end that share
an id. Everything else comes whole. `StreamPart` is an item of a stream, `Part` an item of a finished response.

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
    """Tokens that a request used, counted by the provider. None means that the provider gave no number.

    What is no number of tokens, such as a negative one, is None as well.

    Attributes:
        input_tokens: All tokens of the prompt, cached ones among them.
        output_tokens: All tokens of the answer, reasoning among them.
        cached_input_tokens: The input tokens that were read from the provider's cache.
        cache_write_input_tokens: The input tokens that were written to it.
        reasoning_tokens: The output tokens that were reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            count: object = getattr(self, name)
            if count is not None and (type(count) is not int or count < 0):  # a server says it: nothing is given back
                msgspec.structs.force_setattr(self, name, None)

    def __add__(self, other: Usage) -> Usage:
        """The sum: associative and commutative, with `Usage()` as its neutral value."""
        return Usage(
            _plus(self.input_tokens, other.input_tokens),
            _plus(self.output_tokens, other.output_tokens),
            _plus(self.cached_input_tokens, other.cached_input_tokens),
            _plus(self.cache_write_input_tokens, other.cache_write_input_tokens),
            _plus(self.reasoning_tokens, other.reasoning_tokens),
        )

    @property
    def total_tokens(self) -> int | None:
        """Input and output together, as far as they are known; None when neither is."""
        return _plus(self.input_tokens, self.output_tokens)


FinishReason: TypeAlias = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "pause", "pending", "other", "unknown"
]
"""Why a turn ended.

`stop`: the model had finished. `length`: a token limit cut the answer. `content-filter`: the provider's filter did.
`tool-calls`: the model waits for results. `pause`: the provider interrupted a long turn, to be continued by another
request. `pending`: approvals, or results from outside, are missing. `error`: the answer broke off. `other`: a reason
that has no name here. `unknown`: the provider gave none.
"""

PrefixBreak: TypeAlias = Literal["model", "tools", "instructions", "rewrite", "window", "compaction", "edit"]
"""The reason why a request does not extend the previous request of its conversation.

The value `model` means another model, `tools` means other tools, and `instructions` means another system prompt. The
value `rewrite` means that a stateful prompt shows its changed definitions at their usual place. With `window`, the
oldest messages are missing. With `compaction`, a compaction shortened the messages. With `edit`, an earlier message
changed.
"""

WarningKind: TypeAlias = Literal["unsupported-option", "unsupported-tool", "not-strict", "history", "other"]
"""The subject of a warning. `history`: the request shows an earlier message in a changed form."""


@final
class Text(WithMetadata, frozen=True, tag_field="type", tag="text"):
    """A whole text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@final
class TextStart(WithMetadata, frozen=True, tag_field="type", tag="text-start"):
    """The text `id` starts, at this place of the response."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str


@final
class TextDelta(WithMetadata, frozen=True, tag_field="type", tag="text-delta"):
    """The text `id` goes on with `delta`."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    delta: str


@final
class TextEnd(WithMetadata, frozen=True, tag_field="type", tag="text-end"):
    """The text `id` is whole."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str


@final
class Reasoning(WithMetadata, frozen=True, tag_field="type", tag="reasoning"):
    """A whole piece of reasoning; the text may be empty where the provider encrypts it into the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@final
class ReasoningStart(WithMetadata, frozen=True, tag_field="type", tag="reasoning-start"):
    """The reasoning `id` starts, at this place of the response."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str


@final
class ReasoningDelta(WithMetadata, frozen=True, tag_field="type", tag="reasoning-delta"):
    """The reasoning `id` goes on with `delta`."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    delta: str


@final
class ReasoningEnd(WithMetadata, frozen=True, tag_field="type", tag="reasoning-end"):
    """The reasoning `id` is whole."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str


@final
class ToolParamsStart(WithMetadata, frozen=True, tag_field="type", tag="tool-params-start"):
    """The parameters of the call `id` of the tool `name` start."""

    type: ClassVar[Literal["tool-params-start"]] = "tool-params-start"
    id: str
    name: str
    provider_executed: bool = False
    dynamic: bool = False


@final
class ToolParamsDelta(WithMetadata, frozen=True, tag_field="type", tag="tool-params-delta"):
    """More of the JSON text of the call `id`."""

    type: ClassVar[Literal["tool-params-delta"]] = "tool-params-delta"
    id: str
    delta: str


@final
class ToolParamsEnd(WithMetadata, frozen=True, tag_field="type", tag="tool-params-end"):
    """The JSON text of the call `id` is whole; the call itself follows as a `ToolCall`."""

    type: ClassVar[Literal["tool-params-end"]] = "tool-params-end"
    id: str


@final
class ToolCall(WithMetadata, frozen=True, tag_field="type", tag="tool-call"):
    """A call of a tool, made by the model.

    Attributes:
        id: What the result refers to; unique in the response.
        name: The tool's name.
        params: The parameters as plain JSON data; None when the model wrote no JSON.
        provider_executed: Whether the provider runs the tool itself.
        dynamic: Whether the tool is a dynamic one.
        params_text: The text that the model wrote where it is not JSON, or as much as came before the stream was cut;
            None when the parameters are JSON. A call with a text here cannot be run.
        repaired: Whether it replaces a call of the model's that could not be run. In a stream it comes after that call,
            under the same id, before its result, and takes the place of that call.
        json_text: Where the model wrote JSON text in place of an object or an array, as JSON pointers; `params` holds
            the parsed data there. Such a call is marked as repaired, too.
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
class ToolResult(WithMetadata, frozen=True, tag_field="type", tag="tool-result", gc=True):  # it holds any object
    """The result of a tool call.

    Attributes:
        id: The call's id.
        name: The tool's name.
        result: The success or failure, as the Python value that the handler returned.
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
class ApprovalRequest(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-request"):
    """The call `tool_call_id` waits until a person answers `approval_id`.

    Attributes:
        approval_id: What the answer refers to.
        tool_call_id: Which call of the same turn.
        digest: A digest of tool, schemas and parameters, to which the approval is bound. Empty for a provider's own.
        expires: Until when it may be approved, in seconds since 1970; None: without end.
        signature: Of the asking program, made with an `ApprovalKey`.
    """

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    digest: str = ""
    expires: float | None = None
    signature: str = ""


@final
class File(WithMetadata, frozen=True, tag_field="type", tag="file"):
    """A file that the model made: its media type, and its bytes or where they are."""

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    data: bytes | FileUrl
    file_name: str | None = None


@final
class Source(WithMetadata, frozen=True, tag_field="type", tag="source"):
    """A source of the answer: a page with a `url`, or a document with a `media_type`."""

    type: ClassVar[Literal["source"]] = "source"
    id: str
    title: str | None = None
    url: str | None = None
    media_type: str | None = None
    file_name: str | None = None


@final
class ResponseMetadata(WithMetadata, frozen=True, tag_field="type", tag="response-metadata"):
    """The provider's data about the response: its id there, the model that answered, the time of the answer."""

    type: ClassVar[Literal["response-metadata"]] = "response-metadata"
    id: str | None = None
    model: str | None = None
    timestamp: datetime | None = None
    prefix_break: PrefixBreak | None = None
    """The reason why the request did not extend the previous one, or None if the request extended it."""


@final
class Finish(WithMetadata, frozen=True, tag_field="type", tag="finish"):
    """The end of a turn: the reason, and the tokens used."""

    type: ClassVar[Literal["finish"]] = "finish"
    reason: FinishReason
    usage: Usage = Usage()
    refusal: ContentPolicyError | None = None
    """The reason of a refusal, by the model or by a filter of the provider. None if the model did not refuse."""


@final
class ErrorPart(WithMetadata, frozen=True, tag_field="type", tag="error"):
    """The provider reported an error in the middle of its answer."""

    type: ClassVar[Literal["error"]] = "error"
    error: AiError


@final
class WarningPart(WithMetadata, frozen=True, tag_field="type", tag="warning"):
    """Something that was asked for and not done, without a failure.

    Attributes:
        message: What was not done, and why, in words.
        kind: What it is about.
        subject: The name of the option or tool, if it is about one.
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
"""Either."""
