"""Stateful prompts as targets: run, talked with, shown and called; the state that is kept, and what can be wrong."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command_line import Ended, Run
from tests.kit.every import every

TARGETS = str(Path(__file__).parents[2] / "kit" / "prompt_targets.py")


@pytest.fixture
def run(fxai: Run) -> Run:
    """Runs a prompt with a layer, on "Go"."""

    def start(prompt: str, layer: str, *more: str) -> Ended:
        return fxai("run", "--agent", f"{TARGETS}:{prompt}", "--layer", f"{TARGETS}:{layer}", *more, "Go")

    return start


@pytest.fixture
def chat(fxai: Run) -> Run:
    """Talks with a prompt."""

    def start(layer: str, *more: str, piped: str, prompt: str = "prompt") -> Ended:
        chosen = ("--agent", f"{TARGETS}:{prompt}", "--layer", f"{TARGETS}:{layer}")
        return fxai("chat", *chosen, *more, piped=piped)

    return start


def objects(ended: Ended) -> list[dict[str, Any]]:
    """The objects that it wrote."""
    return [json.loads(line) for line in ended.out.splitlines()]


def done(ended: Ended) -> list[dict[str, Any]]:
    """The closing objects that it wrote."""
    return [each for each in objects(ended) if each["type"] == "done"]


def systems(number: int = -1) -> list[str]:
    """The system prompts that the model of a start was given, the newest by default."""
    return [request.prompt.system() or "" for request in sys.modules["prompt_targets"].models[number].requests]


# ---- a run


@pytest.mark.parametrize("target", ["prompt", "agent"])
def test_a_prompt_is_run_as_an_agent(run: Run, target: str) -> None:
    """A stateful prompt is a target, and so is an agent that has one; --json shows the state after the run."""
    ended = run(target, "searches", "--json")

    assert (ended.code, ended.err) == (0, "")
    assert done(ended)[0]["answer"] == "One."
    assert done(ended)[0]["state"] == {"mode": "basic", "found": 1}
    assert "basic mode; 0 searches" in systems()[0]


def test_an_agent_without_a_prompt_has_no_state(run: Run) -> None:
    """What is written for other agents is as it was."""
    assert "state" not in done(run("plain", "talks", "--json"))[0]


def test_a_run_begins_with_the_initial_state(run: Run) -> None:
    """Without a file or a memory nothing goes on."""
    run("prompt", "upgrades")
    run("prompt", "upgrades")

    assert "basic mode" in systems()[0]


# ---- a file


def test_a_state_file_is_written_and_gone_on_from(run: Run, tmp_path: Path) -> None:
    """It is made when the run has succeeded, its owner's alone; the next run goes on from it."""
    file = tmp_path / "state.json"
    run("prompt", "searches", "--state", str(file))
    ended = run("prompt", "searches", "--state", str(file), "--json")

    assert "basic mode; 1 searches" in systems()[0]
    assert done(ended)[0]["state"]["found"] == 2
    assert json.loads(file.read_text())["values"] == {"mode": "basic", "found": 2}
    assert sys.platform == "win32" or file.stat().st_mode & 0o777 == 0o600


def test_a_run_that_fails_leaves_the_file_as_it_was(run: Run, tmp_path: Path) -> None:
    """What handlers set before it failed is not kept."""
    file = tmp_path / "state.json"
    run("prompt", "searches", "--state", str(file))
    before = file.read_bytes()
    ended = run("prompt", "fails_later", "--state", str(file))

    assert ended.code == 1
    assert "it is away" in ended.err
    assert file.read_bytes() == before


def test_a_run_that_ends_at_an_open_call_leaves_the_file_as_it_was(run: Run, tmp_path: Path) -> None:
    """A call that waits to be approved is no success: there is no file."""
    file = tmp_path / "state.json"
    ended = run("prompt", "refunds", "--state", str(file))

    assert (ended.code, file.exists()) == (1, False)
    assert 'no user can approve the call of refund "7"' in ended.err


DAMAGE = [b"", b"{", b"[]", b'{"values": 3}', b'{"values": {}, "more": 1}', b"\xff\xfe\x00", b'{"half": "of']


@pytest.mark.parametrize("content", DAMAGE)
def test_a_file_that_is_no_state_is_named(run: Run, tmp_path: Path, content: bytes) -> None:
    """One line says which file and what to do; nothing is asked, and it is left as it is."""
    file = tmp_path / "state.json"
    file.write_bytes(content)
    file.chmod(0o600)
    ended = run("prompt", "searches", "--state", str(file))

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "state.json is not a valid state of a prompt: " in ended.err
    assert ". Pass another file, or move this file away to start with the initial state." in ended.err
    assert file.read_bytes() == content


def test_a_state_of_another_type_is_told_before_the_run(run: Run, tmp_path: Path) -> None:
    """A key that holds a string where the prompt says a number: the message names it, and no model is asked."""
    file = tmp_path / "state.json"
    run("prompt", "searches", "--state", str(file))
    before, models = file.read_bytes(), len(sys.modules["prompt_targets"].models)
    ended = run("retyped", "talks", "--state", str(file))

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "state 'mode' does not have the type" in ended.err
    assert file.read_bytes() == before
    assert all(not model.requests for model in sys.modules["prompt_targets"].models[models:])


def test_a_state_that_is_no_json_cannot_be_kept(run: Run, tmp_path: Path) -> None:
    """The run is done and shown, and fails where its state cannot be written; without the file it is well."""
    file = tmp_path / "state.json"
    kept = run("opaque", "talks", "--state", str(file))
    shown = run("opaque", "talks", "--json")

    assert (kept.code, file.exists()) == (1, False)
    assert "cannot store the state in " in kept.err
    assert "'thing'" in kept.err
    assert (shown.code, list(done(shown)[0]["state"])) == (0, ["thing"])


WRONG: list[tuple[str, str, str]] = [
    ("plain", "state.json", "--state requires a stateful prompt, but agent 'plain' has none. Remove --state"),
    ("prompt", "no/where.json", "cannot store the state in no/where.json: directory no does not exist. Name a file"),
    ("prompt", ".", "cannot store the state in .: not a regular file. Name a file"),
]


@every("command", ["run", "chat"])
@every(("target", "path", "said"), WRONG, ids=lambda value: str(value)[:30])
def test_a_file_that_cannot_be_is_refused_at_once(fxai: Run, command: str, target: str, path: str, said: str) -> None:
    """Wrong use ends with 2, in one line with the remedy."""
    chosen = ("--agent", f"{TARGETS}:{target}", "--layer", f"{TARGETS}:talks", "--state", path)
    ended = fxai(command, *chosen, *(["Go"] if command == "run" else []), piped="Go\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


def test_the_state_has_a_file_of_its_own(run: Run, tmp_path: Path) -> None:
    """The file of the memory is refused: it would be written over, or read as a state."""
    chosen = ("--state", str(tmp_path / "notes.db"), "--memory", f"{tmp_path}/./notes.db")
    ended = run("prompt", "searches", *chosen)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "the file of --memory already stores the state. Name a file" in ended.err


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everything may be written here")
def test_a_folder_without_rights_is_refused(run: Run, tmp_path: Path) -> None:
    """The file is replaced as a whole, so that its folder counts: that is told before the run."""
    file = tmp_path / "state.json"
    run("prompt", "searches", "--state", str(file))
    tmp_path.chmod(0o500)
    ended = run("prompt", "searches", "--state", str(file))
    tmp_path.chmod(0o700)

    assert (ended.code, ended.out) == (2, "")
    assert "no permission to write in " in ended.err


def test_the_example_agent_keeps_no_state(fxai: Run) -> None:
    """--state without --agent is refused, too."""
    ended = fxai("run", "--state", "state.json", "Go")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "agent 'files' has none" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_a_link_is_not_followed(run: Run, tmp_path: Path) -> None:
    """What the link leads to is neither read nor written."""
    target, link = tmp_path / "target.json", tmp_path / "state.json"
    target.write_text('{"values": {"mode": "advanced"}}')
    link.symlink_to(target)
    ended = run("prompt", "searches", "--state", str(link))

    assert (ended.code, ended.out) == (1, "")
    assert "is a symbolic link" in ended.err
    assert target.read_text() == '{"values": {"mode": "advanced"}}'


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everything may be written here")
def test_a_file_without_rights_is_refused(run: Run, tmp_path: Path) -> None:
    """A file that may not be written is told before the run."""
    file = tmp_path / "state.json"
    file.write_text('{"values": {}}')
    file.chmod(0o400)
    ended = run("prompt", "searches", "--state", str(file))

    assert (ended.code, ended.out) == (2, "")
    assert "no permission to write" in ended.err


def test_a_state_that_others_can_read_is_made_private(run: Run, tmp_path: Path) -> None:
    """A file that was copied with wide rights is used, tightened, and that is said."""
    file = tmp_path / "state.json"
    file.write_text('{"values": {"mode": "advanced"}}')
    file.chmod(0o644)
    ended = run("prompt", "talks", "--state", str(file))

    assert ended.code == 0
    assert "advanced mode" in systems()[0]
    if sys.platform != "win32":
        assert "could be read by others" in ended.err
        assert file.stat().st_mode & 0o777 == 0o600


# ---- a memory


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.db"])
def test_a_memory_keeps_the_state(run: Run, tmp_path: Path, name: str) -> None:
    """The state goes on with the conversation, from run to run."""
    file = str(tmp_path / name)
    run("prompt", "upgrades", "--memory", file)
    ended = run("agent", "searches", "--memory", file, "--json")

    assert "advanced mode; 0 searches" in systems()[0]
    assert done(ended)[0]["state"] == {"mode": "advanced", "found": 1}


def test_a_file_goes_before_the_memory(run: Run, tmp_path: Path) -> None:
    """Where both hold a state, the file is what the run begins with; both hold the one after it."""
    memory, file = str(tmp_path / "notes.jsonl"), tmp_path / "state.json"
    run("prompt", "upgrades", "--memory", memory)
    file.write_text('{"values": {"found": 7}}')
    file.chmod(0o600)
    run("prompt", "searches", "--memory", memory, "--state", str(file))
    from_file = systems()[0]
    run("prompt", "talks", "--memory", memory)

    assert "basic mode; 7 searches" in from_file
    assert json.loads(file.read_text())["values"] == {"mode": "basic", "found": 8}
    assert "basic mode; 8 searches" in systems()[0]


def test_the_agents_own_memory_keeps_the_state(chat: Run) -> None:
    """A chat goes on from it, and adds to it; one that is only read is not changed, and the state goes on here."""
    chat("upgrades", piped="More\n", prompt="remembering")
    chat("talks", piped="Hello\n", prompt="remembering")
    added = systems()[0]
    ended = chat("upgrades", "--json", piped="More\n/state\n", prompt="reading")
    chat("talks", piped="Hello\n", prompt="reading")

    assert "advanced mode" in added
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["advanced"]
    assert "basic mode" in systems()[0]


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_memory_that_keeps_no_state_is_told_before_the_run(fxai: Run, command: str) -> None:
    """Of a memory of the agent's own that does not define how."""
    chosen = ("--agent", f"{TARGETS}:forgetful", "--layer", f"{TARGETS}:talks")
    ended = fxai(command, *chosen, *(["Go"] if command == "run" else []), piped="Go\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "the class stores no state of a stateful prompt" in ended.err


# ---- what is wrong with a prompt


@every(
    ("target", "said"),
    [
        ("raises", "prompt 'raises' raised RuntimeError: in two. Run it again with --debug to see the traceback."),
        ("conflict", "cannot render prompt 'conflict': two definitions have the name 'ping': "),
        (
            "clashing",
            "cannot render prompt 'pings': the name 'ping' belongs to a tool of the agent and to another",
        ),
        (
            "naming",
            "cannot render prompt 'names': the name 'ping' belongs to a tool of the agent and to another",
        ),
        ("waits", "cannot render prompt 'waits': a render must return None, got <generator object"),
    ],
)
@every("command", ["run", "chat", "tools", "call"])
def test_a_render_that_is_wrong_is_told_in_a_line(fxai: Run, command: str, target: str, said: str) -> None:
    """Wherever it is a target: before a model is asked or anything shown."""
    chosen = ("--agent", f"{TARGETS}:{target}", "--layer", f"{TARGETS}:talks")
    arguments = {"run": (*chosen, "Go"), "chat": chosen, "call": (f"{TARGETS}:{target}", "ping")}
    ended = fxai(command, *arguments.get(command, (f"{TARGETS}:{target}",)), piped="Go\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert said in ended.err


def test_what_is_defined_too_late_ends_the_run(run: Run) -> None:
    """What only the run finds is a typed failure, in one line."""
    ended = run("late", "talks")

    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith("fxai: prompt 'late' did not render for step 1: at.system('more', …)")


@pytest.mark.parametrize("command", ["run", "chat"])
@pytest.mark.parametrize("target", ["prompt", "agent"])
def test_a_service_that_is_missing_is_told_before_the_run(fxai: Run, command: str, target: str) -> None:
    """What the render's annotation or a handler names and no layer gives; no model is asked."""
    chosen = ("--agent", f"{TARGETS}:{target}", "--layer", f"{TARGETS}:bare")
    ended = fxai(command, *chosen, *(["Go"] if command == "run" else []), piped="Go\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "service Orders is missing: " in ended.err
    assert "--layer module:name" in ended.err


@pytest.mark.parametrize("target", ["later", "effecting"])
def test_a_service_that_is_needed_later_is_told_before_the_run(run: Run, target: str) -> None:
    """Only the annotation, or an effect, says it: in the first step no handler needs it."""
    ended = run(target, "bare")

    assert (ended.code, ended.out) == (1, "")
    assert "service Orders is missing: " in ended.err


def test_a_handler_that_is_missing_is_told_before_the_run(run: Run) -> None:
    """A tool whose handler is to come from outside."""
    ended = run("unanswered", "bare")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("fxai: missing handlers for tools of prompt 'unanswered': ping. Name the layer")


# ---- what it offers


def test_the_tools_of_the_first_step_are_shown(fxai: Run) -> None:
    """`fxai tools` shows what a render with the initial state defines, and says that it may change."""
    shown = fxai("tools", f"{TARGETS}:prompt")
    data = json.loads(fxai("tools", "--json", f"{TARGETS}:agent").out)

    assert shown.out.startswith("search  ")
    assert "these are the tools of the first step. The prompt 'desk' can offer other tools later.\n" in shown.out
    assert [each["name"] for each in data["tools"]] == ["search", "upgrade"]
    assert data["prompt"] == "desk"


def test_other_commands_take_a_prompt_too(fxai: Run) -> None:
    """Schemas are shown, faults found, and a tool of the first step is called with its handler."""
    schemas = json.loads(fxai("schema", "--json", f"{TARGETS}:prompt").out)
    checked = fxai(
        "check", f"{TARGETS}:prompt", "--layer", f"{TARGETS}:live", "--level", "error", "--ignore", "root-not-object"
    )
    called = fxai("call", f"{TARGETS}:prompt", "search", '"7"', "--layer", f"{TARGETS}:live")
    changed = fxai("call", f"{TARGETS}:prompt", "upgrade")

    assert [each["name"] for each in schemas["tools"]] == ["search", "upgrade"]
    assert checked == (0, "", "")
    assert (called.code, called.out) == (0, '"order 7: 7"\n')
    assert (changed.code, changed.out) == (0, '"granted"\n')


def test_a_tool_of_both_is_one(fxai: Run) -> None:
    """The agent and its prompt may have the same tool: it is shown once."""
    data = json.loads(fxai("tools", "--json", f"{TARGETS}:sharing").out)
    talked = fxai("chat", "--agent", f"{TARGETS}:sharing", "--layer", f"{TARGETS}:ponging", "--json", piped="/tools\n")

    assert [each["name"] for each in data["tools"]] == ["ping"]
    assert [each["name"] for each in objects(talked)[0]["tools"]] == ["ping"]


def test_a_conflict_of_a_render_is_a_fault(fxai: Run) -> None:
    """`fxai check` finds it as a definition that is refused; a render that breaks is an error of the command."""
    found = fxai("check", f"{TARGETS}:conflict")
    broken = fxai("check", f"{TARGETS}:raises")

    assert "cannot render prompt 'conflict': two definitions have the name 'ping'" in found.out
    assert (found.code, broken.code, broken.out) == (1, 1, "")
    assert "RuntimeError: in two" in broken.err


def test_a_prompt_is_not_served(fxai: Run) -> None:
    """Clients would see the first step's tools for ever: that is refused, with what to serve instead."""
    ended = fxai("mcp", "serve", f"{TARGETS}:prompt")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "is a stateful prompt, and its tools change at each step of a run. Serve it as one tool" in ended.err


def test_what_is_no_agent_says_what_there_is(fxai: Run) -> None:
    """The error names the prompts of the module, too."""
    ended = fxai("run", "--agent", f"{TARGETS}:live", "Go")

    assert ended.code == 2
    assert f"not an agent or a stateful prompt. Try {TARGETS}:prompt, {TARGETS}:agent" in ended.err


# ---- a chat


def test_the_state_goes_on_from_turn_to_turn(chat: Run) -> None:
    """What a turn changed shows in the next; /state and /tools show what is there now."""
    ended = chat("upgrades", "--json", piped="/tools\nMore\n/state\n/tools\nAnd?\n")
    tools = [[tool["name"] for tool in each["tools"]] for each in objects(ended) if each["type"] == "tools"]
    states = [each["state"] for each in objects(ended) if each["type"] == "state"]

    assert (ended.code, ended.err) == (0, "")
    assert tools == [["search", "upgrade"], ["search", "upgrade", "refund"]]
    assert states == [{"mode": "advanced", "found": 0}]
    assert [each["state"]["mode"] for each in done(ended)] == ["advanced", "advanced"]
    assert "advanced mode" in systems()[-1]


def test_people_read_the_state_in_lines(chat: Run) -> None:
    """Each key has a line, with its initial value before anything was said; an agent without a prompt has none."""
    ended = chat("upgrades", piped="/state\nMore\n/state\n")
    plain = chat("talks", piped="/state\n", prompt="plain")

    assert ended.out.startswith('  mode: "basic"\n  found: 0\n')
    assert '  mode: "advanced"\n  found: 0\n' in ended.out
    assert plain.out == "  the agent has no stateful prompt\n"


def test_a_turn_that_fails_leaves_the_state_as_it_was(chat: Run) -> None:
    """What a handler set before the model failed is gone, as the messages are."""
    ended = chat("fragile", "--json", piped="Hello\nMore\n/state\nAnd?\n")

    assert [each["ok"] for each in done(ended)] == [True, False, True]
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["basic"]
    assert "basic mode" in systems()[-1]


def test_an_approved_call_goes_on_with_the_state(chat: Run) -> None:
    """Within a turn the call that waits is run by the render that offered it, and its change is kept."""
    ended = chat("refunds", "--json", piped="Refund\n/approve\n/state\n")
    results = [each["result"] for each in objects(ended) if each["type"] == "tool-result"]

    assert results == ["granted", "refunded 7"]
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["basic"]


def test_a_denied_call_changes_nothing(chat: Run) -> None:
    """The turn goes on with the state that it had."""
    ended = chat("refunds", "--json", piped="Refund\n/deny too dear\n/state\n")

    assert [each["ok"] for each in done(ended)] == [True]
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["advanced"]


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.db"])
def test_a_chat_goes_on_from_a_memory(chat: Run, tmp_path: Path, name: str) -> None:
    """The next process goes on from the state, and offers the tools of it; /clear forgets both."""
    chosen = ("--memory", str(tmp_path / name))
    chat("upgrades", *chosen, piped="More\n")
    ended = chat("talks", "--json", *chosen, piped="/tools\nHello\n/clear\n/tools\n/state\nAgain\n")
    tools = [len(each["tools"]) for each in objects(ended) if each["type"] == "tools"]

    assert tools == [3, 2]
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["basic"]
    assert "advanced mode" in systems()[0]
    assert "basic mode" in systems()[1]


def test_the_state_of_a_run_with_open_calls_is_gone_on_from(run: Run, chat: Run, tmp_path: Path) -> None:
    """A call that was left open is closed, not run; the state is what the run had come to."""
    chosen = ("--memory", str(tmp_path / "notes.jsonl"))
    run("prompt", "refunds", *chosen)
    ended = chat("talks", "--json", *chosen, piped="/state\nHello\n")
    states = [each["state"] for each in objects(ended) if "state" in each]

    assert [state["mode"] for state in states] == ["advanced", "advanced"]
    assert "advanced mode" in systems()[0]


def test_a_chat_goes_on_from_a_file(chat: Run, tmp_path: Path) -> None:
    """--state alone keeps the state and not what was said; each turn writes it, and /clear removes it."""
    file = tmp_path / "state.json"
    chat("upgrades", "--state", str(file), piped="More\n")
    kept = json.loads(file.read_text())["values"]
    ended = chat("talks", "--json", "--state", str(file), piped="Hello\n/history\n/clear\n/state\n")

    assert kept == {"mode": "advanced", "found": 0}
    assert "advanced mode" in systems()[0]
    assert [len(each["messages"]) for each in objects(ended) if each["type"] == "history"] == [2]
    assert [each["state"]["mode"] for each in objects(ended) if each["type"] == "state"] == ["basic"]
    assert not file.exists()


def test_a_chat_does_not_begin_with_a_file_that_is_no_state(chat: Run, tmp_path: Path) -> None:
    """It is told before anything is said, and the file is left as it is."""
    file = tmp_path / "state.json"
    file.write_text("{")
    file.chmod(0o600)
    ended = chat("talks", "--state", str(file), piped="Hello\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "is not a valid state of a prompt" in ended.err
    assert file.read_text() == "{"


def test_an_agent_without_a_prompt_has_no_state_to_show(chat: Run) -> None:
    """/state says so, and the turns go on as before."""
    ended = chat("talks", "--json", piped="Hello\n/state\n", prompt="plain")

    assert [each["state"] for each in objects(ended) if each["type"] == "state"] == [None]
    assert "state" not in done(ended)[0]
