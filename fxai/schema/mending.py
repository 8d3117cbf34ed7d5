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

__all__ = ["holds_nested", "may_be_nested", "may_hold_nested", "retold", "whole_integers"]

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


_NESTED: Final = re.compile(r"[ \t\r\n]*[\[{]")
# In JSON text: a quote, white space and a bracket, as they are or escaped. No bracket opens behind a closing quote.
_QUOTED: Final = r'"(?: |\\[nrt]|\\u00(?:09|0[aAdD]|20))*(?:[\[{]|\\u00[57][bB])'
_QUOTED_NESTED: Final[dict[type, Any]] = {}  # for text and for bytes, made when first asked for
_MOST_LOOKED_AT: Final = 100_000


def may_be_nested(text: str) -> bool:
    """Whether a text begins as the JSON of an object or an array does."""
    return _NESTED.match(text) is not None


def may_hold_nested(text: str | bytes) -> bool:
    """Whether JSON text may hold a string that is the text of an object or an array; it is not parsed for that.

    >>> may_hold_nested('{"a": " {}"}'), may_hold_nested('{"a": {}}')
    (True, False)
    """
    kind = str if isinstance(text, str) else bytes
    pattern: Any = _QUOTED_NESTED.get(kind)
    if pattern is None:
        pattern = _QUOTED_NESTED[kind] = re.compile(_QUOTED if kind is str else _QUOTED.encode())
    found: object = pattern.search(text)
    return found is not None


def holds_nested(data: Any) -> bool:
    """Whether anything in plain data may be the text of an object or an array.

    >>> holds_nested({"a": ["[1]"]}), holds_nested({"a": ["1"]})
    (True, False)
    """
    waiting = [data]
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            break
        one = waiting.pop()
        if isinstance(one, str):
            if may_be_nested(one):
                return True
        elif is_object(one):
            waiting += one.values()
        elif is_array(one):
            waiting += one
    return False
