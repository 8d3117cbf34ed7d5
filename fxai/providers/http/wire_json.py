r"""A JSON decoder for servers that split characters. Use it to read answers and events of a provider.

JSON writes a character beyond U+FFFF as two escapes. Some servers write the two halves into two events. Other servers
lose a half, and strict decoders then reject the whole text.

>>> read_json('{"text": "caf\\ud83d"}')
{'text': 'caf�'}
>>> events = JsonEvents()
>>> events.read('{"delta": "\\ud83d"}'), events.read('{"delta": "\\ude00!"}')
([], [{'delta': '😀'}, {'delta': '!'}])
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeAlias, final

import msgspec

from fxai.schema.data import JSON_ERRORS, is_array, is_object
from fxai.schema.surrogate import ESCAPES, mend_json

_BOM: Final = "\ufeff"
_BOM_BYTES: Final = _BOM.encode()
_INDICES: Final = ("index", "output_index", "content_index", "summary_index")
_MOST_WAITING: Final = 64  # events of other blocks that can arrive between two halves

_Key: TypeAlias = "tuple[tuple[str, ...], tuple[Any, ...]]"  # the location of a string, without and with its indices
_Location: TypeAlias = "tuple[Any, Any]"  # the object or array that contains the string, and its member


def read_json(text: str | bytes) -> Any:
    """Return the value of JSON text. U+FFFD replaces each half of a character.

    Args:
        text: The JSON text. A byte order mark is allowed.

    Raises:
        msgspec.DecodeError: If the text is not JSON.
        UnicodeDecodeError: If the text is not UTF-8.
    """
    try:
        return msgspec.json.decode(text)
    except JSON_ERRORS:
        plain = text.decode().removeprefix(_BOM) if isinstance(text, bytes) else text.removeprefix(_BOM)
        return msgspec.json.decode(mend_json(plain))


def starts_json(data: bytes) -> bool:
    """Return True if the bytes start like a JSON object or array."""
    return data.removeprefix(_BOM_BYTES).lstrip()[:1] in (b"{", b"[")


@final
class JsonEvents:
    """A reader of the events of a stream. It joins characters whose halves are in two events.

    An event that ends with a first half stays pending until the same string continues. If another event arrives first,
    U+FFFD replaces the half.
    """

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self._ends: dict[_Key, _Location] = {}  # strings of waiting events that end with a first half

    def read(self, text: str) -> list[Any]:
        """Return the values of the events that are complete now.

        Raises:
            msgspec.DecodeError: If the text is not JSON.
            UnicodeDecodeError: If the text is not UTF-8.
        """
        event, has_halves = _decode(text)
        if not has_halves and not self._ends:
            return [event]
        locations = _strings(event)
        ready = self._continue(locations)
        for key, (holder, member) in locations.items() if has_halves else ():
            written: str = holder[member]
            end = written[-1:] if "\ud800" <= written[-1:] <= "\udbff" else ""
            holder[member] = _mend(written[: len(written) - len(end)]) + end
            if end:
                self._ends[key] = holder, member
        if not self._ends:
            return [*ready, event]
        self._waiting.append(event)
        return ready

    def end(self) -> list[Any]:
        """Return the pending events when the stream ends."""
        for holder, member in self._ends.values():
            holder[member] = _mend(holder[member])
        self._ends.clear()
        ready, self._waiting = self._waiting, []
        return ready

    def _continue(self, locations: dict[_Key, _Location]) -> list[Any]:
        """Join the halves with the strings of the next event. Return the events that are no longer pending."""
        for key in [key for key in self._ends if key in locations]:
            (holder, member), (next_holder, next_member) = self._ends.pop(key), locations[key]
            following: str = next_holder[next_member]
            if "\udc00" <= following[:1] <= "\udfff":
                holder[member] += following[0]
                next_holder[next_member] = following[1:]
            holder[member] = _mend(holder[member])
        paths = {path for path, _ in locations}
        if len(self._waiting) >= _MOST_WAITING or not any(path in paths for path, _ in self._ends):
            return self.end()
        return []


def _decode(text: str) -> tuple[Any, bool]:
    """Return the value of JSON text, including halves of characters, and True if it has such halves."""
    try:
        return msgspec.json.decode(text), False
    except JSON_ERRORS:
        if all(found["half"] is None for found in ESCAPES.finditer(text)):
            return read_json(text), False
        try:
            return json.loads(text, parse_constant=_refuse), True
        except (ValueError, RecursionError):
            return read_json(text), False


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _mend(text: str) -> str:
    """Return the text with its pairs of halves joined. U+FFFD replaces each other half."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _strings(event: Any) -> dict[_Key, _Location]:
    """Return every string of an event by its location, and replace the halves of characters in names."""
    found: dict[_Key, _Location] = {}
    root = {"": event}
    waiting: list[tuple[tuple[str, ...], tuple[Any, ...], Any]] = [((), (), root)]
    while waiting:
        path, at, holder = waiting.pop()
        if is_object(holder):
            for name in [name for name in holder if not name.isascii()]:
                holder[_mend(name)] = holder.pop(name)
            at = (*at, *map(holder.get, _INDICES))
        is_list = is_array(holder)
        members: Iterable[tuple[Any, Any]] = enumerate(holder) if is_list else list(holder.items())
        for name, value in members:
            location = (*path, "[]" if is_list else str(name))
            has_index = is_object(value) and isinstance(value.get("index"), int)
            index = (*at, name) if is_list and not has_index else at
            if isinstance(value, str):
                found[location, index] = holder, name
            elif is_object(value) or is_array(value):
                waiting.append((location, index, value))
    return found
