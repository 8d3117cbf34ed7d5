"""What a type expects, in words, and which kinds of JSON it takes; read from msgspec's description of the type.

>>> expectation(msgspec.inspect.type_info(dict[str, int])), expectation(msgspec.inspect.type_info(int | None))
('object', 'integer or null')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import inspect as nodes

__all__ = ["either", "expectation", "kind_in", "kinds_of", "leaf_type", "listed", "unwrapped"]

_MOST_LISTED: Final = 100
_LONGEST: Final = 400
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
_WORDS: Final[dict[type[nodes.Type], str]] = {
    nodes.AnyType: "what JSON can carry",
    nodes.CustomType: "what JSON can carry",
    nodes.RawType: "what JSON can carry",
    nodes.NoneType: "null",
    nodes.BoolType: "boolean",
    nodes.IntType: "integer",
    nodes.FloatType: "number",
    nodes.StrType: "string",
    nodes.BytesType: "string in base64",
    nodes.ByteArrayType: "string in base64",
    nodes.MemoryViewType: "string in base64",
    nodes.DateTimeType: "date and time (RFC 3339)",
    nodes.TimeType: "time (RFC 3339)",
    nodes.DateType: "date (RFC 3339)",
    nodes.TimeDeltaType: "duration (ISO 8601)",
    nodes.UUIDType: "UUID",
    nodes.DecimalType: "decimal number",
    nodes.DictType: "object",
    nodes.FrozenDictType: "object",
    nodes.TypedDictType: "object",
    nodes.DataclassType: "object",
    nodes.NamedTupleType: "array",
}
_BOUNDS: Final = (
    ("ge", "at least {}"),
    ("gt", "above {}"),
    ("le", "at most {}"),
    ("lt", "below {}"),
    ("multiple_of", "a multiple of {}"),
)
_PYTHON: Final[dict[type[nodes.Type], str]] = {
    nodes.IntType: "int",
    nodes.FloatType: "float",
    nodes.StrType: "str",
    nodes.BoolType: "bool",
    nodes.NoneType: "None",
}


def unwrapped(node: nodes.Type) -> nodes.Type:
    """The description without what `Annotated` adds to it for JSON Schema only."""
    while isinstance(node, nodes.Metadata):
        node = node.type
    return node


def listed(choices: Iterable[object]) -> str:
    """Values as a reader sees them: `one of 'C', 'F'`, or the only one there is."""
    values = list(choices)
    told = [_quoted(value) for value in values[:_MOST_LISTED]]
    more = f", … ({len(values)} values)" if len(values) > _MOST_LISTED else ""
    return told[0] if len(values) == 1 else f"one of {', '.join(told)}{more}"


def _quoted(value: object) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def either(choices: Iterable[object]) -> str:
    """Values of which one tells alternatives apart: `'a' or 'b'`, each once.

    >>> either(["a", "b", 1, "a"])
    "'a', 'b' or 1"
    """
    told = list(dict.fromkeys(listed([choice]) for choice in choices))
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} or {told[-1]}"


def expectation(node: nodes.Type) -> str:
    """What belongs in a place of this type, in words."""
    node = unwrapped(node)
    if isinstance(node, nodes.UnionType):
        return " or ".join(dict.fromkeys(expectation(arm) for arm in node.types))
    if isinstance(node, nodes.LiteralType):
        return listed(node.values)
    if isinstance(node, nodes.EnumType):
        return listed(member.value for member in cast("Any", node.cls))
    if isinstance(node, nodes.TupleType):
        return f"array of {_counted(len(node.item_types), 'item')}"
    if isinstance(node, nodes.StructType):
        return "array" if node.array_like else "object"
    word = "array" if isinstance(node, nodes.CollectionType) else _WORDS.get(type(node), "JSON")
    bounds = [text.format(value) for name, text in _BOUNDS if (value := getattr(node, name, None)) is not None]
    return " ".join([word, " and ".join([*bounds, *_lengths(node)])]).strip()


def _lengths(node: nodes.Type) -> list[str]:
    array, mapping = isinstance(node, nodes.CollectionType), isinstance(node, (nodes.DictType, nodes.FrozenDictType))
    unit = "item" if array else "property" if mapping else "character"
    least, most = getattr(node, "min_length", None), getattr(node, "max_length", None)
    told: list[str] = []
    if least is not None:
        told.append(f"of at least {_counted(least, unit)}")
    if most is not None:
        told.append(f"of at most {_counted(most, unit)}")
    pattern = getattr(node, "pattern", None)
    if pattern is not None:
        told.append(f"matching {pattern!r}")
    if (zoned := getattr(node, "tz", None)) is not None:
        told.append("with a time zone" if zoned else "without a time zone")
    return told


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"


def kinds_of(node: nodes.Type) -> frozenset[str]:
    """The kinds of JSON that a type takes: null, boolean, integer, number, string, array, object."""
    node = unwrapped(node)
    if isinstance(node, nodes.UnionType):
        return frozenset(kind for arm in node.types for kind in kinds_of(arm))
    if isinstance(node, (nodes.LiteralType, nodes.EnumType)):
        values: Any = node.values if isinstance(node, nodes.LiteralType) else [m.value for m in cast("Any", node.cls)]
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
    if word == "what JSON can carry":
        return frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
    return frozenset(("string",))


def kind_in(data: object) -> str:
    """The kind of JSON that a piece of data is."""
    return _KINDS.get(type(data)) or next((kind for tp, kind in _KINDS.items() if isinstance(data, tp)), "object")


_LEAVES: Final[dict[type[nodes.Type], str]] = {
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
    node = unwrapped(node)
    if isinstance(node, nodes.LiteralType):
        from typing import Literal

        return Literal[node.values]
    if isinstance(node, nodes.EnumType):
        return node.cls
    name = _PYTHON.get(type(node)) or _LEAVES.get(type(node))
    if name is None:
        return None
    if name == "None":
        return type(None)
    python = _imported(name)
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
    bounds = {name: value for name in names if (value := getattr(node, name, None)) is not None}
    return Annotated[python, msgspec.Meta(**bounds)] if bounds else python


def _imported(name: str) -> Any:
    import importlib

    module, _, attribute = (name if "." in name else f"builtins.{name}").rpartition(".")
    return getattr(importlib.import_module(module), attribute)
