"""Sessions and tokens of servers at an address: a forgotten session is begun again, and a token can change."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import httpx2
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from fxai import fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection
from tests.kit.every import every
from tests.kit.mcp_peer import failure_of, run, used

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]
Refuse: TypeAlias = Callable[[Any], httpx2.Response]


def _error(status: int, problem: str, *, named: Any = "", code: int = -32600) -> Refuse:
    """A refusal with a JSON-RPC error; by default it names the request."""

    def refuse(asked: Any) -> httpx2.Response:
        id_ = asked.get("id") if named == "" else named
        return httpx2.Response(status, json={"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": problem}})

    return refuse


def _plain(status: int, text: str) -> Refuse:
    return lambda _: httpx2.Response(status, text=text)


class Desk:
    """A server with sessions and a token; `refuse` answers requests of a session that it does not know."""

    def __init__(self, refuse: Refuse | None = None) -> None:
        self.refuse = refuse or _error(404, "Session not found", named=None)
        self.begun = 0
        self.sessions: set[str] = set()
        self.token: str | None = None
        self.ran: list[str] = []
        self.ended: list[str | None] = []
        self.tools = ["search"]
        self.is_closed = False
        self.waiting = False
        self.may_end = False

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one HTTP request."""
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return httpx2.Response(401)
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            self.ended.append(session)
            return httpx2.Response(200 if session in self.sessions else 404)
        if request.method != "POST":
            return httpx2.Response(405)
        asked = json.loads(request.content)
        if asked["method"] == "initialize":
            return self._start(asked)
        if session not in self.sessions:
            return self.refuse(asked)
        if "id" not in asked:
            return httpx2.Response(202)
        if asked["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
            return self._answer(asked, {"tools": tools})
        if asked["params"]["name"] == "wait":
            self.waiting = True
            while not self.may_end:
                await checkpoint()
        self.ran.append(session)
        return self._answer(asked, {"content": [{"type": "text", "text": session}]})

    def _start(self, asked: Any) -> httpx2.Response:
        if self.is_closed:
            return httpx2.Response(503)
        self.begun += 1
        self.sessions.add(f"s{self.begun}")
        about = {"name": "desk", "version": "1"}
        greeting: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        return self._answer(asked, greeting, **{"mcp-session-id": f"s{self.begun}"})

    def _answer(self, asked: Any, result: Any, **headers: str) -> httpx2.Response:
        return httpx2.Response(200, headers=headers, json={"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def serve(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> mcp.McpServer:
        """The server to open."""
        desk = self

        class InMemory(httpx2.AsyncClient):
            def __init__(self, transport: Any = None, **given: Any) -> None:
                super().__init__(transport=transport or httpx2.MockTransport(desk.handle), **given)

        monkeypatch.setattr("fxai.mcp.client_transport.httpx2.AsyncClient", InMemory)
        chosen: dict[str, Any] = {"mode": "legacy", **options}
        return mcp.http("http://desk/mcp", **chosen)


class Rotating:
    """A secret whose text changes."""

    def __init__(self, *texts: Any) -> None:
        self.texts = list(texts)

    def reveal(self) -> Any:
        """The next text; the last one stays."""
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


def _text(value: Any) -> str:
    return str(value["content"][0]["text"])


@every(
    "refuse",
    [
        _error(404, "Session not found"),
        _error(404, "Session not found", named=None),
        _error(404, "Session not found", named="server-error"),
        _error(404, "Not Found", code=-32001),
        _error(404, "unknown session", code=-32601),
        _error(400, "Bad Request: No valid session ID provided", named=None, code=-32000),
        _error(410, "the session has expired"),
        _plain(404, ""),
        _plain(404, "gone"),
    ],
)
def test_a_forgotten_session_is_begun_again_and_the_call_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, refuse: Refuse, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """The client begins one new session in whichever form a server reports a forgotten one; each call runs once."""
    desk = Desk(refuse)

    def called(connection: Connection) -> Run:
        before = yield connection.call("search")
        desk.sessions.clear()
        return _text(before), _text((yield connection.call("search"))), _text((yield connection.call("search")))

    with caplog.at_level(logging.WARNING):
        told = fx.run(used(desk.serve(monkeypatch), called), backend=backend)

    assert told == ("s1", "s2", "s2")
    assert (desk.begun, desk.ran, desk.ended, caplog.text) == (2, ["s1", "s2", "s2"], ["s2"], "")


@every(
    ("refuse", "code"),
    [
        (_error(404, "no such method", code=-32601), -32601),
        (_error(404, "unknown tool", code=-32602), -32602),
        (_error(400, "bad arguments", code=-32602), -32602),
        (_error(400, "your session variable q is too long", code=-32602), -32602),
    ],
)
def test_an_answer_that_refuses_the_call_itself_begins_no_session(
    monkeypatch: pytest.MonkeyPatch, refuse: Refuse, code: int, backend: Any
) -> None:
    """An error of the protocol that names its request is the answer of the call."""
    desk = Desk(refuse)

    def called(connection: Connection) -> Run:
        desk.sessions.clear()
        return (yield connection.call("search"))

    assert failure_of(used(desk.serve(monkeypatch), called), backend).code == code
    assert desk.begun == 1


def test_calls_at_the_same_time_begin_one_session(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Ten calls of a forgotten session share the new session."""
    desk = Desk()

    def called(connection: Connection) -> Run:
        desk.sessions.clear()
        return (yield fx.for_each(range(10), lambda _: connection.call("search"), concurrency=None))

    told = fx.run(used(desk.serve(monkeypatch), called), backend=backend)

    assert ({_text(one) for one in told}, desk.begun, len(desk.ran)) == ({"s2"}, 2, 10)


def test_a_call_that_still_runs_in_the_old_session_is_finished_there(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """A machine that forgot the session does not end the call that runs at another machine."""
    desk = Desk()
    desk.tools = ["search", "wait"]

    def called(connection: Connection) -> Run:
        running = yield fx.fork(connection.call("wait"))
        while not desk.waiting:
            yield fx.checkpoint()
        desk.sessions.clear()
        during = yield connection.call("search")
        desk.may_end = True
        return _text((yield running.join())), _text(during)

    assert fx.run(used(desk.serve(monkeypatch), called), backend=backend) == ("s1", "s2")
    assert desk.ran == ["s2", "s1"]


def test_a_server_that_forgets_each_session_fails_the_call(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """The client begins one session for a call, and then reports the failure."""
    desk = Desk()

    def called(connection: Connection) -> Run:
        desk.sessions = _Forgetful()
        return (yield connection.call("search"))

    failure = failure_of(used(desk.serve(monkeypatch), called), backend)

    assert (failure.kind, failure.problem) == (
        "connection",
        "the session has ended: the server answered HTTP 404 Not Found",
    )
    assert desk.begun == 2


class _Forgetful(set[str]):
    def __contains__(self, _: object) -> bool:
        return False


def test_a_server_that_is_down_for_a_while_is_used_again_later(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A session that cannot be begun fails its call; the next call begins it."""
    desk = Desk()

    def called(connection: Connection) -> Run:
        desk.sessions.clear()
        desk.is_closed = True
        failed = yield connection.call("search").exit()
        desk.is_closed = False
        return failed.cause.failures[0], _text((yield connection.call("search")))

    failure, after = fx.run(used(desk.serve(monkeypatch), called), backend=backend)

    assert (failure.kind, after) == ("connection", "s2")


def test_a_new_session_lists_the_tools_of_the_server_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A server that was replaced may have other tools."""
    desk = Desk()
    desk.tools = ["search", "old"]

    def called(connection: Connection) -> Run:
        desk.sessions.clear()
        desk.tools = ["search"]
        yield connection.call("search")
        return list((yield connection.now).toolkit.tools)

    assert fx.run(used(desk.serve(monkeypatch), called), backend=backend) == ["search"]


def test_a_listing_of_a_forgotten_session_is_sent_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A listing needs a session as a call does."""
    desk = Desk()

    def called(connection: Connection) -> Run:
        desk.sessions.clear()
        return list((yield connection.refresh()).toolkit.tools)

    assert (fx.run(used(desk.serve(monkeypatch), called), backend=backend), desk.begun) == (["search"], 2)


@given(st.lists(st.sampled_from(["call", "forget", "list", "pair"]), max_size=8), st.sampled_from(["asyncio", "trio"]))
def test_each_call_runs_once_however_often_sessions_are_forgotten(steps: list[str], backend: Any) -> None:
    """Over any order of calls, listings and forgotten sessions, each call runs once, and none fails."""
    desk = Desk()

    def called(connection: Connection) -> Run:
        answered = 0
        for step in steps:
            if step == "forget":
                desk.sessions.clear()
            elif step == "list":
                yield connection.refresh()
            else:
                many = range(1 if step == "call" else 2)
                answered += len((yield fx.for_each(many, lambda _: connection.call("search"), concurrency=None)))
        return answered

    with pytest.MonkeyPatch.context() as patch:
        answered = run(used(desk.serve(patch), called), backend)

    assert answered == len(desk.ran)


# -- tokens


def test_a_token_is_read_for_each_request(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A token that the program renews is sent with the next request."""
    desk = Desk()
    desk.token, token = "t1", Rotating("t1")

    def called(connection: Connection) -> Run:
        desk.token, token.texts = "t2", ["t2"]
        return _text((yield connection.call("search")))

    assert fx.run(used(desk.serve(monkeypatch, token=token), called), backend=backend) == "s1"
    assert desk.begun == 1


def test_a_token_that_expires_on_the_way_is_read_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A refused request is sent once more if the token has changed since; the call did not run."""
    desk = Desk()
    desk.token, token = "t1", Rotating("t1")

    def called(connection: Connection) -> Run:
        desk.token, token.texts = "t2", ["t1", "t2"]
        return _text((yield connection.call("search")))

    assert fx.run(used(desk.serve(monkeypatch, token=token), called), backend=backend) == "s1"
    assert desk.ran == ["s1"]


def test_a_connection_outlives_an_expired_token(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A token that stays expired fails the call, and a new token serves the next call."""
    desk = Desk()
    desk.token, token = "t1", Rotating("t1")

    def called(connection: Connection) -> Run:
        desk.token = "t2"
        failed = yield connection.call("search").exit()
        token.texts = ["t2"]
        return failed.cause.failures[0].kind, _text((yield connection.call("search")))

    assert fx.run(used(desk.serve(monkeypatch, token=token), called), backend=backend) == ("authentication", "s1")


@every("text", ["t\n", 5])
def test_a_token_that_becomes_unusable_fails_its_call_alone(
    monkeypatch: pytest.MonkeyPatch, text: Any, backend: Any
) -> None:
    """A header that cannot be sent is a failure of one call, which does not show the token."""
    desk = Desk()
    token = Rotating("t1")

    def called(connection: Connection) -> Run:
        token.texts = [text]
        failed = yield connection.call("search").exit()
        token.texts = ["t1"]
        return failed.cause.failures[0].kind, _text((yield connection.call("search")))

    assert fx.run(used(desk.serve(monkeypatch, token=token), called), backend=backend) == ("authentication", "s1")


def test_a_secret_that_cannot_be_read_is_reported_without_its_error(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """The error of a secret may contain the secret: its type alone is shown."""
    desk = Desk()

    class Broken:
        def reveal(self) -> str:
            raise OSError("s3cret")

    failure = failure_of(desk.serve(monkeypatch, token=Broken()).open().pipe(fx.scoped), backend)

    assert (failure.kind, "OSError" in failure.problem, "s3cret" in str(failure)) == ("authentication", True, False)
