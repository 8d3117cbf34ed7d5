r"""Halves of surrogate pairs in text. Use this module before you write text from other sources as JSON.

Python strings can contain half of a surrogate pair, for example from `os.listdir` or from an incomplete JSON escape.
UTF-8 cannot represent a half, so a single half would prevent a whole request. fxai replaces each half with U+FFFD. Two
adjacent halves of a pair become one character.

>>> mend_text("caf\udce9.txt") == "caf\ufffd.txt", mend_text("\ud83d\ude00") == "\U0001f600"
(True, True)
>>> mend_data({"names": ["a", "\ud83d"]}) == {"names": ["a", "\ufffd"]}
True
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from operator import is_
from typing import Any, Final, TypeVar, cast

import msgspec

_T = TypeVar("_T")

ESCAPES: Final = (
    r"(?s)(?P<whole>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
"""The pattern of an escape in JSON text. The groups are both halves of a character (`whole`) and one half (`half`)."""

_PAIR: Final = r"[\ud800-\udbff][\udc00-\udfff]"
_HALF: Final = re.compile(r"[\ud800-\udfff]")


def is_whole_text(text: str) -> bool:
    """Return True if a string contains no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mend_text(text: str) -> str:
    """Replace each half of a surrogate pair with U+FFFD. Return a string without halves unchanged."""
    if is_whole_text(text):
        return text
    joined = re.sub(_PAIR, lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _HALF.sub("\ufffd", joined)


def mend_json(text: str) -> str:
    r"""Return JSON text with U+FFFD instead of each escape of a half, which strict decoders reject.

    >>> mend_json('"a\\ud83d"'), mend_json('"\\ud83d\\ude00"'), mend_json(r'"\\ud83d"')
    ('"a\\ufffd"', '"\\ud83d\\ude00"', '"\\\\ud83d"')
    """
    return re.sub(ESCAPES, lambda found: found[0] if found["half"] is None else "\\ufffd", text)


def mend_data(value: _T) -> _T:
    """Replace each half of a surrogate pair in the strings and keys of a value. Keep a value without halves.

    fxai copies lists, tuples, sets, mappings, Structs, and dataclasses if they contain a half. If two keys become
    equal, fxai adds a number to the later key.

    Args:
        value: A JSON value, or a Python value of a type with fields.
    """
    with suppress(TypeError, ValueError, RecursionError):  # msgspec stops at the first problem, so halves can follow it
        msgspec.json.encode(value)
        return value
    try:
        return cast(_T, _mend(value))
    except RecursionError:
        return value


def _mend(value: object) -> Any:
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, Mapping):
        given, copied = cast("dict[object, object]", value), dict[object, object]()
        for key, item in given.items():
            whole = plain = mend_text(key) if isinstance(key, str) else key
            count = 1
            while plain is not key and (whole in copied or whole in given):
                count += 1
                whole = f"{plain}_{count}"
            copied[whole] = _mend(item)
        same_keys = all(map(is_, given, copied))
        return given if same_keys and all(map(is_, given.values(), copied.values())) else copied
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Collection[Any]", value)
        mended = [_mend(item) for item in items]
        if all(map(is_, mended, items)):
            return items
        make: Any = getattr(items, "_make", type(items))
        return make(mended)
    if isinstance(value, msgspec.Struct):
        return _mend_fields(value, value.__struct_fields__, msgspec.structs.replace)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return _mend_fields(value, names, dataclasses.replace)
    return value


def _mend_fields(value: Any, names: Iterable[str], replace: Callable[..., Any]) -> Any:
    fields = {name: getattr(value, name) for name in names}
    mended = {name: _mend(field) for name, field in fields.items()}
    changed = {name: field for name, field in mended.items() if field is not fields[name]}
    return replace(value, **changed) if changed else value
