"""Streams of Responses. Use `ResponsesReader` to convert the events of a stream to the parts of a response.

Events of different items can arrive in any order. The index or the id identifies the item of an event. The reader emits
repeated content only once. If a server sends no pieces of an item, the reader emits the item when it ends.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> reader = ResponsesReader(prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5"))
>>> delta = '{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}'
>>> [part.type for part in reader.read("", delta)]
['text-start', 'text-delta']
>>> reader.end()
Traceback (most recent call last):
fxai.providers.http.reply.ReplyError: ...the stream ended before...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.messages.errors import error_in
from fxai.messages.part import (
    AnyPart,
    Part,
    StreamPart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
)
from fxai.messages.response import stream_of
from fxai.providers.http.reply import Blocks, ReplyReader, cut, failure_of, reasoning_blocks, text_blocks
from fxai.providers.openai.options import mark, marks
from fxai.providers.openai.reply import (
    Item,
    as_object,
    finish_part,
    item_parts,
    kind_of_item,
    metadata_of,
    objects_in,
    parse_object,
    read_responses,
    source_of,
    with_id,
)
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.tool_calls import (
    ANSWERED,
    OURS,
    goes_on,
    hosted_name,
    is_hosted,
    is_undecided,
    is_wrapper,
    last_that_goes_on,
    media_type,
)
from fxai.schema.data import is_object


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
        self._item: dict[str, Any] = {}  # the item in the first event
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

    def reasoning_start(self, event: Item) -> Iterable[StreamPart]:
        """Start a summary."""
        return self._reasoning.open(self._reasoning_id(event))

    def reasoning_delta(self, event: Item) -> Iterable[StreamPart]:
        """Add a piece of a summary or of a line of reasoning."""
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
        content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
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
    "response.reasoning_summary_part.added": StreamItem.reasoning_start,
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
