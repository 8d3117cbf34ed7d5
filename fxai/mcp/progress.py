"""Progress of a call: told by the server as it comes, shown as preliminary results as fast as they are read.

>>> from fxai.effects import fx
>>> from fxai.tools.handler import CallContext
>>> from fxai.tools.tool import Tool
>>> progress = Progress()
>>> progress.add({"progress": 1.0})
>>> progress.end()
>>> fx.run(progress.show(CallContext(Tool.dynamic("wait"))))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, Final, final

import anyio

from fxai.effects.constructor import wait
from fxai.effects.effect import AnyEffect, EffectOf, Generate
from fxai.tools.handler import CallContext

__all__ = ["Progress"]

_UNREAD: Final = 64


@final
class Progress:
    """What was told and not yet shown: the latest 64, in the order they were told."""

    def __init__(self) -> None:
        self._unread: deque[dict[str, Any]] = deque(maxlen=_UNREAD)
        self._ended = False
        self._told: anyio.Event | None = None

    def add(self, told: dict[str, Any]) -> None:
        """Takes what was told; it never waits."""
        self._unread.append(told)
        self._wake()

    def end(self) -> None:
        """Says that no more will be told."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._told is not None:
            self._told.set()

    def show(self, context: CallContext) -> EffectOf[None]:
        """The effect that shows each as a preliminary result, until the end."""
        return Generate(self._showing, (context,), {})

    def _showing(self, context: CallContext) -> Generator[AnyEffect, Any, None]:
        while True:
            while self._unread:
                yield context.preliminary(self._unread.popleft())
            if self._ended:
                return
            self._told = told = anyio.Event()
            yield wait(told.wait)
