"""Reports: what an exception says of a server, in words that name what happened and what to do."""

from __future__ import annotations

from typing import Any

import httpx2
import mcp_types as wire
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from fxai.mcp import McpError
from fxai.mcp.client_transport import HTTP_STATUS, NETWORK, NO_ANSWER, TOO_LARGE
from fxai.mcp.result import LinkError
from fxai.mcp.session import REOPEN, Report, leaf
from fxai.mcp.settings import LIMITS, Address, ServerProgram, ServerSettings
from fxai.mcp.watch import UNREAD, Watch
from tests.kit.every import every

PROGRAM = ServerProgram("uvx", ("a server",))
WEB = Address("https://user:pass@example.org/mcp?key=1")
START = "Check the command or the URL, and the requirements of the server"
REACH = "Check that the server runs, and its URL"
KEYS = "Pass a token= or headers= that the server accepts"


def report(endpoint: ServerProgram | Address = PROGRAM) -> Report:
    """The reports of one connection."""
    return Report(ServerSettings(endpoint, "git"), Watch(LIMITS))


def _invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("many")
    return caught.value


def _warned(code: int, problem: str, data: Any = None) -> MCPError:
    return MCPError(code, problem, data)


@every(
    ("raised", "doing", "kind", "problem", "remedy", "code"),
    [
        (
            OSError(2, "No such file"),
            "start",
            "start",
            "cannot start \"uvx 'a server'\": No such file",
            "is installed",
            None,
        ),
        (OSError("odd"), "start", "start", "cannot start \"uvx 'a server'\": odd", "is installed", None),
        (OSError("odd"), "call", "connection", "cannot reach \"uvx 'a server'\": odd", REACH, None),
        (httpx2.ConnectError("no"), "start", "connection", "cannot reach", REACH, None),
        (httpx2.InvalidURL("no"), "call", "connection", "cannot reach", REACH, None),
        (KeyError("x"), "call", "protocol", "KeyError: 'x'", "", None),
        (_invalid(), "call", "invalid-answer", "the answer breaks the protocol: ", "the server's authors", None),
        (_warned(NETWORK, "reset"), "call", "connection", "cannot reach \"uvx 'a server'\": reset", REACH, None),
        (_warned(HTTP_STATUS, "401 Unauthorized", 401), "call", "authentication", "answered 401", KEYS, None),
        (_warned(HTTP_STATUS, "403 Forbidden", 403), "call", "authentication", "answered 403", KEYS, None),
        (_warned(HTTP_STATUS, "407 Proxy", 407), "call", "authentication", "answered 407", KEYS, None),
        (_warned(HTTP_STATUS, "503 Busy", 503), "call", "connection", "answered 503 Busy", "Try again later", None),
        (
            _warned(NO_ANSWER, "it ended early"),
            "call",
            "invalid-answer",
            "it ended early",
            "Report this to the server's authors",
            None,
        ),
        (
            _warned(wire.PARSE_ERROR, f"{UNREAD} x: Invalid JSON: recursion limit exceeded at 1 [type=json_invalid]"),
            "call",
            "invalid-answer",
            "cannot read the answer as JSON: nested too deep at 1",
            "Report this to the server's authors",
            None,
        ),
        (
            _warned(wire.PARSE_ERROR, f"{UNREAD} x"),
            "call",
            "invalid-answer",
            "cannot read the answer as JSON: not a JSON-RPC message",
            "Report this to the server's authors",
            None,
        ),
        (
            _warned(wire.PARSE_ERROR, "what?"),
            "call",
            "invalid-answer",
            f"the error {wire.PARSE_ERROR}: what?",
            "",
            wire.PARSE_ERROR,
        ),
        (_warned(TOO_LARGE, "big"), "call", "limit", "big", "", TOO_LARGE),
        (_warned(wire.REQUEST_TIMEOUT, "late"), "call", "timeout", "late", "", wire.REQUEST_TIMEOUT),
        (_warned(-1, "no"), "call", "protocol", "answered with the error -1: no", "", -1),
        (_warned(-1, "no"), "start", "protocol", "answered with the error -1: no", START, -1),
        (
            _warned(wire.MISSING_REQUIRED_CLIENT_CAPABILITY, "ask"),
            "start",
            "input-required",
            "ask",
            "Pass elicit=, a function that answers the server's questions",
            wire.MISSING_REQUIRED_CLIENT_CAPABILITY,
        ),
        (
            _warned(wire.CONNECTION_CLOSED, "Connection closed"),
            "call",
            "connection",
            "closed its output",
            REOPEN,
            None,
        ),
        (_warned(wire.CONNECTION_CLOSED, "Connection closed"), "start", "connection", "closed its", START, None),
        (_warned(wire.CONNECTION_CLOSED, "own"), "call", "protocol", "own", "", wire.CONNECTION_CLOSED),
    ],
)
def test_each_exception_has_its_words(
    raised: Exception, doing: str, kind: str, problem: str, remedy: str, code: int | None
) -> None:
    """The kind, what happened, what to do, and the server's own code: of the exception or of the first in a group."""
    for one in (raised, ExceptionGroup("many", [ExceptionGroup("more", [raised]), ValueError("later")])):
        failure = report().failure(one, doing, "log")

        assert (failure.server, failure.tool, failure.kind, failure.code) == ("git", "log", kind, code)
        assert problem in failure.problem
        assert remedy in failure.remedy
        assert bool(remedy) is bool(failure.remedy)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (None, "closed its output"),
        (0, "the program ended with the exit code 0"),
        (3, "the program ended with the exit code 3"),
        (-9, "the program ended by the signal 9"),
    ],
)
def test_how_a_program_ended_is_said(code: int | None, problem: str) -> None:
    """Its exit code, or the signal that killed it; where it still runs, that it closed its output."""
    told = report()
    told.watch.process = lambda: code

    assert told.failure(_warned(wire.CONNECTION_CLOSED, "Connection closed"), "call").problem == problem


def test_an_address_is_told_without_what_opens_it() -> None:
    """A connection that is lost is told as the SDK said it; a place never shows user, password or query."""
    lost = report(WEB).failure(_warned(wire.CONNECTION_CLOSED, "SSE stream ended"), "call")
    away = report(WEB).failure(httpx2.ConnectError("refused"), "call")

    assert (lost.problem, lost.remedy) == ("the connection was lost: SSE stream ended", "Open the server again")
    assert away.problem == "cannot reach 'https://example.org/mcp': refused"


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("uvx a b", "Pass its words separately, because fxai uses no shell: mcp.stdio('uvx', 'a', 'b')"),
        ("uvx", "Check that the program is installed and executable"),
    ],
)
def test_a_command_that_is_a_line_is_to_be_given_in_words(command: str, remedy: str) -> None:
    """A program that is not there because a whole line was taken for its name is told how to give it."""
    failure = report(ServerProgram(command)).failure(FileNotFoundError(2, "No such file", "uvx"), "start")

    assert failure.remedy == remedy
    assert failure.problem.endswith(": No such file ('uvx')")


def test_what_is_known_already_is_told_first() -> None:
    """A failure of ours stays itself; trouble that ended the connection is the reason for whatever comes of it."""
    told = report()
    own = McpError("git", "pins", "said")
    told.watch.too_large(9)

    assert told.failure(LinkError(own), "call", "log") is own
    assert told.failure(ValueError("x"), "call", "log") == told.problem(
        "limit", "sent a message of more than 9 bytes", "Omit the server, or raise its limits", "log"
    )


def test_what_was_odd_is_told_once() -> None:
    """Lines that were no messages, and the end of its standard error, come with a failure; what it says is no hint."""
    told = report()
    plain = told.problem("limit", "it is large")
    told.watch.count_noise("hello")
    told.watch.add_stderr(b"oops\n")
    hints = told.watch.hints

    assert (plain.problem, plain.stderr, plain.remedy, plain.tool, plain.code) == ("it is large", "", "", None, None)
    assert told.problem("limit", "it is large").problem == f"it is large ({hints})"
    assert told.problem("limit", f"it is {hints}").problem == f"it is {hints}"
    assert told.problem("limit", "x").stderr == "oops"


def test_the_first_of_a_group_is_the_one() -> None:
    """Groups in groups lead to one exception; one by itself is itself."""
    first = ValueError("first")

    assert leaf(first) is first
    assert leaf(BaseExceptionGroup("a", [BaseExceptionGroup("b", [first, KeyError()]), KeyError()])) is first
