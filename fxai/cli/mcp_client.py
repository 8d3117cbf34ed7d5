"""The commands `fxai mcp tools` and `fxai mcp call`: an MCP server and its tools shown, and one of them called.

>>> from fxai.mcp.connection import ServerInfo
>>> Listing(ServerInfo("time", "1.2", "2025-11-25"), ()).ok
True
>>> plain_text({"content": [{"type": "text", "text": "3"}]}), plain_text({"sum": 3})
('3', None)

Questions of the server during a call are put to the user in a terminal. Elsewhere they are declined, and so is a call
that needs approval.

>>> from io import StringIO
>>> from fxai.cli.cli_error import CliError
>>> try:
...     call_server("no-such-program", "add", StringIO(), StringIO(), params=None, as_json=False, wish=ServerOptions())
... except CliError as error:
...     print(error.message)
the MCP server 'no-such-program': it cannot be started by 'no-such-program'...
"""

from __future__ import annotations

from typing import Any, TextIO, final

import msgspec

from fxai.cli.background import Background
from fxai.cli.call import call_one
from fxai.cli.chat_view import ChatScreen
from fxai.cli.exit import errors_only
from fxai.cli.form import fill_form
from fxai.cli.line_input import open_input
from fxai.cli.mcp_target import ServerOptions, find_server
from fxai.cli.program import value_of
from fxai.cli.spinner import Spinner
from fxai.cli.target_tools import TargetTools, server_tools
from fxai.cli.tool_view import overview_data, show_overview
from fxai.effects import fx
from fxai.effects.effect import EffectOf, Gen
from fxai.effects.scope import Scope
from fxai.mcp.client import McpServer
from fxai.mcp.connection import Change, ServerInfo
from fxai.mcp.content import shown_content
from fxai.mcp.definition import Refused
from fxai.mcp.elicitation import ElicitAnswer, Elicitation
from fxai.mcp.failure import McpError
from fxai.schema.data import is_listed
from fxai.schema.display import json_line, one_line
from fxai.tools.tool import AnyTool

__all__ = ["Listing", "call_server", "plain_text", "show_server"]


@final
class Listing(msgspec.Struct, frozen=True):
    """A server with its tools.

    Attributes:
        info: its name, version and capabilities.
        tools: the tools that can be called.
        held_back: tools that changed since they were approved.
        refused: tools that cannot be used, each with the reason.
    """

    info: ServerInfo
    tools: tuple[AnyTool, ...]
    held_back: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all its tools can be called."""
        return not self.held_back and not self.refused

    def to_data(self, target: str) -> dict[str, Any]:
        """The listing as plain JSON data."""
        info = {name: getattr(self.info, name) for name in ("name", "version", "protocol_version", "instructions")}
        return {
            "server": {**info, "capabilities": dict(self.info.capabilities)},
            **overview_data(TargetTools(target, self.tools)),
            "held_back": [msgspec.to_builtins(change) for change in self.held_back],
            "refused": [msgspec.to_builtins(refused) for refused in self.refused],
        }


def show_server(
    target: str,
    out: TextIO,
    err: TextIO,
    *,
    as_json: bool,
    color: bool | None = None,
    wish: ServerOptions = ServerOptions(),  # noqa: B008  # a frozen value
    approve: tuple[str, ...] = (),
    approve_all: bool = False,
) -> bool:
    """Shows a server and its tools; False where a tool is held back, or cannot be offered.

    Raises:
        CliError: it cannot be opened, or a tool is not held back that is to be approved.
    """
    server = find_server(target, wish)
    with Spinner(err, f"opening {server.name}"), errors_only("fxai.mcp"):  # what is held back is said below, once
        listing = value_of(fx.scoped(_list_tools(server, approve, approve_all)))
    if as_json:
        out.write(json_line(listing.to_data(target), enc_hook=str))
    else:
        _show(listing, target, out, color)
    err.writelines(f"fxai: {line}\n" for line in _left_out(listing, pinned=wish.pins is not None))
    return listing.ok


@fx.gen
def _list_tools(server: McpServer, approve: tuple[str, ...], approve_all: bool) -> Gen[Listing, McpError, Scope]:
    connection = yield from server.open()
    if approve:
        yield from connection.approve(*approve)
    elif approve_all and connection.held_back:
        yield from connection.approve()
    bound = yield from connection.now
    return Listing(connection.info, bound.toolkit.as_tuple, connection.held_back, connection.refused)


def _show(listing: Listing, target: str, out: TextIO, color: bool | None) -> None:
    from fxai.cli.screen import console

    screen, info = console(out, color), listing.info
    screen.print(one_line(f"{info.name or target} {info.version}"), style="bold", end="")
    screen.print(f"  MCP {one_line(info.protocol_version)}, {len(listing.tools)} tools", style="dim")
    if info.instructions:
        screen.print(f"  {one_line(info.instructions, 240)}")
    screen.print("")
    show_overview(TargetTools(target, listing.tools), out, color=color)


def _left_out(listing: Listing, *, pinned: bool) -> list[str]:
    lines = [f"the tool {one_line(each.name)} cannot be offered: {one_line(each.reason)}" for each in listing.refused]
    for change in listing.held_back:
        what = "is new" if change.parts == ("new",) else f"is not as it was approved: {', '.join(change.parts)}"
        remedy = f"; look at it, then say --approve {one_line(change.name)}" if pinned else ""
        lines.append(f"the tool {one_line(change.name)} is held back, it {what}{remedy}")
    return lines


def plain_text(result: Any) -> str | None:
    """The text of a result that consists of text alone; else None."""
    shown = shown_content(result)
    if shown is result:
        return None
    parts = shown if is_listed(shown) else [{"type": "text", "text": shown}]
    return "\n".join(part["text"] for part in parts) if all(part["type"] == "text" for part in parts) else None


def call_server(
    server: str, tool: str, out: TextIO, err: TextIO, *, params: str | None, as_json: bool, wish: ServerOptions
) -> bool:
    """Calls a tool of a server once, and shows the result.

    Raises:
        CliError: the server cannot be opened, the parameters cannot be read, or the call failed.
    """
    lines, waiting = open_input(out, err), Spinner(err, f"calling {tool}")

    def answer(asked: Elicitation) -> ElicitAnswer:
        waiting.end()
        ChatScreen(err).show_question(asked)
        return fill_form(asked, lines)

    with Background() as background:

        def ask(asked: Elicitation) -> EffectOf[ElicitAnswer]:
            return background.here(lambda: answer(asked))

        if lines.by_person and err.isatty():  # else the question would be seen by nobody
            wish = msgspec.structs.replace(wish, elicit=ask)
        return call_one(
            lambda: server_tools(server, wish),
            tool,
            out,
            err,
            params=params,
            as_json=as_json,
            plain=plain_text,
            waiting=waiting,
            run=background.value_of,
        )
