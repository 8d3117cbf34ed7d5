"""Streams of Responses: from its events to the parts of a response, as they come.

Events of several items may come in any order: each belongs to its item by the index, or by the id. What an event says
twice is given once, and what a server never said piece by piece is given when the item is whole.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> reader = ResponsesReader(prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5"))
>>> delta = '{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}'
>>> [part.type for part in reader.read("", delta)]
['text-start', 'text-delta']
>>> reader.end()
Traceback (most recent call last):
fxai.providers.openai.reply.ReplyError: ...the stream ended before...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

import msgspec

from fxai.messages.part import (
    AnyPart,
    Part,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamPart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
)
from fxai.providers.openai.options import marks
from fxai.providers.openai.reply import (
    Item,
    ReplyError,
    cut,
    ended,
    is_hosted,
    item_parts,
    kind_of_item,
    listed,
    parsed,
    reason_of_error,
    said_of,
    source_of,
)
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.tool_calls import ANSWERED, OURS, hosted_name, media_type
from fxai.schema.data import is_object

__all__ = [
    "Blocks",
    "ResponsesReader",
    "StreamItem",
    "quoted",
]


@final
class Blocks:
    """The texts and the reasoning that a stream has begun, by ids of ours; each keeps what was written."""

    __slots__ = ("_texts", "_thoughts")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._thoughts: dict[str, list[str]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that are open."""
        return tuple(self._texts)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The reasoning that is open."""
        return tuple(self._thoughts)

    def open_text(self, id_: str) -> list[StreamPart]:
        """The start of a text, unless it is open."""
        if id_ in self._texts:
            return []
        self._texts[id_] = []
        return [TextStart(id_)]

    def say(self, id_: str, delta: str) -> list[StreamPart]:
        """More of a text, with its start if it has none."""
        parts = self.open_text(id_)
        if delta:
            self._texts[id_].append(delta)
            parts.append(TextDelta(id_, delta))
        return parts

    def text_of(self, id_: str) -> str:
        """What came of a text so far."""
        return "".join(self._texts.get(id_, ()))

    def close_text(
        self, id_: str, whole: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> list[StreamPart]:
        """The end of a text, with what was missing of the whole of it, where that is known."""
        parts = self.say(id_, _missing(self.text_of(id_), whole))
        del self._texts[id_]
        return [*parts, TextEnd(id_, metadata=metadata or {})]

    def open_thought(self, id_: str) -> list[StreamPart]:
        """The start of reasoning, unless it is open."""
        if id_ in self._thoughts:
            return []
        self._thoughts[id_] = []
        return [ReasoningStart(id_)]

    def think(self, id_: str, delta: str) -> list[StreamPart]:
        """More of reasoning, with its start if it has none."""
        parts = self.open_thought(id_)
        if delta:
            self._thoughts[id_].append(delta)
            parts.append(ReasoningDelta(id_, delta))
        return parts

    def thought(self, id_: str) -> str:
        """What was written of reasoning."""
        return "".join(self._thoughts.get(id_, ()))

    def close_thought(
        self, id_: str, whole: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> list[StreamPart]:
        """The end of reasoning, with what was missing of the whole of it, where that is known."""
        parts = self.think(id_, _missing(self.thought(id_), whole))
        del self._thoughts[id_]
        return [*parts, ReasoningEnd(id_, metadata=metadata or {})]


def _missing(written: str, whole: str | None) -> str:
    return "" if whole is None or not whole.startswith(written) else whole[len(written) :]


def quoted(text: str) -> str:
    r"""A piece of a text as it stands in the JSON text of the whole, between its quotation marks.

    >>> print(quoted('say "a"'))
    say \"a\"
    """
    return msgspec.json.encode(text).decode()[1:-1]


_THOUGHT = {"summary_index": "summary", "content_index": "content"}


@final
class StreamItem:
    """One item while it comes, from its first event until it is whole: what came of it, and what of that was given.

    Its blocks are named by its key and a number.

    >>> from fxai.messages.prompt import Prompt
    >>> from fxai.models.request import ModelRequest
    >>> from fxai.providers.openai.request import prepare_request
    >>> item = StreamItem("0", Blocks(), prepare_request(ModelRequest(Prompt.make("Add.")), model="gpt-5.5"))
    >>> said = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": ""}
    >>> [part.type for part in (*item.added(said), *item.params_delta({"delta": "{}"}), *item.finished(said))]
    ['tool-params-start', 'tool-params-delta', 'tool-params-end', 'tool-call']
    """

    __slots__ = ("_blocks", "_call", "_deltas", "_done", "_item", "_key", "_sent", "_sources", "_thoughts")

    def __init__(self, key: str, blocks: Blocks, sent: WireRequest) -> None:
        self._key = key
        self._blocks = blocks
        self._sent = sent
        self._item: dict[str, Any] = {}  # as it was told first
        self._call: str | None = None  # the id under which its parameters began
        self._deltas: list[str] = []
        self._thoughts: dict[tuple[str, int], str] = {}  # from what the provider counts to the ids of blocks
        self._sources: set[str] = set()
        self._done = False

    @property
    def _custom(self) -> bool:
        return kind_of_item(self._item) == "custom_tool_call"

    @property
    def _is_buffered(self) -> bool:
        """Whether texts are given only when they are whole, since the strict form of the answer must be undone."""
        return self._sent.format is not None and not self._sent.format.verbatim

    # -- while it comes

    def added(self, item: Item) -> Iterable[StreamPart]:
        """The item begins."""
        self._item = dict(item)
        kind = kind_of_item(item)
        if kind == "reasoning":
            yield from self._blocks.open_thought(f"{self._key}:0")
        elif (kind in OURS or is_hosted(item, self._sent.offer)) and kind not in ANSWERED:
            yield from self._begin_call(item)

    def _begin_call(self, item: Item) -> Iterable[StreamPart]:
        offer, kind = self._sent.offer, str(item["type"])
        form = self._sent.format
        if form is not None and kind == "function_call" and item.get("name") == form.tool:
            return
        hosted = is_hosted(item, offer)
        if hosted:
            name = hosted_name(item, offer)
        else:
            wire = item.get("name")
            name = offer.name(str(wire)) if kind in ("function_call", "custom_tool_call") else offer.named(kind)
        self._call = str(item.get("call_id") or item.get("id") or f"call_{self._key}")
        yield ToolParamsStart(self._call, name, provider_executed=hosted, dynamic=offer.dynamic(name))

    def content_added(self, event: Item) -> Iterable[StreamPart]:
        """A text, a refusal or a line of reasoning begins."""
        part = event.get("part")
        kind = part.get("type") if is_object(part) else None
        if kind == "reasoning_text":
            return self._blocks.open_thought(self._thought(event))
        return self._blocks.open_text(self._text(event)) if kind in ("output_text", "refusal") else []

    def text_delta(self, event: Item) -> Iterable[StreamPart]:
        """More of a text or of a refusal."""
        id_, delta = self._text(event), str(event.get("delta", ""))
        parts = self._blocks.open_text(id_)
        more = self._blocks.say(id_, delta)
        return parts if self._is_buffered and event.get("type") == "response.output_text.delta" else [*parts, *more]

    def annotation_added(self, event: Item) -> Iterable[StreamPart]:
        """A source of a text."""
        annotation = event.get("annotation")
        if not is_object(annotation):
            return []
        id_ = self._item.get("id") or event.get("item_id")
        source = f"{id_}:{_number(event, 'content_index')}:{_number(event, 'annotation_index')}"
        self._sources.add(source)
        return [source_of(annotation, source)]

    def thought_added(self, event: Item) -> Iterable[StreamPart]:
        """A summary begins."""
        return self._blocks.open_thought(self._thought(event))

    def thought_delta(self, event: Item) -> Iterable[StreamPart]:
        """More of a summary or of a line of reasoning."""
        return self._blocks.think(self._thought(event), str(event.get("delta", "")))

    def params_delta(self, event: Item) -> Iterable[StreamPart]:
        """More of a call's parameters."""
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        first = not self._deltas
        self._deltas.append(delta)
        if self._call is not None:
            shown = (f'"{quoted(delta)}' if first else quoted(delta)) if self._custom else delta
            yield ToolParamsDelta(self._call, shown)

    def partial_image(self, event: Item) -> Iterable[StreamPart]:
        """An image that is not finished, as a preliminary result."""
        if self._call is None:
            return
        shown = {"index": event.get("partial_image_index"), "data": event.get("partial_image_b64")}
        result = {"partial_image": {**shown, "media_type": media_type(event.get("output_format"))}}
        name = hosted_name({"type": "image_generation_call"}, self._sent.offer)
        yield ToolResult(self._call, name, result, preliminary=True, provider_executed=True)

    def _text(self, event: Item) -> str:
        return f"{self._key}:{_number(event, 'content_index')}"

    def _thought(self, event: Item) -> str:
        field = "summary_index" if "summary_index" in event else "content_index"
        return self._block((_THOUGHT[field], _number(event, field)))

    def _block(self, place: tuple[str, int]) -> str:
        """The block of a piece of reasoning; the first of the item is there already."""
        return self._thoughts.setdefault(place, f"{self._key}:{len(self._thoughts)}")

    # -- when it is whole

    def ended(self) -> Iterable[StreamPart]:
        """The item is over: it is as much as came of it, for a server that never tells it whole."""
        return () if self._done else self.finished(self._so_far())

    def _so_far(self) -> Item:
        texts = [self._blocks.text_of(id_) for id_ in self._blocks.texts if id_.startswith(f"{self._key}:")]
        content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        kind = str(self._item.get("type") or ("message" if texts else "unknown"))
        if kind in ("function_call", "custom_tool_call"):
            return {**self._item, ("input" if self._custom else "arguments"): "".join(self._deltas)}
        if kind == "reasoning":
            return {**self._item, **self._thought_so_far()}
        return {**self._item, "type": kind, "content": content} if kind == "message" else self._item

    def _thought_so_far(self) -> dict[str, Any]:
        said: dict[str, list[dict[str, str]]] = {"summary": [], "content": []}
        for (kind, _), id_ in sorted(self._thoughts.items()):
            said[kind].append({"text": self._blocks.thought(id_)})
        return said

    def finished(self, item: Item) -> Iterable[StreamPart]:
        """The item is whole: what of it was not given yet, and the ends."""
        if self._done:
            return
        self._done = True
        parts = item_parts(item, self._sent) if item.get("type") else []
        match item.get("type"):
            case "reasoning":
                yield from self._reasoned(item, parts)
            case "message":
                yield from self._spoken(parts)
            case _:
                yield from self._others(parts)

    def _reasoned(self, item: Item, parts: list[Part]) -> Iterable[StreamPart]:
        places = [(kind, n) for kind in ("summary", "content") for n in range(len(listed(item, kind)))]
        for part, place in zip(parts, places or [("none", 0)], strict=False):
            if part.type == "reasoning":
                yield from self._blocks.close_thought(self._block(place), part.text, part.metadata)
        yield from self._left_open()

    def _left_open(self) -> Iterable[StreamPart]:
        for id_ in self._blocks.thoughts:
            if id_.startswith(f"{self._key}:"):
                yield from self._blocks.close_thought(id_)

    def _spoken(self, parts: list[Part]) -> Iterable[StreamPart]:
        place = 0
        for part in parts:
            if part.type == "text":
                yield from self._close_text(f"{self._key}:{place}", part)
                place += 1
            elif part.type == "source" and part.id not in self._sources:
                yield part

    def _close_text(self, id_: str, text: Text) -> Iterable[StreamPart]:
        if not self._is_buffered or marks(text).get("refusal"):
            yield from self._blocks.close_text(id_, text.text, text.metadata)
            return
        yield from self._blocks.open_text(id_)
        self._blocks.close_text(id_)
        yield from self._blocks.say(id_, text.text)[1:]
        yield from self._blocks.close_text(id_, None, text.metadata)

    def _others(self, parts: list[Part]) -> Iterable[StreamPart]:
        for part in parts:
            if part.type == "tool-call":
                yield from self._called(part)
            elif part.type == "text":
                yield from self._blocks.close_text(f"{self._key}:0", part.text, part.metadata)
            elif part.type == "tool-result" and part.provider_executed and self._call is not None:
                yield msgspec.structs.replace(part, id=self._call)
            elif part.type != "reasoning":
                yield part

    def _called(self, call: ToolCall) -> Iterable[StreamPart]:
        if self._call is None:
            self._call = call.id
            yield ToolParamsStart(call.id, call.name, call.provider_executed, call.dynamic)
        if not self._deltas:
            written = msgspec.json.encode(call.params).decode() if call.params_text is None else call.params_text
            yield ToolParamsDelta(self._call, written)
        elif self._custom:
            yield ToolParamsDelta(self._call, '"')
        yield ToolParamsEnd(self._call)
        yield msgspec.structs.replace(call, id=self._call)


def _number(event: Item, field: str) -> int:
    value = event.get(field)
    return value if isinstance(value, int) else 0


_TERMINAL: Final = frozenset(("response.completed", "response.incomplete", "response.cancelled"))
_BEGUN: Final = frozenset(("response.created", "response.in_progress", "response.queued"))

_Told = Callable[[StreamItem, Item], Iterable[StreamPart]]

# What each event of an item means. Events that are not here say nothing that the item does not say when it is whole.
_EVENTS: Final[Mapping[str, _Told]] = {
    "response.content_part.added": StreamItem.content_added,
    "response.output_text.delta": StreamItem.text_delta,
    "response.output_text.annotation.added": StreamItem.annotation_added,
    "response.refusal.delta": StreamItem.text_delta,
    "response.reasoning_summary_part.added": StreamItem.thought_added,
    "response.reasoning_summary_text.delta": StreamItem.thought_delta,
    "response.reasoning_text.delta": StreamItem.thought_delta,
    "response.function_call_arguments.delta": StreamItem.params_delta,
    "response.custom_tool_call_input.delta": StreamItem.params_delta,
    "response.image_generation_call.partial_image": StreamItem.partial_image,
}


@final
class ResponsesReader:
    """Reads the events of one answer, in order; `read` gives the parts of each, `end` says whether it was whole."""

    def __init__(self, sent: WireRequest) -> None:
        self._sent = sent
        self._blocks = Blocks()
        self._items: dict[int | str, StreamItem] = {}
        self._keys: dict[str, int | str] = {}  # from an item's id to where it is in `_items`
        self._latest: int | str = 0
        self._said: ResponseMetadata | None = None
        self._kept: list[AnyPart] = []  # what decides how the turn ended
        self.done = False
        """Whether the answer is whole."""

    def read(self, name: str, data: str) -> list[StreamPart]:
        """The parts of an event; none for an event that is not known.

        Raises:
            ReplyError: it is no event, or it is an error.
        """
        if self.done or data.strip() == "[DONE]":
            return []
        event = parsed(data)
        kind = str(event.get("type") or name)
        if kind in ("error", "response.failed") or (event.get("error") and "type" not in event):
            raise ReplyError(reason_of_error(_error(event)))
        parts = list(self._parts(kind, event))
        self._kept.extend(part for part in parts if part.type in ("tool-call", "tool-approval-request", "text-end"))
        if kind in _TERMINAL:
            self.done = True
            parts.append(ended(_response(event), self._kept))
        return parts

    def end(self) -> list[StreamPart]:
        """Nothing, where the answer is whole.

        Raises:
            ReplyError: the stream ended before that.
        """
        if not self.done:
            raise cut("the response was completed")
        return []

    def _parts(self, kind: str, event: Item) -> Iterable[StreamPart]:
        if kind in _BEGUN:
            yield from self._begin(_response(event))
        elif kind in _TERMINAL:
            yield from self._begin(_response(event))
            yield from self._rest(_response(event))
        elif kind == "response.output_item.added":
            item = event.get("item")
            if is_object(item):
                yield from self._of(event, item).added(item)
        elif kind == "response.output_item.done":
            item = event.get("item")
            if is_object(item):
                yield from self._of(event, item).finished(item)
        elif kind in _EVENTS:
            yield from _EVENTS[kind](self._of(event, {}), event)

    def _begin(self, response: Item) -> list[StreamPart]:
        """What the provider says of the response; once more where a server says more of it at the end."""
        said, before = said_of(response, "created_at"), self._said
        if before is None:
            self._said = said
            return [*self._sent.warnings, said]
        return [said] if before.model is None and said.model is not None else []

    def _rest(self, response: Item) -> Iterable[StreamPart]:
        """The items that the response holds and whose own events were missing or never ended them."""
        for place, item in enumerate(listed(response, "output")):
            known = self._keys.get(str(item.get("id")), place)
            yield from self._at(known).finished(item)
        for begun in self._items.values():
            yield from begun.ended()

    def _of(self, event: Item, item: Item) -> StreamItem:
        """The item that an event is about, by the index, or by the id where a server gives none."""
        index, id_ = event.get("output_index"), item.get("id") or event.get("item_id")
        if isinstance(index, int):
            key: int | str = index
        else:
            key = self._keys.get(str(id_), str(id_)) if id_ else self._latest
        if id_:
            self._keys.setdefault(str(id_), key)
        self._latest = key
        return self._at(key)

    def _at(self, key: int | str) -> StreamItem:
        if key not in self._items:
            self._items[key] = StreamItem(str(key), self._blocks, self._sent)
        return self._items[key]


def _response(event: Item) -> Item:
    response = event.get("response")
    return response if is_object(response) else {}


def _error(event: Item) -> Any:
    """What went wrong: servers write it into the event, beside its type, or into the response."""
    failed = _response(event).get("error")
    return failed or event.get("error") or {key: value for key, value in event.items() if key != "type"}
