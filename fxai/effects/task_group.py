"""Task groups: tasks that end before the block that holds them does.

On asyncio each task has a cancel scope of its own, and the group cancels those: it does what anyio's group does, for
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

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

import anyio
from typing_extensions import TypeVar

from fxai.effects.cancellation import uninterrupted
from fxai.effects.cause import attach, attached
from fxai.effects.spawn import Child, Held, event_loop

if TYPE_CHECKING:
    import asyncio

__all__ = ["TaskGroup", "in_own_task", "task_group"]

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
                    await uninterrupted(self._wake)
            except anyio.get_cancelled_exc_class() as raised:
                cancelled = raised
                self.cancel()
        if cancelled is not None:
            raise cancelled

    def start(self, child: Child, variables: Context) -> None:
        """Starts a task that runs `child` with a copy of these context variables."""
        held = Held(child, variables, self._ended)
        if held.start(self._loop):
            self._running.add(held)

    def _ended(self, held: Held) -> None:
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
        variables.run(lambda: self._group.start_soon(child, nullcontext()) and None)

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
        attach(raised, attached(errors[0] if errors else raised))
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
