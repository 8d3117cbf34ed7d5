"""Threads with an event loop of asyncio of their own, beside the one that a program runs on.

Dask needs asyncio, and handlers that compute must not hold up its messages: the connection to a cluster has such a
thread in the program, and a worker has one for handlers.

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
    """The value of `work`, done in a thread of its own, which the end of the process does not wait for."""
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
    """A thread that runs an event loop from `start` to `close`; its other methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Starts the thread, and waits until its loop runs."""
        self._thread.start()
        self._started.wait()

    def submit(self, coroutine: Coroutine[Any, Any, _A]) -> Future[_A]:
        """Runs a coroutine in a task of the loop; cancelling the future cancels the task.

        Raises:
            RuntimeError: the thread is closed.
        """
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, cast("asyncio.AbstractEventLoop", self._loop))
        except RuntimeError:
            coroutine.close()
            raise

    def call(self, f: Callable[..., object], *arguments: object) -> None:
        """Calls `f(*arguments)` in the loop, soon; nothing happens where the thread is closed."""
        with suppress(RuntimeError):
            cast("asyncio.AbstractEventLoop", self._loop).call_soon_threadsafe(f, *arguments)

    def close(self, seconds: float | None = None) -> bool:
        """Ends the loop, whose tasks are cancelled, and waits for the thread; again does nothing.

        Args:
            seconds: how long it is waited for; None: without end. What goes on then ends with the process.

        Gives whether the thread has ended.
        """
        over = self._over
        if over is not None:
            self.call(over.set)
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            main = loop.create_task(self._main())
            while not main.done():
                try:
                    loop.run_until_complete(main)
                except (SystemExit, KeyboardInterrupt) as raised:  # of one task, which ends by it; the others go on
                    logging.getLogger("fxai.distributed").error("a task has raised %r", raised)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._started.set()
        await self._over.wait()
