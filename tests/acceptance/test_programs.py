"""Whole programs, written as a user would, each run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PROGRAMS = [path for path in sorted((Path(__file__).parent / "programs").glob("*.py")) if path.stem != "typing_wrong"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def _run(script: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(script)]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_without_a_warning(program: Path) -> None:
    """The program ends with exit code 0 and says ok; that it is well typed, the type tests say."""
    done = _run(program)

    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.slow  # the quick tier runs each example in tests/integration/test_examples.py
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning(example: Path) -> None:
    """Every numbered example runs offline, to its end, and shows something."""
    done = _run(example)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
