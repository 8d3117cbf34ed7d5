"""Threads: functions that block, run beside the event loop.

>>> anyio.run(in_thread, lambda: 6 * 7)
42
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic

import anyio
import anyio.to_thread
from typing_extensions import TypeVar

from fxai.effects.cancellation import event_loop, shield
from fxai.effects.cause import Cause, Die, attach

_A = TypeVar("_A")


async def in_thread(work: Callable[[], _A], *, limiter: anyio.CapacityLimiter | None = None) -> _A:
    """The value of `work`, done in a worker thread: to its end once it has begun, also when the task is cancelled.

    A cancellation goes on when the thread has ended, whether a cancel scope or asyncio itself asked for it: nothing is
    done afterwards that no task waits for. `anyio.from_thread.check_cancelled` raises in the thread meanwhile.

    Args:
        work: what blocks.
        limiter: how many threads work at once; by default the event loop's own, which allows 40.
    """
    if event_loop() != "asyncio":
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    job = _Job(work)
    cancelled: list[BaseException] = []
    async with limiter or anyio.to_thread.current_default_thread_limiter():  # until the thread has ended
        with anyio.CancelScope() as scope:  # what the thread sees when it asks whether it is cancelled
            try:
                return await anyio.to_thread.run_sync(job, limiter=anyio.CapacityLimiter(1))
            except anyio.get_cancelled_exc_class() as raised:  # by asyncio itself, which no shield holds off
                if job.takes_its_turn():
                    raise
                cancelled.append(raised)
                scope.cancel()
                with suppress(anyio.get_cancelled_exc_class()):  # again
                    await shield(job.ended.wait())
    attach(cancelled[0], Cause(tuple(Die(error) for error in job.failed)))
    raise cancelled[0]


def caller() -> Callable[[Callable[[], object]], bool]:
    """What has the event loop that runs now call a function, from any thread, soon, and without waiting for it.

    It returns False if that loop has ended: the loop calls no function then.
    """
    call: Callable[[Callable[[], object]], object]
    if event_loop() == "trio":
        import trio

        call = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        from asyncio import get_running_loop

        call = get_running_loop().call_soon_threadsafe

    def call_soon(f: Callable[[], object]) -> bool:
        try:
            call(f)
        except RuntimeError:
            return False
        return True

    return call_soon


class _Job(Generic[_A]):
    """Work for a thread; not done at all where it was cancelled before it began."""

    def __init__(self, work: Callable[[], _A]) -> None:
        from asyncio import get_running_loop

        self._work = work
        self._turn = threading.Lock()
        self._loop = get_running_loop()
        self.ended = anyio.Event()
        self.failed: list[Exception] = []

    def takes_its_turn(self) -> bool:
        """Takes it; False where it was taken before: by the thread as it begins, or by a cancellation."""
        return self._turn.acquire(blocking=False)

    def __call__(self) -> _A:
        if not self.takes_its_turn():
            raise RuntimeError("it was cancelled before it began")  # nothing sees it: no task waits
        try:
            return self._work()
        except Exception as error:
            self.failed.append(error)
            raise
        finally:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.ended.set)
