"""JSON Schema documents derived from types."""

# ruff: noqa: D101 (a docstring would be in the documents)

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Generic, Literal, Never, TypedDict

import msgspec
import pytest
from msgspec import Meta
from returns.result import Success
from typing_extensions import TypeVar

from fxai.schema import Empty, JsonSchema, Schema
from fxai.schema.conversion import Fields
from fxai.schema.plan import plan_of
from tests.kit.every import every

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


@every(
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


class Cat(msgspec.Struct, tag="cat", tag_field="kind"):
    """Meows."""

    lives: int


class Dog(msgspec.Struct, tag="dog", tag_field="kind"):
    """Barks."""

    name: str


class House(msgspec.Struct):
    """Both, and one of them alone."""

    pets: list[Cat | Dog]
    first: Cat
    last: Dog | None = None


@pytest.mark.parametrize(
    ("type_", "untagged", "taken"),
    [(Cat, {"lives": 9}, True), (Cat | Dog, {"lives": 9}, False), (Cat | None, {"lives": 9}, True)],
)
def test_a_tag_is_required_where_it_tells_one_from_another(type_: Any, untagged: Any, taken: bool) -> None:
    """And only there, by the document as by the decoder; a wrong one is refused by both."""
    schema = Schema[Any].of(type_)

    assert (schema.document.validate(untagged) == ()) == taken
    assert isinstance(schema.decode(untagged), Success) == taken
    for data, good in ((untagged | {"kind": "cat"}, True), (untagged | {"kind": "cow"}, False)):
        assert (schema.document.validate(data) == ()) == good
        assert isinstance(schema.decode(data), Success) == good


def test_a_struct_in_a_union_and_alone_is_described_twice() -> None:
    """Once with its tag required and once without; no keyword of another specification tells the union's arms."""
    document = Schema.of(House).json_schema()

    assert document["$defs"]["Cat"]["required"] == ["kind", "lives"]
    assert document["$defs"]["Cat_alone"]["required"] == ["lives"]
    assert document["properties"]["first"] == {"$ref": "#/$defs/Cat_alone"}
    assert document["properties"]["pets"]["items"] == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert JsonSchema.of(document) == Schema.of(House).document


def test_a_codecs_own_bounds_hold_beside_those_of_the_place() -> None:
    """The tighter of two ends, and both of two patterns."""
    positive = Annotated[Schema.EpochSeconds, msgspec.Meta(ge=0)]
    short = Annotated[Schema.IntString, msgspec.Meta(pattern="^.{1,3}$")]

    assert Schema.of(positive).json_schema() == {"type": "integer", "minimum": 0, "maximum": 253402300799}
    assert Schema.of(short).json_schema() == {
        "type": "string",
        "allOf": [{"pattern": "^-?[0-9]+$"}],
        "maxLength": 4300,
        "pattern": "^.{1,3}$",
    }
    assert next(iter(Schema.of(short).json_schema())) == "type"


class Root(msgspec.Struct):
    left: Branch | None = None
    right: Fork | None = None


class Branch(msgspec.Struct):
    root: Root | None = None


class Fork(msgspec.Struct):
    branches: list[Branch] = []


class Dated(msgspec.Struct):
    at: Schema.EpochMillis
    root: Root
    fork: Fork


class Loop(msgspec.Struct):
    turn: Turn | None = None
    fork: list[Turn] = []
    at: Schema.EpochMillis | None = None


class Turn(msgspec.Struct):
    loop: Loop | None = None


def test_recursive_classes_without_a_codec_keep_their_types() -> None:
    """Classes that refer to each other decode without a conversion, also next to a codec."""
    plan = plan_of(Dated)

    assert plan_of(Root).step is None
    assert isinstance(plan.step, Fields)
    assert [slot.name for slot in plan.step.slots if slot.step is not None] == ["at"]


def test_recursive_classes_with_a_codec_convert_each_value() -> None:
    """A class that refers to a class with a codec converts its values at any depth."""
    data: dict[str, Any] = {"turn": {"loop": {"turn": None, "fork": [], "at": 0}}, "fork": [{"loop": None}], "at": 1000}
    decoded = Schema.of(Loop).decode(data).unwrap()

    assert decoded.turn is not None
    assert decoded.turn.loop is not None
    assert decoded.turn.loop.at == datetime(1970, 1, 1, tzinfo=UTC)
    assert Schema.of(Loop).encode(decoded) == Success(data)
