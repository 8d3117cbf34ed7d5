"""Checks of parameter schemas: an object with named, typed properties, which each provider can be sent.

>>> from fxai.lint.rule import Subject
>>> from fxai.tools.tool import Tool
>>> print(*structure_findings(Subject.of([Tool.make("half", parameters=int)])))
half /parameters/type: warning root-not-object: the parameters are of type integer, and every provider wants an \
object: fxai rewrites them; wrap them in a Struct or in an object schema

Defaults, examples, enums and constants must be valid for the schema that they stand in.

>>> from fxai.schema.location import walk
>>> document = {"type": "integer", "default": "ten"}
>>> for place in walk(document):
...     print(*fitting_findings("tool", place, document))
tool /parameters/default: warning default-misfit: the default expected integer, found string 'ten'; give one that \
fits, or correct the schema

Where a tool cannot be sent in strict mode, a finding says why.

>>> from fxai.lint.rule import Subject
>>> from fxai.tools.tool import Tool
>>> counts = Tool.dynamic("count", parameters={"type": "object", "properties": {}, "additionalProperties": True})
>>> [found.code for found in strict_findings(Subject.of([counts]))]
['strict-impossible']
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from returns.result import Success

from fxai.lint.contradiction import contradictions
from fxai.lint.rule import RULES, Entry, Finding, Provider, Severity, Subject
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import DIALECTS, Dialect
from fxai.schema.document import document_faults
from fxai.schema.fault import Fault, found_in, pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import Subschema, target, walk
from fxai.schema.request_form import NAMES_OF_PROPERTIES, request_form
from fxai.schema.strict import NULL_LOST, strict_form
from fxai.tools.tool_options import ExplicitNull, Strict

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
"""By keyword, what it is about: `numbers`, `strings`, `arrays` or `objects`."""

_INSTEAD: Final = {
    # Words of OpenAPI, of other schema languages, and abbreviations.
    "nullable": 'say it by the type: ["string", "null"]',
    "optional": "leave the name out of the required of the object around it",
    "desc": "did you mean 'description'",
    "min": "did you mean 'minimum'",
    "max": "did you mean 'maximum'",
    "choices": "did you mean 'enum'",
    "options": "did you mean 'enum'",
    "values": "did you mean 'enum'",
    "props": "did you mean 'properties'",
    "regex": "did you mean 'pattern'",
}
_HARMLESS: Final = frozenset(
    (  # keywords of other tools, and those that may stand anywhere
        *("discriminator", "example", "externalDocs", "xml", "deprecated", "readOnly", "writeOnly", "examples"),
        *("$vocabulary", "$defs", "definitions", "$id", "id", "$comment", "$anchor", "title", "dependencies"),
    )
)
_LONGEST_WORD: Final = 40  # longer words are not looked up as misspelt keywords


def keyword_findings(tool: str, place: Subschema) -> Iterator[Finding]:
    """Faults of the keywords of one schema."""
    for keyword, value in place.schema.items():
        at = pointer_to(f"/parameters{place.pointer}", keyword)
        if keyword in _keywords_of(place.dialect):
            yield from _without_effect(tool, at, keyword, place.schema)
        elif keyword not in _HARMLESS and not keyword.startswith(("x-", "x_", "$")):
            yield _unknown_keyword(tool, at, keyword, value, place)


def _without_effect(tool: str, at: str, keyword: str, schema: dict[str, Any]) -> Iterator[Finding]:
    kind = KINDS.get(keyword)
    types = schema.get("type")
    names = [str(name) for name in (types if is_array(types) else [types])]
    if kind is None or types is None or _TYPES[kind].intersection(names):
        return
    listed = " or ".join(names)
    said = f"{keyword!r} is about {kind}, and the type is {listed}"
    yield RULES["keyword-without-effect"].finding(tool, at, said, "take it away, or correct the type")


def _unknown_keyword(tool: str, at: str, keyword: str, value: Any, place: Subschema) -> Finding:
    said = f"JSON Schema has no keyword {keyword!r} and passes over it"
    drafts = [dialect.name for dialect in DIALECTS.values() if keyword in dialect.keywords]
    if drafts:
        said = f"{keyword!r} is no keyword of {place.dialect.name} but of {' and '.join(drafts)}: it is passed over"
        remedy = "say another $schema, or say it as this draft does"
        return RULES["keyword-of-other-draft"].finding(tool, at, said, remedy)
    near = _near_keyword(keyword, place.dialect)
    if near is not None:
        return RULES["misspelt-keyword"].finding(tool, at, said, f"did you mean {near!r}")
    if keyword in _INSTEAD:
        return RULES["unknown-keyword"].finding(tool, at, said, _INSTEAD[keyword], "warning")
    if _is_a_schema(value, place):
        message = f"{keyword!r} looks like a parameter, and stands beside the keywords"
        return RULES["misplaced-property"].finding(tool, at, message, f"put it into properties: {keyword!r}")
    return RULES["unknown-keyword"].finding(tool, at, said, "take it away, or call it x-…")


def _keywords_of(dialect: Dialect) -> Collection[str]:
    """The keywords of a draft, `default` and `const` included."""
    return {*dialect.keywords, "default"} | ({"const"} if dialect.name != "draft-04" else set[str]())


def _near_keyword(keyword: str, dialect: Dialect) -> str | None:
    lower = {known.lower(): known for known in _keywords_of(dialect)}
    plain = keyword.lower().replace("_", "").replace("-", "")
    near = (
        [plain]
        if plain in lower or len(plain) > _LONGEST_WORD
        else difflib.get_close_matches(plain, lower, n=1, cutoff=0.8)
    )
    return lower.get(near[0]) if near else None


def _is_a_schema(value: Any, place: Subschema) -> bool:
    """Whether the value of an unknown keyword is a schema, and so a misplaced property of an object."""
    return is_object(value) and ("type" in value or "$ref" in value) and "object" in str(place.schema.get("type"))


_SAYS_WHAT: Final = frozenset(
    ("type", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "allOf", "not", "if")
)
_VALUES: Final = frozenset(("properties", "items", "prefixItems"))
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_MOST_LOOKED_FOR: Final = 200
_LONGEST: Final = 100

Declared: TypeAlias = dict[int, frozenset[str]]
"""By the identity of a schema, the names of properties that it speaks of."""


def structure_findings(subject: Subject) -> Iterator[Finding]:
    """Faults of the schemas of parameters."""
    for entry in subject.entries:
        yield from entry.findings
        if entry.document is None or not entry.asked:
            continue
        yield from _root(entry) if entry.sound else document_findings(entry.tool.name, entry.document)
        if entry.sound:
            yield from _request_findings(entry, subject.providers)
        declared: Declared = {}
        for place in walk(entry.document):
            yield from _place(entry, place, declared)


def document_findings(tool: str, document: Any) -> Iterator[Finding]:
    """Each place at which a document is not a usable JSON Schema."""
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
                message = f"{union} at the root of the parameters, which every provider refuses: fxai rewrites it"
                remedy = "put the union into a property, or say it in the description"
                yield RULES["root-union"].finding(tool.name, f"/parameters/{union}", message, remedy)
                if said is None:
                    return
    if said != "object":
        what = "say no type" if said is None else f"are of type {said}"
        message = f"the parameters {what}, and every provider wants an object: fxai rewrites them"
        remedy = "wrap them in a Struct or in an object schema" if said else 'say "type": "object"'
        yield RULES["root-not-object"].finding(tool.name, "/parameters/type", message, remedy)


def _request_findings(entry: Entry, providers: tuple[Provider, ...]) -> Iterator[Finding]:
    """The parts of the parameters that a request has otherwise, and tools that a request leaves out."""
    document, name = JsonSchema.trust(entry.document), entry.tool.name
    for provider in providers:
        rules = provider.apis[0]
        found = request_form(document, rules)
        if not isinstance(found, Success):
            first = found.failure()[0]
            message = f"{provider.name} is not sent this tool: {first.reason}"
            yield RULES["left-out"].finding(name, f"/parameters{first.pointer}", message, "correct the schema")
            continue
        for rewrite in found.unwrap().rewrites:
            if rewrite.rule == NAMES_OF_PROPERTIES:
                message = f"{provider.name} refuses this name, so it is sent {rewrite.change}"
                remedy = "call the parameter by letters, digits, '_', '.' and '-', 64 at most"
                yield RULES["property-name"].finding(name, f"/parameters{rewrite.pointer}", message, remedy)


def _place(entry: Entry, place: Subschema, declared: Declared) -> Iterator[Finding]:
    name = entry.tool.name
    if not entry.derived:
        yield from keyword_findings(name, place)
    yield from required_findings(name, place, entry.document, declared)
    yield from _untyped_findings(entry, place)
    for keyword, message in contradictions(place.schema):
        at = f"/parameters{place.pointer}/{keyword}"
        kind = KINDS.get(keyword, "values").removesuffix("s")
        yield RULES["unsatisfiable"].finding(name, at, f"no {kind} fits: {message}", "correct one of the two")
    if entry.sound:
        yield from fitting_findings(name, place, entry.document)


def is_untyped(place: Subschema) -> bool:
    """Whether the schema of a parameter or an item has no type."""
    return not place.around and place.keyword in _VALUES and not _SAYS_WHAT.intersection(place.schema)


def _untyped_findings(entry: Entry, place: Subschema) -> Iterator[Finding]:
    if is_untyped(place):
        what = repr(place.name) if place.name is not None else "an item"
        message = f"{what} has no type, so anything goes"
        remedy = "say a type that is narrower than Any" if entry.derived else 'say its "type"'
        severity: Severity | None = "info" if entry.derived else None
        yield RULES["untyped"].finding(entry.tool.name, f"/parameters{place.pointer}", message, remedy, severity)


def required_findings(tool: str, place: Subschema, document: Any, declared: Declared) -> Iterator[Finding]:
    """Each required name of one schema that no property has; `declared` is what is known of the document's schemas."""
    required, schemas = place.schema.get("required"), (place.schema, *place.around)
    if not is_array(required) or not any("properties" in schema for schema in schemas):  # which may have any
        return
    known: set[str] = set()
    for schema in schemas:
        if id(schema) not in declared:
            declared[id(schema)] = frozenset(_declared_properties(schema, document, set()))
        known |= declared[id(schema)]
    patterned = any(schema.get("patternProperties") for schema in schemas)
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


def _declared_properties(schema: Any, document: Any, seen: set[int]) -> set[str]:
    """The properties that a schema names, with those of the schemas in its place."""
    schema = target(schema, document) if is_object(schema) and "properties" not in schema else schema
    if not is_object(schema) or id(schema) in seen:
        return set()
    seen.add(id(schema))
    properties = schema.get("properties")
    names: set[str] = set(properties) if is_object(properties) else set()
    for union in _UNIONS:
        branches = schema.get(union)
        for branch in branches if is_array(branches) else ():
            names |= _declared_properties(branch, document, seen)
    for keyword in ("if", "then", "else"):
        names |= _declared_properties(schema.get(keyword), document, seen)
    return names


_VALUE_KEYWORDS: Final = ("default", "examples", "enum", "const")
_SAYS_NOTHING: Final = frozenset(("title", "description", "$comment", "deprecated", "readOnly", "writeOnly"))
_HERE: Final = "urn:fxai:document"
_REFIT: Final = "give one that fits, or correct the schema"


def fitting_findings(tool: str, place: Subschema, document: Any) -> Iterator[Finding]:
    """Each value in one schema of a usable document that the schema refuses."""
    if not any(keyword in place.schema for keyword in _VALUE_KEYWORDS):
        return
    at = f"/parameters{place.pointer}"
    faults = _validator(place, document, ())
    if "default" in place.schema:
        for fault in faults(place.schema["default"])[:1]:
            yield RULES["default-misfit"].finding(tool, f"{at}/default", f"the default {_fault_text(fault)}", _REFIT)
    examples = place.schema.get("examples")
    for index, example in enumerate(examples if is_array(examples) else ()):
        for fault in faults(example)[:1]:
            message = f"the example {_fault_text(fault)}"
            yield RULES["example-misfit"].finding(tool, f"{at}/examples/{index}", message, _REFIT)
    yield from _enum_findings(tool, at, place, document)


def _enum_findings(tool: str, at: str, place: Subschema, document: Any) -> Iterator[Finding]:
    enum = place.schema.get("enum")
    values: list[Any] = enum if is_array(enum) else []
    faults_of = _validator(place, document, ("enum",))
    misfits = {i: faults[0] for i, value in enumerate(values) if (faults := faults_of(value))}
    if values and len(misfits) == len(values):
        message = f"no value of the enum fits the rest: {found_in(values[0])} {_fault_text(misfits[0])}"
        remedy = "correct the values, or what stands beside them"
        yield RULES["unsatisfiable"].finding(tool, f"{at}/enum", message, remedy)
        return
    for index, fault in misfits.items():
        message = f"{found_in(values[index])} can never be given: it {_fault_text(fault)}"
        remedy = "take it away, or allow it beside the enum"
        yield RULES["enum-misfit"].finding(tool, f"{at}/enum/{index}", message, remedy)
    if "const" in place.schema:
        for fault in _validator(place, document, ("const",))(place.schema["const"])[:1]:
            message = f"nothing fits: the const {_fault_text(fault)}"
            yield RULES["unsatisfiable"].finding(tool, f"{at}/const", message, "correct it, or what stands beside it")


def _fault_text(fault: Fault) -> str:
    inside = f" at {fault.pointer}" if fault.pointer else ""
    return f"expected {fault.expected}, found {fault.found}{inside}"


def _validator(place: Subschema, document: Any, without: tuple[str, ...]) -> Callable[[Any], tuple[Fault, ...]]:
    """A validator for the schema without the keywords `without`."""
    schema = {keyword: inner for keyword, inner in place.schema.items() if keyword not in without}
    if not set(schema) - _SAYS_NOTHING - set(_VALUE_KEYWORDS[:2]):
        return _no_faults
    text = str({keyword: inner for keyword, inner in schema.items() if keyword not in _VALUE_KEYWORDS})
    if place.pointer and ("$ref" in text or "Ref'" in text):
        # with a keyword left out it is not the schema of the document any more, to which references lead
        return _no_faults if without else _inside(document, place).validate
    return JsonSchema.trust({"$schema": place.dialect.uri, **schema}).validate


def _no_faults(_: Any) -> tuple[Fault, ...]:
    return ()


def _inside(document: Any, place: Subschema) -> JsonSchema:
    """The schema as a document of its own, with the references of the one that it stands in."""
    dialect: Dialect = place.dialect
    name = str(document.get(dialect.id_keyword) or _HERE)
    kept = "$defs" if "$defs" in dialect.keywords else "definitions"
    whole = {**document, "$schema": dialect.uri, dialect.id_keyword: name}
    return JsonSchema.trust(
        {"$schema": dialect.uri, "allOf": [{"$ref": f"{name}#{place.pointer}"}], kept: {"document": whole}}
    )


_MEANT: Final = "change the schema, or say that it is meant: tool.annotate(Strict, False)"
_CHECKED: Final = "nothing has to be done: what the model gives is validated by the original"
_APART: Final = "say that null is meant: tool.annotate(ExplicitNull, True); or make it the default"
_ASKED: Final = "change the schema, or take Strict away from the tool"


def strict_findings(subject: Subject) -> Iterator[Finding]:
    """Why tools cannot be sent in strict mode; nothing for tools that turn it off."""
    for entry in subject.entries:
        whole = is_object(entry.document) and entry.document.get("type") == "object"
        if entry.sound and entry.asked and whole and entry.tool.get(Strict) is not False:
            yield from _strict_findings(entry, subject)


def _strict_findings(entry: Entry, subject: Subject) -> Iterator[Finding]:
    asked = entry.tool.get(Strict) is True
    severity: Severity | None = "error" if asked else None
    document = JsonSchema.trust(entry.document)
    impossible: dict[tuple[str, str, str], list[str]] = {}
    weakened: dict[tuple[str, str, str], list[str]] = {}
    known = _known_keywords(entry, asked=asked)
    for provider in subject.providers:
        form = strict_form(document, provider.strict, explicit_null=entry.tool.get(ExplicitNull))
        obstacles, reasons = (
            (weakened, form.unwrap().weakened) if isinstance(form, Success) else (impossible, form.failure())
        )
        for each in reasons:
            if each.keyword in known.get(each.pointer, ()):
                continue
            obstacles.setdefault((each.pointer, each.keyword, each.reason), []).append(provider.name)
    for key, providers in impossible.items():
        message = f"it cannot be strict at {' and '.join(providers)}: {_strict_reason(key)}"
        remedy = _ASKED if asked else _MEANT
        yield RULES["strict-impossible"].finding(entry.tool.name, _strict_place(key), message, remedy, severity)
    for key, providers in weakened.items():
        message = f"strict mode cannot hold {' and '.join(providers)} to it: {_strict_reason(key)}"
        remedy = _APART if key[2] == NULL_LOST else _CHECKED
        yield RULES["strict-weakened"].finding(entry.tool.name, _strict_place(key), message, remedy)


def _known_keywords(entry: Entry, *, asked: bool) -> dict[str, set[str]]:
    """By place, the keywords that another rule reports already."""
    known: dict[str, set[str]] = {}
    declared: Declared = {}
    for place in walk(entry.document):
        if any(required_findings("", place, entry.document, declared)):
            known.setdefault(place.pointer, set()).add("required")
        if is_untyped(place) and not (asked or entry.derived):
            known.setdefault(place.pointer, set()).add("type")
            known.setdefault(place.pointer.removesuffix("/items"), set()).add("items")
    return known


def _strict_place(key: tuple[str, str, str]) -> str:
    return f"/parameters{key[0]}"


def _strict_reason(key: tuple[str, Any, str]) -> str:
    return f"{key[1]}: {key[2]}" if key[1] else key[2]
