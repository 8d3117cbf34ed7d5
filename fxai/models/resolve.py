"""Resolution: the calls of a model's turn, run through a toolkit, each answered by exactly one result.

Calls run only when the model finished its turn; a turn that was cut has its calls answered by `Interrupted`. A call
outside the tool choice is answered by `Denied`. In place of the result of a call that needs approval stands a request
for it, and the turn ends with `"pending"`. A handler that fails in failure mode `"error"`, or with a defect, neither
cancels its siblings nor loses their results: they finish, then the failure is told, with the response so far.

>>> from fxai.tools.toolkit import Toolkit
>>> turn = Turn((ToolCall("c1", "add", {}), Finish("length")), Resolution(Toolkit.empty().tools))
>>> from fxai.effects import fx
>>> fx.run_sync(turn.resolve().and_then(Suspend(turn.outcome))).tool_results[0].result.reason
"the model's turn was cut off (length), so its calls were not run"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, final

import msgspec

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.concurrency import for_each
from fxai.effects.effect import EffectOf, FailCause, Fold, Succeed, Suspend
from fxai.messages.gather import gather
from fxai.messages.metadata import merge_metadata
from fxai.messages.part import (
    AnyPart,
    ApprovalRequest,
    Finish,
    FinishReason,
    Part,
    StreamPart,
    ToolCall,
    ToolParamsStart,
    ToolResult,
)
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.approval import authority
from fxai.models.choice import ToolChoices, allowed, refusal
from fxai.schema.parsing import LIMITS, Limits
from fxai.schema.plain import is_plain, plain_faults, written
from fxai.tools.call import Call, OnInvalidCall, Outcome
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

Repair: TypeAlias = Callable[[ToolCall, UnknownTool | InvalidParameters], EffectOf[ToolCall | None, Any, Any]]
"""Mends a call that is invalid, once: gives another call in its place, or None to let it fail.

The other call takes the place of the first one in the response and in the history, under its id, marked as `repaired`.
In a stream it comes as a second call of that id, before its result.
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
    limits: Limits = LIMITS
    approved: bool = False
    """Whether somebody has approved the calls."""

    def flagged(self, part: _Calling) -> _Calling:
        """A call, or the beginning of one, marked as dynamic where its tool is a dynamic one."""
        tool = None if part.dynamic else self.tools.get(part.name)
        if tool is not None and tool.identity.kind == "dynamic":
            return msgspec.structs.replace(part, dynamic=True)
        return part

    def result(self, call: ToolCall, outcome: Outcome) -> ToolResult:
        """The outcome of a call as a part of the response."""
        encoded = outcome.encoded_result
        tool = self.tools.get(call.name)
        if tool is not None and tool.to_model_output is not None and not outcome.is_failure:
            encoded = _shown(tool, tool.to_model_output(outcome.result))
        return ToolResult(
            call.id, call.name, outcome.result, encoded, outcome.is_failure, outcome.preliminary, dynamic=call.dynamic
        )

    def run(
        self, call: ToolCall, emit: Emit | None, instead: Callable[[ToolCall], EffectOf[None]]
    ) -> EffectOf[Outcome | ApprovalRequest, ToolError, Any]:
        """The final outcome of one call, mended once where it is invalid and there is a `repair`.

        Of a call that needs approval: the request for it. A mended one is not asked for: nobody could see what it was
        that they approved, so its failure is told, and the model makes the call itself.

        Args:
            call: the call.
            emit: is given its preliminary results.
            instead: is given the call that is run in its place, before that runs.
        """
        repair = self.repair
        if repair is None:
            return self._run(call, emit, self.on_invalid_call)

        def mended(failure: ToolError) -> EffectOf[_Ended, ToolError, Any]:
            if not isinstance(failure, UnknownTool | InvalidParameters):
                return FailCause(Cause((Fail(failure),)))
            asked = repair(call, failure).catch_all(lambda _: Succeed(None))
            return asked.flat_map(lambda other: self._again(call, self._mended(call, other), emit, instead))

        return self._run(call, emit, "error").catch_all(mended)

    def _again(
        self,
        call: ToolCall,
        other: ToolCall | None,
        emit: Emit | None,
        instead: Callable[[ToolCall], EffectOf[None]],
    ) -> EffectOf[_Ended, ToolError, Any]:
        as_it_was = self._run(call, emit, self.on_invalid_call)
        if other is None:
            return as_it_was
        made = self._call(other, emit, self.on_invalid_call)
        return made.needs_approval().flat_map(
            lambda needed: as_it_was if needed else instead(other).and_then(made.effect)
        )

    def _mended(self, call: ToolCall, other: ToolCall | None) -> ToolCall | None:
        """The call in place of `call`; None where there is none, or it may not be run either."""
        if other is None or not allowed(self.choice, other.name):
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
        self, call: ToolCall, emit: Emit | None, on_invalid_call: OnInvalidCall
    ) -> EffectOf[_Ended, ToolError, Any]:
        made = self._call(call, emit, on_invalid_call)
        tool = self.tools.get(call.name)
        if tool is None or tool.needs_approval is False or self.approved:
            return made.effect
        request: EffectOf[_Ended] = authority().map(lambda who: who.request(call, tool))
        return made.needs_approval().flat_map(lambda needed: request if needed else made.effect)

    def _call(self, call: ToolCall, emit: Emit | None, on_invalid_call: OnInvalidCall) -> Call:
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
            None if emit is None else (lambda outcome: emit(self.result(call, outcome))),
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
        "failed",
    )

    def __init__(self, parts: Iterable[Part], resolution: Resolution) -> None:
        self._resolution = resolution
        self._parts: list[Part] = []
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
        self._runnable: list[int] = []
        self.failed: Cause[Any] | None = None

    def resolve(self, emit: Emit | None = None) -> EffectOf[None, Any, Any]:
        """Runs what may be run, answers the rest; afterwards `failed` holds what went wrong in handlers.

        `emit` is given each result when it is there, preliminary ones too.
        """
        self._sort()
        if emit is not None:
            return self._resolve_shown(emit)
        if not self._runnable:
            return _NOTHING
        if len(self._runnable) == 1:
            return self._one(self._runnable[0], None)
        return for_each(self._runnable, lambda at: self._one(at, None), concurrency=self._resolution.concurrency).as_(
            None
        )

    def _resolve_shown(self, emit: Emit) -> EffectOf[None, Any, Any]:
        refused = [result for result in self._results if result is not None]

        def one(at: int) -> EffectOf[None, Any, Any]:
            return self._one(at, emit).and_then(Suspend(lambda: emit(cast(StreamPart, self._results[at]))))

        ran = for_each(self._runnable, one, concurrency=self._resolution.concurrency).as_(None)
        return for_each(refused, emit).and_then(ran) if refused else ran

    def _sort(self) -> None:
        """Answers the calls that may not run, and tells those that may from those that somebody else answers."""
        tools = self._resolution.tools
        choice = self._resolution.choice
        finished = self._reason in _FINISHED
        for at, call in enumerate(self._calls):
            if not finished:
                cut = f"the model's turn was cut off ({self._reason}), so its calls were not run"
                self._results[at] = _told(call, Interrupted(call.name, cut))
            elif choice != "auto" and not allowed(choice, call.name):
                self._results[at] = _told(call, Denied(call.name, refusal(choice)))
            elif (tool := tools.get(call.name)) is not None and not tool.requires_handler:
                self._pending = True
            else:
                self._runnable.append(at)

    def _one(self, at: int, emit: Emit | None) -> EffectOf[None, Any, Any]:
        ran = self._resolution.run(self._calls[at], emit, lambda other: self._mended(at, other, emit))
        return Fold(ran, lambda cause: self._broke(at, cause), lambda outcome: self._gave(at, outcome))

    def _mended(self, at: int, other: ToolCall, emit: Emit | None) -> EffectOf[None]:
        """The call that is run in place of one, put there."""
        place = next(place for place, part in enumerate(self._parts) if part is self._calls[at])
        self._calls[at] = self._parts[place] = other
        return _NOTHING if emit is None else emit(other)

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
            return _told(call, error)
        return _told(call, Interrupted(call.name, "the tool broke; what went wrong is not for the model"))

    def response(self) -> Response:
        """The response: the model's parts, results and approval requests in the order of the calls, and the finish."""
        results = [result for result in self._results if result is not None]
        return Response((*self._parts, *results, *self.finish()))

    def finish(self) -> list[Finish]:
        """How the turn finished: `"pending"` where approvals or calls of others are open."""
        if not self._pending or self._reason not in _FINISHED:
            return self._finish
        return [*self._finish[:-1], msgspec.structs.replace(self._finish[-1], reason="pending")]

    def outcome(self) -> EffectOf[Response, Any]:
        """The response, or what failed in handlers, told with the response."""
        response = self.response()
        if self.failed is None:
            return Succeed(response)
        return FailCause(with_responses(self.failed, response))

    def ending(self, said: Iterable[AnyPart]) -> EffectOf[list[Finish], Any]:
        """How a streamed turn finished; or what failed in handlers, told with the response of all that was said."""
        if self.failed is None:
            return Succeed(self.finish())
        mended = [call for call in self._calls if call.repaired]
        parts = gather([*(part for part in said if part.type != "finish"), *mended])
        results = [result for result in self._results if result is not None]
        return FailCause(with_responses(self.failed, Response((*parts, *results, *self.finish()))))


def _told(call: ToolCall, failure: Denied | Interrupted | UnknownTool | InvalidParameters) -> ToolResult:
    return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)


def _shown(tool: Tool[Any, Any, Any], output: Any) -> Any:
    """What `to_model_output` gave, as plain JSON data.

    Raises:
        TypeError: it is none.
    """
    if is_plain(output):
        return output
    faults = plain_faults(output)
    if faults:
        said = "; ".join(str(fault) for fault in faults)
        raise TypeError(f"to_model_output of {tool.name!r} gave what is not JSON: {said}")
    return msgspec.json.decode(written(output))


def with_responses(cause: Cause[Any], response: Response) -> Cause[Any]:
    """The cause, each failure of a tool with the response that holds every result."""
    return cause.map(lambda error: with_response(error, response))


def with_response(error: Any, response: Response) -> Any:
    """A failure of a tool with the response that holds every result; any other failure as it is."""
    return msgspec.structs.replace(error, response=response) if isinstance(error, CallFailure) else error


_NOTHING: EffectOf[None] = Succeed(None)
