"""Failures of servers and of their tools: what they say, what a model is shown of them, and what reads as one."""

from __future__ import annotations

import pytest
from returns.result import Failure, Success

from fxai.mcp import McpCallError, McpError, McpToolError
from fxai.mcp.result import LinkError, failure_schema
from tests.kit.every import every

SERVER = "MCP server 'git'"


@every(
    ("failure", "said"),
    [
        (McpError("git", "start", "it is away"), f"{SERVER}: it is away"),
        (McpError("git", "start", "it is away", "call it"), f"{SERVER}: it is away. call it"),
        (McpError("git", "start", "it is away", tool="log"), f"{SERVER}, call of 'log': it is away"),
        (McpError("git", "start", "it is away", tool=""), f"{SERVER}, call of '': it is away"),
        (
            McpError("git", "start", "it is away", "call it", "log", -1, "oops\nbye"),
            f"{SERVER}, call of 'log': it is away. call it\nstandard error ends with:\noops\nbye",
        ),
        (McpToolError("log", "no such branch"), "tool 'log' failed: no such branch"),
        (McpToolError("log", ""), "tool 'log' failed: without a reason"),
    ],
)
def test_a_failure_says_who_what_and_what_to_do(failure: McpCallError, said: str) -> None:
    """What is known is said, what is not leaves no trace; the message and the text are the same."""
    assert str(failure) == said
    assert failure.message == said


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (
            McpError("git", "timeout", "late", "wait", "log", -3, "secret path"),
            {
                "type": "mcp-error",
                "server": "git",
                "kind": "timeout",
                "problem": "late",
                "remedy": "wait",
                "tool": "log",
                "code": -3,
            },
        ),
        (
            McpToolError("log", "no", ({"type": "image", "data": "AA=="},), {"why": None}),
            {
                "type": "mcp-tool-error",
                "tool": "log",
                "problem": "no",
                "content": [{"type": "image", "data": "(4 characters of base64, left out)"}],
                "structured": {"why": None},
            },
        ),
    ],
)
def test_what_a_model_is_shown_is_a_failure_again(failure: McpCallError, shown: object) -> None:
    """Standard error and files are left out of what is shown; a kept conversation reads the rest back as it was."""
    assert failure_schema.encode(failure) == Success(shown)

    read = failure_schema.decode(shown).unwrap()

    assert type(read) is type(failure)
    assert failure_schema.encode(read) == Success(shown)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"type": "mcp-error", "server": "git", "kind": "odd", "said": "x"}, "Invalid enum value 'odd'"),
        ({"type": "mcp-error", "server": "git"}, "missing required field `kind`"),
        ({"type": "other"}, "Invalid value 'other'"),
        ({}, "missing required field `type`"),
    ],
)
def test_what_is_no_failure_is_not_read_as_one(data: object, fault: str) -> None:
    """Data of another kind, or with a part missing, is refused with what is wrong in it."""
    read = failure_schema.decode(data)

    assert isinstance(read, Failure)
    assert fault in str(read.failure())


def test_failures_of_tools_can_be_counted() -> None:
    """Equal failures are one member of a set, whatever JSON they hold; others are others."""
    held = ({"type": "image"},)
    failures = {
        McpToolError("a", "x", held),
        McpToolError("a", "x", ({"type": "image"},)),
        McpToolError("a", "y", held),
    }

    assert len(failures) == 2


def test_what_carries_a_failure_says_the_same() -> None:
    """The exception inside of a connection has the failure's own words."""
    failure = McpError("git", "start", "it is away")

    assert (LinkError(failure).failure, str(LinkError(failure))) == (failure, str(failure))
