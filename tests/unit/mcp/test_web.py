"""Servers at an address, in memory: what comes back for a call, byte by byte, and what is told of it."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as wire
import pytest
from mcp.client import streamable_http
from typing_extensions import override

from fxai import fx, mcp
from fxai.effects import EffectOf, Succeeded
from fxai.mcp import Connection, McpLimits
from fxai.mcp.client_transport import _Raw
from fxai.mcp.watch import Watch
from tests.kit.every import every
from tests.kit.mcp_peer import failure_of, used

# The SDK leaves an event stream in the middle: trio remarks on the generators that it is made of.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'httpx2:ResourceWarning")

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]
Answer: TypeAlias = Callable[[str], httpx2.Response]

DEEP = "[" * 5_000 + "]" * 5_000
FINE = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"found"}]}}'
ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "by-hand", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]},
}


def as_json(text: str, status: int = 200, **headers: str) -> Answer:
    """An answer of one JSON text, in which ID stands for the id of the request."""
    given = {"content-type": "application/json", **headers}
    return lambda id_: httpx2.Response(status, headers=given, content=text.replace("ID", id_).encode())


def as_events(text: str) -> Answer:
    """An answer of one event."""
    given = {"content-type": "text/event-stream"}
    return lambda id_: httpx2.Response(200, headers=given, content=f"data: {text.replace('ID', id_)}\n\n".encode())


class Body(httpx2.AsyncByteStream):
    """A body that comes in pieces, breaks off or stays open, and knows how much of it was read, and if it is closed."""

    def __init__(self, *pieces: str | Exception, ends: bool = True) -> None:
        self.pieces = pieces
        self.ends = ends
        self.taken = 0
        self.is_closed = False
        self.is_left = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                await anyio.lowlevel.checkpoint()
                if isinstance(piece, Exception):
                    raise piece
                self.taken += 1
                yield piece.encode()
            if not self.ends:
                await anyio.sleep_forever()
        finally:
            self.is_left = True

    @override
    async def aclose(self) -> None:
        self.is_closed = True

    def answer(self, kind: str = "application/json") -> httpx2.Response:
        """The response with this body."""
        return httpx2.Response(200, headers={"content-type": kind}, stream=self)


def serving(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, session: str = "", **options: Any
) -> tuple[mcp.McpServer, list[Any]]:
    """A server whose calls are answered so, and the requests that it gets.

    With `session` it has sessions, whose end it answers with that text.
    """
    heard: list[Any] = []
    more = {"mcp-session-id": "s"} if session else {}

    def handle(request: httpx2.Request) -> httpx2.Response:
        heard.append(request)
        if request.method == "DELETE" and session:
            return as_json(session)("")
        if request.method != "POST":
            return httpx2.Response(405)
        problem = json.loads(request.content)
        if problem.get("method") == "tools/call":
            return answer(json.dumps(problem["id"]))
        if "id" not in problem:
            return httpx2.Response(202)
        if problem["method"] in ANSWERS:
            result = json.dumps({"jsonrpc": "2.0", "id": problem["id"], "result": ANSWERS[problem["method"]]})
            return as_json(result, 200, **more)("")
        return as_json('{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}')(json.dumps(problem["id"]))

    class InMemory(httpx2.AsyncClient):
        def __init__(self, transport: Any = None, **given: Any) -> None:
            super().__init__(transport=transport or httpx2.MockTransport(handle), **given)

    monkeypatch.setattr("fxai.mcp.client_transport.httpx2.AsyncClient", InMemory)
    given: dict[str, Any] = {"mode": "legacy", **options}
    return mcp.http("http://localhost/mcp", **given), heard


def _called(connection: Connection) -> Run:
    return (yield connection.call("search", {"q": 1}).timeout(20))


@pytest.mark.parametrize("answer", [as_json(FINE), as_events(FINE)])
def test_an_answer_is_taken_as_json_or_as_an_event(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, backend: Any
) -> None:
    """Either way of answering gives the call its value."""
    server, _ = serving(monkeypatch, answer)

    assert fx.run(used(server, _called), backend=backend) == {"content": [{"type": "text", "text": "found"}]}


@every("way", [as_json, as_events])
@every(
    ("text", "why"),
    [
        (r'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\u00"}]}}', "escape"),
        (f'{{"jsonrpc":"2.0","id":ID,"result":{{"x":{DEEP}}}}}', "nested too deep"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"ty', "EOF"),
        ("[" + FINE + "]", "not a JSON-RPC message"),
        ("null", "not a JSON-RPC message"),
        ("<html>", "expected value"),
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_call_at_once(
    monkeypatch: pytest.MonkeyPatch, text: str, why: str, way: Callable[[str], Answer], backend: Any
) -> None:
    """However it came, the failure says in a few words why it is no JSON, and nothing of what it holds."""
    server, _ = serving(monkeypatch, way(text))

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, failure.tool, failure.remedy) == (
        "invalid-answer",
        "search",
        "Report this to the server's authors",
    )
    assert failure.problem.startswith("cannot read the answer as JSON: ")
    assert why in failure.problem
    assert len(failure.problem) < 150


@every(
    "text",
    [
        '{"jsonrpc":"2.0","id":9999,"result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":"x","result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":9999,"error":{"code":1,"message":"m"}}',
        '{"jsonrpc":"2.0","id":null,"result":{"content":[]}}',
        '{"jsonrpc":"2.0","result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":ID,"method":"ping"}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}',
        "{}",
    ],
)
def test_a_message_that_answers_something_else_fails_its_call_at_once(
    monkeypatch: pytest.MonkeyPatch, text: str, backend: Any
) -> None:
    """Nothing else comes where another answer came: the call does not wait for it until its time is over."""
    server, _ = serving(monkeypatch, as_json(text))

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, failure.tool) == ("invalid-answer", "search")
    assert failure.problem == "sent a message that does not answer the request"


def test_an_error_that_names_no_request_is_this_one_s(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A server that cannot read what it is sent says so without an id: the call fails with its error."""
    server, _ = serving(monkeypatch, as_json('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}'))

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, failure.code, failure.problem) == (
        "invalid-answer",
        -32700,
        "answered with the error -32700: what?",
    )


@every(
    ("status", "kind", "problem", "remedy"),
    [
        (401, "authentication", "answered HTTP 401 Unauthorized", "Pass a token= or headers= that the server accepts"),
        (403, "authentication", "answered HTTP 403 Forbidden", "Pass a token= or headers= that the server accepts"),
        (407, "authentication", "answered HTTP 407 Proxy Authentication Required", "Pass a token= or headers="),
        (429, "connection", "answered HTTP 429 Too Many Requests", "Try again later"),
        (500, "connection", "answered HTTP 500 Internal Server Error", "Try again later"),
        (503, "connection", "answered HTTP 503 Service Unavailable", "Try again later"),
        (599, "connection", "answered HTTP 599", "Try again later"),
        (404, "protocol", "Not Found", ""),
        (410, "protocol", "Server returned an error response", ""),
        (302, "protocol", "not followed", ""),
        (202, "protocol", "202 Accepted", ""),
        (204, "protocol", "content type", ""),
    ],
)
def test_a_status_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: str, problem: str, remedy: str, backend: Any
) -> None:
    """A refusal asks for a token, a server in trouble for patience; what else is no answer is told as it is."""
    more = {"location": "http://x.example/", **({} if status < 400 else {"content-type": "application/json"})}
    server, _ = serving(monkeypatch, lambda _: httpx2.Response(status, headers=more, content=b'{"id":5,"detail":"no"}'))

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, failure.tool) == (kind, "search")
    assert problem in failure.problem
    assert failure.remedy.startswith(remedy)


@pytest.mark.parametrize("status", [401, 500])
def test_an_error_of_the_protocol_is_told_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, status: int, backend: Any
) -> None:
    """A refusal that says more than its status, in JSON-RPC, is that error."""
    text = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32003,"message":"pay first"}}'
    server, _ = serving(monkeypatch, as_json(text, status))

    failure = failure_of(used(server, _called), backend)

    assert (failure.code, failure.problem) == (-32003, "answered with the error -32003: pay first")


@pytest.mark.parametrize(("size", "fits"), [(1_000, True), (1_001, False)])
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_is_as_large_as_is_allowed(
    monkeypatch: pytest.MonkeyPatch, size: int, fits: bool, status: int, backend: Any
) -> None:
    """Exactly `message_bytes` are read; of one that is larger the call is told, and its status where it has one."""

    def answer(id_: str) -> httpx2.Response:
        head, tail = f'{{"jsonrpc":"2.0","id":{id_},"error":{{"code":5,"message":"m","data":"', '"}}'
        return as_json(head + "x" * (size - len(head) - len(tail)) + tail, status)("")

    server, _ = serving(monkeypatch, answer, limits=McpLimits(message_bytes=1_000))

    failure = failure_of(used(server, _called), backend)

    if fits:
        assert failure.code == 5
    else:
        assert failure.kind == ("limit" if status == 200 else "connection")
        assert ("more than 1000 bytes" if status == 200 else "answered HTTP 500") in failure.problem


def test_a_body_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What exceeds the limit is not waited for: reading stops there, and the answer is closed."""
    body = Body(*["x" * 100] * 100)
    server, _ = serving(monkeypatch, lambda _: body.answer(), limits=McpLimits(message_bytes=1_000))

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, body.taken, body.is_closed) == ("limit", 11, True)


def test_a_body_that_breaks_off_fails_its_call(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What came of it is no answer; the next call is answered."""
    bodies = [Body('{"jsonrpc":"2.0",', httpx2.ReadError("cut"))]
    server, _ = serving(monkeypatch, lambda id_: bodies.pop().answer() if bodies else as_json(FINE)(id_))

    def called(connection: Connection) -> Run:
        first = yield connection.call("search").exit()
        return first.cause.failures[0], (yield connection.call("search"))

    failure, after = fx.run(used(server, called), backend=backend)

    assert (failure.kind, after["content"][0]["text"]) == ("invalid-answer", "found")
    assert failure.problem.startswith("cannot read the answer as JSON: EOF")


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_an_answer_may_come_compressed(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_complete: bool, backend: Any
) -> None:
    """It is decoded once, within the limit; what is not what it says to be fails its call."""

    def answer(id_: str) -> httpx2.Response:
        text = FINE.replace("ID", id_)
        problem = (text if kind == "application/json" else f"data: {text}\n\n").encode()
        given = {"content-type": kind, "content-encoding": "gzip"}
        return httpx2.Response(200, headers=given, content=gzip.compress(problem) if is_complete else problem)

    server, _ = serving(monkeypatch, answer)
    end = fx.run_exit(used(server, _called), backend=backend)

    if is_complete:
        assert end == fx.run_exit(fx.succeed({"content": [{"type": "text", "text": "found"}]}))
    else:
        assert failure_of(used(server, _called), backend).tool == "search"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(("contents", "is_read"), [(4_000, True), (4_001, False)])
def test_contents_of_a_large_answer_are_counted_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, kind: str, contents: int, is_read: bool, backend: Any
) -> None:
    """The parser of the SDK receives a short message instead of a large result."""
    parsed: list[int] = []
    adapter = wire.jsonrpc_message_adapter

    class Counting:
        def validate_json(self, data: Any, **options: Any) -> Any:
            parsed.append(len(data))
            return adapter.validate_json(data, **options)

    def answer(id_: str) -> httpx2.Response:
        result = {"content": [{"type": "text", "text": "found"}] * contents}
        text = json.dumps({"jsonrpc": "2.0", "id": json.loads(id_), "result": result})
        problem = text if kind == "application/json" else f"id: 5\ndata: {text}\n\n"
        return Body(*(problem[at : at + 5_000] for at in range(0, len(problem), 5_000))).answer(kind)

    monkeypatch.setattr(streamable_http, "jsonrpc_message_adapter", Counting())
    server, _ = serving(monkeypatch, answer, limits=McpLimits(contents=4_000))

    end = fx.run_exit(used(server, _called), backend=backend)

    if isinstance(end, Succeeded):
        assert (is_read, len(end.value["content"])) == (True, contents)
    else:
        (failure,) = end.cause.failures
        assert (is_read, failure.problem) == (False, "the result has 4001 content blocks, more than 4000")
    assert max(parsed) < 1_000


@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
def test_a_stream_of_events_need_not_end(monkeypatch: pytest.MonkeyPatch, kind: str, backend: Any) -> None:
    """Its event is taken when it comes, though the stream stays open; then it is closed."""
    bodies: list[Body] = []

    def answer(id_: str) -> httpx2.Response:
        bodies.append(Body(f"data: {FINE.replace('ID', id_)}\n\n", ends=False))
        return bodies[-1].answer(kind)

    server, _ = serving(monkeypatch, answer)

    assert fx.run(used(server, _called), backend=backend)["content"][0]["text"] == "found"
    assert [body.is_closed for body in bodies] == [True]


@pytest.mark.parametrize("taken", [0, 1])
def test_a_stream_that_is_left_in_the_middle_is_closed(taken: int, backend: Any) -> None:
    """Closing it ends what reads the body and closes the response, at once, though nothing of it was taken yet."""
    body = Body("data: 1\n\n", "data: 2\n\n", ends=False)

    async def go() -> tuple[int, bool, bool]:
        raw = _Raw(httpx2.Response(200, stream=body), Watch(McpLimits()))
        for _ in range(taken):
            assert await anext(aiter(raw)) == b"data: 1\n\n"
        await raw.aclose()
        return body.taken, body.is_left, body.is_closed

    assert anyio.run(go, backend=backend) == (taken, taken > 0, True)


@pytest.mark.parametrize("problem", ['{"jsonrpc":"2.0","id":1,"result":{}}', "{}"])
def test_the_end_of_a_session_may_be_answered_with_anything(
    monkeypatch: pytest.MonkeyPatch, problem: str, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """It is no request of the protocol: what comes back for it is no wrong answer."""
    server, heard = serving(monkeypatch, as_json(FINE), session=problem)
    with caplog.at_level(logging.WARNING):
        fx.run(used(server, _called), backend=backend)

    assert "DELETE" in [one.method for one in heard]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("raised", "problem"),
    [
        (httpx2.ConnectError("nobody there"), "ConnectError: nobody there"),
        (httpx2.ReadTimeout(""), "ReadTimeout"),
        (httpx2.RemoteProtocolError("cut"), "RemoteProtocolError: cut"),
    ],
)
def test_a_fault_of_the_network_is_one_calls_failure(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, problem: str, backend: Any
) -> None:
    """It fails with the address and what happened; the next call is answered."""
    faults = [raised]

    def answer(id_: str) -> httpx2.Response:
        if faults:
            raise faults.pop()
        return as_json(FINE)(id_)

    server, _ = serving(monkeypatch, answer)

    def called(connection: Connection) -> Run:
        first = yield connection.call("search").exit()
        return first.cause.failures[0], (yield connection.call("search"))

    failure, after = fx.run(used(server, called), backend=backend)

    assert (failure.kind, failure.remedy) == ("connection", "Check that the server runs, and its URL")
    assert failure.problem == f"cannot reach 'http://localhost/mcp': {problem}"
    assert after["content"][0]["text"] == "found"


ENDED = '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'


@pytest.mark.parametrize("text", [ENDED, "gone", ""])
def test_a_session_that_has_ended_is_told_as_that(monkeypatch: pytest.MonkeyPatch, text: str, backend: Any) -> None:
    """However the server says it, with the remedy; it is no timeout, and no error of the protocol."""
    server, _ = serving(monkeypatch, as_json(text, 404), session="{}")

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, failure.remedy) == ("connection", "Open the server again")
    assert failure.problem == "the session has ended: the server answered HTTP 404 Not Found"


def test_an_answer_of_the_status_404_is_an_answer(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """An error that names its request says more than its status."""
    text = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such method"}}'
    server, _ = serving(monkeypatch, as_json(text, 404), session="{}")

    assert failure_of(used(server, _called), backend).code == -32601


@every("value", ["s3cret\n", "s3cret\r\nX: y", "s3cret\0", "s3cr\xe9t", " s3cret"])
def test_a_secret_that_cannot_be_sent_is_told_without_it(
    monkeypatch: pytest.MonkeyPatch, value: str, backend: Any
) -> None:
    """A token out of a file ends with a line break: its header is named, and no word of it is shown to anybody."""
    server, heard = serving(monkeypatch, as_json(FINE), headers={"X-Key": value})

    failure = failure_of(used(server, _called), backend)

    assert (failure.kind, heard) == ("authentication", [])
    assert "'X-Key'" in failure.problem
    assert "s3cr" not in f"{failure!r} {failure}"


def test_a_header_of_a_name_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """It is told before anything is sent."""
    server, heard = serving(monkeypatch, as_json(FINE), headers={"X Key": "k"})

    assert (failure_of(used(server, _called), backend).problem, heard) == ("invalid header name 'X Key'", [])


def test_every_request_brings_the_headers(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Token and headers go with each request, that of the session's end included."""
    server, heard = serving(monkeypatch, as_json(FINE), token="t-1", headers={"X-Key": "k"})

    fx.run(used(server, _called), backend=backend)

    assert {(one.headers.get("authorization"), one.headers.get("x-key")) for one in heard} == {("Bearer t-1", "k")}
