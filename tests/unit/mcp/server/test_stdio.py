"""Standard streams as a transport, over pipes of the test's: lines in, lines out, and how it ends."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from mcp.server.lowlevel.server import Server

from fxai import tool
from fxai.effects import Effect, fx
from fxai.mcp import ToolServer, serve_stdio
from fxai.mcp.server.server_options import ToolServerSettings
from fxai.mcp.server.server_transport import _claim_streams, _when_ready, over_descriptors
from fxai.tools import BoundToolkit

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ended: list[str] = []


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for what need not be waited for is found out."""
    monkeypatch.setattr("fxai.mcp.server.server_transport._GRACE", 60)


@tool
async def work(seconds: float) -> str:
    """Works, and notes its end."""
    try:
        await anyio.sleep(seconds)
    finally:
        ended.append("work")
    return "done"


@tool
def speak(size: int) -> str:
    """Says much."""
    return "x" * size


@tool
async def lose() -> str:
    """Awaits what other code cancelled."""
    caught: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await checkpoint()
        except BaseException as raised:
            caught.append(raised)
            raise
    raise caught[0]


def asked(number: int, method: str, **params: Any) -> bytes:
    """A request, as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def served(backend: str, lines: bytes, *, close: bool = True, late: bytes = b"", **options: Any) -> list[Any]:
    """What a server says to these lines until its input ends; with `late` that comes last, after a moment."""
    ended.clear()
    said: list[bytes] = []

    async def go(server: ToolServer) -> None:
        (source, given), (taken, sink) = os.pipe(), os.pipe()
        ends = [given]

        async def serve() -> None:
            try:
                with anyio.fail_after(20):
                    await over_descriptors(server.sdk, server.settings, source, sink)
            finally:
                os.close(sink)

        def read() -> None:
            while chunk := os.read(taken, 65536):
                said.append(chunk)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                group.start_soon(anyio.to_thread.run_sync, read)
                os.write(given, lines)
                if late:
                    await anyio.sleep(0.1)
                    os.write(given, late)
                os.close(ends.pop())
        finally:
            for descriptor in (source, taken, *ends):
                os.close(descriptor)

    opened: Effect[ToolServer, Any, Any] = ToolServer.open(
        BoundToolkit.make(work).merge(BoundToolkit.make(speak)).merge(BoundToolkit.make(lose)), **options
    )
    program = fx.scoped(opened.flat_map(lambda server: fx.wait(lambda: go(server))))
    fx.run(cast("Effect[Any]", program), backend=cast(Any, backend))
    return [json.loads(line) for line in b"".join(said).splitlines()]


def test_each_line_is_answered_before_the_end(backend: str) -> None:
    """What was asked before the input ended is answered, in full, though it takes a moment."""
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="work", arguments={"seconds": 0.1})
    said = {one["id"]: one for one in served(backend, lines)}

    assert said[1]["result"]["serverInfo"]["name"] == "fxai"
    assert said[2]["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_cancellation_that_nobody_requested_is_an_error_of_its_call(backend: str) -> None:
    """The server continues to serve: the call that ran beside it, and the call after it, are answered."""
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="work", arguments={"seconds": 0.2})
    late = asked(4, "tools/call", name="work", arguments={"seconds": 0})

    said = {one["id"]: one for one in served(backend, lines + asked(3, "tools/call", name="lose"), late=late)}

    assert [said[id_]["result"]["content"][0]["text"] for id_ in (2, 4)] == ["done", "done"]
    assert "internal error in the tool 'lose'" in said[3]["error"]["message"]


def test_what_takes_too_long_is_ended_with_the_input(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that goes on after its client has left gets a while, and is then interrupted."""
    monkeypatch.setattr("fxai.mcp.server.server_transport._GRACE", 0.1)
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="work", arguments={"seconds": 600})
    said = served(backend, lines)

    assert ("done" in str(said), ended) == (False, ["work"])


def test_a_call_that_was_taken_back_is_not_waited_for(backend: str) -> None:
    """Its handler ends when it is cancelled; the input's end finds nothing open."""
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="work", arguments={"seconds": 600})
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    odd: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}
    late = b"".join(json.dumps(one).encode() + b"\n" for one in (odd, cancelled))

    said = served(backend, lines, late=late)

    assert ("done" in str(said), ended) == (False, ["work"])


@pytest.mark.parametrize(
    "odd",
    [
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {"requestId": 3}},
        {"method": "notifications/cancelled", "params": {"requestId": None}},
        {"method": "notifications/initialized", "params": {"requestId": 2}},
        {"id": 2, "result": {}},
        {"id": 2, "error": {"code": 1, "message": "no"}},
    ],
)
def test_what_takes_nothing_back_ends_no_call(backend: str, odd: dict[str, Any]) -> None:
    """Other messages, and cancellations of nothing, leave a call as it is: it is answered though the input ends."""
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="work", arguments={"seconds": 0.05})
    said = served(backend, lines + json.dumps({"jsonrpc": "2.0", **odd}).encode() + b"\n")

    assert [one["result"]["content"][0]["text"] for one in said if one.get("id") == 2] == ["done"]


def test_what_takes_nothing_back_may_come_first(backend: str) -> None:
    """A cancellation before any request is none of a request, and ends nothing."""
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n'

    assert [one["id"] for one in served(backend, cancelled + asked(1, "initialize", **HELLO))] == [1]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_line_may_come_in_pieces(backend: str, cut: int) -> None:
    """A message is whole when its line ends, wherever it was cut on the way; without an end it is none."""
    line = asked(1, "initialize", **HELLO)

    assert [one["id"] for one in served(backend, line[:cut], late=line[cut:])] == [1]
    assert served(backend, line[:cut]) == []


def test_lines_without_anything_cost_little(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends nothing but line breaks holds up nobody: their number counts, and not its square."""
    monkeypatch.setattr("fxai.mcp.server.server_transport._CHUNK", 1 << 18)
    (tmp_path / "in").write_bytes(b"\n" * (1 << 18))

    async def go(server: ToolServer) -> None:
        with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
            await over_descriptors(server.sdk, server.settings, source.fileno(), sink.fileno())

    opened: Effect[ToolServer, Any, Any] = ToolServer.open(work)
    before = time.process_time()
    fx.run(fx.scoped(opened.flat_map(lambda server: fx.wait(lambda: go(server)))), backend=cast(Any, backend))

    assert time.process_time() - before < 5


def test_files_are_streams_too(backend: str, tmp_path: Path) -> None:
    """What event loops cannot wait for is read and written all the same."""
    (tmp_path / "in").write_bytes(asked(1, "initialize", **HELLO))

    async def go(server: ToolServer) -> None:
        with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink, anyio.fail_after(20):
            await over_descriptors(server.sdk, server.settings, source.fileno(), sink.fileno())

    opened: Effect[ToolServer, Any, Any] = ToolServer.open(work)
    program = fx.scoped(opened.flat_map(lambda server: fx.wait(lambda: go(server))))
    fx.run(cast("Effect[Any]", program), backend=cast(Any, backend))

    assert json.loads((tmp_path / "out").read_bytes())["id"] == 1


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"garbage\n", -32700, "not a JSON-RPC message"),
        (b"\xff\xfe\n", -32700, "not a JSON-RPC message"),
        (b"[" * 300 + b"\n", -32700, "not a JSON-RPC message"),
        (b"{}\n", -32700, "not a JSON-RPC message"),
        (b'{"jsonrpc":"2.0","id":9,"result":"\\ud800"}\n', -32700, "not a JSON-RPC message"),
        (b"x" * 401 + b"\n", -32600, "too long"),
        (b"x" * 10_000 + b"\n", -32600, "too long"),
    ],
)
def test_a_line_that_is_no_message_is_refused_and_the_next_is_read(
    backend: str, line: bytes, code: int, words: str
) -> None:
    """Garbage and what is too long are errors without an id; empty lines are nothing at all."""
    said = served(backend, b"\n \r\n" + line + b"\n" + asked(1, "initialize", **HELLO), max_body=400)
    errors = [one for one in said if "error" in one]

    assert errors == [{"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": errors[0]["error"]["message"]}}]
    assert words in errors[0]["error"]["message"]
    assert [one["id"] for one in said if "result" in one] == [1]


@pytest.mark.parametrize(("size", "fits"), [(400, True), (401, False)])
def test_a_line_is_as_long_as_is_allowed(backend: str, size: int, fits: bool) -> None:
    """Exactly `max_body` bytes are a message; the end of the line does not count."""
    padded = {**HELLO, "clientInfo": {"name": "t", "version": ""}}
    short = asked(1, "initialize", **padded)
    padded["clientInfo"] = {"name": "t", "version": "x" * (size + 1 - len(short))}
    (said,) = served(backend, asked(1, "initialize", **padded), max_body=400)

    assert ("result" in said) is fits


def test_the_end_of_a_long_line_is_no_message(backend: str) -> None:
    """What comes of a line after it was found to be too long belongs to it, though it would be a message by itself."""
    line = asked(1, "initialize", **HELLO)
    said = served(backend, b"x" * 401, late=line + line, max_body=400)

    assert [one["id"] for one in said] == [None, 1]


def test_a_large_answer_is_whole(backend: str) -> None:
    """What is larger than a pipe takes at once comes in one line all the same."""
    size = 300_000
    lines = asked(1, "initialize", **HELLO) + asked(2, "tools/call", name="speak", arguments={"size": size})
    said = {one["id"]: one for one in served(backend, lines)}

    assert said[2]["result"]["content"] == [{"type": "text", "text": "x" * size}]


def test_a_client_that_reads_no_more_ends_the_server(backend: str) -> None:
    """When nobody reads its output any more the server ends, and its calls with it, though its input is open."""

    async def go(server: ToolServer) -> bool:
        (source, given), (taken, sink) = os.pipe(), os.pipe()
        os.write(given, asked(1, "initialize", **HELLO))
        os.write(given, asked(2, "tools/call", name="work", arguments={"seconds": 600}))
        os.close(taken)
        with anyio.move_on_after(20) as waited:
            await over_descriptors(server.sdk, server.settings, source, sink)
        for descriptor in (source, given, sink):
            os.close(descriptor)
        return not waited.cancelled_caught

    opened: Effect[ToolServer, Any, Any] = ToolServer.open(work)
    fx.run(
        cast("Effect[Any]", fx.scoped(opened.flat_map(lambda one: fx.wait(lambda: go(one))))),
        backend=cast(Any, backend),
    )

    assert ended in ([], ["work"])


def test_a_server_that_ends_by_itself_ends_the_transport(backend: str) -> None:
    """Where the server stops there is nobody to read for: the input need not end."""

    class Stopping(Server[Any]):
        async def run(self, read_stream: Any, *_: Any, **__: Any) -> None:
            async with read_stream:
                await checkpoint()

    async def go() -> bool:
        (source, given), (taken, sink) = os.pipe(), os.pipe()
        with anyio.move_on_after(20) as waited:
            await over_descriptors(Stopping("brief"), ToolServerSettings(), source, sink)
        for descriptor in (source, given, taken, sink):
            os.close(descriptor)
        return not waited.cancelled_caught

    assert anyio.run(go, backend=backend)


def test_who_waits_in_a_thread_can_be_cancelled(backend: str) -> None:
    """Where the event loop cannot wait for a descriptor a thread does: a cancellation does not wait for it."""
    over = threading.Event()
    ended: list[bool] = []

    def read() -> None:
        ended.append(over.wait(20))

    async def refuse(_: int) -> None:
        await checkpoint()
        raise PermissionError

    async def go() -> list[bool]:
        try:
            with anyio.move_on_after(0.01):
                await _when_ready(0, refuse, read)
            return list(ended)
        finally:
            over.set()

    assert anyio.run(go, backend=backend) == []


@pytest.mark.parametrize("way", ["function", "method"])
def test_tools_are_served_on_the_standard_streams(backend: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function or a server that is there serves on them until the input ends, by its own limits."""
    (source, given), (taken, sink) = os.pipe(), os.pipe()
    left = {source, given, taken, sink}
    monkeypatch.setattr("fxai.mcp.server.server_transport._claim_streams", lambda: nullcontext((source, sink)))
    opened: Effect[ToolServer, Any, Any] = ToolServer.open(work, name="mine", max_body=400)
    method = fx.scoped(opened.flat_map(lambda server: server.serve_stdio()))
    program = serve_stdio(work, name="mine", max_body=400) if way == "function" else method

    def close(descriptor: int) -> None:
        left.remove(descriptor)
        os.close(descriptor)

    try:
        os.write(given, b"x" * 401 + b"\n" + asked(1, "initialize", **HELLO))
        close(given)
        fx.run(program.timeout(20), backend=cast(Any, backend))
        close(sink)
        said = [json.loads(line) for line in os.read(taken, 65536).splitlines()]
    finally:
        for descriptor in left:
            os.close(descriptor)

    assert [one["id"] for one in said] == [None, 1]
    assert said[1]["result"]["serverInfo"]["name"] == "mine"


def test_the_standard_streams_are_the_protocols_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a server has them, others read nothing and print to standard error; afterwards all is as it was."""
    kept = [os.dup(number) for number in range(3)]
    (source, given), (taken, sink), (complaints, errors) = pipes = [os.pipe() for _ in range(3)]
    try:
        for number, descriptor in enumerate((source, sink, errors)):
            os.dup2(descriptor, number)
        with open(1, "w", closefd=False) as printed:
            monkeypatch.setattr(sys, "stdout", printed)
            there = list(Path("/dev/fd").iterdir())
            printed.write("before ")
            with _claim_streams() as (protocol_in, protocol_out):
                printed.write("within")
                os.write(protocol_out, b"answer ")
                os.write(1, b"child ")
                os.write(given, b"line")
                read = os.read(protocol_in, 99), os.read(0, 99)
            printed.write("after")
            printed.flush()
            os.write(given, b"next")
            later, left = os.read(0, 99), list(Path("/dev/fd").iterdir())
        said, told = os.read(taken, 99), os.read(complaints, 99)
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
        for descriptor in (*kept, *(end for pipe in pipes for end in pipe)):
            os.close(descriptor)

    assert (read, later) == ((b"line", b""), b"next")
    assert (said, told) == (b"answer after", b"before child within")
    assert len(left) == len(there)
