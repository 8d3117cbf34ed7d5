"""Definitions: what a server says of a tool, and the tool that is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxai import Destructive, Idempotent, Meta, OpenWorld, Readonly, SchemaError, Title, Tool
from fxai.annotations import OutputSchema
from fxai.mcp import McpLimits, ToolDefinition
from fxai.mcp.settings import ServerProgram, ServerSettings
from fxai.mcp.tool_definition import McpTool
from fxai.schema import JsonSchema
from fxai.schema.budget import deeper_than
from tests.kit.every import every

SETTINGS = ServerSettings(ServerProgram("uvx"), "s")
LISTS = sorted((Path(__file__).parents[2] / "integration" / "mcp_schemas").glob("*.json"))
HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def _made(**said: Any) -> Tool[Any, Any, Any]:
    return McpTool.make(ToolDefinition("search", **said), "s#1", SETTINGS).tool


def test_hints_title_and_meta_are_annotations() -> None:
    """Each hint is the annotation of its meaning; `_meta` is `Meta`; the output schema is told to programs."""
    tool = _made(annotations={**HINTS, "title": "Find"}, meta={"a/b": [1]}, output_schema={"type": "object"})

    assert [tool.get(key) for key in (Readonly, Destructive, Idempotent, OpenWorld)] == [True, False, True, False]
    meta = tool.get(Meta)
    assert (tool.get(Title), dict(meta)) == ("Find", {"a/b": [1]})
    output = tool.get(OutputSchema)
    assert output is not None
    assert output.to_dict() == {"type": "object"}


def test_what_is_not_said_has_the_default_of_its_annotation() -> None:
    """Without hints a tool is taken to be destructive and open to the world; a hint that is no boolean says nothing."""
    tool = _made(annotations={"readOnlyHint": "yes"})

    assert [tool.get(key) for key in (Readonly, Destructive, Idempotent, OpenWorld)] == [False, True, False, True]
    assert len(tool.annotations) == 0


def test_a_tools_own_title_comes_first() -> None:
    """The tool's title wins over the one among its annotations."""
    assert _made(own_title="Own", annotations={"title": "Other"}).get(Title) == "Own"


def test_the_tool_is_the_servers_under_whatever_name() -> None:
    """The identity of a tool holds its server; a prefix changes its name alone."""
    definition = ToolDefinition("search")
    plain = McpTool.make(definition, "s#1", SETTINGS).tool
    prefixed = McpTool.make(definition, "s#1", ServerSettings(ServerProgram("uvx"), "s", prefix="x_")).tool
    other = McpTool.make(definition, "t#2", SETTINGS).tool

    assert (plain.name, prefixed.name, plain.identity.name) == ("search", "x_search", "s#1/search")
    assert plain.identity == prefixed.identity != other.identity


def test_nobody_can_change_what_was_said() -> None:
    """The JSON of a definition is a copy that refuses changes, all the way down."""
    said = {"properties": {"q": {"type": "string"}}}
    definition = ToolDefinition("search", input_schema=said)
    said["properties"]["q"]["type"] = "integer"
    held: Any = definition.input_schema

    assert held == {"properties": {"q": {"type": "string"}}}
    with pytest.raises(TypeError, match="cannot change immutable data"):
        held["properties"]["q"]["type"] = "number"


@every("part", ["title", "description", "inputSchema", "outputSchema", "annotations"])
def test_each_part_has_a_digest_of_its_own(part: str) -> None:
    """A change of one part changes its digest alone; the order of members does not matter."""
    before = ToolDefinition("search", "t", "d", {"a": 1, "b": 2}, {"c": 3}, {"title": "x"})
    changed = {
        "title": ToolDefinition("search", "T", "d", {"a": 1, "b": 2}, {"c": 3}, {"title": "x"}),
        "description": ToolDefinition("search", "t", "D", {"a": 1, "b": 2}, {"c": 3}, {"title": "x"}),
        "inputSchema": ToolDefinition("search", "t", "d", {"a": 1, "b": 3}, {"c": 3}, {"title": "x"}),
        "outputSchema": ToolDefinition("search", "t", "d", {"a": 1, "b": 2}, None, {"title": "x"}),
        "annotations": ToolDefinition("search", "t", "d", {"a": 1, "b": 2}, {"c": 3}, {"title": "y"}),
    }[part]
    turned = ToolDefinition("search", "t", "d", {"b": 2, "a": 1}, {"c": 3}, {"title": "x"})

    assert [name for name, digest in before.digests().items() if changed.digests()[name] != digest] == [part]
    assert turned.digests() == before.digests()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"description": "x" * 11}, "the description has more than 10 characters"),
        ({"input_schema": {"type": "strin"}}, "inputSchema: unusable JSON Schema: /type"),
        ({"output_schema": {"$ref": "http://x.org"}}, "outputSchema: unusable JSON Schema"),
        ({"input_schema": {"description": "y" * 100}}, "inputSchema is too large: 118 bytes, more than 100"),
    ],
)
def test_what_cannot_be_offered_says_why(said: dict[str, Any], reason: str) -> None:
    """A definition that is too large, or whose schema is none, is an error that names the part and the reason."""
    settings = ServerSettings(ServerProgram("uvx"), "s", limits=McpLimits(description=10, schema_bytes=100))

    with pytest.raises(SchemaError) as raised:
        McpTool.make(ToolDefinition("search", **said), "s#1", settings)

    assert str(raised.value).startswith(reason)


def test_as_much_as_is_allowed_can_be_offered() -> None:
    """A description and schemas of exactly the largest size and depth are offered; one more of each is not."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    size = len(JsonSchema.of(schema).to_json())
    depth = next(levels for levels in range(10) if not deeper_than(schema, levels))

    def make(description: int = 3, bytes_: int = size, levels: int = depth) -> str:
        limits = McpLimits(description=description, schema_bytes=bytes_, schema_depth=levels)
        definition = ToolDefinition("search", None, "abc", schema, schema)
        return McpTool.make(definition, "s#1", ServerSettings(ServerProgram("uvx"), "s", limits=limits)).tool.name

    assert make() == "search"
    with pytest.raises(SchemaError, match="description has more than 2 characters"):
        make(description=2)
    with pytest.raises(SchemaError, match=f"inputSchema is too large: {size} bytes, more than {size - 1}"):
        make(bytes_=size - 1)
    with pytest.raises(SchemaError, match=f"inputSchema is too large: more than {depth - 1} levels deep"):
        make(levels=depth - 1)


def test_definitions_can_be_counted() -> None:
    """Equal ones are one member of a set, whatever JSON they hold; another schema is another one."""
    one = ToolDefinition("search", input_schema={"properties": {"q": {}}})

    assert len({one, ToolDefinition("search", input_schema={"properties": {"q": {}}}), ToolDefinition("search")}) == 2


@every("path", LISTS, ids=lambda path: path.stem)
def test_the_tools_of_real_servers_are_offered_as_they_are(path: Path) -> None:
    """Every tool of the given listings is within the limits, and keeps its schema to the letter."""
    listed: list[Any] = json.loads(path.read_text(encoding="utf-8"))["tools"]

    assert listed
    for said in listed:
        definition = ToolDefinition(said["name"], None, said.get("description"), said["inputSchema"])
        assert McpTool.make(definition, "s#1", SETTINGS).tool.json_schema() == said["inputSchema"]
