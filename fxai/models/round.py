"""Rounds: send one request to a model and run the calls in its turn, with or without streaming. Agents use this module.

A round is a generator of effects, the same with and without streaming. A streamed round also passes each part to its
reader immediately: the parts of the model, then the results of calls as they finish. The caller of the round emits the
`finish` of the turn after all other work of the round.

Calls run after the end of the turn. If the turn was cut short, fxai answers its calls with `Interrupted`. If the tool
choice does not allow a call, fxai answers it with `Denied`. If a call needs an approval, a request replaces its result,
and the turn ends with `"pending"`. If a handler fails in failure mode `"error"`, or with a defect, the other calls
continue. After they finished, the round fails with the response so far.

>>> from fxai.effects import fx
>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.language_model import LanguageModel
>>> from fxai.testing import ScriptedModel, text
>>> scripted, request = ScriptedModel.make([text("Good day.")]), ModelRequest(Prompt.make("Hello"))
>>> def program():
...     model = yield from LanguageModel
...     return (yield from take_turn(model, request, Resolution({})))
>>> fx.run(fx.gen(program)().provide(scripted.layer)).response.text
'Good day.'
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast, final

import msgspec

from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.concurrency import for_each
from fxai.effects.constructor import fail
from fxai.effects.effect import (
    AnyEffect,
    Ask,
    EffectOf,
    Enter,
    FailCause,
    FlatMap,
    Fold,
    Generate,
    Succeed,
    Suspend,
    Timeout,
)
from fxai.effects.fiber import Fiber
from fxai.effects.layer import AnyLayer
from fxai.effects.pull import END
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.effects.stream import AnyStream, StreamOf, pull_stream
from fxai.messages.accumulate import gather
from fxai.messages.part import (
    ApprovalRequest,
    Finish,
    FinishReason,
    Part,
    StreamPart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    WarningPart,
)
from fxai.messages.response import Response
from fxai.models.approval import authority
from fxai.models.interceptor import InterceptedCall, Interceptor, TurnInfo
from fxai.models.model_request import Model, ModelRequest, Repair, Resolution, allows, ask_model, refusal, stream_model
from fxai.models.repair import call_as_read, explain_break, mend, repair_work
from fxai.tools.call import Call, OnInvalidCall, Outcome
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import (
    Denied,
    HandlerFailed,
    HandlerUnavailable,
    Interrupted,
    InvalidParameters,
    OutcomeUnknown,
    Refused,
    ToolError,
    UnknownTool,
    failed_result,
    interrupt_calls,
    with_responses,
)

Steps: TypeAlias = Generator[AnyEffect, Any, Any]
Emit: TypeAlias = Callable[[StreamPart], EffectOf[None]]
_Part = TypeVar("_Part", bound=StreamPart)

TIME_IS_UP: Final = "the time limit of the run has passed"
"""The reason for calls that did not finish."""

_FINISHED: Final[frozenset[FinishReason]] = frozenset(("stop", "tool-calls", "pause"))
_NOTHING: EffectOf[None] = Succeed(None)
_OF_CALLS: Final = (ToolParamsStart, ToolParamsDelta, ToolParamsEnd, ToolCall)


# -- the call ids


@final
class _CallIds(msgspec.Struct, eq=False):
    """The distinct ids of the calls of a turn.

    The id connects a call with its result. Two calls with the same id would become one call.
    """

    _used: set[str] = set()
    _open: dict[str, str] = {}  # ids of started calls, each with its distinct id

    def rename(self, part: _Part) -> _Part:
        """Return the part with the distinct id of its call. Calls of the provider keep their ids."""
        if not isinstance(part, _OF_CALLS):
            return part
        id_ = part.id
        if isinstance(part, ToolCall):
            new = id_ if part.provider_executed or part.repaired else self._open.pop(id_, "") or self._distinct(id_)
        elif isinstance(part, ToolParamsStart):
            new = self._open[id_] = id_ if part.provider_executed else self._distinct(id_)
        else:
            new = self._open.get(id_, id_)
        return part if new == id_ else cast(_Part, msgspec.structs.replace(part, id=new))

    @staticmethod
    def rename_all(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return the parts of a whole turn with distinct ids of its calls."""
        seen: set[str] = set()
        for part in parts:
            if part.type == "tool-call":
                if part.id in seen:
                    rename = _CallIds().rename
                    return tuple([rename(one) if one.type == "tool-call" else one for one in parts])
                seen.add(part.id)
        return parts

    def _distinct(self, id_: str) -> str:
        new, count = id_, 1
        while new in self._used:
            count += 1
            new = f"{id_}_{count}"
        self._used.add(new)
        return new


# -- the limits for a round


@final
class _Late:
    """The type of the value of a stopped effect."""


LATE: Final = _Late()
"""The value of an effect that a deadline stopped."""


@final
class Deadline(msgspec.Struct, frozen=True, eq=False):
    """The time when fxai stops a run."""

    clock: Clock
    at: float
    """The time by the clock's `monotonic`."""

    @staticmethod
    def after(clock: Clock, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return Deadline(clock, clock.monotonic() + seconds)

    def cut(self, effect: AnyEffect) -> AnyEffect:
        """Return the effect, which succeeds with `LATE` if it does not finish before the deadline."""
        left = self.at - self.clock.monotonic()
        # The value is the exit, to distinguish this timeout from a `Timeout` failure of the effect.
        return Fold(effect.exit().timeout(left), _late, _outcome) if left > 0 else Succeed(LATE)


def _late(cause: Cause[Timeout]) -> AnyEffect:
    others = tuple(reason for reason in cause.reasons if not isinstance(reason, Fail))
    return FailCause(Cause(others)) if others else Succeed(LATE)


def _outcome(end: Exit[Any, Any]) -> AnyEffect:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)


@final
class RoundLimits(msgspec.Struct, frozen=True, eq=False):
    """The limits of a run for a round."""

    cut: Callable[[AnyEffect], AnyEffect]
    """Stops an effect at the deadline. It then succeeds with `LATE`."""
    refuse: Callable[[tuple[Part, ...], Resolution], list[ToolResult]]
    """Returns results for the calls in a turn that must not run."""


# -- the round


@final
class Round(msgspec.Struct, frozen=True, eq=False):
    """The result of a round."""

    response: Response
    """The turn with the results of its calls. If the turn was stopped, the parts so far with a result for each call."""
    is_complete: bool = True
    """False if the deadline passed before the end of the turn. The turn then does not count."""
    unread: tuple[ToolResult, ...] = ()
    """Results that the stream did not emit, because the deadline passed."""

    @staticmethod
    def cut_short(response: Response, read: set[str], *, is_complete: bool = True) -> Round:
        """Return a round after its deadline. The reader already has the results of the calls in `read`."""
        results = (part for part in response.content if part.type == "tool-result")
        return Round(response, is_complete, tuple(result for result in results if result.id not in read))


def take_turn(
    model: Model,
    request: ModelRequest,
    resolution: Resolution,
    emit: Emit | None = None,
    *,
    resolves: bool = True,
    early: tuple[ToolResult, ...] = (),
    handlers: AnyLayer | None = None,
    limits: RoundLimits | None = None,
    around: Interceptor | None = None,
    location: str | None = None,
) -> Steps:
    """Run a round and return a `Round`.

    It fails like the model. If handlers fail, it fails after the other calls ended, with the response of the round and
    the results `early` from before the turn. With `emit`, the round streams the turn. If `resolves` is false, no call
    runs. The `handlers` belong to this round only. For `location`, see `TurnInfo`.
    """
    came: list[Any] | None = None
    parts: Any
    if emit is not None:
        came = []
        stream = stream_model(model, request)
        stream = stream if around is None else around.stream_turn(TurnInfo(location, request), stream)
        parts = yield scoped(Generate(_read_turn, (stream, resolution, came, emit, limits), {}))
    else:
        asking: AnyEffect = ask_model(model, request)
        asking = asking if around is None else around.turn(TurnInfo(location, request), asking)
        parts = yield asking if limits is None else limits.cut(asking)
        parts = parts if parts is LATE else _CallIds.rename_all(parts)
    if parts is LATE or not resolves:
        return _cut_turn(came or [], resolution) if parts is LATE else Round(RoundTurn(parts, resolution).response())
    resolution = resolution.without(parts)
    refused, end = () if limits is None else limits.refuse(parts, resolution), None
    turn = RoundTurn((*parts, *refused), resolution, around, location)
    if emit is not None:
        end = yield from _stream_results(turn, refused, emit, handlers, limits)
    elif turn.calls:
        running = turn.resolve() if handlers is None else turn.resolve().provide(handlers)
        end = yield running if limits is None else limits.cut(running)
    response = turn.response()
    if end is LATE:
        response = close_calls(response, TIME_IS_UP, resolution)
    elif refused:
        response = in_order(response)
    if turn.failed is not None:
        yield FailCause(with_responses(turn.failed, Response((*early, *response.content))))
    return Round(response) if end is not LATE else Round.cut_short(response, turn.read)


def _read_turn(
    stream: AnyStream, resolution: Resolution, came: list[Any], emit: Emit, limits: RoundLimits | None
) -> Steps:
    """Read a streamed turn, emit its parts without its finish, and return them. Return `LATE` after the deadline."""
    for warning in resolution.warnings:
        yield emit(warning)
    incomplete: set[str] = set()  # ids of calls that started but did not arrive
    ids = _CallIds()
    part: Any
    pull: Any = yield pull_stream(stream) if limits is None else limits.cut(pull_stream(stream))
    while (part := LATE if pull is LATE else (yield pull if limits is None else limits.cut(pull))) is not END:
        if part is LATE:
            return LATE
        part = ids.rename(part)
        if part.type == "tool-call":
            part = resolution.mark_dynamic(part)
            incomplete.discard(part.id)
        elif part.type == "tool-params-start":
            part = resolution.mark_dynamic(part)
            incomplete.add(part.id)
        came.append(part)
        if part.type != "finish":
            yield emit(part)
    parts = gather(came)
    for part in parts if incomplete else ():
        if part.type == "tool-call" and part.id in incomplete:
            yield emit(part)
    return parts


def _stream_results(
    turn: RoundTurn,
    refused: Iterable[ToolResult],
    emit: Emit,
    handlers: AnyLayer | None,
    limits: RoundLimits | None,
) -> Steps:
    """Run the calls in a turn and emit their results as they finish.

    At the deadline, it stops the running calls and returns `LATE`.
    """
    for result in refused:
        yield emit(result)
    if not turn.calls:
        return None
    if handlers is None and limits is None and (yield from turn.try_only_call(emit)):
        return None
    results: AnyStream = StreamOf.from_channel(lambda channel: turn.resolve(channel.put, channel.offer))
    stream = results if handlers is None else results.provide(handlers)
    return (yield scoped(Generate(_read_results, (stream, turn.read, emit, limits), {})))


def _read_results(stream: AnyStream, read: set[str], emit: Emit, limits: RoundLimits | None) -> Steps:
    """Emit the results as they finish and add their calls to `read`. Return `LATE` after the deadline."""
    part: Any
    pull: Any = yield pull_stream(stream) if limits is None else limits.cut(pull_stream(stream))
    while (part := LATE if pull is LATE else (yield pull if limits is None else limits.cut(pull))) is not END:
        if part is LATE:
            return LATE
        if part.type == "tool-result" and not part.preliminary:
            read.add(part.id)
        yield emit(part)
    return None


# -- the calls in a turn


@final
class RoundTurn(msgspec.Struct, eq=False):
    """A turn from the model with the results of its calls. Each call has one result, in the order of the calls."""

    _given: Iterable[Part]
    _resolution: Resolution
    _around: Interceptor | None = None
    _location: str | None = None
    failed: Cause[Any] | None = None  # the failures and defects of handlers
    calls: list[ToolCall] = []  # calls without a result
    read: set[str] = set()  # calls whose results the reader already has
    _parts: list[Part] = []
    _finish: list[Finish] = []
    _reason: FinishReason = "unknown"
    _pending: bool = False  # True if calls need approvals or external results
    _results: list[ToolResult | ApprovalRequest | None] = []
    _warnings: dict[int, WarningPart] = {}  # by the index of the call
    _infos: dict[int, InterceptedCall] = {}  # by the index of the call, with an interceptor only
    _emit: Emit | None = None
    _offer: Callable[[StreamPart], None] | None = None
    _begun: AnyEffect | None = None  # the rest of the only call after its start

    def __post_init__(self) -> None:
        resolution = self._resolution
        self._parts.extend(resolution.warnings)
        for part in self._given:
            if part.type == "finish":
                self._finish.append(part)
                continue
            if part.type == "tool-call":
                part = resolution.mark_dynamic(part)
                if not part.provider_executed:
                    self.calls.append(part)
            elif part.type == "tool-result" and not part.preliminary:
                self.read.add(part.id)
            elif part.type == "tool-approval-request":  # a request of the provider
                self._pending = True
            self._parts.append(part)
        if self.read:
            self.calls = [call for call in self.calls if call.id not in self.read]
        if self._finish:
            self._reason = self._finish[-1].reason
        self._results = [None] * len(self.calls)

    def resolve(
        self, emit: Emit | None = None, offer: Callable[[StreamPart], None] | None = None
    ) -> EffectOf[None, Any, Any]:
        """Run the allowed calls and answer the other calls. Afterwards, `failed` contains the failures of handlers.

        It passes each result, including preliminary results, to `emit`. With `offer`, it passes final results to
        `offer` instead and does not wait for the reader.
        """
        self._emit, self._offer = emit, offer
        runnable = self._answer_others()
        run = self._run if emit is None else self._run_and_emit
        if len(runnable) == 1:
            running = run(runnable[0])
        else:
            running = for_each(runnable, run, concurrency=self._resolution.concurrency).as_(None)
        refused = [result for result in self._results if result is not None] if emit is not None else ()
        return for_each(refused, emit).and_then(running) if emit is not None and refused else running

    def try_only_call(self, emit: Emit) -> Steps:
        """Start the only call of the turn. If its result is available immediately, emit it and return True.

        Most handlers return immediately. The other handlers must run concurrently with the reader of their results.
        """
        self._emit = emit
        calling = self._call(0) if len(self.calls) == 1 and self._answer_others() else None
        if not isinstance(calling, Enter):
            return False  # the call does not run, needs an approval, or can be repaired
        try:
            # This fiber has no task, so the call starts no coroutine, whose rest another task would await.
            self._begun = yield Ask(lambda context: calling.f(Fiber(context)))
        except Exception as bug:
            self._begun = FailCause(Cause((Die(bug),)))
        if isinstance(self._begun, Succeed):
            _ = self._finish_call(0, self._begun.value)
        elif isinstance(self._begun, FailCause):
            _ = self._fail(0, self._begun.cause)
        else:
            return False
        yield emit(cast(ToolResult, self._results[0]))
        return True

    def _answer_others(self) -> list[int]:
        """Answer the calls that must not run, and return the indexes of the other calls."""
        choice, finished = self._resolution.choice, self._reason in _FINISHED
        runnable: list[int] = []
        for at, call in enumerate(self.calls):
            if not finished:
                cut = f"the model's turn was cut short ({self._reason}), so its calls did not run"
                self._results[at] = failed_result(call, Interrupted(call.name, cut))
            elif choice != "auto" and not allows(choice, call.name):
                self._results[at] = failed_result(call, Denied(call.name, refusal(choice)))
            else:
                runnable.append(at)
        return runnable

    # -- a call

    def _run_and_emit(self, at: int) -> EffectOf[None, Any, Any]:
        emit, offer = cast(Emit, self._emit), self._offer

        def hand_on(_: object) -> EffectOf[None]:
            result = self._results[at]  # None if the result is external
            if result is not None and offer is not None:
                offer(result)
                return _NOTHING
            return _NOTHING if result is None else emit(result)

        return self._run(at).flat_map(hand_on)

    def _run(self, at: int) -> EffectOf[None, Any, Any]:
        running = self._call(at) if self._begun is None else self._begun
        return Fold(running, partial(self._fail, at), partial(self._finish_call, at))

    def _call(self, at: int) -> AnyEffect:
        """Return the outcome of a call, after a repair if it is invalid, or a request for its approval."""
        call, resolution = self.calls[at], self._resolution
        made = self._make(at, call, resolution.on_invalid_call if resolution.repair is None else "error")
        tool = resolution.tools.get(call.name)
        around = self._around
        if tool is not None and not tool.requires_handler:
            return self._admit(at, made, tool)
        if around is not None and tool is not None:
            info = self._infos[at] = self._tell(at, made, tool)
            running = self._restore(tool, around.call(info, made.effect))
        else:
            info, running = None, made.effect
        if tool is not None and tool.needs_approval is not False and not resolution.approved:
            asking: AnyEffect = Generate(self._ask_approval, (at, made, tool, info), {})
            asking = asking if around is None or info is None else around.admit(info, asking)
            ran = running
            running = FlatMap(asking, lambda answer: ran if answer is None else Succeed(answer))
        if resolution.repair is None:
            return running
        return running.catch_all(partial(self._mend, at, resolution.repair))

    def _admit(self, at: int, made: Call, tool: AnyTool) -> AnyEffect:
        """Validate a call that the program answers from outside: the effect returns None if the call is valid."""
        repair, around = self._resolution.repair, self._around
        checking = made.check if repair is None else made.check.catch_all(partial(self._mend, at, repair))
        if around is None:
            return checking
        info = self._infos[at] = self._tell(at, made, tool)
        return around.admit(info, checking)

    def _make(self, at: int, call: ToolCall, on_invalid_call: OnInvalidCall | None = None) -> Call:
        resolution, is_text = self._resolution, call.params_text is not None
        return Call(
            resolution.tools,
            call.name,
            call.params_text if is_text else call.params,
            is_text,
            call.id,
            resolution.on_invalid_call if on_invalid_call is None else on_invalid_call,
            resolution.limits,
            resolution.prompt,
            resolution.deadline,
            None if self._emit is None else (lambda outcome: Suspend(lambda: self._hand_on(call, outcome))),
            reads_text=not resolution.approved,  # an approved call runs exactly in its approved form
            rewritten=lambda made: Suspend(lambda: self._replace(at, call_as_read(call, made))),
            keeper=resolution.keeper,
        )

    def _hand_on(self, call: ToolCall, outcome: Outcome) -> EffectOf[None]:
        return cast(Emit, self._emit)(self._resolution.result(call, outcome))

    def _ask_approval(self, at: int, made: Call, tool: AnyTool, info: InterceptedCall | None) -> Steps:
        """Return the request for an approval, or None if the call needs no approval."""
        needed = yield made.needs_approval()
        yield self._reread(at, made, tool)  # the user must approve the final form of the call
        name = None if info is None else info.approval_id
        return (yield authority()).request(self.calls[at], tool, name) if needed else None

    def _reread(self, at: int, made: Call, tool: AnyTool) -> EffectOf[None]:
        _ = made.parameters(tool)
        call = call_as_read(self.calls[at], made)
        return _NOTHING if call is self.calls[at] else self._replace(at, call)

    def _mend(self, at: int, repair: Repair, failure: Any) -> AnyEffect:
        if not isinstance(failure, UnknownTool | InvalidParameters):
            return fail(failure)
        choice, replace = self._resolution.choice, partial(self._replace, at)
        make, run = partial(self._make, at), partial(self._run_mended, at)
        call, around = self.calls[at], self._around
        ask = None if around is None else partial(around.work, repair_work(self._location, at, call))
        return Generate(mend, (repair, call, failure, choice, make, run, replace, ask), {})

    def _run_mended(self, at: int, made: Call) -> AnyEffect:
        tool = self._resolution.tools[made.name]
        if not tool.requires_handler:
            return made.check
        info = self._tell(at, made, tool, repaired=True)
        return made.effect if self._around is None else self._restore(tool, self._around.call(info, made.effect))

    def _restore(self, tool: AnyTool, ran: AnyEffect) -> AnyEffect:
        """Return the outcome of a call. If a journal contains only its handle, read its value from the store."""
        keeper = self._resolution.keeper
        if keeper is None:
            return ran
        return ran.flat_map(lambda one: keeper.restore(tool, one) if one.result is msgspec.UNSET else Succeed(one))

    def _tell(self, at: int, made: Call, tool: AnyTool, *, repaired: bool = False) -> InterceptedCall:
        reread, set_key = partial(self._reread, at, made, tool), partial(setattr, made, "key")
        return InterceptedCall(self._location, at, self.calls[at], tool, reread, repaired, set_key)

    def _replace(self, at: int, part: ToolCall | WarningPart) -> EffectOf[None]:
        """Replace a call with the call that runs, or add the warning that no call replaces it."""
        if part.type == "warning":
            self._warnings[at] = part
        else:
            location = next(location for location, other in enumerate(self._parts) if other is self.calls[at])
            self.calls[at] = self._parts[location] = part
            if at in self._infos:
                self._infos[at].call = part
        return _NOTHING if self._emit is None else self._emit(part)

    def _finish_call(self, at: int, outcome: Outcome | ApprovalRequest | None) -> EffectOf[None]:
        if outcome is None or isinstance(outcome, ApprovalRequest):  # None: the result is external
            self._results[at] = outcome
            self._pending = True
            return _NOTHING
        try:
            self._results[at] = self._resolution.result(self.calls[at], outcome)
        except Exception as bug:  # a bug of `to_model_output` is a defect of this call only
            return self._fail(at, Cause((Die(bug),)))
        return _NOTHING

    def _fail(self, at: int, cause: Cause[Any]) -> EffectOf[None]:
        self.failed = cause if self.failed is None else self.failed.combine(cause)
        call = self.calls[at]
        error: ToolError | None = next(iter(cause.failures), None)
        if isinstance(error, HandlerFailed):
            value: Any = cast(Any, error).error
            encoded = self._resolution.tools[error.name].failure.encode_unsafe(value)
            result = ToolResult(call.id, call.name, value, encoded, is_failure=True, dynamic=call.dynamic)
        elif isinstance(error, UnknownTool | InvalidParameters | HandlerUnavailable | OutcomeUnknown | Refused):
            result = failed_result(call, error)
        else:
            result = failed_result(call, explain_break(call, cause))
        self._results[at] = result
        return _NOTHING

    def response(self) -> Response:
        """Return the response: the parts of the model, results and approval requests in the order of calls, the finish.

        The finish is `"pending"` if calls need approvals or external results.
        """
        finish = self._finish
        if self._pending and self._reason in _FINISHED:
            finish = [*finish[:-1], msgspec.structs.replace(finish[-1], reason="pending")]
        warnings = [self._warnings[at] for at in sorted(self._warnings)] if self._warnings else ()
        results = cast("Iterable[Part]", filter(None, self._results))
        return Response((*self._parts, *warnings, *results, *finish))


# -- calls that did not finish


def _cut_turn(came: list[Any], resolution: Resolution) -> Round:
    """Return the round of a stopped turn: the parts so far, with a result for each call."""
    if not came:
        return Round(Response(), is_complete=False)
    parts = gather(came)
    read = {part.id for part in parts if part.type == "tool-result"}
    response = close_calls(Response((*parts, Finish("other"))), TIME_IS_UP, resolution)
    return Round.cut_short(response, read, is_complete=False)


def is_ours(call: ToolCall, resolution: Resolution) -> bool:
    """Return whether fxai runs a call, and not its provider or an external program."""
    tool = resolution.tools.get(call.name)
    return not call.provider_executed and (tool is None or tool.requires_handler)


def close_calls(response: Response, why: str, resolution: Resolution) -> Response:
    """Return the response with an interrupted result for each of fxai's calls without a result."""
    answered = {part.id for part in response.content if part.type == "tool-result" and not part.preliminary}
    answered.update(part.tool_call_id for part in response.content if part.type == "tool-approval-request")
    calls = [part for part in response.content if part.type == "tool-call" and part.id not in answered]
    ours = interrupt_calls([call for call in calls if is_ours(call, resolution)], why)
    rest = [part for part in response.content if part.type != "finish"]
    ends = [part for part in response.content if part.type == "finish"]
    return in_order(Response((*rest, *ours, *ends)))


def in_order(response: Response) -> Response:
    """Return the response with the results of fxai's calls in the order of the calls, at the positions of results."""
    calls = {part.id: at for at, part in enumerate(response.content) if part.type == "tool-call"}
    slots = [at for at, part in enumerate(response.content) if _call_of(part) in calls]
    if len(slots) < 2:
        return response
    results = sorted([response.content[at] for at in slots], key=lambda part: calls[_call_of(part)])
    content = list(response.content)
    for at, part in zip(slots, results, strict=True):
        content[at] = part
    return Response(tuple(content))


def _call_of(part: Part) -> str:
    """Return the call id of a result or an approval request, or an empty string for another part."""
    if part.type == "tool-result" and not part.provider_executed and not part.preliminary:
        return part.id
    return part.tool_call_id if part.type == "tool-approval-request" else ""
