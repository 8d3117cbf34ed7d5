"""The command line, asked as a user would, with scripted models: what it prints where, and how it ends."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import pytest

from fxai.cli.command import cli
from fxai.cli.example import prompts
from fxai.cli.option import Command
from tests.kit.command_line import Ended, Run
from tests.kit.every import every

TARGETS = str(Path(__file__).parents[2] / "kit" / "targets.py")


@pytest.fixture
def forecaster(fxai: Run) -> Run:
    """Runs the agent of the targets with one of their layers."""

    def run(layer: str, *arguments: str, piped: str | None = None) -> Ended:
        return fxai("run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:{layer}", *arguments, piped=piped)

    return run


def test_a_run_shows_turns_calls_results_and_the_answer(forecaster: Run) -> None:
    """Each turn, what the model says, each call with its parameters, each result, the answer, tokens and seconds."""
    ended = forecaster("oslo", "How is Oslo?")
    *lines, last = ended.out.splitlines()

    assert lines == [
        "forecaster How is Oslo?",
        "Turn 1",
        "  Let me see.",
        '  → weather {"name":"Oslo"}',
        "  ← weather 21.5",
        "Turn 2",
        "  It is 21.5 degrees.",
    ]
    assert last.startswith("2 turns · 30 tokens in, 7 out · ")
    assert (ended.code, ended.err) == (0, "")


def test_failures_are_marked_as_what_they_are(forecaster: Run) -> None:
    """A typed failure names its type; what the model got wrong says that nothing was run, and why."""
    lines = forecaster("lost", "?").out.splitlines()

    assert '  ✗ weather failed: NoSuchCity: {"name": "Nowhere"}' in lines
    assert any(line.startswith("  ✗ weather did not run: ") and "/name: expected string" in line for line in lines)
    assert any(line.startswith("  ✗ fly did not run: unknown tool 'fly'") for line in lines)


def test_preliminary_results_are_shown_and_escapes_are_not_passed_on(forecaster: Run) -> None:
    """A preliminary result has a mark of its own; control characters of a model never reach the terminal."""
    ended = forecaster("steps", "?")

    assert "  … slow half\n  ← slow done\n" in ended.out
    assert "�[31mred�[0m" in ended.out
    assert "\x1b" not in ended.out


def test_a_turn_that_was_cut_says_so(forecaster: Run) -> None:
    """A turn that ends for want of tokens is marked."""
    assert "  ! the turn ended early: it reached the token limit" in forecaster("cut", "?").out


def test_json_is_an_object_a_line_and_closes(forecaster: Run) -> None:
    """With --json every line is an object: the parts with their turn, then one of type done."""
    ended = forecaster("oslo", "--json", "How is Oslo?")
    objects = [json.loads(line) for line in ended.out.splitlines()]
    *parts, done = objects

    assert {"text-delta", "tool-params-delta", "tool-call", "tool-result", "finish"} <= {part["type"] for part in parts}
    assert [part["turn"] for part in parts] == sorted(part["turn"] for part in parts)
    assert next(part["result"] for part in parts if part["type"] == "tool-result") == 21.5
    assert done["type"] == "done"
    assert done["ok"]
    assert done["answer"] == "It is 21.5 degrees."
    assert (done["turns"], done["usage"]) == (2, {"input_tokens": 30, "output_tokens": 7})


def test_quiet_prints_the_answer_alone(forecaster: Run) -> None:
    """With --quiet stdout holds the text of the last turn and nothing else."""
    assert forecaster("oslo", "-q", "How is Oslo?") == (0, "It is 21.5 degrees.\n", "")


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_a_prompt_can_be_piped_in(forecaster: Run, arguments: tuple[str, ...]) -> None:
    """Without PROMPT, or with a dash, the prompt is what stdin holds."""
    assert forecaster("oslo", *arguments, piped="How is Oslo?\n").out.startswith("forecaster How is Oslo?\n")


def test_a_layer_can_be_an_attribute(forecaster: Run) -> None:
    """A target may go deeper than a name of the module."""
    assert forecaster("Holder.layer", "?").code == 0


def test_the_example_agent_takes_another_model(fxai: Run) -> None:
    """Without --agent the example agent is asked; a layer that gives a model takes the place of the local one."""
    ended = fxai("run", "--layer", f"{TARGETS}:silent", "Hello")

    assert (ended.code, ended.out.splitlines()[:3]) == (0, ["files Hello", "Turn 1", "  ok"])


def test_without_a_prompt_the_example_agent_has_some_of_its_own(fxai: Run) -> None:
    """Each is a run of its own, on one model; with --json each run is closed."""
    ended = fxai("run", "--json", "--layer", f"{TARGETS}:thrice")
    closing = [each for line in ended.out.splitlines() if (each := json.loads(line))["type"] == "done"]
    shown = fxai("run", "--layer", f"{TARGETS}:thrice").out

    assert [each["answer"] for each in closing] == ["one", "two", "three"]
    assert [line for line in shown.splitlines() if line.startswith("files ")] == [f"files {one}" for one in prompts()]


WRONG: list[tuple[list[str], int, str]] = [
    (["run", ""], 2, "PROMPT is empty. Write fxai run PROMPT"),
    (["run", " \n"], 2, "PROMPT is empty"),
    (["run", "-"], 2, "PROMPT is empty"),
    (["run", "--agent", f"{TARGETS}:agent"], 2, "missing PROMPT. Write fxai run PROMPT"),
    (
        ["run", "--agent", f"{TARGETS}:number", "?"],
        2,
        "a value of type int, not an agent or a stateful prompt. Try ",
    ),
    (["run", "--agent", f"{TARGETS}:agen", "?"], 2, "unknown name 'agen'. Did you mean 'agent'?"),
    (["run", "--agent", TARGETS, "?"], 2, "TARGET must be module:name or path.py:name, got"),
    (["run", "--agent", "nowhere:agent", "?"], 2, "module nowhere does not exist. Name a module"),
    (["run", "--agent", "no/where.py:agent", "?"], 2, "file no/where.py does not exist. Pass the path"),
    (["run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:effect", "?"], 2, "not a layer. Try "),
    (
        ["run", "--agent", f"{TARGETS}:agent", "?"],
        1,
        "missing handlers for tools of agent 'forecaster': weather, slow. ",
    ),
    (
        ["run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:silent", "?"],
        1,
        "Provide a layer that has a",
    ),
    (
        ["run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:half", "?"],
        1,
        "slow. Provide one handler",
    ),
    (["run", "--layer", f"{TARGETS}:needy", "?"], 1, "service Db is missing. Provide the service"),
    (["run", "--layer", f"{TARGETS}:failing", "?"], 1, "run failed: the database is away"),
    (["run", "--model", "gpt:5", "?"], 2, "unknown provider 'gpt'. Write provider:model with one of: "),
    (["run", "--rounds", "0", "?"], 2, "--rounds must be at least 1, got 0. Run fxai run --help"),
    (["run", "--json", "--quiet", "?"], 2, "--json cannot be used with --quiet"),
    (["run", "two", "prompts"], 2, "unexpected argument (prompts). Run fxai run --help"),
    (["rnu"], 2, "unknown command 'rnu'. Did you mean 'run'? "),
]


# The extra `local` is not among the packages of the quick tests.
WRONG_FILES: list[tuple[list[str], int, str]] = [
    (
        ["run", "--model", "local:/no/such.gguf", "?"],
        1,
        "unavailable: missing. To use it, check the path of the file.",
    ),
    (["run", "--model", f"local:{TARGETS}", "?"], 1, "a GGUF file must start with"),
]


@every(("arguments", "code", "said"), WRONG, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_said_in_one_line_with_the_remedy(
    fxai: Run, arguments: list[str], code: int, said: str
) -> None:
    """Wrong use ends with 2, a failure with 1: one line on stderr, nothing on stdout, never a traceback."""
    check_one_line(fxai(*arguments), code, said)


@pytest.mark.slow
@every(("arguments", "code", "said"), WRONG_FILES, ids=lambda value: str(value)[:60])
def test_a_wrong_model_file_is_said_in_one_line(fxai: Run, arguments: list[str], code: int, said: str) -> None:
    """A file that does not exist, or has another format, is named in one line on stderr."""
    check_one_line(fxai(*arguments), code, said)


def check_one_line(ended: Ended, code: int, said: str) -> None:
    """Check that a command wrote one line on stderr, and nothing else."""
    assert said in ended.err
    assert (ended.code, ended.err.count("\n"), ended.err.startswith("fxai: ")) == (code, 1, True)
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_a_budget_that_is_spent_names_the_option(forecaster: Run) -> None:
    """A run that is cut by its budget shows what there was, and says how to allow more."""
    ended = forecaster("forever", "--rounds", "2", "?")

    assert ended.err.endswith(". Allow more rounds with --rounds 4.\n")
    assert ended.out.count("← slow done") == 2


def test_a_defect_is_one_line_and_debug_shows_where(forecaster: Run) -> None:
    """A handler that breaks ends the run with one line; its traceback is there for who asks."""
    ended = forecaster("broken", "?")
    told = forecaster("broken", "--debug", "?")

    assert (
        ended.err
        == "fxai: the program raised RuntimeError: inside of it. Run it again with --debug to see the traceback.\n"
    )
    assert "in on_broken" in told.err
    assert told.err.endswith(ended.err)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines. Look at "),
        ("def (", "SyntaxError"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'. Look at "),
        ("raise SystemExit(3)", "SystemExit: 3. Look at "),
    ],
)
def test_a_file_that_cannot_be_imported_says_where(fxai: Run, tmp_path: Path, program: str, said: str) -> None:
    """A target whose file raises is one line that names the exception and the place."""
    file = tmp_path / f"raises_{abs(hash(program))}.py"
    file.write_text(program)
    ended = fxai("run", "--agent", f"{file}:agent", "?")

    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert said in ended.err
    assert f"{file}:1" in ended.err


def test_json_closes_when_it_fails_too(fxai: Run) -> None:
    """With --json a failure is in the closing object as well, with its remedy."""
    done: dict[str, Any] = json.loads(fxai("run", "--json", "--model", "gpt:5", "?").out)

    assert (done["type"], done["ok"]) == ("done", False)
    assert "gpt" in done["error"]["message"]
    assert done["error"]["remedy"]


def test_it_introduces_itself(fxai: Run) -> None:
    """`fxai`, `fxai --help` and `fxai run --help` say what there is; `--version` which one it is."""
    assert fxai("--version").out.startswith("fxai ")
    assert fxai().out == fxai("--help").out
    assert "_FXAI_COMPLETE" in fxai("--help").out
    assert all(word in fxai("run", "-h").out for word in ("--agent", "--layer", "Exit codes", "Examples"))


def _commands() -> dict[tuple[str, ...], click.Command]:
    """Return each command of every group, by the words that lead to it."""
    found: dict[tuple[str, ...], click.Command] = {}

    def add(command: click.Command, words: tuple[str, ...]) -> None:
        found[words] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                add(child, (*words, name))

    add(cli, ())
    return found


@every("command", {" ".join(words): command for words, command in _commands().items() if isinstance(command, Command)})
def test_the_function_of_a_command_takes_its_options(command: str) -> None:
    """The function that a command names exists, and takes the streams and every option of the command."""
    found = _commands()[tuple(command.split())]
    assert isinstance(found, Command)
    function = found.callback if found.work is None else resolve_name(found.work)
    options = {str(one.name): None for one in found.params if one.expose_value and one.name != "debug"}

    assert function is not None
    inspect.signature(function).bind(sys.stdout, sys.stderr, **options)


@every("words", [*_commands()], ids=" ".join)
def test_help_is_text(fxai: Run, words: tuple[str, ...]) -> None:
    """Each command explains itself, without a character that only click understands."""
    shown = fxai(*words, "--help")
    assert shown.code == 0
    assert shown.out.startswith("Usage: ")
    assert all(character.isprintable() or character == "\n" for character in shown.out)
