"""Linting: every rule, applied to tools.

>>> from fxai.cli.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> [found.code for found in linted(Subject.of([Tool.make("ping", description="Answers.")]))]
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from fxai.cli.lint.attribute import attribute_findings
from fxai.cli.lint.finding import Finding, Severity, at_least
from fxai.cli.lint.naming import name_findings, number_findings
from fxai.cli.lint.strictness import strict_findings
from fxai.cli.lint.structure import structure_findings
from fxai.cli.lint.subject import Subject
from fxai.cli.lint.wording import wording_findings

__all__ = ["in_order", "linted"]

Check: TypeAlias = Callable[[Subject], Iterator[Finding]]

_CHECKS: Final[tuple[Check, ...]] = (
    number_findings,
    name_findings,
    wording_findings,
    structure_findings,
    strict_findings,
    attribute_findings,
)


def linted(subject: Subject, level: Severity = "warning") -> tuple[Finding, ...]:
    """What is wrong with the tools, in their order, what is about none of them first; each finding once.

    Args:
        subject: the tools, and the providers that they are for.
        level: how bad a finding is at least; as in the command, by default a warning.
    """
    names = [entry.tool.name for entry in subject.entries]
    return in_order((f for check in _CHECKS for f in check(subject) if at_least(f.severity, level)), names)


def in_order(findings: Iterator[Finding], names: list[str]) -> tuple[Finding, ...]:
    """The findings, each once, by tool in the order of `names`, what is about none of them first."""
    places = {name: place for place, name in enumerate(names)}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: places.get(found.tool or "", -1)))
