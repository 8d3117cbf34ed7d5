"""Pairing: which calls a prompt holds, and that each is answered, which both wires demand.

>>> from fxai.messages.prompt import AssistantMessage
>>> asked = Prompt([AssistantMessage((ToolCallPart("c1", "add", {}),))])
>>> hold_answered(asked)
Traceback (most recent call last):
fxai.models.prepared.PreparationError: ...the call c1 of the tool 'add' has no result...
"""

from __future__ import annotations

from fxai.messages.content import ToolCallPart
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidUserInputError
from fxai.models.prepared import PreparationError
from fxai.providers.openai.mark import marks

__all__ = ["calls_of", "hold_answered"]


def calls_of(prompt: Prompt) -> dict[str, ToolCallPart]:
    """The calls of a prompt, by their ids."""
    return {
        part.id: part
        for message in prompt
        if message.role == "assistant"
        for part in message.content
        if part.type == "tool-call"
    }


def hold_answered(prompt: Prompt) -> None:
    """Nothing, where every call that is ours to answer has a result; calls of asynchronous tools may wait.

    Raises:
        PreparationError: a call has none.
    """
    answered = {
        part.id
        for message in prompt
        if message.role == "tool"
        for part in message.content
        if part.type == "tool-result"
    }
    for call in calls_of(prompt).values():
        if not (call.provider_executed or call.id in answered or marks(call).get("async")):
            said = (
                f"the call {call.id} of the tool {call.name!r} has no result in the prompt, and the provider wants one"
            )
            raise PreparationError(InvalidUserInputError(f"{said}: answer it in a tool message, or take it out"))
