"""Replies of OpenAI. Use `read_responses` or `ResponsesReader` to convert an answer of Responses to response parts.

The module also reads the usage, metadata, and failures of both APIs. An item of Responses of an unknown type becomes an
empty text part with the item in its metadata, and later requests send the item back.

Events of different items can arrive in any order. The index or the id identifies the item of an event. The reader emits
repeated content only once. If a server sends no pieces of an item, the reader emits the item when it ends.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5")
>>> item = {"type": "message", "content": [{"type": "output_text", "text": "Good day."}]}
>>> [part.type for part in read_responses({"output": [item]}, sent)]
['response-metadata', 'text', 'finish']
>>> delta = '{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}'
>>> [part.type for part in ResponsesReader(sent).read("", delta)]
['text-start', 'text-delta']
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.messages.errors import error_in
from fxai.messages.part import (
    AnyPart,
    Finish,
    FinishReason,
    Part,
    Reasoning,
    ResponseMetadata,
    Source,
    StreamPart,
    Text,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    Usage,
)
from fxai.messages.reason import ContentPolicyError, UnknownError
from fxai.messages.response import stream_of
from fxai.models.prepared_tools import without_nulls
from fxai.providers.http.endpoint import time_of
from fxai.providers.http.reply import (
    Blocks,
    ReplyError,
    ReplyReader,
    as_object,
    count_in,
    cut,
    failure_of,
    form_error,
    parse_object,
    reasoning_blocks,
    text_blocks,
    text_in,
)
from fxai.providers.openai.options import mark, marks
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.tool_calls import (
    ANSWERED,
    OURS,
    arguments_text,
    calls_of,
    goes_on,
    hosted_name,
    hosted_parts,
    is_hosted,
    is_undecided,
    is_wrapper,
    last_that_goes_on,
    media_type,
)
from fxai.schema.data import JsonObject, is_array, is_object

Item: TypeAlias = Mapping[str, Any]
"""An object of an answer, as plain JSON data."""

# -- both APIs


def objects_in(item: Item, key: str) -> list[JsonObject]:
    """Return the objects of a list, or [] if the value is not a list."""
    value = item.get(key)
    return [one for one in value if is_object(one)] if is_array(value) else []


def metadata_of(reply: Item, time: str) -> ResponseMetadata:
    """Return the metadata of an answer. `time` names the field with its time, in seconds since 1970."""
    return ResponseMetadata(text_in(reply, "id"), text_in(reply, "model"), time_of(reply.get(time)))


def finish_metadata(reply: Item, known: Container[str], **beside: Any) -> JsonObject:
    """Return metadata of the end of an answer: all fields without their own place in a response, and `beside`.

    Examples are the service tier, filters, moderation, the cost, and other fields of a server. A stream sends them when
    it ends. `usage` contains the fields of the usage without their own count. The fields in `known` have their own
    place or repeat the request.

    >>> usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "cost": 0.25}
    >>> finish_metadata({"id": "r", "service_tier": "flex", "usage": usage}, ("id",))
    {'openai': {'service_tier': 'flex', 'usage': {'cost': 0.25}}}
    """
    rest = {key: one for key, one in reply.items() if key not in known and key != "usage" and one not in (None, {}, [])}
    return mark(**{**rest, **beside, "usage": _usage_rest(reply.get("usage")) or None})


def usage_of(usage: object) -> Usage:
    """Return the token counts of either API. A missing count is None.

    If the total shows that the output excludes reasoning, the function adds reasoning to the output.

    >>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}).cached_input_tokens
    4
    >>> details = {"reasoning_tokens": 5}
    >>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 16, "completion_tokens_details": details})
    Usage(input_tokens=9, output_tokens=7, reasoning_tokens=5)
    """
    if not is_object(usage):
        return Usage()
    input_ = _details(usage, *_INPUT_DETAILS)
    read, written = count_in(usage, *_INPUT), count_in(usage, *_OUTPUT)
    thought = count_in({**usage, **_details(usage, *_OUTPUT_DETAILS)}, "reasoning_tokens")
    cached = count_in(input_, "cached_tokens")
    if thought and written is not None and read is not None and usage.get("total_tokens") == read + written + thought:
        written += thought
    return Usage(
        read,
        written,
        count_in(usage, *_CACHED) if cached is None else cached,
        count_in(input_, "cache_write_tokens"),
        thought,
    )


_INPUT: Final = ("input_tokens", "prompt_tokens")
_OUTPUT: Final = ("output_tokens", "completion_tokens")
_INPUT_DETAILS: Final = ("input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS: Final = ("output_tokens_details", "completion_tokens_details")
_CACHED: Final = ("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens")
_COUNTED: Final = frozenset(("cached_tokens", "cache_write_tokens", "reasoning_tokens"))


def _usage_rest(usage: object) -> JsonObject:
    """Return the fields of the usage without their own count: nonzero details, and a total that is not the sum."""
    if not is_object(usage):
        return {}
    counted, sums = usage_of(usage), (*_INPUT, *_OUTPUT)
    kept: JsonObject = {}
    for key, one in usage.items():
        if key in (*_INPUT_DETAILS, *_OUTPUT_DETAILS) and is_object(one):
            one = {name: count for name, count in one.items() if name not in _COUNTED and count not in (None, 0)}
        is_sum = key == "total_tokens" and one == counted.total_tokens
        if one in (None, {}) or key in sums or is_sum or (key in _COUNTED and count_in(usage, key) is not None):
            continue
        kept[key] = one
    return kept


def _details(usage: Item, *names: str) -> Item:
    return next((found for name in names if is_object(found := usage.get(name))), JsonObject())


def turn_end(parts: Iterable[AnyPart], otherwise: Callable[[bool], FinishReason]) -> FinishReason:
    """Return the reason why a turn ended: a refusal, a pending approval, or `otherwise`, from whether it has calls."""
    calls = refusal = request = False
    for part in parts:
        calls = calls or (part.type == "tool-call" and not part.provider_executed)
        request = request or part.type == "tool-approval-request"
        refusal = refusal or (part.type in ("text", "text-end") and bool(marks(part).get("refusal")))
    if refusal:
        return "content-filter"
    reason: FinishReason = otherwise(calls)
    return "pending" if request and reason == "stop" else reason


def refusal_of(reason: FinishReason, words: str) -> ContentPolicyError | None:
    """Return the reason of a refusal, or None if the turn did not end with a refusal.

    The text of the model in `words` is empty if a filter of the provider ended the turn.
    """
    if reason != "content-filter":
        return None
    return ContentPolicyError(words or "a filter of the provider ended the answer")


# -- Responses

_CUT: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_messages": "other",
    "content_filter": "content-filter",
    "steered": "other",
}


def finish_of(reason: object, *, calls: bool) -> FinishReason:
    """Return the reason why a turn of Responses ended, from `incomplete_details.reason` and from its calls."""
    if isinstance(reason, str) and reason in _CUT:
        return _CUT[reason]
    if calls:
        return "tool-calls"
    return "stop" if reason is None else "unknown"


def read_responses(data: Item, sent: WireRequest) -> Iterable[Part]:
    """Return the parts of a whole answer of Responses.

    Raises:
        ReplyError: If the value is not an answer of the API, or if it is an error.
    """
    error = error_in(data, "output")
    if error is not None:
        raise failure_of(error)
    if not isinstance(data.get("output"), list):
        raise form_error("the answer has no list of items", "/output")
    items = objects_in(data, "output")
    last = last_that_goes_on(items)
    found = (
        (location, part)
        for location, item in enumerate(items)
        for part in item_parts(item, sent, went_on=location < last)
    )
    parts = [with_id(part, str(location)) if part.type == "tool-call" else part for location, part in found]
    return [*sent.warnings, metadata_of(data, "created_at"), *parts, finish_part(data, parts)]


def with_id(call: ToolCall, location: str) -> ToolCall:
    """Return the call with an id. If the server sends none, the position of the call determines the id."""
    return call if call.id else msgspec.structs.replace(call, id=f"call_{location}")


def finish_part(data: Item, parts: Iterable[AnyPart], refusal: str = "") -> Finish:
    """Return the finish of a response with these parts. `refusal` is the text of a refusal in a stream.

    Raises `ReplyError` if the response failed or is unfinished.
    """
    status = data.get("status")
    if status == "failed" or data.get("error"):
        raise failure_of(data.get("error") or "the response failed; the server states no reason")
    listed = list(parts)
    if status == "cancelled" and not listed:
        raise ReplyError(UnknownError("the response was cancelled before the model wrote anything"))
    if status in ("queued", "in_progress"):
        raise form_error(f"the response is still {status}, but the request did not set background", "/status")
    details = data.get("incomplete_details")
    reason = details.get("reason") if is_object(details) else None
    known = "error" if status == "cancelled" else turn_end(listed, lambda calls: finish_of(reason, calls=calls))
    words = refusal or "".join(part.text for part in listed if part.type == "text" and marks(part).get("refusal"))
    usage = usage_of(data.get("usage"))
    return Finish(known, usage, refusal_of(known, words), metadata=finish_metadata(data, _PLACED))


# the fields of a response that have their own place, repeat the request, or contain a default
_PLACED: Final = frozenset(
    (
        *("id", "object", "created_at", "model", "status", "output", "usage", "error", "incomplete_details"),
        *("background", "frequency_penalty", "instructions", "max_output_tokens", "max_tool_calls"),
        *("parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key"),
        *("prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "store"),
        *("temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    )
)


def item_parts(item: Item, sent: WireRequest, *, went_on: bool = False) -> list[Part]:
    """Return the parts of an item of Responses, in order.

    `went_on` is True if later items show that the model received the result of this call.

    >>> from fxai.messages.prompt import Prompt
    >>> from fxai.models.model_request import ModelRequest
    >>> from fxai.providers.openai.request import prepare_request
    >>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5")
    >>> item_parts({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}, sent)
    [Text(text='Hi', metadata={'openai': {'id': 'msg_1'}})]
    """
    kind = kind_of_item(item)
    if kind == "message":
        return _message(item, sent)
    if kind == "reasoning":
        return list(_reasoning(item))
    if kind == "function_call" and sent.is_answer(item.get("name")):
        return [Text(sent.answer(arguments_text(item.get("arguments"))))]
    if is_hosted(item, sent.offer) or (went_on and is_undecided(item, sent.offer)):
        return list(hosted_parts(item, sent.offer))
    if kind in OURS:
        return list(calls_of(item, sent.offer))
    whole = {key: value for key, value in item.items() if key != "created_by" and value is not None}
    whole = whole if "tools" in whole else without_nulls(whole)
    return [Text("", metadata=mark(item=whole, created_by=item.get("created_by")))]


def kind_of_item(item: Item) -> str:
    """Return the type of an item, or "" if the type is missing or is not a string."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _message(item: Item, sent: WireRequest) -> list[Part]:
    about = {"id": item.get("id"), "phase": item.get("phase"), "status": _status(item)}
    contents = objects_in(item, "content")
    unknown = [content for content in contents if content.get("type") not in ("refusal", "output_text")]
    if len(unknown) == len(contents):
        return [Text("", metadata=mark(item=without_nulls(dict(item))))]
    beside, parts = {**_beside(item), **({"content": unknown} if unknown else {})}, list[Part]()
    for index, content in enumerate(contents):
        about["beside"] = {**beside, **_beside(content)} or None
        if content.get("type") == "refusal":
            parts.append(Text(str(content.get("refusal", "")), metadata=mark(**about, refusal=True)))
        elif content.get("type") == "output_text":
            notes = [without_nulls(one) for one in objects_in(content, "annotations")]
            metadata = mark(**about, annotations=notes or None, logprobs=content.get("logprobs") or None)
            parts.append(Text(sent.answer(str(content.get("text", ""))), metadata=metadata))
            parts.extend(source_of(one, f"{item.get('id')}:{index}:{n}") for n, one in enumerate(notes))
    return parts


_ITEM_FIELDS: Final = frozenset(
    (
        *("type", "id", "role", "phase", "status", "content", "summary", "encrypted_content"),
        *("text", "refusal", "annotations", "logprobs"),
    )
)


def _beside(item: Item) -> JsonObject:
    """Return the unknown fields of text or reasoning. Later requests omit them, because an API can reject them."""
    return {key: one for key, one in item.items() if key not in _ITEM_FIELDS and one not in (None, [], {}, "")}


def _status(item: Item) -> Any:
    """Return the status of an item, or None for the usual status."""
    status = item.get("status")
    return None if status == "completed" else status


def _reasoning(item: Item) -> Iterable[Reasoning]:
    """Yield a part for each summary and text of a reasoning item. The last part has the encrypted content."""
    id_, last = item.get("id"), {"encrypted_content": item.get("encrypted_content"), "status": _status(item)}
    last["beside"] = _beside(item) or None
    pieces = [(kind, one) for kind in ("summary", "content") for one in objects_in(item, kind)]
    if not pieces:
        yield Reasoning("", metadata=mark(id=id_, **last))
    for index, (kind, one) in enumerate(pieces, 1):
        more = last if index == len(pieces) else {}
        yield Reasoning(str(one.get("text", "")), metadata=mark(id=id_, kind=kind, **more))


def source_of(annotation: Item, id_: str) -> Source:
    """Return the source of an annotation: a page, or a file."""
    about = mark(**{key: annotation.get(key) for key in ("type", "file_id", "container_id")})
    title, name = (one if isinstance(one, str) else None for one in map(annotation.get, ("title", "filename")))
    if annotation.get("type") == "url_citation":
        return Source(id_, title=title or None, url=str(annotation.get("url", "")), metadata=about)
    media = "application/octet-stream"
    return Source(id_, title=name, media_type=media, file_name=name, metadata=about)


# -- streams of Responses


def json_piece(text: str) -> str:
    r"""Return a piece of a string in its JSON form, without quotation marks.

    >>> print(json_piece('say "a"'))
    say \"a\"
    """
    return msgspec.json.encode(text).decode()[1:-1]


_REASONING_KINDS: Final = {"summary_index": "summary", "content_index": "content"}


@final
class StreamItem:
    """An item of a stream, from its first event until its end: the received content, and the emitted content.

    The id of a block consists of the key of the item and a number.
    """

    __slots__ = (
        *("_call", "_deltas", "_done", "_item", "_key", "_locations", "_reasoning", "_sent", "_sources", "_texts"),
        *("_whole", "refusal"),
    )

    def __init__(self, key: str, texts: Blocks, reasoning: Blocks, sent: WireRequest) -> None:
        self._key = key
        self._texts = texts
        self._reasoning = reasoning
        self._sent = sent
        self._item: JsonObject = {}  # the item in the first event
        self._call: str | None = None  # the id of the call in its first part
        self._deltas: list[str] = []
        self._locations: dict[tuple[str, int], str] = {}  # of reasoning: from the provider's numbers to ids of blocks
        self._sources: set[str] = set()
        self._done = False
        self._whole: Item = {}
        self.refusal: str = ""
        """The text of a refusal until now."""

    @property
    def _is_custom(self) -> bool:
        return kind_of_item(self._item) == "custom_tool_call"

    def is_other(self, item: Item, *, begins: bool) -> bool:
        """Return True if an item at the same index is another item, because this item already started or ended."""
        if begins or not self._done:
            return begins and bool(self._item or self._done)
        return any(item.get(name) != self._whole.get(name) for name in _ESSENCE)

    # -- during the stream

    def start(self, item: Item) -> Iterable[StreamPart]:
        """Start the item."""
        self._item = dict(item)
        kind = kind_of_item(item)
        if kind == "reasoning":
            yield from self._reasoning.open(f"{self._key}:0")
            return
        offer, hosted = self._sent.offer, is_hosted(item, self._sent.offer)
        if kind in ANSWERED or not (kind in OURS or hosted):
            return
        if kind == "function_call" and self._sent.is_answer(item.get("name")):
            return
        if is_wrapper(item, offer) or is_undecided(item, offer):
            return  # the parts start when the call ends and its kind is clear
        if hosted:
            name = hosted_name(item, offer)
        else:
            wire = item.get("name")
            name = offer.name(str(wire)) if kind in ("function_call", "custom_tool_call") else offer.tool_of_item(kind)
        self._call = str(item.get("call_id") or item.get("id") or f"call_{self._key}")
        yield ToolParamsStart(self._call, name, provider_executed=hosted, dynamic=offer.dynamic(name))

    def content_start(self, event: Item) -> Iterable[StreamPart]:
        """Start text, a refusal, or a line of reasoning."""
        part = event.get("part")
        kind = part.get("type") if is_object(part) else None
        if kind == "reasoning_text":
            return self._reasoning.open(self._reasoning_id(event))
        about = _REFUSED if kind == "refusal" else None
        return self._texts.open(self._text_id(event), about) if kind in ("output_text", "refusal") else []

    def text_delta(self, event: Item) -> Iterable[StreamPart]:
        """Add a piece of text or of a refusal."""
        id_, delta = self._text_id(event), str(event.get("delta", ""))
        if event.get("type") != "response.output_text.delta":
            self.refusal += delta
            return self._texts.write(id_, delta, _REFUSED)
        if not self._sent.is_buffered:
            return self._texts.write(id_, delta)
        return self._texts.convert(id_, delta, self._sent.answer_writer)

    def annotation(self, event: Item) -> Iterable[StreamPart]:
        """Add a source of the text."""
        annotation = event.get("annotation")
        if not is_object(annotation):
            return []
        id_ = self._item.get("id") or event.get("item_id")
        source = f"{id_}:{_number(event, 'content_index')}:{_number(event, 'annotation_index')}"
        self._sources.add(source)
        return [source_of(annotation, source)]

    def reasoning_delta(self, event: Item) -> Iterable[StreamPart]:
        """Start a summary, or add a piece of it or of a line of reasoning."""
        return self._reasoning.write(self._reasoning_id(event), str(event.get("delta", "")))

    def params_delta(self, event: Item) -> Iterable[StreamPart]:
        """Add a piece of a call's arguments."""
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        first = not self._deltas
        self._deltas.append(delta)
        if self._call is not None:
            quote = '"' if first else ""
            yield ToolParamsDelta(self._call, quote + json_piece(delta) if self._is_custom else delta)

    def partial_image(self, event: Item) -> Iterable[StreamPart]:
        """Yield an unfinished image as a preliminary result."""
        if self._call is None:
            return
        image = {"index": event.get("partial_image_index"), "data": event.get("partial_image_b64")}
        result = {"partial_image": {**image, "media_type": media_type(event.get("output_format"))}}
        name = hosted_name({"type": "image_generation_call"}, self._sent.offer)
        yield ToolResult(self._call, name, result, preliminary=True, provider_executed=True)

    def _text_id(self, event: Item) -> str:
        return f"{self._key}:{_number(event, 'content_index')}"

    def _reasoning_id(self, event: Item) -> str:
        field = "summary_index" if "summary_index" in event else "content_index"
        return self._block((_REASONING_KINDS[field], _number(event, field)))

    def _block(self, location: tuple[str, int]) -> str:
        """Return the block of a piece of reasoning. The first block of the item already exists."""
        return self._locations.setdefault(location, f"{self._key}:{len(self._locations)}")

    # -- when the item ends

    def end(self) -> Iterable[StreamPart]:
        """End the item with its received content, for a server that never sends the complete item."""
        if self._done:
            return ()
        texts = [self._texts.text(id_) for id_ in self._texts.ids if id_.startswith(f"{self._key}:")]
        kind = str(self._item.get("type") or ("message" if texts else "unknown"))
        if kind in ("function_call", "custom_tool_call"):
            written = {"input" if self._is_custom else "arguments": "".join(self._deltas)}
            return self.finish({**self._item, **written})
        if kind == "reasoning":
            pieces: dict[str, list[dict[str, str]]] = {"summary": [], "content": []}
            for (part, _), id_ in sorted(self._locations.items()):
                pieces[part].append({"text": self._reasoning.text(id_)})
            return self.finish({**self._item, **pieces})
        content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        return self.finish({**self._item, "type": kind, "content": content} if kind == "message" else self._item)

    def finish(self, item: Item, *, went_on: bool = False) -> Iterable[StreamPart]:
        """End the item: yield its missing content and its ends. `item_parts` documents `went_on`."""
        if self._done:
            return
        self._done, self._whole = True, item
        parts = item_parts(item, self._sent, went_on=went_on) if item.get("type") else []
        if item.get("type") == "reasoning":
            yield from self._end_reasoning(item, parts)
            return
        is_message, location = item.get("type") == "message", 0
        for part in parts:
            if part.type == "text":
                is_held = is_message and self._sent.is_buffered and not marks(part).get("refusal")
                end = self._texts.end_answer if is_held else self._texts.close
                yield from end(f"{self._key}:{location}", part.text, part.metadata)
                location += is_message
            elif part.type == "tool-call":
                yield from self._end_call(part)
            elif part.type == "tool-result" and part.provider_executed and self._call is not None:
                yield msgspec.structs.replace(part, id=self._call)
            elif part.type != "reasoning" and not (part.type == "source" and part.id in self._sources):
                yield part

    def _end_reasoning(self, item: Item, parts: list[Part]) -> Iterable[StreamPart]:
        locations = [(kind, n) for kind in ("summary", "content") for n in range(len(objects_in(item, kind)))]
        for part, location in zip(parts, locations or [("none", 0)], strict=False):
            if part.type == "reasoning":
                yield from self._reasoning.close(self._block(location), part.text, part.metadata)
        for id_ in self._reasoning.ids:
            if id_.startswith(f"{self._key}:"):
                yield from self._reasoning.close(id_)

    def _end_call(self, call: ToolCall) -> Iterable[StreamPart]:
        if self._call is None:
            yield from stream_of([with_id(call, self._key)])
            return
        if not self._deltas:
            text = msgspec.json.encode(call.params).decode() if call.params_text is None else call.params_text
            yield ToolParamsDelta(self._call, text)
        elif self._is_custom:
            yield ToolParamsDelta(self._call, '"')
        yield ToolParamsEnd(self._call)
        yield msgspec.structs.replace(call, id=self._call)


def _number(event: Item, field: str) -> int:
    value = event.get(field)
    return value if isinstance(value, int) else 0


_REFUSED: Final = mark(refusal=True)
_ESSENCE: Final = ("type", "call_id", "name", "content", "summary", *OURS.values())
_TERMINAL: Final = frozenset(("response.completed", "response.incomplete", "response.cancelled"))
_FIRST: Final = frozenset(("response.created", "response.in_progress", "response.queued"))

# The handler of each event about an item. The complete item contains the content of all other events.
_EVENTS: Final[Mapping[str, Callable[[StreamItem, Item], Iterable[StreamPart]]]] = {
    "response.content_part.added": StreamItem.content_start,
    "response.output_text.delta": StreamItem.text_delta,
    "response.output_text.annotation.added": StreamItem.annotation,
    "response.refusal.delta": StreamItem.text_delta,
    "response.reasoning_summary_part.added": StreamItem.reasoning_delta,
    "response.reasoning_summary_text.delta": StreamItem.reasoning_delta,
    "response.reasoning_text.delta": StreamItem.reasoning_delta,
    "response.function_call_arguments.delta": StreamItem.params_delta,
    "response.custom_tool_call_input.delta": StreamItem.params_delta,
    "response.image_generation_call.partial_image": StreamItem.partial_image,
}


@final
class ResponsesReader(ReplyReader):
    """A reader of the events of an answer. `read` returns the parts of an event; `end` checks the stream's end."""

    def __init__(self, sent: WireRequest) -> None:
        super().__init__()
        self._sent = sent
        self._texts = text_blocks()
        self._reasoning = reasoning_blocks()
        self._items: dict[int | str, StreamItem] = {}
        self._keys: dict[str, int | str] = {}  # from the ids of an item to its key in `_items`
        self._newest: dict[int, int | str] = {}  # from an index to its newest item
        self._locations: dict[int | str, int] = {}  # from an item to its index
        self._shares_index = False
        self._latest: int | str = 0
        self._undecided: list[tuple[StreamItem, Item]] = []  # complete calls; later items show who runs them
        self._ends: list[AnyPart] = []  # the parts that determine how the turn ended

    @override
    def take_whole(self, data: str) -> Iterable[StreamPart]:
        return stream_of(read_responses(parse_object(data), self._sent))

    @override
    def take_end(self, *, is_cut: bool) -> Iterable[StreamPart]:
        if is_cut:
            raise cut("the response was complete")
        return ()

    @override
    def take(self, name: str, event: Any) -> Iterator[StreamPart]:
        if name == "error" and not is_object(event):
            raise failure_of(event)
        event = as_object(event)
        kind = str(event.get("type") or name)
        error = _error_of(event, name, kind)
        if error is not None:
            raise failure_of(error)
        for part in self._parts(kind, event):
            if part.type in ("tool-call", "tool-approval-request", "text-end"):
                self._ends.append(part)
            yield part
        if kind in _TERMINAL:
            self.done = True
            refusal = "".join(item.refusal for item in self._items.values())
            yield finish_part(_object(event, "response"), self._ends, refusal)

    def _parts(self, kind: str, event: Item) -> Iterable[StreamPart]:
        if kind in _EVENTS:
            yield from _EVENTS[kind](self._item(event, {}), event)
            return
        response = _object(event, "response")
        if kind in _FIRST or kind in _TERMINAL:
            yield from self.begin(metadata_of(response, "created_at"), self._sent.warnings)
        if kind in _TERMINAL:
            items, started = objects_in(response, "output"), list(self._items)
            last = last_that_goes_on(items)
            for index, one in enumerate(items):  # the events of some items were missing or incomplete
                by_order = started[index] if self._shares_index and index < len(started) else index
                known = next((self._keys[name] for name in _names_of(one) if name in self._keys), by_order)
                yield from self._at(known).finish(one, went_on=index < last)
            for pending, call in self._undecided:
                yield from pending.finish(call)
            for begun in self._items.values():
                yield from begun.end()
        elif kind in ("response.output_item.added", "response.output_item.done") and is_object(event.get("item")):
            item, whole = self._item(event, event["item"]), event["item"]
            if goes_on(whole):  # the provider ran the pending calls
                for pending, call in self._undecided:
                    yield from pending.finish(call, went_on=True)
                self._undecided.clear()
            if kind.endswith("added"):
                yield from item.start(whole)
            elif is_undecided(whole, self._sent.offer):
                self._undecided.append((item, whole))
            else:
                yield from item.finish(whole)

    def _item(self, event: Item, item: Item) -> StreamItem:
        """Return the item of an event. Use its ids if the index has an item with them, otherwise the newest item there.

        Some servers use the same index for all items. Other servers change the id of an item within a stream.
        """
        index, names = event.get("output_index"), [*_names_of(item), *_names_of(event)]
        known = next((self._keys[name] for name in names if name in self._keys), None)
        if not isinstance(index, int):
            key: int | str = known if known is not None else names[0] if names else self._latest
        elif known is not None and self._locations.get(known) == index:
            key = known
        else:
            key = self._newest.get(index, index)
            if item and self._at(key).is_other(item, begins=event.get("type") == "response.output_item.added"):
                self._shares_index = True
                key = f"{index}.{len(self._items)}"
            self._newest[index], self._locations[key] = key, index
        for name in names:
            self._keys.setdefault(name, key)
        self._latest = key
        return self._at(key)

    def _at(self, key: int | str) -> StreamItem:
        if key not in self._items:
            self._items[key] = StreamItem(str(key), self._texts, self._reasoning, self._sent)
        return self._items[key]


def _names_of(item: Item) -> list[str]:
    """Return the ids that identify an item in the item or in an event."""
    return [str(item[key]) for key in ("id", "item_id", "call_id") if item.get(key)]


def _error_of(event: Item, name: str, kind: str) -> object:
    """Return the error of an event: the event itself, its field, or the error of its response."""
    inner = _object(event, "response").get("error") or event.get("error")
    if kind in ("error", "response.error", "response.failed") or name == "error":
        return inner or {key: one for key, one in event.items() if key != "type"}
    if "type" not in event:
        return error_in(event, "response", "item", "delta")
    return inner if inner and (not kind.startswith("response.") or kind in _TERMINAL) else None


def _object(event: Item, key: str) -> Item:
    value = event.get(key)
    return value if is_object(value) else {}
