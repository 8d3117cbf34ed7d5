"""One engine for raw documents and for types: a type and its document report the same errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from returns.result import Failure

from fxai.schema import JsonSchema, Schema
from tests.kit.every import every


class Color(Enum):
    """Two strings."""

    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    """A number and a string."""

    x: int
    y: str = "q"


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    """No other properties."""

    x: int


class Cat(msgspec.Struct, tag="cat"):
    """One of two."""

    lives: int


class Dog(msgspec.Struct, tag="dog"):
    """The other one."""

    name: str


class Row(msgspec.Struct, array_like=True):
    """An array."""

    x: int
    y: str


class Keys(TypedDict):
    """One key."""

    a: int


class Pair(NamedTuple):
    """A tuple."""

    a: int
    b: str


@dataclass
class Plain:
    """One number."""

    a: int


class Tree(msgspec.Struct):
    """A class that contains itself."""

    value: int
    children: list[Tree] = []


TYPES: list[Any] = [
    *(int, float, str, bool, None, Any, list[int], dict[str, int], tuple[int, str], tuple[int, ...], set[int]),
    *(Annotated[int, Meta(ge=1, le=9)], Annotated[float, Meta(multiple_of=0.5)], Annotated[str, Meta(min_length=2)]),
    *(Annotated[str, Meta(pattern="^a")], Annotated[list[int], Meta(min_length=2)]),
    *(Annotated[dict[str, int], Meta(min_length=1)], Literal["a", "b"], Literal[1], Literal["a", None]),
    *(Color, Point, Closed, Cat, Cat | Dog, Row, Keys, Pair, Plain, Tree, list[Point | None], dict[str, Point]),
    *(int | None, int | str, Point | None, list[Cat | Dog], Schema.EpochMillis),
]
VALUES: list[Any] = [
    *(None, True, 7, 2.5, "x", "abc", [], ["x"], {}, {"x": "s"}, {"a": "s"}, {"x": 1, "z": 2}, {"type": "cat"}),
    *({"type": "zzz"}, [1, 2, 3], [{"x": None}], {"k": {"x": []}}, {"value": 1, "children": [{"value": "x"}, 3]}),
]


def told(tp: Any, value: Any) -> list[str]:
    """The errors of a type."""
    result = Schema.of(tp).decode(value)
    return [str(one) for one in result.failure().faults] if isinstance(result, Failure) else []


@every("tp", TYPES, ids=str)
def test_type_reports_the_errors_of_its_document(tp: Any) -> None:
    """A type reports a wrong value in the words of its raw document, from data and from text."""
    document: JsonSchema = Schema.of(tp).document
    for value in VALUES:
        expected = [str(fault) for fault in document.validate(value)]

        assert told(tp, value) == expected, value
        if expected:
            assert [str(one) for one in Schema.of(tp).decode_json(json.dumps(value)).failure().faults] == expected


NO_DATE = "/0: expected date (RFC 3339), found string 'x'"
NO_INTEGER = "/0: expected integer, found string 'x'"
UNSTATED: list[tuple[Any, Any, list[str]]] = [
    (dict[int, int], {"x": 1}, ["/x: expected a key that is integer, found key 'x'"]),
    (list[date], ["2026-11-27", "x"], ["/1: expected date (RFC 3339), found string 'x'"]),
    (list[UUID], ["x", 1], ["/0: expected UUID, found string 'x'", "/1: expected UUID, found integer 1"]),
    (tuple[int, date], ["x", "y"], [NO_INTEGER, "/1: expected date (RFC 3339), found string 'y'"]),
    (date | None, "x", ["expected date (RFC 3339), found string 'x'"]),
    (dict[date, int], {"x": 1}, ["/x: expected a key that is date (RFC 3339), found key 'x'"]),
    (list[date | int], ["x", 1.0, 1.5], [NO_DATE, "/2: expected date (RFC 3339) or integer, found number 1.5"]),
    (
        tuple[int, Schema.IntString],
        ["x", "y"],
        [NO_INTEGER, "/1: expected int (an integer such as '-12'), found string 'y'"],
    ),
]


@every(("tp", "value", "expected"), UNSTATED)
def test_type_reports_what_no_document_states(tp: Any, value: Any, expected: list[str]) -> None:
    """A string that does not convert is an error next to the errors of the document."""
    assert told(tp, value) == expected


WHOLE: list[tuple[Any, Any, Any]] = [
    (int | None, 3.0, 3),
    (int | float, 3.0, 3.0),
    (list[int | str], ["x", 3.0], ["x", 3]),
    (Literal[1, 2], 2.0, 2),
    (list[Cat | Dog], [{"type": "dog", "name": "x"}, {"type": "cat", "lives": 9.0}], [Dog("x"), Cat(9)]),
    (dict[str, Tree], {"a": {"value": 1.0, "children": [{"value": 2.0}]}}, {"a": Tree(1, [Tree(2)])}),
    (tuple[int, Any], [1.0, {"a": 1.0}], (1, {"a": 1.0})),
]


@every(("tp", "value", "expected"), WHOLE)
def test_whole_number_becomes_an_integer_only_at_the_location_of_an_integer(tp: Any, value: Any, expected: Any) -> None:
    """Fxai reads `3.0` as 3 if no alternative accepts the number, and changes no other number."""
    read = Schema.of(tp).decode(value).unwrap()

    assert repr(read) == repr(expected)


def test_private_keyword_of_types_has_no_meaning_in_other_documents() -> None:
    """A document or an annotation can contain the keyword of the private dialect. fxai ignores it."""
    document = JsonSchema.of({"x-fxai-converts": 1, "propertyNames": {"x-fxai-converts": 1, "maxLength": 1}})
    annotated = Schema.of(list[Annotated[str, Meta(extra_json_schema={"x-fxai-converts": 1})]])

    assert [fault.pointer for fault in document.validate({"ab": 1})] == ["/ab"]
    assert [str(fault) for fault in annotated.decode(["x", 1]).failure().faults] == [
        "/1: expected string, found integer 1"
    ]


@given(st.lists(st.integers(0, 29), max_size=10, unique=True), st.data())
def test_every_wrong_item_of_a_long_array_is_reported(wrong: list[int], data: st.DataObject) -> None:
    """Each wrong item of a long array is reported, next to items that are valid and items that are mended."""
    items: list[dict[str, Any]] = [{"x": data.draw(st.sampled_from([1, 1.0]))} for _ in range(30)]
    for index in wrong:
        items[index] = data.draw(st.sampled_from([{"x": "s"}, {}, {"x": 1, "y": 2}, {"x": None}, {"x": 1.5}]))
    trees = {"value": 1, "children": [{"value": one.get("x", "s")} for one in items]}

    for tp, value in ((dict[str, list[Point]], {"k": items}), (Tree, trees), (list[Point], items)):
        assert told(tp, value) == [str(one) for one in Schema.of(tp).document.validate(value)]
