"""The rules of strict mode: the parts of JSON Schema that each provider accepts. Use this module to check a document.

The rules come from each provider's documentation of structured outputs. `strict_form` follows the rules, and
`rule_faults` checks any document against them.

>>> "minLength" in OPENAI.keywords, OPENAI.recursive, ANTHROPIC.recursive
(False, True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, final

import msgspec

from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.dialect import LATEST
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import subschemas
from fxai.schema.pattern import is_plain

NULL_LOST: Final = (
    "null means that the property is absent, so the model cannot send null itself. To distinguish them, annotate the"
    " tool with ExplicitNull"
)
"""The reason of a weakening that makes a null and an absent property indistinguishable."""


class _Keyword(msgspec.Struct, frozen=True):
    pointer: str
    """The JSON pointer of the schema."""
    keyword: str
    """The keyword."""
    reason: str
    """The reason."""

    def __str__(self) -> str:
        """Return the location, the keyword, and the reason in one line."""
        return f"{self.pointer or '/'}: {self.keyword}: {self.reason}"


@final
class UnsupportedFeature(_Keyword, frozen=True):
    """An unsupported feature of a schema without a strict form: its JSON pointer, its keyword, and the reason."""


@final
class Weakening(_Keyword, frozen=True):
    """A keyword that a provider does not enforce: the JSON pointer of its schema, the keyword, and the reason."""


@final
class StrictRules(msgspec.Struct, frozen=True):
    """The part of JSON Schema that a provider accepts in strict mode.

    The limits that start with `most_` apply to the whole document. A limit of None means no limit.
    """

    name: str
    """The name of the provider, such as `"openai"` or `"anthropic"`."""
    keywords: frozenset[str]
    """The accepted keywords. The provider refuses a schema with any other keyword."""
    formats: frozenset[str]
    """The accepted values of `format`."""
    recursive: bool
    """True if a schema can refer to itself."""
    all_required: bool
    """True if the provider requires each property of an object to be required."""
    lone_ref: bool
    """True if a schema with `$ref` must not have any other keyword."""
    least_items: int | None = None
    """The maximum value of `minItems`, or None without a maximum."""
    most_levels: int | None = None
    """The maximum nesting of objects."""
    most_properties: int | None = None
    """The maximum number of properties."""
    most_values: int | None = None
    """The maximum number of enum values."""
    most_text: int | None = None
    """The maximum length of all names and values, in characters."""
    most_optional: int | None = None
    """The maximum number of optional properties."""
    most_unions: int | None = None
    """The maximum number of properties with a union as their schema."""
    model_keywords: frozenset[str] = frozenset()
    """The keywords that only some models accept. `rule_faults` accepts them. A strict form uses them only after
    `with_keywords`."""

    def with_keywords(self, keywords: Iterable[str]) -> StrictRules:
        """Return the rules with additional keywords."""
        return msgspec.structs.replace(self, keywords=self.keywords | frozenset(keywords))


_SHAPES: Final = frozenset(
    ("type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs")
)
_WORDS: Final = frozenset(("title", "description"))
_FORMATS: Final = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))

OPENAI: Final = StrictRules(
    name="openai",
    keywords=_SHAPES
    | _WORDS
    | {"definitions", "pattern", "format", "minItems", "maxItems"}
    | {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    formats=_FORMATS,
    recursive=True,
    all_required=True,
    lone_ref=True,
    most_levels=10,
    most_properties=5000,
    most_values=1000,
    most_text=120_000,
    model_keywords=frozenset(("minLength", "maxLength")),
)
"""OpenAI's rules for Responses and Chat Completions: closed objects, only required properties, and no `default`.

Source: Structured Outputs, "Supported schemas"; function calling, "Strict mode".
"""

OPENAI_HOST: Final = OPENAI.with_keywords(OPENAI.model_keywords)
"""The rules of OpenAI's own host for models that are not fine-tuned. Other servers do not accept these keywords."""

ANTHROPIC: Final = StrictRules(
    name="anthropic",
    keywords=_SHAPES | _WORDS | {"definitions", "default", "allOf", "pattern", "format", "minItems"},
    formats=_FORMATS | {"uri"},
    recursive=False,
    all_required=False,
    lone_ref=False,
    least_items=1,
    most_optional=24,
    most_unions=16,
)
"""Anthropic's rules: closed objects, no recursion, and no bounds of numbers and lengths.

Source: Structured outputs, "JSON Schema limitations".
"""

_DESCRIPTIVE: Final = ("type", "enum", "const", "anyOf", "allOf", "$ref")
_NAMED: Final = ("$defs", "definitions")
_READ: Final = (*_NAMED, "properties", "items", "anyOf", "allOf")


def rule_faults(document: JsonSchema | Mapping[str, Any], rules: StrictRules) -> tuple[Fault, ...]:
    """Return the reasons why the provider would refuse a strict document. `()` if it accepts the document."""
    plain: Any = document.to_dict() if isinstance(document, JsonSchema) else dict(document)
    if not is_object(plain):
        return (Fault("", "an object at the root", found_in(plain)),)
    check = _RuleCheck(plain, rules)
    return tuple(dict.fromkeys((*check.root(), *check.schema(plain, "", 0), *check.totals())))


@final
class _RuleCheck:
    """The state of a check, with its counts."""

    def __init__(self, document: JsonObject, rules: StrictRules) -> None:
        self.document = document
        self.rules = rules
        self.properties = self.optional = self.unions = self.values = self.text = 0
        self.references: dict[str, list[str]] = {}

    def root(self) -> Iterator[Fault]:
        """Iterate over the errors of a root that is not an object or that is a union."""
        if self.document.get("type") != "object":
            yield Fault("/type", "an object at the root", found_in(self.document.get("type")))
        for union in ("anyOf", "oneOf", "allOf"):
            if union in self.document:
                yield Fault(f"/{union}", "an object at the root instead of a union", found_in(self.document[union]))

    def schema(self, schema: Any, pointer: str, level: int) -> Iterator[Fault]:
        """Iterate over the errors of a schema and of the schemas inside it."""
        if not is_object(schema):
            yield Fault(pointer, "a schema with a type", found_in(schema))
            return
        yield from self._keywords(schema, pointer)
        if not any(keyword in schema for keyword in _DESCRIPTIVE):
            yield Fault(pointer, "a schema with a type", found_in(schema))
        kinds = schema.get("type")
        kinds = kinds if is_array(kinds) else [kinds]
        if "object" in kinds or "properties" in schema:
            level += 1
            yield from self._object(schema, pointer, level)
        if "array" in kinds and "items" not in schema:
            yield Fault(f"{pointer}/items", "a schema for the items", NOTHING)
        for keyword, at, inner in subschemas(schema, LATEST):
            if keyword in _NAMED:
                self.text += len(at.rpartition("/")[2])
            if keyword == "allOf" and is_object(inner) and "$ref" in inner:
                yield Fault(f"{pointer}{at}/$ref", "no $ref inside allOf", found_in(inner["$ref"]))
            if keyword in _READ:
                yield from self.schema(inner, pointer + at, 0 if keyword in _NAMED else level)

    def _keywords(self, schema: JsonObject, pointer: str) -> Iterator[Fault]:
        for keyword, value in schema.items():
            at = pointer_to(pointer, keyword)
            if keyword not in self.rules.keywords and keyword not in self.rules.model_keywords:
                yield Fault(at, f"a keyword that {self.rules.name} accepts in strict mode", found_in(value))
        if "$ref" in schema:
            yield from self._reference(schema, pointer)
        if "pattern" in schema and not is_plain(str(schema["pattern"])):
            expected = "a pattern without look-around, back-references, and word boundaries"
            yield Fault(f"{pointer}/pattern", expected, found_in(schema["pattern"]))
        if "format" in schema and schema["format"] not in self.rules.formats:
            yield Fault(f"{pointer}/format", f"a format that {self.rules.name} accepts", found_in(schema["format"]))
        most = self.rules.least_items
        if most is not None and schema.get("minItems", 0) > most:
            yield Fault(f"{pointer}/minItems", f"at most {most}", found_in(schema["minItems"]))
        yield from self._values(schema, pointer)

    def _values(self, schema: JsonObject, pointer: str) -> Iterator[Fault]:
        values = schema.get("enum", [])
        self.values += len(values)
        texts = [value for value in (*values, schema.get("const")) if isinstance(value, str)]
        self.text += sum(map(len, texts))
        if self.rules.most_values and len(values) > 250 and sum(map(len, texts)) > 15_000:
            yield Fault(f"{pointer}/enum", "at most 15,000 characters in more than 250 values", found_in(values))
        for value in (*values, schema.get("const")):
            if is_object(value) or is_array(value):
                yield Fault(f"{pointer}/{'enum' if value in values else 'const'}", "scalar values", found_in(value))

    def _reference(self, schema: JsonObject, pointer: str) -> Iterator[Fault]:
        at, reference = f"{pointer}/$ref", schema["$ref"]
        if self.rules.lone_ref and len(schema) > 1:
            beside = ", ".join(repr(keyword) for keyword in schema if keyword != "$ref")
            yield Fault(at, "$ref without other keywords", f"{beside} next to $ref")
        within = reference == "#" or any(str(reference).startswith(f"#/{location}/") for location in _NAMED)
        if not within:
            yield Fault(at, "a reference to the root or into $defs", found_in(reference))
        self.references.setdefault(str(reference), []).append(pointer)

    def _object(self, schema: JsonObject, pointer: str, level: int) -> Iterator[Fault]:
        if schema.get("additionalProperties") is not False:
            given = found_in(schema["additionalProperties"]) if "additionalProperties" in schema else NOTHING
            yield Fault(f"{pointer}/additionalProperties", "false", given)
        properties, required = schema.get("properties", {}), schema.get("required", [])
        self.properties += len(properties)
        self.text += sum(map(len, properties))
        optional = [name for name in properties if name not in required]
        self.optional += len(optional)
        inner = [schema for schema in properties.values() if is_object(schema)]
        self.unions += sum("anyOf" in schema or is_array(schema.get("type")) for schema in inner)
        if optional and self.rules.all_required:
            expected = f"{', '.join(map(repr, optional))} among the required properties"
            yield Fault(f"{pointer}/required", expected, found_in(required) if required else NOTHING)
        deepest = self.rules.most_levels
        if deepest is not None and level > deepest:
            yield Fault(pointer, f"at most {deepest} levels of objects", f"level {level}")

    def totals(self) -> Iterator[Fault]:
        """Iterate over the errors for limits of the whole document."""
        rules = self.rules
        for count, most, what in (
            (self.properties, rules.most_properties, "properties"),
            (self.values, rules.most_values, "enum values"),
            (self.text, rules.most_text, "characters of names and values"),
            (self.optional, rules.most_optional, "optional properties"),
            (self.unions, rules.most_unions, "properties with a union"),
        ):
            if most is not None and count > most:
                yield Fault("", f"at most {most} {what} in total", str(count))
        if not rules.recursive:
            yield from self._circles()

    def _circles(self) -> Iterator[Fault]:
        targets = {reference.removeprefix("#"): reference for reference in self.references}
        inner: dict[str, set[str]] = {reference: set() for reference in self.references}
        for reference, locations in self.references.items():
            for location in locations:
                for target in filter(targets.__contains__, _around(location)):
                    inner[targets[target]].add(reference)
        try:
            TopologicalSorter(inner).prepare()
        except CycleError as error:
            circle = set(error.args[1])
            for reference in circle:
                for location in self.references[reference]:
                    if any(targets.get(at) in circle for at in _around(location)):
                        yield Fault(f"{location}/$ref", "a schema that does not refer to itself", found_in(reference))


def _around(location: str) -> Iterator[str]:
    """Iterate over a pointer and the pointers of all enclosing locations."""
    yield location
    while location:
        location = location.rpartition("/")[0]
        yield location
