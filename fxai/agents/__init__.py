"""Floor 5. Agents: a model asked again and again, its calls run in between, until it is done."""

from __future__ import annotations

from fxai.agents.agent import Agent, AgentBuilder, Hooks
from fxai.agents.answer import Answer
from fxai.agents.binding import Binding, Offer, Offered
from fxai.agents.budget import Budget, BudgetExceeded
from fxai.agents.failure import RunError, RunFailed
from fxai.agents.memory import Memory, MemoryFailure, Window
from fxai.agents.options import AgentOptions, Options
from fxai.agents.step import Step, Steps
from fxai.agents.step_setup import StepSetup
from fxai.agents.stop import HasToolCall, StopCondition, has_tool_call, step_count_is
from fxai.agents.sub_agent import SubAgent, SubAgentFailed, SubAgentRequest

__all__ = [
    "Agent",
    "AgentBuilder",
    "AgentOptions",
    "Answer",
    "Binding",
    "Budget",
    "BudgetExceeded",
    "HasToolCall",
    "Hooks",
    "Memory",
    "MemoryFailure",
    "Offer",
    "Offered",
    "Options",
    "RunError",
    "RunFailed",
    "Step",
    "StepSetup",
    "Steps",
    "StopCondition",
    "SubAgent",
    "SubAgentFailed",
    "SubAgentRequest",
    "Window",
    "has_tool_call",
    "step_count_is",
]
