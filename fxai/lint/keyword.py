"""Checks of keywords: misspelt ones, those of another draft, and those without effect on the type beside them.

>>> from fxai.schema.location import walk
>>> for place in walk({"type": "string", "minimum": 3, "patern": "^a"}):
...     for found in keyword_findings("tool", place):
...         print(found)
tool /parameters/minimum: warning keyword-without-effect: 'minimum' is about numbers, and the type is string; take it \
away, or correct the type
tool /parameters/patern: error misspelt-keyword: JSON Schema has no keyword 'patern' and passes over it; did you mean \
'pattern'
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from typing import Any, Final

from fxai.lint.rule import RULES, Finding
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import DIALECTS, Dialect
from fxai.schema.fault import pointer_to
from fxai.schema.location import Subschema

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
KINDS: Final = {keyword: kind for kind, keywords in _ABOUT.items() for keyword in keywords}
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
_LONGEST: Final = 40  # longer words are not looked up as misspelt keywords


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
    near = _near(keyword, place.dialect)
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


def _near(keyword: str, dialect: Dialect) -> str | None:
    lower = {known.lower(): known for known in _keywords_of(dialect)}
    plain = keyword.lower().replace("_", "").replace("-", "")
    near = (
        [plain] if plain in lower or len(plain) > _LONGEST else difflib.get_close_matches(plain, lower, n=1, cutoff=0.8)
    )
    return lower.get(near[0]) if near else None


def _is_a_schema(value: Any, place: Subschema) -> bool:
    """Whether the value of an unknown keyword is a schema, and so a misplaced property of an object."""
    return is_object(value) and ("type" in value or "$ref" in value) and "object" in str(place.schema.get("type"))
