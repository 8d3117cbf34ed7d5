"""JSON values as Python objects. Use this module to classify, compare, measure, copy, or freeze them.

>>> is_object({"a": 1}), is_array((1, 2)), is_listed((1, 2)), is_same(1, True)
(True, False, True, False)
>>> options = frozen({"acme": {"stops": ["a"]}})
>>> options["acme"]["stops"].append("b")
Traceback (most recent call last):
TypeError: cannot change immutable data. Create a changed copy, such as {**data, …} or [*data, …].
>>> options == {"acme": {"stops": ["a"]}}
True
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeGuard, cast, final

import msgspec
from typing_extensions import override

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object, such as a JSON Schema."""

JsonArray: TypeAlias = list[Any]
"""A JSON array."""

_HOLDING: Final[frozenset[Any]] = frozenset((dict, list, tuple))

JSON_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""The errors of `msgspec` for text that it cannot decode.

The text is not JSON, is not UTF-8, has too many levels of nesting, or does not fit the requested type.
"""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return True if a value is a JSON object. A type checker then accepts operations of a `dict`."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[JsonArray]:
    """Return True if a value is a JSON array. A type checker then accepts operations of a `list`."""
    return isinstance(value, list)


def is_listed(value: object) -> TypeGuard[Sequence[Any]]:
    """Return True if a value is a list or a tuple. JSON represents both as arrays."""
    return isinstance(value, (list, tuple))


def is_same(left: object, right: object) -> bool:
    """Return True if two JSON values are equal. `True` does not equal `1`."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def identity(value: object) -> Hashable:
    """Return a hashable key. Two JSON values have the same key if JSON Schema defines them as equal, and only then.

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
"""The modulus of Python's hashes of numbers. Numbers with the same remainder have the same hash."""


def number_identity(value: float) -> Hashable:
    """Return a hashable key. Two numbers have the same key if they are equal, and only then.

    Beyond Python's modulus, 2**61 - 1, the hash of a number is its remainder. Therefore the author of the data can
    choose many numbers with the same hash, and a set of these numbers takes quadratic time. To prevent this, the key of
    such a number contains a string, because Python hashes strings with a secret.

    >>> number_identity(3), number_identity(2.0**70) == number_identity(2**70)
    (3, True)
    """
    if -_MODULUS < value < _MODULUS or value in (math.inf, -math.inf) or value != value:
        return value
    return ("number", f"{int(value):x}")


_FEW: Final = 64
_TEXT_OF_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.]{1,4999}([eE][-+]?[0-9]{1,8})?")


def hold_hashes_apart(data: object) -> None:
    """Refuse data if an array or object has more than 64 different values or names with the same hash.

    Call this function before you convert data to sets, or to mappings with keys that are not strings. Python's hashes
    of numbers have no secret, so the author of the data can choose numbers with the same hash. A string of digits
    counts as its number, and the string of a UUID counts as its integer.

    Raises:
        msgspec.ValidationError: If an array or object has more than 64 of these values. The message states its path.
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


def _plain_hash(value: object) -> int:
    """Return a hash that is equal for two JSON values if the hashes of their converted values are equal."""
    if is_object(value):
        return hash(tuple(_plain_hash(value[name]) for name in sorted(value)))
    if is_listed(value):
        return hash(tuple(map(_plain_hash, value)))
    if not isinstance(value, str):
        return hash(value)
    if len(value) in (32, 36, 45) and (digits := value.replace("urn:uuid:", "").replace("-", "")).isalnum():
        with suppress(ValueError):
            return int(digits, 16) % _MODULUS
    return hash(Decimal(value)) if _TEXT_OF_NUMBER.fullmatch(value) and value.count(".") < 2 else hash(value)


def _refuse_change(*_: object, **__: object) -> NoReturn:
    raise TypeError("cannot change immutable data. Create a changed copy, such as {**data, …} or [*data, …].")


@final
class FrozenObject(JsonObject):
    """An immutable JSON object. It equals a `dict` with the same members. `frozen` creates it."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __ior__ = _refuse_change
        clear = pop = popitem = setdefault = update = _refuse_change

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[JsonObject]]:
        return frozen, (dict(self),)


@final
class FrozenArray(JsonArray):
    """An immutable JSON array. It equals a `list` with the same items. `frozen` creates it."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[JsonArray]]:
        return frozen, (list(self),)


def frozen(value: Any) -> Any:
    """Return a deeply immutable copy of a JSON value. Return an immutable value unchanged."""
    if isinstance(value, (FrozenObject, FrozenArray)):
        return value
    if isinstance(value, MappingProxyType):
        value = dict(cast("Mapping[str, Any]", value))
    if is_object(value):
        return FrozenObject({name: frozen(one) for name, one in value.items()})
    return FrozenArray([frozen(one) for one in value]) if is_array(value) else value


def copy_data(value: Any) -> Any:
    """Return a deep, changeable copy of a JSON value. Later changes to the original do not affect the copy."""
    if is_object(value):
        return {name: copy_data(one) for name, one in value.items()}
    return [copy_data(one) for one in value] if is_array(value) else value


def every_object(value: object) -> Iterator[JsonObject]:
    """Iterate over the JSON objects in a JSON value, each before the objects inside it. You can change each object.

    >>> [sorted(one) for one in every_object({"a": [{"b": 1}]})]
    [['a'], ['b']]
    """
    pending = [value]
    while pending:
        one = pending.pop()
        if is_object(one):
            yield one
            pending += one.values()
        elif is_array(one):
            pending += one


def holds_more(value: Any, most: int) -> bool:
    """Return True if a JSON value has more than `most` values. Arrays, objects, and their contents count.

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
                pending.append(inner)  # noqa: PERF401  # a comprehension would cost a function call per tool call
    return False


@final
class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object without properties. Use it as the parameters of an operation without parameters."""
