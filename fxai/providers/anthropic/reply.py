"""Replies of Anthropic's Messages API. Use `parse_reply` to convert a message to the parts of a response.

`metadata["anthropic"]` of a part contains the data that the part has no field for. Later requests send this data back
unchanged. A block of an unknown type becomes an empty text part with the block in its metadata.

`MessagesReader` converts the events of a stream to the parts of a response. It handles each event once and joins each
text once, so the cost is linear in the length of the stream. Blocks can alternate. Their index identifies them.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.anthropic.request import prepare_request
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="claude-sonnet-5")
>>> reply = b'{"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}'
>>> [part.type for part in parse_reply(reply, sent).unwrap()]
['response-metadata', 'text', 'finish']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.messages.errors import AiError, error_in, error_of_finish, reason_of_body
from fxai.messages.message import FileUrl
from fxai.messages.part import (
    File,
    Finish,
    FinishReason,
    Part,
    Reasoning,
    ResponseMetadata,
    Source,
    StreamPart,
    Text,
    TextDelta,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    Usage,
)
from fxai.messages.reason import ContentPolicyError
from fxai.messages.response import stream_of
from fxai.messages.think_tag import split_thoughts
from fxai.providers.anthropic.messages_input import Document, citations_of
from fxai.providers.anthropic.options import NAME
from fxai.providers.anthropic.request import PreparedRequest
from fxai.providers.anthropic.thinking_binding import THINKING, PrefixDigest, fingerprint
from fxai.providers.http.event import read_json
from fxai.providers.http.reply import (
    ReplyError,
    ReplyReader,
    count_in,
    cut,
    form_error,
    parse_object,
    reasoning_blocks,
    text_blocks,
    text_in,
)
from fxai.schema.data import JSON_ERRORS, JsonObject, is_array, is_object

_FINISHES: Final[Mapping[str | None, FinishReason]] = {
    None: "unknown",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "content-filter",
}
CUT: Final = ("max_tokens", "model_context_window_exceeded")
"""The stop reasons of a message whose last block can be incomplete."""

_PLACED: Final = frozenset(("id", "type", "role", "model", "content", "usage"))
"""The fields of a message that have their own fields in a response."""
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def parse_reply(data: bytes | str, sent: PreparedRequest, *, method: str = "ask") -> Result[tuple[Part, ...], AiError]:
    """Return the parts of a whole reply: warnings, metadata, content, and the finish.

    Args:
        data: The body of the answer.
        sent: The request of the answer.
        method: The name of the operation in failures.

    Fails with:
        AiError: `InvalidOutputError` if the body is not a message. If the body is an error, the provider's error.
    """
    try:
        return Success(read_message(data, sent))
    except ReplyError as error:
        return Failure(AiError(NAME, method, error.reason))


def read_message(data: bytes | str, sent: PreparedRequest) -> tuple[Part, ...]:
    """Return the parts of a whole reply, like `parse_reply`.

    Raises:
        ReplyError: If the body is not a message, or if it is an error.
    """
    message = parse_object(data)
    if error_in(message, "content") is not None:
        raise error_of(message)
    if not is_array(message.get("content")):
        raise form_error("expected a message with a list of content blocks", "/content")
    blocks = MessageBlocks(sent)
    whole, is_cut = message["content"], message.get("stop_reason") in CUT
    content = [
        part
        for at, one in enumerate(whole)
        for part in blocks.parts(one, f"/content/{at}", is_cut=is_cut and at == len(whole) - 1)
    ]
    end = blocks.end(message, message.get("usage"))
    parts = (*sent.warnings, metadata_of(message, sent), *content, *end)
    return parts if sent.unsigned is None else split_thoughts(parts, NAME)


def error_of(data: object) -> ReplyError:
    """Return the error of a body or an event, which is an object or a string."""
    return ReplyError(reason_of_body(data, otherwise=500))


def metadata_of(message: Mapping[str, Any], sent: PreparedRequest) -> ResponseMetadata:
    """Return the metadata of a message that starts. The finish contains the other data."""
    return ResponseMetadata(text_in(message, "id"), text_in(message, "model"), prefix_break=sent.prefix_break)


def _usage(counts: Mapping[str, Any]) -> Usage:
    """Return the usage. Its input tokens include the cached tokens, which the API counts separately."""
    plain, output, read, written = (count_in(counts, key) for key in _COUNTS)
    known = [count for count in (plain, read, written) if count is not None]
    details = counts.get("output_tokens_details")
    thinking = count_in(details, "thinking_tokens") if is_object(details) else None
    return Usage(sum(known) if known else None, output, read, written, thinking)


@final
class MessageBlocks:
    """A reader of the content blocks of a message."""

    def __init__(self, sent: PreparedRequest) -> None:
        self._sent = sent
        self._names: dict[str, str] = {}  # names of provider calls by id; the results contain no name
        self._sources: set[tuple[Any, ...]] = set()
        self._has_calls = False  # True after a call of a local tool
        self._has_answer = False  # True after a call of the tool for the answer
        self._programmed = False  # True after a call of a local tool from a program in a container
        self._is_empty = True  # True before the first block
        self._nameless = 0  # number of calls without an id
        self._bound = sent.bound
        self._digest: PrefixDigest | None = None  # of the blocks until now, from the first block without thinking

    def parts(self, block: Any, pointer: str, *, is_cut: bool = False) -> list[Part]:
        """Return the parts of the block at `pointer`. `is_cut` is True if the end of the message cut the block.

        Raises `ReplyError` if the block lacks a required field.
        """
        kind = text_at(block, "type", pointer)
        self._is_empty = False
        block = self.with_id(block)
        parts = self._parts_of(kind, block, pointer)
        if kind == "thinking" and self._sent.unsigned is not None and not (block.get("signature") or is_cut):
            parts = [_with_own(part, {"unsigned": self._sent.unsigned}) for part in parts]
        if self._bound is None:
            return parts
        if kind in THINKING:  # without the prefix, a later request could not validate the block
            within = "" if self._digest is None else self._digest.hexdigest()
            data = msgspec.structs.replace(self._bound, within=within).to_data()
            self._bound = msgspec.structs.replace(self._bound, previous=fingerprint(block))
            return [_with_own(part, {"bound": data}) for part in parts]
        self._digest = PrefixDigest() if self._digest is None else self._digest
        self._digest.add_essence(block)
        return parts

    def with_id(self, block: JsonObject) -> JsonObject:
        """Return the block of a call with an id, because some servers omit the id."""
        if block.get("type") != "tool_use" or block.get("id") not in (None, ""):
            return block
        self._nameless += 1
        return {**block, "id": f"call_{self._nameless}"}

    def _parts_of(self, kind: str, block: Any, pointer: str) -> list[Part]:
        match kind:
            case "text":
                return self._text(block, pointer)
            case "thinking":
                return [Reasoning(text_at(block, "thinking", pointer), metadata=_extras(block, "signature"))]
            case "redacted_thinking":
                redacted = {"redacted_data": text_at(block, "data", pointer)}
                return [Reasoning("", metadata={NAME: {**_extras(block).get(NAME, {}), **redacted}})]
            case "container_upload":
                url = FileUrl(text_at(block, "file_id", pointer))
                return [File("application/octet-stream", url, metadata=_extras(block, "type"))]
            case "tool_use":
                return [self._call(block, pointer)]
            case "server_tool_use" | "mcp_tool_use":
                id_, name = text_at(block, "id", pointer), self.name_of(block, pointer)
                self._names[id_] = name
                params = block.get("input")
                broken = params.text if isinstance(params, Unread) else None
                params, metadata = None if broken else params, _extras(block, "type", "name", "caller", "server_name")
                about: dict[str, Any] = {"params_text": broken, "metadata": metadata}
                return [ToolCall(id_, name, params, provider_executed=True, **about)]
            case _ if kind.endswith("_tool_result"):
                return [self._result(block, kind, pointer)]
            case _:
                return [Text("", metadata={NAME: {"block": block}})]

    def name_of(self, block: Mapping[str, Any], pointer: str) -> str:
        """Return the name of a call's tool in the toolkit."""
        wire = text_at(block, "name", pointer)
        names = self._sent.tools.names
        if block.get("type") == "tool_use":
            return self._sent.tools.call(wire, {}, toolset=block.get("toolset_name"))[0]
        known = wire if wire in names or not wire.endswith("_code_execution") else "code_execution"
        return names.get(known, known)

    def end(self, ended: Mapping[str, Any], usage: Any) -> list[Part]:
        """Return the finish of the message. A text part with the container precedes it if a program waits for results.

        The program continues only if the next request names its container. The empty text part stores the container in
        the history. `ended` contains the stop reason and other fields of the message, or of the end of a stream.
        """
        stop = ended.get("stop_reason")
        error = error_of_finish(stop)
        if stop is None and self._is_empty:
            error = "the answer is empty, and the server states no reason"
        if error is not None:
            raise ReplyError(reason_of_body(error))
        rest = {key: one for key, one in ended.items() if key not in _PLACED and one is not None}
        counts: Mapping[str, Any] = usage if is_object(usage) else {}
        details = {key: one for key, one in counts.items() if key not in _COUNTS and one is not None}
        extras = {**rest, **({"usage": details} if details else {})}
        reason: FinishReason = _FINISHES.get(stop, "other") if stop is None or isinstance(stop, str) else "other"
        if reason == "tool-calls" and self._has_answer and not self._has_calls:
            reason = "stop"
        refusal = None
        if reason == "content-filter":
            found = ended.get("stop_details")
            why: Mapping[str, Any] = found if is_object(found) else {}
            words = text_in(why, "explanation") or "the model refused to answer"
            refusal = ContentPolicyError(words, code=text_in(why, "category"))
        finish = Finish(reason, _usage(counts), refusal, metadata={NAME: extras} if extras else {})
        container: Any = ended.get("container")
        waits = self._programmed and is_object(container) and container.get("id")
        return [Text("", metadata={NAME: {"container": container["id"]}}), finish] if waits else [finish]

    def _text(self, block: JsonObject, pointer: str) -> list[Part]:
        text = text_at(block, "text", pointer)
        answer = self._sent.answer
        if answer is not None and answer.tool is None and text.strip():
            text = answer.text(text)
        citations = citations_of(block)
        if not citations:
            return [Text(text, metadata=_extras(block))]
        return [Text(text, metadata=_extras(block, "citations")), *self._new_sources(citations)]

    def _new_sources(self, citations: list[Any]) -> Iterable[Source]:
        """Yield the sources of citations, each only once per message."""
        for citation in filter(is_object, citations):
            name, url = f"source-{len(self._sources)}", citation.get("url") or citation.get("source")
            location, documents = citation.get("document_index"), self._sent.documents
            if isinstance(url, str):
                source = Source(name, text_in(citation, "title"), url)
            elif isinstance(location, int):
                document = documents[location] if 0 <= location < len(documents) else Document()
                title = text_in(citation, "document_title") or document.title
                source = Source(name, title, media_type=document.media_type or "application/octet-stream")
            else:
                continue
            key = (source.url, source.title, source.media_type, str(citation.get("document_index")))
            if key not in self._sources:
                self._sources.add(key)
                yield source

    def _call(self, block: JsonObject, pointer: str) -> Part:
        wire = text_at(block, "name", pointer)
        params = block.get("input")
        params = input_of(params) if isinstance(params, str) else params
        broken = params.text if isinstance(params, Unread) else None
        answer = self._sent.answer
        if answer is not None and wire == answer.tool:
            self._has_answer = True
            return Text(broken or msgspec.json.encode(answer.value(params)).decode())
        self._has_calls = True
        id_ = text_at(block, "id", pointer)
        toolset = block.get("toolset_name")
        known = any(held.wire == toolset for held in self._sent.tools.toolsets)
        metadata = _extras(block, "caller", *(() if known else ("toolset_name",)))
        caller: Any = block.get("caller")
        self._programmed |= is_object(caller) and caller.get("type") not in (None, "direct")
        if broken is not None:
            return ToolCall(id_, self.name_of(block, pointer), None, params_text=broken, metadata=metadata)
        name, params = self._sent.tools.call(wire, params, toolset=toolset)
        return ToolCall(id_, name, params, metadata=metadata)

    def _result(self, block: JsonObject, kind: str, pointer: str) -> Part:
        id_ = text_at(block, "tool_use_id", pointer)
        name = self._names.get(id_)
        if name is None:  # the call was in an earlier turn that paused
            wire, names = kind.removesuffix("_tool_result"), self._sent.tools.names
            known = "code_execution" if wire.endswith("_code_execution") and wire not in names else wire
            found = (own for sent, own in names.items() if sent == known or sent.startswith(f"{known}_tool_"))
            name = next(found, known)
        content = block.get("content")
        kind_inside = text_in(content, "type") if is_object(content) else None
        failed = block.get("is_error") is True or (kind_inside or "").endswith("_error")
        metadata = _extras(block, "type", "caller", "is_error")
        return ToolResult(id_, name, content, is_failure=failed, provider_executed=True, metadata=metadata)


def _with_own(part: Part, more: Mapping[str, Any]) -> Part:
    """Return the part with additional Anthropic metadata."""
    own: Mapping[str, Any] = part.metadata.get(NAME, {})
    return msgspec.structs.replace(part, metadata={**part.metadata, NAME: {**own, **more}})


@final
class Unread(msgspec.Struct, frozen=True):
    """Text in a stream that should be the JSON of a call."""

    text: str


def input_of(text: str) -> Any:
    """Return the arguments of a call from JSON text."""
    try:
        return read_json(text) if text.strip() else {}
    except JSON_ERRORS:
        return Unread(text)


_HELD: Final = frozenset(
    (
        *("type", "text", "citations", "thinking", "data", "file_id", "id", "name", "input", "toolset_name"),
        *("tool_use_id", "content"),
    )
)
"""The fields of blocks that parts contain."""


def _extras(block: Mapping[str, Any], *keys: str) -> JsonObject:
    """Return metadata with these fields, and with unknown fields, which later requests omit: an API can reject them."""
    extras = {key: block[key] for key in keys if block.get(key) is not None}
    beside = {key: one for key, one in block.items() if key not in _HELD and key not in keys and one is not None}
    extras.update({"beside": beside} if beside else {})
    return {NAME: extras} if extras else {}


def text_at(block: Any, key: str, pointer: str) -> str:
    """Return the string of a key in a received object.

    Raises:
        ReplyError: If the value is not a string. The error contains the location.
    """
    found = block.get(key) if is_object(block) else None
    if not isinstance(found, str):
        raise form_error("expected a string", f"{pointer}/{key}")
    return found


# -- streams

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""The field with the text of each type of delta, and the member of the block that the text continues."""

_EVENT: Final = ("type", "message", "delta", "content_block")


@final
class _Open(msgspec.Struct):
    """A content block that started and did not end."""

    block: JsonObject
    kind: str
    id: str
    citations: list[Any]
    is_answer: bool
    """True if the text or the arguments of the block are an answer that needs a conversion."""
    pieces: list[str] = []


@final
class MessagesReader(ReplyReader):
    """A reader of the events of a stream. Create a new reader for each stream."""

    def __init__(self, sent: PreparedRequest) -> None:
        super().__init__()
        self._sent = sent
        self._blocks = MessageBlocks(sent)
        self._texts = text_blocks()
        self._reasoning = reasoning_blocks()
        self._open: dict[int, _Open] = {}
        self._newest = -1  # the index of the newest block
        self._usage: JsonObject = {}  # each count is a total; a missing or null count does not change it
        self._ended: JsonObject = {}

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
        delayed = [one for one in self._open.values() if one.is_answer and not self._texts.is_converted(one.id)]
        self._open.clear()
        return tuple(TextDelta(one.id, "".join(one.pieces)) for one in delayed if any(one.pieces))

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

    def _start(self, message: JsonObject) -> Iterable[StreamPart]:
        self._usage.update(_not_null(message.get("usage")))
        self._ended.update(_not_null(message))
        yield from self.begin(metadata_of(message, self._sent), self._sent.warnings)
        content: Any = message.get("content")
        if message.get("stop_reason") is None or not is_array(content):
            return
        for index, block in enumerate(content):  # a message that is complete at its start, such as a program's calls
            yield from self._start_block(index, block)
            yield from self._stop(index)

    def _start_block(self, index: int, block: Any) -> Iterable[StreamPart]:
        kind = text_at(block, "type", "/content_block")
        started = list(self._stop(index)) if index in self._open else []  # some servers reuse an index
        block = self._blocks.with_id(block)
        if kind in _CALLS:
            text_at(block, "id", "/content_block")
        newest = self._open.get(self._newest)  # only the newest open block can have a delayed start
        if newest is not None and newest.kind == "text" and not newest.is_answer:
            started += self._texts.open(newest.id)
        answer, is_answer = self._sent.answer, False
        if answer is not None and answer.tool is None:
            is_answer = kind == "text" and not answer.verbatim
        elif answer is not None:
            is_answer = kind == "tool_use" and block.get("name") == answer.tool
        id_ = str(block["id"]) if kind in _CALLS else str(index)
        opened = self._open[index] = _Open(block, kind, id_, citations_of(block), is_answer)
        self._newest = index
        if kind in _CALLS and not is_answer:
            name = self._blocks.name_of(block, "/content_block")
            started.append(ToolParamsStart(id_, name, provider_executed=kind != "tool_use"))
        if kind == "thinking":
            started += self._reasoning.open(id_)
        written = block.get(kind) if kind in ("text", "thinking") else None
        return [*started, *self._delta(opened, str(written))] if written else started

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

    def _delta(self, opened: _Open, text: str) -> Iterable[StreamPart]:
        opened.pieces.append(text)
        if opened.is_answer and self._sent.answer is not None:
            return self._texts.convert(opened.id, text, self._sent.answer.writer)
        if not text:
            return ()
        if opened.kind == "text":
            return self._texts.write(opened.id, text)
        if opened.kind == "thinking":
            return self._reasoning.write(opened.id, text)
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

    def _whole(self, part: Part, opened: _Open) -> Iterable[StreamPart]:
        """Return the last parts of a block from its whole part."""
        if part.type == "text":
            end = self._texts.end_answer if opened.is_answer else self._texts.close
            return end(opened.id, part.text, part.metadata)
        if part.type == "reasoning":
            return self._reasoning.close(opened.id, metadata=part.metadata)
        if part.type == "tool-call":
            return (ToolParamsEnd(part.id), part)
        return stream_of([part])

    def _cut(self, index: int) -> Iterable[StreamPart]:
        """Return the last parts of a block that the end of the message cut. Only a token limit can cut a block."""
        if self._ended.get("stop_reason") not in CUT:
            raise form_error(f"the message ended before its blocks {', '.join(map(str, self._open))} did")
        opened = self._open[index]
        if opened.kind in _CALLS and not opened.pieces:
            opened.pieces.append("{")  # empty text would be a valid call without arguments, which could run
        return self._stop(index, is_cut=True)


def _not_null(fields: Any) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None} if is_object(fields) else {}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise form_error("expected the number of a block", "/index")
    return index
