"""Level 1. Python types and JSON, both ways: schemas, codecs, JSON Schema documents, and text read within limits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
_MODULES = {
    "codec": "Schema",
    "codecs": "Codec",
    "data": "Empty",
    "fault": "DecodeError DecodeFailure Fault SchemaError",
    "json_schema": "JsonSchema",
    "parsing": "Limits parse_json parse_json_unsafe",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # because a checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = found
        return found
