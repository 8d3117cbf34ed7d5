"""Tasks of the event loop that runs, asyncio or trio: in a group, or on their own.

The tasks of a `task_group` end before its block does. A forked program outlives the step that forked it and ends with
its scope, so no block of code can hold its task: `spawn` starts it, and its handle interrupts it and waits for its end.

A program has begun when it gets a task, and may hold something. asyncio never runs what it cancels before its first
turn: that is started once more, in a cancelled scope, and so its finalizers run.

On asyncio each task has a cancel scope of its own, and a group cancels those: it does what anyio's group does, for
half the time and memory; but a task cannot ask for deadlines around the block, only be cancelled at them. On trio it is
anyio's.

>>> log: list[str] = []
>>> async def child(held: AbstractContextManager[object]) -> None:
...     with held:
...         await anyio.sleep_forever()
...     log.append("stopped")
>>> async def program() -> None:
...     async with task_group() as group:
...         group.start(child, copy_context())
...         group.cancel()
>>> anyio.run(program)
>>> log
['stopped']
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

import anyio
import msgspec
from typing_extensions import TypeVar

from fxai.effects.cancellation import event_loop, shield
from fxai.effects.cause import attach, attachment

if TYPE_CHECKING:
    import asyncio

Child: TypeAlias = Callable[[AbstractContextManager[Any]], Coroutine[Any, Any, None]]
"""What a task runs, all of it inside the context manager that it is given. It raises cancellations and nothing else."""

_tasks: set[Any] = set()  # an event loop holds its tasks weakly


@final
class Held(msgspec.Struct, eq=False):
    """The cancel scope of a task, entered by what the task runs."""

    _child: Child | None  # None once it has begun: it is not held then
    _variables: Context
    _on_end: Callable[[Held], object]
    _scope: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)

    def __enter__(self) -> None:
        self._child = None
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)

    def cancel(self) -> None:
        """Cancels what the task runs; what is shielded in it goes on to its end."""
        self._scope.cancel()

    def start(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Starts the task, on asyncio; calls `on_end` at its end, with what was raised out of the loop seen.

        Gives False where it has ended already, as an eager task may; `on_end` is not called then.
        """
        return self._variables.run(self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> bool:
        if self._child is None:
            return False
        task = loop.create_task(self._child(self))
        if task.done():
            return False
        task.add_done_callback(self._over, context=self._variables)
        return True

    def _over(self, task: asyncio.Task[None]) -> None:
        if self._child is not None:
            self.cancel()
            if self._start(task.get_loop()):
                return
        if not task.cancelled():
            task.exception()
        self._on_end(self)


def spawn(child: Child, variables: Context) -> Held:
    """Starts `child` in a task of its own; gives what cancels it. Raises `RuntimeError`: no event loop runs here."""
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


_A = TypeVar("_A")


def task_group() -> TaskGroup:
    """A task group for the event loop that runs: a context manager, left when all of its tasks have ended.

    Where its block is cancelled or raises, the tasks are cancelled.
    """
    return _OnAsyncio() if event_loop() == "asyncio" else _OnTrio()


@final
class _OnAsyncio:
    __slots__ = ("_loop", "_running", "_wake")

    def __init__(self) -> None:
        from asyncio import get_running_loop

        self._loop = get_running_loop()
        self._running: set[Held] = set()
        self._wake: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.cancel()
        cancelled: BaseException | None = None
        while self._running:
            self._wake = self._loop.create_future()
            try:
                if error is None and cancelled is None:
                    await self._wake
                else:
                    await shield(self._wake)
            except anyio.get_cancelled_exc_class() as raised:
                cancelled = raised
                self.cancel()
        if cancelled is not None:
            raise cancelled

    def start(self, child: Child, variables: Context) -> None:
        """Starts a task that runs `child` with a copy of these context variables."""
        held = Held(child, variables, self._end)
        if held.start(self._loop):
            self._running.add(held)

    def _end(self, held: Held) -> None:
        self._running.remove(held)
        if not self._running and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def cancel(self) -> None:
        """Cancels the tasks that run; what is shielded in them goes on to its end."""
        for held in self._running:
            held.cancel()


@final
class _OnTrio:
    __slots__ = ("_group",)

    def __init__(self) -> None:
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._group.__aexit__(kind, error, traceback)

    def start(self, child: Child, variables: Context) -> None:
        """Starts a task that runs `child` with a copy of these context variables."""
        _ = variables.run(self._group.start_soon, child, nullcontext())

    def cancel(self) -> None:
        """Cancels the tasks that run; what is shielded in them goes on to its end."""
        self._group.cancel_scope.cancel()


async def in_own_task(f: Callable[[], Awaitable[_A]]) -> _A:
    """What `f()` gives or raises, awaited in a task of its own; context variables end up as if it were this one."""
    values: list[_A] = []
    errors: list[BaseException] = []
    variables: dict[ContextVar[Any], Any] = {}

    async def child(held: AbstractContextManager[Any]) -> None:
        with held:
            try:
                values.append(await f())
            except BaseException as raised:
                errors.append(raised)
                if isinstance(raised, anyio.get_cancelled_exc_class()):
                    raise
            finally:
                variables.update(copy_context())

    try:
        async with task_group() as group:
            group.start(child, copy_context())
    except BaseException as raised:
        attach(raised, attachment(errors[0] if errors else raised))
        raise
    _take(variables)
    if errors:
        raise errors[0]
    return values[0]


def _take(variables: dict[ContextVar[Any], Any]) -> None:
    for variable, value in variables.items():
        if variable.get(variables) is not value:
            variable.set(value)


TaskGroup: TypeAlias = _OnAsyncio | _OnTrio
