"""Servers of ASGI applications. Use `serve_app` to run uvicorn on its own socket until the program is interrupted.

The program handles signals. After an interruption, the application finishes its work, and then the server closes.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Final, cast, final

import anyio
import h11
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from fxai.effects.cancellation import event_loop
from fxai.effects.constructor import fail
from fxai.effects.effect import Await, EffectOf, Suspend
from fxai.hosting.listening import CannotListen, open_socket, url_of

_OPTIONS: Final[dict[str, Any]] = {
    "lifespan": "off",
    "access_log": False,
    "server_header": False,
    "log_config": None,
    "log_level": "critical",
    "limit_concurrency": 1000,  # open connections, in addition to the waiting connections
    "timeout_graceful_shutdown": 1,
}
_MOST_SILENT: Final = 128  # connections of one address that have not sent the head of a request
_MOST_HEAD: Final = 65_536  # bytes in the head of a request
_UNCLEAR_LINE: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")


def serve_app(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    lifespan: AbstractAsyncContextManager[object],
    head_timeout: float = 30.0,
    on_listening: Callable[[str], object] | None = None,
) -> EffectOf[None, CannotListen]:
    """Return an effect that serves an ASGI application until the program is interrupted.

    Args:
        app: The application. The server does not run its own lifespan.
        host: The address to listen on.
        port: The port; 0 selects a free port.
        lifespan: Context manager that the server enters before it accepts requests and exits after it stops accepting
            requests. During the exit, the server still serves open requests.
        head_timeout: Seconds to wait for the head of a request.
        on_listening: Function that receives the address `http://HOST:PORT` when the server accepts requests.

    Raises:
        RuntimeError: If the event loop is not asyncio (a defect).

    Fails with:
        CannotListen: If the port is in use, or if this machine does not have the host.
    """

    def start() -> EffectOf[None, CannotListen]:
        if event_loop() != "asyncio":
            raise RuntimeError(
                "uvicorn requires asyncio. Run the program with backend='asyncio', or use a server for this event "
                "loop, such as hypercorn."
            )
        try:
            listening = open_socket(host, port)
        except (OSError, OverflowError) as error:
            return fail(CannotListen(host, port, getattr(error, "strerror", None) or str(error)))
        connection = partial(_Connection, patience=head_timeout, silent=_Silent())
        server = _Uvicorn(uvicorn.Config(app, http=cast(Any, connection), **_OPTIONS))
        return Await(lambda _: _serve(server, listening, lifespan, on_listening or (lambda _: None)))

    return Suspend(start)


@final
class _Uvicorn(uvicorn.Server):
    """A server that reports when it listens, and leaves the handling of signals to the program."""

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


class _OneReading(h11.Connection):
    """A connection that rejects a request that another program can read differently.

    A proxy can read another length, and then read a second request as a body. RFC 9112 allows one
    length (section 6.3), lines that end with CRLF (section 2.2), and no continued header (section 5.2).
    """

    @override
    def next_event(self) -> Any:
        before = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding in one request")
            if _UNCLEAR_LINE.search(before[: len(before) - len(self.trailing_data[0])]):
                raise h11.RemoteProtocolError("line of a request without CRLF, or with a continued header")
        return event


@final
class _Silent:
    """The connections that have not sent the head of a request, by address and age. Each address has a maximum."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[_Connection, None]] = {}

    def add(self, connection: _Connection, address: str) -> None:
        """Add a connection. If its address has too many connections, close the oldest."""
        waiting = self._waiting.setdefault(address, {})
        waiting[connection] = None
        if len(waiting) > _MOST_SILENT:
            next(iter(waiting)).transport.close()  # `connection_lost` removes it later
            del waiting[next(iter(waiting))]

    def remove(self, connection: _Connection, address: str) -> None:
        """Remove a connection that has started a request or is lost."""
        waiting = self._waiting.get(address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(address, None)


@final
class _Connection(H11Protocol):
    """A connection that closes if the head of a request does not arrive in time. uvicorn would keep it open."""

    def __init__(self, *given: Any, patience: float, silent: _Silent, **more: Any) -> None:
        super().__init__(*given, **more)
        self.conn = _OneReading(h11.SERVER, _MOST_HEAD)
        self._patience = patience
        self._silent = silent
        self._late: asyncio.TimerHandle | None = None

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

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
    def on_response_complete(self) -> None:
        super().on_response_complete()  # starts the next request if the client already sent it
        if self._late is None and self.cycle.response_complete and not self.transport.is_closing():
            self._expect()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._late = self.loop.call_later(self._patience, self.transport.close)
        self._silent.add(self, self._address)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
            self._silent.remove(self, self._address)


async def _serve(
    server: _Uvicorn,
    listening: socket.socket,
    lifespan: AbstractAsyncContextManager[object],
    on_listening: Callable[[str], object],
) -> None:
    life = _Life(lifespan)
    with listening:
        async with anyio.create_task_group() as group:
            try:
                await group.start(life.run)
                group.start_soon(_run, server, listening)
                await server.listens.wait()
                on_listening(url_of(listening))
                await anyio.sleep_forever()
            finally:
                await life.end()
                server.should_exit = True


class _Life:
    """The lifespan of an application in its own task. An interruption reaches the task only at the end."""

    def __init__(self, lifespan: AbstractAsyncContextManager[object]) -> None:
        self._lifespan = lifespan
        self._ending = anyio.Event()
        self._ended = anyio.Event()
        self._has_begun = False

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._has_begun = True
        try:
            with anyio.CancelScope(shield=True):
                async with self._lifespan:
                    task_status.started()
                    await self._ending.wait()
        finally:
            self._ended.set()

    async def end(self) -> None:
        self._ending.set()
        if self._has_begun:
            with anyio.CancelScope(shield=True):
                await self._ended.wait()


async def _run(server: _Uvicorn, listening: socket.socket) -> None:
    with anyio.CancelScope(shield=True):  # `should_exit` stops the server, so that it can close its connections
        await server.serve([listening])
