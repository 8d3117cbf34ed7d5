"""Errors of commands for failures of programs. Use `error_of` for the cause of a run that failed.

>>> from fxai.effects.cause import Die, Cause
>>> print(error_of(Cause((Die(ValueError("x")),))))
the program raised ValueError: x. Run it again with --debug to see the traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fxai.agents.answer import BudgetExceeded, RenderFailed
from fxai.agents.memory import MemoryFailure
from fxai.cli.exit import SHOW_TRACE, CliError
from fxai.effects.cause import Cause
from fxai.effects.context import ContextOf, MissingServiceError
from fxai.messages.errors import AiError
from fxai.schema.display import one_line
from fxai.tools.handler import HandlerError, missing_services
from fxai.tools.identity import ToolConflictError
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import HandlerFailed, HandlerUnavailable, InvalidResult, OutcomeUnknown

GIVE_LAYER: Final = "Provide the service with --layer module:name."
"""The remedy for a missing service."""
GIVE_HANDLERS: Final = "Name the layer of the handlers with --layer module:name."
"""The remedy for missing handlers."""
_ASKED: Final = "To answer questions, call the tool in a terminal with fxai mcp call or fxai chat."


def is_server_failure(failure: object) -> bool:
    """Return True for a failure of an MCP server or of one of its tools. Its string is the whole message."""
    from fxai.mcp.result import McpError, McpToolError  # imported only after a failure

    return isinstance(failure, McpError | McpToolError)


def error_of(cause: Cause[Any]) -> CliError:
    """Return the error for the first failure of a run, otherwise for its first defect."""
    for failure in cause.failures:
        return _failure_error(failure)
    for defect in cause.defects:
        return _defect_error(defect)
    return CliError("the program interrupted itself", "Run the command again.", cause=cause.squash())


def _failure_error(failure: object) -> CliError:
    from fxai.durable.failure import DurableFailure  # most commands need none of these
    from fxai.hosting.listening import CannotListen
    from fxai.ui import ConversationError

    if isinstance(failure, CliError):
        return failure
    if isinstance(failure, AiError):
        return model_error(failure)
    problem = str(failure)
    if isinstance(failure, BudgetExceeded):
        return _budget_error(failure)
    if isinstance(failure, RenderFailed):
        return CliError(problem, "")
    if isinstance(failure, MemoryFailure):
        return CliError(problem, "The memory is unchanged.")
    if isinstance(failure, HandlerFailed):
        return CliError(problem, 'To let the model read this failure, set failure_mode="return" for the tool.')
    if is_server_failure(failure) or isinstance(failure, CannotListen):
        return server_error(failure)
    if isinstance(failure, HandlerUnavailable | OutcomeUnknown | DurableFailure | ConversationError):
        return CliError(problem, "")
    if isinstance(failure, InvalidResult):
        return CliError(problem, "Correct the handler or the declared result type of the tool.")
    return CliError(f"run failed: {problem}", "Run it again with --debug to see more.")


def model_error(failure: AiError) -> CliError:
    """Return the error for a failed request to a model."""
    return CliError(failure.message, failure.advice + "." * failure.advice[-1:].isalnum())


def server_error(failure: Any, data: Mapping[str, Any] | None = None) -> CliError:
    """Return the error for a failure of an MCP server or of one of its tools, with a remedy for the command line.

    The message quotes the end of the server's standard error. `data` is added to the error in JSON.
    """
    from fxai.mcp.result import McpError

    if not isinstance(failure, McpError):
        message = str(failure)
        return CliError(message, _ASKED if "approval-unavailable" in message else "", data=data)
    problem = str(msgspec.structs.replace(failure, remedy="", stderr=""))
    heard = f"; its standard error ends with: {one_line(failure.stderr, 300)}" if failure.stderr else ""
    remedy = failure.remedy.replace("a longer timeout=", "a longer --timeout SECONDS")
    remedy += "." * remedy[-1:].isalnum()
    return CliError(problem + heard, _ASKED if "elicit=" in remedy else remedy, data=data)


def _budget_error(failure: BudgetExceeded) -> CliError:
    if failure.what != "rounds":
        return CliError(
            f"run exceeded its limit of {failure.limit:g} {failure.what}", "Raise the limit in the agent's budget."
        )
    problem = f"the model still called tools in round {failure.limit:g}, the last allowed round"
    return CliError(problem, f"Allow more rounds with --rounds {failure.limit * 2:g}.")


def _defect_error(defect: BaseException) -> CliError:
    if isinstance(defect, CliError):
        return defect
    if isinstance(defect, MissingServiceError):
        problem = f"service {defect.service} is missing"
        return CliError(problem, GIVE_LAYER, cause=defect)
    if isinstance(defect, ToolConflictError):
        return CliError(str(defect), "Add a prefix to the server's tools with --mcp name=SERVER.", cause=defect)
    if isinstance(defect, HandlerError):
        problem, _, remedy = str(defect).partition(". ")
        return CliError(problem, remedy, cause=defect)
    kind = type(defect).__name__
    return CliError(f"the program raised {kind}: {defect}", SHOW_TRACE, cause=defect)


def require_services(tools: Iterable[AnyTool], services: ContextOf[Any]) -> None:
    """Raise `CliError` if a handler of these tools declares a service that `services` does not contain."""
    for tool, name in missing_services(tools, services):
        problem = f"service {name} is missing: the handler of {tool!r} requires it"
        raise CliError(problem, GIVE_LAYER)
