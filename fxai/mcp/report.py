"""Reports: conversion of exceptions of the SDK and the network to an `McpError`. Links and sessions use them."""

from __future__ import annotations

import re
from typing import Any, Final, cast, final

import httpx2
import mcp_types as wire
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fxai.mcp.http_client import BAD_HEADER, HTTP_STATUS, NETWORK, NO_ANSWER, SESSION_GONE, TOO_LARGE
from fxai.mcp.result import LinkError, McpError, McpErrorKind
from fxai.mcp.settings import HeaderError, ServerProgram, ServerSettings
from fxai.mcp.watch import UNREAD, Watch, brief

REOPEN: Final = "Open the server again"
"""The remedy for a lost connection."""

_HEADERS: Final = "Pass a valid token= and valid headers="
REPORT: Final = "Report this to the server's authors"
_REACH: Final = "Check that the server runs, and its URL"
_RESTART: Final = "Check the command or the URL, and the requirements of the server"

_INVALID: Final = re.compile(r"Invalid JSON: (.{1,200}?)(?: \[type=|$)", re.MULTILINE)
_LOST: Final = ("Connection closed", "SSE stream")
_OTHER_VERSION: Final = "Unsupported protocol version from the server: "
_VERSIONS: Final = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
_CODES: Final[dict[int, McpErrorKind]] = {
    wire.REQUEST_TIMEOUT: "timeout",
    TOO_LARGE: "limit",
    wire.PARSE_ERROR: "invalid-answer",
    wire.MISSING_REQUIRED_CLIENT_CAPABILITY: "input-required",
}


@final
class Report:
    """A converter of exceptions to the failures of one connection."""

    def __init__(self, settings: ServerSettings, watch: Watch) -> None:
        self._settings = settings
        self.watch = watch

    def failure(self, raised: BaseException, doing: str, tool: str | None = None) -> McpError:
        """Return the failure of an exception."""
        raised = leaf(raised)
        if isinstance(raised, LinkError):
            return raised.failure
        if self.watch.trouble is not None:
            return self.problem(*self.watch.trouble, tool)
        if isinstance(raised, MCPError):
            return self._protocol_error(raised, doing, tool)
        if isinstance(raised, ValidationError):
            message = f"the answer breaks the protocol: {brief(raised)}"
            return self.problem("invalid-answer", message, REPORT, tool)
        if isinstance(raised, HeaderError):
            return self.problem("authentication", str(raised), _HEADERS, tool)
        if isinstance(raised, RuntimeError) and str(raised).startswith(_OTHER_VERSION):
            message = f"unknown protocol version {str(raised)[len(_OTHER_VERSION) :][:60]!r}"
            return self.problem("protocol", message, f"Use a server with one of {_VERSIONS}", tool)
        if isinstance(raised, OSError) and doing == "start":
            return self._start_failure(raised, tool)
        if isinstance(raised, httpx2.HTTPError | httpx2.InvalidURL | OSError):
            message = f"cannot reach {self._settings.endpoint.location!r}: {raised}"
            return self.problem("connection", message, _REACH, tool)
        return self.problem("protocol", f"{type(raised).__name__}: {raised}", "", tool)

    def _start_failure(self, raised: OSError, tool: str | None) -> McpError:
        endpoint = self._settings.endpoint
        reason = raised.strerror or str(raised)
        reason = f"{reason} ({raised.filename!r})" if raised.filename else reason
        words = endpoint.command.split() if isinstance(endpoint, ServerProgram) else []
        remedy = "Check that the program is installed and executable"
        if len(words) > 1:
            separate = ", ".join(map(repr, words))
            remedy = f"Pass its words separately, because fxai uses no shell: mcp.stdio({separate})"
        return self.problem("start", f"cannot start {endpoint.location!r}: {reason}", remedy, tool)

    def _protocol_error(self, error: MCPError, doing: str, tool: str | None) -> McpError:
        code, message = error.code, error.message
        if is_lost(error):
            return self.problem("connection", self._end_of(message), _RESTART if doing == "start" else REOPEN, tool)
        if code == SESSION_GONE:
            return self.problem("connection", f"the session has ended: the server answered {message}", REOPEN, tool)
        if code == BAD_HEADER:
            return self.problem("authentication", message, _HEADERS, tool)
        if code == HTTP_STATUS:
            is_ours = error.error.data in (401, 403, 407)
            remedy = "Pass a token= or headers= that the server accepts" if is_ours else "Try again later"
            return self.problem("authentication" if is_ours else "connection", f"answered {message}", remedy, tool)
        if code == NETWORK:
            location = self._settings.endpoint.location
            return self.problem("connection", f"cannot reach {location!r}: {message}", _REACH, tool)
        if code == NO_ANSWER or (code == wire.PARSE_ERROR and message.startswith(UNREAD)):
            if code == wire.PARSE_ERROR:
                found = _INVALID.search(message)
                why = (
                    found[1].replace("recursion limit exceeded", "nested too deep")
                    if found
                    else "not a JSON-RPC message"
                )
                message = f"cannot read the answer as JSON: {why}"
            return self.problem("invalid-answer", message, REPORT, tool)
        kind = _CODES.get(code, "protocol")
        remedy = _RESTART if doing == "start" else ""
        if code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY:
            remedy = "Pass elicit=, a function that answers the server's questions"
        return self.problem(kind, f"answered with the error {code}: {message}", remedy, tool, code)

    def _end_of(self, message: str) -> str:
        if not isinstance(self._settings.endpoint, ServerProgram):
            return f"the connection was lost: {message}"
        code = self.watch.process()
        how = "" if code is None else f" with the exit code {code}" if code >= 0 else f" by the signal {-code}"
        return f"the program ended{how}" if how else "closed its output"

    def problem(
        self, kind: McpErrorKind, message: str, remedy: str = "", tool: str | None = None, code: int | None = None
    ) -> McpError:
        """Return a failure of the server, with the end of its standard error and other hints."""
        hints = self.watch.hints
        message = f"{message} ({hints})" if hints and hints not in message else message
        return McpError(self._settings.name, kind, message, remedy, tool, code, self.watch.stderr)


def is_lost(raised: BaseException) -> bool:
    """Return True if the connection has ended. Servers use the same code for their own errors."""
    return isinstance(raised, MCPError) and raised.code == wire.CONNECTION_CLOSED and raised.message.startswith(_LOST)


def leaf(raised: BaseException) -> BaseException:
    """Return the first exception of a group, at any depth. Return any other exception unchanged."""
    while isinstance(raised, BaseExceptionGroup):
        raised = cast("tuple[BaseException, ...]", cast(Any, raised).exceptions)[0]
    return raised
