"""The supported dialects of JSON Schema. Use this module to find the dialect and the keywords of a schema.

The tables for the drafts 4 to 2020-12 come from the official metaschemas. With these tables, fxai checks a document
without a validator.

>>> dialect_of({"$schema": "http://json-schema.org/draft-07/schema#"}).name
'draft-07'
>>> dialect_of({}).name
'2020-12'
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, final

import msgspec

from fxai.schema.fault import SchemaError


@final
class Dialect(msgspec.Struct, frozen=True):
    """A draft of JSON Schema."""

    name: str
    """The name, from `draft-04` to `2020-12`."""
    uri: str
    """The value of `$schema`, without a trailing `#`."""
    keywords: dict[str, str]
    """The shape of each keyword's value, such as `schema`, `schemas`, `named schemas`, or `number`."""
    id_keyword: str = "$id"
    ref_alone: bool = False
    """True if `$ref` hides the keywords next to it."""


_DRAFT_4: Final = {
    **dict.fromkeys(("id", "$schema", "title", "description", "$ref", "format"), "string"),
    "multipleOf": "number above 0",
    **dict.fromkeys(("maximum", "minimum"), "number"),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems"), "boolean"),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), "integer at least 0"
    ),
    "pattern": "pattern",
    **dict.fromkeys(("additionalItems", "additionalProperties"), "schema or boolean"),
    "items": "schema or schemas",
    "required": "array of at least 1 distinct string",
    **dict.fromkeys(("definitions", "properties"), "named schemas"),
    "patternProperties": "patterned schemas",
    "dependencies": "dependencies",
    "enum": "array of at least 1 distinct item",
    "type": "type",
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), "schemas"),
    "not": "schema",
}
_DRAFT_6: Final = {
    **{keyword: shape for keyword, shape in _DRAFT_4.items() if keyword != "id"},
    "$id": "string",
    "examples": "array",
    "const": "any",
    "enum": "array",
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), "number"),
    **dict.fromkeys(("additionalItems", "additionalProperties", "contains", "propertyNames"), "schema"),
    "required": "array of distinct strings",
}
_DRAFT_7: Final = {
    **_DRAFT_6,
    **dict.fromkeys(("$comment", "contentMediaType", "contentEncoding"), "string"),
    "readOnly": "boolean",
    **dict.fromkeys(("if", "then", "else"), "schema"),
}
_DRAFT_2019: Final = {
    **_DRAFT_7,
    "$id": "identifier",
    "$anchor": "anchor",
    "$recursiveRef": "string",
    "$recursiveAnchor": "boolean",
    "$defs": "named schemas",
    "dependentSchemas": "named schemas",
    "dependentRequired": "named lists of strings",
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "contentSchema"), "schema"),
    **dict.fromkeys(("minContains", "maxContains"), "integer at least 0"),
    **dict.fromkeys(("deprecated", "writeOnly"), "boolean"),
}
_DRAFT_2020: Final = {
    **{keyword: shape for keyword, shape in _DRAFT_2019.items() if keyword != "additionalItems"},
    "$dynamicRef": "string",
    "$dynamicAnchor": "anchor",
    "prefixItems": "schemas",
    "items": "schema",
}

LATEST: Final = Dialect("2020-12", "https://json-schema.org/draft/2020-12/schema", _DRAFT_2020)
"""The dialect of a document without `$schema`."""

CONVERTS: Final = "x-fxai-converts"
"""The keyword for strings that `msgspec` converts to another type. Its value is a `Converter`."""

WIRE: Final = Dialect("wire", LATEST.uri, {**_DRAFT_2020, CONVERTS: "converter"})
"""The private dialect of types. It has converters, and `3.0` is not an integer."""

DIALECTS: Final = {
    dialect.uri: dialect
    for dialect in (
        Dialect("draft-04", "http://json-schema.org/draft-04/schema", _DRAFT_4, "id", ref_alone=True),
        Dialect("draft-06", "http://json-schema.org/draft-06/schema", _DRAFT_6, ref_alone=True),
        Dialect("draft-07", "http://json-schema.org/draft-07/schema", _DRAFT_7, ref_alone=True),
        Dialect("2019-09", "https://json-schema.org/draft/2019-09/schema", _DRAFT_2019),
        LATEST,
    )
}
"""The supported dialects, by their URI without a trailing `#`."""


def is_metaschema(uri: str) -> bool:
    """Return True if a URI without a fragment names a bundled document that a `$ref` can lead to."""
    if uri in DIALECTS:
        return True
    known: Mapping[str, object] = import_module("jsonschema_specifications").REGISTRY
    return uri.startswith("https://json-schema.org/draft/20") and uri in known


def dialect_of(schema: Mapping[str, Any] | bool, inherited: Dialect = LATEST) -> Dialect:
    """Return the dialect that a schema names by `$schema`, or the inherited dialect.

    Args:
        schema: The schema.
        inherited: The dialect of the enclosing schema. Default: 2020-12.

    Raises:
        SchemaError: If `$schema` names an unknown dialect. The message lists the supported dialects.
    """
    if isinstance(schema, bool) or "$schema" not in schema:
        return inherited
    uri = schema["$schema"]
    known = DIALECTS.get(uri.removesuffix("#")) if isinstance(uri, str) else None
    if known is None:
        named = ", ".join(dialect.uri for dialect in DIALECTS.values())
        raise SchemaError(f"a known dialect (one of {named}, or no $schema for 2020-12)")
    return known
