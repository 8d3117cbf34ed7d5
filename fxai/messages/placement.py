"""Placement: where the results of earlier calls go in a history.

>>> from fxai.messages.content import ToolCallPart
>>> from fxai.messages.message import AssistantMessage, UserMessage
>>> turn = AssistantMessage.make(ToolCallPart("c", "add", {}))
>>> [message.role for message in placed([turn, UserMessage.make("Well?")], [ToolResultPart("c", "add", 3)])]
['assistant', 'tool', 'user']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    for result in given if len(given) < 2 else _in_order(made, given):
        for at in _places(made, result.id):
            _put(made, at, result)
    return made


def _in_order(messages: list[Message], results: tuple[ToolResultPart, ...]) -> list[ToolResultPart]:
    """The results in the order of their calls; those whose call is nowhere last."""
    made = [message for message in messages if message.role == "assistant"]
    parts = (part for message in made for part in message.content if part.type == "tool-call")
    at = {part.id: place for place, part in enumerate(parts)}
    return sorted(results, key=lambda result: at.get(result.id, len(at)))


def _places(messages: list[Message], call_id: str) -> list[int]:
    """Where a result goes, the last place first: each the last message of a turn."""
    turns = [at for at in range(len(messages) - 1, -1, -1) if _call(messages[at], call_id) is not None]
    if not turns:
        return [len(messages) - 1]
    open_ = [at for at in turns if _asks(messages[at], call_id) and not _has_result(messages, at, call_id)]
    if not open_ or not _asks(messages[turns[0]], call_id):
        return [_end(messages, turns[0])]
    call = _call(messages[open_[0]], call_id)
    return [_end(messages, at) for at in open_ if _call(messages[at], call_id) == call]


def _end(messages: list[Message], at: int) -> int:
    """The last message of the turn that stands there."""
    while at + 1 < len(messages) and messages[at + 1].role == "tool":
        at += 1
    return at


def _put(messages: list[Message], at: int, result: ToolResultPart) -> None:
    here = messages[at] if at >= 0 else None
    if here is not None and here.role == "tool":
        messages[at] = msgspec.structs.replace(here, content=(*here.content, result))
    else:
        messages.insert(at + 1, ToolMessage((result,)))


def _call(message: Message, call_id: str) -> tuple[str, Any] | None:
    """The name and the parameters of the call of this id that the message makes."""
    if message.role != "assistant":
        return None
    made = (part for part in message.content if part.type == "tool-call" and part.id == call_id)
    return next(((part.name, part.params) for part in made), None)


def _asks(message: Message, call_id: str) -> bool:
    """Whether the message asks for an approval of the call."""
    return message.role == "assistant" and any(
        part.type == "tool-approval-request" and part.tool_call_id == call_id for part in message.content
    )


def _has_result(messages: list[Message], at: int, call_id: str) -> bool:
    """Whether the turn that stands there has a result for the call."""
    behind = [message for message in messages[at + 1 : _end(messages, at) + 1] if message.role == "tool"]
    return any(part.type == "tool-result" and part.id == call_id for message in behind for part in message.content)
