"""The JSON Schema of the keys of mappings. Use this module after `msgspec` derived the JSON Schema of a type.

`msgspec` reads the text of a key as the type of the key, but its JSON Schema describes only keys of the type `str`.
This module adds `propertyNames` for the other types, so that the JSON Schema accepts the keys that the decoder accepts.

>>> schema = {"type": "object", "additionalProperties": {"type": "integer"}}
>>> describe_keys(dict[int, int], schema, {}, {})
>>> schema["propertyNames"]
{'pattern': '^(0|-?[1-9][0-9]*)$'}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from inspect import isclass
from itertools import zip_longest
from typing import Any, Final

import msgspec
from msgspec import inspect

from fxai.schema.data import is_object

INTEGER: Final = "^(0|-?[1-9][0-9]*)$"
"""The pattern of the text of an integer as a key."""
_NUMBER: Final = (
    r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE](\+?[0-9]{1,2}|\+?1[0-9]{2}|\+?2[0-8][0-9]|-[0-9]{1,3}))?$"
)


def classes_of(tp: Any) -> list[Any]:
    """Return each class inside a type for which `msgspec` derives a JSON Schema of its own."""
    waiting: list[Any] = [inspect.type_info(tp)]
    found: dict[Any, None] = {}
    while waiting:
        info = _without_notes(waiting.pop())
        cls: Any = getattr(info, "cls", None)
        if cls is not None and not isinstance(info, inspect.CustomType):
            if cls in found:
                continue
            found[cls] = None
        waiting += (inner for inner, _ in _inside(info, {}))
    return list(found)


def describe_keys(tp: Any, root: dict[str, Any], names: Mapping[Any, str], components: dict[str, Any]) -> None:
    """Add `propertyNames` to each mapping whose keys are not plain strings.

    Args:
        tp: The type.
        root: The JSON Schema of the type, as `msgspec` derived it. This function changes it.
        names: The name of each class among the components.
        components: The JSON Schemas of the classes, by name. This function changes them.
    """
    waiting: list[tuple[Any, Any]] = [(inspect.type_info(tp), root)]
    done: set[Any] = set()
    while waiting:
        info, schema = waiting.pop()
        info = _without_notes(info)
        name = names.get(getattr(info, "cls", None))
        if name is not None:
            if name in done:
                continue
            done.add(name)
            schema = components[name]
        if is_object(schema):
            if hasattr(info, "key_type") and (key := _key(info.key_type)) is not None:
                schema.setdefault("propertyNames", key)
            waiting += _inside(info, schema)
    text = msgspec.json.encode([root, components])
    for cls, name in names.items():
        if isclass(cls) and issubclass(cls, Enum) and b'"$ref":"#/$defs/%s"' % name.encode() not in text:
            components.pop(name, None)  # its values were only keys


def _without_notes(info: Any) -> Any:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _inside(info: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Iterate over the types inside a type, with the JSON Schema of each."""
    if hasattr(info, "key_type"):
        yield info.value_type, schema.get("additionalProperties")
        yield info.key_type, None
    elif isinstance(info, inspect.CollectionType):
        yield info.item_type, schema.get("items")
    elif isinstance(info, inspect.TupleType):
        yield from zip_longest(info.item_types, schema.get("prefixItems", ()))
    elif isinstance(info, inspect.UnionType):
        yield from _arms(info, schema)
    else:
        fields: Any = getattr(info, "fields", ())
        items: list[Any] = schema.get("prefixItems", [])
        properties: dict[str, Any] = schema.get("properties", {})
        tags = len(items) - len(fields)  # the tag of a struct is its first item
        for index, field in enumerate(fields):
            yield field.type, items[index + tags] if items else properties.get(field.encode_name)


def _arms(info: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Iterate over the alternatives of a union. `msgspec` puts structs behind the others, and `None` at the end."""
    arms = iter(schema.get("anyOf", ()))
    for arm in info.types:
        plain = _without_notes(arm)
        last = isinstance(plain, inspect.NoneType) or (isinstance(plain, inspect.StructType) and not plain.array_like)
        yield plain, None if last else next(arms, None)


def _key(info: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of the text of a key; None if the key can be any string, or `msgspec` describes it."""
    info = _without_notes(info)
    if isinstance(info, inspect.UnionType):
        arms = [_key(arm) for arm in info.types]
        return None if None in arms else {"anyOf": arms}
    if isinstance(info, (inspect.EnumType, inspect.LiteralType)):
        values: Any = [one.value for one in info.cls] if isinstance(info, inspect.EnumType) else info.values
        return {"enum": [str(value) for value in values]}
    if isinstance(info, (inspect.DateTimeType, inspect.TimeType)):
        return {"format": "date-time" if isinstance(info, inspect.DateTimeType) else "time"} if info.tz else None
    return next((dict(key) for kind, key in _KEYS.items() if isinstance(info, kind)), None)


_KEYS: Final[dict[type[Any], dict[str, str]]] = {
    inspect.IntType: {"pattern": INTEGER},
    inspect.FloatType: {"pattern": _NUMBER},
    inspect.UUIDType: {"format": "uuid"},
    inspect.DateType: {"format": "date"},
    inspect.TimeDeltaType: {"format": "duration"},
    inspect.DecimalType: {"format": "decimal"},
    inspect.BytesType: {"contentEncoding": "base64"},
}
