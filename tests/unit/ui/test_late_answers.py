"""Approvals in a chat application: answered together with a message, later, once, and by nobody who may not."""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fxai import Agent, tool
from fxai.effects import fx
from fxai.models import ApprovalLedger
from fxai.testing import ScriptedModel, call, text
from fxai.ui import AppOptions, Conversations, StreamOptions, chat_app
from tests.kit.every import every


class Desk:
    """A chat application with a tool that asks, and a client of it."""

    def __init__(self, *states: Any, **options: Any) -> None:
        self.ran: list[str] = []

        @tool(needs_approval=True)
        def wipe(disk: str) -> str:
            """Wipe a disk."""
            self.ran.append(disk)
            return f"wiped {disk}"

        self.model = ScriptedModel.make(list(states))
        self.app = chat_app(Agent.make("a").with_tools(wipe), layer=self.model.layer, **options)

    @contextmanager
    def open(self) -> Generator[Client]:
        """A client while the application runs."""
        with TestClient(self.app) as http:
            yield Client(http)


class Client:
    """A page."""

    def __init__(self, http: TestClient) -> None:
        self.http = http

    @property
    def messages(self) -> list[Any]:
        """The messages as the server has them."""
        found: list[Any] = self.http.get("/api/chat/c").json()["messages"]
        return found

    def send(self, *messages: Any, **body: Any) -> Any:
        """Send messages."""
        return self.http.post("/api/chat", json={"id": "c", "messages": list(messages), **body})

    def calls(self) -> list[tuple[str, str]]:
        """The id of each message with a call, and the state of the call."""
        return [
            (message["id"], part["state"])
            for message in self.messages
            for part in message["parts"]
            if part["type"] == "tool-wipe"
        ]


def _user(id_: str, added: str = "Go on.") -> dict[str, Any]:
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": added}]}


def _answered(messages: list[Any], at: int = 1, *, approved: bool = True) -> list[Any]:
    """The messages with the open request in one of them answered."""
    changed = copy.deepcopy(messages)
    for part in changed[at]["parts"]:
        if part.get("state") == "approval-requested":
            part.update(state="approval-responded", approval={"id": part["approval"]["id"], "approved": approved})
    return changed


WIPE = call("wipe", {"disk": "a"}, id="c1")


# -- with a message


@every("approved", [True, False])
def test_an_answer_with_a_message_gives_its_result(approved: bool) -> None:
    """The new message has the call and its result; the old message shows that it was answered."""
    desk = Desk(WIPE, text("Done."), text("Yes."))
    with desk.open() as page:
        page.send(_user("u1"))
        reply = page.send(*_answered(page.messages, approved=approved), _user("u2"))
        states = [state for _, state in page.calls()]
        again = page.send(*page.messages, _user("u3"))

    assert desk.ran == (["a"] if approved else [])
    assert ('"output":"wiped a"' in reply.text, '"tool-output-error"' in reply.text) == (approved, not approved)
    assert states == ["approval-responded", "output-available" if approved else "output-error"]
    assert ('"type":"finish"' in reply.text, '"delta":"Yes."' in again.text) == (True, True)


# -- later


@every("way", ["all messages", "the message", "with a new message"])
@every("approved", [True, False])
def test_an_approval_that_was_left_open_can_be_answered_later(approved: bool, way: str) -> None:
    """The call runs once, the model reads its result behind the call, and the old message no longer waits."""
    desk = Desk(WIPE, text("It waits."), text("Done."), text("Yes."))
    with desk.open() as page:
        page.send(_user("u1"))
        page.send(*page.messages, _user("u2"))
        before = page.messages
        answered = _answered(before, approved=approved)
        if way == "the message":
            reply = page.http.post("/api/chat", json={"id": "c", "message": answered[1]})
        else:
            reply = page.send(*answered, *([_user("u3")] if way == "with a new message" else []))
        after = page.messages
        again = page.send(*after, _user("u4"))

    shown = [message.role for message in desk.model.requests[2].prompt][:3]
    result = desk.model.requests[2].prompt[2].content[0]
    assert (reply.status_code, desk.ran) == (200, ["a"] if approved else [])
    assert shown == ["user", "assistant", "tool"]
    assert getattr(result, "result", None) == ("wiped a" if approved else getattr(result, "result", None))
    assert [part["state"] for part in after[1]["parts"] if part["type"] == "tool-wipe"] == ["approval-responded"]
    assert "".join(part.get("text", "") for part in after[-1]["parts"]).endswith("Done.")
    assert (again.status_code, '"delta":"Yes."' in again.text) == (200, True)


def test_a_late_answer_is_taken_once() -> None:
    """A second answer to it, on any branch, runs nothing."""
    desk = Desk(WIPE, text("It waits."), text("Done."), text("No."))
    with desk.open() as page:
        page.send(_user("u1"))
        page.send(*page.messages, _user("u2"))
        answered = _answered(page.messages)
        page.send(*answered)
        second = page.send(*answered)
        branch = page.send(*answered[:2], _user("u3"))

    assert (desk.ran, second.status_code) == (["a"], 409)
    assert '"type":"error"' in branch.text


@every("approval", [{"id": "approval_other", "approved": True}, {"id": "approval_other", "approved": False}])
def test_an_answer_that_nobody_waits_for_is_refused(approval: Any) -> None:
    """A client cannot make up an approval of an earlier message."""
    desk = Desk(WIPE, text("It waits."), text("Done."))
    with desk.open() as page:
        page.send(_user("u1"))
        page.send(*page.messages, _user("u2"))
        forged = copy.deepcopy(page.messages)
        forged[1]["parts"][1].update(state="approval-responded", approval=approval)
        reply = page.send(*forged)

    assert (reply.status_code, desk.ran) == (409, [])


# -- parts that cannot be shown


def _fails(*_: Any) -> Any:
    raise ValueError("a bug of the application")


@every("hook", ["tool_error_text", "message_metadata", "state"])
def test_a_part_that_cannot_be_shown_loses_no_result(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    """A function of the application that fails is in the log; the turn ends well, and the model has every result."""
    options: dict[str, Any] = {hook: _fails}
    desk = Desk(WIPE, text("Done."), text("Yes."), options=AppOptions(stream=StreamOptions(**options)))
    with desk.open() as page:
        page.send(_user("u1"))
        denied = page.send(*_answered(page.messages, approved=hook != "tool_error_text"), _user("u2"))
        page.send(*page.messages, _user("u3"))

    results = [part for one in desk.model.requests[-1].prompt for part in one.content if "result" in dir(part)]
    assert '"type":"finish"' in denied.text
    assert len(results) == 1
    assert hook == "state" or "a bug of the application" in caplog.text


# -- the ledger of the store


@every("kind", ["files", "sqlite"])
def test_a_store_that_keeps_the_key_keeps_the_ledger(kind: str, tmp_path: Path) -> None:
    """Another process that opens the store knows which approvals were used."""

    def store() -> Conversations:
        location = tmp_path / kind
        return Conversations.files(location) if kind == "files" else Conversations.sqlite(location)

    desk = Desk(WIPE, text("Done."), conversations=store())
    with desk.open() as page:
        page.send(_user("u1"))
        asked = _answered(page.messages)
        page.send(*asked)
    id_ = asked[1]["parts"][1]["approval"]["id"]

    assert dict(fx.run(store().ledger().look_up([id_]))) == {id_: "ended"}
    assert fx.run(store().list("local"))[0].id == "c"


def test_a_ledger_of_the_layer_is_used_instead() -> None:
    """An application can keep its ledger elsewhere."""
    ledger, model = ApprovalLedger.in_process(), ScriptedModel.make([WIPE, text("Done.")])

    @tool(needs_approval=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        return disk

    app = chat_app(Agent.make("a").with_tools(wipe), layer=model.layer | ledger.layer)
    with TestClient(app) as http:
        page = Client(http)
        page.send(_user("u1"))
        asked = _answered(page.messages)
        page.send(*asked)

    assert fx.run(ledger.look_up([asked[1]["parts"][1]["approval"]["id"]]))
