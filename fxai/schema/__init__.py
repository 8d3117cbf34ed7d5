"""Level 1. Python types and JSON, both ways: schemas, codecs, JSON Schema documents, and text read within limits."""

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
