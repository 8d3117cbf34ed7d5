"""Recall: what a memory holds, as a run is told it that says something new.

Runs may come in between a call that waits and its answer: somebody asks something else first, or another run ends
meanwhile. Models take a history only in which each call has its result, right behind it.

>>> from fxai.messages.content import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
>>> asked = Prompt([UserMessage.make("2 + 3?"), AssistantMessage.make(ToolCallPart("c", "add", {}))])
>>> past = asked + Prompt.make("Hello?")
>>> [message.role for message in recalled(past, Prompt.make("Well?"))]
['user', 'assistant', 'tool', 'user']
>>> [message.role for message in recalled(past, Prompt([ToolMessage.make(ToolResultPart("c", "add", 5))]))]
['user', 'user', 'assistant']
"""

from __future__ import annotations

from typing import Final

from fxai.agents.memory_turn import NotAwaitedError, merged, owner
from fxai.messages.content import ToolCallPart, ToolResultPart
from fxai.messages.message import Message
from fxai.messages.pending import pending_in
from fxai.messages.placement import placed
from fxai.messages.prompt import Prompt
from fxai.tools.failure import Interrupted, encode_failure

__all__ = ["recalled"]

_WAITS: Final = "it waits for an answer, and has not been run"


def recalled(past: Prompt, new: Prompt) -> Prompt:
    """What a run that says `new` is told of the past.

    What waits for the tool message that `new` begins with comes last, so that this stands right behind it; without
    anything new, what came last stays open. Any other call that waits has a result that says so. The memory keeps
    what it holds: the answer may still come.
    """
    past = merged(past)  # a memory of somebody's own keeps commits as they are
    pieces = _pieces(past)
    if not any(map(_waiting, pieces)):
        return past
    last = _answered(pieces, new)
    told = [placed(one, map(_waits, _waiting(one))) if at != last else one for at, one in enumerate(pieces)]
    if last is not None:
        told.append(told.pop(last))
    return Prompt(message for piece in told for message in piece)


def _pieces(past: Prompt) -> list[list[Message]]:
    """The messages, each piece from what the user said until before he says the next."""
    pieces: list[list[Message]] = []
    for message in past:
        if message.role == "user" or not pieces:
            pieces.append([])
        pieces[-1].append(message)
    return pieces


def _waiting(piece: list[Message]) -> list[ToolCallPart]:
    """The calls that wait: for an approval, or for somebody's result."""
    parts = [part for message in piece if message.role != "system" for part in message.content]
    waiting = {one.id for one in pending_in(parts)}
    calls = [part for part in parts if part.type == "tool-call" and part.id in waiting and not part.provider_executed]
    return list({call.id: call for call in calls}.values())


def _answered(pieces: list[list[Message]], new: Prompt) -> int | None:
    """Which piece `new` goes on with; None: it begins anew, or nothing waits for it, and the run will say so."""
    if not len(new):
        return len(pieces) - 1
    try:
        place = owner(new, map(Prompt, reversed(pieces)))
    except NotAwaitedError:
        return None
    return None if place is None else len(pieces) - 1 - place


def _waits(call: ToolCallPart) -> ToolResultPart:
    encoded = encode_failure(Interrupted(call.name, _WAITS))
    return ToolResultPart(call.id, call.name, encoded, is_failure=True, dynamic=call.dynamic)
