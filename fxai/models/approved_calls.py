"""Approved calls: run the calls that a history approves, before the request. Rounds and agents use this module.

fxai runs approved calls exactly as the history contains them. Denied calls get a result that states the denial. If one
answer is invalid, fxai runs no call. Before fxai runs calls, it records them in the ledger, and a memory can commit the
history with unknown outcomes of the calls. If the process then stops, no call runs again without a new approval.

>>> from fxai.effects import fx
>>> from fxai.messages.message import UserMessage
>>> from fxai.tools.toolkit import Toolkit
>>> resolve_approvals(Prompt((UserMessage.make("Hello"),)), Resolution(Toolkit.empty().tools)) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, final

import msgspec

from fxai.effects.constructor import fail
from fxai.effects.effect import AnyEffect, Ask, EffectOf, FailCause, Generate, Succeed
from fxai.effects.stream import AnyStream, StreamOf
from fxai.messages.calls import UNANSWERED
from fxai.messages.errors import AiError
from fxai.messages.part import Finish, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.reason import ApprovalProblem, InvalidApprovalError, Reason, ToolkitRequiredError
from fxai.messages.response import Response
from fxai.models.approval import (
    AnsweredRequest,
    ApprovalHistory,
    Authority,
    authority,
    has_turns,
    is_waiting,
    read_approvals,
    without_requests,
)
from fxai.models.approval_services import ApprovalLedger, ApprovalUse
from fxai.models.interceptor import interceptor_of
from fxai.models.model_request import Resolution
from fxai.models.round import Emit, RoundTurn, Steps
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    InDoubt,
    UnknownTool,
    failed_result,
    with_responses,
)

_A = TypeVar("_A")

OnResolved: TypeAlias = Callable[[Prompt], AnyEffect]
"""Receives the history to commit if the run stops now.

Before approved calls run, each of them has an unknown outcome. After they ended, including calls that failed, the
history contains their results.
"""

_NO_REASON: Final = "the user denied the call without a reason"
_BEGUN: Final = "the call was approved and started, but its end is unknown. Check its effect before you call it again."
_BEFORE: Final = "the call was approved before and may have run. Check its effect before you call it again."
_PROBLEMS: Final[Mapping[ApprovalUse, ApprovalProblem]] = {"begun": "in-doubt", "denied": "denied"}


@final
class ResolvedHistory(msgspec.Struct, frozen=True):
    """A history after its approvals were processed."""

    history: Prompt
    """The history, with each new result after the turn of its call."""
    shown: Prompt
    """The history for the model, without processed requests and answers."""
    results: tuple[ToolResult, ...] = ()
    """The new results, in the order of the calls."""
    waiting: bool = False
    """True if the history still needs answers or external results, so that fxai sends no request."""

    @property
    def pending(self) -> Response:
        """The response of a round without a request to the model."""
        return Response((*self.results, Finish("pending")))


Resolving: TypeAlias = Callable[[Emit | None], EffectOf[ResolvedHistory, Any, Any]]
"""Returns the effect that processes a history. The effect passes each result to `emit` immediately."""


def resolve_approvals(
    prompt: Prompt, resolution: Resolution, on_resolved: OnResolved | None = None
) -> Resolving | None:
    """Return a function that processes the approvals of the history, or None if it has none.

    Its effect fails with `AiError` for `InvalidApprovalError` and `ToolkitRequiredError`, and with `UnknownTool` if the
    tool of an approved call does not exist. These failures happen before fxai runs a call. After the approved calls
    ended, it fails like a round. It also fails like `on_resolved`. If the first call of `on_resolved` fails, no call
    runs.
    """
    if not has_turns(prompt):
        return None
    history = read_approvals(prompt)
    waiting = history.waiting or is_waiting(prompt, resolution.tools)
    if history.problem is not None or history.answered or history.denied:
        return lambda emit: Generate(_resolve, (prompt, history, resolution, waiting, emit, on_resolved), {})
    if not waiting and not history.finished and not history.repeated:
        return None
    resolved = _resolved_history(prompt, history, (), waiting)
    return lambda _: Succeed(resolved)


def relay(program: Callable[[Emit | None], EffectOf[_A, Any, Any]], emit: Emit | None) -> EffectOf[_A, Any, Any]:
    """Run a program that emits parts concurrently. Pass each part to `emit`, and return the value of the program."""
    if emit is None:
        return program(None)
    values: list[_A] = []
    parts: AnyStream = StreamOf.from_channel(lambda channel: program(channel.put).map(values.append))
    return parts.for_each(emit).map(lambda _: values[0])


def _resolved_history(
    prompt: Prompt, history: ApprovalHistory, results: tuple[ToolResult, ...], waiting: bool
) -> ResolvedHistory:
    whole = prompt.with_response(results)
    shown = Prompt(without_requests(whole, history)) if history.finished or history.repeated else whole
    return ResolvedHistory(whole, shown, results, waiting)


def _resolve(
    prompt: Prompt,
    history: ApprovalHistory,
    resolution: Resolution,
    waiting: bool,
    emit: Emit | None,
    on_resolved: OnResolved | None,
) -> Steps:
    """Record denials, check all answers, record approvals, run the calls, and return the processed history."""
    checking = yield authority()
    doubtful = yield from _use_denied(history, checking)
    problem = _problem(history, checking, resolution.tools)
    if problem is not None:
        yield fail(problem)
    unrun = [_unrun_result(one, doubtful) for one in history.answered if not one.approved]
    approved = [one for one in history.answered if one.approved]
    if approved:
        yield from _use_approved(approved, checking.ledger)
        if on_resolved is not None:  # commit before any call runs
            doubts = [failed_result(one.call, InDoubt(one.call.name, _BEGUN)) for one in approved]
            yield on_resolved(prompt.with_response(_in_order([*unrun, *doubts], history)))
    if emit is not None:
        for result in unrun:
            yield emit(result)
    allowed = msgspec.structs.replace(resolution, choice="auto", repair=None, approved=True)
    around = yield Ask(interceptor_of)
    parts = [one.call for one in approved]
    calls = [ToolCall(one.id, one.name, one.params, dynamic=one.dynamic, metadata=one.metadata) for one in parts]
    turn = RoundTurn((*calls, Finish("tool-calls")), allowed, around, "approved")
    yield turn.resolve(emit)
    if approved:
        yield checking.ledger.finish([one.request.approval_id for one in approved]).catch_all(_log_unmarked)
    results, failed = _in_order([*unrun, *turn.response().tool_results], history), turn.failed
    done = _resolved_history(prompt, history, results, waiting)
    is_defect = failed is not None and (failed.defects or not failed.failures)
    if on_resolved is not None and results and not is_defect:
        yield on_resolved(done.history)
    if failed is not None:
        yield FailCause(with_responses(failed, Response(results)))
    return done


def _use_denied(history: ApprovalHistory, checking: Authority) -> Steps:
    """Record denials, and return the refused approvals whose call had already run."""
    denied = {one.approval_id: one.expires for one in history.denied if checking.is_signed(one)}
    unanswered = [one.request.approval_id for one in history.answered if one.answer.unanswered is not None]
    before: tuple[str, ...] = (yield checking.ledger.deny(denied)) if denied else ()
    uses: Mapping[str, ApprovalUse] = (yield checking.ledger.look_up(unanswered)) if unanswered else {}
    return (*before, *(approval for approval, use in uses.items() if use != "denied"))


def _use_approved(approved: list[AnsweredRequest], ledger: ApprovalLedger) -> Steps:
    """Record approvals as used. Fail if an approval was used before."""
    before: tuple[str, ...] = yield ledger.claim({one.request.approval_id: one.request.expires for one in approved})
    if before:
        about = next(_about(one) for one in approved if one.request.approval_id == before[0])
        uses: Mapping[str, ApprovalUse] = yield ledger.look_up(before[:1])
        problem: ApprovalProblem = _PROBLEMS.get(uses.get(before[0], "used"), "used")
        yield fail(_error(InvalidApprovalError(before[0], problem, about)))


def _problem(
    history: ApprovalHistory, checking: Authority, tools: Mapping[str, AnyTool]
) -> AiError | UnknownTool | None:
    if history.problem is not None:
        return _error(history.problem)
    if history.answered and not tools:
        return _error(ToolkitRequiredError(tuple(one.call.name for one in history.answered)))
    for one in history.approved:
        tool = tools.get(one.call.name)
        if tool is None:
            return UnknownTool(one.call.name, tuple(tools))
        problem = checking.problem(one.request, one.call, tool)
        if problem is not None:
            return _error(InvalidApprovalError(one.request.approval_id, problem, _about(one)))
    return None


def _error(reason: Reason) -> AiError:
    return AiError("LanguageModel", "resolve", reason)


def _log_unmarked(error: AiError) -> EffectOf[None]:
    """Log that the ledger could not mark calls as ended. Their outcome stays unknown there, but no result is lost."""
    import logging  # few ledgers break

    logging.getLogger("fxai.models").warning("ledger could not record the end of calls: %s", error)
    return Succeed(None)


def _in_order(results: list[ToolResult], history: ApprovalHistory) -> tuple[ToolResult, ...]:
    locations = {one.call.id: index for index, one in enumerate(history.answered)}
    return tuple(sorted(results, key=lambda result: locations[result.id]))


def _about(one: AnsweredRequest) -> str:
    return f"call {one.call.id!r} of {one.call.name!r}"


def encode_denial(reason: str | None) -> dict[str, str]:
    """Return the report that a model receives about a denied call, with the reason for the denial."""
    return {"type": "execution-denied", "reason": reason or _NO_REASON}


def _unrun_result(one: AnsweredRequest, doubtful: tuple[str, ...]) -> ToolResult:
    """Return the result of a refused call. If its approval was used before, the outcome is unknown."""
    call, reason = one.call, one.answer.reason
    if one.request.approval_id in doubtful:
        return failed_result(
            call, InDoubt(call.name, _BEFORE if reason is None else f"{_BEFORE} The user has now denied it: {reason}")
        )
    if one.answer.unanswered is not None:
        why = reason or UNANSWERED[one.answer.unanswered]
        is_late = one.answer.unanswered == "expired"
        return failed_result(call, ApprovalExpired(call.name, why) if is_late else ApprovalUnavailable(call.name, why))
    encoded = encode_denial(reason)
    denied = Denied(call.name, encoded["reason"])
    return ToolResult(call.id, call.name, denied, encoded, is_failure=True, dynamic=call.dynamic)
