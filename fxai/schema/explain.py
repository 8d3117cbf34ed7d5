"""The errors of data that a type refuses, and of Python values of another type. fxai needs them after a failure.

`Explainer` writes a type as a private JSON Schema for the engine. The document states what `msgspec` accepts: it
also converts strings to dates and names to numbers, and it refuses `3.0` as an integer.

>>> from datetime import date
>>> dates = Explainer(dict[str, date])
>>> [str(fault) for fault in dates.faults_of_data({"a": "2026-11-27", "b": "tomorrow"})[0]]
["/b: expected date (RFC 3339), found string 'tomorrow'"]
>>> [str(fault) for fault in Explainer(dict[str, int]).faults_of_value({"a": "1", 2: 3})]
["/a: expected integer, found string '1'", '/2: expected a key that is string, found integer 2']
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice, repeat
from typing import Annotated, Any, Final, Literal, cast, final
from uuid import UUID

import msgspec
from msgspec import inspect as nodes

from fxai.schema.budget import MAX_FAULTS
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.dialect import CONVERTS, WIRE
from fxai.schema.engine import Converter, Engine
from fxai.schema.fault import NOTHING, Fault, describe, found_in, pointer_to, unwrap
from fxai.schema.parsing import REFUSALS, builtin, plain_faults
from fxai.schema.plan import mirrored_class
from fxai.schema.validation import Finder, find_faults

_CLASSES = (nodes.StructType, nodes.DataclassType, nodes.TypedDictType, nodes.NamedTupleType)
_ABSENT: Final = object()


@final
class Explainer:
    """The search for the errors of data and of Python values of a type."""

    def __init__(self, wire: Any) -> None:
        self._node = msgspec.inspect.type_info(wire)
        self.engine: Engine = Engine(_Writer().write(self._node), WIRE)

    def faults_of_data(
        self, data: object, message: str = "", take: Callable[[Any], Any] | None = None
    ) -> tuple[tuple[Fault, ...], list[str]]:
        """Return the errors of plain JSON data that `msgspec` refuses, and the pointers of whole numbers such as `3.0`.

        `message` is the error of `msgspec`, and `take` converts data if `msgspec` alone decides which items are valid.
        """
        integers: list[str] = []
        finder = Finder(integers=integers)
        if take is not None and "[" in message:
            finder.suspects = suspects_in(data, message, take)
        return find_faults(self.engine.root, data, finder), integers

    def faults_of_value(self, value: object) -> tuple[Fault, ...]:
        """Return the errors of a Python value: a value of another type, or a number that JSON cannot represent."""
        return (*islice(_value_faults(self._node, value, ""), MAX_FAULTS),)


# ---- a type as a JSON Schema

_LEAVES: Final[dict[type[nodes.Type], tuple[Any, JsonObject]]] = {
    nodes.NoneType: (type(None), {"type": "null"}),
    nodes.BoolType: (bool, {"type": "boolean"}),
    nodes.IntType: (int, {"type": "integer"}),
    nodes.FloatType: (float, {"type": "number"}),
    nodes.StrType: (str, {"type": "string"}),
    nodes.BytesType: (bytes, {"type": "string", "contentEncoding": "base64"}),
    nodes.ByteArrayType: (bytearray, {"type": "string", "contentEncoding": "base64"}),
    nodes.MemoryViewType: (memoryview, {"type": "string", "contentEncoding": "base64"}),
    nodes.DateTimeType: (datetime, {"type": "string", "format": "date-time"}),
    nodes.TimeType: (time, {"type": "string", "format": "time"}),
    nodes.DateType: (date, {"type": "string", "format": "date"}),
    nodes.TimeDeltaType: (timedelta, {"type": "string", "format": "duration"}),
    nodes.UUIDType: (UUID, {"type": "string", "format": "uuid"}),
    nodes.DecimalType: (Decimal, {"type": ["string", "number"], "format": "decimal"}),
}
_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_ZONES: Final = {True: "with a time zone", False: "without a time zone"}
_FINITE: Final = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


@final
class _Writer:
    """The writer of the JSON Schema of a type. A class that contains itself is a `dict` that contains itself."""

    def __init__(self) -> None:
        self.classes: dict[int, JsonObject] = {}

    def write(self, node: nodes.Type) -> JsonObject:
        """Return the schema of a type with the keywords that `Annotated` adds. It can still be incomplete."""
        added: JsonObject = {}
        while isinstance(node, nodes.Metadata):
            added |= cast("JsonObject", node.extra_json_schema or {})
            node = node.type
        if isinstance(node, _CLASSES):
            known = self.classes.get(id(node))
            if known is None:
                known = self.classes[id(node)] = {}
                known |= _shape_of(node) | self._members(node)
            return {**added, **known} if added else known
        return {**added, **_shape_of(node), **self._inside(node)}

    def _members(self, node: Any) -> JsonObject:
        tag = getattr(node, "tag_field", None)
        tags = {} if tag is None else {tag: {"enum": [node.tag]}}
        if _is_array(node):
            return {"prefixItems": [*tags.values(), *(self.write(field.type) for field in node.fields)]}
        return {
            "properties": {**tags, **{field.encode_name: self.write(field.type) for field in node.fields}},
            "required": [field.encode_name for field in node.fields if field.required],
            "additionalProperties": not getattr(node, "forbid_unknown_fields", False),
        }

    def _inside(self, node: nodes.Type) -> JsonObject:
        if isinstance(node, nodes.UnionType):
            return {"anyOf": [*self._alternatives(node)]}
        if isinstance(node, nodes.CollectionType):
            return {"items": self.write(node.item_type)}
        if isinstance(node, nodes.TupleType):
            return {"prefixItems": [*map(self.write, node.item_types)]}
        if isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
            return {"propertyNames": _key_of(node.key_type), "additionalProperties": self.write(node.value_type)}
        tp, shape = _LEAVES.get(type(node), (None, {}))
        if shape.keys().isdisjoint(("format", "contentEncoding")):
            return {}
        tp = _leaf_type(node)
        return {CONVERTS: Converter(partial(_takes, tp), expectation(node))}

    def _alternatives(self, node: nodes.UnionType) -> Iterator[JsonObject]:
        """Iterate over the alternatives in the order of `msgspec`. Two structs or more require their tags."""
        tagged = [arm for arm in map(unwrap, node.types) if isinstance(arm, nodes.StructType) and arm.tag is not None]
        for arm in sorted(node.types, key=lambda arm: (isinstance(arm, nodes.NoneType), unwrap(arm) in tagged)):
            plain, schema = unwrap(arm), self.write(arm)
            is_tagged = len(tagged) > 1 and isinstance(plain, nodes.StructType) and not plain.array_like
            yield {"required": [getattr(plain, "tag_field", "")], "allOf": [schema]} if is_tagged else schema


def _shape_of(node: nodes.Type) -> JsonObject:
    """Return the keywords of a type without the schemas inside it."""
    if isinstance(node, nodes.LiteralType):
        return {"enum": [*node.values]}
    if isinstance(node, nodes.EnumType):
        return {"enum": sorted(one.value for one in node.cls)}
    if isinstance(node, nodes.TupleType):
        return {"type": "array", "minItems": len(node.item_types), "maxItems": len(node.item_types)}
    if isinstance(node, _CLASSES) and _is_array(node):
        tags = int(getattr(node, "tag_field", None) is not None)
        least = tags + sum(field.required for field in node.fields)
        most = {"maxItems": tags + len(node.fields)} if getattr(node, "forbid_unknown_fields", True) else {}
        return {"type": "array", **({"minItems": least} if least else {}), **most}
    if isinstance(node, nodes.CollectionType):
        shape, unit = {"type": "array"}, "Items"
    elif isinstance(node, (*_CLASSES, nodes.DictType, nodes.FrozenDictType)):
        shape, unit = {"type": "object"}, "Properties"
    else:
        shape = _LEAVES.get(type(node), (None, {}))[1]
        unit = "Bytes" if "contentEncoding" in shape else "Length"
    names = {**_KEYWORDS, "min_length": f"min{unit}", "max_length": f"max{unit}"}
    bounds = {keyword: value for name, keyword in names.items() if (value := getattr(node, name, None)) is not None}
    return {**shape, **bounds}


def _is_array(node: Any) -> bool:
    return isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)


def _key_of(node: nodes.Type) -> JsonObject | bool:
    """Return the JSON Schema of the names of an object, which `msgspec` converts to keys."""
    tp = _leaf_type(node)
    if isinstance(unwrap(node), nodes.StrType):
        return {**_shape_of(unwrap(node)), "type": "string"}
    if tp is None:
        return True
    mapping: Any = dict
    keyed: Any = mapping[_FINITE if tp is float else tp, None]

    def accepts(name: str) -> bool:
        return _takes(keyed, {name: None})

    return {CONVERTS: Converter(accepts, expectation(node))}


def expectation(node: nodes.Type) -> str:
    """Return the words for the values of a type."""
    node = unwrap(node)
    if isinstance(node, nodes.UnionType):
        return " or ".join(dict.fromkeys(map(expectation, node.types)))
    words, zone = describe(_shape_of(node)), getattr(node, "tz", None)
    return words if zone is None else f"{words} {_ZONES[zone]}"


def _leaf_type(node: nodes.Type) -> Any:
    """Return the Python type of a scalar with its bounds, or None for a type with members."""
    node = unwrap(node)
    if isinstance(node, nodes.LiteralType):
        return Literal[node.values]
    if isinstance(node, nodes.EnumType):
        return node.cls
    python, _ = _LEAVES.get(type(node), (None, {}))
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
    bounds = {name: value for name in names if (value := getattr(node, name, None)) is not None}
    return Annotated[python, msgspec.Meta(**bounds)] if bounds and python is not None else python


def _takes(tp: object, data: object) -> bool:
    try:
        msgspec.convert(data, tp, str_keys=True)
    except REFUSALS:
        return False
    return True


# ---- Python values


def _value_faults(node: nodes.Type, value: object, pointer: str) -> Iterator[Fault]:
    """Iterate over the errors of a Python value before its encoding."""
    node = unwrap(node)
    if isinstance(node, nodes.UnionType):
        yield from _union_faults(node, value, pointer)
    elif isinstance(node, _CLASSES):
        yield from _member_faults(node, value, pointer)
    elif isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
        if not is_object(value):
            yield Fault(pointer, expectation(node), found_in(value))
            return
        names: dict[Any, Any] = value
        for name, item in names.items():
            location = pointer_to(pointer, str(name))
            if any(_value_faults(node.key_type, name, "")):
                yield Fault(location, f"a key that is {expectation(node.key_type)}", found_in(name))
            yield from _value_faults(node.value_type, item, location)
    elif isinstance(node, (nodes.CollectionType, nodes.TupleType)):
        yield from _item_faults(node, value, pointer)
    elif isinstance(node, (nodes.AnyType, nodes.CustomType)):
        yield from plain_faults(value, pointer)
    elif not isinstance(node, nodes.RawType) and not _is_leaf(node, value):
        yield Fault(pointer, expectation(node), found_in(value))


def _item_faults(node: nodes.CollectionType | nodes.TupleType, value: object, pointer: str) -> Iterator[Fault]:
    is_set = isinstance(node, (nodes.SetType, nodes.FrozenSetType))
    if not isinstance(value, Set if is_set else (list, tuple)):
        yield Fault(pointer, "set" if is_set else expectation(node), found_in(value))
        return
    items = cast("Collection[Any]", value)
    if isinstance(node, nodes.TupleType) and len(items) != len(node.item_types):
        yield Fault(pointer, expectation(node), found_in(items))
    inner = node.item_types if isinstance(node, nodes.TupleType) else repeat(node.item_type)
    for index, (tp, item) in enumerate(zip(inner, items, strict=False)):
        yield from _value_faults(tp, item, f"{pointer}/{index}")


def _union_faults(node: nodes.UnionType, value: object, pointer: str) -> Iterator[Fault]:
    """Iterate over the errors inside a value of the kind of an alternative. Otherwise, yield one error."""
    deeper: list[Fault] = []
    for arm in node.types:
        faults = [*islice(_value_faults(arm, value, pointer), MAX_FAULTS)]
        if not faults:
            return
        if not deeper and any(fault.pointer != pointer for fault in faults):
            deeper = faults
    yield from deeper or [Fault(pointer, expectation(node), found_in(value))]


def _member_faults(node: Any, value: Any, pointer: str) -> Iterator[Fault]:
    typed_dict = isinstance(node, nodes.TypedDictType)
    if not isinstance(value, dict if typed_dict else getattr(node.cls, "__origin__", node.cls)):
        cls = mirrored_class(node.cls)
        yield Fault(pointer, "object" if typed_dict else str(getattr(cls, "__name__", cls)), found_in(value))
        return
    for index, field in enumerate(node.fields):
        location = pointer_to(pointer, index if _is_array(node) else field.encode_name)
        member = value.get(field.name, _ABSENT) if typed_dict else getattr(value, field.name, _ABSENT)
        if member is not _ABSENT and member is not msgspec.UNSET:
            yield from _value_faults(field.type, member, location)
        elif member is _ABSENT and (field.required or not typed_dict):
            yield Fault(location, expectation(field.type), NOTHING)


def _is_leaf(node: nodes.Type, value: object) -> bool:
    if isinstance(node, nodes.LiteralType):
        return any(isinstance(value, type(choice)) and value == choice for choice in node.values)
    if isinstance(node, nodes.EnumType):
        return isinstance(value, node.cls)
    tp = _leaf_type(node)
    python = getattr(tp, "__origin__", tp)
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if is_infinite or not isinstance(value, (int, float) if python is float else python):
        return False
    try:
        return _takes(tp, msgspec.to_builtins(value, enc_hook=builtin))
    except REFUSALS:
        return False


# ---- the locations in messages of msgspec

_LOCATION: Final = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_ROUNDS: Final = 8  # after 8 invalid items, fxai checks every item
_LONG: Final = 8  # in shorter arrays, fxai checks every item


def fault_of_message(message: str, data: object) -> Fault:
    """Return a message of `msgspec` as a validation error, with the location that the message names.

    >>> print(fault_of_message("Expected `int`, got `str` - at `$.a`", {"a": "x"}))
    /a: expected int, got str, found string 'x'
    """
    pointer, there = "", data
    for _, token, inner in _walk(message, data):
        pointer, there = pointer_to(pointer, token), inner
    expected = _LOCATION.sub("", message).removeprefix("Expected ").replace("`", "")
    return Fault(pointer, expected, found_in(there))


def _walk(message: str, data: object) -> Iterator[tuple[Any, str, object]]:
    """Iterate over the steps to the location in a message: the enclosing value, the token, and the value inside."""
    location = _LOCATION.search(message)
    for step in _STEP.finditer(location["path"] if location else ""):
        token = step["name"] or step["index"]
        if token is None:
            break
        around, data = data, None
        if is_array(around):
            data = around[int(token)] if token.isdigit() and int(token) < len(around) else None
        elif is_object(around):
            data = around.get(token)
        yield around, token, data


def suspects_in(data: Any, message: str, take: Callable[[Any], Any]) -> dict[int, list[int] | None]:
    """Return the items of a long array that `msgspec` refuses, if it accepts all other items.

    `message` names the first item that `msgspec` refuses. fxai removes the items up to it and converts the data again.
    """
    steps = [*_walk(message, data)]
    arrays = [at for at, (around, _, _) in enumerate(steps) if is_array(around) and len(around) >= _LONG]
    if not arrays:
        return {}
    last = max(arrays, key=lambda at: len(steps[at][0]))
    items, found = steps[last][0], list[int]()
    left, start = items[:], 0
    rest: Any = left
    for around, token, _ in reversed(steps[:last]):
        rest = (
            {**around, token: rest} if is_object(around) else [*around[: int(token)], rest, *around[int(token) + 1 :]]
        )
    for _ in range(_ROUNDS):
        index = next((int(token) for around, token, _ in _walk(message, rest) if around is left), None)
        if index is None:
            break
        found.append(start + index)
        start += index + 1
        left[:] = items[start:]
        try:
            take(rest)
        except REFUSALS as error:
            message = str(error)
        else:
            return {id(items): found, **dict.fromkeys(id(around) for around, _, _ in steps[:last])}
    return {}
