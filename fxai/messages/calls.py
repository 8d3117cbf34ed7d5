"""Calls of a history: find open calls, pair calls with results, and insert results. Agents and providers use it.

>>> from fxai.messages.message import AssistantMessage
>>> from fxai.messages.part import ApprovalRequest, ToolCall
>>> (wipe,) = pending_in([ToolCall("c1", "wipe", {"disk": "a"}), ApprovalRequest("a1", "c1")])
>>> wipe.name, wipe.approve().approved, wipe.deny("not that one").reason
('wipe', True, 'not that one')
>>> turn = AssistantMessage.make(ToolCallPart("c", "add", {}))
>>> unpaired_calls([turn]), [paired.id for paired in Pairing().add([turn]).calls]
(['c'], ['c'])
>>> [message.role for message in insert_results([turn], [ToolResultPart("c", "add", 5)])]
['assistant', 'tool']
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.messages.message import (
    Content,
    Message,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolContent,
    ToolMessage,
    ToolResultPart,
)
from fxai.messages.part import AnyPart

UNANSWERED: Final = {
    "expired": "no user answered the approval request in time, and no user denied the call",
    "unavailable": "no user was available for the approval, and no user denied the call",
}
"""The default reasons of approvals without an answer."""


@final
class Pending(msgspec.Struct, frozen=True):
    """An open call, which needs an approval or an external result."""

    id: str
    """The id of the call."""
    name: str
    """The name of the tool. Empty for an approval request without its call."""
    params: Any
    """The parameters as JSON values."""
    approval_id: str | None = None
    """The id of the approval for an answer, or None for a call that needs an external result."""
    dynamic: bool = False
    """True if the tool is dynamic."""

    def approve(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """Return the answer that approves the call, for a tool message after the turn.

        Raises:
            ValueError: If the call needs no approval. Use `answer` instead.
        """
        return ToolApprovalResponsePart(_approval_of(self), True, reason)

    def deny(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """Return the answer that denies the call, for a tool message after the turn.

        Raises:
            ValueError: If the call needs no approval. Use `answer` instead.
        """
        return ToolApprovalResponsePart(_approval_of(self), False, reason)

    def expire(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """Return the answer for an approval that did not arrive in time. The call does not run.

        The model does not receive a denial.

        Raises:
            ValueError: If the call needs no approval. Use `answer` instead.
        """
        return ToolApprovalResponsePart(_approval_of(self), False, reason or UNANSWERED["expired"], "expired")

    def abandon(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """Return the answer for an approval without an available user. The call does not run.

        The model does not receive a denial.

        Raises:
            ValueError: If the call needs no approval. Use `answer` instead.
        """
        why = reason or UNANSWERED["unavailable"]
        return ToolApprovalResponsePart(_approval_of(self), False, why, "unavailable")

    def answer(self, result: Any, *, is_failure: bool = False) -> ToolResultPart:
        """Return the result of an external call as a JSON value, for a tool message after the turn.

        Raises:
            ValueError: If the call needs an approval. Use `approve` or `deny` instead.
        """
        if self.approval_id is not None:
            raise ValueError(f"call {self.id!r} of {self.name!r} needs an approval. Use approve or deny.")
        return ToolResultPart(self.id, self.name, result, is_failure, dynamic=self.dynamic)

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name, self.approval_id))


def _approval_of(call: Pending) -> str:
    if call.approval_id is None:
        raise ValueError(f"call {call.id!r} of {call.name!r} needs a result, not an approval. Use answer.")
    return call.approval_id


def pending_in(parts: Iterable[AnyPart | Content]) -> tuple[Pending, ...]:
    """Return the open calls among the parts of a turn or of a whole conversation.

    Open calls are approval requests without an answer and calls without a result, except calls of a provider.
    """
    waiting: dict[str, Pending] = {}
    of_provider: dict[str, Pending] = {}
    asked: dict[str, list[str]] = {}  # the calls by approval id
    for part in parts:
        match part.type:
            case "tool-call":
                calls = of_provider if part.provider_executed else waiting
                calls[part.id] = Pending(part.id, part.name, part.params, dynamic=part.dynamic)
            case "tool-result" if not getattr(part, "preliminary", False):
                waiting.pop(part.id, None)
            case "tool-approval-request":
                id_ = part.tool_call_id
                about = waiting.get(id_) or of_provider.get(id_) or Pending(id_, "", None)
                waiting[id_] = msgspec.structs.replace(about, approval_id=part.approval_id)
                asked.setdefault(part.approval_id, []).append(id_)
            case "tool-approval-response":
                for id_ in asked.pop(part.approval_id, ()):
                    if id_ in waiting and waiting[id_].approval_id == part.approval_id:
                        del waiting[id_]
            case _:
                pass
    return tuple(waiting.values())


# ---- calls and their results


def unpaired_calls(messages: Iterable[Message]) -> list[str]:
    """Return the ids of calls without a result directly after their turn, and of results without a call.

    It ignores calls that a provider runs, because their results are in the same message.
    """
    alone: list[str] = []
    called: list[str] = []
    for message in messages:
        if message.role == "tool":
            answered = [part.id for part in _results([message])]
            known, done = set(called), set(answered)
            alone += [id_ for id_ in answered if id_ not in known]
            called = [id_ for id_ in called if id_ not in done]
        else:
            alone += called
            called = [part.id for part in _calls([message]) if not part.provider_executed]
    return alone + called


@final
class PairedCall:
    """A call of a history with its unique id and its result."""

    __slots__ = ("call", "id", "is_early", "result")

    def __init__(self, call: ToolCallPart, id_: str) -> None:
        self.call: ToolCallPart = call
        self.id: str = id_
        """The unique id: the call id, with a number if an earlier call has the same id."""
        self.result: ToolResultPart | None = None
        self.is_early: bool = False
        """True if the result is before the call."""


@final
class PairedMessages(msgspec.Struct, frozen=True, eq=False):
    """The calls and the results of some messages in a history."""

    calls: tuple[PairedCall, ...]
    """The calls, without the calls that a provider runs."""
    results: tuple[PairedCall | None, ...]
    """The call of each result of a tool message, or None if no call needs the result."""


@final
class Pairing:
    """The calls of a growing history with their results at any position.

    A result belongs to the first open call before it with the same id. A result before its only call belongs to that
    call too. Each call gets a unique id, because some servers repeat ids.

    >>> from fxai.messages.message import AssistantMessage
    >>> turn = AssistantMessage.make(ToolCallPart("call_0", "add", {}))
    >>> answer = ToolMessage.make(ToolResultPart("call_0", "add", 5))
    >>> paired = Pairing().add([turn, answer, turn, answer, answer])
    >>> [call.id for call in paired.calls], [call and call.id for call in paired.results]
    (['call_0', 'call_0_2'], ['call_0', 'call_0_2', None])
    """

    __slots__ = ("_ids", "_open", "has_strays")

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._open: defaultdict[str, deque[PairedCall]] = defaultdict(deque)  # an entry for each id of a call
        self.has_strays: bool = False
        """True if a result has no call yet: a call in later messages can change the meaning of these messages."""

    def add(self, messages: Sequence[Message]) -> PairedMessages:
        """Pair the following messages."""
        calls: list[PairedCall] = []
        results: list[PairedCall | None] = []
        early: defaultdict[str, deque[tuple[int, ToolResultPart]]] = defaultdict(deque)
        for message in messages:
            if message.role == "assistant":
                ours = (part for part in message.content if part.type == "tool-call" and not part.provider_executed)
                calls += map(self._start, ours)
            elif message.role == "tool":
                for part in message.content:
                    if part.type == "tool-result":
                        if part.id not in self._open:
                            early[part.id].append((len(results), part))
                        results.append(self._end(part))
        for paired in calls:
            waiting = early.get(paired.call.id)
            if paired.result is None and waiting:
                location, paired.result = waiting.popleft()
                paired.is_early, results[location] = True, paired
                self._open[paired.call.id].remove(paired)
        self.has_strays = self.has_strays or any(early.values())
        return PairedMessages(tuple(calls), tuple(results))

    def _start(self, part: ToolCallPart) -> PairedCall:
        count = self._ids.get(part.id, 0) + 1
        while (id_ := part.id if count == 1 else f"{part.id}_{count}") in self._ids and id_ != part.id:
            count += 1
        self._ids[part.id] = count
        self._ids.setdefault(id_, 1)
        paired = PairedCall(part, id_)
        self._open[part.id].append(paired)
        return paired

    def _end(self, part: ToolResultPart) -> PairedCall | None:
        waiting = self._open.get(part.id)
        if not waiting:
            return None
        paired = waiting.popleft()
        paired.result = part
        return paired


def stray_result(messages: Iterable[Message]) -> ToolResultPart | None:
    """Return the first result inside a conversation without a call that needs it, or None.

    Results before every other message are the rest of a turn that a window cut, so that they do not count.

    >>> stray_result([ToolMessage.make(ToolResultPart("c", "add", 5))]) is None
    True
    """
    given = list(messages)
    start = next((at for at, one in enumerate(given) if one.role in ("user", "assistant")), len(given))
    if not any(one.role == "tool" for one in given[start:]):
        return None
    paired = Pairing().add(given).results
    early = sum(1 for _ in _results(given[:start]))
    late = zip(_results(given[start:]), paired[early:], strict=True)
    return next((part for part, call in late if call is None), None)


def _calls(messages: Iterable[Message]) -> Iterator[ToolCallPart]:
    for message in messages:
        if message.role == "assistant":
            yield from (part for part in message.content if part.type == "tool-call")


def _results(messages: Iterable[Message]) -> Iterator[ToolResultPart]:
    for message in messages:
        if message.role == "tool":
            yield from (part for part in message.content if part.type == "tool-result")


# ---- insert results


def insert_results(messages: Iterable[Message], results: Iterable[ToolResultPart]) -> list[Message]:
    """Return the messages with each result in the tool message directly after the latest turn with its call.

    If this message does not exist, the function adds it. It appends a result without a call. If a history contains
    copies of a turn with an approval request, for example after a merge, each copy without a result gets the result.
    Results have the order of their calls.
    """
    made, given = list(messages), tuple(results)
    turns = _turns(made, {result.id for result in given})
    more: dict[int, list[ToolResultPart]] = {}
    locations = {call.id: index for index, call in enumerate(_calls(made))} if len(given) > 1 else {}
    for result in sorted(given, key=lambda result: locations.get(result.id, len(locations))):
        for end in _turn_ends(turns.get(result.id, [])) or [len(made) - 1]:
            more.setdefault(end, []).append(result)
    for end in sorted(more, reverse=True):
        here = made[end] if end >= 0 else None
        if here is not None and here.role == "tool":
            made[end] = msgspec.structs.replace(here, content=(*here.content, *more[end]))
        else:
            made.insert(end + 1, ToolMessage(tuple(more[end])))
    return made


def insert_late(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with late answers and results directly after the turns of their calls.

    The answer to an earlier approval request arrives after later turns. If the earlier turn already has this answer, it
    does not get it again.
    """
    made: list[Message] = []
    turns: dict[tuple[str, str], int] = {}
    late: dict[int, list[ToolContent]] = {}
    last = -1
    for message in messages:
        content: tuple[ToolContent, ...] = message.content if message.role == "tool" else ()
        here = tuple(part for part in content if turns.get(_about(part), last) == last)
        for part in content:
            if (turn := turns.get(_about(part), last)) != last:
                late.setdefault(turn, []).append(part)
        if message.role == "assistant":
            last = len(made)
            turns |= {_about(part): last for part in message.content if part.type in _ASKING}
        if here or not content:
            made.append(message if here == content else msgspec.structs.replace(message, content=here))
    for turn in sorted(late, reverse=True):
        _put_new(made, turn, late[turn])
    return made


_ASKING: Final = ("tool-call", "tool-approval-request")


def _about(part: Any) -> tuple[str, str]:
    """Return the key of the call or the request of a part."""
    return ("call", part.id) if part.type in ("tool-call", "tool-result") else ("approval", part.approval_id)


def _put_new(messages: list[Message], turn: int, parts: list[ToolContent]) -> None:
    after = messages[turn + 1] if turn + 1 < len(messages) else None
    if after is None or after.role != "tool":
        messages.insert(turn + 1, after := ToolMessage(()))
    content = list(after.content)
    for part in parts:
        if part not in content:
            content.append(part)
    messages[turn + 1] = msgspec.structs.replace(after, content=tuple(content))


@final
class _CallTurn(msgspec.Struct):
    """A turn with a call: its end, the call, whether it requests an approval, and whether it is open."""

    end: int
    call: tuple[str, Any]
    asks: bool
    is_open: bool


def _turns(messages: list[Message], ids: set[str]) -> dict[str, list[_CallTurn]]:
    """Return the turns with calls of these ids by id."""
    found: dict[str, list[_CallTurn]] = {}
    for at, message in enumerate(messages):
        if message.role != "assistant":
            continue
        calls: dict[str, tuple[str, Any]] = {}
        for part in message.content:
            if part.type == "tool-call" and part.id in ids:
                calls.setdefault(part.id, (part.name, part.params))
        if not calls:
            continue
        end = at
        while end + 1 < len(messages) and messages[end + 1].role == "tool":
            end += 1
        asked = {part.tool_call_id for part in message.content if part.type == "tool-approval-request"}
        there = {part.id for part in _results(messages[at + 1 : end + 1])}
        for id_, call in calls.items():
            found.setdefault(id_, []).append(_CallTurn(end, call, id_ in asked, id_ not in there))
    return found


def _turn_ends(turns: list[_CallTurn]) -> list[int]:
    """Return the ends of the turns that get a result of their common call."""
    if not turns:
        return []
    copies = [turn for turn in turns if turn.asks and turn.is_open]
    if not copies or not turns[-1].asks:
        return [turns[-1].end]
    same = [turn for turn in copies if turn.call == copies[-1].call]
    for turn in same:
        turn.is_open = False
    return [turn.end for turn in same]
