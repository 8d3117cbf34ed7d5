"""Reports: what an exception says of a server, told with all that is known of its connection."""

from __future__ import annotations

import re
from typing import Any, Final, cast, final

import httpx2
import mcp_types as wire
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from fxai.mcp.endpoint import Address, Program
from fxai.mcp.failure import LinkError, McpError, McpErrorKind
from fxai.mcp.settings import ServerSettings
from fxai.mcp.watch import UNREAD, Watch, brief
from fxai.mcp.web import HTTP_STATUS, NETWORK, NO_ANSWER, TOO_LARGE

__all__ = ["REOPEN", "Report", "leaf"]

REOPEN: Final = "open it again"
"""What to do about a connection that is gone."""

_RESTART: Final = "see that the command or the address is right, and what the server needs to start"

_INVALID: Final = re.compile(r"Invalid JSON: (.{1,200}?)(?: \[type=|$)", re.MULTILINE)
_LOST: Final = ("Connection closed", "SSE stream")
_CODES: Final[dict[int, McpErrorKind]] = {
    wire.CONNECTION_CLOSED: "connection",
    wire.REQUEST_TIMEOUT: "timeout",
    NETWORK: "connection",
    TOO_LARGE: "limit",
    wire.PARSE_ERROR: "invalid-answer",
    NO_ANSWER: "invalid-answer",
}


@final
class Report:
    """Tells failures of one connection."""

    def __init__(self, settings: ServerSettings, watch: Watch) -> None:
        self._settings = settings
        self.watch = watch

    def failure(self, raised: BaseException, doing: str, tool: str | None = None) -> McpError:
        """What an exception of the SDK's, or of ours, says of the server."""
        raised = leaf(raised)
        if isinstance(raised, LinkError):
            return raised.failure
        if self.watch.trouble is not None:
            return self.told(*self.watch.trouble, tool)
        if isinstance(raised, MCPError):
            return self._protocol_error(raised, doing, tool)
        if isinstance(raised, ValidationError):
            said = f"its answer is not what the protocol allows: {brief(raised)}"
            return self.told("invalid-answer", said, "tell its makers", tool)
        if isinstance(raised, OSError) and doing == "start":
            said = f"it cannot be started by {self._settings.endpoint.place!r}: {_reason(raised)}"
            return self.told("start", said, _start_remedy(self._settings.endpoint), tool)
        if isinstance(raised, httpx2.HTTPError | httpx2.InvalidURL | OSError):
            said = f"it cannot be reached at {self._settings.endpoint.place!r}: {raised}"
            return self.told("connection", said, "see that it runs, and the address", tool)
        return self.told("protocol", f"{type(raised).__name__}: {raised}", "", tool)

    def _protocol_error(self, error: MCPError, doing: str, tool: str | None) -> McpError:
        kind = _CODES.get(error.code, "protocol")
        if error.code == wire.CONNECTION_CLOSED and not error.message.startswith(_LOST):
            kind = "protocol"  # a server may use the number for errors of its own
        if kind == "connection" and error.code == wire.CONNECTION_CLOSED:
            return self.told(kind, self._ended(error.message), _RESTART if doing == "start" else REOPEN, tool)
        if error.code == HTTP_STATUS:
            refused = error.error.data in (401, 403, 407)
            remedy = "give token= or headers= that it takes" if refused else "try again later"
            return self.told(
                "authentication" if refused else "connection", f"it answered {error.message}", remedy, tool
            )
        if error.code == NETWORK:
            said = f"it cannot be reached at {self._settings.endpoint.place!r}: {error.message}"
            return self.told(kind, said, "see that it runs, and the address", tool)
        if error.code == NO_ANSWER:
            return self.told(kind, error.message, "tell its makers", tool)
        if error.code == wire.PARSE_ERROR and error.message.startswith(UNREAD):
            found = _INVALID.search(error.message)
            why = found[1] if found else "it is no JSON-RPC message"
            said = f"its answer cannot be read as JSON: {why.replace('recursion limit exceeded', 'nested too deep')}"
            return self.told(kind, said, "tell its makers", tool)
        remedy = ""
        if error.code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY:
            kind, remedy = "input-required", "give elicit=, a function that answers what it asks"
        elif doing == "start":
            remedy = _RESTART
        return self.told(kind, f"it answered with the error {error.code}: {error.message}", remedy, tool, error.code)

    def _ended(self, said: str) -> str:
        if not isinstance(self._settings.endpoint, Program):
            return f"its connection was lost: {said}"
        code = self.watch.process()
        how = "" if code is None else f" with the exit code {code}" if code >= 0 else f" by the signal {-code}"
        return f"its program ended{how}" if how else "it closed its output"

    def told(
        self, kind: McpErrorKind, said: str, remedy: str = "", tool: str | None = None, code: int | None = None
    ) -> McpError:
        """A failure of the server, with the end of its standard error and what else was odd."""
        hints = self.watch.hints
        said = f"{said} ({hints})" if hints and hints not in said else said
        return McpError(self._settings.name, kind, said, remedy, tool, code, self.watch.stderr)


def _start_remedy(endpoint: Program | Address) -> str:
    words = endpoint.command.split() if isinstance(endpoint, Program) else []
    if len(words) > 1:
        return f"give its words apart, as no shell is involved: mcp.stdio({', '.join(map(repr, words))})"
    return "see that the program is installed and can be run"


def _reason(raised: OSError) -> str:
    said = raised.strerror or str(raised)
    return f"{said} ({raised.filename!r})" if raised.filename else said


def leaf(raised: BaseException) -> BaseException:
    """The first exception of a group, of whatever depth; any other is itself."""
    while isinstance(raised, BaseExceptionGroup):
        raised = cast("tuple[BaseException, ...]", cast(Any, raised).exceptions)[0]
    return raised
