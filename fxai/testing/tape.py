"""A tape stores the exchanges of a cassette in a file, without secrets. `recording` uses this module.

Requests and answers are stored as readable JSON without loss, except for keys in headers, URLs, and bodies.

>>> Redaction(["correct horse"]).text("the password is correct horse")
'the password is (secret)'
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import parse_qsl, urlencode

import msgspec

from fxai.providers.http.transport import Secret
from fxai.storage.private_file import replace_file
from fxai.storage.secret_filter import REMOVED, SECRET_NAMES, SecretFilter


class CassetteError(AssertionError):
    """An error for a cassette that is unreadable or has no answer. It is a mistake of the test, not of a model."""


_EVENT_END = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")


@final
class Content(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A body in its most readable form: a JSON value, a list of events, a text, or base64. At most one is set."""

    json: Any = msgspec.UNSET
    events: list[str] | None = None
    text: str | None = None
    base64: str | None = None

    @staticmethod
    def of(body: bytes, kind: str = "") -> Content:
        """Return the content of a body with this media type. Guess the form for an unknown type."""
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
        """Return the body as pieces: one piece per event, or a single piece. JSON is encoded again without spaces."""
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
    """A request with its verb, its path and query, the relevant headers, and its body."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: Content = Content()

    @property
    def key(self) -> tuple[str, str, str]:
        """The parts of a request that must match a recorded request: verb, path, and body by its meaning."""
        return (self.method, self.path, pretty(self.body))


@final
class ConnectionFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A connection error with the name and the message of httpx2's exception."""

    kind: str
    message: str


@final
class Answered(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An answer. `left` is True if the reader stopped before the end, so the rest is unknown."""

    status: int
    headers: dict[str, str] = {}
    body: Content = Content()
    left: bool = False


@final
class Exchange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request with its answer, with a connection error, or with both if the error followed a partial answer."""

    request: Asked
    answer: Answered | None = None
    fault: ConnectionFault | None = None


def pretty(content: Content) -> str:
    """Return the content as readable lines with sorted members. Equal contents have equal lines."""
    data = msgspec.to_builtins(content)
    return json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True)


_SECRET_HEADER = re.compile(rf"{SECRET_NAMES}|(?:set-)?cookie|.*token|.*secret|.*key", re.IGNORECASE)
_SECRET_ARGUMENT = re.compile(rf"{SECRET_NAMES}|key|token|sig|signature|auth|code", re.IGNORECASE)

_KEPT = frozenset(
    {
        *("accept", "content-type", "date", "retry-after", "retry-after-ms", "request-id", "x-request-id"),
        *("anthropic-beta", "anthropic-version", "openai-beta", "openai-processing-ms", "openai-version"),
    }
)
_KEPT_BEGINNINGS = ("x-ratelimit-", "anthropic-ratelimit-")


@final
class Redaction(SecretFilter):
    """A filter of secrets in exchanges, which also filters headers and URLs.

    It stores only headers that are known to be harmless.
    """

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        super().__init__(one.reveal() if isinstance(one, Secret) else one for one in secrets)

    def headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the stored headers by lower-case name. Remember the values of headers with keys as secrets."""
        harmless: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if _SECRET_HEADER.fullmatch(name):
                for text in {value, *value.split()[-1:]}:
                    self.learn(text)
            elif name in _KEPT or name.startswith(_KEPT_BEGINNINGS):
                harmless[name] = value
        return {name: self.text(value) for name, value in harmless.items()}

    def path(self, path: str) -> str:
        """Return the path and its query without the values of arguments with the name of a key."""
        before, mark, query = path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        hidden = [(name, REMOVED if _SECRET_ARGUMENT.fullmatch(name) else self.text(value)) for name, value in pairs]
        return self.text(before) + mark + urlencode(hidden, safe="()")


_VERSION: Final = 1
_LINES, _WIDTH = 60, 160


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    exchanges: list[Exchange]


@final
class Tape:
    """The exchanges of one cassette, in order.

    Args:
        path: File of the cassette.
        exchanges: Recorded exchanges.
    """

    def __init__(self, path: Path, exchanges: list[Exchange]) -> None:
        self._path = path
        self._recorded = exchanges
        self._left = list(range(len(exchanges)))
        self._added: list[Callable[[], Exchange | None]] = []

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The recorded exchanges, in order."""
        return tuple(self._recorded)

    @staticmethod
    def read(path: Path) -> Tape:
        """Return the tape of a file.

        Raises:
            CassetteError: If the file is missing or is not a valid cassette.
        """
        try:
            file = msgspec.convert(json.loads(path.read_bytes()), _File)
        except FileNotFoundError:
            raise CassetteError(f"cassette {path} not found. Record it with mode 'record' or 'auto'.") from None
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise CassetteError(f"{path} is not a cassette: {error}. Record it again with mode 'record'.") from None
        if file.version != _VERSION:
            raise CassetteError(f"{path} must have the version {_VERSION}, got {file.version}. Record it again.")
        return Tape(path, file.exchanges)

    def take(self, asked: Asked) -> Exchange | None:
        """Return the first unused exchange that answers the request, or None."""
        for number in self._left:
            if self._recorded[number].request.key == asked.key:
                self._left.remove(number)
                return self._recorded[number]
        return None

    def add(self, exchange: Callable[[], Exchange | None]) -> None:
        """Reserve the position of a started exchange. `exchange` returns it, or None, when the file is written."""
        self._added.append(exchange)

    def write(self) -> None:
        """Write the file atomically if the tape has new exchanges."""
        added = [exchange for make in self._added if (exchange := make()) is not None]
        if self._recorded and not added:
            return
        data = msgspec.to_builtins(_File(_VERSION, [*self._recorded, *added]))
        text = json.dumps(data, ensure_ascii=False, indent=2)
        replace_file(self._path, f"{text}\n".encode())

    def missing(self, asked: Asked) -> CassetteError:
        """Return the error of a request without an answer, with the most similar recorded request."""
        problem = f"cassette {self._path} has no exchange for {asked.method} {asked.path}"
        same = sum(exchange.request.key == asked.key for exchange in self._recorded)
        remedy = "Record it again with mode 'record', or add missing exchanges with mode 'auto'."
        if same:
            times = f"recorded {same} times, requested {same + 1} times"
            return CassetteError(f"{problem} left: {times}. {remedy}")
        if not self._recorded:
            return CassetteError(f"{problem}, because it is empty. {remedy}")
        wanted = pretty(asked.body).splitlines()

        def likeness(number: int) -> tuple[bool, bool, float]:
            recorded = self._recorded[number].request
            lines = SequenceMatcher(None, pretty(recorded.body).splitlines(), wanted, autojunk=False)
            return (recorded.path == asked.path, recorded.method == asked.method, lines.ratio())

        number = max(range(len(self._recorded)), key=likeness)
        nearest = self._recorded[number].request
        before = [f"{nearest.method} {nearest.path}", *pretty(nearest.body).splitlines()]
        after = [f"{asked.method} {asked.path}", *wanted]
        lines = list(unified_diff(before, after, "recorded", "asked", lineterm="", n=2))
        more = [f"… and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
        shown = [*(line if len(line) <= _WIDTH else line[:_WIDTH] + "…" for line in lines[:_LINES]), *more]
        return CassetteError("\n".join([f"{problem}. The most similar is number {number + 1}:", *shown, remedy]))
