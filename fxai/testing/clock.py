"""A test clock: its time passes only when the test moves it.

>>> from fxai.effects import fx
>>> clock = TestClock(now=100)
>>> def program():
...     handle = yield from fx.fork(fx.sleep(60).as_("an hour has passed"))
...     yield from clock.advance(59)
...     before = handle.ended
...     yield from clock.advance(1)
...     return before, (yield from handle.join())
>>> clock.run(fx.gen(program)())
(False, 'an hour has passed')
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any, Never, final

import anyio
import anyio.lowlevel
from typing_extensions import TypeVar, override

from fxai.effects.effect import Await, EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.runtime import Backend, run
from fxai.effects.scope import Scope, scoped
from fxai.effects.service import Clock
from fxai.effects.waker import SharedEvent

_A = TypeVar("_A")

_SETTLE = 25  # turns of the event loop that programs get to react to the time


@final
class TestClock(Clock):
    """A clock that stands still until `advance` moves it: sleeps, timeouts and schedules then take no time.

    Args:
        now: seconds since 1970-01-01T00:00Z at the start.
    """

    __test__ = False  # not a test class, whatever its name

    def __init__(self, now: float = 0.0) -> None:
        self._now = float(now)
        self._started = self._now
        self._waiting: list[tuple[float, int, SharedEvent]] = []
        self._numbers = count()

    @property
    def layer(self) -> LayerOf[Clock, Never, None]:
        """The layer that gives this clock in place of the live one."""
        return LayerOf.succeed(Clock, self)

    @override
    def now(self) -> float:
        return self._now

    @override
    def monotonic(self) -> float:
        return self._now - self._started

    def run(self, program: EffectOf[_A, Any, Scope | None], *, backend: Backend = "asyncio") -> _A:
        """The value of `program`, which goes by this clock and may fork: what still runs at its end is stopped.

        Short for `fx.run(fx.scoped(program).provide(clock.layer))`, and raises as that does.
        """
        return run(self.layer(scoped(program)), backend=backend)

    @property
    def sleepers(self) -> int:
        """How many programs wait for a time to come."""
        return sum(not event.is_set() for _, _, event in self._waiting)

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        event = SharedEvent()
        entry = (self._now + seconds, next(self._numbers), event)
        heapq.heappush(self._waiting, entry)
        try:
            await event.wait()
        finally:
            event.set()

    @override
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        return self._deadline(scope, seconds)

    @asynccontextmanager
    async def _deadline(self, scope: anyio.CancelScope, seconds: float) -> AsyncGenerator[None, None]:
        async def strike() -> None:
            await self.sleep(seconds)
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(strike)
            yield
            tasks.cancel_scope.cancel()

    def advance(self, seconds: float) -> EffectOf[None, Never, None]:
        """The effect that lets `seconds` pass: programs that wait for a time within them go on, in order of time.

        Raises:
            ValueError: `seconds` is negative: time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s: time does not go back")
        return Await(lambda _: self._advance(seconds))

    async def _advance(self, seconds: float) -> None:
        target = self._now + seconds
        await self._settle()
        while self._waiting and self._waiting[0][0] <= target:
            time, _, event = heapq.heappop(self._waiting)
            if event.is_set():
                continue
            self._now = max(self._now, time)
            event.set()
            await self._settle()
        self._now = target
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(_SETTLE):
            await anyio.lowlevel.checkpoint()
