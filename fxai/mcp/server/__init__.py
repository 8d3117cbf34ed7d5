"""MCP servers of our tools.

The tools come from any source of tools: a function tool, a toolkit with its layer, a source.

>>> from fxai.tools.tool import tool
>>> @tool
... def add(a: int, b: int) -> int:
...     '''Adds two numbers.'''
...     return a + b
>>> program = serve_stdio(add, name="calculator")
"""

from __future__ import annotations

from fxai.mcp.server.options import CannotListen, Defect, HttpOptions, HttpServerOptions, ServerOptions
from fxai.mcp.server.tool_server import ToolServer, http_app, serve_http, serve_stdio

__all__ = [
    "CannotListen",
    "Defect",
    "HttpOptions",
    "HttpServerOptions",
    "ServerOptions",
    "ToolServer",
    "http_app",
    "serve_http",
    "serve_stdio",
]
