"""Replay of a recorded run: run a program again with the recorded turns of the model, or with the recorded results.

Use `replay_turns` to test changed tools or code without a model, and `replay_results` to test a changed model without
side effects. Compare the new run with the record by `diff_runs`.

>>> from fxai import Agent, Tool, fx
>>> from fxai.agents import RunRecord, diff_runs
>>> from fxai.testing import ScriptedModel, call, text
>>> from returns.result import Success
>>> price = Tool.make("price", parameters=str, success=int)
>>> asked = Agent.make("clerk", toolkit=price).execute("What does tea cost?")
>>> model = ScriptedModel.make([call("price", "tea"), text("It costs 250 cents.")])
>>> before = RunRecord.of(fx.run(asked.provide(price.handler(lambda item: Success(250))).provide(model.layer)))
>>> changed = price.handler(lambda item: Success(300))
>>> print(diff_runs(before, RunRecord.of(fx.run(asked.provide(changed).provide(replay_turns(before))))))
1 difference
~ step 1: price "tea"
    /calls/price/result: 250 → 300
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any, Final, Literal, Never, TypeAlias, cast, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

from fxai.agents.records.run_diff import ValueChange, value_changes
from fxai.agents.records.run_record import RecordedCall, RecordedStep, RunRecord
from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.constructor import die, fail, gen
from fxai.effects.context import AnyContext, put_enclosure
from fxai.effects.effect import AnyEffect, Effect, FailCause, Fold, Local, Succeed, Sync, Within
from fxai.effects.layer import AnyLayer, LayerOf, map_layer_context
from fxai.effects.stream import AnyStream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Finish, Part, ToolCall
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidRequestError
from fxai.messages.response import stream_of
from fxai.models.interceptor import InterceptedCall, Interceptor, LeftRunError, RunInfo, TurnInfo, intercept
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest
from fxai.schema.data import JsonObject, identity, is_array, is_object
from fxai.schema.display import in_line, one_line, quote_name
from fxai.schema.fault import DecodeError, pointer_to
from fxai.tools.annotation import Idempotent, Readonly
from fxai.tools.call import Outcome
from fxai.tools.handler import Answering, CallInfo, missing_handler
from fxai.tools.tool_error import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    OutcomeUnknown,
)
from fxai.tools.tool_info import ToolInfo

_T = TypeVar("_T")
_E = TypeVar("_E", default=Never)
_R = TypeVar("_R", default=None)

Divergence: TypeAlias = Literal["turn", "call", "result", "results", "prompt"]


@final
class RunDiverged(msgspec.Struct, frozen=True):
    """The failure of a replay that the record cannot answer: the step, the reason, and the differences."""

    kind: Divergence
    """`turn`: the record has no further turn. `call`: it has no result for a call. `result`: a recorded result does not
    match the type of its tool. `results`, `prompt`: with `strict`, the request differs from the recorded request."""
    agent: str = ""
    """The sub-agent, as in `RecordedStep`."""
    step: int = 0
    """The number of the step of this run of the agent, from 1. 0 if it is unknown."""
    tool: str = ""
    """The tool of the call, otherwise empty."""
    params: Any = msgspec.UNSET
    """The parameters of the call."""
    values: tuple[ValueChange, ...] = ()
    """The differences from the record. For a call, the differences from the most similar recorded call."""
    history: Prompt | None = None
    """The conversation of the agent so far, or None if it is unknown. `RunRecord.of` returns its record."""

    def to_data(self) -> JsonObject:
        """Return the failure as JSON values, without the conversation, which can contain private data."""
        data: JsonObject = msgspec.to_builtins(msgspec.structs.replace(self, history=None))
        del data["history"]
        return data | {"values": [value.to_data() for value in self.values]}

    @property
    def problem(self) -> str:
        """The step and the reason, with a line for each difference."""
        at = f"step {self.step}" + (f" of {one_line(self.agent)}" if self.agent else "")
        called = f"{quote_name(self.tool)} {one_line(in_line(self.params, compact=True)) if self.tool else ''}".rstrip()
        problem = {
            "turn": f"the record has no turn for {at}",
            "call": f"the record has no result for the call {called} of step {self.step}",
            "result": f"the recorded result of {called} does not match the type of the tool",
            "results": f"{at} differs from the record, because results changed",
            "prompt": f"{at} differs from the record, because the prompt changed",
        }[self.kind]
        return "\n    ".join([problem, *map(str, self.values)])

    @override
    def __str__(self) -> str:
        others = {"turn": ", or pass `otherwise`", "call": ", or pass unknown='run'", "result": ""}
        return f"{self.problem}\nRecord the run again{others.get(self.kind, ', or omit `strict`')}."

    @override
    def __hash__(self) -> int:
        return hash((self.kind, self.agent, self.step, self.tool, self.values))


def replay_turns(
    record: RunRecord, *, strict: bool = False, otherwise: LayerOf[LanguageModel, _E, _R] | None = None
) -> LayerOf[LanguageModel, RunDiverged | _E, _R | None]:
    """Return a layer of a model that answers with the recorded turns. Tools and code run.

    The first request of an agent receives its first recorded turn, and so on, also if the request changed. The model of
    an agent is not called, even if the agent has its own model. A sub-agent receives turns only if the record contains
    them, see `RunRecord.nested`.

    Args:
        record: The record.
        strict: True to fail if a request differs from the recorded request: other messages before the first turn, or
            other results after it. Default: False.
        otherwise: Layer of a model that answers if the record cannot. Default: the run fails.

    Fails with:
        RunDiverged: If the record cannot answer a request. It is a failure of the whole program.
    """
    base: LayerOf[LanguageModel, Any, Any]
    base = LayerOf.succeed(LanguageModel, _RecordedModel()) if otherwise is None else otherwise
    return _replay(base, lambda: _Turns(record, strict=strict, falls_back=otherwise is not None))


def replay_results(
    layer: LayerOf[_T, _E, _R], record: RunRecord, *, unknown: Literal["fail", "run"] = "fail"
) -> LayerOf[_T, RunDiverged | _E, _R | None]:
    """Return a layer with the same services, under which calls receive their recorded results. No handler runs.

    A recorded call answers a call of the same tool with the same parameters, and in its order among equal calls. A
    `Readonly` or `Idempotent` tool returns its last result again. fxai still validates the parameters, and runs calls
    whose parameters are invalid, so that the model receives the validation errors. Recorded calls need no approval. A
    large result is its recorded preview.

    Args:
        layer: Layer of the other services, such as the model. `Layer.empty()` provides none.
        record: The record.
        unknown: `"fail"` if the run fails at a call that the record does not contain, `"run"` to run the call. Default:
            "fail".

    Fails with:
        RunDiverged: If the record cannot answer a call. It is a failure of the whole program.
    """
    return _replay(layer, lambda: _Results(record, runs_unknown=unknown == "run"))


def _replay(layer: AnyLayer, make: Callable[[], Interceptor]) -> AnyLayer:
    return map_layer_context(
        intercept(layer, lambda _: Sync(make)),
        lambda services: put_enclosure(services, lambda program: Fold(program, _open, None)),
    )


def _open(cause: Cause[Any]) -> AnyEffect | None:
    """Convert the defects that stopped the run back into typed failures."""
    reasons: list[Any] = [*cause.reasons]
    for at, reason in enumerate(cause.reasons):
        left = reason.defect.failure if isinstance(reason, Die) and isinstance(reason.defect, LeftRunError) else None
        if isinstance(left, RunDiverged):
            reasons[at] = Fail(left)
    return FailCause(Cause(tuple(reasons))) if reasons != [*cause.reasons] else None


def _diverge(failure: RunDiverged, history: Prompt | None = None) -> AnyEffect:
    return die(LeftRunError(msgspec.structs.replace(failure, history=history)))


# -- turns


@final
class _RecordedModel(LanguageModel):
    """A model without answers. The interceptor answers each request first."""

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        reason = InvalidRequestError(constraint="the replay of a run answers only requests of rounds and agents")
        return fail(AiError("replay", "ask", reason))


@final
class _Position(msgspec.Struct, eq=False):
    """The position of a replay in one run of an agent. The context contains it under this class."""

    agent: str
    steps: list[RecordedStep]
    next: int = 0


@final
class _Outside(msgspec.Struct, eq=False):
    """The requests that the program or a handler sends without an agent. The context of a call contains its own."""

    position: _Position | None = None


@final
class _Turns(Interceptor):
    """The recorded turns. Each run of an agent takes the turns of the recorded run with its names and its number."""

    def __init__(self, record: RunRecord, *, strict: bool, falls_back: bool) -> None:
        self._record, self._strict, self._falls_back = record, strict, falls_back
        self._runs: defaultdict[str, defaultdict[int, list[RecordedStep]]] = defaultdict(lambda: defaultdict(list))
        for step in record.steps:
            self._runs[step.agent][step.run].append(step)
        self._started: defaultdict[str, int] = defaultdict(int)
        self._outside = _Outside()

    def _start(self, agent: str) -> _Position:
        """Return the position of the next run of an agent."""
        run = self._started[agent]
        self._started[agent] += 1
        return _Position(agent, self._runs[agent][run] if agent in self._runs else [])

    @override
    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        def enter(context: AnyContext) -> AnyEffect:
            outer: _Position | None = context.services.get(_Position)
            name = about.agent.replace("%", "%25").replace("/", "%2F").replace("+", "%2B")
            agent = name if outer is None else f"{outer.agent}/{name}".removeprefix("/")
            if outer is None and agent not in self._runs:
                agent = ""  # the record does not name its only agent
            position = self._start(agent)
            return Local(running, lambda inner: inner.put(_Position, position))

        return Within(enter)

    @override
    def turn(self, about: TurnInfo, asking: AnyEffect) -> AnyEffect:
        return Within(lambda context: self._answer(about, context, asking))

    @override
    def stream_turn(self, about: TurnInfo, parts: AnyStream) -> AnyStream:
        def choose(context: AnyContext) -> AnyEffect:
            answered = self._answer(about, context, None)
            if answered is _ASK:
                return Succeed(parts)
            return answered.map(lambda content: StreamOf.from_iterable([*stream_of(content)]))

        return StreamOf.unwrap(Within(choose))

    @override
    def call(self, about: InterceptedCall, running: AnyEffect) -> AnyEffect:
        return Local(running, lambda context: context.put(_Outside, _Outside()))

    def _position_of(self, about: TurnInfo, context: AnyContext) -> _Position:
        """Return the position of a request. Without an agent, it belongs to the program or to the call around it."""
        found: _Position | None = context.services.get(_Position)
        if about.location is not None and found is not None:
            return found
        outside: _Outside = context.services.get(_Outside) or self._outside
        if outside.position is None:
            outside.position = self._start("" if found is None else found.agent)
        return outside.position

    def _answer(self, about: TurnInfo, context: AnyContext, asking: AnyEffect | None) -> AnyEffect:
        position = self._position_of(about, context)
        at = position.next
        position.next += 1
        diverged: RunDiverged | None = None
        if at >= len(position.steps):
            diverged = RunDiverged("turn", position.agent, at + 1)
        elif self._strict:
            diverged = self._compare(position, at, about.request)
        if diverged is None:
            return Succeed(_turn_of(position.steps[at]))
        if not self._falls_back:
            return _diverge(diverged, about.request.prompt)
        position.next = len(position.steps)  # the rest of the record belongs to another conversation
        return _ASK if asking is None else asking

    def _compare(self, position: _Position, at: int, request: ModelRequest) -> RunDiverged | None:
        """Return the difference between a request and the recorded request."""
        if at == 0:
            if position.agent or not len(self._record.prompt):
                return None
            given = _without_metadata(request.prompt.without_system().to_data())
            values = tuple(value_changes(_without_metadata(self._record.prompt.to_data()), given))
            return RunDiverged("prompt", position.agent, 1, values=values) if values else None
        results: JsonObject = {}
        for index in range(len(request.prompt) - 1, -1, -1):  # only the messages after the last turn
            message = request.prompt[index]
            if message.role == "assistant":
                break
            if message.role == "tool":
                results |= {part.id: part.result for part in message.content if part.type == "tool-result"}
        changed: list[ValueChange] = []
        for call in position.steps[at - 1].calls:
            if call.result is not msgspec.UNSET and not call.provider_executed and not call.handle:
                pointer = pointer_to(pointer_to("/calls", call.name), "failure" if call.is_failure else "result")
                changed += value_changes(call.result, results.get(call.id, msgspec.UNSET), pointer)
        return RunDiverged("results", position.agent, at + 1, values=tuple(changed)) if changed else None


_ASK: Final[AnyEffect] = Succeed(None)
"""The answer to a streamed request that the model itself must answer."""


def _without_metadata(data: Any) -> Any:
    if is_array(data):
        return [_without_metadata(one) for one in data]
    if is_object(data):
        return {name: _without_metadata(one) for name, one in data.items() if name != "metadata"}
    return data


def _turn_of(step: RecordedStep) -> tuple[Part, ...]:
    """Return the parts of the model: without results, requests, and warnings of fxai."""
    own = {part.id for part in step.content if part.type == "tool-call" and not part.provider_executed}
    parts: list[Part] = []
    for part in step.content:
        if (part.type == "tool-result" and not part.provider_executed) or part.type == "warning":
            continue
        if part.type == "tool-approval-request" and part.tool_call_id in own:
            continue
        if part.type == "finish" and part.reason == "pending" and own:
            part = msgspec.structs.replace(part, reason="tool-calls")
        parts.append(part)
    if not any(part.type == "finish" for part in parts):
        parts.append(Finish("tool-calls" if own else "stop"))
    return tuple(parts)


# -- results


@final
class _Results(Interceptor):
    """The recorded results, by tool and parameters."""

    def __init__(self, record: RunRecord, *, runs_unknown: bool) -> None:
        self._runs_unknown = runs_unknown
        self._left: defaultdict[Hashable, deque[RecordedCall]] = defaultdict(deque)
        self._last: dict[Hashable, RecordedCall] = {}
        self._by_id: dict[str, RecordedCall] = {}
        self._by_name: defaultdict[str, list[RecordedCall]] = defaultdict(list)
        for call in (call for step in record.steps for call in step.calls):
            if call.result is msgspec.UNSET or _type_of(call) in _MISTAKES:
                continue  # fxai validates the parameters again
            if call.params is msgspec.UNSET:
                self._by_id[call.id] = call
            else:
                self._left[_key(call)].append(call)
                self._by_name[call.name].append(call)

    @override
    @gen
    def admit(self, about: InterceptedCall, asking: AnyEffect) -> Generator[AnyEffect, Any, Any]:
        """Return None for a recorded call, so that it runs without approval, or the outcome of an external call."""
        yield about.reread()
        if self._find(about) is None:
            return (yield asking)
        if about.tool.requires_handler:
            return None
        refused = yield asking
        return (yield _outcome(about, self._take(about))) if refused is None else refused

    @override
    @gen
    def call(self, about: InterceptedCall, running: AnyEffect) -> Generator[AnyEffect, Any, Any]:
        yield about.reread()
        found = self._find(about)
        if found is not None and (found.handle or _type_of(found) in _BY_TYPE):  # the tool's types do not describe it
            return (yield _outcome(about, self._take(about)))
        return (yield Local(running, _RecordedHandler(self, about).into))

    def _find(self, about: InterceptedCall) -> RecordedCall | None:
        key = _key(about.call)
        if self._left.get(key):
            return self._left[key][0]
        repeats = about.tool.get(Readonly) or about.tool.get(Idempotent)
        return self._by_id.get(about.call.id) or (self._last.get(key) if repeats else None)

    def _take(self, about: InterceptedCall) -> RecordedCall:
        """Return the next recorded result of a call that the record contains."""
        found, key = self._find(about), _key(about.call)
        if self._left.get(key):
            self._last[key] = self._left[key].popleft()
        return cast(RecordedCall, found)

    def answer(self, about: InterceptedCall, history: Prompt | None, live: Callable[[], Any]) -> Any:
        """Return the recorded result of a valid call for its handler. Stop the run if no result is recorded."""
        if self._find(about) is not None:
            read = _result(about, self._take(about))
            return _diverge(read, history) if isinstance(read, RunDiverged) else read
        if self._runs_unknown:
            return live()
        call = about.call
        step = int(about.location) if about.location is not None and about.location.isdecimal() else 0
        return _diverge(RunDiverged("call", "", step, call.name, call.params, self._nearest(call)), history)

    def _nearest(self, call: ToolCall) -> tuple[ValueChange, ...]:
        """Return the differences from the recorded call of this tool with the fewest differences."""
        found = [tuple(value_changes(one.params, call.params, "/params")) for one in self._by_name[call.name][:_MOST]]
        return min((values for values in found if values), key=len, default=())


@final
class _RecordedHandler(Answering):
    """The handler of one call, which returns its recorded result. fxai validates the parameters first."""

    def __init__(self, results: _Results, about: InterceptedCall) -> None:
        self._results = results
        self._about = about
        self._live: Answering | None = None

    def into(self, context: AnyContext) -> AnyContext:
        """Return the context with this handler instead of the handler of the tool."""
        key: Any = self._about.tool.identity
        self._live = context.services.get(key)
        return context.put(key, self)

    @override
    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> Any:
        def live() -> Any:
            if self._live is None:
                raise missing_handler(tool)
            return self._live.answer(params, tool, call, services)

        return self._results.answer(self._about, None if call is None else call.prompt, live)

    @override
    def missing(self, services: AnyContext) -> tuple[Any, ...]:
        return ()


_MOST: Final = 100  # compared calls for a message
_UNRUN: Final[tuple[Any, ...]] = (
    *(ApprovalExpired, ApprovalUnavailable, Denied, HandlerUnavailable, InDoubt, Interrupted, OutcomeUnknown),
)
_BY_TYPE: Final[Mapping[Any, Callable[[str, str], Any]]] = {kind.__struct_config__.tag: kind for kind in _UNRUN}

_MISTAKES: Final = ("invalid-parameters", "unknown-tool")  # mistakes of the model, which fxai finds before the handler


def _key(call: ToolCall | RecordedCall) -> Hashable:
    return call.name, identity(call.params)


def _type_of(recorded: RecordedCall) -> str:
    """Return the type of a failure without a schema, such as `execution-denied`, or an empty string."""
    found = recorded.result.get("type") if recorded.is_failure and is_object(recorded.result) else None
    return found if isinstance(found, str) else ""


def _outcome(about: InterceptedCall, recorded: RecordedCall) -> AnyEffect:
    """Return the recorded outcome of a call without its handler."""
    value, unrun = recorded.result, _BY_TYPE.get(_type_of(recorded))
    if unrun is not None:
        failure = unrun(about.call.name, str(value.get("reason", "")))
        return Succeed(Outcome(failure, value, is_failure=True))
    if recorded.handle:
        return Succeed(Outcome(value, value, recorded.is_failure))
    read = _result(about, recorded)
    if isinstance(read, RunDiverged):
        return _diverge(read)
    result = read.failure() if isinstance(read, Failure) else read.unwrap()
    return Succeed(Outcome(result, value, recorded.is_failure))


def _result(about: InterceptedCall, recorded: RecordedCall) -> Result[Any, Any] | RunDiverged:
    """Return the recorded result with the types of the tool, or the reason why it does not match them."""
    try:
        if recorded.is_failure:
            return Failure(about.tool.failure.decode_unsafe(recorded.result))
        return Success(about.tool.success.decode_unsafe(recorded.result))
    except DecodeError as error:
        values = tuple([ValueChange(f"/result{one.pointer}", one.expected, one.found) for one in error.failure.faults])
        return RunDiverged("result", tool=about.call.name, params=about.call.params, values=values)
