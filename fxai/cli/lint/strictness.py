"""Strict mode: which tools each provider can be held to, and why not.

>>> from fxai.cli.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> counts = Tool.dynamic("count", parameters={"type": "object", "properties": {}, "additionalProperties": True})
>>> [found.code for found in strict_findings(Subject.of([counts]))]
['strict-impossible']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from returns.result import Success

from fxai.cli.lint.finding import Finding, Severity
from fxai.cli.lint.rule import RULES
from fxai.cli.lint.structure import Declared, is_untyped, required_findings
from fxai.cli.lint.subject import Entry, Subject
from fxai.cli.lint.walk import places
from fxai.schema.data import is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import NULL_LOST, strict_form
from fxai.tools.annotations import ExplicitNull, Strict

__all__ = ["strict_findings"]

_MEANT: Final = "change the schema, or say that it is meant: tool.annotate(Strict, False)"
_CHECKED: Final = "nothing has to be done: what the model gives is validated by the original"
_APART: Final = "say that null is meant: tool.annotate(ExplicitNull, True); or make it the default"
_ASKED: Final = "change the schema, or take Strict away from the tool"


def strict_findings(subject: Subject) -> Iterator[Finding]:
    """What keeps each tool from being strict; nothing of a tool that says it is not to be."""
    for entry in subject.entries:
        whole = is_object(entry.document) and entry.document.get("type") == "object"
        if entry.sound and entry.asked and whole and entry.tool.get(Strict) is not False:
            yield from _of(entry, subject)


def _of(entry: Entry, subject: Subject) -> Iterator[Finding]:
    asked = entry.tool.get(Strict) is True
    severity: Severity | None = "error" if asked else None
    document = JsonSchema.trusted(entry.document)
    impossible: dict[tuple[str, str, str], list[str]] = {}
    weakened: dict[tuple[str, str, str], list[str]] = {}
    known = _known(entry, asked=asked)
    for provider in subject.providers:
        form = strict_form(document, provider.strict, explicit_null=entry.tool.get(ExplicitNull))
        told, reasons = (
            (weakened, form.unwrap().weakened) if isinstance(form, Success) else (impossible, form.failure())
        )
        for each in reasons:
            if each.keyword in known.get(each.pointer, ()):
                continue
            told.setdefault((each.pointer, each.keyword, each.reason), []).append(provider.name)
    for key, providers in impossible.items():
        message = f"it cannot be strict at {' and '.join(providers)}: {_reason(key)}"
        remedy = _ASKED if asked else _MEANT
        yield RULES["strict-impossible"].finding(entry.tool.name, _at(key), message, remedy, severity)
    for key, providers in weakened.items():
        message = f"strict mode cannot hold {' and '.join(providers)} to it: {_reason(key)}"
        remedy = _APART if key[2] == NULL_LOST else _CHECKED
        yield RULES["strict-weakened"].finding(entry.tool.name, _at(key), message, remedy)


def _known(entry: Entry, *, asked: bool) -> dict[str, set[str]]:
    """By place, the keywords whose fault is said already, by another rule."""
    known: dict[str, set[str]] = {}
    declared: Declared = {}
    for place in places(entry.document):
        if any(required_findings("", place, entry.document, declared)):
            known.setdefault(place.pointer, set()).add("required")
        if is_untyped(place) and not (asked or entry.derived):
            known.setdefault(place.pointer, set()).add("type")
            known.setdefault(place.pointer.removesuffix("/items"), set()).add("items")
    return known


def _at(key: tuple[str, str, str]) -> str:
    return f"/parameters{key[0]}"


def _reason(key: tuple[str, Any, str]) -> str:
    return f"{key[1]}: {key[2]}" if key[1] else key[2]
