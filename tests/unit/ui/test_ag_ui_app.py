"""A chat application and clients of AG-UI: the same users, conversations and turns as of pages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient
from typing_extensions import Unpack

from fxai import Agent, Prompt, fx, tool
from fxai.testing import ScriptedModel, call, text
from fxai.ui import AppArgs, AppOptions, ChatApp, Conversations, Turn, UIMessage, bearer_token, chat_app
from tests.kit.ag_ui_client import check_events, read_messages

Json = dict[str, Any]
TOKEN = "a-word-that-is-long"


def app(**args: Unpack[AppArgs]) -> ChatApp:
    """An application that greets."""
    given: AppArgs = {"options": AppOptions(ag_ui=True)}
    given.update(args)
    model = ScriptedModel.make([text("Hello."), text("Again.")])
    return chat_app(Agent.make("greeter"), layer=model.layer, **given)


def asked(client: TestClient, *added: str, thread: str = "c1", token: str = "", **members: Any) -> Any:
    """The answer to a run."""
    messages = [{"id": one, "role": "user", "content": one} for one in added]
    body = {"threadId": thread, "runId": "r1", "messages": messages, **members}
    return client.post("/api/ag-ui", json=body, headers={"authorization": f"Bearer {token}"})


def events(answer: Any) -> list[Json]:
    """The events of an answer, checked."""
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line.startswith("data: ")]
    read: list[Json] = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]
    check_events(read)
    return read


def test_a_conversation_is_the_same_for_a_page() -> None:
    """A turn of a client of AG-UI is one of the conversation, and goes on where a page has been."""
    with TestClient(app()) as client:
        first = events(asked(client, "u1"))
        page = [{"id": "u2", "role": "user", "parts": [{"type": "text", "text": "And?"}]}]
        client.post("/api/chat", json={"id": "c1", "message": page[0]})
        whole = client.get("/api/chat/c1").json()["messages"]
        back = events(asked(client))
    assert [message["content"] for message in read_messages(first)] == ["Hello."]
    assert [message["role"] for message in whole] == ["user", "assistant"] * 2
    assert [message["content"] for message in back[1]["messages"]] == ["u1", "Hello.", "And?", "Again."]


def test_nothing_is_there_for_clients_of_ag_ui_unless_it_is_asked_for() -> None:
    """As of any other path."""
    with TestClient(app(options=AppOptions())) as client:
        assert asked(client, "u1").status_code in (404, 405)


@pytest.mark.parametrize("added", [["u1"], []])
def test_a_conversation_of_somebody_else_is_not_there(added: list[str]) -> None:
    """Neither to go on with nor to be read."""
    conversations = Conversations.in_process()
    turn = Turn.make("t1", None, UIMessage.make("u0", "user", "Secret"), "a1", Prompt.make("Secret"), 0.0)
    fx.run(conversations.begin("c1", "bob", turn))
    with TestClient(app(conversations=conversations, identify=bearer_token(TOKEN))) as client:
        answer = asked(client, *added, token=TOKEN)
        nobody = asked(client, *added)
    assert (answer.status_code, nobody.status_code) == (404, 401)
    assert "Secret" not in answer.text


def test_a_refusal_is_an_answer_of_http() -> None:
    """With its reason, its place and its code."""
    with TestClient(app()) as client:
        unknown = asked(client, "u8", "u9")
        malformed = asked(client, "u1", thread="a b")
        large = client.post(
            "/api/ag-ui", content=b" " * (8 * 1024 * 1024 + 1), headers={"content-type": "application/json"}
        )
    assert (unknown.status_code, unknown.headers["x-fxai-error"]) == (409, "unknown")
    assert unknown.text.startswith("messages[0].id")
    assert (malformed.status_code, large.status_code) == (400, 413)


def test_a_run_of_a_conversation_that_is_not_there_reads_nothing() -> None:
    """It has begun and ended."""
    with TestClient(app()) as client:
        read = events(asked(client))
    assert [event["type"] for event in read] == ["RUN_STARTED", "RUN_FINISHED"]


def test_what_is_known_of_a_conversation_is_read_without_its_turns() -> None:
    """Whose it is, and what it is called; nothing of one that is not there."""
    conversations = Conversations.in_process()
    turn = Turn.make("t1", None, UIMessage.make("u0", "user", "Hello there"), "a1", Prompt.make("Hello"), 5.0)
    summary = fx.run(conversations.begin("c1", "bob", turn).and_then(conversations.summary("c1")))
    assert summary is not None
    assert (summary.id, summary.owner, summary.title, summary.changed) == ("c1", "bob", "Hello there", 5.0)
    assert fx.run(conversations.summary("c2")) is None


def test_an_approval_that_a_page_left_open_is_answered_later() -> None:
    """The call runs once, and its result is an event of the run that answers."""
    ran: list[str] = []

    @tool(needs_approval=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        ran.append(disk)
        return f"wiped {disk}"

    model = ScriptedModel.make([call("wipe", {"disk": "a"}, id="k"), text("It waits."), text("Done.")])
    served = chat_app(Agent.make("a").with_tools(wipe), layer=model.layer, options=AppOptions(ag_ui=True))
    with TestClient(served) as client:
        first = events(asked(client, "u1"))
        page = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Go on."}]}
        client.post("/api/chat", json={"id": "c1", "message": page})
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        added = [{"id": "u1", "role": "user", "content": "u1"}, {"id": "u2", "role": "user", "content": "Go on."}]
        body = {"threadId": "c1", "runId": "r2", "messages": [*added, {"id": "x", "role": "assistant", "content": ""}]}
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        answers = [client.post("/api/ag-ui", json={**body, "resume": resume}) for _ in range(2)]
    results = [event["content"] for event in events(answers[0]) if event["type"] == "TOOL_CALL_RESULT"]

    assert (ran, results, answers[1].status_code) == (["a"], ["wiped a"], 409)
    assert [message.role for message in model.requests[2].prompt][:3] == ["user", "assistant", "tool"]
