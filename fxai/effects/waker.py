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
        self._call_soon(self._set)

    def _set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Returns when it was called since the last time."""
        await self._event.wait()
        self._event = anyio.Event()


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
