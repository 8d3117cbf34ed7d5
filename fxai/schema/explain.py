"""Every fault of data that does not fit a type, and of a Python value that is not of its type, within one budget.

msgspec stops at the first fault and names it in Python's words. The judges here agree with it on what is a fault, find
them all, and take what JSON Schema calls an integer (`3.0`) for one. They are made at the first failure of a type.

>>> numbers = Explainer(dict[str, list[int]])
>>> [str(fault) for fault in numbers.faults_of_data({"a": [1, 2.0, "x"], "b": None})]
["/a/2: expected integer, found string 'x'", '/b: expected array, found null']
>>> [str(fault) for fault in Explainer(dict[str, int]).faults_of_value({"a": "1", 2: 3})]
["/a: expected integer, found string '1'", '/2: expected a key that is string, found integer 2']
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import types
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from itertools import repeat
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, final

import msgspec
from msgspec import inspect as nodes
from typing_extensions import override

from fxai.schema.budget import ExhaustedError, Findings
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.fault import (
    NOTHING,
    Fault,
    either,
    expectation,
    found_in,
    kind_in,
    kinds_of,
    list_values,
    pointer_to,
    unwrap,
)
from fxai.schema.parsing import builtin, plain_faults
from fxai.schema.plan import mirrored_class

_Judge: TypeAlias = Callable[[Any, str, Findings], None]
"""Adds what is wrong with a value that stands at a pointer."""

_ATOMS: Final = (str, int, bool, type(None))
_ANYTHING = (nodes.AnyType, nodes.CustomType, nodes.RawType)
_MAPPINGS = (nodes.DictType, nodes.FrozenDictType)
_CLASSES = (nodes.StructType, nodes.DataclassType, nodes.TypedDictType, nodes.NamedTupleType)
_ABSENT: Final = object()
_DICT: Final[Any] = dict
_NAMES_A_STEP: Final = 8  # how many names that are looked up cost as much as a step
_CONVERTED: Final = 4  # steps: what asking msgspec about one value costs


@final
class Explainer:
    """Finds every fault of data, and of Python values, of one type."""

    __slots__ = ("_judge", "_node", "_value_judge")

    def __init__(self, wire: Any) -> None:
        self._node = msgspec.inspect.type_info(wire)
        self._judge = _DataJudges().of(self._node)
        self._value_judge: _Judge | None = None

    def faults_of_data(self, data: object) -> Findings:
        """Every place where plain JSON data is not what the type takes, as far as the budget goes.

        >>> many = Explainer(list[int]).faults_of_data(["x"] * 1_000)
        >>> len(many), many.complete
        (100, False)
        """
        return _findings(self._judge, data, "", Findings())

    def faults_of_value(self, value: object) -> Findings:
        """Every place where a Python value is not what the type declares, or is no number that JSON has."""
        if self._value_judge is None:
            self._value_judge = _ValueJudges().of(self._node)
        return _findings(self._value_judge, value, "", Findings.within(sys.maxsize))


def _findings(judge: _Judge, value: object, pointer: str, found: Findings) -> Findings:
    try:
        judge(value, pointer, found)
    except ExhaustedError:
        found.complete = False
    return found


class _Judges:
    """The judges of the places of one type; a class that holds itself has one judge."""

    def __init__(self) -> None:
        self.known: dict[int, _Judge] = {}

    def of(self, node: nodes.Type) -> _Judge:
        """The judge of a place, from msgspec's description of its type."""
        node = unwrap(node)
        if isinstance(node, nodes.UnionType):
            return self.union(node)
        if isinstance(node, _CLASSES):
            return self._class(node)
        if isinstance(node, _MAPPINGS):
            return self.mapping(node)
        if isinstance(node, (nodes.CollectionType, nodes.TupleType)):
            return self.array(node)
        return self.leaf(node)

    def _class(self, node: Any) -> _Judge:
        if id(node) in self.known:
            return self.known[id(node)]
        made: list[_Judge] = []

        def later(value: Any, pointer: str, found: Findings) -> None:
            made[0](value, pointer, found)

        self.known[id(node)] = later
        made.append(self.members(node))
        return made[0]

    def items(self, node: Any) -> Iterable[_Judge]:
        """The judges of the items of a list, set or tuple."""
        fixed = isinstance(node, nodes.TupleType)
        return tuple(map(self.of, node.item_types)) if fixed else repeat(self.of(node.item_type))

    @abstractmethod
    def union(self, node: nodes.UnionType) -> _Judge: ...
    @abstractmethod
    def members(self, node: Any) -> _Judge: ...
    @abstractmethod
    def mapping(self, node: Any) -> _Judge: ...
    @abstractmethod
    def array(self, node: Any) -> _Judge: ...
    @abstractmethod
    def leaf(self, node: nodes.Type) -> _Judge: ...


# ---- plain data


@final
class _DataJudges(_Judges):
    """Judges of plain JSON data."""

    @override
    def members(self, node: Any) -> _Judge:
        arrayed = isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)
        return self._record(node) if arrayed else self._object(node)

    def _object(self, node: Any) -> _Judge:
        members = list(map(self._member, node.fields))
        cost = 1 + len(members)
        tag_field = getattr(node, "tag_field", None)
        known = {tag_field, *(name for name, *_ in members)}
        closed = getattr(node, "forbid_unknown_fields", False)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if data.__class__ is not dict and not is_object(data):
                found.add(Fault(pointer, "object", found_in(data)))
                return
            found.take(cost + len(data) // _NAMES_A_STEP if closed else cost)
            if tag_field is not None and data.get(tag_field, node.tag) != node.tag:
                found.add(Fault(pointer_to(pointer, tag_field), list_values([node.tag]), found_in(data[tag_field])))
            for name, suffix, exact, inner, needed in members:
                value = data.get(name, _ABSENT)
                if value.__class__ is exact:
                    continue
                if value is not _ABSENT:
                    inner(value, pointer + suffix, found)
                elif needed is not None:
                    found.add(Fault(pointer + suffix, needed, NOTHING))
            if closed:
                _find_unknown(known, data, pointer, found)

        return judge

    def _member(self, field: Any) -> tuple[str, str, type | None, _Judge, str | None]:
        """A field: its name, its pointer, the Python type that surely fits, its judge, what is expected if needed."""
        tp, name = field.type, field.encode_name
        return name, pointer_to("", name), _exact(tp), self.of(tp), _missing_words(field)

    def _record(self, node: Any) -> _Judge:
        first = 0 if getattr(node, "tag_field", None) is None else 1
        members = [(self.of(field.type), _missing_words(field)) for field in node.fields]
        most = first + len(members) if getattr(node, "forbid_unknown_fields", True) else None
        expected = expectation(node)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_listed(data):
                found.add(Fault(pointer, expected, found_in(data)))
                return
            found.take(1 + len(members))
            if first and (not data or data[0] != node.tag):
                there = found_in(data[0]) if data else NOTHING
                found.add(Fault(pointer_to(pointer, 0), list_values([node.tag]), there))
            for index, (inner, needed) in enumerate(members, first):
                if index < len(data):
                    inner(data[index], pointer_to(pointer, index), found)
                elif needed is not None:
                    found.add(Fault(pointer_to(pointer, index), needed, NOTHING))
            if most is not None and len(data) > most:
                found.add(Fault(pointer, expected, found_in(data)))

        return judge

    @override
    def mapping(self, node: Any) -> _Judge:
        expected, least, most = expectation(node), node.min_length or 0, node.max_length
        inner, key, exact = self.of(node.value_type), _leaf_type(node.key_type), _exact(node.value_type)
        named = f"a key that is {expectation(node.key_type)}"

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_object(data) or len(data) < least or (most is not None and len(data) > most):
                found.add(Fault(pointer, expected, found_in(data)))
            if not is_object(data):
                return
            found.take(1)
            for name, item in data.items():
                found.left -= 1
                if key is not str and key is not None:
                    found.take(_CONVERTED)
                    if not _takes(_DICT[key, None], {name: None}):
                        text = found_in(name).removeprefix("string ")
                        found.add(Fault(pointer_to(pointer, name), named, f"key {text}"))
                if type(item) is not exact or found.left < 0:
                    found.take(1)
                    inner(item, pointer_to(pointer, name), found)

        return judge

    @override
    def array(self, node: Any) -> _Judge:
        expected, judges = expectation(node), self.items(node)
        fixed = isinstance(node, nodes.TupleType)
        exact = None if fixed else _exact(node.item_type)
        bulk = None if fixed or exact is not None else _python_type(node.item_type, set())
        listed: Any = None if bulk is None else types.GenericAlias(list, (bulk,))
        least: int = len(node.item_types) if fixed else node.min_length or 0
        most: int | None = len(node.item_types) if fixed else node.max_length

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_listed(data) or len(data) < least or (most is not None and len(data) > most):
                found.add(Fault(pointer, expected, found_in(data)))
            if not is_listed(data):
                return
            found.take(1)
            suspects = enumerate(data) if listed is None else _suspects(data, listed, found)
            for (index, item), inner in zip(suspects, judges, strict=False):
                found.left -= 1
                if type(item) is not exact or found.left < 0:
                    found.take(1)
                    inner(item, f"{pointer}/{index}", found)

        return judge

    @override
    def union(self, node: nodes.UnionType) -> _Judge:
        expected = expectation(node)
        arms = [(kinds_of(arm), unwrap(arm), self.of(arm)) for arm in node.types]
        tagged = {arm.tag: judge for _, arm, judge in arms if isinstance(arm, nodes.StructType) and arm.tag is not None}
        field = next((arm.tag_field for _, arm, _ in arms if isinstance(arm, nodes.StructType) and arm.tag), None)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            kind = kind_in(data)
            whole = "integer" if kind == "number" and data.is_integer() else kind
            fitting = [arm_judge for kinds, _, arm_judge in arms if kind in kinds or whole in kinds]
            if len(tagged) > 1 and fitting and kind in ("object", "array"):
                _judge_tagged(tagged, str(field), data, pointer, found)
                return
            if len(fitting) == 1:
                fitting[0](data, pointer, found)
                return
            tried = [_findings(arm_judge, data, pointer, Findings()) for arm_judge in fitting]
            taken = [inner for inner in tried if not inner]
            if taken:
                for place in min(taken, key=lambda inner: len(inner.integers)).integers:
                    found.add_integer(place)
            else:
                found.add(Fault(pointer, expected, found_in(data)))

        return judge

    @override
    def leaf(self, node: nodes.Type) -> _Judge:
        if isinstance(node, _ANYTHING):
            return _accept
        tp, expected = _leaf_type(node), expectation(node)
        exact = tp if tp in (str, bool, type(None)) else None
        whole = "integer" in kinds_of(node) and "number" not in kinds_of(node)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if type(data) is exact:
                return
            found.take(_CONVERTED)
            is_whole = whole and type(data) is float and data.is_integer()
            if exact is not None or not _takes(tp, int(data) if is_whole else data):
                found.add(Fault(pointer, expected, found_in(data)))
            elif is_whole:
                found.add_integer(pointer)

        def judge_integer(data: Any, pointer: str, found: Findings) -> None:
            if type(data) is float and data.is_integer():
                found.add_integer(pointer)
            elif type(data) is not int:
                found.add(Fault(pointer, expected, found_in(data)))

        return judge_integer if tp is int else judge


def _accept(_: Any, __: str, ___: Findings) -> None: ...


def _missing_words(field: Any) -> str | None:
    """What a required field expects; None for another."""
    return expectation(field.type) if field.required else None


def _find_unknown(known: Collection[object], data: dict[str, Any], pointer: str, found: Findings) -> None:
    for name, value in data.items():
        if name not in known:
            found.add(Fault(pointer_to(pointer, name), "no property of this name", found_in(value)))


def _judge_tagged(arms: dict[Any, _Judge], field: str, data: Any, pointer: str, found: Findings) -> None:
    """Judge by the struct that the tag in the data names."""
    first: object = _ABSENT if is_object(data) or not data else data[0]
    tag = data.get(field, _ABSENT) if is_object(data) else first
    place = pointer_to(pointer, field if is_object(data) else 0)
    chosen = next((arm for value, arm in arms.items() if type(value) is type(tag) and value == tag), None)
    if chosen is not None:
        chosen(data, pointer, found)
    else:
        found.add(Fault(place, either(arms), NOTHING if tag is _ABSENT else found_in(tag)))


def _exact(node: nodes.Type) -> type | None:
    """The Python type of which every value fits, so that no judge need be asked."""
    tp = _leaf_type(node)
    return tp if tp in _ATOMS else None


def _takes(tp: Any, data: object) -> bool:
    try:
        msgspec.convert(data, tp, str_keys=True)
    except (msgspec.ValidationError, ValueError, TypeError):
        return False
    return True


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


def _leaf_type(node: nodes.Type) -> Any:
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


# ---- many items

_ROUNDS: Final = 8  # items that msgspec names before all that are left are judged
_NAMED: Final = re.compile(r" - at `\$\[(\d+)\]")


def _suspects(data: Sequence[Any], listed: Any, found: Findings) -> Iterator[tuple[int, Any]]:
    """Iterate over the items that msgspec refuses, and over all items after the first eight of these."""
    start = 0
    for _ in range(_ROUNDS):
        try:
            msgspec.convert(data[start:], listed, str_keys=True)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            named = _NAMED.search(str(error))
            if named is None:
                break
            start += int(named[1])
            found.take(int(named[1]))
            yield start, data[start]
            start += 1
        else:
            return
    yield from enumerate(data[start:], start)


def _python_type(node: nodes.Type, around: set[int]) -> Any:
    """Return the type of a place, if msgspec converts plain data to it by no hook and no hash. Otherwise None."""
    node = unwrap(node)
    if isinstance(node, nodes.ListType) and node.min_length is None and node.max_length is None:
        inner = _python_type(node.item_type, around)
        return None if inner is None else types.GenericAlias(list, (inner,))
    if isinstance(node, nodes.UnionType):
        arms = [_python_type(arm, around) for arm in node.types]
        return None if None in arms else Union[(*arms,)]
    if not isinstance(node, _CLASSES):
        return _leaf_type(node)
    if getattr(node.cls, "__parameters__", ()):
        return None
    if id(node) not in around:
        around.add(id(node))
        if any(_python_type(field.type, around) is None for field in node.fields):
            return None
    return node.cls


# ---- Python values


@final
class _ValueJudges(_Judges):
    """Judges of Python values, as they are to be encoded."""

    @override
    def union(self, node: nodes.UnionType) -> _Judge:
        expected, arms = expectation(node), list(map(self.of, node.types))

        def judge(value: Any, pointer: str, found: Findings) -> None:
            deeper: Findings | None = None
            for arm in arms:
                faults = _findings(arm, value, pointer, Findings.within(sys.maxsize))
                if not faults:
                    return
                if deeper is None and any(fault.pointer != pointer for fault in faults):
                    deeper = faults  # the value is of this alternative's kind, and wrong deeper down
            for fault in deeper or [Fault(pointer, expected, found_in(value))]:
                found.add(fault)

        return judge

    @override
    def members(self, node: Any) -> _Judge:
        typed_dict = isinstance(node, nodes.TypedDictType)
        arrayed = isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)
        cls = dict if typed_dict else getattr(node.cls, "__origin__", node.cls)
        stands_for = mirrored_class(node.cls)
        kind = "object" if typed_dict else str(getattr(stands_for, "__name__", stands_for))
        members = [
            (field.name, index if arrayed else field.encode_name, self.of(field.type), field.required, field.type)
            for index, field in enumerate(node.fields)
        ]

        def judge(value: Any, pointer: str, found: Findings) -> None:
            if not isinstance(value, cls):
                found.add(Fault(pointer, kind, found_in(value)))
                return
            for name, token, inner, required, tp in members:
                member = value.get(name, _ABSENT) if typed_dict else getattr(value, name, _ABSENT)
                if member is not _ABSENT and member is not msgspec.UNSET:
                    inner(member, pointer_to(pointer, token), found)
                elif member is _ABSENT and (required or not typed_dict):
                    found.add(Fault(pointer_to(pointer, token), expectation(tp), NOTHING))

        return judge

    @override
    def mapping(self, node: Any) -> _Judge:
        expected, inner, key = expectation(node), self.of(node.value_type), self.of(node.key_type)
        named = f"a key that is {expectation(node.key_type)}"

        def judge(value: Any, pointer: str, found: Findings) -> None:
            if not isinstance(value, dict):
                found.add(Fault(pointer, expected, found_in(value)))
                return
            for name, item in cast("dict[object, object]", value).items():
                place = pointer_to(pointer, str(name))
                if _findings(key, name, "", Findings.within(sys.maxsize)):
                    found.add(Fault(place, named, found_in(name)))
                inner(item, place, found)

        return judge

    @override
    def array(self, node: Any) -> _Judge:
        expected, judges = expectation(node), self.items(node)
        is_set = isinstance(node, (nodes.SetType, nodes.FrozenSetType))
        accepted: Any = Set if is_set else (list, tuple)
        length = len(node.item_types) if isinstance(node, nodes.TupleType) else None

        def judge(value: Any, pointer: str, found: Findings) -> None:
            if not isinstance(value, accepted):
                found.add(Fault(pointer, "set" if is_set else expected, found_in(value)))
                return
            items = list(cast("Sequence[object]", value))
            if length is not None and len(items) != length:
                found.add(Fault(pointer, expected, found_in(items)))
            for index, (item, inner) in enumerate(zip(items, judges, strict=False)):
                inner(item, f"{pointer}/{index}", found)

        return judge

    @override
    def leaf(self, node: nodes.Type) -> _Judge:
        if isinstance(node, nodes.RawType):
            return _accept
        anything, expected = isinstance(node, _ANYTHING), expectation(node)

        def judge(value: Any, pointer: str, found: Findings) -> None:
            if anything:
                for fault in plain_faults(value, pointer):
                    found.add(fault)
            elif not _is_leaf(node, value):
                found.add(Fault(pointer, expected, found_in(value)))

        return judge


def _is_leaf(node: nodes.Type, value: object) -> bool:
    if isinstance(node, nodes.LiteralType):
        return any(isinstance(value, type(choice)) and value == choice for choice in node.values)
    if isinstance(node, nodes.EnumType):
        return isinstance(value, node.cls)
    tp = _leaf_type(node)
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


# ---- what only msgspec knows

_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")


def fault_of_message(message: str, data: object) -> Fault:
    """A message of msgspec as a fault, with as much of the place as it names.

    >>> print(fault_of_message("Expected `int`, got `str` - at `$.a`", {"a": "x"}))
    /a: expected int, got str, found string 'x'
    """
    place = _PLACE.search(message)
    pointer, there = "", data
    for step in _STEP.finditer(place["path"] if place else ""):
        token = step["name"] or step["index"]
        if token is None:
            break
        pointer = pointer_to(pointer, token)
        if is_array(there):
            there = there[int(token)] if token.isdigit() and int(token) < len(there) else None
        else:
            there = there.get(token) if is_object(there) else None
    expected = _PLACE.sub("", message).removeprefix("Expected ").replace("`", "")
    return Fault(pointer, expected, found_in(there))
