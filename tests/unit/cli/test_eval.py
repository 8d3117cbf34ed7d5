"""`fxai eval`: its output, its exit codes, its files, and its errors."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from tests.kit.command_line import Run

_APP = r"""
import msgspec
from returns.result import Success
from fxai import Agent, Tool, Toolkit
from fxai.testing import ScriptedModel, call, text
from fxai.evaluation import Case, Evaluation, answer_contains, calls

class Number(msgspec.Struct, frozen=True):
    n: int


add = Tool.make("add", parameters=Number, success=int)
kit = Toolkit.make(add)
agent = Agent.make("clerk", toolkit=kit)
evaluation = Evaluation.make(
    "clerk",
    agent,
    [
        Case.make("adds", "1 + 2?", calls("add", {"n": 2}), answer_contains("3\x1b[31m")),
        Case.make("greets", "Hi", answer_contains("hi")),
    ],
    runs=4,
    concurrency=1,
)


def model(wrong):
    turns = [call("add", {"n": 2}), text("It is 3\x1b[31m.")] * (4 - wrong) + [text("It is 4.")] * wrong
    return ScriptedModel.make(turns + [text("hi")] * 4).layer


handlers = add.handler(lambda number: Success(number.n + 1))
good, bad, live = handlers | model(0), handlers | model(4), handlers | model(1)
"""


@pytest.fixture(autouse=True)
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the evaluation, which is the current one."""
    (tmp_path / "app.py").write_text(_APP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_has_a_row_for_each_law(fxai: Run) -> None:
    """Text of the model and of laws cannot control the terminal."""
    ended = fxai("eval", "app.py:evaluation", "--layer", "app.py:live")

    assert ended.code == 0
    assert [line.split("  ")[0] for line in ended.out.splitlines()] == ["case", "adds", "", "greets"]
    assert re.search(r"calls add with \{'n': 2\} +3 of 4 +75% +30% to 95%", ended.out)
    assert "\x1b" not in ended.out


def test_a_law_below_the_demand_is_exit_code_1(fxai: Run) -> None:
    """The output names the law, its rate, and a reason."""
    ended = fxai("eval", "app.py:evaluation", "--layer", "app.py:live", "--at-least", "0.8", "--case", "adds")

    assert ended.code == 1
    assert "below 80%: adds: calls add with {'n': 2}: 75% · calls: none" in ended.out
    assert fxai("eval", "app.py:evaluation", "--layer", "app.py:good", "--at-least", "1").code == 0


def test_a_version_that_became_worse_is_exit_code_1(fxai: Run, location: Path) -> None:
    """The files of the results and of the picture belong to their owner only."""
    options = ("eval", "app.py:evaluation", "--runs", "4")
    assert fxai(*options, "--layer", "app.py:good", "--store", "old.json", "--svg", "rates.svg").code == 0
    same = fxai(*options, "--layer", "app.py:good", "--compare", "old.json")
    worse = fxai(*options, "--layer", "app.py:bad", "--compare", "old.json", "--json")
    found = json.loads(worse.out)

    assert (same.code, "worse" in same.out) == (0, False)
    assert worse.code == 0  # 4 of 4 and 0 of 4 can be chance among three laws
    assert (found["passed"], found["changes"]) == (True, [])
    for name in ("old.json", "rates.svg"):
        assert stat.S_IMODE((location / name).stat().st_mode) == 0o600


def test_more_runs_show_that_a_version_became_worse(fxai: Run, location: Path) -> None:
    """Twenty runs of each version are enough."""
    app = (location / "app.py").read_text().replace("(4 - wrong)", "(20 - wrong)").replace("* 4)", "* 20)")
    (location / "app.py").write_text(app.replace("model(4)", "model(20)"))
    options = ("eval", "app.py:evaluation", "--runs", "20", "--case", "adds")
    assert fxai(*options, "--layer", "app.py:good", "--store", "old.json").code == 0
    worse = fxai(*options, "--layer", "app.py:bad", "--compare", "old.json")

    assert worse.code == 1
    assert "worse: adds: calls add with {'n': 2}: 100% before, 0% now (p = 0.000)" in worse.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("app.py:kit",), "app.py:kit is a value of type Toolkit, not an evaluation"),
        (("app.py",), "TARGET must be module:name or path.py:name, got 'app.py'"),
        (("app.py:evaluation", "--case", "x"), "evaluation 'clerk' has no case 'x'. Use one of: adds, greets."),
        (("app.py:evaluation", "--compare", "no.json"), "cannot read no.json: No such file or directory"),
        (("app.py:evaluation", "--compare", "app.py"), "app.py contains no results of an evaluation"),
        (("app.py:evaluation", "--layer", "app.py:kit"), "app.py:kit is a value of type Toolkit, not a layer"),
        (("app.py:evaluation", "--at-least", "2"), "2"),
        (("app.py:evaluation", "--layer", "app.py:good", "--store", "new/folder/x"), ""),
    ],
)
def test_a_mistake_has_a_clear_error(fxai: Run, arguments: tuple[str, ...], message: str) -> None:
    """A wrong use ends with exit code 2 before a run starts, or creates the folder of a file."""
    ended = fxai("eval", *arguments)

    assert ended.code == (2 if message else 0)
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_a_file_with_the_name_of_a_module_is_loaded_once(fxai: Run, location: Path) -> None:
    """The evaluation and the layer of `queue.py` come from the same module, although Python has a module `queue`."""
    (location / "app.py").rename(location / "queue.py")

    assert fxai("eval", "queue.py:evaluation", "--layer", "queue.py:good", "--at-least", "1").code == 0
