"""Findings: one thing that is wrong with a tool: which rule says so, where, what, and what to do.

>>> found = Finding("tool-undescribed", "warning", "add", "/description", "it has no description", "say what it does")
>>> print(found)
add /description: warning tool-undescribed: it has no description; say what it does
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.cli.text import one_line

__all__ = ["SEVERITIES", "Finding", "Severity", "at_least"]

Severity: TypeAlias = Literal["info", "warning", "error"]
"""How bad it is.

`error`: a call or a request will fail, or a check that the author wrote is not made. `warning`: it works worse than it
could, or not everywhere. `info`: good to know.
"""

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error")
"""From the least to the worst."""


@final
class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    Attributes:
        code: the rule that says so.
        severity: how bad it is.
        tool: the tool's name; None where it is about no tool alone.
        pointer: where, as a JSON pointer into what `fxai tools --json` shows of the tool; `""` is all of it.
        message: what is wrong, in one line.
        remedy: what to do, in one line.
    """

    code: str
    severity: Severity
    tool: str | None
    pointer: str
    message: str
    remedy: str

    @property
    def place(self) -> str:
        """The tool and the pointer, as a line begins with them."""
        return one_line(" ".join(part for part in (self.tool, self.pointer) if part)) or "the toolkit"

    def to_data(self) -> dict[str, Any]:
        """The finding as plain JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    @override
    def __str__(self) -> str:
        """One line: where, how bad, by which rule, what, and what to do."""
        return f"{self.place}: {self.severity} {self.code}: {one_line(self.message)}; {one_line(self.remedy)}"


def at_least(severity: Severity, least: Severity) -> bool:
    """Whether a severity is as bad as `least`, or worse.

    >>> at_least("error", "warning"), at_least("info", "warning")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)
