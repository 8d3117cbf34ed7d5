"""Level 5. Run a model with tools until it answers. Use this package to build agents, memories, and sub-agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from fxai.agents.tool_search import FoundTool, FoundTools, ToolQuery, ToolSearch

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
    "FoundTool",
    "FoundTools",
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
    "ToolQuery",
    "ToolSearch",
    "Window",
    "has_tool_call",
    "history_of",
    "step_count_is",
]

# fxai imports this module when a program first uses a name from it.
_LATER = dict.fromkeys(("FoundTool", "FoundTools", "ToolQuery", "ToolSearch"), "fxai.agents.tool_search")

if not TYPE_CHECKING:  # because a checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
