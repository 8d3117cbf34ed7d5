r"""A reader of server-sent events. Use it to convert bytes in pieces of any size to events.

The reader follows the WHATWG standard, https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
A browser ignores some errors. An answer of a model must be complete, so the reader reports these errors: bytes that are
not UTF-8, an unfinished event, and an event above the size limit.

Some servers close the connection without the blank line after the last event. fxai reads this event if its data is
complete: a JSON object or array, or `[DONE]`.

>>> read_events([b"event: ping\ndata: 1\n\nda", b"ta: 2\n\n"])
((Event(name='ping', data='1', id=None), Event(name='message', data='2', id=None)), None)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

import msgspec

from fxai.messages.reason import InvalidOutputError, NetworkError
from fxai.providers.http.wire_json import read_json, starts_json
from fxai.schema.data import JSON_ERRORS

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
_BOM = b"\xef\xbb\xbf"


@final
class Event(msgspec.Struct, frozen=True):
    """An event of a stream.

    Attributes:
        name: The field `event`. By default "message".
        data: The lines of data, joined by line feeds.
        id: The last field `id`, in this event or in an earlier event. None if no event had an id.
    """

    name: str
    data: str
    id: str | None = None

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
            if found is None:
                break
            self._line_ends(data[start : found.start()], found.end() - found.start(), events)
            if self.fault is not None:
                return events
            start = found.end()
        rest = data[start:]
        if rest:
            self._keep(rest)
        return events

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
        self._pieces.clear()
        self._data.clear()
        name, self._name = self._name, ""
        return [Event(name or "message", text, self._id)]

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
        for whole in iter(_EVENT.scanner(data, start).match, None):
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

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._largest:
            self._fault = InvalidOutputError(f"an event is larger than the limit of {self._largest} bytes")

    def _line_ends(self, piece: bytes, end: int, events: list[Event]) -> None:
        self._keep(piece)
        if self._fault is not None:
            return
        line = b"".join(self._pieces)
        self._pieces.clear()
        size = len(line)
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
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

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name or "message", "\n".join(self._data), self._id))
            self._data.clear()
        self._name = ""
        self._size = 0


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
