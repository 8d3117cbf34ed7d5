"""What the checkers show of common expressions, as text under test; `python -m tests.kit.hover` writes it anew."""

from __future__ import annotations

import re

from tests.kit.checkers import CHECKERS, ROOT, Report, run
from tests.kit.messages import in_order

__all__ = ["EXPRESSIONS", "expressions", "hover_file", "hover_program", "hover_text"]

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


def hover_program() -> str:
    """Return the program that shows the type of each expression."""
    revealed = "".join(f"reveal_type({code})\n" for code in expressions())
    return f'{_parts()[0]}{revealed}# mypy: disable-error-code="unimported-reveal"\n'


def hover_text(report: Report) -> str:
    """Return each expression with the type that a checker shows of it, without the modules of names."""
    pattern = _MYPY if report.checker == "mypy" else _PYRIGHT
    messages = [
        (line, message)
        for shown in (report.revealed, report.errors)
        for line, told in shown.get(EXPRESSIONS, {}).items()
        for message in told
    ]
    shown = {line: _without_rooms(written) for line, written in _types(pattern, messages).items()}
    first = _parts()[0].count("\n") + 1
    blocks = [f"> {code}\n{shown.get(first + at, 'nothing')}\n" for at, code in enumerate(expressions())]
    return "\n".join(blocks)


def _parts() -> tuple[str, str]:
    before, _, after = (ROOT / EXPRESSIONS).read_text(encoding="utf-8").partition(_SHOWN)
    return before, after


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
        (ROOT / hover_file(checker)).write_text(
            hover_text(run(checker, {EXPRESSIONS: hover_program()})), encoding="utf-8"
        )
