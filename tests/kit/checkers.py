"""Both type checkers, run once over the whole project, its pages and the wrong programs: what each reports, by line."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

__all__ = [
    "CHECKERS",
    "MARK",
    "PAGES",
    "PROJECT",
    "ROOT",
    "WRONG",
    "Report",
    "expressions_of_any",
    "marked_lines",
    "names_not_exported",
    "output",
    "run",
    "said_of",
    "unknown_types",
]

ROOT = Path(__file__).parents[2]
CHECKERS = ("mypy", "pyright")
MARK = "# wrong:"
WRONG = ["tests/acceptance/programs/typing_wrong.py"] + [
    path.relative_to(ROOT).as_posix()
    for folder in ("wrong", "messages")
    for path in sorted((ROOT / "tests/typing" / folder).glob("*.py"))
]
PAGES = ["README.md"] + [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = [name for name in ("fxai", "tests", "examples", "noxfile.py") if (ROOT / name).exists()]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Report(NamedTuple):
    """What one checker said: the messages of each line at fault, by file and then by line."""

    checker: str
    errors: dict[str, dict[int, list[str]]]

    def outside(self, files: Iterable[str]) -> dict[str, dict[int, list[str]]]:
        """The errors of every other file."""
        skipped = set(files)
        return {file: lines for file, lines in self.errors.items() if file not in skipped}


def marked_lines(file: str) -> dict[int, str]:
    """The lines of a program or page that a checker must refuse, each with the reason that its mark gives."""
    tokens = tokenize.generate_tokens(io.StringIO(_program(file)).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    return {line: text.removeprefix(MARK).strip() for line, text in comments.items() if text.startswith(MARK)}


def run(checker: str, files: Collection[str], *targets: str) -> Report:
    """Run `mypy --strict` or strict `pyright`, as configured for this project.

    Args:
        checker: "mypy" or "pyright".
        files: Wrong programs and pages, by name.
        targets: Directories and files that must pass.
    """
    errors: dict[str, dict[int, list[str]]] = {}
    with TemporaryDirectory() as folder:
        copies = {copy.name: (copy, file) for copy, file in _copies(Path(folder), files)}
        found = (_mypy if checker == "mypy" else _pyright)(*targets, *(str(copy) for copy, _ in copies.values()))
    for path, line, message in found:
        _, name = copies.get(Path(path).name, ("", Path(path).as_posix().removeprefix(f"{ROOT.as_posix()}/")))
        errors.setdefault(name, {}).setdefault(line, []).append(message)
    return Report(checker, errors)


def said_of(checker: str, file: str) -> list[tuple[int, str]]:
    """The errors that a checker reports of a file outside of the project: (line, message)."""
    return [(line, message) for _, line, message in (_mypy if checker == "mypy" else _pyright)(file)]


def expressions_of_any(file: str) -> list[str]:
    """The lines of a page in which mypy knows an expression to hold `Any`, in order."""
    code = _program(file).splitlines()
    with TemporaryDirectory() as folder:
        ((copy, _),) = _copies(Path(folder), [file])
        said = _mypy("--disallow-any-expr", str(copy))
    about = {line for path, line, message in said if Path(path).name == copy.name and 'Any"' in message}
    return [code[line - 1].strip() for line in sorted(about)]


def _copies(folder: Path, files: Collection[str]) -> Iterable[tuple[Path, str]]:
    """Wrong programs and pages, line by line, where the checkers leave out nothing: (copy, file)."""
    for file in files:
        copy = folder / f"copy_{re.sub(r'[^a-z0-9]', '_', file.lower())}.py"
        copy.write_text(_program(file), encoding="utf-8")
        yield copy, file


def _program(file: str) -> str:
    """The text of a program; of a page, its Python blocks as one program, each line where it stands on the page.

    A block with a title is a file of somebody else's project, and no part of that program.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        return text
    lines = [""] * text.count("\n")
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block.group(1).splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


def names_not_exported(names: Iterable[str]) -> list[str]:
    """What pyright says to a project of its own that imports these names from the package, installed beside it."""
    with TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text('[tool.pyright]\ntypeCheckingMode = "strict"\n', encoding="utf-8")
        program = Path(folder, "program.py")
        program.write_text("".join(f"from fxai import {n}\nprint({n})\n" for n in names), encoding="utf-8")
        command = ("pyright", "--outputjson", "--project", folder, "--pythonpath", sys.executable)
        reported: list[dict[str, Any]] = json.loads(output(*command))["generalDiagnostics"]
    return [one["message"] for one in reported if one.get("rule") == "reportPrivateImportUsage"]


def unknown_types() -> list[str]:
    """The public names whose types pyright does not know, or would have to guess."""
    text = output("pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "fxai")
    symbols: list[dict[str, Any]] = json.loads(text)["typeCompleteness"]["symbols"]
    return [one["name"] for one in symbols if not one["isTypeKnown"] or one["isTypeAmbiguous"]]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def output(*command: str) -> str:
    """What a tool of Python prints, run in this project; it may report errors, and may not break down."""
    done = _run(*command)
    if done.returncode not in (0, 1):  # mypy 2.4 crashes once in many runs, and not where it is asked again
        done = _run(*command)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} did not finish: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _mypy(*targets: str) -> list[tuple[str, int, str]]:
    lines = output("mypy", "--output", "json", *targets).splitlines()
    reported: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    return [
        (one["file"], one["line"], "\n".join(filter(None, (one["message"], one["hint"]))))
        for one in reported
        if one["severity"] == "error"
    ]


def _pyright(*targets: str) -> list[tuple[str, int, str]]:
    text = output("pyright", "--outputjson", "--pythonpath", sys.executable, *targets)
    reported: list[dict[str, Any]] = json.loads(text)["generalDiagnostics"]
    return [
        (one["file"], one["range"]["start"]["line"] + 1, one["message"])
        for one in reported
        if one["severity"] == "error"
    ]
