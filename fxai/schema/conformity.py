"""Whether a Python value is of the type it is declared to be, place by place.

The quick check writes the value, reads it back as the type and compares: equal means conforming. Where it is no
verdict, this walk decides the rest (a tuple where a list is declared, classes that do not compare)
and finds every fault.

>>> [str(fault) for fault in misfits(msgspec.inspect.type_info(dict[str, int]), {"a": "1", 2: 3})]
["/a: expected integer, found string '1'", '/2: expected a key that is string, found integer 2']
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import repeat
from typing import Any, Final, cast

import msgspec
from msgspec import inspect as nodes

from fxai.schema.expectation import expectation, leaf_type, unwrapped
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to
from fxai.schema.parsing import builtin, plain_faults
from fxai.schema.plan import mirrored

__all__ = ["misfits"]

_MISSING: Final = object()


def misfits(node: nodes.Type, value: object, pointer: str = "") -> Iterator[Fault]:
    """Every place where a Python value is not what the type declares, or is no number that JSON has."""
    node = unwrapped(node)
    if isinstance(node, nodes.UnionType):
        yield from _union_misfits(node, value, pointer)
    elif isinstance(node, (nodes.AnyType, nodes.CustomType)):
        yield from plain_faults(value, pointer)
    elif isinstance(node, nodes.RawType):
        return
    elif isinstance(node, nodes.TypedDictType):
        yield from _dict_misfits(node, value, pointer)
    elif isinstance(node, (nodes.StructType, nodes.DataclassType, nodes.NamedTupleType)):
        yield from _object_misfits(node, value, pointer)
    elif isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
        yield from _mapping_misfits(node, value, pointer)
    elif isinstance(node, (nodes.CollectionType, nodes.TupleType)):
        yield from _array_misfits(node, value, pointer)
    elif not _is_leaf(node, value):
        yield Fault(pointer, expectation(node), found_in(value))


def _is_leaf(node: nodes.Type, value: object) -> bool:
    if isinstance(node, nodes.LiteralType):
        return any(isinstance(value, type(choice)) and value == choice for choice in node.values)
    if isinstance(node, nodes.EnumType):
        return isinstance(value, node.cls)
    tp = leaf_type(node)
    python = getattr(tp, "__origin__", tp)
    if isinstance(value, bool) and python is not bool:
        return False
    if python is float:
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
    elif not isinstance(value, python):
        return False
    try:
        msgspec.convert(msgspec.to_builtins(value, enc_hook=builtin), tp)
    except (msgspec.ValidationError, TypeError, ValueError):
        return False
    return True


def _union_misfits(node: nodes.UnionType, value: object, pointer: str) -> Iterator[Fault]:
    told: list[Fault] | None = None
    for arm in node.types:
        faults = list(misfits(arm, value, pointer))
        if not faults:
            return
        if any(fault.pointer != pointer for fault in faults):
            told = told or faults  # the value is of this alternative's kind, and wrong deeper down
    yield from told or [Fault(pointer, expectation(node), found_in(value))]


def _object_misfits(node: Any, value: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(value, getattr(node.cls, "__origin__", node.cls)):
        stands_for = mirrored(node.cls)
        yield Fault(pointer, str(getattr(stands_for, "__name__", stands_for)), found_in(value))
        return
    arrayed = isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)
    for index, field in enumerate(node.fields):
        place = pointer_to(pointer, index if arrayed else field.encode_name)
        member = getattr(value, field.name, _MISSING)
        if member is _MISSING:
            yield Fault(place, expectation(field.type), NOTHING)
        elif member is not msgspec.UNSET:
            yield from misfits(field.type, member, place)


def _dict_misfits(node: nodes.TypedDictType, value: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(pointer, "object", found_in(value))
        return
    members = cast("dict[str, object]", value)
    for field in node.fields:
        place = pointer_to(pointer, field.name)
        if field.name in members:
            yield from misfits(field.type, members[field.name], place)
        elif field.required:
            yield Fault(place, expectation(field.type), NOTHING)


def _mapping_misfits(node: Any, value: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(pointer, expectation(node), found_in(value))
        return
    for key, item in cast("dict[object, object]", value).items():
        place = pointer_to(pointer, str(key))
        if list(misfits(node.key_type, key)):
            yield Fault(place, f"a key that is {expectation(node.key_type)}", found_in(key))
        yield from misfits(node.value_type, item, place)


def _array_misfits(node: Any, value: object, pointer: str) -> Iterator[Fault]:
    accepted: Any = Set if isinstance(node, (nodes.SetType, nodes.FrozenSetType)) else (list, tuple)
    if not isinstance(value, accepted):
        yield Fault(pointer, "set" if accepted is Set else expectation(node), found_in(value))
        return
    items = list(cast("Sequence[object]", value))
    fixed = isinstance(node, nodes.TupleType)
    if fixed and len(items) != len(node.item_types):
        yield Fault(pointer, expectation(node), found_in(items))
    inner: Iterable[nodes.Type] = node.item_types if fixed else repeat(node.item_type)
    for index, (item, item_node) in enumerate(zip(items, inner, strict=False)):
        yield from misfits(item_node, item, pointer_to(pointer, index))
