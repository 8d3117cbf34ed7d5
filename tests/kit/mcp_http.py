"""A client of a server over HTTP, without a socket: requests go straight to the ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import anyio
import httpx2
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp

from fxai.effects import fx
from fxai.mcp import HttpOptions, http_app
from fxai.tools import Sourced

__all__ = [
    "HEADERS",
    "INITIALIZE",
    "MODERN",
    "Client",
    "OnClient",
    "asking",
    "modern",
    "on_client",
    "status_of",
    "with_app",
]

Client = httpx2.AsyncClient

OnApp: TypeAlias = Callable[[ASGIApp], Awaitable[Any]]
OnClient: TypeAlias = Callable[[Client], Awaitable[Any]]

MODERN = "2026-07-28"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def with_app(origin: Sourced[Any, Any, None], backend: str, use: OnApp, **options: Any) -> Any:
    """What `use` gives of an application with these options."""
    told = cast(HttpOptions, options)
    opened = http_app(origin, **told).flat_map(lambda app: fx.wait(lambda: use(app)))
    return fx.run(fx.scoped(opened), backend=cast(Literal["asyncio", "trio"], backend))


def asking(origin: Sourced[Any, Any, None], backend: str, ask: OnClient, **options: Any) -> Any:
    """What `ask` gives of a client of an application with these options."""
    return with_app(origin, backend, lambda app: on_client(app, ask), **options)


async def on_client(app: ASGIApp, ask: OnClient) -> Any:
    """What `ask` gives of a client of the application."""
    transport = httpx2.ASGITransport(cast(Any, app))
    async with Client(transport=transport, base_url="http://127.0.0.1", headers=HEADERS) as client:
        return await ask(client)


async def status_of(app: ASGIApp, pieces: Sequence[bytes], *, ends: bool, more: Mapping[str, str]) -> int | None:
    """The status that a request gets whose body comes in these pieces, and then ends or does not."""
    left = list(pieces)
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        await checkpoint()
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    raw = [(name.encode(), value.encode()) for name, value in {**HEADERS, "host": "localhost", **more}.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "query_string": b"", "scheme": "http"}
    await app({**scope, "http_version": "1.1", "server": ("localhost", 80), "root_path": ""}, receive, send)
    return statuses[0] if statuses else None


def modern(name: str = "add", arguments: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a call of the newer protocol."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"name": name, "arguments": arguments or {"a": 1, "b": 2}, "_meta": meta}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name}
    return headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
