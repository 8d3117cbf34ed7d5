"""Strict documents and structured output: the cases of the area `structured`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai.schema import Empty, JsonSchema, Schema, SchemaError
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictForm, StrictRules, strict_form
from tests.kit.conformance import Case, case

_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "finite": {"type": "number"},
    "int": {"type": "integer"},
    "boolean": {"type": "boolean"},
}


def _schema(given: Any) -> dict[str, Any]:
    """The JSON Schema that a case writes in the other system's words."""
    if isinstance(given, str):
        return {"const": given.strip("'")} if given.startswith("'") else _TYPES[given]
    words = {"description": given["description"]} if "description" in given else {}
    if "struct" in given:
        members = given["struct"]
        optional = {name for name, said in members.items() if isinstance(said, dict) and "optionalKey" in said}
        properties = {
            name: _schema(said["optionalKey"] if name in optional else said) for name, said in members.items()
        }
        required = [name for name in members if name not in optional]
        return {"type": "object", "properties": properties, "required": required, **words}
    if "tuple" in given:
        items = [_schema(said) for said in given["tuple"]]
        rest = {"items": _schema(given["rest"])} if "rest" in given else {"items": False}
        return {"type": "array", "prefixItems": items, "minItems": len(items), **rest, **words}
    if "record" in given:
        return {"type": "object", "additionalProperties": _schema(given["record"][1]), **words}
    if "oneOf" in given:
        return {"oneOf": [_schema(said) for said in given["oneOf"]]}
    if "array" in given:
        bounds = {"minItems": given["minLength"], "maxItems": given["maxLength"]}
        return {"type": "array", "items": _schema(given["array"]), **bounds}
    if "finite" in given:
        low, high = given["finite"]["between"]
        return {"type": "number", "minimum": low, "maximum": high}
    return {"type": "string", **given["string"]}


def _form(schema: dict[str, Any], rules: StrictRules = OPENAI) -> StrictForm:
    """The strict form of an object whose property `x` is the schema: providers take an object at the root."""
    root = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return strict_form(JsonSchema.of(root), rules).unwrap()


def _sent(schema: dict[str, Any], rules: StrictRules = OPENAI) -> Any:
    return _form(schema, rules).document.to_dict()["properties"]["x"]


@case("structured/150", "structured/151", "structured/153")
def test_the_rewritten_schema_and_the_values_both_ways(case: Case) -> None:
    """Optional keys, tuples and records are sent as the case says, and lead back.

    The other system makes optional keys nullable at Anthropic too, where fxai keeps them optional.
    """
    schema = _schema(case.given)

    for rules in (OPENAI,) if case.id == "structured/150" else (OPENAI, ANTHROPIC):
        form = _form(schema, rules)
        assert _sent(schema, rules) == case.expect["json_schema"]
        for strict, value in case.expect["decode"]:
            assert form.back({"x": strict}) == {"x": value}
        for value, strict in case.expect.get("encode", ()):
            assert form.forth({"x": value}) == Success({"x": strict})


@case("structured/152")
def test_what_comes_behind_a_tuple_is_an_array(case: Case) -> None:
    """The rest of a tuple is an array under `__rest__`, empty where there is none."""
    form, sent = _form(_schema(case.given)), _sent(_schema(case.given))

    assert sent["properties"]["__rest__"] == case.expect["json_schema.properties.__rest__"]
    assert sent["required"] == case.expect["required"]
    for value, strict in case.expect["encode"]:
        assert form.forth({"x": value}) == Success({"x": strict})
        assert form.back({"x": strict}) == {"x": value}


@case("structured/154")
def test_the_users_description_comes_behind_the_structural_one(case: Case) -> None:
    """What describes the rewrite stands first."""
    assert _sent(_schema(case.given))["description"] == case.expect["description"]


@case("structured/155")
def test_an_optional_record_leads_back(case: Case) -> None:
    """A record that may be left out is transformed once."""
    form = strict_form(JsonSchema.of(_schema({"struct": case.given["struct"]})), OPENAI).unwrap()

    assert form.back(case.given["input"]) == case.expect["decode"]
    assert form.back({"r": None}) == {}


@case("structured/156")
def test_no_parameters_is_a_closed_empty_object(case: Case) -> None:
    """No parameters are a closed object; that it has no properties is said in so many words to both providers."""
    document = Schema.of(Empty).document

    assert strict_form(document, OPENAI).unwrap().document.to_dict() == case.expect["openai"]
    assert strict_form(document, ANTHROPIC).unwrap().document.to_dict() == {
        **case.expect["anthropic"],
        "properties": {},
    }


@case("structured/157", "structured/159")
def test_what_a_string_is_held_to_becomes_prose(case: Case) -> None:
    """An unknown format and bounds of length are said in the description."""
    for rules in (OPENAI, ANTHROPIC):
        assert _sent(_schema(case.given), rules) == case.expect["json_schema"]


@case("structured/161", "structured/162")
def test_bounds_are_keywords_where_the_provider_has_them(case: Case) -> None:
    """OpenAI keeps the bounds of numbers and lengths beside the prose, Anthropic has the prose alone."""
    bounds = {"minimum", "maximum", "minItems", "maxItems"}
    for rules, expected in ((OPENAI, case.expect["openai"]), (ANTHROPIC, case.expect["anthropic"])):
        sent = _sent(_schema(case.given), rules)
        assert sent.items() >= expected.items()
        assert {keyword for keyword in sent if keyword in bounds} == {k for k in expected if k in bounds}
        assert sent["description"]


@case("structured/163")
def test_members_of_a_one_of_are_strict_too(case: Case) -> None:
    """`oneOf` is sent as `anyOf`, and each of its members keeps the rules."""
    branches = _sent(_schema(case.given))["anyOf"]

    assert [branch["additionalProperties"] for branch in branches] == [False, False]
    assert [branch["required"] for branch in branches] == [["k", "o"], ["k", "rec"]]


class _Unset(msgspec.Struct):
    value: int | msgspec.UnsetType = msgspec.UNSET


@case("structured/165")
def test_kinds_without_a_strict_form_are_named(case: Case) -> None:
    """What Python has of these kinds is refused by a message that says what stands where, or has a true form.

    `undefined` is `UNSET`, an optional property; a literal number of any size is an integer; an enumeration is the
    values it lists. Names that are no strings have no JSON Schema; what has no type, and what nothing can be, have
    no strict form.
    """
    assert case.given["kinds"]
    assert strict_form(Schema.of(_Unset).document, OPENAI).unwrap().back({"value": None}) == {}
    for kind, reason in ((object, "accepts any value"), (Any, "accepts any value")):
        (found,) = strict_form(Schema.of(msgspec.defstruct("S", [("x", kind)])).document, OPENAI).failure()
        assert found.pointer == "/properties/x"
        assert reason in found.reason
    with pytest.raises(SchemaError, match="complex"):
        Schema.of(dict[complex, int]).json_schema()
    impossible = JsonSchema.of({"type": "object", "properties": {"x": False}, "required": ["x"]})
    assert "no value" in strict_form(impossible, OPENAI).failure()[0].reason


@case("structured/166")
def test_the_root_must_be_an_object(case: Case) -> None:
    """An array or a union at the root is refused, by both providers."""
    for root in ({"type": "array", "items": _TYPES["int"]}, {"anyOf": [_schema({"struct": {"a": "int"}})] * 2}):
        document = JsonSchema.of(root)
        refused = [strict_form(document, rules) for rules in (OPENAI, ANTHROPIC)]
        assert [not isinstance(one, Success) for one in refused] == [case.expect["error"]] * 2


@case("structured/167")
def test_a_number_is_a_number(case: Case) -> None:
    """A plain number is no union with NaN and Infinity, which JSON has not."""
    document = Schema.of(msgspec.defstruct("S", [("x", float)])).document

    assert strict_form(document, OPENAI).unwrap().document.get("properties")["x"] == case.expect["json_schema"]
