"""Servers at an address: what HTTP adds, and what can go wrong with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeAlias

import pytest
from typing_extensions import override

from fxai import fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection, McpLimits
from fxai.providers.http import Secret
from tests.kit.mcp_programs import failure_of, used

# The SDK leaves an event stream in the middle, httpx2 an answer that is too large: trio remarks on their generators.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator 'httpx2:ResourceWarning", "ignore:Async generator 'httpcore2:ResourceWarning"
)

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]

_TOOL = {"name": "search", "inputSchema": {"type": "object"}}
_RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "by-hand", "version": "1"},
    },
    "tools/list": {"tools": [_TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "found"}]},
}


class _Handler(BaseHTTPRequestHandler):
    """A server whose behaviour is the path of its address."""

    seen: ClassVar[list[tuple[str, str | None, str | None]]] = []
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self.seen.append(("DELETE", self.headers.get("mcp-session-id"), None))
        self._send(200, b"", "text/plain")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = request.get("method")
        self.seen.append((method, self.headers.get("authorization"), self.headers.get("x-key")))
        bad = _BAD.get(self.path)
        if bad is not None and (self.path != "/drops" or method == "tools/call"):
            bad(self, request)
        elif "id" not in request:
            self._send(202, b"", "text/plain")
        elif method not in _RESULTS:
            self._answer(request, error={"code": -32601, "message": "no such method"})
        elif self.path == "/sse":
            self._send(200, _event(request), "text/event-stream")
        else:
            self._answer(request, result=_RESULTS[method])

    def _answer(self, request: Any, **how: Any) -> None:
        self._send(200, json.dumps({"jsonrpc": "2.0", "id": request["id"], **how}).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        if self.path == "/sessions":
            self.send_header("mcp-session-id", "s-1")
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, request: Any) -> None:
        """Answers with a status alone."""
        self._send(int(self.path[1:]), b"<html>no</html>", "text/html")

    def overflow(self, request: Any) -> None:
        """Answers with more than anybody wants."""
        self._send(200, b'{"x": "' + b"x" * 300_000 + b'"}', "application/json")

    def garble(self, request: Any) -> None:
        """Answers with what is no JSON."""
        self._send(200, b"{" * 100, "application/json")

    def page(self, request: Any) -> None:
        """Answers with a page for people."""
        self._send(200, b"<html>Welcome</html>", "text/html")

    def hang(self, request: Any) -> None:
        """Does not answer."""
        time.sleep(1)
        self.close_connection = True

    def drop(self, request: Any) -> None:
        """Closes the connection in the middle of its answer."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"jsonrpc"')
        self.close_connection = True

    def elsewhere(self, request: Any) -> None:
        """Sends the client to another machine."""
        self._send(307, b"", "text/plain", location="http://127.0.0.2:9/steal")

    @override
    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that goes away is what some of the tests are about
            super().handle()

    @override
    def log_message(self, format: str, *args: Any) -> None:
        del format, args


_BAD: dict[str, Any] = {
    "/401": _Handler.refuse,
    "/403": _Handler.refuse,
    "/500": _Handler.refuse,
    "/large": _Handler.overflow,
    "/garbled": _Handler.garble,
    "/page": _Handler.page,
    "/hangs": _Handler.hang,
    "/drops": _Handler.drop,
    "/elsewhere": _Handler.elsewhere,
}


def _event(request: Any) -> bytes:
    answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": _RESULTS[request["method"]]})
    return f"event: message\ndata: {answer}\n\n".encode()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the server by hand, without a path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def _called(connection: Connection) -> Run:
    value = yield connection.call("search")
    return connection.info.protocol_version, [tool.name for tool in connection.tools], value


@pytest.mark.parametrize("path", ["/", "/sse", "/sessions"])
def test_a_server_at_an_address_is_used_as_any_other(path: str, address: str, backend: Any) -> None:
    """Answers come as JSON or as events, with a session or without; a session is ended with the scope."""
    _Handler.seen.clear()

    told = fx.run(used(mcp.http(address + path), _called), backend=backend)

    assert told == ("2025-06-18", ["search"], {"content": [{"type": "text", "text": "found"}]})
    assert (("DELETE", "s-1", None) in _Handler.seen) == (path == "/sessions")


def test_headers_and_token_are_sent_with_every_request(address: str, backend: Any) -> None:
    """A token goes as the bearer of every request, beside other headers; it may be a `Secret`."""
    _Handler.seen.clear()
    server = mcp.http(address, token=Secret("tok-1"), headers={"X-Key": "k"})

    fx.run(used(server, _called), backend=backend)

    assert {(token, key) for _, token, key in _Handler.seen} == {("Bearer tok-1", "k")}


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/401", "authentication", "HTTP 401 Unauthorized. Pass a token="),
        ("/403", "authentication", "HTTP 403 Forbidden. Pass a token="),
        ("/500", "connection", "HTTP 500"),
        ("/large", "limit", "more than 100000 bytes"),
        ("/garbled", "invalid-answer", "JSON"),
        ("/page", "protocol", "text/html"),
        ("/hangs", "timeout", "did not answer within 0.5 s"),
        ("/elsewhere", "protocol", "not followed"),
    ],
)
def test_a_bad_answer_over_http_is_a_clear_failure(
    path: str, kind: str, words: str, address: str, backend: Any
) -> None:
    """A refusal, a server's error, an answer too large, no JSON, a page, silence, a way elsewhere: each says so."""
    wait = 0.5 if kind == "timeout" else 30.0
    server = mcp.http(address + path, timeout=wait, limits=McpLimits(message_bytes=100_000))

    failure = failure_of(used(server, _called), backend)

    assert failure.kind == kind
    assert failure.server == "127.0.0.1"
    assert words in str(failure)


def test_nobody_at_an_address_is_a_failure_that_names_it(backend: Any) -> None:
    """An address where nothing listens cannot be reached: the failure says the address and what to look at."""
    failure = failure_of(used(mcp.http("http://127.0.0.1:9/mcp"), _called), backend)

    assert failure.kind == "connection"
    assert "cannot reach 'http://127.0.0.1:9/mcp'" in str(failure)


def test_an_answer_that_is_cut_fails_its_call_alone(address: str, backend: Any) -> None:
    """A connection that drops in one call is that call's failure; the server can be asked again."""

    def twice(connection: Connection) -> Run:
        first = yield connection.call("search").exit()
        bound = yield connection.refresh()
        return first.cause.failures[0].kind, list(bound.toolkit.tools)

    told = fx.run(used(mcp.http(f"{address}/drops"), twice), backend=backend)

    assert told == ("invalid-answer", ["search"])


def test_an_address_that_is_none_is_refused() -> None:
    """What is no address of http or https is an error that says what to write."""
    with pytest.raises(ValueError, match=r"mcp\.stdio"):
        mcp.http("uvx mcp-server-git")
