"""Turnstiles: one at a time, in the order in which they came.

>>> from fxai.effects import fx
>>> door = Turnstile()
>>> fx.run_sync(fx.scoped(door.enter().map(lambda _: door.taken))), door.taken
(True, False)
"""

from __future__ import annotations

from collections import deque
from typing import Any, Never, final

import anyio

from fxai.effects.effect import Await, EffectOf, Fetch, FlatMap, OnExit, Succeed, Suspend
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.scope import NOTHING, Scope

__all__ = ["Turnstile"]


@final
class Turnstile:
    """What one program at a time may be behind: the others wait for their turn."""

    __slots__ = ("_queue", "taken")

    taken: bool
    """Whether somebody is behind it."""

    def __init__(self) -> None:
        self._queue: deque[anyio.Event] = deque()
        self.taken = False

    def enter(self) -> EffectOf[None, Never, Scope]:
        """Waits for its turn, and has it until the scope closes."""

        def within(scope: Scope) -> EffectOf[None]:
            def attempt() -> EffectOf[None]:
                if self.taken:
                    return self._queued(scope)
                self.taken = True
                scope.add(lambda _: self._leave())
                return Succeed(None)

            return Suspend(attempt)

        return FlatMap(Fetch(Scope), within)

    def _queued(self, scope: Scope) -> EffectOf[None]:
        mine = anyio.Event()
        self._queue.append(mine)

        def ended(exit_: Exit[Any, Any]) -> EffectOf[Any]:
            if isinstance(exit_, Succeeded):
                scope.add(lambda _: self._leave())
            elif mine.is_set():
                self._leave()  # it was its turn, and it does not come
            else:
                self._queue.remove(mine)
            return NOTHING

        return OnExit(Await(lambda _: mine.wait()), ended)

    def _leave(self) -> EffectOf[Any]:
        """Hands the turn on, so that nobody who comes now is first."""
        if self._queue:
            self._queue.popleft().set()
        else:
            self.taken = False
        return NOTHING
