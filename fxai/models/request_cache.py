"""Request caches: what one request to a model has in common with the next, so that it is made only once.

A run asks again and again with the same tools, and with a history that only grows. A provider keeps the tools as they
were prepared, and a writer that stands at the end of each conversation's history.

Entries are found by the identity of immutable values, the tools and the messages, which they keep alive: so no other
value can be taken for one of them. What is changed in place inside a message, which is not to be done, is not seen.

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
    """How many bytes plain data takes as JSON; infinity where JSON cannot carry it, so that it is not kept."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return math.inf


class _History(NamedTuple, Generic[_W]):
    """A history that was written."""

    messages: tuple[Message, ...]
    tools: object
    writer: _W
    size: float


@final
class RequestCache(Generic[_T, _W]):
    """The tools and the histories of the last requests to one model; several runs and threads may share it.

    Args:
        most_tools: How many sets of tools are kept; the one that was used longest ago goes first.
        most_histories: How many histories are kept, one for each conversation; likewise.
        most_bytes: How large all of them may be in all, as JSON.
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
        """The tools as they were prepared with these options; prepared now if they were not.

        Args:
            tools: the tools, told apart by identity.
            options: all else that the result depends on, told apart by equality.
            prepare: prepares them; what it raises is not kept.
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
        """The writer of the longest history that these messages begin with, how many they are, and its size.

        It is taken out of the cache: a writer goes on from one place only.

        Args:
            messages: the messages of the request.
            tools: the prepared tools of the request, told apart by identity; the same that `keep` was given.
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
        """Keep a writer that has written these messages; one that is too large by itself is not kept."""
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
