"""A server in memory: what a program would write and read, said by the test, byte by byte and with no program.

Nothing here waits for time to pass: `run` leaps to whatever is waited for next, when nothing else is left to do.
"""

from __future__ import annotations

import asyncio
import json
import math
import selectors
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias, TypeVar, final

import anyio
import pytest
from trio.testing import MockClock
from typing_extensions import override

from fxai import fx, mcp
from fxai.effects import Effect, EffectOf, Exit, Failed, Succeeded

__all__ = ["MODERN", "Message", "Peer", "Run", "failure_of", "leaping", "run", "run_exit", "tool", "used"]

Message: TypeAlias = dict[str, Any]
Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]
_A = TypeVar("_A")

MODERN = "2026-07-28"


def tool(name: str, **more: Any) -> Message:
    """A tool of a listing."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


@final
class Peer:
    """A server that answers by its rules, at once, and says what it is told to.

    `on` holds, by method, what is done with a request; what is not there is refused as unknown.
    """

    def __init__(self, version: str = "2025-11-25") -> None:
        self.version = version
        self.on_answer: Callable[[Message], Any] = str
        self.tools: list[Any] = [tool("search")]
        self.heard: list[Message] = []
        """All that the client said."""
        self.exit_code: int | None = None
        self.started = 0
        self.env: Mapping[str, str] = {}
        self.ended = 0
        self.farewell = 0.0
        """Seconds that it takes to end."""
        self.is_mute = False
        """Whether it reads nothing more: what is written to it waits."""
        self.on: dict[str, Callable[[Message], Any]] = {
            "initialize": lambda request: self.answer(request, self.greeting),
            "tools/list": lambda request: self.answer(request, {"tools": self.tools, **self.modern_fields}),
            "tools/call": lambda request: self.answer(request, self.text("found")),
        }
        if version == MODERN:
            self.on["server/discover"] = lambda request: self.answer(request, self.discovery)
        self.stdin = self

    # -- what it says

    @property
    def greeting(self) -> Message:
        """The answer to `initialize`."""
        info = {"name": "by-hand", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        return {"protocolVersion": self.version, "capabilities": capabilities, "serverInfo": info}

    @property
    def discovery(self) -> Message:
        """The answer to `server/discover`."""
        capabilities = {"tools": {"listChanged": True}}
        return {"supportedVersions": [MODERN], "capabilities": capabilities, **self.modern_fields}

    @property
    def modern_fields(self) -> Message:
        """What every result has since 2026-07-28."""
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.version == MODERN else {}

    def text(self, said: str, **more: Any) -> Message:
        """A result of one text."""
        own = {"resultType": "complete"} if self.version == MODERN else {}
        return {"content": [{"type": "text", "text": said}], **own, **more}

    def write(self, line: bytes) -> None:
        """Writes to its standard output."""
        self._out.send_nowait(line)

    def say(self, **message: Any) -> None:
        """Says a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: Message, result: Any) -> None:
        """Answers a request."""
        self.say(id=request["id"], result=result)

    def refuse(self, request: Message, code: int, said: str = "no", **more: Any) -> None:
        """Answers a request with an error."""
        self.say(id=request["id"], error={"code": code, "message": said, **more})

    def notify(self, method: str, **params: Any) -> None:
        """Sends a notification."""
        self.say(method=f"notifications/{method}", params=params)

    def complain(self, said: str) -> None:
        """Writes to its standard error."""
        self._err.send_nowait(said.encode())

    def close(self) -> None:
        """Closes its standard output."""
        self._out.close()

    def die(self, code: int | None) -> None:
        """Ends; with no code it only closes its output."""
        self.exit_code = code
        self._out.close()
        self._err.close()

    def calls(self, method: str) -> list[Message]:
        """The parameters of all that the client said by this method."""
        return [message.get("params", {}) for message in self.heard if message.get("method") == method]

    # -- as a child process

    async def start(self, *_: Any, env: Mapping[str, str], **__: Any) -> Peer:
        """Starts it; again where it has ended."""
        self._out, self.stdout = anyio.create_memory_object_stream[bytes](math.inf)
        self._err, self.stderr = anyio.create_memory_object_stream[bytes](math.inf)
        self.exit_code = None
        self.started += 1
        self.env = env
        return self

    async def send(self, data: bytes) -> None:
        """Hears what is written to its standard input."""
        await anyio.lowlevel.checkpoint()
        if self.is_mute:
            await anyio.sleep_forever()
        if self.exit_code is not None:
            raise anyio.BrokenResourceError
        for line in data.splitlines():
            self.hear(json.loads(line))

    def hear(self, message: Message) -> None:
        """Takes a message: an answer to a question of its own is given to `on_answer`."""
        self.heard.append(message)
        if "method" not in message:
            self.on_answer(message)
            return
        if "id" not in message:
            return
        if message["method"] in self.on:
            self.on[message["method"]](message)
        else:
            self.refuse(message, -32601, f"no method {message['method']}")

    async def end(self, **_: Any) -> None:
        """Ends, when its client is done with it."""
        await anyio.sleep(self.farewell)
        self.ended += 1
        self.exit_code = 0 if self.exit_code is None else self.exit_code
        for stream in (self._out, self._err, self.stdout, self.stderr):
            stream.close()

    # -- in a test

    def serve(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> mcp.McpServer:
        """The server to open, for as long as the test takes."""
        monkeypatch.setattr("fxai.mcp.client_transport.ChildProcess.start", self.start)
        given: dict[str, Any] = {"name": "peer", "grace": 0.0, **options}
        return mcp.stdio("peer", **given)


def used(server: mcp.McpServer, f: Callable[[mcp.Connection], Run]) -> Effect[Any, Any]:
    """What `f` gives with the server open."""
    return fx.scoped(server.open().flat_map(fx.gen(f)))


def failure_of(effect: Effect[Any, Any], backend: Any) -> Any:
    """The one typed failure of an effect."""
    end = run_exit(effect, backend)
    assert isinstance(end, Failed)
    (failure,) = end.cause.failures
    return failure


# -- time


@final
class _Leaping(selectors.DefaultSelector):
    """Waits for no timer: when nothing is ready, the time is at once that of the next one."""

    now = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            return super().select(None)
        self.now += 0.0 if ready or timeout is None else timeout
        return ready


@final
class _LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop on the time of its selector."""

    def __init__(self) -> None:
        self._clock = _Leaping()
        super().__init__(self._clock)

    @override
    def time(self) -> float:
        return self._clock.now


def leaping(backend: str) -> dict[str, Any]:
    """The options of `anyio.run` for a clock that leaps to whatever is waited for, once nothing else can run."""
    options = {"loop_factory": _LeapingLoop} if backend == "asyncio" else {"clock": MockClock(autojump_threshold=0)}
    return {"backend": backend, "backend_options": options}


def run_exit(effect: Effect[_A, Any], backend: str) -> Exit[_A, Any]:
    """How an effect ends, without waiting for time to pass."""
    return anyio.run(fx.run_async_exit, effect, **leaping(backend))


def run(effect: Effect[_A, Any], backend: str) -> _A:
    """What an effect gives, without waiting for time to pass."""
    end = run_exit(effect, backend)
    assert isinstance(end, Succeeded), end
    return end.value
