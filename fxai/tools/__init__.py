"""Floor 3. Tools: operations as values, composed into toolkits, answered by handlers that layers give."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxai.tools.call import OnInvalidCall, Outcome
from fxai.tools.handler import CallContext, HandlerError, HandlerOf, HandlerReturn, MethodsOf
from fxai.tools.identity import (
    FailureMode,
    Kind,
    NameConflictError,
    NameMap,
    NameRule,
    OnConflict,
    ProviderTool,
    ToolConflictError,
)
from fxai.tools.tool import ExternalTool, FunctionTool, Tool
from fxai.tools.tool_error import (
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
from fxai.tools.tool_options import (
    AllowedCallers,
    Annotation,
    Annotations,
    CacheControl,
    CacheTime,
    Caller,
    DeferLoading,
    Destructive,
    EagerInputStreaming,
    Example,
    ExplicitNull,
    Idempotent,
    JsonText,
    Meta,
    Namespace,
    NeedsApproval,
    OpenWorld,
    OutputSchema,
    Readonly,
    Strict,
    Title,
    ToolInfo,
    ToolNamespace,
    ToolOptions,
    Validation,
)
from fxai.tools.toolkit import BoundToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.tools.composite import Composite, SubCall, SubCalls, SubResults
    from fxai.tools.source import Sourced, ToolSource

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
]

# What not every program needs is imported when it is first named.
_LATER = {
    "Composite": "composite",
    "Sourced": "source",
    "SubCall": "composite",
    "SubCalls": "composite",
    "SubResults": "composite",
    "ToolSource": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
