"""Recordings are HTTP exchanges with providers, stored in a file. Use a cassette to test a program without a network.

`cassette` returns a layer. With it, the client of every provider records or replays exchanges. Keys never reach the
file.
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

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal, Never, TypeAlias, cast, final

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
from fxai.testing.tape import Answered, Asked, CassetteError, ConnectionFault, Content, Exchange, Redaction, Tape

__all__ = ["CassetteError", "Mode", "cassette", "record", "replay"]

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
