"""A thread with an asyncio event loop. Use it next to the event loop of the program.

Dask requires asyncio, and handlers that compute must not delay the messages of Dask. Therefore a program connects to a
cluster in such a thread, and a worker runs handlers in one.

>>> async def answer() -> int:
...     return 42
>>> thread = LoopThread("example")
>>> thread.start()
>>> thread.submit(answer()).result()
42
>>> thread.close()
True
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast, final

from typing_extensions import TypeVar

_A = TypeVar("_A")


async def in_daemon(work: Callable[[], _A]) -> _A:
    """Return the value of `work`, which runs in a daemon thread. The process does not wait for that thread."""
    future: Future[_A] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as raised:
            future.set_exception(raised)

    threading.Thread(target=run, name="fxai-import", daemon=True).start()
    return await asyncio.shield(asyncio.wrap_future(future))


@final
class LoopThread:
    """A thread that runs an event loop from `start` to `close`. You can call the other methods from any thread."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread, and wait until its loop runs."""
        self._thread.start()
        self._started.wait()

    def submit(self, coroutine: Coroutine[Any, Any, _A]) -> Future[_A]:
        """Run a coroutine in a task of the loop. If you cancel the future, the task is cancelled.

        A closed thread raises a `RuntimeError`.
        """
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, cast("asyncio.AbstractEventLoop", self._loop))
        except RuntimeError:
            coroutine.close()
            raise

    def call(self, f: Callable[..., object], *arguments: object) -> None:
        """Call `f(*arguments)` in the loop soon. A closed thread ignores the call."""
        with suppress(RuntimeError):
            cast("asyncio.AbstractEventLoop", self._loop).call_soon_threadsafe(f, *arguments)

    def close(self, seconds: float | None = None) -> bool:
        """End the loop, cancel its tasks, and wait for the thread. Return True if the thread has ended.

        After `seconds`, a thread that still runs ends with the process. None waits without a limit.
        """
        over = self._over
        if over is not None:
            self.call(over.set)
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._over = asyncio.Event()
            self._started.set()
            await self._over.wait()

        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            running = loop.create_task(main())
            while not running.done():
                try:
                    loop.run_until_complete(running)
                except (SystemExit, KeyboardInterrupt) as raised:  # it ends one task; the other tasks continue
                    logging.getLogger("fxai.distributed").error("a task has raised %r", raised)
