"""Responses that are event streams. Use `EventStream` to send events of a stream store at the speed of the client.

If no event arrives for a while, the response sends a comment, so that proxies and clients keep the connection. If the
client disconnects, only the reading of the events ends. The application decides whether the turn continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from fxai.effects.stream import StreamOf

_BEAT = b": \n\n"


@final
class EventStream(Response):
    """A response whose body is a stream of events."""

    def __init__(self, events: StreamOf[bytes, Any, None], headers: Mapping[str, str], heartbeat: float) -> None:
        """Create a response from events. It sends a comment after `heartbeat` seconds without an event."""
        self.status_code = 200
        self.init_headers(headers)
        self._events = events
        self._heartbeat = heartbeat

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = _Sending(send)

        async def until_gone(scope: anyio.CancelScope) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            scope.cancel()

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone, group.cancel_scope)
                group.start_soon(sending.beat, self._heartbeat)
                async with self._events.iterate() as batches:
                    async for batch in batches:
                        await sending.send(batch)
                await sending.send(b"", more=False)
                group.cancel_scope.cancel()
        except* OSError:  # the client disconnected
            pass


@final
class _Sending(msgspec.Struct, eq=False):
    """A sender of the pieces of a body, one at a time."""

    to_client: Send
    lock: anyio.Lock = msgspec.field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    sent: int = 0  # pieces

    async def send(self, body: bytes, *, more: bool = True) -> None:
        async with self.lock:
            self.sent += 1
            await self.to_client({"type": "http.response.body", "body": body, "more_body": more})

    async def beat(self, seconds: float) -> None:
        while True:
            before = self.sent
            await anyio.sleep(seconds)
            if self.sent == before:
                await self.send(_BEAT)
