"""Turns: the messages of one run, from what the user said to the last answer, kept together.

>>> from fxai.messages.message import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
>>> asked = Prompt([UserMessage.make("2 + 3?"), AssistantMessage.make(ToolCallPart("c", "add", {}))])
>>> owner(Prompt([ToolMessage.make(ToolResultPart("c", "add", 5))]), [asked])
0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast, final

import msgspec

from fxai.messages.calls import pending_in
from fxai.messages.message import Message, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.tools.failure import InDoubt

__all__ = ["NotAwaitedError", "merged", "owner", "spoken"]

_IN_DOUBT: Final = InDoubt.__struct_config__.tag


class NotAwaitedError(ValueError):
    """Messages go on with a turn, and there is none that they could go on with."""


def spoken(messages: Prompt) -> Prompt:
    """What is kept of the messages of a run: all but the system messages, which are the agent's."""
    if not isinstance(cast(object, messages), Prompt):
        raise TypeError(f"a memory commits a Prompt, not {messages!r}: say Prompt.make(…)")
    return messages.without_system() if any(one.role == "system" for one in messages) else messages


def owner(messages: Prompt, newest_first: Iterable[Prompt]) -> int | None:
    """Which turn messages go on with, counted from the newest, which is 0; None: they begin a turn.

    What begins with a tool message goes on with the newest turn that waits for all of its results and answers, so that
    a run that ended in between does not get them. A turn waits for the result of a call that is in doubt, too, and
    takes one that it has once more. What begins with the model's words goes on with the newest turn that waits for
    nothing.

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
        if answered <= _open(turn) | _taken(turn, first):
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


def _taken(turn: Prompt, message: ToolMessage) -> frozenset[str]:
    """The ids of results that settle a doubt of the turn, or stand there already."""
    latest = _Results(turn).latest
    results = (part for part in message.content if part.type == "tool-result")
    return frozenset(part.id for part in results if part.id in latest and _replaces(part, latest[part.id]))


def merged(commits: Prompt) -> Prompt:
    """The messages of a turn, of those of its commits: a result takes the place of the doubt about its call.

    Before an approved call runs, its turn is kept with the call in doubt; what came of it is committed later.

    >>> from fxai.messages.message import ToolResultPart
    >>> doubt = ToolResultPart("c", "wipe", {"type": "execution-in-doubt"}, is_failure=True)
    >>> len(merged(Prompt([ToolMessage.make(doubt), ToolMessage.make(ToolResultPart("c", "wipe", 5))])))
    1
    """
    results = _Results(commits)
    if not results.known:
        return commits
    kept: list[Message] = []
    for at, message in enumerate(commits):
        if message.role != "tool":
            kept.append(message)
            continue
        parts = [results.settled(part, (at, place)) for place, part in enumerate(message.content)]
        said = tuple(part for part in parts if part is not None)
        if said:
            kept.append(message if said == message.content else msgspec.structs.replace(message, content=said))
    return Prompt(kept)


@final
class _Results:
    """The results of a turn, and of those in doubt what is known meanwhile."""

    __slots__ = ("_again", "known", "latest")

    def __init__(self, messages: Iterable[Message]) -> None:
        self.latest: dict[str, ToolResultPart] = {}
        """Of each call id the result of the latest call."""
        self.known: dict[str, ToolResultPart] = {}
        """What became of calls that were in doubt, and results that stand there again."""
        self._again: set[tuple[int, int]] = set()  # where results stand there again
        for at, message in enumerate(messages):
            if message.role == "tool" or message.role == "assistant":
                for place, part in enumerate(message.content):
                    self._hear(part, (at, place))

    def _hear(self, part: Any, place: tuple[int, int]) -> None:
        if part.type == "tool-call":
            self.latest.pop(part.id, None)
        elif part.type == "tool-result":
            before = self.latest.get(part.id)
            if before is not None and _replaces(part, before):
                self.known[part.id] = part
                self._again.add(place)
            self.latest[part.id] = part

    def settled(self, part: Any, place: tuple[int, int]) -> Any:
        """The part, or what is known meanwhile; None where that stands there already."""
        if place in self._again:
            return None
        known = self.known.get(part.id) if part.type == "tool-result" and _is_doubt(part) else None
        return part if known is None else known


def _replaces(part: ToolResultPart, before: ToolResultPart) -> bool:
    return _is_doubt(before) or part == before


def _is_doubt(part: ToolResultPart) -> bool:
    said: object = part.result
    return part.is_failure and isinstance(said, Mapping) and cast("Mapping[str, Any]", said).get("type") == _IN_DOUBT
