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
fxai.providers.openai.failure.ReplyError: ...the stream ended before...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

from fxai.messages.part import AnyPart, ResponseMetadata, StreamPart
from fxai.providers.openai.block import Blocks
from fxai.providers.openai.ending import said_of
from fxai.providers.openai.failure import ReplyError, cut, reason_of_error
from fxai.providers.openai.item import Item, listed
from fxai.providers.openai.reply import ended, parsed
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.stream_item import StreamItem
from fxai.schema.data import is_object

__all__ = ["ResponsesReader"]

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
        """What was not whole before the response was: items that were never told as done, or never told at all."""
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
