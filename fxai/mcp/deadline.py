"""Deadlines of calls: they stand still while a person is asked for something, who may take their time.

>>> Deadlines().is_still
False
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import anyio

__all__ = ["Deadlines"]


@final
class Deadlines:
    """The deadlines of the calls over one connection."""

    def __init__(self) -> None:
        self._left: dict[anyio.CancelScope, float] = {}  # the seconds that each has where they stand still
        self._questions = 0

    @property
    def is_still(self) -> bool:
        """Whether somebody is being asked now."""
        return self._questions > 0

    @contextmanager
    def within(self, seconds: float | None) -> Generator[None]:
        """Bounds what is done inside.

        Args:
            seconds: how long it may take, without the time in which somebody was asked; None: no bound.

        Raises:
            TimeoutError: it took longer.
        """
        with anyio.fail_after(seconds) as scope:
            self._left[scope] = math.inf if seconds is None else seconds
            if self.is_still:
                scope.deadline = math.inf
            try:
                yield
            finally:
                del self._left[scope]

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Has every deadline stand still for as long as the block takes."""
        if not self.is_still:
            now = anyio.current_time()
            for scope in self._left:
                self._left[scope], scope.deadline = scope.deadline - now, math.inf
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self.is_still:
                now = anyio.current_time()
                for scope, left in self._left.items():
                    scope.deadline = now + left
