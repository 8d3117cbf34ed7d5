"""Level 6. MCP servers as sources of tools, and a server for your own tools. Use it to connect to MCP servers.

fxai opens a server while a program needs its tools. The official SDK comes with the extra `mcp`. fxai imports it when
you open a server.

>>> from fxai import mcp
>>> mcp.stdio("uvx", "mcp-server-time").prefix("clock_")
McpServer('mcp-server-time', 'uvx mcp-server-time', prefix='clock_')
"""

from __future__ import annotations

from fxai.hosting.listening import CannotListen
from fxai.mcp.client import McpServer, http, stdio
from fxai.mcp.connection import Change, Connection, Flaw, McpHandler, ServerInfo
from fxai.mcp.pin import Pins
from fxai.mcp.result import McpCallError, McpError, McpToolError
from fxai.mcp.server.server_options import Defect, HttpOptions, HttpServerOptions, ServerOptions
from fxai.mcp.server.tool_server import ToolServer, http_app, serve_http, serve_stdio
from fxai.mcp.settings import ElicitAnswer, Elicitation, McpLimits
from fxai.mcp.tool_definition import Refused, ToolDefinition

__all__ = [
    "CannotListen",
    "Change",
    "Connection",
    "Defect",
    "ElicitAnswer",
    "Elicitation",
    "Flaw",
    "HttpOptions",
    "HttpServerOptions",
    "McpCallError",
    "McpError",
    "McpHandler",
    "McpLimits",
    "McpServer",
    "McpToolError",
    "Pins",
    "Refused",
    "ServerInfo",
    "ServerOptions",
    "ToolDefinition",
    "ToolServer",
    "http",
    "http_app",
    "serve_http",
    "serve_stdio",
    "stdio",
]
