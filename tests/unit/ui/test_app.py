"""The chat application over HTTP: its routes, whom it answers to, how much it takes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from fxai import Agent, Effect, Gen, fx, runtime, tool
from fxai.effects import Layer, LayerOf, StreamOf
from fxai.effects.cancellation import event_loop
from fxai.hosting import serve_app
from fxai.testing import ScriptedModel, call, delay, text
from fxai.ui import (
    Access,
    AppArgs,
    AppOptions,
    ChatApp,
    ChatPage,
    ChatTurn,
    DataPart,
    Question,
    RequestLimits,
    bearer_token,
    chat_app,
    mount,
)
from tests.kit.every import every

TOKEN = "a-token-of-more-than-sixteen"
JSON = {"content-type": "application/json"}


def message(added: str, id_: str = "u1") -> dict[str, Any]:
    """A message of the user's."""
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": added}]}


def request(added: str = "Hello", id_: str = "c1") -> dict[str, Any]:
    """The body of a request."""
    return {"id": id_, "message": message(added, f"u-{added}")}


def echo(turn: ChatTurn) -> StreamOf[Any, Any, None]:
    """Repeats what the user says; slowly, where the user counts."""
    added = next(one.text for one in reversed(turn.prompt) if one.role == "user")
    script: Any = [part for n in range(100) for part in (f"{n} ", delay(0.05))] if added == "count" else text(added)
    return Agent.make("echo").stream(turn.prompt).provide(ScriptedModel.make([script]).layer)


def app_of(answerer: Any = echo, **args: Any) -> ChatApp:
    """An application; its options are given one by one."""
    known = {name: args.pop(name) for name in list(args) if name in AppArgs.__annotations__}
    return chat_app(answerer, **known, options=AppOptions(**args))


def by_header(asked: Request) -> str | None:
    """The user that a header names."""
    return asked.headers.get("x-user")


# -- handlers


def test_plain_functions_run_in_threads() -> None:
    """A handler that blocks does not stop the other requests: it runs beside the event loop."""
    ran: list[bool] = []

    @tool
    def look() -> str:
        """Look where it runs."""
        ran.append(event_loop() is None)
        return "seen"

    def answer(turn: ChatTurn) -> StreamOf[Any, Any, None]:
        return Agent.make("a").with_tools(look).stream(turn.prompt).provide(model.layer)

    model = ScriptedModel.make([call("look", {}), text("end")])
    with TestClient(app_of(answer)) as client:
        added = client.post("/api/chat", json=request()).text

    assert "seen" in added
    assert ran == [True]


# -- the life of a conversation


def test_a_conversation_is_listed_read_renamed_and_deleted() -> None:
    """Each route does what it says, and what is deleted is gone."""
    with TestClient(app_of()) as client:
        client.post("/api/chat", json=request("First", "c1"))
        client.post("/api/chat", json=request("Second", "c2"))
        listed = [one["title"] for one in client.get("/api/chat").json()["conversations"]]
        renamed = client.patch("/api/chat/c1", json={"title": "  Of greetings "})
        title = client.get("/api/chat/c1").json()["title"]
        gone = client.delete("/api/chat/c2")
        left = [one["id"] for one in client.get("/api/chat?limit=10").json()["conversations"]]

        assert listed == ["Second", "First"]
        assert (renamed.status_code, title) == (204, "Of greetings")
        assert (gone.status_code, left, client.get("/api/chat/c2").status_code) == (204, ["c1"], 404)


def test_a_version_is_chosen() -> None:
    """An edited message begins another branch; the head goes back to the first one, to its end."""
    with TestClient(app_of()) as client:
        client.post("/api/chat", json={"id": "c1", "message": message("One", "u1")})
        client.post("/api/chat", json={"id": "c1", "message": message("More", "u2")})
        client.post("/api/chat", json={"id": "c1", "message": message("Uno", "u3"), "messageId": "u1"})
        now = client.get("/api/chat/c1").json()
        turns = now["versions"]["u3"]["turns"]
        before = client.post("/api/chat/c1/head", json={"turn": turns[0]}).json()

        assert [one["parts"][0]["text"] for one in now["messages"] if one["role"] == "user"] == ["Uno"]
        assert now["versions"]["u3"] == {"index": 1, "of": 2, "turns": turns}
        assert [one["parts"][0]["text"] for one in before["messages"] if one["role"] == "user"] == ["One", "More"]
        assert client.post("/api/chat/c1/head", json={"turn": "none"}).status_code == 400


def test_two_messages_at_once_are_one_and_a_refusal() -> None:
    """While an answer is written, another message is told to wait, and so is a change of the head."""

    async def play(client: httpx.AsyncClient) -> None:
        await client.post("/api/chat", json=request("Hello"))
        head = (await client.get("/api/chat/c1")).json()["head"]
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.post("/api/chat", json=request("count")))
            await _until_running(client)
            second = await client.post("/api/chat", json=request("Me too"))
            chosen = await client.post("/api/chat/c1/head", json={"turn": head})
            stopped = await client.post("/api/chat/c1/stop")
            assert (second.status_code, chosen.status_code) == (409, 409)
            assert "Wait for its end, or stop it" in chosen.text
            assert stopped.json() == {"stopped": True}
        talk = (await client.get("/api/chat/c1")).json()
        assert (talk["ended"], talk["running"]) == ("stopped", False)

    _with_client(app_of(), play)


async def _until_running(client: httpx.AsyncClient, id_: str = "c1", user: str = "") -> None:
    """Waits until an answer is written in a conversation."""
    for _ in range(500):
        found = await client.get(f"/api/chat/{id_}", headers={"x-user": user})
        if found.status_code == 200 and found.json()["running"]:
            return
        await anyio.sleep(0.02)
    raise AssertionError(f"no answer was begun in {id_}")


def test_a_question_is_answered_once_and_rightly() -> None:
    """An answer that does not fit its form is asked for again; to a question that nobody asked nothing happens."""
    heard: list[Any] = []

    @fx.gen
    def ask() -> Gen[Any]:
        page = yield from ChatPage
        yield from page.show(DataPart("note", "Look."))
        form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        heard.append((yield from page.ask(Question("How many?", schema=form))))
        return Agent.make("echo")

    app = chat_app(lambda _: ask(), layer=ScriptedModel.make([text("Thanks.")]).layer)

    async def play(client: httpx.AsyncClient) -> list[Any]:
        shown: list[Any] = []
        async with anyio.create_task_group() as group:

            async def read() -> None:
                response = await client.post("/api/chat", json=request())
                shown.extend(json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: {"))

            group.start_soon(read)
            await _until_running(client)
            known = await _question(client)
            for question, n in (("none", 1), (known, "many")):
                await reply(client, question, n)
            await _question(client, '"faults"')  # before it is asked again, nobody waits for a reply
            for n in (2, 3):
                await reply(client, known, n)
        return shown

    async def reply(client: httpx.AsyncClient, question: str, n: object) -> None:
        body = {"questionId": question, "action": "accept", "content": {"n": n}}
        await client.post("/api/chat/c1/answers", json=body)

    shown = _with_client(app, play)
    asked = [one["data"] for one in shown if one["type"] == "data-question"]
    assert [(reply.action, reply.content) for reply in heard] == [("accept", {"n": 2})]
    assert ["faults" in one for one in asked] == [False, True, False]
    assert asked[-1]["answered"] == "accept"
    assert len({one["questionId"] for one in asked}) == 1


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("question", "action"),
    [
        (Question("Log in.", url="https://login.example.org"), "accept"),
        (Question("How many?", schema=FORM), "decline"),
        (Question("How many?", schema=FORM), "cancel"),
        (Question("Shall I?"), "accept"),
    ],
)
def test_a_question_without_a_form_to_fill_in_needs_no_content(question: Question, action: str) -> None:
    """Neither an address to visit, nor a form that is not filled in."""
    heard: list[Any] = []

    @fx.gen
    def ask() -> Gen[Any]:
        heard.append((yield from (yield from ChatPage).ask(question)))
        return Agent.make("echo")

    app = chat_app(lambda _: ask(), layer=ScriptedModel.make([text("Thanks.")]).layer)

    async def play(client: httpx.AsyncClient) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(client.post, "/api/chat", json=request()))
            await _until_running(client)
            reply = {"questionId": await _question(client), "action": action}
            answers = [await client.post(f"/api/chat/{id_}/answers", json=reply) for id_ in ("c1", "c2")]
            assert [answer.status_code for answer in answers] == [200, 404]

    _with_client(app, play)
    assert [(reply.action, reply.content) for reply in heard] == [(action, None)]


def test_a_server_asks_on_the_page_whose_turn_calls_its_tool() -> None:
    """A question of whoever is outside of a turn reaches the user who waits for the tool, and else nobody."""
    called, holding = anyio.Event(), anyio.Event()
    replies: list[Any] = []

    @tool
    async def hold() -> str:
        """Holds on."""
        called.set()
        await holding.wait()
        return "held"

    model = ScriptedModel.make([call("hold", {}, id="c1"), text("Thanks.")])
    app = chat_app(Agent.make("desk").with_tools(hold), layer=model.layer)
    question = Question("How many?", schema=FORM)

    async def play(client: httpx.AsyncClient) -> None:
        async def ask(*tools: str) -> None:
            async with runtime(Layer.empty()) as services:
                replies.append(await services.run(app.pages.ask(question, tools)))

        async with anyio.create_task_group() as group:
            group.start_soon(partial(client.post, "/api/chat", json=request()))
            await _until_running(client)
            await called.wait()
            await ask("other")
            async with anyio.create_task_group() as asking:
                asking.start_soon(ask, "other", "hold")
                reply = {"questionId": await _question(client), "action": "accept", "content": {"n": 2}}
                await client.post("/api/chat/c1/answers", json=reply)
            holding.set()
        await ask("hold")

    _with_client(app, play)
    assert [(reply.action, reply.content) for reply in replies] == [
        ("decline", None),
        ("accept", {"n": 2}),
        ("decline", None),
    ]


def test_where_no_page_is_nobody_answers() -> None:
    """A handler that runs outside of a turn asks in vain, and shows data to nobody."""

    @fx.gen
    def ask() -> Gen[Any]:
        page = yield from ChatPage
        yield from page.show(DataPart("note", "Look."))
        return (yield from page.ask(Question("How many?", schema=FORM)))

    reply = fx.run(ask())

    assert (reply.action, reply.content) == ("decline", None)


async def _question(client: httpx.AsyncClient, key: str = "") -> str:
    """Return the id of the first question with a key that a reader of the running stream sees."""
    async with client.stream("GET", "/api/chat/c1/stream") as response:
        async for line in response.aiter_lines():
            if "data-question" in line and key in line:
                return str(json.loads(line[6:])["data"]["questionId"])
    raise AssertionError("there was no question")


def _with_client(app: ChatApp, play: Callable[[httpx.AsyncClient], Any]) -> Any:
    """What `play` gives with a client of a real server's: bodies come as they are sent."""

    async def run() -> Any:
        async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
            return await play(client)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[str]:
    """The address of the application, on a port of loopback of this process."""
    addresses: list[str] = []
    there = anyio.Event()

    def tell(url: str) -> None:
        addresses.append(url)
        there.set()

    async with runtime(LayerOf.empty()) as services, anyio.create_task_group() as group:
        program = serve_app(app, lifespan=app.lifespan(), on_listening=tell)
        group.start_soon(services.run, program)
        await there.wait()
        yield addresses[0]
        group.cancel_scope.cancel()


# -- who may do what


ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/api/chat/c1", None),
    ("GET", "/api/chat/c1/stream", None),
    ("POST", "/api/chat", request("Mine")),
    ("POST", "/api/chat/c1/stop", {}),
    ("POST", "/api/chat/c1/answers", {"questionId": "q", "action": "decline"}),
    ("POST", "/api/chat/c1/head", {"turn": "t"}),
    ("PATCH", "/api/chat/c1", {"title": "Mine"}),
    ("DELETE", "/api/chat/c1", None),
)


@every(("method", "path", "body"), ROUTES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_conversation_of_another_is_not_there(method: str, path: str, body: Any) -> None:
    """Nobody learns that it exists: the answer is that to an unknown one, and nothing of it changes."""
    with TestClient(app_of(identify=by_header)) as client:
        client.post("/api/chat", json=request("Secret"), headers={"x-user": "ann"})
        before = client.get("/api/chat/c1", headers={"x-user": "ann"}).json()
        refused = client.request(method, path, json=body, headers={"x-user": "bob"})
        unknown = client.request("GET", "/api/chat/none", headers={"x-user": "bob"})

        assert (refused.status_code, refused.text) == (404, unknown.text)
        assert "Secret" not in refused.text
        assert client.get("/api/chat/c1", headers={"x-user": "ann"}).json() == before
        assert client.get("/api/chat", headers={"x-user": "bob"}).json() == {"conversations": []}


@every(("method", "path", "body"), [*ROUTES, ("GET", "/api/chat", None), ("GET", "/api/info", None)])
def test_nobody_is_let_in_who_is_nobody(method: str, path: str, body: Any) -> None:
    """Each route asks who it is; the answer says how to say so."""
    with TestClient(app_of(identify=bearer_token(TOKEN))) as client:
        refused = client.request(method, path, json=body)
        wrong = client.request(method, path, json=body, headers={"authorization": "Bearer of-bad-news-indeed"})

        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert wrong.status_code == 401
        assert client.get("/api/info", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_who_may_do_what_is_for_the_application_to_say() -> None:
    """A hook is asked with the user, what they want to do, and whose it is; it may be a coroutine."""
    asked: list[Access] = []

    async def readers_only(access: Access) -> bool:
        asked.append(access)
        return access.user == access.owner or access.action == "read"

    with TestClient(app_of(identify=by_header, authorize=readers_only)) as client:
        client.post("/api/chat", json=request("Hello"), headers={"x-user": "ann"})
        read = client.get("/api/chat/c1", headers={"x-user": "bob"})
        deleted = client.delete("/api/chat/c1", headers={"x-user": "bob"})

    assert (read.status_code, deleted.status_code) == (200, 404)
    assert {(one.user, one.action, one.conversation, one.owner) for one in asked} >= {
        ("bob", "read", "c1", "ann"),
        ("bob", "delete", "c1", "ann"),
    }


@every(("method", "path", "body"), [*ROUTES, ("POST", "/api/chat", request("New", "new"))])
def test_who_may_nothing_may_nothing_new_either(method: str, path: str, body: Any) -> None:
    """Each route asks the hook before it looks for the conversation, and answers alike for what is not there."""
    asked: list[Access] = []
    may = [True]

    def hook(access: Access) -> bool:
        asked.append(access)
        return may[0]

    with TestClient(app_of(identify=by_header, authorize=hook)) as client:
        client.post("/api/chat", json=request("Secret"), headers={"x-user": "ann"})
        asked.clear()
        may[0] = False
        there = client.request(method, path, json=body, headers={"x-user": "ann"})
        new = {**body, "id": "none"} if path == "/api/chat" else body
        not_there = client.request(method, path.replace("c1", "none"), json=new, headers={"x-user": "ann"})
        listed = client.get("/api/chat", headers={"x-user": "ann"}).json()
        may[0] = True
        still = client.get("/api/chat", headers={"x-user": "ann"}).json()["conversations"]

    assert (there.status_code, there.text) == (not_there.status_code, not_there.text)
    assert there.status_code == 404
    assert {(one.user, one.owner) for one in asked} == {("ann", "ann")}
    assert (listed, [one["id"] for one in still]) == ({"conversations": []}, ["c1"])


def test_a_hook_that_gives_an_effect_is_asked_for_its_value() -> None:
    """An effect is no permission: what it gives is."""

    def nobody(_: Access) -> Effect[bool]:
        return fx.sleep(0).map(lambda _: False)

    with TestClient(app_of(identify=by_header, authorize=nobody)) as client:
        client.post("/api/chat", json=request("Hello"), headers={"x-user": "ann"})
        refused = client.get("/api/chat/c1", headers={"x-user": "ann"})

    assert refused.status_code == 404


def test_a_hook_refuses_in_its_own_words() -> None:
    """An HTTP exception of the hook is the answer; any other failure of it says nothing of itself."""

    def identify(asked: Request) -> str:
        if asked.headers.get("x-user") == "late":
            raise HTTPException(402, "pay first")
        raise RuntimeError("the secret of the hook")

    with TestClient(app_of(identify=identify), raise_server_exceptions=False) as client:
        paid = client.get("/api/info", headers={"x-user": "late"})
        broken = client.get("/api/info")

    assert (paid.status_code, paid.text) == (402, "pay first")
    assert broken.status_code == 500
    assert "secret" not in broken.text


def test_other_hosts_need_somebody_who_says_who_asks() -> None:
    """Where other machines may ask, everybody would be the same user."""
    with pytest.raises(ValueError, match="Pass identify="):
        app_of(hosts=("chat.example.org",))
    with pytest.raises(ValueError, match="at least 16 characters"):
        bearer_token("short")


# -- where a request comes from


@every("host", ["evil.example", "evil.example:8000", "testserver.evil.example", "", "a@testserver", "[::2]"])
def test_a_request_to_another_name_is_refused(host: str) -> None:
    """A page that had its own name point here is answered nothing, whatever it asks for."""
    with TestClient(app_of(page=True)) as client:
        for path in ("/", "/api/info", "/api/chat"):
            assert client.get(path, headers={"host": host}).status_code == 421
        assert client.post("/api/chat", json=request(), headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://testserver.evil.example", "https://testserver"]
)
def test_a_page_of_another_origin_changes_nothing(origin: str) -> None:
    """Its requests are refused, and what it reads it may not see."""
    with TestClient(app_of(origins=("https://app.example.org",))) as client:
        refused = client.post("/api/chat", json=request(), headers={"origin": origin})
        read = client.get("/api/info", headers={"origin": origin})
        asked = client.options("/api/chat", headers={"origin": origin, "access-control-request-method": "POST"})

        assert refused.status_code == 403
        assert "access-control-allow-origin" not in read.headers
        assert "access-control-allow-origin" not in asked.headers
        assert client.get("/api/chat/c1").status_code == 404


def test_a_preflight_request_without_origins_gets_no_permission() -> None:
    """An application without `origins` has no CORS header for any origin, not even for its own."""
    for origin in ("https://evil.example", "http://testserver", "null"):
        asking = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        with TestClient(app_of()) as client:
            asked = client.options("/api/chat", headers=asking)

        assert not asked.is_success
        assert not [name for name in asked.headers if name.startswith("access-control-")]


def test_a_star_among_the_origins_allows_no_origin() -> None:
    """An operator must name each origin."""
    with TestClient(app_of(origins=("*",))) as client:
        read = client.get("/api/info", headers={"origin": "https://evil.example"})

    assert "access-control-allow-origin" not in read.headers
    assert (read.headers["x-content-type-options"], read.headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_a_page_of_an_allowed_origin_may_ask() -> None:
    """The browser is told so, before and with the answer."""
    origin = {"origin": "https://app.example.org"}
    with TestClient(app_of(origins=("https://app.example.org",))) as client:
        asked = client.options("/api/chat", headers={**origin, "access-control-request-method": "POST"})
        answered = client.post("/api/chat", json=request(), headers={**origin, "sec-fetch-site": "cross-site"})

    assert asked.is_success
    assert asked.headers["access-control-allow-origin"] == origin["origin"]
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert (answered.status_code, answered.headers["access-control-allow-origin"]) == (200, origin["origin"])


@pytest.mark.parametrize(
    "type_", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_a_form_of_another_page_is_no_request(type_: str) -> None:
    """What a browser sends without asking first is not read."""
    with TestClient(app_of()) as client:
        response = client.post("/api/chat", content=json.dumps(request()), headers={"content-type": type_})

    assert response.status_code == 415


def test_a_site_that_is_another_is_refused_without_an_origin() -> None:
    """Browsers say so by themselves."""
    with TestClient(app_of()) as client:
        assert client.post("/api/chat", json=request(), headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert client.post("/api/chat", json=request(), headers={"sec-fetch-site": "same-origin"}).status_code == 200


# -- how much


def test_a_body_that_is_too_large_is_not_read() -> None:
    """Neither one that says so, nor one that does not."""
    limits = RequestLimits(bytes=1_000)

    async def play(client: httpx.AsyncClient) -> tuple[int, int]:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 100

        declared = await client.post("/api/chat", content=b"x" * 5_000, headers=JSON)
        in_pieces = await client.post("/api/chat", content=pieces(), headers=JSON)
        return declared.status_code, in_pieces.status_code

    assert _with_client(app_of(limits=limits), play) == (413, 413)


def test_a_body_that_does_not_come_is_given_up() -> None:
    """A client that trickles does not hold a request for ever."""

    async def play(client: httpx.AsyncClient) -> bytes:
        stream = await anyio.connect_tcp("127.0.0.1", client.base_url.port or 0)
        lines = ("POST /api/chat HTTP/1.1", "host: localhost", "content-type: application/json", "content-length: 999")
        async with stream:
            await stream.send("\r\n".join([*lines, "", ""]).encode())
            for _ in range(6):
                await stream.send(b" ")
                await anyio.sleep(0.1)
            return await stream.receive()

    assert _with_client(app_of(body_timeout=0.3), play).startswith(b"HTTP/1.1 408 ")


def test_a_user_who_asks_too_often_is_told_to_wait() -> None:
    """The others are not; the answer says for how long."""
    with TestClient(app_of(identify=by_header, turns_per_minute=2)) as client:
        ann = [client.post("/api/chat", json=request(str(n)), headers={"x-user": "ann"}) for n in range(3)]
        bob = client.post("/api/chat", json=request("x", "c2"), headers={"x-user": "bob"})

    assert [one.status_code for one in ann] == [200, 200, 429]
    assert 1 <= int(ann[2].headers["retry-after"]) <= 60
    assert bob.status_code == 200


async def _count(client: httpx.AsyncClient, user: str) -> None:
    await client.post("/api/chat", json=request("count", user), headers={"x-user": user})


def test_answers_at_once_are_bounded() -> None:
    """One user has as many as are allowed; another one is refused by the bound for all."""

    async def play(client: httpx.AsyncClient) -> None:
        async with anyio.create_task_group() as group:
            for id_ in ("c1", "c2"):
                group.start_soon(_count, client, id_)
                await _until_running(client, id_, id_)
            for id_, user in (("c3", "c1"), ("c4", "zoe")):
                refused = await client.post("/api/chat", json=request("x", id_), headers={"x-user": user})
                assert (refused.status_code, "too many answers" in refused.text) == (429, True)
            for id_ in ("c1", "c2"):
                await client.post(f"/api/chat/{id_}/stop", headers={"x-user": id_})

    _with_client(app_of(identify=by_header, running_turns=1, all_turns=2), play)


@every(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/chat?limit=x", None, 400),
        ("GET", "/api/chat?before=soon", None, 400),
        ("GET", "/api/chat/c1/stream?after=-1", None, 400),
        ("PATCH", "/api/chat/c1", {"title": "  "}, 400),
        ("PATCH", "/api/chat/c1", ["x"], 400),
        ("POST", "/api/chat/c1/answers", {"questionId": "q", "action": "maybe"}, 400),
        ("POST", "/api/chat/c1/answers", {}, 400),
        ("PUT", "/api/chat", {}, 405),
        ("GET", "/api/nothing", None, 404),
        ("GET", "/api/chat/%2e%2e%2fetc", None, 404),
        ("GET", "/assets/../../app.py", None, 404),
        ("GET", "/", None, 404),
    ],
)
def test_wrong_requests_are_told_in_a_sentence(method: str, path: str, body: Any, status: int) -> None:
    """Each has its status, and a text that is no traceback."""
    with TestClient(app_of()) as client:
        client.post("/api/chat", json=request())
        response = client.request(method, path, json=body)

    assert response.status_code == status
    assert "Traceback" not in response.text


def test_the_page_is_kept_to_itself() -> None:
    """Its headers forbid all that it does not need; what has not changed is not sent again."""
    with TestClient(app_of(page=True)) as client:
        page = client.get("/")
        script = client.get("/app.js")
        again = client.get("/app.js", headers={"if-none-match": script.headers["etag"]})

    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert script.headers["content-type"].startswith("text/javascript")
    assert (again.status_code, again.content) == (304, b"")


# -- streams


def test_a_silent_stream_has_a_beat() -> None:
    """A comment now and then keeps what is between the client and the server from closing it."""

    @fx.gen
    def late() -> Gen[Any]:
        yield from fx.sleep(0.5)
        return Agent.make("echo")

    app = chat_app(lambda _: late(), layer=ScriptedModel.make([text("Late.")]).layer, options=AppOptions(heartbeat=0.1))

    async def play(client: httpx.AsyncClient) -> str:
        return (await client.post("/api/chat", json=request())).text

    told: str = _with_client(app, play)
    assert told.count(": \n\n") >= 2
    assert "Late." in told


@pytest.mark.parametrize(
    ("on_leave", "ended"), [pytest.param("continue", "done", marks=pytest.mark.slow), ("cancel", "stopped")]
)
def test_an_answer_whose_client_left(on_leave: str, ended: str) -> None:
    """It goes on to its end, or is cancelled, as the option says; either way it is kept."""

    async def play(client: httpx.AsyncClient) -> dict[str, Any]:
        async with client.stream("POST", "/api/chat", json=request("count")) as response:
            async for line in response.aiter_lines():
                if '"3 "' in line:
                    break
        await client.get("/api/chat/c1/stream")  # to its end
        found: dict[str, Any] = (await client.get("/api/chat/c1")).json()
        return found

    talk = _with_client(app_of(on_leave=on_leave), play)
    added = "".join(part.get("text", "") for part in talk["messages"][-1]["parts"])
    assert talk["ended"] == ended
    assert added.startswith("0 1 2 3")
    assert added.endswith("99 ") is (ended == "done")


# -- inside another application


def test_it_is_mounted_and_started_with_its_host() -> None:
    """The host's lifespan runs the application's; its routes stand behind the path, and the page, too."""
    host = Starlette()
    mount(host, app_of(page=True), "/desk")
    with TestClient(host) as client:
        told = client.post("/desk/api/chat", json=request("Hello"))
        page = client.get("/desk/")

    assert "Hello" in told.text
    assert page.text.startswith("<!doctype html>")
