"""MCP servers of our tools.

The tools come from any source of tools: a function tool, a toolkit with its layer, a source. `serve_stdio` is a program
that a client starts, `serve_http` one that listens, `http_app` an ASGI application; each an effect that needs what the
handlers need, and ends what it opened. `ToolServer` is the server itself, for tools that change while it runs.

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
from fxai.tools.source import Sourced, ToolSource
from fxai.tools.toolkit import AnyBound, BoundToolkit

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from fxai.mcp.server.exchange import Exchange, SdkServer
    from fxai.mcp.server.http import HttpApp

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")

_WATCH: Final = 2.0  # seconds between two looks at tools that change by themselves


def serve_stdio(origin: Sourced[_T, _E, _R], **options: Unpack[ServerOptions]) -> EffectOf[None, _E, _R | None]:
    """Serves tools on standard input and output, until the client closes the input.

    Standard output belongs to the protocol: what handlers print goes to standard error.

    Args:
        origin: the tools: a function tool, a bound toolkit, a source.
        options: see `ServerOptions`.

    Fails as opening the tools does.
    """
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **options)
    return scoped(opened.flat_map(lambda server: server.serve_stdio()))


def serve_http(
    origin: Sourced[_T, _E, _R],
    *,
    on_listening: Callable[[str], object] | None = None,
    **options: Unpack[HttpServerOptions],
) -> EffectOf[None, _E | CannotListen, _R | None]:
    """Serves tools over streamable HTTP, on loopback unless told otherwise, until it is interrupted.

    It runs on uvicorn, so on asyncio; give `http_app` to another server elsewhere.

    Args:
        origin: the tools: a function tool, a bound toolkit, a source.
        on_listening: told the URL for clients, when it listens.
        options: see `ServerOptions` and `HttpOptions`.

    Fails with:
        CannotListen: the port is taken, or the host is none of this machine's.

    Also fails as opening the tools does. Raises `ValueError` where other machines could use the tools unasked.
    """
    own, http = split_options(options)
    HttpSettings.of(http)  # what is wrong with them is said at once
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **own)
    return scoped(opened.flat_map(lambda server: server.serve_http(on_listening=on_listening, **http)))


def http_app(
    origin: Sourced[_T, _E, _R], **options: Unpack[HttpServerOptions]
) -> EffectOf[HttpApp, _E, _R | Scope | None]:
    """An ASGI application that serves tools over streamable HTTP, for as long as the scope around is open.

    It answers in the event loop that opened it, asyncio or trio, under any ASGI server; `host` only says who may ask.
    """
    own, http = split_options(options)
    HttpSettings.of(http)
    opened: EffectOf[ToolServer, Any, Any] = ToolServer.open(origin, **own)
    return opened.flat_map(lambda server: server.http_app(**http))


@final
class ToolServer:
    """A server of tools, there open until the scope ends that it was opened in.

    It may serve on several transports at once. `replace` changes the tools and notifies each client.
    """

    __slots__ = ("_exchange", "_home", "_live", "_refreshing", "_sdk_server", "_snapshot", "_snapshots", "settings")

    settings: ToolServerSettings
    """Its options, complete."""

    def __init__(self, settings: ToolServerSettings) -> None:
        """Use `ToolServer.open`, which also gives it tools."""
        from fxai.mcp.server.exchange import Exchange, SdkServer

        self.settings = settings
        self._snapshot: Snapshot | None = None
        self._live: AnyBound | None = None  # the live source of the snapshot
        self._snapshots: list[Snapshot] = []
        self._refreshing = anyio.Lock()
        self._home = Home(f"the MCP server {settings.name!r}")
        self._exchange: Exchange = Exchange(settings, self._current)
        self._sdk_server: SdkServer = SdkServer(settings, self._exchange, self._input_schema)

    @staticmethod
    def open(
        origin: Sourced[_T, _E, _R], **options: Unpack[ServerOptions]
    ) -> EffectOf[ToolServer, _E, _R | Scope | None]:
        """The server of these tools, opened into the scope around with them.

        Raises `ValueError` for an option that cannot be, `HandlerError` (a defect) for tools that have no handler of
        ours, `NameConflictError` (a defect) where two tools would have one name.
        """
        settings = ToolServerSettings.of(options)
        source = ToolSource.of(origin)

        @gen
        def begin() -> Gen[ToolServer, Any, Any]:
            opened: AnyBound = yield from source.open
            server = ToolServer(settings)
            yield from add_finalizer(server._release)
            yield from server.replace(opened)
            if opened.is_live:
                yield from fork(server._watch())
            return server

        return begin()

    # -- what it offers

    @property
    def tools(self) -> AnyBound:
        """The tools that it offers now, with their handlers."""
        return self._now.bound

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The entries of `tools/list` now, as plain JSON data."""
        return self._now.documents

    @property
    def listening(self) -> int:
        """How many connected clients are notified of changes; newer clients subscribe, and are not counted."""
        return self._sdk_server.listening

    def replace(self, tools: BoundToolkit[Any, _E, _R]) -> EffectOf[None, _E, _R | None]:
        """Offers these tools from now on, and notifies every client; running calls keep their handlers.

        Their handlers are built here; what that acquires is released with the server, or when they are
        replaced. Fails as building them does, and then nothing has changed.
        """
        followed = Sync(lambda: self._follow(tools))
        return self._offer(tools).tap(lambda _: followed)

    def _follow(self, tools: AnyBound) -> None:
        self._live = tools if tools.is_live else None

    @property
    def _now(self) -> Snapshot:
        if self._snapshot is None:
            raise RuntimeError("the server has no tools yet: use ToolServer.open")
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
        """The tools offered now: those that change by themselves are looked up again."""
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

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._now.tools.get(name)
        return None if tool is None else tool.input_schema

    # -- transports

    @property
    def sdk(self) -> Server[Any]:
        """The server as the official SDK has it: for a transport of your own, or its client in memory."""
        return self._sdk_server.sdk

    def serve_stdio(self) -> EffectOf[None]:
        """Serves on standard input and output, until the client closes the input."""

        async def serve() -> None:
            from fxai.mcp.server.stdio import over_standard_streams

            await over_standard_streams(self._sdk_server.sdk, self.settings)

        return Await(lambda _: serve())

    def http_app(self, **options: Unpack[HttpOptions]) -> EffectOf[HttpApp, Never, Scope | None]:
        """An ASGI application that serves over streamable HTTP, for as long as the scope around is open."""
        settings = HttpSettings.of(options)

        def begin() -> EffectOf[HttpApp, Never, Scope | None]:
            from fxai.mcp.server.http import open_app

            return open_app(self._sdk_server, self._exchange, settings, self.settings.max_body)

        return Suspend(begin)

    def serve_http(
        self, *, on_listening: Callable[[str], object] | None = None, **options: Unpack[HttpOptions]
    ) -> EffectOf[None, CannotListen]:
        """Serves over streamable HTTP until it is interrupted; see the function `serve_http`."""
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
