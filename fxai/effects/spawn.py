"""Tasks for programs that go on beside others, on whichever event loop runs.

A forked program outlives the step that forked it and ends with its scope, so no block of code can hold its task
group. Its handle supervises it instead: the scope interrupts it and waits for its end, so nothing is left behind.

A program has begun when it gets a task, and may hold something. asyncio never runs what it cancels before its first
turn: that is started once more, in a cancelled scope, and so its finalizers run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import anyio
from typing_extensions import override

if TYPE_CHECKING:
    import asyncio

__all__ = ["Child", "Held", "event_loop", "spawn", "stops_the_loop"]

Child: TypeAlias = Callable[[AbstractContextManager[Any]], Coroutine[Any, Any, None]]
"""What a task runs, all of it inside the context manager that it is given. It raises cancellations and nothing else."""

_tasks: set[Any] = set()  # an event loop holds its tasks weakly


@final
class Held(AbstractContextManager[None]):
    """The cancel scope of a task, entered by what the task runs."""

    __slots__ = ("_began", "_child", "_ended", "_scope", "_variables")

    def __init__(self, child: Child, variables: Context, ended: Callable[[Held], object]) -> None:
        self._scope = anyio.CancelScope()
        self._began = False
        self._child = child
        self._variables = variables
        self._ended = ended

    @override
    def __enter__(self) -> None:
        self._began = True
        self._scope.__enter__()

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)

    def cancel(self) -> None:
        """Cancels what the task runs; what is shielded in it goes on to its end."""
        self._scope.cancel()

    def start(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Starts the task, on asyncio; calls `ended` at its end, with what was raised out of the loop seen.

        Gives False where it has ended already, as an eager task may; `ended` is not called then.
        """
        return self._variables.run(self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> bool:
        task = loop.create_task(self._child(self))
        if task.done():
            return False
        task.add_done_callback(self._over, context=self._variables)
        return True

    def _over(self, task: asyncio.Task[None]) -> None:
        if not self._began:
            self.cancel()
            if self._start(task.get_loop()):
                return
        if not task.cancelled():
            task.exception()
        self._ended(self)


def spawn(child: Child, variables: Context) -> Held:
    """Starts `child` in a task of its own; gives what cancels it.

    Raises:
        RuntimeError: no event loop runs here.
    """
    held = Held(child, variables, _tasks.discard)
    if event_loop() == "trio":
        import trio

        trio.lowlevel.spawn_system_task(child, held, context=variables)
        return held

    import asyncio

    if held.start(asyncio.get_running_loop()):
        _tasks.add(held)
    return held


def stops_the_loop(raised: BaseException) -> bool:
    """True for what a task of its own must let out: a cancellation, and what asyncio stops its loop for."""
    if isinstance(raised, anyio.get_cancelled_exc_class()):
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
