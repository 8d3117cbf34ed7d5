"""`fxai runs record`, `diff`, and `replay`: their output, their exit codes, and their errors."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from fxai.agents import RunRecord
from fxai.messages import Finish, Response, Text
from tests.kit.command_line import Run

_APP = r"""
from returns.result import Success
from fxai import Agent, Tool, Toolkit
from fxai.messages import RateLimitError
from fxai.testing import ScriptedModel, call, fails, text

price = Tool.make("price", description="Returns a price.", parameters=str, success=int)
order = Tool.make("order", description="Orders.", parameters=str, success=str)
agent = Agent.make("clerk", toolkit=Toolkit.make(price, order))
handlers = price.handler(lambda _: Success(250)) | order.handler(lambda _: Success("ok\x1b[31m"))
dear = price.handler(lambda _: Success(300)) | order.handler(lambda _: Success("ok\x1b[31m"))
broken = price.handler(lambda _: 1 / 0) | order.handler(lambda _: 1 / 0)


def model(item):
    return ScriptedModel.make([call("price", "tea"), call("order", item), text("Done.")]).layer


tea = handlers | model("tea")
coffee = handlers | model("coffee")
dry_tea = broken | model("tea")
dry_coffee = broken | model("coffee")
failing = broken | ScriptedModel.make([fails(RateLimitError())]).layer
"""

_AGENT = ("--agent", "app.py:agent", "--layer")


@pytest.fixture(autouse=True)
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fxai: Run) -> Path:
    """A folder with the agent, which is the current one, and two durable runs that differ."""
    (tmp_path / "app.py").write_text(_APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FXAI_RUNS", raising=False)
    for name in ("tea", "coffee"):
        assert fxai("run", "--durable", name, *_AGENT, f"app.py:{name}", "Buy it.").code == 0
    return tmp_path


def _data(fxai: Run, *arguments: str) -> tuple[int, Any]:
    ended = fxai("runs", *arguments, "--json")
    return ended.code, json.loads(ended.out)


def test_diff_shows_the_changed_call(fxai: Run) -> None:
    """Runs that differ have the exit code 1, and the text names the changed parameters."""
    ended = fxai("runs", "diff", "tea", "coffee")

    assert ended.code == 1
    assert ended.out == '1 difference\n~ step 2: order "tea"\n    /calls/order/params: "tea" → "coffee"\n'


def test_diff_of_equal_runs_succeeds(fxai: Run) -> None:
    """Equal runs have the exit code 0, also after ignored values."""
    assert fxai("runs", "diff", "tea", "tea").out == "no difference\n"
    assert fxai("runs", "diff", "tea", "coffee", "--ignore", "/calls/*/params").code == 0


def test_diff_writes_json(fxai: Run) -> None:
    """The JSON form has the changes with pointers, and states whether the runs are the same."""
    code, data = _data(fxai, "diff", "tea", "coffee")

    assert (code, data["ok"], data["same"]) == (1, True, False)
    assert data["changes"][0]["values"] == [{"pointer": "/calls/order/params", "before": "tea", "after": "coffee"}]


def test_record_writes_a_private_file_for_diff(fxai: Run, location: Path) -> None:
    """The file has the mode 0600 and contains the prompt and the run."""
    ended = fxai("runs", "record", "tea", "new/tea.json")

    assert (ended.code, ended.out) == (0, "recorded: 3 steps in new/tea.json\n")
    path = location / "new" / "tea.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert RunRecord.read(path).answer == "Done."
    assert fxai("runs", "diff", "new/tea.json", "tea").code == 0
    assert fxai("runs", "diff", "coffee", "new/tea.json").code == 1


ERRORS: dict[tuple[str, ...], str] = {
    ("diff", "tea", "none"): "run 'none' does not exist",
    ("diff", "none.json", "tea"): "cannot read none.json: No such file or directory",
    ("diff", "rubbish.json", "tea"): "rubbish.json is not a record of a run: expected JSON",
    ("diff", "tea", "tea", "--ignore", "price"): "--ignore: ignore must contain JSON pointers that start with /calls",
    ("diff", "tea", "tea", "--store", "app.py"): "app.py",
    ("diff", "tea"): "missing AFTER",
    ("record", "tea", "tea.txt"): "FILE must end in .json, got 'tea.txt'",
    ("record", "tea", "app.py/tea.json"): "cannot write app.py/tea.json",
    ("record", "none", "none.json"): "run 'none' does not exist",
    ("replay", "none", *_AGENT, "app.py:handlers"): "run 'none' does not exist",
    ("replay", "tea", "--agent", "app.py:nobody"): "app.py:nobody does not exist",
    ("replay", "tea", "--agent", "app.py:agent"): "missing handlers",
    ("replay", "bare.json", *_AGENT, "app.py:handlers"): "record 'bare.json' does not contain the prompt",
    ("replay", "tea", "--with", "nothing"): "--with must be one of 'turns', 'results', 'both', got 'nothing'",
    ("replay", "tea", "--with", "results", *_AGENT, "app.py:failing"): "Rate limit",
}


@pytest.mark.parametrize("arguments", ERRORS, ids=" ".join)
def test_an_error_has_the_exit_code_2(fxai: Run, location: Path, arguments: tuple[str, ...]) -> None:
    """An error is one line with its reason, and its exit code is not the code of a difference."""
    (location / "rubbish.json").write_text("{")
    RunRecord(()).write(location / "bare.json")

    ended = fxai("runs", *arguments)

    assert ended.code == 2
    assert ERRORS[arguments] in ended.err
    assert ended.out == ""


def test_an_error_has_a_json_form(fxai: Run) -> None:
    """With `--json`, an error is a JSON object on stdout."""
    code, data = _data(fxai, "diff", "tea", "none.json")

    assert (code, data["ok"]) == (2, False)
    assert data["error"]["remedy"] == "Record the run first."


def test_replay_of_an_unchanged_agent_is_no_difference(fxai: Run) -> None:
    """A durable run and its file replay with the same tools and no model."""
    fxai("runs", "record", "tea", "tea.json")

    for source in ("tea", "tea.json"):
        ended = fxai("runs", "replay", source, *_AGENT, "app.py:handlers")
        assert (ended.code, ended.out) == (0, "no difference\n"), ended.err


def test_replay_of_turns_shows_changed_tools(fxai: Run) -> None:
    """With recorded turns, a changed tool differs in its result."""
    code, data = _data(fxai, "replay", "tea", *_AGENT, "app.py:dear")

    assert (code, data["same"]) == (1, False)
    assert [one["pointer"] for one in data["changes"][0]["values"]] == ["/calls/price/result"]


def test_replay_of_results_runs_no_tool(fxai: Run) -> None:
    """With recorded results, the model runs, and broken handlers do not."""
    assert fxai("runs", "replay", "tea", "--with", "results", *_AGENT, "app.py:dry_tea").code == 0
    assert fxai("runs", "replay", "tea", "--with", "both", *_AGENT, "app.py:broken").code == 0


def test_a_replay_without_a_recorded_result_stops_and_differs(fxai: Run) -> None:
    """The output has the difference so far, and the call without a result."""
    ended = fxai("runs", "replay", "tea", "--with", "results", *_AGENT, "app.py:dry_coffee")

    assert ended.code == 1
    assert "/calls/order/params: " in ended.out
    assert 'replay stopped: the record has no result for the call order "coffee" of step 2\n' in ended.out


def test_a_broken_handler_is_a_difference(fxai: Run) -> None:
    """A replay whose tools break fails at the end of the run."""
    code, data = _data(fxai, "replay", "tea", *_AGENT, "app.py:broken")

    assert code == 1
    pointers = {value["pointer"] for change in data["changes"] for value in change["values"]}
    assert {"/end/ended", "/end/failure"} <= pointers


def test_another_prompt_can_be_replayed(fxai: Run, location: Path) -> None:
    """`--prompt` replaces the prompt of the record."""
    RunRecord.of(Response((Text("Hi."), Finish("stop")))).write(location / "bare.json")

    ended = fxai("runs", "replay", "bare.json", *_AGENT, "app.py:handlers", "--prompt", "Buy.")

    assert (ended.code, ended.out) == (0, "no difference\n")
