"""Checks of parameter schemas. Use `structure_findings` for all schemas, and `strict_findings` for strict mode.

>>> from fxai.tools.tool import Tool
>>> print(*structure_findings(Subject.of([Tool.make("half", parameters=int)])))
half /parameters/type: warning root-not-object: the parameters have type integer, but every provider requires an \
object. Wrap them in a Struct or in an object schema.

`contradictions` finds schemas without a valid value. A contradiction is certain for values of the type that the keyword
applies to. The search does not find every contradiction.

>>> [problem for _, problem in contradictions({"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 5})]
["'^[A-Z]{3}$' matches at most 3 characters, but minLength is 5"]
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from itertools import chain, product
from typing import Any, Final, TypeAlias

from returns.result import Success

from fxai.lint.rule import RULES, Entry, Finding, Provider, Severity, Subject
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.dialect import DIALECTS, Dialect
from fxai.schema.document import document_faults
from fxai.schema.fault import Fault, found_in, pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import Subschema, target, walk
from fxai.schema.pattern import Alternation, Node, Other, PatternError, Series, longest, parse, shortest
from fxai.schema.request_form import NAMES_OF_PROPERTIES, request_form
from fxai.schema.strict import NULL_LOST, UnsupportedFeature, Weakening, strict_form
from fxai.tools.annotation import ExplicitNull, Strict


def _number(schema: JsonObject, keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def number_contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield contradictions between the bounds of numbers."""
    given = _number(schema, "multipleOf")
    step = Fraction(repr(given)) if given is not None and given > 0 else None
    if schema.get("type") == "integer":  # the valid numbers are the integers among the multiples
        step = Fraction(1) if step is None else Fraction(step.numerator)
    for least, most in product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        low, high = _number(schema, least), _number(schema, most)
        if low is None or high is None:
            continue
        no_low = least[0] == "e" or schema.get("exclusiveMinimum") is True
        no_high = most[0] == "e" or schema.get("exclusiveMaximum") is True
        if low > high:
            yield least, f"{least} {low} is greater than {most} {high}"
        elif low == high and (no_low or no_high):
            yield least, f"no number is between {least} {low} and {most} {high}"
        elif step is not None:
            start, end = Fraction(repr(low)), Fraction(repr(high))  # the exact decimal values as written
            first = math.ceil(start / step) * step
            first += step if first == start and no_low else 0
            if first > end or (first == end and no_high):
                what = "integer" if step == 1 else f"multiple of {step if step.denominator == 1 else float(step)}"
                yield least, f"no {what} is between {least} {low} and {most} {high}"


def size_contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield contradictions between lengths and numbers of properties or items."""
    for noun in ("Length", "Items", "Properties", "Contains"):
        low, high = _number(schema, f"min{noun}"), _number(schema, f"max{noun}")
        if low is not None and high is not None and low > high:
            yield f"min{noun}", f"min{noun} {low} is greater than max{noun} {high}"
    properties: JsonObject = schema["properties"] if is_object(schema.get("properties")) else {}
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    most, least = _number(schema, "maxProperties"), _number(schema, "minProperties")
    if most is not None and len(required) > most:
        yield "maxProperties", f"{len(required)} properties are required, but maxProperties is {most}"
    for name in required:
        if isinstance(name, str) and properties.get(name) is False:
            yield "required", f"{name!r} is required, but its schema is false"
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if closed and least is not None and least > len(properties):
        yield "minProperties", f"the schema allows only {len(properties)} properties, but minProperties is {least}"


def value_contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield contradictions between the values that keywords list or exclude."""
    if schema.get("enum") == []:
        yield "enum", "the enum is empty"
    if schema.get("not") in (True, {}):
        yield "not", "not excludes everything"
    items, least = schema.get("items"), _number(schema, "minItems")
    values = items.get("enum") if is_object(items) and "prefixItems" not in schema else None
    if least is not None and schema.get("uniqueItems") is True and is_array(values) and len(values) < least:
        yield "minItems", f"the items are unique and have {len(values)} values, but minItems is {least}"
    # the schema and its allOf can have no type in common
    parts: list[Any] = [schema, *(schema["allOf"] if is_array(schema.get("allOf")) else ())]
    stated = [{*names, *(["integer"] if "number" in names else [])} for names in map(_types_of, parts) if names]
    if stated and not stated[0].intersection(*stated):
        yield "allOf", "the schemas in allOf and the other keywords have no type in common"


def _types_of(schema: Any) -> list[str]:
    types = schema.get("type") if is_object(schema) else None
    return [] if types is None else [str(name) for name in (types if is_array(types) else [types])]


def pattern_contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield contradictions between a pattern and the bounds of the length."""
    pattern, low, high = schema.get("pattern"), _number(schema, "minLength"), _number(schema, "maxLength")
    if not isinstance(pattern, str) or (low is None and high is None):
        return

    least, most = width(pattern)
    if high is not None and least > high:
        yield "pattern", f"{pattern!r} matches at least {least} characters, but maxLength is {high}"
    if low is not None and most is not None and most < low:
        yield "pattern", f"{pattern!r} matches at most {most} characters, but minLength is {low}"


def contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield each reason why no value is valid, as a keyword and a text."""
    kinds = (size_contradictions, number_contradictions, value_contradictions, pattern_contradictions)
    return chain.from_iterable(kind(schema) for kind in kinds)


def width(pattern: str) -> tuple[int, int | None]:
    """Return the shortest and the longest match; None means no limit. An unsupported pattern returns (0, None)."""
    try:
        whole = parse(pattern)
        branches = whole.branches if isinstance(whole, Alternation) else (whole,)
        inner = Alternation(tuple(map(_without_anchors, branches)))
        is_anchored = pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$")
        return shortest(inner), longest(inner) if is_anchored and "|" not in pattern else None
    except (PatternError, RecursionError):
        return 0, None


def _without_anchors(branch: Node) -> Node:
    parts = branch.parts if isinstance(branch, Series) else (branch,)
    parts = parts[1:] if parts[:1] == (Other("^"),) else parts
    return Series(parts[:-1] if parts[-1:] == (Other("$"),) else parts)


_ABOUT: Final = {
    "numbers": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "strings": ("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"),
    "arrays": (
        *("items", "prefixItems", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems"),
        *("minContains", "maxContains", "unevaluatedItems"),
    ),
    "objects": (
        *("properties", "patternProperties", "additionalProperties", "required", "propertyNames", "minProperties"),
        *("maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    ),
}
_TYPES: Final = {"numbers": {"number", "integer"}, "strings": {"string"}, "arrays": {"array"}, "objects": {"object"}}
KINDS: Final[Mapping[str, str]] = {keyword: kind for kind, keywords in _ABOUT.items() for keyword in keywords}
"""The kind of values that a keyword applies to, by keyword: `numbers`, `strings`, `arrays`, or `objects`."""

_INSTEAD: Final = {
    # Words of OpenAPI and of other schema languages, and abbreviations.
    "nullable": 'Use the type ["string", "null"].',
    "optional": "Remove the name from the list `required` of the object.",
    "desc": "Did you mean 'description'?",
    "min": "Did you mean 'minimum'?",
    "max": "Did you mean 'maximum'?",
    "choices": "Did you mean 'enum'?",
    "options": "Did you mean 'enum'?",
    "values": "Did you mean 'enum'?",
    "props": "Did you mean 'properties'?",
    "regex": "Did you mean 'pattern'?",
}
_HARMLESS: Final = frozenset(
    (  # keywords of other programs, and keywords that any schema can contain
        *("discriminator", "example", "externalDocs", "xml", "deprecated", "readOnly", "writeOnly", "examples"),
        *("$vocabulary", "$defs", "definitions", "$id", "id", "$comment", "$anchor", "title", "dependencies"),
    )
)


def keyword_findings(tool: str, location: Subschema) -> Iterator[Finding]:
    """Yield the problems of the keywords of one schema."""
    for keyword, value in location.schema.items():
        at = pointer_to(f"/parameters{location.pointer}", keyword)
        if keyword in _keywords_of(location.dialect):
            kind = KINDS.get(keyword)
            names = _types_of(location.schema)
            if kind is None or not names or _TYPES[kind].intersection(names):
                continue
            problem = f"{keyword!r} applies to {kind}, but the type is {' or '.join(names)}"
            yield RULES["keyword-without-effect"].finding(tool, at, problem, "Remove the keyword, or correct the type.")
        elif keyword not in _HARMLESS and not keyword.startswith(("x-", "x_", "$")):
            yield _unknown_keyword(tool, at, keyword, value, location)


def _unknown_keyword(tool: str, at: str, keyword: str, value: Any, location: Subschema) -> Finding:
    problem = f"JSON Schema does not define the keyword {keyword!r}, so validators ignore it"
    drafts = [dialect.name for dialect in DIALECTS.values() if keyword in dialect.keywords]
    if drafts:
        problem = f"{keyword!r} is not a keyword of {location.dialect.name}, only of {' and '.join(drafts)}"
        remedy = "Set another $schema, or use the keyword of this draft."
        return RULES["keyword-of-other-draft"].finding(tool, at, problem, remedy)
    near = _near_keyword(keyword, location.dialect)
    if near is not None:
        return RULES["misspelt-keyword"].finding(tool, at, problem, f"Did you mean {near!r}?")
    if keyword in _INSTEAD:
        return RULES["unknown-keyword"].finding(tool, at, problem, _INSTEAD[keyword], "warning")
    is_schema = is_object(value) and ("type" in value or "$ref" in value)
    if is_schema and "object" in str(location.schema.get("type")):  # a misplaced property of the object
        message = f"{keyword!r} looks like a parameter, but is next to the keywords"
        return RULES["misplaced-property"].finding(tool, at, message, f"Move it into properties: {keyword!r}.")
    return RULES["unknown-keyword"].finding(tool, at, problem, "Remove the keyword, or rename it to x-….")


def _keywords_of(dialect: Dialect) -> Collection[str]:
    """Return the keywords of a draft, including `default` and `const`."""
    return {*dialect.keywords, "default"}


def _near_keyword(keyword: str, dialect: Dialect) -> str | None:
    lower = {known.lower(): known for known in _keywords_of(dialect)}
    plain = keyword.lower().replace("_", "").replace("-", "")
    if plain in lower or len(plain) > 40:  # longer words are not compared with keywords
        return lower.get(plain)
    near = difflib.get_close_matches(plain, lower, n=1, cutoff=0.8)
    return lower[near[0]] if near else None


_DESCRIPTIVE: Final = frozenset(
    ("type", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "allOf", "not", "if")
)
_VALUES: Final = frozenset(("properties", "items", "prefixItems"))
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_MOST_LOOKED_FOR: Final = 200

Declared: TypeAlias = dict[int, frozenset[str]]
"""The names of the properties that a schema declares, by the `id()` of the schema."""


def structure_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of the schemas of parameters."""
    for entry in subject.entries:
        yield from entry.findings
        name = entry.tool.name
        if entry.document is None or not entry.asked:
            continue
        if entry.sound:
            yield from _root(entry)
            yield from _request_findings(entry, subject.providers)
        else:
            yield from document_findings(name, entry.document)
        declared: Declared = {}
        for location in walk(entry.document):
            if not entry.derived:
                yield from keyword_findings(name, location)
            yield from required_findings(name, location, entry.document, declared)
            if is_untyped(location):
                what = repr(location.name) if location.name is not None else "an item"
                remedy = "Use a type that is narrower than Any." if entry.derived else 'Add a "type".'
                severity: Severity | None = "info" if entry.derived else None
                message = f"{what} has no type, so any value is valid"
                yield RULES["untyped"].finding(name, f"/parameters{location.pointer}", message, remedy, severity)
            for keyword, message in contradictions(location.schema):
                at = f"/parameters{location.pointer}/{keyword}"
                kind = KINDS.get(keyword, "values").removesuffix("s")
                yield RULES["unsatisfiable"].finding(name, at, f"no {kind} is valid: {message}", "Correct one of them.")
            if entry.sound:
                yield from fitting_findings(name, location, entry.document)


def document_findings(tool: str, document: Any) -> Iterator[Finding]:
    """Yield a finding for each location that makes a document an invalid JSON Schema."""
    for fault in document_faults(document):
        problem = f"expected {fault.expected}, found {fault.found}"
        remedy = "Correct the schema. In its present form it cannot validate values."
        yield RULES["schema-error"].finding(tool, f"/parameters{fault.pointer}", problem, remedy)


def _root(entry: Entry) -> Iterator[Finding]:
    document, name = entry.document, entry.tool.name
    kind = document.get("type") if is_object(document) else None
    unions = [union for union in _UNIONS if is_object(document) and union in document]
    for union in unions if kind is not None else unions[:1]:
        message = f"{union} at the root of the parameters, which every provider rejects"
        remedy = "Move the union into a property, or explain it in the description."
        yield RULES["root-union"].finding(name, f"/parameters/{union}", message, remedy)
    if kind != "object" and (kind is not None or not unions):
        what = "have no type" if kind is None else f"have type {kind}"
        message = f"the parameters {what}, but every provider requires an object"
        remedy = "Wrap them in a Struct or in an object schema." if kind else 'Add "type": "object".'
        yield RULES["root-not-object"].finding(name, "/parameters/type", message, remedy)


def _request_findings(entry: Entry, providers: tuple[Provider, ...]) -> Iterator[Finding]:
    """Yield findings for parameters that a request changes, and for tools that a request omits."""
    document, name = JsonSchema.trust(entry.document), entry.tool.name
    for provider in providers:
        rules = provider.apis[0]
        found = request_form(document, rules)
        if not isinstance(found, Success):
            first = found.failure()[0]
            message = f"requests to {provider.name} omit this tool: {first.reason}"
            yield RULES["left-out"].finding(name, f"/parameters{first.pointer}", message, "Correct the schema.")
            continue
        for rewrite in found.unwrap().rewrites:
            if rewrite.rule == NAMES_OF_PROPERTIES:
                message = f"{provider.name} rejects this name, so fxai sends it {rewrite.change}"
                remedy = "Use at most 64 letters, digits, '_', '.', and '-' in the name of the parameter."
                yield RULES["property-name"].finding(name, f"/parameters{rewrite.pointer}", message, remedy)


def is_untyped(location: Subschema) -> bool:
    """Return True if the schema of a parameter or an item has no type."""
    return not location.around and location.keyword in _VALUES and not _DESCRIPTIVE.intersection(location.schema)


def required_findings(tool: str, location: Subschema, document: Any, declared: Declared) -> Iterator[Finding]:
    """Yield the required names of a schema that are not properties. `declared` caches the properties of schemas."""
    required, schemas = location.schema.get("required"), (location.schema, *location.around)
    if not is_array(required) or not any("properties" in schema for schema in schemas):  # without it, any name is valid
        return
    known: set[str] = set()
    for schema in schemas:
        if id(schema) not in declared:
            declared[id(schema)] = frozenset(_declared_properties(schema, document, set()))
        known |= declared[id(schema)]
    patterned = any(schema.get("patternProperties") for schema in schemas)
    for index, name in enumerate(required):
        if isinstance(name, str) and name not in known and not patterned:
            is_small = index < _MOST_LOOKED_FOR and len(known) <= _MOST_LOOKED_FOR
            near = difflib.get_close_matches(name[:100], known, n=1) if is_small else []
            remedy = f"Did you mean {near[0]!r}?" if near else "Declare it in properties, or remove it."
            at = f"/parameters{location.pointer}/required/{index}"
            message = f"{name!r} is required, but no property has this name"
            yield RULES["required-unknown"].finding(tool, at, message, remedy)


def _declared_properties(schema: Any, document: Any, seen: set[int]) -> set[str]:
    """Return the properties that a schema declares, including the schemas that its references and branches name."""
    schema = target(schema, document) if is_object(schema) and "properties" not in schema else schema
    if not is_object(schema) or id(schema) in seen:
        return set()
    seen.add(id(schema))
    properties = schema.get("properties")
    names: set[str] = set(properties) if is_object(properties) else set()
    inner = [schema.get(keyword) for keyword in ("if", "then", "else")]
    for union in _UNIONS:
        inner += schema[union] if is_array(schema.get(union)) else []
    return names.union(*(_declared_properties(each, document, seen) for each in inner))


_VALUE_KEYWORDS: Final = ("default", "examples", "enum", "const")
_EMPTY: Final = frozenset(("title", "description", "$comment", "deprecated", "readOnly", "writeOnly"))


def fitting_findings(tool: str, location: Subschema, document: Any) -> Iterator[Finding]:
    """Yield the values in one schema of a valid document that are invalid for this schema."""
    schema, at = location.schema, f"/parameters{location.pointer}"
    if not any(keyword in schema for keyword in _VALUE_KEYWORDS):
        return
    faults = _validator(location, document, ())
    examples = schema.get("examples")
    values = [("default-misfit", "/default", schema["default"])] if "default" in schema else []
    values += [("example-misfit", f"/examples/{i}", v) for i, v in enumerate(examples if is_array(examples) else ())]
    for code, pointer, value in values:
        for fault in faults(value)[:1]:
            message = f"bad {code.partition('-')[0]}: {_fault_text(fault)}"
            yield RULES[code].finding(tool, f"{at}{pointer}", message, "Correct the value or the schema.")
    yield from _enum_findings(tool, at, location, document)


def _enum_findings(tool: str, at: str, location: Subschema, document: Any) -> Iterator[Finding]:
    enum = location.schema.get("enum")
    values: list[Any] = enum if is_array(enum) else []
    faults_of = _validator(location, document, ("enum",))
    misfits = {i: faults[0] for i, value in enumerate(values) if (faults := faults_of(value))}
    if values and len(misfits) == len(values):
        message = f"no value of the enum is valid for the rest: {found_in(values[0])} {_fault_text(misfits[0])}"
        remedy = "Correct the values, or the other keywords."
        yield RULES["unsatisfiable"].finding(tool, f"{at}/enum", message, remedy)
        return
    for index, fault in misfits.items():
        message = f"{found_in(values[index])} is never valid: {_fault_text(fault)}"
        remedy = "Remove the value, or allow it in the other keywords."
        yield RULES["enum-misfit"].finding(tool, f"{at}/enum/{index}", message, remedy)
    if "const" in location.schema:
        for fault in _validator(location, document, ("const",))(location.schema["const"])[:1]:
            message = f"the const is never valid: {_fault_text(fault)}"
            yield RULES["unsatisfiable"].finding(tool, f"{at}/const", message, "Correct it, or the other keywords.")


def _fault_text(fault: Fault) -> str:
    inside = f" at {fault.pointer}" if fault.pointer else ""
    return f"expected {fault.expected}, found {fault.found}{inside}"


def _validator(location: Subschema, document: Any, without: tuple[str, ...]) -> Callable[[Any], tuple[Fault, ...]]:
    """Return a validator for the schema without the keywords `without`."""
    schema = {keyword: inner for keyword, inner in location.schema.items() if keyword not in without}
    if not set(schema) - _EMPTY - set(_VALUE_KEYWORDS[:2]):
        return lambda _: ()
    dialect: Dialect = location.dialect
    text = str({keyword: inner for keyword, inner in schema.items() if keyword not in _VALUE_KEYWORDS})
    if location.pointer and ("$ref" in text or "Ref'" in text):
        if without:  # without one of its keywords, the schema is no longer the target of references in the document
            return lambda _: ()
        # a separate document that contains the targets of the references
        name = str(document.get(dialect.id_keyword) or "urn:fxai:document")
        kept = "$defs" if "$defs" in dialect.keywords else "definitions"
        whole = {**document, "$schema": dialect.uri, dialect.id_keyword: name}
        schema = {"allOf": [{"$ref": f"{name}#{location.pointer}"}], kept: {"document": whole}}
    return JsonSchema.trust({"$schema": dialect.uri, **schema}).validate


def strict_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the reasons why tools have no strict form. Skip tools that turn strict mode off."""
    for entry in subject.asked:
        whole = is_object(entry.document) and entry.document.get("type") == "object"
        if not (entry.sound and whole) or entry.tool.get(Strict) is False:
            continue
        asked, name = entry.tool.get(Strict) is True, entry.tool.name
        document = JsonSchema.trust(entry.document)
        found: dict[UnsupportedFeature | Weakening, list[str]] = {}
        for provider in subject.providers:
            form = strict_form(document, provider.strict, explicit_null=entry.tool.get(ExplicitNull))
            for about in form.unwrap().weakened if isinstance(form, Success) else form.failure():
                found.setdefault(about, []).append(provider.name)
        known = _known_keywords(entry, asked=asked)
        for about, providers in sorted(found.items(), key=lambda pair: isinstance(pair[0], Weakening)):
            at, where = f"/parameters{about.pointer}", " and ".join(providers)
            reason = f"{about.keyword}: {about.reason}" if about.keyword else about.reason
            if about.keyword in known.get(about.pointer, ()):
                continue
            if isinstance(about, Weakening):
                remedy = "No action is necessary: fxai validates the arguments with the original schema."
                if about.reason == NULL_LOST:
                    remedy = "If null has a meaning, use tool.annotate(ExplicitNull, True), or make null the default."
                message = f"strict mode of {where} cannot enforce this: {reason}"
                yield RULES["strict-weakened"].finding(name, at, message, remedy)
            else:
                off = "remove Strict from the tool" if asked else "turn strict mode off: tool.annotate(Strict, False)"
                message = f"the tool has no strict form for {where}: {reason}"
                severity: Severity | None = "error" if asked else None
                yield RULES["strict-impossible"].finding(name, at, message, f"Change the schema, or {off}.", severity)


def _known_keywords(entry: Entry, *, asked: bool) -> dict[str, set[str]]:
    """Return the keywords that another rule already reports, by location."""
    known: dict[str, set[str]] = {}
    declared: Declared = {}
    for location in walk(entry.document):
        if any(required_findings("", location, entry.document, declared)):
            known.setdefault(location.pointer, set()).add("required")
        if is_untyped(location) and not (asked or entry.derived):
            known.setdefault(location.pointer, set()).add("type")
            known.setdefault(location.pointer.removesuffix("/items"), set()).add("items")
    return known
