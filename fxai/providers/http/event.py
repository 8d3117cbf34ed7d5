r"""Readers of server-sent events and of their JSON. Use them to convert bytes in pieces of any size to events.

The reader follows the WHATWG standard, https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
A browser ignores some errors. An answer of a model must be complete, so the reader reports these errors: bytes that are
not UTF-8, an unfinished event, and an event above the size limit.

Some servers close the connection without the blank line after the last event. fxai reads this event if its data is
complete: a JSON object or array, or `[DONE]`.

JSON writes a character beyond U+FFFF as two escapes. Some servers write the two halves into two events. Other servers
lose a half, and strict decoders then reject the whole text.

>>> read_events([b"event: ping\ndata: 1\n\nda", b"ta: 2\n\n"])
((Event(name='ping', data='1', id=None), Event(name='message', data='2', id=None)), None)
>>> read_json('{"text": "caf\\ud83d"}')
{'text': 'caf�'}
>>> events = JsonEvents()
>>> events.read('{"delta": "\\ud83d"}'), events.read('{"delta": "\\ude00!"}')
([], [{'delta': '😀'}, {'delta': '!'}])
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.messages.reason import InvalidOutputError, NetworkError
from fxai.schema.data import JSON_ERRORS, is_array, is_object
from fxai.schema.surrogate import ESCAPES, mend_json

_BOM: Final = b"\xef\xbb\xbf"
_INDICES: Final = ("index", "output_index", "content_index", "summary_index")
_MOST_WAITING: Final = 64  # events of other blocks that can arrive between two halves

_Key: TypeAlias = "tuple[tuple[str, ...], tuple[Any, ...]]"  # the location of a string, without and with its indices
_Location: TypeAlias = "tuple[Any, Any]"  # the object or array that contains the string, and its member


def read_json(text: str | bytes) -> Any:
    """Return the value of JSON text. U+FFFD replaces each half of a character. A byte order mark is allowed.

    Raises `msgspec.DecodeError` if the text is not JSON, and `UnicodeDecodeError` if it is not UTF-8.
    """
    try:
        return msgspec.json.decode(text)
    except JSON_ERRORS:
        plain = text.decode() if isinstance(text, bytes) else text
        return msgspec.json.decode(mend_json(plain.removeprefix("\ufeff")))


def starts_json(data: bytes) -> bool:
    """Return True if the bytes start like a JSON object or array."""
    return data.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")


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
        if all(found["half"] is None for found in re.finditer(ESCAPES, text)):
            return read_json(text), False
        try:
            return json.loads(text, parse_constant=int), True  # NaN raises an error
        except (ValueError, RecursionError):
            return read_json(text), False


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


LARGEST: Final = 64 * 2**20
"""The default size limit of an event, in bytes. An image in base64 fits."""

DONE: Final = "[DONE]"
"""The data of the last event in protocols that mark the end of a stream."""

WHOLE: Final = "whole answer"
"""The name of the event that fxai creates if a server sends a whole answer instead of a stream."""

_EMPTY: Final = frozenset(("", "null", "{}", "[]"))
_SIGNS_OF_LIFE: Final = frozenset(("ping", "keepalive", "keep-alive", "heartbeat"))
FIRST_FIELD: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)\b|:)")
"""The start of a stream of events."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_EVENT = re.compile(rb"(?:event: ?([^\r\n]*)\n)?data: ?([^\r\n]*)\n\n")
"""The usual form of an event: a name and one line of data. One search finds it, instead of one search for each line."""


@final
class Event(msgspec.Struct, frozen=True):
    """An event of a stream."""

    name: str
    """The field `event`. By default "message"."""
    data: str
    """The lines of data, joined by line feeds."""
    id: str | None = None
    """The last field `id`, in this event or in an earlier event. None if no event had an id."""

    @property
    def is_empty(self) -> bool:
        """True if the event has no content. Proxies send these events to keep a connection open."""
        return self.data.strip() in _EMPTY or self.name.lower() in _SIGNS_OF_LIFE


@final
class EventReader:
    """A reader of events from bytes. The pieces can end anywhere. The cost depends on the bytes, not on the pieces.

    Args:
        largest: The maximum size of an event, in bytes.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []  # pieces of the unfinished line
        self._size = 0  # bytes of the unfinished event
        self._read = 0  # bytes of all finished lines
        self._first = True
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._fault: InvalidOutputError | NetworkError | None = None

    @property
    def fault(self) -> InvalidOutputError | NetworkError | None:
        """The error that broke the stream, or None. The reader ignores all bytes after the error."""
        return self._fault

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete. After invalid bytes, set `fault` and return prior events."""
        events: list[Event] = []
        if self._fault is not None or not data:
            return events
        start = int(self._after_cr and data.startswith(b"\n"))  # this line feed belongs to the previous line end
        self._read += start
        self._after_cr = data.endswith(b"\r")
        while True:
            if not (self._pieces or self._data or self._name or self._first):
                start = self._usual_events(data, start, events)
            found = _LINE_END.search(data, start)
            piece = data[start : None if found is None else found.start()]
            if piece:  # with pieces, the next event cannot have its usual form
                self._pieces.append(piece)
                self._size += len(piece)
            if self._size > self._largest:
                self._fault = InvalidOutputError(f"an event is larger than the limit of {self._largest} bytes")
            if found is not None and self._fault is None:
                self._end_line(found.end() - found.start(), events)
            if found is None or self.fault is not None:
                return events
            start = found.end()

    def last(self) -> list[Event]:
        """Return the last event if only its blank line is missing. Call this method after the last bytes.

        `end` reports an incomplete event.
        """
        line = b"".join(self._pieces).removeprefix(_BOM if self._first else b"")
        try:
            field, _, value = line.decode().partition(":")
        except UnicodeDecodeError:
            return []
        text = "\n".join([*self._data, value.removeprefix(" ")] if field == "data" else self._data)
        if self._fault is not None or not _is_complete(text):
            return []
        if field != "data":
            self._pieces.clear()
        return self.feed(b"\n\n")

    def end(self) -> InvalidOutputError | NetworkError | None:
        """End the stream. Return the first error, or the error of an unfinished event, or None."""
        line = b"".join(self._pieces)
        if self._fault is None and (self._data or self._name or (line and not line.startswith(b":"))):
            problem = f"the stream ends in the middle of an event, after {self._read + len(line)} bytes"
            self._fault = NetworkError("TransportError", problem)
        return self._fault

    def _usual_events(self, data: bytes, start: int, events: list[Event]) -> int:
        """Add the events in their usual form, and return the start of the other lines.

        The function does not take an invalid or large event. Its lines then decide.
        """
        while (whole := _EVENT.match(data, start)) is not None:
            name, text = whole.groups(b"")
            end = whole.end()
            if self._size + end - start > self._largest:
                break
            try:
                events.append(Event(name.decode() or "message", text.decode(), self._id))
            except UnicodeDecodeError:
                break
            self._read += end - start
            self._size = 0
            start = end
        return start

    def _end_line(self, end: int, events: list[Event]) -> None:
        line = b"".join(self._pieces)
        self._pieces.clear()
        size = len(line)
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(Event(self._name or "message", "\n".join(self._data), self._id))
                self._data.clear()
            self._name = ""
            self._size = 0
        elif line.startswith(b":"):
            self._size -= size  # a comment keeps the connection open and is not part of the event
        else:
            self._field(line)
        self._read += size + end

    def _field(self, line: bytes) -> None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            problem = f"byte {self._read + error.start} of the stream is not UTF-8 ({error.reason})"
            self._fault = InvalidOutputError(problem)
            return
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._id = value
            case _:  # `retry` is for clients that reconnect; the standard ignores other fields
                pass


def _is_complete(text: str) -> bool:
    """Return True if no other line can belong to the data of an event."""
    if text.strip() == DONE:
        return True
    try:
        return starts_json(text.encode()) and read_json(text) is not None
    except JSON_ERRORS:
        return False


def read_events(
    pieces: Iterable[bytes], *, largest: int = LARGEST
) -> tuple[tuple[Event, ...], InvalidOutputError | NetworkError | None]:
    """Return the events of a whole stream and its error, or None. The events before the error are included."""
    reader = EventReader(largest)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return (*events, *reader.last()), reader.end()
