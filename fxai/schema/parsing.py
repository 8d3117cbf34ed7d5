"""JSON text within limits, and plain JSON data. Use this module to read the text of a model or of another program.

The text can be malformed, too large, nested too deep, or contain values that JSON does not have (NaN). Each of these
problems is a failure with a location. Blank text means `{}`.

Plain data consists of `dict` with `str` keys, `list`, `str`, `int`, `float`, `bool`, and `None`. `msgspec` can also
write tuples, sets, dates, UUIDs, bytes, enums, structs, and dataclasses. fxai reads these values as their JSON form.

>>> parse_json('{"a": [1, 2.5, null]}')
<Success: {'a': [1, 2.5, None]}>
>>> print(parse_json('{"a": [1, NaN]}').failure())
/a/1: expected a finite number, found NaN
>>> [str(fault) for fault in plain_faults({"a": [1, float("nan")], "b": 1j})]
['/a/1: expected a finite number, found NaN', '/b: expected a JSON value, found a Python complex']
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NoReturn, cast, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_VALUES, deeper_than, depth_fault
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in, pointer_to
from fxai.schema.surrogate import is_whole_text

_A = TypeVar("_A")

_SHALLOW: Final = 128


@final
class Limits(msgspec.Struct, frozen=True):
    """The limits of JSON text."""

    max_bytes: int = 16 * 1024 * 1024
    """Maximum size of the text, in bytes of UTF-8. Default: 16 MiB."""
    max_depth: int = _SHALLOW
    """Maximum nesting of arrays and objects. `[]` has the depth 1. Default: 128.

    fxai does not count the depth of properties that a type ignores. Text with more than about 900 levels always fails,
    because the stack of the interpreter is limited.
    """
    max_values: int = 1_000_000
    """Maximum number of values in the text. Arrays, objects, and their contents count. Default: 1,000,000.

    The default for the arguments of a call is 100,000 (`CALL_LIMITS`).
    """
    unique_keys: bool = False
    """True to refuse an object with a key twice, in a second pass. Default: False, so that the last value wins."""


LIMITS: Final = Limits()
"""The default limits."""

CALL_LIMITS: Final = Limits(max_values=MAX_VALUES)
"""The default limits of the arguments of a call. They are lower, because the program of the handler waits."""

REFUSALS: Final = (TypeError, ValueError, OverflowError)
"""The exceptions that msgspec raises if it refuses data or a value. Its own errors are instances of ValueError."""

_ANY: Final = msgspec.json.Decoder()
_BRACKETS: Final = b'[]{}"'
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")


def parse_json(text: bytes | str, limits: Limits = LIMITS) -> Result[object, DecodeFailure]:
    """Return the value of JSON text, or every error of the text. Blank text is `{}`.

    Fails with:
        DecodeFailure: The text is not JSON or not UTF-8. It contains NaN, an infinity (also as `1e999`), or half of a
            surrogate pair. It exceeds a limit. It contains a key twice, and `unique_keys` is set.

    >>> parse_json(" ")
    <Success: {}>
    >>> print(parse_json('{"a": 1, "a": 2}', Limits(unique_keys=True)).failure())
    /a: expected each key once, found key 'a' twice
    """
    try:
        return Success(parse_json_unsafe(text, limits))
    except DecodeError as error:
        return Failure(error.failure)


def parse_json_unsafe(text: bytes | str, limits: Limits = LIMITS) -> object:
    """Return the value of JSON text, like `parse_json`.

    Raises:
        DecodeError: If `parse_json` returns a failure.
    """
    return read_text(text, limits)


def read_text(
    text: bytes | str, limits: Limits, decode: Callable[[bytes | str], Any] = _ANY.decode, *, bounded: bool = False
) -> Any:
    """Decode JSON text that is within the limits.

    Args:
        text: The text, or blank text for `{}`.
        limits: The limits.
        decode: The bound method of a decoder. Default: plain JSON data.
        bounded: True if the decoder reads a few levels only, so that fxai need not check the depth. Default: False.

    Raises:
        DecodeError: If the text is not JSON or exceeds the limits.
        msgspec.ValidationError: If the decoder refuses the text. If `bounded`, the rest of the text can be invalid.
    """
    if type(text) is not str or len(text) > _SHALLOW or (limits is not LIMITS and limits is not CALL_LIMITS):
        _within(text, limits, bounded=bounded)
    try:
        return decode(text)
    except msgspec.ValidationError:
        if not bounded:
            parse_whole(text, limits)
        raise
    except RecursionError:
        raise DecodeError(too_deep(limits.max_depth)) from None
    except (msgspec.DecodeError, UnicodeError):
        if not text.strip():
            return decode("{}")
        _fail(text, limits)


def parse_whole(text: bytes | str, limits: Limits) -> object:
    """Return the value of text that is within the limits.

    A typed decoder stops at the first wrong type, so that the rest of the text can be invalid JSON.

    Raises:
        DecodeError: If the text is not JSON.
    """
    try:
        return _ANY.decode(text if text.strip() else "{}")
    except RecursionError:
        raise DecodeError(too_deep(limits.max_depth)) from None
    except (msgspec.MsgspecError, UnicodeError):
        _fail(text, limits)


def too_deep(levels: int) -> DecodeFailure:
    """Return the failure of a value that is nested too deep or contains itself."""
    return DecodeFailure((Fault("", f"at most {levels} levels of nesting", "deeper nesting"),))


def _refuse(expected: str, found: str) -> NoReturn:
    raise DecodeError(DecodeFailure((Fault("", expected, found),)))


def _within(text: bytes | str, limits: Limits, *, bounded: bool) -> None:
    size = len(text)
    if isinstance(text, str) and size * 4 > limits.max_bytes and not text.isascii():
        size = len(text.encode(errors="surrogatepass"))
    if size > limits.max_bytes:
        unit = "characters" if isinstance(text, str) else "bytes"
        _refuse(f"at most {limits.max_bytes} bytes of JSON", f"{len(text)} {unit}")
    if isinstance(text, bytes) and not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            _refuse("JSON in UTF-8", f"a byte that is not UTF-8, at byte {error.start}")
    if (not bounded or limits.max_depth < _SHALLOW) and _deeper_than(text, limits.max_depth):
        raise DecodeError(too_deep(limits.max_depth))
    if len(text) >= limits.max_values and _values_in(text, limits.max_values) > limits.max_values:
        _refuse(f"at most {limits.max_values} values in JSON text", "more")
    if limits.unique_keys:
        _within_keys(text)


def _deeper_than(text: bytes | str, levels: int) -> bool:
    """Return whether the brackets outside strings nest deeper. Each pass removes one level of pairs."""
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened <= levels:
        return False
    rest = _outside(text, _NO_BRACKETS).replace(b'"', b"").translate(_SQUARE)
    run = b"[" * (levels + 1)
    for _ in range(levels):
        if run in rest:
            return True
        if b"[]" not in rest:
            break
        rest = rest.replace(b"[]", b"")
    return b"[]" in rest or rest.count(b"[") > levels


def _values_in(text: bytes | str, most: int) -> int:
    """Return the number of values in JSON text, or an upper bound if the bound does not exceed `most`."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    might = 1 + data.count(b",") + data.count(b"[") + data.count(b"{")
    if might <= most:
        return might
    rest = _outside(data, b" \t\r\n")
    empty = rest.count(b"[]") + rest.count(b"{}")
    return 1 + rest.count(b",") + rest.count(b"[") + rest.count(b"{") - empty


def containers_in(text: bytes | str) -> int:
    """Return the number of arrays and objects in JSON text."""
    rest = _outside(text, _NO_BRACKETS)
    return rest.count(b"[") + rest.count(b"{")


def _outside(text: bytes | str, dropped: bytes) -> bytes:
    """Return the text outside strings without the dropped bytes. A quote replaces each string."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'"'.join(data.translate(None, dropped).split(b'"')[::2])  # every second piece is inside a string


def _within_keys(text: bytes | str) -> None:
    import json

    is_doubled = False

    def pairs(members: list[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
        nonlocal is_doubled
        is_doubled |= len(dict(members)) < len(members)
        return tuple(members)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
        faults = tuple(dict.fromkeys(_doubled_keys(value, ""))) if is_doubled else ()
    except (ValueError, RecursionError):
        return  # not JSON, or too deep: the decoder reports it
    if faults:
        raise DecodeError(DecodeFailure(faults))


def _doubled_keys(value: object, pointer: str) -> Iterator[Fault]:
    """Iterate over the errors of a value whose objects are tuples of their members."""
    items = enumerate(value) if is_array(value) else ()
    members = cast("tuple[tuple[str, object], ...]", value) if isinstance(value, tuple) else ()
    for key, count in Counter(key for key, _ in members).items():
        if count > 1:
            times = "twice" if count == 2 else f"{count} times"
            yield Fault(pointer_to(pointer, key), "each key once", f"key {key!r} {times}")
    for token, item in (*items, *members):
        yield from _doubled_keys(item, pointer_to(pointer, token))


def _fail(text: bytes | str, limits: Limits) -> NoReturn:
    """Raise the error of text that the decoder refused, with the locations of NaN and of half surrogate pairs."""
    import json

    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        _refuse("JSON", f"text that is not JSON: {error.msg} at line {error.lineno} column {error.colno}")
    except UnicodeDecodeError as error:
        _refuse("JSON in UTF-8", f"a byte that is not UTF-8, at byte {error.start}")
    except RecursionError:
        raise DecodeError(too_deep(limits.max_depth)) from None
    except ValueError:
        _refuse("JSON", "a number of too many digits")
    faults = plain_faults(value)
    if not faults:
        _refuse("JSON", "text that is not JSON")
    raise DecodeError(DecodeFailure(faults))


# ---- plain data

_MOST_BITS: Final = 14_000  # Python writes no integer of more than 4,300 digits
_ATOMS: Final = frozenset((str, int, bool, type(None)))


def builtin(value: object) -> object:
    """Return the JSON data of a value that msgspec does not know.

    The value is an instance of a subclass of `str`, `int`, or `float`, or a value of a pydantic class.

    Raises:
        TypeError: If JSON cannot represent the value.
        ValueError: If pydantic cannot write the value.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return serializer.to_python(value, mode="json", by_alias=True)
    raise TypeError(f"JSON cannot represent a {type(value).__qualname__}")


written: Final = msgspec.json.Encoder(enc_hook=builtin).encode
"""The JSON text of a Python value, as msgspec writes it: NaN as null, among others."""


def is_plain(value: object) -> bool:
    """Return whether a value and all its contents are plain JSON data, at the speed of the decoder.

    If the result is False, JSON can possibly represent the value in another form, such as a tuple or a date.
    `plain_faults` decides this.
    """
    if isinstance(value, str):
        return is_whole_text(value)
    if type(value) in _ATOMS:
        return type(value) is not int or value.bit_length() <= _MOST_BITS
    try:
        text = written(value)
        if text.count(b"[") + text.count(b"{") > MAX_LEVELS and deeper_than(value, MAX_LEVELS):
            return False
        return bool(_ANY.decode(text) == value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return False


def plain_faults(value: object, pointer: str = "") -> tuple[Fault, ...]:
    """Return the errors of a value that JSON cannot represent, in the order of the value, up to `MAX_FAULTS`."""
    try:
        return (*islice(_plain_faults(value, pointer, ()), MAX_FAULTS),)
    except _TooDeepError as error:
        return (depth_fault(str(error), MAX_LEVELS),)


class _TooDeepError(Exception):
    """An error for a value at a JSON pointer that has too many enclosing values."""


def _plain_faults(value: Any, pointer: str, around: tuple[int, ...]) -> Iterator[Fault]:
    if isinstance(value, str):
        if not is_whole_text(value):
            yield Fault(pointer, "text of whole characters", "half a surrogate pair")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Fault(pointer, "a finite number", found_in(float(value)))
    elif value is None or isinstance(value, int):
        if value is not None and value.bit_length() > _MOST_BITS:
            yield Fault(pointer, "an integer of at most 4,200 digits", found_in(value))
    elif id(value) in around:
        yield Fault(pointer, "data that ends", "a value that contains itself")
    elif len(around) >= MAX_LEVELS:
        raise _TooDeepError(pointer)
    else:
        inside = _members(value)
        if isinstance(inside, tuple):
            yield Fault(pointer, *inside)
            return
        for token, item in inside:
            location = pointer if token is None else pointer_to(pointer, token)
            yield from _plain_faults(item, location, (*around, id(value)))


def _members(value: Any) -> list[tuple[str | int | None, Any]] | tuple[str, str]:
    """Return the members of a value with their tokens, or its JSON form without a token, or why it has no JSON form."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*enumerate(cast("list[Any]", value))]
    if is_object(value):
        keys: dict[Any, Any] = value
        names: list[Any] = [key if isinstance(key, str) else _key(key) for key in keys]
        if None in names:
            key = next(key for key, name in zip(value, names, strict=True) if name is None)
            return "string keys", f"a key that is {found_in(key)}"
        if not all(map(is_whole_text, names)):
            return "keys of whole characters", "half a surrogate pair"
        return [*zip(names, value.values(), strict=True)]
    try:
        return [(None, msgspec.to_builtins(value, str_keys=True, enc_hook=builtin))]
    except RecursionError:
        return "data that ends", f"{found_in(value)} that is nested too deep or contains itself"
    except (TypeError, ValueError):
        return "a JSON value", found_in(value)


def _key(key: object) -> str | None:
    """Return the text of a key that is not a string, or None if JSON cannot represent the key."""
    try:
        return next(iter(msgspec.to_builtins({key: None}, str_keys=True)), None)
    except (TypeError, ValueError):
        return None


# ---- JSON text inside data

_NESTED: Final = r"[ \t\r\n]*[\[{]"
_MOST_LOOKED_AT: Final = 100_000


def may_be_nested(text: str) -> bool:
    """Return whether a string starts like the JSON text of an object or an array."""
    return re.match(_NESTED, text) is not None


_LEAVES: Final = ("string ", "integer ", "number ", "boolean ", "null", "nothing")
_FOUND_NESTED: Final = r"string ['\"](?: |\\[nrt])*[\[{]"


def is_about_leaves(faults: tuple[Fault, ...]) -> bool:
    """Return whether each error is about a missing value, or a scalar that is not the text of an object or an array.

    >>> [is_about_leaves((Fault("/a", "array", found),)) for found in ("string 'x'", "string '[1]'", "object")]
    [True, False, False]
    """
    for one in faults:
        found = one.found
        if not found.startswith(_LEAVES) or (found[8:9] in "[{ \\" and re.match(_FOUND_NESTED, found) is not None):
            return False
    return True


def holds_nested(data: Any) -> bool:
    """Return whether a string in plain data can be the text of an object or an array.

    >>> holds_nested({"a": ["[1]"]}), holds_nested({"a": ["1"]})
    (True, False)
    """
    waiting = [data]
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, str):
            if may_be_nested(value):
                return True
        elif is_object(value):
            waiting += value.values()
        elif is_array(value):
            waiting += value
    return False
