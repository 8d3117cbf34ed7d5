"""Settlement: what a history says about approvals, done before a model is asked.

Calls that were approved run, exactly as they stand there; those that were denied get a result that says so. One answer
that is not to be trusted, and nothing runs at all. Before anything runs, the ledger has it, and the history may be kept
with the calls in doubt: whatever stops the process then, nothing is run again unasked.

>>> from fxai.effects import fx
>>> from fxai.messages.message import UserMessage
>>> from fxai.tools.toolkit import Toolkit
>>> settled(Prompt((UserMessage.make("Hello"),)), Resolution(Toolkit.empty().tools)) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.concurrency import for_each
from fxai.effects.effect import EffectOf, FailCause, Succeed, Suspend
from fxai.messages.calls import UNANSWERED
from fxai.messages.errors import AiError, ApprovalProblem, InvalidApprovalError, Reason, ToolkitRequiredError
from fxai.messages.message import ToolCallPart
from fxai.messages.part import Finish, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.answered import Answered, History, concerns, is_waiting, read, without
from fxai.models.approval import Authority, authority
from fxai.models.approval_services import ApprovalUse
from fxai.models.resolve import Emit, Resolution, Turn, with_responses
from fxai.tools.failure import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    InDoubt,
    UnknownTool,
    encode_failure,
)

__all__ = ["OnSettled", "Settled", "settled"]

OnSettled: TypeAlias = Callable[[Prompt], EffectOf[Any, Any, Any]]
"""Is told the history as it is to be known if nothing comes after.

Before approved calls run, each of them is in doubt there; when they have ended, also where one of them failed, their
results stand in its place.
"""

_NO_REASON: Final = "the user denied it, and gave no reason"
_BEGUN: Final = "it was approved and begun, and whether it ran to its end is not known; look before calling it again"
_BEFORE: Final = "it was approved before, and may have been run; look before calling it again"
_PROBLEMS: Final[Mapping[ApprovalUse, ApprovalProblem]] = {"begun": "in-doubt", "denied": "denied"}


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


def settled(
    prompt: Prompt, resolution: Resolution, emit: Emit | None = None, on_settled: OnSettled | None = None
) -> EffectOf[Settled, Any, Any] | None:
    """The effect that settles the history; None where there is nothing to settle.

    Fails with `AiError` for `InvalidApprovalError` and `ToolkitRequiredError`, with `UnknownTool` for an approved call
    of a tool that is not there, before anything runs; and as a round, when the approved calls have ended. It fails as
    `on_settled` does, before anything runs where that fails first.
    """
    if not concerns(prompt):
        return None
    history = read(prompt)
    if history.problem is None and not history.answered and not history.denied:
        waiting = history.waiting or is_waiting(prompt, resolution.tools)
        is_seen_as_is = not (history.settled or history.repeated)
        return None if is_seen_as_is and not waiting else Succeed(_settled(prompt, history, (), waiting))
    settling = authority().flat_map(lambda who: _Settling(prompt, history, resolution, who, on_settled).run(emit))
    return settling if on_settled is None else _keeping(settling, prompt, on_settled)


def _keeping(
    settling: EffectOf[Settled, Any, Any], prompt: Prompt, on_settled: OnSettled
) -> EffectOf[Settled, Any, Any]:
    """The same, when what was run is kept: also where one of the calls failed."""

    def keep(done: Settled) -> EffectOf[Settled, Any, Any]:
        return on_settled(done.history).as_(done) if done.results else Succeed(done)

    def failed(error: Any) -> EffectOf[Any, Any, Any]:
        fails: EffectOf[Any, Any, Any] = FailCause(Cause((Fail(error),)))
        response: Response | None = getattr(error, "response", None)
        return fails if response is None else on_settled(prompt.with_response(response.content)).and_then(fails)

    return settling.catch_all(failed).flat_map(keep)


def _settled(prompt: Prompt, history: History, results: tuple[ToolResult, ...], waiting: bool) -> Settled:
    whole = prompt.with_response(results)
    shown = Prompt(without(whole, history)) if history.settled or history.repeated else whole
    return Settled(whole, shown, results, waiting)


def _refused(reason: Reason) -> EffectOf[Any, AiError]:
    return FailCause(Cause((Fail(AiError("LanguageModel", "settle", reason)),)))


@final
class _Settling:
    """A history that is being settled."""

    __slots__ = ("_approved", "_history", "_on_settled", "_prompt", "_resolution", "_waiting", "_who")

    def __init__(
        self, prompt: Prompt, history: History, resolution: Resolution, who: Authority, on_settled: OnSettled | None
    ) -> None:
        self._prompt = prompt
        self._history = history
        self._approved = [one for one in history.answered if one.approved]
        self._waiting = history.waiting or is_waiting(prompt, resolution.tools)
        self._who = who
        self._on_settled = on_settled
        self._resolution = msgspec.structs.replace(resolution, choice="auto", repair=None, approved=True)

    def run(self, emit: Emit | None) -> EffectOf[Settled, Any, Any]:
        """Uses up what is denied, checks every answer, uses up what is approved, then runs the calls."""
        return self._used_before().flat_map(lambda before: self._checked(before, emit))

    def _used_before(self) -> EffectOf[tuple[str, ...], Any, Any]:
        """Which of the approvals that now are not given let their call run before; what is denied is used up."""
        ledger, signed = self._who.ledger, self._who.is_signed
        denied = {one.approval_id: one.expires for one in self._history.denied if signed(one)}
        unanswered = [one.request.approval_id for one in self._history.answered if one.said.unanswered is not None]
        before: EffectOf[tuple[str, ...], Any, Any] = ledger.deny(denied) if denied else Succeed(())
        if not unanswered:
            return before

        def known(uses: Mapping[str, ApprovalUse]) -> tuple[str, ...]:
            return tuple(one for one, use in uses.items() if use != "denied")

        return before.flat_map(lambda some: ledger.look_up(unanswered).map(lambda uses: (*some, *known(uses))))

    def _checked(self, doubtful: tuple[str, ...], emit: Emit | None) -> EffectOf[Settled, Any, Any]:
        refused = self._problem()
        if refused is not None:
            return refused
        told = [_unrun(one, doubtful) for one in self._history.answered if not one.approved]
        if not self._approved:
            return self._run(told, emit)
        uses = {one.request.approval_id: one.request.expires for one in self._approved}
        claimed = self._who.ledger.claim(uses)
        return claimed.flat_map(lambda before: self._used(before) if before else self._begin(told, emit))

    def _problem(self) -> EffectOf[Any, Any] | None:
        """What is wrong with the answers, if anything."""
        tools = self._resolution.tools
        if self._history.problem is not None:
            return _refused(self._history.problem)
        if self._history.answered and not tools:
            return _refused(ToolkitRequiredError(tuple(one.call.name for one in self._history.answered)))
        for one in self._history.approved:
            tool = tools.get(one.call.name)
            if tool is None:
                return FailCause(Cause((Fail(UnknownTool(one.call.name, tuple(tools))),)))
            problem = self._who.problem(one.request, one.call, tool)
            if problem is not None:
                return _refused(InvalidApprovalError(one.request.approval_id, problem, _about(one)))
        return None

    def _used(self, before: tuple[str, ...]) -> EffectOf[Any, AiError]:
        about = next(_about(one) for one in self._approved if one.request.approval_id == before[0])

        def refuse(uses: Mapping[str, ApprovalUse]) -> EffectOf[Any, AiError]:
            problem: ApprovalProblem = _PROBLEMS.get(uses.get(before[0], "used"), "used")
            return _refused(InvalidApprovalError(before[0], problem, about))

        return self._who.ledger.look_up(before[:1]).flat_map(refuse)

    def _begin(self, told: list[ToolResult], emit: Emit | None) -> EffectOf[Settled, Any, Any]:
        """The approvals are used up: it is kept, if anybody wants to, before anything runs."""
        running = Suspend(lambda: self._run(told, emit))
        if self._on_settled is None:
            return running
        doubts = [_in_doubt(one.call, _BEGUN) for one in self._approved]
        return self._on_settled(self._prompt.with_response(self._in_order([*told, *doubts]))).and_then(running)

    def _run(self, told: list[ToolResult], emit: Emit | None) -> EffectOf[Settled, Any, Any]:
        turn = Turn((*[_call(one.call) for one in self._approved], Finish("tool-calls")), self._resolution)
        ran: EffectOf[Any, Any, Any] = turn.resolve(emit)
        if self._approved:
            ran = ran.and_then(self._finish())
        ended = ran.and_then(Suspend(lambda: self._ended(turn, told)))
        return ended if emit is None or not told else for_each(told, emit).and_then(ended)

    def _finish(self) -> EffectOf[None, Any, Any]:
        """Marks the calls as ended; where that fails they stay in doubt, and their results are not lost."""

        def unmarked(error: AiError) -> EffectOf[None]:
            import logging  # few ledgers break

            logging.getLogger("fxai.models").warning("the calls have ended and stay in doubt in the ledger: %s", error)
            return Succeed(None)

        return self._who.ledger.finish([one.request.approval_id for one in self._approved]).catch_all(unmarked)

    def _ended(self, turn: Turn, told: list[ToolResult]) -> EffectOf[Settled, Any]:
        results = self._in_order([*told, *turn.response().tool_results])
        if turn.failed is not None:
            return FailCause(with_responses(turn.failed, Response(results)))
        return Succeed(_settled(self._prompt, self._history, results, self._waiting))

    def _in_order(self, results: list[ToolResult]) -> tuple[ToolResult, ...]:
        places = {one.call.id: at for at, one in enumerate(self._history.answered)}
        return tuple(sorted(results, key=lambda result: places[result.id]))


def _about(one: Answered) -> str:
    return f"the call {one.call.id!r} of {one.call.name!r}"


def _call(part: ToolCallPart) -> ToolCall:
    return ToolCall(part.id, part.name, part.params, dynamic=part.dynamic, metadata=part.metadata)


def _unrun(one: Answered, doubtful: tuple[str, ...]) -> ToolResult:
    """What is told of a call that is not run: where its approval was used before, that it may have been run then."""
    call, reason = one.call, one.said.reason
    if one.request.approval_id in doubtful:
        return _in_doubt(call, _BEFORE if reason is None else f"{_BEFORE}; denied now: {reason}")
    if one.said.unanswered is not None:
        why = reason or UNANSWERED[one.said.unanswered]
        is_late = one.said.unanswered == "expired"
        return _result_of(call, ApprovalExpired(call.name, why) if is_late else ApprovalUnavailable(call.name, why))
    denied = Denied(call.name, reason or _NO_REASON)
    encoded = {"type": "execution-denied", "reason": denied.reason}
    return ToolResult(call.id, call.name, denied, encoded, is_failure=True, dynamic=call.dynamic)


def _in_doubt(call: ToolCallPart, why: str) -> ToolResult:
    return _result_of(call, InDoubt(call.name, why))


def _result_of(call: ToolCallPart, failure: ApprovalExpired | ApprovalUnavailable | InDoubt) -> ToolResult:
    return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)
