"""Laws of the request form: each API accepts the rewritten document, and values lead back to the original."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.schema import Fault, JsonSchema
from fxai.schema.request_form import CHAT, MESSAGES, RESPONSES, RequestForm, RequestRules, modern, request_form
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictRules, rule_faults
from fxai.schema.strict.form import without_weakenings
from fxai.testing.strategies import instances, json_schemas
from tests.kit.data import is_array, is_object
from tests.kit.floor_schema import Wire, schema_breaches
from tests.kit.reaching import Reached

MANY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_LESS_USED = [pytest.param(draft, marks=pytest.mark.slow) for draft in ("2019-09", "draft-07", "draft-06", "draft-04")]
DRAFTS: Any = ["2020-12", *_LESS_USED]
RULES: dict[Wire, tuple[RequestRules, StrictRules]] = {
    "responses": (RESPONSES, OPENAI),
    "chat": (CHAT, OPENAI),
    "messages": (MESSAGES, ANTHROPIC),
}
WIRES = pytest.mark.parametrize("wire", ["responses", "messages"])
names = st.sampled_from(["a", "$top", "filter[id]", "a b", "x" * 70, "größe", "查询", "top", "_", "value", "a.b-c"])


@st.composite
def roots(draw: st.DrawFn, draft: Any = "2020-12") -> Any:
    """Documents whose root, names or arrays an API refuses."""
    inner = json_schemas(draft)
    variants = st.lists(json_schemas(draft, objects=True).map(_bare), min_size=1, max_size=3)
    properties = st.dictionaries(names, inner.map(_bare), max_size=4)
    kind = draw(st.sampled_from(["any", "union", "named", "untyped", "list", "array", "reference", "narrow", "whole"]))
    if kind == "any":
        return draw(inner)
    if kind == "union":
        return {draw(st.sampled_from(["anyOf", "oneOf", "allOf"])): draw(variants)}
    declared = draw(properties)
    required = draw(st.lists(st.sampled_from(sorted(declared)), unique=True)) if declared else []
    document: dict[str, Any] = {"type": "object", "properties": declared}
    document |= {"required": required} if required else {}
    if kind == "named":
        return document | draw(
            st.sampled_from([{}, {"additionalProperties": False}, {"propertyNames": {"maxLength": 9}}])
        )
    if kind == "untyped":
        del document["type"]
        return document
    if kind == "list":
        return document | {"type": draw(st.sampled_from([["object"], ["object", "null"], ["string", "object"]]))}
    if kind == "array":
        rest: dict[str, Any] = draw(
            st.sampled_from([{}, {"prefixItems": [{"type": "array"}]}, {"unevaluatedItems": {"type": "array"}}])
        )
        return {
            "type": "object",
            "properties": {"list": {"type": ["array", "null"], **rest}, "deep": {"type": "array"}},
        }
    if kind == "reference":
        return {"$ref": "#/$defs/A", "$defs": {"A": document | {"description": "Of A."}}}
    if kind == "narrow":
        branches = [{"required": [name]} for name in declared] or [{}]
        return document | {draw(st.sampled_from(["anyOf", "oneOf", "allOf"])): branches}
    return draw(st.sampled_from([True, {}, {"type": "object"}, {"description": "Anything."}, {"enum": [{"a": 1}, {}]}]))


def _bare(document: dict[str, Any]) -> dict[str, Any]:
    """The document as a schema inside another one; without references into its root."""
    if '"$ref": "#' in repr(document).replace("'", '"') or "$id" in document:
        return {"type": "object", "properties": {"plain": {"type": "string"}}}
    return {key: value for key, value in document.items() if key != "$schema"}


def alike(left: Any, right: Any) -> bool:
    """Return whether two values are the same, where null is as good as absence."""
    if is_object(left) and is_object(right):
        return all(alike(left.get(name), right.get(name)) for name in left.keys() | right.keys())
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(alike, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def is_read_as_object(form: RequestForm) -> bool:
    """Return whether the root states no type, and fxai reads it as an object."""
    document = form.original.to_dict()
    is_untyped = is_object(document) and "type" not in document
    return is_untyped and not any(one.change.endswith("'value'") for one in form.rewrites)


def relaxed_faults(form: RequestForm, value: object) -> tuple[Fault, ...]:
    """Return the errors of a value by the original document without the weakened keywords."""
    if form.strict is None:
        return without_weakenings(JsonSchema.of(modern(form.original.to_dict())), form.weakened).validate(value)
    is_wrapped = any(one.change == "the value is in the property 'value'" for one in form.rewrites)
    return form.strict.relaxed.validate({"value": value} if is_wrapped else value)


def forms_of(document: Any, wire: Wire) -> list[RequestForm]:
    """The forms of a document, strict and not."""
    rules, strict = RULES[wire]
    schema = JsonSchema.of(document)
    found = [request_form(schema, rules), request_form(schema, rules, strict=strict)]
    return [one.unwrap() for one in found if isinstance(one, Success)]


@WIRES
@pytest.mark.parametrize("draft", DRAFTS)
def test_request_form_keeps_the_laws(draft: Any, wire: Wire) -> None:
    """The API accepts the form of any document, and the two laws hold for its values."""
    reached = Reached()

    @settings(max_examples=60, suppress_health_check=MANY)
    @given(json_schemas(draft) | roots() if draft == "2020-12" else json_schemas(draft), st.data())
    def hold(document: Any, data: st.DataObject) -> None:
        forms = forms_of(document, wire)
        if not forms:
            reject()
        for form in forms:
            reached("form")
            reached("rewritten", bool(form.rewrites))
            sent = form.document.to_dict()
            assert schema_breaches(sent, wire) == []
            assert form.strict is None or not rule_faults(form.strict.document, RULES[wire][1])
            there = data.draw(instances(form.document), label="sent")
            # an open object cannot refuse the name that the API refused, so its value is checked only afterwards
            if not is_object(there) or all(map(RULES[wire][0].accepts_name, there)):
                assert relaxed_faults(form, form.back(there)) == ()
            value = data.draw(instances(form.original, undeclared=False), label="value")
            if is_read_as_object(form) and not is_object(value):
                continue
            forth = form.forth(value)
            assert isinstance(forth, Success), (form, value, forth)
            assert alike(form.back(forth.unwrap()), value)

    reached.by(hold, form=20, rewritten=10)


@WIRES
@pytest.mark.parametrize("draft", DRAFTS)
def test_request_form_exists_for_every_document(draft: Any, wire: Wire) -> None:
    """A document that some value satisfies has a form without strict mode."""

    @settings(max_examples=40, suppress_health_check=MANY)
    @given(json_schemas(draft) | roots() if draft == "2020-12" else json_schemas(draft))
    def hold(document: Any) -> None:
        form = request_form(JsonSchema.of(document), RULES[wire][0])

        assert isinstance(form, Success) or document in (False, {"not": {}})

    hold()
