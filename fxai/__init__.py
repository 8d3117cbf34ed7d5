"""fxai: tools for language models as values, handlers by layers, programs as typed effects.

>>> from fxai import Tool, Toolkit, fx
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> kit = Toolkit.make(six)
>>> handlers = kit.to_layer(six.handler(lambda _: Success(6)))
>>> fx.run(kit.call("six", {}).provide(handlers)).result
6
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxai.effects import (
    Cause,
    ClassKey,
    Clock,
    Context,
    ContextOf,
    Die,
    Effect,
    EffectOf,
    Exit,
    Fail,
    Failed,
    FailureError,
    FiberHandle,
    Gen,
    Interrupt,
    Key,
    Layer,
    LayerOf,
    MissingServiceError,
    Ref,
    Reference,
    Runtime,
    Schedule,
    Scope,
    Service,
    Stream,
    StreamOf,
    Succeeded,
    Tag,
    Timeout,
    fx,
    runtime,
)
from fxai.messages import AiError, Prompt, Response, Usage
from fxai.models import LanguageModel, ModelRequest, ObjectResponse, ToolChoice, repair_by_model
from fxai.schema import DecodeFailure, Empty, Fault, JsonSchema, Limits, Schema, SchemaError
from fxai.tools import (
    AllowedCallers,
    Annotation,
    Annotations,
    ApprovalExpired,
    ApprovalUnavailable,
    CacheControl,
    CallContext,
    DeferLoading,
    Denied,
    Destructive,
    EagerInputStreaming,
    Example,
    ExplicitNull,
    ExternalTool,
    HandlerError,
    HandlerFailed,
    HandlerOf,
    HandlerReturn,
    Idempotent,
    InDoubt,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    JsonText,
    Meta,
    NameMap,
    NameRule,
    Namespace,
    OpenWorld,
    Outcome,
    OutputSchema,
    Readonly,
    Strict,
    Title,
    Tool,
    ToolConflictError,
    ToolError,
    Toolkit,
    UnknownTool,
)

if TYPE_CHECKING:
    from fxai.agents.agent import Agent, AgentBuilder
    from fxai.agents.answer import Answer, BudgetExceeded, RunError, Step
    from fxai.agents.memory import Memory, MemoryFailure, Window
    from fxai.agents.options import Budget
    from fxai.agents.sub_agent import SubAgent, SubAgentFailed
    from fxai.models.approval_services import ApprovalKey
    from fxai.models.chat import Chat, ChatStore
    from fxai.models.embedding import EmbeddingModel
    from fxai.models.tool_encoding import PreparedTools
    from fxai.tools.aspects import Aspect, Invocation, Return
    from fxai.tools.composite import Composite
    from fxai.tools.source import ToolSource
    from fxai.tools.tool import FunctionTool, tool
    from fxai.tools.toolkit import BoundToolkit

__all__ = [
    "Agent",
    "AgentBuilder",
    "AiError",
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "Answer",
    "ApprovalExpired",
    "ApprovalKey",
    "ApprovalUnavailable",
    "Aspect",
    "BoundToolkit",
    "Budget",
    "BudgetExceeded",
    "CacheControl",
    "CallContext",
    "Cause",
    "Chat",
    "ChatStore",
    "ClassKey",
    "Clock",
    "Composite",
    "Context",
    "ContextOf",
    "DecodeFailure",
    "DeferLoading",
    "Denied",
    "Destructive",
    "Die",
    "EagerInputStreaming",
    "Effect",
    "EffectOf",
    "EmbeddingModel",
    "Empty",
    "Example",
    "Exit",
    "ExplicitNull",
    "ExternalTool",
    "Fail",
    "Failed",
    "FailureError",
    "Fault",
    "FiberHandle",
    "FunctionTool",
    "Gen",
    "HandlerError",
    "HandlerFailed",
    "HandlerOf",
    "HandlerReturn",
    "Idempotent",
    "InDoubt",
    "Interrupt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "Invocation",
    "JsonSchema",
    "JsonText",
    "Key",
    "LanguageModel",
    "Layer",
    "LayerOf",
    "Limits",
    "Memory",
    "MemoryFailure",
    "Meta",
    "MissingServiceError",
    "ModelRequest",
    "NameMap",
    "NameRule",
    "Namespace",
    "ObjectResponse",
    "OpenWorld",
    "Outcome",
    "OutputSchema",
    "PreparedTools",
    "Prompt",
    "Readonly",
    "Ref",
    "Reference",
    "Response",
    "Return",
    "RunError",
    "Runtime",
    "Schedule",
    "Schema",
    "SchemaError",
    "Scope",
    "Service",
    "Step",
    "Stream",
    "StreamOf",
    "Strict",
    "SubAgent",
    "SubAgentFailed",
    "Succeeded",
    "Tag",
    "Timeout",
    "Title",
    "Tool",
    "ToolChoice",
    "ToolConflictError",
    "ToolError",
    "ToolSource",
    "Toolkit",
    "UnknownTool",
    "Usage",
    "Window",
    "fx",
    "repair_by_model",
    "runtime",
    "tool",
]

# What not every program needs is imported when it is first named.
_LATER = {
    "Agent": "fxai.agents.agent",
    "AgentBuilder": "fxai.agents.agent",
    "Answer": "fxai.agents.answer",
    "ApprovalKey": "fxai.models.approval_services",
    "Aspect": "fxai.tools.aspects",
    "BoundToolkit": "fxai.tools.toolkit",
    "Budget": "fxai.agents.options",
    "BudgetExceeded": "fxai.agents.answer",
    "Chat": "fxai.models.chat",
    "ChatStore": "fxai.models.chat",
    "Composite": "fxai.tools.composite",
    "EmbeddingModel": "fxai.models.embedding",
    "FunctionTool": "fxai.tools.tool",
    "Invocation": "fxai.tools.aspects",
    "Memory": "fxai.agents.memory",
    "MemoryFailure": "fxai.agents.memory",
    "PreparedTools": "fxai.models.tool_encoding",
    "Return": "fxai.tools.aspects",
    "RunError": "fxai.agents.answer",
    "Step": "fxai.agents.answer",
    "SubAgent": "fxai.agents.sub_agent",
    "SubAgentFailed": "fxai.agents.sub_agent",
    "ToolSource": "fxai.tools.source",
    "Window": "fxai.agents.memory",
    "tool": "fxai.tools.tool",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"fxai has no name {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found
