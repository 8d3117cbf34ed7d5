"""Carriers of what holds others: lists, sets, tuples, mappings, and classes with members.

>>> from decimal import Decimal
>>> from fxai.schema.carrier import Coded, Work
>>> from fxai.schema.wire import DECIMAL_STRING
>>> prices = Items(list, Coded(DECIMAL_STRING, Decimal, str, None))
>>> prices.inward(["1.50", "2"])
[Decimal('1.50'), Decimal('2')]
>>> [fault.pointer for fault in prices.inward_faults(["1.50", "x"], "", Work())]
['/1']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any, Final, TypeGuard, final

import msgspec
from typing_extensions import override

from fxai.schema.carrier import Carrier, Unfit, Work, label
from fxai.schema.data import is_listed, is_object
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to

__all__ = ["Entries", "Fields", "Fixed", "Items", "Slot"]

_UNSET: Final = msgspec.UNSET


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


@final
class Items(Carrier):
    """Every item of a list, set or tuple of any length."""

    __slots__ = ("accepted", "item", "make")

    def __init__(self, make: Callable[[Iterator[Any]], Any], item: Carrier) -> None:
        self.make = make
        self.item = item
        self.accepted = Set if make in (set, frozenset) else (list, tuple)

    def _accepts(self, value: object) -> TypeGuard[Collection[Any]]:
        return isinstance(value, self.accepted)

    @override
    def inward(self, wire: Any) -> Any:
        return self.make(map(self.item.inward, wire))

    @override
    def outward(self, value: Any) -> Any:
        if not self._accepts(value):
            raise Unfit
        return list(map(self.item.outward, value))

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        for index, item in enumerate(wire):
            yield from self.item.inward_faults(item, pointer_to(pointer, index), work)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        if not self._accepts(value):
            yield Fault(pointer, "set" if self.accepted is Set else "array", found_in(value))
            return
        for index, item in enumerate(value):
            yield from self.item.outward_faults(item, pointer_to(pointer, index), work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        for index, item in enumerate(data if is_listed(data) else ()):
            yield from self.item.data_faults(item, pointer_to(pointer, index), work)


@final
class Fixed(Carrier):
    """The items of a tuple of one length, each with its own step; `None` where nothing is to be done."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Carrier | None, ...]) -> None:
        self.items = items

    @override
    def inward(self, wire: Any) -> Any:
        return tuple(item if step is None else step.inward(item) for step, item in zip(self.items, wire, strict=True))

    @override
    def outward(self, value: Any) -> Any:
        if not is_listed(value) or len(value) != len(self.items):
            raise Unfit
        return tuple(item if step is None else step.outward(item) for step, item in zip(self.items, value, strict=True))

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        for index, (step, item) in enumerate(zip(self.items, wire, strict=True)):
            if step is not None:
                yield from step.inward_faults(item, pointer_to(pointer, index), work)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        if not is_listed(value) or len(value) != len(self.items):
            yield Fault(pointer, f"array of {len(self.items)} items", found_in(value))
            return
        for index, (step, item) in enumerate(zip(self.items, value, strict=True)):
            if step is not None:
                yield from step.outward_faults(item, pointer_to(pointer, index), work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        for index, (step, item) in enumerate(zip(self.items, data if is_listed(data) else (), strict=False)):
            if step is not None:
                yield from step.data_faults(item, pointer_to(pointer, index), work)


@final
class Entries(Carrier):
    """Every key and value of a mapping; `None` where nothing is to be done."""

    __slots__ = ("key", "value")

    def __init__(self, key: Carrier | None, value: Carrier | None) -> None:
        self.key = key
        self.value = value

    @override
    def inward(self, wire: Any) -> Any:
        key, value = self.key, self.value
        return {k if key is None else key.inward(k): v if value is None else value.inward(v) for k, v in wire.items()}

    @override
    def outward(self, value: Any) -> Any:
        if not _is_mapping(value):
            raise Unfit
        key, item = self.key, self.value
        return {k if key is None else key.outward(k): v if item is None else item.outward(v) for k, v in value.items()}

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        for k, v in wire.items():
            place = pointer_to(pointer, str(k))
            if self.key is not None:
                yield from self.key.inward_faults(k, place, work)
            if self.value is not None:
                yield from self.value.inward_faults(v, place, work)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        if not _is_mapping(value):
            yield Fault(pointer, "object", found_in(value))
            return
        for k, v in value.items():
            place = pointer_to(pointer, str(k))
            if self.key is not None:
                yield from self.key.outward_faults(k, place, work)
            if self.value is not None:
                yield from self.value.outward_faults(v, place, work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        if self.value is not None and is_object(data):
            for name, item in data.items():
                yield from self.value.data_faults(item, pointer_to(pointer, str(name)), work)


@final
class Slot(msgspec.Struct, frozen=True):
    """One member of a class and of its mirror.

    Attributes:
        name: the attribute (or key) of the Python value, and the attribute of the mirror.
        init_name: the keyword that makes it.
        token: the name or index it has on the wire.
        step: the way on; `None` where nothing is to be done.
        default: what is left out on the wire when equal (of classes that omit defaults).
    """

    name: str
    init_name: str
    token: str | int
    step: Carrier | None
    default: Callable[[Any], bool] | None = None


@final
class Fields(Carrier):
    """The members of a struct, dataclass, TypedDict, named tuple or attrs class; on the wire it is its mirror."""

    __slots__ = ("accepted", "cls", "mirror", "slots")

    def __init__(self, cls: Any, accepted: Any, mirror: Any) -> None:
        self.cls = cls
        self.accepted = accepted
        self.mirror = mirror
        self.slots: tuple[Slot, ...] = ()

    @override
    def inward(self, wire: Any) -> Any:
        given: dict[str, Any] = {}
        for slot in self.slots:
            member = getattr(wire, slot.name)
            if member is not _UNSET:
                given[slot.init_name] = member if slot.step is None else slot.step.inward(member)
        try:
            return self.cls(**given)
        except (ValueError, TypeError) as error:
            raise Unfit from error

    @override
    def outward(self, value: Any) -> Any:
        if not isinstance(value, self.accepted):
            raise Unfit
        given: dict[str, Any] = {}
        for slot in self.slots:
            member = _member(value, slot)
            if member is not _UNSET:
                given[slot.name] = member if slot.step is None else slot.step.outward(member)
        return self.mirror(**given)

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        work.visit()
        sound, before = True, work.walked
        for slot in self.slots:
            member = getattr(wire, slot.name)
            if slot.step is not None and member is not _UNSET:
                for fault in slot.step.inward_faults(member, pointer_to(pointer, slot.token), work):
                    sound = False
                    yield fault
        if sound:
            work.take(work.walked - before)
            try:
                self.inward(wire)
            except Unfit as error:
                yield Fault(pointer, f"{label(self.cls)} ({error.__cause__})", "an object")

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        if not isinstance(value, self.accepted):
            yield Fault(pointer, label(self.cls), found_in(value))
            return
        work.visit()
        for slot in self.slots:
            try:
                member = _member(value, slot)
            except Unfit:
                yield Fault(pointer_to(pointer, slot.token), "a value", NOTHING)
                continue
            if slot.step is not None and member is not _UNSET:
                yield from slot.step.outward_faults(member, pointer_to(pointer, slot.token), work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        work.visit()
        for slot in self.slots:
            if slot.step is None:
                continue
            held: Any = data
            there = is_object(data) and slot.token in data
            if there or (is_listed(data) and isinstance(slot.token, int) and slot.token < len(data)):
                yield from slot.step.data_faults(held[slot.token], pointer_to(pointer, slot.token), work)


def _member(value: Any, slot: Slot) -> Any:
    if is_object(value):
        return value.get(slot.name, _UNSET)
    try:
        member = getattr(value, slot.name)
    except AttributeError as error:
        raise Unfit from error
    return _UNSET if slot.default is not None and slot.default(member) else member
