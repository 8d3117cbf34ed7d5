"""A response gathered from its stream: pieces joined, each part at the place where it started.

Every delta is looked at once and every text joined once, so the work grows with the length of the stream and no faster.

>>> gather([TextStart("1"), TextDelta("1", "Hel"), ToolCall("c", "add", {}), TextDelta("1", "lo")])
(Text(text='Hello', metadata={}), ToolCall(id='c', name='add', params={}, ...))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, final

import msgspec
from typing_extensions import TypeIs

from fxai.messages.metadata import merge_metadata
from fxai.messages.part import (
    AnyPart,
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)

__all__ = ["gather"]

_Start: TypeAlias = TextStart | ReasoningStart | ToolParamsStart
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolParamsDelta
_End: TypeAlias = TextEnd | ReasoningEnd | ToolParamsEnd

# Ids are unique within a family only: a text and a line of reasoning may both be called "0".
_FAMILY: Mapping[type[Any], str] = {
    TextStart: "text",
    TextDelta: "text",
    TextEnd: "text",
    ReasoningStart: "reasoning",
    ReasoningDelta: "reasoning",
    ReasoningEnd: "reasoning",
    ToolParamsStart: "tool-params",
    ToolParamsDelta: "tool-params",
    ToolParamsEnd: "tool-params",
}


def gather(parts: Iterable[AnyPart]) -> tuple[Part, ...]:
    """The whole parts that a stream amounts to; parts that are whole already pass through.

    Text that was never ended, as when a stream is cut, is kept as far as it came. Parameters whose call never came are
    kept as a call that cannot be run, with the text in `params_text`. Preliminary results are dropped. A repaired call
    takes the place of the call that it stands for.
    """
    listed = tuple(parts)
    if _are_whole(listed):
        return listed
    gathering = _Gathering()
    for part in listed:
        gathering.add(part)
    return gathering.whole()


def _are_whole(parts: tuple[AnyPart, ...]) -> TypeIs[tuple[Part, ...]]:
    return not any(part.__class__ in _FAMILY or _is_passing(part) for part in parts)


def _is_passing(part: AnyPart) -> bool:
    """Whether it may take another's place, or goes."""
    return (part.type == "tool-result" and part.preliminary) or (part.type == "tool-call" and part.repaired)


def _is_piece(part: AnyPart) -> TypeIs[_Start | _Delta | _End]:
    return part.__class__ in _FAMILY


@final
class _Open:
    """A part in the making, at its place among the others."""

    __slots__ = ("deltas", "family", "metadata", "place", "start")

    def __init__(self, family: str, start: ToolParamsStart | None, metadata: Mapping[str, Any], place: int) -> None:
        self.family = family
        self.place = place
        self.start = start
        self.metadata = metadata
        self.deltas: list[str] = []

    def whole(self) -> Part:
        text = "".join(self.deltas)
        if self.start is not None:
            start = self.start
            return ToolCall(
                start.id, start.name, None, start.provider_executed, start.dynamic, text, metadata=self.metadata
            )
        if self.family == "reasoning":
            return Reasoning(text, metadata=self.metadata)
        return Text(text, metadata=self.metadata)


@final
class _Gathering:
    __slots__ = ("_calls", "_open", "_places")

    def __init__(self) -> None:
        self._places: list[Part | _Open] = []
        self._calls: dict[str, int] = {}  # where each call of this turn is
        self._open: dict[tuple[str, str], _Open] = {}

    def add(self, part: AnyPart) -> None:
        # By `type` and a table, not by class patterns: those cost several times as much on a Struct, for every part.
        if _is_piece(part):
            match part.type:
                case "text-delta" | "reasoning-delta" | "tool-params-delta":
                    self._extend(part)
                case "text-start" | "reasoning-start" | "tool-params-start":
                    self._begin(part)
                case "text-end" | "reasoning-end" | "tool-params-end":
                    self._end(part)
        elif part.type == "tool-call":
            self._call(part)
        elif part.type != "tool-result" or not part.preliminary:
            if part.type == "finish":
                self._calls.clear()
            self._places.append(part)

    def whole(self) -> tuple[Part, ...]:
        return tuple([place.whole() if isinstance(place, _Open) else place for place in self._places])

    def _begin(self, part: _Start) -> _Open:
        family = _FAMILY[part.__class__]
        start = part if part.type == "tool-params-start" else None
        begun = _Open(family, start, part.metadata, len(self._places))
        self._places.append(begun)
        self._open[family, part.id] = begun
        return begun

    def _extend(self, part: _Delta) -> None:
        begun = self._open.get((_FAMILY[part.__class__], part.id))
        if begun is None:
            begun = self._begin_late(part)
        begun.deltas.append(part.delta)
        if part.metadata:
            begun.metadata = merge_metadata(begun.metadata, part.metadata)

    def _begin_late(self, part: _Delta) -> _Open:
        """A stream that is joined in the middle, or a provider that sends no starts: the part starts here."""
        match part.type:
            case "text-delta":
                return self._begin(TextStart(part.id))
            case "reasoning-delta":
                return self._begin(ReasoningStart(part.id))
            case "tool-params-delta":
                return self._begin(ToolParamsStart(part.id, ""))

    def _end(self, part: _End) -> None:
        family = _FAMILY[part.__class__]
        begun = self._open.get((family, part.id))
        if begun is None:
            return
        if part.metadata:
            begun.metadata = merge_metadata(begun.metadata, part.metadata)
        if family != "tool-params":  # the call itself is still to come, and takes this place
            del self._open[family, part.id]

    def _call(self, part: ToolCall) -> None:
        begun = self._open.pop(("tool-params", part.id), None)
        if begun is not None:
            self._calls[part.id] = begun.place
            if begun.metadata:
                part = msgspec.structs.replace(part, metadata=merge_metadata(begun.metadata, part.metadata))
            self._places[begun.place] = part
        elif part.repaired and part.id in self._calls:
            place = self._calls[part.id]
            before = self._places[place]
            self._places[place] = msgspec.structs.replace(part, metadata=merge_metadata(before.metadata, part.metadata))
        else:
            self._calls[part.id] = len(self._places)
            self._places.append(part)
