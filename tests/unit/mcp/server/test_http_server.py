"""A server that listens: where, what it says of itself, and how it ends. It runs on asyncio alone, as uvicorn does."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from fxai import tool
from fxai.effects import Failed, fx
from fxai.mcp import CannotListen, serve_http
from tests.kit.mcp_http import HEADERS, modern


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def answer(address: Any) -> bytes:
    """All that a connection to a server gives for one call, until the server closes it."""
    headers, body = modern()
    content = json.dumps(body).encode()
    told = {"host": "localhost", "connection": "close", "content-length": str(len(content)), **HEADERS, **headers}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    said = b""
    async with await anyio.connect_tcp(*address[:2]) as stream:
        await stream.send("\r\n".join(lines).encode() + content)
        async for chunk in stream:
            said += chunk
    return said


def serving(origin: Any, use: Callable[[Any, anyio.CancelScope], Awaitable[Any]], **options: Any) -> Any:
    """What `use` gives while a server listens; it gets the server's address, and a scope whose cancelling stops it."""
    listening: list[socket.socket] = []
    there = anyio.Event()
    create = socket.create_server

    def created(*arguments: Any, **more: Any) -> socket.socket:
        listening.append(create(*arguments, **more))
        there.set()
        return listening[-1]

    async def go() -> Any:
        given: Any = None
        scope = anyio.CancelScope()

        async def serve() -> None:
            with scope:
                await fx.run_async(serve_http(origin, **options))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                await there.wait()
                given = await use(listening[0].getsockname(), scope)
                scope.cancel()
        assert listening[0].fileno() == -1
        return given

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fxai.hosting.listening.socket.create_server", created)
        return anyio.run(go, backend="asyncio")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_clients_are_told_where_it_listens(host: str) -> None:
    """The URL has the port that was free, and brackets where the host is of version 6; a call there is answered."""
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    told: list[str] = []

    async def use(address: Any, _: anyio.CancelScope) -> Any:
        return address, await answer(address)

    address, said = serving(add, use, host=host, on_listening=told.append)

    assert told == [f"http://{'[::1]' if host == '::1' else host}:{address[1]}/mcp"]
    assert address[0] == host
    assert said.startswith(b"HTTP/1.1 200")


def test_it_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    """It listens though nobody is told; no header names what it runs on, and nothing is logged of a request."""

    async def use(address: Any, _: anyio.CancelScope) -> bytes:
        return await answer(address)

    with caplog.at_level(logging.INFO, "uvicorn"):
        said = serving(add, use)
    head, _, body = said.partition(b"\r\n\r\n")

    assert b'"text":"3"' in body
    assert b"server:" not in head.lower()
    assert [record.name for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_a_call_that_runs_is_answered_when_it_is_stopped() -> None:
    """Within the grace it ends and its answer is sent, whole; then nobody listens any more."""
    begun, go = anyio.Event(), anyio.Event()

    @tool(name="add")
    async def slow(a: int, b: int) -> int:
        """Adds two numbers, when it may."""
        begun.set()
        await go.wait()
        return a + b

    async def use(address: Any, scope: anyio.CancelScope) -> list[bytes]:
        said: list[bytes] = []

        async def ask() -> None:
            said.append(await answer(address))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await begun.wait()
            scope.cancel()
            for _ in range(50):  # the cancellation has arrived by then
                await checkpoint()
            go.set()
        return said

    (said,) = serving(slow, use, grace=40)

    assert said.startswith(b"HTTP/1.1 200")
    assert b'"text":"3"' in said


def test_signals_are_left_to_the_program() -> None:
    """Whoever runs the server decides what an interruption does: its handlers stay."""

    def handlers() -> list[Any]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def use(address: Any, _: anyio.CancelScope) -> list[Any]:
        before = handlers()
        await answer(address)  # then it serves
        return [before, handlers()]

    before, after = serving(add, use)

    assert before == after


def test_a_port_that_is_taken_is_a_typed_failure() -> None:
    """Where it cannot listen the failure says where and why, in the system's words, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = fx.run_exit(serve_http(add, port=port))

    assert isinstance(ended, Failed)
    (failure,) = ended.cause.failures
    assert isinstance(failure, CannotListen)
    assert (failure.host, failure.port) == ("127.0.0.1", port)
    assert failure.reason.startswith(os.strerror(errno.EADDRINUSE))
    assert "port=0" in failure.message


def test_an_error_without_a_number_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system has no words for is told as it is."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("no sockets here")

    monkeypatch.setattr("fxai.hosting.listening.socket.create_server", refuse)
    ended = fx.run_exit(serve_http(add))

    assert isinstance(ended, Failed)
    assert [one.reason for one in ended.cause.failures if isinstance(one, CannotListen)] == ["no sockets here"]


def test_trio_is_told_what_to_do() -> None:
    """Uvicorn needs asyncio: elsewhere the error names what serves there."""
    with pytest.raises(RuntimeError, match=r"asyncio.*use a server.*hypercorn"):
        fx.run(serve_http(add), backend="trio")
