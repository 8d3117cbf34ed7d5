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

from fxai.lazy import import_later

if TYPE_CHECKING:
    from fxai.agents import Agent, Answer, Budget, BudgetExceeded, Memory, RunError, Step
    from fxai.annotations import Destructive, Idempotent, Meta, OpenWorld, Readonly, Strict, Title
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
    from fxai.models.chat import Chat
    from fxai.models.embedding_model import EmbeddingModel
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
        bind,
    )
    from fxai.tools.aspects import Aspect, Invocation, Return
    from fxai.tools.composite import Composite
    from fxai.tools.source import ToolSource
    from fxai.tools.tool import tool

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
    "Destructive",
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
    "Idempotent",
    "InDoubt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "Invocation",
    "JsonSchema",
    "LanguageModel",
    "Layer",
    "Memory",
    "Meta",
    "MissingServiceError",
    "ObjectResponse",
    "OpenWorld",
    "Outcome",
    "OutcomeUnknown",
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
    "Strict",
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
    "bind",
    "fx",
    "runtime",
    "tool",
]

# fxai imports a module when a program first uses a name from it, so that a program loads only the modules it uses.
_LATER = {
    "agents": "Agent Answer Budget BudgetExceeded Memory RunError Step",
    "annotations": "Destructive Idempotent Meta OpenWorld Readonly Strict Title",
    "effects": (
        "Effect Exit FailureError Gen Layer MissingServiceError Ref Reference Runtime Schedule Scope Service "
        "Stream Tag Timeout fx runtime"
    ),
    "messages": "AiError Prompt Response Usage",
    "models": "LanguageModel ObjectResponse ToolChoice",
    "models.chat": "Chat",
    "models.embedding_model": "EmbeddingModel",
    "schema": "DecodeFailure JsonSchema Schema SchemaError",
    "tools": (
        "ApprovalExpired ApprovalUnavailable BoundToolkit CallContext Denied Example ExternalTool "
        "FunctionTool HandlerError HandlerFailed HandlerOf HandlerReturn HandlerUnavailable InDoubt "
        "Interrupted InvalidParameters InvalidResult Outcome OutcomeUnknown Tool ToolConflictError ToolError "
        "Toolkit UnknownTool bind"
    ),
    "tools.aspects": "Aspect Invocation Return",
    "tools.composite": "Composite",
    "tools.source": "ToolSource",
    "tools.tool": "tool",
}

if not TYPE_CHECKING:  # because a checker would accept any name
    _find = import_later(__name__, _LATER)

    def __getattr__(name: str) -> Any:
        # `import fxai` also provides these packages
        return import_module(f"fxai.{name}") if name in _LATER else _find(name)


def __dir__() -> list[str]:
    return list(__all__)
