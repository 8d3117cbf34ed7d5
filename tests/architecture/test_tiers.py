"""The two tiers of the tests: which tests the quick tier leaves out, and what it says about them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW_COMMAND, slow_tests

ROOT = Path(__file__).parents[2]

SLOW_MODULE = """
import no_such_package
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("servers"),
]


def helper():
    pass


def test_one():
    assert True


@pytest.mark.parametrize("number", [1, 2])
def test_two(number):
    assert number
"""
MIXED_MODULE = '''
import pytest
from hypothesis import given, settings, strategies as st


def test_quick():
    assert True


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_slow(number):
    assert number


@given(st.integers())
def test_law(number):
    """
    >>> 1
    2
    """
    assert settings().max_examples == EXAMPLES
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A suite with one module of the slow tier, and one module that both tiers need."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "test_servers.py").write_text(SLOW_MODULE)
    (tmp_path / "test_mixed.py").write_text(MIXED_MODULE.replace("EXAMPLES", "15").replace("    >>> 1\n    2\n", ""))
    (tmp_path / "helper.py").write_text("raise RuntimeError('imported')\n")
    return tmp_path


def _pytest(folder: Path, *options: str) -> list[str]:
    configured = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *configured, *(options or (".",))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-q",), ("-n", "2")])
def test_quick_tier_states_the_number_of_slow_tests_and_their_command(folder: Path, options: tuple[str, ...]) -> None:
    """The summary counts each slow test function once, and names the command, also with `-q` and with workers."""
    lines = _pytest(folder, *options, str(folder))

    assert lines[-2].startswith(f"Left out 3 slow tests. Run `{SLOW_COMMAND}`")
    assert "2 passed" in lines[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "count"), [("test_servers.py", "2 slow tests"), ("test_servers.py::test_two", "1 slow test")]
)
def test_path_of_slow_tests_is_answered(folder: Path, path: str, count: str) -> None:
    """A run of a slow module, or of one slow test, imports nothing and states the number of tests that it left out."""
    lines = _pytest(folder, path)

    assert lines[-2].startswith(f"Left out {count}. Run `pytest")
    assert "deselected" in lines[-1]


@pytest.mark.slow
def test_slow_tier_runs_slow_tests_and_laws(folder: Path) -> None:
    """The slow tier imports the slow modules, and runs each law with the examples of the chosen profile."""
    mixed = (folder / "test_mixed.py").read_text().replace("== 15", "== 150")
    (folder / "test_mixed.py").write_text(mixed)
    chosen = ("-m", "slow or law", "--hypothesis-profile=thorough")
    lines = _pytest(folder, *chosen, "test_mixed.py")

    assert "4 passed, 1 deselected" in lines[-1]
    assert not any(line.startswith("Left out") for line in lines)
    assert any("no_such_package" in line for line in _pytest(folder, *chosen, "test_servers.py"))


def test_slow_tests_are_found_without_an_import() -> None:
    """The names are the test functions of a module whose `pytestmark` has the mark `slow`, and of no other module."""
    assert slow_tests(SLOW_MODULE) == ["test_one", "test_two"]
    assert slow_tests(MIXED_MODULE) == []
    assert slow_tests(SLOW_MODULE.replace("pytest.mark.slow", "pytest.mark.anyio")) == []


@pytest.mark.slow
def test_names_of_slow_tests_are_the_tests_that_pytest_finds() -> None:
    """The quick tier counts the same functions that pytest collects from a slow module."""
    chosen = "tests/integration/test_memory_kill.py"
    lines = _pytest(ROOT, "-m", "", "--collect-only", "-q", "--rootdir", str(ROOT), chosen)
    collected = {line.split("::")[1].partition("[")[0] for line in lines if line.startswith(chosen)}

    assert set(slow_tests((ROOT / chosen).read_text("utf-8"))) == collected


@pytest.mark.parametrize(
    ("quick", "slow", "code", "said"),
    [
        ("echo quick ran", "echo slow ran", 0, ["quick ran", "slow ran"]),
        ("exit 3", "echo slow ran", 1, ["failed tests ran again", "The slow tests did not run"]),
        ("echo quick ran", "exit 4", 4, ["quick ran"]),
        ("sleep 60", "echo slow ran", 1, ["did not end within 0.02 minutes", "The slow tests did not run"]),
        ("echo quick ran", "sleep 60", 124, ["quick ran", "The slow tests did not end within 0.02 minutes."]),
    ],
)
def test_ci_runs_the_slow_tests_after_the_quick_tests(
    tmp_path: Path, quick: str, slow: str, code: int, said: list[str]
) -> None:
    """CI fails if either tier fails or exceeds its limit, states the reason, and runs no slow tests after a failure.

    After a failure of the quick tier, it runs the failed tests again, with the values of their assertions.
    """
    for folder in (".ci", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "README.md").write_text(f"<!-- command: test -->\n```sh\n{quick}\n```\n\n```sh\nexit 9\n```\n")
    again_or_slow = f'case "$*" in *--lf*) echo "failed tests ran again" ;; *) {slow} ;; esac'
    for name, line in (("uv", "exit 0"), ("pytest", again_or_slow)):
        (tmp_path / ".venv/bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    limits = {
        f"FXAI_{name}_MINUTES": "0.02" if script.startswith("sleep") else "5"
        for name, script in (("QUICK", quick), ("SLOW", slow))
    }
    command, environment = [str(tmp_path / ".ci/run")], {**os.environ, **limits}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == code
    assert [text for text in said if text not in done.stdout + done.stderr] == []
    assert ("slow ran" in done.stdout.splitlines()) == ("slow ran" in said)


@pytest.mark.slow
def test_only_a_run_of_the_whole_quick_tier_hides_values(tmp_path: Path) -> None:
    """The run of all tests states how to see the values; a run of the failed tests, or of one file, shows them."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\naddopts = -m 'not slow'\nmarkers =\n  slow\n  law\n")
    (tmp_path / "test_a.py").write_text('def test_a():\n    """A."""\n    a = 3\n    assert a == 4\n', encoding="utf-8")

    def run(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-n", "2", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        return done.stdout.splitlines()

    whole, again, one = run(), run("--lf"), run("test_a.py")

    assert "E       assert 3 == 4" not in whole
    assert "Run `pytest --lf` to see the values of the assertions that failed." in whole
    assert "E       assert 3 == 4" in again
    assert "E       assert 3 == 4" in one
