"""Placement: where the results of earlier calls go in a history.

>>> from fxai.messages.content import ToolCallPart
>>> from fxai.messages.message import AssistantMessage, UserMessage
>>> turn = AssistantMessage.make(ToolCallPart("c", "add", {}))
>>> [message.role for message in placed([turn, UserMessage.make("Well?")], [ToolResultPart("c", "add", 3)])]
['assistant', 'tool', 'user']
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fxai.messages.content import ToolResultPart
from fxai.messages.message import Message, ToolMessage

__all__ = ["placed"]


def placed(messages: Iterable[Message], results: Iterable[ToolResultPart]) -> list[Message]:
    """The messages with each result in the tool message right behind the latest turn that made its call.

    Where there is no such message yet, the turn gets one; a result whose call is nowhere goes to the end. Results are
    put there in the order of their calls.
    """
    made, given = list(messages), tuple(results)
    for result in given if len(given) < 2 else _in_order(made, given):
        at = next((at for at in range(len(made) - 1, -1, -1) if _made(made[at], result.id)), len(made) - 1)
        while at + 1 < len(made) and made[at + 1].role == "tool":
            at += 1
        here = made[at] if at >= 0 else None
        if here is not None and here.role == "tool":
            made[at] = msgspec.structs.replace(here, content=(*here.content, result))
        else:
            made.insert(at + 1, ToolMessage((result,)))
    return made


def _in_order(messages: list[Message], results: tuple[ToolResultPart, ...]) -> list[ToolResultPart]:
    """The results in the order of their calls; those whose call is nowhere last."""
    made = [message for message in messages if message.role == "assistant"]
    parts = (part for message in made for part in message.content if part.type == "tool-call")
    at = {part.id: place for place, part in enumerate(parts)}
    return sorted(results, key=lambda result: at.get(result.id, len(at)))


def _made(message: Message, call_id: str) -> bool:
    if message.role != "assistant":
        return False
    return any(part.type == "tool-call" and part.id == call_id for part in message.content)
