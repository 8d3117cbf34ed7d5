"""Interceptors: wrap the parts of a run: runs, steps, turns, and calls. Use them for journals and tracing.

An interceptor is a service that does not occur in types. A layer adds it, so that the program stays unchanged. Without
an interceptor, a run only looks once into its context. Durable runs use an interceptor: it records the result of each
part, and returns the recorded result instead of a second execution.

Multiple interceptors wrap each other. The interceptor of an outer layer wraps the interceptor of an inner layer.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> from fxai.testing import ScriptedModel, text
>>> class Shout(Interceptor):
...     def turn(self, about, asking):
...         return asking.tap(lambda parts: fx.sync(lambda: print(f"turn {about.location}: {len(parts)} parts")))
>>> model = intercept(ScriptedModel.make([text("Good day.")]).layer, lambda _: fx.succeed(Shout()))
>>> fx.run(LanguageModel.generate_text("Hello").provide(model)).text
turn None: 2 parts
'Good day.'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never, TypeVar, cast, final, overload

import msgspec
from typing_extensions import override

from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, EffectOf, Within
from fxai.effects.layer import LayerOf, MemoMap, build_layer
from fxai.effects.scope import Scope
from fxai.effects.stream import AnyStream
from fxai.messages.part import ToolCall
from fxai.messages.prompt import Prompt
from fxai.models.model_request import ModelRequest
from fxai.tools.handler import InnerCall, InnerCalls
from fxai.tools.tool import AnyTool
from fxai.tools.tool_info import CallKey

_T = TypeVar("_T")
_E = TypeVar("_E")
_E2 = TypeVar("_E2")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")


@final
class RunInfo(msgspec.Struct, frozen=True, eq=False):
    """A run of an agent before its start."""

    agent: str
    """The name of the agent, or of the stateful prompt."""
    prompt: Prompt
    """The prompt of the caller, without the instructions and the messages of the memory."""
    seconds: float | None = None
    """Maximum duration of the run in seconds, or None for no limit."""


@final
class StepInfo(msgspec.Struct, frozen=True, eq=False):
    """A step of a run before its start."""

    number: int
    """The number of the step, from 1."""


@final
class TurnInfo(msgspec.Struct, frozen=True, eq=False):
    """A turn of the model before its request."""

    location: str | None
    """The position in the run of the agent: "1" for its first step, "last" for the request after the budget is
    exhausted, or None outside an agent."""
    request: ModelRequest
    """The request, before the model receives it."""


@final
class InterceptedCall(msgspec.Struct, eq=False):
    """A call of a turn before it runs."""

    location: str | None
    """The position of the turn in the run of the agent, as in `TurnInfo`; "approved" for calls that the history
    approves; None outside an agent."""
    index: int
    """The index among the turn's calls that fxai handles, from 0."""
    call: ToolCall
    """The call in its final form."""
    tool: AnyTool
    """The tool of the call."""
    reread: Callable[[], EffectOf[None]]
    """Replaces the written call with its parsed form. Running the call does the same."""
    repaired: bool = False
    """True if a repair returned this call instead of an invalid call."""
    set_key: Callable[[CallKey], None] | None = None
    """Sets the key of the call for its handler before it runs, or None."""
    approval_id: str | None = None
    """The id for a request for approval, or None for a random id."""


@final
class WorkInfo(msgspec.Struct, frozen=True, eq=False):
    """Other work of a run: work of its memory and its hooks."""

    name: str
    """The name of the work, unique in the run of the agent."""
    encode: Callable[[Any], Any] | None = lambda _: None
    """Returns the value as a JSON value, or `UNSET` if the value has no JSON form. With None instead of a function,
    fxai repeats the work."""
    decode: Callable[[Any], Any] = lambda _: None
    """Returns the value from a JSON value. It raises `ValueError` if the JSON value is invalid."""
    ended: AnyEffect | None = None
    """An effect that decides whether work with an unknown outcome was successful, or None to repeat the work."""
    unique: bool = True
    """True if the name is unique. Otherwise fxai numbers works with the same name in the order of their start."""


class LeftRunError(Exception):
    """The defect that an interceptor raises to stop a run. Because it is a defect, no code handles it as its failure.

    Calls that were running get an interrupted result with its reason, or the `OutcomeUnknown` that it contains.
    """

    def __init__(self, failure: object) -> None:
        super().__init__(str(failure))
        self.failure = failure
        """The reason to stop the run, a value with a readable string form."""


class Interceptor(InnerCalls):
    """A wrapper around the parts of a run. Each method returns an effect that replaces the effect it receives."""

    resumes: bool = False
    """True if a run that ended with a defect can resume later from a journal. Default: False."""

    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        """Wrap a run of an agent. The effect succeeds with its `Answer`, also for a stream."""
        del about
        return running

    def step(self, about: StepInfo, running: AnyEffect) -> AnyEffect:
        """Wrap a step of a run: its render, hooks, turn, and calls. The effect succeeds with the value of the run."""
        del about
        return running

    def turn(self, about: TurnInfo, asking: AnyEffect) -> AnyEffect:
        """Wrap a turn from the model. The effect succeeds with its parts."""
        del about
        return asking

    def stream_turn(self, about: TurnInfo, parts: AnyStream) -> AnyStream:
        """Wrap a streamed turn from the model."""
        del about
        return parts

    def admit(self, about: InterceptedCall, asking: AnyEffect) -> AnyEffect:
        """Wrap the decision about a call that may need an approval or an external result.

        The effect succeeds with None if the call can run or its result is external. It succeeds with an
        `ApprovalRequest` if the call needs an approval, or with an `Outcome` if the call has already ended.
        """
        del about
        return asking

    def call(self, about: InterceptedCall, running: AnyEffect) -> AnyEffect:
        """Wrap a call. The effect succeeds with its `Outcome`."""
        del about
        return running

    @override
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        """Wrap an inner call of a composite. The effect succeeds with its `Outcome`."""
        del about
        return running

    def work(self, about: WorkInfo, working: AnyEffect) -> AnyEffect:
        """Wrap other work of a run."""
        del about
        return working


def _through(wrap: Callable[[Interceptor, Any, Any], Any]) -> Any:
    """Return the method of a chain that wraps an effect by each link, from the innermost to the outermost link."""

    def method(chain: _Chain, about: object, wrapped: Any) -> Any:
        for link in reversed(chain.links):
            wrapped = wrap(link, about, wrapped)
        return wrapped

    return method


@final
class _Chain(Interceptor):
    """Interceptors that wrap each other, the outermost interceptor first."""

    def __init__(self, links: tuple[Interceptor, ...]) -> None:
        self.links = links
        self.resumes = any(link.resumes for link in links)

    run = _through(lambda link, about, running: link.run(about, running))
    step = _through(lambda link, about, running: link.step(about, running))
    turn = _through(lambda link, about, asking: link.turn(about, asking))
    stream_turn = _through(lambda link, about, parts: link.stream_turn(about, parts))
    admit = _through(lambda link, about, asking: link.admit(about, asking))
    call = _through(lambda link, about, running: link.call(about, running))
    inner_call = _through(lambda link, about, running: link.inner_call(about, running))
    work = _through(lambda link, about, working: link.work(about, working))


def interceptor_of(context: AnyContext) -> Interceptor | None:
    """Return the interceptor of a context, or None."""
    return cast("Interceptor | None", context.services.get(Interceptor))


@overload  # with Never first: pyright solves `E | E2` to Unknown when both are Never
def intercept(
    layer: LayerOf[_T, _E, _R], make: Callable[[AnyContext], EffectOf[Interceptor, Never, _R2]]
) -> LayerOf[_T, _E, _R | _R2]: ...
@overload
def intercept(
    layer: LayerOf[_T, _E, _R], make: Callable[[AnyContext], EffectOf[Interceptor, _E2, _R2]]
) -> LayerOf[_T, _E | _E2, _R | _R2]: ...
def intercept(
    layer: LayerOf[_T, _E, _R], make: Callable[[AnyContext], EffectOf[Interceptor, _E2, _R2]]
) -> LayerOf[_T, _E | _E2, _R | _R2]:
    """Return the layer with an interceptor between the interceptors of the context and of the layer.

    Args:
        layer: The layer.
        make: Returns the effect of the interceptor from the services of the layer and of the context. fxai runs it once
            for each program with this layer, and releases its resources with the layer.
    """

    def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
        def within(around: AnyContext) -> AnyEffect:
            def add(services: AnyContext) -> AnyEffect:
                made: EffectOf[Interceptor, Any, Any] = scope.around(make(around.merge(services)))
                return made.map(lambda own: _with_stack(own, services, around))

            return build_layer(layer, memo, scope).flat_map(add)

        return Within(within)

    return LayerOf(build)


def _with_stack(own: Interceptor, services: AnyContext, around: AnyContext) -> AnyContext:
    outer = _links(interceptor_of(around))
    inner = _links(interceptor_of(services))
    links = (*outer, own, *inner[len(outer) if inner[: len(outer)] == outer else 0 :])
    stack = own if links == (own,) else _Chain(links)
    return services.put(Interceptor, stack).put(InnerCalls, stack)


def _links(interceptor: Interceptor | None) -> tuple[Interceptor, ...]:
    if interceptor is None:
        return ()
    return interceptor.links if isinstance(interceptor, _Chain) else (interceptor,)
