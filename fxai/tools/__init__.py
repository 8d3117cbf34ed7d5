"""Floor 3. Tools: operations as values, composed into toolkits, answered by handlers that layers give."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxai.tools.annotations import (
    AllowedCallers,
    Annotation,
    Annotations,
    CacheControl,
    CacheTime,
    Caller,
    DeferLoading,
    Destructive,
    EagerInputStreaming,
    ExplicitNull,
    Idempotent,
    JsonText,
    Meta,
    Namespace,
    OpenWorld,
    OutputSchema,
    Readonly,
    Strict,
    Title,
    ToolNamespace,
)
from fxai.tools.call import OnInvalidCall, Outcome
from fxai.tools.failure import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerFailed,
    InDoubt,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    ToolError,
    UnknownTool,
)
from fxai.tools.handler import CallContext, HandlerOf, HandlerReturn
from fxai.tools.identity import FailureMode, Kind, ProviderTool
from fxai.tools.naming import NameConflictError, NameMap, NameRule
from fxai.tools.options import Example, NeedsApproval, ToolInfo, ToolOptions, Validation
from fxai.tools.tool import ExternalTool, Tool
from fxai.tools.toolkit import HandlerError, OnConflict, ToolConflictError, Toolkit

if TYPE_CHECKING:
    from fxai.tools.composite import Composite, SubCall, SubCalls, SubResults
    from fxai.tools.function import FunctionTool, MethodsOf, tool
    from fxai.tools.source import BoundToolkit, Sourced, ToolSource

__all__ = [
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "ApprovalExpired",
    "ApprovalUnavailable",
    "BoundToolkit",
    "CacheControl",
    "CacheTime",
    "CallContext",
    "Caller",
    "Composite",
    "DeferLoading",
    "Denied",
    "Destructive",
    "EagerInputStreaming",
    "Example",
    "ExplicitNull",
    "ExternalTool",
    "FailureMode",
    "FunctionTool",
    "HandlerError",
    "HandlerFailed",
    "HandlerOf",
    "HandlerReturn",
    "Idempotent",
    "InDoubt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "JsonText",
    "Kind",
    "Meta",
    "MethodsOf",
    "NameConflictError",
    "NameMap",
    "NameRule",
    "Namespace",
    "NeedsApproval",
    "OnConflict",
    "OnInvalidCall",
    "OpenWorld",
    "Outcome",
    "OutputSchema",
    "ProviderTool",
    "Readonly",
    "Sourced",
    "Strict",
    "SubCall",
    "SubCalls",
    "SubResults",
    "Title",
    "Tool",
    "ToolConflictError",
    "ToolError",
    "ToolInfo",
    "ToolNamespace",
    "ToolOptions",
    "ToolSource",
    "Toolkit",
    "UnknownTool",
    "Validation",
    "tool",
]

# What not every program needs is imported when it is first named.
_LATER = {
    "BoundToolkit": "source",
    "Composite": "composite",
    "FunctionTool": "function",
    "MethodsOf": "function",
    "Sourced": "source",
    "SubCall": "composite",
    "SubCalls": "composite",
    "SubResults": "composite",
    "ToolSource": "source",
    "tool": "function",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
