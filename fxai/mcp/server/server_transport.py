"""The transports of a server: streamable HTTP, which is an ASGI application, and standard streams.

`Guard` refuses a request for a foreign host, from a page of a foreign origin, without the token, or with a body that is
too large or too late. Refused requests never reach the protocol. The check of the host stops pages that rebind their
names to this machine.

The other transport uses one JSON-RPC message per line. While the server runs, handlers and their child processes read
an empty input, and their output goes to standard error. Reading and writing wait in the event loop, so a cancellation
ends them immediately, and a slow client delays only itself.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Never, TypeVar, final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from fxai.effects.concurrency import fork
from fxai.effects.constructor import gen
from fxai.effects.effect import Await, Gen
from fxai.effects.process import Lines
from fxai.effects.scope import Scope, add_finalizer
from fxai.mcp.server.exchange import Exchange, SdkServer
from fxai.mcp.server.server_options import HttpSettings, ToolServerSettings

_T = TypeVar("_T")

_ALLOWED: Final = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "*, Authorization",
    "access-control-max-age": "600",
}
_CLOSE: Final = {"connection": "close"}
_DIGITS: Final = 18  # digits of a length; a longer number is too large, and slow to parse
_ONCE: Final = ("host", "origin", "authorization", "content-length")


@final
class Guard:
    """An ASGI application that passes admitted requests to another application."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, max_body: int) -> None:
        self._app = app
        self._settings = settings
        self._max_body = max_body
        secret = settings.secret
        self._digest = None if secret is None else _digest(secret)

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Answer a request with a refusal, or pass it to the inner application."""
        if scope["type"] != "http":
            await _other(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        refusal = self._refusal(scope, headers, origin)
        if origin is not None and _matches(origin, self._settings.origins):
            send = _allow_origin(send, origin)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._pass_on(scope, headers, receive, send)

    def _refusal(self, scope: HttpScope, headers: Headers, origin: str | None) -> Response | None:
        settings = self._settings
        if any(len(headers.getlist(name)) > 1 for name in _ONCE):  # a proxy may have checked the other value
            return _reply(400, f"each of these headers must appear at most once: {', '.join(_ONCE)}", _CLOSE)
        if not _matches(headers.get("host", ""), settings.hosts):
            return _reply(421, "this server does not answer for this host. Add it to allowed_hosts")
        if origin is not None and not _matches(origin, settings.origins):
            return _reply(403, "pages of this origin must not use this server. Add it to allowed_origins")
        if origin is not None and scope["method"] == "OPTIONS":
            return Response(status_code=204, headers=_ALLOWED)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if self._digest is not None and not (
            scheme.lower() == "bearer" and compare_digest(_digest(token.strip()), self._digest)
        ):
            return _reply(401, "the token is missing or wrong", {"www-authenticate": "Bearer"})
        if scope["path"].rstrip("/") != settings.path.rstrip("/"):
            return _reply(404, f"path not found. Send requests to {settings.path}")
        return None

    async def _pass_on(self, scope: HttpScope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        declared = headers.get("content-length", "").lstrip("0")
        if declared.isdecimal() and (len(declared) > _DIGITS or int(declared) > self._max_body):
            await _reply(413, "the body is too large", _CLOSE)(scope, receive, send)
            return
        first: Message | None = None
        with anyio.move_on_after(self._settings.body_timeout) as waited:
            first = await self._body(receive)
        if waited.cancelled_caught:
            await _reply(408, "the body did not arrive in time", _CLOSE)(scope, receive, send)
        elif first is None:
            await _reply(413, "the body is too large", _CLOSE)(scope, receive, send)
        elif first["type"] == "http.request":
            held = [first]

            async def replay() -> Message:
                return held.pop() if held else await receive()

            # the events of the server have no ids, so no client can resume a stream
            kept = [(name, value) for name, value in scope["headers"] if name.lower() != b"last-event-id"]
            await self._app({**scope, "headers": kept}, replay, send)

    async def _body(self, receive: Receive) -> Message | None:
        """Return the whole body as one message, or a disconnect message. Return None if the body is too large."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._max_body:
                return None
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(body), "more_body": False}


async def _other(scope: HttpScope, receive: Receive, send: Send) -> None:
    """Answer the lifespan of the ASGI server, and refuse all other connections that are not requests."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "websocket.close", "code": 1000})


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _matches(given: str, allowed: tuple[str, ...]) -> bool:
    return any(_fits(given.lower(), one.lower()) for one in allowed)


def _fits(host: str, one: str) -> bool:
    if not one.endswith(":*"):
        return one in ("*", host)
    name, _, port = host.rpartition(":")  # the text after the last colon of `[::1]` is not a port
    return one == f"{name if port.isdecimal() else host}:*"


def _reply(status: int, text: str, headers: Mapping[str, str] | None = None) -> PlainTextResponse:
    return PlainTextResponse(text, status, headers)


def _allow_origin(send: Send, origin: str) -> Send:
    """Wrap `send` to allow the page to read the answer."""
    text = {"access-control-allow-origin": origin, "access-control-expose-headers": "*", "vary": "Origin"}

    async def send_shared(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode("latin-1")) for name, value in text.items()]
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await send(message)

    return send_shared


_SENT: Final = 1.0  # seconds to send the answers of ended calls


@final
class HttpApp:
    """An ASGI application that serves tools while it is open."""

    def __init__(self, sdk_server: SdkServer, exchange: Exchange, settings: HttpSettings, max_body: int) -> None:
        """Serve `sdk_server`. Use `http_app` instead, which also opens and closes the application."""
        self._sdk_server = sdk_server
        self._exchange = exchange
        self._grace = settings.grace
        self._manager = StreamableHTTPSessionManager(
            sdk_server.sdk,
            json_response=settings.json_response,
            stateless=settings.stateless,
            session_idle_timeout=settings.idle_timeout,
            max_request_body_size=max_body,
            max_sessions=settings.max_sessions,
        )
        self._guard = Guard(self._manager.handle_request, settings, max_body)
        self._is_open: bool  # set by `run`, before any server receives the application
        self._open_event = anyio.Event()
        self._requests: dict[anyio.CancelScope, anyio.Event] = {}
        self._streams: set[anyio.Event] = set()  # requests whose answers are endless streams

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Answer a request. After the end of the application, answer 503."""
        if scope["type"] == "http" and not self._is_open:
            await PlainTextResponse("this server has ended", 503)(scope, receive, send)
            return
        ended = anyio.Event()
        with anyio.CancelScope() as request:
            self._requests[request] = ended
            if scope.get("method") != "POST":
                self._streams.add(ended)
            try:
                await self._guard(scope, receive, send)
            finally:
                del self._requests[request]
                self._streams.discard(ended)
                ended.set()

    async def run(self) -> None:
        """Run the sessions until interrupted. An interruption ends them."""
        async with self._manager.run():
            self._is_open = True
            self._open_event.set()
            await anyio.sleep_forever()

    async def wait_until_open(self) -> None:
        """Wait until the application answers requests."""
        await self._open_event.wait()

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[None]:
        """Stop the application at the end of the block."""
        try:
            yield
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Refuse new requests, wait a limited time for running calls, then end every request."""
        self._is_open = False
        with anyio.move_on_after(self._grace) as waited:
            await self._exchange.idle()
        self._sdk_server.close()
        if not waited.cancelled_caught:
            with anyio.move_on_after(_SENT):  # an ended call may not be answered yet
                for ended in set(self._requests.values()) - self._streams:
                    await ended.wait()
        for request in list(self._requests):
            request.cancel()
        for ended in list(self._requests.values()):
            await ended.wait()


@gen
def open_app(
    sdk_server: SdkServer, exchange: Exchange, settings: HttpSettings, max_body: int
) -> Gen[HttpApp, Never, Scope]:
    """Open the application of a server in the enclosing scope."""
    app = HttpApp(sdk_server, exchange, settings, max_body)
    yield from fork(Await(lambda _: app.run()))
    yield from add_finalizer(lambda _: Await(lambda _: app.stop()))
    yield from Await(lambda _: app.wait_until_open())
    return app


_CHUNK: Final = 1 << 16
_GRACE: Final = 1.0  # seconds to answer earlier requests after the end of the input
_LOOK: Final = 0.005  # seconds between two looks for open requests during the grace
_ATOMIC: Final = getattr(select, "PIPE_BUF", 512)  # bytes that a writable pipe accepts without blocking


async def over_standard_streams(server: Server[Any], settings: ToolServerSettings) -> None:
    """Serve on this process's standard input and output until the input ends."""
    with _claim_streams() as (source, sink):
        await over_descriptors(server, settings, source, sink)


async def over_descriptors(server: Server[Any], settings: ToolServerSettings, source: int, sink: int) -> None:
    """Serve on two file descriptors until the input ends or the reader of the output disconnects."""
    inbound, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outbound, sent = anyio.create_memory_object_stream[SessionMessage]()
    requests: set[str | int] = set()  # the ids of the requests without an answer
    async with anyio.create_task_group() as group:
        group.start_soon(_write, sent, sink, requests, group.cancel_scope)
        async with anyio.create_task_group() as reading:
            reading.start_soon(_read, source, settings.max_body, requests, inbound, outbound.clone())
            async with outbound:
                await server.run(received, outbound, server.create_initialization_options())
            reading.cancel_scope.cancel()


@contextmanager
def _claim_streams() -> Generator[tuple[int, int]]:
    """Duplicate descriptors 0 and 1 for the protocol, and redirect the originals during the block."""
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(empty, 0)
        os.dup2(2, 1)
        sys.stdout.flush()  # earlier output is not a message
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for descriptor in (empty, source, sink):
            os.close(descriptor)


async def _read(
    source: int,
    limit: int,
    requests: set[str | int],
    inbound: MemoryObjectSendStream[SessionMessage | Exception],
    outbound: MemoryObjectSendStream[SessionMessage],
) -> None:
    lines = Lines(limit)
    async with inbound, outbound:
        while chunk := await _when_ready(source, anyio.wait_readable, partial(os.read, source, _CHUNK)):
            for line in lines.feed(chunk):
                try:
                    if line is None:
                        await outbound.send(_refusal(INVALID_REQUEST, "the message is too long"))
                    elif line.strip():
                        message = jsonrpc_message_adapter.validate_json(line)
                        if isinstance(message, JSONRPCRequest):
                            requests.add(message.id)
                        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                            requests -= {id_ for id_ in requests if id_ == (message.params or {}).get("requestId")}
                        await inbound.send(SessionMessage(message))
                except ValidationError:
                    await outbound.send(_refusal(PARSE_ERROR, "the line is not a JSON-RPC message"))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
                    return
        with anyio.move_on_after(_GRACE):
            while requests:  # noqa: ASYNC110
                await anyio.sleep(_LOOK)


async def _write(
    received: MemoryObjectReceiveStream[SessionMessage], sink: int, requests: set[str | int], scope: anyio.CancelScope
) -> None:
    async with received:
        async for message in received:
            text = message.message.model_dump_json(exclude_unset=True)
            left = memoryview(text.encode() + b"\n")
            while left:
                try:
                    left = left[await _when_ready(sink, anyio.wait_writable, partial(os.write, sink, left[:_ATOMIC])) :]
                except BrokenPipeError:  # the client disconnected
                    scope.cancel()
                    return
            if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                requests -= {message.message.id}


async def _when_ready(descriptor: int, ready: Callable[[int], Awaitable[None]], act: Callable[[], _T]) -> _T:
    """Return the result of `act` when the descriptor is ready. Use a thread if the event loop cannot wait for it."""
    try:
        await ready(descriptor)
    except OSError:  # a file, or a system whose event loops wait only for sockets
        return await anyio.to_thread.run_sync(act, abandon_on_cancel=True)
    return act()


def _refusal(code: int, text: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text)))
