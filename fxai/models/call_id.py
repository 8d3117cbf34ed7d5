"""Distinct ids for the calls of one turn. Use this module to read a turn in which two calls have the same id.

A call and its result are paired by the id, so two calls with the same id would become one call.

>>> from fxai.messages.part import ToolCall
>>> [call.id for call in with_distinct_ids((ToolCall("c", "add", {}), ToolCall("c", "add", {})))]
['c', 'c_2']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast, final

import msgspec

from fxai.messages.part import StreamPart, ToolCall, ToolParamsDelta, ToolParamsEnd, ToolParamsStart

_Part = TypeVar("_Part", bound=StreamPart)


@final
class CallIds:
    """The ids of the calls of one turn."""

    __slots__ = ("_open", "_used")

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._open: dict[str, str] = {}  # ids of started calls, each with its distinct id

    def rename(self, part: _Part) -> _Part:
        """Return the part with the distinct id of its call. Calls of the provider keep their ids."""
        if not isinstance(part, ToolParamsStart | ToolParamsDelta | ToolParamsEnd | ToolCall):
            return part
        id_ = part.id
        if isinstance(part, ToolCall):
            new = id_ if part.provider_executed or part.repaired else self._open.pop(id_, "") or self._distinct(id_)
        elif isinstance(part, ToolParamsStart):
            new = self._open[id_] = id_ if part.provider_executed else self._distinct(id_)
        else:
            new = self._open.get(id_, id_)
        return part if new == id_ else cast(_Part, msgspec.structs.replace(part, id=new))

    def _distinct(self, id_: str) -> str:
        new, count = id_, 1
        while new in self._used:
            count += 1
            new = f"{id_}_{count}"
        self._used.add(new)
        return new


def with_distinct_ids(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """Return the parts of a turn with a distinct id for each call."""
    ids = CallIds()
    return tuple([ids.rename(part) for part in parts])
