"""The end of a chat application: its turns have `grace`, then they are stopped and kept."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from fxai import Agent, Gen, fx
from fxai.effects import Backend
from fxai.testing import ScriptedModel, text
from fxai.ui import AppOptions, ChatApp, ChatTurn, Conversation, Conversations, chat_app


class Desk:
    """An application whose turns wait until they are told to go on, and what became of them."""

    def __init__(self, grace: float) -> None:
        self.conversations = Conversations.in_process()
        self.go_on = anyio.Event()
        self.waiting = anyio.Event()
        self.ended: list[str] = []
        self.app: ChatApp = chat_app(
            self._answer,
            layer=ScriptedModel.make([text("Done.")]).layer,
            conversations=self.conversations,
            options=AppOptions(grace=grace),
        )

    @fx.gen
    def _answer(self, _: ChatTurn) -> Gen[Any]:
        self.waiting.set()
        try:
            yield from fx.wait(self.go_on.wait)
        finally:
            self.ended.append("turn")
        return Agent.make("desk")

    async def ask(self, added: str = "u1") -> httpx.Response:
        """Say something."""
        message = {"id": added, "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/api/chat", json={"id": f"c-{added}", "message": message})

    def kept(self, added: str = "u1") -> Conversation | None:
        """The conversation in which it was said."""
        return fx.run(self.conversations.load(f"c-{added}"))


def _run(program: Any, backend: Backend) -> Any:
    async def bounded() -> Any:
        with anyio.fail_after(20):
            return await program()

    return anyio.run(bounded, backend=backend)


def test_a_turn_that_does_not_end_in_its_grace_is_stopped(backend: Backend) -> None:
    """The application ends all the same; finalizers have run, its client has the end, and the turn is kept."""
    desk, answers = Desk(grace=0.01), list[httpx.Response]()

    async def ask() -> None:
        answers.append(await desk.ask())

    async def play() -> None:
        async with anyio.create_task_group() as group:
            async with desk.app.lifespan():
                group.start_soon(ask)
                await desk.waiting.wait()

            assert desk.ended == ["turn"]

    _run(play, backend)
    kept = desk.kept()

    assert kept is not None
    assert [turn.ended for turn in kept.turns] == ["stopped"]
    assert '"type":"abort","reason":"the server shut down"' in answers[0].text


def test_a_turn_that_ends_in_its_grace_ends_well(backend: Backend) -> None:
    """Meanwhile nothing new is begun."""
    desk, answers, refused = Desk(grace=3600.0), list[httpx.Response](), list[httpx.Response]()

    async def ask() -> None:
        answers.append(await desk.ask())

    async def leave(stopping: anyio.Event) -> None:
        async with desk.app.lifespan():
            await stopping.wait()

    async def play() -> None:
        stopping = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(leave, stopping)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(ask)
            await desk.waiting.wait()
            stopping.set()
            await anyio.wait_all_tasks_blocked()
            refused.append(await desk.ask("u2"))
            desk.go_on.set()

    _run(play, backend)
    kept = desk.kept()

    assert (refused[0].status_code, refused[0].headers["x-fxai-error"]) == (503, "stopped")
    assert desk.kept("u2") is None
    assert kept is not None
    assert [turn.ended for turn in kept.turns] == ["done"]
    assert '"delta":"Done."' in answers[0].text


@pytest.mark.parametrize("grace", [0.0, 3600.0])
def test_an_application_without_turns_ends_at_once(grace: float, backend: Backend) -> None:
    """There is nothing to wait for."""
    desk = Desk(grace)

    async def play() -> None:
        async with desk.app.lifespan():
            desk.go_on.set()
            await desk.ask()

    _run(play, backend)

    assert desk.ended == ["turn"]


def test_an_application_that_has_ended_can_begin_again() -> None:
    """With another lifespan, or without one by its next request."""
    desk = Desk(grace=0.0)
    desk.go_on.set()

    async def play() -> list[int]:
        found: list[int] = []
        for added in ("u1", "u2"):
            async with desk.app.lifespan():
                found.append((await desk.ask(added)).status_code)
        found.append((await desk.ask("u3")).status_code)
        await desk.app.aclose()
        return found

    assert _run(play, "asyncio") == [200, 200, 200]
    assert desk.ended == ["turn"] * 3
