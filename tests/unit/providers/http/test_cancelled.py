"""Requests that asyncio cancels, once or twice, in any turn of the loop: every answer that was begun is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from anyio.lowlevel import checkpoint
from typing_extensions import override

from fxai.effects import Schedule, fx
from fxai.providers.http import open_client
from tests.kit.every import every
from tests.kit.journal import turns

_TURNS = 16


class _Body(httpx2.AsyncByteStream):
    """A body that comes in pieces, then breaks off or stays away; closing it takes three turns."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        await checkpoint()
        yield b": nothing yet\n\n"
        await checkpoint()
        if self._wire.breaks:
            raise httpx2.ReadError("cut")
        await asyncio.get_running_loop().create_future()

    @override
    async def aclose(self) -> None:
        for _ in range(3):
            await checkpoint()
        self._wire.closed += 1


class _Wire(httpx2.AsyncBaseTransport):
    """Answers all with one status; counts what was begun and what was closed."""

    def __init__(self, status: int, kind: str, *, breaks: bool) -> None:
        self.begun = self.closed = 0
        self.breaks = breaks
        self._head = status, {"content-type": kind}

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await checkpoint()
        self.begun += 1
        return httpx2.Response(self._head[0], headers=self._head[1], stream=_Body(self))


def _asked(wire: _Wire, how: str) -> Any:
    again: Schedule[Any, Any] = Schedule.recurs(2)
    opened = open_client(base_url="http://peer.test", transport=wire, retry=again)
    if how == "post":
        return fx.scoped(opened.flat_map(lambda client: client.post("/", b"{}")))
    return fx.scoped(opened.flat_map(lambda client: client.events("/", b"{}").drain()))


@pytest.mark.slow
@every("breaks", [False, True], ids=["stays away", "breaks off"])
@every(("how", "status"), [("post", 200), ("post", 503), ("events", 200), ("events", 503)])
def test_every_answer_is_closed_however_often_asyncio_cancels(how: str, status: int, breaks: bool) -> None:
    """A whole answer, the words of an error, a stream, and each attempt before the last one."""
    kind = "text/event-stream" if how == "events" else "application/json"
    reached = set[tuple[int, int]]()

    async def cut(first: int, second: int | None) -> None:
        wire = _Wire(status, kind, breaks=breaks)
        task = asyncio.ensure_future(fx.run_async(_asked(wire, how).exit()))
        for pause in [first] if second is None else [first, second]:
            await turns(pause)
            task.cancel()
        await asyncio.wait([task])
        assert wire.begun == wire.closed
        reached.add((wire.begun, task.cancelled()))

    async def main() -> None:
        for first in range(_TURNS * (2 if breaks else 1)):
            for second in (None, 0, 1, 2, 3, 4):
                await cut(first, second)

    asyncio.run(main())

    assert {(0, True), (1, True)} <= reached
