"""Streams of Chat Completions: from its chunks to the parts of a response, as they come.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.request import ModelRequest
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
    listed,
    parsed,
    reason_of_error,
    said_of,
    sound_data,
    sound_of,
    source_of,
    turn_end,
    usage_of,
)
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.responses_stream import Blocks, quoted
from fxai.schema.data import is_object

__all__ = ["ChatReader"]

_DONE = "[DONE]"
_TEXT, _REFUSAL = "text", "refusal"


@final
class _Call:
    """A tool call, as far as its pieces have come."""

    __slots__ = ("custom", "deltas", "id", "name", "started")

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.name = ""
        self.deltas: list[str] = []
        self.custom = False
        self.started = False


@final
class ChatReader:
    """Reads the chunks of one answer, in order; `read` gives the parts of each, `end` says whether it was whole."""

    def __init__(self, sent: WireRequest) -> None:
        self._sent = sent
        self._blocks = Blocks()
        self._calls: dict[int, _Call] = {}  # by place, in order
        self._places: dict[Any, int] = {}  # from the provider's index to the place
        self._latest: Any = 0
        self._sources = 0
        self._audio: dict[str, Any] = {}
        self._sound: list[bytes] = []
        self._told: ResponseMetadata | None = None
        self._reason: str | None = None
        self._usage = Usage()
        self.done = False
        """Whether the answer is whole."""

    def read(self, name: str, data: str) -> list[StreamPart]:
        """The parts of an event.

        Raises:
            ReplyError: it is no chunk, or it is an error.
        """
        if self.done:
            return []
        if data.strip() == _DONE:
            return self._finish()
        chunk = parsed(data)
        if chunk.get("error") or name == "error":
            raise ReplyError(reason_of_error(chunk.get("error") or chunk))
        parts = self._begin(chunk)
        if chunk.get("usage"):
            self._usage = usage_of(chunk["usage"])
        for choice in listed(chunk, "choices"):
            if choice.get("index"):  # of several answers, the first one is the answer
                continue
            delta = choice.get("delta")
            if is_object(delta):
                parts.extend(self._delta(delta))
            if isinstance(choice.get("finish_reason"), str):
                self._reason = choice["finish_reason"]
        return parts

    def end(self) -> list[StreamPart]:
        """The last parts, where the stream ended without saying so.

        Raises:
            ReplyError: it ended before the model did.
        """
        if self.done:
            return []
        if self._reason is None:
            raise cut("the model was done")
        return self._finish()

    def _begin(self, chunk: Item) -> list[StreamPart]:
        """What the server says of the answer; once more where the first chunk says nothing, as with some filters."""
        before = self._told
        if before is not None and before.model is not None:
            return []
        said = self._told = said_of(chunk, "created")
        if before is None:
            return [*self._sent.warnings, said]
        return [] if said.model is None else [said]

    def _delta(self, delta: Item) -> Iterable[StreamPart]:
        for field in THOUGHTS:
            if isinstance(delta.get(field), str) and delta[field]:
                yield from self._blocks.think(field, delta[field])
                break
        content, refusal = delta.get("content"), delta.get("refusal")
        if content or refusal or delta.get("tool_calls"):
            yield from self._thought()
        if isinstance(content, str) and content:
            if self._sent.format is not None and not self._sent.format.verbatim:
                yield from self._hold(content)
            else:
                yield from self._blocks.say(_TEXT, content)
        if isinstance(refusal, str) and refusal:
            yield from self._blocks.say(_REFUSAL, refusal)
        yield from self._noted(delta)
        for call in listed(delta, "tool_calls"):
            yield from self._call(call)

    def _thought(self) -> Iterable[StreamPart]:
        """The end of what was thought until now."""
        for field in self._blocks.thoughts:
            yield from self._blocks.close_thought(field, metadata=mark(field=field))

    def _hold(self, content: str) -> list[StreamPart]:
        """A piece of an answer that is another one once it is led back: it is shown when it is whole."""
        parts = self._blocks.open_text(_TEXT)
        self._blocks.say(_TEXT, content)
        return parts

    def _noted(self, delta: Item) -> Iterable[StreamPart]:
        for annotation in listed(delta, "annotations"):
            cited = annotation.get("url_citation")
            if is_object(cited):
                yield source_of({"type": "url_citation", **cited}, f"source:{self._sources}")
                self._sources += 1
        audio = delta.get("audio")
        if is_object(audio):
            self._sound.append(sound_data(audio.get("data")))
            said = {key: audio[key] for key in ("id", "expires_at") if audio.get(key) is not None}
            words = f"{self._audio.get('transcript', '')}{audio.get('transcript') or ''}"
            self._audio.update(said, transcript=words)

    # -- calls

    def _call(self, given: Item) -> Iterable[StreamPart]:
        call = self._of(given)
        function, custom = given.get("function"), given.get("custom")
        said = custom if is_object(custom) else function if is_object(function) else {}
        call.custom = call.custom or is_object(custom)
        call.name = call.name or str(said.get("name") or "")
        text = said.get("input") if is_object(custom) else said.get("arguments")
        if not isinstance(text, str):
            text = ""
        call.deltas.append(text)
        if not call.name or self._is_answer(call):
            return
        first = not call.started
        if first:
            yield self._start(call)
            text = "".join(call.deltas)
        shown = ('"' if first else "") + quoted(text) if call.custom else text
        if shown:
            yield ToolParamsDelta(call.id, shown)

    def _start(self, call: _Call) -> StreamPart:
        call.started = True
        name = self._sent.offer.name(call.name)
        return ToolParamsStart(call.id, name, dynamic=self._sent.offer.dynamic(name))

    def _of(self, given: Item) -> _Call:
        """The call that a piece belongs to: by its index; a new id at an index that is known is another call."""
        id_, index = str(given.get("id") or ""), given.get("index")
        key = self._latest = index if isinstance(index, int) else (id_ or self._latest)
        place = self._places.get(key)
        if place is None or (id_ and self._calls[place].id != id_):
            place = self._places[key] = len(self._calls)
            self._calls[place] = _Call(id_ or f"call_{place}")
        return self._calls[place]

    def _is_answer(self, call: _Call) -> bool:
        return self._sent.format is not None and call.name == self._sent.format.tool

    def _called(self, call: _Call) -> Iterable[StreamPart]:
        text, offer = "".join(call.deltas), self._sent.offer
        if self._sent.format is not None and self._is_answer(call):
            yield from self._blocks.say(call.id, self._sent.format.text(text))
            yield from self._blocks.close_text(call.id)
            return
        if not call.started:
            yield self._start(call)
        elif call.custom:
            yield ToolParamsDelta(call.id, '"')
        yield ToolParamsEnd(call.id)
        said = mark(type="custom_tool_call")
        yield offer.parsed_call(call.name, call.id, text, said) if call.custom else offer.call(call.name, call.id, text)

    # -- the end

    def _finish(self) -> list[StreamPart]:
        self.done = True
        parts = list(self._ending())
        reason = turn_end(parts, lambda calls: chat_finish_of(self._reason, calls=calls))
        answers = [call for call in self._calls.values() if self._is_answer(call)]
        if reason == "tool-calls" and len(answers) == len(self._calls) > 0:
            reason = "stop"
        return [*parts, Finish(reason, self._usage)]

    def _ending(self) -> Iterable[StreamPart]:
        yield from self._thought()
        for id_ in self._blocks.texts:
            yield from self._text_end(id_)
        if self._audio or self._sound:
            yield sound_of(self._audio, b"".join(self._sound), self._sent)
        for call in self._calls.values():
            yield from self._called(call)

    def _text_end(self, id_: str) -> list[StreamPart]:
        form = self._sent.format
        said = mark(refusal=True) if id_ == _REFUSAL else {}
        if form is None or form.verbatim or id_ == _REFUSAL:
            return self._blocks.close_text(id_, metadata=said)
        whole = form.text(self._blocks.text_of(id_))
        self._blocks.close_text(id_)
        again = self._blocks.say(id_, whole)[1:]  # it was started when its first piece came
        return [*again, *self._blocks.close_text(id_)]
