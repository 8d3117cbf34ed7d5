"""What the checkers say of common mistakes, as text under test; `python -m tests.kit.messages` writes it anew."""

from __future__ import annotations

from collections.abc import Mapping

from tests.kit.checkers import CHECKERS, ROOT, marked_lines, run

__all__ = ["MISTAKES", "messages_file", "messages_text"]

MISTAKES = "tests/typing/messages/mistakes.py"


def messages_file(checker: str) -> str:
    """Where the messages of a checker are kept."""
    return f"tests/typing/messages/{checker}.txt"


def messages_text(said: Mapping[int, list[str]]) -> str:
    """Each marked line of the mistakes with what is wrong in it and what a checker said; without places."""
    lines = (ROOT / MISTAKES).read_text(encoding="utf-8").splitlines()
    blocks: list[str] = []
    for line, why in marked_lines(MISTAKES).items():
        code = lines[line - 1].partition("  # wrong:")[0].strip()
        messages = "\n".join(map(_shortened, said.get(line, ["nothing"])))
        blocks.append(f"# {why}\n> {code}\n{messages}\n")
    return "\n".join(blocks)


def _shortened(message: str) -> str:
    """A message; of the overloads that mypy lists, in which the order of options varies, only how long they are."""
    told, listed, overloads = message.replace("\u00a0", " ").partition("Possible overload variants:\n")
    return f"{told}{listed.strip()} {len(overloads.splitlines())}, {len(overloads)} characters" if listed else told


if __name__ == "__main__":
    for checker in CHECKERS:
        (ROOT / messages_file(checker)).write_text(
            messages_text(run(checker, [MISTAKES]).errors[MISTAKES]), encoding="utf-8"
        )
