"""Plain JSON data: what of a Python value JSON cannot carry, and where.

Plain data is made of `dict` with `str` keys, `list`, `str`, `int`, `float`, `bool` and `None`. What else msgspec can
write (tuples, sets, dates, UUIDs, bytes, enums, structs, dataclasses) is taken as the plain data it is written as.

>>> [str(fault) for fault in plain_faults({"a": [1, float("nan")], "b": 1j})]
['/a/1: expected a finite number, found NaN', '/b: expected what JSON can carry, found a Python complex']
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, cast

import msgspec

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, deeper_than, depth_fault
from fxai.schema.fault import Fault, found_in, pointer_to

__all__ = ["builtin", "is_plain", "plain_faults", "written"]

_DECODE: Final = msgspec.json.Decoder().decode
_MOST_BITS: Final = 14_000  # Python writes no integer of more than 4,300 digits
_DIGITS: Final = "an integer of at most 4,200 digits"
_ATOMS: Final = frozenset((str, int, bool, type(None)))


def builtin(value: object) -> object:
    """The builtin value that an instance of a subclass of `str`, `int` or `float` is: msgspec asks for it.

    Raises:
        TypeError: it is no such instance; JSON cannot carry it.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"JSON cannot carry a {type(value).__qualname__}")


written: Final = msgspec.json.Encoder(enc_hook=builtin).encode
"""The JSON text of a Python value, as msgspec writes it: NaN as null, among others."""


def is_plain(value: object) -> bool:
    """Whether a value is plain JSON data through and through, decided at the decoder's speed.

    `False` is no verdict: what is written as other data than it is (a tuple, a date) is not plain, but may be
    carried all the same; `plain_faults` tells.
    """
    if isinstance(value, str):
        return not _half_surrogates(value)
    if type(value) in _ATOMS:
        return type(value) is not int or value.bit_length() <= _MOST_BITS
    try:
        text = written(value)
        if text.count(b"[") + text.count(b"{") > MAX_LEVELS and deeper_than(value, MAX_LEVELS):
            return False
        return bool(_DECODE(text) == value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return False


def plain_faults(value: object, pointer: str = "") -> tuple[Fault, ...]:
    """Every place of a value that JSON cannot carry, in its order, as many as are told; none for one that it can."""
    faults: list[Fault] = []
    open_members = [iter([(pointer, value)])]
    open_ids = [0]
    while open_members and len(faults) < MAX_FAULTS:
        member = next(open_members[-1], None)
        if member is None:
            open_members.pop()
            open_ids.pop()
        elif id(member[1]) in open_ids:
            faults.append(Fault(member[0], "data that ends", "a value that holds itself"))
        elif len(open_ids) > MAX_LEVELS and not _is_atom(member[1]):
            return (depth_fault(member[0], MAX_LEVELS),)
        elif isinstance(inside := _fault_or_members(*member), Fault):
            faults.append(inside)
        elif inside is not None:
            open_members.append(inside)
            open_ids.append(id(member[1]))
    return tuple(faults)


def _is_atom(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _half_surrogates(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _fault_or_members(pointer: str, value: object) -> Fault | Iterator[tuple[str, object]] | None:
    """What is wrong with the value itself, or what it holds, each with its pointer; nothing for an atom."""
    if isinstance(value, str):
        return Fault(pointer, "text of whole characters", "half a surrogate pair") if _half_surrogates(value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else Fault(pointer, "a finite number", found_in(float(value)))
    if value is None or isinstance(value, int):
        return None if value is None or value.bit_length() <= _MOST_BITS else Fault(pointer, _DIGITS, found_in(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        items = cast("list[object]", value)
        return ((pointer_to(pointer, index), item) for index, item in enumerate(items))
    if isinstance(value, dict):
        return _members(pointer, cast("dict[object, object]", value))
    return _written(pointer, value)


def _members(pointer: str, value: dict[object, object]) -> Fault | Iterator[tuple[str, object]]:
    named = [(key if isinstance(key, str) else _key(key), key, item) for key, item in value.items()]
    for name, key, _ in named:
        if name is None:
            return Fault(pointer, "string keys", f"a key that is {found_in(key)}")
        if _half_surrogates(name):
            return Fault(pointer, "keys of whole characters", "half a surrogate pair")
    return iter([(pointer_to(pointer, name), item) for name, _, item in named if name is not None])


def _written(pointer: str, value: object) -> Fault | Iterator[tuple[str, object]]:
    try:
        plain: object = msgspec.to_builtins(value, str_keys=True, enc_hook=builtin)
    except RecursionError:
        return Fault(pointer, "data that ends", f"{found_in(value)} that is nested too deeply or holds itself")
    except (TypeError, ValueError):
        return Fault(pointer, "what JSON can carry", found_in(value))
    return iter([(pointer, plain)])


def _key(key: object) -> str | None:
    """A key that is no string as JSON writes it; nothing for one that it cannot write."""
    try:
        return next(iter(msgspec.to_builtins({key: None}, str_keys=True)), None)
    except (TypeError, ValueError):
        return None
