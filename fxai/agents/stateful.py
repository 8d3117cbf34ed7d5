"""Stateful prompts: a function that renders each step of a run. Use them if tools or instructions depend on state.

The function defines the tools with their handlers, the sections in the system prompt, and the messages in the step. A
step has only the definitions of the latest render. Handlers and effects change the state, and the next render reads it.

A stateful prompt is a value. Run it with `prompt.execute(…)`, or in an agent with `Agent.make(…, prompt=prompt)`.
An agent adds instructions, a budget, more tools, a memory, and an output type.

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

from fxai.agents.answer import Answer, RenderFailed, RunError, StepRecord
from fxai.agents.change import Changes, check_changes
from fxai.agents.loop import Execution
from fxai.agents.render import EffectReturn, Render, RenderOf, StepView
from fxai.agents.rendering import RenderPlan
from fxai.agents.run import RunPlan
from fxai.agents.run_options import Budget, check_name
from fxai.agents.state import PromptState, RenderError, RenderReason, State, StateError
from fxai.agents.step_patch import Definition, StepPatch
from fxai.agents.sub_agent import AgentTypes
from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.compaction import Compaction, check_compaction
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
    """A prompt that renders each step of a run. The same immutable value can run many times concurrently.

    `R` contains the requirements of its handlers and effects. `E` contains the failures of its effects, and
    `RenderFailed` for an invalid render.
    """

    name: str
    """The name of the prompt in failures, and of its tool."""
    f: Callable[[Any], object]
    """The function that defines a step with the `Render` that it receives."""
    budget: Budget = Budget()
    """The limits for a run."""
    changes: Changes = "auto"
    """The position of changed definitions in a request."""
    compaction: Compaction | None = None
    """The rule that shortens the messages for the model, or None."""

    @staticmethod
    def make(
        name: str,
        f: Callable[[RenderOf[_R2, _E2]], None],
        *,
        changes: Changes = "auto",
        compaction: Compaction | None = None,
    ) -> StatefulPrompt[_R2, _E2 | RenderFailed]:
        """Return a prompt from a function that defines a step with the `Render` that it receives.

        Args:
            name: The name of the prompt.
            f: A pure function of the state and the number of the step. Its annotation, such as
                `at: Render[Orders, Lost]`, declares the services that handlers and effects can need, and the failures
                of the effects.
            changes: The position of definitions that changed since the last step. `"rewrite"` keeps their usual
                position. `"append"` adds them after the conversation, so that each request extends the last request.
                Default: `"append"` if the model binds its thinking to the prefix, otherwise `"rewrite"`.
            compaction: The rule that shortens the conversation for the model. It does not change the definitions of
                the step. Default: None.

        Raises:
            TypeError: If `name` is not a string, `f` is not a function, or `compaction` is not a `Compaction`.
            ValueError: If the name is empty, or `changes` is unknown.
        """
        name = check_name("prompt", name)
        if not callable(cast(object, f)):
            raise TypeError(f"prompt function must be a function of a Render, got {f!r}")
        compaction = check_compaction(compaction)
        return StatefulPrompt(name, f, changes=check_changes(changes), compaction=compaction)

    @property
    def output(self) -> None:
        """The output type. Always None, because the answer is text."""
        return None

    def plan(self, state: PromptState | None = None) -> RenderPlan:
        """Return the render plan of a run that starts with `state`, or with the initial values if `state` is None.

        Raises:
            TypeError: If `state` is not a `PromptState`.
        """
        if not isinstance(cast(object, state), PromptState | None):
            advice = "Pass answer.state, or PromptState.from_json(…).unwrap()"
            raise TypeError(f"state must be a PromptState, got {state!r}. {advice}.")
        return RenderPlan(self.name, self.f, state)

    def execute(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> EffectOf[Answer[str], RunError | _E_co, _R_co | LanguageModel | None]:
        """Return an effect that calls the model until a turn calls no tool, and succeeds with the answer to `prompt`.

        Args:
            prompt: The message from the user, or a history to continue.
            state: The initial state, such as `answer.state` of the previous run. Default: the initial values.

        `answer.state` is the state after the run. The effect fails like the run of an agent, with `RenderFailed` if the
        render is invalid, and with the failures of its effects. All failures except the failures of effects contain
        the history and the state.
        """
        return self._execution(state).answer(prompt)

    def stream(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> StreamOf[StreamPart, RunError | _E_co, _R_co | LanguageModel | None]:
        """Return a stream of the parts of the answer. Each step ends with its `finish` part. See `execute`."""
        return self._execution(state).parts(prompt)

    def __fx_runs__(self) -> AgentTypes[Never, str, RunError | _E_co, _R_co | LanguageModel | None]:
        """Declare the types of the prompt for type checkers."""
        raise NotImplementedError

    def _execution(self, state: PromptState | None) -> Execution:
        plan = RunPlan(
            Toolkit.empty(), {}, self.budget, prompt=self.plan(state), changes=self.changes, compaction=self.compaction
        )
        return Execution(self.name, plan, None)

    @override
    def __repr__(self) -> str:
        return f"StatefulPrompt.make({self.name!r}, {self.f!r})"
