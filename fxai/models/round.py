"""Rounds: a model is asked once, and the calls of its turn are run; whole, or streamed part by part.

A round is a generator of effects, and the same one either way. Streamed, it also hands each part to its reader as soon
as it is there: the model's parts, then the results of the calls as they come. How the turn finished is left to whoever
drives the round: what ends it may be done before its last part is given.

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
from typing import Any, Final, Protocol, TypeAlias, final

import msgspec

from fxai.effects.cause import Cause, Exit, Fail, Succeeded
from fxai.effects.effect import EffectOf, FailCause, Fold, Generate, Succeed, Timeout
from fxai.effects.layer import LayerOf
from fxai.effects.pull import END
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.effects.stream import StreamOf
from fxai.messages.accumulate import gather
from fxai.messages.errors import AiError
from fxai.messages.part import Finish, Part, StreamPart, ToolCall, ToolResult
from fxai.messages.response import Response
from fxai.models.request import ModelRequest
from fxai.models.resolve import Emit, Resolution, Turn, with_responses
from fxai.tools.failure import Interrupted, encode_failure

__all__ = [
    "LATE",
    "TIME_IS_UP",
    "UNLIMITED",
    "Deadline",
    "Limits",
    "Round",
    "Steps",
    "in_order",
    "interrupted",
    "is_ours",
    "take_turn",
]

Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]

TIME_IS_UP: Final = "the time of the run was up"
"""Why calls were not run to their end."""


# -- what limits a round


@final
class _Late:
    """Stands for the value of what was cut."""


LATE: Final = _Late()
"""What an effect that was cut at a deadline gives."""


@final
class Deadline(msgspec.Struct, frozen=True, eq=False):
    """When a run is cut."""

    clock: Clock
    at: float
    """By the clock's `monotonic`."""

    @staticmethod
    def after(clock: Clock, seconds: float) -> Deadline:
        """The deadline `seconds` from now."""
        return Deadline(clock, clock.monotonic() + seconds)

    def cut(self, effect: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        """The effect, which gives `LATE` where it is not over by then."""
        left = self.at - self.clock.monotonic()
        if left <= 0:
            return Succeed(LATE)
        # The exit is the value, so that a `Timeout` that the effect failed with is not taken for this one.
        return Fold(effect.exit().timeout(left), _late, _outcome)


def _late(cause: Cause[Timeout]) -> EffectOf[Any, Any, Any]:
    others = tuple(reason for reason in cause.reasons if not isinstance(reason, Fail))
    return FailCause(Cause(others)) if others else Succeed(LATE)


def _outcome(end: Exit[Any, Any]) -> EffectOf[Any, Any, Any]:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)


@final
class Limits(msgspec.Struct, frozen=True, eq=False):
    """What a run allows one of its rounds."""

    cut: Callable[[EffectOf[Any, Any, Any]], EffectOf[Any, Any, Any]]
    """Gives `LATE` for what is not over when the time is up."""
    refuse: Callable[[list[ToolCall], Resolution], list[ToolResult]]
    """The results of those calls of a turn that are not to be run."""


UNLIMITED: Final = Limits(lambda effect: effect, lambda _calls, _resolution: [])


# -- the round


class Asked(Protocol):
    """What a round asks: a language model."""

    def ask(self, request: ModelRequest, /) -> EffectOf[tuple[Part, ...], AiError, None]:
        """The model's turn, whole."""
        ...

    def ask_stream(self, request: ModelRequest, /) -> StreamOf[StreamPart, AiError, None]:
        """The same turn as it comes."""
        ...


@final
class Round(msgspec.Struct, frozen=True, eq=False):
    """What came of a round."""

    response: Response
    """The model's turn with the results of its calls; of a turn that was cut, what was heard of it, closed."""
    is_whole: bool = True
    """False: the time was up before the model had finished its turn, which does not count."""
    unread: tuple[ToolResult, ...] = ()
    """Results that a stream has not given yet, because the time was up."""

    @property
    def finish(self) -> list[Finish]:
        """How the turn finished: the last parts of its stream."""
        return [part for part in self.response.content if part.type == "finish"]


def take_turn(
    model: Asked,
    request: ModelRequest,
    resolution: Resolution,
    emit: Emit | None = None,
    *,
    resolves: bool = True,
    early: tuple[ToolResult, ...] = (),
    handlers: LayerOf[Any, Any, Any] | None = None,
    limits: Limits = UNLIMITED,
) -> Steps:
    """The steps of a round, which give a `Round`.

    Fails as the model does; where handlers failed, with that, when the other calls have ended, the response of the
    round in it.

    Args:
        model: what is asked.
        request: what it is asked.
        resolution: how its calls are run.
        emit: hands a part to the reader of the round, where there is one; the model's turn is streamed then.
        resolves: whether calls are run; else they are given back.
        early: results from before the turn, which a response that a failure holds begins with.
        handlers: those that are there for this round alone.
        limits: what the run allows.
    """
    said: list[Any] = []
    if emit is None:
        parts = yield limits.cut(model.ask(request))
    else:
        parts = yield scoped(Generate(_read_turn, (model.ask_stream(request), resolution, said, emit, limits), {}))
    if parts is LATE:
        return _unfinished(said, resolution)
    if not resolves:
        return Round(Turn(parts, resolution).response())
    round_, failed = yield from _resolve(parts, resolution, emit, handlers, limits)
    if failed is not None:
        yield FailCause(with_responses(failed, Response((*early, *round_.response.content))))
    return round_


def _resolve(
    parts: tuple[Part, ...],
    resolution: Resolution,
    emit: Emit | None,
    handlers: LayerOf[Any, Any, Any] | None,
    limits: Limits,
) -> Steps:
    """Runs the calls of a turn; gives the round, and what failed in handlers."""
    calls = [resolution.flagged(part) for part in parts if part.type == "tool-call"]
    refused = limits.refuse(calls, resolution) if calls else []
    turn = Turn((*parts, *refused) if refused else parts, resolution)
    read = {part.id for part in parts if part.type == "tool-result"}
    if emit is None:
        running = turn.resolve()
        end = yield limits.cut(running if handlers is None else running.provide(handlers))
    else:
        end = yield from _stream_results(turn, refused, read, emit, handlers, limits)
    response = in_order(turn.response()) if refused else turn.response()
    if end is not LATE:
        return Round(response), turn.failed
    response = closed(response, TIME_IS_UP, resolution)
    return Round(response, unread=_unread(response, read)), turn.failed


def _stream_results(
    turn: Turn,
    refused: list[ToolResult],
    read: set[str],
    emit: Emit,
    handlers: LayerOf[Any, Any, Any] | None,
    limits: Limits,
) -> Steps:
    """Hands the results of a turn on as they come, and notes them in `read`; `LATE`, where the time was up before."""
    for result in refused:
        read.add(result.id)
        yield emit(result)
    if not turn.calls:
        return None
    results: StreamOf[Any, Any, Any] = StreamOf.from_channel(lambda channel: turn.resolve(channel.put, channel.offer))
    given = results if handlers is None else results.provide(handlers)
    return (yield scoped(Generate(_read_results, (given, read, emit, limits), {})))


def _read_turn(
    stream: StreamOf[Any, Any, Any], resolution: Resolution, said: list[Any], emit: Emit, limits: Limits
) -> Steps:
    """The parts of a streamed turn, which are handed on as they come, all but its finish; `LATE`, where it was cut."""
    for warning in resolution.warnings:
        yield emit(warning)
    broken: set[str] = set()  # what began as a call and is none yet
    part: Any
    pull: Any = yield limits.cut(stream.pull())
    while (part := LATE if pull is LATE else (yield limits.cut(pull))) is not END:
        if part is LATE:
            return LATE
        if part.type == "tool-call":
            part = resolution.flagged(part)
            broken.discard(part.id)
        elif part.type == "tool-params-start":
            part = resolution.flagged(part)
            broken.add(part.id)
        said.append(part)
        if part.type != "finish":
            yield emit(part)
    parts = gather(said)
    for part in parts if broken else ():
        if part.type == "tool-call" and part.id in broken:
            yield emit(part)
    return parts


def _read_results(stream: StreamOf[Any, Any, Any], read: set[str], emit: Emit, limits: Limits) -> Steps:
    """Hands the results on as they come, and notes them in `read`; gives `LATE` where the time was up before the end.

    Where it is up, what runs is stopped.
    """
    part: Any
    pull: Any = yield limits.cut(stream.pull())
    while (part := LATE if pull is LATE else (yield limits.cut(pull))) is not END and part is not LATE:
        if part.type == "tool-result" and not part.preliminary:
            read.add(part.id)
        yield emit(part)
    return part


def _unfinished(said: list[Any], resolution: Resolution) -> Round:
    """A round whose turn was cut: what was heard of it, each of its calls answered."""
    if not said:
        return Round(Response(), is_whole=False)
    parts = gather(said)
    read = {part.id for part in parts if part.type == "tool-result"}
    response = closed(Response((*parts, Finish("other"))), TIME_IS_UP, resolution)
    return Round(response, is_whole=False, unread=_unread(response, read))


def _unread(response: Response, read: set[str]) -> tuple[ToolResult, ...]:
    return tuple(part for part in response.content if part.type == "tool-result" and part.id not in read)


# -- calls that are not run to their end


def interrupted(calls: Iterable[ToolCall], why: str) -> list[ToolResult]:
    """A result for each call, which says why it was not run to its end."""
    failures = [(call, Interrupted(call.name, why)) for call in calls]
    return [
        ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)
        for call, failure in failures
    ]


def is_ours(call: ToolCall, resolution: Resolution) -> bool:
    """Whether a call is run here: not by its provider, and not by somebody else."""
    tool = resolution.tools.get(call.name)
    return not call.provider_executed and (tool is None or tool.requires_handler)


def closed(response: Response, why: str, resolution: Resolution) -> Response:
    """The response, in which each call of ours has its result: those that have none were interrupted."""
    answered = {part.id for part in response.content if part.type == "tool-result" and not part.preliminary}
    answered.update(part.tool_call_id for part in response.content if part.type == "tool-approval-request")
    calls = [part for part in response.content if part.type == "tool-call" and part.id not in answered]
    ours = interrupted([call for call in calls if is_ours(call, resolution)], why)
    rest = [part for part in response.content if part.type != "finish"]
    ends = [part for part in response.content if part.type == "finish"]
    return in_order(Response((*rest, *ours, *ends)))


def in_order(response: Response) -> Response:
    """The response with the results of our calls in the order of the calls, each where one of them stood."""
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
    """The id of the call that a result of ours, or what stands in its place, is for; else nothing."""
    if part.type == "tool-result" and not part.provider_executed and not part.preliminary:
        return part.id
    return part.tool_call_id if part.type == "tool-approval-request" else ""
