"""Stateful prompts whose run waits in one process and goes on in another, from what a memory on disk holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fxai.effects import fx
from tests.kit.memories import memory_of

ROOT = Path(__file__).parents[2]

# `order` is a run that waits; `approve` and `deny` answer it; all else is said to the agent.
SELLER = """
import json, sys
from pathlib import Path
import msgspec
from fxai import Tool, fx
from fxai.agents import Agent
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.messages import ToolMessage
from fxai.models import ApprovalKey
from fxai.testing import ScriptedModel, call, text
from tests.kit.memories import memory_of

kind, folder, said = sys.argv[1:]
memory = memory_of(kind, Path(folder))

class Book(msgspec.Struct, frozen=True):
    title: str

add = Tool.make("add", parameters=Book, success=str)
pay = Tool.make("pay", success=str, needs_approval=True)
hints = []

def shop(at: Render) -> None:
    books = at.state("books", (), schema=tuple[Book, ...])
    at.system("basket", ", ".join(book.title for book in books.value) or "nothing")
    if at.number == 1:
        at.tool(add, lambda book: books.update(lambda known: (*known, book)).as_("added"))
    else:
        seen = " and ".join(book.title for book in books.value)
        at.tool(pay, lambda _: books.set(()).as_(f"paid for {seen}"))
    at.effect("hint", lambda _: hints.append(at.number), deps=())

turns = {
    "order": [call("add", {"title": "Emma"}), call("pay", {})],
    "approve": [text("It is paid.")],
    "deny": [text("Then not.")],
}
if said == "order":
    prompt = "Emma, please."
elif said in ("approve", "deny"):
    (waiting,) = [one for turn in fx.run(memory.turns()) for one in turn.pending]
    prompt = ToolMessage.make(waiting.approve() if said == "approve" else waiting.deny())
else:
    prompt = said
model = ScriptedModel.make(turns.get(said, [text("Well.")]))
agent = Agent.make("seller", prompt=StatefulPrompt.make("shop", shop)).with_memory(memory)
running = agent.execute(prompt).provide(ApprovalKey(b"k" * 32).layer).provide(model.layer)
answer = fx.run(running)
shown = [request.prompt.system().splitlines()[1] for request in model.requests]
print(json.dumps([answer.ended, shown, hints]))
"""

# how the run ended, what was in the basket when the model was asked, and at which steps the effect ran that runs once
_Said = tuple[str, list[str], list[int]]


def _process(kind: str, folder: Path, said: str) -> _Said:
    command = [sys.executable, "-c", SELLER, kind, str(folder), said]
    ended, shown, hints = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return ended, shown, hints


def _kept(kind: str, folder: Path) -> tuple[Any, str]:
    memory = memory_of(kind, folder)
    state = fx.run(memory.load_state())
    assert state is not None
    return state.to_data()["values"], "".join(str(turn) for turn in fx.run(memory.turns()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_run_that_waits_goes_on_in_another_process(kind: str, tmp_path: Path) -> None:
    """The call is run by the handlers of the step that made it, though that tool is not defined at first any more."""
    waits = _process(kind, tmp_path, "order")
    waiting, _ = _kept(kind, tmp_path)
    paid = _process(kind, tmp_path, "approve")
    values, said = _kept(kind, tmp_path)

    assert waits == ("pending", ["nothing", "Emma"], [1])
    assert waiting == {"books": [{"title": "Emma"}]}
    assert paid == ("done", ["nothing"], [])
    assert values == {"books": []}
    assert "paid for Emma" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_run_goes_on_though_others_come_in_between(kind: str, tmp_path: Path) -> None:
    """They see the state as it is, and what waits is approved later all the same, or denied."""
    _process(kind, tmp_path, "order")
    between = _process(kind, tmp_path, "Is it raining?")
    paid = _process(kind, tmp_path, "approve")
    _process(kind, tmp_path, "order")
    denied = _process(kind, tmp_path, "deny")
    values, said = _kept(kind, tmp_path)

    assert between == ("done", ["Emma"], [])
    assert paid == ("done", ["nothing"], [])
    assert denied == ("done", ["Emma"], [])
    assert values == {"books": [{"title": "Emma"}]}
    assert said.count("paid for Emma") == 1
