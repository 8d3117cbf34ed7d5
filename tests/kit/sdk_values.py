"""Values of an official SDK's response types: every field is filled, and every variant of a union occurs."""

from __future__ import annotations

import types
from itertools import count
from typing import Any, Literal, Union

import typing_extensions
from pydantic import BaseModel

__all__ = ["samples"]

_numbers = count(1001)
_UNIONS: tuple[Any, ...] = (Union, types.UnionType)


def samples(kind: Any, depth: int = 0) -> list[Any]:
    """Plain data of a type: as many values as it takes to have each of its variants, all texts and numbers different.

    What is base64 on the wire, or must be text of another form, is a text like any other.
    """
    origin, arguments = typing_extensions.get_origin(kind), typing_extensions.get_args(kind)
    if depth > 6:
        return []
    if origin is typing_extensions.Annotated:
        return samples(arguments[0], depth)
    if origin in _UNIONS:
        return [one for part in arguments if part is not type(None) for one in samples(part, depth)]
    if origin is Literal:
        return [arguments[0]]
    if origin is list:
        inside = samples(arguments[0], depth + 1)
        return [inside] if inside else []
    if origin is dict:
        return [{f"key {next(_numbers)}": one} for one in samples(arguments[1], depth + 1)[:1]]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _records(kind, depth)
    return [_leaf(kind)]


def _records(kind: type[BaseModel], depth: int) -> list[Any]:
    """Records of a type: field by field in turn, so that each sample of each field is in one."""
    fields: dict[str, list[Any]] = {}
    for name, field in kind.model_fields.items():
        fields[field.alias or name] = samples(field.annotation, depth + 1)
    size = max((len(values) for values in fields.values()), default=1)
    return [{name: values[n % len(values)] for name, values in fields.items() if values} for n in range(size)]


def _leaf(kind: Any) -> Any:
    number = next(_numbers)
    if kind is bool:
        return True
    if kind is int:
        return number
    if kind is float:
        return number + 0.5
    return f"text {number}" if kind is str else {f"field {number}": f"text {number}"}
