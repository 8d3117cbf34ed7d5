"""Carriers: the steps between a Python value and its wire value, along the paths of a type that hold a codec.

A carrier goes inward (wire value to Python value) and outward. On the way it only says that something does not fit;
what does not fit, and where, is found afterwards by the same carrier's fault walks, so the good path pays nothing.

>>> from decimal import Decimal
>>> from fxai.schema.codecs import DECIMAL_STRING
>>> price = Coded(DECIMAL_STRING, Decimal, str, None)
>>> price.inward("1.50")
Decimal('1.50')
>>> [str(fault) for fault in price.inward_faults("x", "/price", Work())]
["/price: expected Decimal (a decimal number such as '1.50'), found string 'x'"]
>>> prices = Items(list, price)
>>> prices.inward(["1.50", "2"]), [fault.pointer for fault in prices.inward_faults(["1.50", "x"], "", Work())]
([Decimal('1.50'), Decimal('2')], ['/1'])
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any, Final, TypeGuard, final

import msgspec
from typing_extensions import override

from fxai.schema.budget import MAX_STEPS, Exhausted
from fxai.schema.codecs import Codec
from fxai.schema.data import is_listed, is_object
from fxai.schema.fault import NOTHING, DecodeError, Fault, found_in, pointer_to

__all__ = [
    "Arm",
    "Carrier",
    "Choice",
    "Coded",
    "Entries",
    "Fields",
    "Fixed",
    "Items",
    "Later",
    "Slot",
    "Unfit",
    "Work",
    "label",
]


class Unfit(Exception):
    """A value that a carrier cannot take further; the fault walk finds out why."""


@final
class Work:
    """What the fault walks of one value may still do.

    Attributes:
        walked: how many places were looked at.
    """

    __slots__ = ("left", "walked")

    def __init__(self, left: int = MAX_STEPS // 4) -> None:
        self.left = left
        self.walked = 0

    def visit(self) -> None:
        """Count a place.

        Raises:
            Exhausted: none is left.
        """
        self.walked += 1
        self.take(1)

    def take(self, places: int) -> None:
        """Count work that is worth so many places.

        Raises:
            Exhausted: so many are not left.
        """
        self.left -= places
        if self.left < 0:
            raise Exhausted


class Carrier:
    """One step between wire values and Python values."""

    __slots__ = ()

    @abstractmethod
    def inward(self, wire: Any) -> Any:
        """The Python value of a wire value. Raises `Unfit`."""

    @abstractmethod
    def outward(self, value: Any) -> Any:
        """The wire value of a Python value. Raises `Unfit`."""

    @abstractmethod
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        """Each place where the way inward fails."""

    @abstractmethod
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        """Each place where the way outward fails."""

    @abstractmethod
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        """Each place where a codec refuses plain data, which may be wrong elsewhere: those are told by another walk."""


def label(tp: Any) -> str:
    """What a type is called in a message."""
    return str(getattr(tp, "__name__", tp))


def _checkable(tp: Any) -> Any:
    """The class that values of a type are instances of; `object` where only a checker can tell."""
    cls = getattr(tp, "__origin__", tp)
    try:
        isinstance(None, cls)
    except TypeError:
        return object
    return cls


@final
class Coded(Carrier):
    """The step of a codec itself; `inner` leads to the codec's wire type where that holds codecs too."""

    __slots__ = ("codec", "inner", "python", "tp", "wire")

    def __init__(self, codec: Codec, tp: Any, wire: Any, inner: Carrier | None) -> None:
        self.codec = codec
        self.wire = wire
        self.tp = tp
        self.python = _checkable(tp)
        self.inner = inner

    @override
    def inward(self, wire: Any) -> Any:
        if self.inner is not None:
            wire = self.inner.inward(wire)
        try:
            return self.codec.decode(wire)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise Unfit from error

    @override
    def outward(self, value: Any) -> Any:
        if not isinstance(value, self.python):
            raise Unfit
        try:
            wire = self.codec.encode(value)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise Unfit from error
        return wire if self.inner is None else self.inner.outward(wire)

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        work.visit()
        if self.inner is not None:
            deeper = list(self.inner.inward_faults(wire, pointer, work))
            yield from deeper
            if deeper:
                return
            wire = self.inner.inward(wire)
        try:
            self.codec.decode(wire)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            yield from self._faults_of_error(error, wire, pointer)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        work.visit()
        if not isinstance(value, self.python):
            yield Fault(pointer, label(self.tp), found_in(value))
            return
        try:
            wire = self.codec.encode(value)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            yield from self._faults_of_error(error, value, pointer)
        else:
            if self.inner is not None:
                yield from self.inner.outward_faults(wire, pointer, work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        work.visit()
        try:
            wire = msgspec.convert(data, self.wire, str_keys=True)
        except (msgspec.ValidationError, TypeError, ValueError):
            if self.inner is not None:
                yield from self.inner.data_faults(data, pointer, work)
        else:
            yield from self.inward_faults(wire, pointer, work)

    def _faults_of_error(self, error: Exception, value: Any, pointer: str) -> Iterator[Fault]:
        if isinstance(error, DecodeError):
            for fault in error.failure.faults:
                yield Fault(pointer + fault.pointer, fault.expected, fault.found)
        else:
            said = str(error)
            yield Fault(pointer, f"{label(self.tp)} ({said})" if said else label(self.tp), found_in(value))


@final
class Arm(msgspec.Struct, frozen=True):
    """One alternative of a union: what fits it on the wire and in Python, and its step."""

    fits_wire: Callable[[Any], bool]
    fits_python: Callable[[Any], bool]
    step: Carrier | None


@final
class Choice(Carrier):
    """The first alternative of a union that a value fits and that takes it."""

    __slots__ = ("arms", "expected")

    def __init__(self, arms: tuple[Arm, ...], expected: str) -> None:
        self.arms = arms
        self.expected = expected

    @override
    def inward(self, wire: Any) -> Any:
        for arm in self.arms:
            if arm.fits_wire(wire):
                try:
                    return wire if arm.step is None else arm.step.inward(wire)
                except Unfit:
                    continue
        raise Unfit

    @override
    def outward(self, value: Any) -> Any:
        for arm in self.arms:
            if arm.fits_python(value):
                try:
                    return value if arm.step is None else arm.step.outward(value)
                except Unfit:
                    continue
        raise Unfit

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        yield from self._first([arm for arm in self.arms if arm.fits_wire(wire)], wire, pointer, "inward", work)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        yield from self._first([arm for arm in self.arms if arm.fits_python(value)], value, pointer, "outward", work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        steps = [arm.step for arm in self.arms if arm.step is not None]
        if len(steps) == 1 and data is not None:
            yield from steps[0].data_faults(data, pointer, work)

    def _first(self, arms: list[Arm], value: Any, pointer: str, way: str, work: Work) -> Iterator[Fault]:
        work.visit()
        told: list[Fault] = []
        for arm in arms:
            if arm.step is None:
                return
            faults = list(getattr(arm.step, f"{way}_faults")(value, pointer, work))
            if not faults:
                return
            told = told or faults
        yield from told or [Fault(pointer, self.expected, found_in(value))]


@final
class Later(Carrier):
    """A step of a class that holds itself: known when the class is done."""

    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step: Carrier | None = None

    def _known(self) -> Carrier:
        if self.step is None:
            raise AssertionError("a carrier was used before its class was done: a bug of fxai")
        return self.step

    @override
    def inward(self, wire: Any) -> Any:
        return self._known().inward(wire)

    @override
    def outward(self, value: Any) -> Any:
        return self._known().outward(value)

    @override
    def inward_faults(self, wire: Any, pointer: str, work: Work) -> Iterator[Fault]:
        return self._known().inward_faults(wire, pointer, work)

    @override
    def outward_faults(self, value: Any, pointer: str, work: Work) -> Iterator[Fault]:
        return self._known().outward_faults(value, pointer, work)

    @override
    def data_faults(self, data: object, pointer: str, work: Work) -> Iterator[Fault]:
        return self._known().data_faults(data, pointer, work)


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
