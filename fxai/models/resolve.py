"""Resolution: the calls of a model's turn, run through a toolkit, each answered by exactly one result.

Calls run only when the model finished its turn; a turn that was cut has its calls answered by `Interrupted`. A call
outside the tool choice is answered by `Denied`. In place of the result of a call that needs approval stands a request
for it, and the turn ends with `"pending"`. A handler that fails in failure mode `"error"`, or with a defect, neither
cancels its siblings nor loses their results: they finish, then the failure is told, with the response so far.

>>> from fxai.tools.toolkit import Toolkit
>>> turn = Turn((ToolCall("c1", "add", {}), Finish("length")), Resolution(Toolkit.empty().tools))
>>> from fxai.effects import fx
>>> fx.run_sync(turn.resolve().map(lambda _: turn.response())).tool_results[0].result.reason
"the model's turn was cut off (length), so its calls were not run"
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, final

import msgspec
from returns.result import Success

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.concurrency import for_each
from fxai.effects.constructor import lift_any
from fxai.effects.effect import EffectOf, FailCause, Fold, Map, Succeed, Suspend, Then
from fxai.messages.message import merge_metadata
from fxai.messages.part import (
    ApprovalRequest,
    Finish,
    FinishReason,
    Part,
    StreamPart,
    ToolCall,
    ToolParamsStart,
    ToolResult,
    WarningPart,
)
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.approval import authority
from fxai.models.choice import ToolChoices, allowed, refusal
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.call import Call, OnInvalidCall, Outcome, model_output
from fxai.tools.failure import (
    CallFailure,
    Denied,
    HandlerFailed,
    Interrupted,
    InvalidParameters,
    ToolError,
    UnknownTool,
    encode_failure,
)
from fxai.tools.tool import Tool

__all__ = ["Emit", "Repair", "Resolution", "Turn", "with_response", "with_responses"]

Repair: TypeAlias = Callable[
    [ToolCall, UnknownTool | InvalidParameters],
    ToolCall | EffectOf[ToolCall | None, Any, Any] | Awaitable[ToolCall | None] | None,
]
"""Mends a call that is invalid, once: gives another call in its place, or None to let it fail; or an effect of these.

Where it fails, or gives a call that may not be run, the call fails as it would have: its result and a warning say why
it was not mended. What it raises is a defect, as is anything else that it gives.

The other call takes the place of the first one in the response and in the history, under its id, marked as `repaired`.
In a stream it comes as a second call of that id, before its result. A call whose parameters fit once JSON text in them
is read (see `JsonText`) needs no repair.
"""

Emit: TypeAlias = Callable[[StreamPart], EffectOf[None]]
"""Takes a part as soon as it is there."""

_Calling = TypeVar("_Calling", ToolCall, ToolParamsStart)
_Ended: TypeAlias = Outcome | ApprovalRequest
_FINISHED: frozenset[FinishReason] = frozenset(("stop", "tool-calls", "pause"))


@final
class Resolution(msgspec.Struct, frozen=True):
    """How calls are to be resolved."""

    tools: Mapping[str, Tool[Any, Any, Any]]
    choice: ToolChoices = "auto"
    concurrency: int | None = None
    on_invalid_call: OnInvalidCall = "return"
    repair: Repair | None = None
    prompt: Prompt | None = None
    deadline: float | None = None
    limits: Limits = CALL_LIMITS
    approved: bool = False
    """Whether somebody has approved the calls."""
    warnings: tuple[WarningPart, ...] = ()
    """What was asked of the round and is not done: the first parts of its response."""

    def flagged(self, part: _Calling) -> _Calling:
        """A call, or the beginning of one, marked as dynamic where its tool is a dynamic one."""
        tool = None if part.dynamic else self.tools.get(part.name)
        if tool is not None and tool.identity.kind == "dynamic":
            return msgspec.structs.replace(part, dynamic=True)
        return part

    def result(self, call: ToolCall, outcome: Outcome) -> ToolResult:
        """The outcome of a call as a part of the response."""
        tool = self.tools.get(call.name)
        shows = tool is not None and tool.to_model_output is not None and not outcome.is_failure
        encoded = model_output(tool, outcome.result) if tool is not None and shows else outcome.encoded_result
        return ToolResult(
            call.id, call.name, outcome.result, encoded, outcome.is_failure, outcome.preliminary, dynamic=call.dynamic
        )

    def run(
        self, call: ToolCall, emit: Emit | None, tell: Callable[[ToolCall | WarningPart], EffectOf[None]]
    ) -> EffectOf[Outcome | ApprovalRequest, ToolError, Any]:
        """The final outcome of one call, mended once where it is invalid and there is a `repair`.

        Of a call that needs approval: the request for it. A mended one is not asked for: nobody could see what it was
        that they approved, so its failure is told, and the model makes the call itself.

        Args:
            call: the call.
            emit: is given its preliminary results.
            tell: is given the call that is run in its place, before that runs, or the warning that none is.
        """
        repair = self.repair
        if repair is None:
            return self._run(call, emit, self.on_invalid_call, tell)

        def mended(failure: ToolError) -> EffectOf[_Ended, ToolError, Any]:
            if not isinstance(failure, UnknownTool | InvalidParameters):
                return FailCause(Cause((Fail(failure),)))
            return Fold(
                Suspend(lambda: _asked(repair, call, failure)),
                lambda cause: self._unmended(call, failure, cause, tell),
                lambda other: self._again(call, failure, other, emit, tell),
            )

        return self._run(call, emit, "error", tell).catch_all(mended)

    def _again(
        self,
        call: ToolCall,
        failure: UnknownTool | InvalidParameters,
        given: ToolCall | None,
        emit: Emit | None,
        tell: Callable[[ToolCall | WarningPart], EffectOf[None]],
    ) -> EffectOf[_Ended, ToolError, Any]:
        if given is None:
            return self._mistaken(failure)
        other = self._mended(call, given)
        if other is None:
            why = f"it gave a call of {given.name!r}, which may not be run here"
            return self._failed_repair(call, failure, why, tell)
        made = self._call(other, emit, self.on_invalid_call, tell)
        why = f"it gave a call of {other.name!r}, which must be approved: the model has to make it"
        return made.needs_approval().flat_map(
            lambda needed: (
                self._failed_repair(call, failure, why, tell)
                if needed
                else tell(_as_read(other, made)).and_then(made.effect)
            )
        )

    def _unmended(
        self,
        call: ToolCall,
        failure: UnknownTool | InvalidParameters,
        cause: Cause[Any],
        tell: Callable[[ToolCall | WarningPart], EffectOf[None]],
    ) -> EffectOf[_Ended, ToolError, Any] | None:
        """What becomes of a call whose repair failed or broke; None where it was cancelled."""
        if cause.defects:
            broken = [_RepairBroke.of(call, defect) for defect in cause.defects]
            rest = tuple(reason for reason in cause.reasons if not isinstance(reason, Die))
            return FailCause(Cause((*map(Die, broken), *rest)))
        if not cause.failures or len(cause.failures) < len(cause.reasons):
            return None
        return self._failed_repair(call, failure, "; ".join(map(str, cause.failures)), tell)

    def _failed_repair(
        self,
        call: ToolCall,
        failure: UnknownTool | InvalidParameters,
        why: str,
        tell: Callable[[ToolCall | WarningPart], EffectOf[None]],
    ) -> EffectOf[_Ended, ToolError, Any]:
        said = f"the repair of the call {call.id!r} of {call.name!r} failed: {why}"
        told = self._mistaken(msgspec.structs.replace(failure, repair=why))
        return tell(WarningPart(message=said, subject=call.name)).and_then(told)

    def _mistaken(self, failure: UnknownTool | InvalidParameters) -> EffectOf[_Ended, ToolError]:
        """The model's mistake, told to the model, or in the error channel."""
        if self.on_invalid_call == "error":
            return FailCause(Cause((Fail(failure),)))
        return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))

    def _mended(self, call: ToolCall, other: ToolCall) -> ToolCall | None:
        """The call in place of `call`; None where it may not be run either."""
        if not allowed(self.choice, other.name):
            return None
        tool = self.tools.get(other.name)
        if tool is None or not tool.requires_handler:
            return None
        return ToolCall(
            call.id,
            other.name,
            other.params,
            dynamic=tool.identity.kind == "dynamic",
            params_text=other.params_text,
            repaired=True,
            metadata=merge_metadata(call.metadata, other.metadata),
        )

    def _run(
        self,
        call: ToolCall,
        emit: Emit | None,
        on_invalid_call: OnInvalidCall,
        tell: Callable[[ToolCall | WarningPart], EffectOf[None]],
    ) -> EffectOf[_Ended, ToolError, Any]:
        made = self._call(call, emit, on_invalid_call, tell)
        tool = self.tools.get(call.name)
        if tool is None or tool.needs_approval is False or self.approved:
            return made.effect

        def asked(needed: bool) -> EffectOf[_Ended, ToolError, Any]:
            read = _as_read(call, made)  # what is approved is what runs
            request: EffectOf[_Ended] = authority().map(lambda who: who.request(read, tool))
            then = request if needed else made.effect
            return then if read is call else tell(read).and_then(then)

        return made.needs_approval().flat_map(asked)

    def _call(
        self,
        call: ToolCall,
        emit: Emit | None,
        on_invalid_call: OnInvalidCall,
        tell: Callable[[ToolCall | WarningPart], EffectOf[None]],
    ) -> Call:
        broken = call.params_text is not None
        return Call(
            self.tools,
            call.name,
            call.params_text if broken else call.params,
            broken,
            call.id,
            on_invalid_call,
            self.limits,
            self.prompt,
            self.deadline,
            None if emit is None else (lambda outcome: Suspend(lambda: emit(self.result(call, outcome)))),
            reads_text=not self.approved,  # what was approved runs as it stands there
            rewritten=lambda made: tell(_as_read(call, made)),
        )


@final
class Turn:
    """A model's turn, and what becomes of its calls."""

    __slots__ = (
        "_calls",
        "_finish",
        "_parts",
        "_pending",
        "_reason",
        "_resolution",
        "_results",
        "_runnable",
        "_warnings",
        "failed",
    )

    def __init__(self, parts: Iterable[Part], resolution: Resolution) -> None:
        self._resolution = resolution
        self._parts: list[Part] = [*resolution.warnings]
        self._finish: list[Finish] = []
        self._calls: list[ToolCall] = []  # those that wait for a result
        self._pending = False  # whether calls wait for others, or to be approved
        answered: set[str] = set()
        for part in parts:
            if part.type == "finish":
                self._finish.append(part)
                continue
            if part.type == "tool-call":
                part = resolution.flagged(part)
                if not part.provider_executed:
                    self._calls.append(part)
            elif part.type == "tool-result" and not part.preliminary:
                answered.add(part.id)
            elif part.type == "tool-approval-request":  # a provider's own
                self._pending = True
            self._parts.append(part)
        if answered:
            self._calls = [call for call in self._calls if call.id not in answered]
        self._reason: FinishReason = self._finish[-1].reason if self._finish else "unknown"
        self._results: list[ToolResult | ApprovalRequest | None] = [None] * len(self._calls)
        self._runnable, self._warnings = list[int](), dict[int, WarningPart]()  # by the places of calls
        self.failed: Cause[Any] | None = None

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that wait for a result, in order."""
        return self._calls

    def resolve(
        self, emit: Emit | None = None, offer: Callable[[StreamPart], None] | None = None
    ) -> EffectOf[None, Any, Any]:
        """Runs what may be run, answers the rest; afterwards `failed` holds what went wrong in handlers.

        `emit` is given each result when it is there, preliminary ones too. Where there is an `offer`, that is given the
        final ones, which nothing waits for.
        """
        self._sort()
        refused = [] if emit is None else [result for result in self._results if result is not None]
        ran = _NOTHING
        if len(self._runnable) == 1:
            ran = self._run(self._runnable[0], emit, offer)
        elif self._runnable:
            limit = self._resolution.concurrency
            ran = for_each(self._runnable, lambda at: self._run(at, emit, offer), concurrency=limit).as_(None)
        return ran if emit is None or not refused else for_each(refused, emit).and_then(ran)

    def _run(self, at: int, emit: Emit | None, offer: Callable[[StreamPart], None] | None) -> EffectOf[None, Any, Any]:
        ran = self._one(at, emit)
        if offer is not None:
            return Map(ran, lambda _: offer(cast(StreamPart, self._results[at])))
        return ran if emit is None else Then(ran, Suspend(lambda: emit(cast(StreamPart, self._results[at]))))

    def _sort(self) -> None:
        """Answers the calls that may not run, and tells those that may from those that somebody else answers."""
        tools = self._resolution.tools
        choice = self._resolution.choice
        finished = self._reason in _FINISHED
        for at, call in enumerate(self._calls):
            if not finished:
                cut = f"the model's turn was cut off ({self._reason}), so its calls were not run"
                self._results[at] = _result_of(call, Interrupted(call.name, cut))
            elif choice != "auto" and not allowed(choice, call.name):
                self._results[at] = _result_of(call, Denied(call.name, refusal(choice)))
            elif (tool := tools.get(call.name)) is not None and not tool.requires_handler:
                self._pending = True
            else:
                self._runnable.append(at)

    def _one(self, at: int, emit: Emit | None) -> EffectOf[None, Any, Any]:
        ran = self._resolution.run(self._calls[at], emit, lambda part: self._replace(at, part, emit))
        return Fold(ran, lambda cause: self._broke(at, cause), lambda outcome: self._gave(at, outcome))

    def _replace(self, at: int, part: ToolCall | WarningPart, emit: Emit | None) -> EffectOf[None]:
        """The call that is run in place of one, put there; or the warning that none is."""
        if part.type == "warning":
            self._warnings[at] = part
        else:
            place = next(place for place, said in enumerate(self._parts) if said is self._calls[at])
            self._calls[at] = self._parts[place] = part
        return _NOTHING if emit is None else emit(part)

    def _gave(self, at: int, outcome: _Ended) -> EffectOf[None]:
        if isinstance(outcome, ApprovalRequest):
            self._results[at] = outcome
            self._pending = True
            return _NOTHING
        try:
            self._results[at] = self._resolution.result(self._calls[at], outcome)
        except Exception as bug:  # of `to_model_output`: a defect of this call alone
            return self._broke(at, Cause((Die(bug),)))
        return _NOTHING

    def _broke(self, at: int, cause: Cause[Any]) -> EffectOf[None]:
        self.failed = cause if self.failed is None else self.failed.combine(cause)
        self._results[at] = self._failure(self._calls[at], cause)
        return _NOTHING

    def _failure(self, call: ToolCall, cause: Cause[ToolError]) -> ToolResult:
        error = next(iter(cause.failures), None)
        if isinstance(error, HandlerFailed):
            encoded = self._resolution.tools[error.name].failure.encode_unsafe(error.error)
            return ToolResult(call.id, call.name, error.error, encoded, is_failure=True, dynamic=call.dynamic)
        if isinstance(error, UnknownTool | InvalidParameters):
            return _result_of(call, error)
        broke = "the repair of the call" if any(isinstance(one, _RepairBroke) for one in cause.defects) else "the tool"
        return _result_of(call, Interrupted(call.name, f"{broke} broke; what went wrong is not for the model"))

    def response(self) -> Response:
        """The response: the model's parts, results and approval requests in the order of the calls, and the finish."""
        return Response((*self._parts, *self._behind(), *self.finish()))

    def _behind(self) -> list[Part]:
        """What comes behind the model's parts: warnings, results and approval requests, in the order of the calls."""
        warnings = [self._warnings[at] for at in sorted(self._warnings)]
        return [*warnings, *(result for result in self._results if result is not None)]

    def finish(self) -> list[Finish]:
        """How the turn finished: `"pending"` where approvals or calls of others are open."""
        if not self._pending or self._reason not in _FINISHED:
            return self._finish
        return [*self._finish[:-1], msgspec.structs.replace(self._finish[-1], reason="pending")]


def _as_read(call: ToolCall, made: Call) -> ToolCall:
    """The call with the parameters that run; itself where no JSON text was read in them."""
    if not made.json_text:
        return call
    return msgspec.structs.replace(call, params=made.given, params_text=None, repaired=True, json_text=made.json_text)


def _result_of(call: ToolCall, failure: Denied | Interrupted | UnknownTool | InvalidParameters) -> ToolResult:
    return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)


@final
class _RepairBroke(RuntimeError):
    """The defect of a repair, told apart from one of the tool."""

    @staticmethod
    def of(call: ToolCall, bug: BaseException) -> BaseException:
        """The defect that says whose it is; the bug is its cause. What is no exception is itself."""
        if not isinstance(bug, Exception):
            return bug
        broke = _RepairBroke(f"the repair of the call {call.id!r} of {call.name!r} raised {type(bug).__name__}: {bug}")
        broke.__cause__ = bug
        return broke


def _asked(
    repair: Repair, call: ToolCall, failure: UnknownTool | InvalidParameters
) -> EffectOf[ToolCall | None, Any, Any]:
    """What a repair gives, in whatever form it gives it."""
    given: Any = repair(call, failure)
    if given is None or isinstance(given, ToolCall):
        return Succeed(given)
    is_awaited = hasattr(given, "__await__") and not isinstance(given, EffectOf)
    effect = lift_any(_waited(given) if is_awaited else given)
    return Succeed(_call_given(given)) if effect is None else effect.map(_call_given)


async def _waited(given: Any) -> Any:
    waited = await given
    return waited if lift_any(waited) is not None else Success(waited)


def _call_given(given: Any) -> ToolCall | None:
    if given is None or isinstance(given, ToolCall):
        return given
    raise TypeError(f"it gave {given!r}: a repair gives a ToolCall, None, or an effect of one of them")


def with_responses(cause: Cause[Any], response: Response) -> Cause[Any]:
    """The cause, each failure of a tool with the response that holds every result."""
    return cause.map(lambda error: with_response(error, response))


def with_response(error: Any, response: Response) -> Any:
    """A failure of a tool with the response that holds every result; any other failure as it is."""
    return msgspec.structs.replace(error, response=response) if isinstance(error, CallFailure) else error


_NOTHING: EffectOf[None] = Succeed(None)
