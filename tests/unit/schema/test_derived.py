"""JSON Schema documents derived from types."""

# ruff: noqa: D101 (a docstring would be in the documents)

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, Never, TypedDict

import msgspec
import pytest
from msgspec import Meta
from typing_extensions import TypeVar

from fxai.schema import Empty, JsonSchema, Schema

_T = TypeVar("_T")


class Unit(Enum):
    """A scale."""

    C = "C"
    F = "F"


class City(msgspec.Struct, forbid_unknown_fields=True):
    """Where."""

    name: Annotated[str, Meta(min_length=1, description="What it is called.")]
    unit: Unit = Unit.C
    tags: list[str] = []
    near: City | None = None


class Open(msgspec.Struct):
    x: int
    home: Annotated[City | None, Meta(title="Home", description="Here.")] = None


class Node(msgspec.Struct):
    kids: list[Node] = []


class Box(msgspec.Struct, Generic[_T]):
    held: _T


class A(msgspec.Struct, tag="a"):
    x: int


class B(msgspec.Struct, tag="b"):
    y: str


@dataclass
class Point:
    x: int
    y: float = 0.5


class Some(TypedDict, total=False):
    x: int


def schema_of(type_: Any) -> dict[str, Any]:
    """The derived document, which must be one that the check of documents takes."""
    document = Schema.of(type_).json_schema()
    assert JsonSchema.of(document) == Schema.of(type_).document
    return document


def test_the_root_is_the_type_itself() -> None:
    """An object at the root, not a reference; no titles that repeat class names, no empty lists."""
    assert schema_of(Open) == {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "home": {
                "title": "Home",
                "description": "Here.",
                "anyOf": [{"$ref": "#/$defs/City"}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["x"],
        "$defs": {
            "City": {
                "description": "Where.",
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "description": "What it is called."},
                    "unit": {"$ref": "#/$defs/Unit", "default": "C"},
                    "tags": {"type": "array", "items": {"type": "string"}, "default": []},
                    "near": {"anyOf": [{"$ref": "#/$defs/City"}, {"type": "null"}], "default": None},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "Unit": {"description": "A scale.", "enum": ["C", "F"]},
        },
    }


def test_a_type_that_holds_itself_is_an_object_at_the_root_too() -> None:
    """And stands once more under `$defs`, where its places refer to it."""
    kids: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}
    node: dict[str, Any] = {"type": "object", "properties": {"kids": kids}}

    assert schema_of(Node) == {**node, "$defs": {"Node": node}}
    assert Schema.of(Node).document.validate({"kids": [{"kids": [3]}]})[0].pointer == "/kids/0/kids/0"


@pytest.mark.parametrize(
    ("type_", "document"),
    [
        (Empty, {"type": "object", "properties": {}, "additionalProperties": False}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (Never, {"not": {}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[object], {"type": "array", "items": {}}),
        (dict[str, Any], {"type": "object"}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (Literal["C", "F"], {"enum": ["C", "F"]}),
        (Some, {"type": "object", "properties": {"x": {"type": "integer"}}}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}},
                "required": ["x"],
            },
        ),
        (Box[int], {"type": "object", "properties": {"held": {"type": "integer"}}, "required": ["held"]}),
        (Annotated[str, Meta(extra_json_schema={"format": "uri"})], {"type": "string", "format": "uri"}),
        (
            Annotated[list[int], Meta(extra_json_schema={"uniqueItems": True})],
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        ),
    ],
    ids=lambda x: str(x)[:25],
)
def test_each_type_has_its_document(type_: Any, document: dict[str, Any]) -> None:
    """As the decoder takes it: closed where the decoder is, open elsewhere."""
    assert schema_of(type_) == document


def test_a_tagged_union_names_its_tags() -> None:
    """One alternative for each tag."""
    document = schema_of(A | B)

    assert [choice["$ref"] for choice in document["anyOf"]] == ["#/$defs/A", "#/$defs/B"]
    assert document["$defs"]["A"]["properties"]["type"] == {"enum": ["a"]}


def test_each_copy_is_the_callers_own() -> None:
    """Changing one changes neither the schema nor the next copy."""
    schema = Schema.of(City)
    first = schema.json_schema()

    first["properties"]["name"]["type"] = "integer"
    first["required"].append("x")

    assert schema.json_schema()["properties"]["name"]["type"] == "string"
    assert schema.json_schema()["required"] == ["name"]
