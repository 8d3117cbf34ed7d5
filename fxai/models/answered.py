"""What a history says of approvals: which are open, which are answered and not settled, and what is wrong with it.

>>> from fxai.messages.content import ToolApprovalRequestPart, ToolApprovalResponsePart
>>> from fxai.messages.message import AssistantMessage, ToolMessage
>>> turn = AssistantMessage.make(ToolCallPart("c", "wipe", {}), ToolApprovalRequestPart("a", "c"))
>>> asked = Prompt((turn, ToolMessage.make(ToolApprovalResponsePart("a", True))))
>>> [(one.call.name, one.approved) for one in read(asked).answered]
[('wipe', True)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import msgspec
from typing_extensions import override

from fxai.messages.content import ToolApprovalRequestPart, ToolApprovalResponsePart, ToolCallPart
from fxai.messages.errors import InvalidApprovalError
from fxai.messages.message import AssistantMessage, Message
from fxai.messages.prompt import Prompt
from fxai.tools.tool import Tool

__all__ = ["Answered", "History", "concerns", "is_waiting", "read", "shown", "without"]


@final
class Answered(msgspec.Struct, frozen=True):
    """An approval that is answered, and whose call has no result yet."""

    request: ToolApprovalRequestPart
    call: ToolCallPart
    approved: bool
    reason: str | None = None

    @override
    def __hash__(self) -> int:
        return hash((self.request, self.approved))


@final
class History(msgspec.Struct, frozen=True):
    """What a history says of approvals."""

    answered: tuple[Answered, ...]
    """Answered and not settled: to be run, or denied."""
    settled: frozenset[str]
    """The ids of all approvals that are answered."""
    waiting: bool
    """Whether the last turn has open requests, and nothing was said since but what came back for its calls."""
    problem: InvalidApprovalError | None = None
    """What is wrong with an answer; then nothing is to be run."""


@final
class _Request:
    """A request of a turn that is read, its call, and what was answered."""

    __slots__ = ("approved", "call", "part", "reason", "settled")

    def __init__(self, part: ToolApprovalRequestPart, call: ToolCallPart | None) -> None:
        self.part = part
        self.call = call
        self.approved: bool | None = None
        self.reason: str | None = None
        self.settled = False

    @property
    def of_provider(self) -> bool:
        return self.call is not None and self.call.provider_executed

    def answer(self, said: ToolApprovalResponsePart) -> None:
        """A denial wins over an approval, whichever comes first."""
        if self.approved is not False:
            self.approved, self.reason = said.approved, said.reason


def concerns(prompt: Prompt) -> bool:
    """Whether there is anything of approvals or of open calls in it to be looked at."""
    return any(message.role == "assistant" or message.role == "tool" for message in prompt)


def read(prompt: Prompt) -> History:
    """What the history says of approvals; those of calls that a provider runs are the provider's."""
    every: list[_Request] = []
    turn: list[_Request] = []
    problem: InvalidApprovalError | None = None
    for message in prompt:
        if message.role == "assistant":
            turn = _requests_of(message)
            every += turn
        elif message.role == "tool":
            for part in message.content:
                if part.type == "tool-approval-response":
                    problem = problem or _heard(part, turn)
                else:
                    _settle(part.id, turn)

    is_open = any(one.approved is None and not one.settled and not one.of_provider for one in turn)
    return _history(every, is_open and prompt[-1].role in ("assistant", "tool"), problem)


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


def _settle(call_id: str, turn: list[_Request]) -> None:
    for request in turn:
        if request.part.tool_call_id == call_id:
            request.settled = True


def _heard(said: ToolApprovalResponsePart, turn: list[_Request]) -> InvalidApprovalError | None:
    asked = [one for one in turn if one.part.approval_id == said.approval_id]
    if not asked:
        return InvalidApprovalError(said.approval_id, "no-request")
    request = asked[0]
    if request.of_provider:
        return None
    if request.call is None:
        return InvalidApprovalError(said.approval_id, "no-call", f"the call {request.part.tool_call_id!r}")
    if len(asked) > 1 or sum(one.call is request.call for one in turn) > 1:
        return InvalidApprovalError(said.approval_id, "altered", "there are two requests where there was one")
    if request.settled:
        return InvalidApprovalError(said.approval_id, "used", f"its call {request.call.id!r} has a result")
    request.answer(said)
    return None


def _history(requests: list[_Request], waiting: bool, problem: InvalidApprovalError | None) -> History:
    ours = [one for one in requests if not one.of_provider]
    answered = tuple(
        Answered(one.part, one.call, one.approved, one.reason)
        for one in ours
        if one.call is not None and one.approved is not None and not one.settled
    )
    settled = frozenset(one.part.approval_id for one in ours if one.approved is not None or one.settled)
    return History(answered, settled, waiting, problem)


def shown(prompt: Prompt) -> Prompt:
    """What a model is shown of a history: everything but the requests and answers that are settled."""
    if not concerns(prompt):
        return prompt
    settled = read(prompt).settled
    return Prompt(without(prompt, settled)) if settled else prompt


def without(messages: Iterable[Message], settled: frozenset[str]) -> list[Message]:
    """The messages without the requests and answers of these approvals: what a model is shown."""
    shown: list[Message] = []
    for message in messages:
        if message.role == "system" or message.role == "user":
            shown.append(message)
            continue
        parts: tuple[Any, ...] = message.content
        kept = tuple(part for part in parts if getattr(part, "approval_id", None) not in settled)
        if len(kept) == len(message.content):
            shown.append(message)
        elif kept:
            shown.append(msgspec.structs.replace(message, content=kept))
    return shown


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
