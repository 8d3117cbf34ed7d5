"""Wrong uses of MCP servers: each marked line is refused by both checkers."""

from __future__ import annotations

from fxai import ToolSource, mcp
from fxai.agents import Agent
from fxai.effects import Effect, fx
from fxai.mcp import Connection

server = mcp.stdio("uvx", "mcp-server-git")

mcp.stdio()  # wrong: no command
mcp.stdio("uvx", timeuot=3.0)  # wrong: no such option
mcp.stdio("uvx", pins="pins.json")  # wrong: pins are a value of their own
mcp.http("https://example.org", token=17)  # wrong: a token is a string or a secret
fx.run(server.open())  # wrong: nothing closes it
never_fails: Effect[int] = ToolSource.of(server).use(lambda kit: fx.succeed(len(kit)))  # wrong: opening may fail
fx.run(Agent.make("reader").with_tools(server).execute("Go."))  # wrong: no model
unopened: Connection = server.open()  # wrong: an effect, not a connection
