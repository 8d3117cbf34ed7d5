"""Floor 5. Agents: a model asked again and again, its calls run in between, until it is done."""

from __future__ import annotations

from fxai.agents.agent import Agent
from fxai.agents.answer import Answer, Step
from fxai.agents.budget import Budget, BudgetExceeded
from fxai.agents.loop import RunError

__all__ = ["Agent", "Answer", "Budget", "BudgetExceeded", "RunError", "Step"]
