"""`fxai run --durable` and `fxai runs`: a run is begun, waits, is answered, gone on with and looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxai import fx
from fxai.durable import Runs, durable
from fxai.effects import Layer
from tests.kit.command_line import Run

_APP = """
from returns.result import Success
from fxai import Agent, Tool, Toolkit, fx
from fxai.durable import Reply, Runs
from fxai.testing import ScriptedModel, call, text

wipe = Tool.make("wipe", description="Wipes.", parameters=int, success=str, needs_approval=True)
agent = Agent.make("clerk", toolkit=Toolkit.make(wipe))
handler = wipe.handler(lambda n: Success(f"wiped {n}"))
first = handler | ScriptedModel.make([call("wipe", 1)]).layer
two = handler | ScriptedModel.make([(call("wipe", 1), call("wipe", 2))]).layer
rest = handler | ScriptedModel.make([text("It is done.")]).layer


def crash(n):
    raise SystemExit(9)


charge = Tool.make("charge", description="Charges.", parameters=int, success=str)
till = Agent.make("till", toolkit=Toolkit.make(charge))
crashing = charge.handler(crash) | ScriptedModel.make([call("charge", 1)]).layer


def handle_order(run):
    return fx.succeed(run)


@fx.gen
def approve(_):
    runs = Runs.at()
    for question in (yield from runs.show("r")).questions:
        yield from runs.answer("r", question.id, Reply.approve())


hasty = Agent.make("hasty", toolkit=Toolkit.make(wipe), on_step=approve)
"""


@pytest.fixture(autouse=True)
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the agent, which is the current one; the runs are there."""
    (tmp_path / "app.py").write_text(_APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FXAI_RUNS", raising=False)
    return tmp_path


def _start(fxai: Run) -> Any:
    return fxai("run", "--durable", "r", "--agent", "app.py:agent", "--layer", "app.py:first", "Wipe it.")


def _resume(fxai: Run, *options: str) -> Any:
    return fxai("runs", "resume", "r", "--agent", "app.py:agent", "--layer", "app.py:rest", *options)


def _question(fxai: Run) -> str:
    shown = json.loads(fxai("runs", "show", "r", "--json").out)
    return str(shown["open"][0]["id"])


def test_a_run_waits_for_an_answer_and_goes_on(fxai: Run, location: Path) -> None:
    """It says what it waits for and how to answer; then it is resumed by its name, with the prompt it began with."""
    begun = _start(fxai)
    assert begun.code == 1
    assert "needs answers about wipe 1" in begun.err
    assert f"fxai runs answer r {_question(fxai)}" in begun.err
    assert (location / "fxai-runs.db").stat().st_mode & 0o077 == 0
    answered = fxai("runs", "answer", "r", _question(fxai), "--approve")
    assert (answered.code, answered.out) == (0, "answered: approve. To continue it, use fxai runs resume r.\n")
    resumed = _resume(fxai, "--quiet")
    assert (resumed.code, resumed.out) == (0, "It is done.\n")


def test_a_run_that_is_answered_just_after_it_stopped_waiting_is_resumed(fxai: Run) -> None:
    """The command names the run, and the command that resumes it."""
    begun = fxai("run", "--durable", "r", "--agent", "app.py:hasty", "--layer", "app.py:first", "Wipe it.")
    assert begun.code == 1
    assert "run 'r' stopped just before its answers arrived" in begun.err
    assert "fxai runs resume r" in begun.err
    resumed = fxai("runs", "resume", "r", "--agent", "app.py:hasty", "--layer", "app.py:rest", "--quiet")
    assert (resumed.code, resumed.out) == (0, "It is done.\n")


def test_runs_are_listed_and_shown(fxai: Run) -> None:
    """As lines, and as JSON."""
    assert "no runs in" in fxai("runs", "list").out
    _start(fxai)
    assert "r  waiting, 1 open question  " in fxai("runs", "list").out
    assert json.loads(fxai("runs", "list", "--json").out)["runs"][0]["status"] == "waiting"
    shown = fxai("runs", "show", "r").out
    assert "waiting   wipe" in shown
    assert "--approve | --deny" in shown
    data = json.loads(fxai("runs", "show", "r", "--json").out)
    assert (data["prompt"], data["open"][0]["params"]) == ("Wipe it.", 1)


def test_a_call_in_doubt_is_told_as_one(fxai: Run) -> None:
    """Not as one that was not run, and not as a fault of the tool."""
    line = ("run", "--durable", "r", "--agent", "app.py:till", "--layer", "app.py:crashing", "Charge it.")
    assert fxai(*line).code == 9
    resumed = fxai(*line)
    assert resumed.code == 1
    assert "✗ outcome of 'charge' unknown: the call started" in resumed.out
    assert "broke" not in resumed.out


def test_a_run_is_cancelled(fxai: Run) -> None:
    """It never goes on."""
    _start(fxai)
    assert fxai("runs", "cancel", "r").out == "cancelled: r\n"
    resumed = _resume(fxai)
    assert resumed.code == 1
    assert "was cancelled" in resumed.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("runs", "show", "nothing"), 1, "run 'nothing' does not exist"),
        (("runs", "resume", "nothing"), 1, "run 'nothing' does not exist"),
        (("runs", "cancel", "nothing"), 1, "run 'nothing' does not exist"),
        (("runs", "answer", "r", "x", "--approve"), 1, "not open"),
        (("runs", "answer", "r", "x"), 2, "Pass one of --approve"),
        (("runs", "answer", "r", "x", "--approve", "--again"), 2, "Pass one of --approve"),
        (("runs", "answer", "r", "x", "--result", "{"), 2, "--result must be JSON"),
        (("runs", "answer", "r", "x=maybe"), 2, "--result must be JSON"),
        (("runs", "answer", "r", "x=approve"), 1, "not open"),
        (("runs", "answer", "r", "x=approve", "x=again"), 2, "question x has two replies. Pass one reply for each."),
        (("runs", "submit", "r", "shop:nothing"), 2, "no worker runs 'shop:nothing'"),
        (("runs", "submit", "r", "app.py:nothing"), 2, "fxai runs work app.py:nothing"),
        (("runs", "list", "--status", "gone"), 2, "'gone'"),
        (("run", "--store", "x.db", "Hello"), 2, "--store requires --durable"),
        (("run", "--durable", "r", "--agent", "app.py:agent", "--layer", "app.py:rest", "Other."), 2, "another prompt"),
        (("runs", "list", "--store", ":memory:"), 2, "Use the path of a file"),
    ],
)
def test_wrong_use_is_one_line(fxai: Run, arguments: tuple[str, ...], code: int, told: str) -> None:
    """It says what is wrong and what to do, on stderr; with `--json` on stdout too."""
    _start(fxai)
    ended = fxai(*arguments)
    assert ended.code == code
    assert told in ended.err
    assert ended.err.count("\n") == 1


def test_a_run_of_another_program_is_not_resumed_here(fxai: Run) -> None:
    """The command line knows no prompt of it, and says what to do."""
    program: Any = fx.succeed(1)
    fx.run(program.provide(durable(Layer.empty(), run="mine", store=Runs.at())))
    ended = fxai("runs", "resume", "mine")
    assert ended.code == 2
    assert "Resume it with its own program" in ended.err


def test_a_run_is_submitted(fxai: Run) -> None:
    """Once; what it is queued for, and that it is cancelled there, is told."""
    assert fxai("runs", "submit", "r", "app.py:handle_order").out == "submitted: r\n"
    assert "queued" in fxai("runs", "submit", "r", "app.py:handle_order").out
    assert json.loads(fxai("runs", "submit", "r", "app.py:handle_order", "--json").out)["new"] is False
    assert fxai("runs", "list").out.startswith("r  queued")
    assert fxai("runs", "cancel", "r").code == 0
    assert fxai("runs", "list").out.startswith("r  cancelled")
    assert "was cancelled" in fxai("runs", "submit", "r", "app.py:handle_order").err


def test_several_questions_are_answered_in_one_command(fxai: Run) -> None:
    """The error of a run lists them with the command; if one reply is not possible, none is answered."""
    asked = fxai("run", "--durable", "r", "--agent", "app.py:agent", "--layer", "app.py:two", "Wipe both.")
    questions = [one["id"] for one in json.loads(fxai("runs", "show", "r", "--json").out)["open"]]
    assert len(questions) == 2
    assert all(f"{one}=REPLY" in asked.err for one in questions)
    refused = fxai("runs", "answer", "r", f"{questions[0]}=approve", f"{questions[1]}=again")
    assert "approve or deny" in refused.err
    assert len(json.loads(fxai("runs", "show", "r", "--json").out)["open"]) == 2
    answered = fxai("runs", "answer", "r", f"{questions[0]}=approve", f"{questions[1]}=deny")
    assert answered.out == "answered: approve, deny. To continue it, use fxai runs resume r.\n"


def test_runs_are_listed_by_status_name_and_page(fxai: Run) -> None:
    """The newest come first; a page begins after the last run of the page before."""
    runs: Any = Runs.at()
    for name in ("order-1", "order-2", "order-3", "other"):
        fx.run(fx.succeed(1).provide(durable(Layer.empty(), run=name, store=runs)))
    fxai("run", "--durable", "order-4", "--agent", "app.py:agent", "--layer", "app.py:first", "Wipe it.")

    def listed(*options: str) -> list[str]:
        return [one["run"] for one in json.loads(fxai("runs", "list", "--json", *options).out)["runs"]]

    assert listed() == ["order-4", "other", "order-3", "order-2", "order-1"]
    assert listed("--status", "waiting") == ["order-4"]
    assert listed("--prefix", "order", "--limit", "2") == ["order-4", "order-3"]
    assert listed("--prefix", "order", "--limit", "2", "--after", "order-3") == ["order-2", "order-1"]
