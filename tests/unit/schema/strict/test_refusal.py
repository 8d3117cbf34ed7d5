"""The rules of strict mode, held against documents that providers are known to refuse or to take."""

from __future__ import annotations

from typing import Any

from fxai.schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, OPENAI_HOST, StrictRules, rule_faults, strict_form
from tests.kit.every import every

STRING: dict[str, Any] = {"type": "string"}
NONE: list[str] = []


def closed(**properties: Any) -> dict[str, Any]:
    """A closed object, each property required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    """Objects in objects, so many levels of them."""
    schema = closed(leaf=STRING)
    for _ in range(levels - 1):
        schema = closed(inner=schema)
    return schema


RECURSIVE = {
    **closed(tree={"$ref": "#/$defs/tree"}),
    "$defs": {"tree": closed(kids={"type": "array", "items": {"$ref": "#/$defs/tree"}})},
}
IN_A_CIRCLE = {
    **closed(a={"$ref": "#/$defs/a"}),
    "$defs": {"a": closed(b={"$ref": "#/$defs/b"}), "b": closed(a={"$ref": "#/$defs/a"})},
}
SHARED = {**closed(a={"$ref": "#/$defs/p"}, b={"$ref": "#/$defs/p"}), "$defs": {"p": closed(x=STRING)}}


@every(
    "document",
    [
        closed(a=STRING),
        closed(a={"anyOf": [STRING, {"type": "null"}]}),
        closed(a={"type": ["string", "null"]}),
        closed(a={"type": "array", "items": closed(b=STRING)}),
        closed(a={"type": "string", "enum": ["x", "y"]}, b={"const": 3}),
        closed(a={"type": "string", "format": "date-time", "pattern": "^[0-9]+"}),
        SHARED,
        nested(10),
        {**closed(), "description": "Nothing.", "title": "Nothing"},
    ],
)
@every("rules", [OPENAI, ANTHROPIC])
def test_documents_within_the_rules_pass(document: dict[str, Any], rules: StrictRules) -> None:
    """A closed object with required properties of known types is taken by both providers."""
    assert rule_faults(document, rules) == ()
    assert rule_faults(JsonSchema.of(document), rules) == ()


@every(
    ("document", "pointer"),
    [
        ({"type": "object", "properties": {"a": STRING}, "required": ["a"]}, "/additionalProperties"),
        ({**closed(a=STRING), "additionalProperties": True}, "/additionalProperties"),
        ({**closed(a=STRING), "additionalProperties": {"type": "string"}}, "/additionalProperties"),
        (closed(a={"type": "object"}), "/properties/a/additionalProperties"),
        (closed(a={}), "/properties/a"),
        (closed(a=True), "/properties/a"),
        (closed(a={"description": "No type."}), "/properties/a"),
        (closed(a={"type": "array"}), "/properties/a/items"),
        (closed(a={"oneOf": [STRING]}), "/properties/a/oneOf"),
        (closed(a={"not": STRING}), "/properties/a/not"),
        (closed(a={"type": "string", "contentEncoding": "base64"}), "/properties/a/contentEncoding"),
        (closed(a={"type": "string", "format": "int32"}), "/properties/a/format"),
        (closed(a={"type": "string", "pattern": "^(?!x)"}), "/properties/a/pattern"),
        (closed(a={"type": "array", "items": STRING, "uniqueItems": True}), "/properties/a/uniqueItems"),
        (closed(a={"type": "array", "prefixItems": [STRING], "items": STRING}), "/properties/a/prefixItems"),
        (closed(a={"enum": [{"b": 1}]}), "/properties/a/enum"),
        ({"type": "array", "items": STRING}, "/type"),
        ({"anyOf": [closed(a=STRING), closed(b=STRING)]}, "/anyOf"),
        ({**closed(), "patternProperties": {"^x": STRING}}, "/patternProperties"),
        (closed(a={"$ref": "https://example.com/a.json"}), "/properties/a/$ref"),
        (closed(a=STRING, b={"$ref": "#/properties/a"}), "/properties/b/$ref"),
    ],
)
@every("rules", [OPENAI, ANTHROPIC])
def test_what_both_providers_refuse_is_found(document: dict[str, Any], pointer: str, rules: StrictRules) -> None:
    """Open objects, unions at the root, places without a type and unknown keywords are found where they stand."""
    assert pointer in [fault.pointer for fault in rule_faults(document, rules)]


def test_keywords_that_some_models_accept_are_not_refused() -> None:
    """OpenAI's own host accepts lengths of strings for most models; a form has them only if it is asked for them."""
    document = closed(a={"type": "string", "minLength": 1})

    assert rule_faults(document, OPENAI) == ()
    assert [fault.pointer for fault in rule_faults(document, ANTHROPIC)] == ["/properties/a/minLength"]
    for rules, kept in ((OPENAI, False), (OPENAI_HOST, True)):
        form = strict_form(JsonSchema.of(document), rules).unwrap()
        assert ("minLength" in form.document.to_dict()["properties"]["a"]) is kept


@every(
    ("document", "pointer"),
    [
        ({**closed(a=STRING), "required": NONE}, "/required"),
        (closed(a={"type": "string", "default": "x"}), "/properties/a/default"),
        (closed(a={"type": "string", "format": "uri"}), "/properties/a/format"),
        (closed(a={"allOf": [STRING]}), "/properties/a/allOf"),
        (
            {**SHARED, "properties": {"a": {"$ref": "#/$defs/p", "description": "Here."}}, "required": ["a"]},
            "/properties/a/$ref",
        ),
        (nested(11), "/properties/inner" * 10),
        (closed(a={"type": "string", "enum": [f"value {n}" for n in range(1001)]}), ""),
        (closed(**{f"p{n}": STRING for n in range(5001)}), ""),
    ],
)
def test_what_openai_alone_refuses_is_found(document: dict[str, Any], pointer: str) -> None:
    """Optional properties, defaults, words beside a reference and large documents are OpenAI's to refuse."""
    assert pointer in [fault.pointer for fault in rule_faults(document, OPENAI)]
    assert rule_faults(document, ANTHROPIC) == ()


@every(
    ("document", "pointer"),
    [
        (RECURSIVE, "/$defs/tree/properties/kids/items/$ref"),
        (IN_A_CIRCLE, "/$defs/a/properties/b/$ref"),
        (closed(a={"type": "integer", "minimum": 1}), "/properties/a/minimum"),
        (closed(a={"type": "array", "items": STRING, "minItems": 2}), "/properties/a/minItems"),
        (closed(a={"type": "array", "items": STRING, "maxItems": 2}), "/properties/a/maxItems"),
        (closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(17)}), ""),
    ],
)
def test_what_anthropic_alone_refuses_is_found(document: dict[str, Any], pointer: str) -> None:
    """Recursion, bounds and many unions are Anthropic's to refuse."""
    assert pointer in [fault.pointer for fault in rule_faults(document, ANTHROPIC)]
    assert rule_faults(document, OPENAI) == ()


def test_anthropic_takes_a_few_optional_properties() -> None:
    """Anthropic takes up to 24 optional properties in all."""
    few = {**closed(**{f"p{n}": STRING for n in range(24)}), "required": NONE}
    many = {**closed(**{f"p{n}": STRING for n in range(25)}), "required": NONE}

    assert rule_faults(few, ANTHROPIC) == ()
    assert [str(fault) for fault in rule_faults(many, ANTHROPIC)] == [
        "expected at most 24 optional properties in total, found 25"
    ]
