"""The keywords that `msgspec` omits in JSON Schemas. Use this module after `msgspec` derives the JSON Schema of a type.

`msgspec` decodes the text of a key to the type of the key, but its JSON Schema describes only keys of the type `str`.
This module adds `propertyNames` for the other types. Then the JSON Schema accepts the same keys as the decoder. The
module also adds the `format` of dates and times, and the type `number` of a `Decimal`.

>>> schema = {"type": "object", "additionalProperties": {"type": "integer"}}
>>> add_omitted(dict[int, int], schema, {})
>>> schema["propertyNames"]
{'pattern': '^(0|-?[1-9][0-9]*)$'}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from fxai.schema.data import JsonObject, is_object
from fxai.schema.fault import unwrap

DEFS: Final = "#/$defs/"
"""The prefix of references to definitions."""
INTEGER: Final = "^(0|-?[1-9][0-9]*)$"
"""The pattern of integers as keys."""
_NUMBER: Final = (
    r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE](\+?[0-9]{1,2}|\+?1[0-9]{2}|\+?2[0-8][0-9]|-[0-9]{1,3}))?$"
)


def add_omitted(tp: Any, root: JsonObject, components: JsonObject, *, keys: bool = True) -> None:
    """Add the keywords that `msgspec` omits to the JSON Schema of a type.

    Args:
        tp: The type.
        root: The JSON Schema of the type, as `msgspec` derived it. This function changes it.
        components: The JSON Schemas of the classes, by name. This function changes them.
        keys: True to add `propertyNames` to each mapping whose keys are not plain strings. Default: True.
    """
    waiting: list[tuple[inspect.Type, Any]] = [(inspect.type_info(tp), root)]
    done: set[str] = set()
    while waiting:
        info, schema = waiting.pop()
        info = unwrap(info)
        if not is_object(schema) or (name := schema.get("$ref")) in done:
            continue
        if isinstance(name, str):
            done.add(name)
            schema = components[name.removeprefix(DEFS)]
        names_of = getattr(info, "key_type", None) if keys else None
        if names_of is not None and (key := _key(names_of)) is not None:
            schema.setdefault("propertyNames", key)
        if isinstance(info, (inspect.DateTimeType, inspect.TimeType)):
            schema.setdefault("format", _format(info))
        elif isinstance(info, inspect.DecimalType) and schema.get("type") == "string":
            schema["type"] = ["string", "number"]
        waiting += _inside(info, schema)
    text = msgspec.json.encode([root, components])
    for name in [name for name in components if b'"$ref":"%s"' % (DEFS + name).encode() not in text]:
        del components[name]  # an enum that only keys use


def _inside(info: inspect.Type, schema: JsonObject) -> Iterator[tuple[inspect.Type, object]]:
    """Iterate over the types inside a type, with the JSON Schema of each."""
    if isinstance(info, (inspect.DictType, inspect.FrozenDictType)):
        yield info.value_type, schema.get("additionalProperties")
    elif isinstance(info, inspect.CollectionType):
        yield info.item_type, schema.get("items")
    elif isinstance(info, inspect.TupleType):
        yield from zip(info.item_types, schema.get("prefixItems", ()), strict=False)
    elif isinstance(info, inspect.UnionType):
        # `msgspec` moves structs to the end, into a union of their own if they have tags, and null after or before them
        types = [one for one in map(unwrap, info.types) if not isinstance(one, inspect.NoneType)]
        types.sort(key=lambda one: isinstance(one, inspect.StructType) and not one.array_like)
        arms = [one for arm in schema.get("anyOf", ()) for one in (arm["anyOf"] if "discriminator" in arm else [arm])]
        yield from zip(types, [arm for arm in arms if arm.get("type") != "null"], strict=False)
    else:
        fields: Any = getattr(info, "fields", ())
        items: list[Any] = schema.get("prefixItems", [])
        properties: JsonObject = schema.get("properties", {})
        tags = len(items) - len(fields)  # the tag of a struct is its first item
        for index, field in enumerate(fields):
            yield field.type, items[index + tags] if items else properties.get(field.encode_name)


def _key(info: inspect.Type) -> JsonObject | None:
    """Return the JSON Schema of a key. Return None if the key can be any string, or if `msgspec` describes it."""
    info = unwrap(info)
    if isinstance(info, inspect.UnionType):
        arms = [_key(arm) for arm in info.types]
        return None if None in arms else {"anyOf": arms}
    if isinstance(info, (inspect.EnumType, inspect.LiteralType)):
        values: Any = [one.value for one in info.cls] if isinstance(info, inspect.EnumType) else info.values
        return {"enum": [str(value) for value in values]}
    if isinstance(info, (inspect.DateTimeType, inspect.TimeType)):
        return {"format": _format(info)}
    if isinstance(info, inspect.IntType):
        return _integer_keys(info) or {"pattern": INTEGER}
    return next((dict(key) for kind, key in _KEYS.items() if isinstance(info, kind)), None)


def _format(info: inspect.DateTimeType | inspect.TimeType) -> str:
    if isinstance(info, inspect.DateTimeType):
        return "date-time-local" if info.tz is False else "date-time"
    return "partial-time" if info.tz is False else "time"


def states_bounds(info: inspect.Type) -> bool:
    """Return True if a JSON Schema can state the bounds of a type of keys."""
    if isinstance(info, inspect.IntType):
        return _integer_keys(info) is not None
    return not isinstance(info, inspect.FloatType) or {info.ge, info.gt, info.le, info.lt, info.multiple_of} == {None}


def _integer_keys(info: inspect.IntType) -> JsonObject | None:
    """Return the JSON Schema of an integer as a key. None if no pattern and no list of 100 keys states its bounds."""
    low = info.ge if info.gt is None else info.gt + 1
    high = info.le if info.lt is None else info.lt - 1
    if info.multiple_of is None and (low, high) in _SIGNS:
        return {"pattern": _SIGNS[low, high]}
    if low is None or high is None or high - low > 100:
        return None
    return {"enum": [str(key) for key in range(low, high + 1) if key % (info.multiple_of or 1) == 0]}


_SIGNS: Final[dict[tuple[int | None, int | None], str]] = {
    (None, None): INTEGER,
    (0, None): "^(0|[1-9][0-9]*)$",
    (1, None): "^[1-9][0-9]*$",
    (None, 0): "^(0|-[1-9][0-9]*)$",
    (None, -1): "^-[1-9][0-9]*$",
}
_KEYS: Final[dict[type[Any], dict[str, str]]] = {
    inspect.FloatType: {"pattern": _NUMBER},
    inspect.UUIDType: {"format": "uuid"},
    inspect.DateType: {"format": "date"},
    inspect.TimeDeltaType: {"format": "duration"},
    inspect.DecimalType: {"format": "decimal"},
    inspect.BytesType: {"contentEncoding": "base64"},
}
