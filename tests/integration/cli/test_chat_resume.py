"""`fxai chat` in a terminal, gone on with later: after it was left, cut off, or ended while a call waited; its list."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fxai import fx
from fxai.ui import Conversation, Conversations
from tests.integration.cli.test_chat_terminal import ASKS, TALK, chat, there
from tests.integration.cli.test_process import command, environment
from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A folder with agents to talk with."""
    (tmp_path / "talk.py").write_text(TALK)
    return tmp_path


def say(folder: Path, layer: str, text: str, until: str, *more: str) -> str:
    """Says one thing, and leaves; what was shown."""
    with chat(folder, layer, *more) as terminal:
        terminal.until("> ")
        terminal.type(f"{text}\n")
        terminal.until(until, "> ")
        terminal.type("\x04")
        assert terminal.ended() == 0
        return terminal.shown


def kept(folder: Path) -> Conversation:
    """The conversation that changed last, as a page would read it."""
    store = Conversations.files(folder / "data" / "fxai" / "chats" / "conversations")
    newest = fx.run(store.list("local"))[0]
    found = fx.run(store.load(newest.id))
    assert found is not None
    return found


def listed(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """What `fxai chat` says that is not talked with."""
    known = environment(XDG_DATA_HOME=str(folder / "data"))
    return subprocess.run(command("chat", *more), cwd=folder, env=known, capture_output=True, text=True, check=False)


def test_the_last_conversation_goes_on(talk: Path) -> None:
    """What was said is there again, and what is said now comes behind it, in one conversation."""
    say(talk, "talks", "Hello there", "one")
    say(talk, "talks", "Something else", "one")
    shown = say(talk, "talks", "And now?", "one", "--resume")

    assert "Continuing from 2 messages in 'Something else'." in shown
    found = kept(talk)
    assert [message.role for message in found.history()] == ["user", "assistant", "user", "assistant"]
    assert [message.text for message in found.ui_messages()] == ["Something else", "one", "And now?", "one"]


def test_a_conversation_is_found_by_words_of_its_title(talk: Path) -> None:
    """By words or by the id in the list; where there are several or none, they are listed."""
    say(talk, "talks", "Hello there", "one")
    say(talk, "talks", "Hello again", "one")
    shown = say(talk, "talks", "And now?", "one", "--resume", "THERE")
    several, none = listed(talk, "--resume", "hello"), listed(talk, "--resume", "nobody")
    lines = listed(talk, "--list").stdout.splitlines()
    data = json.loads(listed(talk, "--list", "--json").stdout)

    assert "'Hello there'" in shown
    assert (several.returncode, none.returncode) == (2, 2)
    assert "several conversations" in several.stderr
    assert "Hello again" in several.stderr
    assert "no conversation matches 'nobody'" in none.stderr
    assert [line.split("  ")[2] for line in lines] == ["Hello there", "Hello again"]
    assert [one["id"] for one in data["conversations"]] == [line.split()[0] for line in lines]
    assert "'Hello there'" in say(talk, "talks", "x", "one", "--resume", lines[0].split()[0])


def test_nothing_is_kept_of_what_is_piped_in_unless_a_place_is_named(talk: Path) -> None:
    """A program's lines leave nothing in the user's folder; with --store they are kept there."""
    asked = command("chat", "--agent", "talk.py:agent", "--layer", "talk.py:talks")
    known = environment(XDG_DATA_HOME=str(talk / "data"))
    subprocess.run(asked, cwd=talk, env=known, input=b"Hello\n", capture_output=True, check=True)
    assert not (talk / "data").exists()

    subprocess.run([*asked, "--store", "chats.db"], cwd=talk, env=known, input=b"Hello\n", check=True)
    store = Conversations.sqlite(talk / "chats.db")
    assert [one.title for one in fx.run(store.list("local"))] == ["Hello"]


def test_a_turn_that_was_cut_off_is_told(talk: Path) -> None:
    """A process that is killed in the middle of an answer leaves what was said; the next one says so and goes on."""
    with chat(talk, "slowly") as terminal:
        terminal.until("> ")
        terminal.type("Go\n")
        there(talk / "journal.txt")
        terminal.process.kill()
    shown = say(talk, "talks", "And now?", "one", "--resume")

    assert "The last answer is incomplete" in shown
    assert [turn.ended for turn in kept(talk).turns] == [None, "done"]


@pytest.mark.parametrize("typed", ["y\n", "\x03"])
def test_a_call_that_waited_is_asked_about_again(talk: Path, typed: str) -> None:
    """Killed while it waits for an approval, it is run when that is given after all, and not where the user stops."""
    with chat(talk, "asks") as terminal:
        terminal.until("> ")
        terminal.type("Wipe a\n")
        terminal.until("this chat: ")
        terminal.process.kill()
    with chat(talk, "talks", "--resume") as terminal:
        terminal.until("? wipe needs your approval", '"a"', "this chat: ")
        assert not (talk / "journal.txt").exists()
        terminal.type(typed)
        terminal.until("one" if typed == "y\n" else "stopped. The messages of this turn are stored.", "> ")
        terminal.type("And now?\n")
        terminal.until("two" if typed == "y\n" else "one", "> ")
        terminal.type("\x04")
        terminal.ended()

    approved = typed == "y\n"
    assert (talk / "journal.txt").read_text() == ("wiped a closed " if approved else "closed ")
    found = kept(talk)
    assert [turn.ended for turn in found.turns] == ["pending", "done" if approved else "stopped", "done"]
    parts = [part for message in found.ui_messages() for part in message.parts if part["type"] == "tool-wipe"]
    assert [part["state"] for part in parts] == ["output-available" if approved else "output-error"]


def test_a_conversation_that_another_chat_is_in_is_left_alone(talk: Path) -> None:
    """Two processes do not go on with one conversation at once: the second is told."""
    with chat(talk, "talks") as terminal:
        terminal.until("> ")
        terminal.type("Hello\n")
        terminal.until("one", "> ")
        second = listed(talk, "--agent", "talk.py:agent", "--layer", "talk.py:talks", "--resume")
        terminal.type("\x04")
        terminal.ended()

    assert second.returncode == 1
    assert "another program uses this conversation" in second.stderr


def test_clear_forgets_the_conversation(talk: Path) -> None:
    """What was cleared is not found again; what is said after it is another conversation."""
    with chat(talk, "talks") as terminal:
        terminal.until("> ")
        terminal.type("Secret\n")
        terminal.until("one", "> ")
        terminal.type("/clear\n")
        terminal.until("was deleted", "> ")
        terminal.type("Hello\n")
        terminal.until("two", "> ")
        terminal.type("\x04")
        terminal.ended()

    assert [line.split("  ")[2] for line in listed(talk, "--list").stdout.splitlines()] == ["Hello"]


# ---- two questions at once

BOTH = """
from fxai import Agent, Layer
from fxai.testing import ScriptedModel, call, text

turns = [[call("a_drop", {}), call("b_drop", {})], text("Done.")]
agent = Agent.make("dropper", model=Layer.suspend(lambda: ScriptedModel.make(turns).layer))
"""


def both(folder: Path) -> Terminal:
    """A chat with two servers, each of which asks something in the middle of a call."""
    (folder / "asks.py").write_text(ASKS)
    (folder / "both.py").write_text(BOTH)
    server = shlex.join([sys.executable, "-S", "asks.py"])
    return Terminal("chat", "--agent", "both.py:agent", "--mcp", f"a={server}", "--mcp", f"b={server}", cwd=folder)


def test_two_questions_at_once_are_asked_one_after_the_other(tmp_path: Path) -> None:
    """Each says whose it is, has its own answer, and nothing is shown in the middle of one."""
    with both(tmp_path) as terminal:
        terminal.until("> ")
        terminal.type("Drop both\n")
        asked = [terminal.until("many (integer): ")]
        terminal.type("1\n")
        asked.append(terminal.until("many (integer): "))
        terminal.type("2\n")
        shown = terminal.until("Done.", "> ")
        terminal.type("\x04")
        terminal.ended()

    owners = ["a" if "server a asks" in one else "b" if "server b asks" in one else "" for one in asked]
    assert sorted(owners) == ["a", "b"]
    results = asked[1] + shown
    for number, owner in enumerate(owners, 1):
        assert f'← {owner}_drop said {{"action": "accept", "content": {{"many": {number}}}}}' in results
    assert "←" not in asked[1].rpartition("asks:")[2]


def test_ctrl_c_in_one_of_two_questions_answers_neither(tmp_path: Path) -> None:
    """The turn is stopped, the question that waited is not asked any more, and the chat goes on."""
    with both(tmp_path) as terminal:
        terminal.until("> ")
        terminal.type("Drop both\n")
        terminal.until("many (integer): ")
        terminal.type("\x03")
        stopped = terminal.until("stopped. The messages of this turn are stored.", "> ")
        terminal.type("Again\n")
        after = terminal.until("Done.", "> ")
        terminal.type("\x04")
        code = terminal.ended()

    assert "asks:" not in stopped + after
    assert "accept" not in terminal.shown
    assert code == 0
