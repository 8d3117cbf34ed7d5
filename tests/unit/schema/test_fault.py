"""Faults, failures and pointers."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta

from fxai.schema import DecodeError, DecodeFailure, Fault, Schema, SchemaError
from fxai.schema.fault import found_in, in_order, pointer_of, pointer_tokens
from tests.kit.every import every


class Moment(msgspec.Struct):
    """A moment, whose JSON is a number."""

    at: Schema.EpochMillis


@dataclass
class Visit:
    """A moment as a dataclass."""

    at: Schema.EpochMillis


class Event(NamedTuple):
    """A moment as a named tuple."""

    at: Schema.EpochMillis


@every("kind", [Moment, Visit, Event])
@every(("value", "found"), [(5, "integer 5"), (None, "null"), ({"at": 1}, "object with 1 property")])
def test_a_value_of_another_class_is_found_at_its_location(kind: Any, value: Any, found: str) -> None:
    """An error of encoding names the location, the expected class, and the value."""
    failure = Schema[Any].of(list[kind]).encode([value]).failure()

    assert failure.faults == (Fault("/0", kind.__name__, found),)


def test_a_failure_reads_as_one_line() -> None:
    """Where, what was expected, what was found; faults separated by semicolons."""
    failure = DecodeFailure((Fault("/a", "integer", "string 'x'"), Fault("", "object", "nothing")))

    assert str(failure) == "/a: expected integer, found string 'x'; expected object, found nothing"


def test_a_failure_is_a_value() -> None:
    """Comparable, hashable, picklable, and JSON both ways."""
    failure = DecodeFailure((Fault("/a", "integer", "null"),))

    assert failure == DecodeFailure((Fault("/a", "integer", "null"),))
    assert len({failure, pickle.loads(pickle.dumps(failure))}) == 1
    assert msgspec.json.decode(msgspec.json.encode(failure), type=DecodeFailure) == failure


def test_a_failure_without_faults_is_refused() -> None:
    """There is always something that went wrong."""
    with pytest.raises(ValueError, match="at least one Fault"):
        DecodeFailure(())


def test_the_exception_carries_the_failure_through_pickle() -> None:
    """So it can cross to another process."""
    error = DecodeError(DecodeFailure((Fault("/a", "integer", "null"),)))

    again = pickle.loads(pickle.dumps(error))

    assert again.failure == error.failure
    assert str(again) == "/a: expected integer, found null"


def test_a_schema_error_is_a_mistake_of_type_and_value() -> None:
    """It is caught as either."""
    assert issubclass(SchemaError, TypeError)
    assert issubclass(SchemaError, ValueError)


@pytest.mark.parametrize("path", [[], ["a"], ["a/b", "~", 0], ["", "~1", "~01"]])
def test_a_pointer_gives_back_its_tokens(path: list[str | int]) -> None:
    """Escapes of RFC 6901, both ways."""
    assert pointer_tokens(pointer_of(path)) == [str(token) for token in path]


@every(
    ("value", "told"),
    [
        (None, "null"),
        (False, "boolean false"),
        (7, "integer 7"),
        (2.5, "number 2.5"),
        (float("-inf"), "-Infinity"),
        ("x" * 1000, f"string '{'x' * 40}… (1000 characters)'"),
        (10**1000, "integer of 3322 bits"),
        ([], "array of 0 items"),
        ((1,), "array of 1 item"),
        ({1, 2}, "set of 2 items"),
        ({"a": 1}, "object with 1 property"),
        (object(), "a Python object"),
    ],
)
def test_what_was_found_is_told_in_few_words(value: object, told: str) -> None:
    """Whatever the size of the value."""
    assert found_in(value) == told


def test_faults_come_in_the_order_of_the_value() -> None:
    """Root first; what is missing behind what is there; each once."""
    faults = [Fault(pointer, "x", "y") for pointer in ("/z", "/b/1", "/a", "", "/b/0", "/a")]

    assert [fault.pointer for fault in in_order(faults, {"b": [1, 2], "a": 3})] == ["", "/b/0", "/b/1", "/a", "/z"]


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    """An object that refuses other names."""

    count: int


class Cat(msgspec.Struct, tag="cat"):
    """One of two alternatives."""

    lives: int


class Dog(msgspec.Struct, tag="dog"):
    """The other alternative."""

    name: str


TYPES: list[Any] = [
    *(int, float, str, bool, None, int | None, int | str, date, timedelta, UUID, bytes),
    *(list[int], set[int], tuple[int, str], tuple[int, ...], dict[str, int], Literal["a", "b"], Literal["a", None]),
    *(Annotated[int, Meta(ge=1, le=9)], Annotated[float, Meta(multiple_of=0.5)], Annotated[str, Meta(min_length=4)]),
    *(Annotated[list[int], Meta(min_length=2)], Annotated[dict[str, int], Meta(max_length=0)]),
    *(Closed, Cat, Cat | Dog, Closed | None, list[Closed | None], dict[str, Cat | Dog]),
]
WRONG: list[Any] = [
    *(None, True, 0, 2.25, "abc", [], [1, 2, 3], ["x", "y"], {}, {"count": "1"}, {"count": 1, "more": 2}),
    *({"type": "cat"}, {"type": "cow"}, {"type": "dog", "name": 1}, [{"count": None}], {"k": {"type": "dog"}}),
]


@every("type_", TYPES, ids=str)
def test_a_type_and_its_document_report_the_same_errors(type_: Any) -> None:
    """The words and the places are the same for a type and for the JSON Schema that fxai derives from the type."""
    schema = Schema.of(type_)
    for value in WRONG:
        decoded = schema.decode(value)
        told = schema.document.validate(value)
        if told:  # a format is an annotation of a document
            assert decoded.failure().faults == told, value
