"""Errors that a JSON Schema cannot state: data that does not convert, and Python values of another type.

The engine finds the data that the document of a type forbids. `msgspec` also converts a string to a date, and the name
of a property to a number. The judges of this module find data that `msgspec` cannot convert. They also find the whole
numbers (`3.0`) that fxai reads as integers. Other judges find the errors of Python values. fxai creates the judges at
the first failure of a type.

>>> from datetime import date
>>> dates = Explainer(dict[str, date])
>>> [str(fault) for fault in dates.find_unconverted({"a": "2026-11-27", "b": "tomorrow"}).faults]
["/b: expected date (RFC 3339), found string 'tomorrow'"]
>>> [str(fault) for fault in Explainer(dict[str, int]).faults_of_value({"a": "1", 2: 3})]
["/a: expected integer, found string '1'", '/2: expected a key that is string, found integer 2']
"""

from __future__ import annotations

import math
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import repeat
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, final
from uuid import UUID

import msgspec
from msgspec import inspect as nodes
from typing_extensions import override

from fxai.schema.breach import Finder
from fxai.schema.budget import CONVERSION, MAX_STEPS, NO_SUSPECTS, ExhaustedError, Findings, Suspects
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.fault import (
    NOTHING,
    Fault,
    expectation,
    found_in,
    kind_in,
    kinds_of,
    pointer_to,
    unwrap,
)
from fxai.schema.parsing import REFUSALS, builtin, plain_faults
from fxai.schema.plan import mirrored_class

_Judge: TypeAlias = Callable[[Any, str, Findings], None]
"""A function that adds the errors of a value at a pointer."""

_ATOMS: Final = (str, int, bool, type(None))
_ANYTHING = (nodes.AnyType, nodes.CustomType, nodes.RawType)
_MAPPINGS = (nodes.DictType, nodes.FrozenDictType)
_CLASSES = (nodes.StructType, nodes.DataclassType, nodes.TypedDictType, nodes.NamedTupleType)
_ABSENT: Final = object()
_DICT: Final[Any] = dict
_CONVERTING: Final = (
    *(nodes.DateTimeType, nodes.TimeType, nodes.DateType, nodes.TimeDeltaType, nodes.UUIDType, nodes.DecimalType),
    *(nodes.BytesType, nodes.ByteArrayType, nodes.MemoryViewType),
)


@final
class Explainer:
    """The search for the errors of data and of Python values of a type.

    Attributes:
        converts: True if the type contains a type such as a date, which has another JSON form.
    """

    __slots__ = ("_judge", "_node", "_value_judge", "converts")

    def __init__(self, wire: Any) -> None:
        self._node = msgspec.inspect.type_info(wire)
        judges = _DataJudges()
        self._judge = judges.of(self._node)
        self.converts: bool = judges.converts
        self._value_judge: _Judge | None = None

    def find_unconverted(
        self,
        data: object,
        message: str | None = None,
        take: Callable[[Any], Any] | None = None,
        steps: int = MAX_STEPS,
    ) -> Finder:
        """Find the validation errors of plain JSON data that the document of the type does not state.

        These are the values that `msgspec` cannot convert. The result also contains the whole numbers among integers.

        Args:
            data: The data.
            message: The error of `msgspec`, or None if it is unknown.
            take: A function that converts data if `msgspec` alone decides which items are valid. Default: None.
            steps: The budget. Default: the budget of a validation.
        """
        found = Finder(steps)
        if message is not None and take is not None and "[" in message:
            found.suspects = suspects_in(data, message, take)
        if self.converts or message is None or "`float`" in message or "[" in message:
            _run(self._judge, data, "", found)
        return found

    def faults_of_value(self, value: object) -> tuple[Fault, ...]:
        """Return the errors of a Python value: a value of another type, or a number that JSON cannot represent."""
        if self._value_judge is None:
            self._value_judge = _ValueJudges().of(self._node)
        return (*_faults_by(self._value_judge, value, ""),)


def _run(judge: _Judge, value: object, pointer: str, found: Findings) -> None:
    try:
        judge(value, pointer, found)
    except ExhaustedError:
        found.complete = False


def _faults_by(judge: _Judge, value: object, pointer: str) -> list[Fault]:
    """Return the errors of a Python value, without a budget."""
    found = Findings(sys.maxsize)
    _run(judge, value, pointer, found)
    return found.faults


class _Judges:
    """The judges of the parts of a type. A class that contains itself has a single judge."""

    def __init__(self) -> None:
        self.known: dict[int, _Judge] = {}

    def of(self, node: nodes.Type) -> _Judge:
        """Return the judge of a type from the description of `msgspec`."""
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
    """Judges of the conversion of plain JSON data. They skip data of another kind, because the document refuses it."""

    converts = False

    @override
    def members(self, node: Any) -> _Judge:
        arrayed = isinstance(node, nodes.NamedTupleType) or getattr(node, "array_like", False)
        return self._record(node) if arrayed else self._object(node)

    def _object(self, node: Any) -> _Judge:
        judged = [(field.encode_name, _exact(field.type), self.of(field.type)) for field in node.fields]
        members = [(name, pointer_to("", name), exact, inner) for name, exact, inner in judged if inner is not _accept]

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if not is_object(data):
                return
            found.take(1 + len(members))
            for name, suffix, exact, inner in members:
                value = data.get(name, _ABSENT)
                if value is not _ABSENT and value.__class__ is not exact:
                    inner(value, pointer + suffix, found)

        return judge if members else _accept

    def _record(self, node: Any) -> _Judge:
        first = 0 if getattr(node, "tag_field", None) is None else 1
        return self._locations([self.of(field.type) for field in node.fields], first)

    def _locations(self, inner: list[_Judge], first: int) -> _Judge:
        def judge(data: Any, pointer: str, found: Findings) -> None:
            if is_listed(data):
                found.take(1 + len(inner))
                for index, (item, one) in enumerate(zip(data[first:], inner, strict=False), first):
                    one(item, f"{pointer}/{index}", found)

        return _accept if all(one is _accept for one in inner) else judge

    @override
    def mapping(self, node: Any) -> _Judge:
        inner, key, exact = self.of(node.value_type), _leaf_type(node.key_type), _exact(node.value_type)
        named = f"a key that is {expectation(node.key_type)}"
        converted = getattr(key, "__origin__", key) not in (str, None)  # the document states the bounds of strings
        key = _FINITE if key is float else key
        self.converts |= converted

        def judge(data: Any, pointer: str, found: Findings) -> None:
            for name, item in data.items() if is_object(data) else ():
                found.take(1)
                if converted:
                    found.take(CONVERSION)
                    if not _takes(_DICT[key, None], {name: None}):
                        text = found_in(name).removeprefix("string ")
                        found.add(Fault(pointer_to(pointer, name), named, f"key {text}"))
                if type(item) is not exact:
                    inner(item, pointer_to(pointer, name), found)

        return judge if converted or inner is not _accept else _accept

    @override
    def array(self, node: Any) -> _Judge:
        if isinstance(node, nodes.TupleType):
            return self._locations([*map(self.of, node.item_types)], 0)
        inner, exact = self.of(node.item_type), _exact(node.item_type)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if is_listed(data):
                suspects = found.suspects.get(id(data))
                for index in range(len(data)) if suspects is None else suspects:
                    found.take(1)
                    if type(item := data[index]) is not exact:
                        inner(item, f"{pointer}/{index}", found)

        return _accept if inner is _accept else judge

    @override
    def union(self, node: nodes.UnionType) -> _Judge:
        arms = [(kinds_of(arm), unwrap(arm), self.of(arm)) for arm in node.types]
        tagged = {arm.tag: judge for _, arm, judge in arms if isinstance(arm, nodes.StructType) and arm.tag is not None}
        field = next((arm.tag_field for _, arm, _ in arms if isinstance(arm, nodes.StructType) and arm.tag), None)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            kind = kind_in(data)
            fitting = next((inner for kinds, _, inner in arms if kind in kinds), None)
            if fitting is None and kind == "number" and data.is_integer():
                fitting = next((inner for kinds, _, inner in arms if "integer" in kinds), None)
            elif len(tagged) > 1 and kind in ("object", "array"):
                first = data.get(str(field)) if is_object(data) else next(iter(data), None)
                fitting = tagged.get(first) if isinstance(first, (str, int)) else None
            if fitting is not None:
                fitting(data, pointer, found)

        return _accept if all(inner is _accept for *_, inner in arms) else judge

    @override
    def leaf(self, node: nodes.Type) -> _Judge:
        tp, expected, kinds = _leaf_type(node), expectation(node), kinds_of(node)
        whole = "integer" in kinds and "number" not in kinds

        def judge_number(data: Any, pointer: str, found: Findings) -> None:
            if type(data) is float and data.is_integer():
                found.integers.append(pointer)

        def judge(data: Any, pointer: str, found: Findings) -> None:
            if isinstance(data, str):
                found.take(CONVERSION)
                if not _takes(tp, data):
                    found.add(Fault(pointer, expected, found_in(data)))

        if isinstance(node, _CONVERTING):
            self.converts = True
            return judge
        return judge_number if whole else _accept


def _accept(_: Any, __: str, ___: Findings) -> None: ...


def _exact(node: nodes.Type) -> type | None:
    """Return the Python type whose values are all valid without a judge, or None."""
    tp = _leaf_type(node)
    return tp if tp in _ATOMS else None


def _takes(tp: Any, data: object) -> bool:
    try:
        msgspec.convert(data, tp, str_keys=True)
    except REFUSALS:
        return False
    return True


_FINITE: Final = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_LEAVES: Final[dict[type[nodes.Type], Any]] = {
    nodes.NoneType: type(None),
    nodes.BoolType: bool,
    nodes.IntType: int,
    nodes.FloatType: float,
    nodes.StrType: str,
    nodes.BytesType: bytes,
    nodes.ByteArrayType: bytearray,
    nodes.MemoryViewType: memoryview,
    nodes.DateTimeType: datetime,
    nodes.TimeType: time,
    nodes.DateType: date,
    nodes.TimeDeltaType: timedelta,
    nodes.UUIDType: UUID,
    nodes.DecimalType: Decimal,
}


def _leaf_type(node: nodes.Type) -> Any:
    """Return the Python type of a scalar with its bounds, or None for a type with members."""
    node = unwrap(node)
    if isinstance(node, nodes.LiteralType):
        return Literal[node.values]
    if isinstance(node, nodes.EnumType):
        return node.cls
    python = _LEAVES.get(type(node))
    if python is None:
        return None
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
    bounds = {name: value for name in names if (value := getattr(node, name, None)) is not None}
    return Annotated[python, msgspec.Meta(**bounds)] if bounds else python


# ---- Python values


@final
class _ValueJudges(_Judges):
    """Judges of Python values before the encoding."""

    @override
    def union(self, node: nodes.UnionType) -> _Judge:
        expected, arms = expectation(node), list(map(self.of, node.types))

        def judge(value: Any, pointer: str, found: Findings) -> None:
            deeper: list[Fault] = []
            for arm in arms:
                faults = _faults_by(arm, value, pointer)
                if not faults:
                    return
                if not deeper and any(fault.pointer != pointer for fault in faults):
                    deeper = faults  # the value has the kind of this alternative, with an error inside
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
                location = pointer_to(pointer, str(name))
                if _faults_by(key, name, ""):
                    found.add(Fault(location, named, found_in(name)))
                inner(item, location, found)

        return judge

    @override
    def array(self, node: Any) -> _Judge:
        fixed = isinstance(node, nodes.TupleType)
        judges = [*map(self.of, node.item_types)] if fixed else repeat(self.of(node.item_type))
        expected = expectation(node)
        is_set = isinstance(node, (nodes.SetType, nodes.FrozenSetType))
        accepted: Any = Set if is_set else (list, tuple)
        length = len(node.item_types) if fixed else None

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
    except REFUSALS:
        return False
    return True


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


def _walk(message: str, data: object) -> Iterator[tuple[Any, Any, Any]]:
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


def suspects_in(data: Any, message: str, take: Callable[[Any], Any]) -> Suspects:
    """Return the items of a long array that `msgspec` refuses, if it accepts all other items.

    `msgspec` names the first item that it refuses. fxai removes the items up to this item and converts the data again.

    Args:
        data: Data that `msgspec` refuses.
        message: The error of `msgspec`.
        take: A function that converts data.
    """
    steps = [*_walk(message, data)]
    arrays = [at for at, (around, _, _) in enumerate(steps) if is_array(around) and len(around) >= _LONG]
    if not arrays:
        return NO_SUSPECTS
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
    return NO_SUSPECTS
