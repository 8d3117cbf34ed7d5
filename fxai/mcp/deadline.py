"""Deadlines of calls over one connection. A deadline pauses while a person answers, and progress can extend it.

>>> Deadlines().is_still
False
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import anyio


@final
class Deadline:
    """The deadline of one call: seconds without progress, and seconds in total."""

    def __init__(self, scope: anyio.CancelScope, seconds: float, total: float) -> None:
        self._scope = scope
        self._seconds = seconds
        self._left = seconds  # while it pauses
        self._total_left = total
        self._end = anyio.current_time() + total
        self._is_paused = False
        self.is_extended = False
        """True if progress extended it."""

    def extend(self) -> None:
        """Start the seconds without progress again; the total stays the limit."""
        self.is_extended = True
        if self._is_paused:
            self._left = min(self._seconds, self._total_left)
        else:
            self._scope.deadline = min(anyio.current_time() + self._seconds, self._end)

    def pause(self) -> None:
        """Stop the clock of this deadline."""
        now = anyio.current_time()
        self._left = self._scope.deadline - now
        self._total_left = self._end - now
        self._scope.deadline = math.inf
        self._is_paused = True

    def resume(self) -> None:
        """Start the clock again with the seconds that were left."""
        now = anyio.current_time()
        self._scope.deadline = now + self._left
        self._end = now + self._total_left
        self._is_paused = False


@final
class Deadlines:
    """The deadlines of the calls over one connection, which pause while a person is asked for something."""

    def __init__(self) -> None:
        self._all: set[Deadline] = set()
        self._questions = 0

    @property
    def is_still(self) -> bool:
        """True while they pause."""
        return self._questions > 0

    @contextmanager
    def within(self, seconds: float | None, total: float | None = None) -> Generator[Deadline]:
        """Limit the time of the block, without the pauses.

        Args:
            seconds: The limit; each `extend` of the deadline starts it again. None: no limit.
            total: The limit with all extensions; by default, and if it is shorter, `seconds`.

        Raises `TimeoutError`: the block took longer.
        """
        with anyio.fail_after(seconds) as scope:
            limit = math.inf if seconds is None else seconds
            deadline = Deadline(scope, limit, max(limit, total or 0.0))
            self._all.add(deadline)
            if self.is_still:
                deadline.pause()
            try:
                yield deadline
            finally:
                self._all.discard(deadline)

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Pause every deadline for the time of the block."""
        if not self.is_still:
            for deadline in self._all:
                deadline.pause()
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self.is_still:
                for deadline in self._all:
                    deadline.resume()
