"""Request caches: reuse the prepared parts of a request in the next request. Providers use this module.

A run sends many requests with the same tools and a growing history. A provider caches the prepared tools, and a writer
for the history of each conversation.

The cache finds entries by the identity of immutable values, the tools and the messages. It keeps these values alive, so
that no other value can have their identity. It does not detect changes inside a message, which are not allowed.

>>> cache = RequestCache[str, list[int]]()
>>> cache.tools((), ("auto",), lambda: "prepared"), cache.tools((), ("auto",), lambda: "prepared anew")
('prepared', 'prepared')
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import is_
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar, final

import msgspec

from fxai.messages.message import Message
from fxai.tools.tool import Tool

_T = TypeVar("_T")
_W = TypeVar("_W")


def size_as_json(value: Any) -> float:
    """Return the size of data as JSON in bytes, or infinity if JSON cannot contain it, so that no cache stores it."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return math.inf


class _History(NamedTuple, Generic[_W]):
    """A written history."""

    messages: tuple[Message, ...]
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

    __slots__ = ("_bytes", "_histories", "_lock", "_most_bytes", "_most_histories", "_most_tools", "_tools")

    def __init__(self, most_tools: int = 16, most_histories: int = 256, most_bytes: int = 16 * 2**20) -> None:
        self._tools: OrderedDict[tuple[Hashable, ...], tuple[tuple[Tool[Any, Any, Any], ...], _T]] = OrderedDict()
        self._histories: OrderedDict[tuple[int, int, int], _History[_W]] = OrderedDict()
        self._bytes = 0.0
        self._most_tools = most_tools
        self._most_histories = most_histories
        self._most_bytes = most_bytes
        self._lock = Lock()

    def tools(
        self, tools: tuple[Tool[Any, Any, Any], ...], options: tuple[Hashable, ...], prepare: Callable[[], _T]
    ) -> _T:
        """Return the prepared tools for these options. If the cache does not contain them, prepare them.

        Args:
            tools: The tools, compared by identity.
            options: All other values that affect the result, compared by equality.
            prepare: Prepares the tools. If it raises, the cache stores nothing.
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

    def take(self, messages: tuple[Message, ...], tools: object) -> tuple[_W, int, float] | None:
        """Return the writer of the longest cached history that is a prefix of the messages, its length, and its size.

        The cache removes the writer, because a writer can continue only one history.

        Args:
            messages: The messages in the request.
            tools: The prepared tools in the request, compared by identity with the tools that `keep` received.
        """
        with self._lock:
            for count in range(len(messages), 0, -1):
                key = (id(messages[count - 1]), count, id(tools))
                known = self._histories.get(key)
                if known is not None and all(map(is_, known.messages, messages)):
                    self._drop(key)
                    return known.writer, count, known.size
        return None

    def keep(self, messages: tuple[Message, ...], tools: object, writer: _W, size: float) -> None:
        """Store a writer that has written these messages, unless it is too large."""
        if not messages or size > self._most_bytes:
            return
        key = (id(messages[-1]), len(messages), id(tools))
        with self._lock:
            if key in self._histories:
                self._drop(key)
            self._histories[key] = _History(messages, tools, writer, size)
            self._bytes += size
            while len(self._histories) > self._most_histories or self._bytes > self._most_bytes:
                self._drop(next(iter(self._histories)))

    def _drop(self, key: tuple[int, int, int]) -> None:
        self._bytes -= self._histories.pop(key).size
