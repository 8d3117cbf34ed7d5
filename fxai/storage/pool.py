"""Pools: connections to a database that are kept open between two uses, as long as somebody says so.

>>> from contextlib import closing
>>> from io import StringIO
>>> pool = Pool(lambda: closing(StringIO()))
>>> with pool.take() as first, pool.take() as second:
...     first is second
False
>>> with pool.stay_open():
...     with pool.take() as first:
...         pass
...     with pool.take() as second:
...         first is second
True
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final, Generic, Never, TypeVar, final
from weakref import WeakSet

from fxai.effects.constructor import attempt_work
from fxai.effects.effect import Effect, Fetch, FlatMap, Succeed
from fxai.effects.scope import Scope

_C = TypeVar("_C")

_IDLE: Final = 4  # connections that are kept while nobody uses them

_inherited: Final[list[Any]] = []  # connections of the process that this one was forked from: it uses and closes them


def _always(_: object) -> bool:
    return True


@final
class Pool(Generic[_C]):
    """Connections, each used by one thread at a time. They are kept open only inside of `stay_open`.

    A process that is forked opens its own ones, and leaves those of the first alone.

    Args:
        connect: opens a connection, which is closed at the end of the block, in any thread.
        is_usable: whether a connection that was kept can still be used.
        idle: Maximum number of connections that stay open while no thread uses them. Default: 4.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[_C]],
        is_usable: Callable[[_C], bool] = _always,
        *,
        idle: int = _IDLE,
    ) -> None:
        self._connect = connect
        self._is_usable = is_usable
        self._most_idle = idle
        self._lock = threading.Lock()
        self._users = 0
        self._idle: list[tuple[_C, ExitStack]] = []
        _pools.add(self)

    @contextmanager
    def stay_open(self) -> Generator[None]:
        """Keeps connections open for the block, or for the longest of several; at its end they are closed."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
            if not self._users:
                self._drain()

    @contextmanager
    def take(self, begin: Callable[[_C], AbstractContextManager[object]] = nullcontext) -> Generator[_C]:
        """A connection for the block, which is closed if the block fails.

        Args:
            begin: what surrounds the block, such as a transaction. Where it cannot be entered because a connection that
                was kept is gone, as of a server that was started again, another connection is taken.
        """
        connection, stack, work = self._begin(begin)
        with stack:
            with work:
                yield connection
            kept = stack.pop_all()
        self._give_back(connection, kept)

    def _begin(self, begin: Callable[[_C], AbstractContextManager[object]]) -> tuple[_C, ExitStack, ExitStack]:
        """A connection, what closes it, and what ends its work."""
        while (kept := self._pop()) is not None:
            connection, stack = kept
            with stack:
                if self._is_usable(connection):
                    try:
                        work = _enter(begin, connection)
                    except Exception:
                        if self._is_usable(connection):
                            raise
                    else:
                        return connection, stack.pop_all(), work
        with ExitStack() as stack:
            connection = stack.enter_context(self._connect())
            work = _enter(begin, connection)
            return connection, stack.pop_all(), work

    def _pop(self) -> tuple[_C, ExitStack] | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: _C, stack: ExitStack) -> None:
        with self._lock:
            if self._users and len(self._idle) < self._most_idle:
                self._idle.append((connection, stack))
                return
        stack.close()

    def _drain(self) -> None:
        while (kept := self._pop()) is not None:
            kept[1].close()

    def forget(self) -> None:
        """Leaves the connections alone, which are those of the process that this one was forked from."""
        self._lock = threading.Lock()  # which another thread of that process may have held
        _inherited.append(self._idle)
        self._idle = []


def stay_open(
    opened: Callable[[], AbstractContextManager[None]], *, in_thread: bool = True
) -> Effect[None, Never, Scope]:
    """Keeps connections open until the scope around ends.

    Args:
        opened: what keeps them open for a block.
        in_thread: whether it takes time to close them.
    """

    def enter(scope: Scope) -> Effect[None]:
        stack = ExitStack()
        stack.enter_context(opened())
        scope.add(lambda _: attempt_work(stack.close, lambda _: None, in_thread=in_thread))
        return Succeed(None)

    return FlatMap(Fetch(Scope), enter)


def _enter(begin: Callable[[_C], AbstractContextManager[object]], connection: _C) -> ExitStack:
    with ExitStack() as stack:
        stack.enter_context(begin(connection))
        return stack.pop_all()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


_pools: Final[WeakSet[Pool[Any]]] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
