"""Responses that are event streams: what a store of streams has, sent as fast as the client takes it.

A comment is sent where nothing else is for a while, so that proxies and clients see that the stream lives. When the
client leaves, the reading ends, and nothing else: what becomes of the turn is the application's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from fxai.effects.stream import StreamOf

_BEAT = b": \n\n"


@final
class EventStream(Response):
    """A response whose body is a stream of events."""

    def __init__(self, events: StreamOf[bytes, Any, None], headers: Mapping[str, str], heartbeat: float) -> None:
        """The response of these events; after `heartbeat` seconds without one a comment is sent."""
        super().__init__(headers=dict(headers))
        del self.headers["content-length"]
        self._events = events
        self._heartbeat = heartbeat

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = _Sending(send)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_until_gone, receive, group.cancel_scope)
                group.start_soon(sending.beat, self._heartbeat)
                async with self._events.iterate() as batches:
                    async for batch in batches:
                        await sending.send(batch)
                await sending.send(b"", more=False)
                group.cancel_scope.cancel()
        except* OSError:  # the client left while something was sent
            pass


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
    scope.cancel()


class _Sending:
    """What is sent of a body, one piece after the other."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = anyio.Lock()
        self._sent = 0

    async def send(self, body: bytes, *, more: bool = True) -> None:
        async with self._lock:
            self._sent += 1
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def beat(self, seconds: float) -> None:
        while True:
            before = self._sent
            await anyio.sleep(seconds)
            if self._sent == before:
                await self.send(_BEAT)
