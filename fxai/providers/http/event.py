r"""Server-sent events: bytes in pieces of any size into events, as the WHATWG standard reads them.

https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6. Where a browser would go on, a stream
that carries an answer is broken: bytes that are not UTF-8, an event without end, an event larger than allowed.

Some servers close the connection without the blank line after the last event. fxai reads this event if its data is
whole: an object or array of JSON, or `[DONE]`.

>>> read_events([b"event: ping\ndata: 1\n\nda", b"ta: 2\n\n"])
((Event(name='ping', data='1', id=None), Event(name='message', data='2', id=None)), None)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

import msgspec

from fxai.messages.reason import InvalidOutputError, NetworkError
from fxai.providers.http.wire_json import begins_json, read_json
from fxai.schema.data import JSON_ERRORS

LARGEST: Final = 64 * 2**20
"""The bytes that one event may have, by default: an image in base64 fits."""

DONE: Final = "[DONE]"
"""The data of the event behind which nothing follows, where a protocol has one."""

WHOLE: Final = "whole answer"
"""The name of an event that fxai makes from a whole answer, which a server sent instead of a stream."""

_EMPTY: Final = frozenset(("", "null", "{}", "[]"))
_SIGNS_OF_LIFE: Final = frozenset(("ping", "keepalive", "keep-alive", "heartbeat"))
FIRST_FIELD: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)\b|:)")
"""The beginning of a stream of events."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@final
class Event(msgspec.Struct, frozen=True):
    """One event.

    Attributes:
        name: What its field `event` says; "message" where there is none.
        data: Its lines of data, joined by line feeds.
        id: The last field `id`, in this event or before it; None where there was none.
    """

    name: str
    data: str
    id: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if the event says nothing. Proxies send such events to keep a connection open."""
        return self.data.strip() in _EMPTY or self.name.lower() in _SIGNS_OF_LIFE


@final
class EventReader:
    """Reads events from bytes, fed in pieces that may end anywhere; the work grows with the bytes, not the pieces.

    Args:
        largest: The bytes that one event may have.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._size = 0  # of the event that has not ended
        self._read = 0  # bytes in whole lines so far
        self._first = True
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._fault: InvalidOutputError | NetworkError | None = None

    @property
    def fault(self) -> InvalidOutputError | NetworkError | None:
        """What broke the stream, if something did: nothing is read after it."""
        return self._fault

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes end; those before a fault are given, and `fault` is set."""
        events: list[Event] = []
        if self._fault is not None or not data:
            return events
        start = int(self._after_cr and data.startswith(b"\n"))  # such a line feed belongs to the line end before
        self._read += start
        self._after_cr = data.endswith(b"\r")
        for found in _LINE_END.finditer(data, start):
            self._line_ends(data[start : found.start()], found.end() - found.start(), events)
            if self.fault is not None:
                return events
            start = found.end()
        rest = data[start:]
        if rest:
            self._keep(rest)
        return events

    def last(self) -> list[Event]:
        """Return the last event if only its blank line is missing. No bytes follow.

        `end` reports an event that was cut.
        """
        line = b"".join(self._pieces).removeprefix(_BOM if self._first else b"")
        try:
            field, _, value = line.decode().partition(":")
        except UnicodeDecodeError:
            return []
        text = "\n".join([*self._data, value.removeprefix(" ")] if field == "data" else self._data)
        if self._fault is not None or not _is_whole(text):
            return []
        self._pieces.clear()
        self._data.clear()
        name, self._name = self._name, ""
        return [Event(name or "message", text, self._id)]

    def end(self) -> InvalidOutputError | NetworkError | None:
        """Tells that no bytes follow; gives the fault: one that came before, or an event that was cut off."""
        line = b"".join(self._pieces)
        if self._fault is None and (self._data or self._name or (line and not line.startswith(b":"))):
            problem = f"the stream ends in the middle of an event, after {self._read + len(line)} bytes"
            self._fault = NetworkError("TransportError", problem)
        return self._fault

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._largest:
            self._fault = InvalidOutputError(f"an event is larger than the {self._largest} bytes that are allowed")

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
            self._size -= size  # what keeps a silent stream alive is no part of an event
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
            case _:  # `retry` is for clients that connect again by themselves; others mean nothing
                pass

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name or "message", "\n".join(self._data), self._id))
            self._data.clear()
        self._name = ""
        self._size = 0


def _is_whole(text: str) -> bool:
    """Return True if no further line can belong to the data of an event."""
    if text.strip() == DONE:
        return True
    try:
        return begins_json(text.encode()) and read_json(text) is not None
    except JSON_ERRORS:
        return False


def read_events(
    pieces: Iterable[bytes], *, largest: int = LARGEST
) -> tuple[tuple[Event, ...], InvalidOutputError | NetworkError | None]:
    """The events of a whole stream, and what broke it, if something did: what came before that is given too."""
    reader = EventReader(largest)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return (*events, *reader.last()), reader.end()
