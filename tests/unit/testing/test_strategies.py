"""Strategies: what is drawn, keyword by keyword, and how it shrinks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from fxai import Tool
from fxai.schema import JsonSchema
from fxai.testing.strategies import instances, invalid_parameters, json_schemas, not_instances, register_format

FEW = settings(max_examples=15, database=None)

HARD: dict[str, dict[str, Any]] = {
    "recursion": {
        "$ref": "#/$defs/N",
        "$defs": {
            "N": {"required": ["next"], "properties": {"next": {"$ref": "#/$defs/M"}}},
            "M": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
        },
    },
    "bounds that meet": {"type": "number", "exclusiveMinimum": 0, "allOf": [{"maximum": 0.5}, {"multipleOf": 0.25}]},
    "a long pattern": {"type": "string", "pattern": "^[a-z_]+$", "minLength": 30, "maxLength": 32},
    "two patterns": {"allOf": [{"type": "string", "pattern": "^[a-z]"}, {"pattern": "[0-9]$"}]},
    "names by pattern": {
        "type": "object",
        "patternProperties": {"^x-": {"type": "integer"}},
        "minProperties": 2,
        "additionalProperties": False,
    },
    "dependents": {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"b": {"required": ["c"], "properties": {"c": {"const": 1}}}},
        "required": ["a"],
    },
    "a condition": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "else": {"required": ["y"]},
    },
    "exactly one": {"oneOf": [{"multipleOf": 3, "type": "integer"}, {"multipleOf": 5, "type": "integer"}]},
    "distinct items": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    "contained": {"type": "array", "contains": {"const": 7}, "minContains": 2, "maxItems": 3},
    "what is left": {
        "allOf": [{"properties": {"a": {"type": "null"}}}],
        "unevaluatedProperties": False,
        "type": "object",
    },
    "named by schema": {"type": "object", "propertyNames": {"pattern": "^[A-Z]{2}$"}, "minProperties": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("document", HARD.values(), ids=HARD)
def test_hard_schemas_have_instances_and_near_misses(document: dict[str, Any]) -> None:
    """Without Hypothesis complaining that too much is thrown away."""
    made = JsonSchema.of(document)
    seen: list[Any] = []

    @given(instances(document), not_instances(document))
    @settings(FEW)
    def held(good: Any, bad: Any) -> None:
        assert made.validate(good) == ()
        assert made.validate(bad) != ()
        seen.append(good)

    held()

    assert seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "smallest"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}, None),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"enum": ["first", "second"]}, "first"),
    ],
)
def test_instances_shrink_to_what_is_simple(document: dict[str, Any], smallest: Any) -> None:
    """To as little as the schema allows."""
    assert find(instances(document), lambda _: True, settings=FEW) == smallest


@pytest.mark.slow
def test_undeclared_properties_can_be_left_away() -> None:
    """Those that the schema describes stay: named ones, and the values of a map."""
    document: dict[str, Any] = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    mapping = {"type": "object", "additionalProperties": {"type": "integer"}}

    @given(instances(document, undeclared=False))
    @FEW
    def held(value: dict[str, Any]) -> None:
        assert set(value) <= {"a"}

    held()

    assert find(instances(document), lambda value: len(value) > 1, settings=FEW)
    assert find(instances(mapping, undeclared=False), lambda value: len(value) > 1, settings=FEW)


def test_formats_of_ones_own_are_drawn() -> None:
    """For once, or from then on."""
    document = {"type": "string", "format": "made-up-here"}
    once = {"made-up-here": st.just("once")}

    assert find(instances(document, formats=once), lambda _: True, settings=FEW) == "once"
    register_format("made-up-here", st.just("always"))
    assert find(instances(document), lambda _: True, settings=FEW) == "always"


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        not_instances({}),
        not_instances(True),
        invalid_parameters(Tool.dynamic("t", parameters={"type": "object"}, validation="none")),
        instances({"not": {}}),
        instances(False),
        instances({"type": "array", "contains": {}, "minContains": 10**15}),
    ],
    ids=["anything", "true", "unchecked", "not anything", "false", "too many items"],
)
def test_what_is_not_there_is_not_drawn(strategy: st.SearchStrategy[Any]) -> None:
    """Near misses of what takes everything, instances of what takes nothing."""

    @given(strategy)
    @settings(FEW, phases=(Phase.generate,), suppress_health_check=[HealthCheck.filter_too_much])
    def drawn(value: Any) -> None: ...

    with pytest.raises(Unsatisfiable):
        drawn()


@pytest.mark.slow
def test_documents_hold_every_kind_of_keyword() -> None:
    """In the words of their draft."""
    seen: set[str] = set()

    @given(json_schemas())
    @settings(max_examples=600, database=None, derandomize=True, phases=(Phase.generate,))
    def look(document: dict[str, Any]) -> None:
        seen.update(re.findall(r'"(\$?\w+)":', json.dumps(document)))

    look()

    assert {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "patternProperties", "prefixItems", "const"} <= seen
    assert {"enum", "items", "required", "minLength", "pattern", "format", "unevaluatedProperties", "if"} <= seen
