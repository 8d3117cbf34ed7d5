"""Servers with many tools: each request with their tools keeps the rules of the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from fxai import Tool, fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection, McpServer
from fxai.models import PreparedTools
from fxai.providers import anthropic, openai
from tests.kit.floor_schema import Wire, tool_breaches
from tests.kit.mcp_programs import used
from tests.kit.node import Missing, installed, node
from tests.kit.tool_requests import large_server

pytestmark = pytest.mark.xdist_group("mcp-servers")

_LOCK = Path(__file__).parent / "large-servers"
_LISTS = sorted((Path(__file__).parents[1] / "mcp_schemas").glob("*.json"))


def _microsoft() -> McpServer:
    script = installed(_LOCK) / "@softeria" / "ms-365-mcp-server" / "dist" / "index.js"
    return mcp.stdio(node(), str(script), "--org-mode", name="ms-365")


def _notion() -> McpServer:
    script = installed(_LOCK) / "@notionhq" / "notion-mcp-server" / "bin" / "cli.mjs"
    return mcp.stdio(node(), str(script), env={"NOTION_TOKEN": "ntn_none"}, name="notion")


def _prepare(tools: Iterable[Any], wire: Wire, strict: bool | None) -> PreparedTools:
    if wire == "messages":
        return anthropic.prepare_tools(tools, model="claude-sonnet-5", strict_json_schema=strict)
    return openai.prepare_tools(tools, model="gpt-5.5", api=wire, strict_json_schema=strict)


WIRES: tuple[Wire, ...] = ("responses", "chat", "messages")
STRICT = pytest.mark.parametrize("strict", [None, False])


@pytest.mark.slow
@STRICT
@pytest.mark.parametrize(("start", "count"), [(_microsoft, 344), (_notion, 24)])
def test_a_request_with_the_tools_of_a_large_server_keeps_the_rules(
    start: Callable[[], McpServer], count: int, strict: bool | None
) -> None:
    """Every tool is in the request, except the tools after the 128th on Chat Completions."""
    try:
        server = start()
    except Missing as missing:
        pytest.skip(str(missing))

    def listed(connection: Connection) -> Generator[EffectOf[Any], Any, Any]:
        yield fx.succeed(None)
        return connection.bound.toolkit, connection.refused

    kit, refused = fx.run(used(server, listed))

    assert (len(kit), refused) == (count, ())
    if start is _microsoft:  # the ranking of tools is measured on a copy of this list
        assert [(one.name, one.description) for one in kit] == [(one.name, one.description) for one in large_server()]
    for wire in WIRES:
        prepared = _prepare(kit, wire, strict)
        assert tool_breaches(prepared.tools, wire) == []
        left_out = count - 128 if wire == "chat" and count > 128 else 0
        assert (len(prepared.tools), len(prepared.left_out)) == (count - left_out, left_out)


@STRICT
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("path", _LISTS, ids=lambda path: path.stem)
def test_a_request_with_the_tools_of_a_server_keeps_the_rules(path: Path, wire: Wire, strict: bool | None) -> None:
    """Every tool of these lists is in the request."""
    listed = json.loads(path.read_text(encoding="utf-8"))["tools"]
    tools = [
        Tool.dynamic(one["name"], description=one.get("description"), parameters=one["inputSchema"]) for one in listed
    ]
    prepared = _prepare(tools, wire, strict)

    assert tool_breaches(prepared.tools, wire) == []
    assert len(prepared.tools) == len(listed)
