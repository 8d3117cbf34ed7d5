"""JSON Schema documents as values."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest

from fxai.schema import JsonSchema, SchemaError
from tests.kit.every import every

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Search query"},
        "limit": {"type": "number", "minimum": 1, "maximum": 100},
        "value": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "item": {"$ref": "#/$defs/Item"},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {"Item": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_a_document_is_what_was_given() -> None:
    """`$ref`, `oneOf`, order and all."""
    document = JsonSchema.of(SEARCH)

    assert document.to_dict() == SEARCH
    assert list(document.to_dict()) == list(SEARCH)
    assert JsonSchema.of(True).to_dict() is True
    assert JsonSchema.of(document) is document


def test_nobody_can_change_a_document() -> None:
    """Neither by what it was made of, nor by a copy, nor by its attributes."""
    given: dict[str, Any] = {"required": ["a"], "properties": {"a": {"enum": [1]}}}
    document = JsonSchema.of(given)

    given["required"].append("b")
    document.to_dict()["required"].append("c")
    document.get("properties")["a"]["enum"].append(2)

    assert document.to_dict() == {"required": ["a"], "properties": {"a": {"enum": [1]}}}
    with pytest.raises(AttributeError, match="immutable"):
        document.to_dict = dict  # type: ignore[method-assign]


def test_documents_are_equal_by_what_they_say() -> None:
    """The order of members and the form of a number do not count; `true` is no 1."""
    assert JsonSchema.of({"type": "string", "minLength": 1}) == JsonSchema.of({"minLength": 1.0, "type": "string"})
    assert hash(JsonSchema.of({"a": 1, "b": [2.0]})) == hash(JsonSchema.of({"b": [2], "a": 1.0}))
    assert JsonSchema.of({"const": 1}) != JsonSchema.of({"const": True})
    assert JsonSchema.of({"enum": [1, 2]}) != JsonSchema.of({"enum": [2, 1]})
    assert JsonSchema.of(True) != True  # noqa: E712


def test_a_document_survives_pickle_also_after_use() -> None:
    """Compiled validators stay behind."""
    document = JsonSchema.of(SEARCH)
    document.validate({"query": "x"})

    assert pickle.loads(pickle.dumps(document)) == document


def test_any_mapping_of_json_is_taken() -> None:
    """Tuples count as lists."""
    empty: dict[str, Any] = {}
    ordered: OrderedDict[str, Any] = OrderedDict(a=empty)
    given: Any = MappingProxyType[str, Any]({"type": ("string", "null"), "properties": ordered})

    assert JsonSchema.of(given).to_dict() == {"type": ["string", "null"], "properties": {"a": {}}}


UNUSABLE: list[tuple[Any, str, str]] = [
    ({"default": object()}, "/default", "JSON"),
    ({"maximum": float("nan")}, "/maximum", "finite"),
    ({"enum": [{1, 2}, 1j]}, "/enum/1", "complex"),
    (3, "", "object or a boolean"),
    ([], "", "object or a boolean"),
    ({"type": "strin"}, "/type", "'string'"),
    ({"type": []}, "/type", "array of 0 items"),
    ({"properties": {"a": {"minimum": "1"}}}, "/properties/a/minimum", "number"),
    ({"required": "a"}, "/required", "distinct strings"),
    ({"required": ["a", "a"]}, "/required", "distinct strings"),
    ({"properties": {"a": 3}}, "/properties/a", "JSON Schema"),
    ({"items": [{}]}, "/items", "schema"),
    ({"anyOf": []}, "/anyOf", "schemas"),
    ({"allOf": [{"not": 1}]}, "/allOf/0/not", "schema"),
    ({"minLength": -1}, "/minLength", "at least 0"),
    ({"multipleOf": 0}, "/multipleOf", "above 0"),
    ({"pattern": "(("}, "/pattern", "regular expression"),
    ({"patternProperties": {"[": {}}}, "/patternProperties/[", "regular expression"),
    ({"$schema": "https://example.com/mine"}, "/$schema", "2020-12"),
    ({"properties": {"a": {"$schema": 3}}}, "/properties/a/$schema", "dialect"),
    ({"$ref": "http://example.com/x.json"}, "/$ref", "fetches nothing"),
    ({"$ref": "https://example.com/x.json#/a"}, "/$ref", "fetches nothing"),
    ({"items": {"$ref": "file:///etc/passwd"}}, "/items/$ref", "fetches nothing"),
    ({"$id": "https://example.com/a/b.json", "$ref": "c.json"}, "/$ref", "fetches nothing"),
    ({"$ref": "other.json"}, "/$ref", "an existing schema"),
    ({"$ref": "#/$defs/x"}, "/$ref", "an existing schema"),
    ({"$ref": "#nowhere"}, "/$ref", "an existing schema"),
    ({"$dynamicRef": "#nowhere"}, "/$dynamicRef", "an existing schema"),
    ({"$ref": "#"}, "/$ref", "cycle"),
    ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}, "/$ref", "cycle"),
    ({"$ref": "#/examples/0", "examples": [{"type": 3}]}, "/type", "'string'"),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": True}, "/maximum", "next to"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "if": 3}, "/if", "schema"),
]


@every(("document", "location", "said"), UNUSABLE)
def test_an_unusable_document_is_refused_when_it_is_made(document: Any, location: str, said: str) -> None:
    """The message names the place, and what to do."""
    with pytest.raises(SchemaError) as raised:
        JsonSchema.of(document)

    assert f"{location}: expected" in str(raised.value) or not location
    assert said in str(raised.value)


def test_every_mistake_of_a_document_is_named() -> None:
    """At once, not one by one."""
    with pytest.raises(SchemaError) as raised:
        JsonSchema.of({"type": "x", "properties": {"a": {"pattern": "("}}, "$ref": "#/nowhere"})

    assert all(location in str(raised.value) for location in ("/type: ", "/properties/a/pattern: ", "/$ref: "))


@every(
    "document",
    [
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {
            "$id": "https://example.com/root.json",
            "$defs": {"a": {"$id": "a.json"}},
            "$ref": "https://example.com/a.json",
        },
        {"$id": "urn:example:root", "$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
        {"$defs": {"a/b": {"c%d": {}}}, "$ref": "#/$defs/a~1b/c%25d"},
        {"properties": {"kids": {"items": {"$ref": "#"}}}},
        {"const": {"$ref": "http://example.com/"}, "default": {"type": 3}, "x-mine": {"pattern": "("}},
        {"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://x.org/",
            "items": {"$ref": "#/definitions/a"},
            "definitions": {"a": {"maximum": 3, "exclusiveMaximum": True, "additionalProperties": False}},
        },
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "items": {"$recursiveRef": "#"},
        },
        {"pattern": "^\\p{L}+(?<year>\\d{4})\\k<year>$"},
        {"format": "anything", "contentMediaType": "x/y", "unknown": {"type": 3}},
    ],
    ids=str,
)
def test_a_usable_document_is_taken(document: Any) -> None:
    """Whatever it names inside itself or in the bundled metaschemas; data that looks like keywords is data."""
    assert JsonSchema.of(document).to_dict() == document


def test_a_document_without_end_is_refused() -> None:
    """Nested 10,000 deep, or holding itself."""
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"not": deep}
    ring: dict[str, Any] = {}
    ring["not"] = ring

    for document in (deep, ring):
        with pytest.raises(SchemaError):
            JsonSchema.of(document)


def test_a_keyword_of_the_root_can_be_asked_for() -> None:
    """With a default where nothing stands, also of a boolean document."""
    assert JsonSchema.of(SEARCH).get("required") == ["query"]
    assert JsonSchema.of(SEARCH).get("title", "none") == "none"
    assert JsonSchema.of(False).get("type") is None
