"""Faults of unions: what tells the alternatives apart is what is told."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from fxai.schema import JsonSchema, Schema
from tests.kit.every import every

WHOLE: dict[str, Any] = {"type": "integer"}


def arm(kind: Any, **needed: Any) -> dict[str, Any]:
    """An alternative that `kind` tells from others, with properties that it needs."""
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **needed},
        "required": ["kind", *needed],
    }


def deep(kind: str, **needed: Any) -> dict[str, Any]:
    """An alternative that is told from others further inside."""
    return {
        "type": "object",
        "properties": {
            "meta": {"type": "object", "properties": {"of": {"enum": [kind]}}, "required": ["of"]},
            **needed,
        },
        "required": ["meta", *needed],
    }


REFERRED: dict[str, Any] = {
    "$defs": {"A": arm("a", x=WHOLE), "B": {"$ref": "#/$defs/C"}, "C": arm("b", y=WHOLE), "k": {"const": "a"}},
    "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
}
TWO = [arm("a", x=WHOLE), arm("b", y=WHOLE)]
OLD: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {"A": arm("a", x=WHOLE), "B": arm("b", y=WHOLE)},
    "oneOf": [{"$ref": "#/definitions/A", "title": "hidden"}, {"$ref": "#/definitions/B"}],
}
ANY_OF: Any = {"anyOf": TWO}
NESTED: Any = {"anyOf": [{"anyOf": TWO}, arm("d", z=WHOLE)]}
DEEP: Any = {"anyOf": [deep("a", x=WHOLE), deep("b")]}
LISTS: Any = [{"properties": {"k": {"enum": values}}} for values in (["a", "b"], ["b", "c"])]
NEITHER = ["/kind: expected 'a' or 'b', found string 'c'"]
TAGGED: list[tuple[Any, Any, list[str]]] = [
    (ANY_OF, {"kind": "c"}, NEITHER),
    (ANY_OF, {"kind": "c", "x": "1"}, NEITHER),
    ({"oneOf": TWO}, {"kind": "c"}, NEITHER),
    (REFERRED, {"kind": "c"}, NEITHER),
    (OLD, {"kind": "c"}, NEITHER),
    (ANY_OF, {"kind": "a"}, ["/x: expected integer, found nothing"]),
    (ANY_OF, {"kind": "b", "y": "1"}, ["/y: expected integer, found string '1'"]),
    ({"oneOf": TWO}, {"kind": "b"}, ["/y: expected integer, found nothing"]),
    (REFERRED, {"kind": "b"}, ["/y: expected integer, found nothing"]),
    (OLD, {"kind": "a", "x": None}, ["/x: expected integer, found null"]),
    (ANY_OF, {"x": 1}, ["/kind: expected 'a' or 'b', found nothing"]),
    (ANY_OF, {"kind": ["a"]}, ["/kind: expected 'a' or 'b', found array of 1 item"]),
    (ANY_OF, "a", ["expected object, found string 'a'"]),
    ({"anyOf": [*TWO, {"type": "null"}]}, {"kind": "c"}, NEITHER),
    ({"anyOf": [TWO[0], {"type": "null"}]}, {"kind": "a"}, ["/x: expected integer, found nothing"]),
    (
        {"anyOf": [{"anyOf": TWO}, arm("d", z=WHOLE)]},
        {"kind": "c"},
        ["/kind: expected 'a', 'b' or 'd', found string 'c'"],
    ),
    ({"anyOf": [{"anyOf": TWO}, arm("d", z=WHOLE)]}, {"kind": "b"}, ["/y: expected integer, found nothing"]),
    ({"anyOf": [arm(1, x=WHOLE), arm(True, y=WHOLE)]}, {"kind": 2}, ["/kind: expected 1 or true, found integer 2"]),
    ({"anyOf": [arm(1, x=WHOLE), arm(True, y=WHOLE)]}, {"kind": True}, ["/y: expected integer, found nothing"]),
    ({"anyOf": [arm(None), arm(2.5)]}, {"kind": "c"}, ["/kind: expected null or 2.5, found string 'c'"]),
    (
        {"anyOf": [deep("a", x=WHOLE), deep("b")]},
        {"meta": {"of": "c"}},
        ["/meta/of: expected 'a' or 'b', found string 'c'"],
    ),
    ({"anyOf": [deep("a", x=WHOLE), deep("b")]}, {"meta": {"of": "a"}}, ["/x: expected integer, found nothing"]),
    (
        {
            "type": "object",
            "anyOf": [{"properties": {"k": {"enum": ["a", "b"]}}}, {"properties": {"k": {"enum": ["b", "c"]}}}],
        },
        {"k": "d"},
        ["/k: expected 'a', 'b' or 'c', found string 'd'"],
    ),
    (
        {"properties": {"p": {"anyOf": [{"const": "a"}, {"const": "b"}]}}},
        {"p": "c"},
        ["/p: expected 'a' or 'b', found string 'c'"],
    ),
    (
        {**REFERRED, "anyOf": [{"properties": {"p": {"anyOf": [{"$ref": "#/$defs/k"}, {"const": 3}]}}}]},
        {"p": "c"},
        ["/p: expected 'a' or 3, found string 'c'"],
    ),
    (
        {**REFERRED, "anyOf": [{}], "properties": {"p": {"$ref": "#/$defs/k"}}, "required": ["p"]},
        {},
        ["/p: expected 'a', found nothing"],
    ),
    (
        {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b", "c"]}]},
        {"z": 1},
        ["expected object with 'a' or object with 'b' and 'c', found object with 1 property"],
    ),
    (
        {"type": "array", "items": {"properties": {"u": {"oneOf": TWO}}}},
        [{"u": {"kind": "c"}}, {"u": {"kind": "a", "x": "1"}}],
        ["/0/u/kind: expected 'a' or 'b', found string 'c'", "/1/u/x: expected integer, found string '1'"],
    ),
]


@every(("document", "data", "faults"), TAGGED, ids=lambda value: str(value)[:40])
def test_a_tag_tells_the_fault(document: Any, data: Any, faults: list[str]) -> None:
    """No alternative has the value: its place and all values; one has it: the faults of that one."""
    found = JsonSchema.of(document).validate(data)

    assert [str(fault) for fault in found] == faults


class A(msgspec.Struct, tag="a", tag_field="kind"):
    """One kind."""

    x: int


class B(msgspec.Struct, tag="b", tag_field="kind"):
    """Another kind."""

    y: int


def test_a_typed_union_says_the_same() -> None:
    """Faults of tagged types and of their JSON Schema are told in the same words."""
    schema: Schema[Any] = Schema.of(A | B)
    for data in ({"kind": "c"}, {"x": 1}, {"kind": "b"}, {"kind": "a", "x": "1"}):
        typed = schema.decode(data).failure().faults
        assert typed == schema.document.validate(data)


def test_large_unions_are_told_in_bounded_time() -> None:
    """Alternatives that refer to each other without end are told, if need be in few words."""
    names = [f"p{index}" for index in range(60)]
    inner = {name: {"$ref": "#/$defs/one"} for name in names}
    one = {"type": "object", "properties": inner, "required": ["p0"]}
    alternatives = [{"$ref": "#/$defs/one"}] * 40
    document = JsonSchema.of({"$defs": {"one": one}, "anyOf": alternatives})
    began = time.process_time()
    faults = document.validate({"p1": {"p1": {}}})

    assert time.process_time() - began < 20
    assert faults
