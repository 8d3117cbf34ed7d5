"""Executions: one run of an agent, from its tools being opened to its turn being committed.

A run is told the instructions, what its memory holds and what is said, in this order. Sources of tools are opened for
it and closed after it, however it ended. What it said is committed to the memory when it has succeeded.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.tools.toolkit import Toolkit
>>> brief = Execution(RunPlan(Toolkit.empty(), {}), Binding(), instructions="Be brief.")
>>> fx.run(brief.answer("Hello").provide(ScriptedModel.make([text("Good day.")]).layer)).history.system()
'Be brief.'
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import islice, takewhile
from typing import Any, Self, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.agents.binding import Binding
from fxai.agents.loop import run_loop, stream_loop
from fxai.agents.memory import Memory
from fxai.agents.plan import RunPlan
from fxai.agents.recall import Commits, recall
from fxai.agents.step_setup import StepSetup
from fxai.effects.context import ContextOf, Key
from fxai.effects.effect import Ask, EffectOf, Fetch, Generate, Succeed, Within
from fxai.effects.layer import LayerOf
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.effects.stream import StreamOf
from fxai.messages.message import SystemMessage
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.language_model import LanguageModel
from fxai.models.round import LATE, Deadline
from fxai.tools.toolkit import Toolkit

__all__ = ["Execution", "Remembering"]

_Begun: TypeAlias = "tuple[Prompt, RunPlan, Commits | None]"
_Opened: TypeAlias = "tuple[RunPlan, LayerOf[Any, Any, Any]]"

_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)
_NO_HANDLERS: LayerOf[Any, Any, Any] = LayerOf.empty()


@final
class Remembering(msgspec.Struct, frozen=True):
    """Which memory a run has, and whether it adds to it."""

    memory: Memory | Key[Any, Memory]
    """A memory, or the key of the service that is one."""
    auto_append: bool = True

    def opened(self) -> EffectOf[Memory, Any, Any]:
        """The memory."""
        if isinstance(self.memory, Memory):
            return Succeed(self.memory)
        fetched: EffectOf[Any, Any, Any] = Fetch(self.memory.__fx_key__())
        return fetched.map(self._checked)

    def _checked(self, service: object) -> Memory:
        if not isinstance(service, Memory):
            raise TypeError(f"with_memory({self.memory!r}): what a layer gives for it is no memory, but {service!r}")
        return service


@final
class Execution(msgspec.Struct, frozen=True):
    """One run to be: its plan, its tools, and what it is told before it is asked."""

    plan: RunPlan
    binding: Binding
    instructions: str | None = None
    model: LayerOf[Any, Any, Any] | None = None
    """The model that the steps are asked of; None for the one around. Handlers keep the one around, if there is one."""
    remembering: Remembering | None = None

    def answer(self, prompt: PromptInput) -> EffectOf[Answer[Any], Any, Any]:
        """The answer to `prompt`."""
        said, model = Prompt.make(prompt), self.model
        if model is None:
            return self._whole(said)

        def asking(around: ContextOf[Any]) -> EffectOf[Answer[Any], Any, Any]:
            return self._whole(said).provide(model) if _is_alone(around) else self._asking(model)._whole(said)

        return Within(asking)

    def parts(self, prompt: PromptInput) -> StreamOf[StreamPart, Any, Any]:
        """The parts of the answer to `prompt`, as they come."""
        said, model = Prompt.make(prompt), self.model
        if model is None:
            return self._streamed(said)

        def asking(around: ContextOf[Any]) -> StreamOf[StreamPart, Any, Any]:
            return self._streamed(said).provide(model) if _is_alone(around) else self._asking(model)._streamed(said)

        return StreamOf.unwrap(Ask(asking))

    def _asking(self, model: LayerOf[Any, Any, Any]) -> Self:
        """The same, each step asked of the model. Handlers keep the one around, which sub-agents may need."""
        plan = msgspec.structs.replace(self.plan, prepare_step=(_Asking(model), *self.plan.prepare_step))
        return msgspec.structs.replace(self, plan=plan)

    # -- what it may do

    def _whole(self, said: Prompt) -> EffectOf[Answer[Any], Any, Any]:
        if self.binding.is_plain:
            return self._answer(said, self._plan(self.binding.toolkit))

        def run(opened: _Opened) -> EffectOf[Answer[Any], Any, Any]:
            plan, layer = opened
            return self._answer(said, plan).provide(layer)

        return scoped(self._opened().flat_map(run))

    def _streamed(self, said: Prompt) -> StreamOf[StreamPart, Any, Any]:
        if self.binding.is_plain:
            return self._parts(said, self._plan(self.binding.toolkit))

        def run(opened: _Opened) -> StreamOf[StreamPart, Any, Any]:
            plan, layer = opened
            return self._parts(said, plan).provide(layer)

        return StreamOf.unwrap(self._opened().map(run))

    def _opened(self) -> EffectOf[_Opened, Any, Any]:
        """The plan with the tools of sources, which are opened in the time of the run, and the handlers they bring.

        Where the time is up before, the tools are those that were known, and the run will see that it is late.
        """

        def open_() -> Generator[EffectOf[Any, Any, Any], Any, _Opened]:
            seconds, opening, deadline = self.plan.budget.seconds, self.binding.open(), None
            if seconds is not None:
                deadline = Deadline.after((yield _CLOCK), seconds)
                opening = deadline.cut(opening)
            opened = yield opening
            if opened is LATE:
                return self._plan(self.binding.toolkit, deadline), _NO_HANDLERS
            now = opened.now if opened.is_live else None
            return self._plan(opened.toolkit, deadline, now), opened.layer

        return Generate(open_, (), {})

    def _plan(self, toolkit: Toolkit[Any], deadline: Deadline | None = None, now: Any = None) -> RunPlan:
        return msgspec.structs.replace(self.plan, toolkit=toolkit, deadline=deadline, tools_now=now)

    # -- what it is told, and what is kept of it

    def _answer(self, said: Prompt, plan: RunPlan) -> EffectOf[Answer[Any], Any, Any]:
        if self.remembering is None:
            return run_loop(_with_instructions(self.instructions, said), plan)

        def run(begun: _Begun) -> EffectOf[Answer[Any], Any, Any]:
            prompt, timed, commits = begun
            if commits is None:
                return run_loop(prompt, timed)
            return run_loop(prompt, timed, _ending(commits), on_settled=commits.settle)

        return self._begin(said, plan, self.remembering).flat_map(run)

    def _parts(self, said: Prompt, plan: RunPlan) -> StreamOf[StreamPart, Any, Any]:
        if self.remembering is None:
            return stream_loop(_with_instructions(self.instructions, said), plan)

        def run(begun: _Begun) -> StreamOf[StreamPart, Any, Any]:
            prompt, timed, commits = begun
            if commits is None:
                return stream_loop(prompt, timed)
            return stream_loop(prompt, timed, _ending(commits), on_settled=commits.settle)

        return StreamOf.unwrap(self._begin(said, plan, self.remembering).map(run))

    def _begin(self, said: Prompt, plan: RunPlan, remembering: Remembering) -> EffectOf[_Begun, Any, Any]:
        """What the run is told, its plan, whose time runs, and what it adds to the memory, if it adds to it.

        Where the time is up before the memory is loaded, the run will see that it is late, and is not remembered.
        """

        def begin() -> Generator[EffectOf[Any, Any, Any], Any, _Begun]:
            memory: Memory = yield remembering.opened()
            timed = yield _timed(plan)
            past = yield _in_time(memory.load(), timed)
            if past is LATE:
                return _with_instructions(self.instructions, said), timed, None
            systems = Prompt(takewhile(lambda one: one.role == "system", said))
            new = Prompt(islice(said, len(systems), None))
            told = _with_instructions(self.instructions, systems) + recall(past, new) + new
            return told, timed, Commits(memory, told, new) if remembering.auto_append else None

        return Generate(begin, (), {})


def _timed(plan: RunPlan) -> EffectOf[RunPlan, Any, Any]:
    """The plan with its deadline, which is from now on where its time did not run yet."""
    seconds = plan.budget.seconds
    if plan.deadline is not None or seconds is None:
        return Succeed(plan)
    return _CLOCK.map(lambda clock: msgspec.structs.replace(plan, deadline=Deadline.after(clock, seconds)))


def _in_time(loading: EffectOf[Any, Any, Any], timed: RunPlan) -> EffectOf[Any, Any, Any]:
    """What is loaded, or `LATE`. Where the tools took the time, it has as long again, as the last question has."""
    deadline, seconds = timed.deadline, timed.budget.seconds
    if deadline is None or seconds is None:
        return loading
    if deadline.clock.monotonic() >= deadline.at:
        deadline = Deadline.after(deadline.clock, seconds)
    return deadline.cut(loading)


def _is_alone(around: ContextOf[Any]) -> bool:
    """Whether there is no model around."""
    return around.find(LanguageModel) is None


@final
class _Asking(msgspec.Struct, frozen=True):
    """Has each step asked of a model."""

    model: LayerOf[Any, Any, Any]

    def __call__(self, setup: StepSetup) -> StepSetup:
        return setup.with_model(self.model)


def _with_instructions(instructions: str | None, said: Prompt) -> Prompt:
    if instructions is None:
        return said
    told = SystemMessage(instructions)
    return said if len(said) and said[0] == told else Prompt((told,)) + said  # a history of its own has them


def _ending(commits: Commits) -> Callable[[Answer[Any]], EffectOf[Any, Any, Any]]:
    return lambda answer: commits.end(answer) if _is_success(answer) else Succeed(None)


def _is_success(answer: Answer[Any]) -> bool:
    """Whether it is worth remembering: a run that should have given an output and gave none is not."""
    return not answer.typed or answer.value is not msgspec.UNSET or answer.ended == "pending"
