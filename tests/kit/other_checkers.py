"""What four more type checkers say of the acceptance programs; `python -m tests.kit.other_checkers` prints the table.

They are no dependency: `nox -s checkers` installs them. Each is asked as strictly as it can be without a plugin.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.kit.checkers import ROOT, marked_lines

__all__ = ["OTHERS", "Finding", "findings", "table"]

_PROGRAMS = "tests/acceptance/programs"
_LINE = re.compile(r"(?P<file>[\w./-]+\.py):(?P<line>\d+)(?::[\d:-]+)?:? (?P<message>.*)")
_STRICT = "[tool.pyright]\ntypeCheckingMode = 'strict'\n"

OTHERS: dict[str, tuple[str, ...]] = {
    "basedpyright": ("basedpyright", "--pythonpath", sys.executable, "."),
    "zuban": ("zuban", "mypy", "--strict", "--python-executable", sys.executable, "."),
    "ty": ("ty", "check", "--python", sys.executable, "--output-format", "concise", "."),
    "pyrefly": ("pyrefly", "check", "--python-interpreter-path", sys.executable, "--output-format", "min-text"),
}
"""The command of each, run in a folder that holds the programs."""


class Finding(NamedTuple):
    """What a checker gets wrong: wrong lines that it accepts, and right ones that it refuses, each `file:line`."""

    checker: str
    missed: list[str]
    false: dict[str, str]


def findings(checker: str) -> Finding:
    """What one of the four says of the acceptance programs, where it is not what both of ours say."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for program in sorted((ROOT / _PROGRAMS).glob("*.py")):
            (folder / program.name).write_bytes(program.read_bytes())
        (folder / "pyproject.toml").write_text(_STRICT, encoding="utf-8")
        if checker == "pyrefly":  # takes no folder without a configuration of its own
            (folder / "pyrefly.toml").write_text('project-includes = ["*.py"]\n', encoding="utf-8")
        said = dict(_said(OTHERS[checker], folder))
    wrong = {f"typing_wrong.py:{line}" for line in marked_lines(f"{_PROGRAMS}/typing_wrong.py")}
    return Finding(checker, sorted(wrong - said.keys()), {at: said[at] for at in sorted(said.keys() - wrong)})


def table(found: list[Finding]) -> str:
    """The findings as a table of Markdown."""
    rows = [f"| {one.checker} {version(one.checker)} | {len(one.missed)} | {len(one.false)} |" for one in found]
    return "\n".join(["| checker | wrong lines that it misses | right lines that it refuses |", "|---|---|---|", *rows])


def _said(command: tuple[str, ...], folder: Path) -> Iterator[tuple[str, str]]:
    """Each line at fault as `file:line`, with what is said of it."""
    program = str(Path(sys.executable).with_name(command[0]))
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} did not finish: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    for found in map(_LINE.search, done.stdout.splitlines()):
        if found and "error" in found.string.lower():
            yield f"{Path(found['file']).name}:{found['line']}", found["message"]


if __name__ == "__main__":
    everything = [findings(checker) for checker in OTHERS]
    for one in everything:
        for location in one.missed:
            sys.stdout.write(f"{one.checker} misses {location}\n")
        for location, message in one.false.items():
            sys.stdout.write(f"{one.checker} refuses {location}: {message}\n")
    sys.stdout.write(table(everything) + "\n")
