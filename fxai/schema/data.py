"""Plain JSON data: its kinds, as type guards, its equality and size, copies of it, and data that cannot be changed.

>>> is_object({"a": 1}), is_array((1, 2)), is_listed((1, 2)), is_same(1, True)
(True, False, True, False)
>>> options = frozen({"acme": {"stops": ["a"]}})
>>> options["acme"]["stops"].append("b")
Traceback (most recent call last):
TypeError: this data is part of a value that does not change: make another one, {**data, …} or [*data, …]
>>> options == {"acme": {"stops": ["a"]}}
True
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard, cast, final

import msgspec
from typing_extensions import override

_HOLDING: Final[frozenset[Any]] = frozenset((dict, list, tuple))


JSON_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What `msgspec` raises for a text that is no JSON, or none of the type that is read: it is malformed, is not UTF-8, or
is nested too deep."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is what JSON calls an object; a checker then knows its members."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is what JSON calls an array; a checker then knows its items."""
    return isinstance(value, list)


def is_listed(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple: both are arrays in JSON."""
    return isinstance(value, (list, tuple))


def is_same(left: object, right: object) -> bool:
    """Whether two JSON values are equal; true is no 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def identity(value: object) -> Hashable:
    """What is the same for JSON values that JSON Schema calls equal, and for no others; it can be hashed.

    >>> identity([1, {"a": 1.0}]) == identity([1.0, {"a": 1}]), identity(1) == identity(True)
    (True, False)
    """
    if isinstance(value, bool):
        return (value,)
    if is_object(value):
        return frozenset((name, identity(one)) for name, one in value.items())
    if is_array(value):
        return ("[", *map(identity, value))
    return number_identity(value) if isinstance(value, (int, float)) else value


_MODULUS: Final = sys.hash_info.modulus
"""Numbers whose difference is a multiple of it have one hash in Python."""


def number_identity(value: float) -> Hashable:
    """Return a key that equal numbers share and no others.

    The hash of a number beyond Python's modulus, 2**61 - 1, is its remainder, so that whoever writes the data can give
    many numbers one hash, and a set of them takes quadratic time. The key of such a number is text, which Python hashes
    with a secret.

    >>> number_identity(3), number_identity(2.0**70) == number_identity(2**70)
    (3, True)
    """
    if -_MODULUS < value < _MODULUS or value in (math.inf, -math.inf) or value != value:
        return value
    return ("number", f"{int(value):x}")


_FEW: Final = 64
_TEXT_OF_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.]{1,4999}([eE][-+]?[0-9]{1,8})?")


def hold_hashes_apart(data: Any) -> None:
    """Refuse data in which one array or object has more than 64 different values, or names, of one hash.

    Use it before data becomes sets, or mappings with keys that are no text: Python's hashes of numbers, and of what is
    made of numbers, have no secret. Text of digits counts as its number, and text of a UUID as its integer.

    Raises:
        msgspec.ValidationError: There are so many. The message states the place.
    """
    pending: list[tuple[str, Any]] = [("$", data)]
    while pending:
        path, value = pending.pop()
        inner = value.values() if is_object(value) else value
        if not (is_object(value) or is_array(value)):
            continue
        if len(value) > _FEW:
            same: dict[int, set[Hashable]] = {}
            for one in value:
                same.setdefault(_plain_hash(one), set()).add(identity(one))
            if max(map(len, same.values())) > _FEW:
                raise msgspec.ValidationError(f"Expected `array` of values with different hashes - at `{path}`")
        pending.extend((f"{path}[...]", one) for one in inner if is_object(one) or is_array(one))


def _plain_hash(value: Any) -> int:
    """Return the hash that Python gives to the value that plain data becomes, or one that is equal as often."""
    if is_object(value):
        return hash(tuple(_plain_hash(value[name]) for name in sorted(value)))
    if is_listed(value):
        return hash(tuple(map(_plain_hash, value)))
    if not isinstance(value, str):
        return hash(value)
    if len(value) in (32, 36, 45) and (digits := value.replace("urn:uuid:", "").replace("-", "")).isalnum():
        try:
            return int(digits, 16) % _MODULUS
        except ValueError:
            pass
    return hash(Decimal(value)) if _TEXT_OF_NUMBER.fullmatch(value) and value.count(".") < 2 else hash(value)


def _refuse_change(*_: object, **__: object) -> NoReturn:
    raise TypeError("this data is part of a value that does not change: make another one, {**data, …} or [*data, …]")


@final
class FrozenObject(dict[str, Any]):
    """A JSON object that refuses to be changed; else a dict, equal to one that holds the same. `frozen` makes one."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __ior__ = _refuse_change
        clear = pop = popitem = setdefault = update = _refuse_change

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[dict[str, Any]]]:
        return frozen, (dict(self),)


@final
class FrozenArray(list[Any]):
    """A JSON array that refuses to be changed; else a list, equal to one that holds the same. `frozen` makes one."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[list[Any]]]:
        return frozen, (list(self),)


def frozen(value: Any) -> Any:
    """Plain data as a copy that cannot be changed, all the way down; what is frozen already is itself."""
    if isinstance(value, (FrozenObject, FrozenArray)):
        return value
    if isinstance(value, MappingProxyType):
        value = dict(cast("Mapping[str, Any]", value))
    if is_object(value):
        return FrozenObject({name: frozen(one) for name, one in value.items()})
    return FrozenArray([frozen(one) for one in value]) if is_array(value) else value


def copy_data(value: Any) -> Any:
    """Plain data as a copy of its own, which can be changed: what the giver does to it later does not show."""
    if is_object(value):
        return {name: copy_data(one) for name, one in value.items()}
    return [copy_data(one) for one in value] if is_array(value) else value


def size_of(value: Any) -> int:
    """How many values JSON data is made of, itself counted.

    >>> size_of({"a": [1, 2]})
    4
    """
    count, pending = 0, [value]
    while pending:
        one = pending.pop()
        count += 1
        if is_object(one):
            pending += one.values()
        elif is_array(one):
            pending += one
    return count


def holds_more(value: Any, most: int) -> bool:
    """Whether JSON data is made of more values than `most`: each array and object, and what they hold.

    >>> holds_more({"a": [1, 2]}, 3), holds_more({"a": [1, 2]}, 4)
    (True, False)
    """
    count, pending = 1, [value]
    while pending:
        one: Any = pending.pop()
        kind: type[Any] = one.__class__
        inside: Any = one.values() if issubclass(kind, dict) else one if issubclass(kind, (list, tuple)) else ()
        count += len(inside)
        if count > most:
            return True
        for inner in inside:
            if inner.__class__ in _HOLDING:
                pending.append(inner)  # noqa: PERF401  # a comprehension is one more function for each call of a tool
    return False


def containers_in(value: Any, most: int) -> int:
    """How many arrays and objects JSON data is made of; where there are more than `most`, one more than that.

    >>> containers_in({"a": [1, "[["]}, 9), containers_in([[[]], [], []], 3)
    (2, 4)
    """
    count, pending = 0, [value]
    while pending and count <= most:
        one = pending.pop()
        if is_object(one) or is_array(one):
            count += 1
            pending += one.values() if is_object(one) else one
    return count


@final
class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object without properties, closed to any: the parameters of an operation that has none."""
