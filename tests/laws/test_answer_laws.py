"""The laws of answers by a schema: what a provider takes, and the way back, hold whatever the schema."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.models.structured_output import AnswerForm
from fxai.schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictRules, rule_faults
from fxai.testing.strategies import instances, json_schemas

RULES = pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])


@RULES
@given(st.data())
def test_an_answer_is_an_instance_of_what_was_asked_for(rules: StrictRules, data: st.DataObject) -> None:
    """What the model writes by the schema that is sent, led back, is what the schema of the question says."""
    schema = JsonSchema.of(data.draw(json_schemas()))
    answer = AnswerForm.of(schema, rules)
    form = answer.form
    sent = JsonSchema.of(answer.document)
    written = data.draw(instances(sent))
    value = answer.value(written)
    wanted = schema if form is None else form.relaxed

    assert sent.validate(written) == ()
    assert wanted.validate({"value": value} if form is not None and answer.wrapped else value) == ()
    assert form is None or rule_faults(answer.document, rules) == ()


@RULES
@given(st.data())
def test_what_is_asked_for_by_a_tool_is_the_schema_itself(rules: StrictRules, data: st.DataObject) -> None:
    """An object, or the only member of one, whatever can be strict."""
    schema = JsonSchema.of(data.draw(json_schemas()))
    answer = AnswerForm.of(schema, rules).by_tool("answer")
    wanted = data.draw(instances(schema))
    written = {"value": wanted} if answer.wrapped else wanted

    assert answer.document["type"] == "object"
    assert JsonSchema.of(answer.document).validate(written) == ()
    assert answer.value(written) == wanted
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert hash(answer.loosen()) == hash(answer.loosen())


TREES: list[Any] = [
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "array", "items": {"$dynamicRef": "#"}},
    {"anyOf": [{"$ref": "#/$defs/X"}, {"type": "null"}], "$defs": {"X": {"type": "array", "items": {"$ref": "#"}}}},
    {"$id": "https://example.org/tree", "type": "array", "items": {"$ref": "#"}},
]


@RULES
@pytest.mark.parametrize("tree", TREES)
@given(st.recursive(st.none() | st.just(1), lambda inner: st.lists(inner, max_size=2), max_leaves=5))
def test_what_refers_to_the_root_means_the_answer(tree: Any, rules: StrictRules, value: Any) -> None:
    """Definitions stay where they are; a reference to the root is one to the member."""
    schema = JsonSchema.of(tree)
    sent = JsonSchema.of(AnswerForm.of(schema, rules).loosen().document)

    assert (sent.validate({"value": value}) == ()) is (schema.validate(value) == ())


@RULES
def test_obstacles_are_named_where_they_stand_in_the_schema(rules: StrictRules) -> None:
    """Not in the object that it was put into."""
    schema = JsonSchema.of({"type": "array", "items": {"type": "object", "additionalProperties": True}})
    (feature,) = AnswerForm.of(schema, rules).unsupported

    assert feature.pointer == "/items"
