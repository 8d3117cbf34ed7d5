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

from fxai.agents import Agent, Answer, Budget, BudgetExceeded, RunError, Step
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
    CacheControl,
    CallContext,
    DeferLoading,
    Denied,
    Destructive,
    EagerInputStreaming,
    Example,
    ExternalTool,
    HandlerError,
    HandlerFailed,
    HandlerOf,
    HandlerReturn,
    Idempotent,
    Interrupted,
    InvalidParameters,
    InvalidResult,
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
    from fxai.models.approval_key import ApprovalKey
    from fxai.models.chat import Chat
    from fxai.models.chat_store import ChatStore
    from fxai.models.embedding import EmbeddingModel
    from fxai.models.prepared import PreparedTools
    from fxai.tools.aspects import Aspect, Invocation, Return
    from fxai.tools.composite import Composite
    from fxai.tools.function import FunctionTool, tool
    from fxai.tools.source import BoundToolkit, ToolSource

__all__ = [
    "Agent",
    "AiError",
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "Answer",
    "ApprovalKey",
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
    "Interrupt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "Invocation",
    "JsonSchema",
    "Key",
    "LanguageModel",
    "Layer",
    "LayerOf",
    "Limits",
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
    "fx",
    "repair_by_model",
    "runtime",
    "tool",
]

# What not every program needs is imported when it is first named.
_LATER = {
    "ApprovalKey": "fxai.models.approval_key",
    "Aspect": "fxai.tools.aspects",
    "BoundToolkit": "fxai.tools.source",
    "Chat": "fxai.models.chat",
    "ChatStore": "fxai.models.chat_store",
    "Composite": "fxai.tools.composite",
    "EmbeddingModel": "fxai.models.embedding",
    "FunctionTool": "fxai.tools.function",
    "Invocation": "fxai.tools.aspects",
    "PreparedTools": "fxai.models.prepared",
    "Return": "fxai.tools.aspects",
    "ToolSource": "fxai.tools.source",
    "tool": "fxai.tools.function",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"fxai has no name {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found
