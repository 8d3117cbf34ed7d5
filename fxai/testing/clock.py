"""A test clock, whose time passes only when the test advances it. Use it to test sleeps and timeouts without waiting.

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
from contextlib import asynccontextmanager
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

_ITERATIONS = 25  # event loop iterations for programs to react to the new time


@final
class TestClock(Clock):
    """A clock that stands still until `advance` moves it. Sleeps, timeouts, and schedules then take no real time.

    Args:
        now: Start time in seconds since 1970-01-01T00:00Z. Default: 0.
    """

    __test__ = False  # pytest must not collect it as a test class

    def __init__(self, now: float = 0.0) -> None:
        self._now = float(now)
        self._started = self._now
        self._waiting: list[tuple[float, int, SharedEvent]] = []
        self._numbers = count()

    @property
    def layer(self) -> LayerOf[Clock, Never, None]:
        """The layer that provides this clock instead of the live clock."""
        return LayerOf.succeed(Clock, self)

    @override
    def now(self) -> float:
        return self._now

    @override
    def monotonic(self) -> float:
        return self._now - self._started

    def run(self, program: EffectOf[_A, Any, Scope | None], *, backend: Backend = "asyncio") -> _A:
        """Run `program` with this clock and return its value. Forked programs that still run at the end are stopped.

        This method is short for `fx.run(fx.scoped(program).provide(clock.layer))` and raises the same errors.
        """
        return run(self.layer(scoped(program)), backend=backend)

    @property
    def sleepers(self) -> int:
        """Number of programs that wait for a time."""
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
    @asynccontextmanager
    async def deadline(self, scope: anyio.CancelScope, seconds: float) -> AsyncGenerator[None, None]:
        async def strike() -> None:
            await self.sleep(seconds)
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(strike)
            yield
            tasks.cancel_scope.cancel()

    def advance(self, seconds: float) -> EffectOf[None, Never, None]:
        """Return the effect that lets `seconds` pass. Programs that wait for a time within them resume in order.

        Raises:
            ValueError: If `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"seconds must be 0 or greater, got {seconds}")
        return Await(lambda _: self._advance(seconds))

    async def _advance(self, seconds: float) -> None:
        target = self._now + seconds
        await self._let_others_run()
        while self._waiting and self._waiting[0][0] <= target:
            time, _, event = heapq.heappop(self._waiting)
            if event.is_set():
                continue
            self._now = max(self._now, time)
            event.set()
            await self._let_others_run()
        self._now = target
        await self._let_others_run()

    async def _let_others_run(self) -> None:
        for _ in range(_ITERATIONS):
            await anyio.lowlevel.checkpoint()
