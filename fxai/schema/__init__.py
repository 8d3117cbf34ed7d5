"""Level 1. Python types and JSON, both ways: schemas, codecs, JSON Schema documents, and text read within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later

if TYPE_CHECKING:
    from fxai.schema.codec import Schema
    from fxai.schema.codecs import Codec
    from fxai.schema.data import Empty
    from fxai.schema.fault import DecodeError, DecodeFailure, Fault, SchemaError
    from fxai.schema.json_schema import JsonSchema
    from fxai.schema.parsing import Limits, parse_json, parse_json_unsafe

__all__ = [
    "Codec",
    "DecodeError",
    "DecodeFailure",
    "Empty",
    "Fault",
    "JsonSchema",
    "Limits",
    "Schema",
    "SchemaError",
    "parse_json",
    "parse_json_unsafe",
]

# fxai imports a module when a program first uses a name from it, because `fxai --help` needs none of these modules.
_LATER = {
    "codec": "Schema",
    "codecs": "Codec",
    "data": "Empty",
    "fault": "DecodeError DecodeFailure Fault SchemaError",
    "json_schema": "JsonSchema",
    "parsing": "Limits parse_json parse_json_unsafe",
}

if not TYPE_CHECKING:  # because a checker would accept any name
    __getattr__ = import_later(__name__, _LATER)
