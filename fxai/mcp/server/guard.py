"""The guard at the door of a server over HTTP: who may ask, and how much.

A request is let in when its host is one that the server answers for and its origin, if a web page sent it, one that may
use it (so that no page reaches a server on this machine by rebinding its name), when it brings the token, and when its
body is small enough and there in time. Nothing of a request that is refused reaches the protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, TypeAlias, final

import anyio
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from fxai.mcp.server.option import HttpSettings

__all__ = ["AsgiApp", "Guard", "Receive", "Send"]

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
_DIGITS: Final = 18  # of a length; more are too large, and too many to be read as a number
_ONCE: Final = ("host", "origin", "authorization", "content-length")


@final
class Guard:
    """An ASGI application that lets through to another what may pass."""

    def __init__(self, app: AsgiApp, settings: HttpSettings, max_body: int) -> None:
        self._app = app
        self._settings = settings
        self._max_body = max_body
        secret = settings.secret
        self._digest = None if secret is None else _digest(secret)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers a request, by a refusal or by the application inside."""
        if scope["type"] != "http":
            await _other(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        refusal = self._refusal(scope, headers, origin)
        if origin is not None and _matches(origin, self._settings.origins):
            send = _shared(send, origin)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._passed(scope, headers, receive, send)

    def _refusal(self, scope: MutableMapping[str, Any], headers: Headers, origin: str | None) -> Any:
        settings = self._settings
        if any(len(headers.getlist(name)) > 1 for name in _ONCE):  # whoever stands before may have looked at another
            return _reply(400, f"each of these headers may come once: {', '.join(_ONCE)}", _CLOSE)
        if not _matches(headers.get("host", ""), settings.hosts):
            return _reply(421, "this server does not answer for that host: add it to allowed_hosts")
        if origin is not None and not _matches(origin, settings.origins):
            return _reply(403, "pages of that origin may not use this server: add it to allowed_origins")
        if origin is not None and scope["method"] == "OPTIONS":
            return Response(status_code=204, headers=_ALLOWED)
        if self._digest is not None and not self._brings_token(headers.get("authorization", "")):
            return _reply(401, "the token is missing or wrong", {"www-authenticate": "Bearer"})
        if scope["path"].rstrip("/") != settings.path.rstrip("/"):
            return _reply(404, f"there is nothing here: the tools are at {settings.path}")
        return None

    def _brings_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and compare_digest(_digest(token.strip()), self._digest or b"")

    async def _passed(
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
            await _reply(408, "the body did not come in time", _CLOSE)(scope, receive, send)
        elif first is None:
            await _reply(413, "the body is too large", _CLOSE)(scope, receive, send)
        elif first["type"] == "http.request":
            await self._app(_without_resumption(scope), _replayed(first, receive), send)

    async def _body(self, receive: Receive) -> Message | None:
        """The whole body as one message, or that the client has gone; None where it is too large."""
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
    """What is no request: the server's own start and end are answered, anything else is refused."""
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
    name, _, port = host.rpartition(":")  # of `[::1]` alone what follows the last colon is no port
    return one == f"{name if port.isdecimal() else host}:*"


def _reply(status: int, said: str, headers: Mapping[str, str] | None = None) -> PlainTextResponse:
    return PlainTextResponse(said, status, headers)


def _without_resumption(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The request as one that resumes no stream: no event of ours has an id, so whoever names one made it up."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"last-event-id"]
    return {**scope, "headers": headers}


def _replayed(first: Message, receive: Receive) -> Receive:
    held = [first]

    async def again() -> Message:
        return held.pop() if held else await receive()

    return again


def _shared(send: Send, origin: str) -> Send:
    """What tells the browser that the page may read the answer."""
    said = {"access-control-allow-origin": origin, "access-control-expose-headers": "*", "vary": "Origin"}

    async def send_shared(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode("latin-1")) for name, value in said.items()]
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await send(message)

    return send_shared
