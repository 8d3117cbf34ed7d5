"""The form in which a cassette stores a request and its answer: readable JSON, without loss."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from typing import Any, final

import msgspec

__all__ = ["Answered", "Asked", "Content", "Exchange", "Fault", "pretty"]

_EVENT_END = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")


@final
class Content(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A body in its most readable form: JSON data, a list of the events of a stream, text, or base64; at most one."""

    json: Any = msgspec.UNSET
    events: list[str] | None = None
    text: str | None = None
    base64: str | None = None

    @staticmethod
    def of(body: bytes, kind: str = "") -> Content:
        """The content of a body of this media type; one that it does not tell is taken for what it looks like."""
        if not body:
            return Content()
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return Content(base64=b64encode(body).decode())
        if kind.lower().startswith("text/event-stream"):
            return Content(events=[event for event in _EVENT_END.split(text) if event])
        try:
            data = json.loads(text)
            json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return Content(text=text)
        return Content(json=data)

    def pieces(self) -> list[bytes]:
        """The body again: each event a piece, everything else one; JSON written anew, without space."""
        if self.events is not None:
            return [event.encode() for event in self.events]
        if self.text is not None:
            return [self.text.encode()]
        if self.base64 is not None:
            return [b64decode(self.base64)]
        if self.json is msgspec.UNSET:
            return []
        return [json.dumps(self.json, ensure_ascii=False, separators=(",", ":")).encode()]


@final
class Asked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request: its verb, its path with the query, the headers that say something about it, its body."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: Content = Content()

    @property
    def key(self) -> tuple[str, str, str]:
        """What a recorded request must have in common with one that is asked: verb, path, and body by its meaning."""
        return (self.method, self.path, pretty(self.body))


@final
class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the connection broke: the name of httpx2's exception, and its message."""

    kind: str
    message: str


@final
class Answered(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An answer. `left` says that its reader stopped before its end, so that no more of it is known."""

    status: int
    headers: dict[str, str] = {}
    body: Content = Content()
    left: bool = False


@final
class Exchange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request with its answer, with the fault that came in its place, or with both: a fault behind what came."""

    request: Asked
    answer: Answered | None = None
    fault: Fault | None = None


def pretty(content: Content) -> str:
    """The content as lines for people, equal for equal meanings: members of JSON objects are in order."""
    data = msgspec.to_builtins(content)
    return json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True)
