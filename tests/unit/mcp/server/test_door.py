"""The guard by itself, before an application of the test's: each message of ASGI that goes in and comes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from fxai.mcp import HttpOptions
from fxai.mcp.server.server_options import HttpSettings
from fxai.mcp.server.server_transport import Guard
from tests.kit.every import every

Message: TypeAlias = dict[str, Any]
HEADERS = {"host": "localhost", "origin": "http://localhost", "authorization": "Bearer t", "content-length": "2"}


class Inside:
    """The application behind the guard: it notes what it gets, and answers."""

    def __init__(self) -> None:
        self.got: list[Message] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Reads two messages and answers."""
        self.got += [await receive(), await receive()]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": b"fine"})


def door(
    backend: str,
    messages: Iterable[Message] = (),
    headers: Iterable[tuple[str, str]] = HEADERS.items(),
    *,
    kind: str = "http",
    asked: str = "/mcp",
    method: str = "POST",
    max_body: int = 4,
    **options: Any,
) -> tuple[list[Message], list[Message]]:
    """What a guard says to these messages, and what it lets through."""
    left, inside = list(messages), Inside()
    said: list[Message] = []

    async def receive() -> Message:
        await checkpoint()
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await checkpoint()
        said.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    guard = Guard(inside, HttpSettings.of(cast(HttpOptions, {"token": "t", **options})), max_body)
    anyio.run(guard, {"type": kind, "method": method, "path": asked, "headers": raw}, receive, send, backend=backend)
    return said, inside.got


def body(*pieces: bytes) -> list[Message]:
    """The messages of a body that comes in these pieces."""
    last = len(pieces) - 1
    return [{"type": "http.request", "body": piece, "more_body": at < last} for at, piece in enumerate(pieces)]


def status(said: list[Message]) -> int:
    """The status of an answer."""
    first = said[0]["status"]
    assert isinstance(first, int)
    return first


def test_a_body_goes_through_in_one_piece(backend: str) -> None:
    """What comes in pieces is one message for the application, followed by whatever comes after."""
    said, got = door(backend, body(b"a", b"", b"bc"))

    assert got == [{"type": "http.request", "body": b"abc", "more_body": False}, {"type": "http.disconnect"}]
    assert status(said) == 200
    assert said[-1] == {"type": "http.response.body", "body": b"fine"}


def test_a_page_that_may_is_told_that_it_may_read(backend: str) -> None:
    """The answer keeps its own headers, and says which origin may read it; one without an origin says nothing."""
    page = dict(door(backend, body(b"a"))[0][0]["headers"])
    program = dict(door(backend, body(b"a"), list(HEADERS.items())[:1] + list(HEADERS.items())[2:])[0][0]["headers"])

    assert program == {b"x-own": b"1"}
    assert page == {
        b"x-own": b"1",
        b"access-control-allow-origin": b"http://localhost",
        b"access-control-expose-headers": b"*",
        b"vary": b"Origin",
    }


def test_a_browser_that_asks_first_is_told_what_it_may_send(backend: str) -> None:
    """The answer before a page's request names methods and headers, and needs no token; nothing goes through."""
    said, got = door(backend, headers=list(HEADERS.items())[:2], method="OPTIONS")
    headers = dict(said[0]["headers"])

    assert (status(said), got) == (204, [])
    assert headers[b"access-control-allow-methods"] == b"GET, POST, DELETE"
    assert headers[b"access-control-allow-headers"] == b"*, Authorization"
    assert headers[b"access-control-max-age"] == b"600"
    assert headers[b"access-control-allow-origin"] == b"http://localhost"


@every(
    ("size", "declared", "let_in"),
    [
        (4, "4", True),
        (4, None, True),
        (4, "0" * 30 + "4", True),
        (5, None, False),
        (1, "5", False),
        (5, "1", False),
        (1, "9" * 5_000, False),
    ],
)
def test_a_body_is_as_large_as_is_allowed(backend: str, size: int, declared: str | None, let_in: bool) -> None:
    """Exactly `max_body` bytes go through; more are refused by what is said of them or by what comes, and not read."""
    headers = (
        {**HEADERS, "content-length": declared} if declared else {"host": "localhost", "authorization": "Bearer t"}
    )
    said, got = door(backend, body(*[b"x"] * size), headers.items())

    assert (status(said), bool(got)) == ((200, True) if let_in else (413, False))
    assert (dict(said[0]["headers"]).get(b"connection") == b"close") is not let_in


def test_a_client_that_goes_away_is_told_nothing(backend: str) -> None:
    """One that leaves in the middle of its body is answered nothing, and nothing of it goes through."""
    assert door(backend, body(b"a", b"b")[:1]) == ([], [])


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_says_two_things_is_refused(backend: str, name: str) -> None:
    """What decides may come once: whoever stands before the server may have looked at the other one."""
    said, got = door(backend, body(b"ab"), [*HEADERS.items(), (name, HEADERS[name])])

    assert (status(said), got) == (400, [])
    assert name.encode() in said[1]["body"]


def test_a_request_without_a_host_is_refused(backend: str) -> None:
    """No host is none that the server answers for."""
    said, got = door(backend, body(b"ab"), [("authorization", "Bearer t")])

    assert (status(said), got) == (421, [])


@every(
    ("path", "asked", "found"),
    [
        ("/mcp", "/mcp/", True),
        ("/mcp/", "/mcp", True),
        ("/", "/", True),
        ("/", "", True),
        ("/mcp", "/mcp/x", False),
        ("/mcp", "/MCP", False),
        ("/mcp", "//mcp", False),
        ("/mcp", "/", False),
    ],
)
def test_only_its_path_is_there(backend: str, path: str, asked: str, found: bool) -> None:
    """A slash at the end makes no difference, anything else does; what is not there says where the tools are."""
    said, _ = door(backend, body(b"ab"), asked=asked, path=path)

    assert status(said) == (200 if found else 404)


def test_the_start_and_the_end_of_its_server_are_answered(backend: str) -> None:
    """The lifespan is followed to its end: both events are said to be complete, each once, and nothing goes through."""
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    said, got = door(backend, events, kind="lifespan")

    assert said == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]
    assert got == []


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_a_websocket_is_refused(backend: str, host: str) -> None:
    """No websocket goes through, whoever asks: it is closed at once, and nothing is let in."""
    said, got = door(backend, [{"type": "websocket.connect"}], [("host", host)], kind="websocket")

    assert (said, got) == ([{"type": "websocket.close", "code": 1000}], [])
