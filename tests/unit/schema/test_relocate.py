"""Relocation: a document that was moved accepts what it accepted, wherever its references led."""

from __future__ import annotations

from typing import Any

from fxai.schema import JsonSchema
from fxai.schema.document import relocate
from tests.kit.every import every

PLACE = "/properties/deep/items/anyOf/0/properties/args"

DOCUMENTS: dict[str, tuple[Any, list[Any]]] = {
    "plain": ({"type": "object", "properties": {"a": {"type": "integer"}}}, [{"a": 1}, {"a": "x"}, 3]),
    "true": (True, [1, {}]),
    "false": (False, [1, {}]),
    "definitions": (
        {"properties": {"a": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "a definition that refers to another": (
        {"$ref": "#/$defs/L", "$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/N"}}, "N": {"type": "null"}}},
        [[None], [1], 1],
    ),
    "a recursive definition": (
        {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "additionalProperties": {"$ref": "#/$defs/T"}}}},
        [{"a": {"b": {}}}, {"a": {"b": 1}}],
    ),
    "the whole document": (
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        [{"next": {"next": {}}}, {"next": {"other": 1}}],
    ),
    "a place in the document": (
        {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
        [{"b": 1}, {"b": "x"}],
    ),
    "a place that no keyword holds": (
        {
            "properties": {"a": {"$ref": "#/components/A"}},
            "components": {"A": {"$ref": "#/x~1y/z"}},
            "x/y": {"z": {"type": "null"}},
        },
        [{"a": None}, {"a": 1}],
    ),
    "names to be escaped": (
        {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "a definition that is a boolean": (
        {"properties": {"a": {"$ref": "#/$defs/No"}, "b": True}, "$defs": {"No": False}},
        [{"b": 1}, {"a": 1}],
    ),
    "inside a definition": (
        {
            "properties": {"a": {"$ref": "#/$defs/P/properties/n"}},
            "$defs": {"P": {"properties": {"n": {"type": "null"}}}},
        },
        [{"a": None}, {"a": 1}],
    ),
    "what only looks like a reference": (
        {
            "properties": {"$ref": {"type": "string"}},
            "enum": [{"$ref": "#/nowhere"}, {"$ref": "x"}],
            "default": {"$ref": "#/no"},
        },
        [{"$ref": "#/nowhere"}, {"$ref": 1}, {}],
    ),
    "an anchor": (
        {"properties": {"a": {"$ref": "#here"}}, "$defs": {"N": {"$anchor": "here", "type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "a dynamic anchor": (
        {"$dynamicAnchor": "node", "type": "object", "additionalProperties": {"$dynamicRef": "#node"}},
        [{"a": {"b": {}}}, {"a": 1}],
    ),
    "a document with a name": (
        {
            "$id": "https://example.org/a.json",
            "properties": {"a": {"$ref": "a.json#/$defs/N"}, "b": {"$ref": "https://example.org/a.json#/properties/a"}},
            "$defs": {"N": {"type": "integer"}},
        },
        [{"a": 1, "b": 2}, {"a": 1, "b": "x"}, {"a": "x"}],
    ),
    "a document inside a document": (
        {
            "$id": "https://example.org/a.json",
            "properties": {"a": {"$ref": "b.json"}, "c": {"$ref": "b.json#/$defs/C"}},
            "$defs": {"B": {"$id": "b.json", "$ref": "#/$defs/C", "$defs": {"C": {"type": "integer"}}}},
        },
        [{"a": 1, "c": 2}, {"a": "x"}, {"c": "x"}],
    ),
    "two references at one place": (
        {
            "$dynamicAnchor": "n",
            "anyOf": [{"type": "integer"}, {"items": {"$ref": "#/$defs/S", "$dynamicRef": "#n"}, "type": "array"}],
            "$defs": {"S": {"minimum": 3}},
        },
        [3, [3], [2], ["x"]],
    ),
    "draft 7": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {
                "a": {"$ref": "#/definitions/A", "type": "null"},
                "b": {"items": [{"type": "integer"}, {"type": "null"}], "additionalItems": False},
                "c": {"$ref": "#/properties/b/items/0"},
            },
            "dependencies": {"a": ["b"], "c": {"required": ["a"]}},
            "definitions": {"A": {"type": "string"}},
        },
        [
            {"a": "x", "b": [1, None]},
            {"a": None, "b": []},
            {"a": "x"},
            {"b": [1, None, 2]},
            {"b": ["x"]},
            {"c": 1},
            {"c": "x"},
        ],
    ),
    "draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://example.org/base",
            "properties": {
                "a": {"minimum": 3, "exclusiveMinimum": True},
                "b": {"maximum": 3, "exclusiveMaximum": False},
                "c": {"$ref": "#/definitions/C"},
            },
            "definitions": {"C": {"type": "integer"}},
        },
        [{"a": 3}, {"a": 4}, {"b": 3}, {"b": 4}, {"c": 1}, {"c": "x"}],
    ),
    "2019-09": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "type": "object",
            "properties": {"n": {"$recursiveRef": "#"}, "l": {"items": [True], "additionalItems": {"type": "null"}}},
            "additionalProperties": False,
        },
        [{"n": {"n": {}}}, {"n": {"m": 1}}, {"l": [1, None]}, {"l": [1, 2]}],
    ),
    "a metaschema": (
        {"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}},
        [{"schema": {"type": "string"}}, {"schema": {"type": 3}}],
    ),
}


def _around(moved: Any, definitions: dict[str, Any]) -> JsonSchema:
    """A document in which the moved one stands at its place."""
    arm = {"properties": {"args": moved}, "required": ["args"]}
    document = {"properties": {"deep": {"items": {"anyOf": [arm]}}}}
    return JsonSchema.of({**document, "$defs": definitions} if definitions else document)


@every("name", list(DOCUMENTS))
def test_a_moved_document_accepts_what_it_accepted(name: str) -> None:
    """The whole is a document that is sound, with nothing of the old names and dialect."""
    given, instances = DOCUMENTS[name]
    document = JsonSchema.of(given)
    definitions: dict[str, Any] = {}
    whole = _around(relocate(document.to_dict(), PLACE, definitions, "t"), definitions)
    accepted = [document.validate(instance) == () for instance in instances]

    assert [whole.validate({"deep": [{"args": instance}]}) == () for instance in instances] == accepted
    assert document == JsonSchema.of(given)
    assert name in ("true", "plain", "false") or len(set(accepted)) == 2
    assert not [
        word for word in ('"$id"', '"$anchor"', '"definitions"', '"$dynamicRef"') if word in whole.to_json().decode()
    ]


def test_definitions_of_one_name_do_not_mix() -> None:
    """Each document has its own, also where the new names would be equal."""
    definitions: dict[str, Any] = {}
    one = JsonSchema.of({"$ref": "#/$defs/b.C", "$defs": {"b.C": {"type": "integer"}}})
    two = JsonSchema.of({"$ref": "#/$defs/C", "$defs": {"C": {"type": "string"}}})
    moved = [relocate(one.to_dict(), "/x", definitions, "a"), relocate(two.to_dict(), "/y", definitions, "a.b")]

    assert moved == [{"$ref": "#/$defs/a.b.C"}, {"$ref": "#/$defs/a.b.C_"}]
    assert definitions == {"a.b.C": {"type": "integer"}, "a.b.C_": {"type": "string"}}
