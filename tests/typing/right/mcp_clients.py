"""What the checkers infer of MCP servers as sources of tools: they may fail to open, and need nothing."""

from __future__ import annotations

from typing import assert_type

from fxai import BoundToolkit, ToolSource, mcp
from fxai.agents import Agent
from fxai.effects import Effect, EffectOf, Gen, Scope, Stream, fx
from fxai.mcp import Connection, McpError, McpHandler, McpServer
from fxai.testing import ScriptedModel
from fxai.tools import Outcome, ToolError, Toolkit

server = mcp.stdio("uvx", "mcp-server-git", env={"A": "b"}, timeout=5.0).prefix("git_").only("git_log").without("x")
remote = mcp.http("https://example.org/mcp", token="t", call_timeout=None)
assert_type(server, McpServer)

# opening

opened: Effect[Connection, McpError, Scope] = server.open()


def look() -> Gen[int, McpError, Scope]:
    connection = yield from server.open()
    assert_type(connection, Connection)
    assert_type(connection.bound, BoundToolkit[McpHandler])
    yield from connection.approve("git_log")
    bound = yield from connection.now
    return len(bound.toolkit)


looked: Effect[int, McpError] = fx.scoped(fx.gen(look)())

# as a source

source = ToolSource.of(server)
assert_type(source, ToolSource[McpHandler, McpError, None])


def called(kit: Toolkit[McpHandler]) -> EffectOf[Outcome, ToolError, McpHandler | None]:
    return kit.call("git_log", {})


outcome: Effect[Outcome, McpError | ToolError] = source.use(called)
outcomes: Stream[Outcome, McpError | ToolError] = source.use_stream(lambda kit: kit.handle("git_log", {}))
both: ToolSource[McpHandler, McpError, None] = source.merge(ToolSource.of(remote))

# in an agent

model = ScriptedModel.make([])
answered = Agent.make("reader").with_tools(server, remote).execute("Go.").provide(model.layer)
fx.run(answered)
