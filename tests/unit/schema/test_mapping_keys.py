"""Keys of mappings that are not plain strings: the JSON Schema describes the keys that the decoder accepts."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest

from fxai.schema import Schema, SchemaError
from fxai.testing import check_tool
from fxai.tools import Tool
from tests.kit.every import every


class Color(enum.Enum):
    """Names."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """Numbers."""

    LOW = -1
    HIGH = 7


Aware = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
Naive = Annotated[datetime.datetime, msgspec.Meta(tz=False)]
ID = str(uuid.UUID(int=5))
DECIMAL = {"type": ["string", "number"], "format": "decimal"}
BIG = "-" + "9" * 30

KEYS: dict[str, tuple[Any, list[str], list[str]]] = {
    "int": (int, ["0", "-3", BIG], ["", "01", "1.0", "+1", " 1", "x"]),
    "int from 0": (Annotated[int, msgspec.Meta(ge=0)], ["0", "30", BIG[1:]], ["-1", "01", "x"]),
    "int above 0": (Annotated[int, msgspec.Meta(gt=0)], ["1", "30"], ["0", "-1", "x"]),
    "int to 0": (Annotated[int, msgspec.Meta(le=0)], ["0", "-30", BIG], ["1", "x"]),
    "int below 0": (Annotated[int, msgspec.Meta(lt=0)], ["-1", "-30"], ["0", "1", "x"]),
    "few int": (Annotated[int, msgspec.Meta(ge=2, le=12, multiple_of=4)], ["4", "12"], ["0", "2", "16", "x"]),
    "date and time of any zone": (datetime.datetime, ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05"], ["", "x"]),
    "date and time without a zone": (Naive, ["2020-01-02T03:04:05"], ["", "2020-01-02T03:04:05Z", "x"]),
    "time": (datetime.time, ["03:04:05Z", "03:04:05"], ["", "x"]),
    "float": (float, ["0", "-1.5", "1e5", "2E-7", "1e190"], ["", "01", "1.", ".5", "x", "1e400"]),
    "UUID": (uuid.UUID, [ID], ["", "x", ID[:-1]]),
    "enum of strings": (Color, ["red", "blue"], ["", "RED", "green"]),
    "enum of integers": (Level, ["-1", "7"], ["", "1", "LOW", "7.0"]),
    "literals": (Literal["a", 1], ["a", "1"], ["", "b", "2"]),
    "date": (datetime.date, ["2020-01-02"], ["", "2020-1-2", "x"]),
    "date and time": (Aware, ["2020-01-02T03:04:05Z"], ["", "2020-01-02", "x"]),
    "duration": (datetime.timedelta, ["PT5S"], ["", "5", "x"]),
    "decimal number": (decimal.Decimal, ["1.50", "-3"], ["", "x"]),
    "bytes": (bytes, ["YWJj"], ["YWJ", "***"]),
    "a union": (Color | int, ["red", "3"], ["green", "1.0"]),
    "string with a bound": (Annotated[str, msgspec.Meta(min_length=2)], ["ab"], ["a"]),
}


@every("tp, good, bad", KEYS.values(), ids=list(KEYS))
def test_the_json_schema_describes_the_keys_of_a_mapping(tp: Any, good: list[str], bad: list[str]) -> None:
    """The decoder and the JSON Schema accept the same keys, except that a format is only a note in JSON Schema."""
    schema: Schema[Any] = Schema.of(dict[tp, bool])
    names = schema.json_schema()["propertyNames"]

    for key in good:
        value = schema.decode({key: True}).unwrap()
        assert schema.document.validate({key: True}) == schema.document.validate(schema.encode(value).unwrap()) == ()
    for key in bad:
        assert schema.decode({key: True}).failure().faults
        assert schema.document.validate({key: True}) or "format" in names or "contentEncoding" in names


@every("tp", [str, Any, int | str])
def test_any_string_can_be_a_key(tp: Any) -> None:
    """A mapping whose keys can be any strings has no `propertyNames`."""
    schema: Schema[Any] = Schema.of(dict[tp, bool])

    assert schema.json_schema() == {"type": "object", "additionalProperties": {"type": "boolean"}}


class Tree(msgspec.Struct, tag=True):
    """A struct that contains itself below keys."""

    below: dict[Color, Tree]
    paint: Color | None = None


class Leaf(msgspec.Struct, tag=True):
    """The other alternative."""

    counts: dict[int, int]


class Row(msgspec.Struct, array_like=True, tag=True):
    """A struct that is an array in JSON, with its tag as the first item."""

    counts: dict[int, int]


class Pair(NamedTuple):
    """A named tuple."""

    counts: dict[int, int]
    note: str


class Coded(msgspec.Struct):
    """A struct with a codec below keys."""

    times: dict[int, Schema.EpochMillis]


PLACES: dict[str, tuple[Any, Any, Any]] = {
    "in a list": (list[dict[int, int]], [{"1": 2}], [{"x": 2}]),
    "in a mapping": (dict[str, dict[int, int]], {"a": {"1": 2}}, {"a": {"x": 2}}),
    "in a tuple": (tuple[int, dict[int, int]], [1, {"1": 2}], [1, {"x": 2}]),
    "in a union": (str | list[dict[int, int]] | None, [{"1": 2}], [{"x": 2}]),
    "in a union of structs": (
        Tree | Leaf | list[dict[int, int]],
        {"type": "Leaf", "counts": {"1": 2}},
        {"type": "Leaf", "counts": {"x": 2}},
    ),
    "in a list beside structs": (Tree | Leaf | list[dict[int, int]], [{"1": 2}], [{"x": 2}]),
    "in a recursive struct": (Tree, {"below": {"red": {"below": {}}}}, {"below": {"red": {"below": {"x": {}}}}}),
    "in an array": (Row, ["Row", {"1": 2}], ["Row", {"x": 2}]),
    "in a named tuple": (Pair, [{"1": 2}, "n"], [{"x": 2}, "n"]),
    "after null": (None | dict[int, int], {"1": 2}, {"x": 2}),  # the order is the case
    "beside null and a struct": (
        list[None | Leaf | list[dict[int, int]]],  # noqa: RUF036
        [None, {"type": "Leaf", "counts": {"1": 2}}, [{"1": 2}]],
        [{"type": "Leaf", "counts": {"x": 2}}],
    ),
    "beside a codec": (Coded, {"times": {"1": 1000}}, {"times": {"x": 1000}}),
}


@every("tp, good, bad", PLACES.values(), ids=list(PLACES))
def test_the_keys_are_described_in_each_location(tp: Any, good: Any, bad: Any) -> None:
    """The JSON Schema and the decoder agree about keys anywhere in a type."""
    schema: Schema[Any] = Schema.of(tp)

    assert schema.decode(good).unwrap() is not None
    assert schema.document.validate(good) == ()
    assert schema.decode(bad).failure().faults
    assert schema.document.validate(bad)


def test_an_enum_of_keys_is_a_definition_only_if_a_value_refers_to_it() -> None:
    """An enum that occurs only as a key is not among the definitions."""
    assert "$defs" not in Schema.of(dict[Color, int]).json_schema()
    assert Schema.of(Tree).json_schema()["$defs"].keys() == {"Tree", "Color"}


@every(
    "tp",
    [
        Annotated[int, msgspec.Meta(ge=5)],
        Annotated[int, msgspec.Meta(multiple_of=2)],
        Annotated[int, msgspec.Meta(ge=0, le=10**9)],
        Annotated[float, msgspec.Meta(ge=0)],
    ],
    ids=str,
)
def test_a_key_whose_bounds_no_json_schema_states_is_refused(tp: Any) -> None:
    """A number with such bounds is refused as a key when a tool is made, with a remedy."""
    with pytest.raises(SchemaError, match=r"cannot be the key of a mapping.*Use an int that is at least 0"):
        Tool.make("t", parameters=Schema.of(dict[tp, bool]))


@every(
    ("tp", "expected"),
    [
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (Naive, {"type": "string", "format": "date-time-local"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (Annotated[datetime.time, msgspec.Meta(tz=False)], {"type": "string", "format": "partial-time"}),
        (decimal.Decimal, {"type": ["string", "number"], "format": "decimal"}),
        (list[decimal.Decimal | None], {"type": "array", "items": {"anyOf": [DECIMAL, {"type": "null"}]}}),
    ],
    ids=str,
)
def test_the_json_schema_states_what_msgspec_omits(tp: Any, expected: dict[str, Any]) -> None:
    """Dates and times have a format, and a decimal can be a number, at the root and inside other types."""
    assert Schema.of(tp).json_schema() == expected


class Stamps(msgspec.Struct):
    """Places for which msgspec omits keywords."""

    at: datetime.datetime
    naive: Naive
    clock: datetime.time
    price: decimal.Decimal
    counts: dict[Annotated[int, msgspec.Meta(ge=0)], int]
    days: dict[datetime.datetime, bool]


@pytest.mark.slow
def test_a_type_with_omitted_keywords_keeps_the_laws_of_a_tool() -> None:
    """A tool over dates, times, decimals, and keys with bounds keeps the laws of `check_tool`."""
    tool = Tool.make("t", parameters=Stamps)

    assert isinstance(tool.parameters, Schema)
    check_tool(tool)
