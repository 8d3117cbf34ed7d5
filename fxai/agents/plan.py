"""Plans: how one run goes, in every respect. A builder makes one, the loop follows it.

>>> RunPlan(Toolkit.empty(), {}, Budget(rounds=3)).at_limit
'fail'
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from fxai.agents.budget import AtLimit, Budget
from fxai.agents.step_setup import OnStep, PrepareStep
from fxai.agents.stop import StopCondition
from fxai.effects.effect import EffectOf
from fxai.models.language_model import RoundOptions
from fxai.models.round import Deadline
from fxai.schema.codec import Schema
from fxai.tools.source import BoundToolkit
from fxai.tools.toolkit import Toolkit

__all__ = ["OUTPUT_RETRIES", "RunPlan"]

OUTPUT_RETRIES: Final = 2
"""How often a wrong answer is told to the model, unless said otherwise."""


@final
class RunPlan(msgspec.Struct, frozen=True):
    """How one run goes."""

    toolkit: Toolkit[Any]
    """The tools that the model may call; their handlers are around, unless `tools_now` brings them."""
    options: RoundOptions
    """How each round is asked. A `tool_choice` that demands a call holds for the first one."""
    budget: Budget = Budget()
    """How much it may take."""
    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    """It ends after a step for which any of these holds."""
    at_limit: AtLimit = "fail"
    """What becomes of it where the budget is spent."""
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    """Each changes how a step is asked; the first one first."""
    on_step: tuple[OnStep[Any, Any], ...] = ()
    """Each is told every finished step; the first one first."""
    output: Schema[Any] | None = None
    """What the answer is to be an instance of; None for text."""
    output_retries: int = OUTPUT_RETRIES
    """How often an answer that does not fit is told to the model, with every fault, and asked for again; each is a
    round of the budget."""
    tools_now: EffectOf[BoundToolkit[Any, Any, Any], Any, Any] | None = None
    """Where tools may change while the run goes on: asked before each step for all tools of that step, in place of
    `toolkit`; its layer is there for that step."""
    deadline: Deadline | None = None
    """When it is cut, where its time began before it did; None: after `budget.seconds`, if there are any."""

    without_own: bool = False
    """Whether the agent's own tools are left out, which its `tool_choice` may name all the same."""

    def is_hidden(self, name: str) -> bool:
        """Whether a tool choice may name a tool that a step lacks: one of the run's, or one that was left out."""
        return self.without_own or name in self.toolkit

    def __post_init__(self) -> None:
        if self.output_retries < 0:
            raise ValueError(f"output_retries is {self.output_retries}: an answer is asked for once at least")
