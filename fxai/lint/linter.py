"""The linter. Use `lint` to apply every rule to tools, and `handler_findings` to check the handlers of a layer.

>>> from fxai.tools.tool import Tool
>>> tools = [Tool.make(name, description=f"Does {name}.") for name in ("a.b", "a__b")]
>>> [found.code for found in lint(Subject.of(tools))]
['name-collision']

Tools and parameters need a description, because models choose and call tools by their descriptions. The names of two
tools must differ in the requests to each provider.

A layer must have one handler for each tool, no handler for other tools, and the services that its handlers require.

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
from typing import Any, Final

from returns.result import Failure

from fxai.effects import fx
from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.layer import AnyLayer
from fxai.lint.rule import OTHERS, PROVIDERS, RULES, Entry, Finding, Provider, Severity, Subject, at_least
from fxai.lint.structure import strict_findings, structure_findings
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import pointer_to
from fxai.schema.location import target, walk
from fxai.tools.annotation import Annotation, CacheControl, DeferLoading, Destructive, FindsTools, Readonly
from fxai.tools.call import as_decode_failure
from fxai.tools.handler import Given, HandlerError, missing_services
from fxai.tools.identity import Identity
from fxai.tools.tool import AnyTool
from fxai.tools.tool_info import example_faults

_RENAME = "Rename one of them with tool.rename(…) or toolkit.prefix(…)."


def number_findings(subject: Subject) -> Iterator[Finding]:
    """Yield a finding if the number of tools is zero, or too large for a provider."""
    number = len(subject.entries)
    if not number:
        remedy = "Name a toolkit, a tool, or an agent with tools."
        yield RULES["no-tools"].finding(None, "", "the target has no tools", remedy)
    for api in (api for provider in subject.providers for api in provider.apis):
        if api.most_tools is not None and number > api.most_tools:
            most = f"{api.name} accepts {api.most_tools} in one request"
            remedy = "Offer fewer tools: toolkit.pick(…) or .filter(…)."
            problem = f"{number} tools, but {most}, so fxai omits the others"
            yield RULES["too-many-tools"].finding(None, "", problem, remedy)


def name_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the names of tools that are odd or similar."""
    alike: dict[str, str] = {}
    for entry in subject.entries:
        name = entry.tool.name
        if name != name.strip() or not name.isprintable():
            problem = f"{name!r} starts or ends with a space, or contains invisible characters"
            yield RULES["name-odd"].finding(name, "/name", problem, "Use letters, digits, '_', and '-'.")
        before = alike.setdefault(name.casefold().replace("-", "_"), name)
        if before != name:
            problem = f"{name!r} and {before!r} differ only in case, or in '-' and '_'"
            yield RULES["name-alike"].finding(name, "/name", problem, _RENAME)


def sent_name_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the names of tools that a provider receives in another form."""
    for entry in subject.entries:
        tool = entry.tool
        if tool.provider is not None:
            continue
        for provider in subject.providers:
            sent = provider.names.of(tool.name)
            if len(tool.name) > provider.names.length:
                most = provider.names.length
                problem = f"{len(tool.name)} characters, but {provider.name} accepts {most}, so fxai sends {sent!r}"
                yield RULES["name-too-long"].finding(tool.name, "/name", problem, f"Use at most {most} characters.")
        short = [provider for provider in subject.providers if len(tool.name) <= provider.names.length]
        for wire in dict.fromkeys(provider.names.of(tool.name) for provider in short):
            if wire != tool.name:
                where = " and ".join(provider.name for provider in short if provider.names.of(tool.name) == wire)
                remedy = "No action is necessary: fxai translates the name in calls back."
                yield RULES["name-renamed"].finding(tool.name, "/name", f"fxai sends {where} the name {wire!r}", remedy)


def collision_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the tools that have the same name in a request."""
    clashes: dict[tuple[str, str, str], list[str]] = {}
    for provider in subject.providers:
        meant: dict[str, str] = {}
        for entry in subject.entries:
            tool = entry.tool
            given = None if tool.provider is None else tool.provider.name
            wire = given or provider.names.of(tool.name)
            before = meant.setdefault(wire, tool.name)
            if before != tool.name:
                clashes.setdefault((before, tool.name, wire), []).append(provider.name)
    for (before, name, wire), providers in clashes.items():
        problem = f"{before!r} and {name!r} have the same name in requests to {' and '.join(providers)}: {wire!r}"
        yield RULES["name-collision"].finding(name, "/name", problem, _RENAME)


def wording_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the descriptions of tools that are missing, repeated, or too long."""
    first: dict[str, str] = {}
    for entry in subject.asked:
        name, text = entry.tool.name, entry.description.strip()
        if not text:
            remedy = "Describe its purpose, its use, and its result."
            yield RULES["tool-undescribed"].finding(name, "/description", "the tool has no description", remedy)
        elif first.setdefault(text, name) != name:
            message = f"the tool has the same description as {first[text]!r}"
            yield RULES["description-doubled"].finding(name, "/description", message, "Describe how they differ.")
        for api in (api for provider in subject.providers for api in provider.apis):
            most = api.longest_description
            if most is not None and len(text) > most:
                message = f"{len(text):,} characters, but {api.name} accepts {most:,}, so fxai omits the end"
                remedy = "Shorten it, or move a part to the agent's instructions."
                yield RULES["description-too-long"].finding(name, "/description", message, remedy)


def parameter_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the parameters without a description."""
    for entry in subject.asked:
        remedy = 'Add "description": "…".'
        if entry.derived:
            remedy = 'Use Annotated[…, msgspec.Meta(description="…")], or describe it in the docstring of the function.'
        for location in walk(entry.document):
            values = location.schema.get("enum")
            has_one_value = "const" in location.schema or (is_array(values) and len(values) == 1)
            if location.name is None or location.around or has_one_value:
                continue
            if not _has_description(location.schema, entry.document):
                problem, at = f"{location.name!r} has no description", f"/parameters{location.pointer}"
                yield RULES["parameter-undescribed"].finding(entry.tool.name, at, problem, remedy)


def _has_description(schema: Any, document: Any) -> bool:
    """Return True if a schema has a description, also through its `$ref` or in a branch."""
    if not is_object(schema):
        return True  # the schemas true and false need no description
    if str(schema.get("description") or "").strip():
        return True
    if "$ref" in schema and (there := target(schema, document)) is not schema:
        return is_object(there) and bool(str(there.get("description") or "").strip())
    unions = [schema[union] for union in ("anyOf", "oneOf", "allOf") if is_array(schema.get(union))]
    return any(is_object(branch) and _has_description(branch, document) for union in unions for branch in union)


def annotation_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the annotations that contradict each other."""
    for tool in (entry.tool for entry in subject.entries):
        if tool.get(Readonly) is True and Destructive in tool.annotations and tool.get(Destructive) is True:
            message = "the tool changes nothing (Readonly) but can destroy data (Destructive)"
            at = "/annotations/destructive"
            yield RULES["annotation-contradiction"].finding(tool.name, at, message, "Remove one of the annotations.")


def example_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the examples of calls that are invalid."""
    remedy = "Correct the example. Models learn from it, and anthropic rejects requests with invalid examples."
    for entry in subject.entries:
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
                yield RULES["input-example-misfit"].finding(tool.name, at, message, remedy)


def option_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the options for unknown providers."""
    known = (*PROVIDERS, *OTHERS)
    for entry in subject.entries:
        for name in entry.tool.provider_options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                remedy = f"Did you mean {near[0]!r}?" if near else f"Known providers: {', '.join(known)}."
                at = pointer_to("/provider_options", name)
                message = f"unknown provider {name!r}, so these options have no effect"
                yield RULES["provider-unknown"].finding(entry.tool.name, at, message, remedy)


def cache_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the cache marks that a provider does not accept."""
    for provider in subject.providers:
        loaded = [entry for entry in subject.entries if not _effective(entry, provider, DeferLoading)]
        marked = [entry.tool.name for entry in loaded if _effective(entry, provider, CacheControl) is not None]
        most = provider.most_marks
        if most is None or len(marked) <= most:
            continue
        for name in marked[:-most]:
            message = f"{len(marked)} tools have cache marks, but {provider.name} accepts {most} marks in one request"
            remedy = "Mark only the last tool. A mark also covers the tools before it."
            yield RULES["cache-marks"].finding(name, "/annotations/cache_control", message, remedy)


def deferral_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the deferred tools that no tool search can find."""
    for provider in subject.providers:
        tools = [entry.tool for entry in subject.entries]
        hosted = (tool.provider.id for tool in tools if tool.provider is not None)
        if any(tool.get(FindsTools) for tool in tools) or any(name.startswith(provider.tool_search) for name in hosted):
            continue
        message = f"the tool is deferred, but no tool search can find it at {provider.name}"
        remedy = f"Add {provider.name}.tool_search() to the tools, or do not defer the tool."
        for entry in subject.entries:
            if _effective(entry, provider, DeferLoading):
                at = "/annotations/defer_loading"
                yield RULES["tool-search-missing"].finding(entry.tool.name, at, message, remedy)


def _effective(entry: Entry, provider: Provider, key: Annotation[Any]) -> Any:
    """Return the value of an annotation for a provider. The provider's own option has priority."""
    options = entry.tool.provider_options.get(provider.name)
    own: Any = options.get(key.name) if is_object(options) else None
    return entry.tool.get(key) if own is None else own


_CHECKS: Final = (
    *(number_findings, name_findings, sent_name_findings, collision_findings, wording_findings, parameter_findings),
    *(structure_findings, strict_findings),
    *(annotation_findings, example_findings, option_findings, cache_findings, deferral_findings),
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


def handler_findings(
    tools: tuple[AnyTool, ...], layer: AnyLayer, explain: Callable[[Cause[Any]], tuple[str, str]] | None = None
) -> EffectOf[tuple[Finding, ...], Any, Any]:
    """Return the problems of a layer's handlers for these tools. The effect builds and releases the layer.

    Args:
        tools: The tools that require handlers.
        layer: The layer.
        explain: Function that describes why the layer could not be built. Default: use the failure or defect itself.
    """
    return fx.scoped(layer.build()).exit().map(lambda end: tuple(_handlers(tools, end, explain or _explain)))


def _explain(cause: Cause[Any]) -> tuple[str, str]:
    return str(cause.squash()), "Make the layer work on this machine, or check without the layer."


def _handlers(
    tools: tuple[AnyTool, ...], end: Exit[ContextOf[Any], Any], explain: Callable[[Cause[Any]], tuple[str, str]]
) -> Iterator[Finding]:
    if isinstance(end, Succeeded):
        needed = {tool.identity: tool.name for tool in tools if tool.requires_handler}
        yield from (_handler("missing", name) for one, name in needed.items() if end.value.find(one) is None)
        givers = Counter(key.identity for key in end.value if isinstance(key, Given))
        doubled = [identity for identity, number in givers.items() if number > 1]
        yield from (_handler("doubled", needed.get(identity, identity.name)) for identity in doubled)
        extra = (key for key in end.value if isinstance(key, Identity) and key not in needed)
        yield from (_handler("extra", key.name) for key in extra)
        for tool, service in missing_services(tools, end.value):
            message = f"its handler requires the service {service}, which no layer provides"
            remedy = "Provide the service to the layer with layer.provide(…)."
            yield RULES["service-missing"].finding(tool, "", message, remedy)
        return
    errors = [defect for defect in end.cause.defects if isinstance(defect, HandlerError)]
    kinds = ("missing", "doubled", "extra")  # the toolkit's own check names the tools
    named = [_handler(kind, name) for error in errors for kind in kinds for name in getattr(error, kind)]
    yield from named
    if not named:
        message, remedy = explain(end.cause)
        yield RULES["layer-failed"].finding(None, "", f"the layer failed: {message}", remedy)


_HANDLERS: Final = {
    "missing": ("the layer has no handler for this tool", "Add tool.handler(f), or use tool.external()."),
    "doubled": ("the layer has two handlers for this tool", "Remove one of them."),
    "extra": ("the layer has a handler for this unknown tool", "Add the tool, or remove the handler."),
}


def _handler(kind: str, name: str) -> Finding:
    return RULES[f"handler-{kind}"].finding(name, "", *_HANDLERS[kind])
