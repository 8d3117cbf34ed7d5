"""What the checkers show of common expressions, as text under test; `python -m tests.kit.hover` writes it anew."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kit.checkers import CHECKERS, ROOT, output
from tests.kit.messages import in_order

__all__ = ["EXPRESSIONS", "expressions", "hover_file", "hover_text"]

EXPRESSIONS = "tests/typing/hover/expressions.py"
_SHOWN = "# ---- shown\n"
_MYPY = re.compile(r'Revealed type is "(.*)"$')
_PYRIGHT = re.compile(r'Type of ".*" is "(.*)"$', re.DOTALL)
_ROOM = re.compile(r"\b(?:[a-z_][a-z_0-9]*\.)+(?=[A-Za-z_])")


def hover_file(checker: str) -> str:
    """Where the types that a checker shows are kept."""
    return f"tests/typing/hover/{checker}.txt"


def expressions() -> list[str]:
    """The expressions, one a line."""
    return [line for line in _parts()[1].splitlines() if line]


def hover_text(checker: str) -> str:
    """Each expression with the type that a checker shows of it, without the rooms of names."""
    shown = _shown(checker)
    first = _parts()[0].count("\n") + 1
    blocks = [f"> {code}\n{shown.get(first + at, 'nothing')}\n" for at, code in enumerate(expressions())]
    return "\n".join(blocks)


def _parts() -> tuple[str, str]:
    before, _, after = (ROOT / EXPRESSIONS).read_text(encoding="utf-8").partition(_SHOWN)
    return before, after


def _shown(checker: str) -> dict[int, str]:
    """The type that is shown in each line."""
    revealed = "".join(f"reveal_type({code})\n" for code in expressions())
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy_of_expressions.py"
        copy.write_text(_parts()[0] + revealed, encoding="utf-8")
        told = _mypy(copy) if checker == "mypy" else _pyright(copy)
    return {line: _without_rooms(written) for line, written in told.items()}


def _mypy(program: Path) -> dict[int, str]:
    text = output("mypy", "--output", "json", "--disable-error-code", "unimported-reveal", str(program))
    reported: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return _types(_MYPY, [(one["line"], one["message"]) for one in reported])


def _pyright(program: Path) -> dict[int, str]:
    text = output("pyright", "--outputjson", "--pythonpath", sys.executable, str(program))
    reported: list[dict[str, Any]] = json.loads(text)["generalDiagnostics"]
    return _types(_PYRIGHT, [(one["range"]["start"]["line"] + 1, one["message"]) for one in reported])


def _types(shape: re.Pattern[str], messages: list[tuple[int, str]]) -> dict[int, str]:
    """What a message reveals, by line; an error stands as it is, so that it is seen."""
    types: dict[int, str] = {}
    for line, message in messages:
        found = shape.search(message)
        if found or line not in types:
            types[line] = found[1] if found else f"error: {message}"
    return types


def _without_rooms(written: str) -> str:
    return in_order(" ".join(_ROOM.sub("", written.replace("\u00a0", " ")).split()))


if __name__ == "__main__":
    for checker in CHECKERS:
        (ROOT / hover_file(checker)).write_text(hover_text(checker), encoding="utf-8")
