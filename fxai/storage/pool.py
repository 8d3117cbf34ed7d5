"""A pool of database connections that stay open between uses.

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

_IDLE: Final = 4  # idle connections that stay open


@final
class Pool(Generic[_C]):
    """Connections, each used by one thread at a time. They stay open only inside `stay_open`.

    A forked process opens its own connections, and does not touch the connections of its parent.

    Args:
        connect: Function that opens a connection. The end of the block closes it, in any thread.
        is_usable: Function that returns True if an idle connection still works.
        idle: Maximum number of connections that stay open while no thread uses them. Default: 4.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[_C]],
        is_usable: Callable[[_C], bool] = lambda _: True,
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
        """Keep connections open during the block. If blocks overlap, the end of the last block closes them."""
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
    def take(self, start: Callable[[_C], AbstractContextManager[object]] = nullcontext) -> Generator[_C]:
        """Return a context with a connection. If the block fails, the connection is closed.

        Args:
            start: Function that returns a context around the block, such as a transaction. If the context cannot start
                because an idle connection was lost, for example after a restart of the server, the pool tries another
                connection.
        """
        connection, stack, work = self._start(start)
        with stack:
            with work:
                yield connection
            kept = stack.pop_all()
        self._give_back(connection, kept)

    def _start(self, start: Callable[[_C], AbstractContextManager[object]]) -> tuple[_C, ExitStack, ExitStack]:
        """Return a connection, the stack that closes it, and the stack that ends its work."""
        while (kept := self._pop()) is not None:
            connection, stack = kept
            with stack:
                if self._is_usable(connection):
                    try:
                        work = _enter(start, connection)
                    except Exception:
                        if self._is_usable(connection):
                            raise
                    else:
                        return connection, stack.pop_all(), work
        with ExitStack() as stack:
            connection = stack.enter_context(self._connect())
            work = _enter(start, connection)
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
        """Abandon the connections of the parent process after a fork."""
        import ctypes  # only forked processes need it

        self._lock = threading.Lock()  # another thread of the parent can have held the old lock
        # Python must never close them, even at its exit: that would end the sessions that the parent uses
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._idle))
        self._idle = []


def stay_open(
    opened: Callable[[], AbstractContextManager[None]], *, in_thread: bool = True
) -> Effect[None, Never, Scope]:
    """Keep connections open until the enclosing scope closes.

    Args:
        opened: Context that keeps the connections open.
        in_thread: True if closing them takes time, so that it must run in a thread.
    """

    def enter(scope: Scope) -> Effect[None]:
        stack = ExitStack()
        stack.enter_context(opened())
        scope.add(lambda _: attempt_work(stack.close, lambda _: None, in_thread=in_thread))
        return Succeed(None)

    return FlatMap(Fetch(Scope), enter)


def _enter(start: Callable[[_C], AbstractContextManager[object]], connection: _C) -> ExitStack:
    with ExitStack() as stack:
        stack.enter_context(start(connection))
        return stack.pop_all()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


_pools: Final[WeakSet[Pool[Any]]] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
