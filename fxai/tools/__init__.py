"""Level 3. Tools, their handlers, and toolkits. Use this package to define operations that a model can call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later
from fxai.tools.call import OnInvalidCall, Outcome
from fxai.tools.handler import HandlerError
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
from fxai.tools.tool import AnyTool, ExternalTool, FunctionTool, Tool
from fxai.tools.tool_error import (
    ApprovalExpired,
    ApprovalUnavailable,
    CallFailureError,
    Denied,
    HandlerFailed,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    NotRun,
    OutcomeUnknown,
    Refused,
    ToolError,
    UnknownTool,
)
from fxai.tools.tool_info import CallContext, Example, NeedsApproval, ToolInfo, Validation
from fxai.tools.tool_options import ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit, bind

if TYPE_CHECKING:
    from fxai.tools.composite import Composite, SubCall, SubCalls, SubResults
    from fxai.tools.handler_types import HandlerOf, HandlerReturn, Handling, MethodsOf
    from fxai.tools.source import Sourced, ToolSource

__all__ = [
    "AnyTool",
    "ApprovalExpired",
    "ApprovalUnavailable",
    "BoundToolkit",
    "CallContext",
    "CallFailureError",
    "Composite",
    "Denied",
    "Example",
    "ExternalTool",
    "FailureMode",
    "FunctionTool",
    "HandlerError",
    "HandlerFailed",
    "HandlerOf",
    "HandlerReturn",
    "HandlerUnavailable",
    "Handling",
    "InDoubt",
    "Interrupted",
    "InvalidParameters",
    "InvalidResult",
    "Kind",
    "MethodsOf",
    "NameConflictError",
    "NameMap",
    "NameRule",
    "NeedsApproval",
    "NotRun",
    "OnConflict",
    "OnInvalidCall",
    "Outcome",
    "OutcomeUnknown",
    "ProviderTool",
    "Refused",
    "Sourced",
    "SubCall",
    "SubCalls",
    "SubResults",
    "Tool",
    "ToolConflictError",
    "ToolError",
    "ToolInfo",
    "ToolOptions",
    "ToolSource",
    "Toolkit",
    "UnknownTool",
    "Validation",
    "bind",
]

# To keep `import fxai` fast, these modules load when a program first uses one of their names.
_LATER = {
    "composite": "Composite SubCall SubCalls SubResults",
    "handler_types": "HandlerOf HandlerReturn Handling MethodsOf",
    "source": "Sourced ToolSource",
}

if not TYPE_CHECKING:  # a type checker would accept any name of a module that has `__getattr__`
    __getattr__ = import_later(__name__, _LATER)
