"""Patterns of Python types, which are decided within a set time."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import msgspec
import pytest
from msgspec import Meta

from fxai.schema import Schema, SchemaError
from fxai.schema.pattern import PatternTimeoutError, shared_matcher
from fxai.schema.plan import plan_of
from tests.kit.every import every

PATTERNS = ["", "^[a-z]+$", r"\S+", "^https?://", "^(a+)+$", "^(?:ab|ab)*c$", r"^[^@]+@[^@]+\.[^@]+$", "(?i)^a+$"]


@every("pattern", PATTERNS)
def test_every_pattern_is_searched_within_the_set_time(pattern: str) -> None:
    """No pattern is given to `re`, whatever it looks like; JSON Schema states it."""
    tp = Annotated[str, Meta(pattern=pattern)]

    assert plan_of(tp).step is not None
    assert pattern == "" or pattern not in str(plan_of(tp).wire.__origin__)
    assert Schema.of(tp).json_schema() == {"type": "string", "pattern": pattern}


EVIL = "^(a+)+$"
Evil: TypeAlias = Annotated[str, Meta(pattern=EVIL)]
EVIL_TYPE: Any = Evil
Counted: TypeAlias = Annotated[int, Schema.codec(wire=str, decode=len, encode=lambda many: "a" * many)]


class Holder(msgspec.Struct):
    """A place with bounds of its own beside the pattern."""

    name: Annotated[str, Meta(pattern=EVIL, min_length=2, description="Of a.")]


PLACES: dict[str, tuple[Any, Any, Any, str]] = {
    "a value": (Evil, "aa", "ab", ""),
    "an item": (list[Evil], ["aa"], ["ab"], "/0"),
    "an item of a tuple": (tuple[int, Evil], [1, "aa"], [1, "ab"], "/1"),
    "a key": (dict[Evil, int], {"aa": 1}, {"ab": 1}, "/ab"),
    "a member": (Holder, {"name": "aa"}, {"name": "ab"}, "/name"),
    "a member inside": (dict[str, list[Holder]], {"k": [{"name": "aa"}]}, {"k": [{"name": "ab"}]}, "/k/0/name"),
    "a union": (Annotated[str | None, Meta(pattern=EVIL)], "aa", "ab", ""),
    "an arm": (EVIL_TYPE | int, "aa", "ab", ""),
    "behind a codec": (Annotated[Counted, Meta(pattern=EVIL)], "aa", "ab", ""),
    "inside of a codec": (
        Annotated[int, Schema.codec(wire=EVIL_TYPE, decode=len, encode=lambda many: "a" * many)],
        "aa",
        "ab",
        "",
    ),
}


@every("location", PLACES)
def test_it_holds_wherever_it_stands(location: str) -> None:
    """What fits is taken and written back; what does not is told with its place, in the words of any pattern."""
    tp, good, bad, pointer = PLACES[location]
    schema: Schema[Any] = Schema.of(tp)

    value = schema.decode(good).unwrap()
    assert schema.decode_json(json.dumps(good)).unwrap() == value
    assert schema.encode(value).unwrap() == json.loads(json.dumps(good))
    for failure in (schema.decode(bad).failure(), schema.decode_json(json.dumps(bad)).failure()):
        (fault,) = failure.faults
        assert (fault.pointer, fault.expected) == (pointer, f"string matching {EVIL!r}")


def test_a_value_is_held_to_it_on_its_way_out() -> None:
    """What does not match is not written."""
    assert "matching" in str(Schema.of(Evil).encode("ab").failure())


def test_bounds_and_descriptions_beside_it_stay() -> None:
    """Only the pattern is taken from msgspec."""
    schema = Schema.of(Holder)

    assert (
        str(schema.decode({"name": "a"}).failure())
        == "/name: expected string of at least 2 characters and matching '^(a+)+$', found string 'a'"
    )
    assert schema.json_schema()["properties"]["name"] == {
        "type": "string",
        "pattern": EVIL,
        "description": "Of a.",
        "minLength": 2,
    }


@every(
    ("pattern", "text"),
    [(EVIL, "a" * 60 + "!"), (EVIL, "a" * 100_000 + "!"), ("^(?:ab|ab)*c$", "ab" * 40), ("^(?:a|b|ab)*c$", "ab" * 40)],
)
def test_a_text_that_would_take_forever_is_decided(pattern: str, text: str) -> None:
    """`re` would search longer than the world exists."""
    assert pattern in str(Schema.of(Annotated[str, Meta(pattern=pattern)]).decode(text).failure())


def test_all_patterns_of_one_decoding_have_one_time() -> None:
    """However many texts there are: once it is used up, no further one is searched."""
    with shared_matcher() as outer:
        with shared_matcher() as inner:
            assert inner is outer
        outer.late = EVIL
        failure = Schema.of(list[Evil]).decode(["aa", "aa"]).failure()
        with pytest.raises(PatternTimeoutError):
            outer.matches("a", "a")
    assert [fault.expected.split(" (")[0] for fault in failure.faults] == [
        "patterns that finish within 0.04 seconds"
    ] * 2
    with shared_matcher() as another:
        assert another is not outer


def test_a_pattern_that_cannot_be_searched_with_in_time_is_refused_with_its_place() -> None:
    """The message says which type, which field, which pattern, and what to write."""

    class Wide(msgspec.Struct):
        name: Annotated[str, Meta(pattern="((a{1,99}){1,99}){1,99}")]

    with pytest.raises(SchemaError) as refused:
        Schema.of(Wide).decode({"name": "a"})

    said = str(refused.value)
    assert "Wide.name" in said
    assert "((a{1,99}){1,99}){1,99}" in said
    assert "Schema.codec(" in said
