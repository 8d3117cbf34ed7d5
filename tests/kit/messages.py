"""What the checkers say of common mistakes, as text under test; `python -m tests.kit.messages` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.kit.checkers import CHECKERS, ROOT, marked_lines, run, texts

__all__ = ["MISTAKES", "NAMES", "UNNAMED", "in_order", "messages_file", "messages_text", "unnamed"]

MISTAKES = "tests/typing/messages/mistakes.py"
NAMES = {
    "a handler takes the tool's parameters as one value": "Query",
    "another success than the tool declares": "int",
    "another failure than the tool declares": "TooMuch",
    "one failure more than the tool declares, of a generator": "Offline",
    "a bare value, which says neither success nor failure": "list[Order]",
    "a bare value, awaited": "list[Order]",
    "a bare value, of a decorated handler": "int",
    "the handler of search is missing": "HandlerOf[Query",
    "two handlers are missing": "HandlerOf[Query",
    "another tool's": "HandlerOf[Empty",
    "no handlers are provided": "HandlerOf[Query",
    "the database is missing, which a handler needs": "Database",
    "a misspelt option": "sucess",
    "one of four services is missing": "Audit",
    "what a layer needs is missing": "Settings",
    "no database": "Database",
    "neither model nor handlers": "HandlerOf[OrderId",
    "no model": "LanguageModel",
    "the mailer is missing, which a function tool needs": "Mailer",
    "no such option": "tools",
    "the failures are not declared": "BudgetExceeded",
}
"""For each of 21 common mistakes, the missing or wrong thing."""
UNNAMED = {
    "mypy": ["no database"],
    "pyright": [],
}
"""The mistakes of which the first 200 characters of the first message do not name the thing, by checker."""


def messages_file(checker: str) -> str:
    """Where the messages of a checker are kept."""
    return f"tests/typing/messages/{checker}.txt"


def messages_text(said: Mapping[int, list[str]]) -> str:
    """Each marked line of the mistakes with what is wrong in it and what a checker said; without places."""
    lines = (ROOT / MISTAKES).read_text(encoding="utf-8").splitlines()
    blocks: list[str] = []
    for line, why in marked_lines(MISTAKES).items():
        code = lines[line - 1].partition("  # wrong:")[0].strip()
        messages = "\n".join(map(_steady, said.get(line, ["nothing"])))
        blocks.append(f"# {why}\n> {code}\n{messages}\n")
    return "\n".join(blocks)


def unnamed(checker: str) -> list[str]:
    """Return the mistakes whose thing is not in the first 200 characters of what a checker says."""
    blocks = (ROOT / messages_file(checker)).read_text(encoding="utf-8").split("\n# ")
    said = {why.removeprefix("# "): message for why, _, message in (block.split("\n", 2) for block in blocks)}
    return [why for why, name in NAMES.items() if name not in said[why][:200]]


def _steady(message: str) -> str:
    """A message without what varies: mypy writes some unions, and the options of overloads, in the order of a set."""
    told, listed, overloads = message.replace("\u00a0", " ").partition("Possible overload variants:\n")
    if listed:
        told = f"{told}{listed.strip()} {len(overloads.splitlines())}, {len(overloads)} characters"
    return re.sub('"([^"]*)"', lambda quoted: f'"{in_order(quoted[1])}"', told)


def in_order(written: str) -> str:
    """A written type, the members of each union in order, None last."""
    members = _split(written, " | ")
    if len(members) > 1:
        return " | ".join(sorted(map(in_order, members), key=lambda member: (member == "None", member)))
    name, bracket, inside = written.partition("[")
    if not bracket or not inside.endswith("]"):
        return written
    return f"{name}[{', '.join(map(in_order, _split(inside[:-1], ', ')))}]"


def _split(written: str, separator: str) -> list[str]:
    """The parts between separators that stand in no bracket."""
    parts, depth = [""], 0
    for piece in re.split(f"({re.escape(separator)}|[][()])", written):
        depth += (piece in ("[", "(")) - (piece in ("]", ")"))
        if piece == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


if __name__ == "__main__":
    for checker in CHECKERS:
        (ROOT / messages_file(checker)).write_text(
            messages_text(run(checker, texts([MISTAKES])).errors[MISTAKES]), encoding="utf-8"
        )
