"""Codecs: shipped ones and own ones, nested anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, NamedTuple, NotRequired, Required, TypedDict

import attrs
import msgspec
import pytest
from msgspec import Meta
from returns.result import Failure, Success
from typing_extensions import TypeVar

from fxai.schema import Schema, SchemaError
from fxai.schema.plan import plan_of
from tests.kit.every import every

_T = TypeVar("_T")

NumberFromString = Annotated[int, Schema.codec(wire=str, decode=int, encode=str)]
Location = Annotated[
    PurePosixPath, Schema.codec(wire=str, decode=PurePosixPath, encode=str, json_schema={"format": "path"})
]

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
MILLIS = 1577880000000
FIRST, LAST = -62135596800000, 253402300799999


class Stamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A moment."""

    at: Annotated[Schema.EpochMillis, Meta(description="When.", ge=0)]
    note: str = ""


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True):
    """With other names in JSON."""

    first_at: Schema.EpochMillis | None = None
    seen_by: list[NumberFromString] = []


class Tree(msgspec.Struct):
    """Holds itself."""

    at: Schema.EpochMillis
    branches: list[Tree] = []
    named: dict[str, Tree] = {}
    parent: Tree | None = None


class Plain(msgspec.Struct):
    """No codec."""

    x: int


class Mixed(msgspec.Struct):
    """A codec beside a plain class."""

    plain: Plain
    at: Schema.EpochMillis


class Left(msgspec.Struct, tag="left"):
    """One tag."""

    at: Schema.EpochSeconds


class Right(msgspec.Struct, tag="right"):
    """The other."""

    cost: Schema.DecimalString


class Row(msgspec.Struct, array_like=True):
    """An array in JSON."""

    at: Schema.EpochMillis
    name: str = "x"


class Box(msgspec.Struct, Generic[_T]):
    """Of anything."""

    held: _T
    more: list[_T] = []


class MillisBox(Box[Schema.EpochMillis]):
    """Of times."""

    label: str = ""


@dataclass
class Price:
    """A dataclass."""

    amount: Schema.DecimalString
    tags: list[str] = field(default_factory=list[str])


class Options(TypedDict, total=False):
    """All but one may be left out."""

    since: Required[Schema.EpochSeconds]
    until: NotRequired[Schema.EpochSeconds]
    name: str


class Pair(NamedTuple):
    """A tuple with names."""

    key: str
    at: Schema.EpochMillis = NOON


@attrs.define
class Secret:
    """An attrs class."""

    _number: Schema.IntString
    words: list[str] = attrs.field(factory=list[str])


CASES: list[tuple[Any, Any, Any]] = [
    (Stamp, Stamp(NOON, "n"), {"at": MILLIS, "note": "n"}),
    (Renamed, Renamed(NOON, [1, 2]), {"firstAt": MILLIS, "seenBy": ["1", "2"]}),
    (Renamed, Renamed(), {}),
    (
        Tree,
        Tree(NOON, [Tree(NOON)], {"a": Tree(NOON)}, Tree(NOON)),
        {
            "at": MILLIS,
            "branches": [{"at": MILLIS, "branches": [], "named": {}, "parent": None}],
            "named": {"a": {"at": MILLIS, "branches": [], "named": {}, "parent": None}},
            "parent": {"at": MILLIS, "branches": [], "named": {}, "parent": None},
        },
    ),
    (Left | Right, Right(Decimal("1.50")), {"type": "right", "cost": "1.50"}),
    (list[Left | Right | None], [None, Left(NOON)], [None, {"type": "left", "at": MILLIS // 1000}]),
    (Row, Row(NOON), [MILLIS, "x"]),
    (Box[Schema.EpochMillis], Box(NOON, [NOON]), {"held": MILLIS, "more": [MILLIS]}),
    (Box[list[NumberFromString]], Box([1], [[2]]), {"held": ["1"], "more": [["2"]]}),
    (MillisBox, MillisBox(NOON, [NOON], "l"), {"held": MILLIS, "more": [MILLIS], "label": "l"}),
    (Price, Price(Decimal("0.10"), ["a"]), {"amount": "0.10", "tags": ["a"]}),
    (Options, {"since": NOON}, {"since": MILLIS // 1000}),
    (
        Options,
        {"since": NOON, "until": NOON, "name": "n"},
        {"since": MILLIS // 1000, "until": MILLIS // 1000, "name": "n"},
    ),
    (Pair, Pair("k", NOON), ["k", MILLIS]),
    (Secret, Secret(10**30), {"_number": str(10**30), "words": []}),
    (Schema.EpochMillis, NOON, MILLIS),
    (Schema.DurationSeconds, timedelta(seconds=1, microseconds=500000), 1.5),
    (Schema.DurationMillis, timedelta(seconds=1), 1000),
    (NumberFromString, 42, "42"),
    (Schema.EpochMillis | None, None, None),
    (Schema.EpochMillis | str | list[Schema.DecimalString], [Decimal(1)], ["1"]),
    (Schema.EpochMillis | str | list[Schema.DecimalString], "x", "x"),
    (Schema.EpochMillis | str | list[Schema.DecimalString], NOON, MILLIS),
    (tuple[int, Schema.EpochMillis], (1, NOON), [1, MILLIS]),
    (tuple[Schema.EpochMillis, ...], (NOON, NOON), [MILLIS, MILLIS]),
    (set[NumberFromString], {7}, ["7"]),
    (frozenset[NumberFromString], frozenset({7}), ["7"]),
    (dict[str, list[Schema.EpochMillis]], {"a": [NOON]}, {"a": [MILLIS]}),
    (dict[Schema.EpochMillis, NumberFromString], {NOON: 1}, {str(MILLIS): "1"}),
    (Location, PurePosixPath("a/b"), "a/b"),
]


@every(("type_", "value", "data"), CASES, ids=lambda x: str(x)[:25])
def test_a_codec_works_wherever_it_stands(type_: Any, value: Any, data: Any) -> None:
    """In every kind of class and container, nested, recursive and generic; from data and from text."""
    schema = Schema.of(type_)

    assert schema.encode(value) == Success(data)
    assert schema.decode(data) == Success(value)
    assert schema.decode_json(schema.encode_json(value).unwrap()) == Success(value)


def test_the_wire_form_has_the_wire_types_schema() -> None:
    """With the notes that stand after the codec, and the codec's own keywords; defaults in their wire form."""
    assert Schema.of(Stamp).json_schema() == {
        "description": "A moment.",
        "type": "object",
        "properties": {
            "at": {"type": "integer", "minimum": 0, "maximum": LAST, "description": "When."},
            "note": {"type": "string", "default": ""},
        },
        "required": ["at"],
        "additionalProperties": False,
    }
    assert Schema.of(Location).json_schema() == {"type": "string", "format": "path"}
    assert Schema.of(Options).json_schema()["required"] == ["since"]
    assert Schema.of(Renamed).json_schema()["properties"]["firstAt"]["default"] is None


def test_a_default_is_told_in_its_wire_form() -> None:
    """And is the Python value where it is left out."""

    class Timed(msgspec.Struct):
        at: Schema.EpochMillis = NOON

    schema = Schema.of(Timed)

    assert schema.json_schema()["properties"] == {
        "at": {"type": "integer", "minimum": FIRST, "maximum": LAST, "default": MILLIS}
    }
    assert schema.decode({}) == Success(Timed(NOON))


def test_bounds_after_a_codec_are_about_the_wire_form() -> None:
    """Those before it would be about neither, and are refused."""
    assert str(Schema.of(Stamp).decode({"at": -1}).failure()) == (
        "/at: expected integer at least 0 and at most 253402300799999, found integer -1"
    )
    with pytest.raises(SchemaError, match="after"):
        Schema.of(Annotated[int, Meta(ge=0), Schema.codec(wire=str, decode=int, encode=str)]).json_schema()


def test_every_fault_of_the_wire_and_of_the_codecs_is_told() -> None:
    """Together, in the order of the value, each with its pointer."""
    data = {"at": "x", "branches": [{"at": 10**18}, {}], "named": {"a/b": {"at": -(10**18)}}, "parent": {"at": None}}

    assert [fault.pointer for fault in Schema.of(Tree).decode(data).failure().faults] == [
        "/at",
        "/branches/0/at",
        "/branches/1/at",
        "/named/a~1b/at",
        "/parent/at",
    ]


def test_a_codec_that_refuses_is_a_fault_at_its_place() -> None:
    """A `ValueError` of its functions says what was expected."""
    result = Schema.of(dict[str, list[NumberFromString]]).decode({"n": ["1", "one"]})

    assert [fault.pointer for fault in result.failure().faults] == ["/n/1"]
    assert "string 'one'" in str(result.failure())


def test_any_other_error_of_a_codec_is_a_bug_and_is_raised() -> None:
    """It is never taken for bad data."""

    def broken(_: Any) -> Any:
        raise ZeroDivisionError

    schema: Schema[Any] = Schema.of(list[Annotated[int, Schema.codec(wire=str, decode=broken, encode=broken)]])

    with pytest.raises(ZeroDivisionError):
        schema.decode(["1"])
    with pytest.raises(ZeroDivisionError):
        schema.encode([1])


def test_values_of_another_type_do_not_reach_the_codec() -> None:
    """What is no `datetime` is a fault, not an `AttributeError`."""
    wrong: Any = "yesterday"
    number: Any = 3
    bad: Any = Stamp(wrong)

    assert str(Schema.of(Stamp).encode(bad).failure()) == "/at: expected datetime, found string 'yesterday'"
    assert str(Schema.of(Stamp).encode(Stamp(NOON, number)).failure()) == "/note: expected string, found integer 3"
    assert isinstance(Schema.of(Tree).encode(bad), Failure)
    assert isinstance(Schema.of(list[Stamp]).encode(wrong), Failure)


def test_naive_times_name_no_instant() -> None:
    """They are refused; aware ones of any zone are the instant they name."""
    schema: Schema[datetime] = Schema.of(Schema.EpochMillis)
    east = timezone(timedelta(hours=2))

    assert "time zone" in str(schema.encode(datetime(2020, 1, 1)).failure())  # noqa: DTZ001
    assert schema.encode(datetime(2020, 1, 1, 14, tzinfo=east)) == Success(MILLIS)
    assert schema.decode(MILLIS).unwrap().tzinfo is UTC


@every(
    ("type_", "data"),
    [
        (Schema.EpochMillis, 10**18),
        (Schema.EpochSeconds, -(10**15)),
        (Schema.DecimalString, "NaN"),
        (Schema.DecimalString, "1,5"),
        (Schema.IntString, "1.5"),
        (Schema.DurationSeconds, 1e300),
    ],
)
def test_shipped_codecs_refuse_what_they_cannot_hold(type_: Any, data: Any) -> None:
    """As failures, never as overflows."""
    assert isinstance(Schema.of(type_).decode(data), Failure)


def test_a_type_without_codecs_has_no_steps() -> None:
    """It keeps the decoder's full speed; in one with codecs, only the classes on the way to one are mirrored."""
    assert plan_of(Plain).step is None
    assert plan_of(Plain).wire is Plain
    assert Schema.of(Mixed).decode({"plain": {"x": 1}, "at": 0}).unwrap().plain == Plain(1)
    assert msgspec.structs.fields(plan_of(Mixed).wire)[0].type is Plain


def test_a_codec_may_travel_as_a_struct_with_codecs() -> None:
    """The wire type is any type a schema can be of."""

    class Wire(msgspec.Struct):
        at: Schema.EpochMillis

    moment: Any = Annotated[datetime, Schema.codec(wire=Wire, decode=lambda w: w.at, encode=Wire)]
    schema: Schema[list[datetime]] = Schema.of(list[moment])

    assert schema.encode([NOON]) == Success([{"at": MILLIS}])
    assert schema.decode([{"at": MILLIS}]) == Success([NOON])
    assert [f.pointer for f in schema.decode([{"at": "x"}, {"at": 10**18}]).failure().faults] == ["/0/at", "/1/at"]


def test_a_codec_may_use_another_schema() -> None:
    """Its `DecodeError` is told with the inner pointer below its own place."""
    inner = Schema.of(list[int])
    csv: Any = Annotated[Any, Schema.codec(wire=str, decode=inner.decode_json_unsafe, encode=str)]

    assert [f.pointer for f in Schema.of(dict[str, csv]).decode({"a": '[1, "x"]'}).failure().faults] == ["/a/1"]


def test_what_a_constructor_refuses_is_a_fault_of_the_object() -> None:
    """`__post_init__` has the last word, as with msgspec itself."""

    class Late(msgspec.Struct):
        at: Schema.EpochMillis

        def __post_init__(self) -> None:
            if self.at < NOON:
                raise ValueError("not before noon")

    result = Schema.of(list[Late]).decode([{"at": MILLIS}, {"at": 0}])

    assert [f.pointer for f in result.failure().faults] == ["/1"]
    assert "not before noon" in str(result.failure())


def test_unset_members_stay_unset() -> None:
    """Both ways, in a class that is mirrored."""

    class Patch(msgspec.Struct):
        at: Schema.EpochMillis | msgspec.UnsetType = msgspec.UNSET
        name: str | msgspec.UnsetType = msgspec.UNSET

    schema = Schema.of(Patch)

    assert schema.decode({}) == Success(Patch())
    assert schema.encode(Patch()).unwrap() == {}
    assert schema.encode(Patch(NOON)) == Success({"at": MILLIS})
