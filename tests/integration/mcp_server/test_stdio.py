"""Our server as a program on standard input and output: clients that behave, that do not, and that leave."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PATIENCE = 30
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


def _call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Program:
    """The server, started: what it is sent, and what it says."""

    def __init__(self, backend: str) -> None:
        command = [sys.executable, "-m", "tests.kit.tool_servers", "stdio", backend]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)

    def send(self, *messages: Any) -> None:
        """Sends lines: bytes as they are, anything else as JSON."""
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """The next line that it says; it has to be JSON."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ends(self) -> tuple[int, list[Any], str]:
        """How it ends when its input does: the code, what else it said, and its standard error."""
        said, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, [json.loads(line) for line in said.splitlines()], errors.decode()


@contextmanager
def program(backend: str) -> Generator[Program]:
    """The server, ended by its process id whatever happens."""
    started = Program(backend)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def test_what_is_no_message_is_said_to_be_none() -> None:
    """Garbage is answered by parse errors, a line that is too long by a refusal, and then a request as ever."""
    garbage = [b"garbage\n", b"{\n", b"[]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"\n", b'{"jsonrpc": "2.0"}\n']
    with program("asyncio") as server:
        server.send(*garbage, b'{"id": "' + b"x" * (5 << 20) + b'"}\n', PING)
        said = [server.receive() for _ in range(8)]
        ended = server.ends()

    assert [one.get("error", {}).get("code") for one in said] == [-32700] * 6 + [-32600, None]
    assert said[-1] == {"jsonrpc": "2.0", "id": "ping", "result": {}}
    assert ended == (0, [], "")


def test_what_was_asked_before_the_input_ended_is_answered() -> None:
    """A script may write its requests and close: what can be answered soon is, and a line that is not ended is none."""
    with program("trio") as server:
        server.send(PING, b'{"jsonrpc": "2.0", "id": 1, "method": "pi')
        ended = server.ends()

    assert ended == (0, [{"jsonrpc": "2.0", "id": "ping", "result": {}}], "")


def test_a_client_that_leaves_interrupts_its_calls(backend: str) -> None:
    """When the input ends in the middle of a call, its finalizers run; what handlers print is on standard error."""
    with program(backend) as server:
        server.send(_call("linger", 1, seconds=600), _call("add", 2, a=1, b=2))
        answer = server.receive()
        code, rest, errors = server.ends()

    assert answer["result"]["content"] == [{"type": "text", "text": "3"}]
    assert (code, [one["id"] for one in rest]) == (0, [1])
    assert "a handler prints" in errors
    assert "linger has ended" in errors


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interruption_ends_it_cleanly(backend: str) -> None:
    """Ctrl-C ends a server that waits for input, or runs a call, with all finalizers run."""
    with program(backend) as server:
        server.send(_call("linger", 1, seconds=600), _call("add", 2, a=1, b=2))
        server.receive()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(PATIENCE)
        _, _, errors = server.ends()

    assert "linger has ended" in errors
    assert "interrupted" in errors


def test_a_client_that_does_not_read_holds_up_nobody_else() -> None:
    """Answers that nobody reads fill the pipe and wait there; when the client closes it the server ends."""
    with program("trio") as server:
        server.send(
            *({"jsonrpc": "2.0", "id": n, "method": "tools/list", "params": {"_meta": META}} for n in range(40))
        )
        server.receive()
        assert server.process.stdout is not None
        server.process.stdout.close()
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.stderr is not None
        server.process.stderr.close()
        code = server.process.wait(PATIENCE)

    assert code == 0
