"""Wakers: tasks of an event loop that are woken from other threads.

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
    """Wakes a task of the loop that runs, asyncio or trio, from any thread: it is called there."""

    __slots__ = ("_call_soon", "_event")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._call_soon = caller()

    def __call__(self) -> None:
        """Makes `wait` return, or return at once where no task waits."""
        _ = self.wake()

    def wake(self) -> bool:
        """Do what a call does; return False if the event loop has ended."""
        return self._call_soon(self._set)

    def _set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Returns when it was called since the last time."""
        await self._event.wait()
        self._event = anyio.Event()


@final
class SharedEvent:
    """An event that any thread sets, and that programs of any event loop wait for."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Waker] = []

    def is_set(self) -> bool:
        """Return True if it was set."""
        return self._is_set

    def set(self) -> None:
        """Wake all programs that wait, and those that wait later."""
        self._is_set = True
        for waker in [*self._waiting]:
            waker()

    async def wait(self) -> None:
        """Return when it was set."""
        waker = Waker()
        self._waiting.append(waker)  # before the question: another thread may set it in between
        try:
            if self._is_set:
                await checkpoint()
            else:
                await waker.wait()
        finally:
            self._waiting.remove(waker)


@final
class Home:
    """The event loop that a value belongs to, for values that cannot work on another one.

    Args:
        name: Names the value in the error.
    """

    __slots__ = ("_name", "_token")

    def __init__(self, name: str) -> None:
        self._name = name
        self._token = _token()

    def require(self) -> None:
        """Return if the event loop of the value runs here.

        Raises:
            OtherLoopError: If another event loop runs here. A wait for the loop of the value would never end.
        """
        if self._token is not None and _token() != self._token:
            raise OtherLoopError(
                f"{self._name} belongs to the event loop on which it was made, and another one runs here. "
                "Make one for each event loop, or run the program on the first one."
            )


class OtherLoopError(RuntimeError):
    """A value was used on another event loop than its own."""


def _token() -> object:
    return None if event_loop() is None else current_token()


async def result_of(future: Future[_A]) -> _A:
    """What a future of another thread gives; it is cancelled with the task that waits."""
    waker = Waker()
    future.add_done_callback(lambda _: waker())
    try:
        await waker.wait()
    except BaseException:
        future.cancel()
        raise
    return future.result()
