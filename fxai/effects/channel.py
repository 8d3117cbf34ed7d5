"""Channels: how a producer hands items to the one stream that reads them, no faster than they are read."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, final

import anyio
from typing_extensions import TypeVar

from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.exit import Exit, Failed, Succeeded

__all__ = ["END", "Channel"]

_A = TypeVar("_A")


@final
class _End:
    def __repr__(self) -> str:
        return "END"


END: Any = _End()
"""What a pull gives when there are no more items."""

_TAKEN: Exit[None, Any] = Succeeded(None)


@final
class Channel(Generic[_A]):
    """A queue with one reader. `put` waits while more than `capacity` items are unread; `end` is told once."""

    __slots__ = ("_capacity", "_exit", "_items", "_ready", "_room")

    def __init__(self, capacity: int = 0) -> None:
        self._items: deque[_A] = deque()
        self._capacity = capacity
        self._exit: Exit[Any, Any] | None = None
        self._ready: anyio.Event | None = None
        self._room: anyio.Event | None = None

    def offer(self, item: _A) -> None:
        """Adds an item, whether there is room or not."""
        self._items.append(item)
        self._wake()

    def put(self, item: _A) -> EffectOf[None]:
        """Adds an item and waits until there is room: with capacity 0, until it was taken."""

        def start(_: object) -> Any:
            self.offer(item)
            return _TAKEN if len(self._items) <= self._capacity else self._roomy()

        return AwaitExit(start)

    def end(self, exit_: Exit[Any, Any]) -> None:
        """Ends the channel: the reader gets what is left, then the end, or the cause of a failed exit."""
        self._exit = exit_
        self._wake()

    def take(self) -> EffectOf[Any, Any, None]:
        """The next item, or `END`; waits for it. A producer that failed is the failure here."""
        return AwaitExit(lambda _: self._next() or self._waited())

    def _next(self) -> Exit[Any, Any] | None:
        if self._items:
            item = self._items.popleft()
            if self._room is not None:
                self._room.set()
                self._room = None
            return Succeeded(item)
        if self._exit is None:
            return None
        return self._exit if isinstance(self._exit, Failed) else Succeeded(END)

    async def _waited(self) -> Exit[Any, Any]:
        while (found := self._next()) is None:
            self._ready = anyio.Event()
            await self._ready.wait()
        return found

    async def _roomy(self) -> Exit[None, Any]:
        while len(self._items) > self._capacity:
            self._room = self._room or anyio.Event()
            await self._room.wait()
        return _TAKEN

    def _wake(self) -> None:
        if self._ready is not None:
            self._ready.set()
            self._ready = None
