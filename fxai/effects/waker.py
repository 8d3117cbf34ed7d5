"""Wakers, which wake a task of an event loop from other threads. Use them to share values between event loops.

>>> from concurrent.futures import Future
>>> async def ask() -> int:
...     future: Future[int] = Future()
...     future.set_result(42)
...     return await result_of(future)
>>> anyio.run(ask)
42
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

import anyio
from anyio.lowlevel import checkpoint, current_token

from fxai.effects.cancellation import event_loop
from fxai.effects.thread import caller

if TYPE_CHECKING:
    from concurrent.futures import Future

_A = TypeVar("_A")


@final
class Waker:
    """A callable that wakes a task of the current event loop, asyncio or trio. You can call it from any thread."""

    __slots__ = ("_call_soon", "_event")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._call_soon = caller()

    def __call__(self) -> None:
        """Make `wait` return. If no task waits, the next `wait` returns immediately."""
        _ = self.wake()

    def wake(self) -> bool:
        """Wake the task like a call. Return False if the event loop has ended."""
        return self._call_soon(self._set)

    def _set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Wait for a call since the previous wait."""
        await self._event.wait()
        self._event = anyio.Event()


@final
class SharedEvent:
    """An event that any thread can set. Programs of any event loop can wait for it."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Waker] = []

    def is_set(self) -> bool:
        """Return true if a thread has set the event."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiting programs. Later waits return immediately."""
        self._is_set = True
        for waker in [*self._waiting]:
            waker()

    async def wait(self) -> None:
        """Wait until a thread sets the event."""
        waker = Waker()
        self._waiting.append(waker)  # before the check, because another thread can set the event in between
        try:
            if self._is_set:
                await checkpoint()
            else:
                await waker.wait()
        finally:
            self._waiting.remove(waker)


@final
class Home:
    """The event loop of a value that cannot work on another event loop.

    Args:
        name: Name of the value for the error message.
    """

    __slots__ = ("_name", "_token")

    def __init__(self, name: str) -> None:
        self._name = name
        self._token = _token()

    def require(self) -> None:
        """Check that the event loop of the value runs this code.

        Raises:
            OtherLoopError: If another event loop runs. A wait for the loop of the value would never end.
        """
        if self._token is not None and _token() != self._token:
            raise OtherLoopError(
                f"{self._name} belongs to the event loop on which it was made, and another one runs here. "
                "Make one for each event loop, or run the program on the first one."
            )


class OtherLoopError(RuntimeError):
    """The error of a value that is used on a foreign event loop."""


def _token() -> object:
    return None if event_loop() is None else current_token()


async def result_of(future: Future[_A]) -> _A:
    """Return the value of a future of another thread. Cancelling the waiting task cancels the future."""
    waker = Waker()
    future.add_done_callback(lambda _: waker())
    try:
        await waker.wait()
    except BaseException:
        future.cancel()
        raise
    return future.result()
