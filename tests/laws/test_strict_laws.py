"""Laws of strict mode, over schemas that nobody chose and over those of real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.schema import JsonSchema
from fxai.schema.document import document_faults
from fxai.schema.fault import pointer_tokens
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
from fxai.testing.strategies import instances, json_schemas
from tests.kit.data import is_array, is_object
from tests.kit.reaching import Reached
from tests.kit.trials import examples

MANY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
DRAFTS: Any = ["2020-12", "2019-09", "draft-07", "draft-06", "draft-04"]
SERVERS = sorted((Path(__file__).parents[1] / "integration" / "mcp_schemas").glob("*.json"))
RULES = pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=lambda rules: rules.name)


def form_of(document: Any, rules: StrictRules) -> StrictForm | None:
    """The strict form; None where there is none."""
    form = strict_form(JsonSchema.of(document), rules)
    return form.unwrap() if isinstance(form, Success) else None


def alike(left: Any, right: Any) -> bool:
    """Whether two values are the same, where a property that is null is as good as one that is not there."""
    if is_object(left) and is_object(right):
        return all(alike(left.get(name), right.get(name)) for name in left.keys() | right.keys())
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(alike, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def identical(left: Any, right: Any) -> bool:
    """Whether two values are the same, nulls and all."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def hold_back(form: StrictForm, data: st.DataObject) -> None:
    """Law 1, for one instance: a strict value leads back to an instance of the original, without what was weakened."""
    strict = data.draw(instances(form.document), label="strict")
    value = form.back(strict)

    assert form.relaxed.validate(value) == ()


def hold_forth(form: StrictForm, data: st.DataObject) -> None:
    """Law 2, for one instance: a value without undeclared properties has a strict form that leads back to it."""
    value = data.draw(instances(form.original, undeclared=False), label="value")
    strict = form.forth(value)

    assert isinstance(strict, Success)
    assert form.document.validate(strict.unwrap()) == ()
    assert alike(form.back(strict.unwrap()), value)


def tamed(document: Any, rules: StrictRules) -> Any:
    """The document, changed where something stands against a strict form: most that are drawn have none."""
    for _ in range(12):
        form = strict_form(JsonSchema.of(document), rules)
        if isinstance(form, Success):
            break
        unsupported: Any = form.failure()
        for feature in sorted(unsupported, key=lambda one: one.pointer.count("/"), reverse=True):
            document = _without(document, feature)
        if document_faults(document):
            reject()
    return document


def _without(document: Any, feature: UnsupportedFeature) -> Any:
    """The document without one obstacle."""
    copy = json.loads(json.dumps(document))
    there: Any = copy
    for token in pointer_tokens(feature.pointer):
        inner: Any = there[int(token)] if is_array(there) else there.get(token) if is_object(there) else None
        if not (is_object(inner) or is_array(inner)):
            break
        there = inner
    if not is_object(there):
        return copy
    if feature.keyword in ("additionalProperties", "patternProperties", "properties", "unevaluatedProperties"):
        there.pop("patternProperties", None)
        there.pop("unevaluatedProperties", None)
        there.update(additionalProperties=False, properties=there.get("properties", {}))
    elif feature.keyword == "items":
        there.update(items={"type": "string"})
        there.pop("maxItems", None)
    elif feature.pointer:
        there.clear()
        there.update(type="string")
    return copy


@pytest.mark.slow
@RULES
@pytest.mark.parametrize("hold", [hold_back, hold_forth])
@pytest.mark.parametrize("draft", DRAFTS)
def test_values_lead_there_and_back(draft: Any, hold: Any, rules: StrictRules) -> None:
    """The two laws hold for generated schemas of each draft, and what is sent keeps the provider's rules."""
    reached = Reached()

    @settings(max_examples=examples(25, least=25), suppress_health_check=MANY)
    @given(json_schemas(draft, objects=True), st.data())
    def hold_for_generated(document: Any, data: st.DataObject) -> None:
        document = tamed(document, rules)
        form = form_of(document, rules)
        if form is None:
            reject()
        reached("strict")
        reached("rewritten", form.document.to_dict() != {k: v for k, v in document.items() if k != "$schema"})
        assert rule_faults(form.document, rules) == ()
        hold(form, data)

    reached.by(hold_for_generated, strict=20, rewritten=10)


# ---- null, and what is left out

PLAIN: list[Any] = [
    {"type": "integer"},
    {"type": "string"},
    {"type": "boolean"},
    {"enum": ["a", "b"]},
    {"$ref": "#/$defs/Plain"},
]
NULLABLE: list[Any] = [
    {"type": ["integer", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"oneOf": [{"type": "null"}, {"type": "number"}]},
    {"enum": ["x", 1, None]},
    {"type": "null"},
    {"allOf": [{"type": ["boolean", "null"]}, {"title": "Either"}]},
    {"$ref": "#/$defs/Maybe"},
    {"anyOf": [{"$ref": "#/$defs/Plain"}, {"type": "null"}]},
]


@st.composite
def nullables(draw: st.DrawFn, level: int = 0, *, recursive: bool = False) -> dict[str, Any]:
    """Objects whose properties may be left out or null, in every combination, nested in every way."""
    properties: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(["a", "b", "c", "__null__"]), min_size=1, max_size=3, unique=True)):
        properties[name] = draw(_property(level, recursive=recursive))
    required = [name for name in properties if draw(st.integers(0, 3)) == 0]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@st.composite
def _property(draw: st.DrawFn, level: int, *, recursive: bool) -> dict[str, Any]:
    flat = [*PLAIN, *NULLABLE, *([{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}] if recursive else [])]
    if level > 1 or draw(st.booleans()):
        schema: dict[str, Any] = dict(draw(st.sampled_from(flat)))
        default = draw(st.sampled_from(["none", "none", "null", "other"]))
        if default != "none" and "$ref" not in schema:
            schema["default"] = None if default == "null" else 7
        return schema
    inner = draw(nullables(level + 1, recursive=recursive))
    other = {"type": "object", "properties": {"kind": {"const": "other"}}, "required": ["kind"]}
    forms: list[Any] = [
        inner,
        {"anyOf": [inner, {"type": "null"}]},
        {"anyOf": [inner, {"type": "string"}, {"type": "null"}]},
        {"oneOf": [inner, {**other, "additionalProperties": False}]},
        {"type": "array", "items": inner},
        {"type": ["array", "null"], "items": {"anyOf": [inner, {"type": "null"}]}},
        {"type": "object", "additionalProperties": inner},
        {"type": "array", "prefixItems": [inner, {"type": ["integer", "null"]}], "minItems": 2, "items": False},
    ]
    return dict(draw(st.sampled_from(forms)))


def document_of(drawn: dict[str, Any]) -> dict[str, Any]:
    """The whole document, with what is referred to."""
    return {**drawn, "$defs": {"Maybe": {"type": ["string", "null"]}, "Plain": {"type": "number"}}}


@pytest.mark.slow
@RULES
def test_null_and_left_out_are_told_apart_exactly(rules: StrictRules) -> None:
    """With `explicit_null` every instance comes back exactly as it was, no null is weakened, and law 1 holds."""
    reached = Reached()

    @settings(max_examples=examples(150, least=150), suppress_health_check=MANY)
    @given(nullables(recursive=rules.recursive), st.data())
    def hold_for_generated(drawn: Any, data: st.DataObject) -> None:
        document = JsonSchema.of(document_of(drawn))
        found = strict_form(document, rules, explicit_null=True)
        if not isinstance(found, Success):
            reject()  # more than the provider takes of something in all
        form = found.unwrap()
        value = data.draw(instances(document, undeclared=False), label="value")
        strict = form.forth(value).unwrap()

        assert identical(form.back(strict), value)
        assert rule_faults(form.document, rules) == ()
        assert all(one.reason != NULL_LOST for one in form.weakened)
        reached("null", "null" in json.dumps(value))
        reached("lost_without", not identical(_plainly(document, rules, value), value))
        hold_back(form, data)

    reached.by(hold_for_generated, null=40, lost_without=5 if rules.all_required else 0)


def _plainly(document: JsonSchema, rules: StrictRules, value: Any) -> Any:
    """What a value comes back as where null stands for what is left out."""
    form = strict_form(document, rules).unwrap()
    return form.back(form.forth(value).unwrap())


@pytest.mark.slow
@RULES
def test_a_null_that_is_lost_is_listed(rules: StrictRules) -> None:
    """Where nothing of null is listed as weakened and no default is null, values come back exactly as they were."""
    reached = Reached()

    @settings(max_examples=examples(120, least=120), suppress_health_check=MANY)
    @given(nullables(recursive=rules.recursive), st.data())
    def hold_for_generated(drawn: Any, data: st.DataObject) -> None:
        document = JsonSchema.of(document_of(drawn))
        form = form_of(document, rules)
        if form is None:
            reject()
        value = data.draw(instances(document, undeclared=False), label="value")
        listed = any(one.reason == NULL_LOST for one in form.weakened)
        told = "null means that the property is absent" in form.document.to_json().decode()

        assert listed == told
        assert alike(_plainly(document, rules, value), value)
        assert rules.all_required or not listed
        if not listed and '"default": null' not in json.dumps(drawn):
            reached("kept")
            assert identical(_plainly(document, rules, value), value)
        reached("listed", listed)

    reached.by(hold_for_generated, kept=10, listed=40 if rules.all_required else 0)


@pytest.mark.slow
@RULES
@pytest.mark.parametrize("server", SERVERS, ids=lambda path: path.stem)
def test_tools_of_real_servers_have_a_strict_form(server: Path, rules: StrictRules) -> None:
    """Each tool of these servers can be strict at both providers, and both laws hold for its parameters."""
    for tool in json.loads(server.read_text(encoding="utf-8"))["tools"]:
        form = form_of(tool["inputSchema"], rules)
        assert form is not None, tool["name"]
        assert rule_faults(form.document, rules) == ()

        hold_both(form)


def hold_both(form: StrictForm) -> None:
    """Both laws, for a few instances."""

    @settings(max_examples=3, suppress_health_check=MANY)
    @given(st.data())
    def hold_for_a_tool(data: st.DataObject) -> None:
        hold_back(form, data)
        hold_forth(form, data)

    hold_for_a_tool()


def test_there_are_servers_to_try() -> None:
    """The tool lists of eleven servers are there."""
    assert len(SERVERS) >= 11
