"""Recordings are HTTP exchanges with providers, stored in a file. Use a cassette to test a program without a network.

`cassette` returns a layer. With it, the client of every provider records or replays exchanges. Keys never reach the
file. A tape stores requests and answers as readable JSON without loss, except for keys in headers, URLs, and bodies.

>>> import tempfile, httpx2
>>> from pathlib import Path
>>> from fxai.effects import fx
>>> from fxai.providers.http import Secret, open_client
>>> answers = httpx2.MockTransport(lambda request: httpx2.Response(200, json={"text": "Hello."}))
>>> opened = open_client(base_url="https://api.example.com/v1", headers={"x-api-key": Secret("sk-1234")})
>>> asked = fx.scoped(opened.flat_map(lambda client: client.post("/replies", b'{"input": "Hi"}')))
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "hello.json")
...     fx.run(asked.provide(cassette(path, "record", live=answers))).body
...     fx.run(asked.provide(cassette(path))).body
...     "sk-1234" in path.read_text()
b'{"text":"Hello."}'
b'{"text":"Hello."}'
False
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, Final, Literal, Never, TypeAlias, cast, final
from urllib.parse import parse_qsl, urlencode

import httpx2
import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.cause import Exit, Failed
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.providers.http.http_error import why
from fxai.providers.http.transport import Secret, Transport
from fxai.storage.private_file import replace_file
from fxai.storage.secret_filter import REMOVED, SECRET_NAMES, SecretFilter

__all__ = ["CassetteError", "Mode", "cassette", "record", "replay"]


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


# -- cassettes

Mode: TypeAlias = Literal["replay", "record", "auto"]
"""The mode of a cassette. `"replay"`: answer only from the file. `"record"`: send every request and write the file
again. `"auto"`: answer from the file, and send and add missing requests."""


def cassette(
    path: str | Path,
    mode: Mode = "replay",
    *,
    secrets: Iterable[str | Secret] = (),
    live: httpx2.AsyncBaseTransport | None = None,
) -> LayerOf[Transport, Never, None]:
    """Return the layer with which clients of providers record to a file, or replay the file without a network.

    An exchange answers a request if verb, path, and body match (JSON by its meaning). The host does not matter. fxai
    uses each exchange once, in order. It also records and replays connection errors. It writes the file when the layer
    is released, unless the program ended with a defect or an interruption.

    fxai stores only harmless headers. Before it stores or compares a request, it removes these values from all parts:

    - headers, members, and arguments with the name of a key
    - strings that look like a key
    - every string in `secrets`

    Replaying needs no key. If the environment has no key, the provider's layer works without one.

    Args:
        path: JSON file. Missing directories are created.
        mode: "replay", "record" (writes the file again), or "auto". Default: "replay".
        secrets: Further strings that fxai must not store. fxai ignores strings of fewer than 8 characters.
        live: Transport for recorded requests. Default: the network, as the client would use it.

    Raises:
        CassetteError: As a defect of the program, if no exchange answers a request (the message shows the most similar
            exchange), or if the file is missing or invalid.
    """
    file, known = Path(path), tuple(secrets)

    def read() -> Tape:
        is_new = mode == "record" or (mode == "auto" and not file.exists())
        return Tape(file, []) if is_new else Tape.read(file)

    def open_() -> Gen[Transport, Never, Scope]:
        tape = yield from fx.sync(read)

        def write(end: Exit[Any, Any]) -> Effect[None]:
            is_broken = isinstance(end, Failed) and (end.cause.defects or end.cause.interrupted)
            return fx.succeed(None) if is_broken else fx.sync(tape.write)

        if mode != "replay":
            yield from fx.add_finalizer(write)
        return _Cassette(tape, Redaction(known), mode, live)

    return LayerOf.scoped(Transport, fx.suspend(fx.gen(open_)))


def record(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """Return `cassette(path, "record", secrets=secrets)`."""
    return cassette(path, "record", secrets=secrets)


def replay(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """Return `cassette(path, "replay", secrets=secrets)`."""
    return cassette(path, "replay", secrets=secrets)


@final
class _Cassette(Transport):
    def __init__(self, tape: Tape, redaction: Redaction, mode: Mode, live: httpx2.AsyncBaseTransport | None) -> None:
        self._tape = tape
        self._redaction = redaction
        self._mode = mode
        self._live = live

    @property
    @override
    def needs_keys(self) -> bool:
        return self._mode != "replay"

    @override
    def over(self, live: Callable[[], httpx2.AsyncBaseTransport]) -> httpx2.AsyncBaseTransport:
        sends = None if self._mode == "replay" else self._live or live()
        return _Recorder(self._tape, self._redaction, sends)


_FAULTS: Final = {
    fault.__name__: fault
    for fault in (
        *(httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout),
        *(httpx2.ConnectError, httpx2.ReadError, httpx2.WriteError, httpx2.CloseError),
        *(httpx2.LocalProtocolError, httpx2.RemoteProtocolError, httpx2.ProxyError, httpx2.UnsupportedProtocol),
    )
}


@final
class _Recorder(httpx2.AsyncBaseTransport):
    """A transport that answers from a tape. It sends a missing request to `live`, and adds the exchange to the tape."""

    def __init__(self, tape: Tape, redaction: Redaction, live: httpx2.AsyncBaseTransport | None) -> None:
        self._tape = tape
        self._redaction = redaction
        self._live = live

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = self._redaction.headers(request.headers.multi_items())
        content = _content(await request.aread(), headers.get("content-type", ""), self._redaction)
        asked = Asked(request.method, self._redaction.path(request.url.raw_path.decode("ascii")), headers, content)
        exchange = self._tape.take(asked)
        if exchange is not None:
            return _replay(exchange)
        if self._live is None:
            raise self._tape.missing(asked)
        note = _Note(asked, self._redaction)
        self._tape.add(note.exchange)
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._live.handle_async_request(request)
        except httpx2.TransportError as error:
            note.fault = error
            raise
        note.response = response
        stream = _Heard(cast("httpx2.AsyncByteStream", response.stream), note)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    @override
    async def aclose(self) -> None:
        if self._live is not None:
            await self._live.aclose()


@final
class _Note:
    """The known data of a running exchange."""

    def __init__(self, asked: Asked, redaction: Redaction) -> None:
        self._asked = asked
        self._redaction = redaction
        self.response: httpx2.Response | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self.fault: httpx2.TransportError | None = None

    def exchange(self) -> Exchange | None:
        """Return the exchange. Return None if the program ended before an answer."""
        fault = None
        if self.fault is not None:
            fault = ConnectionFault(type(self.fault).__name__, self._redaction.text(why(self.fault)))
        if self.response is None:
            return fault and Exchange(self._asked, None, fault)
        headers = self._redaction.headers(self.response.headers.multi_items())
        body, packed = _unpack(b"".join(self.pieces), self.response.headers)
        headers |= {"content-encoding": packed} if packed else {}
        content = _content(body, headers.get("content-type", ""), self._redaction)
        left = not self.ended and fault is None
        return Exchange(self._asked, Answered(self.response.status_code, headers, content, left), fault)


@final
class _Heard(httpx2.AsyncByteStream):
    """The bytes of an answer, recorded while the program reads them."""

    def __init__(self, stream: httpx2.AsyncByteStream, note: _Note) -> None:
        self._stream = stream
        self._note = note

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                self._note.pieces.append(piece)
                yield piece
            self._note.ended = True
        except httpx2.TransportError as error:
            self._note.fault = error
            raise

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


@final
class _Played(httpx2.AsyncByteStream):
    """The bytes of a recorded answer, and its end."""

    def __init__(self, pieces: list[bytes], end: Callable[[], None]) -> None:
        self._pieces = pieces
        self._end = end

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        self._end()


def _replay(exchange: Exchange) -> httpx2.Response:
    answer = exchange.answer
    if answer is None:
        _raise_fault(exchange)
        raise CassetteError(
            f"exchange {exchange.request.method} {exchange.request.path} has no answer. Record it again."
        )

    def end() -> None:
        _raise_fault(exchange)
        if answer.left:
            raise CassetteError(
                f"recording of {exchange.request.method} {exchange.request.path} ends here, because its reader stopped."
                " This program reads further. Record it again with mode 'record'."
            )

    return httpx2.Response(answer.status, headers=answer.headers, stream=_Played(answer.body.pieces(), end))


def _raise_fault(exchange: Exchange) -> None:
    if exchange.fault is not None:
        raise _FAULTS.get(exchange.fault.kind, httpx2.NetworkError)(exchange.fault.message)


def _content(body: bytes, kind: str, redaction: Redaction) -> Content:
    content = Content.of(body, kind)
    if content.json is not msgspec.UNSET:
        return Content(json=redaction.data(content.json))
    return Content.of(redaction.body(body), kind)


def _unpack(body: bytes, headers: httpx2.Headers) -> tuple[bytes, str]:
    """Return the decompressed body, and the name of a compression that remains."""
    packed = headers.get("content-encoding", "")
    try:
        return httpx2.Response(200, headers={"content-encoding": packed} if packed else {}, content=body).content, ""
    except httpx2.DecodingError:
        return body, packed
