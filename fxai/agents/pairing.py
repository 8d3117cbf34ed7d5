"""Pairing: whether each call of a conversation has its result right behind it, as models take it.

>>> from fxai.messages.content import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage
>>> turn = [AssistantMessage.make(ToolCallPart("c", "add", {})), ToolMessage.make(ToolResultPart("c", "add", 5))]
>>> unpaired(turn), unpaired(turn[1:]), unpaired(turn[:1])
([], ['c'], ['c'])
"""

from __future__ import annotations

from collections.abc import Iterable

from fxai.messages.message import AssistantMessage, Message, ToolMessage

__all__ = ["unpaired"]


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The ids of the calls without a result and of the results without a call, in their order.

    Calls that a provider runs have theirs in the same message, and are not looked at.
    """
    alone: list[str] = []
    called: list[str] = []
    for message in messages:
        if message.role == "tool":
            answered = _answered(message)
            alone += [id_ for id_ in answered if id_ not in called]
            called = [id_ for id_ in called if id_ not in answered]
        else:
            alone += called
            called = _called(message) if message.role == "assistant" else []
    return alone + called


def _answered(message: ToolMessage) -> list[str]:
    return [part.id for part in message.content if part.type == "tool-result"]


def _called(message: AssistantMessage) -> list[str]:
    return [part.id for part in message.content if part.type == "tool-call" and not part.provider_executed]
