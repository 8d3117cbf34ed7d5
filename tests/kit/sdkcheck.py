"""Checks plain data against the parameter types of an official SDK, so that nothing wrong gets through.

A `TypeAdapter` over an SDK's TypedDict alone lets nearly everything pass: its iterables are only looked at when they
are iterated, unknown keys are ignored, and which keys are required stands in annotations that are not read yet. Here
the type is rebuilt first: iterables and sequences are lists, every TypedDict is closed unless the SDK opens it, and
`Required` is read from the resolved annotations.
"""

from __future__ import annotations

import collections.abc
import types
from functools import cache
from typing import Any, Union, cast

import typing_extensions
from pydantic import ConfigDict, TypeAdapter, ValidationError

__all__ = ["faults", "rebuilt"]

_LISTS: tuple[Any, ...] = (list, collections.abc.Iterable, collections.abc.Sequence)
_MAPS: tuple[Any, ...] = (dict, collections.abc.Mapping)
_QUALIFIERS: tuple[Any, ...] = (typing_extensions.Required, typing_extensions.NotRequired)


@cache
def rebuilt(kind: Any) -> Any:
    """The type, so that pydantic checks all of it."""
    origin: Any = typing_extensions.get_origin(kind)
    arguments = typing_extensions.get_args(kind)
    if typing_extensions.is_typeddict(kind):
        return _closed(kind)
    if origin is typing_extensions.Annotated:
        return rebuilt(arguments[0])
    if origin in (Union, types.UnionType):
        return Union[tuple(rebuilt(one) for one in arguments)]  # noqa: UP007 - made of a tuple
    if origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr":
        return cast(Any, list)[rebuilt(arguments[0])]
    if origin in _MAPS:
        return cast(Any, dict)[rebuilt(arguments[0]), rebuilt(arguments[1])]
    return kind


_CLOSED: dict[Any, Any] = {}


def _closed(kind: Any) -> Any:
    if kind in _CLOSED:
        return _CLOSED[kind]
    made: Any = types.new_class(f"{kind.__name__}Closed", (typing_extensions.TypedDict,), {"total": False})
    _CLOSED[kind] = made  # before its fields: they may come back to it
    fields: dict[str, Any] = {}
    required: set[str] = set()
    for name, hint in typing_extensions.get_type_hints(kind, include_extras=True).items():
        qualifier: Any = typing_extensions.get_origin(hint)
        if qualifier is typing_extensions.Required:
            required.add(name)
        inner = typing_extensions.get_args(hint)[0] if qualifier in _QUALIFIERS else hint
        wanted = typing_extensions.Required if name in required else typing_extensions.NotRequired
        fields[name] = cast(Any, wanted)[rebuilt(inner)]
    made.__annotations__ = fields
    made.__required_keys__ = frozenset(required)
    made.__optional_keys__ = frozenset(fields) - required
    made.__module__ = kind.__module__
    opened = getattr(kind, "__pydantic_config__", {}).get("extra") == "allow"
    made.__pydantic_config__ = ConfigDict(extra="allow" if opened else "forbid", arbitrary_types_allowed=True)
    return made


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(rebuilt(kind))


def faults(kind: Any, value: object) -> list[str]:
    """What is wrong with a value as an instance of the SDK's type: place and reason; `[]` when it fits."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        return [f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
    return []
