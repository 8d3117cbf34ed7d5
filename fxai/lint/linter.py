"""The linter: every rule applied to tools, and to the handlers of a layer.

>>> from fxai.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> [found.code for found in lint(Subject.of([Tool.make("ping", description="Answers.")]))]
[]

A layer must have one handler for each tool, none for other tools, and the services that its handlers need.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> ping, pong = Tool.make("ping"), Tool.make("pong")
>>> found = fx.run(handler_findings((ping, pong), ping.handler(lambda _: Success(None))))
>>> [(each.code, each.tool) for each in found]
[('handler-missing', 'pong')]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from fxai.effects import fx
from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.layer import AnyLayer
from fxai.lint.attribute import attribute_findings
from fxai.lint.description import name_findings, number_findings, wording_findings
from fxai.lint.rule import RULES, Finding, Severity, at_least
from fxai.lint.structure import strict_findings, structure_findings
from fxai.lint.subject import Subject
from fxai.tools.handler import Given
from fxai.tools.identity import Identity
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import HandlerError, missing_services

__all__ = ["Explain", "handler_findings", "in_order", "lint"]

Check: TypeAlias = Callable[[Subject], Iterator[Finding]]

_CHECKS: Final[tuple[Check, ...]] = (
    number_findings,
    name_findings,
    wording_findings,
    structure_findings,
    strict_findings,
    attribute_findings,
)


def lint(subject: Subject, level: Severity = "warning") -> tuple[Finding, ...]:
    """The faults of tools: those about no tool in particular first, then in the order of the tools; each once.

    Args:
        subject: the tools, and the providers that they are for.
        level: the least severity; as in the command, by default a warning.
    """
    names = [entry.tool.name for entry in subject.entries]
    return in_order((f for check in _CHECKS for f in check(subject) if at_least(f.severity, level)), names)


def in_order(findings: Iterator[Finding], names: list[str]) -> tuple[Finding, ...]:
    """The findings, each once: those about no tool first, then by tool in the order of `names`."""
    places = {name: place for place, name in enumerate(names)}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: places.get(found.tool or "", -1)))


Explain: TypeAlias = Callable[[Cause[Any]], tuple[str, str]]
"""Says why a layer could not be built, and what to do about it."""

_CODES: Final = {
    "no handler for": "handler-missing",
    "two handlers for": "handler-doubled",
    "no such tool here": "handler-extra",
}
_SAYS: Final = {
    "handler-missing": ("the layer has no handler for it", "give it one: tool.handler(f), or say tool.external()"),
    "handler-doubled": ("the layer has two handlers for it", "take one of them away"),
    "handler-extra": ("the layer has a handler for it, and it is not among the tools", "add the tool, or take it away"),
}


def handler_findings(
    tools: tuple[AnyTool, ...], layer: AnyLayer, explain: Explain | None = None
) -> EffectOf[tuple[Finding, ...], Any, Any]:
    """The faults of a layer's handlers for these tools; the layer is built for it, and released.

    Args:
        tools: the tools that the layer is to have handlers for.
        layer: the layer.
        explain: puts the reason why a layer cannot be built into words; by default the failure or defect itself.
    """
    return fx.scoped(layer.build()).exit().map(lambda end: tuple(_findings(tools, end, explain or _reason)))


def _reason(cause: Cause[Any]) -> tuple[str, str]:
    return str(cause.squash()), "make it work where you check, or check without the layer"


def _findings(tools: tuple[AnyTool, ...], end: Exit[ContextOf[Any], Any], explain: Explain) -> Iterator[Finding]:
    if isinstance(end, Succeeded):
        yield from _handler_mismatches(tools, end.value)
        yield from _missing_services(tools, end.value)
        return
    errors = [defect for defect in end.cause.defects if isinstance(defect, HandlerError)]
    for error in errors:
        yield from _findings_in(str(error))
    if not errors:
        message, remedy = explain(end.cause)
        yield RULES["layer-failed"].finding(None, "", f"the layer cannot be built: {message}", remedy)


def _handler_mismatches(tools: tuple[AnyTool, ...], context: ContextOf[Any]) -> Iterator[Finding]:
    needed = {tool.identity: tool.name for tool in tools if tool.requires_handler}
    for identity, name in needed.items():
        if context.find(identity) is None:
            yield _finding("handler-missing", name)
    givers = Counter(key.identity for key in context if isinstance(key, Given))
    for identity, number in givers.items():
        if number > 1:
            yield _finding("handler-doubled", needed.get(identity, identity.name))
    for key in context:
        if isinstance(key, Identity) and key not in needed:
            yield _finding("handler-extra", key.name)


def _missing_services(tools: tuple[AnyTool, ...], context: ContextOf[Any]) -> Iterator[Finding]:
    remedy = "give the layer what supplies it: layer.provide(…)"
    for tool, service in missing_services(tools, context):
        message = f"its handler needs the service {service}, which no layer gives"
        yield RULES["service-missing"].finding(tool, "", message, remedy)


def _findings_in(message: str) -> Iterator[Finding]:
    """The findings in the message of a toolkit's own check, which names all faults at once."""
    for said, code in _CODES.items():
        for names in re.findall(rf"(?:^|: |; ){said}: ([^;]+)", message):
            for name in str(names).split(", "):
                yield _finding(code, name)


def _finding(code: str, name: str) -> Finding:
    return RULES[code].finding(name, "", *_SAYS[code])
