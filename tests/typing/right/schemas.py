"""Schemas know their type: what decoding gives, what encoding takes, and codecs in annotations are plain types."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypedDict, assert_type

import msgspec
from returns.result import Failure, Result

from fxai.schema import Codec, DecodeFailure, Fault, JsonSchema, Limits, Schema, parse_json

NumberFromString = Annotated[int, Schema.codec(wire=str, decode=int, encode=str)]


class Stamp(msgspec.Struct, frozen=True):
    """A moment and more."""

    at: Schema.EpochMillis
    since: Schema.EpochSeconds | None = None
    cost: Schema.DecimalString = Decimal(0)
    takes: Schema.DurationSeconds = timedelta(0)
    number: NumberFromString = 0
    big: Annotated[Schema.IntString, msgspec.Meta(description="Any size.")] = 0


class Options(TypedDict):
    """Keys and values."""

    name: str


STAMPS = Schema.of(Stamp)
assert_type(STAMPS, Schema[Stamp])
assert_type(STAMPS.decode({}), Result[Stamp, DecodeFailure])
assert_type(STAMPS.decode_json("{}", Limits(unique_keys=True)), Result[Stamp, DecodeFailure])
assert_type(STAMPS.decode_unsafe({}), Stamp)
assert_type(STAMPS.decode_json_unsafe(b"{}"), Stamp)
assert_type(STAMPS.encode(Stamp(datetime.now().astimezone())), Result[Any, DecodeFailure])
assert_type(STAMPS.encode_json_unsafe(Stamp(datetime.now().astimezone())), bytes)
assert_type(STAMPS.json_schema(), dict[str, Any])
assert_type(STAMPS.document, JsonSchema)
assert_type(STAMPS.description, str | None)
assert_type(Stamp(datetime.now().astimezone()).at, datetime)
assert_type(Stamp(datetime.now().astimezone()).cost, Decimal)
assert_type(Stamp(datetime.now().astimezone()).number, int)

assert_type(Schema.of(STAMPS), Schema[Stamp])
assert_type(Schema.of(int), Schema[int])
assert_type(Schema.of(list[int]), Schema[list[int]])
assert_type(Schema.of(dict[str, Stamp]), Schema[dict[str, Stamp]])
assert_type(Schema.of(tuple[int, str]).decode_unsafe([1, "a"]), tuple[int, str])
assert_type(Schema.of(Options), Schema[Options])
assert_type(Schema.of(None), Schema[None])
maybe: Schema[int | None] = Schema.of(int | None)
anything: Schema[Any] = Schema.of(Any)
moments: Schema[datetime] = Schema.of(Schema.EpochMillis)

assert_type(Schema.codec(wire=str, decode=int, encode=str), Codec)
assert_type(parse_json("{}"), Result[object, DecodeFailure])
assert_type(JsonSchema.of({"type": "object"}).validate({}), tuple[Fault, ...])


def read(text: str) -> str:
    """A result keeps both types."""
    result = STAMPS.decode_json(text)
    if isinstance(result, Failure):
        return str(result)
    assert_type(STAMPS.decode_json(text).unwrap(), Stamp)
    assert_type(result.map(lambda stamp: stamp.at), Result[datetime, DecodeFailure])
    assert_type(result.alt(lambda failure: failure.faults[0].pointer), Result[Stamp, str])
    return result.map(lambda stamp: str(stamp.at)).unwrap()
