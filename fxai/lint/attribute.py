"""Checks of annotations, examples of calls and options for providers.

>>> from fxai.lint.subject import Subject
>>> from fxai.tools.annotations import Destructive, Readonly
>>> from fxai.tools.tool import Tool
>>> both = Tool.make("both").annotate(Readonly, True).annotate(Destructive, True)
>>> [(found.code, found.pointer) for found in attribute_findings(Subject.of([both]))]
[('annotation-contradiction', '/annotations/destructive')]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from returns.result import Failure

from fxai.lint.rule import RULES, Finding
from fxai.lint.subject import OTHERS, PROVIDERS, Entry, Provider, Subject
from fxai.schema.data import is_object
from fxai.schema.fault import Fault, pointer_to
from fxai.tools.annotations import (
    Annotation,
    CacheControl,
    DeferLoading,
    Destructive,
    ExplicitNull,
    Idempotent,
    JsonText,
    Meta,
    OpenWorld,
    Readonly,
    Strict,
    Title,
)
from fxai.tools.options import described, example_faults

__all__ = ["attribute_findings"]

_FLAGS: Final = (Readonly, Destructive, Idempotent, OpenWorld, ExplicitNull, JsonText)


def attribute_findings(subject: Subject) -> Iterator[Finding]:
    """Faults of annotations, examples of calls and options for providers."""
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
        message = f"{len(marked)} tools are marked for the cache, and {provider.name} takes {most} marks in one request"
        remedy = "mark the last tool alone: a mark holds for every tool before it"
        yield RULES["cache-marks"].finding(name, "/annotations/cache_control", message, remedy)


def _deferred_tools(subject: Subject, provider: Provider) -> Iterator[Finding]:
    tools = [entry.tool for entry in subject.entries]
    if any(tool.provider is not None and tool.provider.id.startswith(provider.tool_search) for tool in tools):
        return
    for entry in subject.entries:
        if _effective(entry, provider, DeferLoading):
            message = f"it is deferred, and there is no tool search that finds it at {provider.name}"
            remedy = f"add {provider.name}.tool_search() to the tools, or do not defer it"
            yield RULES["tool-search-missing"].finding(entry.tool.name, "/annotations/defer_loading", message, remedy)


def _effective(entry: Entry, provider: Provider, key: Annotation[Any]) -> Any:
    """The value of an annotation for a provider: the provider's own option, where it is set, comes first."""
    options = entry.tool.provider_options.get(provider.name)
    own: Any = options.get(key.name) if is_object(options) else None
    return entry.tool.get(key) if own is None else own


def _annotations(entry: Entry) -> Iterator[Finding]:
    tool, given = entry.tool, entry.tool.annotations
    if tool.get(Readonly) is True and Destructive in given and tool.get(Destructive) is True:
        message = "it changes nothing (Readonly) and may destroy something (Destructive)"
        at = "/annotations/destructive"
        yield RULES["annotation-contradiction"].finding(tool.name, at, message, "take one of the two away")
    kinds: list[tuple[Any, tuple[type, ...], str]] = [(flag, (bool,), "True or False") for flag in _FLAGS]
    kinds += [
        (Strict, (bool, type(None)), "True, False or None"),
        (Title, (str, type(None)), "a text"),
        (Meta, (Mapping,), "a mapping"),
    ]
    for key, types, expected in kinds:
        if key in given and not isinstance(tool.get(key), types):
            message = f"{key.name} is {tool.get(key)!r}, which is not {expected}"
            yield RULES["annotation-type"].finding(tool.name, f"/annotations/{key.name}", message, f"say {expected}")


def _examples(entry: Entry) -> Iterator[Finding]:
    for index, example in enumerate(entry.tool.input_examples):
        for fault in _example_faults(entry, example.parameters):
            at = f"/input_examples/{index}{fault.pointer}"
            message = f"expected {fault.expected}, found {fault.found}"
            remedy = (
                "correct the example: models learn from it, and anthropic refuses a request with one that does not fit"
            )
            yield RULES["input-example-misfit"].finding(entry.tool.name, at, message, remedy)


def _example_faults(entry: Entry, parameters: Any) -> tuple[Fault, ...]:
    tool = entry.tool
    if not entry.sound:
        return ()
    if callable(tool.validation):
        checked = tool.validation(parameters)
        return described(checked.failure()).faults if isinstance(checked, Failure) else ()
    return example_faults(tool, parameters)


def _options(entry: Entry) -> Iterator[Finding]:
    known = (*PROVIDERS, *OTHERS)
    for name in entry.tool.provider_options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]!r}" if near else f"there are {', '.join(known)}"
            at = pointer_to("/provider_options", name)
            message = f"there is no provider {name!r}, so nobody reads these options"
            yield RULES["provider-unknown"].finding(entry.tool.name, at, message, remedy)
