"""The chat application inside of others' applications: FastAPI and Django, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
import httpx
import pytest

from fxai import Agent, runtime
from fxai.effects import LayerOf, StreamOf
from fxai.hosting import serve_app
from fxai.testing import ScriptedModel, delay, text
from fxai.ui import AppOptions, ChatApp, ChatTurn, chat_app, dispatch, mount

pytestmark = pytest.mark.slow


def answer(turn: ChatTurn) -> StreamOf[Any, Any, None]:
    """Counts, or says hello to whoever the host knows."""
    counts = [message.text for message in turn.added if message.role == "user"] == ["count"]
    script: Any = [part for n in range(200) for part in (f"{n} ", delay(0.03))] if counts else text(f"Hi, {turn.user}.")
    return Agent.make("host").stream(turn.prompt).provide(ScriptedModel.make([script]).layer)


@asynccontextmanager
async def serving(app: Any, lifespan: AbstractAsyncContextManager[object]) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an application that is served on loopback."""
    there: list[str] = []
    listening = anyio.Event()

    def tell(url: str) -> None:
        there.append(url)
        listening.set()

    async with runtime(LayerOf.empty()) as services, anyio.create_task_group() as group:
        group.start_soon(services.run, serve_app(app, lifespan=lifespan, on_listening=tell))
        await listening.wait()
        async with httpx.AsyncClient(base_url=there[0], timeout=20) as client:
            yield client
        group.cancel_scope.cancel()


def request(added: str) -> dict[str, Any]:
    """The body of a request."""
    return {"id": "c1", "message": {"id": f"u-{added}", "role": "user", "parts": [{"type": "text", "text": added}]}}


async def _hold_a_conversation(client: httpx.AsyncClient, path: str) -> None:
    """An answer, the page, an answer that comes in pieces, is read twice, and is stopped."""
    api = f"{path}/api/chat"
    hello = await client.post(api, json=request("hello"))
    page = await client.get(f"{path}/")
    pieces: list[str] = []
    async with client.stream("POST", api, json=request("count")) as response:
        async for piece in response.aiter_text():
            pieces.append(piece)
            if '"5 "' in piece or len(pieces) > 100:
                break
    running = (await client.get(f"{api}/c1")).json()["running"]
    async with client.stream("GET", f"{api}/c1/stream") as resumed:
        stopped = (await client.post(f"{api}/c1/stop")).json()
        rest = "".join([piece async for piece in resumed.aiter_text()])

    assert "Hi, ann." in hello.text
    assert page.text.startswith("<!doctype html>")
    assert len(pieces) > 3, "the stream was held back and sent as one"
    assert running is True
    assert stopped == {"stopped": True}
    assert '"type":"abort"' in rest
    assert rest.startswith('data: {"type":"start"')
    assert (await client.get(f"{api}/c1")).json()["ended"] == "stopped"


def test_in_fastapi() -> None:
    """It starts and ends with the host's lifespan; the host's own routes are as they were."""
    fastapi = pytest.importorskip("fastapi")
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        events.append("begin")
        yield
        events.append("end")

    host: Any = fastapi.FastAPI(lifespan=lifespan)
    host.get("/health")(lambda: {"ok": True})
    chat = chat_app(answer, identify=lambda _: "ann", options=AppOptions(page=True))
    mount(host, chat, "/desk")

    async def play() -> None:
        async with serving(host, host.router.lifespan_context(host)) as client:
            assert (await client.get("/health")).json() == {"ok": True}
            await _hold_a_conversation(client, "/desk")

    asyncio.run(play())
    assert events == ["begin", "end"]


def _django(path: str) -> Any:
    """An ASGI application of Django's, with one view at a path."""
    django: Any = pytest.importorskip("django")
    conf, asgi, http, urls = (import_module(f"django.{name}") for name in ("conf", "core.asgi", "http", "urls"))

    async def health(asked: Any) -> Any:
        return http.JsonResponse({"ok": True, "path": asked.path})

    if not conf.settings.configured:
        conf.settings.configure(
            ROOT_URLCONF=type("Urls", (), {"urlpatterns": [urls.path(path.lstrip("/"), health)]}),
            ALLOWED_HOSTS=["*"],
            SECRET_KEY="only for this test",
            DEBUG=False,
        )
        django.setup()
    return asgi.get_asgi_application()


def test_beside_django() -> None:
    """Paths of the chat go to it, all others to Django; the lifespan, which Django has not, is the chat's."""
    inner = _django("/health")
    chat: ChatApp = chat_app(answer, identify=lambda _: "ann", options=AppOptions(page=True))
    both: Any = dispatch({"/desk": chat}, inner)

    async def play() -> None:
        async with serving(both, chat.lifespan()) as client:
            assert (await client.get("/health")).json() == {"ok": True, "path": "/health"}
            assert (await client.get("/desks")).status_code == 404
            await _hold_a_conversation(client, "/desk")

    asyncio.run(play())


def test_the_lifespan_of_both_is_run_by_the_server() -> None:
    """A server that runs the lifespan by the protocol starts and ends the chat."""
    chat = chat_app(answer, identify=lambda _: "ann")
    both: Any = dispatch({"/desk": chat}, _refuse)
    sent: list[str] = []

    async def play() -> None:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await both({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

    asyncio.run(play())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def _refuse(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(json.dumps(scope["type"]))
