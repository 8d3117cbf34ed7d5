"""Bounds on schemas: what is too large, however small it is written."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fxai.mcp import McpLimits
from fxai.mcp.schema_size import schema_excess

LIMITS = McpLimits()


def _doubled(levels: int, keyword: str = "$ref") -> dict[str, Any]:
    steps = {
        f"l{n}": {"anyOf": [{keyword: f"#/$defs/l{n + 1}"}, {keyword: f"#/$defs/l{n + 1}"}]} for n in range(levels)
    }
    return {"$defs": {**steps, f"l{levels}": {"type": "string"}}, "$ref": "#/$defs/l0"}


def test_ordinary_schemas_are_within_bounds() -> None:
    """Objects, unions, references and recursion as real tools have them are no excess."""
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(300)}}

    assert [schema_excess(one, LIMITS) for one in ({}, tree, wide, _doubled(8))] == [None] * 4


@pytest.mark.parametrize("levels", [20, 60, 2_000])
def test_references_that_double_are_too_many_places(levels: int) -> None:
    """A schema that doubles at each level is refused without being walked, whatever its depth."""
    begun = time.process_time()
    excess = schema_excess(_doubled(levels), LIMITS)

    assert excess is not None
    assert "references" in excess
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "document",
    [
        {"$defs": {"a": {"$anchor": "a", "anyOf": [{"type": "null"}] * 200}}, "allOf": [{"$ref": "#a"}] * 200},
        {"$defs": {"a": {"$id": "a.json", "anyOf": [{"type": "null"}] * 200}}, "allOf": [{"$ref": "a.json"}] * 200},
        {"$defs": {"a b": {"anyOf": [{"type": "null"}] * 200}}, "allOf": [{"$ref": "#/$defs/a%20b"}] * 200},
    ],
)
def test_references_are_followed_however_they_are_written(document: dict[str, Any]) -> None:
    """Anchors, names of embedded resources and escaped pointers count as what they lead to."""
    assert schema_excess(document, LIMITS) == "it has more than 20000 places when its references are followed"


def test_size_and_depth_are_bounded() -> None:
    """A document of too many bytes, or nested too deep, is refused; the message says the bound."""
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}

    assert schema_excess({"description": "x" * 600_000}, LIMITS) == "it has 600018 bytes, more than 524288"
    assert schema_excess(deep, LIMITS) == "it is more than 64 levels deep"
    assert schema_excess(deep, McpLimits(schema_depth=200)) is None
