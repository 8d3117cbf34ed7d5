"""Background tasks for forked programs, on whichever event loop runs.

A forked program outlives the step that forked it and ends with its scope, so no block of code can hold its task
group. Its handle supervises it instead: the scope interrupts it and waits for its end, so nothing is left behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, Literal

from anyio import get_cancelled_exc_class

if TYPE_CHECKING:
    import asyncio

__all__ = ["event_loop", "spawn", "stops_the_loop"]

_tasks: set[Any] = set()  # an event loop holds its tasks weakly


def spawn(f: Callable[[], Coroutine[Any, Any, None]], variables: Context) -> None:
    """Starts `f`, which must not raise, in a task of its own.

    Raises:
        RuntimeError: no event loop runs here.
    """
    if event_loop() == "trio":
        import trio

        trio.lowlevel.spawn_system_task(f, context=variables)
        return

    import asyncio

    task = variables.run(asyncio.get_running_loop().create_task, f())
    _tasks.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # seen: asyncio raised it out of the loop


def stops_the_loop(raised: BaseException) -> bool:
    """True for what a task of its own must let out: a cancellation, and what asyncio stops its loop for."""
    if isinstance(raised, get_cancelled_exc_class()):
        return True
    return event_loop() == "asyncio" and isinstance(raised, KeyboardInterrupt | SystemExit)


def event_loop() -> Literal["asyncio", "trio"] | None:
    """The event loop that runs this code, or None."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"

    loops = sys.modules.get("asyncio")
    if loops is None:  # so it runs nothing either
        return None
    try:
        loops.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"
