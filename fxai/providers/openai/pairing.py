"""Pairing: the calls of a history, and that each is answered, which both wires demand.

>>> from fxai.messages.prompt import AssistantMessage
>>> Calls().add([AssistantMessage((ToolCallPart("c1", "add", {}),))])
Traceback (most recent call last):
fxai.models.tool_encoding.PreparationError: ...the call c1 of the tool 'add' has no result...
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from fxai.messages.content import ToolCallPart
from fxai.messages.message import Message
from fxai.messages.reason import InvalidUserInputError
from fxai.models.tool_encoding import PreparationError
from fxai.providers.openai.metadata import marks

__all__ = ["Calls"]


@final
class Calls:
    """The calls of a history that grows, by their ids; of several with one id, the last."""

    __slots__ = ("_answered", "_approved", "_by_id")

    def __init__(self) -> None:
        self._by_id: dict[str, ToolCallPart] = {}
        self._answered: set[str] = set()
        self._approved: set[str] = set()

    def get(self, id_: str) -> ToolCallPart | None:
        """The call with this id; None where the history has none."""
        return self._by_id.get(id_)

    def are_new(self, messages: Iterable[Message]) -> bool:
        """Whether no call of these messages has an id that a call or an answer before them has."""
        known = (self._by_id, self._answered, self._approved)
        return not any(id_ in ids for id_ in _calls(messages) for ids in known)

    def add(self, messages: Iterable[Message]) -> None:
        """Add the calls and the answers of the messages that come next.

        Raises:
            PreparationError: A call that is ours to answer has no result. Those of asynchronous tools may wait.
        """
        came = list(messages)
        calls = _calls(came)
        for message in came:
            if message.role == "tool":
                self._answered.update(part.id for part in message.content if part.type == "tool-result")
                self._approved.update(part.approval_id for part in message.content if part.type != "tool-result")
        self._by_id.update(calls)
        for call in calls.values():
            if not (call.provider_executed or call.id in self._answered or marks(call).get("async")):
                said = (
                    f"the call {call.id} of the tool {call.name!r} has no result in the prompt, "
                    "and the provider wants one"
                )
                raise PreparationError(InvalidUserInputError(f"{said}: answer it in a tool message, or take it out"))


def _calls(messages: Iterable[Message]) -> dict[str, ToolCallPart]:
    return {
        part.id: part
        for message in messages
        if message.role == "assistant"
        for part in message.content
        if part.type == "tool-call"
    }
