"""The keywords of JSON Schema that each provider takes in strict mode.

The rules are written down here once, from each provider's documentation of structured outputs; the transformation
(`strict_form`) follows them, and `rule_faults` checks any document against them, ours and those of others.

>>> "minLength" in OPENAI.keywords, OPENAI.recursive, ANTHROPIC.recursive
(False, True, False)
"""

from __future__ import annotations

import re
from typing import Final, final

import msgspec

__all__ = ["ANTHROPIC", "OPENAI", "StrictRules", "is_plain_pattern"]


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
)
"""OpenAI's rules, of Responses and Chat Completions: objects closed, each property required, no `default`."""

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

# Look-around, back-references, word boundaries, inline flags and named groups: both providers refuse some of them.
_ODD_PATTERN: Final = re.compile(r"\(\?(?!:)|(?<!\\)(?:\\\\)*\\[1-9bBkKpPAZzG]")


def is_plain_pattern(pattern: str) -> bool:
    r"""Whether both providers can hold a model to a pattern: it needs no look-around, back-reference or boundary.

    >>> is_plain_pattern("^[a-z]+(?:-[0-9]{2})?$"), is_plain_pattern(r"^(?!x)\w+$"), is_plain_pattern(r"\bword")
    (True, False, False)
    """
    return _ODD_PATTERN.search(pattern) is None
