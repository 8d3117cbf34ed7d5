"""Requests that come at once: an application starts once, limits hold, and nobody gets into another's conversation."""

from __future__ import annotations

from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx2
import pytest

from fxai import Prompt, fx
from fxai.effects import EffectOf, Layer, Service, StreamOf, runtime
from fxai.messages import Finish, TextDelta, TextEnd, TextStart
from fxai.ui import (
    AppOptions,
    ChatApp,
    ChatRequest,
    ChatTurn,
    Conversations,
    StreamOptions,
    StreamStore,
    Turn,
    UIMessage,
    accept,
    chat_app,
)
from fxai.ui.turn import ChatJob

PARTS = (TextStart("t"), TextDelta("t", "Hello."), TextEnd("t"), Finish("stop"))


class Desk(Service):
    """What an application needs."""


class Ready(Desk):
    """What is there."""


def added(number: int) -> dict[str, Any]:
    """A request of a conversation of its own."""
    message = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    return {"id": f"c{number}", "messages": [message]}


def client_of(app: ChatApp) -> httpx2.AsyncClient:
    """A client of an application, without a socket and without a lifespan."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(cast("Any", app)), base_url="http://127.0.0.1")


async def ask_all(app: ChatApp, count: int) -> list[int]:
    """The statuses of so many requests at once."""
    statuses: list[int] = []

    async def ask(client: httpx2.AsyncClient, number: int) -> None:
        statuses.append((await client.post("/api/chat", json=added(number))).status_code)

    async with client_of(app) as client, anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(ask, client, number)
    return statuses


def test_first_requests_at_once_start_the_application_once() -> None:
    """Its layer is built once, and released at its end."""
    life: list[str] = []

    def build() -> EffectOf[Desk, Any, Any]:
        async def open_desk() -> Desk:
            await anyio.lowlevel.checkpoint()
            life.append("built")
            return Ready()

        return fx.acquire_release(fx.wait(open_desk), lambda _: fx.sync(lambda: life.append("released")))

    async def play() -> list[int]:
        layer = Layer.scoped(Desk, fx.suspend(build))
        app = chat_app(lambda _: StreamOf.from_iterable(PARTS), layer=layer)
        statuses = await ask_all(app, 3)
        await app.aclose()
        return statuses

    assert anyio.run(play) == [200] * 3
    assert life == ["built", "released"]


def test_a_layer_that_cannot_be_built_fails_each_of_the_first_requests() -> None:
    """None waits for it for ever, and the next one tries again."""
    tries: list[int] = []

    def fail() -> EffectOf[Desk, Any, Any]:
        tries.append(1)
        return fx.die(RuntimeError("no desk"))

    async def play() -> None:
        app = chat_app(lambda _: StreamOf.from_iterable(PARTS), layer=Layer.scoped(Desk, fx.suspend(fail)))
        with pytest.raises(BaseExceptionGroup):
            await ask_all(app, 3)
        with pytest.raises(BaseExceptionGroup):
            await ask_all(app, 1)

    anyio.run(play)
    assert len(tries) == 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_turns_that_begin_at_once_are_counted(backend: str) -> None:
    """Two may run: of five requests in one moment three are refused."""

    async def play() -> list[int]:
        gate = anyio.Event()
        statuses: list[int] = []

        def answer(_: ChatTurn) -> StreamOf[Any, Any, None]:
            return StreamOf.from_effect(fx.wait(gate.wait)).flat_map(lambda _: StreamOf.from_iterable(PARTS))

        app = chat_app(answer, options=AppOptions(running_turns=2))

        async def ask(client: httpx2.AsyncClient, number: int) -> None:
            statuses.append((await client.post("/api/chat", json=added(number))).status_code)
            if statuses.count(429) == 3:
                gate.set()

        with anyio.fail_after(30):
            async with app.lifespan(), client_of(app) as client, anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(ask, client, number)
        return statuses

    assert sorted(anyio.run(play, backend=backend)) == [200, 200, 429, 429, 429]


@pytest.mark.parametrize(
    ("owner", "status"),
    [(None, 404), ("cat", 404), ("bob", None)],
)
def test_a_conversation_that_became_another_users_meanwhile_is_unknown(owner: str | None, status: int | None) -> None:
    """Between the question whose it is and the turn somebody else may have begun one of that id."""
    conversations, streams = Conversations.in_process(), StreamStore.in_process()
    turn = Turn.make("t1", None, UIMessage.make("u0", "user", "Secret"), "a1", Prompt.make("Secret"), 0.0)
    request = ChatRequest("c1", (UIMessage.make("u1", "user", "Tell me"),), is_last_only=True)
    heard: list[str] = []

    def answer(asked: ChatTurn) -> StreamOf[Any, Any, None]:
        heard.append(repr(asked.history))
        return StreamOf.from_iterable(PARTS)

    async def play() -> int | None:
        job = ChatJob(
            "c1",
            "ann",
            owner,
            lambda known, new_id: accept(request, known, new_id),
            {},
            answer,
            conversations,
            streams,
            options=StreamOptions(),
            on_leave="continue",
        )
        async with runtime(Layer.empty()) as services:
            await job.run(services)
        return None if job.refused is None else job.refused.status

    fx.run(conversations.begin("c1", "bob", turn))
    assert anyio.run(play) == status
    assert len(heard) == (0 if status else 1)
