"""The client transport over standard streams, with limits. Sessions use it for servers that are programs.

It replaces the SDK's transport. The SDK's transport does not keep standard error, reads lines without a limit, and
leaves processes running that a server started in a session of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, final

import anyio
import mcp_types as wire
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from fxai.effects.cancellation import shield
from fxai.effects.process import GONE, ChildProcess, Lines
from fxai.mcp.settings import ServerProgram
from fxai.mcp.watch import BATCH, Watch, parts_of

_FLUSH: Final = 0.5  # seconds to write accepted messages before the input closes

_Incoming = SessionMessage | Exception


@asynccontextmanager
async def program_transport(program: ServerProgram, watch: Watch) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start a program and open its streams for the SDK. At the end of the block, end the program.

    Raises:
        OSError: If the program does not start.
    """
    env = get_default_environment() | program.env.reveal()
    command = (program.command, *program.args)
    process = await ChildProcess.start(command, cwd=program.cwd, env=env, grace=program.grace)
    send, incoming = anyio.create_memory_object_stream[_Incoming]()
    outgoing, receive = anyio.create_memory_object_stream[SessionMessage]()
    running = _Running(process, watch, send, receive)
    watch.process = lambda: process.exit_code
    try:
        async with anyio.create_task_group() as tasks:
            for task in (running.read, running.write, running.listen):
                tasks.start_soon(task)
            try:
                yield incoming, outgoing
            finally:
                incoming.close()
                outgoing.close()
                try:
                    await shield(running.end())
                finally:
                    tasks.cancel_scope.cancel()
    finally:
        for stream in (send, incoming, outgoing, receive):
            stream.close()


@final
class _Running(msgspec.Struct, eq=False):
    """A running program with three tasks on its pipes."""

    process: ChildProcess
    watch: Watch
    to_sdk: MemoryObjectSendStream[_Incoming]
    from_sdk: MemoryObjectReceiveStream[SessionMessage]
    written: anyio.Event = msgspec.field(default_factory=anyio.Event)

    async def read(self) -> None:
        """Read one message per line from standard output until it ends or breaks a limit. Then discard the output."""
        lines = Lines(self.watch.limits.message_bytes)
        with suppress(*GONE):
            async with self.to_sdk:
                with suppress(*GONE):
                    while self.watch.trouble is None:
                        for line in lines.feed(await self.process.stdout.receive()):
                            await self._deliver(line)
                        if lines.is_long:
                            self.watch.too_large(self.watch.limits.message_bytes)
            while True:
                await self.process.stdout.receive()

    async def _deliver(self, line: bytes | None) -> None:
        if line is None:
            self.watch.too_large(self.watch.limits.message_bytes)
            return
        parts = parts_of(line) if line.strip() and self.watch.trouble is None else []
        if len(parts) > BATCH:
            self.watch.too_many()
        for one in parts:
            if self.watch.trouble is not None:
                return
            try:
                message = wire.jsonrpc_message_adapter.validate_json(self.watch.lighten(one))
            except ValueError as error:
                unread = self.watch.unreadable(one, error)
                if unread is not None:
                    await self.to_sdk.send(unread)
            else:
                await self.to_sdk.send(SessionMessage(message))

    async def write(self) -> None:
        """Write outgoing messages to standard input."""
        try:
            async for item in self.from_sdk:
                text = item.message.model_dump_json(exclude_unset=True)
                await self.process.stdin.send(text.encode() + b"\n")
        except GONE:
            self.to_sdk.close()  # reports the end immediately
        finally:
            self.written.set()

    async def listen(self) -> None:
        """Keep the end of standard error."""
        with suppress(*GONE):
            while True:
                self.watch.add_stderr(await self.process.stderr.receive())

    async def end(self) -> None:
        """End the program and its child processes after the accepted messages are written."""
        with anyio.move_on_after(_FLUSH):
            await self.written.wait()
        await self.process.end()
