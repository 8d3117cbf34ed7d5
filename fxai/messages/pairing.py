"""Pairing: which calls of a history have results, and which of both stand alone.

>>> from fxai.messages.message import AssistantMessage, ToolMessage
>>> turn = [AssistantMessage.make(ToolCallPart("c", "add", {})), ToolMessage.make(ToolResultPart("c", "add", 5))]
>>> unpaired(turn), unpaired(turn[1:]), unpaired(turn[:1])
([], ['c'], ['c'])
>>> [call.id for call in Pairing().add(turn[:1])], Pairing().add(turn)
(['c'], [])
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import final

from fxai.messages.content import ToolCallPart, ToolResultPart
from fxai.messages.message import Message

__all__ = ["Pairing", "unpaired"]


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The ids of the calls without a result right behind their turn, and of such results without a call, in order.

    Calls that a provider runs have theirs in the same message, and are not looked at.
    """
    alone: list[str] = []
    called: list[str] = []
    for message in messages:
        if message.role == "tool":
            answered = [part.id for part in _results([message])]
            alone += [id_ for id_ in answered if id_ not in called]
            called = [id_ for id_ in called if id_ not in answered]
        else:
            alone += called
            called = [part.id for part in _calls([message]) if not part.provider_executed]
    return alone + called


@final
class Pairing:
    """The calls of a history that grows, and their results, wherever in it these stand.

    A result belongs to the call with its id. Of several calls with one id, which some servers give, the first has the
    first result.
    """

    __slots__ = ("_approvals", "_calls", "_results")

    def __init__(self) -> None:
        self._calls: dict[str, ToolCallPart] = {}
        self._results: defaultdict[str, deque[ToolResultPart]] = defaultdict(deque)
        self._approvals: set[str] = set()

    def add(self, messages: Sequence[Message]) -> list[ToolCallPart]:
        """Add the messages that come next; gives their calls that no result answers, those of the provider's left out.

        A call is answered where its id is that of a result, before it or behind it.
        """
        calls = {part.id: part for part in _calls(messages)}
        self._calls.update(calls)
        for part in _results(messages):
            self._results[part.id].append(part)
        for message in messages:
            if message.role == "tool":
                self._approvals.update(part.approval_id for part in message.content if part.type != "tool-result")
        return [call for call in calls.values() if not call.provider_executed and call.id not in self._results]

    def has_other_calls(self, messages: Iterable[Message]) -> bool:
        """Whether these messages have a call with an id that stands in those before: of a call, a result, an answer."""
        known = (self._calls, self._results, self._approvals)
        return any(part.id in ids for part in _calls(messages) for ids in known)

    def call(self, id_: str) -> ToolCallPart | None:
        """The call with this id, the last one of several; None where there is none."""
        return self._calls.get(id_)

    def result(self, id_: str) -> ToolResultPart | None:
        """The result that the next call with this id has; None where there is none."""
        waiting = self._results.get(id_)
        return waiting[0] if waiting else None

    def take(self, id_: str) -> ToolResultPart | None:
        """The same result, which no other call has then."""
        waiting = self._results.get(id_)
        return waiting.popleft() if waiting else None

    @property
    def left(self) -> list[str]:
        """The ids of the results that no call took, in the order in which these ids came."""
        return [part.id for waiting in self._results.values() for part in waiting]


def _calls(messages: Iterable[Message]) -> Iterator[ToolCallPart]:
    for message in messages:
        if message.role == "assistant":
            yield from (part for part in message.content if part.type == "tool-call")


def _results(messages: Iterable[Message]) -> Iterator[ToolResultPart]:
    for message in messages:
        if message.role == "tool":
            yield from (part for part in message.content if part.type == "tool-result")
