r"""Chunks of the UI message stream protocol, which `useChat` of the AI SDK reads. Use `encode_stream` to encode a run.

A chunk is a JSON object that fxai sends as a server-sent event. An answer is one message: a `start`, its steps, each
between `start-step` and `finish-step`, and a `finish` with the reason of the last step. Source of the forms: package
`ai` of the npm registry, versions 5.0.277, 6.0.326, and 7.0.173, `uiMessageChunkSchema`.

>>> from fxai.messages import Finish, TextDelta, TextEnd, TextStart
>>> encoder = ChunkEncoder(message_id="m")
>>> parts = [TextStart("t"), TextDelta("t", "Hi."), TextEnd("t"), Finish("stop")]
>>> chunks = [*encoder.start(), *(chunk for part in parts for chunk in encoder.encode(part)), *encoder.finish()]
>>> [chunk["type"] for chunk in chunks]
['start', 'start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', 'finish']
>>> to_event(chunks[3])
b'data: {"type":"text-delta","id":"t","delta":"Hi."}\n\n'
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.cause import Cause
from fxai.effects.effect import AnyEffect, FailCause, Fold, Generate, Succeed
from fxai.effects.stream import StreamOf, stream_steps
from fxai.messages.message import FilePart, ToolCallPart
from fxai.messages.part import (
    ApprovalRequest,
    File,
    Finish,
    FinishReason,
    Source,
    StreamPart,
    ToolCall,
    ToolParamsStart,
    ToolResult,
)
from fxai.schema.data import JsonObject, is_object
from fxai.tools.tool_error import Denied
from fxai.ui.ui_message import write_signature

if TYPE_CHECKING:
    from fxai.agents.state import PromptState

_R = TypeVar("_R")
_T = TypeVar("_T")

_LOG: Final = logging.getLogger("fxai.ui")

Version: TypeAlias = Literal[5, 6, 7]
"""The major version of the AI SDK that reads the stream."""

Chunk: TypeAlias = JsonObject
"""An item of the stream: a JSON object with a `type`. It omits missing values, and never contains null for them."""

HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # proxies must not buffer the stream
}
"""The headers of a response with such a stream."""

DONE: Final = b"data: [DONE]\n\n"
"""The event after the last chunk."""

_MASKED: Final = "An error occurred."
_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "content-filter": "content-filter",
    "tool-calls": "tool-calls",
    "pending": "tool-calls",
    "error": "error",
}


def to_event(chunk: Chunk) -> bytes:
    """Return a chunk as a server-sent event."""
    return b"data: %s\n\n" % msgspec.json.encode(chunk, enc_hook=repr)


# -- options


@final
class DataPart(msgspec.Struct, frozen=True):
    """Data of an application next to the parts of a run. Its type on the page is `data-NAME`."""

    name: str
    """The name, without `data-`."""
    data: Any
    """The data, a JSON value."""
    id: str | None = None
    """The id. Data with the same name and id replaces earlier data."""
    transient: bool = False
    """True to show the data without adding it to the message."""

    @override
    def __hash__(self) -> int:
        return hash((self.name, self.id))


def mask_error(_: object) -> str:
    """Return the same text for every failure, because a failure can contain data that a client must not see."""
    return _MASKED


def model_text(result: ToolResult) -> str:
    """Return the text of a failed call that the model reads. The model can repeat this text to the client anyway."""
    encoded: Any = result.encoded_result
    if isinstance(encoded, str):
        return encoded
    if is_object(encoded):
        for key in ("message", "reason"):
            if isinstance(encoded.get(key), str):
                return str(encoded[key])
    return msgspec.json.encode(encoded, enc_hook=repr).decode()


@final
class StreamOptions(msgspec.Struct, frozen=True):
    """The options for the parts of a run that clients receive."""

    version: Version = 7
    """The version of the AI SDK of the client."""
    reasoning: bool = True
    """True to send reasoning."""
    sources: bool = True
    """True to send sources."""
    metadata: bool = True
    """True to send metadata of providers. A client that sends messages back must keep this metadata."""
    signatures: bool = False
    """True to send requests for approvals with their signatures. A server that stores no history and uses the history
    of its client (`fxai.ui.to_prompt`) needs them. Version 5 cannot contain signatures."""
    error_text: Callable[[object], str] = mask_error
    """Returns the text of a failed run or of a provider's error. Default: a text without details."""
    tool_error_text: Callable[[ToolResult], str] = model_text
    """Returns the text of a failed call. Default: the text that the model reads."""
    state: Callable[[PromptState], Any] | None = None
    """Returns the public part of the state of a stateful prompt. A chat sends it as transient data named `state` if it
    changed when a step starts or the run ends. None sends nothing, because a state can contain private data."""
    message_metadata: Callable[[Finish], Any] | None = None
    """Returns the metadata of the message after each step. None sends no metadata."""


@final
class ChunkEncoder:
    """An encoder of the parts of one answer as chunks."""

    __slots__ = ("_asked", "_earlier", "_in_step", "_message_id", "_options", "_reason", "_started")

    def __init__(
        self,
        options: StreamOptions | None = None,
        *,
        message_id: str | None = None,
        earlier: Iterable[ToolCallPart] = (),
    ) -> None:
        """Create the encoder of an answer.

        Args:
            options: The options for the parts that clients receive.
            message_id: The id of the message. If it is None, the client chooses the id.
            earlier: Calls of other messages whose results the answer contains. Each result is sent with its call.
        """
        self._earlier = {call.id: call for call in earlier}
        self._options = StreamOptions() if options is None else options
        self._message_id = message_id
        self._in_step = False
        self._started: set[str] = set()  # the calls that this stream has sent
        self._asked: set[str] = set()  # the calls with a request for an approval
        self._reason: FinishReason = "unknown"

    def start(self) -> list[Chunk]:
        """Return the first chunk of the message."""
        return [_chunk("start", messageId=self._message_id)]

    def finish(self) -> list[Chunk]:
        """Return the last chunks of a successful message."""
        return [*self._end_step(), _chunk("finish", finishReason=_REASONS.get(self._reason, "other"))]

    def error(self, error: object) -> list[Chunk]:
        """Return the last chunk of a failed message. The client keeps the earlier parts."""
        return [_chunk("error", errorText=_safely(self._options.error_text, error, _MASKED))]

    def abort(self, reason: str | None = None) -> list[Chunk]:
        """Return the last chunk of a stopped message. The client keeps the earlier parts."""
        return [_chunk("abort", reason=reason if self._options.version > 5 else None)]

    def encode(self, part: StreamPart | DataPart) -> list[Chunk]:
        """Return the chunks of a part, or an empty list if the client does not receive the part."""
        if isinstance(part, DataPart):
            return [_data(part)]
        if isinstance(part, Finish):
            self._reason = part.reason
            chunks = self._end_step()
            if self._options.message_metadata is not None:
                metadata = _safely(self._options.message_metadata, part, None)
                chunks += [] if metadata is None else [_chunk("message-metadata", messageMetadata=metadata)]
            return chunks
        # results of approved calls come before the first step, because they belong to the earlier message
        is_early = isinstance(part, ToolResult) and part.id not in self._started
        chunks = self._encode(part)
        if not chunks or is_early or self._in_step:
            return chunks
        self._in_step = True
        return [_chunk("start-step"), *chunks]

    def _encode(self, part: Any) -> list[Chunk]:
        match part.type:
            case "text-start" | "text-delta" | "text-end":
                return [self._text(part)]
            case "reasoning-start" | "reasoning-delta" | "reasoning-end":
                return [self._text(part)] if self._options.reasoning else []
            case "tool-params-start" | "tool-params-delta" | "tool-call":
                return self._call(part)
            case "tool-result":
                call = self._earlier.pop(part.id, None) if part.id not in self._started else None
                if call is None:
                    return [self._result(part)]
                # the call belongs to another message; its metadata does not belong to this message
                own = ToolCall(call.id, call.name, call.params, dynamic=call.dynamic, params_text=call.params_text)
                return [*self._call(own), self._result(part)]
            case "tool-approval-request":
                return [self._approval(part)]
            case "file" | "source":
                return self._attachment(part)
            case "error":
                return self.error(part.error)
            case "warning":
                data = {"message": part.message, "kind": part.kind}
                return [_data(DataPart("warning", data, transient=True))]
            case _:
                return []

    # -- steps

    def _end_step(self) -> list[Chunk]:
        if not self._in_step:
            return []
        self._in_step = False
        return [_chunk("finish-step")]

    # -- parts

    def _metadata(self, part: Any) -> Any:
        return dict(part.metadata) if part.metadata and self._options.metadata else None

    def _text(self, part: Any) -> Chunk:
        chunk: Chunk = {"type": part.type, "id": part.id}
        if part.type.endswith("-delta"):
            chunk["delta"] = part.delta
        metadata = self._metadata(part)
        if metadata is not None:
            chunk["providerMetadata"] = metadata
        return chunk

    def _call(self, part: Any) -> list[Chunk]:
        if part.type == "tool-params-delta":
            if part.id not in self._started:
                return []  # its tool is unknown, and the call itself contains all arguments
            return [_chunk("tool-input-delta", toolCallId=part.id, inputTextDelta=part.delta)]
        self._started.add(part.id)
        marks = self._marks(part)
        if isinstance(part, ToolParamsStart):
            return [_chunk("tool-input-start", toolCallId=part.id, toolName=part.name, **marks)]
        # a text is not valid JSON; the result of the call explains the error
        params = part.params if part.params_text is None else part.params_text
        return [
            {"type": "tool-input-available", "toolCallId": part.id, "toolName": part.name, "input": params, **marks}
        ]

    def _marks(self, part: Any) -> JsonObject:
        marks: JsonObject = {}
        if part.provider_executed:
            marks["providerExecuted"] = True
        if part.dynamic:
            marks["dynamic"] = True
        metadata = self._metadata(part)
        is_located = not isinstance(part, ToolResult) or self._options.version > 5
        return {**marks, "providerMetadata": metadata} if metadata is not None and is_located else marks

    def _result(self, result: ToolResult) -> Chunk:
        marks = self._marks(result)
        if not result.is_failure:
            output = None if result.encoded_result is msgspec.UNSET else result.encoded_result
            chunk = {"type": "tool-output-available", "toolCallId": result.id, "output": output, **marks}
            return {**chunk, "preliminary": True} if result.preliminary else chunk
        was_asked = result.id in self._asked or result.id not in self._started
        if isinstance(result.result, Denied) and was_asked and self._options.version > 5:
            return _chunk("tool-output-denied", toolCallId=result.id)
        text = _safely(self._options.tool_error_text, result, _MASKED)
        return _chunk("tool-output-error", toolCallId=result.id, errorText=text, **marks)

    def _approval(self, request: ApprovalRequest) -> Chunk:
        self._asked.add(request.tool_call_id)
        if self._options.version == 5:  # version 5 has no approvals; an application can show this data instead
            data = {"approvalId": request.approval_id, "toolCallId": request.tool_call_id}
            return _chunk("data-approval-request", id=request.approval_id, data=data)
        sign = write_signature(request) if self._options.signatures else None
        ids = {"approvalId": request.approval_id, "toolCallId": request.tool_call_id}
        return _chunk("tool-approval-request", **ids, signature=sign)

    def _attachment(self, part: File | Source) -> list[Chunk]:
        metadata = self._metadata(part)
        if isinstance(part, File):
            return [_chunk("file", url=file_url(part), mediaType=part.media_type, providerMetadata=metadata)]
        if not self._options.sources:
            return []
        if part.url is not None:
            return [_chunk("source-url", sourceId=part.id, url=part.url, title=part.title, providerMetadata=metadata)]
        return [
            _chunk(
                "source-document",
                sourceId=part.id,
                mediaType=part.media_type or "application/octet-stream",
                title=part.title or part.file_name or part.id,
                filename=part.file_name,
                providerMetadata=metadata,
            )
        ]


def _safely(f: Callable[[Any], _T], given: Any, otherwise: _T) -> _T:
    """Return the value of a function of the application. If the function fails, log the error and continue."""
    try:
        return f(given)
    except Exception as error:
        _LOG.error("%r failed: %s", f, error, exc_info=error)
        return otherwise


def _chunk(type_: str, **fields: Any) -> Chunk:
    return {"type": type_, **{name: value for name, value in fields.items() if value is not None}}


def _data(part: DataPart) -> Chunk:
    chunk: Chunk = {"type": f"data-{part.name}", "data": part.data}
    if part.id is not None:
        chunk["id"] = part.id
    if part.transient:
        chunk["transient"] = True
    return chunk


def file_url(file: File | FilePart) -> str:
    """Return the address of a file. A file with its own data has a `data:` URL."""
    if isinstance(file.data, bytes):
        return f"data:{file.media_type};base64,{base64.b64encode(file.data).decode()}"
    return file.data.url


# -- whole streams


def encode_stream(
    parts: StreamOf[Any, Any, _R],
    options: StreamOptions | None = None,
    *,
    message_id: str | None = None,
    earlier: Sequence[ToolCallPart] = (),
) -> StreamOf[Chunk, Any, _R]:
    """Return the chunks of an answer from `start` to `finish`. `parts` are its parts, such as `agent.stream(…)`.

    A failure or a defect becomes the chunk `error` with the text of `options.error_text`, and ends the stream. A
    cancellation cancels the stream.

    Args:
        parts: The parts of the answer.
        options: The options for the parts that clients receive.
        message_id: The id of the message. If it is None, the client chooses the id.
        earlier: Calls of other messages whose results the answer contains, such as calls that the user approved later.
    """
    return stream_steps(
        lambda emit: encode_answer(parts, ChunkEncoder(options, message_id=message_id, earlier=earlier), emit)
    )


Emit: TypeAlias = Callable[[JsonObject], AnyEffect]
"""Sends a chunk or an event to the reader."""


def encode_answer(parts: StreamOf[Any, Any, Any], encoder: ChunkEncoder, emit: Emit) -> AnyEffect:
    """Return the effect of `encode_each`, with a failure as the last chunk."""

    def end(cause: Cause[Any]) -> AnyEffect:
        return FailCause(cause) if cause.interrupted else emit_each(encoder.error(error_of(cause)), emit)

    return Fold(encode_each(parts, encoder, emit), end, Succeed)


def error_of(cause: Cause[Any]) -> object:
    """Return the error that an encoder receives: the first typed failure of a cause, or its defect."""
    return next(iter(cause.failures), None) or cause.squash()


def encode_each(parts: StreamOf[Any, Any, Any], encoder: ChunkEncoder, emit: Emit) -> AnyEffect:
    """Return the effect that calls `emit` with each chunk of an answer, from `start` to `finish`."""

    def run() -> Generator[AnyEffect, Any, None]:
        yield emit_each(encoder.start(), emit)
        yield parts.for_each(lambda part: emit_each(encoder.encode(part), emit))
        yield emit_each(encoder.finish(), emit)

    return Generate(run, (), {})


def emit_each(some: list[JsonObject], emit: Emit) -> AnyEffect:
    """Return the effect that calls `emit` with each item."""

    def run() -> Generator[AnyEffect, Any, None]:
        for one in some:
            yield emit(one)

    return emit(some[0]) if len(some) == 1 else Generate(run, (), {})
