"""What the checkers infer of tools as an MCP server: it fails as opening fails, and needs what the handlers need."""

from __future__ import annotations

from fxai import BoundToolkit, mcp, tool
from fxai.effects import Effect, Layer, Scope, Tag, fx
from fxai.mcp import CannotListen, McpError, ToolServer
from fxai.mcp.server.server_transport import HttpApp


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


stock = Layer.succeed(Stock, 3)

# what handlers need is needed

plain: Effect[None] = mcp.serve_stdio(add, name="adder", version="1")
needy: Effect[None, object, Stock] = mcp.serve_stdio(BoundToolkit.make(add, look))
fx.run(plain)
fx.run(needy.provide(stock))

# what can go wrong

listening: Effect[None, CannotListen] = mcp.serve_http(add, port=8000, token="t", on_listening=print)
proxied: Effect[None, McpError] = mcp.serve_stdio(mcp.stdio("uvx", "mcp-server-git"))

# a server that changes

opened: Effect[ToolServer, object, Scope] = ToolServer.open(add, concurrency=4)
app: Effect[HttpApp, object, Scope] = mcp.http_app(add, max_sessions=10)


def changed(server: ToolServer) -> Effect[None, object, Stock]:
    return server.replace(BoundToolkit.make(look))


replaced: Effect[None, object, Stock] = fx.scoped(opened.flat_map(changed))
