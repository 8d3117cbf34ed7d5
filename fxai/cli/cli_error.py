"""Errors of the command line: one line with what went wrong and what to do, and an exit code.

>>> print(CliError("there is no file x.py", "check the path"))
there is no file x.py; check the path
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.agents.budget import BudgetExceeded
from fxai.agents.memory import MemoryFailure
from fxai.effects.cause import Cause
from fxai.effects.context import ContextOf, MissingServiceError
from fxai.messages.errors import AiError
from fxai.schema.display import one_line
from fxai.tools.failure import HandlerFailed, InvalidResult
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import HandlerError, ToolConflictError, missing_services

__all__ = [
    "FAILED",
    "HUNG_UP",
    "INTERRUPTED",
    "PIPE_CLOSED",
    "TERMINATED",
    "WRONG_USE",
    "CliError",
    "error_of",
    "is_server_failure",
    "require_services",
    "server_error",
]

FAILED: Final = 1
HUNG_UP: Final = 129
"""As shells say it of a program whose terminal went away."""
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""As shells say it of a program that was stopped by Ctrl-C."""
PIPE_CLOSED: Final = 141
"""As shells say it of a program whose reader went away."""
TERMINATED: Final = 143
"""As shells say it of a program that was told to end."""

_GIVE_LAYER: Final = "give a layer that supplies it with --layer module:name"
_ASKED: Final = "call it where you can be asked: with fxai mcp call or fxai chat, in a terminal"


@final
class CliError(Exception):
    """An error that ends a command.

    `cause` is the exception behind it, shown by `--debug`; `data` is added to the error in JSON; `of_output` is whether
    the output itself cannot be written.
    """

    def __init__(
        self,
        message: str,
        remedy: str,
        *,
        code: int = FAILED,
        cause: BaseException | None = None,
        data: Mapping[str, Any] | None = None,
        of_output: bool = False,
    ) -> None:
        super().__init__(message, remedy)
        self.message = one_line(message)
        self.remedy = one_line(remedy)
        self.code = code
        self.cause = cause
        self.data = dict(data or {})
        self.of_output = of_output

    @property
    def is_last(self) -> bool:
        """Whether the process must end: it was told to, its terminal is gone, or its output cannot be written."""
        return self.of_output or self.code in (HUNG_UP, TERMINATED)

    def to_data(self) -> dict[str, Any]:
        """What happened and what to do, as plain JSON data."""
        return {"message": self.message, "remedy": self.remedy, **self.data}

    @override
    def __str__(self) -> str:
        return f"{self.message.rstrip('.')}; {self.remedy}" if self.remedy else self.message


def is_server_failure(failure: object) -> bool:
    """Whether it is a failure of an MCP server or of one of its tools; its text is the whole message."""
    return type(failure).__name__ in ("McpError", "McpToolError")  # by name: their module needs the extra `mcp`


def error_of(cause: Cause[Any]) -> CliError:
    """The error for a run that did not succeed: for its first failure, or else its first defect."""
    for failure in cause.failures:
        return _failure_error(failure)
    for defect in cause.defects:
        return _defect_error(defect)
    return CliError("the program was interrupted from inside", "ask again", cause=cause.squash())


def _failure_error(failure: object) -> CliError:
    if isinstance(failure, CliError):
        return failure
    if isinstance(failure, AiError):
        return CliError(failure.message, _lower(failure.advice))
    said = str(failure)
    if isinstance(failure, BudgetExceeded):
        return _budget_error(failure)
    if isinstance(failure, MemoryFailure):
        return CliError(said, "nothing of it was changed")
    if isinstance(failure, HandlerFailed):
        return CliError(said, 'with failure_mode="return" the model reads the failure, and the run goes on')
    if is_server_failure(failure) or type(failure).__name__ == "CannotListen":
        return server_error(failure)
    if isinstance(failure, InvalidResult):
        return CliError(said, "correct the handler, or the type that the tool declares")
    return CliError(f"the run failed: {said}", "--debug shows more")


def server_error(failure: Any, data: Mapping[str, Any] | None = None) -> CliError:
    """The error for a failure of an MCP server or of one of its tools, with remedies for the command line.

    It quotes the end of the server's standard error. `data` is added to the error in JSON.
    """
    from fxai.mcp.failure import McpError

    if not isinstance(failure, McpError):
        told = str(failure)
        return CliError(told, _ASKED if "approval-unavailable" in told else "", data=data)
    said = str(msgspec.structs.replace(failure, remedy="", stderr=""))
    heard = f"; its standard error ends: {one_line(failure.stderr, 300)}" if failure.stderr else ""
    remedy = failure.remedy.replace("a longer timeout=", "it longer with --timeout SECONDS")
    return CliError(said + heard, _ASKED if "elicit=" in remedy else remedy, data=data)


def _budget_error(failure: BudgetExceeded) -> CliError:
    if failure.what != "rounds":
        return CliError(
            f"the run was not done after {failure.limit:g} {failure.what}", "its agent's budget allows no more"
        )
    said = f"the model still called tools in round {failure.limit:g}, the last that it has"
    return CliError(said, f"allow more with --rounds {failure.limit * 2:g}")


def _defect_error(defect: BaseException) -> CliError:
    if isinstance(defect, CliError):
        return defect
    if isinstance(defect, MissingServiceError):
        said = f"the service {defect.service} is needed, and no layer gives it"
        return CliError(said, _GIVE_LAYER, cause=defect)
    if isinstance(defect, ToolConflictError):
        return CliError(str(defect), "a server's tools are prefixed by --mcp name=SERVER", cause=defect)
    if isinstance(defect, HandlerError):
        return CliError(str(defect), "give each tool of the layer's toolkit one handler", cause=defect)
    kind = type(defect).__name__
    return CliError(f"the program broke: {kind}: {defect}", "--debug shows where", cause=defect)


def require_services(tools: Iterable[AnyTool], services: ContextOf[Any]) -> None:
    """Checks that the handlers of these tools find the services that they declare.

    Raises:
        CliError: a service is missing.
    """
    for tool, name in missing_services(tools, services):
        said = f"the service {name} is needed, and no layer gives it to the handler of {tool!r}"
        raise CliError(said, _GIVE_LAYER)


def _lower(advice: str) -> str:
    return advice[:1].lower() + advice[1:]
