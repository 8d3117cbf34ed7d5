"""Handlers: whether a layer answers each tool, once, and no others, and gives them what they say they need.

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
from collections.abc import Iterator
from typing import Any, Final

from fxai.cli.lint.finding import Finding
from fxai.cli.lint.rule import RULES
from fxai.cli.trouble import missing_services, trouble_of
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.layer import LayerOf
from fxai.tools.handler import Given
from fxai.tools.identity import Identity
from fxai.tools.tool import Tool
from fxai.tools.toolkit import HandlerError

__all__ = ["handler_findings"]

_ELSEWHERE: Final = "make it work where you check, or leave --layer out"
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
    tools: tuple[Tool[Any, Any, Any], ...], layer: LayerOf[Any, Any, Any]
) -> EffectOf[tuple[Finding, ...], Any, Any]:
    """What is wrong with a layer's handlers for these tools; the layer is built for it, and released."""
    return fx.scoped(layer.build()).exit().map(lambda end: tuple(_findings(tools, end)))


def _findings(tools: tuple[Tool[Any, Any, Any], ...], end: Exit[ContextOf[Any], Any]) -> Iterator[Finding]:
    if isinstance(end, Succeeded):
        yield from _matched(tools, end.value)
        yield from _wanting(tools, end.value)
        return
    errors = [defect for defect in end.cause.defects if isinstance(defect, HandlerError)]
    for error in errors:
        yield from _told(str(error))
    if not errors:
        trouble = trouble_of(end.cause)
        remedy = _ELSEWHERE if trouble.remedy.startswith("--debug") else trouble.remedy
        yield RULES["layer-failed"].finding(None, "", f"the layer cannot be built: {trouble.message}", remedy)


def _matched(tools: tuple[Tool[Any, Any, Any], ...], context: ContextOf[Any]) -> Iterator[Finding]:
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


def _wanting(tools: tuple[Tool[Any, Any, Any], ...], context: ContextOf[Any]) -> Iterator[Finding]:
    remedy = "give the layer what supplies it: layer.provide(…)"
    for tool, service in missing_services(tools, context):
        message = f"its handler needs the service {service}, which no layer gives"
        yield RULES["service-missing"].finding(tool, "", message, remedy)


def _told(message: str) -> Iterator[Finding]:
    """The findings of a toolkit's own check, which tells of all in one message."""
    for said, code in _CODES.items():
        for names in re.findall(rf"(?:^|: |; ){said}: ([^;]+)", message):
            for name in str(names).split(", "):
                yield _finding(code, name)


def _finding(code: str, name: str) -> Finding:
    return RULES[code].finding(name, "", *_SAYS[code])
