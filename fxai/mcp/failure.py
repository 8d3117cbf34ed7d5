"""What can go wrong with an MCP server: one record for the server itself, one for a tool that says it failed.

`McpError` says which server, what it was doing, what happened and what to do; `McpToolError` is a tool's own failure,
with what it showed. Both are typed failures of a call; opening a server fails with `McpError` alone.

>>> print(McpError("git", "start", "no program 'uvx' was found", remedy="install it"))
the MCP server 'git': no program 'uvx' was found; install it
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.mcp.content import without_data
from fxai.schema.codec import Schema

__all__ = ["LinkError", "McpCallError", "McpError", "McpErrorKind", "McpToolError", "failure_schema"]

McpErrorKind: TypeAlias = Literal[
    "start",
    "connection",
    "authentication",
    "timeout",
    "protocol",
    "invalid-answer",
    "limit",
    "input-required",
    "held-back",
    "no-such-tool",
    "pins",
]
"""Why: it did not start, was lost, refused us, was too slow, answered with a protocol error, answered what the protocol
does not allow, sent more than is allowed, asked for input that nobody gives, the tool is held back, there is no tool
of a name that was asked for, or the pins cannot be read or written."""


@final
class McpError(msgspec.Struct, frozen=True, tag_field="type", tag="mcp-error", omit_defaults=True):
    """What went wrong with a server, rather than in one of its tools."""

    server: str
    """The server's name here."""
    kind: McpErrorKind
    """Why, in one word."""
    said: str
    """What happened."""
    remedy: str = ""
    """What to do; empty where there is nothing to say."""
    tool: str | None = None
    """The tool that was called; None where none was."""
    code: int | None = None
    """The code of a JSON-RPC error that the server answered with."""
    stderr: str = ""
    """The last lines that the server wrote to its standard error; models are not shown them."""

    @property
    def message(self) -> str:
        """What happened and what to do, in one line; and what the server wrote to its standard error."""
        return str(self)

    @override
    def __str__(self) -> str:
        calling = f", calling {self.tool!r}" if self.tool is not None else ""
        told = f"the MCP server {self.server!r}{calling}: {self.said}"
        if self.remedy:
            told += f"; {self.remedy}"
        return f"{told}\nits standard error ends:\n{self.stderr}" if self.stderr else told


@final
class McpToolError(msgspec.Struct, frozen=True, tag_field="type", tag="mcp-tool-error", omit_defaults=True):
    """A tool that says it failed: a result marked `isError`."""

    tool: str
    """The tool's name at the server."""
    said: str
    """The texts of the result, joined."""
    content: tuple[Any, ...] = ()
    """The result's content blocks as plain JSON data; `()` where they are one text, which is `said`."""
    structured: Any = None
    """The result's structured content; None where there is none."""

    @property
    def message(self) -> str:
        """What the tool said."""
        return str(self)

    @override
    def __str__(self) -> str:
        return f"the tool {self.tool!r} failed: {self.said or 'it does not say why'}"

    @override
    def __hash__(self) -> int:
        return hash((McpToolError, self.tool, self.said))


class LinkError(Exception):
    """Carries a failure out of a coroutine."""

    def __init__(self, failure: McpError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _visible(failure: McpError | McpToolError) -> dict[str, Any]:
    """The failure as a model reads it: without what the server wrote to its standard error, and without files."""
    if isinstance(failure, McpError):
        shown: McpCallError = msgspec.structs.replace(failure, stderr="")
    else:
        shown = msgspec.structs.replace(failure, content=tuple(without_data(block) for block in failure.content))
    data: dict[str, Any] = msgspec.to_builtins(shown)
    return data


def _read(data: dict[str, Any]) -> McpError | McpToolError:
    try:
        return msgspec.convert(data, McpError | McpToolError)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


McpCallError: TypeAlias = McpError | McpToolError
"""What a call of a server's tool fails with."""

failure_schema: Schema[McpCallError] = Schema.of(
    Annotated[McpError | McpToolError, Schema.codec(wire=dict[str, Any], decode=_read, encode=_visible)]
)
"""The schema of such a failure: what the model is shown of it."""
