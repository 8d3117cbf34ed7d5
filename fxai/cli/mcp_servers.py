"""The work of the commands `fxai mcp`. Use it to show a server, call one of its tools, or serve your own tools.

During a call, the server can ask the user questions in a terminal. Without a terminal, fxai declines the questions and
the calls that need an approval.

>>> plain_text({"content": [{"type": "text", "text": "3"}]}), plain_text({"sum": 3})
('3', None)
>>> host_and_port("8000"), host_and_port("[::1]:80"), host_and_port("localhost:0")
(('127.0.0.1', 8000), ('::1', 80), ('localhost', 0))
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import Any, Final, TextIO

import msgspec

from fxai.cli.call_command import call_one
from fxai.cli.chat_command import ChatScreen
from fxai.cli.exit import errors_only, wrong_use
from fxai.cli.input import fill_form, open_input
from fxai.cli.inspect import overview_data, show_overview
from fxai.cli.run_program import BackgroundRunner, require_handlers, value_of
from fxai.cli.screen import Spinner, console
from fxai.cli.setting import build_handlers
from fxai.cli.target import TargetTools, find_server, find_tools, read_secret, require_guard, server_tools, with_layer
from fxai.effects import ContextOf, EffectOf, Gen, Layer, Scope, fx
from fxai.mcp import ElicitAnswer, Elicitation, McpError
from fxai.mcp.connection import Connection
from fxai.mcp.result import shown_content
from fxai.schema.data import is_listed
from fxai.schema.display import json_line, one_line
from fxai.tools import AnyTool, BoundToolkit, Toolkit, ToolSource
from fxai.tools.toolkit import AnyBound

_LOCATION: Final = re.compile(r"(?:(\[[^\]]+\]|[^:]*):)?(\d{1,5})")


def host_and_port(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`. The default host is 127.0.0.1."""
    found = _LOCATION.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise wrong_use(f"--http must be [HOST:]PORT, got {text!r}", "Pass, for example, 127.0.0.1:80.")
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


def serve(
    err: TextIO,
    *,
    target: str,
    layer: str | None,
    name: str | None,
    address: str | None,
    token_env: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
) -> bool:
    """Serve the tools of a target until the client closes stdin, or, over HTTP, until a signal stops the server."""
    from fxai.mcp import serve_http, serve_stdio

    offer = with_layer(find_tools(target), layer)
    if offer.prompt is not None:
        problem = f"{target} is a stateful prompt, and its tools change at each step of a run"
        raise wrong_use(problem, "Serve it as one tool with agent.as_tool(), or name a toolkit.")
    source = _source(offer)
    called = name or target.rpartition(":")[2]
    if address is None:
        if sys.stdin is not None and sys.stdin.isatty():
            err.write("fxai: MCP server on stdin and stdout. Let an MCP client start it. Press Ctrl-D to stop.\n")
        value_of(serve_stdio(source, name=called))
        return True
    host, port = host_and_port(address)
    require_guard("--http", host, token_env, hosts, "call the tools")
    options: dict[str, Any] = {} if token_env is None else {"token": read_secret(token_env)}
    options |= {"allowed_hosts": hosts} if hosts else {}
    options |= {"allowed_origins": origins} if origins else {}
    options |= {"name": called, "host": host, "port": port}
    try:
        serving: EffectOf[None, Any, Any] = serve_http(
            source, on_listening=lambda url: err.write(f"fxai: listening on {url}\n"), **options
        )
    except ValueError as error:
        raise wrong_use(str(error), "Correct the option.") from None
    value_of(serving)
    return True


def _source(offer: TargetTools) -> ToolSource[Any, Any, Any]:
    """Return the tools with their handlers, built once. It fails before the server starts if a handler is missing."""
    bound: EffectOf[AnyBound, Any, Any]
    if offer.source is not None:
        layers = () if offer.layer is None else ((offer.layer, offer.layer),)
        more = BoundToolkit[Any, Any, Any](Toolkit.empty(), layers)
        bound = offer.source.map(lambda there: there.merge(more))
    elif not offer.tools:
        raise wrong_use(f"{offer.target} has no tools", "Name a target with tools.")
    else:
        require_handlers(() if offer.layer else offer.tools, ContextOf({}), offer.target)
        bound = fx.succeed(BoundToolkit.of(offer.toolkit, offer.layer or Layer.empty()))
    return ToolSource(bound.flat_map(lambda there: build_handlers(there, ContextOf({}), offer.target)))


def show_server(
    out: TextIO,
    err: TextIO,
    *,
    server: str,
    as_json: bool,
    color: bool | None,
    approve: tuple[str, ...],
    approve_all: bool,
    **flags: Any,
) -> bool:
    """Show a server and its tools. Return False if fxai blocks a tool or cannot offer it.

    `flags` are the options of `find_server`.
    """
    found = find_server(server, **flags)

    @fx.gen
    def open_server() -> Gen[tuple[Connection, tuple[AnyTool, ...]], McpError, Scope]:
        connection = yield from found.open()
        if approve:
            yield from connection.approve(*approve)
        elif approve_all and connection.held_back:
            yield from connection.approve()
        return connection, (yield from connection.now).toolkit.as_tuple

    with Spinner(err, f"opening {found.name}"), errors_only("fxai.mcp"):  # `_left_out` reports the blocked tools
        connection, tools = value_of(fx.scoped(open_server()))
    info, offer = connection.info, TargetTools(server, tools)
    if as_json:
        about = {name: getattr(info, name) for name in ("name", "version", "protocol_version", "instructions")}
        data = {"server": {**about, "capabilities": dict(info.capabilities)}, **overview_data(offer)}
        blocked = msgspec.to_builtins({"held_back": connection.held_back, "refused": connection.refused})
        out.write(json_line({**data, **blocked}, enc_hook=str))
    else:
        screen = console(out, color)
        screen.print(one_line(f"{info.name or server} {info.version}"), style="bold", end="")
        screen.print(f"  MCP {one_line(info.protocol_version)}, {len(tools)} tools", style="dim")
        if info.instructions:
            screen.print(f"  {one_line(info.instructions, 240)}")
        screen.print("")
        show_overview(offer, out, color=color)
    err.writelines(f"fxai: {line}\n" for line in _left_out(connection, pinned=flags["pins"] is not None))
    return not connection.held_back and not connection.refused


def _left_out(connection: Connection, *, pinned: bool) -> list[str]:
    lines = [f"cannot offer tool {one_line(each.name)}: {one_line(each.reason)}" for each in connection.refused]
    for change in connection.held_back:
        what = "is new" if "new" in change.parts else f"changed since its approval: {', '.join(change.parts)}"
        what += ", and its name resembles the name of another tool" if "name" in change.parts else ""
        remedy = f". Look at it, then pass --approve {one_line(change.name)}" if pinned else ""
        lines.append(f"tool {one_line(change.name)} is blocked: it {what}{remedy}")
    return lines


def plain_text(result: Any) -> str | None:
    """Return the text of a result that contains only text, or None for another result."""
    shown = shown_content(result)
    if shown is result:
        return None
    parts = shown if is_listed(shown) else [{"type": "text", "text": shown}]
    return "\n".join(part["text"] for part in parts) if all(part["type"] == "text" for part in parts) else None


def call_server(
    out: TextIO, err: TextIO, *, server: str, tool: str, params: str | None, as_json: bool, **flags: Any
) -> bool:
    """Call a tool of a server once and show the result. `flags` are the options of `find_server`."""
    lines, waiting = open_input(out, err), Spinner(err, f"calling {tool}")

    def answer(asked: Elicitation) -> ElicitAnswer:
        waiting.end()
        ChatScreen(err).show_question(asked)
        return fill_form(asked, lines)

    def elicit(asked: Elicitation) -> EffectOf[ElicitAnswer]:
        return background.here(lambda: answer(asked))

    with BackgroundRunner() as background:
        if lines.by_person and err.isatty():  # otherwise no user would see the question
            flags["elicit"] = elicit
        shown: dict[str, Any] = {"as_json": as_json, "plain": plain_text, "waiting": waiting}
        find = partial(server_tools, server, **flags)
        return call_one(out, err, find, tool, params=params, run=background.value_of, **shown)
