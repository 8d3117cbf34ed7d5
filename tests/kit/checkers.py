"""Both type checkers, run once over the whole project, its pages and the wrong programs: what each reports, by line."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

__all__ = [
    "CHECKERS",
    "FIRST_PAGES",
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
    "texts",
    "texts_without_any",
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
FIRST_PAGES = ["README.md", "docs/index.md", "docs/tutorial/first-tool.md"]
PAGES = ["README.md"] + [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = [name for name in ("fxai", "tests", "examples", "noxfile.py") if (ROOT / name).exists()]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Report(NamedTuple):
    """The messages of one checker, by file and then by line: the errors, and the types that `reveal_type` shows."""

    checker: str
    errors: dict[str, dict[int, list[str]]]
    revealed: dict[str, dict[int, list[str]]]

    def outside(self, files: Iterable[str]) -> dict[str, dict[int, list[str]]]:
        """The errors of every other file."""
        skipped = set(files)
        return {file: lines for file, lines in self.errors.items() if file not in skipped}


def marked_lines(file: str) -> dict[int, str]:
    """The lines of a program or page that a checker must refuse, each with the reason that its mark gives."""
    tokens = tokenize.generate_tokens(io.StringIO(_program(file)).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    return {line: text.removeprefix(MARK).strip() for line, text in comments.items() if text.startswith(MARK)}


def texts(files: Iterable[str]) -> dict[str, str]:
    """Return the text of each program or page, by its name."""
    return {file: _program(file) for file in files}


def texts_without_any(pages: Iterable[str]) -> dict[str, str]:
    """Return programs in which mypy refuses each expression that contains `Any`, one for each page."""
    return {_without_any(page): f"{_program(page)}# mypy: disallow-any-expr\n" for page in pages}


def expressions_of_any(report: Report, page: str) -> list[str]:
    """Return the lines of a page in which mypy knows that an expression contains `Any`, in order."""
    code = _program(page).splitlines()
    lines = sorted(report.errors.get(_without_any(page), {}).items())
    return [code[line - 1].strip() for line, messages in lines if any('Any"' in message for message in messages)]


def _without_any(page: str) -> str:
    return f"without any: {page}"


def run(checker: str, programs: Mapping[str, str], *targets: str) -> Report:
    """Run `mypy --strict` or strict `pyright` once, as configured for this project.

    A run costs about 20 seconds before it checks the first line. Pass all programs to one run.

    Args:
        checker: "mypy" or "pyright".
        programs: The text of each program by its name. A program may have errors.
        targets: Directories and files that must pass.
    """
    report = Report(checker, {}, {})
    with TemporaryDirectory() as folder:
        names: dict[str, str] = {}
        for name, text in programs.items():
            copy = Path(folder, f"copy_{re.sub(r'[^a-z0-9]', '_', name.lower())}.py")
            copy.write_text(text, encoding="utf-8")
            names[copy.name] = name
        paths = [str(Path(folder, copy)) for copy in names]
        found = list((_mypy if checker == "mypy" else _pyright)(*targets, *paths))
    for path, line, message, is_error in found:
        name = names.get(Path(path).name, Path(path).as_posix().removeprefix(f"{ROOT.as_posix()}/"))
        lines = (report.errors if is_error else report.revealed).setdefault(name, {})
        lines.setdefault(line, []).append(message)
    return report


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
    """Return the public names whose types pyright does not know, or must guess.

    pyright reads no symbols from an editable install, and takes the other packages from the first Python on `PATH`.

    Raises:
        RuntimeError: If pyright read no symbols.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "fxai")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    symbols: list[dict[str, Any]] = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    if not symbols:
        raise RuntimeError("pyright read no symbols of fxai. Check that PYTHONPATH contains the project.")

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


def _mypy(*targets: str) -> Iterator[tuple[str, int, str, bool]]:
    for line in output("mypy", "--output", "json", *targets).splitlines():
        if line.startswith("{"):
            one: dict[str, Any] = json.loads(line)
            message = "\n".join(filter(None, (one["message"], one["hint"])))
            yield one["file"], one["line"], message, one["severity"] == "error"


def _pyright(*targets: str) -> Iterator[tuple[str, int, str, bool]]:
    text = output("pyright", "--outputjson", "--pythonpath", sys.executable, *targets)
    reported: list[dict[str, Any]] = json.loads(text)["generalDiagnostics"]
    for one in reported:
        if one["severity"] in ("error", "information"):
            yield one["file"], one["range"]["start"]["line"] + 1, one["message"], one["severity"] == "error"
