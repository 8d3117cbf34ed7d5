"""Verdicts: what `fxai check` found, as lines for people or as plain data.

>>> verdict = Verdict("kit.py:kit", 2, ())
>>> verdict.ok, verdict.to_data()["faults"]
(True, [])
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, TextIO, final

import msgspec

from fxai.cli.lint.finding import SEVERITIES, Finding, Severity, at_least
from fxai.cli.lint.rule import RULES
from fxai.cli.text import one_line

__all__ = ["Verdict", "show_rules", "show_verdict"]

_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@final
class Verdict(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        target: what was looked at.
        tools: how many tools it has.
        faults: what is wrong, of those that were asked for.
    """

    target: str
    tools: int
    faults: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing."""
        return not self.faults

    @property
    def counted(self) -> str:
        """How many there are, in words."""
        counts = Counter(fault.severity for fault in self.faults)
        words = (f"{counts[s]} {s}{'s' * (counts[s] > 1 and s != 'info')}" for s in reversed(SEVERITIES) if counts[s])
        return f"{len(self.faults)} fault{'s' * (len(self.faults) > 1)} ({', '.join(words)})"

    def to_data(self) -> dict[str, Any]:
        """The verdict as plain JSON data."""
        return {
            "target": self.target,
            "ok": self.ok,
            "tools": self.tools,
            "faults": [fault.to_data() for fault in self.faults],
        }

    @staticmethod
    def of(
        target: str, tools: int, findings: tuple[Finding, ...], level: Severity, ignored: tuple[str, ...]
    ) -> Verdict:
        """The verdict of what is as bad as `level` or worse, without the rules that are ignored."""
        kept = (each for each in findings if at_least(each.severity, level) and each.code not in ignored)
        return Verdict(target, tools, tuple(kept))


def show_verdict(verdict: Verdict, out: TextIO, err: TextIO, *, color: bool | None = None) -> None:
    """Writes a line for each fault, and on `err` how many there are; of a clean target nothing."""
    from fxai.cli.screen import console

    screen = console(out, color)
    for fault in verdict.faults:
        screen.print(f"{fault.place}: ", end="")
        screen.print(f"{fault.severity} {fault.code}", style=_STYLES[fault.severity], end="")
        screen.print(f": {one_line(fault.message)}; {one_line(fault.remedy)}")
    if not verdict.ok:
        err.write(f"fxai: {verdict.counted} in {verdict.target}\n")


def show_rules(out: TextIO) -> None:
    """Writes what is looked for: each rule with its severity."""
    wide = max(map(len, RULES))
    out.writelines(f"{rule.code:<{wide}}  {rule.severity:<7}  {rule.says}\n" for rule in RULES.values())
