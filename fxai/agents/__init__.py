"""Level 5. Run a model with tools until it answers. Use this package to build agents, memories, and sub-agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.agents.agent import Agent, AgentBuilder
from fxai.agents.answer import (
    Answer,
    AnswerPart,
    BudgetExceeded,
    CacheReport,
    CacheStep,
    RunError,
    RunFailed,
    Step,
    Steps,
    cache_report,
    history_of,
    usage_of,
)
from fxai.agents.change import Changes
from fxai.agents.inbox import Inbox, InboxFullError, InboxMessage
from fxai.agents.large_result import LargeResults
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.run_options import (
    AgentOptions,
    Budget,
    HasToolCall,
    StepSetup,
    StopCondition,
    has_tool_call,
    step_count_is,
)
from fxai.agents.run_tools import Binding, Offer, Offered
from fxai.agents.sub_agent import SubAgent, SubAgentFailed, SubAgentRequest
from fxai.lazy import import_later
from fxai.models.compaction import Compaction, TokenCounter
from fxai.models.cut import Compacted

if TYPE_CHECKING:
    from fxai.agents.records import (
        RecordedCall,
        RecordedStep,
        RunChange,
        RunDiff,
        RunDiverged,
        RunRecord,
        RunRecordError,
        ValueChange,
        diff_runs,
        replay_results,
        replay_turns,
    )
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
    "CacheReport",
    "CacheStep",
    "Changes",
    "Compacted",
    "Compaction",
    "FoundTool",
    "FoundTools",
    "HasToolCall",
    "Inbox",
    "InboxFullError",
    "InboxMessage",
    "LargeResults",
    "Memory",
    "MemoryFailure",
    "Offer",
    "Offered",
    "RecordedCall",
    "RecordedStep",
    "RunChange",
    "RunDiff",
    "RunDiverged",
    "RunError",
    "RunFailed",
    "RunRecord",
    "RunRecordError",
    "Step",
    "StepSetup",
    "Steps",
    "StopCondition",
    "SubAgent",
    "SubAgentFailed",
    "SubAgentRequest",
    "TokenCounter",
    "ToolQuery",
    "ToolSearch",
    "ValueChange",
    "cache_report",
    "diff_runs",
    "has_tool_call",
    "history_of",
    "replay_results",
    "replay_turns",
    "step_count_is",
    "usage_of",
]

# fxai imports this module when a program first uses a name from it.
_LATER = {
    "records": (
        "RecordedCall RecordedStep RunChange RunDiff RunDiverged RunRecord RunRecordError ValueChange diff_runs "
        "replay_results replay_turns"
    ),
    "tool_search": "FoundTool FoundTools ToolQuery ToolSearch",
}

if not TYPE_CHECKING:  # because a checker would accept any name
    __getattr__ = import_later(__name__, _LATER)
