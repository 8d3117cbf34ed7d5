"""Locks: one program at a time, in the order in which they came.

>>> from fxai.effects import fx
>>> lock = Lock()
>>> fx.run_sync(fx.scoped(lock.hold().map(lambda _: lock.is_held))), lock.is_held
(True, False)
"""

from __future__ import annotations

from collections import deque
from typing import Any, Never, final

import anyio

from fxai.effects.effect import Await, EffectOf, Fetch, FlatMap, OnExit, Succeed, Suspend
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.scope import NOTHING, Scope

__all__ = ["Lock"]


@final
class Lock:
    """Mutual exclusion of the programs of one event loop; those that wait are served in order."""

    __slots__ = ("_queue", "is_held")

    is_held: bool
    """Whether a program holds it."""

    def __init__(self) -> None:
        self._queue: deque[anyio.Event] = deque()
        self.is_held = False

    def hold(self) -> EffectOf[None, Never, Scope]:
        """Waits until the lock is free, and holds it until the scope closes."""

        def within(scope: Scope) -> EffectOf[None]:
            def attempt() -> EffectOf[None]:
                if self.is_held:
                    return self._wait(scope)
                self.is_held = True
                scope.add(lambda _: self._release())
                return Succeed(None)

            return Suspend(attempt)

        return FlatMap(Fetch(Scope), within)

    def _wait(self, scope: Scope) -> EffectOf[None]:
        mine = anyio.Event()
        self._queue.append(mine)

        def end(exit_: Exit[Any, Any]) -> EffectOf[Any]:
            if isinstance(exit_, Succeeded):
                scope.add(lambda _: self._release())
            elif mine.is_set():
                self._release()  # the lock was handed to a program that has been cancelled
            else:
                self._queue.remove(mine)
            return NOTHING

        return OnExit(Await(lambda _: mine.wait()), end)

    def _release(self) -> EffectOf[Any]:
        """Hands the lock to the program that has waited longest, so that a newcomer does not overtake it."""
        if self._queue:
            self._queue.popleft().set()
        else:
            self.is_held = False
        return NOTHING
