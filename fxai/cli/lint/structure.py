"""What the parameters of a tool are made of: an object of named, typed properties.

>>> from fxai.cli.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> print(*structure_findings(Subject.of([Tool.make("half", parameters=int)])))
half /parameters/type: error root-not-object: the parameters are of type integer, and every provider wants an object; \
wrap them in a Struct or in an object schema
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from fxai.cli.lint.contradiction import contradictions
from fxai.cli.lint.finding import Finding, Severity
from fxai.cli.lint.fitting import fitting_findings
from fxai.cli.lint.keyword import KINDS, keyword_findings
from fxai.cli.lint.rule import RULES
from fxai.cli.lint.subject import Entry, Provider, Subject
from fxai.cli.lint.walk import Place, places, target
from fxai.schema.data import is_array, is_object
from fxai.schema.document import document_faults
from fxai.schema.fault import pointer_to
from fxai.tools.annotations import Strict

__all__ = ["Declared", "document_findings", "is_untyped", "required_findings", "structure_findings"]

_SAYS_WHAT: Final = frozenset(
    ("type", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "allOf", "not", "if")
)
_VALUES: Final = frozenset(("properties", "items", "prefixItems"))
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_MOST_LOOKED_FOR: Final = 200
_LONGEST: Final = 100

Declared: TypeAlias = dict[int, frozenset[str]]
"""By the identity of a schema, the names of properties that it speaks of."""


def structure_findings(subject: Subject) -> Iterator[Finding]:
    """What is wrong with the parameters' schemas."""
    for entry in subject.entries:
        yield from entry.findings
        if entry.document is None or not entry.asked:
            continue
        yield from _root(entry) if entry.sound else document_findings(entry.tool.name, entry.document)
        yield from _properties_named(entry, subject.providers)
        declared: Declared = {}
        for place in places(entry.document):
            yield from _place(entry, place, declared)


def document_findings(tool: str, document: Any) -> Iterator[Finding]:
    """Why a document is no usable JSON Schema, each place."""
    for fault in document_faults(document):
        said = f"expected {fault.expected}, found {fault.found}"
        remedy = "correct the schema: nothing can be checked by it as it is"
        yield RULES["schema-error"].finding(tool, f"/parameters{fault.pointer}", said, remedy)


def _root(entry: Entry) -> Iterator[Finding]:
    document, tool = entry.document, entry.tool
    said = document.get("type") if is_object(document) else None
    if is_object(document):
        for union in _UNIONS:
            if union in document:
                message = f"{union} at the root of the parameters, which providers refuse where the tool is not strict"
                remedy = "put the union into a property, or say it in the description"
                severity: Severity | None = "error" if tool.get(Strict) is False else None
                yield RULES["root-union"].finding(tool.name, f"/parameters/{union}", message, remedy, severity)
                if said is None:
                    return
    if said != "object":
        what = "say no type" if said is None else f"are of type {said}"
        message = f"the parameters {what}, and every provider wants an object"
        remedy = "wrap them in a Struct or in an object schema" if said else 'say "type": "object"'
        yield RULES["root-not-object"].finding(tool.name, "/parameters/type", message, remedy)


def _properties_named(entry: Entry, providers: tuple[Provider, ...]) -> Iterator[Finding]:
    properties = entry.document.get("properties") if is_object(entry.document) else None
    for provider in providers:
        for name in properties if is_object(properties) and provider.property_name else ():
            if not re.fullmatch(str(provider.property_name), name):
                place = pointer_to("/properties", name)
                message = f"{provider.name} refuses {name!r}, with the whole request: it takes {provider.property_name}"
                remedy = "call the parameter by letters, digits, '_', '.' and '-', 64 at most"
                yield RULES["property-name"].finding(entry.tool.name, f"/parameters{place}", message, remedy)


def _place(entry: Entry, place: Place, declared: Declared) -> Iterator[Finding]:
    name = entry.tool.name
    if not entry.derived:
        yield from keyword_findings(name, place)
    yield from required_findings(name, place, entry.document, declared)
    yield from _untyped(entry, place)
    for keyword, message in contradictions(place.schema):
        at = f"/parameters{place.pointer}/{keyword}"
        kind = KINDS.get(keyword, "values").removesuffix("s")
        yield RULES["unsatisfiable"].finding(name, at, f"no {kind} fits: {message}", "correct one of the two")
    if entry.sound:
        yield from fitting_findings(name, place, entry.document)


def is_untyped(place: Place) -> bool:
    """Whether a schema that says what a parameter is, or an item, says no type."""
    return not place.around and place.keyword in _VALUES and not _SAYS_WHAT.intersection(place.schema)


def _untyped(entry: Entry, place: Place) -> Iterator[Finding]:
    if is_untyped(place):
        what = repr(place.name) if place.name is not None else "an item"
        message = f"{what} has no type, so anything goes"
        remedy = "say a type that is narrower than Any" if entry.derived else 'say its "type"'
        severity: Severity | None = "info" if entry.derived else None
        yield RULES["untyped"].finding(entry.tool.name, f"/parameters{place.pointer}", message, remedy, severity)


def required_findings(tool: str, place: Place, document: Any, declared: Declared) -> Iterator[Finding]:
    """Each required name of one schema that no property has; `declared` is what is known of the document's schemas."""
    required = place.schema.get("required")
    if not is_array(required) or not _speaks_of_properties(place):
        return
    known: set[str] = set()
    for schema in (place.schema, *place.around):
        if id(schema) not in declared:
            declared[id(schema)] = frozenset(_declared(schema, document, set()))
        known |= declared[id(schema)]
    patterned = any(schema.get("patternProperties") for schema in (place.schema, *place.around))
    for index, name in enumerate(required):
        if isinstance(name, str) and name not in known and not patterned:
            near = _near(name, known) if index < _MOST_LOOKED_FOR else []
            remedy = f"did you mean {near[0]!r}" if near else "declare it under properties, or take it away"
            at = f"/parameters{place.pointer}/required/{index}"
            message = f"{name!r} is required, and no property has this name"
            yield RULES["required-unknown"].finding(tool, at, message, remedy)


def _near(name: str, known: set[str]) -> list[str]:
    """The property that may be meant, where there are not too many to look through."""
    from difflib import get_close_matches

    return get_close_matches(name[:_LONGEST], known, n=1) if len(known) <= _MOST_LOOKED_FOR else []


def _speaks_of_properties(place: Place) -> bool:
    """Whether the schema, or one around it, names properties; an object that names none may mean any."""
    return any("properties" in schema for schema in (place.schema, *place.around))


def _declared(schema: Any, document: Any, seen: set[int]) -> set[str]:
    """The properties that a schema names, with those of the schemas in its place."""
    schema = target(schema, document) if is_object(schema) and "properties" not in schema else schema
    if not is_object(schema) or id(schema) in seen:
        return set()
    seen.add(id(schema))
    properties = schema.get("properties")
    names: set[str] = set(properties) if is_object(properties) else set()
    for union in _IN_PLACE:
        branches = schema.get(union)
        for branch in branches if is_array(branches) else ():
            names |= _declared(branch, document, seen)
    for keyword in ("if", "then", "else"):
        names |= _declared(schema.get(keyword), document, seen)
    return names
