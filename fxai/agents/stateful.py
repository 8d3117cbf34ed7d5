"""Stateful prompts: a function that is rendered anew before each step of a run.

What it defines is what the step has: tools with their handlers, sections of the system prompt, messages; what it does
not define again is gone. Its state is changed by handlers and effects, and shows in the next render.

A prompt is a value, which runs by itself, `prompt.execute(…)`, or in an agent, `Agent.make(…, prompt=prompt)`, which
adds instructions, a budget, more tools, a memory and an output type.

>>> from fxai import Tool, fx
>>> from fxai.testing import ScriptedModel, call, text
>>> upgrade = Tool.make("upgrade", success=str)
>>> def support(at: Render) -> None:
...     mode = at.state("mode", "basic")
...     at.system("role", f"You are in {mode.value} mode.")
...     if mode.value == "basic":
...         at.tool(upgrade, lambda _: mode.set("advanced").as_("granted"))
>>> model = ScriptedModel.make([call("upgrade", {}), text("Done.")])
>>> answer = fx.run(StatefulPrompt.make("support", support).execute("More, please.").provide(model.layer))
>>> [step.record.tools for step in answer.steps], answer.state.values["mode"]
([('upgrade',), ()], 'advanced')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.agents.answer import Answer, RenderFailed, RunError
from fxai.agents.change import Changes, check_changes
from fxai.agents.loop import Execution
from fxai.agents.render import EffectReturn, Render, RenderOf, StepView
from fxai.agents.rendering import RenderPlan
from fxai.agents.run import RunPlan
from fxai.agents.run_options import Budget
from fxai.agents.run_tools import Binding
from fxai.agents.state import PromptState, RenderError, RenderReason, State, StateError
from fxai.agents.step_patch import Definition, StepPatch
from fxai.agents.step_record import StepRecord
from fxai.agents.sub_agent import Runs
from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.language_model import LanguageModel
from fxai.tools.toolkit import Toolkit

__all__ = [
    "Definition",
    "EffectReturn",
    "PromptState",
    "Render",
    "RenderError",
    "RenderFailed",
    "RenderOf",
    "RenderReason",
    "State",
    "StateError",
    "StatefulPrompt",
    "StepPatch",
    "StepRecord",
    "StepView",
]

_R2 = TypeVar("_R2", default=None)
_E2 = TypeVar("_E2", default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)
_E_co = TypeVar("_E_co", covariant=True, default=Never)


@final
class StatefulPrompt(msgspec.Struct, Generic[_R_co, _E_co], frozen=True):
    """A prompt that is rendered anew before each step: an immutable value, which may run many times at once.

    `R` is what its handlers and effects need, `E` what its effects fail with, a wrong render (`RenderFailed`) included.
    """

    name: str
    """What it is called: in failures, and as a tool."""
    f: Callable[[Any], object]
    """Defines a step on the `Render` that it is given."""
    budget: Budget = Budget()
    """How much one run may take."""
    changes: Changes = "auto"
    """The place where a request shows changed definitions."""

    @staticmethod
    def make(
        name: str, f: Callable[[RenderOf[_R2, _E2]], None], *, changes: Changes = "auto"
    ) -> StatefulPrompt[_R2, _E2 | RenderFailed]:
        """A prompt of a function that defines a step on the `Render` that it is given.

        Args:
            name: what it is called.
            f: a pure function of the state and the number of the step. Its annotation, `at: Render[Orders, Lost]`, says
                what services handlers and effects may need, and what effects may fail with.
            changes: The place where a request shows definitions that changed since the last step. `"rewrite"`: at
                their usual place. `"append"`: behind the conversation, so that each request extends the one before.
                Default: `"append"` if the model binds its thinking to the prefix, otherwise `"rewrite"`.

        Raises:
            TypeError: `name` is no string, or `f` no function.
            ValueError: The name is empty, or `changes` is unknown.
        """
        if not isinstance(cast(object, name), str):
            raise TypeError(f"the name of a prompt is a string, not {name!r}")
        if not name:
            raise ValueError("a prompt needs a name: its failures are called by it")
        if not callable(cast(object, f)):
            raise TypeError(f"a prompt is made of a function of a Render, not of {f!r}")
        return StatefulPrompt(name, f, changes=check_changes(changes))

    @property
    def output(self) -> None:
        """None: its answer is text."""
        return None

    def plan(self, state: PromptState | None = None) -> RenderPlan:
        """What a run is rendered from that begins with `state`; None: with the initial values.

        Raises:
            TypeError: it is no state.
        """
        if not isinstance(cast(object, state), PromptState | None):
            advice = "give answer.state, or PromptState.from_json(…).unwrap()"
            raise TypeError(f"state={state!r} is no state of a prompt: {advice}")
        return RenderPlan(self.name, self.f, state)

    def execute(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> EffectOf[Answer[str], RunError | _E_co, _R_co | LanguageModel | None]:
        """The answer to `prompt`: the model is asked until a turn calls no tool; `answer.state` is the state after it.

        Args:
            prompt: what the user says, or a history to go on from.
            state: what the run begins with, such as `answer.state` of the run before; by default the initial values.

        Fails as a run of an agent, with `RenderFailed` where the prompt was rendered wrongly, and as effects do. All
        but the last hold the history and the state.
        """
        return self._execution(state).answer(prompt)

    def stream(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> StreamOf[StreamPart, RunError | _E_co, _R_co | LanguageModel | None]:
        """The parts of the answer to `prompt` as they come; each step ends with its `finish`. As `execute`."""
        return self._execution(state).parts(prompt)

    def __fx_runs__(self) -> Runs[Never, str, RunError | _E_co, _R_co | LanguageModel | None]:
        """For checkers: what it is."""
        raise NotImplementedError

    def _execution(self, state: PromptState | None) -> Execution:
        plan = RunPlan(Toolkit.empty(), {}, self.budget, prompt=self.plan(state), changes=self.changes)
        return Execution(self.name, plan, Binding())

    @override
    def __repr__(self) -> str:
        return f"StatefulPrompt.make({self.name!r}, {self.f!r})"
