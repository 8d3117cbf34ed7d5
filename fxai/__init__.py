"""Define typed tools, agents, and effects for language models. Import the public names of fxai from this package.

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
    Effect,
    Exit,
    FailureError,
    Gen,
    Layer,
    MissingServiceError,
    Ref,
    Reference,
    Runtime,
    Schedule,
    Scope,
    Service,
    Stream,
    Tag,
    Timeout,
    fx,
    runtime,
)
from fxai.messages import AiError, Prompt, Response, Usage
from fxai.models import LanguageModel, ObjectResponse, ToolChoice
from fxai.schema import DecodeFailure, JsonSchema, Schema, SchemaError
from fxai.tools import (
    ApprovalExpired,
    ApprovalUnavailable,
    BoundToolkit,
    CallContext,
    Denied,
    Example,
    ExternalTool,
    FunctionTool,
    HandlerError,
    HandlerFailed,
    HandlerOf,
    HandlerReturn,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    Outcome,
    OutcomeUnknown,
    Tool,
    ToolConflictError,
    ToolError,
    Toolkit,
    UnknownTool,
)
from fxai.tools.tool import tool

if TYPE_CHECKING:
    from fxai.agents import Agent, Answer, Budget, BudgetExceeded, Memory, RunError, Step
    from fxai.agents import AgentBuilder as AgentBuilder
    from fxai.agents import MemoryFailure as MemoryFailure
    from fxai.agents import SubAgent as SubAgent
    from fxai.agents import SubAgentFailed as SubAgentFailed
    from fxai.agents import Window as Window

    # Names that other packages offer now. They still work here, but new programs import them from those packages.
    from fxai.annotations import AllowedCallers as AllowedCallers
    from fxai.annotations import Annotation as Annotation
    from fxai.annotations import Annotations as Annotations
    from fxai.annotations import CacheControl as CacheControl
    from fxai.annotations import CacheTime as CacheTime
    from fxai.annotations import Caller as Caller
    from fxai.annotations import DeferLoading as DeferLoading
    from fxai.annotations import Destructive as Destructive
    from fxai.annotations import EagerInputStreaming as EagerInputStreaming
    from fxai.annotations import ExplicitNull as ExplicitNull
    from fxai.annotations import Idempotent as Idempotent
    from fxai.annotations import JsonText as JsonText
    from fxai.annotations import Meta as Meta
    from fxai.annotations import Namespace as Namespace
    from fxai.annotations import OpenWorld as OpenWorld
    from fxai.annotations import OutputSchema as OutputSchema
    from fxai.annotations import Readonly as Readonly
    from fxai.annotations import Strict as Strict
    from fxai.annotations import Title as Title
    from fxai.annotations import ToolNamespace as ToolNamespace
    from fxai.effects import Cause as Cause
    from fxai.effects import ClassKey as ClassKey
    from fxai.effects import Clock as Clock
    from fxai.effects import Context as Context
    from fxai.effects import ContextOf as ContextOf
    from fxai.effects import Die as Die
    from fxai.effects import EffectOf as EffectOf
    from fxai.effects import Fail as Fail
    from fxai.effects import Failed as Failed
    from fxai.effects import FiberHandle as FiberHandle
    from fxai.effects import Interrupt as Interrupt
    from fxai.effects import Key as Key
    from fxai.effects import LayerOf as LayerOf
    from fxai.effects import StreamOf as StreamOf
    from fxai.effects import Succeeded as Succeeded
    from fxai.models import ApprovalKey as ApprovalKey
    from fxai.models import ChatStore as ChatStore
    from fxai.models import ModelRequest as ModelRequest
    from fxai.models import repair_by_model as repair_by_model
    from fxai.models.chat import Chat
    from fxai.models.embedding_model import EmbeddingModel
    from fxai.models.prepared_tools import PreparedTools as PreparedTools
    from fxai.schema import Empty as Empty
    from fxai.schema import Fault as Fault
    from fxai.schema import Limits as Limits
    from fxai.tools import NameMap as NameMap
    from fxai.tools import NameRule as NameRule
    from fxai.tools.aspects import Aspect, Invocation, Return
    from fxai.tools.composite import Composite
    from fxai.tools.source import ToolSource

__all__ = [
    "Agent",
    "AiError",
    "Answer",
    "ApprovalExpired",
    "ApprovalUnavailable",
    "Aspect",
    "BoundToolkit",
    "Budget",
    "BudgetExceeded",
    "CallContext",
    "Chat",
    "Composite",
    "DecodeFailure",
    "Denied",
    "Effect",
    "EmbeddingModel",
    "Example",
    "Exit",
    "ExternalTool",
    "FailureError",
    "FunctionTool",
    "Gen",
    "HandlerError",
    "HandlerFailed",
    "HandlerOf",
    "HandlerReturn",
    "HandlerUnavailable",
    "InDoubt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "Invocation",
    "JsonSchema",
    "LanguageModel",
    "Layer",
    "Memory",
    "MissingServiceError",
    "ObjectResponse",
    "Outcome",
    "OutcomeUnknown",
    "Prompt",
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
    "Tag",
    "Timeout",
    "Tool",
    "ToolChoice",
    "ToolConflictError",
    "ToolError",
    "ToolSource",
    "Toolkit",
    "UnknownTool",
    "Usage",
    "fx",
    "runtime",
    "tool",
]

# fxai imports these modules when a program first uses a name from them, so that `import fxai` stays fast.
_ROOMS = {
    "fxai.agents": "Agent Answer Budget BudgetExceeded Memory RunError Step",
    "fxai.models.chat": "Chat",
    "fxai.models.embedding_model": "EmbeddingModel",
    "fxai.tools.aspects": "Aspect Invocation Return",
    "fxai.tools.composite": "Composite",
    "fxai.tools.source": "ToolSource",
}

# Names that moved to another package. A program can still import them from here.
_MOVED = {
    "fxai.agents": "AgentBuilder MemoryFailure SubAgent SubAgentFailed Window",
    "fxai.annotations": (
        "AllowedCallers Annotation Annotations CacheControl CacheTime Caller DeferLoading Destructive "
        "EagerInputStreaming ExplicitNull Idempotent JsonText Meta Namespace OpenWorld OutputSchema Readonly "
        "Strict Title ToolNamespace"
    ),
    "fxai.effects": (
        "Cause ClassKey Clock Context ContextOf Die EffectOf Fail Failed FiberHandle Interrupt Key "
        "LayerOf StreamOf Succeeded"
    ),
    "fxai.models": "ApprovalKey ChatStore ModelRequest repair_by_model",
    "fxai.models.prepared_tools": "PreparedTools",
    "fxai.schema": "Empty Fault Limits",
    "fxai.tools": "NameMap NameRule",
}
_LATER = {name: room for rooms in (_ROOMS, _MOVED) for room, names in rooms.items() for name in names.split()}

if not TYPE_CHECKING:  # because a checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"fxai has no attribute {name!r}")
        found = getattr(import_module(_LATER[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return list(__all__)
