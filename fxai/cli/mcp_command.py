"""The commands `fxai mcp`. Use them to inspect an MCP server, call one of its tools, or serve your own tools.

>>> sorted(mcp.commands)
['call', 'serve', 'tools']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TextIO

import click
from typing_extensions import TypeVar

from fxai.cli import option
from fxai.cli.exit import run_command

_F = TypeVar("_F", bound=Callable[..., Any])

_SERVER: Final = """\b
SERVER is a URL, or a command that fxai starts without a shell:
  "uvx mcp-server-time"          http://127.0.0.1:8000/mcp
  time="uvx mcp-server-time"     the same server, with the prefix time_ for its tools
"""
_MORE_TOOLS: Final = f"""{_SERVER}
\b
Examples:
  fxai mcp tools "uvx mcp-server-time"
  fxai mcp tools --json "uvx mcp-server-git" | jq '.tools[].name'
  fxai mcp tools "uvx mcp-server-git" --pins pins.json
  fxai mcp tools "uvx mcp-server-git" --pins pins.json --approve git_log

With --pins, FILE records the tools as fxai first saw them. A tool that changed, or that the server added later, is
blocked here, in fxai chat and in fxai run, until you approve it.

Exit codes: 0 shown, 1 the server could not open, or fxai blocks or rejects a tool, 2 wrong use.
"""
_MORE_CALL: Final = f"""{_SERVER}
\b
Examples:
  fxai mcp call "uvx mcp-server-time" get_current_time '{{"timezone": "Europe/Oslo"}}'
  fxai mcp call http://127.0.0.1:8000/mcp add @parameters.json --token-env TOKEN

The result goes to stdout: text as text, other content as JSON. With --json, the whole result is JSON. Progress goes to
stderr.

Exit codes: 0 the call succeeded, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""
_MORE_SERVE: Final = """\b
Examples:
  fxai mcp serve app.py:kit --layer app.py:live
  fxai mcp serve app.py:tools --http 127.0.0.1:8000
  TOKEN=… fxai mcp serve app.py:tools --http 0.0.0.0:8000 --token-env TOKEN --allow-host tools.example.org

TARGET is a toolkit with its layer, a function tool, the tools of an object, an agent, or a tool source. Without --http,
the server ends when the client closes stdin. The output of handlers goes to stderr.

Exit codes: 0 the client closed stdin, 1 the server could not start, 2 wrong use, 130 and 143 stopped by a signal.
"""

_token_env: Final = click.option("--token-env", metavar="NAME", help="Environment variable with the bearer token.")
_server: Final = click.argument("server", metavar="SERVER")


def _server_options(command: _F) -> _F:
    """Add the options for a connection to a server."""
    for option_of_server in (option.timeout, _token_env, option.env, option.pins):
        command = option_of_server(command)
    return command


@click.group("mcp", cls=option.Group, **option.GROUP)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Inspect an MCP server, call a tool, or serve tools with MCP."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@mcp.command(epilog=_MORE_TOOLS)
@_server
@_server_options
@click.option("--approve", metavar="TOOL", multiple=True, help="Blocked tool to approve in its present form.")
@click.option("--approve-all", is_flag=True, help="Approve all blocked tools.")
@option.as_json
@option.color
@option.debug
def tools(server: str, as_json: bool, debug: bool, color: bool | None, **chosen: Any) -> None:
    """Show the information and the tools of SERVER."""
    approving = {name: chosen.pop(name) for name in ("approve", "approve_all")}
    if chosen["pins"] is None and any(approving.values()):
        raise click.UsageError("--approve requires --pins FILE, which stores the approval.")

    def work(out: TextIO, err: TextIO) -> bool:
        from fxai.cli.mcp_target import ServerFlags, require_mcp

        require_mcp()
        from fxai.cli.mcp_servers import show_server

        return show_server(server, out, err, as_json=as_json, color=color, wish=ServerFlags(**chosen), **approving)

    run_command(work, as_json=as_json, debug=debug)


@mcp.command(epilog=_MORE_CALL)
@_server
@click.argument("tool")
@click.argument("params", required=False, metavar="[JSON | @file | -]")
@_server_options
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: progress, then the result.")
@option.debug
def call(server: str, tool: str, as_json: bool, debug: bool, params: str | None, **chosen: Any) -> None:
    """Call one TOOL of SERVER with arguments in JSON. Show the result as text or JSON. Default arguments: {}.

    The command calls the tool without approval, even if the tool changes data. If the server asks a question, such as
    the approval of a call, answer it in the terminal. Without a terminal, the command declines the question.
    """

    def work(out: TextIO, err: TextIO) -> bool:
        from fxai.cli.mcp_target import ServerFlags, require_mcp

        require_mcp()
        from fxai.cli.mcp_servers import call_server

        return call_server(server, tool, out, err, params=params, as_json=as_json, wish=ServerFlags(**chosen))

    run_command(work, as_json=as_json, debug=debug, closing={"type": "result"})


@mcp.command(epilog=_MORE_SERVE)
@option.target
@option.layer
@click.option("--name", metavar="NAME", help="Name of the server. Default: the name in TARGET.")
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Listen on this address, not on stdin; 0 is a free port."
)
@_token_env
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Host name that clients may use.")
@click.option("--allow-origin", "origins", metavar="URL", multiple=True, help="Origin of a web page that may use it.")
@option.debug
def serve(target: str, layer: str | None, name: str | None, address: str | None, debug: bool, **http: Any) -> None:
    """Serve the tools of TARGET to MCP clients, on stdin and stdout, or over HTTP."""
    if address is None and any(http.values()):
        raise click.UsageError("--token-env, --allow-host, and --allow-origin require --http.")

    def work(_: TextIO, err: TextIO) -> bool:
        from fxai.cli.mcp_servers import HttpFlags, serve

        wish = None if address is None else HttpFlags(address=address, **http)
        return serve(target, err, layer=layer, name=name, http=wish)

    run_command(work, as_json=False, debug=debug)
