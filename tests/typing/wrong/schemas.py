"""Values of another type than the schema's, and changes to what nobody can change."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fxai.schema import DecodeFailure, Fault, JsonSchema, Schema


class Stamp(msgspec.Struct, frozen=True):
    """A moment."""

    at: Schema.EpochMillis


stamps = Schema.of(Stamp)
Stamp(1000)  # wrong: the Python type is datetime
Stamp("now")  # wrong: nor is it a string
stamps.encode({"at": 1000})  # wrong: not a Stamp
stamps.encode_json_unsafe(3)  # wrong: not a Stamp
number: int = stamps.decode_unsafe({})  # wrong: a Stamp
others: Schema[int] = stamps  # wrong: another type
stamps.type = int  # wrong: immutable
Schema.codec(wire=int, decode=str.upper, encode=int)  # wrong: decode takes the wire type
Schema.codec(str, int, str)  # wrong: keywords only
DecodeFailure(("x",))  # wrong: faults are Fault
Fault("/a", "integer")  # wrong: what was found is missing
JsonSchema.of({}).validate(3, engine="regex")  # wrong: one engine validates
JsonSchema.of([])  # wrong: no document
Good = Annotated[int, Schema.codec(wire=str, decode=int, encode=str)]
