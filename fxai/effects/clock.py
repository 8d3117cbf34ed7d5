"""The clock: time as a service, so that a test can control it.

`Clock` is a reference: programs use the live clock unless a layer gives another, and `R` does not mention it.

>>> from fxai.effects import fx
>>> fx.run_sync(fx.reference(Clock).map(lambda clock: clock.now() > 0))
True
"""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Self

import anyio
from typing_extensions import override

from fxai.effects.service import Reference

__all__ = ["Clock"]


class Clock(Reference):
    """What time it is, and waiting."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since 1970-01-01T00:00Z."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Returns `seconds` later; at once, after a turn of the event loop, when that is not positive."""

    @abstractmethod
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        """A context in which `scope` is cancelled once `seconds` have passed."""

    @classmethod
    @override
    def default(cls) -> Self:
        """The live clock."""
        return LIVE  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # the key's only default


class _Live(Clock):
    @override
    def now(self) -> float:
        return time.time()

    @override
    def monotonic(self) -> float:
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(seconds, 0))

    @override
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        scope.deadline = anyio.current_time() + seconds
        return nullcontext()


LIVE: Clock = _Live()
