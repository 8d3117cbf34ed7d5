"""Request caches: reuse the prepared parts of a request in the next request. Providers use this module.

A run sends many requests with the same tools and a growing history. A provider caches the prepared tools, and a writer
for the history of each conversation. The writer also keeps the JSON text of its history, so that no request encodes an
earlier message again.

The cache finds entries by the identity of immutable values, the tools and the messages. It keeps these values alive, so
that no other value can have their identity. It does not detect changes inside a message, which are not allowed.

>>> cache = RequestCache[str, list[int]]()
>>> cache.tools((), ("auto",), lambda: "prepared"), cache.tools((), ("auto",), lambda: "prepared anew")
('prepared', 'prepared')
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar, final

import msgspec

from fxai.messages.prompt import Prompt
from fxai.tools.tool import AnyTool

_T = TypeVar("_T")
_W = TypeVar("_W")


# -- the JSON text of a history


@final
class JsonItems(list[Any]):
    """Items of a request as plain data, with the JSON text of the first items. `json_of` copies this text."""

    __slots__ = ("covered", "notes", "pieces")

    def __init__(
        self, items: Sequence[Any], pieces: tuple[bytes, ...] = (), covered: int = 0, notes: tuple[int, ...] = ()
    ) -> None:
        super().__init__(items)
        self.pieces: tuple[bytes, ...] = pieces
        """The JSON text of the first items. Each piece contains one or more items with commas between them."""
        self.covered: int = covered
        """The number of items in the pieces."""
        self.notes: tuple[int, ...] = notes
        """The number of occurrences of each noted string in the pieces."""

    @property
    def rest(self) -> list[Any]:
        """The items after the pieces."""
        return self[self.covered :]

    @property
    def for_json(self) -> list[Any]:
        """The items for the encoder, which inserts the pieces unchanged."""
        return [*map(msgspec.Raw, self.pieces), *self.rest]


@final
class HistoryText:
    """The JSON text of a growing list of items. It encodes each item once, and counts the strings in `noted`.

    >>> text, items = HistoryText(), [1, 2]
    >>> text.copy(items, 2).pieces, text.copy([*items, 3], 3).pieces
    ((b'1,2',), (b'1,2', b'3'))
    """

    def __init__(self, noted: tuple[bytes, ...] = ()) -> None:
        self._pieces: list[bytes] = []
        self._count = 0
        self._noted = noted
        self._notes = [0] * len(noted)
        self.size: float = 0.0
        """The size of the text in bytes, or infinity if JSON cannot represent an item."""

    def copy(self, items: Sequence[Any], end: int) -> JsonItems:
        """Return all items with their text. The first `end` items, and the items of earlier calls, must not change."""
        try:
            for item in items[self._count : end]:
                self._add(msgspec.json.encode(item))
        except (TypeError, ValueError, RecursionError):
            self.size = math.inf  # the encoder of the whole request reports the error
        return JsonItems(items, tuple(self._pieces), self._count, tuple(self._notes))

    def _add(self, text: bytes) -> None:
        self._count += 1
        self.size += len(text)
        for at, noted in enumerate(self._noted):
            self._notes[at] += text.count(noted)
        pieces = self._pieces
        while pieces and len(pieces[-1]) < 2 * len(text):  # each piece is at least twice the next, so there are few
            text = pieces.pop() + b"," + text
        pieces.append(text)


# -- the cache


class _History(NamedTuple, Generic[_W]):
    prompt: Prompt
    tools: object
    writer: _W
    size: float


@final
class RequestCache(Generic[_T, _W]):
    """The tools and the histories of the last requests to a model. Multiple runs and threads can share it.

    Args:
        most_tools: Maximum number of sets of tools. The cache removes the least recently used set. Default: 16.
        most_histories: Maximum number of histories, for all conversations. The cache removes the oldest. Default: 256.
        most_bytes: Maximum size of all histories as JSON, in bytes. Default: 16 MiB.
    """

    def __init__(self, most_tools: int = 16, most_histories: int = 256, most_bytes: int = 16 * 2**20) -> None:
        self._tools: OrderedDict[tuple[Hashable, ...], tuple[tuple[AnyTool, ...], _T]] = OrderedDict()
        self._histories: OrderedDict[tuple[int, int, int], _History[_W]] = OrderedDict()
        self._bytes = 0.0
        self._most_tools = most_tools
        self._most_histories = most_histories
        self._most_bytes = most_bytes
        self._lock = Lock()

    def tools(self, tools: tuple[AnyTool, ...], options: tuple[Hashable, ...], prepare: Callable[[], _T]) -> _T:
        """Return the prepared tools. If the cache does not contain them, prepare them.

        The cache compares the tools by identity, and all other values that affect the result, `options`, by equality.
        """
        key = (options, *map(id, tools))
        with self._lock:
            known = self._tools.get(key)
            if known is not None:
                self._tools.move_to_end(key)
                return known[1]
        prepared = prepare()
        with self._lock:
            self._tools[key] = (tools, prepared)
            while len(self._tools) > self._most_tools:
                self._tools.popitem(last=False)
        return prepared

    def take(self, prompt: Prompt, tools: object) -> tuple[_W, int, float] | None:
        """Return the writer of the longest cached history that is a prefix of the prompt, its length, and its size.

        The cache removes the writer, because a writer can continue only one history. It compares the prepared tools by
        identity with the tools that `keep` received.
        """
        with self._lock:
            for count in range(len(prompt), 0, -1):
                key = (id(prompt[count - 1]), count, id(tools))
                known = self._histories.get(key)
                if known is not None and known.prompt.count_shared(prompt) == count:
                    self._drop(key)
                    return known.writer, count, known.size
        return None

    def keep(self, prompt: Prompt, tools: object, writer: _W, size: float) -> None:
        """Store a writer that has written these messages, unless it is too large."""
        if not prompt or size > self._most_bytes:
            return
        key = (id(prompt[-1]), len(prompt), id(tools))
        with self._lock:
            if key in self._histories:
                self._drop(key)
            self._histories[key] = _History(prompt, tools, writer, size)
            self._bytes += size
            while len(self._histories) > self._most_histories or self._bytes > self._most_bytes:
                self._drop(next(iter(self._histories)))

    def _drop(self, key: tuple[int, int, int]) -> None:
        self._bytes -= self._histories.pop(key).size
