"""What is wrong with a value: each place, what was expected there and what was found.

A fault is a value, and so is the failure that holds all faults of one decoding or encoding: both compare, hash
and are written as JSON. The exceptions are for those who asked for one (`DecodeError`, raised by the `*_unsafe`
twins) and for mistakes in the program itself (`SchemaError`).

>>> failure = DecodeFailure((Fault("/a", "integer", found_in("one")), Fault("/b", "string", NOTHING)))
>>> print(failure)
/a: expected integer, found string 'one'; /b: expected string, found nothing
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.data import is_listed, is_object

__all__ = [
    "NOTHING",
    "DecodeError",
    "DecodeFailure",
    "Fault",
    "SchemaError",
    "found_in",
    "in_order",
    "pointer_of",
    "pointer_to",
    "pointer_tokens",
    "quantity",
]

NOTHING: Final = "nothing"
"""What was found where something is missing."""

_SHORTEST: Final = 60
_LARGE: Final = 1e15


@final
class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a value.

    Attributes:
        pointer: where, as a JSON pointer (RFC 6901); `""` is the whole value.
        expected: what belongs there, in words: `"integer"`, `"string of at least 1 character"`.
        found: what was there, in a few words: `"string 'one'"`, `"nothing"`, `"object with 3 properties"`.
    """

    pointer: str
    expected: str
    found: str

    def __str__(self) -> str:
        """One line: where, what was expected, what was found."""
        if not self.pointer:
            return f"expected {self.expected}, found {self.found}"
        return f"{self.pointer}: expected {self.expected}, found {self.found}"


@final
class DecodeFailure(msgspec.Struct, frozen=True, tag="decode-failure"):
    """A value that does not fit a schema: every fault that was found, root first, never none.

    Attributes:
        faults: the faults, in the order of the value.
    """

    faults: tuple[Fault, ...]

    def __post_init__(self) -> None:
        """Hold that there is a fault: a failure without one is a mistake in the program."""
        if not self.faults:
            raise ValueError("a DecodeFailure holds at least one Fault; without faults there is no failure")

    def __str__(self) -> str:
        """One line: the faults, separated by semicolons."""
        return "; ".join(str(fault) for fault in self.faults)


@final
class DecodeError(Exception):
    """A `DecodeFailure` for those who prefer an exception: the `*_unsafe` methods raise it and nothing else.

    Made of the failure: `DecodeError(failure)`.
    """

    @property
    def failure(self) -> DecodeFailure:
        """What was wrong."""
        failure: DecodeFailure = self.args[0]
        return failure

    def __str__(self) -> str:
        """The failure in one line."""
        return str(self.failure)


@final
class SchemaError(TypeError, ValueError):
    """A schema that cannot be: a type without a JSON form, or a document that is no usable JSON Schema.

    It is a mistake in the program (or in a document from elsewhere), found when the schema is made or first used.
    """


def pointer_to(pointer: str, token: str | int) -> str:
    """The JSON pointer of a member: a property name or an index below `pointer`.

    >>> pointer_to("/a", "x/y~z")
    '/a/x~1y~0z'
    """
    if isinstance(token, str):
        return f"{pointer}/{token.replace('~', '~0').replace('/', '~1')}"
    return f"{pointer}/{token}"


def pointer_of(path: Iterable[str | int]) -> str:
    """The JSON pointer of a path of property names and indices.

    >>> pointer_of(["a", 0])
    '/a/0'
    """
    pointer = ""
    for token in path:
        pointer = pointer_to(pointer, token)
    return pointer


def pointer_tokens(pointer: str) -> list[str]:
    """The tokens of a JSON pointer, unescaped; `""` has none.

    >>> pointer_tokens("/a~1b/0")
    ['a/b', '0']
    """
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def quantity(count: float, unit: str) -> str:
    """A number with its unit.

    >>> quantity(1, "item"), quantity(2, "property")
    ('1 item', '2 properties')
    """
    number = f"{count:.15g}" if count < _LARGE else f"{Decimal(count):.6g}"  # no float holds every integer
    return f"{number} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"


def _short(text: str) -> str:
    return text if len(text) <= _SHORTEST else f"{text[: _SHORTEST - 20]}… ({len(text)} characters)"


def _found_number(value: float) -> str:
    if isinstance(value, int):
        if value.bit_length() > 512:
            return f"integer of {value.bit_length()} bits"
        return f"integer {int(value)}"
    if math.isfinite(value):
        return f"number {float(value)!r}"
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def found_in(value: object) -> str:
    """A short description of a value: its kind, and as much of it as fits in a message.

    It is short for a value of any size.

    >>> [found_in(x) for x in (None, True, 3, 2.5, "one", [1], {"a": 1, "b": 2})]
    ['null', 'boolean true', 'integer 3', 'number 2.5', "string 'one'", 'array of 1 item', 'object with 2 properties']
    """
    kind = type(value)
    if kind is str:
        text: Any = value
        return f"string {text!r}" if len(text) <= _SHORTEST else f"string {_short(text)!r}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {'true' if value else 'false'}"
    if kind is int or kind is float:
        return _found_number(cast("float", value))
    if isinstance(value, Mapping):
        return f"object with {quantity(len(cast('Mapping[object, object]', value)), 'property')}"
    if isinstance(value, (list, tuple)):
        return f"array of {quantity(len(cast('Sequence[object]', value)), 'item')}"
    if isinstance(value, Set):
        return f"set of {quantity(len(cast('Set[object]', value)), 'item')}"
    return f"a Python {kind.__qualname__}"


def in_order(faults: Iterable[Fault], root: object) -> tuple[Fault, ...]:
    """The faults of a value, each once, in the order of the value; what is missing comes behind what is there.

    >>> in_order([Fault("/b", "x", "y"), Fault("/a", "x", "y"), Fault("", "x", "y")], {"a": 1, "b": 2})[1].pointer
    '/a'
    """
    found = tuple(dict.fromkeys(faults))
    if len(found) < 2:
        return found
    places: dict[int, dict[str, int]] = {}
    return tuple(sorted(found, key=lambda fault: _place(fault, root, places)))


def _place(fault: Fault, root: object, known: dict[int, dict[str, int]]) -> tuple[int, ...]:
    """Where a fault stands in the order of the value; what is missing comes behind what is there."""
    places: list[int] = []
    there: Any = root
    for token in pointer_tokens(fault.pointer):
        if is_object(there):
            names = known.get(id(there))
            if names is None:
                names = known[id(there)] = {name: place for place, name in enumerate(there)}
            places.append(names.get(token, len(names)))
            there = there.get(token)
        elif is_listed(there) and token.isdigit():
            places.append(int(token))
            there = there[int(token)] if int(token) < len(there) else None
    return tuple(places)
