"""The linter. Use `lint` to apply every rule to tools, and `handler_findings` to check the handlers of a layer.

>>> from fxai.lint.rule import Subject
>>> from fxai.tools.tool import Tool
>>> [found.code for found in lint(Subject.of([Tool.make("ping", description="Answers.")]))]
[]

A layer must have one handler for each tool, no handler for other tools, and the services that its handlers require.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> ping, pong = Tool.make("ping"), Tool.make("pong")
>>> found = fx.run(handler_findings((ping, pong), ping.handler(lambda _: Success(None))))
>>> [(each.code, each.tool) for each in found]
[('handler-missing', 'pong')]
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from returns.result import Failure

from fxai.effects import fx
from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.layer import AnyLayer
from fxai.lint.description import name_findings, number_findings, wording_findings
from fxai.lint.rule import OTHERS, PROVIDERS, RULES, Entry, Finding, Provider, Severity, Subject, at_least
from fxai.lint.structure import strict_findings, structure_findings
from fxai.schema.data import is_object
from fxai.schema.fault import pointer_to
from fxai.tools.annotation import Annotation, CacheControl, DeferLoading, Destructive, FindsTools, Readonly
from fxai.tools.call import as_decode_failure
from fxai.tools.handler import Given, HandlerError, missing_services
from fxai.tools.identity import Identity
from fxai.tools.tool import AnyTool
from fxai.tools.tool_info import example_faults


def attribute_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of annotations, examples of calls, and options for providers."""
    for entry in subject.entries:
        yield from _annotations(entry)
        yield from _examples(entry)
        yield from _options(entry)
    for provider in subject.providers:
        yield from _cache_marks(subject, provider)
        yield from _deferred_tools(subject, provider)


def _cache_marks(subject: Subject, provider: Provider) -> Iterator[Finding]:
    loaded = [entry for entry in subject.entries if not _effective(entry, provider, DeferLoading)]
    marked = [entry.tool.name for entry in loaded if _effective(entry, provider, CacheControl) is not None]
    most = provider.most_marks
    if most is None or len(marked) <= most:
        return
    for name in marked[:-most]:
        message = f"{len(marked)} tools have cache marks, but {provider.name} accepts {most} marks in one request"
        remedy = "Mark only the last tool. A mark also covers the tools before it."
        yield RULES["cache-marks"].finding(name, "/annotations/cache_control", message, remedy)


def _deferred_tools(subject: Subject, provider: Provider) -> Iterator[Finding]:
    tools = [entry.tool for entry in subject.entries]
    hosted = (tool.provider.id for tool in tools if tool.provider is not None)
    if any(tool.get(FindsTools) for tool in tools) or any(name.startswith(provider.tool_search) for name in hosted):
        return
    for entry in subject.entries:
        if _effective(entry, provider, DeferLoading):
            message = f"the tool is deferred, but no tool search can find it at {provider.name}"
            remedy = f"Add {provider.name}.tool_search() to the tools, or do not defer the tool."
            yield RULES["tool-search-missing"].finding(entry.tool.name, "/annotations/defer_loading", message, remedy)


def _effective(entry: Entry, provider: Provider, key: Annotation[Any]) -> Any:
    """Return the value of an annotation for a provider. The provider's own option has priority."""
    options = entry.tool.provider_options.get(provider.name)
    own: Any = options.get(key.name) if is_object(options) else None
    return entry.tool.get(key) if own is None else own


def _annotations(entry: Entry) -> Iterator[Finding]:
    tool, given = entry.tool, entry.tool.annotations
    if tool.get(Readonly) is True and Destructive in given and tool.get(Destructive) is True:
        message = "the tool changes nothing (Readonly) but can destroy data (Destructive)"
        at = "/annotations/destructive"
        yield RULES["annotation-contradiction"].finding(tool.name, at, message, "Remove one of the annotations.")


def _examples(entry: Entry) -> Iterator[Finding]:
    tool = entry.tool
    for index, example in enumerate(tool.input_examples if entry.sound else ()):
        if callable(tool.validation):
            checked = tool.validation(example.parameters)
            faults = as_decode_failure(checked.failure()).faults if isinstance(checked, Failure) else ()
        else:
            faults = example_faults(tool, example.parameters)
        for fault in faults:
            at = f"/input_examples/{index}{fault.pointer}"
            message = f"expected {fault.expected}, found {fault.found}"
            remedy = "Correct the example. Models learn from it, and anthropic rejects requests with invalid examples."
            yield RULES["input-example-misfit"].finding(tool.name, at, message, remedy)


def _options(entry: Entry) -> Iterator[Finding]:
    known = (*PROVIDERS, *OTHERS)
    for name in entry.tool.provider_options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Known providers: {', '.join(known)}."
            at = pointer_to("/provider_options", name)
            message = f"unknown provider {name!r}, so these options have no effect"
            yield RULES["provider-unknown"].finding(entry.tool.name, at, message, remedy)


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
    """Return the problems of tools, each once. Problems of no single tool come first, then the order is by tool.

    Args:
        subject: The tools, and the providers that will receive them.
        level: The lowest severity. Default: "warning", as in the command.
    """
    names = [entry.tool.name for entry in subject.entries]
    return in_order((f for check in _CHECKS for f in check(subject) if at_least(f.severity, level)), names)


def in_order(findings: Iterator[Finding], names: list[str]) -> tuple[Finding, ...]:
    """Return the findings, each once: first findings of no single tool, then by tool in the order of `names`."""
    locations = {name: index for index, name in enumerate(names)}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: locations.get(found.tool or "", -1)))


Explain: TypeAlias = Callable[[Cause[Any]], tuple[str, str]]
"""Returns the reason why a layer could not be built, and the remedy."""

_SAYS: Final = {
    "handler-missing": ("the layer has no handler for this tool", "Add tool.handler(f), or use tool.external()."),
    "handler-doubled": ("the layer has two handlers for this tool", "Remove one of them."),
    "handler-extra": ("the layer has a handler for this unknown tool", "Add the tool, or remove the handler."),
}


def handler_findings(
    tools: tuple[AnyTool, ...], layer: AnyLayer, explain: Explain | None = None
) -> EffectOf[tuple[Finding, ...], Any, Any]:
    """Return the problems of a layer's handlers for these tools. The effect builds and releases the layer.

    Args:
        tools: The tools that require handlers.
        layer: The layer.
        explain: Function that describes why the layer could not be built. Default: use the failure or defect itself.
    """
    return fx.scoped(layer.build()).exit().map(lambda end: tuple(_findings(tools, end, explain or _reason)))


def _reason(cause: Cause[Any]) -> tuple[str, str]:
    return str(cause.squash()), "Make the layer work on this machine, or check without the layer."


def _findings(tools: tuple[AnyTool, ...], end: Exit[ContextOf[Any], Any], explain: Explain) -> Iterator[Finding]:
    if isinstance(end, Succeeded):
        yield from _handler_mismatches(tools, end.value)
        for tool, service in missing_services(tools, end.value):
            message = f"its handler requires the service {service}, which no layer provides"
            remedy = "Provide the service to the layer with layer.provide(…)."
            yield RULES["service-missing"].finding(tool, "", message, remedy)
        return
    errors = [defect for defect in end.cause.defects if isinstance(defect, HandlerError)]
    for error in errors:  # the toolkit's own check names the tools
        yield from (_finding("handler-missing", name) for name in error.missing)
        yield from (_finding("handler-doubled", name) for name in error.doubled)
        yield from (_finding("handler-extra", name) for name in error.extra)
    if not any((*error.missing, *error.doubled, *error.extra) for error in errors):
        message, remedy = explain(end.cause)
        yield RULES["layer-failed"].finding(None, "", f"the layer failed: {message}", remedy)


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


def _finding(code: str, name: str) -> Finding:
    return RULES[code].finding(name, "", *_SAYS[code])
