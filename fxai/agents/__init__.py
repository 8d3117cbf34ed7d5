"""Level 5. Run a model with tools until it answers. Use this package to build agents, memories, and sub-agents."""

from __future__ import annotations

from fxai.agents.agent import Agent, AgentBuilder, Hooks
from fxai.agents.answer import Answer, AnswerPart, BudgetExceeded, RunError, RunFailed, Step, Steps, history_of
from fxai.agents.change import Changes
from fxai.agents.inbox import Inbox, InboxFullError, InboxMessage
from fxai.agents.memory import Memory, MemoryFailure, Window
from fxai.agents.run_options import (
    AgentOptions,
    Budget,
    HasToolCall,
    Options,
    StepSetup,
    StopCondition,
    has_tool_call,
    step_count_is,
)
from fxai.agents.run_tools import Binding, Offer, Offered
from fxai.agents.sub_agent import SubAgent, SubAgentFailed, SubAgentRequest

__all__ = [
    "Agent",
    "AgentBuilder",
    "AgentOptions",
    "Answer",
    "AnswerPart",
    "Binding",
    "Budget",
    "BudgetExceeded",
    "Changes",
    "HasToolCall",
    "Hooks",
    "Inbox",
    "InboxFullError",
    "InboxMessage",
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
    "history_of",
    "step_count_is",
]
