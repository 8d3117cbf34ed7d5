"""`fxai chat` in a terminal: what is typed, asked and stopped, and what is left when it ends."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cli.test_process import command, environment
from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")]

TALK = """
import signal
from pathlib import Path
from typing import Any

from returns.result import Success

from fxai import Agent, Layer, Service, Tool, Toolkit, fx
from fxai.testing import ScriptedModel, call, delay, text


wipe = Tool.make("wipe", parameters=str, success=str, needs_approval=True)
slow = Tool.make("slow", success=str)
kit = Toolkit.make(wipe, slow)
agent = Agent.make("keeper", toolkit=kit)


def write(line: str) -> Any:
    def append() -> None:
        with Path("journal.txt").open("a") as file:
            file.write(line)

    return fx.sync(append)


def on_slow(_: Any) -> Any:
    held = fx.acquire_release(write("acquired "), lambda _: fx.sleep(0.01).and_then(write("released ")))
    return fx.scoped(held.and_then(fx.sleep(600))).as_("never")


def on_wipe(disk: str) -> Any:
    return write(f"wiped {disk} ").as_(f"{disk} is empty")


class Held(Service):
    pass


held = Layer.effect(Held, fx.acquire_release(fx.succeed(Held()), lambda _: write("closed ")))
handlers = kit.to_layer(wipe.handler(on_wipe) | slow.handler(on_slow)).merge(held)


def scripted(*turns: Any) -> Any:
    return handlers.merge(Layer.suspend(lambda: ScriptedModel.make(turns).layer))


talks = scripted(text("one"), text("two"), text("word " * 30), text("word " * 30))
def on_stuck(_: Any) -> Any:
    held = fx.acquire_release(write("acquired "), lambda _: fx.sleep(600))
    return fx.scoped(held.and_then(fx.sleep(600))).as_("never")


stuck = Tool.make("stuck", success=str)
sticky = Agent.make("keeper", toolkit=Toolkit.make(stuck))
sticks = stuck.handler(on_stuck).merge(Layer.suspend(lambda: ScriptedModel.make([call("stuck", {})]).layer))
asks = scripted(call("wipe", "a"), call("wipe", "b"), text("Done."), call("wipe", "c"), text("Again."))
slowly = scripted(call("slow", {}), text("Here."))
halting = scripted(["Let me ", delay(600), "think."], text("Here."))
"""


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A folder with agents to talk with."""
    (tmp_path / "talk.py").write_text(TALK)
    return tmp_path


ASKS = """
import json
import sys

FORM = {"type": "object", "properties": {"many": {"type": "integer", "minimum": 1}}, "required": ["many"]}
ASKED = {"message": "Drop how many?\\x1b[31m", "requestedSchema": FORM}


def said(data):
    print(json.dumps({"jsonrpc": "2.0", **data}), flush=True)


def answered(method):
    if method == "initialize":
        about = {"name": "asks", "version": "1.0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        marked = {"readOnlyHint": True}
        return {"tools": [{"name": "drop", "inputSchema": {"type": "object"}, "annotations": marked}]}
    said({"id": "q", "method": "elicitation/create", "params": ASKED})
    told = json.loads(sys.stdin.readline()).get("result")
    return {"content": [{"type": "text", "text": "said " + json.dumps(told)}]}


for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") in ("initialize", "tools/list", "tools/call"):
        said({"id": asked["id"], "result": answered(asked["method"])})
    elif "method" in asked and "id" in asked:
        said({"id": asked["id"], "error": {"code": -32601, "message": "there is no such method"}})
"""

DROPS = """
from fxai import Agent, Layer
from fxai.testing import ScriptedModel, call, text

turns = [call("my_drop", {}), text("Done."), call("my_drop", {}), text("Again.")]
agent = Agent.make("dropper", model=Layer.suspend(lambda: ScriptedModel.make(turns).layer))
"""

ASKING = ("--agent", "drops.py:agent", "--mcp", f"my={shlex.join([sys.executable, '-S', 'asks.py'])}")


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A folder with an agent, and a server that asks the person for something in the middle of a call."""
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "drops.py").write_text(DROPS)
    return tmp_path


def chat(folder: Path, layer: str, *more: str, columns: int = 80) -> Terminal:
    """A chat with one of them."""
    chosen = ("--agent", "talk.py:agent", "--layer", f"talk.py:{layer}")
    return Terminal("chat", *chosen, *more, cwd=folder, columns=columns)


def there(path: Path) -> None:
    """Waits until there is such a file."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end


def test_a_person_talks_and_leaves_with_ctrl_d(talk: Path) -> None:
    """The prompt comes back after each answer; Ctrl-D leaves, with 0, and what was opened is closed."""
    with chat(talk, "talks") as terminal:
        terminal.until("keeper: 2 tools. Type /help", "> ")
        terminal.type("Hello\n")
        answer = terminal.until("  one\n", "1 turn", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0
    assert "Turn" not in answer
    assert (talk / "journal.txt").read_text() == "closed "


@pytest.mark.parametrize("typed", ["\x03", "/exit\n"])
def test_it_is_left_from_the_prompt(talk: Path, typed: str) -> None:
    """Ctrl-C where nothing is answered leaves too, as /exit does: with 0, without a word of trouble."""
    with chat(talk, "talks") as terminal:
        terminal.until("> ")
        terminal.type(typed)
        code = terminal.ended()

    assert code == 0
    assert "fxai:" not in terminal.shown
    assert (talk / "journal.txt").read_text() == "closed "


@pytest.mark.parametrize(("layer", "mark"), [("slowly", "→ slow {}"), ("halting", "Let me ")])
def test_ctrl_c_stops_an_answer_and_keeps_the_conversation(talk: Path, layer: str, mark: str) -> None:
    """In a call or in the middle of a text, what was acquired is released; what came of the turn stays, as stopped."""
    with chat(talk, layer) as terminal:
        terminal.until("> ")
        terminal.type("Go\n")
        terminal.until(mark)
        if layer == "slowly":
            there(talk / "journal.txt")
        terminal.type("\x03")
        terminal.until("stopped. The messages of this turn are stored.\n", "> ")
        terminal.type("And now?\n")
        terminal.until("Here.", "> ")
        terminal.type("/history\n")
        history = terminal.until("assistant: Here.\n", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0
    assert "user: And now?" in history
    assert "user: Go" in history
    assert ("execution-interrupted" in history) == (layer == "slowly")
    assert ("assistant: Let me" in history) == (layer == "halting")
    assert (talk / "journal.txt").read_text() == ("acquired released closed " if layer == "slowly" else "closed ")


def test_a_call_runs_only_when_somebody_says_so(talk: Path) -> None:
    """It is shown with what it would be run with; nothing and a wrong word ask again; yes runs it, no does not."""
    with chat(talk, "asks") as terminal:
        terminal.until("> ")
        terminal.type("Wipe both\n")
        asked = terminal.until("this chat: ")
        terminal.type("\n")
        terminal.until("this chat: ")
        terminal.type("yes please\n")
        terminal.until("this chat: ")
        terminal.type("y\n")
        terminal.until("← wipe a is empty", '"b"', "this chat: ")
        terminal.type("n too dear\n")
        denied = terminal.until("Done.", "> ")
        terminal.type("\x04")
        terminal.ended()

    assert '? wipe needs your approval\n    "a"\n' in asked
    assert "✗ wipe did not run: tool 'wipe' did not run: too dear" in denied
    assert (talk / "journal.txt").read_text() == "wiped a closed "


def test_always_holds_for_the_tool_in_this_chat(talk: Path) -> None:
    """After `a` the tool's later calls run unasked."""
    with chat(talk, "asks") as terminal:
        terminal.until("> ")
        terminal.type("Wipe both\n")
        terminal.until("this chat: ")
        terminal.type("a\n")
        terminal.until("Done.", "> ")
        terminal.type("And c\n")
        terminal.until("Again.", "> ")
        terminal.type("\x04")
        terminal.ended()

    assert terminal.shown.count("needs your approval") == 1
    assert (talk / "journal.txt").read_text() == "wiped a wiped b wiped c closed "


@pytest.mark.parametrize(
    ("typed", "said"), [("\x03", "stopped. The messages of this turn are stored."), ("\x04", "no user was available")]
)
def test_ctrl_c_and_ctrl_d_approve_nothing(talk: Path, typed: str, said: str) -> None:
    """In place of an answer to a question, Ctrl-C stops the turn, and Ctrl-D denies the call."""
    with chat(talk, "asks") as terminal:
        terminal.until("> ")
        terminal.type("Wipe a\n")
        terminal.until("this chat: ")
        terminal.type(typed)
        terminal.until(said)
        terminal.process.terminate()
        terminal.ended()

    assert (talk / "journal.txt").read_text() == "closed "


def test_what_was_typed_ahead_approves_nothing(talk: Path) -> None:
    """A line that was typed before the question was asked is no answer to it."""
    with chat(talk, "asks") as terminal:
        terminal.until("> ")
        terminal.type("Wipe a\ny\ny\ny\n")
        terminal.until("needs your approval", "this chat: ")
        terminal.type("n\n")
        terminal.until("✗ wipe did not run", "this chat: ")
        terminal.process.terminate()
        terminal.ended()

    assert (talk / "journal.txt").read_text() == "closed "


def test_many_lines_are_one_entry(talk: Path) -> None:
    """Lines that are pasted at once are said at once; Ctrl-C drops an entry that has begun."""
    with chat(talk, "talks") as terminal:
        terminal.until("> ")
        terminal.type('"""\nnever\n')
        terminal.until(". ", ". ")
        terminal.type("\x03")
        terminal.until("> ")
        terminal.type("\x1b[200~a\rb\x1b[201~\n")
        terminal.until("one", "> ")
        terminal.type("/history\n")
        history = terminal.until("assistant: one\n", "> ")
        terminal.type("\x04")
        terminal.ended()

    assert "user: a\n    b\n" in history
    assert "never" not in history


def test_an_answer_fits_into_the_terminal_as_it_is_now(talk: Path) -> None:
    """After the terminal was made narrower, the next answer is wrapped into it."""
    with chat(talk, "talks", columns=100) as terminal:
        terminal.until("> ")
        for _ in range(2):
            terminal.type("Hello\n")
            terminal.until("1 turn", "> ")
        terminal.type("Speak\n")
        wide = terminal.until("1 turn", "> ")
        terminal.resize(40)
        terminal.type("Speak\n")
        narrow = terminal.until("1 turn", "> ")
        terminal.type("\x04")
        terminal.ended()

    assert 80 < max(len(line) for line in wide.splitlines() if "word" in line) < 100
    assert 20 < max(len(line) for line in narrow.splitlines() if "word" in line) < 40


def test_ctrl_c_twice_leaves_at_once(talk: Path) -> None:
    """Where what was stopped does not end, the second Ctrl-C leaves, whatever is left behind."""
    chosen = ("--agent", "talk.py:sticky", "--layer", "talk.py:sticks")
    with Terminal("chat", *chosen, cwd=talk) as terminal:
        terminal.until("> ")
        terminal.type("Go\n")
        there(talk / "journal.txt")
        while terminal.process.poll() is None:  # two that come at once are one
            terminal.type("\x03")
            time.sleep(0.2)
        code = terminal.ended()

    assert code == 130


@pytest.mark.parametrize(("number", "code", "answering"), [(signal.SIGTERM, 143, True), (signal.SIGHUP, 129, False)])
def test_the_end_of_the_terminal_leaves_nothing(talk: Path, number: int, code: int, answering: bool) -> None:
    """A signal that ends it, at the prompt or in the middle of an answer, has everything released first."""
    with chat(talk, "slowly") as terminal:
        terminal.until("> ")
        if answering:
            terminal.type("Go\n")
            there(talk / "journal.txt")
        terminal.process.send_signal(number)
        ended = terminal.ended()

    assert ended == code
    assert (talk / "journal.txt").read_text() == ("acquired released closed " if answering else "closed ")


# ---- what a server asks


def test_a_person_fills_in_what_a_server_asks_for(asking: Path) -> None:
    """The server's name and words are shown; a field that does not fit is asked for again; the call then goes on."""
    with Terminal("chat", *ASKING, cwd=asking) as terminal:
        terminal.until("> ")
        terminal.type("Drop it\n")
        shown = terminal.until("many (integer): ")
        terminal.type("0\n")
        again = terminal.until("many (integer): ")
        terminal.type("3\n")
        terminal.until('said {"action": "accept", "content": {"many": 3}}', "> ")
        terminal.type("Again\n")
        terminal.until("many (integer): ")
        terminal.type("\n")
        terminal.until('said {"action": "decline"}', "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert "  ? server my asks: Drop how many? [31m\n" in shown
    assert "expected integer at least 1, found integer 0\n" in again
    assert code == 0


def test_ctrl_c_in_a_form_stops_the_turn(asking: Path) -> None:
    """In place of an answer to a server, Ctrl-C stops the turn; the chat goes on."""
    with Terminal("chat", *ASKING, cwd=asking) as terminal:
        terminal.until("> ")
        terminal.type("Drop it\n")
        terminal.until("many (integer): ")
        terminal.type("\x03")
        terminal.until("stopped. The messages of this turn are stored.\n", "> ")
        terminal.type("/history\n")
        terminal.until("user: Drop it", "execution-interrupted", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert code == 0


@pytest.mark.parametrize("verb", ["chat", "run"])
def test_where_nobody_sits_a_server_is_refused(asking: Path, verb: str) -> None:
    """Piped in, and in a run, what a server asks of the person is refused: the call goes on without."""
    asked = command(verb, *ASKING)
    done = subprocess.run(asked, cwd=asking, env=environment(), input=b"Drop it\n3\n", capture_output=True, check=False)

    assert b"drop said null" in done.stdout
    assert b"How many" not in done.stdout


# ---- without a terminal


def test_text_that_is_no_utf_8_is_said_with_the_sign_for_that(talk: Path) -> None:
    """Bytes that are no text do not end the chat."""
    asked = command("chat", "--agent", "talk.py:agent", "--layer", "talk.py:talks")
    given = b"caf\xe9 \xff\n/history\n"
    done = subprocess.run(asked, cwd=talk, env=environment(), input=given, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert "user: caf� �".encode() in done.stdout


def test_a_reader_that_goes_away_ends_a_chat(talk: Path) -> None:
    """When nobody reads stdout any more, it ends as shells expect it, and what was opened is closed."""
    asked = command("chat", "--agent", "talk.py:agent", "--layer", "talk.py:talks")
    running = subprocess.Popen(
        asked, cwd=talk, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    running.stdout.close()
    _, errors = running.communicate(b"Hello\nAgain\n", timeout=60)

    assert (running.returncode, errors) == (141, b"")
    assert (talk / "journal.txt").read_text() == "closed "


def test_ctrl_c_ends_a_chat_that_nobody_types(talk: Path) -> None:
    """Where lines are piped in, an interruption ends it with 130: there is nobody to go on."""
    asked = command("chat", "--agent", "talk.py:agent", "--layer", "talk.py:slowly")
    running = subprocess.Popen(
        asked, cwd=talk, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdin is not None
    running.stdin.write(b"Go\nOn\n")
    running.stdin.flush()
    there(talk / "journal.txt")
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (130, b"fxai: interrupted\n")
    assert (talk / "journal.txt").read_text() == "acquired released closed "
