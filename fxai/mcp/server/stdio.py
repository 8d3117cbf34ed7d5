"""The server transport over standard input and output, with one JSON-RPC message per line. `serve_stdio` uses it.

While the server runs, file descriptors 0 and 1 are redirected. Handlers and their child processes read an empty input,
and their output goes to standard error. The server restores both descriptors afterwards. Reading and writing wait in
the event loop, so a cancellation ends them immediately, and a slow client delays only itself.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from fxai.effects.process import Lines
from fxai.mcp.server.server_options import ToolServerSettings

_CHUNK: Final = 1 << 16
_GRACE: Final = 1.0  # seconds to answer earlier requests after the end of the input
_ATOMIC: Final = getattr(select, "PIPE_BUF", 512)  # bytes that a writable pipe accepts without blocking


async def over_standard_streams(server: Server[Any], settings: ToolServerSettings) -> None:
    """Serve on this process's standard input and output until the input ends."""
    with _claim_streams() as (source, sink):
        await over_descriptors(server, settings, source, sink)


async def over_descriptors(server: Server[Any], settings: ToolServerSettings, source: int, sink: int) -> None:
    """Serve on two file descriptors until the input ends or the reader of the output disconnects."""
    inbound, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outbound, sent = anyio.create_memory_object_stream[SessionMessage]()
    requests = _OpenRequests()
    async with anyio.create_task_group() as group:
        group.start_soon(_write, sent, sink, requests, group.cancel_scope)
        async with anyio.create_task_group() as reading:
            reading.start_soon(_read, source, settings.max_body, requests, inbound, outbound.clone())
            async with outbound:
                await server.run(received, outbound, server.create_initialization_options())
            reading.cancel_scope.cancel()


@contextmanager
def _claim_streams() -> Generator[tuple[int, int]]:
    """Duplicate descriptors 0 and 1 for the protocol, and redirect the originals during the block."""
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(empty, 0)
        os.dup2(2, 1)
        sys.stdout.flush()  # earlier output is not a message
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for descriptor in (empty, source, sink):
            os.close(descriptor)


@final
class _OpenRequests:
    """The requests without an answer."""

    def __init__(self) -> None:
        self._open: set[Any] = set()
        self._answered = anyio.Event()  # set if no request is open

    def add(self, message: JSONRPCMessage) -> None:
        """Record a request, or the cancellation of a request."""
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
            self._answered = anyio.Event()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._close((message.params or {}).get("requestId"))

    def answer(self, message: JSONRPCMessage) -> None:
        """Record an answer."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._close(message.id)

    def _close(self, request: Any) -> None:
        if isinstance(request, str | int):
            self._open.discard(request)
        if not self._open:
            self._answered.set()

    async def wait_until_answered(self) -> None:
        """Wait until every request is answered. Call it when no more requests arrive."""
        if self._open:
            await self._answered.wait()


async def _read(
    source: int,
    limit: int,
    requests: _OpenRequests,
    inbound: MemoryObjectSendStream[SessionMessage | Exception],
    outbound: MemoryObjectSendStream[SessionMessage],
) -> None:
    lines = Lines(limit)
    async with inbound, outbound:
        while chunk := await _when_ready(source, anyio.wait_readable, partial(os.read, source, _CHUNK)):
            for line in lines.feed(chunk):
                try:
                    if line is None:
                        await outbound.send(_refusal(INVALID_REQUEST, "the message is too long"))
                    elif line.strip():
                        message = jsonrpc_message_adapter.validate_json(line)
                        requests.add(message)
                        await inbound.send(SessionMessage(message))
                except ValidationError:
                    await outbound.send(_refusal(PARSE_ERROR, "the line is not a JSON-RPC message"))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
                    return
        with anyio.move_on_after(_GRACE):
            await requests.wait_until_answered()


async def _write(
    received: MemoryObjectReceiveStream[SessionMessage], sink: int, requests: _OpenRequests, scope: anyio.CancelScope
) -> None:
    async with received:
        async for message in received:
            text = message.message.model_dump_json(exclude_unset=True)
            left = memoryview(text.encode() + b"\n")
            while left:
                try:
                    left = left[await _when_ready(sink, anyio.wait_writable, partial(os.write, sink, left[:_ATOMIC])) :]
                except BrokenPipeError:  # the client disconnected
                    scope.cancel()
                    return
            requests.answer(message.message)


async def _when_ready(descriptor: int, ready: Callable[[int], Awaitable[None]], act: Callable[[], Any]) -> Any:
    """Return the result of `act` when the descriptor is ready. Use a thread if the event loop cannot wait for it."""
    try:
        await ready(descriptor)
    except OSError:  # a file, or a system whose event loops wait only for sockets
        return await anyio.to_thread.run_sync(act, abandon_on_cancel=True)
    return act()


def _refusal(code: int, text: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text)))
