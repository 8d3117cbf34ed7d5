"""Conversations between users and agents on a page. A `Conversation` is a value; use a store to save it.

A conversation is a tree of turns. A turn is one run of an agent, with the user's message and the agent's answer. Each
turn continues its parent. If the user edits a message or asks for another answer, a turn has several children. The page
shows the path from the root to the *head*. `fxai.ui.conversation_store` has the stores.

>>> hello = Turn.make("t1", None, UIMessage.make("u1", "user", "Hello"), "a1", Prompt.make("Hello"), 0.0)
>>> again = Turn.make("t2", None, UIMessage.make("u1", "user", "Hi"), "a2", Prompt.make("Hi"), 1.0)
>>> talk = Conversation("c", "ann", "Hello", 0.0, 1.0, (hello, again), "t2")
>>> [message.text for message in talk.ui_messages()], talk.versions()
(['Hi'], {'u1': ('t1', 't2')})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.agents.memory import merge_commits
from fxai.agents.state import PromptState
from fxai.messages.calls import Pending, insert_late, pending_in
from fxai.messages.message import ToolApprovalResponsePart, ToolCallPart, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.tools.tool_error import InDoubt, encode_failure
from fxai.ui.ui_message import UIMessage

Ended: TypeAlias = Literal["done", "pending", "failed", "stopped"]
"""The outcome of a turn: completed, with pending calls, failed, or stopped by the user or by the server's shutdown."""

LOST: Final = "the server stopped during the answer"
"""The error that a page shows for a turn whose process ended."""

_LOST: Final = "the process that ran it ended before the call finished"


@final
class Turn(msgspec.Struct, frozen=True):
    """A run of an agent in a conversation."""

    id: str
    """The id of the turn."""
    parent: str | None
    """The id of the turn that it continues, or None for a first turn."""
    user: UIMessage | None
    """The user's message. None if the turn continues the message of its parent after answers to calls."""
    message_id: str
    """The id of the agent's message."""
    messages: Prompt
    """The messages that the turn adds to the history. While the turn runs, only the messages of the user."""
    created: float
    """Start time, in seconds since 1970."""
    message: UIMessage | None = None
    """The agent's message as the page shows it, or None while the turn runs."""
    state: PromptState | None = None
    """The state of a stateful prompt after the turn, or None for an agent without one."""
    ended: Ended | None = None
    """The outcome. None if the turn still runs, or if its process ended during the turn."""
    error: str | None = None
    """The error that the page received if the turn failed."""

    @staticmethod
    def make(
        id: str, parent: str | None, user: UIMessage | None, message_id: str, added: Prompt, created: float
    ) -> Turn:
        """Return a turn that starts."""
        return Turn(id, parent, user, message_id, added, created)

    @override
    def __hash__(self) -> int:
        return hash(self.id)


class ConversationSummary(msgspec.Struct, frozen=True):
    """The information about a conversation in a list."""

    id: str
    """The id of the conversation."""
    owner: str
    """The user that started the conversation."""
    title: str
    """The title for lists."""
    created: float
    """Start time, in seconds since 1970."""
    changed: float
    """Time of the last start or end of a turn."""


@final
class Conversation(ConversationSummary, frozen=True):
    """A conversation with all its turns, and the path that the page shows. It contains the fields of its summary."""

    turns: tuple[Turn, ...] = ()
    """The turns in the order of their start."""
    head: str | None = None
    """The id of the last turn that the page shows."""

    def turn(self, turn_id: str) -> Turn | None:
        """Return the turn with this id, or None."""
        return next((turn for turn in self.turns if turn.id == turn_id), None)

    def path(self, turn_id: str | None = None) -> tuple[Turn, ...]:
        """Return the turns from the first turn to a turn. Default: to the head."""
        turns = {turn.id: turn for turn in self.turns}
        path: list[Turn] = []
        next_id = self.head if turn_id is None else turn_id
        while next_id is not None and next_id in turns:
            turn = turns.pop(next_id)  # `pop` ends the loop if damaged data contains a circle
            path.append(turn)
            next_id = turn.parent
        return tuple(reversed(path))

    def history(self, turn_id: str | None = None) -> Prompt:
        """Return the messages for an agent that continues from a turn. Default: from the head.

        If the process of a turn ended early, the history contains the user's messages of this turn. The outcome of the
        calls that the user approved in it is unknown.
        """
        whole = Prompt.empty
        for turn in self.path(turn_id):
            lost = [] if turn.ended is not None else _doubts(whole, turn.messages)
            whole = (whole + turn.messages).append(*([ToolMessage.make(*lost)] if lost else []))
        return Prompt(insert_late(merge_commits(whole)))

    def state(self, turn_id: str | None = None) -> PromptState | None:
        """Return the state of a stateful prompt after a turn. Default: after the head."""
        states = (turn.state for turn in reversed(self.path(turn_id)))
        return next((state for state in states if state is not None), None)

    def pending(self, turn_id: str | None = None) -> tuple[Pending, ...]:
        """Return the calls that need an approval or a result after a turn. Default: after the head."""
        path = self.path(turn_id)
        return self.history(turn_id).pending if path and path[-1].ended == "pending" else ()

    def left_open(self, turn_id: str | None = None) -> tuple[Pending, ...]:
        """Return the open approvals of the turns before a turn. `pending` returns the approvals of the turn itself."""
        segments: list[list[Any]] = [[]]
        for message in self.history(turn_id):
            if message.role == "assistant":
                segments.append([])
            segments[-1] += message.content if message.role != "system" else ()
        waiting = [one for segment in segments[:-1] for one in pending_in(segment)]
        return tuple(one for one in waiting if one.approval_id is not None)

    def ui_messages(self, turn_id: str | None = None) -> tuple[UIMessage, ...]:
        """Return the messages of a page up to a turn. Default: up to the head."""
        return tuple(_messages(self.path(turn_id)))

    def versions(self) -> dict[str, tuple[str, ...]]:
        """Return the alternatives to each user message on the path to the head, by the id of the message.

        The alternatives are the ids of all turns with the same parent, in the order of their start. They include the
        turn of the message itself.
        """
        found: dict[str | None, tuple[str, ...]] = {}
        for turn in self.turns:
            if turn.user is not None:
                found[turn.parent] = (*found.get(turn.parent, ()), turn.id)
        return {turn.user.id: found[turn.parent] for turn in self.path() if turn.user is not None}

    def find_message(self, message_id: str) -> Turn | None:
        """Return the turn that starts with the message `message_id`, or None. The path to the head has priority.

        If several turns match, return the newest. If several runs contributed to a message of an agent, return the
        first of these runs.
        """
        newest_first = (*reversed(self.path()), *reversed(self.turns))
        of_message = (turn for turn in newest_first if turn.user is not None and message_id == turn.user.id)
        of_agent = (turn for turn in newest_first if turn.user is not None and message_id == turn.message_id)
        return next(of_agent, None) or next(of_message, None)

    def leaf(self, turn_id: str) -> str:
        """Return the id of the last turn after a turn. If a turn has several children, follow the newest."""
        newest = {turn.parent: turn.id for turn in self.turns if turn.parent is not None}
        seen: set[str] = set()
        while turn_id in newest and turn_id not in seen:
            seen.add(turn_id)
            turn_id = newest[turn_id]
        return turn_id

    def describe(self, *, is_running: bool) -> dict[str, Any]:
        """Return the conversation for a page, as JSON values.

        Args:
            is_running: True if the store of streams contains an active turn of the conversation.
        """
        path, versions = self.path(), self.versions()
        last = path[-1] if path else None
        is_lost = last is not None and last.ended is None and not is_running
        shown: dict[str, Any] = {}
        for turn in path:
            if turn.user is not None:
                turns = versions[turn.user.id]
                shown[turn.user.id] = {"index": turns.index(turn.id), "of": len(turns), "turns": list(turns)}
        return {
            "id": self.id,
            "title": self.title,
            "messages": [message.to_data() for message in self.ui_messages()],
            "versions": shown,
            "head": self.head,
            "ended": None if last is None else last.ended,
            "running": is_running,
            "error": LOST if is_lost else None if last is None else last.error,
        }

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.head, len(self.turns)))


def _messages(path: tuple[Turn, ...]) -> Iterator[UIMessage]:
    """Yield the messages of a path. If a run continues a message, its message replaces the earlier message."""
    answers = {
        part.approval_id: part
        for turn in path
        for message in turn.messages
        for part in (message.content if message.role == "tool" else ())
        if part.type == "tool-approval-response"
    }
    shown: UIMessage | None = None
    for turn in path:
        if turn.user is not None:
            if shown is not None:
                yield _with_answers(shown, answers)
            yield turn.user
            shown = None
        shown = turn.message or shown
    if shown is not None:
        yield _with_answers(shown, answers)


def _with_answers(message: UIMessage, answers: Mapping[str, ToolApprovalResponsePart]) -> UIMessage:
    """Return the message with later answers to its approvals, so that answered calls are no longer pending."""
    parts = list(message.parts)
    for index, part in enumerate(parts):
        is_open = part.get("state") == "approval-requested"
        found = answers.get(part["approval"]["id"]) if is_open else None
        if found is not None:
            answer = {**part["approval"], "approved": found.approved}
            answer |= {} if found.reason is None else {"reason": found.reason}
            parts[index] = {**part, "state": "approval-responded", "approval": answer}
    return msgspec.structs.replace(message, parts=tuple(parts))


def _doubts(history: Prompt, added: Prompt) -> list[ToolResultPart]:
    """Return results for the calls that `added` approves. Their outcome is unknown, because they may have started."""
    answered = {
        part.approval_id
        for one in added
        if one.role == "tool"
        for part in one.content
        if part.type == "tool-approval-response" and part.approved
    }
    calls: dict[str, ToolCallPart] = {}
    found: list[ToolResultPart] = []
    for message in history if answered else ():
        for part in message.content if message.role == "assistant" else ():
            if part.type == "tool-call":
                calls[part.id] = part
            elif part.type == "tool-approval-request" and part.approval_id in answered and part.tool_call_id in calls:
                call = calls[part.tool_call_id]
                doubt = encode_failure(InDoubt(call.name, _LOST))
                found.append(ToolResultPart(call.id, call.name, doubt, is_failure=True, dynamic=call.dynamic))
    return found
