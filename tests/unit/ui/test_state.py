"""The state of a stateful prompt on a page: what of it is told, and when."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.testclient import TestClient

from fxai import Tool
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.testing import ScriptedModel, call, text
from fxai.ui import AppOptions, ChatApp, StreamOptions, chat_app

count = Tool.make("count", success=int)


def counter(at: Render) -> None:
    """Counts its calls, and keeps a secret."""
    calls = at.state("calls", 0)
    at.state("secret", "hidden")
    at.tool(count, lambda _: calls.update(lambda n: n + 1).as_(1))


def app(options: StreamOptions) -> ChatApp:
    """An application of a prompt that is called twice."""
    turns: list[Any] = [call("count", {}, id="a"), call("count", {}, id="b"), text("Two.")]
    prompt = StatefulPrompt.make("counter", counter)
    return chat_app(prompt, layer=ScriptedModel.make(turns).layer, options=AppOptions(ag_ui=True, stream=options))


def asked(client: TestClient, *added: str) -> list[dict[str, Any]]:
    """The events of a run."""
    messages = [{"id": one, "role": "user", "content": one} for one in added]
    answer = client.post("/api/ag-ui", json={"threadId": "c1", "runId": "r1", "messages": messages})
    assert answer.status_code == 200
    lines = [line for line in answer.text.split("\n\n") if line.startswith("data: ")]
    return [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]


def states(events: list[dict[str, Any]]) -> list[Any]:
    """The states that a client is told."""
    return [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]


def test_a_page_is_told_what_of_the_state_is_for_it() -> None:
    """After each step that changed it, and when it comes back; it is no part of the message."""
    with TestClient(app(StreamOptions(state=lambda state: {"calls": state.values["calls"]}))) as client:
        told = states(asked(client, "u1"))
        back = states(asked(client))
        kept = client.get("/api/chat/c1").json()["messages"][1]["parts"]
    assert [one["calls"] for one in told] == sorted({one["calls"] for one in told})
    assert told[-1] == {"calls": 2}
    assert back == [{"calls": 2}]
    assert not [part for part in kept if part["type"] == "data-state"]


def test_a_page_is_told_nothing_of_a_state_unless_it_is_said_what() -> None:
    """It may hold what is not for a client."""
    with TestClient(app(StreamOptions())) as client:
        assert states(asked(client, "u1")) + states(asked(client)) == []
