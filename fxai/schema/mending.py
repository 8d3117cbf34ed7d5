"""Data that is nearly right: `3.0` where an integer belongs, JSON text where an object does, msgspec's messages.

>>> import msgspec
>>> whole_integers(msgspec.inspect.type_info(dict[str, int]), {"a": 3.0})
{'a': 3}
>>> print(retold("Expected `int`, got `str` - at `$.a`", {"a": "x"}))
/a: expected int, got str, found string 'x'
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import inspect as nodes

from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.expectation import kind_in, kinds_of, unwrapped
from fxai.schema.fault import Fault, found_in, pointer_to

__all__ = ["retold", "whole_integers"]

_ANY: Final = nodes.AnyType()
_OPEN: Final = (nodes.AnyType, nodes.CustomType, nodes.RawType)


def whole_integers(node: nodes.Type, data: Any) -> Any:
    """The data with `3.0` as `3` wherever the type takes integers and no other numbers; the same object if nowhere."""
    node = unwrapped(node)
    if isinstance(node, _OPEN):
        return data
    if isinstance(data, float):
        kinds = kinds_of(node)
        return int(data) if data.is_integer() and "integer" in kinds and "number" not in kinds else data
    if isinstance(node, nodes.UnionType):
        return _whole_union(node, data)
    if is_object(data):
        changed = {name: whole_integers(_member_node(node, name), item) for name, item in data.items()}
        return data if all(changed[name] is item for name, item in data.items()) else changed
    if is_listed(data):
        items = [whole_integers(_item_node(node, index), item) for index, item in enumerate(data)]
        return data if all(old is new for old, new in zip(data, items, strict=True)) else items
    return data


def _whole_union(node: nodes.UnionType, data: Any) -> Any:
    kind = kind_in(data)
    for arm in map(unwrapped, node.types):
        if kind not in kinds_of(arm):
            continue
        if isinstance(arm, nodes.StructType) and arm.tag is not None:
            tag: object = data.get(str(arm.tag_field), arm.tag) if is_object(data) else next(iter(data), None)
            if tag != arm.tag:
                continue
        return whole_integers(arm, data)
    return data


def _member_node(node: Any, name: str) -> nodes.Type:
    if isinstance(node, (nodes.DictType, nodes.FrozenDictType)):
        return node.value_type
    return next((field.type for field in getattr(node, "fields", ()) if field.encode_name == name), _ANY)


def _item_node(node: Any, index: int) -> nodes.Type:
    if isinstance(node, nodes.CollectionType):
        return node.item_type
    if isinstance(node, nodes.TupleType):
        return node.item_types[index] if index < len(node.item_types) else _ANY
    fields = getattr(node, "fields", ())
    index -= 0 if getattr(node, "tag_field", None) is None else 1
    return fields[index].type if 0 <= index < len(fields) else _ANY


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
    if is_array(data) and token.isdigit() and int(token) < len(data):
        return data[int(token)]
    return None
