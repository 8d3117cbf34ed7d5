"""The guard of a server over HTTP: hosts, origins, tokens, sizes, and an application that ends with its scope."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, Never, cast

import anyio
import httpx2
import pytest
from returns.result import Result, Success
from starlette.types import ASGIApp

from fxai import BoundToolkit, tool
from fxai.effects import Effect, fx
from fxai.mcp import ToolServer, http_app, serve_http
from fxai.mcp.server.server_transport import HttpApp
from fxai.providers.http import Secret
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.mcp_http import INITIALIZE, MODERN, Client, asking, modern, on_client, status_of, with_app


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
async def linger() -> str:
    """Waits."""
    await anyio.sleep_forever()
    return "never"


async def called(client: Client, more: Mapping[str, str] | None = None) -> httpx2.Response:
    """The answer to a call of the newer protocol, with these headers besides."""
    headers, body = modern()
    return await client.post("/mcp", json=body, headers={**headers, **(more or {})})


def test_a_call_needs_no_session_since_2026(backend: str) -> None:
    """One request, one answer: the newer protocol asks nothing first."""
    response = asking(add, backend, called)

    assert response.status_code == 200
    assert response.json()["result"]["content"] == [{"type": "text", "text": "3"}]
    assert "mcp-session-id" not in response.headers


def test_older_clients_have_sessions(backend: str) -> None:
    """A session begins with `initialize`, in the client's own version; an unknown session is 404, a deleted one too."""

    async def ask(client: Client) -> Any:
        opened = await client.post("/mcp", json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        known = await client.post("/mcp", json=ping, headers=session)
        unknown = await client.post("/mcp", json=ping, headers={**session, "mcp-session-id": "0" * 32})
        none = await client.post("/mcp", json=ping)
        await client.delete("/mcp", headers=session)
        gone = await client.post("/mcp", json=ping, headers=session)
        return opened.text, [response.status_code for response in (known, unknown, none, gone)]

    opened, statuses = asking(add, backend, ask)

    assert '"protocolVersion":"2025-06-18"' in opened
    assert statuses == [200, 404, 400, 404]


@every(
    ("host", "options", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("localhost:8000", {}, 200),
        ("[::1]:8000", {}, 200),
        ("LOCALHOST", {}, 200),
        ("evil.example", {}, 421),
        ("127.0.0.1.evil.example", {}, 421),
        ("localhost:8000@evil.example", {}, 421),
        ("localhost:evil.example", {}, 421),
        ("evil-host:8080", {}, 421),
        ("evil:8080", {}, 421),
        ("xlocalhost:8080", {}, 421),
        ("localhostx:8080", {}, 421),
        ("localhost:80:80", {}, 421),
        ("localhost:", {}, 421),
        ("localhost:-1", {}, 421),
        ("localhost:*", {}, 421),
        ("localhost.:80", {}, 421),
        ("LocalHost:80", {}, 200),
        ("[::1]", {}, 200),
        ("[::1", {}, 421),
        ("::1", {}, 421),
        ("[::2]:80", {}, 421),
        ("user@localhost:80", {}, 421),
        ("0.0.0.0:80", {}, 421),
        ("*", {}, 421),
        (":80", {}, 421),
        ("80", {}, 421),
        ("", {}, 421),
        ("tools.example", {"allowed_hosts": ["tools.example"]}, 200),
        ("tools.example:8000", {"allowed_hosts": ["tools.example"]}, 421),
        ("TOOLS.example:443", {"allowed_hosts": ["other.example", "Tools.Example:443"]}, 200),
        ("tools.example:8000", {"allowed_hosts": ["tools.example:*"]}, 200),
        ("a.tools.example:8000", {"allowed_hosts": ["tools.example:*"]}, 421),
        ("tools.example", {"allowed_hosts": []}, 421),
        ("localhost", {"allowed_hosts": ["tools.example"]}, 421),
        ("any.example", {"allowed_hosts": ["*"]}, 200),
    ],
)
def test_only_its_own_hosts_are_answered(backend: str, host: str, options: Any, status: int) -> None:
    """A name that was rebound to this machine is no host of this server: the request is refused before it is read."""
    response = asking(add, backend, lambda client: called(client, {"host": host}), **options)

    assert response.status_code == status


@every(
    ("origin", "options", "status"),
    [
        ("http://localhost:5173", {}, 200),
        ("https://evil.example", {}, 403),
        ("null", {}, 403),
        ("http://localhost.evil.example", {}, 403),
        ("http://localhost:80@evil.example", {}, 403),
        ("http://evil.example:5173", {}, 403),
        ("https://localhost:5173", {}, 403),
        ("localhost:5173", {}, 403),
        ("http://127.0.0.1:80", {}, 200),
        ("http://[::1]:5173", {}, 200),
        ("HTTP://LOCALHOST:5173", {}, 200),
        ("", {}, 403),
        ("http://localhost:5173", {"host": "127.0.0.2"}, 200),
        ("https://app.example", {"allowed_origins": ["https://app.example"]}, 200),
        ("http://localhost:5173", {"allowed_origins": []}, 403),
    ],
)
def test_only_allowed_pages_are_answered(backend: str, origin: str, options: Any, status: int) -> None:
    """A page's origin has to be one that may use the server; its browser is told so."""
    response = asking(add, backend, lambda client: called(client, {"origin": origin}), **options)

    assert response.status_code == status
    assert (response.headers.get("access-control-allow-origin") == origin) is (status == 200)


def test_a_browser_may_ask_first(backend: str) -> None:
    """What a browser sends before a page's request is answered without the token, for allowed pages alone."""

    async def ask(client: Client) -> list[int]:
        origins = ("http://localhost", "https://evil.example")
        return [(await client.options("/mcp", headers={"origin": origin})).status_code for origin in origins]

    assert asking(add, backend, ask, token="t") == [204, 403]


@every(
    ("sent", "status"),
    [
        (None, 401),
        ("Bearer right", 200),
        ("bearer right", 200),
        ("Bearer wrong", 401),
        ("Bearer right wrong", 401),
        ("Bearer ", 401),
        ("Basic right", 401),
        ("right", 401),
        ("Bearer r\u00efght", 401),
    ],
)
@every("given", ["right", Secret("right")])
def test_the_token_opens_the_door(backend: str, sent: str | None, status: int, given: Any) -> None:
    """Each request has to bring the token; one that does not is refused before it is read, and told nothing."""
    more = {} if sent is None else {"authorization": sent.encode("latin-1").decode("latin-1")}

    async def ask(client: Client) -> httpx2.Response:
        headers, body = modern()
        raw = [(name.encode(), value.encode("latin-1")) for name, value in {**headers, **more}.items()]
        return await client.post("/mcp", json=body, headers=raw)

    response = asking(add, backend, ask, token=given)

    assert response.status_code == status
    assert "right" not in response.text
    assert (response.headers.get("www-authenticate") == "Bearer") == (status == 401)


def test_other_paths_are_not_found(backend: str) -> None:
    """Only the path of the tools is there."""

    async def ask(client: Client) -> list[int]:
        return [(await client.get(path)).status_code for path in ("/", "/mcp/x", "/.well-known/oauth")]

    assert asking(add, backend, ask) == [404, 404, 404]


def test_a_large_body_is_refused(backend: str) -> None:
    """A body above `max_body` is 413, whether it says its length or comes in pieces; the next request is answered."""

    async def use(app: ASGIApp) -> list[Any]:
        said = await status_of(app, [b" "], ends=False, more={"content-length": "2000"})
        return [said, await status_of(app, [b" " * 100] * 20, ends=False, more={})]

    assert with_app(add, backend, use, max_body=1000) == [413, 413]


def test_a_body_that_does_not_come_is_given_up(backend: str) -> None:
    """A request whose body is not there after `body_timeout` is answered 408."""

    async def use(app: ASGIApp) -> Any:
        with anyio.fail_after(60):
            return await status_of(app, [b"{"], ends=False, more={})

    assert with_app(add, backend, use, body_timeout=0.05) == 408


@every(
    "body", [b"", b"{", b"[]", b"null", b"[" * 200_000, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}']
)
@every("version", [None, MODERN])
def test_garbage_is_a_client_error(backend: str, body: bytes, version: str | None) -> None:
    """What is no request is refused as the client's mistake, however deep it is; the next request is answered."""
    headers = {} if version is None else {"mcp-protocol-version": version}

    async def ask(client: Client) -> tuple[int, int]:
        garbage = await client.post("/mcp", content=body, headers=headers)
        return garbage.status_code, (await called(client)).status_code

    status, after = asking(add, backend, ask)

    assert 400 <= status < 500
    assert after == 200


def test_only_so_many_sessions_are_open(backend: str) -> None:
    """Above `max_sessions` a new session is refused, while calls without one are answered."""

    async def ask(client: Client) -> list[int]:
        opened = [(await client.post("/mcp", json=INITIALIZE)).status_code for _ in range(3)]
        return [*opened, (await called(client)).status_code]

    assert asking(add, backend, ask, max_sessions=2) == [200, 200, 503, 200]


def test_sessions_that_ended_leave_nothing(backend: str) -> None:
    """A session that its client deletes makes room for another, and is told of no change any more."""

    async def ask(client: Client) -> list[int]:
        statuses: list[int] = []
        for _ in range(5):
            opened = await client.post("/mcp", json=INITIALIZE)
            session = {"mcp-session-id": opened.headers.get("mcp-session-id", "")}
            said = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await client.post("/mcp", json=said, headers=session)
            statuses += [opened.status_code, (await client.delete("/mcp", headers=session)).status_code]
        return statuses

    def use(server: ToolServer) -> Effect[Any, Never, Any]:
        app = server.http_app(max_sessions=1)
        return app.flat_map(lambda app: fx.wait(lambda: on_client(app, ask))).map(lambda seen: (seen, server.listening))

    opened: Effect[ToolServer, Never, Any] = ToolServer.open(add)
    seen, listening = fx.run(fx.scoped(opened.flat_map(use)), backend=cast(Literal["asyncio", "trio"], backend))

    assert seen == [200] * 10
    assert listening == 0


@pytest.mark.parametrize(("header", "status"), [("1", 200), ("2", 400), (None, 400)])
def test_a_header_that_stands_for_an_argument_says_the_same(backend: str, header: str | None, status: int) -> None:
    """Where a tool's schema names a header for an argument, a request whose header says otherwise is refused."""

    def said(given: Any) -> Result[str, Never]:
        return Success(given["a"])

    where = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Where"}}}
    told = Tool.dynamic("told", parameters=where, success=str)
    kit = BoundToolkit.of(Toolkit.make(told), told.handler(said))
    more = {} if header is None else {"mcp-param-where": header}

    async def ask(client: Client) -> int:
        headers, body = modern("told", {"a": "1"})
        return (await client.post("/mcp", json=body, headers={**headers, **more})).status_code

    assert asking(kit, backend, ask) == status


def test_when_the_scope_has_closed_nothing_is_answered(backend: str) -> None:
    """An application that outlives its scope answers 503, and calls that ran were ended without an answer."""
    statuses: list[int | None] = []
    kept: list[ASGIApp] = []
    headers, body = modern("linger")
    body["params"]["arguments"] = {}

    async def call(app: ASGIApp) -> None:
        statuses.append(await status_of(app, [json.dumps(body).encode()], ends=True, more=headers))

    async def go() -> None:
        async with anyio.create_task_group() as group:

            def use(app: ASGIApp) -> Effect[None]:
                kept.append(app)
                group.start_soon(call, app)
                return fx.sleep(0.1)

            await fx.run_async(fx.scoped(http_app(linger, grace=0.05).flat_map(use)))
        await call(kept[0])

    anyio.run(go, backend=backend)

    assert statuses == [None, 503]


def test_the_scope_closes_after_the_last_request(backend: str) -> None:
    """A request that is cut off ends before the application has: what it held is let go when the scope is closed."""
    log: list[str] = []

    async def receive() -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            log.append("request")

    async def send(_: Any) -> None:
        await anyio.lowlevel.checkpoint()

    async def go() -> None:
        scope: Any = {"type": "http", "method": "GET", "path": "/mcp", "headers": [(b"host", b"localhost")]}
        async with anyio.create_task_group() as group:

            def use(app: HttpApp) -> Effect[None]:
                group.start_soon(app, scope, receive, send)
                return fx.wait(anyio.wait_all_tasks_blocked)

            await fx.run_async(fx.scoped(http_app(add).flat_map(use)))
            log.append("scope")

    anyio.run(go, backend=backend)

    assert log == ["request", "scope"]


def test_streams_that_never_end_hold_up_no_stop(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that listen, old and new, are not waited for like a call whose answer is due; nothing of them is left."""
    monkeypatch.setattr("fxai.mcp.server.server_transport._SENT", 20)
    apps: list[HttpApp] = []
    lifespan: list[str] = []
    subscribe = {"notifications": {"toolsListChanged": True}, "_meta": modern()[1]["params"]["_meta"]}
    told = {"mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
    subscribed: list[httpx2.Response] = []

    async def listen(client: Client) -> None:
        opened = await client.post("/mcp", json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        with pytest.raises(AssertionError):  # what httpx makes of a stream that is cut off
            await client.get("/mcp", headers=session)

    async def listen_newly(client: Client) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": subscribe}
        subscribed.append(await client.post("/mcp", json=body, headers=told))

    async def receive() -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        return {"type": "lifespan.shutdown"}

    async def send(message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        lifespan.append(message["type"])

    async def go() -> tuple[float, int, int]:
        found = -1.0, -1, -1
        async with anyio.create_task_group() as group:

            def use(app: HttpApp) -> Effect[None]:
                apps.append(app)
                group.start_soon(on_client, app, listen)
                group.start_soon(on_client, app, listen_newly)
                return fx.wait(anyio.wait_all_tasks_blocked)

            began = anyio.current_time()
            await fx.run_async(fx.scoped(http_app(add).flat_map(use)))
            found = anyio.current_time() - began, len(apps[0]._streams), len(apps[0]._requests)
            await apps[0]({"type": "lifespan"}, receive, send)
        return found

    seconds, streams, requests = anyio.run(go, backend=backend)

    assert seconds < 10
    assert (streams, requests) == (0, 0)
    assert [one.status_code for one in subscribed] == [200]
    assert lifespan == ["lifespan.shutdown.complete"]


@every(
    ("options", "said"),
    [
        ({"host": "0.0.0.0"}, "token"),
        ({"host": "0.0.0.0", "token": "t"}, "allowed_hosts"),
        ({"host": "tools.example"}, "token"),
        ({"token": ""}, "empty"),
        ({"path": "mcp"}, "must start with /"),
        ({"max_body": 0}, "max_body"),
        ({"body_timeout": -1}, "body_timeout"),
    ],
)
@every("serve", [serve_http, http_app])
def test_what_would_be_open_to_all_is_refused_at_once(serve: Any, options: Any, said: str) -> None:
    """A server that other machines reach needs a token and its hosts, before anything is opened."""
    with pytest.raises(ValueError, match=said):
        serve(add, **options)


def test_a_token_is_in_no_repr() -> None:
    """The settings of a server never show its token."""
    from fxai.mcp.server.server_options import HttpSettings

    assert "right" not in repr(HttpSettings.of({"token": "right"}))
