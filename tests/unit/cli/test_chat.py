"""`fxai chat` with lines that are piped in: what is said, kept, asked and refused; and `fxai run` with a memory."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command_line import Ended, Run
from tests.kit.every import every

TARGETS = str(Path(__file__).parents[2] / "kit" / "chat_targets.py")


@pytest.fixture
def chat(fxai: Run) -> Run:
    """Talks with the keeper of the targets, with one of their layers."""

    def run(layer: str, *arguments: str, piped: str, agent: str = "agent") -> Ended:
        chosen = ("--agent", f"{TARGETS}:{agent}", "--layer", f"{TARGETS}:{layer}")
        return fxai("chat", *chosen, *arguments, piped=piped)

    return run


def objects(ended: Ended) -> list[dict[str, Any]]:
    """The objects that it wrote."""
    return [json.loads(line) for line in ended.out.splitlines()]


def told(number: int = -1) -> list[list[str]]:
    """What the model of a start was told, the newest by default: for each request, the roles of its messages."""
    model = sys.modules["chat_targets"].models[number]
    return [[message.role for message in request.prompt] for request in model.requests]


# ---- turns


def test_each_line_is_said_after_what_was_said_before(chat: Run) -> None:
    """Lines are said in turn; the model is told everything before, and its instructions once."""
    ended = chat("talks", piped="Hello\n\nWho are you?\n")

    assert [line for line in ended.out.splitlines() if line and "turn" not in line] == [
        "keeper Hello",
        "  one",
        "keeper Who are you?",
        "  two",
    ]
    assert (ended.code, ended.err) == (0, "")
    assert told() == [["system", "user"], ["system", "user", "assistant", "user"]]


def test_json_writes_what_a_run_writes_for_each_line(chat: Run) -> None:
    """With --json every line of stdout is an object, and each answer is closed by one of type done."""
    done = [each for each in objects(chat("talks", "--json", piped="Hello\nAnd?\n")) if each["type"] == "done"]

    assert [(each["ok"], each["answer"], each["turns"]) for each in done] == [(True, "one", 1), (True, "two", 1)]


def test_a_turn_that_fails_leaves_the_conversation_as_it_was(chat: Run) -> None:
    """What failed is told in a line and not kept; the next line is said, and the exit code tells of it."""
    ended = chat("fragile", piped="Hello\nAre you there?\nAnd now?\n/history\n")

    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert "it is away" in ended.err
    assert told()[-1] == ["system", "user", "assistant", "user"]
    assert "Are you there?" not in ended.out.rpartition("three")[2]


def test_a_handler_that_breaks_does_not_end_the_chat(chat: Run) -> None:
    """A defect is told in a line, and the conversation goes on without that turn."""
    ended = chat("snaps", "--json", piped="Snap\nAnd?\n")
    done = [each for each in objects(ended) if each["type"] == "done"]

    assert [each["ok"] for each in done] == [False, True]
    assert "in two" in done[0]["error"]["message"]
    assert told()[-1] == ["system", "user"]


def test_an_entry_may_have_many_lines(chat: Run) -> None:
    """A backslash at the end goes on, and quotes hold any number of lines; so each is said once."""
    chat("talks", piped='a \\\nb\n"""\nc\n\nd\n"""\n')
    model = sys.modules["chat_targets"].models[-1]

    assert [request.prompt[-1].text for request in model.requests] == ["a \nb", "c\n\nd"]


def test_nothing_to_say_is_no_trouble(chat: Run) -> None:
    """Without a line, or with empty ones, it begins and ends."""
    assert chat("talks", piped="") == (0, "", "")
    assert chat("talks", piped="\n  \n") == (0, "", "")


# ---- commands


def test_commands_are_not_for_the_model(chat: Run) -> None:
    """Help, tools, history and clear are answered here; exit leaves what comes after unsaid."""
    ended = chat("talks", "--json", piped="/help\n/tools\nHello\n/history\n/clear\n/history\nAgain\n/exit\nNever\n")
    kinds = [each for each in objects(ended) if "turn" not in each]

    assert [each["type"] for each in kinds] == ["help", "tools", "done", "history", "cleared", "history", "done"]
    assert {each["name"]: each["asks"] for each in kinds[1]["tools"]} == {"wipe": True, "snap": False, "weigh": False}
    assert [message["role"] for message in kinds[3]["messages"]] == ["user", "assistant"]
    assert kinds[5]["messages"] == []
    assert told() == [["system", "user"], ["system", "user"]]


def test_people_read_the_same(chat: Run) -> None:
    """Without --json, tools and history are lines; what was cleared is gone."""
    ended = chat("talks", piped="/help\n/tools\nHello\n/history\n/clear\n/history\n")

    assert "/clear" in ended.out
    assert "  wipe   approval  Wipes a disk.\n  snap\n" in ended.out
    assert "  user: Hello\n  assistant: one\n  the conversation was deleted\n  no messages\n" in ended.out


def test_an_unknown_command_is_not_said(chat: Run) -> None:
    """It is refused with what is near; a space before a slash, or another slash in the word, says it to the model."""
    ended = chat("talks", piped="/toosl\n /tools\n/etc/hosts?\n")

    assert "unknown command /toosl. Did you mean /tools? To send it to the model, put a space before it." in ended.err
    assert len(told()) == 2
    assert ended.code == 1


# ---- calls that wait


def test_a_call_runs_when_the_next_line_approves_it(chat: Run) -> None:
    """The question is an object; /approve runs the call, and the answer goes on from it, as one turn."""
    ended = chat("asks", "--json", piped="Wipe a\n/approve\n")
    asked = next(each for each in objects(ended) if each["type"] == "question")
    results = [each for each in objects(ended) if each["type"] == "tool-result"]

    assert (asked["about"], asked["name"], asked["params"]) == ("approval", "wipe", "a")
    assert [each["result"] for each in results] == ["a is empty"]
    assert [each["answer"] for each in objects(ended) if each["type"] == "done"] == ["Done."]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/deny too dear\n", {"type": "execution-denied", "reason": "too dear"}),
        ("/deny\n", {"type": "execution-denied", "reason": "the user denied it"}),
        ("", {"type": "approval-unavailable", "name": "wipe", "reason": "no user was available to approve it"}),
    ],
)
def test_a_call_does_not_run_otherwise(chat: Run, line: str, told: dict[str, str]) -> None:
    """/deny tells the model why; where the lines end, nobody was asked, which is no denial."""
    ended = chat("asks", "--json", piped=f"Wipe a\n{line}")
    (result,) = [each for each in objects(ended) if each["type"] == "tool-result"]

    assert result["is_failure"]
    assert result["result"] == told


@pytest.mark.parametrize("line", ["y", "yes", "always", "", "/approved", "sure /approve"])
def test_another_line_approves_nothing_and_is_said_next(chat: Run, line: str) -> None:
    """Nothing but /approve approves: another line is what is said next, and the call was not run."""
    ended = chat("asks", "--json", piped=f"Wipe a\n{line}\n")
    results = [each for each in objects(ended) if each["type"] == "tool-result"]

    assert results[0]["is_failure"]
    assert "is empty" not in ended.out.partition('"done"')[0]


def test_what_somebody_else_runs_is_answered_by_the_next_line(chat: Run) -> None:
    """A call without a handler is asked about too: /answer gives its result, as JSON or text."""
    ended = chat("wants", "--json", piped='Weigh a\n/answer {"kg": 3}\n')
    asked = next(each for each in objects(ended) if each["type"] == "question")
    model = sys.modules["chat_targets"].models[-1]

    assert asked["about"] == "result"
    assert model.requests[-1].prompt[-1].content[0].result == {"kg": 3}


def test_people_see_what_would_run(chat: Run) -> None:
    """A question shows the tool and everything it would be run with."""
    ended = chat("asks", piped="Wipe a\n/approve\n")

    assert '  ? wipe needs your approval\n    "a"\n  ← wipe a is empty\n  Done.\n' in ended.out


def test_a_run_ends_where_a_call_waits(fxai: Run) -> None:
    """Nobody can be asked in `fxai run`: it ends with 1 and says which call waits, and of whom."""
    kept, theirs = (
        fxai("run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:{layer}", "Go") for layer in ("asks", "wants")
    )

    assert "  ? wipe needs an approval\n" in kept.out
    assert kept.err == 'fxai: no user can approve the call of wipe "a". fxai chat can ask you for the approval.\n'
    assert theirs.err == 'fxai: no result for the external call of weigh "a". fxai chat can ask you for the result.\n'
    assert (kept.code, theirs.code) == (1, 1)


# ---- agents


def test_a_source_is_opened_once_for_the_whole_chat(chat: Run) -> None:
    """What an agent opens for a run stays open from turn to turn, and is closed in the end."""
    ended = chat("counts", "--json", piped="Count four\nCount six\n/tools\n", agent="counting")
    results = [each["result"] for each in objects(ended) if each["type"] == "tool-result"]

    assert results == [4, 3]
    assert sys.modules["chat_targets"].journal == ["opened", "closed"]
    sys.modules["chat_targets"].journal.clear()


def test_an_agent_may_have_a_model_of_its_own(fxai: Run) -> None:
    """Its model is made once, and keeps from turn to turn what it holds."""
    ended = fxai("chat", "--agent", f"{TARGETS}:own_model", piped="Hello\nAnd?\n")

    assert [line for line in ended.out.splitlines() if line.startswith("  ")] == ["  one", "  two"]


def test_an_agent_may_have_a_memory_of_its_own(chat: Run) -> None:
    """What it remembers is gone on from, and added to; where it only reads, nothing is added."""
    chat("three", piped="I am Ann.\n", agent="remembering")
    chat("three", piped="Who am I?\nSure?\n", agent="reading")
    read = told()
    chat("three", piped="Who am I?\n", agent="remembering")

    assert [len(roles) for roles in read] == [3, 5]
    assert told() == [["user", "assistant", "user"]]


def test_what_it_is_told_can_be_said(chat: Run) -> None:
    """--system takes the place of the agent's instructions; without an agent it makes a plain one."""
    chat("three", "--system", "Be brief.", piped="Hello\n", agent="own_model")
    model = sys.modules["chat_targets"].models[-1]

    assert model.requests[0].prompt[0].content == "Be brief."


def test_a_plain_agent_has_no_tools(fxai: Run) -> None:
    """With --system and without --agent there is an agent with nothing else."""
    ended = fxai("chat", "--layer", f"{TARGETS}:three", "--system", "Be brief.", "--json", piped="/tools\n")

    assert objects(ended) == [{"type": "tools", "tools": []}]


def test_a_builder_is_a_target_of_other_commands_too(fxai: Run) -> None:
    """`fxai tools` opens what a builder has bound, and closes it; `fxai call` calls one of its tools."""
    shown = fxai("tools", "--json", f"{TARGETS}:counting")
    called = fxai("call", f"{TARGETS}:counting", "count", '{"word": "four"}')

    assert [each["name"] for each in json.loads(shown.out)["tools"]] == ["count"]
    assert json.loads(called.out) == 4
    assert sys.modules["chat_targets"].journal == ["opened", "closed"] * 2
    sys.modules["chat_targets"].journal.clear()


# ---- memory


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.db", "notes.sqlite"])
def test_a_conversation_goes_on_at_the_next_start(chat: Run, tmp_path: Path, name: str) -> None:
    """What was said is in the file; the next start is told it, and so is `fxai run`."""
    file = str(tmp_path / name)
    chat("talks", "--memory", file, piped="I am Ann.\n")
    ended = chat("talks", "--memory", file, piped="Who am I?\n/history\n")

    assert told() == [["system", "user", "assistant", "user"]]
    assert "user: I am Ann.\n  assistant: one\n  user: Who am I?" in ended.out


def test_a_run_remembers_too(fxai: Run, tmp_path: Path) -> None:
    """`fxai run --memory` goes on from the file, and adds to it."""
    chosen = ("--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:talks", "--memory", str(tmp_path / "notes.jsonl"))
    fxai("run", *chosen, "I am Ann.")
    fxai("run", *chosen, "Who am I?")

    assert told() == [["system", "user", "assistant", "user"]]


def test_calls_that_were_left_open_are_not_run(fxai: Run, chat: Run, tmp_path: Path) -> None:
    """A call that waited when the process ended is not run by the next one; the conversation goes on."""
    file = str(tmp_path / "notes.jsonl")
    fxai("run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:asks", "--memory", file, "Wipe a")
    ended = chat("talks", "--memory", file, "--json", piped="Hello\n/history\n")
    messages = objects(ended)[-1]["messages"]

    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert messages[2]["content"][0]["result"]["type"] == "approval-unavailable"


def test_a_turn_that_fails_is_not_in_the_file(chat: Run, tmp_path: Path) -> None:
    """The file holds the turns that ended, whole, and nothing of the one that did not."""
    file = tmp_path / "notes.db"
    chat("fragile", "--memory", str(file), piped="Hello\nAre you there?\n")
    with sqlite3.connect(file) as database:
        dump = "\n".join(database.iterdump())
    database.close()

    assert "Hello" in dump
    assert "Are you there?" not in dump


WRONG: list[tuple[list[str], int, str]] = [
    (["--memory", "notes.txt"], 2, "the name 'notes.txt' does not show the kind of memory. Use the suffix .jsonl"),
    (
        ["--memory", "no/where.jsonl"],
        2,
        "messages in no/where.jsonl: directory no does not exist. Name a file",
    ),
    (["--model", "gpt:5"], 2, "unknown provider 'gpt'. Write provider:model with one of: "),
    (["--agent", f"{TARGETS}:kit"], 2, "is a value of type Toolkit, not an agent or a stateful prompt. Try "),
    (["--layer", f"{TARGETS}:agent"], 2, "not a layer. Try "),
    (["--rounds", "0"], 2, "--rounds must be at least 1, got 0. Run fxai chat --help"),
    (["--mcp", ""], 2, "missing SERVER. Pass a command such as"),
    (["--mcp", "a 'b"], 2, "No closing quotation"),
    (["--yes"], 2, "--yes requires --mcp. Pass --mcp SERVER, or remove --yes."),
    (["--env", "HOME"], 2, "--env requires --mcp"),
    (["--pins", "pins.json"], 2, "--pins requires --mcp"),
    (["--timeout", "5"], 2, "--timeout requires --mcp"),
    (
        ["--pins", "no/where", "--mcp", "x"],
        2,
        "store pins in no/where: directory no does not exist. Name a file",
    ),
    (["--pins", ".", "--mcp", "x"], 2, "cannot store pins in .: not a regular file. Name a file"),
    (["Hello"], 2, "unexpected argument (Hello). Run fxai chat --help"),
]


@every(("arguments", "code", "said"), WRONG, ids=lambda value: str(value)[:50])
def test_what_is_wrong_is_said_before_anything_else(fxai: Run, arguments: list[str], code: int, said: str) -> None:
    """Wrong use ends with 2, what cannot be had with 1: one line on stderr with the remedy, nothing on stdout."""
    ended = fxai("chat", *arguments, piped="Hello\n")

    assert said in ended.err
    assert (ended.code, ended.err.count("\n"), ended.out) == (code, 1, "")


@pytest.mark.parametrize(
    ("name", "content"),
    [("notes.jsonl", b'{"half'), ("notes.jsonl", b"\xff\xfe\n{}\n"), ("notes.db", b"no database at all")],
)
def test_a_memory_that_is_broken_is_named(chat: Run, tmp_path: Path, name: str, content: bytes) -> None:
    """A file that holds something else is named in a line, and left as it is."""
    file = tmp_path / name
    file.write_bytes(content)
    file.chmod(0o600)
    ended = chat("talks", "--memory", str(file), piped="Hello\n")

    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert name in ended.err
    assert file.read_bytes() == content
