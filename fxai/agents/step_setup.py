"""Step setups: how one step of a run is to be asked, before it is.

>>> setup = StepSetup(1, Steps([]), Prompt.make("Hello"), Toolkit.empty(), {})
>>> setup.with_choice("none").with_options(temperature=0).options
{'tool_choice': 'none', 'temperature': 0}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never, cast, final

import msgspec
from typing_extensions import TypeAliasType, TypeIs, TypeVar, Unpack

from fxai.agents.step import Step, Steps
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.messages.errors import AiError
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.choice import ToolChoices
from fxai.models.language_model import LanguageModel, RoundOptions
from fxai.tools.toolkit import Toolkit

__all__ = ["OnStep", "PrepareStep", "StepSetup", "check_model", "is_effect"]

_E = TypeVar("_E", default=Never)
_R = TypeVar("_R", default=None)


@final
class StepSetup(msgspec.Struct, frozen=True, eq=False):
    """How one step is asked. What is changed here holds for this step alone; the history keeps what was said."""

    number: int
    """Which step, from 1."""
    steps: Steps
    """The steps before it."""
    messages: Prompt
    """What the model is shown."""
    toolkit: Toolkit[Any]
    """What it may call."""
    options: RoundOptions
    """How it is asked; after the first step no longer with a `tool_choice` that demands a call."""
    model: LayerOf[LanguageModel, AiError, None] | None = None
    """The model that is asked; None for the one of the run."""

    def with_model(self, model: LayerOf[LanguageModel, AiError, None]) -> StepSetup:
        """The same, asked of the model of a layer: built when it is first asked, and released with the run.

        Handlers keep the model of the run.

        Raises:
            TypeError: it is no layer.
        """
        check_model(model)
        return msgspec.structs.replace(self, model=model)

    def with_tools(self, toolkit: Toolkit[Any]) -> StepSetup:
        """The same with these tools: some of the run's, such as `setup.toolkit.pick("search")`.

        The handlers of others must be there: no type says so.

        Raises:
            TypeError: it is no toolkit.
        """
        if not isinstance(cast(object, toolkit), Toolkit):
            raise TypeError(f"the tools of a step are a toolkit, not {toolkit!r}: say Toolkit.make(…), or pick some")
        return msgspec.structs.replace(self, toolkit=toolkit)

    def with_choice(self, choice: ToolChoices) -> StepSetup:
        """The same with a tool choice."""
        return msgspec.structs.replace(self, options={**self.options, "tool_choice": choice})

    def with_messages(self, messages: PromptInput) -> StepSetup:
        """The same, where the model is shown other messages: a shorter history, say.

        A step that is shown a call without its result, or a result without its call, fails before the model is asked.
        """
        return msgspec.structs.replace(self, messages=Prompt.make(messages))

    def with_options(self, **options: Unpack[RoundOptions]) -> StepSetup:
        """The same with these options; the others stay.

        Raises:
            TypeError: there is no option of a name.
        """
        unknown = ", ".join(sorted(map(repr, set(options).difference(RoundOptions.__annotations__))))
        if unknown:
            known = ", ".join(sorted(RoundOptions.__annotations__))
            raise TypeError(f"rounds have no option {unknown}: there are {known}")
        return msgspec.structs.replace(self, options={**self.options, **options})


PrepareStep = TypeAliasType(
    "PrepareStep", Callable[[StepSetup], StepSetup | EffectOf[StepSetup, _E, _R]], type_params=(_E, _R)
)
"""Is given how a step would be asked, and gives how it is."""

OnStep = TypeAliasType("OnStep", Callable[[Step], EffectOf[Any, _E, _R] | None], type_params=(_E, _R))
"""Is told each finished step, before the run goes on.

An effect that fails, fails the run; an exception, which is a bug of the listener, is logged, and the run goes on.
"""


def check_model(model: object) -> None:
    """Refuses what is no layer of a model.

    Raises:
        TypeError: it is something else; the message says what to give.
    """
    if isinstance(model, LayerOf):
        return
    if isinstance(model, str):
        said = f"from_name({model!r}) of fxai.providers gives that of a model by its name"
    else:
        said = "it has one, its `.layer`" if hasattr(model, "layer") else "such as fxai.providers gives"
    raise TypeError(f"model={model!r} is no layer of a model: {said}")


def is_effect(given: Any) -> TypeIs[EffectOf[Any, Any, Any]]:
    """Whether what somebody gave has to be run first."""
    return isinstance(given, EffectOf)
