"""Laws of data that `msgspec` converts: the decoder, the search for errors, and the JSON Schema agree."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta
from returns.result import Success

from fxai.schema import Schema
from tests.kit.data import is_array, is_object
from tests.kit.trials import examples

laws = settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])

LIST: Any = list
DICT: Any = dict
TUPLE: Any = tuple
ANNOTATED: Any = Annotated


class Unit(Enum):
    """A constant that is a string."""

    METER = "m"
    FOOT = "ft"


class Level(IntEnum):
    """A constant that is a number."""

    LOW = 1
    HIGH = 2


class Box(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class with bounds of its own."""

    data: Annotated[bytes, Meta(min_length=2, max_length=4)]
    at: Annotated[datetime, Meta(tz=True)] | None = None


class Pair(NamedTuple):
    """An array with members of two kinds."""

    key: UUID
    price: Decimal = Decimal(0)


def _length(least: int, more: int | None) -> Meta:
    return Meta(min_length=least, max_length=None if more is None else least + more)


def _with(tp: Any, note: Meta | None) -> Any:
    return tp if note is None else ANNOTATED[tp, note]


def _noted(kinds: list[Any], notes: st.SearchStrategy[Meta]) -> st.SearchStrategy[Any]:
    return st.builds(_with, st.sampled_from(kinds), st.none() | notes)


def _mapping(key: Any, value: Any, note: Meta | None) -> Any:
    return _with(DICT[key, value], note)


def _optional(tp: Any) -> Any:
    return tp if tp is None else tp | None


def _array(tps: list[Any]) -> Any:
    return TUPLE[tuple(tps)]


lengths = st.builds(_length, st.integers(0, 4), st.integers(0, 4) | st.none())
zones = st.sampled_from([Meta(tz=True), Meta(tz=False)])
ranges = st.sampled_from([Meta(ge=0), Meta(gt=-1, lt=3), Meta(le=2), Meta(multiple_of=2)])
strings = _noted([str, bytes], lengths)
moments = _noted([datetime, time], zones)
plain: st.SearchStrategy[Any] = st.sampled_from(
    [date, timedelta, UUID, Decimal, Unit, Level, Literal["a", "b"], Literal[1, 2]]
)
leaves: st.SearchStrategy[Any] = st.one_of(
    strings,
    moments,
    plain,
    _noted([bytearray], lengths),
    _noted([int, float], ranges),
    st.sampled_from([bool, None, Any, Box, Pair]),
)
keys: st.SearchStrategy[Any] = st.one_of(
    strings, moments, plain, st.sampled_from([int, float, Annotated[int, Meta(ge=0)]])
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    sized = st.none() | lengths
    return st.one_of(
        inner.map(_optional),
        st.builds(_with, inner.map(LIST.__class_getitem__), sized),
        st.builds(_mapping, keys, inner, sized),
        st.lists(inner, min_size=1, max_size=2).map(_array),
        st.builds(_with, st.sampled_from([set[int], frozenset[str], set[Unit]]), sized),
    )


types: st.SearchStrategy[Any] = st.recursive(leaves, _grown, max_leaves=4)
words = st.sampled_from(
    (
        *("", "a", "b", "m", "ft", "abcd", "YQ=", "YQ", "a!", "1", "2", "-1", "01", " 1", "1.5", "1e5", "0x1", "true"),
        *("2026-11-28", "2026-13-01", "2026-11-28T00:00:00Z", "2026-11-28T00:00:00", "10:00:00", "10:00:00Z"),
        *("P1D", "PT1S", "P1M", "550e8400-e29b-41d4-a716-446655440000", "550e8400e29b41d4a716446655440000"),
    )
) | st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
scalars = st.none() | st.booleans() | st.integers(-2, 4) | st.sampled_from([0.5, 2.0, 3.0, 1e300, 2**70]) | words
members = st.dictionaries(words, scalars, max_size=2) | st.fixed_dictionaries({}, optional={"data": words, "at": words})
values: st.SearchStrategy[Any] = st.recursive(
    scalars | members,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


def _whole(value: Any) -> Any:
    """Return the data with its whole numbers as integers."""
    if is_object(value):
        return {name: _whole(item) for name, item in value.items()}
    if is_array(value):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _converts(tp: Any, value: Any) -> bool:
    """Return whether `msgspec` converts the data, or the data with integers instead of whole numbers."""
    for data in (value, _whole(value)):
        try:
            msgspec.convert(data, tp, str_keys=True)
        except (msgspec.ValidationError, OverflowError):
            continue
        return True
    return False


@laws
@given(types, values)
def test_every_path_decides_alike(tp: Any, value: Any) -> None:
    """Data, its text, and the conversion of `msgspec` succeed together, and the JSON Schema accepts this data."""
    schema = Schema.of(tp)

    decoded = schema.decode(value)

    assert decoded == schema.decode_json(msgspec.json.encode(value))
    assert isinstance(decoded, Success) == _converts(tp, value)
    if isinstance(decoded, Success):
        assert schema.document.validate(value) == ()


@laws
@given(types, values)
def test_an_error_is_reported_once_and_in_the_words_of_fxai(tp: Any, value: Any) -> None:
    """Each error of a value is reported once, and never by the message of `msgspec`."""
    result = Schema.of(tp).decode(value)

    faults = () if isinstance(result, Success) else result.failure().faults
    kinds = Counter((fault.pointer, fault.found.startswith(("key ", "name "))) for fault in faults)

    assert all(count == 1 for count in kinds.values()), faults
    assert not any(", got" in fault.expected for fault in faults)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-inf"])
def test_a_key_is_a_finite_number(name: str) -> None:
    """A mapping with numbers as keys refuses NaN and the infinities, which JSON Schema refuses too."""
    schema = Schema.of(dict[float, int])

    found = {str(schema.decode({name: 1}).failure()), str(schema.decode_json(f'{{"{name}": 1}}').failure())}

    assert found == {f"/{name}: expected a key that is number, found key {name!r}"}
    assert schema.document.validate({name: 1})


def test_the_last_of_many_keys_is_a_finite_number() -> None:
    """A mapping refuses NaN after more keys than the budget of a validation."""
    text = msgspec.json.encode({**{str(number): 0 for number in range(40_000)}, "NaN": 0})

    failure = Schema.of(dict[float, int]).decode_json(text).failure()

    assert str(failure) == "expected finite numbers as keys, found object with 40001 properties"


@pytest.mark.parametrize("data", ["", "YQ==", "eHh4eHg="])
def test_the_bounds_of_bytes_count_bytes(data: str) -> None:
    """The error of bytes in base64 states the bounds in bytes, once."""
    expected = f"expected string in base64 of at least 2 bytes and of at most 4 bytes, found string {data!r}"

    failure = Schema.of(Annotated[bytes, Meta(min_length=2, max_length=4)]).decode(data).failure()

    assert str(failure) == expected
