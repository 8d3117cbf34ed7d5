"""Transports that record a tape or replay it. The module imports `httpx2`, so import it only when you open a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, cast, final

import httpx2
import msgspec
from typing_extensions import override

from fxai.providers.http.http_error import why
from fxai.testing.tape import Answered, Asked, CassetteError, ConnectionFault, Content, Exchange, Redaction, Tape

_FAULTS: Final = {
    fault.__name__: fault
    for fault in (
        *(httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout),
        *(httpx2.ConnectError, httpx2.ReadError, httpx2.WriteError, httpx2.CloseError),
        *(httpx2.LocalProtocolError, httpx2.RemoteProtocolError, httpx2.ProxyError, httpx2.UnsupportedProtocol),
    )
}


@final
class Player(httpx2.AsyncBaseTransport):
    """A transport that answers from a tape. It sends missing requests to `otherwise`, or raises an error without it."""

    def __init__(self, tape: Tape, redaction: Redaction, otherwise: httpx2.AsyncBaseTransport | None = None) -> None:
        self._tape = tape
        self._redaction = redaction
        self._otherwise = otherwise

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = await _read_request(request, self._redaction)
        exchange = self._tape.take(asked)
        if exchange is not None:
            return _replay(exchange)
        if self._otherwise is None:
            raise self._tape.missing(asked)
        return await self._otherwise.handle_async_request(request)

    @override
    async def aclose(self) -> None:
        if self._otherwise is not None:
            await self._otherwise.aclose()


@final
class Recorder(httpx2.AsyncBaseTransport):
    """A transport that sends each request and adds the exchange to a tape."""

    def __init__(self, tape: Tape, redaction: Redaction, live: httpx2.AsyncBaseTransport) -> None:
        self._tape = tape
        self._redaction = redaction
        self._live = live

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        note = _Note(await _read_request(request, self._redaction), self._redaction)
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


async def _read_request(request: httpx2.Request, redaction: Redaction) -> Asked:
    body = await request.aread()
    headers = redaction.headers(request.headers.multi_items())
    content = _content(body, headers.get("content-type", ""), redaction)
    return Asked(request.method, redaction.path(request.url.raw_path.decode("ascii")), headers, content)


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
