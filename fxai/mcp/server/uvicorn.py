"""Uvicorn as an effect: an application served on a socket of its own until the program is interrupted.

Signals stay with the program: what they interrupt closes the server, which waits for its calls for a while.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast, final

import anyio
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from fxai.effects.cancellation import event_loop
from fxai.effects.constructor import fail
from fxai.effects.effect import Await, EffectOf, Suspend
from fxai.mcp.server.http import HttpApp
from fxai.mcp.server.server_options import CannotListen, HttpSettings

_BACKLOG: Final = 128  # connections that wait to be accepted
_OPTIONS: Final[dict[str, Any]] = {
    "lifespan": "off",
    "access_log": False,
    "server_header": False,
    "log_config": None,
    "log_level": "critical",
    "limit_concurrency": 1000,  # connections that are open at once, beside those that wait
    "timeout_graceful_shutdown": 1,
}


def serve_app(
    app: HttpApp, settings: HttpSettings, on_listening: Callable[[str], object] | None
) -> EffectOf[None, CannotListen]:
    """Serves the application until it is interrupted.

    Raises `RuntimeError` (a defect) where another event loop runs than asyncio's.
    """

    def begin() -> EffectOf[None, CannotListen]:
        if event_loop() != "asyncio":
            raise RuntimeError(
                "serve_http runs on uvicorn, which needs asyncio: run the program with backend='asyncio', or give "
                "http_app to a server that runs on this event loop, such as hypercorn"
            )
        try:
            listening = _listening(settings)
        except OSError as error:
            return fail(CannotListen(settings.host, settings.port, error.strerror or str(error)))
        return Await(lambda _: _serve(app, settings, listening, on_listening))

    return Suspend(begin)


def _listening(settings: HttpSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)


@final
class _Uvicorn(uvicorn.Server):
    """A server that says when it listens, and leaves signals to the program around."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = anyio.Event()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        yield


@final
class _Connection(H11Protocol):
    """A connection that is closed where the head of a request is not there in time: uvicorn would keep it for ever."""

    def __init__(self, *given: Any, patience: float, **more: Any) -> None:
        super().__init__(*given, **more)
        self._patience = patience
        self._late: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = cast(Any, self.cycle)  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._rest()
        elif self._late is None:
            self._expect()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._late = self.loop.call_later(self._patience, self.transport.close)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


async def _serve(
    app: HttpApp, settings: HttpSettings, listening: socket.socket, on_listening: Callable[[str], object] | None
) -> None:
    protocol = partial(_Connection, patience=settings.body_timeout)
    server = _Uvicorn(uvicorn.Config(app, http=cast(Any, protocol), **_OPTIONS))
    with listening:
        async with anyio.create_task_group() as group:
            group.start_soon(_run, server, listening)
            try:
                await server.listens.wait()
                if on_listening is not None:
                    on_listening(_url(settings, listening))
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await app.stop()
                server.should_exit = True


async def _run(server: _Uvicorn, listening: socket.socket) -> None:
    with anyio.CancelScope(shield=True):  # it is asked to stop, so that it closes what it opened
        await server.serve([listening])


def _url(settings: HttpSettings, listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}{settings.path}" if ":" in host else f"http://{host}:{port}{settings.path}"
