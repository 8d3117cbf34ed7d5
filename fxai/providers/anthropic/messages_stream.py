"""Streams of Anthropic's Messages API. Use `MessagesReader` to convert events to the parts of a response.

The reader handles each event once and joins each text once, so the cost is linear in the length of the stream. Blocks
can alternate. Their index identifies them.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.anthropic.request import prepare_request
>>> reader = MessagesReader(prepare_request(ModelRequest(Prompt.make("Hello")), model="claude-sonnet-5", stream=True))
>>> [part.type for part in reader.read("", '{"type": "message_start", "message": {"id": "msg_1"}}')]
['response-metadata']
>>> reader.end()
Traceback (most recent call last):
fxai.providers.http.reply.ReplyError: ...the stream ended before the message did...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from typing_extensions import override

from fxai.messages.errors import error_in
from fxai.messages.part import (
    Part,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)
from fxai.messages.response import stream_of
from fxai.models.structured_output import AnswerWriter
from fxai.providers.anthropic.messages_input import citations_of
from fxai.providers.anthropic.reply import (
    CUT,
    Blocks,
    error_of,
    input_of,
    metadata_of,
    read_message,
    text_at,
)
from fxai.providers.anthropic.request import PreparedRequest
from fxai.providers.http.reply import ReplyReader, cut, form_error
from fxai.schema.data import is_array, is_object

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""The field with the text of each type of delta, and the member of the block that the text continues."""

_EVENT: Final = ("type", "message", "delta", "content_block")


@final
class _Open:
    """A content block that started and did not end."""

    __slots__ = (
        "block",
        "citations",
        "has_started",
        "has_writer",
        "id",
        "kind",
        "pieces",
        "silent",
        "waiting",
        "writer",
    )

    def __init__(self, block: dict[str, Any], index: int, *, silent: bool) -> None:
        self.block = block
        self.kind: str = block["type"]
        self.id = str(block["id"]) if self.kind in _CALLS else str(index)
        self.pieces: list[str] = []
        self.citations: list[Any] = citations_of(block)
        self.silent = silent
        """True if the text or the arguments of the block are an answer that needs a conversion.

        A writer converts them, or the reader emits the answer at its end.
        """
        self.writer: AnswerWriter | None = None
        self.has_writer = False
        """True if the reader has requested a writer."""
        self.has_started = False
        """True if the writer has returned text."""
        self.waiting = self.kind == "text" and not silent
        """True if the first piece must emit the start of the text. A stream that ends earlier then has no text part."""


@final
class MessagesReader(ReplyReader):
    """A reader of the events of a stream. Create a new reader for each stream."""

    def __init__(self, sent: PreparedRequest) -> None:
        super().__init__()
        self._sent = sent
        self._blocks = Blocks(sent)
        self._open: dict[int, _Open] = {}
        self._newest = -1  # the index of the newest block
        self._usage: dict[str, Any] = {}  # each count is a total; a missing or null count does not change it
        self._ended: dict[str, Any] = {}
        self._metadata: ResponseMetadata | None = None

    @override
    def take_whole(self, data: str) -> Iterable[StreamPart]:
        return stream_of(read_message(data, self._sent))

    @override
    def take_end(self, *, is_cut: bool) -> Iterable[StreamPart]:
        if is_cut:
            raise cut("the message did")
        return ()

    def rest(self) -> tuple[StreamPart, ...]:
        """Return the delayed parts of a broken stream: the unchanged text of an answer."""
        held = [
            (opened.id, "".join(opened.pieces))
            for opened in self._open.values()
            if opened.silent and not opened.has_started
        ]
        self._open.clear()
        return tuple(part for id_, text in held if text for part in (TextStart(id_), TextDelta(id_, text)))

    @override
    def take(self, name: str, event: Any) -> Iterable[StreamPart]:
        if name == "error" or (is_object(event) and error_in(event, *_EVENT) is not None):
            raise error_of(event)
        match text_at(event, "type", ""):
            case "message_start" if is_object(event.get("message")):
                return self._start(event["message"])
            case "message_start":
                raise form_error("expected a message", "/message")
            case "content_block_start":
                return self._start_block(_index(event), event.get("content_block"))
            case "content_block_delta":
                return self._extend(_index(event), event.get("delta"))
            case "content_block_stop":
                return self._stop(_index(event))
            case "message_delta":
                self._usage.update(_not_null(event.get("usage")))
                beside = {key: one for key, one in event.items() if key not in ("type", "usage", "delta")}
                self._ended.update({**_not_null(beside), **_not_null(event.get("delta"))})
                return ()
            case "message_stop":
                unfinished = [part for index in sorted(self._open) for part in self._cut(index)]
                self.done = True
                return [*unfinished, *stream_of(self._blocks.end(self._ended, self._usage))]
            case _:
                return ()

    def _start(self, message: dict[str, Any]) -> Iterable[StreamPart]:
        self._usage.update(_not_null(message.get("usage")))
        self._ended.update(_not_null(message))
        metadata, before = metadata_of(message, self._sent), self._metadata
        self._metadata = metadata
        if before is None:
            yield from self._sent.warnings
        if metadata != before:  # a server behind a proxy can send the start twice
            yield metadata
        content: Any = message.get("content")
        if message.get("stop_reason") is None or not is_array(content):
            return
        for index, block in enumerate(content):  # a message that is complete at its start, such as a program's calls
            yield from self._start_block(index, block)
            yield from self._stop(index)

    def _start_block(self, index: int, block: Any) -> Iterable[StreamPart]:
        kind = text_at(block, "type", "/content_block")
        ended = list(self._stop(index)) if index in self._open else []  # some servers reuse an index
        block = self._blocks.with_id(block)
        if kind in _CALLS:
            text_at(block, "id", "/content_block")
        newest = self._open.get(self._newest)  # only the newest open block can have a delayed start
        answer, silent = self._sent.answer, False
        if answer is not None and answer.tool is None:
            silent = kind == "text" and not answer.verbatim
        elif answer is not None:
            silent = kind == "tool_use" and block.get("name") == answer.tool
        opened = _Open(block, index, silent=silent)
        self._open[index], self._newest = opened, index
        started = [*ended, *(() if newest is None else self._text_start(newest))]
        if kind in _CALLS and not opened.silent:
            name = self._blocks.name_of(opened.block, "/content_block")
            started.append(ToolParamsStart(opened.id, name, provider_executed=kind != "tool_use"))
        if kind == "thinking":
            started.append(ReasoningStart(opened.id))
        written = block.get(kind) if kind in ("text", "thinking") else None
        return (*started, *self._delta(opened, str(written))) if written else started

    def _text_start(self, opened: _Open) -> tuple[StreamPart, ...]:
        """Return the delayed start of text, if any."""
        if not opened.waiting:
            return ()
        opened.waiting = False
        return (TextStart(opened.id),)

    def _extend(self, index: int, delta: Any) -> Iterable[StreamPart]:
        opened = self._open.get(index)
        if opened is None:
            raise form_error(f"block {index} is not open", "/index")
        kind = text_at(delta, "type", "/delta")
        if kind in _TEXTS:
            member, grown = _TEXTS[kind]
            if grown == ("input" if opened.kind in _CALLS else opened.kind):
                return self._delta(opened, text_at(delta, member, "/delta"))
        elif kind == "signature_delta":
            opened.block["signature"] = text_at(delta, "signature", "/delta")
        elif kind == "citations_delta":
            opened.citations.append(delta.get("citation"))
        else:
            known = opened.block if opened.kind in ("text", "thinking", *_CALLS) else ()
            opened.block.update({key: value for key, value in delta.items() if key != "type" and key not in known})
        return ()

    def _delta(self, opened: _Open, text: str) -> tuple[StreamPart, ...]:
        opened.pieces.append(text)
        if opened.silent and self._sent.answer is not None:
            if not opened.has_writer:
                opened.writer, opened.has_writer = self._sent.answer.writer(), True
            text = "" if opened.writer is None else opened.writer.feed(text)
            start = (TextStart(opened.id),) if text and not opened.has_started else ()
            opened.has_started = opened.has_started or bool(text)
            return (*start, *((TextDelta(opened.id, text),) if text else ()))
        if not text:
            return ()
        if opened.kind == "text":
            return (*self._text_start(opened), TextDelta(opened.id, text))
        if opened.kind == "thinking":
            return (ReasoningDelta(opened.id, text),)
        return (ToolParamsDelta(opened.id, text),)

    def _stop(self, index: int, *, is_cut: bool = False) -> Iterable[StreamPart]:
        opened = self._open.pop(index, None)
        if opened is None:
            raise form_error(f"block {index} is not open", "/index")
        written = "".join(opened.pieces)
        if opened.kind in ("text", "thinking"):
            opened.block.update({opened.kind: written, **({"citations": opened.citations} if opened.citations else {})})
        elif opened.kind in _CALLS and written:
            opened.block["input"] = input_of(written)
        parts = self._blocks.parts(opened.block, f"/content/{index}", is_cut=is_cut)
        return [event for part in parts for event in self._whole(part, opened)]

    def _whole(self, part: Part, opened: _Open) -> tuple[StreamPart, ...]:
        """Return the last parts of a block from its whole part."""
        if part.type == "text":
            ended = TextEnd(opened.id, metadata=part.metadata)
            if opened.has_started or (opened.kind == "text" and not opened.silent):
                return (*self._text_start(opened), ended)
            piece = (TextDelta(opened.id, part.text),) if part.text else ()
            return (TextStart(opened.id), *piece, ended)
        if part.type == "reasoning":
            ended_ = ReasoningEnd(opened.id, metadata=part.metadata)
            return (ended_,) if opened.kind == "thinking" else (ReasoningStart(opened.id), ended_)
        if part.type == "tool-call":
            return (ToolParamsEnd(part.id), part)
        return tuple(stream_of([part]))

    def _cut(self, index: int) -> Iterable[StreamPart]:
        """Return the last parts of a block that the end of the message cut. Only a token limit can cut a block."""
        if self._ended.get("stop_reason") not in CUT:
            raise form_error(f"the message ended before its blocks {', '.join(map(str, self._open))} did")
        opened = self._open[index]
        if opened.kind in _CALLS and not opened.pieces:
            opened.pieces.append("{")  # empty text would be a valid call without arguments, which could run
        return self._stop(index, is_cut=True)


def _not_null(fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None} if is_object(fields) else {}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise form_error("expected the number of a block", "/index")
    return index
