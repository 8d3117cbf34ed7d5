"""Placement: where the results of earlier calls go in a history.

>>> from fxai.messages.content import ToolCallPart
>>> from fxai.messages.message import AssistantMessage, UserMessage
>>> turn = AssistantMessage.make(ToolCallPart("c", "add", {}))
>>> [message.role for message in placed([turn, UserMessage.make("Well?")], [ToolResultPart("c", "add", 3)])]
['assistant', 'tool', 'user']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import msgspec

from fxai.messages.content import ToolResultPart
from fxai.messages.message import Message, ToolMessage

__all__ = ["placed"]


def placed(messages: Iterable[Message], results: Iterable[ToolResultPart]) -> list[Message]:
    """The messages with each result in the tool message right behind the latest turn that made its call.

    Where there is no such message yet, the turn gets one; a result whose call is nowhere goes to the end. Where a turn
    that asked for an approval stands there more than once, as in a history that was merged, each copy that has no
    result gets it. Results are put there in the order of their calls.
    """
    made, given = list(messages), tuple(results)
    turns = _turns(made, {result.id for result in given})
    more: dict[int, list[ToolResultPart]] = {}
    for result in given if len(given) < 2 else _in_order(made, given):
        for end in _places(turns.get(result.id, [])) or [len(made) - 1]:
            more.setdefault(end, []).append(result)
    for end in sorted(more, reverse=True):
        _put(made, end, tuple(more[end]))
    return made


def _in_order(messages: list[Message], results: tuple[ToolResultPart, ...]) -> list[ToolResultPart]:
    """The results in the order of their calls; those whose call is nowhere last."""
    made = [message for message in messages if message.role == "assistant"]
    parts = (part for message in made for part in message.content if part.type == "tool-call")
    at = {part.id: place for place, part in enumerate(parts)}
    return sorted(results, key=lambda result: at.get(result.id, len(at)))


@final
class _Turn:
    """A turn that makes a call: where it ends, the call, whether it asks for its approval, and whether it is open."""

    __slots__ = ("asks", "call", "end", "is_open")

    def __init__(self, end: int, call: tuple[str, Any], *, asks: bool, is_open: bool) -> None:
        self.end = end
        self.call = call
        self.asks = asks
        self.is_open = is_open


def _turns(messages: list[Message], ids: set[str]) -> dict[str, list[_Turn]]:
    """The turns that make the calls of these ids, by id."""
    found: dict[str, list[_Turn]] = {}
    for at, message in enumerate(messages):
        if message.role != "assistant":
            continue
        calls: dict[str, tuple[str, Any]] = {}
        for part in message.content:
            if part.type == "tool-call" and part.id in ids:
                calls.setdefault(part.id, (part.name, part.params))
        if not calls:
            continue
        end = at
        while end + 1 < len(messages) and messages[end + 1].role == "tool":
            end += 1
        asked = {part.tool_call_id for part in message.content if part.type == "tool-approval-request"}
        there = _results(messages[at + 1 : end + 1])
        for id_, call in calls.items():
            found.setdefault(id_, []).append(_Turn(end, call, asks=id_ in asked, is_open=id_ not in there))
    return found


def _results(messages: list[Message]) -> set[str]:
    parts = (part for message in messages if message.role == "tool" for part in message.content)
    return {part.id for part in parts if part.type == "tool-result"}


def _places(turns: list[_Turn]) -> list[int]:
    """Where the turns end that get a result of the call that they all make."""
    if not turns:
        return []
    copies = [turn for turn in turns if turn.asks and turn.is_open]
    if not copies or not turns[-1].asks:
        return [turns[-1].end]
    same = [turn for turn in copies if turn.call == copies[-1].call]
    for turn in same:
        turn.is_open = False
    return [turn.end for turn in same]


def _put(messages: list[Message], at: int, results: tuple[ToolResultPart, ...]) -> None:
    here = messages[at] if at >= 0 else None
    if here is not None and here.role == "tool":
        messages[at] = msgspec.structs.replace(here, content=(*here.content, *results))
    else:
        messages.insert(at + 1, ToolMessage(results))
