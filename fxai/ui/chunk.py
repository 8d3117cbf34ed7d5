r"""Chunks: the parts of a run as the UI message stream protocol has them, which `useChat` of the AI SDK reads.

A chunk is plain JSON data, sent as a server-sent event. An answer is one message: a `start`, its steps, each between
`start-step` and `finish-step`, and a `finish` with the reason of the last one. Source of the forms: the package `ai` of
the npm registry, versions 5.0.277, 6.0.326 and 7.0.173, `uiMessageChunkSchema`.

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
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.cause import Cause
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fold, Generate, Succeed
from fxai.effects.stream import StreamOf
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
    WarningPart,
)
from fxai.schema.data import is_object
from fxai.tools.tool_error import Denied
from fxai.ui.ui_message import write_signature

if TYPE_CHECKING:
    from fxai.agents.state import PromptState

_R = TypeVar("_R")
_T = TypeVar("_T")

_LOG: Final = logging.getLogger("fxai.ui")

Version: TypeAlias = Literal[5, 6, 7]
"""The major version of the AI SDK that reads the stream."""

Chunk: TypeAlias = dict[str, Any]
"""One item of the stream: plain JSON data with a `type`. What it lacks is left out, and never null."""

HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # proxies are not to collect it
}
"""The headers of a response that is such a stream."""

DONE: Final = b"data: [DONE]\n\n"
"""The event behind the last chunk."""

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
    """A chunk as a server-sent event."""
    return b"data: %s\n\n" % msgspec.json.encode(chunk, enc_hook=repr)


# -- what is sent


@final
class DataPart(msgspec.Struct, frozen=True):
    """Data of an application's own, beside the parts of a run: `data-NAME` in the page."""

    name: str
    """What it is called, without `data-`."""
    data: Any
    id: str | None = None
    """Data of the same name and id takes the place of the one before."""
    transient: bool = False
    """Whether it is only shown, and no part of the message."""

    @override
    def __hash__(self) -> int:
        return hash((self.name, self.id))


def mask_error(_: object) -> str:
    """The text of a failure that says nothing of it, for it may hold what is not for a client."""
    return _MASKED


def model_text(result: ToolResult) -> str:
    """The text of a failed call that the model read, too: a client sees no less than the model's words tell it."""
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
    """What of a run is sent to a client, and how."""

    version: Version = 7
    """The version of the AI SDK that the client has."""
    reasoning: bool = True
    """Whether reasoning is sent."""
    sources: bool = True
    """Whether sources are sent."""
    metadata: bool = True
    """Whether what only a provider understands is sent: a client that sends messages back has to keep it."""
    signatures: bool = False
    """Whether requests for approvals are sent with their signatures, for a server that has no history of its own and
    takes that of its client (`fxai.ui.to_prompt`). Version 5 has no place for them."""
    error_text: Callable[[object], str] = mask_error
    """The text of a failure of the run, or of an error of the provider; by default it says nothing of it."""
    tool_error_text: Callable[[ToolResult], str] = model_text
    """The text of a failed call; by default what the model reads."""
    state: Callable[[PromptState], Any] | None = None
    """What a chat sends of the state of a stateful prompt, as transient data called `state`, where that has changed
    when a step begins or the run ends; None: nothing, for it may hold what is not for a client."""
    message_metadata: Callable[[Finish], Any] | None = None
    """Metadata of the message, made when a step has ended; None of it is sent where this is not given."""


@final
class ChunkEncoder:
    """Makes chunks of the parts of one answer, as they come."""

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
            options: What is sent, and how.
            message_id: The message that the answer goes into. None: the client gives it an id.
            earlier: Calls of other messages whose results the answer contains. Each result is sent with its call.
        """
        self._earlier = {call.id: call for call in earlier}
        self._options = StreamOptions() if options is None else options
        self._message_id = message_id
        self._in_step = False
        self._started: set[str] = set()  # the calls that this stream has sent
        self._asked: set[str] = set()  # the calls whose approval was asked for
        self._reason: FinishReason = "unknown"

    def start(self) -> list[Chunk]:
        """The first chunk of the message."""
        return [_chunk("start", messageId=self._message_id)]

    def finish(self) -> list[Chunk]:
        """The last chunks of a message that has ended well."""
        return [*self._end_step(), _chunk("finish", finishReason=_REASONS.get(self._reason, "other"))]

    def error(self, error: object) -> list[Chunk]:
        """The last chunk of a message that failed: the parts before stay."""
        return [_chunk("error", errorText=_safely(self._options.error_text, error, _MASKED))]

    def abort(self, reason: str | None = None) -> list[Chunk]:
        """The last chunk of a message that was stopped: the parts before stay."""
        return [_chunk("abort", reason=reason if self._options.version > 5 else None)]

    def encode(self, part: StreamPart | DataPart) -> list[Chunk]:
        """The chunks of one part; none where nothing is sent of it."""
        if isinstance(part, DataPart):
            return [_data(part)]
        if isinstance(part, Finish):
            return self._end_turn(part)
        # results of calls that were approved come before the first step: they belong to the message as it was
        is_early = isinstance(part, ToolResult) and part.id not in self._started
        chunks = self._encode(part)
        return [*self._begin_step(), *chunks] if chunks and not is_early else chunks

    def _encode(self, part: Any) -> list[Chunk]:
        match part.type:
            case "text-start" | "text-delta" | "text-end":
                return [self._text(part)]
            case "reasoning-start" | "reasoning-delta" | "reasoning-end":
                return [self._text(part)] if self._options.reasoning else []
            case "tool-params-start" | "tool-params-delta" | "tool-call":
                return self._call(part)
            case "tool-result":
                return [*self._call_of(part), self._result(part)]
            case "tool-approval-request":
                return [self._approval(part)]
            case "file" | "source":
                return self._attachment(part)
            case "error":
                return self.error(part.error)
            case "warning":
                return [_warning(part)]
            case _:
                return []

    # -- steps

    def _begin_step(self) -> list[Chunk]:
        if self._in_step:
            return []
        self._in_step = True
        return [_chunk("start-step")]

    def _end_step(self) -> list[Chunk]:
        if not self._in_step:
            return []
        self._in_step = False
        return [_chunk("finish-step")]

    def _end_turn(self, finish: Finish) -> list[Chunk]:
        self._reason = finish.reason
        chunks = self._end_step()
        if self._options.message_metadata is not None:
            metadata = _safely(self._options.message_metadata, finish, None)
            chunks += [] if metadata is None else [_chunk("message-metadata", messageMetadata=metadata)]
        return chunks

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
                return []  # nobody said of which tool; the call has all of its parameters
            return [_chunk("tool-input-delta", toolCallId=part.id, inputTextDelta=part.delta)]
        self._started.add(part.id)
        marks = self._marks(part)
        if isinstance(part, ToolParamsStart):
            return [_chunk("tool-input-start", toolCallId=part.id, toolName=part.name, **marks)]
        call: ToolCall = part
        named = {"toolCallId": call.id, "toolName": call.name}
        if call.params_text is not None:  # it is no JSON: what came of it is told by its result
            return [{"type": "tool-input-available", **named, "input": call.params_text, **marks}]
        return [{"type": "tool-input-available", **named, "input": call.params, **marks}]

    def _call_of(self, result: ToolResult) -> list[Chunk]:
        """The call of a result whose message is another one."""
        call = self._earlier.pop(result.id, None) if result.id not in self._started else None
        if call is None:
            return []
        return self._call(ToolCall(call.id, call.name, call.params, dynamic=call.dynamic, params_text=call.params_text))

    def _marks(self, part: Any) -> dict[str, Any]:
        marks: dict[str, Any] = {}
        if part.provider_executed:
            marks["providerExecuted"] = True
        if part.dynamic:
            marks["dynamic"] = True
        metadata = self._metadata(part)
        has_place = not isinstance(part, ToolResult) or self._options.version > 5
        return {**marks, "providerMetadata": metadata} if metadata is not None and has_place else marks

    def _result(self, result: ToolResult) -> Chunk:
        marks = self._marks(result)
        if not result.is_failure:
            chunk = {"type": "tool-output-available", "toolCallId": result.id, "output": _plain(result), **marks}
            return {**chunk, "preliminary": True} if result.preliminary else chunk
        was_asked = result.id in self._asked or result.id not in self._started
        if isinstance(result.result, Denied) and was_asked and self._options.version > 5:
            return _chunk("tool-output-denied", toolCallId=result.id)
        text = _safely(self._options.tool_error_text, result, _MASKED)
        return _chunk("tool-output-error", toolCallId=result.id, errorText=text, **marks)

    def _approval(self, request: ApprovalRequest) -> Chunk:
        self._asked.add(request.tool_call_id)
        if self._options.version == 5:  # which has no approvals: an application may show it by this
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
    """The value of a function of the application; if it fails, that is in the log, and the answer goes on."""
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


def _warning(part: WarningPart) -> Chunk:
    data = {"message": part.message, "kind": part.kind}
    return _data(DataPart("warning", data, transient=True))


def _plain(result: ToolResult) -> Any:
    return None if result.encoded_result is msgspec.UNSET else result.encoded_result


def file_url(file: File | FilePart) -> str:
    """The address of a file; of one that is there itself, a `data:` URL."""
    if isinstance(file.data, bytes):
        return f"data:{file.media_type};base64,{base64.b64encode(file.data).decode()}"
    return file.data.url


# -- a whole stream


class PartEncoder(Protocol):
    """Makes data for a client of the parts of one answer."""

    def start(self) -> list[dict[str, Any]]:
        """What comes first."""
        ...

    def encode(self, part: StreamPart | DataPart) -> list[dict[str, Any]]:
        """What is sent of a part."""
        ...

    def finish(self) -> list[dict[str, Any]]:
        """What comes last, where the answer has ended well."""
        ...

    def error(self, error: object) -> list[dict[str, Any]]:
        """What comes last, where it failed."""
        ...


def encode_stream(
    parts: StreamOf[Any, Any, _R],
    options: StreamOptions | None = None,
    *,
    message_id: str | None = None,
    earlier: Sequence[ToolCallPart] = (),
) -> StreamOf[Chunk, Any, _R]:
    """The chunks of an answer whose parts are `parts`, as `agent.stream(…)` gives them, from `start` to `finish`.

    A failure, and a defect, is the chunk `error`, worded by `options.error_text`, and the end; a cancellation cancels.

    Args:
        parts: The parts.
        options: What is sent, and how.
        message_id: The message that the answer goes into. None: the client gives it an id.
        earlier: Calls of other messages whose results the answer contains, such as calls that were approved later.
    """
    return encode_with(parts, lambda: ChunkEncoder(options, message_id=message_id, earlier=earlier))


def encode_with(parts: StreamOf[Any, Any, _R], make: Callable[[], PartEncoder]) -> StreamOf[dict[str, Any], Any, _R]:
    """What an encoder, made anew for each reading, makes of an answer; as `encode_stream`."""

    def produce(emit: Callable[[dict[str, Any]], EffectOf[None]]) -> AnyEffect:
        encoder = make()

        def send(some: list[dict[str, Any]]) -> AnyEffect:
            return emit(some[0]) if len(some) == 1 else Generate(send_each, (some,), {})

        def send_each(some: list[dict[str, Any]]) -> Generator[AnyEffect, Any, None]:
            for one in some:
                yield emit(one)

        def end(cause: Cause[Any]) -> AnyEffect:
            if cause.interrupted:
                return FailCause(cause)
            return send(encoder.error(next(iter(cause.failures), None) or cause.squash()))

        def run() -> Generator[AnyEffect, Any, None]:
            yield send(encoder.start())
            yield parts.for_each(lambda part: send(encoder.encode(part)))
            yield send(encoder.finish())

        return Fold(Generate(run, (), {}), end, Succeed)

    return StreamOf.steps(produce)
