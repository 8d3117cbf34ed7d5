"""Conversions between a Python value and its wire value, for the parts of a type that contain a codec.

A conversion works inward (wire value to Python value) and outward. If it refuses a value, it raises an `UnfitError`
with every validation error of the value.

>>> from decimal import Decimal
>>> from fxai.schema.codecs import DECIMAL_STRING
>>> prices = Items(list, Coded(DECIMAL_STRING, Decimal, str, None))
>>> prices.inward(["1.50", "2"])
[Decimal('1.50'), Decimal('2')]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from itertools import chain, count, cycle, repeat
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard, cast, final

import msgspec
from typing_extensions import override

from fxai.schema.budget import MAX_FAULTS
from fxai.schema.codecs import Codec
from fxai.schema.data import is_listed, is_object
from fxai.schema.fault import NOTHING, DecodeError, Fault, found_in, pointer_to
from fxai.schema.parsing import REFUSALS

_Convert: TypeAlias = Callable[[Any], object]


class UnfitError(Exception):
    """An error for a value that a conversion refuses. Its arguments are the validation errors of the value."""

    args: tuple[Fault, ...]

    def add_to(self, faults: list[Fault], token: str | int) -> None:
        """Add the errors of a member to the errors of the enclosing value.

        Raises:
            UnfitError: If the number of errors reaches `MAX_FAULTS`.
        """
        at = pointer_to("", token)
        faults += [Fault(at + one.pointer, one.expected, one.found) for one in self.args]
        if len(faults) >= MAX_FAULTS:
            raise UnfitError(*faults[:MAX_FAULTS]) from self


def _unfit(expected: str, value: object) -> UnfitError:
    return UnfitError(Fault("", expected, found_in(value)))


class Conversion:
    """A step between wire values and Python values. It raises an `UnfitError` for a value that it refuses."""

    __slots__ = ()

    sound: ClassVar[bool] = False
    """True if `outward` returns a new JSON value that is certainly of the type."""

    wire: Any = None
    """The wire type of a codec. None for a conversion of members."""

    @abstractmethod
    def inward(self, wire: Any) -> object:
        """Return the Python value of a wire value."""

    @abstractmethod
    def outward(self, value: object) -> object:
        """Return the wire value of a Python value."""

    def inside(self, _: object, /) -> Iterable[tuple[str, Conversion, object]]:
        """Iterate over the conversions inside, each with its plain data and the JSON pointer to this data."""
        return ()


def codec_faults(step: Conversion, data: object, pointer: str = "") -> Iterator[Fault]:
    """Iterate over the errors of the codecs in plain data that `msgspec` refuses."""
    if step.wire is not None:
        try:
            _ = step.inward(msgspec.convert(data, step.wire, str_keys=True))
        except UnfitError as error:
            yield from (Fault(pointer + one.pointer, one.expected, one.found) for one in error.args)
            return
        except REFUSALS:
            pass  # the data inside can contain errors of other codecs
        else:
            return
    for at, inner, item in step.inside(data):
        yield from codec_faults(inner, item, pointer + at)


def _each(
    steps: Iterable[_Convert | None], values: Iterable[object], tokens: Iterable[str | int] | None = None
) -> list[object]:
    """Return each value converted by its step, or with every error. A value without a step remains unchanged.

    The tokens of the values are their indices by default.
    """
    made: list[object] = []
    faults: list[Fault] = []
    for token, step, value in zip(count() if tokens is None else tokens, steps, values, strict=False):
        try:
            made.append(value if step is None else step(value))
        except UnfitError as error:
            error.add_to(faults, token)
    if faults:
        raise UnfitError(*faults)
    return made


def _inward(step: Conversion | None) -> _Convert | None:
    return None if step is None else step.inward


def _outward(step: Conversion | None) -> _Convert | None:
    return None if step is None else step.outward


def label(tp: object) -> str:
    """Return the name of a type for a message."""
    return str(getattr(tp, "__name__", tp))


@final
class Coded(Conversion, msgspec.Struct, eq=False):
    """The conversion by a codec. `inner` converts the wire type of the codec if this type contains codecs too."""

    codec: Codec
    tp: object
    wire: Any
    inner: Conversion | None
    python: Any = object

    def __post_init__(self) -> None:
        cls: Any = getattr(self.tp, "__origin__", self.tp)
        with suppress(TypeError):  # `isinstance` cannot check every type
            isinstance(None, cls)
            self.python = cls

    @override
    def inward(self, wire: Any) -> object:
        if self.inner is not None:
            wire = self.inner.inward(wire)
        try:
            return self.codec.decode(wire)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise self._refusal(error, wire) from error

    @override
    def outward(self, value: object) -> object:
        if not isinstance(value, self.python):
            raise _unfit(label(self.tp), value)
        try:
            wire = self.codec.encode(value)
        except (ValueError, DecodeError, msgspec.ValidationError) as error:
            raise self._refusal(error, value) from error
        return wire if self.inner is None else self.inner.outward(wire)

    def _refusal(self, error: Exception, value: object) -> UnfitError:
        if isinstance(error, DecodeError):
            return UnfitError(*error.failure.faults)
        name, message = label(self.tp), str(error)
        return _unfit(f"{name} ({message})" if message else name, value)

    @override
    def inside(self, data: object, /) -> Iterable[tuple[str, Conversion, object]]:
        return () if self.inner is None else (("", self.inner, data),)


@final
class Arm(msgspec.Struct, frozen=True):
    """An alternative of a union, with functions that recognize its wire values and its Python values."""

    fits_wire: Callable[[object], bool]
    fits_python: Callable[[object], bool]
    step: Conversion | None


@final
class Choice(Conversion, msgspec.Struct, eq=False):
    """A conversion by the first alternative of a union that recognizes and accepts the value.

    If none accepts the value, the errors are the errors of the first alternative that recognizes it.
    """

    arms: tuple[Arm, ...]
    expected: str

    @override
    def inward(self, wire: Any) -> object:
        first: UnfitError | None = None
        for arm in self.arms:
            if arm.fits_wire(wire):
                try:
                    return wire if arm.step is None else arm.step.inward(wire)
                except UnfitError as error:
                    first = first or error
        raise first or _unfit(self.expected, wire)

    @override
    def outward(self, value: object) -> object:
        first: UnfitError | None = None
        for arm in self.arms:
            if arm.fits_python(value):
                try:
                    return value if arm.step is None else arm.step.outward(value)
                except UnfitError as error:
                    first = first or error
        raise first or _unfit(self.expected, value)

    @override
    def inside(self, data: object, /) -> Iterable[tuple[str, Conversion, object]]:
        steps = [arm.step for arm in self.arms if arm.step is not None]
        return [("", steps[0], data)] if len(steps) == 1 and data is not None else ()


_UNSET: Final = msgspec.UNSET


@final
class Items(Conversion):
    """A conversion of the items of a list, a set, or a tuple.

    The items have one step, or each has a step of its own. An item without a step remains unchanged.
    """

    __slots__ = ("accepted", "make", "size", "steps")

    def __init__(
        self, make: Callable[[Iterable[object]], object], steps: Conversion | tuple[Conversion | None, ...]
    ) -> None:
        self.make: Callable[[Iterable[object]], object] = make
        self.size: int | None = len(steps) if isinstance(steps, tuple) else None
        self.steps: Iterable[Conversion | None] = steps if isinstance(steps, tuple) else repeat(steps)
        self.accepted: type[Any] | tuple[type[Any], ...] = Set if make in (set, frozenset) else (list, tuple)

    def _accepts(self, value: object) -> TypeGuard[Collection[object]]:
        return isinstance(value, self.accepted) and (self.size is None or self.size == len(cast("Set[object]", value)))

    @override
    def inward(self, wire: Any) -> object:
        return self.make(_each(map(_inward, self.steps), wire))

    @override
    def outward(self, value: object) -> object:
        if not self._accepts(value):
            size = "" if self.size is None else f" of {self.size} items"
            raise _unfit("set" if self.accepted is Set else f"array{size}", value)
        made = _each(map(_outward, self.steps), value)
        return made if self.size is None else tuple(made)

    @override
    def inside(self, data: object, /) -> Iterable[tuple[str, Conversion, object]]:
        items = enumerate(zip(self.steps, data if is_listed(data) else (), strict=False))
        return ((f"/{at}", step, one) for at, (step, one) in items if step is not None)


@final
class Entries(Conversion, msgspec.Struct, eq=False):
    """A conversion of every key and value of a mapping. A key or a value without a step remains unchanged."""

    key: Conversion | None
    value: Conversion | None

    @override
    def inward(self, wire: Any) -> object:
        return _entries((_inward(self.key), _inward(self.value)), wire)

    @override
    def outward(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise _unfit("object", value)
        return _entries((_outward(self.key), _outward(self.value)), cast("Mapping[Any, object]", value))

    @override
    def inside(self, data: object, /) -> Iterable[tuple[str, Conversion, object]]:
        step = self.value
        if step is None or not is_object(data):
            return ()
        return ((pointer_to("", str(name)), step, one) for name, one in data.items())


def _entries(steps: tuple[_Convert | None, _Convert | None], given: Mapping[Any, object]) -> dict[Any, object]:
    """Return a mapping with converted keys and values. The token of a key is the key itself."""
    tokens = (str(name) for name in given for _ in steps)
    made = _each(cycle(steps), chain.from_iterable(given.items()), tokens)
    return dict(zip(made[::2], made[1::2], strict=True))


@final
class Slot(msgspec.Struct, frozen=True):
    """A member of a class and of its mirror."""

    name: str
    """The attribute (or key) of the Python value, and the attribute of the mirror."""
    init_name: str
    """The argument of the constructor."""
    token: str | int
    """The name or the index on the wire."""
    step: Conversion | None
    default: Callable[[object], bool] | None = None
    """A function that returns True for a value that the class omits on the wire, or None."""


@final
class Fields(Conversion, msgspec.Struct, eq=False):
    """A conversion of a struct, dataclass, TypedDict, named tuple, or attrs class. Its wire type is its mirror.

    The plan sets `mirror` and `slots` later, because the class can contain itself.
    """

    cls: Any
    accepted: Any
    mirror: Any = None
    slots: tuple[Slot, ...] = ()

    @override
    def inward(self, wire: Any) -> object:
        given: dict[str, object] = {}
        faults: list[Fault] = []
        for slot in self.slots:
            member = getattr(wire, slot.name)
            if member is not _UNSET:
                try:
                    given[slot.init_name] = member if slot.step is None else slot.step.inward(member)
                except UnfitError as error:
                    error.add_to(faults, slot.token)
        if faults:
            raise UnfitError(*faults)
        try:
            return self.cls(**given)
        except (ValueError, TypeError) as error:
            raise UnfitError(Fault("", f"{label(self.cls)} ({error})", "an object")) from error

    @override
    def outward(self, value: object) -> object:
        if not isinstance(value, self.accepted):
            raise _unfit(label(self.cls), value)
        given: dict[str, object] = {}
        faults: list[Fault] = []
        for slot in self.slots:
            try:
                member = _member(value, slot)
                if member is not _UNSET:
                    given[slot.name] = member if slot.step is None else slot.step.outward(member)
            except UnfitError as error:
                error.add_to(faults, slot.token)
        if faults:
            raise UnfitError(*faults)
        return self.mirror(**given)

    @override
    def inside(self, data: object, /) -> Iterator[tuple[str, Conversion, object]]:
        members: dict[Any, object] = data if is_object(data) else dict(enumerate(data)) if is_listed(data) else {}
        for slot in self.slots:
            if slot.step is not None and slot.token in members:
                yield pointer_to("", slot.token), slot.step, members[slot.token]


def _member(value: object, slot: Slot) -> object:
    if is_object(value):
        return value.get(slot.name, _UNSET)
    try:
        member = getattr(value, slot.name)
    except AttributeError as error:
        raise UnfitError(Fault("", "a value", NOTHING)) from error
    return _UNSET if slot.default is not None and slot.default(member) else member
