"""What a history says of approvals: which are open, which are answered and not settled, and what is wrong with it.

A history may hold the same turn more than once, as it is or changed: copied, merged, sent again. An approval is one for
all its copies, told by its id, or by the call and what is bound to it: the first answer stands, a denial wins over any
other, and a call that has its result anywhere is not run.

>>> from fxai.messages.message import ToolApprovalRequestPart, ToolApprovalResponsePart
>>> from fxai.messages.message import AssistantMessage, ToolMessage
>>> turn = AssistantMessage.make(ToolCallPart("c", "wipe", {}), ToolApprovalRequestPart("a", "c"))
>>> asked = Prompt((turn, ToolMessage.make(ToolApprovalResponsePart("a", True))))
>>> [(one.call.name, one.approved) for one in read(asked + asked).answered]
[('wipe', True)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import msgspec
from typing_extensions import override

from fxai.messages.errors import ApprovalProblem, InvalidApprovalError
from fxai.messages.message import (
    AssistantMessage,
    Message,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
)
from fxai.messages.prompt import Prompt
from fxai.tools.tool import Tool

__all__ = ["Answered", "History", "concerns", "is_waiting", "read", "without", "without_settled"]


@final
class Answered(msgspec.Struct, frozen=True):
    """An approval that is answered, and whose call has no result yet."""

    request: ToolApprovalRequestPart
    call: ToolCallPart
    said: ToolApprovalResponsePart
    """The answer that counts."""

    @property
    def approved(self) -> bool:
        """Whether the call is to be run."""
        return _is_yes(self.said)

    @override
    def __hash__(self) -> int:
        return hash((self.request, self.said))


@final
class History(msgspec.Struct, frozen=True):
    """What a history says of approvals."""

    answered: tuple[Answered, ...]
    """Answered and not settled: to be run, or denied. Each call once, however often its turn stands there."""
    settled: frozenset[str]
    """The ids of all approvals that are answered."""
    waiting: bool
    """Whether the last turn has open requests, and nothing was said since but what came back for its calls."""
    problem: InvalidApprovalError | None = None
    """What is wrong with an answer; then nothing is to be run."""
    approved: tuple[Answered, ...] = ()
    """Every approval by which a call would run, copies among them: all of them are to be good."""
    denied: tuple[ToolApprovalRequestPart, ...] = ()
    """The requests that somebody denied, copies among them, and that are not settled or of the last turn."""
    repeated: Mapping[str, ToolApprovalResponsePart] = {}
    """The answers to a provider's own requests that stand there more than once: the one that counts, by its id."""

    @override
    def __hash__(self) -> int:
        return hash((self.answered, self.settled, self.waiting))


@final
class _Request:
    """A request of a turn that is read, its call, and what was answered."""

    __slots__ = ("call", "key", "part", "said", "settled")

    def __init__(self, part: ToolApprovalRequestPart, call: ToolCallPart | None) -> None:
        self.part = part
        self.call = call
        self.key = (part.tool_call_id, part.digest)
        self.said: ToolApprovalResponsePart | None = None
        self.settled = False

    @property
    def of_provider(self) -> bool:
        return self.call is not None and self.call.provider_executed

    @property
    def approved(self) -> bool:
        return self.said is not None and _is_yes(self.said)


def _is_yes(said: ToolApprovalResponsePart) -> bool:
    return said.approved and said.unanswered is None


def _stronger(one: ToolApprovalResponsePart | None, other: ToolApprovalResponsePart) -> ToolApprovalResponsePart:
    """Which of two answers counts: the first one, but a denial before what nobody answered, and that before a yes."""
    return other if one is None or _strength(other) > _strength(one) else one


def _strength(said: ToolApprovalResponsePart) -> int:
    return 0 if _is_yes(said) else 2 if said.unanswered is None else 1


def concerns(prompt: Prompt) -> bool:
    """Whether there is anything of approvals or of open calls in it to be looked at."""
    return any(message.role == "assistant" or message.role == "tool" for message in prompt)


def read(prompt: Prompt) -> History:
    """What the history says of approvals; those of calls that a provider runs are the provider's."""
    reading = _Reading()
    for message in prompt:
        if message.role == "assistant":
            reading.hear_turn(message)
        elif message.role == "tool":
            reading.hear_answers(message)
    return reading.history(goes_on=bool(len(prompt)) and prompt[-1].role not in ("assistant", "tool"))


@final
class _Reading:
    """A history that is read, message by message."""

    __slots__ = ("_calls", "_denied", "_every", "_problem", "_repeated", "_results", "_theirs", "_turn")

    def __init__(self) -> None:
        self._every: list[_Request] = []
        self._turn: list[_Request] = []
        # of each id the latest call so far, with the requests of its turn, and the calls that have a result
        self._calls: dict[str, tuple[ToolCallPart | None, list[_Request]]] = {}
        self._results: dict[str, list[ToolCallPart | None]] = {}
        self._denied: dict[Any, ToolApprovalResponsePart] = {}  # by approval id, and by call and digest
        self._theirs: dict[str, ToolApprovalResponsePart] = {}
        self._repeated: dict[str, ToolApprovalResponsePart] = {}
        self._problem: InvalidApprovalError | None = None

    # -- messages in order

    def hear_turn(self, message: AssistantMessage) -> None:
        """A model's turn: its calls, its requests, and results that stand in it."""
        self._turn = _requests_of(message)
        self._every += self._turn
        for part in message.content:
            if part.type == "tool-call":
                self._calls[part.id] = (part, self._turn)
            elif part.type == "tool-result":
                self._settle(part.id)

    def hear_answers(self, message: ToolMessage) -> None:
        """What came back for the calls of the turn before."""
        for part in message.content:
            if part.type == "tool-result":
                self._settle(part.id)
                continue
            if not _is_yes(part):
                self._denied[part.approval_id] = _stronger(self._denied.get(part.approval_id), part)
            problem = _answer(part, self._turn)
            if isinstance(problem, InvalidApprovalError):
                self._problem = self._problem or problem
            elif problem.of_provider:
                self._repeat(part)

    def _settle(self, call_id: str) -> None:
        """A result: of the latest call of its id, wherever that stands."""
        call, turn = self._calls.get(call_id, (None, []))
        self._results.setdefault(call_id, []).append(call)
        for request in turn:
            if request.part.tool_call_id == call_id:
                request.settled = True

    def _repeat(self, said: ToolApprovalResponsePart) -> None:
        first = self._theirs.get(said.approval_id)
        if first is None:
            self._theirs[said.approval_id] = said
        else:
            self._repeated[said.approval_id] = _stronger(self._repeated.get(said.approval_id, first), said)

    # -- all of it

    def history(self, *, goes_on: bool) -> History:
        """What it comes to; `goes_on`: something else was said behind it."""
        ours = [one for one in self._every if not one.of_provider]
        for one in self._every:  # also of a call that somebody has marked as the provider's meanwhile
            said = self._denied.get(one.part.approval_id)
            if said is not None:
                self._denied[one.key] = _stronger(self._denied.get(one.key), said)
        approved, answered = self._answers([one for one in ours if not one.settled and one.call is not None])
        is_open = any(not (one.settled or one.approved or one.of_provider or one.key in answered) for one in self._turn)
        return History(
            tuple(answered.values()),
            frozenset(one.part.approval_id for one in ours if one.approved or one.settled or one.key in answered),
            is_open and not goes_on,
            self._problem,
            approved,
            tuple(one.part for one in self._every if self._is_denied(one) and (not one.settled or one in self._turn)),
            self._repeated,
        )

    def _answers(self, open_: list[_Request]) -> tuple[tuple[Answered, ...], dict[Any, Answered]]:
        """All approvals of calls without a result, and what is to become of each call, by call and digest."""
        approved: list[Answered] = []
        answered: dict[Any, Answered] = {}
        taken: set[str] = set()
        by_id: dict[str, Answered] = {}
        for one in open_:
            call: Any = one.call
            said = self._denial(one) or one.said
            if said is None or (_is_yes(said) and not self._is_runnable(one, call)):
                continue
            answer = Answered(one.part, call, said)
            if answer.approved:
                approved.append(answer)
            if one.key in answered or (answer.approved and one.part.approval_id in taken):
                continue
            other = by_id.setdefault(call.id, answer)
            if other is not answer and (other.approved or answer.approved):
                self._refuse(answer.request, "altered", f"two different calls have the id {call.id!r}")
            answered[one.key] = answer
            taken.add(one.part.approval_id)
        return tuple(approved), answered

    def _is_runnable(self, request: _Request, call: ToolCallPart) -> bool:
        """Whether an approval may run its call; where that has a result, and the answer is new, it is refused."""
        if self._problem is not None:
            return False
        if not self._has_result(call):
            return True
        if request in self._turn:
            self._refuse(request.part, "used", f"its call {call.id!r} has a result")
        return False

    def _denial(self, request: _Request) -> ToolApprovalResponsePart | None:
        """The no that was said of it or of a copy."""
        by_id, by_key = (self._denied.get(key) for key in (request.part.approval_id, request.key))
        return by_id if by_key is None else _stronger(by_id, by_key)

    def _is_denied(self, request: _Request) -> bool:
        """Whether somebody denied it."""
        said = self._denial(request)
        return said is not None and said.unanswered is None

    def _refuse(self, request: ToolApprovalRequestPart, problem: ApprovalProblem, about: str) -> None:
        self._problem = self._problem or InvalidApprovalError(request.approval_id, problem, about)

    def _has_result(self, call: ToolCallPart) -> bool:
        """Whether a result stands anywhere for this call, for a copy of it, or for one that is not there."""
        of_same_id = self._results.get(call.id, ())
        return any(one is None or (one.name, one.params) == (call.name, call.params) for one in of_same_id)


def _requests_of(message: AssistantMessage) -> list[_Request]:
    calls: dict[str, list[ToolCallPart]] = {}
    for part in message.content:
        if part.type == "tool-call":
            calls.setdefault(part.id, []).append(part)

    def about(call_id: str) -> ToolCallPart | None:
        made = calls.get(call_id, [])
        return made[0] if len(made) == 1 else None

    return [
        _Request(part, about(part.tool_call_id)) for part in message.content if part.type == "tool-approval-request"
    ]


def _answer(said: ToolApprovalResponsePart, turn: list[_Request]) -> _Request | InvalidApprovalError:
    """The request that is answered by it now; or what is wrong with the answer."""
    asked = [one for one in turn if one.part.approval_id == said.approval_id]
    if not asked:
        return InvalidApprovalError(said.approval_id, "no-request")
    request = asked[0]
    if request.of_provider:
        return request
    if request.call is None:
        return InvalidApprovalError(said.approval_id, "no-call", f"the call {request.part.tool_call_id!r}")
    if len(asked) > 1 or sum(one.call is request.call for one in turn) > 1:
        return InvalidApprovalError(said.approval_id, "altered", "there are two requests where there was one")
    if request.settled:
        return InvalidApprovalError(said.approval_id, "used", f"its call {request.call.id!r} has a result")
    request.said = _stronger(request.said, said)
    return request


def without_settled(prompt: Prompt) -> Prompt:
    """What a model is shown of a history: everything but the requests and answers that are settled."""
    if not concerns(prompt):
        return prompt
    history = read(prompt)
    return Prompt(without(prompt, history)) if history.settled or history.repeated else prompt


def without(messages: Iterable[Message], history: History) -> list[Message]:
    """The messages without requests and answers that are settled: what a model is shown.

    Of answers to a provider's own request that stand there more than once, the one that counts stands where the first
    one did.
    """
    shown: list[Message] = []
    repeated = dict(history.repeated)
    for message in messages:
        if message.role == "system" or message.role == "user":
            shown.append(message)
            continue
        kept = _unsettled(message, history, repeated)
        if kept == message.content:
            shown.append(message)
        elif kept:
            shown.append(msgspec.structs.replace(message, content=kept))
    return shown


def _unsettled(
    message: AssistantMessage | ToolMessage, history: History, repeated: dict[str, ToolApprovalResponsePart]
) -> tuple[Any, ...]:
    kept: list[Any] = []
    for part in message.content:
        approval: str | None = getattr(part, "approval_id", None)
        if approval is None or (approval not in history.settled and approval not in history.repeated):
            kept.append(part)
        elif part.type != "tool-approval-response":
            kept += [] if approval in history.settled else [part]
        elif approval in repeated:
            kept.append(repeated.pop(approval))
    return tuple(kept)


def is_waiting(prompt: Prompt, tools: Mapping[str, Tool[Any, Any, Any]]) -> bool:
    """Whether calls of the last turn wait for somebody else's results, with nothing said since but other results."""
    answered: set[str] = set()
    for at in range(len(prompt) - 1, -1, -1):
        message = prompt[at]
        if message.role == "tool":
            answered.update(part.id for part in message.content if part.type == "tool-result")
        elif message.role == "assistant":
            calls = [part for part in message.content if part.type == "tool-call" and part.id not in answered]
            return any(call.name in tools and not tools[call.name].requires_handler for call in calls)
        else:
            return False
    return False
