"""Messages to an active turn: they join its run, and the client and the store know where."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import pytest

from fxai import Agent, Prompt, Tool, Toolkit, fx
from fxai.effects import Backend
from fxai.testing import ScriptedModel, call, text
from fxai.ui import ChatApp, Conversations, chat_app

look = Tool.make("look", success=str)
kit = Toolkit.make(look)


class Desk:
    """An application whose tool waits until the test continues it."""

    def __init__(self, *turns: Any) -> None:
        self.waiting, self.go_on = anyio.Event(), anyio.Event()
        self.model = ScriptedModel.make([call("look", {}, id="c1"), *turns])
        self.conversations = Conversations.in_process()
        self.app: ChatApp = chat_app(
            Agent.make("desk", toolkit=kit),
            layer=kit.to_layer(look.handler(lambda _: fx.wait(self._wait))) | self.model.layer,
            conversations=self.conversations,
        )

    async def _wait(self) -> str:
        self.waiting.set()
        await self.go_on.wait()
        return "seen"

    async def post(self, path: str, body: Any) -> httpx.Response:
        """Send a request."""
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, json=body)

    def texts(self) -> list[str]:
        """Return the texts of the user messages in the store."""
        known = fx.run(self.conversations.load("c"))
        assert known is not None
        return _texts(known.history(known.head))


def _texts(prompt: Prompt) -> list[str]:
    return [message.text for message in prompt if message.role == "user"]


def _message(id_: str, added: str) -> dict[str, Any]:
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": added}]}


def _run(program: Any, backend: Backend) -> Any:
    async def bounded() -> Any:
        with anyio.fail_after(20):
            return await program()

    return anyio.run(bounded, backend=backend)


def _chunks(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_a_message_joins_the_next_step_or_follows_the_answer(backend: Backend) -> None:
    """The client reads a `data-joined` part for each message, and the store contains both messages in order."""
    desk = Desk(text("Brief."), text("Bonjour."))
    responses: list[httpx.Response] = []

    async def play() -> None:
        async def ask() -> None:
            responses.append(await desk.post("/api/chat", {"id": "c", "message": _message("u1", "Go.")}))

        async with desk.app.lifespan(), anyio.create_task_group() as group:
            group.start_soon(ask)
            await desk.waiting.wait()
            queued = {"message": _message("u2", "In French?"), "delivery": "queue"}
            assert (await desk.post("/api/chat/c/messages", queued)).json() == {"taken": True}
            for _ in range(2):  # the second message with the same id does not count
                sent = await desk.post("/api/chat/c/messages", {"message": _message("u3", "Be brief.")})
                assert sent.json() == {"taken": True}
            await anyio.sleep(0.05)
            desk.go_on.set()

    _run(play, backend)
    joined = [chunk["data"] for chunk in _chunks(responses[0]) if chunk["type"] == "data-joined"]

    assert joined == [{"id": "u3", "text": "Be brief."}, {"id": "u2", "text": "In French?"}]
    assert [_texts(request.prompt) for request in desk.model.requests] == [
        ["Go."],
        ["Go.", "Be brief."],
        ["Go.", "Be brief.", "In French?"],
    ]
    assert desk.texts() == ["Go.", "Be brief.", "In French?"]


def test_a_stopped_turn_keeps_the_joined_message(backend: Backend) -> None:
    """The store contains the message after the results of the step before it."""
    desk = Desk(call("look", {}, id="c2"))

    async def play() -> None:
        async def ask() -> None:
            await desk.post("/api/chat", {"id": "c", "message": _message("u1", "Go.")})

        async with desk.app.lifespan(), anyio.create_task_group() as group:
            group.start_soon(ask)
            await desk.waiting.wait()
            await desk.post("/api/chat/c/messages", {"message": _message("u2", "Look again.")})
            await anyio.sleep(0.05)
            first, desk.waiting, desk.go_on = desk.go_on, anyio.Event(), anyio.Event()
            first.set()
            await desk.waiting.wait()
            await desk.post("/api/chat/c/stop", {})

    _run(play, backend)
    known = fx.run(desk.conversations.load("c"))
    assert known is not None
    roles = [message.role for message in known.history(known.head)]

    assert roles == ["user", "assistant", "tool", "user", "assistant", "tool"]
    assert desk.texts() == ["Go.", "Look again."]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"message": _message("u2", "Hi")}, 200, '{"taken":false}'),
        ({"message": _message("u2", "Hi"), "delivery": "now"}, 400, 'delivery: expected "steer" or "queue"'),
        ({"message": {**_message("u2", "Hi"), "role": "system"}}, 400, "message.role: expected a user message"),
        ({"message": _message("", "Hi")}, 400, "message.id: expected a string of 1 to 200 characters"),
        ({"message": _message("u2", "")}, 400, "expected text or a file"),
        ({}, 400, "message: expected"),
        ([], 400, "expected an object with message and delivery"),
    ],
)
def test_a_message_needs_an_active_turn_and_a_valid_form(body: Any, status: int, words: str, backend: Backend) -> None:
    """The response states the location of the error."""
    desk = Desk(text("Done."))
    desk.go_on.set()

    async def play() -> tuple[httpx.Response, httpx.Response]:
        async with desk.app.lifespan():
            await desk.post("/api/chat", {"id": "c", "message": _message("u1", "Go.")})
            return await desk.post("/api/chat/c/messages", body), await desk.post("/api/chat/other/messages", body)

    response, unknown = _run(play, backend)

    assert (response.status_code, unknown.status_code) == (status, 404)
    assert words in response.text
