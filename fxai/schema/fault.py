"""What is wrong with a value: each place, and the words for what was expected there and what was found.

A fault is a value, and so is the failure that holds all faults of one decoding or encoding: both compare, hash and are
written as JSON. Exceptions are `DecodeError`, raised by the `*_unsafe` twins, and `SchemaError`, for mistakes in the
program itself.

What a schema or a type expects is put into the same words, a type by way of JSON Schema keywords, read from msgspec's
description of it.

>>> failure = DecodeFailure((Fault("/a", "integer", found_in("one")), Fault("/b", "string", NOTHING)))
>>> print(failure)
/a: expected integer, found string 'one'; /b: expected string, found nothing
>>> describe({"type": "string", "minLength": 1}), describe({"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}]})
('string of at least 1 character', "one of 'C', 'F' or null")
>>> expectation(msgspec.inspect.type_info(dict[str, int])), expectation(msgspec.inspect.type_info(int | None))
('object', 'integer or null')
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec
from msgspec import inspect as nodes

from fxai.schema.data import is_array, is_listed, is_object

NOTHING: Final = "nothing"
"""What was found where something is missing."""

_SHORTEST: Final = 60
_LARGE: Final = 1e15


@final
class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a value.

    Attributes:
        pointer: where, as a JSON pointer (RFC 6901); `""` is the whole value.
        expected: what belongs there, in words: `"integer"`, `"string of at least 1 character"`.
        found: what was there, in a few words: `"string 'one'"`, `"nothing"`, `"object with 3 properties"`.
    """

    pointer: str
    expected: str
    found: str

    def __str__(self) -> str:
        """One line: where, what was expected, what was found."""
        if not self.pointer:
            return f"expected {self.expected}, found {self.found}"
        return f"{self.pointer}: expected {self.expected}, found {self.found}"


@final
class DecodeFailure(msgspec.Struct, frozen=True, tag="decode-failure"):
    """A value that does not fit a schema: every fault that was found, root first, never none.

    Attributes:
        faults: the faults, in the order of the value.
    """

    faults: tuple[Fault, ...]

    def __post_init__(self) -> None:
        """Hold that there is a fault: a failure without one is a mistake in the program."""
        if not self.faults:
            raise ValueError("a DecodeFailure holds at least one Fault; without faults there is no failure")

    def __str__(self) -> str:
        """One line: the faults, separated by semicolons."""
        return "; ".join(str(fault) for fault in self.faults)


@final
class DecodeError(Exception):
    """A `DecodeFailure` for those who prefer an exception: the `*_unsafe` methods raise it and nothing else.

    Made of the failure: `DecodeError(failure)`.
    """

    @property
    def failure(self) -> DecodeFailure:
        """What was wrong."""
        failure: DecodeFailure = self.args[0]
        return failure

    def __str__(self) -> str:
        """The failure in one line."""
        return str(self.failure)


@final
class SchemaError(TypeError, ValueError):
    """A schema that cannot be: a type without a JSON form, or a document that is no usable JSON Schema.

    It is a mistake in the program (or in a document from elsewhere), found when the schema is made or first used.
    """


def pointer_to(pointer: str, token: str | int) -> str:
    """The JSON pointer of a member: a property name or an index below `pointer`.

    >>> pointer_to("/a", "x/y~z")
    '/a/x~1y~0z'
    """
    if isinstance(token, str) and ("/" in token or "~" in token):
        token = token.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{token}"


def pointer_of(path: Iterable[str | int]) -> str:
    """The JSON pointer of a path of property names and indices.

    >>> pointer_of(["a", 0])
    '/a/0'
    """
    pointer = ""
    for token in path:
        pointer = pointer_to(pointer, token)
    return pointer


def pointer_tokens(pointer: str) -> list[str]:
    """The tokens of a JSON pointer, unescaped; `""` has none.

    >>> pointer_tokens("/a~1b/0")
    ['a/b', '0']
    """
    tokens = pointer.split("/")[1:]
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens] if "~" in pointer else tokens


def quantity(count: float, unit: str) -> str:
    """A number with its unit.

    >>> quantity(1, "item"), quantity(2, "property")
    ('1 item', '2 properties')
    """
    number = f"{count:.15g}" if count < _LARGE else f"{Decimal(count):.6g}"  # no float holds every integer
    return f"{number} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"


def _short(text: str) -> str:
    return text if len(text) <= _SHORTEST else f"{text[: _SHORTEST - 20]}… ({len(text)} characters)"


def _found_number(value: float) -> str:
    if isinstance(value, int):
        if value.bit_length() > 512:
            return f"integer of {value.bit_length()} bits"
        return f"integer {int(value)}"
    if math.isfinite(value):
        return f"number {float(value)!r}"
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def found_in(value: object) -> str:
    """A short description of a value: its kind, and as much of it as fits in a message.

    It is short for a value of any size.

    >>> [found_in(x) for x in (None, True, 3, 2.5, "one", [1], {"a": 1, "b": 2})]
    ['null', 'boolean true', 'integer 3', 'number 2.5', "string 'one'", 'array of 1 item', 'object with 2 properties']
    """
    kind = type(value)
    if kind is str:
        text: Any = value
        return f"string {text!r}" if len(text) <= _SHORTEST else f"string {_short(text)!r}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {'true' if value else 'false'}"
    if kind is int or kind is float:
        return _found_number(cast("float", value))
    if isinstance(value, Mapping):
        return f"object with {quantity(len(cast('Mapping[object, object]', value)), 'property')}"
    if isinstance(value, (list, tuple)):
        return f"array of {quantity(len(cast('Sequence[object]', value)), 'item')}"
    if isinstance(value, Set):
        return f"set of {quantity(len(cast('Set[object]', value)), 'item')}"
    return f"a Python {kind.__qualname__}"


def in_order(faults: Iterable[Fault], root: object) -> tuple[Fault, ...]:
    """The faults of a value, each once, in the order of the value; what is missing comes behind what is there.

    >>> in_order([Fault("/b", "x", "y"), Fault("/a", "x", "y"), Fault("", "x", "y")], {"a": 1, "b": 2})[1].pointer
    '/a'
    """
    found = tuple(dict.fromkeys(faults))
    if len(found) < 2:
        return found
    locations: dict[int, dict[str, int]] = {}
    ranks = [_location(fault, root, locations) for fault in found]
    if all(map(operator.le, ranks, ranks[1:])):
        return found
    return tuple(fault for _, _, fault in sorted(zip(ranks, range(len(found)), found, strict=True)))


def _location(fault: Fault, root: object, known: dict[int, dict[str, int]]) -> list[int]:
    """Return the position of a fault in the order of the value. A missing value comes after the others."""
    locations: list[int] = []
    there: Any = root
    for token in pointer_tokens(fault.pointer):
        if is_object(there):
            names = known.get(id(there))
            if names is None:
                names = known[id(there)] = {name: location for location, name in enumerate(there)}
            locations.append(names.get(token, len(names)))
            there = there.get(token)
        elif is_listed(there) and token.isdigit():
            locations.append(int(token))
            there = there[int(token)] if int(token) < len(there) else None
    return locations


def with_integers(data: Any, pointers: Iterable[str]) -> Any:
    """A copy of the data with the whole numbers at these places as integers.

    >>> with_integers({"a": [3.0, 4.0]}, ["/a/1"])
    {'a': [3.0, 4]}
    """
    root = [_changeable(data)]
    for pointer in pointers:
        holder, location = cast("Any", root), cast("Any", 0)
        for token in pointer_tokens(pointer):
            holder = holder[location]
            location = int(token) if is_array(holder) else next(name for name in holder if str(name) == token)
        holder[location] = int(holder[location])
    return root[0]


def _changeable(data: Any) -> Any:
    """A copy of plain data that can be changed, its tuples as lists."""
    if is_object(data):
        return {name: _changeable(inner) for name, inner in data.items()}
    return [_changeable(inner) for inner in data] if is_listed(data) else data


# ---- values in words

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


# ---- schemas in words

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
_FORMATS: Final = {
    "date-time": "date and time (RFC 3339)",
    "date-time-local": "date and time (RFC 3339) without a time zone",
    "time": "time (RFC 3339)",
    "partial-time": "time (RFC 3339) without a time zone",
    "date": "date (RFC 3339)",
    "duration": "duration (ISO 8601)",
    "uuid": "UUID",
    "decimal": "decimal number",
    "base64": "string in base64",
}
_LENGTHS: Final = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minBytes": ("at least", "byte"),  # no keyword: a bound of bytes in base64
    "maxBytes": ("at most", "byte"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
}

BOUNDS: Final = frozenset(("type", "format", "contentEncoding", *_BOUNDS, *_LENGTHS))
"""The type, and the keywords that bound values of a type."""


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
        form = schema.get("format", schema.get("contentEncoding")) if kinds == "string" else None
        return _FORMATS.get(str(form), kinds)
    if is_array(kinds):
        if schema.get("format") == "decimal":
            kinds = [kind if kind != "string" else _FORMATS["decimal"] for kind in kinds if kind != "number"]
        return " or ".join(sorted(cast("list[str]", kinds)))
    return next((kind for keyword, kind in _KINDS_OF_KEYWORDS.items() if keyword in schema), "a value")


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, (bound, unit) in _LENGTHS.items():
        size, other = schema.get(keyword), schema.get(f"{'max' if keyword[:3] == 'min' else 'min'}{keyword[3:]}")
        if size is not None and size == other:
            if bound == "at least":
                yield f"of {quantity(size, unit)}"
        elif size is not None:
            yield f"of {bound} {quantity(size, unit)}"
    for keyword, text in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is None or isinstance(limit, bool):
            continue
        exclusive = schema.get(f"exclusive{keyword.capitalize()}") is True  # draft 4
        yield _BOUNDS[f"exclusive{keyword.capitalize()}"].format(limit) if exclusive else text.format(limit)


# ---- types in words

_WORDS: Final[dict[type[nodes.Type], str]] = {
    **dict.fromkeys((nodes.AnyType, nodes.CustomType, nodes.RawType), "what JSON can carry"),
    nodes.NoneType: "null",
    nodes.BoolType: "boolean",
    nodes.IntType: "integer",
    nodes.FloatType: "number",
    nodes.StrType: "string",
    **dict.fromkeys((nodes.BytesType, nodes.ByteArrayType, nodes.MemoryViewType), _FORMATS["base64"]),
    nodes.DateTimeType: _FORMATS["date-time"],
    nodes.TimeType: _FORMATS["time"],
    nodes.DateType: _FORMATS["date"],
    nodes.TimeDeltaType: _FORMATS["duration"],
    nodes.UUIDType: _FORMATS["uuid"],
    nodes.DecimalType: _FORMATS["decimal"],
    **dict.fromkeys((nodes.DictType, nodes.FrozenDictType, nodes.TypedDictType, nodes.DataclassType), "object"),
    nodes.NamedTupleType: "array",
}
_BOUNDED: Final[dict[type[nodes.Type], str]] = {
    **dict.fromkeys((nodes.DictType, nodes.FrozenDictType), "Properties"),
    **dict.fromkeys((nodes.BytesType, nodes.ByteArrayType, nodes.MemoryViewType), "Bytes"),
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
    if isinstance(node, nodes.NamedTupleType) or (isinstance(node, nodes.StructType) and node.array_like):
        return describe({"type": "array", **_sizes(node)})
    if isinstance(node, nodes.StructType):
        return "object"
    words = describe(_schema_of(node))
    if (zoned := getattr(node, "tz", None)) is not None:
        words += " with a time zone" if zoned else " without a time zone"
    return words


def _sizes(node: nodes.NamedTupleType | nodes.StructType) -> dict[str, int]:
    """Return the bounds of an array that contains the fields of a class."""
    tags = int(isinstance(node, nodes.StructType) and node.tag_field is not None)
    least = tags + sum(field.required for field in node.fields)
    bounds = {"minItems": least} if least else {}
    if isinstance(node, nodes.NamedTupleType) or node.forbid_unknown_fields:
        bounds["maxItems"] = tags + len(node.fields)
    return bounds


def _schema_of(node: nodes.Type) -> dict[str, Any]:
    """The keywords of a type without members of its own, with its word as their type."""
    array = isinstance(node, nodes.CollectionType)
    unit = "Items" if array else _BOUNDED.get(type(node), "Length")
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
