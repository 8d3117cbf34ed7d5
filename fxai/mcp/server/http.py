"""Streamable HTTP as an ASGI application: sessions for the older protocols, single exchanges since 2026-07-28."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, Never, final

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import PlainTextResponse

from fxai.effects.concurrency import fork
from fxai.effects.constructor import gen
from fxai.effects.effect import Await, EffectOf, Gen
from fxai.effects.scope import Scope, add_finalizer
from fxai.mcp.server.exchange import Exchange
from fxai.mcp.server.guard import Guard, Receive, Send
from fxai.mcp.server.option import HttpSettings
from fxai.mcp.server.protocol import Protocol

__all__ = ["HttpApp", "opened_app"]

_SENT: Final = 1.0  # seconds in which the answers of calls that have ended are sent


@final
class HttpApp:
    """An ASGI application that serves tools, for as long as it is open."""

    def __init__(self, protocol: Protocol, exchange: Exchange, settings: HttpSettings, max_body: int) -> None:
        """Serve `protocol`; use `http_app`, which also opens and closes it."""
        self._protocol = protocol
        self._exchange = exchange
        self._grace = settings.grace
        self._manager = StreamableHTTPSessionManager(
            protocol.sdk,
            json_response=settings.json_response,
            stateless=settings.stateless,
            session_idle_timeout=settings.idle_timeout,
            max_request_body_size=max_body,
            max_sessions=settings.max_sessions,
        )
        self._guard = Guard(self._manager.handle_request, settings, max_body)
        self._is_open: bool  # since it runs: nobody is given it before
        self._opened = anyio.Event()
        self._requests: dict[anyio.CancelScope, anyio.Event] = {}
        self._streams: set[anyio.Event] = set()  # of these requests, those whose answers have no end of their own

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers a request; 503 when it is closed."""
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
        """Keeps the sessions until it is interrupted, which ends them."""
        async with self._manager.run():
            self._is_open = True
            self._opened.set()
            await anyio.sleep_forever()

    async def opened(self) -> None:
        """Waits until it answers."""
        await self._opened.wait()

    async def stop(self) -> None:
        """Lets no request in, gives calls a while to end, then ends every request."""
        self._is_open = False
        with anyio.move_on_after(self._grace) as waited:
            await self._exchange.idle()
        self._protocol.close()
        if not waited.cancelled_caught:
            with anyio.move_on_after(_SENT):  # a call that has ended is not answered yet
                for ended in set(self._requests.values()) - self._streams:
                    await ended.wait()
        for request in list(self._requests):
            request.cancel()
        for ended in list(self._requests.values()):
            await ended.wait()


def opened_app(
    protocol: Protocol, exchange: Exchange, settings: HttpSettings, max_body: int
) -> EffectOf[HttpApp, Never, Scope | None]:
    """The application of a server, open for as long as the scope around is."""

    @gen
    def begin() -> Gen[HttpApp, Never, Scope]:
        app = HttpApp(protocol, exchange, settings, max_body)
        yield from fork(Await(lambda _: app.run()))
        yield from add_finalizer(lambda _: Await(lambda _: app.stop()))
        yield from Await(lambda _: app.opened())
        return app

    return begin()
