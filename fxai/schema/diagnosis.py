"""Why data does not fit a type: every fault, each with its JSON pointer. Walked on failure only.

msgspec stops at the first fault and names it in Python's words. This walk agrees with it on what is a fault, finds
them all, and takes what JSON Schema calls an integer (`3.0`) for one.

>>> node = msgspec.inspect.type_info(dict[str, list[int]])
>>> [str(fault) for fault in faults_in(node, {"a": [1, "x"], "b": None})]
["/a/1: expected integer, found string 'x'", '/b: expected array, found null']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect as nodes

from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.expectation import expectation, kinds_of, leaf_type, listed, unwrapped
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to

__all__ = ["faults_in", "retold", "whole_integers"]

_NODEFAULT: Final = msgspec.NODEFAULT
_Objects = (nodes.StructType, nodes.DataclassType, nodes.TypedDictType)


def faults_in(node: nodes.Type, data: object, pointer: str = "") -> Iterator[Fault]:
    """Every place where plain JSON data is not what the type takes."""
    node = unwrapped(node)
    if isinstance(node, nodes.UnionType):
        yield from _union_faults(node, data, pointer)
    elif isinstance(node, (nodes.AnyType, nodes.CustomType, nodes.RawType)):
        return
    elif isinstance(node, _Objects) and not getattr(node, "array_like", False):
        yield from _object_faults(node, data, pointer)
    elif isinstance(node, (nodes.StructType, nodes.NamedTupleType)):
        yield from _record_faults(node, data, pointer)
    elif isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
        yield from _mapping_faults(node, data, pointer)
    elif isinstance(node, (nodes.CollectionType, nodes.TupleType)):
        yield from _array_faults(node, data, pointer)
    elif not _takes(leaf_type(node), data):
        yield Fault(pointer, expectation(node), found_in(data))


def _takes(tp: Any, data: object) -> bool:
    try:
        msgspec.convert(data, tp)
    except (msgspec.ValidationError, ValueError, TypeError):
        return False
    return True


def _union_faults(node: nodes.UnionType, data: object, pointer: str) -> Iterator[Fault]:
    kind = _kind(data)
    fitting = [arm for arm in map(unwrapped, node.types) if kind in kinds_of(arm)]
    exact = [arm for arm in fitting if kind == "integer" and isinstance(arm, nodes.IntType)]
    tagged = [arm for arm in fitting if isinstance(arm, nodes.StructType) and arm.tag is not None]
    if len(tagged) > 1:
        yield from _tagged_faults(tagged, data, pointer)
    elif len(fitting) == 1 or exact:
        yield from faults_in((exact or fitting)[0], data, pointer)
    elif not any(not list(faults_in(arm, data, pointer)) for arm in fitting):
        yield Fault(pointer, expectation(node), found_in(data))


def _tagged_faults(arms: list[nodes.StructType], data: object, pointer: str) -> Iterator[Fault]:
    tags = [arm.tag for arm in arms]
    if is_object(data):
        field = str(arms[0].tag_field)
        place = pointer_to(pointer, field)
        tag = data.get(field, _NODEFAULT)
    else:
        items: Any = data
        place, tag = pointer_to(pointer, 0), items[0] if items else _NODEFAULT
    chosen = [arm for arm in arms if type(arm.tag) is type(tag) and arm.tag == tag]
    if chosen:
        yield from faults_in(chosen[0], data, pointer)
    else:
        yield Fault(place, listed(tags), NOTHING if tag is _NODEFAULT else found_in(tag))


def _object_faults(node: Any, data: object, pointer: str) -> Iterator[Fault]:
    if not is_object(data):
        yield Fault(pointer, "object", found_in(data))
        return
    members = data
    tag_field = getattr(node, "tag_field", None)
    if tag_field is not None and tag_field in members and members[tag_field] != node.tag:
        yield Fault(pointer_to(pointer, tag_field), listed([node.tag]), found_in(members[tag_field]))
    known = {field.encode_name: field for field in node.fields}
    for name, item in members.items():
        if name in known:
            yield from faults_in(known[name].type, item, pointer_to(pointer, name))
        elif getattr(node, "forbid_unknown_fields", False) and name != tag_field:
            yield Fault(pointer_to(pointer, name), "no property of this name", found_in(item))
    for name, field in known.items():
        if field.required and name not in members:
            yield Fault(pointer_to(pointer, name), expectation(field.type), NOTHING)


def _record_faults(node: Any, data: object, pointer: str) -> Iterator[Fault]:
    if not is_listed(data):
        yield Fault(pointer, "array", found_in(data))
        return
    items = list(data)
    first = 0 if getattr(node, "tag_field", None) is None else 1
    if first and items and items[0] != node.tag:
        yield Fault(pointer_to(pointer, 0), listed([node.tag]), found_in(items[0]))
    for index, field in enumerate(node.fields, first):
        if index < len(items):
            yield from faults_in(field.type, items[index], pointer_to(pointer, index))
        elif field.required:
            yield Fault(pointer_to(pointer, index), expectation(field.type), NOTHING)
    most = first + len(node.fields)
    if len(items) > most and getattr(node, "forbid_unknown_fields", True):
        yield Fault(pointer, f"array of at most {most} items", found_in(items))


def _mapping_faults(node: Any, data: object, pointer: str) -> Iterator[Fault]:
    if not is_object(data):
        yield Fault(pointer, expectation(node), found_in(data))
        return
    members = data
    if (node.min_length or 0) > len(members) or (node.max_length is not None and len(members) > node.max_length):
        yield Fault(pointer, expectation(node), found_in(members))
    key = leaf_type(node.key_type)
    for name, item in members.items():
        place = pointer_to(pointer, name)
        if key is not None and not _takes_key(key, name):
            yield Fault(place, f"a key that is {expectation(node.key_type)}", f"key {name!r}")
        yield from faults_in(node.value_type, item, place)


def _takes_key(key: Any, name: object) -> bool:
    try:
        msgspec.convert({name: None}, dict[key, None], str_keys=True)
    except (msgspec.ValidationError, ValueError, TypeError):
        return False
    return True


def _array_faults(node: Any, data: object, pointer: str) -> Iterator[Fault]:
    if not is_listed(data):
        yield Fault(pointer, expectation(node), found_in(data))
        return
    items = list(data)
    if isinstance(node, nodes.TupleType):
        if len(items) != len(node.item_types):
            yield Fault(pointer, expectation(node), found_in(items))
        places = list(zip(node.item_types, items, strict=False))
    else:
        if (node.min_length or 0) > len(items) or (node.max_length is not None and len(items) > node.max_length):
            yield Fault(pointer, expectation(node), found_in(items))
        places = [(node.item_type, item) for item in items]
    for index, (item_node, item) in enumerate(places):
        yield from faults_in(item_node, item, pointer_to(pointer, index))


def _kind(data: object) -> str:
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "boolean"
    if isinstance(data, int):
        return "integer"
    if isinstance(data, float):
        return "number"
    if isinstance(data, str):
        return "string"
    return "array" if is_listed(data) else "object"


def whole_integers(node: nodes.Type, data: Any) -> Any:
    """The data with `3.0` as `3` wherever the type takes integers and no other numbers; the same object if nowhere."""
    node = unwrapped(node)
    if isinstance(data, float):
        kinds = kinds_of(node)
        return int(data) if data.is_integer() and "integer" in kinds and "number" not in kinds else data
    if isinstance(node, nodes.UnionType):
        return _whole_union(node, data)
    if is_object(data):
        return _whole_object(node, data)
    if is_listed(data):
        items = list(data)
        changed = [whole_integers(_item_node(node, index), item) for index, item in enumerate(items)]
        return data if all(old is new for old, new in zip(items, changed, strict=True)) else changed
    return data


def _whole_union(node: nodes.UnionType, data: Any) -> Any:
    kind = _kind(data)
    for arm in node.types:
        arm = unwrapped(arm)
        if kind not in kinds_of(arm):
            continue
        if isinstance(arm, nodes.StructType) and arm.tag is not None:
            tag: object = data.get(str(arm.tag_field), arm.tag) if is_object(data) else next(iter(data), None)
            if tag != arm.tag:
                continue
        return whole_integers(arm, data)
    return data


def _whole_object(node: Any, data: dict[str, Any]) -> Any:
    if isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
        inner: Callable[[str], nodes.Type] = lambda _: node.value_type  # noqa: E731
    else:
        known = {field.encode_name: field.type for field in getattr(node, "fields", ())}
        inner = lambda name: known.get(name, nodes.AnyType())  # noqa: E731
    changed = {name: whole_integers(inner(name), item) for name, item in data.items()}
    return data if all(changed[name] is item for name, item in data.items()) else changed


def _item_node(node: Any, index: int) -> nodes.Type:
    if isinstance(node, nodes.CollectionType):
        return node.item_type
    if isinstance(node, nodes.TupleType):
        return node.item_types[index] if index < len(node.item_types) else nodes.AnyType()
    fields = getattr(node, "fields", ())
    index -= 0 if getattr(node, "tag_field", None) is None else 1
    return fields[index].type if 0 <= index < len(fields) else nodes.AnyType()


_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")


def retold(message: str, data: object) -> Fault:
    """A message of msgspec as a fault, with as much of the place as it tells: for what only msgspec knows."""
    place = _PLACE.search(message)
    pointer, there = "", data
    for step in _STEP.finditer(place["path"] if place else ""):
        token = step["name"] or step["index"]
        if token is None:
            break
        pointer = pointer_to(pointer, token)
        there = _inside(there, token)
    said = _PLACE.sub("", message)
    return Fault(pointer, said.removeprefix("Expected ").replace("`", ""), found_in(there))


def _inside(data: object, token: str) -> object:
    if is_object(data):
        return data.get(token)
    if is_array(data) and token.isdigit() and int(token) < len(items := data):
        return items[int(token)]
    return None
