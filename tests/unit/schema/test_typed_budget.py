"""The budget of typed data: how many faults are told, how long they are looked for, how many values a call has.

Steps are counted, and what is not looked at is of a kind that would show it: nothing here measures time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import pytest

from fxai import Tool, Toolkit, fx
from fxai.schema import Limits, Schema, parse_json
from fxai.schema.budget import MAX_FAULTS, MAX_STEPS, MAX_VALUES
from fxai.schema.parsing import CALL_LIMITS
from tests.kit.every import every

MANY = 10 * MAX_FAULTS


class Point(msgspec.Struct):
    """Two numbers."""

    x: int
    y: int = 0


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing but its own."""

    x: int = 0


class Leaf(msgspec.Struct, tag=True):
    """An end."""

    v: int


class Node(msgspec.Struct, tag=True):
    """What holds itself."""

    inside: list[Leaf | Node]


class Event(msgspec.Struct):
    """A place with a codec."""

    at: Schema.EpochMillis


READ: list[str] = []
"""What the codec was asked to read."""


def read(wire: str) -> str:
    """A codec's way inward that remembers what it was asked."""
    READ.append(wire)
    if wire == "bad":
        raise ValueError("a good one")
    return wire


Marked: TypeAlias = Annotated[str, Schema.codec(wire=str, decode=read, encode=str)]


class Deep(msgspec.Struct):
    """What holds itself, with codecs at each level."""

    marks: list[Marked] = []
    inside: list[Deep] = []


class Numbers(msgspec.Struct):
    """What a tool takes."""

    numbers: list[int]


REFUSED: dict[str, tuple[Any, Any]] = {
    "items": (list[int], ["x"] * MANY),
    "a set": (set[int], [f"x{n}" for n in range(MANY)]),
    "a tuple": (tuple[int, ...], ["x"] * MANY),
    "values": (dict[str, int], {f"k{n}": "x" for n in range(MANY)}),
    "keys": (dict[int, int], {f"k{n}": 1 for n in range(MANY)}),
    "members": (list[Point], [{"x": "x", "y": "y"}] * MANY),
    "missing": (list[Point], [{}] * MANY),
    "beyond": (Closed, {f"k{n}": 1 for n in range(MANY)}),
    "constants": (list[Literal["a", "b"]], ["c"] * MANY),
    "tags": (list[Leaf | Node], [{"type": "Other"}] * MANY),
    "recursion": (Node, {"type": "Node", "inside": [{"type": "Leaf", "v": "x"}] * MANY}),
    "an untagged union": (list[int | str], [None] * MANY),
    "decimals": (list[Decimal], ["x"] * MANY),
    "times": (list[datetime], ["x"] * MANY),
    "a codec's wire type": (list[Event], [{"at": "x"}] * MANY),
    "a codec": (list[Event], [{"at": 10**17}] * MANY),
    "a codec among keys": (dict[Schema.IntString, int], {f"k{n}": 1 for n in range(MANY)}),
    "a codec and others": (list[Event | int], [{"at": 10**17}, "x"] * MANY),
}


@every("case", REFUSED)
@every("how", ["data", "text"])
def test_no_more_faults_are_told_than_of_raw_schemas(case: str, how: str) -> None:
    """Whatever is wrong a thousand times, a hundred of them are told, the first ones."""
    tp, data = REFUSED[case]
    schema: Schema[Any] = Schema.of(tp)
    read = schema.decode(data) if how == "data" else schema.decode_json(json.dumps(data))

    faults = read.failure().faults

    assert 0 < len(faults) <= MAX_FAULTS
    assert all(fault.expected and fault.found for fault in faults)


def test_the_first_faults_are_the_ones_that_are_told() -> None:
    """They stand in the order of the data."""
    faults = Schema.of(list[int]).decode(["x"] * MANY).failure().faults

    assert [fault.pointer for fault in faults] == [f"/{n}" for n in range(MAX_FAULTS)]


LARGE: dict[str, tuple[Any, Callable[[], Any], str]] = {
    "an item": (list[int], lambda: [1] * (2 * MAX_STEPS) + ["x"], f"/{2 * MAX_STEPS}"),
    "a member": (list[Point], lambda: [{"x": 1}] * MAX_STEPS + [{"x": "x"}], f"/{MAX_STEPS}"),
    "a value": (dict[str, int], lambda: {f"k{n}": n for n in range(2 * MAX_STEPS)} | {"last": "x"}, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE)
def test_what_is_wrong_beyond_the_steps_is_told_as_the_decoder_says_it(case: str) -> None:
    """Data that is too large to be gone through is refused all the same, at the place that the decoder names."""
    tp, make, location = LARGE[case]
    data = make()
    schema: Schema[Any] = Schema.of(tp)

    for failure in (schema.decode(data).failure(), schema.decode_json(json.dumps(data)).failure()):
        (fault,) = failure.faults
        assert fault.pointer.startswith(location)
        assert "int" in fault.expected


def test_whole_numbers_are_read_as_integers() -> None:
    """`2.0` is an integer also in large data."""
    schema = Schema.of(list[int])

    assert schema.decode([1] * (2 * MAX_STEPS) + [2.0]).unwrap()[-1] == 2
    assert schema.decode([1] * (MAX_STEPS // 4) + [2.0]).unwrap()[-1] == 2
    assert schema.decode([2.0] * (MAX_STEPS // 4)).unwrap()[-1] == 2


def test_codecs_are_asked_about_refused_data_a_limited_number_of_times() -> None:
    """However large the data is, and however often a walk could ask again."""
    READ.clear()
    schema: Schema[Any] = Schema.of(list[Marked])
    data = ["good"] * MAX_STEPS + ["bad"]

    failure = schema.decode(data).failure()

    assert "a good one" in str(failure)
    assert len(READ) - len(data) <= MAX_STEPS // 4 + 1


def test_a_codec_deep_inside_is_asked_about_good_data_a_limited_number_of_times() -> None:
    """Each class around good data is made once more to hear what it says: that counts by what lies inside of it."""
    READ.clear()
    data: dict[str, Any] = {"marks": ["good"] * 1_000}
    for _ in range(60):
        data = {"inside": [data]}
    data = {"inside": [data, {"marks": ["bad"]}]}
    schema: Schema[Any] = Schema.of(Deep)

    failure = schema.decode(data).failure()

    assert "a good one" in str(failure)
    assert len(READ) <= MAX_STEPS


# ---- how many values


COUNTED: dict[str, Callable[[int], Any]] = {
    "items": lambda many: [1] * (many - 1),
    "arrays": lambda many: list[Any]([list[Any]()] * (many - 1)),
    "members": lambda many: {f"k{n}": n for n in range(many - 1)},
    "nested": lambda many: [[1]] * ((many - 1) // 2),
}


@pytest.mark.parametrize("case", COUNTED)
def test_text_holds_no_more_values_than_its_limit(case: str) -> None:
    """Arrays, objects and what they hold count; commas and brackets inside of strings do not."""
    limits = Limits(max_values=1_001)
    most, more = json.dumps(COUNTED[case](1_001)), json.dumps(COUNTED[case](1_003))

    assert parse_json(most, limits).unwrap()
    assert str(parse_json(more, limits).failure()) == "expected at most 1001 values in JSON text, found more"


def test_text_inside_of_strings_is_no_value() -> None:
    """A long text with commas, brackets, quotes and backslashes is one value."""
    text = json.dumps({"a": ',[{"\\' * 5_000})

    assert parse_json(text, Limits(max_values=2)).unwrap()


@pytest.mark.parametrize("how", ["data", "text"])
def test_a_call_has_no_more_values_than_the_budget(how: str) -> None:
    """A handler is not run with more; the model is told, as of other arguments that do not fit."""
    ran: list[int] = []
    tool = Tool.make("sum_up", parameters=Numbers, success=int)
    kit = Toolkit.make(tool)

    def sum_up(params: Numbers) -> Any:
        ran.append(len(params.numbers))
        return fx.succeed(0)

    handlers = kit.to_layer(tool.handler(sum_up))

    def outcome(many: int) -> Any:
        data = {"numbers": [1] * many}
        called = kit.call("sum_up", data) if how == "data" else kit.call_json("sum_up", json.dumps(data))
        return fx.run(called.provide(handlers))

    assert not outcome(MAX_VALUES - 2).is_failure
    refused = outcome(MAX_VALUES)
    assert refused.is_failure
    assert f"at most {MAX_VALUES} values" in str(refused.result)
    assert ran == [MAX_VALUES - 2]
    assert CALL_LIMITS.max_values == MAX_VALUES


@pytest.mark.parametrize(
    ("tp", "value"),
    [(list[int], ["x"] * MANY), (dict[str, int], {str(n): None for n in range(MANY)}), (list[Point], [1] * MANY)],
)
def test_no_more_faults_of_a_python_value_are_told(tp: Any, value: Any) -> None:
    """A value that is encoded has the same limit as data that is decoded; a good one has none."""
    assert len(Schema.of(tp).encode(value).failure().faults) == MAX_FAULTS
    short: list[tuple[int, ...]] = [(1,)]
    assert Schema.of(list[tuple[int, ...]]).encode(short * 2 * MANY).unwrap() == [[1]] * 2 * MANY
