"""Conversations: what people and agents said on a page, as a tree of turns.

A turn is one run of an agent, with what was said to it and what came of it. Each turn goes on from its parent, and
where a message was edited or an answer was asked for again, several go on from one: the path from the root to the
*head* is what the page shows. A conversation is a value; `fxai.ui.conversation_store` keeps them.

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
from fxai.messages.calls import Pending, pending_in, place_late
from fxai.messages.message import ToolApprovalResponsePart, ToolCallPart, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.tools.tool_error import InDoubt, encode_failure
from fxai.ui.ui_message import UIMessage

Ended: TypeAlias = Literal["done", "pending", "failed", "stopped"]
"""How a turn ended: well, with calls that wait, by a failure, or stopped by the user, or by a server that shut down."""

LOST: Final = "the server ended in the middle of the answer"
"""What a page is told of a turn whose process ended."""

_LOST: Final = "the process that ran it ended in the middle"


@final
class Turn(msgspec.Struct, frozen=True):
    """One run of an agent in a conversation."""

    id: str
    parent: str | None
    """The id of the turn that it goes on from; None: it is the first one."""
    user: UIMessage | None
    """What the user said; None where the turn goes on with the message of its parent, whose calls were answered."""
    message_id: str
    """The id of the agent's message."""
    messages: Prompt
    """What the turn adds to the history; while it runs, what was said."""
    created: float
    """When it began, in seconds since 1970."""
    message: UIMessage | None = None
    """The agent's message, as the page has it; None while it runs."""
    state: PromptState | None = None
    """The state of a stateful prompt after the turn; None of an agent without one."""
    ended: Ended | None = None
    """How it ended; None: it runs, or its process ended in the middle."""
    error: str | None = None
    """What the page was told, where it failed."""

    @staticmethod
    def make(
        id: str, parent: str | None, user: UIMessage | None, message_id: str, said: Prompt, created: float
    ) -> Turn:
        """A turn that begins."""
        return Turn(id, parent, user, message_id, said, created)

    @override
    def __hash__(self) -> int:
        return hash(self.id)


@final
class ConversationSummary(msgspec.Struct, frozen=True):
    """What a list of conversations shows of one."""

    id: str
    owner: str
    """Whose it is: the user that began it."""
    title: str
    created: float
    """When it began, in seconds since 1970."""
    changed: float
    """When its last turn began or ended."""


@final
class Conversation(msgspec.Struct, frozen=True):
    """A conversation: its turns, and which of them the page shows."""

    id: str
    owner: str
    """Whose it is: the user that began it."""
    title: str
    created: float
    """When it began, in seconds since 1970."""
    changed: float
    """When its last turn began or ended."""
    turns: tuple[Turn, ...] = ()
    """In the order in which they began."""
    head: str | None = None
    """The id of the last turn that the page shows."""

    def turn(self, turn_id: str) -> Turn | None:
        """The turn of this id."""
        return next((turn for turn in self.turns if turn.id == turn_id), None)

    def path(self, turn_id: str | None = None) -> tuple[Turn, ...]:
        """The turns from the first one to this, by default to the head."""
        turns = {turn.id: turn for turn in self.turns}
        path: list[Turn] = []
        next_id = self.head if turn_id is None else turn_id
        while next_id is not None and next_id in turns:
            turn = turns.pop(next_id)  # so that a damaged circle ends
            path.append(turn)
            next_id = turn.parent
        return tuple(reversed(path))

    def history(self, turn_id: str | None = None) -> Prompt:
        """What an agent reads when it goes on from a turn, by default from the head.

        Of a turn whose process ended in the middle it has what was said; calls that were approved in it are in doubt.
        """
        whole = Prompt.empty
        for turn in self.path(turn_id):
            lost = [] if turn.ended is not None else _doubts(whole, turn.messages)
            whole = (whole + turn.messages).append(*([ToolMessage.make(*lost)] if lost else []))
        return Prompt(place_late(merge_commits(whole)))

    def state(self, turn_id: str | None = None) -> PromptState | None:
        """The state of a stateful prompt after a turn, by default after the head."""
        states = (turn.state for turn in reversed(self.path(turn_id)))
        return next((state for state in states if state is not None), None)

    def pending(self, turn_id: str | None = None) -> tuple[Pending, ...]:
        """The calls that wait after a turn, by default after the head: for an approval, or for a result."""
        path = self.path(turn_id)
        return self.history(turn_id).pending if path and path[-1].ended == "pending" else ()

    def left_open(self, turn_id: str | None = None) -> tuple[Pending, ...]:
        """The approvals that turns before this one left open; the last turn's own are `pending`."""
        segments: list[list[Any]] = [[]]
        for message in self.history(turn_id):
            if message.role == "assistant":
                segments.append([])
            segments[-1] += message.content if message.role != "system" else ()
        waiting = [one for segment in segments[:-1] for one in pending_in(segment)]
        return tuple(one for one in waiting if one.approval_id is not None)

    def ui_messages(self, turn_id: str | None = None) -> tuple[UIMessage, ...]:
        """The messages as a page has them, up to a turn, by default to the head."""
        return tuple(_messages(self.path(turn_id)))

    def versions(self) -> dict[str, tuple[str, ...]]:
        """By the id of each message of the user's on the path to the head: the turns that begin in its place, in order.

        One of them is the turn of the message itself.
        """
        found: dict[str | None, tuple[str, ...]] = {}
        for turn in self.turns:
            if turn.user is not None:
                found[turn.parent] = (*found.get(turn.parent, ()), turn.id)
        return {turn.user.id: found[turn.parent] for turn in self.path() if turn.user is not None}

    def find_message(self, message_id: str) -> Turn | None:
        """The turn that a message of this id begins with: the newest of the path to the head that has it, else of all.

        A message of an agent that several runs made belongs to the first of them.
        """
        newest_first = (*reversed(self.path()), *reversed(self.turns))
        of_message = (turn for turn in newest_first if turn.user is not None and message_id == turn.user.id)
        of_agent = (turn for turn in newest_first if turn.user is not None and message_id == turn.message_id)
        return next(of_agent, None) or next(of_message, None)

    def leaf(self, turn_id: str) -> str:
        """The id of the newest turn that goes on from a turn, and so on, to the last one."""
        newest = {turn.parent: turn.id for turn in self.turns if turn.parent is not None}
        seen: set[str] = set()
        while turn_id in newest and turn_id not in seen:
            seen.add(turn_id)
            turn_id = newest[turn_id]
        return turn_id

    def describe(self, *, is_running: bool) -> dict[str, Any]:
        """What a page is told of the conversation, as plain JSON data.

        Args:
            is_running: whether a turn of it runs, as the store of streams knows.
        """
        path, versions = self.path(), self.versions()
        last = path[-1] if path else None
        is_lost = last is not None and last.ended is None and not is_running
        shown = {turn.user.id: _place_of(turn.id, versions[turn.user.id]) for turn in path if turn.user is not None}
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


def _place_of(turn_id: str, versions: tuple[str, ...]) -> dict[str, Any]:
    return {"index": versions.index(turn_id), "of": len(versions), "turns": list(versions)}


def _messages(path: tuple[Turn, ...]) -> Iterator[UIMessage]:
    """The messages of a path; a run that goes on with a message takes its place."""
    answers = {part.approval_id: part for turn in path for part in _answers(turn)}
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


def _answers(turn: Turn) -> Iterator[ToolApprovalResponsePart]:
    for message in turn.messages:
        for part in message.content if message.role == "tool" else ():
            if part.type == "tool-approval-response":
                yield part


def _with_answers(message: UIMessage, answers: Mapping[str, ToolApprovalResponsePart]) -> UIMessage:
    """The message with the answers that came after it: what was answered later waits no more."""
    parts = list(message.parts)
    for index, part in enumerate(parts):
        is_open = part.get("state") == "approval-requested"
        found = answers.get(part["approval"]["id"]) if is_open else None
        if found is not None:
            answer = {**part["approval"], "approved": found.approved}
            answer |= {} if found.reason is None else {"reason": found.reason}
            parts[index] = {**part, "state": "approval-responded", "approval": answer}
    return msgspec.structs.replace(message, parts=tuple(parts))


def _doubts(history: Prompt, said: Prompt) -> list[ToolResultPart]:
    """Results for the calls that `said` approves, which may have been run."""
    answered = {
        part.approval_id
        for one in said
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
