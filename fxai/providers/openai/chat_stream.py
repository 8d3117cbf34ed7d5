"""Streams of Chat Completions: from its chunks to the parts of a response, as they come.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> reader = ChatReader(prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-4o", api="chat"))
>>> [part.type for part in reader.read("", '{"choices": [{"delta": {"content": "Hi"}}]}')]
['response-metadata', 'text-start', 'text-delta']
>>> [part.type for part in reader.read("", "[DONE]")]
['text-end', 'finish']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import msgspec

from fxai.messages.part import (
    Finish,
    ResponseMetadata,
    StreamPart,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    Usage,
)
from fxai.providers.openai.chat_input import THOUGHTS
from fxai.providers.openai.options import mark
from fxai.providers.openai.reply import (
    Item,
    ReplyError,
    chat_finish_of,
    cut,
    metadata_of,
    objects_in,
    parse_object,
    reason_of_error,
    sound_data,
    sound_of,
    source_of,
    turn_end,
    usage_of,
)
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.responses_stream import json_piece, reasoning_blocks, text_blocks
from fxai.schema.data import is_object

_DONE = "[DONE]"
_TEXT, _REFUSAL = "text", "refusal"


@final
class _Call(msgspec.Struct):
    """A tool call, as far as its pieces have come."""

    id: str
    name: str = ""
    deltas: list[str] = []
    custom: bool = False
    started: bool = False


@final
class ChatReader:
    """Reads the chunks of one answer, in order; `read` gives the parts of each, `end` says whether it was whole."""

    def __init__(self, sent: WireRequest) -> None:
        self._sent = sent
        self._texts = text_blocks()
        self._reasoning = reasoning_blocks()
        self._calls: dict[int, _Call] = {}  # by place, in order
        self._places: dict[Any, int] = {}  # from the provider's index to the place
        self._latest: Any = 0
        self._sources = 0
        self._audio: dict[str, Any] = {}
        self._sound: list[bytes] = []
        self._metadata: ResponseMetadata | None = None
        self._reason: str | None = None
        self._usage = Usage()
        self.done: bool = False
        """Whether the answer is whole."""

    def read(self, name: str, data: str) -> list[StreamPart]:
        """The parts of an event. Raises `ReplyError`: it is no chunk, or it is an error."""
        if self.done:
            return []
        if data.strip() == _DONE:
            return self._finish()
        chunk = parse_object(data)
        if chunk.get("error") or name == "error":
            raise ReplyError(reason_of_error(chunk.get("error") or chunk))
        parts = self._begin(chunk)
        if chunk.get("usage"):
            self._usage = usage_of(chunk["usage"])
        for choice in objects_in(chunk, "choices"):
            if choice.get("index"):  # of several answers, the first one is the answer
                continue
            delta = choice.get("delta")
            if is_object(delta):
                parts.extend(self._delta(delta))
            if isinstance(choice.get("finish_reason"), str):
                self._reason = choice["finish_reason"]
        return parts

    def end(self) -> list[StreamPart]:
        """The last parts, where the stream ended without its last event.

        Raises `ReplyError`: it ended before the model did.
        """
        if self.done:
            return []
        if self._reason is None:
            raise cut("the model was done")
        return self._finish()

    def _begin(self, chunk: Item) -> list[StreamPart]:
        """The metadata of the answer; once more where the first chunk has none, as with some filters."""
        before = self._metadata
        if before is not None and before.model is not None:
            return []
        metadata = self._metadata = metadata_of(chunk, "created")
        if before is None:
            return [*self._sent.warnings, metadata]
        return [] if metadata.model is None else [metadata]

    def _delta(self, delta: Item) -> Iterable[StreamPart]:
        for field in THOUGHTS:
            if isinstance(delta.get(field), str) and delta[field]:
                yield from self._reasoning.write(field, delta[field])
                break
        content, refusal = delta.get("content"), delta.get("refusal")
        if content or refusal or delta.get("tool_calls"):
            yield from self._end_reasoning()
        if isinstance(content, str) and content:
            write = self._texts.hold if self._sent.is_buffered else self._texts.write
            yield from write(_TEXT, content)
        if isinstance(refusal, str) and refusal:
            yield from self._texts.write(_REFUSAL, refusal)
        yield from self._annotations(delta)
        for call in objects_in(delta, "tool_calls"):
            yield from self._call(call)

    def _end_reasoning(self) -> Iterable[StreamPart]:
        for field in self._reasoning.ids:
            yield from self._reasoning.close(field, metadata=mark(field=field))

    def _annotations(self, delta: Item) -> Iterable[StreamPart]:
        """The sources of the answer; pieces of its sound, which is given when it is whole, are kept."""
        for annotation in objects_in(delta, "annotations"):
            citation = annotation.get("url_citation")
            if is_object(citation):
                yield source_of({"type": "url_citation", **citation}, f"source:{self._sources}")
                self._sources += 1
        audio = delta.get("audio")
        if is_object(audio):
            self._sound.append(sound_data(audio.get("data")))
            words = f"{self._audio.get('transcript', '')}{audio.get('transcript') or ''}"
            self._audio.update({key: audio[key] for key in ("id", "expires_at") if audio.get(key) is not None})
            self._audio["transcript"] = words

    # -- calls

    def _call(self, piece: Item) -> Iterable[StreamPart]:
        call = self._call_of(piece)
        function, custom = piece.get("function"), piece.get("custom")
        fields: Item = custom if is_object(custom) else function if is_object(function) else {}
        call.custom = call.custom or is_object(custom)
        call.name = call.name or str(fields.get("name") or "")
        text = fields.get("input") if is_object(custom) else fields.get("arguments")
        if not isinstance(text, str):
            text = ""
        call.deltas.append(text)
        if not call.name or self._sent.is_answer(call.name):
            return
        first = not call.started
        if first:
            yield self._start(call)
            text = "".join(call.deltas)
        delta = ('"' if first else "") + json_piece(text) if call.custom else text
        if delta:
            yield ToolParamsDelta(call.id, delta)

    def _start(self, call: _Call) -> StreamPart:
        call.started = True
        name = self._sent.offer.name(call.name)
        return ToolParamsStart(call.id, name, dynamic=self._sent.offer.dynamic(name))

    def _call_of(self, piece: Item) -> _Call:
        """The call that a piece belongs to: by its index; a new id at an index that is known is another call."""
        id_, index = str(piece.get("id") or ""), piece.get("index")
        key = self._latest = index if isinstance(index, int) else (id_ or self._latest)
        place = self._places.get(key)
        if place is None or (id_ and self._calls[place].id != id_):
            place = self._places[key] = len(self._calls)
            self._calls[place] = _Call(id_ or f"call_{place}")
        return self._calls[place]

    def _end_call(self, call: _Call) -> Iterable[StreamPart]:
        text, offer = "".join(call.deltas), self._sent.offer
        if self._sent.is_answer(call.name):
            yield from self._texts.replace(call.id, self._sent.answer(text))
            return
        if not call.started:
            yield self._start(call)
        elif call.custom:
            yield ToolParamsDelta(call.id, '"')
        yield ToolParamsEnd(call.id)
        kind = mark(type="custom_tool_call")
        yield offer.parsed_call(call.name, call.id, text, kind) if call.custom else offer.call(call.name, call.id, text)

    # -- the end

    def _finish(self) -> list[StreamPart]:
        self.done = True
        parts = list(self._last_parts())
        reason = turn_end(parts, lambda calls: chat_finish_of(self._reason, calls=calls))
        names = [call.name for call in self._calls.values()]
        if reason == "tool-calls" and names and all(map(self._sent.is_answer, names)):
            reason = "stop"
        return [*parts, Finish(reason, self._usage)]

    def _last_parts(self) -> Iterable[StreamPart]:
        yield from self._end_reasoning()
        for id_ in self._texts.ids:
            if id_ == _REFUSAL:
                yield from self._texts.close(id_, metadata=mark(refusal=True))
            elif self._sent.is_buffered:
                yield from self._texts.replace(id_, self._sent.answer(self._texts.text(id_)))
            else:
                yield from self._texts.close(id_)
        if self._audio or self._sound:
            yield sound_of(self._audio, b"".join(self._sound), self._sent)
        for call in self._calls.values():
            yield from self._end_call(call)
