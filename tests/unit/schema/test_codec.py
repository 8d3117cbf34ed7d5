"""Schemas: decoding and encoding of every kind of type."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, Never, NewType, TypedDict
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta
from returns.result import Failure, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai.schema import DecodeError, Empty, Fault, Limits, Schema, SchemaError, parse_json
from fxai.tools import Tool
from tests.kit.every import every

_T = TypeVar("_T")


class Sum(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


class City(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A place."""

    city_name: Annotated[str, Meta(min_length=1, description="What it is called.")]
    unit: Literal["C", "F"] = "C"
    near: tuple[str, ...] = ()


class Cat(msgspec.Struct, frozen=True, tag="cat"):
    """With lives."""

    lives: int


class Dog(msgspec.Struct, frozen=True, tag="dog"):
    """With tricks."""

    tricks: list[str]


class Color(Enum):
    """Of a thing."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """How much."""

    LOW = 1
    HIGH = 2


class Mood(StrEnum):
    """How."""

    GOOD = "good"


@dataclass
class Point:
    """In the plane."""

    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    """All may be left out."""

    depth: int
    name: str


class Pair(NamedTuple):
    """A tuple with names."""

    left: int
    right: str = "r"


class Node(msgspec.Struct):
    """Holds itself."""

    value: int
    children: list[Node] = []


class Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An array in JSON."""

    key: str
    count: int = 0


class Box(msgspec.Struct, Generic[_T]):
    """Of anything."""

    held: _T
    others: list[_T] = []


class Positive(msgspec.Struct):
    """Checked when made."""

    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is at least 0")


UserId = NewType("UserId", int)
Words = TypeAliasType("Words", list[str])


def told(type_: Any, data: object) -> list[str]:
    """What is told of data that must not fit, and that JSON text of it tells the same."""
    schema = Schema.of(type_)
    result = schema.decode(data)
    assert isinstance(result, Failure), result
    assert schema.decode_json(msgspec.json.encode(data)) == result
    return [str(fault) for fault in result.failure().faults]


WRONG: Any = "x"
EMPTY: dict[str, Any] = {}
GOOD: list[tuple[Any, Any, Any]] = [
    (Sum, {"a": 1, "b": 2}, Sum(1, 2)),
    (City, {"cityName": "Oslo", "unit": "F", "near": ["Ski"]}, City("Oslo", "F", ("Ski",))),
    (Cat | Dog, {"type": "dog", "tricks": ["sit"]}, Dog(["sit"])),
    (list[Cat | Dog], [{"type": "cat", "lives": 9}], [Cat(9)]),
    (Color, "red", Color.RED),
    (Level, 2, Level.HIGH),
    (Mood, "good", Mood.GOOD),
    (Point, {"x": 1, "y": 0.5}, Point(1, 0.5)),
    (Options, {"depth": 3}, {"depth": 3}),
    (Pair, [1, "x"], Pair(1, "x")),
    (Node, {"value": 1, "children": [{"value": 2, "children": []}]}, Node(1, [Node(2)])),
    (Row, ["k", 3], Row("k", 3)),
    (Box[int], {"held": 1, "others": [2]}, Box(1, [2])),
    (UserId, 7, 7),
    (Words, ["a"], ["a"]),
    (None, None, None),
    (bool, True, True),
    (int, 10**40, 10**40),
    (float, 2.5, 2.5),
    (str, "naïve ✓", "naïve ✓"),
    (bytes, "aGk=", b"hi"),
    (date, "2020-02-29", date(2020, 2, 29)),
    (timedelta, "PT1S", timedelta(seconds=1)),
    (Decimal, "1.50", Decimal("1.50")),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (set[int], [1], {1}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[UUID, int], {"12345678-1234-5678-1234-567812345678": 1}, {UUID("12345678-1234-5678-1234-567812345678"): 1}),
    (Literal[1, "a", None], "a", "a"),
    (int | str | None, "x", "x"),
    (Annotated[int, Meta(ge=1)], 1, 1),
    (Any, {"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
    (object, [1, {"x": None}], [1, {"x": None}]),
    (list, [1, "a"], [1, "a"]),
    (Empty, {}, Empty()),
]


@every(("type_", "data", "value"), GOOD, ids=lambda x: str(x)[:30])
def test_every_type_of_msgspec_goes_both_ways(type_: Any, data: Any, value: Any) -> None:
    """From data and from text to the same value, and back to the same data and text."""
    schema = Schema.of(type_)

    assert schema.decode(data) == Success(value)
    assert schema.decode_json(msgspec.json.encode(data)) == Success(value)
    assert schema.encode(value) == Success(data)
    assert schema.encode_json(value).map(msgspec.json.decode) == Success(data)


BAD: list[tuple[Any, Any, list[str]]] = [
    (
        Sum,
        {"a": "one"},
        ["/a: expected integer, found string 'one'", "/b: expected integer, found nothing"],
    ),
    (Sum, [1], ["expected object, found array of 1 item"]),
    (
        City,
        {"cityName": "", "unit": "K", "x/y": 1},
        [
            "/cityName: expected string of at least 1 character, found string ''",
            "/unit: expected one of 'C', 'F', found string 'K'",
            "/x~1y: expected no property of this name, found integer 1",
        ],
    ),
    (Cat | Dog, {"type": "cow"}, ["/type: expected 'cat' or 'dog', found string 'cow'"]),
    (Cat | Dog, {"lives": 1}, ["/type: expected 'cat' or 'dog', found nothing"]),
    (Cat | Dog, {"type": "cat", "lives": "9"}, ["/lives: expected integer, found string '9'"]),
    (Cat | None, {"lives": "9"}, ["/lives: expected integer, found string '9'"]),
    (Color, "green", ["expected one of 'blue', 'red', found string 'green'"]),
    (Level, 3, ["expected one of 1, 2, found integer 3"]),
    (Point, {"y": "1"}, ["/y: expected number, found string '1'", "/x: expected integer, found nothing"]),
    (Pair, ["x"], ["/0: expected integer, found string 'x'"]),
    (Pair, [1, "a", 2], ["expected array of at least 1 item and of at most 2 items, found array of 3 items"]),
    (Row, [], ["expected array of at least 1 item and of at most 2 items, found array of 0 items"]),
    (
        Node,
        {"value": 1, "children": [{"value": None}, {}]},
        ["/children/0/value: expected integer, found null", "/children/1/value: expected integer, found nothing"],
    ),
    (tuple[int, str], [1], ["expected array of 2 items, found array of 1 item"]),
    (tuple[int, str], ["a", 1], ["/0: expected integer, found string 'a'", "/1: expected string, found integer 1"]),
    (
        dict[str, int],
        {"a": None, "b": 1.5},
        ["/a: expected integer, found null", "/b: expected integer, found number 1.5"],
    ),
    (dict[int, int], {"x": 1}, ["/x: expected a key that is integer, found key 'x'"]),
    (int | str | None, [], ["expected integer or string or null, found array of 0 items"]),
    (int, True, ["expected integer, found boolean true"]),
    (bool, 1, ["expected boolean, found integer 1"]),
    (str, None, ["expected string, found null"]),
    (None, 0, ["expected null, found integer 0"]),
    (Never, {}, ["expected nothing: no value is of this type, found object with 0 properties"]),
    (Literal[1, "a", None], "b", ["expected one of null, 1, 'a', found string 'b'"]),
    (Annotated[int, Meta(ge=1, le=5)], 9, ["expected integer at least 1 and at most 5, found integer 9"]),
    (Annotated[float, Meta(multiple_of=0.5)], 0.3, ["expected number a multiple of 0.5, found number 0.3"]),
    (Annotated[str, Meta(pattern="^a")], "b", ["expected string matching '^a', found string 'b'"]),
    (Annotated[list[int], Meta(max_length=1)], [1, 2], ["expected array of at most 1 item, found array of 2 items"]),
    (
        Annotated[dict[str, int], Meta(min_length=1)],
        {},
        ["expected object of at least 1 property, found object with 0 properties"],
    ),
    (date, "2020-13-01", ["expected date (RFC 3339), found string '2020-13-01'"]),
    (UUID, "x", ["expected UUID, found string 'x'"]),
    (bytes, "#", ["expected string in base64, found string '#'"]),
    (
        Annotated[datetime, Meta(tz=True)],
        "2020-01-01T00:00:00",
        ["expected date and time (RFC 3339) with a time zone, found string '2020-01-01T00:00:00'"],
    ),
    (list[Positive], [{"x": -1}], ["/0: expected x is at least 0, found object with 1 property"]),
    (Empty, {"a": 1}, ["/a: expected no property of this name, found integer 1"]),
    (Box[int], {"held": "x"}, ["/held: expected integer, found string 'x'"]),
]


@every(("type_", "data", "expected"), BAD, ids=lambda x: str(x)[:30])
def test_every_fault_is_named_with_its_place(type_: Any, data: Any, expected: list[str]) -> None:
    """All of them, root first, the same from data as from text."""
    assert told(type_, data) == expected


def test_what_json_schema_calls_an_integer_decodes_as_one() -> None:
    """`3.0` and `2e0` are integers, wherever they stand; `3.5` is not."""
    assert Schema.of(Sum).decode_json('{"a": 3.0, "b": 2e0}') == Success(Sum(3, 2))
    assert Schema.of(dict[str, list[Level]]).decode({"a": [1.0]}) == Success({"a": [Level.LOW]})
    assert Schema.of(tuple[int, float]).decode([3.0, 3.0]) == Success((3, 3.0))
    assert Schema.of(int | float).decode(3.0) == Success(3.0)
    assert Schema.of(Cat | Dog).decode({"type": "cat", "lives": 9.0}) == Success(Cat(9))
    assert Schema.of(Pair).decode([1.0]) == Success(Pair(1))
    assert told(int, 3.5) == ["expected integer, found number 3.5"]


def test_integers_that_are_whole_are_held_to_their_bounds() -> None:
    """Reading `9.0` as 9 does not get it past a limit."""
    assert told(Annotated[int, Meta(le=5)], 9.0) == ["expected integer at most 5, found number 9.0"]


def test_a_value_that_does_not_conform_is_a_failure_with_its_place() -> None:
    """What a handler returned is looked at before it is sent."""
    cases: list[tuple[Any, Any, str]] = [
        (Sum, Sum(WRONG, 2), "/a: expected integer, found string 'x'"),
        (Sum, {"a": 1, "b": 2}, "expected Sum, found object with 2 properties"),
        (Sum, Cat(1), "expected Sum, found a Python Cat"),
        (str, datetime(2020, 1, 1, tzinfo=UTC), "expected string, found a Python datetime"),
        (int, True, "expected integer, found boolean true"),
        (int, "1", "expected integer, found string '1'"),
        (list[int], [1, "2"], "/1: expected integer, found string '2'"),
        (list[int], {1}, "expected array, found set of 1 item"),
        (dict[str, int], {1: 2}, "/1: expected a key that is string, found integer 1"),
        (Literal["a"], "b", "expected 'a', found string 'b'"),
        (Color, "red", "expected one of 'blue', 'red', found string 'red'"),
        (Annotated[int, Meta(ge=1)], 0, "expected integer at least 1, found integer 0"),
        (int | None, "x", "expected integer or null, found string 'x'"),
        (Sum | None, Sum(1, WRONG), "/b: expected integer, found string 'x'"),
        (Decimal, 1, "expected decimal number, found integer 1"),
        (Options, {"depth": "x"}, "/depth: expected integer, found string 'x'"),
        (Pair, Pair(WRONG), "/0: expected integer, found string 'x'"),
        (tuple[int, str], (1,), "expected array of 2 items, found array of 1 item"),
        (None, 0, "expected null, found integer 0"),
        (Never, None, "expected nothing: no value is of this type, found null"),
        (Any, object(), "expected a JSON value, found a Python object"),
        (Any, {"a": [1j]}, "/a/0: expected a JSON value, found a Python complex"),
        (str, "\ud800", "expected text of whole characters, found half a surrogate pair"),
    ]
    for type_, value, expected in cases:
        schema = Schema.of(type_)

        assert [str(f) for f in schema.encode(value).failure().faults] == [expected], type_
        assert schema.encode(value) == schema.encode_json(value)


HOLDERS: list[tuple[Any, Callable[[float], Any], str]] = [
    (float, lambda x: x, ""),
    (float | None, lambda x: x, ""),
    (list[float | None], lambda x: [None, x], "/1"),
    (dict[str, float], lambda x: {"a": x}, "/a"),
    (Any, lambda x: {"a": [x]}, "/a/0"),
    (Point, lambda x: Point(1, x), "/y"),
]


@every("number", [float("nan"), float("inf"), float("-inf")])
@every(("type_", "wrap", "location"), HOLDERS)
def test_numbers_that_json_has_not_are_faults_both_ways(number: float, type_: Any, wrap: Any, location: str) -> None:
    """NaN and the infinities are never written, as null or otherwise, and never read."""
    schema = Schema.of(type_)

    assert [fault.pointer for fault in schema.encode(wrap(number)).failure().faults] == [location]
    assert [fault.pointer for fault in schema.encode_json(wrap(number)).failure().faults] == [location]
    if type_ is not Point:
        assert [fault.pointer for fault in schema.decode(wrap(number)).failure().faults] == [location]


def test_equal_forms_of_a_value_are_taken() -> None:
    """A tuple for a list, an int for a float, a subclass of str."""

    class Name(str):
        __slots__ = ()

    pair: Any = (1, 2)
    assert Schema.of(list[int]).encode(pair) == Success([1, 2])
    assert Schema.of(float).encode(3) == Success(3)
    assert Schema.of(dict[str, str]).encode({Name("k"): Name("v")}) == Success({"k": "v"})


def test_anything_is_written_as_msgspec_writes_it() -> None:
    """Tuples, sets, dates, enums, structs inside `Any` become plain data."""
    value = {"t": (1, 2), "d": date(2020, 1, 1), "e": Color.RED, "s": Sum(1, 2), 3: "three"}

    anything: Schema[Any] = Schema.of(Any)
    encoded = anything.encode(value).unwrap()

    assert encoded == {"t": [1, 2], "d": "2020-01-01", "e": "red", "s": {"a": 1, "b": 2}, "3": "three"}


def test_what_is_encoded_is_a_fresh_copy() -> None:
    """Changing it changes nothing of the value."""
    value = {"a": [1]}

    anything: Schema[Any] = Schema.of(Any)

    Schema.of(dict[str, list[int]]).encode(value).unwrap()["a"].append(2)
    anything.encode(value).unwrap()["a"].append(2)

    assert value == {"a": [1]}


def deep(levels: int) -> Any:
    """A list in a list, and so on."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@every("type_", [Any, object, list, list[Any], dict[str, Any], Node, Sum], ids=str)
def test_values_without_end_are_failures(type_: Any) -> None:
    """10,000 levels, or a value that holds itself: neither crashes nor hangs, in any direction."""
    ring: dict[str, Any] = {}
    ring["children"] = [ring]
    schema = Schema.of(type_)

    for value in (deep(10_000), ring):
        assert isinstance(schema.decode(value), Failure)
        assert isinstance(schema.encode(value), Failure)
        assert isinstance(schema.encode_json(value), Failure)
    for text in (
        "[" * 10_000 + "]" * 10_000,
        '{"children":[' * 10_000 + "]}" * 10_000,
        '{"a":1,"b":2,"c":' + "[" * 10_000,
    ):
        assert isinstance(schema.decode_json(text), Failure)


@pytest.mark.slow
def test_nodes_without_end_are_failures() -> None:
    """Also where the type itself has no end."""
    node = Node(0)
    for index in range(10_000):
        node = Node(index, [node])
    ring = Node(1)
    ring.children = [ring]
    schema = Schema.of(Node)

    assert "nesting" in str(schema.encode(node).failure())
    assert "nesting" in str(schema.encode(ring).failure())


def test_blank_text_is_an_empty_object() -> None:
    """For every type: where `{}` does not fit, it says so."""
    assert Schema.of(Empty).decode_json("") == Success(Empty())
    assert Schema.of(Options).decode_json(b"  ") == Success(EMPTY)
    assert str(Schema.of(Sum).decode_json("").failure()).startswith("/a: expected integer, found nothing")
    assert "found object with 0 properties" in str(Schema.of(int).decode_json(" ").failure())


def test_limits_hold_for_typed_text() -> None:
    """Size, depth and doubled keys, as for text of any kind."""
    schema = Schema.of(dict[str, Any])

    assert "bytes" in str(schema.decode_json('{"a": 1}', Limits(max_bytes=3)).failure())
    assert "nesting" in str(schema.decode_json('{"a": [[1]]}', Limits(max_depth=2)).failure())
    assert "twice" in str(schema.decode_json('{"a": 1, "a": 2}', Limits(unique_keys=True)).failure())


def test_text_that_is_wrong_in_type_first_is_still_not_json() -> None:
    """A type fault at its beginning does not hide that the rest is no JSON."""
    assert "not JSON" in str(Schema.of(Sum).decode_json('{"a": "x", ').failure())
    assert str(Schema.of(Sum).decode_json('{"a": NaN, "b": 1}').failure()) == "/a: expected a finite number, found NaN"


def test_decoding_takes_plain_data_only() -> None:
    """Other Python objects are faults, where the type would take anything."""
    assert str(Schema.of(Any).decode({"a": object()}).failure()) == "/a: expected a JSON value, found a Python object"
    assert isinstance(Schema.of(Sum).decode(object()), Failure)


def test_known_plain_data_need_not_be_looked_at() -> None:
    """What `parse_json` gave is plain: saying so changes the cost, not the value."""
    data = parse_json('{"x": 1, "y": 2.5}').unwrap()

    assert Schema.of(Point).decode(data, plain=True) == Schema.of(Point).decode(data) == Success(Point(1, 2.5))


def test_the_unsafe_twins_raise_what_the_others_return() -> None:
    """The bare value, or `DecodeError` with the same failure."""
    schema = Schema.of(Sum)

    assert schema.decode_unsafe({"a": 1, "b": 2}) == schema.decode_json_unsafe('{"a":1,"b":2}') == Sum(1, 2)
    assert schema.encode_unsafe(Sum(1, 2)) == {"a": 1, "b": 2}
    assert schema.encode_json_unsafe(Sum(1, 2)) == b'{"a":1,"b":2}'
    with pytest.raises(DecodeError) as raised:
        schema.decode_json_unsafe('{"a": "x"}')
    assert raised.value.failure == schema.decode({"a": "x"}).failure()


def test_faults_may_become_anything_and_nothing_is_raised() -> None:
    """The value, or what a function makes of the faults, of data and of text, of any length and with codecs too."""
    schema, stamped, long = Schema.of(Sum), Schema.of(dict[str, Schema.EpochMillis]), " " * 200
    wrong = [fault.pointer for fault in schema.decode({"a": "x"}).failure().faults]

    def locations(faults: tuple[Fault, ...]) -> list[str]:
        return [fault.pointer for fault in faults]

    assert (
        schema.decode_or({"a": 1, "b": 2.0}, locations)
        == schema.decode_json_or('{"a":1,"b":2.0}', locations)
        == Sum(1, 2)
    )
    assert schema.decode_or({"a": "x"}, locations) == wrong == ["/a", "/b"]
    assert (
        schema.decode_json_or('{"a":"x"}', locations) == schema.decode_json_or('{"a":"x"}' + long, locations) == wrong
    )
    assert schema.decode_json_or("", locations) == schema.decode_json_or(long, locations) == wrong
    assert schema.decode_json_or("{", locations) == schema.decode_json_or("{" + long, locations) == [""]
    assert schema.decode_or(float("nan"), locations) == [""]
    assert (
        stamped.decode_or({"t": 10**30}, locations) == stamped.decode_json_or(f'{{"t": {10**30}}}', locations) == ["/t"]
    )


def test_structs_are_looked_at_once_and_those_that_hold_themselves_in_each_type() -> None:
    """What lies inside a struct is known when it lies inside another: with codecs, and without an end."""
    listed: Any = list
    inner: Any = msgspec.defstruct("Inner", [("at", Schema.EpochMillis)])
    outer: Any = msgspec.defstruct("Outer", [("inner", inner), ("again", listed[inner])])
    third: Any = msgspec.defstruct("Third", [("outer", outer)])
    stamped = inner(datetime(1970, 1, 1, tzinfo=UTC))

    for type_ in (inner, outer, listed[outer], third):
        assert "integer" in str(Schema.of(type_).json_schema())
    assert Schema.of(third).encode(third(outer(stamped, [stamped]))) == Success(
        {"outer": {"inner": {"at": 0}, "again": [{"at": 0}]}}
    )
    for type_, first in ((Wrapped, "node"), (Knot, "inside"), (Wrapped, "node")):
        data: Any = {}
        for level in range(9999):
            data = {"node" if (level % 2 == 0) == (first == "node") else "inside": data}
        assert "levels of nesting" in str(Schema.of(type_).decode(data).failure())
        assert Schema.of(type_).decode_json(msgspec.json.encode({first: {}})).unwrap() is not None


# Holds itself by way of another, which is not there yet: a name stands for it.
Knot: Any = msgspec.defstruct("Knot", [("inside", "Wrapped | None", None)], module=__name__)
Wrapped: Any = msgspec.defstruct("Wrapped", [("node", Knot, msgspec.field(default_factory=Knot))])


class NoFormError:
    """A class that msgspec knows nothing of."""


class Holder(msgspec.Struct):
    """Of classes that msgspec knows nothing of."""

    home: dict[str, list[NoFormError]]


@every(
    ("type_", "said"),
    [
        (NoFormError, "NoFormError"),
        (Holder, "Holder.home[][]"),
        (str | UUID, "str-like"),
        (Sum | City, "tagged"),
        (5, "5"),
        (range, "range"),
    ],
)
def test_a_type_without_a_json_form_is_refused_with_place_and_remedy(type_: Any, said: str) -> None:
    """When the schema is first used; the message says what to do."""
    schema = Schema.of(type_)

    for use in (schema.json_schema, lambda: schema.decode({}), lambda: schema.encode(None)):
        with pytest.raises(SchemaError, match="codec") as raised:
            use()
        assert said in str(raised.value)


def test_a_type_in_quotes_is_refused_immediately() -> None:
    """Type checkers accept a string as a type, so fxai names the mistake."""
    with pytest.raises(SchemaError, match=r"got the string 'int'\. Pass the type itself, without quotes"):
        Schema.of("int")


@every(
    "type_",
    [
        dict[tuple[int, int], int],
        dict[frozenset[str], int],
        dict[bool, int],
        dict[int | None, str],
        dict[Literal["a", None], str],
        Mapping[tuple[str, ...], int],
        list[dict[City, int]],
    ],
)
def test_a_mapping_whose_keys_json_cannot_represent_is_refused(type_: Any) -> None:
    """When the tool is made, and not after the handler ran."""
    with pytest.raises(SchemaError, match="cannot be the key of a mapping"):
        Tool.make("count", description="Counts.", success=type_)


@every(
    ("type_", "value"),
    [
        (dict[str, int], {"a": 1}),
        (dict[int, int], {1: 1}),
        (dict[float, int], {1.5: 1}),
        (dict[bytes, int], {b"a": 1}),
        (dict[UUID, int], {UUID(int=1): 1}),
        (dict[Literal["a", "b"], int], {"a": 1}),
        (dict[str | int, int], {"a": 1}),
        (dict[Any, int], {"a": 1}),
    ],
)
def test_a_mapping_whose_keys_have_a_text_is_encoded_and_decoded(type_: Any, value: Any) -> None:
    """The decoded value is the value that was encoded."""
    schema = Schema[Any].of(type_)

    assert schema.decode(schema.encode_unsafe(value)).unwrap() == value


def test_an_annotation_that_names_nothing_is_refused() -> None:
    """The message names the class and the remedy."""

    class Lost(msgspec.Struct):
        at: Nowhere  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(SchemaError, match=r"cannot resolve.*Lost.*Nowhere"):
        Schema.of(Lost).json_schema()


def test_a_schema_is_a_value() -> None:
    """Equal by type, hashable, immutable, picklable, one for each type; a schema passes through."""
    schema = Schema.of(Sum)

    assert schema is Schema.of(Sum)
    assert Schema.of(schema) is schema
    assert schema != Schema.of(City)
    assert len({schema, Schema.of(Sum), pickle.loads(pickle.dumps(schema))}) == 1
    assert repr(schema) == "Schema.of(Sum)"
    assert schema.type is Sum
    with pytest.raises(AttributeError, match="immutable"):
        schema.type = City  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_schema_describes_itself_by_its_docstring_or_meta() -> None:
    """A dataclass's generated docstring is none."""

    class Silent(msgspec.Struct):
        x: int

    @dataclass
    class Generated:
        x: int

    assert Schema.of(Sum).description == "Two numbers."
    assert Schema.of(Annotated[Sum, Meta(description="A pair.")]).description == "A pair."
    assert Schema.of(Generated).description is None
    assert Schema.of(Silent).description is None
    assert Schema.of(int).description is None
    assert Schema.of(Never).description is None


@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [(int | None, 3.0, 3), (list[int | str], [1.0], [1]), (dict[str, int | None], {"a": -0.0}, {"a": 0})],
)
def test_a_whole_number_with_a_point_is_an_integer_in_a_union_too(type_: Any, data: Any, value: Any) -> None:
    """What JSON Schema calls an integer decodes as one; half a number still does not."""
    schema = Schema[Any].of(type_)

    assert schema.decode(data) == Success(value)
    assert isinstance(Schema.of(int | None).decode(0.5), Failure)


def test_a_type_whose_notes_cannot_be_hashed_has_a_schema() -> None:
    """Each is made anew, and is equal to every other of the same type."""
    first, second = (Schema.of(Annotated[int, Meta(ge=1), ["a note"]]) for _ in range(2))

    assert first == second
    assert hash(first) == hash(second)
    assert first is not second
    assert first.json_schema() == {"type": "integer", "minimum": 1}
    assert str(first.decode(0).failure()) == "expected integer at least 1, found integer 0"
