"""Numbers with one hash, with which whoever writes the data could make a set of it take quadratic time."""

from __future__ import annotations

import json
import sys
import uuid
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from fxai.schema import JsonSchema, Schema
from fxai.schema.data import identity, number_identity
from tests.kit.every import every

MODULUS = sys.hash_info.modulus


class Point(msgspec.Struct, frozen=True):
    """A value that hashes as its numbers do."""

    x: int


def _uuid(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


def _texts(of: Any) -> list[str]:
    return [str(of(number * MODULUS)) for number in range(1, 200)]


NUMBERS = [number * MODULUS for number in range(1, 200)]
PAIRS = [[left * MODULUS, right * MODULUS] for left in range(1, 20) for right in range(1, 20)]
HOSTILE: dict[str, tuple[Any, Any]] = {
    "a set": (set[int], NUMBERS),
    "a set that cannot be changed": (frozenset[int], NUMBERS),
    "a set of anything": (set[Any], NUMBERS),
    "a set without a type": (set, NUMBERS),
    "a set inside": (dict[str, list[set[int]]], {"a": [NUMBERS]}),
    "a set of pairs": (set[tuple[int, int]], PAIRS),
    "a set of structs": (set[Point], [{"x": number} for number in NUMBERS]),
    "a set of decimals": (set[Decimal], _texts(int)),
    "a set of decimals by a codec": (set[Schema.DecimalString], _texts(int)),
    "a set with a bound": (Annotated[set[int], msgspec.Meta(min_length=1)], NUMBERS),
    "a set of identifiers": (set[uuid.UUID], _texts(_uuid)),
    "keys": (dict[int, int], dict.fromkeys(_texts(int), 1)),
    "keys that are decimals": (dict[Decimal, int], dict.fromkeys(_texts(int), 1)),
    "keys that are identifiers": (dict[uuid.UUID, int], dict.fromkeys(_texts(_uuid), 1)),
}


@every("name", HOSTILE)
def test_many_values_of_one_hash_are_refused_before_they_are_hashed(name: str) -> None:
    """As data and as text, wherever the set is."""
    tp, data = HOSTILE[name]
    schema: Schema[Any] = Schema.of(tp)

    for failure in (schema.decode(data).failure(), schema.decode_json(json.dumps(data)).failure()):
        assert "values with different hashes" in str(failure)


def test_honest_numbers_are_taken() -> None:
    """Large ones, a few of one hash, and one that is there often; a list takes any."""
    schema = Schema.of(set[int])

    assert len(schema.decode([number * (MODULUS - 1) for number in range(5_000)]).unwrap()) == 5_000
    assert len(schema.decode(NUMBERS[:60]).unwrap()) == 60
    assert schema.decode([MODULUS] * 1_000).unwrap() == {MODULUS}
    assert Schema.of(list[int]).decode(NUMBERS).unwrap() == NUMBERS


@every("schema", [{"uniqueItems": True}, {"items": {"enum": NUMBERS}}, {"contains": {"const": NUMBERS[-1]}}])
def test_a_schema_compares_numbers_of_one_hash(schema: dict[str, Any]) -> None:
    """`uniqueItems`, `enum` and `const` decide about them as about other numbers."""
    document = JsonSchema.of(schema)

    assert document.validate(NUMBERS) == ()
    assert document.validate([0, 0]) != ()


def test_keys_of_numbers_have_hashes_of_their_own() -> None:
    """Equal numbers share a key, also an integer and a float; keys of numbers with one hash have different hashes."""
    assert len({hash(number) for number in NUMBERS}) == 1
    assert len({hash(number_identity(number)) for number in NUMBERS}) == len(NUMBERS)
    assert identity([2**70, {"a": -(2.0**70)}]) == identity([2.0**70, {"a": -(2**70)}])
    assert identity(2**70) != identity(2**70 + 1)
