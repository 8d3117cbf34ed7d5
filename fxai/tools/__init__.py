"""Floor 3. Tools: operations as values, composed into toolkits, answered by handlers that layers give."""

from __future__ import annotations

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
from fxai.tools.example import Example
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
from fxai.tools.identity import FailureMode, Kind
from fxai.tools.naming import NameConflictError, NameMap, NameRule
from fxai.tools.options import NeedsApproval, ToolOptions, Validation
from fxai.tools.provider_tool import ProviderTool
from fxai.tools.tool import ExternalTool, Tool
from fxai.tools.toolkit import HandlerError, OnConflict, ToolConflictError, Toolkit

__all__ = [
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "ApprovalExpired",
    "ApprovalUnavailable",
    "CacheControl",
    "CacheTime",
    "CallContext",
    "Caller",
    "DeferLoading",
    "Denied",
    "Destructive",
    "EagerInputStreaming",
    "Example",
    "ExplicitNull",
    "ExternalTool",
    "FailureMode",
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
    "Strict",
    "Title",
    "Tool",
    "ToolConflictError",
    "ToolError",
    "ToolNamespace",
    "ToolOptions",
    "Toolkit",
    "UnknownTool",
    "Validation",
]
