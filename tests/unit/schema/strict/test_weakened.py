"""Keywords that the provider does not enforce: each is reported, and the description states it to the model."""

from __future__ import annotations

from typing import Any, Final

import pytest
from returns.result import Failure

from fxai.schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictForm, StrictRules, strict_form
from tests.kit.every import every

STRING: Final[dict[str, Any]] = {"type": "string"}
INTEGER: Final[dict[str, Any]] = {"type": "integer"}
LIST: Final[dict[str, Any]] = {"type": "array", "items": STRING}
PAIR: Final[dict[str, Any]] = {"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["a"]}
MAP: Final[dict[str, Any]] = {"type": "object", "additionalProperties": STRING}
CLOSED: Final[dict[str, Any]] = {**PAIR, "additionalProperties": False}


def _form(document: dict[str, Any], rules: StrictRules) -> StrictForm:
    """Return the strict form of an object with the required property `x`."""
    whole = {"type": "object", "properties": {"x": document}, "required": ["x"]}
    return strict_form(JsonSchema.of(whole), rules).unwrap()


def _reported(form: StrictForm) -> set[str]:
    return {f"{one.pointer.removeprefix('/properties/x')} {one.keyword}".strip() for one in form.weakened}


LENGTHS: Final = "a value with a length of at least 2 and a value with a length of at most 4"
LOWER: Final = "a value with a length of at least 2"
UPPER: Final = "a value with a length of at most 1"
RANGE: Final = "a value greater than or equal to 1 and a value less than 9"
CONTENT: Final = 'JSON Schema contentEncoding: "base64" and JSON Schema contentMediaType: "text/plain"'
CONTAINS: Final = (
    'JSON Schema contains: {"type": "string"} and JSON Schema minContains: 1 and JSON Schema maxContains: 2'
)

EVERYWHERE: Final[list[tuple[dict[str, Any], set[str], str]]] = [
    ({**STRING, "minLength": 2, "maxLength": 4}, {"minLength", "maxLength"}, LENGTHS),
    (
        {**STRING, "contentEncoding": "base64", "contentMediaType": "text/plain"},
        {"contentEncoding", "contentMediaType"},
        CONTENT,
    ),
    ({**STRING, "pattern": "^(?!x)"}, {"pattern"}, "a value matching the pattern ^(?!x)"),
    (
        {**STRING, "pattern": "^a", "allOf": [{"pattern": "b$"}]},
        {"/allOf/0 pattern"},
        "a value matching the pattern b$",
    ),
    (
        {**STRING, "format": "date", "allOf": [{"format": "time"}]},
        {"/allOf/0 format"},
        "a value with a format of time",
    ),
    ({**LIST, "uniqueItems": True}, {"uniqueItems"}, "no duplicate items"),
    (
        {**LIST, "contains": STRING, "minContains": 1, "maxContains": 2},
        {"contains", "minContains", "maxContains"},
        CONTAINS,
    ),
    ({"type": "array", "allOf": [{"items": STRING}], "unevaluatedItems": False}, {"unevaluatedItems"}, ""),
    ({"oneOf": [STRING, INTEGER]}, {"oneOf"}, ""),
    ({**INTEGER, "not": {"const": 3}}, {"not"}, 'JSON Schema not: {"const": 3}'),
    (
        {**INTEGER, "if": {"minimum": 3}, "then": {"maximum": 5}},
        {"if"},
        'JSON Schema if: {"if": {"minimum": 3}, "then": {"maximum": 5}}',
    ),
    ({**PAIR, "minProperties": 2}, {"minProperties"}, LOWER),
    ({**PAIR, "maxProperties": 1}, {"maxProperties"}, UPPER),
    ({**MAP, "minProperties": 2}, {"minProperties"}, LOWER),
    ({**CLOSED, "propertyNames": {"pattern": "^[ab]"}}, {"propertyNames"}, ""),
    (
        {**PAIR, "additionalProperties": STRING, "minProperties": 2, "maxProperties": 4},
        {"minProperties", "maxProperties"},
        LENGTHS,
    ),
    *(
        ({**PAIR, keyword: {"a": needed}}, {keyword}, f'JSON Schema {keyword}: {{"a": {said}}}')
        for keyword, needed, said in [
            ("dependentRequired", ["b"], '["b"]'),
            ("dependentSchemas", {"required": ["b"]}, '{"required": ["b"]}'),
            ("dependencies", ["b"], '["b"]'),
        ]
    ),
]


@every(("document", "keywords", "words"), EVERYWHERE)
@every("rules", [OPENAI, ANTHROPIC])
def test_what_no_provider_enforces_is_reported(
    document: dict[str, Any], keywords: set[str], words: str, rules: StrictRules
) -> None:
    """The report names each lost keyword with its place, and the description of the property ends with its words."""
    form = _form(document, rules)

    assert _reported(form) == keywords
    assert form.document.to_dict()["properties"]["x"].get("description", "").endswith(words)


AT_ANTHROPIC: Final[list[tuple[dict[str, Any], set[str], str]]] = [
    ({**INTEGER, "minimum": 1, "exclusiveMaximum": 9}, {"minimum", "exclusiveMaximum"}, RANGE),
    ({**INTEGER, "exclusiveMinimum": 1}, {"exclusiveMinimum"}, "a value greater than 1"),
    ({**INTEGER, "maximum": 9}, {"maximum"}, "a value less than or equal to 9"),
    ({**INTEGER, "multipleOf": 2}, {"multipleOf"}, "a value that is a multiple of 2"),
    ({**LIST, "minItems": 2, "maxItems": 4}, {"minItems", "maxItems"}, LENGTHS),
    ({**MAP, "minProperties": 1}, {"minProperties"}, "a value with a length of at least 1"),
    ({**MAP, "maxProperties": 1}, {"maxProperties"}, UPPER),
]


@every(("document", "keywords", "words"), AT_ANTHROPIC)
def test_bounds_are_lost_at_anthropic_only(document: dict[str, Any], keywords: set[str], words: str) -> None:
    """OpenAI enforces bounds of numbers, lists, and maps. Anthropic reads them in the description."""
    form = _form(document, ANTHROPIC)

    assert _reported(_form(document, OPENAI)) == set()
    assert _reported(form) == keywords
    assert form.document.to_dict()["properties"]["x"]["description"].endswith(words)


def test_a_format_that_openai_does_not_accept_is_lost_there() -> None:
    """Anthropic enforces the format `uri`, and OpenAI reads it in the description."""
    document = {**STRING, "format": "uri"}

    assert _reported(_form(document, ANTHROPIC)) == set()
    assert _reported(_form(document, OPENAI)) == {"format"}
    assert _form(document, OPENAI).document.to_dict()["properties"]["x"] == {
        "type": "string",
        "description": "a value with a format of uri",
    }


def test_one_of_two_divisors_is_enforced_at_openai() -> None:
    """A schema has room for one `multipleOf`. The description states both, and Anthropic enforces none."""
    document = {**INTEGER, "multipleOf": 2, "allOf": [{"multipleOf": 3}]}

    form = _form(document, OPENAI)

    assert _reported(form) == {"/allOf/0 multipleOf"}
    assert form.document.to_dict()["properties"]["x"] == {
        "type": "integer",
        "description": "a value that is a multiple of 2 and a value that is a multiple of 3",
        "multipleOf": 2,
    }
    assert _reported(_form(document, ANTHROPIC)) == {"multipleOf", "/allOf/0 multipleOf"}


@every("rules", [OPENAI, ANTHROPIC])
def test_a_union_of_requirements_at_the_root_is_reported(rules: StrictRules) -> None:
    """Providers accept no union at the root, so the description of the root states it."""
    document = {**PAIR, "required": [], "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}

    form = strict_form(JsonSchema.of(document), rules).unwrap()

    assert [(one.pointer, one.keyword) for one in form.weakened] == [("", "anyOf")]
    assert form.weakened[0].reason == f"{rules.name} does not accept a union here"
    assert form.document.to_dict()["description"] == 'JSON Schema anyOf: [{"required": ["a"]}, {"required": ["b"]}]'


@every(
    "document",
    [
        {**PAIR, "minProperties": 1},
        {**PAIR, "maxProperties": 2},
        {**MAP, "propertyNames": {"pattern": "^a"}},
        {**LIST, "uniqueItems": False},
        {"oneOf": [STRING]},
        {**INTEGER, "if": {"minimum": 3}},
        {"type": "object", "patternProperties": {"^x": STRING}, "additionalProperties": False},
    ],
)
@every("rules", [OPENAI, ANTHROPIC])
def test_what_the_form_implies_is_not_reported(document: dict[str, Any], rules: StrictRules) -> None:
    """A bound that the properties of the object imply, and a keyword without effect, are not in the report."""
    assert _reported(_form(document, rules)) == set()


def test_each_report_states_its_reason() -> None:
    """The reason names the provider, or the form that the document has instead."""
    reasons = {
        "maxProperties": ({**PAIR, "maxProperties": 1}, "openai cannot limit the number of properties"),
        "minProperties": ({**PAIR, "minProperties": 2}, "openai cannot limit the number of properties"),
        "propertyNames": ({**CLOSED, "propertyNames": {"maxLength": 1}}, "openai cannot limit the names of properties"),
        "oneOf": ({"oneOf": [STRING, INTEGER]}, "sent as anyOf"),
        "not": ({**INTEGER, "not": {"const": 3}}, "openai does not support this keyword"),
        "minLength": ({**STRING, "minLength": 2}, "openai does not support this bound"),
    }
    for keyword, (document, reason) in reasons.items():
        (found,) = _form(document, OPENAI).weakened
        assert (found.keyword, found.reason) == (keyword, reason)


CHOICE: Final[dict[str, Any]] = {
    "anyOf": [PAIR, {"type": "object", "properties": {"n": INTEGER, "m": INTEGER}, "required": ["n"]}]
}


@pytest.mark.parametrize("value", [5, None, [], {"a": 1}, {"n": "x"}, {"z": 1}])
def test_a_value_that_fits_no_alternative_has_no_strict_form(value: Any) -> None:
    """`forth` returns a failure for it, and never a value that the model did not read."""
    outcome = _form(CHOICE, OPENAI).forth({"x": value})

    assert isinstance(outcome, Failure)
    assert "matches none of the alternatives" in str(outcome.failure())


def test_a_value_of_each_alternative_has_its_strict_form() -> None:
    """The first alternative that the value fits determines the form."""
    form = _form(CHOICE, OPENAI)

    assert form.forth({"x": {"a": "1"}}).unwrap() == {"x": {"a": "1", "b": None}}
    assert form.forth({"x": {"n": 1}}).unwrap() == {"x": {"n": 1, "m": None}}


def test_alternatives_that_a_form_drops_are_not_part_of_the_relaxed_document() -> None:
    """A `oneOf` that the form first sends as `anyOf` and then drops has two weakenings, and the second one applies."""
    names = {"a": STRING, "b": STRING}
    document = {"type": "object", "properties": names, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    form = strict_form(JsonSchema.of(document), OPENAI).unwrap()

    assert form.back({"a": None, "b": None}) == {}
    assert form.relaxed.validate({}) == ()
