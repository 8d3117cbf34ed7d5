"""A conversation on a page with a model that binds its thinking to the prefix."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from fxai import Agent, Tool
from fxai.agents import Changes
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.ui import AppOptions, ChatApp, StreamOptions, chat_app
from tests.kit.binding_server import BindingServer, calls, states

count = Tool.make("count", success=int)


def counter(at: Render) -> None:
    """Count the calls."""
    done = at.state("done", 0)
    at.system("done", f"{done.value} calls so far.")
    at.tool(count, lambda _: done.update(lambda n: n + 1).as_(1))


def _app(agent: Any, server: BindingServer) -> ChatApp:
    return chat_app(agent, layer=server.layer, options=AppOptions(ag_ui=True, stream=StreamOptions()))


def _write_message(client: TestClient, *added: str) -> str:
    messages = [{"id": one, "role": "user", "content": one} for one in added]
    answer = client.post("/api/ag-ui", json={"threadId": "c1", "runId": added[-1], "messages": messages})
    return answer.text


def test_turns_of_a_page_keep_the_thinking() -> None:
    """Each turn of the page extends the request of the turn before."""
    server = BindingServer(lambda number: states(f"Answer {number}"))
    with TestClient(_app(Agent.make("a", instructions="Be brief."), server)) as client:
        told = [_write_message(client, *[f"u{at}" for at in range(count)]) for count in (1, 2, 3)]

    assert "Answer 2" in told[2]
    assert (server.refused, server.sent, server.dropped) == ([], [0, 1, 2], [0, 0, 0])


@pytest.mark.parametrize("changes", ["auto", "rewrite"])
def test_a_stateful_prompt_on_a_page_goes_on(changes: Changes) -> None:
    """No turn fails, whether a changed section is appended or shown at its usual place."""
    server = BindingServer([calls("count"), states("One."), calls("count"), states("Two."), states("Three.")])
    prompt = StatefulPrompt.make("counter", counter, changes=changes)
    with TestClient(_app(prompt, server)) as client:
        told = [_write_message(client, *[f"u{at}" for at in range(count)]) for count in (1, 2, 3)]

    assert "Three." in told[2]
    assert server.refused == []
