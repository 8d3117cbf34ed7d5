"""Programs that speak MCP: what is written to them, which of their lines are taken, and how they are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as wire
import pytest
from mcp.shared.message import SessionMessage

from fxai.mcp import McpLimits
from fxai.mcp.client_transport import program_transport
from fxai.mcp.settings import ServerProgram
from fxai.mcp.watch import Watch
from tests.kit.mcp_peer import Peer

PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
PROGRAM = ServerProgram("peer", ())


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A program that does nothing by itself."""
    peer = Peer()
    peer.on = {}
    monkeypatch.setattr("fxai.mcp.client_transport.ChildProcess.start", peer.start)
    return peer


def request(id_: int) -> SessionMessage:
    """A request without parameters."""
    return SessionMessage(wire.JSONRPCRequest(jsonrpc="2.0", id=id_, method="ping"))


@pytest.mark.anyio
async def test_what_is_sent_is_one_line_of_what_was_said(peer: Peer) -> None:
    """A message has the members that it was given, a null among them, and no others."""
    null = SessionMessage(wire.JSONRPCNotification(jsonrpc="2.0", method="notifications/x", params={"a": None}))
    async with program_transport(PROGRAM, Watch(McpLimits())) as (_, writing):
        for message in (request(1), null):
            await writing.send(message)

    assert peer.heard == [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": None}},
    ]
    assert peer.ended == 1


@pytest.mark.anyio
async def test_what_was_accepted_is_written_before_the_end(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was taken when the block is left still reaches the program."""
    monkeypatch.setattr("fxai.mcp.client_transport._FLUSH", 20)
    heard_at_end: list[int] = []
    end = peer.end

    async def ended(**_: Any) -> None:
        heard_at_end.append(len(peer.heard))
        await end()

    monkeypatch.setattr(peer, "end", ended)
    async with program_transport(PROGRAM, Watch(McpLimits())) as (_, writing):
        await writing.send(request(1))

    assert (heard_at_end, peer.ended) == ([1], 1)


@pytest.mark.anyio
async def test_while_it_ends_its_output_is_drained(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody took any more does not hold it up; and nothing more is sent."""
    seen: list[Any] = []
    end = peer.end

    async def ended(**_: Any) -> None:
        await anyio.wait_all_tasks_blocked()
        seen.append(peer.stdout.statistics().current_buffer_used)
        with pytest.raises(anyio.ClosedResourceError):
            streams[0][1].send_nowait(request(1))
        await end()

    monkeypatch.setattr(peer, "end", ended)
    streams: list[Any] = []
    async with program_transport(PROGRAM, Watch(McpLimits())) as both:
        streams.append(both)
        for _ in range(5):
            peer.write(PING + b"\n")
        await anyio.wait_all_tasks_blocked()

    assert (seen, peer.ended) == ([0], 1)


@pytest.mark.anyio
async def test_one_that_reads_no_more_is_left_all_the_same(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it never takes is waited for only a while."""
    monkeypatch.setattr("fxai.mcp.client_transport._FLUSH", 0.01)
    peer.is_mute = True
    with anyio.fail_after(20):
        async with program_transport(PROGRAM, Watch(McpLimits())) as (_, writing):
            await writing.send(request(1))

    assert (peer.heard, peer.ended) == ([], 1)


@pytest.mark.anyio
async def test_one_that_cannot_be_written_to_has_ended(peer: Peer) -> None:
    """Its end is told when the message cannot be sent, though its output is still open."""
    async with program_transport(PROGRAM, Watch(McpLimits())) as (reading, writing):
        peer.exit_code = 1
        await writing.send(request(1))
        with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
            await reading.receive()


@pytest.mark.anyio
async def test_its_lines_are_its_messages(peer: Peer) -> None:
    """Each line is a message, or several in a list; empty ones are nothing, and what is no message is noise."""
    watch = Watch(McpLimits())
    async with program_transport(PROGRAM, watch) as (reading, _):
        peer.write(b"\n \r\n" + PING + b"\nnoise\n[" + PING + b"," + PING + b"]\n")
        peer.complain("one ")
        peer.complain("two")
        taken = [(await reading.receive()).message.method for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        peer.die(3)
        with pytest.raises(anyio.EndOfStream):
            await reading.receive()
        code = watch.process()

    assert (taken, code) == (["ping"] * 3, 3)
    assert watch.hints == "1 lines on its output were not messages, first 'noise'"
    assert watch.stderr == "one two"


@pytest.mark.anyio
async def test_an_answer_that_cannot_be_read_is_an_error_to_its_request(peer: Peer) -> None:
    """Whoever waits for it is told, and the next line is read."""
    watch = Watch(McpLimits())
    watch.before_send(request(7))
    async with program_transport(PROGRAM, watch) as (reading, _):
        peer.write(b'{"jsonrpc":"2.0","id":7,"result":{"x\n' + PING + b"\n")
        told = (await reading.receive()).message
        following = (await reading.receive()).message

    assert (told.id, told.error.code, following.id) == (7, wire.PARSE_ERROR, "p")


@pytest.mark.anyio
@pytest.mark.parametrize("last", [b"x" * 101, b"x" * 101 + b"\n", b"noise\n" * 3])
async def test_one_in_trouble_is_not_listened_to_but_drained(peer: Peer, last: bytes) -> None:
    """After the limit nothing is a message any more; what comes is read past, so that it can end by itself."""
    watch = Watch(McpLimits(message_bytes=100, noise=2))
    async with program_transport(PROGRAM, watch) as (reading, _):
        peer.write(last if last.startswith(b"x") else last + PING + b"\n")
        with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
            await reading.receive()
        for _ in range(5):
            peer.write(PING + b"\n")
        await anyio.wait_all_tasks_blocked()
        left = peer.stdout.statistics().current_buffer_used

    assert watch.trouble is not None
    assert watch.trouble[0] == ("limit" if last.startswith(b"x") else "invalid-answer")
    assert left == 0


@pytest.mark.anyio
@pytest.mark.parametrize("leave", ["by its end", "by an error"])
async def test_nothing_is_left_open(peer: Peer, leave: str) -> None:
    """However the block is left the program is ended, and both of its streams are closed."""
    streams: list[Any] = []

    async def use() -> None:
        async with program_transport(PROGRAM, Watch(McpLimits())) as both:
            streams.extend(both)
            if leave == "by an error":
                raise LookupError

    if leave == "by an error":
        with pytest.raises(BaseExceptionGroup) as caught:
            await use()
        assert caught.group_contains(LookupError)
    else:
        await use()
    uses: list[Callable[[], Any]] = [streams[0].receive, lambda: streams[1].send(request(1))]
    for one in uses:
        with pytest.raises(anyio.ClosedResourceError):
            await one()
    assert (peer.started, peer.ended) == (1, 1)
