"""Turns: the messages of one run, from what the user said to the last answer, kept together.

>>> from fxai.messages.content import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
>>> asked = Prompt([UserMessage.make("2 + 3?"), AssistantMessage.make(ToolCallPart("c", "add", {}))])
>>> owner(Prompt([ToolMessage.make(ToolResultPart("c", "add", 5))]), [asked])
0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from fxai.messages.message import ToolMessage
from fxai.messages.pending import pending_in
from fxai.messages.prompt import Prompt

__all__ = ["NotAwaitedError", "owner", "said"]


class NotAwaitedError(ValueError):
    """Messages go on with a turn, and there is none that they could go on with."""


def said(messages: Prompt) -> Prompt:
    """What is kept of the messages of a run: all but the system messages, which are the agent's."""
    if not isinstance(cast(object, messages), Prompt):
        raise TypeError(f"a memory commits a Prompt, not {messages!r}: say Prompt.make(…)")
    return messages.without_system() if any(one.role == "system" for one in messages) else messages


def owner(messages: Prompt, newest_first: Iterable[Prompt]) -> int | None:
    """Which turn messages go on with, counted from the newest, which is 0; None: they begin a turn.

    What begins with a tool message goes on with the newest turn that waits for all of its results and answers, so that
    a run that ended in between does not get them. What begins with the model's words goes on with the newest turn that
    waits for nothing.

    Raises:
        NotAwaitedError: it begins with a tool message, and no turn waits for what it brings; or with words of the
            model, and every turn waits.
    """
    first = messages[0]
    if first.role == "user":
        return None
    if first.role != "tool":
        return _newest_closed(newest_first)
    answered = _answered(first)
    for place, turn in enumerate(newest_first):
        if answered <= _open(turn):
            return place
    what = ", ".join(sorted(answered)) or "nothing"
    raise NotAwaitedError(
        f"it begins with a tool message that answers {what}, which no kept turn waits for: it was answered before, or "
        "the turn is forgotten; begin with a user message"
    )


def _newest_closed(newest_first: Iterable[Prompt]) -> int | None:
    place = None
    for place, turn in enumerate(newest_first):
        if not _open(turn):
            return place
    if place is None:
        return None
    raise NotAwaitedError(
        "it begins with words of the model, and every kept turn waits for an answer; answer one of them, or begin with "
        "a user message"
    )


def _answered(message: ToolMessage) -> frozenset[str]:
    return frozenset(part.id if part.type == "tool-result" else part.approval_id for part in message.content)


def _open(turn: Prompt) -> frozenset[str]:
    waiting = pending_in(part for one in turn if one.role != "system" for part in one.content)
    return frozenset(name for one in waiting for name in (one.id, one.approval_id) if name is not None)
