"""Our server on a real socket: clients of the official SDK, clients that cut, stall and leave, and a clean end."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import mcp
import pytest
from anyio.abc import SocketStream
from mcp_types import TextContent

from fxai import BoundToolkit, tool
from fxai.effects import Gen, fx
from fxai.mcp import serve_http
from fxai.tools import CallContext, Tool, Toolkit

MODERN = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class World:
    """Tools that tell what became of their calls."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.connections: list[SocketStream] = []

    async def connected(self, url: str) -> SocketStream:
        """A connection to the server, closed when the server has ended."""
        host, port = url.removeprefix("http://").partition("/")[0].split(":")
        self.connections.append(await anyio.connect_tcp(host, int(port)))
        return self.connections[-1]

    def tools(self) -> BoundToolkit[Any]:
        """The tools, with their handlers."""

        @tool
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return a + b

        @tool
        async def linger() -> None:
            """Waits."""
            self.begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.ended.set()

        flood = Tool.make("flood", success=str, description="Tells more than anybody reads.")

        @fx.gen
        def tell(_: Any, call: CallContext) -> Gen[str, Any, Any]:
            try:
                while True:
                    self.begun.set()
                    yield from call.preliminary("x" * 100_000)
            finally:
                self.ended.set()

        bound: BoundToolkit[Any] = BoundToolkit.of(Toolkit.make(flood), flood.handler(tell))
        return BoundToolkit.make(add, linger).merge(bound)


def serving(use: Callable[[str, World], Awaitable[Any]], **options: Any) -> Any:
    """What `use` gives while a server of the tools listens; then the server is interrupted, and has to end."""

    async def go() -> Any:
        world = World()
        told: list[str] = []
        given: Any = None
        listening = anyio.Event()

        def listens(url: str) -> None:
            told.append(url)
            listening.set()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                program = serve_http(world.tools(), on_listening=listens, grace=0.2, **options)
                group.start_soon(fx.run_async, program)
                await listening.wait()
                given = await use(told[0], world)
                group.cancel_scope.cancel()
        for connection in world.connections:
            await connection.aclose()
        return given

    return anyio.run(go)


def _request(name: str, *, length: int | None = None, progress: bool = False) -> bytes:
    meta: dict[str, Any] = {**META, "progressToken": 1} if progress else META
    params: dict[str, Any] = {"name": name, "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = [
        "POST /mcp HTTP/1.1",
        "Host: localhost",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Mcp-Protocol-Version: {MODERN}",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {name}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


async def _added(url: str) -> str:
    async with mcp.Client(url) as client:
        (block,) = (await client.call_tool("add", {"a": 1, "b": 2})).content
        assert isinstance(block, TextContent)
        return block.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_official_client_uses_the_tools(era: Any) -> None:
    """Both eras list and call; a call that is taken back is interrupted, and the next one is answered."""

    async def use(url: str, world: World) -> Any:
        async with mcp.Client(url, mode=era) as client:
            names = [one.name for one in (await client.list_tools()).tools]
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "linger")
                await world.begun.wait()
                group.cancel_scope.cancel()
            await world.ended.wait()
        return names, await _added(url)

    assert serving(use) == (["add", "linger", "flood"], "3")


@pytest.mark.parametrize(
    "cut",
    [b"", b"GET", b"POST /mcp HTTP/1.1\r\nHost: local", b"\x00\xff\x16\x03\x01" * 40, b"GET / HTTP/9.9\r\n\r\n"],
    ids=["nothing", "half a word", "half a header", "no HTTP", "another version"],
)
def test_half_requests_hold_up_nobody(cut: bytes) -> None:
    """Connections that stop in the middle of a request, many at once, leave the server answering, and let it end."""

    async def use(url: str, world: World) -> Any:
        sockets = [await world.connected(url) for _ in range(20)]
        for one in sockets:
            await one.send(cut or b"\r\n")
        answer = await _added(url)
        for one in sockets[:10]:
            await one.aclose()
        return answer, sockets

    answer, sockets = serving(use)

    assert answer == "3"
    assert len(sockets) == 20


@pytest.mark.parametrize("name", ["linger", "flood"])
def test_a_client_that_leaves_interrupts_its_call(name: str) -> None:
    """Since 2026-07-28 leaving takes the call back: the handler ends, also where the client never read a word."""

    async def use(url: str, world: World) -> str:
        connection = await world.connected(url)
        await connection.send(_request(name, progress=name == "flood"))
        await world.begun.wait()
        await anyio.sleep(0.1)
        await connection.aclose()
        await world.ended.wait()
        return await _added(url)

    assert serving(use) == "3"


def test_a_body_that_stops_is_given_up() -> None:
    """A request that promises more than it sends is answered 408 after a while, and its connection is closed."""

    async def use(url: str, world: World) -> bytes:
        connection = await world.connected(url)
        await connection.send(_request("add", length=5000))
        return await connection.receive()

    assert serving(use, body_timeout=0.1).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("begun", "asked"),
    [(b"", False), (b"POST /mcp HTTP/1.1\r\nHost: local", False), (b"POST /mcp HTTP/1.1\r\nHost: local", True)],
    ids=["nothing", "half a header", "half a second header"],
)
def test_a_head_that_does_not_come_is_given_up(begun: bytes, asked: bool) -> None:
    """A connection that begins no request, its first or its second, is closed: it takes no place from others."""

    async def use(url: str, world: World) -> bytes:
        connection = await world.connected(url)
        if asked:
            await connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await connection.receive()).startswith(b"HTTP/1.1 404")
        if begun:
            await connection.send(begun)
        try:
            return await connection.receive()
        except anyio.EndOfStream:
            return b""

    assert serving(use, body_timeout=0.1) == b""


def test_a_call_may_take_longer_than_its_head() -> None:
    """A connection whose request is being answered is left alone, however long that takes."""
    closed: list[float] = []

    async def use(url: str, world: World) -> str:
        connection = await world.connected(url)
        await connection.send(_request("linger"))
        await world.begun.wait()
        with anyio.move_on_after(0.5):
            await world.ended.wait()
            closed.append(1)
        return await _added(url)

    assert (serving(use, body_timeout=0.1), closed) == ("3", [])


def test_a_stream_that_is_resumed_is_a_new_one() -> None:
    """No event of ours has an id: a client that names one, which it made up, listens from now on."""

    async def use(url: str, world: World) -> bytes:
        async with httpx2.AsyncClient() as client:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            accepts = {"accept": "application/json, text/event-stream"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            opened = await client.post(url, json=body, headers=accepts)
        listening = await world.connected(url)
        head = ["GET /mcp HTTP/1.1", "Host: localhost", "Accept: text/event-stream", "Last-Event-ID: made-up"]
        named = f"Mcp-Session-Id: {opened.headers['mcp-session-id']}"
        await listening.send("\r\n".join([*head, named, "", ""]).encode())
        return await listening.receive()

    assert serving(use).startswith(b"HTTP/1.1 200")


def test_a_server_that_is_stopped_ends_its_calls() -> None:
    """Calls that run when the server is interrupted are interrupted after the grace; open streams end too."""
    worlds: list[World] = []

    async def use(url: str, world: World) -> None:
        worlds.append(world)
        connection = await world.connected(url)
        await connection.send(_request("linger"))
        await world.begun.wait()

    serving(use)

    assert worlds[0].ended.is_set()


def test_the_token_is_asked_for_on_the_wire() -> None:
    """Without the token a client is refused; with it, it is not."""

    async def use(url: str, world: World) -> bytes:
        connection = await world.connected(url)
        await connection.send(_request("linger"))
        return await connection.receive()

    assert serving(use, token="right").startswith(b"HTTP/1.1 401")
