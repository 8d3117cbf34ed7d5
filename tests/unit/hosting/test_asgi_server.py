"""The door of all HTTP servers of fxai: requests with two lengths, and connections that say nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
from anyio.abc import SocketStream

from fxai.effects import LayerOf, runtime
from fxai.hosting import serve_app
from tests.kit.every import every


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await receive()
    if scope["path"] == "/slow":
        await anyio.sleep(0.6)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def _served(head_timeout: float = 30.0) -> AsyncGenerator[int]:
    there, urls = anyio.Event(), list[str]()

    def tell(url: str) -> None:
        urls.append(url)
        there.set()

    async with runtime(LayerOf.empty()) as services, anyio.create_task_group() as group:
        program = serve_app(_hello, lifespan=nullcontext(), on_listening=tell, head_timeout=head_timeout)
        group.start_soon(services.run, program)
        await there.wait()
        yield int(urls[0].rpartition(":")[2])
        group.cancel_scope.cancel()


async def _all_of(stream: SocketStream) -> bytes:
    got = b""
    with anyio.move_on_after(60):
        while True:
            try:
                got += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                break
    return got


INNER = b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % (5 + len(INNER))
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@every("headers", [LENGTH + CHUNKED, CHUNKED + LENGTH, CHUNKED.upper() + LENGTH.lower()])
def test_a_request_with_two_lengths_is_refused(headers: bytes) -> None:
    """What a proxy takes for its body is not answered as a second request, and the connection ends."""

    async def use() -> bytes:
        async with _served() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n0\r\n\r\n" + INNER)
            return await _all_of(stream)

    answer = anyio.run(use)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


N = b"%d" % len(INNER)
CHUNKS = b"\r\n0\r\n\r\n"
UNCLEAR: dict[str, bytes] = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: " + N + b"\r\n\r\n",
    "a list of lengths": b"Content-Length: 0, " + N + b"\r\n\r\n",
    "a length with a sign": b"Content-Length: +0\r\n\r\n",
    "a hexadecimal length": b"Content-Length: 0x0\r\n\r\n",
    "a length with an underscore": b"Content-Length: 0_0\r\n\r\n",
    "no number as a length": b"Content-Length: \r\n\r\n",
    "a space before the colon": b"Content-Length : " + N + b"\r\n\r\n",
    "a continued header": b"X: a\r\n Content-Length: " + N + b"\r\n\r\n",
    "a header continued with a tab": b"X: a\r\n\tTransfer-Encoding: chunked\r\n" + CHUNKS,
    "a line without a carriage return": b"Content-Length: 0\nX: a\r\n\r\n",
    "a blank line without a carriage return": b"Content-Length: 0\r\n\n",
    "a carriage return in a value": b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
    "two encodings": b"Transfer-Encoding: chunked, identity\r\n" + CHUNKS,
    "an encoding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + CHUNKS,
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\n" + CHUNKS,
    "an encoding with a control character": b"Transfer-Encoding: chunked\x0b\r\n" + CHUNKS,
    "a chunk size with a sign": b"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
    "a chunk size without a carriage return": b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
    "a chunk that is too long": b"Transfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n",
}


@every("name", UNCLEAR)
def test_request_that_a_proxy_can_read_differently_is_refused(name: str) -> None:
    """No second request is found in it, and the connection ends."""

    async def use() -> bytes:
        async with _served() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + UNCLEAR[name] + INNER)
            return await _all_of(stream)

    answer = anyio.run(use)

    assert answer.count(b"HTTP/1.1 200") <= (b"chunk" in UNCLEAR[name])  # the answer can start before the body ends
    assert answer.count(b"HTTP/1.1 ") <= 1


def test_silent_connections_leave_room_for_others_of_their_address() -> None:
    """Of 150 connections that say nothing, the oldest are closed, and a request is answered as always."""

    async def use() -> tuple[bytes, int]:
        async with _served() as port:
            silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(150)]
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                answer = await _all_of(stream)
            closed = 0
            for one in silent[:20]:
                closed += await _all_of(one) == b""
            for one in silent:
                await one.aclose()
            return answer, closed

    answer, closed = anyio.run(use)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert closed == 20


def test_a_request_that_follows_at_once_has_its_whole_time() -> None:
    """The limit is for the head of a request: one that the client sent with the request before may work longer."""

    async def use() -> bytes:
        async with _served(head_timeout=0.2) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
            slow = b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + slow)
            return await _all_of(stream)

    assert anyio.run(use).count(b"HTTP/1.1 200 ") == 2
