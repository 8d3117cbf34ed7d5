"""What a schema or a type expects, in a few words, and which kinds of JSON a type takes.

A type is put into words by way of JSON Schema keywords, so that both use the same words. Types are read from msgspec's
description of them.

>>> describe({"type": "string", "minLength": 1}), describe({"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}]})
('string of at least 1 character', "one of 'C', 'F' or null")
>>> expectation(msgspec.inspect.type_info(dict[str, int])), expectation(msgspec.inspect.type_info(int | None))
('object', 'integer or null')
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import inspect as nodes

from fxai.schema.data import is_array
from fxai.schema.fault import quantity

__all__ = ["describe", "either", "expectation", "kind_in", "kinds_of", "leaf_type", "list_values", "unwrap"]

# ---- values

_MOST_LISTED: Final = 100
_LONGEST: Final = 400


def list_values(choices: Iterable[object]) -> str:
    """Values as a reader sees them: `one of 'C', 'F'`, or the only one there is."""
    values = list(choices)
    words = [_literal(value) for value in values[:_MOST_LISTED]]
    more = f", … ({len(values)} values)" if len(values) > _MOST_LISTED else ""
    return words[0] if len(values) == 1 else f"one of {', '.join(words)}{more}"


def _literal(value: object) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def either(choices: Iterable[object]) -> str:
    """Values of which one tells alternatives apart: `'a' or 'b'`, each once.

    >>> either(["a", "b", 1, "a"])
    "'a', 'b' or 1"
    """
    words = list(dict.fromkeys(_literal(choice) for choice in choices))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ---- schemas

_DEEPEST: Final = 4  # schemas inside each other
_KINDS_OF_KEYWORDS: Final = {
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "items", "prefixItems"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties", "properties", "required", "additionalProperties"), "object"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matching {!r}",
}
_LENGTHS: Final = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
}


def describe(schema: Any, follow: Callable[[Any], Any] = lambda schema: schema, level: int = 0) -> str:
    """What a schema takes, in a few words.

    Args:
        schema: of a document, or inside one.
        follow: gives the schema that a reference in it leads to.
        level: how many schemas it stands in; what is deeper than four is `a value`.
    """
    schema = follow(schema) if level < _DEEPEST else True
    if not isinstance(schema, Mapping):
        return "a value" if schema else "no value"
    members = cast("Mapping[str, Any]", schema)
    if "const" in members:
        return list_values([members["const"]])
    if isinstance(members.get("enum"), list):
        return list_values(members["enum"])
    if isinstance(members.get("$ref"), str):
        return f"what {members['$ref']} says"
    for keyword in ("anyOf", "oneOf"):
        if members.get(keyword):
            return " or ".join(dict.fromkeys(describe(choice, follow, level + 1) for choice in members[keyword]))
    kind = _kind(members)
    if kind == "a value" and members.get("allOf"):
        parts = (describe(part, follow, level + 1) for part in members["allOf"])
        return next((words for words in parts if words != "a value"), "a value")
    notes = [*_limits(members)]
    if members.get("uniqueItems") is True:
        notes.append("without doubled items")
    if "not" in members:
        notes.append(f"that is not {describe(members['not'], follow, level + 1)}")
    return f"{kind} {' and '.join(notes)}" if notes else kind


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds
    if is_array(kinds):
        return " or ".join(sorted(cast("list[str]", kinds)))
    return next((kind for keyword, kind in _KINDS_OF_KEYWORDS.items() if keyword in schema), "a value")


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, (bound, unit) in _LENGTHS.items():
        if keyword in schema:
            yield f"of {bound} {quantity(schema[keyword], unit)}"
    for keyword, text in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is None or isinstance(limit, bool):
            continue
        exclusive = schema.get(f"exclusive{keyword.capitalize()}") is True  # draft 4
        yield _BOUNDS[f"exclusive{keyword.capitalize()}"].format(limit) if exclusive else text.format(limit)


# ---- types

_WORDS: Final[dict[type[nodes.Type], str]] = {
    **dict.fromkeys((nodes.AnyType, nodes.CustomType, nodes.RawType), "what JSON can carry"),
    nodes.NoneType: "null",
    nodes.BoolType: "boolean",
    nodes.IntType: "integer",
    nodes.FloatType: "number",
    nodes.StrType: "string",
    **dict.fromkeys((nodes.BytesType, nodes.ByteArrayType, nodes.MemoryViewType), "string in base64"),
    nodes.DateTimeType: "date and time (RFC 3339)",
    nodes.TimeType: "time (RFC 3339)",
    nodes.DateType: "date (RFC 3339)",
    nodes.TimeDeltaType: "duration (ISO 8601)",
    nodes.UUIDType: "UUID",
    nodes.DecimalType: "decimal number",
    **dict.fromkeys((nodes.DictType, nodes.FrozenDictType, nodes.TypedDictType, nodes.DataclassType), "object"),
    nodes.NamedTupleType: "array",
}
_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}


def unwrap(node: nodes.Type) -> nodes.Type:
    """The description without what `Annotated` adds to it for JSON Schema only."""
    while isinstance(node, nodes.Metadata):
        node = node.type
    return node


def expectation(node: nodes.Type) -> str:
    """What belongs in a place of this type, in words."""
    node = unwrap(node)
    if isinstance(node, nodes.UnionType):
        return " or ".join(dict.fromkeys(expectation(arm) for arm in node.types))
    if isinstance(node, (nodes.LiteralType, nodes.EnumType)):
        return list_values(_values_of(node))
    if isinstance(node, nodes.TupleType):
        return f"array of {quantity(len(node.item_types), 'item')}"
    if isinstance(node, nodes.StructType):
        return "array" if node.array_like else "object"
    words = describe(_schema_of(node))
    if (zoned := getattr(node, "tz", None)) is not None:
        words += " with a time zone" if zoned else " without a time zone"
    return words


def _schema_of(node: nodes.Type) -> dict[str, Any]:
    """The keywords of a type without members of its own, with its word as their type."""
    array = isinstance(node, nodes.CollectionType)
    unit = "Items" if array else "Properties" if isinstance(node, (nodes.DictType, nodes.FrozenDictType)) else "Length"
    names = {**_KEYWORDS, "min_length": f"min{unit}", "max_length": f"max{unit}"}
    bounds = {keyword: value for name, keyword in names.items() if (value := getattr(node, name, None)) is not None}
    return {"type": "array" if array else _WORDS.get(type(node), "JSON"), **bounds}


def _values_of(node: nodes.LiteralType | nodes.EnumType) -> list[object]:
    return list(node.values) if isinstance(node, nodes.LiteralType) else [m.value for m in cast("Any", node.cls)]


_EVERY_KIND: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))


def kinds_of(node: nodes.Type) -> frozenset[str]:
    """The kinds of JSON that a type takes: null, boolean, integer, number, string, array, object."""
    node = unwrap(node)
    if isinstance(node, nodes.UnionType):
        return frozenset(kind for arm in node.types for kind in kinds_of(arm))
    if isinstance(node, (nodes.LiteralType, nodes.EnumType)):
        values = _values_of(node)
        return frozenset("null" if v is None else "integer" if isinstance(v, int) else "string" for v in values)
    if isinstance(node, (nodes.CollectionType, nodes.TupleType, nodes.NamedTupleType)):
        return frozenset(("array",))
    if isinstance(node, nodes.StructType):
        return frozenset(("array" if node.array_like else "object",))
    if isinstance(node, nodes.DecimalType):
        return frozenset(("string", "integer", "number"))
    if isinstance(node, nodes.FloatType):
        return frozenset(("number", "integer"))
    word = _WORDS.get(type(node), "JSON")
    if word in ("null", "boolean", "integer", "object"):
        return frozenset((word,))
    return _EVERY_KIND if word == "what JSON can carry" else frozenset(("string",))


_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def kind_in(data: object) -> str:
    """The kind of JSON that a piece of data is."""
    return _KINDS.get(type(data)) or next((kind for tp, kind in _KINDS.items() if isinstance(data, tp)), "object")


_LEAVES: Final[dict[type[nodes.Type], str]] = {
    nodes.IntType: "builtins.int",
    nodes.FloatType: "builtins.float",
    nodes.StrType: "builtins.str",
    nodes.BoolType: "builtins.bool",
    nodes.BytesType: "builtins.bytes",
    nodes.ByteArrayType: "builtins.bytearray",
    nodes.MemoryViewType: "builtins.memoryview",
    nodes.DateTimeType: "datetime.datetime",
    nodes.TimeType: "datetime.time",
    nodes.DateType: "datetime.date",
    nodes.TimeDeltaType: "datetime.timedelta",
    nodes.UUIDType: "uuid.UUID",
    nodes.DecimalType: "decimal.Decimal",
}


def leaf_type(node: nodes.Type) -> Any:
    """The Python type of a place without members, with its bounds; `None` for a place that has members."""
    node = unwrap(node)
    if isinstance(node, nodes.LiteralType):
        return Literal[node.values]
    if isinstance(node, nodes.EnumType):
        return node.cls
    if isinstance(node, nodes.NoneType):
        return type(None)
    module, _, name = _LEAVES.get(type(node), "").rpartition(".")
    if not module:
        return None
    python = getattr(importlib.import_module(module), name)
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
    bounds = {name: value for name in names if (value := getattr(node, name, None)) is not None}
    return Annotated[python, msgspec.Meta(**bounds)] if bounds else python
