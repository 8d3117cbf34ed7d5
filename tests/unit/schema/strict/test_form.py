"""Strict forms: what is sent, what is said of it, and the ways between the values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from returns.result import Failure, Success

from fxai.schema import JsonSchema
from fxai.schema.location import DocumentReader, Site
from fxai.schema.strict import (
    ANTHROPIC,
    NULL_LOST,
    OPENAI,
    StrictForm,
    StrictRules,
    UnsupportedFeature,
    rule_faults,
    strict_form,
)
from tests.kit.every import every

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
NULL: dict[str, Any] = {"type": "null"}


def obj(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """An object that says nothing of other properties."""
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def closed(**properties: Any) -> dict[str, Any]:
    """An object of exactly these properties."""
    return {**obj(list(properties), **properties), "additionalProperties": False}


def form_of(document: dict[str, Any], rules: StrictRules = OPENAI) -> StrictForm:
    """The strict form, which has to keep the rules."""
    form = strict_form(JsonSchema.of(document), rules).unwrap()
    assert rule_faults(form.document, rules) == ()
    return form


def sent(document: dict[str, Any], rules: StrictRules = OPENAI) -> Any:
    """What is sent for the property `x`, which is required."""
    return form_of(obj(["x"], x=document), rules).document.to_dict()["properties"]["x"]


def unsupported(document: dict[str, Any], rules: StrictRules = OPENAI) -> list[tuple[str, str]]:
    """Pointer and keyword of everything that stands against a strict form."""
    return [(one.pointer, one.keyword) for one in strict_form(JsonSchema.of(document), rules).failure()]


def there_and_back(document: dict[str, Any], value: Any, rules: StrictRules = OPENAI) -> tuple[Any, Any]:
    """The strict value of a property `x`, and what it leads back to."""
    form = form_of(obj(["x"], x=document), rules)
    strict = form.forth({"x": value}).unwrap()
    return strict["x"], form.back(strict)["x"]


def test_optional_properties_are_required_and_nullable() -> None:
    """An optional property is nullable, and its null means that it is absent."""
    form = form_of(obj(["a"], a=STRING, b=INTEGER))

    assert form.document.to_dict() == {
        "type": "object",
        "properties": {"a": STRING, "b": {"anyOf": [INTEGER, NULL]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert form.back({"a": "x", "b": None}) == {"a": "x"}
    assert form.back({"a": "x", "b": 2}) == {"a": "x", "b": 2}
    assert form.forth({"a": "x"}) == Success({"a": "x", "b": None})
    assert form.weakened == ()


def test_a_required_property_keeps_its_null() -> None:
    """Null is a value where the property has to be there."""
    form = form_of(obj(["a"], a={"type": ["string", "null"]}))

    assert form.back({"a": None}) == {"a": None}


def test_defaults_and_examples_are_said_in_words() -> None:
    """What a provider has no keyword for is read by the model in the description."""
    said = sent({**INTEGER, "description": "How many.", "default": 5, "examples": [1, 2]})

    assert said == {"type": "integer", "description": "How many. default: 5; examples: 1, 2"}


@pytest.mark.parametrize(
    ("rules", "kept"),
    [(OPENAI, {"minimum": 1, "maximum": 9, "multipleOf": 2}), (ANTHROPIC, {})],
)
def test_bounds_are_kept_where_the_provider_has_them(rules: StrictRules, kept: dict[str, Any]) -> None:
    """Bounds are always said in words; a bound that is not carried is reported."""
    document = {**INTEGER, "minimum": 1, "maximum": 9, "multipleOf": 2}
    form = form_of(obj(["x"], x=document), rules)

    words = "a value between 1 and 9 and a value that is a multiple of 2"
    assert form.document.to_dict()["properties"]["x"] == {"type": "integer", "description": words, **kept}
    assert {one.keyword for one in form.weakened} == document.keys() - kept.keys() - {"type"}


def test_what_is_weakened_is_named_and_left_out_of_the_relaxed_document() -> None:
    """The report names pointer and keyword; the relaxed document is the original without them."""
    form = form_of(obj(["x"], x={"oneOf": [{**STRING, "minLength": 2}, INTEGER]}))

    assert [(one.pointer, one.keyword) for one in form.weakened] == [
        ("/properties/x", "oneOf"),
        ("/properties/x/oneOf/0", "minLength"),
    ]
    assert form.relaxed.to_dict()["properties"]["x"] == {"allOf": [{"anyOf": [STRING, INTEGER]}]}
    assert form.original.to_dict()["properties"]["x"] == {"oneOf": [{**STRING, "minLength": 2}, INTEGER]}


def test_maps_are_arrays_of_pairs() -> None:
    """Free names with values of one kind become pairs, and pairs a map again."""
    strict, back = there_and_back(
        {"type": "object", "additionalProperties": obj(["a"], a=STRING, b=STRING)}, {"k": {"a": "1"}}
    )

    assert strict == [{"0": "k", "1": {"a": "1", "b": None}}]
    assert back == {"k": {"a": "1"}}


def test_a_map_at_the_root_is_an_object() -> None:
    """Providers want an object at the root: the pairs stand under a property of their own."""
    form = form_of({"type": "object", "additionalProperties": STRING})

    assert form.document.get("required") == ["__rest__"]
    assert form.forth({"a": "b"}) == Success({"__rest__": [{"0": "a", "1": "b"}]})
    assert form.back({"__rest__": [{"0": "a", "1": "b"}]}) == {"a": "b"}


def test_declared_properties_and_free_ones_stand_side_by_side() -> None:
    """A pair under a declared name does not overwrite the property."""
    document = {**obj(["a"], a=STRING), "additionalProperties": INTEGER}
    strict, back = there_and_back(document, {"a": "x", "b": 1})
    form = form_of(obj(["x"], x=document))

    assert strict == {"a": "x", "__rest__": [{"0": "b", "1": 1}]}
    assert back == {"a": "x", "b": 1}
    assert form.back({"x": {"a": "x", "__rest__": [{"0": "a", "1": 1}]}}) == {"x": {"a": "x"}}


def test_a_property_called_like_ours_keeps_its_name() -> None:
    """The property of the free names makes way for one of the same name."""
    strict, back = there_and_back(
        {**obj(["__rest__"], __rest__=STRING), "additionalProperties": INTEGER}, {"__rest__": "x", "b": 1}
    )

    assert strict == {"__rest__": "x", "___rest___": [{"0": "b", "1": 1}]}
    assert back == {"__rest__": "x", "b": 1}


def test_names_of_one_pattern_are_a_map() -> None:
    """The first of each pair carries the pattern of the names, with and without other properties."""
    for others in ({}, {"additionalProperties": False}):
        document = {"type": "object", "patternProperties": {"^x-": INTEGER}, **others}

        assert sent(document)["items"]["properties"]["0"] == {"type": "string", "pattern": "^x-"}
        assert there_and_back(document, {"x-1": 1}) == ([{"0": "x-1", "1": 1}], {"x-1": 1})


TUPLES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"prefixItems": [STRING, INTEGER], "minItems": 2, "maxItems": 2}, ["a", 1], {"0": "a", "1": 1}),
    ({"prefixItems": [STRING], "items": INTEGER, "minItems": 1}, ["a", 1, 2], {"0": "a", "__rest__": [1, 2]}),
    ({"prefixItems": [STRING, INTEGER], "items": False}, ["a"], {"0": "a"}),
    ({"prefixItems": [STRING, INTEGER], "items": False}, [], {}),
    ({"prefixItems": [obj(a=STRING)], "items": False, "minItems": 1}, [{}], {"0": {"a": None}}),
]


@every(("document", "value", "strict"), TUPLES)
def test_tuples_are_objects_with_numbers_as_names(document: dict[str, Any], value: Any, strict: Any) -> None:
    """Each length that a tuple may have is an object of its own; what comes behind is an array."""
    assert there_and_back({"type": "array", **document}, value) == (strict, value)


def test_older_drafts_are_read_as_they_mean() -> None:
    """Tuples by `items`, `definitions`, boolean exclusive bounds, and `$ref` that hides what is beside it."""
    document = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **obj(
            ["t", "d"],
            t={"type": "array", "items": [STRING, INTEGER], "additionalItems": False, "minItems": 2},
            d={"$ref": "#/definitions/d", "minimum": 100},
        ),
        "definitions": {"d": {**INTEGER, "minimum": 0, "exclusiveMinimum": True}},
    }
    form = form_of(document)

    assert form.document.to_dict()["$defs"]["d"]["exclusiveMinimum"] == 0
    assert "$schema" not in form.document.to_dict()
    assert form.forth({"t": ["a", 1], "d": 1}) == Success({"t": {"0": "a", "1": 1}, "d": 1})
    assert form.back({"t": {"0": "a", "1": 1}, "d": 1}) == {"t": ["a", 1], "d": 1}


def test_unions_lead_back_by_the_branch_that_fits() -> None:
    """The members of a union are rewritten too, and a value goes the way of the branch that it is of."""
    document = {
        "oneOf": [
            obj(["k"], k={"const": "a"}, o=STRING),
            obj(["k"], k={"const": "b"}, r={"type": "object", "additionalProperties": STRING}),
        ]
    }

    assert there_and_back(document, {"k": "a"}) == ({"k": "a", "o": None}, {"k": "a"})
    assert there_and_back(document, {"k": "b", "r": {"x": "y"}})[1] == {"k": "b", "r": {"x": "y"}}


def test_what_stands_beside_a_union_goes_into_its_branches() -> None:
    """Properties beside `anyOf` hold in each of its branches, and so do the branches' own."""
    document = {**obj(["a"], a=STRING), "anyOf": [obj(b=STRING), obj(["c"], c=STRING)]}
    branches = sent(document)["anyOf"]

    assert [list(branch["properties"]) for branch in branches] == [["a", "b"], ["a", "c"]]
    assert there_and_back(document, {"a": "1", "c": "2"})[1] == {"a": "1", "c": "2"}


def test_all_of_is_one_object() -> None:
    """`allOf` is joined: properties, what is required, the stricter bounds."""
    document = {"allOf": [obj(["a"], a={**INTEGER, "minimum": 1}), obj(a={"maximum": 5}, b=STRING)]}
    said = sent(document)

    assert said["properties"]["a"] == {
        "type": "integer",
        "description": "a value between 1 and 5",
        "minimum": 1,
        "maximum": 5,
    }
    assert said["required"] == ["a", "b"]


def test_references_are_kept_and_words_beside_them_too() -> None:
    """A definition is sent once. Annotations beside a reference describe a union of the reference."""
    document = {
        **obj(
            ["a", "b", "c"],
            a={"$ref": "#/$defs/p"},
            b={"$ref": "#/$defs/p"},
            c={"$ref": "#/$defs/p", "description": "Here."},
        ),
        "$defs": {"p": {**obj(["v"], v=STRING), "description": "A point."}},
    }
    form = form_of(document)
    said = form.document.to_dict()

    assert said["properties"]["a"] == said["properties"]["b"] == {"$ref": "#/$defs/p"}
    assert said["$defs"]["p"]["description"] == "A point."
    assert said["properties"]["c"] == {"description": "Here.", "anyOf": [{"$ref": "#/$defs/p"}]}


def test_recursion_is_kept_where_the_provider_takes_it() -> None:
    """OpenAI takes a schema that refers to itself, also the root; Anthropic does not."""
    tree = obj(["v"], v=INTEGER, kids={"type": "array", "items": {"$ref": "#"}})
    form = form_of(tree)

    assert form.forth({"v": 1, "kids": [{"v": 2}]}) == Success({"v": 1, "kids": [{"v": 2, "kids": None}]})
    assert form.back({"v": 1, "kids": [{"v": 2, "kids": None}]}) == {"v": 1, "kids": [{"v": 2}]}
    assert [keyword for _, keyword in unsupported(tree, ANTHROPIC)] == ["$ref"]


@every(
    ("document", "expected"),
    [
        ({**obj(), "additionalProperties": True}, ("/properties/x", "additionalProperties")),
        ({"type": "object"}, ("/properties/x", "properties")),
        ({}, ("/properties/x", "type")),
        ({"properties": {"a": STRING}}, ("/properties/x", "type")),
        ({"type": "array"}, ("/properties/x", "items")),
        ({"type": "array", "prefixItems": [STRING]}, ("/properties/x", "items")),
        ({"type": "object", "required": ["a"]}, ("/properties/x", "required")),
        ({"enum": [{"a": 1}]}, ("/properties/x", "enum")),
        ({"type": "object", "patternProperties": {"a": STRING, "b": STRING}}, ("/properties/x", "patternProperties")),
        ({**obj(xa=STRING), "patternProperties": {"^x": INTEGER}}, ("/properties/x", "patternProperties")),
        ({"type": "object", "patternProperties": {"^(?!x)": STRING}}, ("/properties/x", "patternProperties")),
        ({**obj(a=STRING), "if": {"required": ["a"]}, "then": obj(["b"], b=STRING)}, ("/properties/x", "if")),
        ({**obj(a=STRING), "dependentSchemas": {"a": obj(b=STRING)}}, ("/properties/x", "dependentSchemas")),
    ],
)
def test_what_cannot_be_strict_is_named(document: dict[str, Any], expected: tuple[str, str]) -> None:
    """An obstacle says where it stands and by which keyword."""
    assert unsupported(obj(x=document)) == [expected]


def test_every_obstacle_is_found() -> None:
    """Three places that cannot be strict are three obstacles, each with its reason."""
    found = strict_form(JsonSchema.of(obj(a={}, b={"type": "object"}, c=STRING, d={"type": "array"})), OPENAI).failure()

    assert [one.pointer for one in found] == ["/properties/a", "/properties/b", "/properties/d"]
    assert str(found[0]) == "/properties/a: type: the schema accepts any value, so declare its type"


@pytest.mark.parametrize(
    "document", [{"type": "array", "items": STRING}, {"anyOf": [obj(a=STRING), obj(b=STRING)]}, {}]
)
def test_the_root_is_one_object(document: dict[str, Any]) -> None:
    """Providers take no array and no union at the root."""
    assert [pointer for pointer, _ in unsupported(document)] == [""]


def test_alternatives_of_what_is_required_are_weakened_at_the_root() -> None:
    """At the root, a union that only narrows is said in words instead."""
    form = form_of({**obj(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})

    assert [(one.pointer, one.keyword) for one in form.weakened] == [("", "anyOf")]
    assert "required" in form.document.get("description")


def test_a_schema_closes_its_object_to_what_its_cousins_describe() -> None:
    """`additionalProperties` and `unevaluatedProperties` look at their own schema, not at those beside it."""
    closed = {"allOf": [obj(a=STRING), {**obj(b=STRING), "additionalProperties": False}]}
    unevaluated = {"allOf": [obj(a=STRING), {**obj(b=STRING), "unevaluatedProperties": False}]}

    assert sent(closed)["required"] == sent(unevaluated)["required"] == ["b"]


def test_items_that_others_looked_at_are_not_closed_out() -> None:
    """`unevaluatedItems` is weakened where a schema inside may have looked at the items before."""
    document = {"type": "array", "allOf": [{"items": STRING}], "unevaluatedItems": False}
    form = form_of(obj(["x"], x=document))

    assert there_and_back(document, ["a"]) == (["a"], ["a"])
    assert [(one.pointer, one.keyword) for one in form.weakened] == [("/properties/x", "unevaluatedItems")]


@pytest.mark.parametrize("keyword", ["contains", "not", "if"])
def test_what_no_provider_carries_is_weakened(keyword: str) -> None:
    """Keywords without a form are named, said in words, and held by the validation of the original."""
    said: dict[str, Any] = {keyword: False, "then": False} if keyword == "if" else {keyword: False}
    form = form_of(obj(["x"], x={"type": "array", "items": STRING, **said}))

    assert [one.keyword for one in form.weakened] == [keyword]
    assert keyword in form.document.to_dict()["properties"]["x"]["description"]
    assert form.relaxed.validate({"x": []}) == ()


def test_an_integer_of_draft_4_is_written_as_one() -> None:
    """Draft 4 does not take `3.0` for an integer: it leads back as 3."""
    document = {"$schema": "http://json-schema.org/draft-04/schema#", **obj(["x"], x=INTEGER)}

    assert type(form_of(document).back({"x": 3.0})["x"]) is int


def test_what_is_nothing_is_left_out() -> None:
    """A branch that nothing can be an instance of is no branch, and such a property is not offered."""
    form = form_of(obj(a={"anyOf": [{"not": {}}, STRING]}, b=False))

    assert form.document.get("properties") == {"a": {"anyOf": [STRING, NULL]}}


def test_what_was_not_recognised_stays_for_the_validation() -> None:
    """A model that was not held to the schema is not corrected in silence: its value goes on as it is."""
    form = form_of(obj(["m"], m={"type": "object", "additionalProperties": INTEGER}))

    assert form.back({"m": {"a": 1}}) == {"m": {"a": 1}}
    assert form.back({"m": "no"}) == {"m": "no"}
    assert form.back([1]) == [1]
    assert form.back({"m": [{"0": "a"}], "z": 1}) == {"m": [{"0": "a"}], "z": 1}


def test_a_value_without_a_strict_form_is_a_failure() -> None:
    """An undeclared property is not dropped on the way there."""
    form = form_of(obj(a=STRING))

    assert isinstance(form.forth({"a": "x", "b": 1}), Failure)
    assert isinstance(form.forth({"a": 1}), Failure)


def test_forms_are_made_once() -> None:
    """The same document and rules give the same form."""
    document = obj(a=STRING)

    assert strict_form(JsonSchema.of(document), OPENAI) is strict_form(JsonSchema.of(document), OPENAI)


def test_obstacles_are_values() -> None:
    """An obstacle compares, hashes and pickles."""
    one = UnsupportedFeature("/a", "type", "why")

    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, UnsupportedFeature("/a", "type", "why")}) == 1


def test_what_is_nested_beyond_reason_is_an_obstacle() -> None:
    """A schema of very many levels is refused, not a crash."""
    schema: dict[str, Any] = STRING
    for _ in range(60):
        schema = obj(a=schema)

    assert unsupported(schema)[0][1] == "schema"


def test_a_schema_bomb_is_an_obstacle() -> None:
    """Unions that multiply without end are refused, by one obstacle, before they fill the memory."""
    many = [{"anyOf": [obj([f"p{i}{j}"], **{f"p{i}{j}": STRING}) for j in range(4)]} for i in range(12)]

    assert [keyword for _, keyword in unsupported(obj(x={"allOf": many}))] == ["schema"]


# ---- null, and what is left out

MARK: dict[str, Any] = {
    "type": "object",
    "properties": {"__null__": {"type": "boolean", "enum": [True]}},
    "required": ["__null__"],
    "additionalProperties": False,
}
NO: dict[str, Any] = {"$ref": "#/$defs/no"}
MAYBE: dict[str, Any] = {"anyOf": [INTEGER, NULL]}


def lost(document: dict[str, Any], rules: StrictRules = OPENAI) -> list[str]:
    """Where a null is lost, by the report."""
    return [one.pointer for one in form_of(document, rules).weakened if one.reason == NULL_LOST]


def test_an_optional_property_stays_optional_at_anthropic() -> None:
    """No null stands for absence, so each value comes back exactly, and the report lists nothing."""
    document = obj(limit={**MAYBE, "default": 10}, name=STRING)
    form = form_of(document, ANTHROPIC)

    assert lost(document, ANTHROPIC) == []
    assert form.document.to_dict()["properties"] == {"limit": {"description": "default: 10", **MAYBE}, "name": STRING}
    assert "required" not in form.document.to_dict()
    for value in ({}, {"limit": None}, {"limit": 3}, {"limit": None, "name": "x"}):
        assert form.back(value) == form.forth(value).unwrap() == value


def test_alternatives_that_share_their_optional_properties_are_ambiguous_at_anthropic() -> None:
    """If `{}` is an instance of two alternatives with different ways back, the schema has no strict form."""
    pairs = {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [STRING], "items": False}}}
    other = {"type": "object", "properties": {"a": obj(**{"0": STRING}), "b": STRING}}

    assert unsupported(obj(x={"anyOf": [pairs, other]}), ANTHROPIC) == [("/properties/x", "anyOf")]


def test_a_null_that_means_something_else_than_left_out_is_listed_and_told() -> None:
    """Where null is taken and is not the default, the report names the place, and the model reads what null means."""
    document = obj(limit={**MAYBE, "default": 10, "description": "How many."})
    form = form_of(document)

    assert lost(document) == ["/properties/limit"]
    assert form.document.to_dict()["properties"]["limit"] == {
        "description": "How many. default: 10; null means that the property is absent",
        **MAYBE,
    }
    assert form.back({"limit": None}) == {}


def test_a_null_without_a_default_is_listed() -> None:
    """A property without a default that may be null can be left out, null or a value: one of them cannot be said."""
    assert lost(obj(a=MAYBE, b=STRING, c=NULL)) == ["/properties/a", "/properties/c"]


def test_a_null_that_is_the_default_is_not_listed() -> None:
    """Nothing is lost where leaving out means null, and nothing is said."""
    document = obj(limit={**MAYBE, "default": None})

    assert form_of(document).weakened == ()
    assert form_of(document).document.to_dict()["properties"]["limit"] == MAYBE


@every(
    ("schema", "takes"),
    [
        ({"enum": ["a", None]}, True),
        ({"enum": ["a"]}, False),
        ({"const": None}, True),
        ({"type": ["string", "null"], "not": {"type": "null"}}, False),
        ({"type": ["string", "null"], "not": {"type": "string", "minLength": 9}}, True),
        ({"allOf": [MAYBE, INTEGER]}, False),
        ({"allOf": [MAYBE, {"$ref": "#/$defs/maybe"}]}, True),
        ({"oneOf": [NULL, MAYBE]}, False),
        ({"oneOf": [NULL, STRING]}, True),
        ({"$ref": "#/$defs/maybe"}, True),
        ({"$ref": "#/$defs/sure"}, False),
        ({"type": ["integer", "null"], "if": NULL, "then": INTEGER}, False),
        ({"type": ["integer", "null"], "if": INTEGER, "else": {"enum": [None]}}, True),
        ({"type": ["integer", "null"], "if": INTEGER, "else": {"const": 3}}, False),
    ],
)
def test_what_takes_null_is_told_by_the_original(schema: dict[str, Any], takes: bool) -> None:
    """Every keyword that decides about null does, wherever it stands: only what takes null can lose it."""
    document = {**obj(x=schema), "$defs": {"maybe": {"type": ["integer", "null"]}, "sure": INTEGER}}

    assert lost(document) == (["/properties/x"] if takes else [])
    assert (JsonSchema.of(document).validate({"x": None}) == ()) is takes


def test_a_default_is_found_where_a_reference_leads() -> None:
    """The default may stand beside a reference, in what it names, or in one part of an allOf."""
    document = {
        **obj(a=NO, b={**NO, "default": 3}, c={"allOf": [MAYBE, {"default": None}]}),
        "$defs": {"no": {**MAYBE, "default": None}},
    }

    assert lost(document) == ["/properties/b"]


def test_null_and_left_out_can_be_told_apart() -> None:
    """With `explicit_null` an object that nothing else can be stands for null, and every value comes back exactly."""
    document = JsonSchema.of(obj(limit={**MAYBE, "default": 10}, name=STRING))
    form = strict_form(document, OPENAI, explicit_null=True).unwrap()

    assert rule_faults(form.document, OPENAI) == ()
    assert form.weakened == ()
    assert form.document.to_dict()["properties"]["limit"] == {
        "description": 'default: 10; null means that the property is absent, {"__null__": true} means null',
        "anyOf": [INTEGER, NULL, MARK],
    }
    assert form.document.to_dict()["properties"]["name"] == {"anyOf": [STRING, NULL]}
    for value in ({}, {"limit": None}, {"limit": 3}, {"limit": None, "name": "x"}):
        assert form.back(form.forth(value).unwrap()) == value


def test_an_object_that_has_the_marks_name_is_told_from_it() -> None:
    """Where the document uses the name of the mark itself, the mark has another one."""
    inner = {"type": "object", "properties": {"__null__": {"type": "boolean"}}, "required": ["__null__"]}
    document = JsonSchema.of(obj(x={"anyOf": [inner, NULL]}))
    form = strict_form(document, OPENAI, explicit_null=True).unwrap()

    for value in ({"x": {"__null__": True}}, {"x": None}, {}):
        assert form.back(form.forth(value).unwrap()) == value
    assert form.forth({"x": None}) == Success({"x": {"___null___": True}})


def test_what_nearly_is_the_mark_is_refused_at_its_place() -> None:
    """An object that only looks like the mark stays as it is, to be refused by the original."""
    form = strict_form(JsonSchema.of(obj(x=MAYBE)), OPENAI, explicit_null=True).unwrap()

    assert form.back({"x": {"__null__": False}}) == {"x": {"__null__": False}}
    assert form.back({"x": {"__null__": True, "y": 1}}) == {"x": {"__null__": True, "y": 1}}
    assert [fault.pointer for fault in form.original.validate(form.back({"x": {"__null__": False}}))] == ["/x"]


def test_a_required_property_and_one_that_takes_no_null_need_no_mark() -> None:
    """What null can only mean one thing in is sent as without the option."""
    document = JsonSchema.of(obj(["a"], a=MAYBE, b=INTEGER))

    kept = strict_form(document, OPENAI, explicit_null=True).unwrap()
    assert kept.document == strict_form(document, OPENAI).unwrap().document


# ---- listed values and tuples, at their edges


@every(
    ("kind", "listed", "kept"),
    [
        ("integer", [1.0, 2.5, 3, "x", True, None], {"type": "number", "enum": [1.0, 3]}),
        ("integer", [4.0, 2.5], {"type": "number", "enum": [4.0]}),
        ("integer", [1, 2.5], {"type": "integer", "enum": [1]}),
        ("number", [1, "x", False], {"type": "integer", "enum": [1]}),
        ("number", [1, 2.5], {"type": "number", "enum": [1, 2.5]}),
        ("string", [1.0, "x"], {"type": "string", "enum": ["x"]}),
        ("boolean", [0, 1, True], {"type": "boolean", "enum": [True]}),
        ("boolean", [True, False, 1], {"type": "boolean"}),
        ("null", [0, None, False], {"type": "null"}),
    ],
)
def test_listed_values_are_those_of_the_type(kind: str, listed: list[Any], kept: dict[str, Any]) -> None:
    """Of the values that are listed, those that the type takes are sent, `1.0` as the integer that it is."""
    schema = {"type": kind, "enum": listed}

    assert sent(schema) == kept
    for value in listed:
        assert (JsonSchema.of(schema).validate(value) == ()) is (JsonSchema.of(kept).validate(value) == ())


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=lambda rules: rules.name)
def test_a_tuple_has_a_form_for_exactly_its_lengths(rules: StrictRules) -> None:
    """An array that is shorter or longer than the tuple has none; with a rest, a longer one has."""
    pair: dict[str, Any] = {"type": "array", "prefixItems": [STRING, INTEGER], "minItems": 2, "maxItems": 2}
    more: dict[str, Any] = {"type": "array", "prefixItems": [STRING, INTEGER], "minItems": 2, "items": INTEGER}
    exact, longer = form_of(obj(["x"], x=pair), rules), form_of(obj(["x"], x=more), rules)

    assert exact.forth({"x": ["a", 1]}) == Success({"x": {"0": "a", "1": 1}})
    others: list[Any] = [[], ["a"], ["a", 1, 2], "a", {}]
    assert [isinstance(exact.forth({"x": one}), Failure) for one in others] == [True] * 5
    short: Any = exact.forth({"x": ["a"]})
    assert "must be an array of 2 items" in str(short.failure())
    assert longer.forth({"x": ["a", 1, 2, 3]}) == Success({"x": {"0": "a", "1": 1, "__rest__": [2, 3]}})
    alone: dict[str, Any] = {"x": {"0": "a", "1": 1, "__rest__": []}}
    assert longer.forth({"x": ["a", 1]}) == Success(alone)
    assert isinstance(longer.forth({"x": ["a"]}), Failure)
    assert longer.back({"x": {"0": "a", "1": 1, "__rest__": [2]}}) == {"x": ["a", 1, 2]}
    assert longer.back({"x": {"0": "a", "1": 1}}) == {"x": ["a", 1]}
    assert longer.back({"x": {"0": "a"}}) == {"x": {"0": "a"}}
    assert longer.back({"x": {"0": "a", "1": 1, "__rest__": 2}}) == {"x": {"0": "a", "1": 1, "__rest__": 2}}


def test_an_empty_tuple_place_is_no_obstacle() -> None:
    """A tuple of any of its lengths is sent by each of them, and each comes back."""
    some: dict[str, Any] = {"type": "array", "prefixItems": [STRING, INTEGER], "items": False}

    for value in ([], ["a"], ["a", 1]):
        assert there_and_back(some, value)[1] == value


def test_a_schema_declares_what_any_schema_for_the_same_value_speaks_of() -> None:
    """Names stand under unions, conditions, references and dependent schemas; a list of names declares none."""
    inner: dict[str, Any] = {
        "allOf": [{"properties": {"a": {}}}],
        "anyOf": [{"properties": {"b": {}}}],
        "oneOf": [{"$ref": "#/$defs/c"}],
        "if": {"properties": {"d": {}}},
        "then": {"properties": {"e": {}}},
        "else": {"properties": {"f": {}}},
        "not": {"properties": {"g": {}}},
        "dependentSchemas": {"x": {"properties": {"h": {}}}, "y": False},
        "dependencies": {"x": {"properties": {"i": {}}}, "y": ["z"], "w": True},
        "$defs": {"c": {"properties": {"c": {}}}},
    }
    reader = DocumentReader(inner)

    assert reader.declared_names(reader.root) == set("abcdefghi")
    assert reader.declared_names(
        Site("", {"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}})
    ) == {
        "/patternProperties",
        "/additionalProperties",
    }


def test_only_names_that_are_declared_are_evaluated() -> None:
    """Where nothing unevaluated may be, the names that schemas speak of are all that there are."""
    reader = DocumentReader({"properties": {"a": {}}, "unevaluatedProperties": False})
    free = DocumentReader({"patternProperties": {"^a": {}}, "unevaluatedProperties": False})

    for _ in range(2):
        assert [reader.allows(reader.root, name) for name in ("a", "b")] == [True, False]
        assert free.allows(free.root, "b")
    assert reader.allows(Site("/x", {"properties": {"a": {}}}), "b")


# ---- unions of which one strict value could be two alternatives

EMPTY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
LIST: dict[str, Any] = {"type": "array", "items": STRING}
MAP: dict[str, Any] = {"type": "object", "additionalProperties": STRING}


def tuple_of(*items: Any, least: int | None = None) -> dict[str, Any]:
    """An array of these items; the last ones may be missing where `least` is fewer."""
    fewest = len(items) if least is None else least
    return {"type": "array", "prefixItems": list(items), "items": False, "minItems": fewest}


AMBIGUOUS: list[list[Any]] = [
    [EMPTY, tuple_of(STRING, least=0)],
    [tuple_of(STRING, least=0), EMPTY],
    [{**EMPTY, **tuple_of(STRING, least=0), "type": ["object", "array"]}],
    [MAP, LIST],
    [LIST, MAP],
    [MAP, {"type": "array", "items": tuple_of(STRING, STRING)}],
    [closed(**{"0": STRING}), tuple_of(STRING)],
    [{**obj(["0"], **{"0": STRING}), "additionalProperties": STRING}, {**tuple_of(STRING), "items": LIST}],
    [closed(a=EMPTY), closed(a=tuple_of(STRING, least=0))],
    [{"type": "array", "items": MAP}, {"type": "array", "items": LIST}],
    [LIST, {"anyOf": [MAP, INTEGER]}, {"type": "array", "items": MAP}],
    [{"$ref": "#/$defs/map"}, {"$ref": "#/$defs/list"}],
]


@every("rules", [OPENAI, ANTHROPIC], ids=lambda rules: rules.name)
@every("alternatives", AMBIGUOUS)
def test_alternatives_of_one_strict_value_have_no_strict_form(alternatives: list[Any], rules: StrictRules) -> None:
    """If a strict value can match two alternatives with different originals, the union is unsupported."""
    document = {**obj(["x"], x={"anyOf": alternatives}), "$defs": {"map": MAP, "list": LIST}}

    found = unsupported(document, rules)

    assert {keyword for _, keyword in found} == {"anyOf"}
    assert all(pointer.startswith("/properties/x") for pointer, _ in found)


def test_alternatives_of_different_strict_values_stay() -> None:
    """Alternatives without a common strict value stay in the strict form."""
    document = {"anyOf": [MAP, closed(a=STRING, b=LIST), obj(["a"], a=STRING, c=STRING), INTEGER]}

    assert there_and_back(document, {"b": "c"})[1] == {"b": "c"}
    assert there_and_back(document, {"a": "b", "b": []})[1] == {"a": "b", "b": []}


def test_a_null_and_absence_of_two_alternatives_are_ambiguous() -> None:
    """With `explicit_null`, an absent property in one alternative looks like a null in another alternative."""
    document = {"anyOf": [obj(a=INTEGER), obj(["a"], a={"type": ["string", "null"]})]}
    form = strict_form(JsonSchema.of(obj(["x"], x=document)), OPENAI, explicit_null=True)

    assert [one.keyword for one in form.failure()] == ["anyOf"]


def test_alternatives_that_a_recursion_confuses_are_an_obstacle() -> None:
    """Where an alternative refers to what is still being read, it cannot be told apart: the union is named."""
    document = {
        **obj(["x"], x={"$ref": "#/$defs/t"}),
        "$defs": {"t": {"anyOf": [{"type": "array", "items": {"anyOf": [MAP, {"$ref": "#/$defs/t"}]}}, STRING]}},
    }

    assert unsupported(document) == [("/$defs/t/anyOf/0/items", "anyOf")]
