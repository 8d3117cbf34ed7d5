"""The server transport over streamable HTTP, an ASGI application. `http_app` and `serve_http` use it.

The older protocols use sessions. Since 2026-07-28, each exchange is independent. `Guard` admits a request only if all
of these conditions are true:

- The server answers for the host of the request. This check stops pages that rebind their names to this machine.
- The origin is allowed, if a web page sent the request.
- The request has the token.
- The body is small enough and arrives in time.

Refused requests never reach the protocol.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Never, TypeAlias, final

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from fxai.effects.concurrency import fork
from fxai.effects.constructor import gen
from fxai.effects.effect import Await, Gen
from fxai.effects.scope import Scope, add_finalizer
from fxai.mcp.server.exchange import Exchange, SdkServer
from fxai.mcp.server.server_options import HttpSettings

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

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

    def __init__(self, app: AsgiApp, settings: HttpSettings, max_body: int) -> None:
        self._app = app
        self._settings = settings
        self._max_body = max_body
        secret = settings.secret
        self._digest = None if secret is None else _digest(secret)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
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

    def _refusal(self, scope: MutableMapping[str, Any], headers: Headers, origin: str | None) -> Any:
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

    async def _pass_on(
        self, scope: MutableMapping[str, Any], headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
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


async def _other(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
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

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
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
