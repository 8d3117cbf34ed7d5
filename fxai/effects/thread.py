"""Worker threads for blocking functions. Use them to keep the event loop free.

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
    """Call `work` in a worker thread and return its value. A cancellation waits until the thread ends.

    This is true for cancel scopes and for cancellations by asyncio itself, so no work continues after its task.
    `anyio.from_thread.check_cancelled` raises in the thread after a cancellation.

    Args:
        work: Blocking function.
        limiter: Limit of concurrent threads. Default: the limiter of the event loop, 40 threads.
    """
    if event_loop() != "asyncio":
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    job = _Job(work)
    cancelled: list[BaseException] = []
    async with limiter or anyio.to_thread.current_default_thread_limiter():  # held until the thread ends
        with anyio.CancelScope() as scope:  # the thread checks this scope for cancellation
            try:
                return await anyio.to_thread.run_sync(job, limiter=anyio.CapacityLimiter(1))
            except anyio.get_cancelled_exc_class() as raised:  # from asyncio itself, which no shield blocks
                if job.takes_its_turn():
                    raise
                cancelled.append(raised)
                scope.cancel()
                with suppress(anyio.get_cancelled_exc_class()):  # of the scope
                    await shield(job.ended.wait())
    attach(cancelled[0], Cause(tuple(Die(error) for error in job.failed)))
    raise cancelled[0]


def caller() -> Callable[[Callable[[], object]], bool]:
    """Return a function that schedules a call on the current event loop from any thread, without waiting for the call.

    The returned function returns False if the event loop has ended and cannot call functions.
    """
    if event_loop() == "trio":
        import trio

        call: Callable[[Callable[[], object]], object] = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        from asyncio import get_running_loop

        loop = get_running_loop()

        def call_here(f: Callable[[], object]) -> object:
            with suppress(RuntimeError):
                if get_running_loop() is loop:
                    return loop.call_soon(f)  # the other method also writes to a socket
            return loop.call_soon_threadsafe(f)

        call = call_here

    def call_soon(f: Callable[[], object]) -> bool:
        try:
            call(f)
        except RuntimeError:
            return False
        return True

    return call_soon


class _Job(Generic[_A]):
    """A unit of work for a thread. If a cancellation precedes its start, it never runs."""

    def __init__(self, work: Callable[[], _A]) -> None:
        from asyncio import get_running_loop

        self._work = work
        self._turn = threading.Lock()
        self._loop = get_running_loop()
        self.ended = anyio.Event()
        self.failed: list[Exception] = []

    def takes_its_turn(self) -> bool:
        """Claim the job. Return False if the starting thread or a cancellation claimed it before."""
        return self._turn.acquire(blocking=False)

    def __call__(self) -> _A:
        if not self.takes_its_turn():
            raise RuntimeError("the job was cancelled before its start")  # invisible, because no task waits for it
        try:
            return self._work()
        except Exception as error:
            self.failed.append(error)
            raise
        finally:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self.ended.set)
