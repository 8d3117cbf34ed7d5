"""Traces over MCP: the SDK's own spans stand in ours, and the server's in the client's; none stands twice."""

from __future__ import annotations

import json
import sys
from typing import Any

import mcp
import pytest

from fxai import ToolSource, tool
from fxai import mcp as servers
from fxai.effects import Backend, Effect, fx
from fxai.mcp import ToolServer
from tests.kit.mcp_client import Era, text
from tests.kit.traces import Traces

pytestmark = pytest.mark.slow


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def _called(traces: Traces, backend: Any, era: Era) -> Any:
    """What a client of the SDK gets of our server, in a span of the client's."""

    def connect(server: ToolServer) -> Effect[Any]:
        async def go() -> Any:
            async with mcp.Client(server.sdk, mode=era) as client:
                return await client.call_tool("add", {"a": 1, "b": 2})

        return fx.wait(go).span("client")

    served = fx.scoped(ToolServer.open(add).flat_map(connect)).provide(traces.layer())
    return fx.run(served, backend=backend)


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_call_of_a_tool_has_one_span_on_the_server(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, era: Era
) -> None:
    """The SDK's span of the request is that of the call too: ours is not made beside it, and adds to it."""
    traces = Traces()
    monkeypatch.setattr("mcp.shared._otel._tracer", traces.tracers.get_tracer("mcp-python-sdk"))

    assert text(_called(traces, backend, era)) == "3"

    found = traces.attributes("tools/call add")
    assert (found["gen_ai.tool.name"], found["gen_ai.tool.type"]) == ("add", "function")
    assert not [span for span in traces.spans if span.name.startswith("execute_tool")]


def test_where_the_sdk_has_no_tracer_the_call_has_our_span(backend: Backend) -> None:
    """Under the span of the client, which `_meta` names to the server."""
    traces = Traces()

    assert text(_called(traces, backend, "legacy")) == "3"

    assert traces.tree() == [["client", "execute_tool add"]]


_SERVER = """
import json
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("told")

@server.tool()
async def told(ctx: Context) -> str:
    return json.dumps(dict(ctx.request_context.meta or {}))

server.run("stdio")
"""


@pytest.mark.parametrize("is_sdk_traced", [True, False])
def test_a_server_is_told_of_the_span_in_meta(monkeypatch: pytest.MonkeyPatch, is_sdk_traced: bool) -> None:
    """A program of others reads there the span of the SDK's client inside ours, or ours where there is no such span."""
    traces = Traces()
    if is_sdk_traced:
        monkeypatch.setattr("mcp.shared._otel._tracer", traces.tracers.get_tracer("mcp-python-sdk"))
    server = servers.stdio(sys.executable, "-c", _SERVER)

    outcome = fx.run(ToolSource.of(server).use(lambda kit: kit.call("told", {})).provide(traces.layer()))

    shown: Any = outcome.encoded_result
    meta = json.loads(shown["result"] if "result" in shown else shown["content"][0]["text"])
    called = traces.named("execute_tool told")
    inside = traces.named("MCP send tools/call told") if is_sdk_traced else called
    context: Any = inside.context
    assert meta["traceparent"].split("-")[1:3] == [f"{context.trace_id:032x}", f"{context.span_id:016x}"]
    reached = traces.attributes("execute_tool told")
    assert (reached["mcp.method.name"], reached["network.transport"]) == ("tools/call", "pipe")
    told = [span for span in traces.spans if (span.attributes or {}).get("gen_ai.tool.name") == "told"]
    assert [span.name for span in told] == ["execute_tool told"]  # the SDK's is of the request, and of no tool
    if is_sdk_traced:
        assert ["execute_tool told", "MCP send tools/call told"] in traces.tree()
