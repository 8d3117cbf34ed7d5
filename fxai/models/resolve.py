"""Resolution: the calls of a model's turn, run through a toolkit, each answered by exactly one result.

Calls run only when the model finished its turn; a turn that was cut has its calls answered by `Interrupted`. A call
outside the tool choice is answered by `Denied`. A handler that fails in failure mode `"error"`, or with a defect,
neither cancels its siblings nor loses their results: they finish, then the failure is told, with the response so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast, final

import msgspec

from fxai.effects.cause import Cause, Fail
from fxai.effects.concurrency import for_each
from fxai.effects.effect import EffectOf, FailCause, Succeed, Suspend
from fxai.effects.exit import Exit, Succeeded
from fxai.messages.part import Finish, FinishReason, Part, StreamPart, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.choice import ToolChoices, allowed, refusal
from fxai.schema.parsing import LIMITS, Limits
from fxai.tools.call import Call, OnInvalidCall, Outcome
from fxai.tools.failure import (
    Denied,
    HandlerFailed,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    ToolError,
    UnknownTool,
    encode_failure,
)
from fxai.tools.tool import Tool

__all__ = ["Repair", "Resolution", "Turn"]

Repair: TypeAlias = Callable[[ToolCall, UnknownTool | InvalidParameters], EffectOf[ToolCall | None, Any, Any]]
"""Mends a call that is invalid, once: gives another call in its place, or None to let it fail."""

Emit: TypeAlias = Callable[[StreamPart], EffectOf[None]]

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

    def flagged(self, part: Any) -> Any:
        """The part, marked as dynamic where it is a call of a dynamic tool."""
        if isinstance(part, ToolCall) and not part.dynamic:
            tool = self.tools.get(part.name)
            if tool is not None and tool.identity.kind == "dynamic":
                return msgspec.structs.replace(part, dynamic=True)
        return part

    def result(self, call: ToolCall, outcome: Outcome) -> ToolResult:
        """The outcome of a call as a part of the response."""
        encoded = outcome.encoded_result
        tool = self.tools.get(call.name)
        if tool is not None and tool.to_model_output is not None and not outcome.is_failure:
            encoded = tool.to_model_output(outcome.result)
        return ToolResult(
            call.id, call.name, outcome.result, encoded, outcome.is_failure, outcome.preliminary, dynamic=call.dynamic
        )

    def run(self, call: ToolCall, emit: Emit | None) -> EffectOf[Outcome, ToolError, Any]:
        """The final outcome of one call, mended once where it is invalid and there is a `repair`."""
        if self.repair is None:
            return self._run(call, emit, self.on_invalid_call)

        def mended(failure: ToolError) -> EffectOf[Outcome, ToolError, Any]:
            if not isinstance(failure, UnknownTool | InvalidParameters):
                return FailCause(Cause((Fail(failure),)))
            asked = repair(call, failure).catch_all(lambda _: Succeed(None))
            return asked.flat_map(lambda other: self._run(other or call, emit, self.on_invalid_call))

        repair = self.repair
        return self._run(call, emit, "error").catch_all(mended)

    def _run(
        self, call: ToolCall, emit: Emit | None, on_invalid_call: OnInvalidCall
    ) -> EffectOf[Outcome, ToolError, Any]:
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
        ).effect


@final
class Turn:
    """A model's turn, and what becomes of its calls."""

    __slots__ = ("_finish", "_parts", "_resolution", "_results", "failed")

    def __init__(self, parts: Iterable[Part], resolution: Resolution) -> None:
        self._resolution = resolution
        flagged = [resolution.flagged(part) for part in parts]
        self._finish = [part for part in flagged if part.type == "finish"]
        self._parts: list[Part] = [part for part in flagged if part.type != "finish"]
        self._results: dict[str, ToolResult] = {}
        self.failed: Cause[Any] | None = None

    @property
    def _reason(self) -> FinishReason:
        return self._finish[-1].reason if self._finish else "unknown"

    def resolve(self, emit: Emit | None = None) -> EffectOf[None, Any, Any]:
        """Runs what may be run, answers the rest; afterwards `failed` holds what went wrong in handlers.

        `emit` is given each result when it is there, preliminary ones too.
        """
        open_calls = self._open_calls()
        runnable = [call for call in open_calls if self._runs(call)]
        refused = [call for call in open_calls if not self._runs(call) and not self._is_external(call)]
        for call in refused:
            self._results[call.id] = self._told(call, self._refusal(call))

        if not runnable and emit is None:
            return _NOTHING
        if len(runnable) == 1 and emit is None:
            call = runnable[0]
            return self._resolution.run(call, None).exit().map(lambda end: self._ended(call, end))
        return self._all(runnable, [self._results[call.id] for call in refused], emit)

    def _all(self, runnable: list[ToolCall], answered: list[ToolResult], emit: Emit | None) -> EffectOf[None, Any, Any]:
        def one(call: ToolCall) -> EffectOf[None, Any, Any]:
            ended = self._resolution.run(call, emit).exit().map(lambda end: self._ended(call, end))
            return ended if emit is None else ended.and_then(Suspend(lambda: told(self._results[call.id])))

        told: Emit = emit or (lambda _: _NOTHING)

        ran = for_each(runnable, one, concurrency=self._resolution.concurrency).as_(None)
        if emit is None or not answered:
            return ran
        return for_each(answered, emit).and_then(ran)

    def _open_calls(self) -> list[ToolCall]:
        done = {part.id for part in self._parts if part.type == "tool-result" and not part.preliminary}
        calls = (part for part in self._parts if part.type == "tool-call")
        return [call for call in calls if not call.provider_executed and call.id not in done]

    def _is_external(self, call: ToolCall) -> bool:
        tool = self._resolution.tools.get(call.name)
        return self._acts(call) and tool is not None and not tool.requires_handler

    def _acts(self, call: ToolCall) -> bool:
        return self._reason in _FINISHED and allowed(self._resolution.choice, call.name)

    def _runs(self, call: ToolCall) -> bool:
        return self._acts(call) and not self._is_external(call)

    def _refusal(self, call: ToolCall) -> Denied | Interrupted:
        if self._reason not in _FINISHED:
            return Interrupted(call.name, f"the model's turn was cut off ({self._reason}), so its calls were not run")
        return Denied(call.name, refusal(self._resolution.choice))

    def _told(self, call: ToolCall, failure: Denied | Interrupted) -> ToolResult:
        return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)

    def _ended(self, call: ToolCall, end: Exit[Outcome, ToolError]) -> None:
        if isinstance(end, Succeeded):
            self._results[call.id] = self._resolution.result(call, end.value)
            return

        cause = end.cause
        self.failed = cause if self.failed is None else self.failed.combine(cause)
        self._results[call.id] = self._failure(call, cause)

    def _failure(self, call: ToolCall, cause: Cause[ToolError]) -> ToolResult:
        error = next(iter(cause.failures), None)
        encoded: Any
        if isinstance(error, HandlerFailed):
            encoded = self._resolution.tools[call.name].failure.encode_unsafe(error.error)
            return ToolResult(call.id, call.name, error.error, encoded, is_failure=True, dynamic=call.dynamic)
        if isinstance(error, UnknownTool | InvalidParameters):
            return ToolResult(call.id, call.name, error, encode_failure(error), is_failure=True, dynamic=call.dynamic)
        return self._told(call, Interrupted(call.name, "the tool broke; what went wrong is not for the model"))

    def response(self) -> Response:
        """The response: the model's parts, the results in the order of their calls, and how the turn finished."""
        results = [self._results[call.id] for call in self._open_calls() if call.id in self._results]
        return Response((*self._parts, *results, *self._finish_parts()))

    def _finish_parts(self) -> list[Finish]:
        pending = any(self._is_external(call) for call in self._open_calls())
        if not pending:
            return self._finish
        last = self._finish[-1]
        return [*self._finish[:-1], msgspec.structs.replace(last, reason="pending")]

    def finish(self) -> list[Finish]:
        """How the turn finished, for a stream: `"pending"` where calls of others are open."""
        return self._finish_parts()

    def outcome(self) -> EffectOf[Response, Any]:
        """The response, or what failed in handlers, told with the response."""
        response = self.response()
        if self.failed is None:
            return Succeed(response)
        return FailCause(with_responses(self.failed, response))


def with_responses(cause: Cause[Any], response: Response) -> Cause[Any]:
    """The cause, each failure of a tool with the response that holds every result."""
    return cause.map(lambda error: with_response(error, response))


def with_response(error: Any, response: Response) -> Any:
    """A failure of a tool with the response that holds every result; any other failure as it is."""
    holds = isinstance(error, HandlerFailed | InvalidResult | InvalidParameters | UnknownTool)
    return msgspec.structs.replace(cast(Any, error), response=response) if holds else error


_NOTHING: EffectOf[None] = Succeed(None)
