"""MCP servers for your own tools. Use this module to offer a toolkit to MCP clients.

The tools come from any source: a function tool, a bound toolkit, or a tool source. `serve_stdio` runs a program that a
client starts. `serve_http` runs a server that listens. `http_app` returns an ASGI application. Each function returns an
effect that needs the services of the handlers and closes the opened resources. If your tools change while the server
runs, use `ToolServer`.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import tool
>>> @tool
... def add(a: int, b: int) -> int:
...     '''Adds two numbers.'''
...     return a + b
>>> opened = ToolServer.open(add, name="calculator")
>>> fx.run(fx.scoped(opened.map(lambda server: server.documents[0]["description"])))
'Adds two numbers.'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Never, final

import anyio
from typing_extensions import TypeVar, Unpack

from fxai.effects.cause import Exit, Failed
from fxai.effects.concurrency import fork
from fxai.effects.constructor import gen, sleep
from fxai.effects.effect import Await, EffectOf, Gen, Succeed, Suspend, Sync
from fxai.effects.fiber import run_fiber
from fxai.effects.scope import Scope, add_finalizer, scoped
from fxai.effects.waker import Home
from fxai.hosting.listening import CannotListen
from fxai.mcp.server.server_options import (
    Defect,
    HttpOptions,
    HttpServerOptions,
    HttpSettings,
    ServerOptions,
    ToolServerSettings,
    split_options,
)
from fxai.mcp.server.snapshot import Snapshot, open_snapshot
from fxai.schema.data import JsonObject
from fxai.tools.source import Sourced, ToolSource
from fxai.tools.toolkit import AnyBound, BoundToolkit

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from fxai.mcp.server.exchange import Exchange, SdkServer
    from fxai.mcp.server.server_transport import HttpApp

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")

_WATCH: Final = 2.0  # seconds between two checks of live tools


def serve_stdio(origin: Sourced[_T, _E, _R], **options: Unpack[ServerOptions]) -> EffectOf[None, _E, _R | None]:
    """Serve tools on standard input and output until the client closes the input.

    Standard output belongs to the protocol. Output of the handlers goes to standard error. The effect fails if opening
    the tools fails.

    Args:
        origin: Tools: a function tool, a bound toolkit, or a source.
        options: See `ServerOptions`.
    """
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **options)
    return scoped(opened.flat_map(lambda server: server.serve_stdio()))


def serve_http(
    origin: Sourced[_T, _E, _R],
    *,
    on_listening: Callable[[str], object] | None = None,
    **options: Unpack[HttpServerOptions],
) -> EffectOf[None, _E | CannotListen, _R | None]:
    """Serve tools over streamable HTTP until interrupted. By default, only this machine can connect.

    The server uses uvicorn, which requires asyncio. For another ASGI server, use `http_app`.

    Args:
        origin: Tools: a function tool, a bound toolkit, or a source.
        on_listening: Function that receives the URL for clients when the server listens.
        options: See `ServerOptions` and `HttpOptions`.

    Fails with:
        CannotListen: If the port is in use, or the host does not belong to this machine.

    The effect also fails if opening the tools fails.

    Raises:
        ValueError: If an option is invalid, or if other machines could use the tools without protection.
    """
    own, http = split_options(options)
    HttpSettings.of(http)  # report invalid options immediately
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **own)
    return scoped(opened.flat_map(lambda server: server.serve_http(on_listening=on_listening, **http)))


def http_app(
    origin: Sourced[_T, _E, _R], **options: Unpack[HttpServerOptions]
) -> EffectOf[HttpApp, _E, _R | Scope | None]:
    """Return an ASGI application that serves tools over streamable HTTP while the enclosing scope is open.

    It answers in the event loop that opened it, on asyncio or trio, with any ASGI server. `host` only determines the
    allowed clients.
    """
    own, http = split_options(options)
    HttpSettings.of(http)
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **own)
    return opened.flat_map(lambda server: server.http_app(**http))


@final
class ToolServer:
    """A server of tools. It is open until the scope ends in which you opened it.

    It can serve several transports at the same time. `replace` changes the tools and notifies each client.
    """

    __slots__ = ("_exchange", "_home", "_live", "_refreshing", "_sdk_server", "_snapshot", "_snapshots", "settings")

    settings: ToolServerSettings
    """All options, with defaults."""

    def __init__(self, settings: ToolServerSettings) -> None:
        """Create a server without tools. Use `ToolServer.open` instead, which also adds the tools."""
        from fxai.mcp.server.exchange import Exchange, SdkServer

        self.settings = settings
        self._snapshot: Snapshot | None = None
        self._live: AnyBound | None = None  # set if the snapshot's tools are live
        self._snapshots: list[Snapshot] = []
        self._refreshing = anyio.Lock()
        self._home = Home(f"the MCP server {settings.name!r}")
        self._exchange: Exchange = Exchange(settings, self._current)

        def input_schema(name: str) -> JsonObject | None:
            tool = self._now.tools.get(name)
            return None if tool is None else tool.input_schema

        self._sdk_server: SdkServer = SdkServer(settings, self._exchange, input_schema)

    @staticmethod
    def open(
        origin: Sourced[_T, _E, _R], **options: Unpack[ServerOptions]
    ) -> EffectOf[ToolServer, _E, _R | Scope | None]:
        """Open the server with its tools in the enclosing scope.

        If a tool has no handler in this program, the effect ends with the defect `HandlerError`. If two tools would
        have the same name, it ends with the defect `NameConflictError`.

        Raises:
            ValueError: If an option is invalid.
        """
        settings = ToolServerSettings.of(options)
        source = ToolSource.of(origin)

        @gen
        def start() -> Gen[ToolServer, Any, Any]:
            opened: AnyBound = yield from source.open
            server = ToolServer(settings)
            yield from add_finalizer(server._release)
            yield from server.replace(opened)
            if opened.is_live:
                yield from fork(server._watch())
            return server

        return start()

    # -- the tools

    @property
    def tools(self) -> AnyBound:
        """The current tools with their handlers."""
        return self._now.bound

    @property
    def documents(self) -> list[JsonObject]:
        """The current entries of `tools/list`, as JSON values."""
        return self._now.documents

    @property
    def listening(self) -> int:
        """Number of connected clients that receive change notifications. Newer clients subscribe and do not count."""
        return self._sdk_server.listening

    def replace(self, tools: BoundToolkit[Any, _E, _R]) -> EffectOf[None, _E, _R | None]:
        """Offer these tools from now on and notify every client. Running calls keep their handlers.

        This effect builds the handlers. fxai releases their resources when the server closes or when you replace them.
        If building the handlers fails, the effect fails and nothing changes.
        """

        def follow() -> None:
            self._live = tools if tools.is_live else None

        return self._offer(tools).tap(lambda _: Sync(follow))

    @property
    def _now(self) -> Snapshot:
        if self._snapshot is None:
            raise RuntimeError("ToolServer has no tools yet. Create it with ToolServer.open.")
        return self._snapshot

    def _offer(self, tools: AnyBound) -> EffectOf[None, Any, Any]:
        opened = open_snapshot(tools)
        return opened.flat_map(lambda snapshot: Await(lambda _: self._take_over(snapshot))).uninterruptible()

    async def _take_over(self, snapshot: Snapshot) -> None:
        before, self._snapshot = self._snapshot, snapshot
        self._snapshots = [one for one in self._snapshots if one.running or not one.is_replaced]
        self._snapshots.append(snapshot)
        if before is None:
            return
        await run_fiber(before.replace(), before.services)
        if before.documents != snapshot.documents:
            await self._sdk_server.announce()

    def _release(self, exit_: Exit[Any, Any]) -> EffectOf[None]:
        def close() -> EffectOf[None]:
            self._sdk_server.close()
            closed: EffectOf[None] = Succeed(None)
            for snapshot in self._snapshots:
                closed = snapshot.scope.close(exit_).and_then(closed)
            return closed

        return Suspend(close)

    async def _current(self) -> Snapshot:
        """Return the current tools. Check live tools for changes first."""
        self._home.require()
        if self._live is not None:
            async with self._refreshing:
                await self._refresh()
        return self._now

    async def _refresh(self) -> None:
        from fxai.mcp.server.exchange import report

        live, snapshot = self._live, self._now
        if live is None:
            return
        changed = live.now.flat_map(lambda now: Succeed(None) if now == snapshot.bound else self._offer(now))
        found = await run_fiber(changed, snapshot.services)
        if isinstance(found, Failed):
            report(self.settings, Defect("", found.cause))

    def _watch(self) -> EffectOf[Never]:
        look: EffectOf[Any] = sleep(_WATCH).and_then(Await(lambda _: self._current()))
        return look.flat_map(lambda _: self._watch())

    # -- transports

    @property
    def sdk(self) -> Server[Any]:
        """The server of the official SDK, for your own transport or for the SDK's client in memory."""
        return self._sdk_server.sdk

    def serve_stdio(self) -> EffectOf[None]:
        """Serve on standard input and output until the client closes the input."""

        async def serve() -> None:
            from fxai.mcp.server.server_transport import over_standard_streams

            await over_standard_streams(self._sdk_server.sdk, self.settings)

        return Await(lambda _: serve())

    def http_app(self, **options: Unpack[HttpOptions]) -> EffectOf[HttpApp, Never, Scope | None]:
        """Return an ASGI application that serves over streamable HTTP while the enclosing scope is open."""
        settings = HttpSettings.of(options)

        def start() -> EffectOf[HttpApp, Never, Scope | None]:
            from fxai.mcp.server.server_transport import open_app

            return open_app(self._sdk_server, self._exchange, settings, self.settings.max_body)

        return Suspend(start)

    def serve_http(
        self, *, on_listening: Callable[[str], object] | None = None, **options: Unpack[HttpOptions]
    ) -> EffectOf[None, CannotListen]:
        """Serve over streamable HTTP until interrupted. See the function `serve_http`."""
        settings = HttpSettings.of(options)

        def serve(app: HttpApp) -> EffectOf[None, CannotListen]:
            from fxai.hosting import serve_app

            def tell(url: str) -> None:
                if on_listening is not None:
                    on_listening(url + settings.path)

            return serve_app(
                app,
                host=settings.host,
                port=settings.port,
                lifespan=app.life(),
                head_timeout=settings.body_timeout,
                on_listening=tell,
            )

        return scoped(self.http_app(**options).flat_map(serve))
