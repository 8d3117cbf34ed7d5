"""What asyncio itself cancels, in any turn and more than once: no program and no answer of a server is left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx2
import pytest
from typing_extensions import override

from fxai.mcp import McpLimits
from fxai.mcp.client_transport import _Raw, program_transport
from fxai.mcp.settings import ServerProgram
from fxai.mcp.watch import Watch
from tests.kit.journal import running_tasks, turns
from tests.kit.mcp_peer import Peer, leaping

AGAIN = pytest.mark.parametrize("again", [[0], [1], [2, 1], [1, 1, 1]], ids=str)


async def cut(using: Awaitable[None], pauses: list[int]) -> bool:
    """Cancels it after each of the pauses, in turns; whether it was over before."""
    before = running_tasks()
    task = asyncio.ensure_future(using)
    await turns(pauses[0] + 1)
    was_over = task.done()
    for pause in [0, *pauses[1:]]:
        await turns(pause)
        task.cancel()
    await asyncio.wait([task])
    assert was_over or task.cancelled()
    assert running_tasks() == before
    return was_over


def in_every_turn(look: Callable[[int], Awaitable[bool]]) -> None:
    """Runs it for each number of turns, until the program is over by then."""

    async def main() -> None:
        for number in range(100):
            if await look(number):
                assert number > 2
                return
        raise AssertionError("it is never over")

    anyio.run(main, **leaping("asyncio"))


@AGAIN
def test_a_program_is_ended_in_whichever_turn_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, again: list[int]
) -> None:
    """Also while what was accepted is written, and while it ends."""

    async def look(number: int) -> bool:
        peer = Peer()
        end = peer.end

        async def ended(**_: Any) -> None:
            await turns(6)
            await end()

        async def use() -> None:
            async with program_transport(ServerProgram("peer", ()), Watch(McpLimits())):
                await turns(3)

        monkeypatch.setattr(peer, "end", ended)
        monkeypatch.setattr("fxai.mcp.client_transport.ChildProcess.start", peer.start)
        was_over = await cut(use(), [number, *again])
        assert peer.ended == peer.started
        return was_over

    in_every_turn(look)


class Body(httpx2.AsyncByteStream):
    """A body of two pieces, which takes some turns to come and to be closed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_closed = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in (self.text[:9], self.text[9:]):
            await turns(2)
            yield piece.encode()

    @override
    async def aclose(self) -> None:
        await turns(4)
        self.is_closed = True


@AGAIN
def test_an_answer_that_is_closed_is_closed_whole(again: list[int]) -> None:
    """Whoever closes it is cancelled in any turn of that, and more than once."""

    async def look(number: int) -> bool:
        body = Body("a long enough text")
        was_over = await cut(_Raw(httpx2.Response(200, stream=body), Watch(McpLimits())).aclose(), [number, *again])
        assert body.is_closed
        return was_over

    in_every_turn(look)
