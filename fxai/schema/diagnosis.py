"""Why data does not fit a type: every fault, each with its JSON pointer. Made at a type's first failure.

msgspec stops at the first fault and names it in Python's words. The judges here agree with it on what is a fault, find
them all, and take what JSON Schema calls an integer (`3.0`) for one.

>>> node = msgspec.inspect.type_info(dict[str, list[int]])
>>> [str(fault) for fault in faults_of(judge_of(node), {"a": [1, 2.0, "x"], "b": None})]
["/a/2: expected integer, found string 'x'", '/b: expected array, found null']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from typing import Any, Final, TypeAlias, final

import msgspec
from msgspec import inspect as nodes

from fxai.schema.budget import MAX_FAULTS, MAX_STEPS, Exhausted
from fxai.schema.data import is_listed, is_object
from fxai.schema.expectation import either, expectation, kind_in, kinds_of, leaf_type, listed, unwrapped
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to

__all__ = ["Findings", "Judge", "faults_of", "judge_of"]

Judge: TypeAlias = Callable[[Any, str, "Findings"], None]
"""Adds to a list what is wrong with data that stands at a pointer."""

_ATOMS: Final = (str, int, bool, type(None))
_ANYTHING = (nodes.AnyType, nodes.CustomType, nodes.RawType)
_MAPPINGS = (nodes.DictType, nodes.FrozenDictType)
_ABSENT: Final = object()
_LIST: Final = 8  # how many names that are looked up cost as much as a step
_CONVERTED: Final = 4  # steps: what asking msgspec about one value costs


@final
class Findings(list[Fault]):
    """The faults that were found, as many as are told, and how many steps are left to find more.

    Attributes:
        left: the steps; the limits are those of `fxai.schema.budget`.
        whole: everything was looked at.
    """

    __slots__ = ("left", "whole")

    def __init__(self, left: int = MAX_STEPS) -> None:
        super().__init__()
        self.left = left
        self.whole = True

    def add(self, fault: Fault) -> None:
        """Tell a fault.

        Raises:
            Exhausted: as many as are told are found.
        """
        self.append(fault)
        if len(self) >= MAX_FAULTS:
            raise Exhausted

    def take(self, steps: int) -> None:
        """Count steps.

        Raises:
            Exhausted: so many are not left.
        """
        self.left -= steps
        if self.left < 0:
            raise Exhausted


def faults_of(judge: Judge, data: object) -> Findings:
    """Every place where plain JSON data is not what a type takes, in the order of the type, as far as the budget goes.

    >>> many = faults_of(judge_of(msgspec.inspect.type_info(list[int])), ["x"] * 1_000)
    >>> len(many), many.whole
    (100, False)
    """
    found = Findings()
    try:
        judge(data, "", found)
    except Exhausted:
        found.whole = False
    return found


def judge_of(node: nodes.Type) -> Judge:
    """The judge of a type, from msgspec's description of it."""
    return _Judges({}).of(node)


def _nothing_wrong(_: Any, __: str, ___: Findings) -> None: ...


class _Judges:
    """The judges of one type, by class: a class that holds itself has one judge."""

    def __init__(self, known: dict[int, Judge]) -> None:
        self.known = known

    def of(self, node: nodes.Type) -> Judge:
        node = unwrapped(node)
        if isinstance(node, _ANYTHING):
            return _nothing_wrong
        if isinstance(node, nodes.UnionType):
            return self._union(node)
        if isinstance(node, (nodes.StructType, nodes.DataclassType, nodes.TypedDictType, nodes.NamedTupleType)):
            return self._class(node)
        if isinstance(node, _MAPPINGS):
            return self._mapping(node)
        if isinstance(node, (nodes.CollectionType, nodes.TupleType)):
            return self._array(node)
        return _leaf(node)

    def _class(self, node: Any) -> Judge:
        """The judge of a class, which stands in for itself while its members are looked at."""
        if id(node) in self.known:
            return self.known[id(node)]
        made: list[Judge] = []

        def later(data: Any, pointer: str, found: Findings) -> None:
            made[0](data, pointer, found)

        self.known[id(node)] = later
        arrayed = isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)
        made.append(self._record(node) if arrayed else self._object(node))
        return made[0]

    def _object(self, node: Any) -> Judge:
        members = [
            (name := field.encode_name, pointer_to("", name), _exact(tp := field.type), self.of(tp), field.required, tp)
            for field in node.fields
        ]
        tag_field = getattr(node, "tag_field", None)
        known = {tag_field, *(name for name, *_ in members)}
        closed = getattr(node, "forbid_unknown_fields", False)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_object(data):
                found.add(Fault(pointer, "object", found_in(data)))
                return
            found.take(1 + len(members) + (len(data) // _LIST if closed else 0))
            if tag_field is not None and data.get(tag_field, node.tag) != node.tag:
                found.add(Fault(pointer_to(pointer, tag_field), listed([node.tag]), found_in(data[tag_field])))
            for name, suffix, exact, inner, required, tp in members:
                if name in data:
                    if type(data[name]) is not exact:
                        inner(data[name], pointer + suffix, found)
                elif required:
                    found.add(Fault(pointer + suffix, expectation(tp), NOTHING))
            if closed:
                _find_beyond(known, data, pointer, found)

        return judge

    def _record(self, node: Any) -> Judge:
        first = 0 if getattr(node, "tag_field", None) is None else 1
        members = [(self.of(field.type), field.required, field.type) for field in node.fields]
        most = first + len(members) if getattr(node, "forbid_unknown_fields", True) else None

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_listed(data):
                found.add(Fault(pointer, "array", found_in(data)))
                return
            found.take(1 + len(members))
            if first and (not data or data[0] != node.tag):
                there = found_in(data[0]) if data else NOTHING
                found.add(Fault(pointer_to(pointer, 0), listed([node.tag]), there))
            for index, (inner, required, tp) in enumerate(members, first):
                if index < len(data):
                    inner(data[index], pointer_to(pointer, index), found)
                elif required:
                    found.add(Fault(pointer_to(pointer, index), expectation(tp), NOTHING))
            if most is not None and len(data) > most:
                found.add(Fault(pointer, f"array of at most {most} items", found_in(data)))

        return judge

    def _mapping(self, node: Any) -> Judge:
        expected, least, most = expectation(node), node.min_length or 0, node.max_length
        inner, key = self.of(node.value_type), leaf_type(node.key_type)
        exact = _exact(node.value_type)
        strings = key is str
        named = f"a key that is {expectation(node.key_type)}"

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_object(data) or len(data) < least or (most is not None and len(data) > most):
                found.add(Fault(pointer, expected, found_in(data)))
            if not is_object(data):
                return
            found.take(1)
            for name, item in data.items():
                found.left -= 1
                if not strings and key is not None:
                    found.take(_CONVERTED)
                    if not _takes_key(key, name):
                        found.add(Fault(pointer_to(pointer, name), named, f"key {_key_text(name)}"))
                if type(item) is not exact or found.left < 0:
                    found.take(1)
                    inner(item, pointer_to(pointer, name), found)

        return judge

    def _array(self, node: Any) -> Judge:
        expected = expectation(node)
        if isinstance(node, nodes.TupleType):
            judges: Iterable[Judge] = tuple(self.of(item) for item in node.item_types)
            least = most = len(node.item_types)
            exact = None
        else:
            exact = _exact(node.item_type)
            judges, least, most = repeat(self.of(node.item_type)), node.min_length or 0, node.max_length

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_listed(data) or len(data) < least or (most is not None and len(data) > most):
                found.add(Fault(pointer, expected, found_in(data)))
            if not is_listed(data):
                return
            found.take(1)
            for index, (item, inner) in enumerate(zip(data, judges, strict=False)):
                found.left -= 1
                if type(item) is not exact or found.left < 0:
                    found.take(1)
                    inner(item, f"{pointer}/{index}", found)

        return judge

    def _union(self, node: nodes.UnionType) -> Judge:
        expected = expectation(node)
        arms = [(kinds_of(arm), unwrapped(arm), self.of(arm)) for arm in node.types]
        tagged = {arm.tag: judge for _, arm, judge in arms if isinstance(arm, nodes.StructType) and arm.tag is not None}
        field = next((arm.tag_field for _, arm, _ in arms if isinstance(arm, nodes.StructType) and arm.tag), None)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            kind = kind_in(data)
            whole = "integer" if kind == "number" and data.is_integer() else kind
            fitting = [arm_judge for kinds, _, arm_judge in arms if kind in kinds or whole in kinds]
            if len(tagged) > 1 and fitting and kind in ("object", "array"):
                _tagged(tagged, str(field), data, pointer, found)
            elif len(fitting) == 1:
                fitting[0](data, pointer, found)
            elif not any(not faults_of(arm_judge, data) for arm_judge in fitting):
                found.add(Fault(pointer, expected, found_in(data)))

        return judge


def _find_beyond(known: Collection[object], data: dict[str, Any], pointer: str, found: Findings) -> None:
    """The properties of a closed object that it does not have."""
    for name, value in data.items():
        if name not in known:
            found.add(Fault(pointer_to(pointer, name), "no property of this name", found_in(value)))


def _tagged(arms: dict[Any, Judge], field: str, data: Any, pointer: str, found: Findings) -> None:
    tag: object = _ABSENT
    if is_object(data):
        place, tag = pointer_to(pointer, field), data.get(field, _ABSENT)
    else:
        place, tag = pointer_to(pointer, 0), data[0] if data else _ABSENT
    chosen = next((arm for value, arm in arms.items() if type(value) is type(tag) and value == tag), None)
    if chosen is not None:
        chosen(data, pointer, found)
    else:
        found.add(Fault(place, either(arms), NOTHING if tag is _ABSENT else found_in(tag)))


def _exact(node: nodes.Type) -> type | None:
    """The Python type of which every value fits, so that no judge need be asked."""
    tp = leaf_type(node)
    return tp if tp in _ATOMS else None


def _leaf(node: nodes.Type) -> Judge:
    tp, expected = leaf_type(node), expectation(node)
    exact = tp if tp in (str, bool, type(None)) else None
    whole = "integer" in kinds_of(node) and "number" not in kinds_of(node)

    def judge(data: Any, pointer: str, found: Findings) -> None:
        if type(data) is exact:
            return
        found.take(_CONVERTED)
        number = int(data) if whole and type(data) is float and data.is_integer() else data
        if exact is not None or not _takes(tp, number):
            found.add(Fault(pointer, expected, found_in(data)))

    def judge_integer(data: Any, pointer: str, found: Findings) -> None:
        if type(data) is not int and not (type(data) is float and data.is_integer()):
            found.add(Fault(pointer, expected, found_in(data)))

    return judge_integer if tp is int else judge


def _key_text(name: object) -> str:
    """A key in a message; of a long one the beginning."""
    return found_in(name).removeprefix("string ")


def _takes(tp: Any, data: object) -> bool:
    try:
        msgspec.convert(data, tp)
    except (msgspec.ValidationError, ValueError, TypeError):
        return False
    return True


def _takes_key(key: Any, name: object) -> bool:
    try:
        msgspec.convert({name: None}, dict[key, None], str_keys=True)
    except (msgspec.ValidationError, ValueError, TypeError):
        return False
    return True
