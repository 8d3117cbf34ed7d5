"""Late answers in `fxai chat`: approvals that turns of a page left open, answered when the conversation is resumed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fxai import fx
from fxai.testing import call, text
from fxai.ui import Conversation, Conversations, chat_app
from tests.kit import chat_targets
from tests.kit.command_line import Run

TARGETS = str(Path(__file__).parents[2] / "kit" / "chat_targets.py")


def _store(folder: Path) -> Conversations:
    return Conversations.files(folder / "conversations")


def _kept(folder: Path) -> Conversation:
    found = fx.run(_store(folder).load("c"))
    assert found is not None
    return found


def _leave_open(folder: Path, *calls: str, pending: str | None = None) -> None:
    """A page asks about each disk, and the user says something else instead."""
    states: list[Any] = [[call("wipe", disk, id=f"c-{disk}")] for disk in calls]
    states += [text("It waits.")] if pending is None else [[call("wipe", pending, id="p")]]
    layer: Any = chat_targets.scripted(*states)
    app = chat_app(chat_targets.agent, layer=layer, conversations=_store(folder))
    with TestClient(app) as page:
        for number in range(len(calls) + 1):
            said = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": f"say {number}"}]}
            page.post("/api/chat", json={"id": "c", "message": said})


def _shown(folder: Path) -> list[str]:
    return [
        part["state"]
        for message in _kept(folder).ui_messages()
        for part in message.parts
        if part["type"] == "tool-wipe"
    ]


@pytest.fixture
def resume(fxai: Run, tmp_path: Path) -> Any:
    """Resumes the conversation with these lines on stdin."""

    def run(piped: str, *arguments: str) -> Any:
        chosen = ("--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:talks", "--store", str(tmp_path))
        return fxai("chat", *chosen, "--resume", "c", *arguments, piped=piped)

    return run


def _requests() -> Any:
    return sys.modules["chat_targets"].models[-1].requests


@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_of_a_page_is_answered_in_the_terminal(approved: bool, resume: Any, tmp_path: Path) -> None:
    """The call runs, the model reads its result behind the call, and the page shows that it was answered."""
    _leave_open(tmp_path, "a")
    ended = resume("/approve\nHello\n" if approved else "/deny not now\nHello\n")

    first = _requests()[0].prompt
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.index('"a"') < ended.out.index("one") < ended.out.index("two")
    assert [message.role for message in first][:4] == ["system", "user", "assistant", "tool"]
    assert [part.result for part in first[3].content if part.type == "tool-result"][-1:] == (
        ["a is empty"] if approved else [{"type": "execution-denied", "reason": "not now"}]
    ), first[3]
    assert _shown(tmp_path) == ["approval-responded"]
    assert _kept(tmp_path).left_open() == ()
    assert [message.text for message in _kept(tmp_path).ui_messages() if message.role == "user"][-1] == "Hello"


def test_the_last_message_goes_on_with_the_answer(resume: Any, tmp_path: Path) -> None:
    """What it said before stays; the note for the model is no message of the user's."""
    _leave_open(tmp_path, "a")
    resume("/approve\n")

    shown = _kept(tmp_path).ui_messages()
    assert [message.role for message in shown] == ["user", "assistant"] * 2
    assert "".join(part.get("text", "") for part in shown[-1].parts) == "It waits.one"


def test_what_is_not_answered_stays_open(resume: Any, tmp_path: Path) -> None:
    """A line that says something else is the next thing that is said; the next start asks again."""
    _leave_open(tmp_path, "a")
    asked = resume("Hello\n", "--json")
    open_ = [one.id for one in _kept(tmp_path).left_open()]
    nobody = resume("")
    again = resume("/approve\n")

    questions = [one for one in map(json.loads, asked.out.splitlines()) if one["type"] == "question"]
    assert [(one["about"], one["params"]) for one in questions] == [("approval", "a")]
    assert open_ == ["c-a"]
    assert [message.text for message in _kept(tmp_path).ui_messages() if message.role == "user"][-1] == "Hello"
    assert '"a"' in nobody.out
    assert "a is empty" in again.out
    assert _kept(tmp_path).left_open() == ()


def test_each_of_several_is_asked_about(resume: Any, tmp_path: Path) -> None:
    """Those that are answered run in one turn; the others stay open."""
    _leave_open(tmp_path, "a", "b", "d")
    ended = resume("/approve\n/deny\nHello\n")

    assert [one.params for one in _kept(tmp_path).left_open()] == ["d"]
    assert len(_requests()) == 2
    assert ("a is empty" in ended.out, "b is empty" in ended.out) == (True, False)


def test_calls_of_the_last_turn_are_asked_about_first(resume: Any, tmp_path: Path) -> None:
    """Then those that were left open, in a turn of their own."""
    _leave_open(tmp_path, "a", pending="b")
    ended = resume("/approve\n/approve\n")

    assert ended.out.index("b is empty") < ended.out.index("a is empty")
    assert _kept(tmp_path).left_open() == _kept(tmp_path).pending() == ()
