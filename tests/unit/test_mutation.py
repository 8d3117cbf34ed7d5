"""The mutation tool on a small project. The tests state which mutants count as found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.kit.source import ROOT
from tests.mutation.draw import draw, packages
from tests.mutation.mutant import Mutant, is_sound, mutants

CALCULATION = """\
def double(n):
    return n * 2

def is_small(n):
    return n < 10

def greeting(name):
    return "Good day, " + name

def total(numbers):
    return sum(numbers)

def sign(n):
    match n:
        case 0:
            return "zero"
        case _:
            return "other"

def count_down(n):
    while n > 0:
        n -= 1
    return n

def unused(n):
    return n + 3

def limit():
    return 7

LIMIT = limit()
"""
TESTS = """\
import subprocess
import sys

import pytest
from hypothesis import given, strategies

from fxai.sums import calculation

@given(strategies.integers())
def test_double(n):
    assert calculation.double(n) == n + n

@pytest.mark.parametrize("n", [1, 20])
def test_is_small(n):
    assert calculation.is_small(n) == (n == 1)

def test_greeting():
    code = "from fxai.sums.calculation import greeting; print(greeting('you'))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "Good day, you\\n"

def test_total():
    assert calculation.total([1, 2]) == 4

@pytest.fixture(scope="module")
def sign():
    return calculation.sign(0)

def test_sign_is_text(sign):
    assert isinstance(sign, str)

@pytest.mark.xdist_group("signs")
def test_sign(sign):
    assert sign == "zero"

def test_count_down():
    assert calculation.count_down(3) == 0

def test_limit():
    assert calculation.LIMIT == 7
"""
FAULTS = {
    "found by a law": ("n * 2", "(n // 2)"),
    "not found": ("n < 10", "n <= 10"),
    "found in a program": ('"Good day, " + name', '("Good day, " - name)'),
    "test fails without it": ("return sum(numbers)", "return None"),
    "found by the user of a fixture": ("0:", "(1):"),
    "never ends": ("n -= 1", "pass"),
    "not reached": ("n + 3", "(n - 3)"),
    "found at import": ("return 7", "return None"),
}


def _mutant(before: str, after: str) -> Mutant:
    start = CALCULATION.index(before)
    line_start = CALCULATION.rfind("\n", 0, start) + 1
    line = CALCULATION.count("\n", 0, start) + 1
    return Mutant("fxai/sums/calculation.py", line, start - line_start, before.rstrip(":"), after.rstrip(":"))


def _project(folder: Path) -> Path:
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "--dist=loadgroup"]\n',
        "fxai/__init__.py": "",
        "fxai/testing/__init__.py": "",
        "fxai/testing/plugin.py": "",  # which the installed fxai makes pytest load
        "fxai/sums/__init__.py": "",
        "fxai/sums/calculation.py": CALCULATION,
        "tests/unit/sums/test_calculation.py": TESTS,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


class _Verdict(msgspec.Struct):
    mutant: Mutant
    reached_by: int
    found_by: str | None
    how: str


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", "--project", str(_project(folder / "project")), "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *options], check=False, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, _Verdict]:
    """The result of each fault, by its name."""
    folder = tmp_path_factory.mktemp("mutation")
    drawn, result = folder / "drawn.json", folder / "result.json"
    drawn.write_bytes(msgspec.json.encode([_mutant(*fault) for fault in FAULTS.values()]))
    done = _run(folder, "--mutants", str(drawn), "--result", str(result), "--patience", "2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert (folder / "project/fxai/sums/calculation.py").read_text(encoding="utf-8") == CALCULATION
    return dict(zip(FAULTS, msgspec.json.decode(result.read_bytes(), type=list[_Verdict]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "test", "how"),
    [
        ("found by a law", "test_double", "failed"),
        ("found in a program", "test_greeting", "failed"),
        ("found by the user of a fixture", "test_sign", "failed"),
        ("never ends", "test_count_down", "time limit"),
        ("found at import", "test_limit", "failed"),
    ],
)
def test_mutation_names_the_test_that_finds_a_mutant(
    verdicts: Mapping[str, _Verdict], fault: str, test: str, how: str
) -> None:
    """The result of a mutant names the test that fails or exceeds its time limit."""
    found = verdicts[fault]

    assert (found.found_by, found.how) == (f"tests/unit/sums/test_calculation.py::{test}", how)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "reached_by"), [("not found", 2), ("not reached", 0)])
def test_mutation_does_not_find_a_mutant_on_which_no_test_fails(
    verdicts: Mapping[str, _Verdict], fault: str, reached_by: int
) -> None:
    """A mutant is not found if the tests that reach the line pass, or if no test reaches the line."""
    assert (verdicts[fault].found_by, verdicts[fault].reached_by) == (None, reached_by)


@pytest.mark.slow
def test_mutation_ignores_a_test_that_fails_without_a_mutant(verdicts: Mapping[str, _Verdict]) -> None:
    """A test that also fails without a mutant does not find a mutant."""
    found = verdicts["test fails without it"]

    assert (found.found_by, found.reached_by) == (None, 0)


@pytest.mark.slow
def test_mutation_exits_with_2_if_no_test_runs(tmp_path: Path) -> None:
    """The command exits with 2 and shows the output of pytest if the tests cannot run."""
    done = _run(tmp_path, "--package", "sums", "--tests", "tests/nowhere")

    assert done.returncode == 2
    assert "no tests ran" in done.stderr
    assert "The tests do not run without a mutant" in done.stderr


def test_draw_is_even_and_repeats(tmp_path: Path) -> None:
    """The same seed draws the same sound mutants, on different lines, and each package has its share."""
    project = _project(tmp_path)
    (project / "fxai/sums/other.py").write_text("def f(a):\n    return a\n", encoding="utf-8")
    (project / "fxai/lists").mkdir()
    (project / "fxai/lists/__init__.py").write_text(CALCULATION, encoding="utf-8")
    drawn = draw(project, ["lists", "sums"], 9, seed=1)

    assert packages(project) == ["fxai", "lists", "sums", "testing"]
    assert drawn == draw(project, ["lists", "sums"], 9, seed=1)
    assert drawn != draw(project, ["lists", "sums"], 9, seed=2)
    assert drawn[5:] == draw(project, ["sums"], 4, seed=1)
    assert len({(one.path, one.line) for one in drawn}) == 9
    assert all(is_sound(one, (project / one.path).read_text(encoding="utf-8")) for one in drawn)


def test_mutant_refuses_a_changed_module() -> None:
    """A mutant cannot be applied to a module that changed after the drawing."""
    one = mutants("fxai/sums/calculation.py", CALCULATION)[0]

    with pytest.raises(ValueError, match=r"calculation\.py:2: the module changed .* Draw again"):
        one.applied("# new\n" + CALCULATION)
