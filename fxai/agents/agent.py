"""Agents: a model with instructions and tools, asked until it is done.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> agent = Agent.make("greeter", instructions="Be brief.")
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(agent.execute("Hello").provide(model.layer)).text
'Good day.'
"""

from __future__ import annotations

from typing import Any, Generic, Never, final

import msgspec
from typing_extensions import TypeVar, Unpack, override

from fxai.agents.answer import Answer
from fxai.agents.budget import Budget
from fxai.agents.loop import RunError, run_loop, stream_loop
from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.messages.message import SystemMessage
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.language_model import LanguageModel, RoundOptions
from fxai.tools.toolkit import Toolkit

__all__ = ["Agent"]

_T = TypeVar("_T", default=Never)
_T_co = TypeVar("_T_co", covariant=True, default=Never)

_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


@final
class Agent(msgspec.Struct, Generic[_T_co], frozen=True):
    """A model with instructions and tools, as a value: it never changes, and one agent may run many times at once."""

    name: str
    instructions: str | None
    """What it is told before everything else, as the system prompt."""
    toolkit: Toolkit[Any]
    """The tools that it may call."""
    budget: Budget
    options: RoundOptions
    """How each round is asked."""

    @staticmethod
    def make(
        name: str,
        *,
        instructions: str | None = None,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        budget: Budget = Budget(),  # noqa: B008  # a frozen value
        **options: Unpack[RoundOptions],
    ) -> Agent[_T]:
        """An agent.

        Args:
            name: what it is called.
            instructions: the system prompt; by default none.
            toolkit: its tools; by default none.
            budget: how much one run may take; by default 10 rounds.
            options: how each round is asked, see `RoundOptions`. A `tool_choice` that demands a call holds for the
                first round.
        """
        return Agent(name, instructions, toolkit, budget, options)

    def execute(self, prompt: PromptInput) -> EffectOf[Answer, RunError, _T_co | LanguageModel | None]:
        """The answer to `prompt`: the model is asked until a turn calls no tool.

        Fails with `BudgetExceeded` when the budget is spent first, with `AiError` when the model cannot be asked or
        understood, and with a `ToolError` when a handler failed in failure mode `"error"`. The first and the last hold
        the history.
        """
        return run_loop(self._said(prompt), self.toolkit, self.budget, self.options)

    def stream(self, prompt: PromptInput) -> StreamOf[StreamPart, RunError, _T_co | LanguageModel | None]:
        """The parts of the answer to `prompt` as they come; each round ends with its `finish`.

        Leaving the stream early stops the model and the handlers. Fails as `execute`.
        """
        return stream_loop(self._said(prompt), self.toolkit, self.budget, self.options)

    def _said(self, prompt: PromptInput) -> Prompt:
        said = Prompt.make(prompt)
        if self.instructions is None:
            return said
        told = SystemMessage(self.instructions)
        return said if len(said) and said[0] == told else Prompt((told,)) + said  # a history of its own has them

    @override
    def __hash__(self) -> int:
        return hash((self.name, self.instructions, self.toolkit))
