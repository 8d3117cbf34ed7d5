"""The request form of documents: what each API is sent, and the ways back."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Failure, Success

from fxai.schema import JsonSchema
from fxai.schema.request_form import CHAT, MESSAGES, RESPONSES, RequestForm, RequestRules, refusals, request_form
from fxai.schema.strict import ANTHROPIC, OPENAI
from fxai.schema.strict.form import without_weakenings
from tests.kit.floor_schema import schema_breaches

STRING = {"type": "string"}
A: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "description": "The a."}},
    "required": ["a"],
}
B: dict[str, Any] = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
OPENS = {"type": "object", "properties": {"b": STRING}, "additionalProperties": True}


def form_of(document: Any, rules: RequestRules = RESPONSES, **options: Any) -> RequestForm:
    """The form of a document, which must exist."""
    return request_form(JsonSchema.of(document), rules, **options).unwrap()


def sent(document: Any, rules: RequestRules = RESPONSES, **options: Any) -> dict[str, Any]:
    """The document in a request."""
    plain: dict[str, Any] = form_of(document, rules, **options).document.to_dict()
    return plain


def test_what_an_api_accepts_is_the_same_document() -> None:
    """Nothing is rewritten without need, and values are not copied."""
    document = JsonSchema.of({"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "default": {}})
    form = request_form(document, RESPONSES).unwrap()
    value: dict[str, Any] = {"a": [1]}

    assert form.document is document
    assert (form.rewrites, form.weakened, form.strict) == ((), (), None)
    assert form.back(value) is value


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
@pytest.mark.parametrize("strict", [None, OPENAI])
def test_variants_at_the_root_reach_the_model_in_a_property(union: str, strict: Any) -> None:
    """Their properties, requirements and descriptions are all there, and the arguments come back without it."""
    form = form_of({union: [A, B]}, strict=strict)
    (inner,) = form.document.to_dict()["properties"].values()

    assert [sorted(one["properties"]) for one in next(iter(inner.values()))] == [["a"], ["b"]]
    assert "The a." in str(inner)
    assert form.back({"value": {"a": "x"}}) == {"a": "x"}
    assert form.back({"a": "x"}) == {"a": "x"}  # a model that forgets the property is understood
    assert form.forth({"b": 1}) == Success({"value": {"b": 1}})
    assert (form.strict is None) is (strict is None)


def test_a_reference_at_the_root_is_followed() -> None:
    """The properties stay at the root."""
    document = {"$ref": "#/$defs/A", "$defs": {"A": A}}

    assert sent(document)["properties"] == A["properties"]
    assert form_of(document).back({"value": 1}) == {"value": 1}


def test_schemas_of_one_object_become_one() -> None:
    """`allOf` of objects keeps its properties at the root; a property of two schemas keeps both."""
    both = sent({"allOf": [A, B, {"properties": {"a": {"minLength": 2}}}], "description": "Both."})

    assert both["required"] == ["a", "b"]
    assert both["description"] == "Both."
    assert both["properties"]["a"] == {"allOf": [A["properties"]["a"], {"minLength": 2}]}


def test_schemas_that_cannot_be_one_keep_their_meaning() -> None:
    """A closed schema beside another one stays as it is, in a property."""
    closed = {**A, "additionalProperties": False}

    assert list(sent({"allOf": [closed, B]})["properties"]) == ["value"]


def test_alternatives_that_only_require_become_words() -> None:
    """The properties stay at the root, and validation by the original has the alternatives."""
    document: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    form = form_of(document)

    assert "anyOf" not in form.document.to_dict()
    assert 'JSON Schema anyOf: [{"required": ["a"]}' in form.document.get("description")
    assert [(one.pointer, one.keyword) for one in form.weakened] == [("", "anyOf")]
    assert without_weakenings(form.original, form.weakened).validate({}) == ()


def test_a_type_is_added_to_a_root_with_keywords_of_objects() -> None:
    """A root without a type is read as an object."""
    assert sent({"properties": {"a": {}}})["type"] == "object"
    assert sent({"type": ["object"], "properties": {}})["type"] == "object"


@pytest.mark.parametrize("document", [True, {}, {"description": "Anything."}])
def test_a_root_that_says_nothing_is_an_open_object(document: Any) -> None:
    """Objects pass unchanged; other values are in a property."""
    form = form_of(document)

    assert (form.document.get("type"), form.document.get("properties")) == ("object", {})
    for value in ({}, {"a": 1}, {"value": 1}, 3, None, [1]):
        assert form.back(form.forth(value).unwrap()) == value
    assert form.forth({"a": 1}) == Success({"a": 1})


@pytest.mark.parametrize(
    "document", [STRING, {"type": "array", "items": STRING}, {"type": ["object", "null"]}, {"enum": [1]}]
)
@pytest.mark.parametrize("rules", [RESPONSES, MESSAGES])
def test_a_root_of_another_type_is_in_a_property(document: Any, rules: RequestRules) -> None:
    """Each API is sent an object."""
    assert sent(document, rules)["required"] == ["value"]
    assert schema_breaches(sent(document, rules), "messages") == []


def test_missing_keywords_are_added_for_openai_alone() -> None:
    """`properties` at the root, and `items` of arrays at any depth; Anthropic needs neither."""
    document = {"type": "object", "additionalProperties": {"type": ["array", "null"]}}

    assert sent({"type": "object"}) == {"type": "object", "properties": {}}
    assert sent({"type": "object"}, MESSAGES) == {"type": "object"}
    assert sent(document)["additionalProperties"] == {"type": ["array", "null"], "items": {}}
    assert sent(document, MESSAGES) == document


def test_items_that_are_not_evaluated_become_the_items() -> None:
    """`unevaluatedItems` keeps its meaning."""
    array = {"type": "array", "prefixItems": [STRING], "unevaluatedItems": False}

    inner = sent({"type": "object", "properties": {"a": array}})["properties"]["a"]
    assert inner == {"type": "array", "prefixItems": [STRING], "items": False}


def test_refused_names_get_other_names_at_anthropic() -> None:
    """The names are distinct, the description has the original, and `required` follows."""
    names = ["$top", "top", "filter[id]", "x" * 70, "查询", "größe"]
    document = {"type": "object", "properties": dict.fromkeys(names, STRING), "required": ["$top", "top"]}
    for strict in (None, ANTHROPIC):
        form = form_of(document, MESSAGES, strict=strict)
        plain = form.document.to_dict()
        value = dict.fromkeys(names, "v")

        assert list(plain["properties"]) == ["top_2", "top", "filter_id", "x" * 64, "property_4", "gr_e"]
        assert plain["required"] == ["top_2", "top"]
        assert plain["properties"]["top_2"]["description"] == "parameter '$top'"
        assert form.back(form.forth(value).unwrap()) == value
        assert form.back({"$top": "kept"}) == {"$top": "kept"}
    assert sent(document, RESPONSES) == document


def test_both_names_in_one_call_are_not_overwritten() -> None:
    """A model that says a name and its alias keeps both, so that validation can refuse them."""
    form = form_of({"type": "object", "properties": {"$top": {}}}, MESSAGES)

    assert form.back({"top": 1, "$top": 2}) == {"top": 1, "$top": 2}
    assert isinstance(form.forth({"top": 1}), Failure)


@pytest.mark.parametrize(
    "more",
    [
        {"dependentRequired": {"$top": ["a"]}},
        {"propertyNames": {"maxLength": 4}},
        {"patternProperties": {"^t": STRING}},
        {"additionalProperties": STRING},
        {"$defs": {"again": {"$ref": "#"}}},
        {"if": {"required": ["$top"]}, "then": {"required": ["a"]}},
    ],
    ids=lambda more: next(iter(more)),
)
def test_names_that_other_keywords_use_move_into_a_property(more: dict[str, Any]) -> None:
    """Anthropic checks the names at the root alone, so below a property the document keeps them all."""
    document: dict[str, Any] = {"type": "object", "properties": {"$top": {}, "a": {}}, **more}
    form = form_of(document, MESSAGES)

    assert list(form.document.get("properties")) == ["value"]
    assert form.back(form.forth({"$top": 1, "a": "x"}).unwrap()) == {"$top": 1, "a": "x"}


def test_an_older_draft_is_rewritten_if_the_latest_refuses_it() -> None:
    """A tuple of draft 7 and an exclusive bound of draft 4 are none in 2020-12; other documents stay."""
    seventh: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {}},
    }
    pair = {"type": "array", "items": [STRING], "additionalItems": False}
    fourth = {"type": "number", "minimum": 1, "exclusiveMinimum": True}

    assert sent(seventh) == seventh
    assert sent({**seventh, "properties": {"a": pair}}, MESSAGES)["properties"]["a"] == {
        "type": "array",
        "prefixItems": [STRING],
        "items": False,
    }
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"n": fourth}}
    assert sent(old, MESSAGES)["properties"]["n"] == {"type": "number", "exclusiveMinimum": 1}


@pytest.mark.parametrize("document", [False, {"not": {}}])
def test_a_document_without_values_has_no_form(document: Any) -> None:
    """The obstacle states the reason."""
    (feature,) = request_form(JsonSchema.of(document), CHAT).failure()

    assert str(feature) == "/: schema: the schema accepts no value"


def test_refusals_names_every_broken_rule() -> None:
    """Each rule of OpenAI and of Anthropic is found at its place."""
    document: dict[str, Any] = {"oneOf": [{}], "enum": [{}], "properties": {"$a": {"type": "array"}}}

    assert [one.pointer for one in refusals(document, RESPONSES)] == [
        "/type",
        "/oneOf",
        "/enum",
        "/properties/$a/items",
    ]
    assert [one.pointer for one in refusals(document, MESSAGES)] == ["/type", "/oneOf", "/properties/$a"]
    assert list(refusals(A, RESPONSES)) == []


@pytest.mark.parametrize(("rules", "strict"), [(RESPONSES, OPENAI), (MESSAGES, ANTHROPIC)])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_alternative_without_properties_keeps_both_values(rules: RequestRules, strict: Any, is_first: bool) -> None:
    """The strict form converts the values of an object without properties and of an object with properties."""
    variants: list[dict[str, Any]] = [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": STRING}},
    ]
    form = form_of({"anyOf": variants if is_first else variants[::-1]}, rules, strict=strict)

    for value in ({}, {"a": "x"}):
        assert form.back(form.forth(value).unwrap()) == value
