"""Typing while the model works: lines steer the run, in `fxai run` and `fxai chat`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")]

WORK = """
from pathlib import Path
from typing import Any

import anyio

from fxai import Agent, Layer, Tool, Toolkit, fx
from fxai.testing import ScriptedModel, call, text

wait = Tool.make("wait", success=str)
ask = Tool.make("ask", success=str, needs_approval=True)
kit = Toolkit.make(wait, ask)
agent = Agent.make("worker", toolkit=kit)


async def until_there() -> str:
    while not Path("go").exists():
        await anyio.sleep(0.01)
    return "waited"


model = ScriptedModel.make([call("wait", {}), call("ask", {}), text("Done."), text("Good.")])


def on_wait(_: Any) -> Any:
    return fx.wait(until_there)


layer = kit.to_layer(wait.handler(on_wait) | ask.handler(lambda _: fx.succeed("asked"))) | model.layer
"""


def test_a_line_steers_a_run(tmp_path: Path) -> None:
    """`fxai run` confirms the line, and the next request contains it."""
    target = """
from work import *

model = ScriptedModel.make([call("wait", {}), text("Done.")])
agent = Agent.make("worker", toolkit=kit.pick("wait"), on_step=lambda step: log(step.record))


def log(record: Any) -> None:
    users = [message.text for message in record.messages if message.role == "user"]
    Path("log.txt").write_text("|".join(users))


layer = wait.handler(on_wait) | model.layer
"""
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text(target)
    with Terminal("run", "--agent", "app.py:agent", "--layer", "app.py:layer", "Go.", cwd=tmp_path) as terminal:
        terminal.until("wait")
        terminal.type("Be brief.\n")
        terminal.until("the next step reads this message")
        (tmp_path / "go").touch()
        terminal.until("Done.")
        assert terminal.ended() == 0

    assert (tmp_path / "log.txt").read_text() == "Go.|Be brief."


def test_a_line_steers_a_chat_and_answers_no_question(tmp_path: Path) -> None:
    """The chat stores the line at its place. A later approval ignores it."""
    (tmp_path / "work.py").write_text(WORK)
    with Terminal("chat", "--agent", "work.py:agent", "--layer", "work.py:layer", "--store", "s", cwd=tmp_path) as chat:
        chat.until("> ")
        chat.type("Go.\n")
        chat.until("wait")
        chat.type("Ask me.\n")
        chat.until("the next step reads this message")
        (tmp_path / "go").touch()
        chat.until("this chat: ")
        chat.type("y\n")
        chat.until("Done.", "> ")
        chat.type("/exit\n")
        assert chat.ended() == 0

    stored = "".join(path.read_text() for path in (tmp_path / "s").rglob("*.jsonl"))
    assert "Ask me." in stored
    assert json.dumps("y") not in stored
