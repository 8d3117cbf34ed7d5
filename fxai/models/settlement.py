"""Settlement: what a history says about approvals, done before a model is asked.

Calls that were approved run, exactly as they stand there; those that were denied get a result that says so. One answer
that is not to be trusted, and nothing runs at all.

>>> from fxai.effects import fx
>>> from fxai.messages.message import UserMessage
>>> from fxai.tools.toolkit import Toolkit
>>> settled(Prompt((UserMessage.make("Hello"),)), Resolution(Toolkit.empty().tools)) is None
True
"""

from __future__ import annotations

from typing import Any, final

import msgspec
from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.concurrency import for_each
from fxai.effects.effect import EffectOf, FailCause, Succeed
from fxai.messages.content import ToolCallPart
from fxai.messages.errors import AiError, InvalidApprovalError, Reason, ToolkitRequiredError
from fxai.messages.part import Finish, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.answered import Answered, History, concerns, is_waiting, read, without
from fxai.models.approval import Authority, authority
from fxai.models.resolve import Emit, Resolution, Turn, with_responses
from fxai.tools.failure import Denied, UnknownTool

__all__ = ["Settled", "settled"]

_NO_REASON = "it was not approved"


@final
class Settled(msgspec.Struct, frozen=True):
    """A history whose approvals are settled."""

    history: Prompt
    """The history, each new result behind the turn that made its call."""
    shown: Prompt
    """What the model is shown: the same without the requests and answers that are settled."""
    results: tuple[ToolResult, ...] = ()
    """The new results, in the order of the calls."""
    waiting: bool = False
    """Whether it still waits for answers or for results of others, so that the model is not to be asked."""

    @property
    def pending(self) -> Response:
        """What a round gives where the model is not asked."""
        return Response((*self.results, Finish("pending")))

    @override
    def __hash__(self) -> int:
        return hash((self.history, self.waiting))


def settled(prompt: Prompt, resolution: Resolution, emit: Emit | None = None) -> EffectOf[Settled, Any, Any] | None:
    """The effect that settles the history; None where there is nothing to settle.

    Fails with `AiError` for `InvalidApprovalError` and `ToolkitRequiredError`, with `UnknownTool` for an approved call
    of a tool that is not there, before anything runs; and as a round, when the approved calls have ended.
    """
    if not concerns(prompt):
        return None
    history = read(prompt)
    if history.problem is not None:
        return _refused(history.problem)
    waiting = history.waiting or is_waiting(prompt, resolution.tools)
    if not history.answered and not history.settled and not waiting:
        return None
    if not history.answered:
        return Succeed(_settled(prompt, history, (), waiting))
    if not resolution.tools:
        return _refused(ToolkitRequiredError(tuple(one.call.name for one in history.answered)))
    return authority().flat_map(lambda who: _Settling(prompt, history, resolution, waiting, who).run(emit))


def _settled(prompt: Prompt, history: History, results: tuple[ToolResult, ...], waiting: bool) -> Settled:
    whole = prompt.with_response(results)
    shown = Prompt(without(whole, history.settled)) if history.settled else whole
    return Settled(whole, shown, results, waiting)


def _refused(reason: Reason) -> EffectOf[Any, AiError]:
    return FailCause(Cause((Fail(AiError("LanguageModel", "settle", reason)),)))


@final
class _Settling:
    """A history that is being settled."""

    __slots__ = ("_history", "_prompt", "_resolution", "_waiting", "_who")

    def __init__(self, prompt: Prompt, history: History, resolution: Resolution, waiting: bool, who: Authority) -> None:
        self._prompt = prompt
        self._history = history
        self._waiting = waiting
        self._who = who
        self._resolution = msgspec.structs.replace(resolution, choice="auto", repair=None, approved=True)

    def run(self, emit: Emit | None) -> EffectOf[Settled, Any, Any]:
        """Checks every answer, then uses the approvals, then runs the calls."""
        approved = [one for one in self._history.answered if one.approved]
        for one in approved:
            tool = self._resolution.tools.get(one.call.name)
            if tool is None:
                return FailCause(Cause((Fail(UnknownTool(one.call.name, tuple(self._resolution.tools))),)))
            problem = self._who.problem(one.request, one.call, tool)
            if problem is not None:
                return _refused(InvalidApprovalError(one.request.approval_id, problem, _about(one)))
        uses = {one.request.approval_id: one.request.expires for one in approved}
        return self._who.ledger.claim(uses).flat_map(lambda used: self._claimed(used, approved, emit))

    def _claimed(
        self, used: tuple[str, ...], approved: list[Answered], emit: Emit | None
    ) -> EffectOf[Settled, Any, Any]:
        if used:
            about = next(_about(one) for one in approved if one.request.approval_id == used[0])
            return _refused(InvalidApprovalError(used[0], "used", about))
        turn = Turn((*[_call(one.call) for one in approved], Finish("tool-calls")), self._resolution)
        told = [_denied(one) for one in self._history.answered if not one.approved]
        ran = turn.resolve(emit).flat_map(lambda _: self._ended(turn, told))
        return ran if emit is None else for_each(told, emit).and_then(ran)

    def _ended(self, turn: Turn, told: list[ToolResult]) -> EffectOf[Settled, Any]:
        places = {one.call.id: at for at, one in enumerate(self._history.answered)}
        results = tuple(sorted([*told, *turn.response().tool_results], key=lambda result: places[result.id]))
        if turn.failed is not None:
            return FailCause(with_responses(turn.failed, Response(results)))
        return Succeed(_settled(self._prompt, self._history, results, self._waiting))


def _about(one: Answered) -> str:
    return f"the call {one.call.id!r} of {one.call.name!r}"


def _call(part: ToolCallPart) -> ToolCall:
    return ToolCall(part.id, part.name, part.params, dynamic=part.dynamic, metadata=part.metadata)


def _denied(one: Answered) -> ToolResult:
    reason = one.reason or _NO_REASON
    denied = Denied(one.call.name, reason)
    encoded = {"type": "execution-denied", "reason": reason}
    return ToolResult(one.call.id, one.call.name, denied, encoded, is_failure=True, dynamic=one.call.dynamic)
