"""Blocks: texts, reasoning and calls of a stream, each opened once, written piece by piece, and closed once.

>>> blocks = Blocks()
>>> [part.type for part in (*blocks.say("0", "Good "), *blocks.say("0", "day."), *blocks.close_text("0"))]
['text-start', 'text-delta', 'text-delta', 'text-end']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import msgspec

from fxai.messages.part import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
)

__all__ = ["Blocks", "quoted"]


@final
class Blocks:
    """The texts and the reasoning that a stream has begun, by ids of ours; each keeps what was written."""

    __slots__ = ("_texts", "_thoughts")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._thoughts: dict[str, list[str]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that are open."""
        return tuple(self._texts)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The reasoning that is open."""
        return tuple(self._thoughts)

    def open_text(self, id_: str) -> list[StreamPart]:
        """The start of a text, unless it is open."""
        if id_ in self._texts:
            return []
        self._texts[id_] = []
        return [TextStart(id_)]

    def say(self, id_: str, delta: str) -> list[StreamPart]:
        """More of a text, with its start if it has none."""
        parts = self.open_text(id_)
        if delta:
            self._texts[id_].append(delta)
            parts.append(TextDelta(id_, delta))
        return parts

    def text_of(self, id_: str) -> str:
        """What came of a text so far."""
        return "".join(self._texts.get(id_, ()))

    def close_text(
        self, id_: str, whole: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> list[StreamPart]:
        """The end of a text, with what was missing of the whole of it, where that is known."""
        parts = self.say(id_, _missing(self.text_of(id_), whole))
        del self._texts[id_]
        return [*parts, TextEnd(id_, metadata=metadata or {})]

    def open_thought(self, id_: str) -> list[StreamPart]:
        """The start of reasoning, unless it is open."""
        if id_ in self._thoughts:
            return []
        self._thoughts[id_] = []
        return [ReasoningStart(id_)]

    def think(self, id_: str, delta: str) -> list[StreamPart]:
        """More of reasoning, with its start if it has none."""
        parts = self.open_thought(id_)
        if delta:
            self._thoughts[id_].append(delta)
            parts.append(ReasoningDelta(id_, delta))
        return parts

    def thought(self, id_: str) -> str:
        """What was written of reasoning."""
        return "".join(self._thoughts.get(id_, ()))

    def close_thought(
        self, id_: str, whole: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> list[StreamPart]:
        """The end of reasoning, with what was missing of the whole of it, where that is known."""
        parts = self.think(id_, _missing(self.thought(id_), whole))
        del self._thoughts[id_]
        return [*parts, ReasoningEnd(id_, metadata=metadata or {})]


def _missing(written: str, whole: str | None) -> str:
    return "" if whole is None or not whole.startswith(written) else whole[len(written) :]


def quoted(text: str) -> str:
    r"""A piece of a text as it stands in the JSON text of the whole, between its quotation marks.

    >>> print(quoted('say "a"'))
    say \"a\"
    """
    return msgspec.json.encode(text).decode()[1:-1]
