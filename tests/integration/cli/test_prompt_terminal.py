"""A stateful prompt in a terminal: its state from turn to turn and over processes, and what Ctrl-C leaves of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.test_chat_terminal import there
from tests.integration.cli.test_process import command, environment
from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")]

GATE = """
import signal
from pathlib import Path
from typing import Any

from fxai import Layer, Tool, fx
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.testing import ScriptedModel, call, text


knock = Tool.make("knock", success=str)
look = Tool.make("look", success=str)
enter = Tool.make("enter", success=str, needs_approval=True)
doze = Tool.make("doze", success=str)


def gate(at: Render) -> None:
    stage = at.state("stage", "outside")
    at.system("where", f"The visitor is {stage.value}.")
    at.tool(look, lambda _: fx.succeed(f"you are {stage.value}"))
    at.tool(knock, lambda _: stage.set("at the door").as_("who is there?"))
    at.tool(doze, lambda _: stage.set("asleep").and_then(mark()).and_then(fx.sleep(600)).as_("never"))
    if stage.value == "at the door":
        at.tool(enter, lambda _: stage.set("inside").as_(f"from {stage.value} to the hall"))


def mark() -> Any:
    return fx.sync(lambda: Path("dozing.txt").write_text(""))


prompt = StatefulPrompt.make("gate", gate)


def scripted(*turns: Any) -> Any:
    return Layer.suspend(lambda: ScriptedModel.make(turns).layer)


looks = (call("look", {}), text("So it is."))
knocks = scripted(call("knock", {}), text("Wait."), *looks)
enters = scripted(call("knock", {}), call("enter", {}), *looks, *looks)
dozes = scripted(call("knock", {}), text("Wait."), call("doze", {}), *looks)
tells = scripted(*looks)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a prompt to talk with."""
    (tmp_path / "gate.py").write_text(GATE)
    return tmp_path


def arguments(verb: str, layer: str, *more: str) -> tuple[str, ...]:
    """A command with the prompt."""
    return (verb, "--agent", "gate.py:prompt", "--layer", f"gate.py:{layer}", *more)


def test_the_state_shows_in_the_next_turn_and_at_the_next_start(folder: Path) -> None:
    """What a turn changed is there in the next one, in /state and /tools, and in the next process with --memory."""
    with Terminal(*arguments("chat", "knocks", "--memory", "notes.db"), cwd=folder) as terminal:
        terminal.until("gate: 3 tools. Type /help", "> ")
        terminal.type("Knock\n")
        terminal.until("Wait.", "> ")
        terminal.type("/state\n")
        state = terminal.until('stage: "at the door"\n', "> ")
        terminal.type("/tools\n")
        tools = terminal.until("enter", "approval", "> ")
        terminal.type("Where am I?\n")
        terminal.until("← look you are at the door", "So it is.", "> ")
        terminal.type("\x04")
        terminal.ended()
    with Terminal(*arguments("chat", "tells", "--memory", "notes.db"), cwd=folder) as terminal:
        terminal.until("gate: 4 tools. Type /help", "Continuing from 8 messages in notes.db.", "> ")
        terminal.type("Where am I?\n")
        terminal.until("← look you are at the door", "So it is.", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0
    assert "knock" in tools
    assert "no state" not in state


def test_an_approval_in_the_terminal_goes_on_with_the_state(folder: Path) -> None:
    """The call that waits is run by the render that offered it, and what it set is there in the step after it."""
    with Terminal(*arguments("chat", "enters"), cwd=folder) as terminal:
        terminal.until("> ")
        terminal.type("Let me in\n")
        terminal.until("? enter needs your approval", "this chat: ")
        terminal.type("y\n")
        terminal.until("← enter from at the door to the hall", "← look you are inside", "> ")
        terminal.type("Where am I?\n")
        terminal.until("← look you are inside", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0


def test_ctrl_c_at_an_approval_keeps_the_state_of_the_step_before(folder: Path) -> None:
    """The turn is stopped; what its step before had set stays, as its calls stay in the conversation."""
    with Terminal(*arguments("chat", "enters"), cwd=folder) as terminal:
        terminal.until("> ")
        terminal.type("Let me in\n")
        terminal.until("this chat: ")
        terminal.type("\x03")
        terminal.until("stopped. The messages of this turn are stored.\n", "> ")
        terminal.type("Where am I?\n")
        terminal.until("← look you are at the door", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0


def test_ctrl_c_in_a_handler_leaves_the_state_as_it_was(folder: Path) -> None:
    """What the handler had set is gone with its step: from what is shown, and from the file."""
    file = folder / "state.json"
    with Terminal(*arguments("chat", "dozes", "--state", "state.json"), cwd=folder) as terminal:
        terminal.until("> ")
        terminal.type("Knock\n")
        terminal.until("Wait.", "> ")
        kept = json.loads(file.read_text())["values"]
        terminal.type("Sleep\n")
        terminal.until("→ doze")
        there(folder / "dozing.txt")
        terminal.type("\x03")
        terminal.until("stopped. The messages of this turn are stored.\n", "> ")
        terminal.type("Where am I?\n")
        terminal.until("← look you are at the door", "So it is.", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0
    assert kept == json.loads(file.read_text())["values"] == {"stage": "at the door"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_run_leaves_the_file_as_it_was(folder: Path, number: signal.Signals, code: int) -> None:
    """Stopped in the middle of a handler that has changed the state, it writes nothing."""
    file = folder / "state.json"
    file.write_text('{"values":{"stage":"outside"}}')
    file.chmod(0o600)
    asked = command(*arguments("run", "sleeps", "--state", "state.json"), "Sleep")
    (folder / "gate.py").write_text(GATE + '\nsleeps = scripted(call("doze", {}))\n')
    running = subprocess.Popen(asked, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    there(folder / "dozing.txt")
    running.send_signal(number)
    _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors.count(b"\n")) == (code, 1)
    assert file.read_text() == '{"values":{"stage":"outside"}}'
    assert sorted(path.name for path in folder.iterdir() if "state" in path.name) == ["state.json"]
