"""The encoding law, over types that nobody chose: data and schema and decoder say the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from fxai.schema import JsonSchema, Schema
from fxai.testing.strategies import instances, json_values, not_instances, schemas, values
from tests.kit.every import every
from tests.kit.oracle import oracle
from tests.kit.trials import examples

LAW = settings(max_examples=examples(50))


@LAW
@given(schemas(exact=False), st.data())
def test_decoding_undoes_encoding(schema: Schema[Any], draw: st.DataObject) -> None:
    """decode(encode(x)) == x, as data and as text, for every x that was ever decoded."""
    value = draw.draw(values(schema))
    encoded = schema.encode(value).unwrap()

    assert schema.decode(encoded) == Success(value)
    assert schema.decode_json(schema.encode_json(value).unwrap()) == Success(value)
    mended = schema.encode_mended(value)
    assert (json.loads(bytes(mended)) if isinstance(mended, msgspec.Raw) else mended) == encoded
    assert json.loads(json.dumps(encoded)) == encoded


@LAW
@given(schemas(), st.data())
def test_the_document_takes_what_the_decoder_takes(schema: Schema[Any], draw: st.DataObject) -> None:
    """Valid data decodes, near misses do not, and of any data all say the same, also `jsonschema`."""
    good, bad = draw.draw(instances(schema)), draw.draw(not_instances(schema))

    assert isinstance(schema.decode(good), Success)
    assert isinstance(schema.decode(bad), Failure)
    for value in (good, bad, draw.draw(json_values())):
        taken = isinstance(schema.decode(value), Success)

        assert (schema.document.validate(value) == ()) is oracle(schema.json_schema())(value) is taken


@LAW
@given(schemas(exact=False), st.data())
def test_what_is_encoded_is_what_the_document_takes(schema: Schema[Any], draw: st.DataObject) -> None:
    """By the engine and `jsonschema`; also for dates, of which the document asks less than the decoder."""
    encoded = schema.encode(draw.draw(values(schema))).unwrap()

    assert schema.document.validate(encoded) == ()
    assert oracle(schema.json_schema())(encoded)


@LAW
@given(schemas(exact=False))
def test_a_derived_document_is_json_schema_and_nothing_else(schema: Schema[Any]) -> None:
    """It passes the check for strangers' documents and holds no keyword of another specification."""
    document = schema.json_schema()

    assert JsonSchema.of(document) == schema.document
    assert "discriminator" not in json.dumps(document)


@every(
    ("type_", "taken", "refused"),
    [
        (
            Schema.IntString,
            ["0", "-12", "007", "9" * 4300, "-" + "7" * 4299],
            ["", " 1", "1_0", "+1", "1.0", "٣", "1\n", "9" * 4301],
        ),
        (
            Schema.DecimalString,
            ["1.50", "-.5", "1.", "1E+5", "0e-8"],
            ["NaN", "Infinity", "1_0", " 1", "1e999999999", "٣"],
        ),
        (
            Schema.EpochMillis,
            [0, -62135596800000, 253402300799999],
            [-62135596800000 - 1, 253402300799999 + 1, 0.5, "0"],
        ),
        (Schema.EpochSeconds, [0, -62135596800, 253402300799], [-62135596800 - 1, 253402300799 + 1]),
        (Schema.DurationSeconds, [0, 1.5, -86399999913600, 86399999913600], [86399999913601, -86399999913601]),
        (Schema.DurationMillis, [0.001, 2**53 - 1], [2**53, -(2**53)]),
    ],
)
def test_shipped_codecs_say_their_bounds(type_: Any, taken: list[Any], refused: list[Any]) -> None:
    """To the last value, in the document as in the decoder, and big numbers survive."""
    schema = Schema[Any].of(type_)

    for value in (*taken, *refused):
        decoded = schema.decode(value)

        assert isinstance(decoded, Success) == (value in taken)
        assert (schema.document.validate(value) == ()) == (value in taken)
    assert all(
        schema.decode(schema.encode_unsafe(schema.decode_unsafe(value))) == schema.decode(value) for value in taken
    )
