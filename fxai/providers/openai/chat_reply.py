"""Answers of Chat Completions. Use `read_chat` for a whole answer, or `ChatReader` for the chunks of a stream.

The reader treats a whole answer like a stream with a single chunk, so that both have the same parts. It converts the
fields of other servers to parts if suitable parts exist: reasoning in any field, cited pages, tools that the server
ran, and images. Data for later requests is in the metadata of a part in the history. The metadata of the `Finish`
contains the remaining data.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> reader = ChatReader(prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-6-luna", api="chat"))
>>> [part.type for part in reader.read("", '{"choices": [{"delta": {"content": "Hi"}}]}')]
['response-metadata', 'text-start', 'text-delta']
>>> [part.type for part in reader.read("", "[DONE]")]
['text-end', 'finish']
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, final

import msgspec
from typing_extensions import override

from fxai.messages.accumulate import gather
from fxai.messages.errors import error_in, error_of_finish
from fxai.messages.message import FileUrl
from fxai.messages.part import (
    File,
    Finish,
    FinishReason,
    Part,
    Source,
    StreamPart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)
from fxai.providers.http.reply import (
    ReplyReader,
    as_object,
    cut,
    failure_of,
    form_error,
    parse_object,
    reasoning_blocks,
    text_blocks,
)
from fxai.providers.openai.chat_input import GOING_BACK, THOUGHTS
from fxai.providers.openai.options import mark
from fxai.providers.openai.reply import (
    Item,
    finish_metadata,
    json_piece,
    metadata_of,
    objects_in,
    refusal_of,
    turn_end,
    usage_of,
)
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.tool_calls import (
    ChatCall,
    ChatCalls,
    ExecutedTools,
    failed_generation,
    is_wrapper,
    unwrap_parallel,
)
from fxai.schema.data import JsonObject, is_array, is_object

_TEXT, _REFUSAL, _CONTENT, _DETAILS = "text", "refusal", "content", "reasoning_details"

_CHAT: Final[Mapping[str, FinishReason]] = {
    "": "stop",  # from a server that ended its answer without a reason
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "sensitive": "content-filter",
    "safety": "content-filter",
    "refusal": "content-filter",
}


def chat_finish_of(reason: object, *, calls: bool) -> FinishReason:
    """Return the reason why a turn ended, from `finish_reason`. Some servers send `stop` after calls.

    >>> chat_finish_of("stop", calls=False), chat_finish_of("", calls=True)
    ('stop', 'tool-calls')
    """
    known: FinishReason = _CHAT.get(reason, "unknown") if isinstance(reason, str) else "unknown"
    return "tool-calls" if calls and known in ("stop", "unknown") else known


def read_chat(answer: Item, sent: WireRequest) -> tuple[Part, ...]:
    """Return the parts of a whole answer.

    Raises:
        ReplyError: If the value is not an answer of the API, or if it is an error.
    """
    reader = ChatReader(sent)
    return gather(reader.read_answer(answer))


@final
class ChatReader(ReplyReader):
    """A reader of the chunks of an answer. `read` returns the parts of a chunk; `end` checks the end of the stream."""

    def __init__(self, sent: WireRequest) -> None:
        super().__init__()
        self._sent = sent
        self._texts = text_blocks()
        self._reasoning = reasoning_blocks()
        self._marks: dict[str, JsonObject] = {}  # metadata of the reasoning by block
        self._calls = ChatCalls()
        self._executed = ExecutedTools()
        self._sources = 0
        self._cited: set[str] = set()
        self._carried = 0
        self._kept: JsonObject = {}  # fields of the message that later requests contain
        self._audio: JsonObject = {}
        self._sound: list[bytes] = []
        self._fields: JsonObject = {}  # the last value of each field of the chunks
        self._choice: JsonObject = {}  # the fields of the choice
        self._beside: JsonObject = {}  # the unknown fields of the message
        self._reason: str | None = None
        self._has_answer = False
        self._has_content = False

    def read_answer(self, answer: Item) -> Iterator[StreamPart]:
        """Yield the parts of a whole answer. Raises `ReplyError` if the value is not an answer or contains an error."""
        error = error_in(answer, "choices")
        if error is not None:
            yield from self._refusal(answer, error)
            return
        choices = objects_in(answer, "choices")
        if choices:
            _raise_failure(choices[0])
        if not choices or not is_object(choices[0].get("message")):
            raise form_error("the answer has no message", "/choices/0/message")
        yield from self._chunk(answer, "message")
        yield from self._finish()

    @override
    def take_whole(self, data: str) -> Iterable[StreamPart]:
        return self.read_answer(parse_object(data))

    @override
    def take_end(self, *, is_cut: bool) -> Iterable[StreamPart]:
        if is_cut and not self._reason:
            raise cut("the model finished")
        if not self._has_answer:
            raise failure_of("the stream ended without an answer")
        return self._finish()

    @override
    def take(self, name: str, event: Any) -> Iterator[StreamPart]:
        if name == "error" and not is_object(event):
            raise failure_of(event)
        chunk = as_object(event)
        error = error_in(chunk, "choices", "usage", "id")
        if error is not None or name == "error":
            yield from self._refusal(chunk, chunk if error is None else error)
            return
        yield from self._chunk(chunk, "delta")
        for choice in objects_in(chunk, "choices"):
            if not choice.get("index"):
                _raise_failure(choice)

    def _chunk(self, chunk: Item, field: Literal["delta", "message"]) -> list[StreamPart]:
        parts: list[StreamPart] = []
        if self._metadata is None or self._metadata.model is None:  # the first chunk lacks the model with some filters
            metadata = metadata_of(chunk, "created")
            self._calls.answer = metadata.id
            parts = self.begin(metadata, self._sent.warnings)
        for key, value in chunk.items():
            if key == "x_groq":
                self._fields[key] = join_fields(self._fields.get(key), value)
            elif value is not None and key != "obfuscation":
                self._fields[key] = value
        choices = objects_in(chunk, "choices")
        # a request for several answers uses the first answer
        for choice in choices[:1] if field == "message" else [one for one in choices if not one.get("index")]:
            message = choice.get(field)
            self._has_answer = True
            if is_object(message):
                content = list(self._message(message, is_complete=field == "message"))
                self._has_content = self._has_content or bool(content)
                parts.extend(content)
            for key, value in choice.items():
                if key not in ("index", "delta", "message", "finish_reason"):
                    self._choice[key] = join_fields(self._choice.get(key), value)
            if isinstance(choice.get("finish_reason"), str):
                self._reason = choice["finish_reason"] or self._reason or ""
        return [*parts, *self._citations(chunk)]

    # -- the contents of a message

    def _message(self, message: Item, *, is_complete: bool) -> Iterable[StreamPart]:
        yield from self._thoughts(message, is_complete=is_complete)
        yield from self._executed.add(objects_in(message, "executed_tools"))
        content, refusal, old = message.get("content"), message.get("refusal"), message.get("function_call")
        calls = objects_in(message, "tool_calls")
        if not calls and is_object(old) and any(old.values()):  # the old field for a single call
            calls = [{"index": 0, "function": old}]
        if content or refusal or calls:
            if not is_array(content):
                yield from self._end_reasoning()
            if isinstance(content, str) and content:
                yield from self._text(content)
            for piece in objects_in(message, "content"):
                yield from self._piece(piece)
        if isinstance(refusal, str) and refusal:
            yield from self._texts.write(_REFUSAL, refusal, mark(refusal=True))
        yield from self._attachments(message)
        for key, value in message.items():  # the unknown fields, for later requests or for the `Finish`
            if key in GOING_BACK:
                self._kept[key] = join_fields(self._kept.get(key), value)
            elif key not in _MESSAGE:
                self._beside[key] = join_fields(self._beside.get(key), value)
        self._calls.start_chunk()
        for position, call in enumerate(calls):
            yield from self._call({**call, "index": position} if is_complete else call)

    def _text(self, text: str, block: str = _TEXT) -> Iterable[StreamPart]:
        if not self._sent.is_buffered:
            return self._texts.write(block, text)
        return self._texts.convert(block, text, self._sent.answer_writer)

    def _piece(self, piece: Item) -> Iterable[StreamPart]:
        """Yield the parts of an item in a content list, as on Mistral: text, a thought, or unchanged data."""
        kind = piece.get("type")
        if kind == "thinking":
            if _TEXT in self._texts.ids and not self._sent.is_buffered:
                yield from self._texts.close(_TEXT)
            thinking = piece.get("thinking")
            pieces = objects_in(piece, "thinking")
            if isinstance(thinking, str):
                pieces = [{"type": "text", "text": thinking}]
            rest = {key: one for key, one in piece.items() if key not in ("type", "thinking") and one is not None}
            others = [dict(one) for one in pieces if one.get("type") != "text"]
            if others:
                rest["others"] = others
            text = "".join(str(one.get("text") or "") for one in pieces if one.get("type") == "text")
            yield from self._think(_CONTENT, text, {"field": _CONTENT, "detail": rest})
            return
        yield from self._end_reasoning()
        if kind == "text" and isinstance(piece.get("text"), str):
            yield from self._text(piece["text"])
        else:
            yield from self._carry(mark(content=dict(piece)))

    def _carry(self, metadata: Mapping[str, Any]) -> Iterable[StreamPart]:
        """Yield an empty text part that carries data of the server for later requests."""
        self._carried += 1
        yield from self._texts.replace(f"carried:{self._carried}", "", metadata)

    # -- reasoning

    def _thoughts(self, message: Item, *, is_complete: bool) -> Iterable[StreamPart]:
        """Yield the reasoning of a message only once, even if several fields contain it."""
        texts: list[str] = []
        for position, detail in enumerate(objects_in(message, _DETAILS)):
            # an item of OpenRouter or Snowflake: text, a summary, or encrypted reasoning
            key = next((key for key in ("text", "summary") if isinstance(detail.get(key), str)), None)
            texts.append("" if key is None else detail[key])
            rest = {name: value for name, value in detail.items() if name != key and value is not None}
            block = f"{_DETAILS}:{position if is_complete else detail.get('index', position)}:{detail.get('type')}"
            yield from self._think(block, texts[-1], {"field": _DETAILS, "detail": rest, "key": key})
        written = {_squeeze("".join(texts))} if texts else set[str]()
        for field in THOUGHTS:
            text = message.get(field)
            if isinstance(text, str) and text and _squeeze(text) not in written:
                written.add(_squeeze(text))
                yield from self._think(field, text, {"field": field})

    def _think(self, block: str, text: str, about: JsonObject) -> Iterable[StreamPart]:
        known = self._marks.setdefault(block, {})
        detail = {**known.get("detail", {}), **about.get("detail", {})}
        known.update(about)
        if detail:
            known["detail"] = detail
        yield from self._reasoning.write(block, text)

    def _end_reasoning(self) -> Iterable[StreamPart]:
        for block in self._reasoning.ids:
            yield from self._reasoning.close(block, metadata=mark(**self._marks.pop(block, {})))

    # -- sources, files, and other data

    def _source(self, page: Item, about: Mapping[str, Any]) -> Source:
        id_ = f"source:{self._sources}"
        self._sources += 1
        rest = {key: value for key, value in page.items() if key not in ("url", "title") and value not in (None, "")}
        title = page.get("title")
        named = title if isinstance(title, str) and title else None
        return Source(id_, title=named, url=str(page.get("url", "")), metadata=mark(**{**about, **rest}))

    def _citations(self, chunk: Item) -> Iterable[StreamPart]:
        """Yield the pages next to the choices, as on Perplexity, once. Numbers in the text refer to their order."""
        cited, results = chunk.get("citations"), objects_in(chunk, "search_results")
        if not cited and not results:
            return
        pages: dict[str, Item] = {}
        for url in cited if is_array(cited) else []:
            page: Item = url if is_object(url) else {"url": url}
            pages[str(page.get("url"))] = page
        for result in results:
            url = str(result.get("url"))
            pages[url] = {**pages.get(url, {}), **result}
        for url, page in pages.items():
            if url not in self._cited:
                self._cited.add(url)
                yield self._source(page, {"type": "citation"})

    def _attachments(self, message: Item) -> Iterable[StreamPart]:
        """Yield the pages that a message cites, and its images. Store the pieces of its audio until the answer ends."""
        for annotation in objects_in(message, "annotations"):
            citation = annotation.get("url_citation")
            if is_object(citation):
                yield self._source(citation, {"type": annotation.get("type")})
            else:  # sent back unchanged
                yield from self._carry(mark(annotation=dict(annotation)))
        for image in objects_in(message, "images"):
            location = image.get("image_url")
            url = location.get("url") if is_object(location) else location
            if isinstance(url, str) and url:
                yield file_of(url)
        audio = message.get("audio")
        if is_object(audio):
            encoded = audio.get("data")
            try:
                self._sound.append(b64decode(encoded or "") if isinstance(encoded, str | None) else b"")
            except ValueError as error:
                raise form_error(f"audio is not base64: {error}") from None
            words = f"{self._audio.get('transcript', '')}{audio.get('transcript') or ''}"
            self._audio.update({key: audio[key] for key in ("id", "expires_at") if audio.get(key)})
            self._audio["transcript"] = words

    # -- calls

    def _call(self, piece: Item) -> Iterable[StreamPart]:
        call = self._calls.add(piece)
        if not call.name or self._is_wrapper(call):
            return
        text = call.deltas[-1]
        first = not call.started
        if self._sent.is_answer(call.name):
            call.started = True
            yield from self._text(call.text if first else text, call.id)
            return
        if first:
            yield self._start(call)
            text = call.text
        delta = ('"' if first else "") + json_piece(text) if call.custom else text
        if delta:
            yield ToolParamsDelta(call.id, delta)

    def _start(self, call: ChatCall) -> StreamPart:
        call.started = True
        name = self._sent.offer.name(call.name)
        return ToolParamsStart(call.id, name, dynamic=self._sent.offer.dynamic(name))

    def _end_call(self, call: ChatCall) -> Iterable[StreamPart]:
        if self._sent.is_answer(call.name):
            return  # it has ended with the other texts
        params = self._whole_call(call).params if self._is_wrapper(call) else None
        inside = [
            ChatCall(f"{call.id}_{index}", name, [msgspec.json.encode(given).decode()], extras=call.extras)
            for index, (name, given) in enumerate(unwrap_parallel(call.name, params) or (), 1)
        ]
        for one in inside or [call]:
            if not one.started:
                yield self._start(one)
            elif one.custom:
                yield ToolParamsDelta(one.id, '"')
            yield ToolParamsEnd(one.id)
            yield self._whole_call(one)

    def _is_wrapper(self, call: ChatCall) -> bool:
        return is_wrapper({"type": "function_call", "name": call.name}, self._sent.offer)

    def _whole_call(self, call: ChatCall) -> ToolCall:
        offer = self._sent.offer
        if call.custom:
            return offer.parsed_call(call.name, call.id, call.text, call.metadata)
        return offer.call(call.name, call.id, call.text, call.metadata)

    def _refusal(self, chunk: Item, error: object) -> list[StreamPart]:
        """Return the parts of an error that reports invalid calls. The model receives this error.

        Raises `ReplyError` for any other error.
        """
        calls = failed_generation(error)
        if calls is None:
            raise failure_of(error)
        parts = self._chunk({**chunk, "error": error}, "message")
        for position, (name, text) in enumerate(calls, len(tuple(self._calls))):
            parts.extend(self._call({"index": position, "function": {"name": name, "arguments": text}}))
        return [*parts, *self._finish()]

    # -- the end

    def _finish(self) -> list[StreamPart]:
        self.done = True
        refusal = self._texts.text(_REFUSAL)
        parts = list(self._last_parts())
        reason = turn_end(parts, lambda calls: chat_finish_of(self._reason, calls=calls))
        names = [call.name for call in self._calls]
        if reason == "tool-calls" and names and all(map(self._sent.is_answer, names)):
            reason = "stop"
        detail = None if _CHAT.get(self._reason or "") == reason else self._reason
        groq = self._fields.get("x_groq")
        if is_object(groq) and not self._fields.get("usage"):  # Groq's streams contain the usage in this field
            self._fields["usage"] = groq.pop("usage", None)
        choice = {key: value for key, value in self._choice.items() if not _is_nothing(value)}
        message = {key: value for key, value in self._beside.items() if not _is_nothing(value)}
        more = {**choice, "message": message or None, "finish_reason": detail or None}
        if not (self._reason or parts or self._has_content):
            raise failure_of("the answer is empty, and the server states no reason")
        metadata = finish_metadata(self._fields, _FORMAL, **more)
        usage = usage_of(self._fields.get("usage"))
        return [*parts, Finish(reason, usage, refusal_of(reason, refusal), metadata=metadata)]

    def _last_parts(self) -> Iterable[StreamPart]:
        yield from self._end_reasoning()
        for id_ in self._texts.ids:
            if id_ == _REFUSAL:
                yield from self._texts.close(id_, metadata=mark(refusal=True))
            elif self._sent.is_buffered:
                text = self._texts.text(id_)
                whole = text if self._texts.is_converted(id_) else self._sent.answer(text)
                yield from self._texts.end_answer(id_, whole)
            else:
                yield from self._texts.close(id_)
        if any(self._audio.values()) or any(self._sound):
            options = self._sent.fields.get("audio")
            form = (options.get("format") if is_object(options) else None) or "wav"
            about = {key: self._audio.get(key) for key in ("transcript", "expires_at")}
            metadata = mark(audio=self._audio.get("id"), **about)
            media_type = "audio/pcm" if form == "pcm16" else f"audio/{form}"
            yield File(media_type, b"".join(self._sound), metadata=metadata)
        yield from self._executed.end()
        if self._kept:
            yield from self._carry(mark(message=self._kept))
        for call in self._calls:
            yield from self._end_call(call)


def _raise_failure(choice: Item) -> None:
    """Raise the error that a choice contains, or that its `finish_reason` states.

    Raises:
        ReplyError: If the choice contains an error.
    """
    error = choice.get("error") or error_of_finish(choice.get("finish_reason"))
    if error is not None:
        raise failure_of(error)


def _squeeze(text: str) -> str:
    return "".join(text.split())


# -- files


def file_of(url: str) -> File:
    """Return the file at a URL. If the URL contains the bytes, the file contains them.

    >>> file_of("data:text/plain;base64,SGk=").data
    b'Hi'
    """
    form, comma, data = url.partition(",")
    media, _, coding = form.removeprefix("data:").partition(";")
    if url.startswith("data:") and comma and coding.endswith("base64"):
        try:
            return File(media or "application/octet-stream", b64decode(data, validate=True))
        except ValueError:
            pass
    if url.startswith("data:"):
        return File(media or "text/plain", FileUrl(url))
    ending = re.split(r"[?#]", url, maxsplit=1)[0].rpartition(".")[2].lower()
    return File(_IMAGES.get(ending, "image/png"), FileUrl(url))


_IMAGES: Final = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


# -- data outside the messages

_MESSAGE: Final = frozenset(
    (
        *("role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio", "images"),
        *("executed_tools", _DETAILS, *THOUGHTS),
    )
)
_FORMAL: Final = frozenset(("id", "object", "created", "model", "choices", "citations", "search_results", "usage"))
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})


def join_fields(before: Any, value: Any) -> Any:
    """Merge a field of the next chunk into the field of the earlier chunks. Merge objects, and append lists.

    The function changes its earlier result in place. Each token can have probabilities, so copying would be slow.
    """
    if value is None:
        return before
    if is_object(value):
        joined: JsonObject = before if is_object(before) else {}
        for key, one in value.items():
            joined[key] = join_fields(joined.get(key), one)
        return joined
    if is_array(value):
        items: list[Any] = before if is_array(before) else []
        items.extend(value)
        return items
    return value


def _is_nothing(value: object) -> bool:
    return value in _NOTHING or (is_object(value) and all(map(_is_nothing, value.values())))
