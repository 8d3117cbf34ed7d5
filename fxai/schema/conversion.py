"""Conversions between a Python value and its wire value, for the parts of a type that contain a codec.

A conversion works inward (wire value to Python value) and outward. If it fails, it only raises `UnfitError`. A separate
search then finds the errors and their locations, so that valid values cost nothing more.

>>> from decimal import Decimal
>>> from fxai.schema.codecs import DECIMAL_STRING
>>> price = Coded(DECIMAL_STRING, Decimal, str, None)
>>> price.inward("1.50")
Decimal('1.50')
>>> found = Findings()
>>> prices = Items(list, price)
>>> prices.inward(["1.50", "2"]), prices.faults("inward", ["1.50", "x"], "", found)
([Decimal('1.50'), Decimal('2')], None)
>>> [str(fault) for fault in found.faults]
["/1: expected Decimal (a decimal number such as '1.50'), found string 'x'"]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeGuard, final

import msgspec
from typing_extensions import override

from fxai.schema.budget import CONVERSION, ExhaustedError, Findings
from fxai.schema.codecs import Codec
from fxai.schema.data import is_listed, is_object
from fxai.schema.fault import NOTHING, DecodeError, Fault, found_in, pointer_to
from fxai.schema.parsing import REFUSALS


class UnfitError(Exception):
    """An error for a value that a conversion refuses. The search for errors finds the reason.

    A type of pydantic adds its validation errors, because it has found them already.
    """


Way: TypeAlias = Literal["inward", "outward", "data"]
"""The direction of a search for errors."""


class Conversion:
    """A step between wire values and Python values."""

    __slots__ = ()

    sound: ClassVar[bool] = False
    """True if `outward` returns a new JSON value that is certainly of the type."""

    @abstractmethod
    def inward(self, wire: Any) -> object:
        """Return the Python value of a wire value.

        Raises:
            UnfitError: If the conversion refuses the value.
        """

    @abstractmethod
    def outward(self, value: object) -> object:
        """Return the wire value of a Python value.

        Raises:
            UnfitError: If the conversion refuses the value.
        """

    @abstractmethod
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        """Find each error of a value.

        Args:
            way: `inward` for a wire value, `outward` for a Python value, `data` for plain data. In plain data, the
                search finds the errors of codecs only.
            value: The value.
            pointer: The location of the value, as a JSON pointer.
            found: The collection of the errors.
        """


def label(tp: object) -> str:
    """Return the name of a type for a message."""
    return str(getattr(tp, "__name__", tp))


def _checkable(tp: object) -> Any:
    """Return the class of the values of a type, or `object` if `isinstance` cannot check the type."""
    cls: Any = getattr(tp, "__origin__", tp)
    try:
        isinstance(None, cls)
    except TypeError:
        return object
    return cls


@final
class Coded(Conversion):
    """The conversion by a codec. `inner` converts the wire type of the codec if this type contains codecs too."""

    __slots__ = ("codec", "inner", "python", "tp", "wire")

    def __init__(self, codec: Codec, tp: object, wire: object, inner: Conversion | None) -> None:
        self.codec: Codec = codec
        self.wire: Any = wire
        self.tp: object = tp
        self.python: Any = _checkable(tp)
        self.inner: Conversion | None = inner

    @override
    def inward(self, wire: Any) -> object:
        if self.inner is not None:
            wire = self.inner.inward(wire)
        try:
            return self.codec.decode(wire)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise UnfitError from error

    @override
    def outward(self, value: object) -> object:
        if not isinstance(value, self.python):
            raise UnfitError
        try:
            wire = self.codec.encode(value)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise UnfitError from error
        return wire if self.inner is None else self.inner.outward(wire)

    @override
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        found.visit()
        if way == "data":
            try:
                value = msgspec.convert(value, self.wire, str_keys=True)
            except REFUSALS:
                if self.inner is not None:
                    self.inner.faults("data", value, pointer, found)
                return
            found.visit()
        if way == "outward" and not isinstance(value, self.python):
            found.add(Fault(pointer, label(self.tp), found_in(value)))
            return
        if way != "outward" and self.inner is not None:
            before = len(found.faults)
            self.inner.faults("inward", value, pointer, found)
            if len(found.faults) > before:
                return
            value = self.inner.inward(value)
        try:
            wire = self.codec.encode(value) if way == "outward" else self.codec.decode(value)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            name, message = label(self.tp), str(error)
            here = (Fault("", f"{name} ({message})" if message else name, found_in(value)),)
            for fault in error.failure.faults if isinstance(error, DecodeError) else here:
                found.add(Fault(pointer + fault.pointer, fault.expected, fault.found))
        else:
            if way == "outward" and self.inner is not None:
                self.inner.faults("outward", wire, pointer, found)


@final
class Arm(msgspec.Struct, frozen=True):
    """An alternative of a union, with functions that recognize its wire values and its Python values."""

    fits_wire: Callable[[object], bool]
    fits_python: Callable[[object], bool]
    step: Conversion | None


@final
class Choice(Conversion):
    """A conversion by the first alternative of a union that recognizes and accepts the value."""

    __slots__ = ("arms", "expected")

    def __init__(self, arms: tuple[Arm, ...], expected: str) -> None:
        self.arms: tuple[Arm, ...] = arms
        self.expected: str = expected

    @override
    def inward(self, wire: Any) -> object:
        for arm in self.arms:
            if arm.fits_wire(wire):
                try:
                    return wire if arm.step is None else arm.step.inward(wire)
                except UnfitError:
                    continue
        raise UnfitError

    @override
    def outward(self, value: object) -> object:
        for arm in self.arms:
            if arm.fits_python(value):
                try:
                    return value if arm.step is None else arm.step.outward(value)
                except UnfitError:
                    continue
        raise UnfitError

    @override
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        """Find the errors by the first alternative that recognizes the value, unless another alternative accepts it."""
        if way == "data":
            steps = [arm.step for arm in self.arms if arm.step is not None]
            if len(steps) == 1 and value is not None:
                steps[0].faults("data", value, pointer, found)
            return
        found.visit()
        first: Findings | None = None
        for arm in self.arms:
            if not (arm.fits_wire(value) if way == "inward" else arm.fits_python(value)):
                continue
            if arm.step is None:
                return
            faults = Findings(found.left)
            with suppress(ExhaustedError):
                arm.step.faults(way, value, pointer, faults)
            found.walked += faults.walked
            found.left = faults.left
            found.take(0)
            if not faults.faults:
                return
            first = first or faults
        for fault in first.faults if first is not None else [Fault(pointer, self.expected, found_in(value))]:
            found.add(fault)


_UNSET: Final = msgspec.UNSET


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


@final
class Items(Conversion):
    """A conversion of every item of a list, a set, or a tuple of any length."""

    __slots__ = ("accepted", "item", "make")

    def __init__(self, make: Callable[[Iterator[object]], object], item: Conversion) -> None:
        self.make: Callable[[Iterator[object]], object] = make
        self.item: Conversion = item
        self.accepted: type[Any] | tuple[type[Any], ...] = Set if make in (set, frozenset) else (list, tuple)

    def _accepts(self, value: object) -> TypeGuard[Collection[object]]:
        return isinstance(value, self.accepted)

    @override
    def inward(self, wire: Any) -> object:
        return self.make(map(self.item.inward, wire))

    @override
    def outward(self, value: object) -> object:
        if not self._accepts(value):
            raise UnfitError
        return list(map(self.item.outward, value))

    @override
    def faults(self, way: Way, value: Any, pointer: str, found: Findings) -> None:
        if way == "outward" and not self._accepts(value):
            found.add(Fault(pointer, "set" if self.accepted is Set else "array", found_in(value)))
        elif way == "outward" or is_listed(value):
            for index, item in enumerate(value):
                self.item.faults(way, item, f"{pointer}/{index}", found)


@final
class Fixed(Conversion):
    """A conversion of the items of a tuple with a fixed length. An item without a step remains unchanged."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Conversion | None, ...]) -> None:
        self.items: tuple[Conversion | None, ...] = items

    @override
    def inward(self, wire: Any) -> object:
        return tuple(item if step is None else step.inward(item) for step, item in zip(self.items, wire, strict=True))

    @override
    def outward(self, value: object) -> object:
        if not is_listed(value) or len(value) != len(self.items):
            raise UnfitError
        return tuple(item if step is None else step.outward(item) for step, item in zip(self.items, value, strict=True))

    @override
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        if way == "outward" and (not is_listed(value) or len(value) != len(self.items)):
            found.add(Fault(pointer, f"array of {len(self.items)} items", found_in(value)))
            return
        for index, (step, item) in enumerate(zip(self.items, value if is_listed(value) else (), strict=False)):
            if step is not None:
                step.faults(way, item, f"{pointer}/{index}", found)


@final
class Entries(Conversion):
    """A conversion of every key and value of a mapping. A key or a value without a step remains unchanged."""

    __slots__ = ("key", "value")

    def __init__(self, key: Conversion | None, value: Conversion | None) -> None:
        self.key: Conversion | None = key
        self.value: Conversion | None = value

    @override
    def inward(self, wire: Any) -> object:
        key, value = self.key, self.value
        return {k if key is None else key.inward(k): v if value is None else value.inward(v) for k, v in wire.items()}

    @override
    def outward(self, value: object) -> object:
        if not _is_mapping(value):
            raise UnfitError
        key, item = self.key, self.value
        return {k if key is None else key.outward(k): v if item is None else item.outward(v) for k, v in value.items()}

    @override
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        if not _is_mapping(value):
            if way == "outward":
                found.add(Fault(pointer, "object", found_in(value)))
            return
        for name, item in value.items():
            location = pointer_to(pointer, str(name))
            if self.key is not None and way != "data":
                self.key.faults(way, name, location, found)
            if self.value is not None:
                self.value.faults(way, item, location, found)


@final
class Slot(msgspec.Struct, frozen=True):
    """A member of a class and of its mirror.

    Attributes:
        name: The attribute (or key) of the Python value, and the attribute of the mirror.
        init_name: The argument of the constructor.
        token: The name or the index on the wire.
        step: The conversion of the member, or None.
        default: A function that returns True for a value that the class omits on the wire, or None.
    """

    name: str
    init_name: str
    token: str | int
    step: Conversion | None
    default: Callable[[object], bool] | None = None


@final
class Fields(Conversion):
    """A conversion of a struct, dataclass, TypedDict, named tuple, or attrs class. Its wire type is its mirror.

    The plan sets `mirror` and `slots` later, because the class can contain itself.
    """

    __slots__ = ("accepted", "cls", "mirror", "slots")

    def __init__(self, cls: Any, accepted: Any) -> None:
        self.cls: Any = cls
        self.accepted: Any = accepted
        self.mirror: Any = None
        self.slots: tuple[Slot, ...] = ()

    @override
    def inward(self, wire: Any) -> object:
        given: dict[str, object] = {}
        for slot in self.slots:
            member = getattr(wire, slot.name)
            if member is not _UNSET:
                given[slot.init_name] = member if slot.step is None else slot.step.inward(member)
        try:
            return self.cls(**given)
        except (ValueError, TypeError) as error:
            raise UnfitError from error

    @override
    def outward(self, value: object) -> object:
        if not isinstance(value, self.accepted):
            raise UnfitError
        given: dict[str, object] = {}
        for slot in self.slots:
            member = _member(value, slot)
            if member is not _UNSET:
                given[slot.name] = member if slot.step is None else slot.step.outward(member)
        return self.mirror(**given)

    @override
    def faults(self, way: Way, value: object, pointer: str, found: Findings) -> None:
        if way == "outward" and not isinstance(value, self.accepted):
            found.add(Fault(pointer, label(self.cls), found_in(value)))
            return
        found.visit()
        walked, before = found.walked, len(found.faults)
        for slot in self.slots:
            try:
                member = _member(value, slot) if way == "outward" else _wire_member(value, slot, way)
            except UnfitError:
                found.add(Fault(pointer_to(pointer, slot.token), "a value", NOTHING))
                continue
            if slot.step is not None and member is not _UNSET:
                slot.step.faults(way, member, pointer_to(pointer, slot.token), found)
        if way == "inward" and len(found.faults) == before:
            found.take(CONVERSION * (found.walked - walked))
            try:
                self.inward(value)
            except UnfitError as error:
                found.add(Fault(pointer, f"{label(self.cls)} ({error.__cause__})", "an object"))


def _wire_member(value: object, slot: Slot, way: Way) -> object:
    """Return a member of a mirror, or of the data for the mirror. UNSET if the member is missing."""
    if way == "inward":
        return getattr(value, slot.name)
    if isinstance(slot.token, int):
        return value[slot.token] if is_listed(value) and slot.token < len(value) else _UNSET
    return value.get(slot.token, _UNSET) if is_object(value) else _UNSET


def _member(value: object, slot: Slot) -> object:
    if is_object(value):
        return value.get(slot.name, _UNSET)
    try:
        member = getattr(value, slot.name)
    except AttributeError as error:
        raise UnfitError from error
    return _UNSET if slot.default is not None and slot.default(member) else member
