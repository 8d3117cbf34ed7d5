"""Wrong uses of tools as an MCP server: each marked line is refused by both checkers."""

from __future__ import annotations

from fxai import BoundToolkit, mcp, tool
from fxai.effects import Effect, Tag, fx
from fxai.mcp import ToolServer
from fxai.tools import Tool


class Stock(Tag[int]):
    pass


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def look() -> Effect[int, str, Stock]:
    """Looks."""
    return fx.service(Stock)


bare = Tool.make("bare")

fx.run(mcp.serve_stdio(look))  # wrong: nothing gives what its handler needs
fx.run(mcp.serve_stdio(BoundToolkit.make(add, look)))  # wrong: nothing gives what one handler needs
mcp.serve_stdio(bare)  # wrong: a tool without a handler
mcp.serve_stdio(add, port=8000)  # wrong: standard input has no port
mcp.serve_http(add, prot=8000)  # wrong: no such option
mcp.serve_http(add, token=17)  # wrong: a token is a string or a secret
fx.run(ToolServer.open(add))  # wrong: nothing closes it
fx.run(mcp.http_app(add))  # wrong: nothing closes it
