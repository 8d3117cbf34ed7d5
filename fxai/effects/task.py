"""Tasks of the current event loop, asyncio or trio. Use them to run coroutines in a group or independently.

The tasks of a `task_group` end before its block ends. A forked program outlives the step that forked it and ends with
its scope. No block of code can hold its task, so `spawn` starts the task, and its handle can interrupt it.

A program that receives a task has already started, and can hold resources. asyncio never runs a task that is cancelled
before its first turn. fxai starts this task once more in a cancelled scope, so that its finalizers run.

On asyncio, each task has its own cancel scope, and a group cancels these scopes. Such a group works like a group of
anyio, for half the time and memory. However, a task can only be cancelled at the deadlines around the block; it cannot
read them. On trio, fxai uses the group of anyio.

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
"""The coroutine of a task. It runs completely inside the given context manager and raises only cancellations."""

_tasks: set[Any] = set()  # strong references, because an event loop holds its tasks weakly


@final
class Held(msgspec.Struct, eq=False):
    """The cancel scope of a task. The code of the task enters it."""

    _child: Child | None  # None after the start, so that the task does not hold it
    _variables: Context
    _on_end: Callable[[Held], object]
    _scope: anyio.CancelScope

    def __enter__(self) -> None:
        self._child = None
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)

    def cancel(self) -> None:
        """Cancel the code of the task. Shielded code continues until its end."""
        self._scope.cancel()

    def start(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Start the task on asyncio and call `on_end` at its end. Mark its exception as retrieved.

        Return False if the task has already ended, which an eager task can do. Then fxai does not call `on_end`.
        """
        if self._child is None:
            return False
        task = loop.create_task(self._child(self), context=self._variables)
        if task.done():
            return False
        task.add_done_callback(self._over, context=self._variables)
        return True

    def _over(self, task: asyncio.Task[None]) -> None:
        if self._child is not None:
            self.cancel()
            if self.start(task.get_loop()):
                return
        if not task.cancelled():
            task.exception()
        self._on_end(self)


def spawn(child: Child, variables: Context) -> Held:
    """Start `child` in its own task and return its handle. Raise `RuntimeError` if no event loop runs."""
    held = Held(child, variables, _tasks.discard, anyio.CancelScope())
    if event_loop() == "trio":
        import trio

        trio.lowlevel.spawn_system_task(child, held, context=variables)
        return held

    import asyncio

    if held.start(asyncio.get_running_loop()):
        _tasks.add(held)
    return held


def stops_the_loop(raised: BaseException) -> bool:
    """Return true if a task must raise this exception: a cancellation, or an exception that stops asyncio."""
    if isinstance(raised, anyio.get_cancelled_exc_class()):
        return True
    return event_loop() == "asyncio" and isinstance(raised, KeyboardInterrupt | SystemExit)


_A = TypeVar("_A")


def task_group() -> TaskGroup:
    """Return a task group of the current event loop. It is a context manager that ends after all of its tasks.

    If its block is cancelled or raises, the group cancels the tasks.
    """
    return _OnAsyncio() if event_loop() == "asyncio" else _OnTrio()


@final
class _OnAsyncio:
    __slots__ = ("_loop", "_new_scope", "_running", "_wake")

    def __init__(self) -> None:
        from asyncio import get_running_loop

        self._loop = get_running_loop()
        self._new_scope = type(anyio.CancelScope())  # `anyio.CancelScope` looks for the event loop at each call
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
        """Start a task that runs `child` with a copy of these context variables."""
        held = Held(child, variables, self._end, self._new_scope())
        if held.start(self._loop):
            self._running.add(held)

    def _end(self, held: Held) -> None:
        self._running.remove(held)
        if not self._running and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def cancel(self) -> None:
        """Cancel the running tasks. Shielded code continues until its end."""
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
        """Start a task that runs `child` with a copy of these context variables."""
        _ = variables.run(self._group.start_soon, child, nullcontext())

    def cancel(self) -> None:
        """Cancel the running tasks. Shielded code continues until its end."""
        self._group.cancel_scope.cancel()


async def in_own_task(f: Callable[[], Awaitable[_A]]) -> _A:
    """Await `f()` in its own task and return its value. Changes of context variables apply to the current task."""
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
