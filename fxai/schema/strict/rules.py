"""The rules of strict mode: the keywords of JSON Schema that each provider takes, and the check of a document by them.

The rules are written down here once, from each provider's documentation of structured outputs; the transformation
(`strict_form`) follows them, and `rule_faults` checks any document against them, ours and those of others.

>>> "minLength" in OPENAI.keywords, OPENAI.recursive, ANTHROPIC.recursive
(False, True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.budget import cycles
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.pattern import is_plain

NULL_LOST: Final = (
    "null is sent for what is left out, so that null itself cannot be said: the tool's annotation ExplicitNull keeps"
    " the two apart"
)
"""The reason of a weakening: null and absence of an optional property are not distinguished."""


@final
class UnsupportedFeature(msgspec.Struct, frozen=True):
    """Why a schema has no strict form: the place in it, the keyword there, and the reason."""

    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.pointer or '/'}: {self.keyword}: {self.reason}"


@final
class Weakening(msgspec.Struct, frozen=True):
    """A keyword that a provider does not enforce: its place, and the reason."""

    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.pointer or '/'}: {self.keyword}: {self.reason}"


@final
class StrictRules(msgspec.Struct, frozen=True):
    """What one provider takes of JSON Schema in strict mode.

    Attributes:
        name: the provider: `"openai"`, `"anthropic"`.
        source: where the rules are from.
        keywords: the keywords that a schema may have; any other is refused.
        formats: the values of `format` that it knows.
        recursive: whether a schema may refer to itself.
        all_required: whether each property of an object must be required.
        lone_ref: whether nothing may stand beside `$ref`.
        least_items: the largest `minItems` that it takes; None for any.
        most_levels: how deep objects may nest; None for any depth.
        most_properties: how many properties a document may have in all.
        most_values: how many enum values a document may have in all.
        most_text: how long its names and values may be in all, in characters.
        most_optional: how many properties may be optional in all; None for any number.
        most_unions: how many properties may have a union as their schema in all; None for any number.
        model_keywords: Keywords that some models accept. A form has them only by `with_keywords`; `rule_faults` accepts
            them.
    """

    name: str
    source: str
    keywords: frozenset[str]
    formats: frozenset[str]
    recursive: bool
    all_required: bool
    lone_ref: bool
    least_items: int | None = None
    most_levels: int | None = None
    most_properties: int | None = None
    most_values: int | None = None
    most_text: int | None = None
    most_optional: int | None = None
    most_unions: int | None = None
    model_keywords: frozenset[str] = frozenset()

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
    source="OpenAI, Structured Outputs: Supported schemas; function calling: Strict mode",
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
"""OpenAI's rules, of Responses and Chat Completions: objects closed, each property required, no `default`."""

OPENAI_HOST: Final = OPENAI.with_keywords(OPENAI.model_keywords)
"""The rules of OpenAI's own host for models that are not fine-tuned. Other servers do not accept these keywords."""

ANTHROPIC: Final = StrictRules(
    name="anthropic",
    source="Anthropic, Structured outputs: JSON Schema limitations",
    keywords=_SHAPES | _WORDS | {"definitions", "default", "allOf", "pattern", "format", "minItems"},
    formats=_FORMATS | {"uri"},
    recursive=False,
    all_required=False,
    lone_ref=False,
    least_items=1,
    most_optional=24,
    most_unions=16,
)
"""Anthropic's rules: objects closed, no recursion, no bounds on numbers and lengths."""

_DESCRIPTIVE: Final = ("type", "enum", "const", "anyOf", "allOf", "$ref")
_NAMED: Final = ("$defs", "definitions")


def rule_faults(document: JsonSchema | Mapping[str, Any], rules: StrictRules) -> tuple[Fault, ...]:
    """Everything that the provider would refuse in a document sent as strict; `()` when it takes the document."""
    plain: Any = document.to_dict() if isinstance(document, JsonSchema) else dict(document)
    if not is_object(plain):
        return (Fault("", "an object at the root", found_in(plain)),)
    check = _RuleCheck(plain, rules)
    return tuple(dict.fromkeys((*check.root(), *check.schema(plain, "", 0), *check.totals())))


@final
class _RuleCheck:
    """One check, with its counts."""

    def __init__(self, document: dict[str, Any], rules: StrictRules) -> None:
        self.document = document
        self.rules = rules
        self.properties = self.optional = self.unions = self.values = self.text = 0
        self.references: dict[str, list[str]] = {}

    def root(self) -> Iterator[Fault]:
        """The root has the type object and is no union."""
        if self.document.get("type") != "object":
            yield Fault("/type", "an object at the root", found_in(self.document.get("type")))
        for union in ("anyOf", "oneOf", "allOf"):
            if union in self.document:
                yield Fault(f"/{union}", "an object at the root, no union", found_in(self.document[union]))

    def schema(self, schema: Any, pointer: str, level: int) -> Iterator[Fault]:
        """What is wrong with one schema and those inside it."""
        if not is_object(schema):
            yield Fault(pointer, "a schema that says a type", found_in(schema))
            return
        yield from self._keywords(schema, pointer)
        if not any(keyword in schema for keyword in _DESCRIPTIVE):
            yield Fault(pointer, "a schema that says a type", found_in(schema))
        kinds = schema.get("type")
        kinds = kinds if is_array(kinds) else [kinds]
        if "object" in kinds or "properties" in schema:
            level += 1
            yield from self._object(schema, pointer, level)
        if "array" in kinds and "items" not in schema:
            yield Fault(f"{pointer}/items", "a schema of the items", NOTHING)
        yield from self._inner(schema, pointer, level)

    def _inner(self, schema: dict[str, Any], pointer: str, level: int) -> Iterator[Fault]:
        for name, inner in cast("dict[str, Any]", schema.get("properties", {})).items():
            yield from self.schema(inner, pointer_to(f"{pointer}/properties", name), level)
        if "items" in schema:
            yield from self.schema(schema["items"], f"{pointer}/items", level)
        for union in ("anyOf", "allOf"):
            for index, inner in enumerate(cast("list[Any]", schema.get(union, []))):
                at = f"{pointer}/{union}/{index}"
                if union == "allOf" and is_object(inner) and "$ref" in inner:
                    yield Fault(f"{at}/$ref", "no $ref inside allOf", found_in(inner["$ref"]))
                yield from self.schema(inner, at, level)
        for location in _NAMED:
            for name, inner in cast("dict[str, Any]", schema.get(location, {})).items():
                self.text += len(name)
                yield from self.schema(inner, pointer_to(f"{pointer}/{location}", name), 0)

    def _keywords(self, schema: dict[str, Any], pointer: str) -> Iterator[Fault]:
        for keyword, value in schema.items():
            at = pointer_to(pointer, keyword)
            if keyword not in self.rules.keywords and keyword not in self.rules.model_keywords:
                yield Fault(at, f"a keyword that {self.rules.name} takes in strict mode", found_in(value))
        if "$ref" in schema:
            yield from self._reference(schema, pointer)
        if "pattern" in schema and not is_plain(str(schema["pattern"])):
            expected = "a pattern without look-around, back-references and word boundaries"
            yield Fault(f"{pointer}/pattern", expected, found_in(schema["pattern"]))
        if "format" in schema and schema["format"] not in self.rules.formats:
            yield Fault(f"{pointer}/format", f"a format that {self.rules.name} knows", found_in(schema["format"]))
        most = self.rules.least_items
        if most is not None and schema.get("minItems", 0) > most:
            yield Fault(f"{pointer}/minItems", f"at most {most}", found_in(schema["minItems"]))
        yield from self._values(schema, pointer)

    def _values(self, schema: dict[str, Any], pointer: str) -> Iterator[Fault]:
        values = schema.get("enum", [])
        self.values += len(values)
        texts = [value for value in (*values, schema.get("const")) if isinstance(value, str)]
        self.text += sum(map(len, texts))
        if self.rules.most_values and len(values) > 250 and sum(map(len, texts)) > 15_000:
            yield Fault(f"{pointer}/enum", "at most 15,000 characters in more than 250 values", found_in(values))
        for value in (*values, schema.get("const")):
            if is_object(value) or is_array(value):
                yield Fault(f"{pointer}/{'enum' if value in values else 'const'}", "scalar values", found_in(value))

    def _reference(self, schema: dict[str, Any], pointer: str) -> Iterator[Fault]:
        at, reference = f"{pointer}/$ref", schema["$ref"]
        if self.rules.lone_ref and len(schema) > 1:
            beside = ", ".join(repr(keyword) for keyword in schema if keyword != "$ref")
            yield Fault(at, "$ref alone", f"{beside} beside it")
        within = reference == "#" or any(str(reference).startswith(f"#/{location}/") for location in _NAMED)
        if not within:
            yield Fault(at, "a reference to the root or into $defs", found_in(reference))
        self.references.setdefault(str(reference), []).append(pointer)

    def _object(self, schema: dict[str, Any], pointer: str, level: int) -> Iterator[Fault]:
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
            expected = f"{', '.join(map(repr, optional))} among the required"
            yield Fault(f"{pointer}/required", expected, found_in(required) if required else NOTHING)
        deepest = self.rules.most_levels
        if deepest is not None and level > deepest:
            yield Fault(pointer, f"at most {deepest} levels of objects", f"level {level}")

    def totals(self) -> Iterator[Fault]:
        """The limits of the whole document."""
        rules = self.rules
        for count, most, what in (
            (self.properties, rules.most_properties, "properties"),
            (self.values, rules.most_values, "enum values"),
            (self.text, rules.most_text, "characters of names and values"),
            (self.optional, rules.most_optional, "optional properties"),
            (self.unions, rules.most_unions, "properties with a union"),
        ):
            if most is not None and count > most:
                yield Fault("", f"at most {most} {what} in all", str(count))
        if not rules.recursive:
            yield from self._circles()

    def _circles(self) -> Iterator[Fault]:
        targets = {reference.removeprefix("#"): number for number, reference in enumerate(self.references)}
        after: list[dict[int, None]] = [{} for _ in targets]
        around: set[tuple[str, int]] = set()
        for number, locations in enumerate(self.references.values()):
            for location in locations:
                for target in _around(location):
                    if target in targets:
                        after[targets[target]][number] = None
                        if targets[target] == number:
                            around.add((location, number))
        circular = {one for group in cycles(len(after), after.__getitem__) if len(group) > 1 for one in group}
        circular |= {number for number, inside in enumerate(after) if number in inside}
        for number, (reference, locations) in enumerate(self.references.items()):
            for location in locations:
                if number in circular or (location, number) in around:
                    yield Fault(f"{location}/$ref", "a schema that does not refer to itself", found_in(reference))


def _around(location: str) -> Iterator[str]:
    """A place and every place around it, as pointers."""
    while True:
        yield location
        if not location:
            return
        location = location.rpartition("/")[0]
