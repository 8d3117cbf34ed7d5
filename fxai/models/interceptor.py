"""Interceptors: what stands around the parts of a run, the runs of agents, turns of models, and calls of tools.

An interceptor is a service that no type names: a layer adds it, so that the program around stays as it is. Where there
is none, a run pays for one look into its context. What makes runs durable is an interceptor: it journals what a part
gave, and gives it again instead of running the part a second time.

Several of them stand around each other: that of an outer layer around that of an inner one.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> from fxai.testing import ScriptedModel, text
>>> class Shout(Interceptor):
...     def turn(self, about, asking):
...         return asking.tap(lambda parts: fx.sync(lambda: print(f"turn {about.place}: {len(parts)} parts")))
>>> model = intercept(ScriptedModel.make([text("Good day.")]).layer, lambda _: fx.succeed(Shout()))
>>> fx.run(LanguageModel.generate_text("Hello").provide(model)).text
turn None: 2 parts
'Good day.'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Within
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.scope import Scope
from fxai.effects.stream import AnyStream
from fxai.messages.part import ToolCall
from fxai.messages.prompt import Prompt
from fxai.models.model_request import ModelRequest
from fxai.tools.call_key import CallKey
from fxai.tools.handler import InnerCall, InnerCalls
from fxai.tools.tool import Tool

_T = TypeVar("_T")
_E = TypeVar("_E")
_E2 = TypeVar("_E2")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")


@final
class RunInfo(msgspec.Struct, frozen=True, eq=False):
    """A run of an agent that is about to begin."""

    agent: str
    """The name of the agent, or of the stateful prompt."""
    prompt: Prompt
    """What it was given: not its instructions, and nothing of its memory."""
    seconds: float | None = None
    """The time that its budget allows it; None: any."""


@final
class StepInfo(msgspec.Struct, frozen=True, eq=False):
    """A step of a run of an agent that is about to begin."""

    number: int
    """The number of the step, from 1."""


@final
class TurnInfo(msgspec.Struct, frozen=True, eq=False):
    """A turn that a model is about to be asked for."""

    place: str | None
    """The place in the run of the agent: "1" is its first step, "last" the question when the budget is spent; None
    where no agent asks."""
    request: ModelRequest


@final
class CallInfo(msgspec.Struct, eq=False):
    """A call of a turn, which is about to be run."""

    place: str | None
    """The place of the turn in the run of the agent, as of `TurnInfo`; "approved" of calls that its history approves;
    None where no agent asks."""
    index: int
    """Which of the calls of the turn that are ours, from 0."""
    call: ToolCall
    """The call, as it will be run."""
    tool: Tool[Any, Any, Any]
    reread: Callable[[], EffectOf[None]]
    """Puts the call as it is read in the place of the call as it was written, as running it would do."""
    repaired: bool = False
    """Whether it takes the place of a call that could not be run."""
    set_key: Callable[[CallKey], None] | None = None
    """Names the call for its handler, if that is known before it runs."""
    approval_id: str | None = None
    """What a request for its approval is to be called; None: anything."""


@final
class WorkInfo(msgspec.Struct, frozen=True, eq=False):
    """Work of a run beside turns and calls: of its memory, and of its hooks."""

    name: str
    """Unique in the run of the agent."""
    encode: Callable[[Any], Any] | None = lambda _: None
    """The value as plain JSON data, `UNSET` where it is none; None: it never is. Such work is done again."""
    decode: Callable[[Any], Any] = lambda _: None
    """The value of plain JSON data; it raises a `ValueError` where that is none."""
    ended: AnyEffect | None = None
    """Whether the work was done before, asked because it was begun and not seen to end; None: it is done again."""
    unique: bool = True
    """Whether the name is; else of several works of one name the first is the first."""


class LeftRunError(Exception):
    """What an interceptor leaves a run by: a defect, so that nothing on the way takes it for a failure of its own.

    The calls that were under way are told as interrupted for its reason, or as the `OutcomeUnknown` that it holds.
    """

    def __init__(self, failure: object) -> None:
        super().__init__(str(failure))
        self.failure = failure
        """Why the run is left, a value that says so in words."""


class Interceptor(InnerCalls):
    """Stands around the parts of a run. Each method gives the effect in the place of the one that it is given."""

    resumes: bool = False
    """True if a run that ended with a defect can continue later, from a journal. Default: False."""

    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        """A run of an agent, which gives its `Answer`, also where it is read as a stream."""
        del about
        return running

    def step(self, about: StepInfo, running: AnyEffect) -> AnyEffect:
        """A step of a run: its render and its hooks, its turn, and the calls of that; its value is the run's."""
        del about
        return running

    def turn(self, about: TurnInfo, asking: AnyEffect) -> AnyEffect:
        """A model's turn, which gives its parts."""
        del about
        return asking

    def stream_turn(self, about: TurnInfo, parts: AnyStream) -> AnyStream:
        """A model's turn, part by part."""
        del about
        return parts

    def admit(self, about: CallInfo, asking: AnyEffect) -> AnyEffect:
        """The question whether a call may be run, of a tool that may need approval, or that is answered outside.

        It gives None: it is run, or its result comes from outside; an `ApprovalRequest`: it waits for that; an
        `Outcome`: that is what it came to.
        """
        del about
        return asking

    def call(self, about: CallInfo, running: AnyEffect) -> AnyEffect:
        """A call that is run, which gives its `Outcome`."""
        del about
        return running

    @override
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        """A call inside the call of a composite, which gives its `Outcome`."""
        del about
        return running

    def work(self, about: WorkInfo, working: AnyEffect) -> AnyEffect:
        """Work beside turns and calls."""
        del about
        return working


@final
class _Chain(Interceptor):
    """Interceptors around each other, the outermost first."""

    def __init__(self, links: tuple[Interceptor, ...]) -> None:
        self.links = links
        self.resumes = any(link.resumes for link in links)

    @override
    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            running = link.run(about, running)
        return running

    @override
    def step(self, about: StepInfo, running: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            running = link.step(about, running)
        return running

    @override
    def turn(self, about: TurnInfo, asking: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            asking = link.turn(about, asking)
        return asking

    @override
    def stream_turn(self, about: TurnInfo, parts: AnyStream) -> AnyStream:
        for link in reversed(self.links):
            parts = link.stream_turn(about, parts)
        return parts

    @override
    def admit(self, about: CallInfo, asking: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            asking = link.admit(about, asking)
        return asking

    @override
    def call(self, about: CallInfo, running: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            running = link.call(about, running)
        return running

    @override
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            running = link.inner_call(about, running)
        return running

    @override
    def work(self, about: WorkInfo, working: AnyEffect) -> AnyEffect:
        for link in reversed(self.links):
            working = link.work(about, working)
        return working


def interceptor_of(context: ContextOf[Any]) -> Interceptor | None:
    """The interceptor of a context; None: there is none."""
    return cast("Interceptor | None", context.services.get(Interceptor))


def intercept(
    layer: LayerOf[_T, _E, _R], make: Callable[[ContextOf[Any]], EffectOf[Interceptor, _E2, _R2]]
) -> LayerOf[_T, _E | _E2, _R | _R2]:
    """The layer with an interceptor, which stands around those of the layer, and inside of those around it.

    Args:
        layer: what else is provided.
        make: gives the interceptor, of the services of the layer and of those around; what it acquires is released with
            the layer. It is run once for each program that the layer is provided to.
    """

    def build(memo: MemoMap, scope: Scope) -> EffectOf[ContextOf[Any], Any, Any]:
        def within(around: ContextOf[Any]) -> AnyEffect:
            def add(services: ContextOf[Any]) -> AnyEffect:
                made: EffectOf[Interceptor, Any, Any] = scope.around(make(around.merge(services)))
                return made.map(lambda own: _put(services, _stack(own, services, around)))

            return layer.build_in(memo, scope).flat_map(add)

        return Within(within)

    return LayerOf(build)


def _put(services: ContextOf[Any], stack: Interceptor) -> ContextOf[Any]:
    return services.put(Interceptor, stack).put(InnerCalls, stack)


def _stack(own: Interceptor, services: ContextOf[Any], around: ContextOf[Any]) -> Interceptor:
    outer = _links(interceptor_of(around))
    inner = _links(interceptor_of(services))
    links = (*outer, own, *inner[len(outer) if inner[: len(outer)] == outer else 0 :])
    return own if links == (own,) else _Chain(links)


def _links(interceptor: Interceptor | None) -> tuple[Interceptor, ...]:
    if interceptor is None:
        return ()
    return interceptor.links if isinstance(interceptor, _Chain) else (interceptor,)
