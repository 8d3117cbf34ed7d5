"""Programs that speak MCP on their standard streams: started, listened to within limits, and ended with all theirs.

The SDK's own transport keeps no standard error, reads lines without a limit, and leaves behind what a server started
before it ended by itself; so this one stands in its place.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast, final

import anyio
import anyio.abc
import mcp_types as wire
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from fxai.mcp.endpoint import Program
from fxai.mcp.watch import Watch

__all__ = ["program_transport"]

_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
_POLL: Final = 0.01  # seconds between two looks at whether a program has ended
_KILLED: Final = 2.0  # seconds for a killed program to be gone
_FLUSH: Final = 0.5  # seconds for what was accepted to be written before the input is closed
_CHILDREN: Final = 0.5  # seconds for the children of a program that has ended

_Incoming = SessionMessage | Exception


@asynccontextmanager
async def program_transport(program: Program, watch: Watch) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams of a started program, as the SDK takes them; it is ended when the block is left.

    Raises:
        OSError: it cannot be started.
    """
    process = await anyio.open_process(
        [program.command, *program.args],
        env=get_default_environment() | program.env.reveal(),
        cwd=program.cwd,
        start_new_session=sys.platform != "win32",
    )
    send, incoming = anyio.create_memory_object_stream[_Incoming](0)
    outgoing, receive = anyio.create_memory_object_stream[SessionMessage](0)
    running = _Running(process, program, watch, send, receive)
    watch.process = lambda: process.returncode
    try:
        async with anyio.create_task_group() as tasks:
            for task in (running.read, running.write, running.listen):
                tasks.start_soon(task)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    incoming.close()
                    outgoing.close()
                    await running.end()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (send, incoming, outgoing, receive):
            stream.close()


@final
class _Running:
    """A program that runs: three tasks on its pipes, and how it ends."""

    def __init__(
        self,
        process: anyio.abc.Process,
        program: Program,
        watch: Watch,
        send: MemoryObjectSendStream[_Incoming],
        receive: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        self._process = process
        self._program = program
        self._watch = watch
        self._send = send
        self._receive = receive
        self._written = anyio.Event()

    async def read(self) -> None:
        """Reads messages from its standard output, one a line, until it ends or was stopped; then only drains it."""
        stdout = cast("anyio.abc.ByteReceiveStream", self._process.stdout)
        lines = _Lines(self._watch.limits.message_bytes)
        with suppress(*_GONE):
            async with self._send:
                with suppress(*_GONE):
                    while self._watch.trouble is None:
                        for line in lines.feed(await stdout.receive()):
                            await self._deliver(line)
                        if lines.overlong:
                            self._watch.too_large(self._watch.limits.message_bytes)
            while True:
                await stdout.receive()

    async def _deliver(self, line: bytes) -> None:
        if self._watch.trouble is not None or not line.strip():
            return
        try:
            message = wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            unread = self._watch.unreadable(line)
            if unread is not None:
                await self._send.send(unread)
            return
        await self._send.send(SessionMessage(message))

    async def write(self) -> None:
        """Writes what is to be sent to its standard input."""
        stdin = cast("anyio.abc.ByteSendStream", self._process.stdin)
        try:
            async for item in self._receive:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
        except _GONE:
            self._send.close()  # its end is told at once, not when an answer does not come
        finally:
            self._written.set()

    async def listen(self) -> None:
        """Keeps the end of its standard error."""
        stderr = cast("anyio.abc.ByteReceiveStream", self._process.stderr)
        with suppress(*_GONE):
            while True:
                self._watch.complained(await stderr.receive())

    async def end(self) -> None:
        """Ends it and all that it started: its input is closed, then it is asked to terminate, then killed."""
        with anyio.move_on_after(_FLUSH):
            await self._written.wait()
        with suppress(*_GONE), anyio.move_on_after(_FLUSH):
            await cast("anyio.abc.ByteSendStream", self._process.stdin).aclose()
        grace = self._program.grace
        await self._gone_within(grace)
        self._signal(terminate=True)
        await self._gone_within(grace)
        await self._group_gone_within(_CHILDREN)
        self._signal(terminate=False)
        await self._gone_within(_KILLED)
        await self._close_pipes()

    async def _gone_within(self, seconds: float) -> None:
        deadline = anyio.current_time() + seconds
        # Not `wait()`: with asyncio it also waits for the pipes, which a child may hold open.
        while self._process.returncode is None and anyio.current_time() < deadline:  # noqa: ASYNC110
            await anyio.sleep(_POLL)

    async def _group_gone_within(self, seconds: float) -> None:
        deadline = anyio.current_time() + seconds
        while self._signalled(0) and anyio.current_time() < deadline:  # noqa: ASYNC110
            await anyio.sleep(_POLL)

    def _signal(self, *, terminate: bool) -> None:
        if sys.platform != "win32":
            self._signalled(signal.SIGTERM if terminate else signal.SIGKILL)
        elif self._process.returncode is None:
            self._process.kill()

    def _signalled(self, number: int) -> bool:
        if sys.platform == "win32":
            return False
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _close_pipes(self) -> None:
        for pipe in (self._process.stdout, self._process.stderr):
            with suppress(*_GONE):
                await cast("anyio.abc.ByteReceiveStream", pipe).aclose()
        # asyncio's transport warns when it is collected open, and nothing public closes it.
        transport = getattr(getattr(self._process, "_process", None), "_transport", None)
        if transport is not None:
            with suppress(PermissionError):
                transport.close()


@final
class _Lines:
    """The lines of a stream of bytes, none longer than `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self.overlong = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete with this chunk; `overlong` is set where one is too long."""
        if b"\n" not in chunk:
            self._rest += chunk
            self.overlong = len(self._rest) > self._limit
            return []
        first, *others = chunk.split(b"\n")
        lines = [bytes(self._rest) + first, *others[:-1]]
        self._rest = bytearray(others[-1])
        self.overlong = any(len(line) > self._limit for line in lines)
        return [] if self.overlong else lines
