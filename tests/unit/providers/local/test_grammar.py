"""Grammars: whatever a schema's grammar generates is valid under the schema; what cannot be kept is named."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fxai.providers.local import Bounds, grammar
from fxai.providers.local.grammar import choice_grammar
from fxai.schema import JsonSchema
from tests.kit.every import every
from tests.kit.gbnf import Gbnf

NODE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["value", "kids"],
        }
    },
    "$ref": "#/$defs/node",
}
LIST = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "value": {"type": "integer"}},
    "required": ["next", "value"],
}
TAGGED = [
    {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
    {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
]

EXACT: tuple[Any, ...] = (
    {"type": "string", "minLength": 3, "maxLength": 5},
    {"type": "string", "pattern": "^[a-z]+\\.(py|md)$", "maxLength": 12},
    {"type": "integer", "minimum": -5, "exclusiveMaximum": 123},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.55},
    {"type": "integer", "multipleOf": 5},
    {"type": ["string", "null"], "maxLength": 4},
    {"enum": [1, "a", None, {"x": [1]}, 'quo"te\n']},
    {"enum": ["a", "long", 3], "type": "string", "maxLength": 2},
    {"const": {"a": [True, 1.5]}},
    {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "array", "items": {"type": "null"}}]},
    {"oneOf": TAGGED},
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}}}]},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "number"}, {"minimum": 1}, {"maximum": 2}]}}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string", "maxLength": 3}], "items": False},
    {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 3, "items": {"type": "boolean"}},
    {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b", "c"]}, "minItems": 2},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}], "additionalItems": False},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"]},
    {"type": "object", "properties": {n: {"type": "null"} for n in "abcd"}, "minProperties": 1, "maxProperties": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "patternProperties": {"^x-[a-z]+$": {"type": "null"}}, "additionalProperties": False},
    {
        "properties": {"x-a": {}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "required": ["x-a"],
        "type": "object",
    },
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {"a": {}, "b": {}}, "propertyNames": {"maxLength": 1}, "required": ["b"]},
    {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}},
    {"type": "object", "properties": {"h": {"type": "object"}}, "required": ["h"]},
    {"type": "object", "properties": {'we"ird\n': {"type": "null"}}, "required": ['we"ird\n']},
    {"unevaluatedProperties": False, "allOf": [{"properties": {"a": {"type": "null"}}}], "type": "object"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "nobody-knows"},
    {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}},
    {"$ref": "#/$defs/n", "minimum": 3, "$defs": {"n": {"type": "integer", "maximum": 5}}},
    NODE,
    LIST,
    {},
    True,
)

REFUSED: tuple[tuple[Any, str, str], ...] = (
    ({"not": {"type": "string"}}, "", "not"),
    ({"type": "object", "properties": {"a": {"not": {}}}}, "/properties/a", "not"),
    ({"if": {"type": "string"}, "then": {"minLength": 1}}, "", "if"),
    ({"dependentSchemas": {"a": {}}}, "", "dependentSchemas"),
    ({"type": "array", "contains": {"const": 1}}, "", "contains"),
    ({"items": {"type": "string", "pattern": "(?=a)b"}, "type": "array"}, "/items", "pattern"),
    ({"$ref": "https://example.org/schema"}, "", "$ref"),
    ({"properties": {"a": {"$ref": "#/nowhere"}}, "type": "object"}, "/properties/a", "$ref"),
    ({"$ref": "#"}, "", "$ref"),
    ({"$dynamicRef": "#a"}, "", "$dynamicRef"),
    ({"type": "number", "multipleOf": 0.5}, "", "multipleOf"),
    ({"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 10**9}, "", "multipleOf"),
    ({"type": "object", "properties": {"a": {}}, "minProperties": 2}, "", "minProperties"),
    (False, "", "schema"),
    ({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}, "", "schema"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "", "schema"),
)


@given(st.sampled_from(EXACT), st.randoms(use_true_random=False))
def test_what_a_grammar_generates_is_valid(schema: Any, random: Random) -> None:
    """Any text that the grammar of a schema accepts is JSON, and valid under the schema."""
    made = grammar(schema).unwrap()
    value = json.loads(Gbnf(made.text).sample(random))

    assert JsonSchema.of(schema).validate(value) == ()


NUMBERS = st.integers(-20, 20)
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.just("integer")}, optional={"minimum": NUMBERS, "maximum": NUMBERS}),
    st.fixed_dictionaries({"type": st.just("number")}, optional={"exclusiveMinimum": NUMBERS, "maximum": NUMBERS}),
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": st.integers(0, 3), "maxLength": st.integers(3, 6)}
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from([1, "a", None, True, "bb"]), min_size=1, unique_by=repr)}),
    st.sampled_from([{"type": "boolean"}, {"type": ["null", "string"]}, {"const": [1, {"a": 2}]}, {}]),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from("abc")
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(names, inner, min_size=1)},
            optional={"required": st.lists(names, unique=True), "additionalProperties": st.just(False)},
        ),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"minItems": st.integers(0, 2), "maxItems": st.integers(2, 4)},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
    )


@given(st.recursive(LEAVES, _nested, max_leaves=6), st.randoms(use_true_random=False))
def test_what_any_grammar_generates_is_valid(schema: Any, random: Random) -> None:
    """The same of schemas that nobody chose: a grammar generates only what is valid, or says that it cannot."""
    made = grammar(schema).map(lambda found: Gbnf(found.text).sample(random)).value_or(None)

    assert made is None or JsonSchema.of(schema).validate(json.loads(made)) == ()


@every(("schema", "pointer", "keyword"), REFUSED)
def test_what_cannot_be_kept_is_named(schema: Any, pointer: str, keyword: str) -> None:
    """A schema that cannot become a grammar fails with the pointer and the keyword."""
    failure = grammar(schema).failure()

    assert (failure.pointer, failure.keyword) == (pointer, keyword)
    assert keyword in str(failure)


def test_open_objects_are_closed() -> None:
    """An object that declares properties generates these and no others, though its schema would let it."""
    made = Gbnf(grammar({"type": "object", "properties": {"a": {"type": "null"}}}).unwrap().text)

    assert made.accepts('{"a": null}')
    assert made.accepts("{}")
    assert not made.accepts('{"b": null}')


def test_what_would_not_end_ends() -> None:
    """Strings, arrays, maps and recursion have an end, which `Bounds` sets."""
    tight = Bounds(text=2, items=1, members=1, depth=1)
    text = Gbnf(grammar({"type": "string"}, tight).unwrap().text)
    items = Gbnf(grammar({"type": "array", "items": {"type": "null"}}, tight).unwrap().text)

    assert text.accepts('"ab"')
    assert not text.accepts('"abc"')
    assert items.accepts("[null]")
    assert not items.accepts("[null, null]")


def test_what_is_looser_than_the_schema_is_told() -> None:
    """`oneOf` and `uniqueItems` of items that cannot be listed are kept by validation, and the grammar says so."""
    assert grammar({"oneOf": TAGGED}).unwrap().loose == ("/oneOf",)
    assert grammar({"type": "array", "uniqueItems": True, "items": {"type": "string"}}).unwrap().loose == (
        "/uniqueItems",
    )
    assert grammar({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}).unwrap().loose == ()


def test_a_choice_is_one_of_its_options() -> None:
    """The grammar of a choice accepts its options, each after a blank, whatever characters they hold."""
    made = Gbnf(choice_grammar(("add", 'sa"y', "Über.x")).text)

    assert all(made.accepts(text) for text in (" add", ' sa"y', " Über.x"))
    assert not made.accepts("add")
