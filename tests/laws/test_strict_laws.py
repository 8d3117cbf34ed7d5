"""Laws of strict mode, over schemas that nobody chose and over those of real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.schema.data import is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictForm, StrictRules, rule_faults, strict_form
from fxai.testing.strategies import instances, json_schemas

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


@RULES
@pytest.mark.parametrize("hold", [hold_back, hold_forth])
@pytest.mark.parametrize("draft", DRAFTS)
def test_values_lead_there_and_back(draft: Any, hold: Any, rules: StrictRules) -> None:
    """The two laws hold for generated schemas of each draft, and what is sent keeps the provider's rules."""

    @settings(max_examples=25, suppress_health_check=MANY)
    @given(json_schemas(draft, objects=True), st.data())
    def hold_for_generated(document: Any, data: st.DataObject) -> None:
        form = form_of(document, rules)
        if form is None:
            reject()
        assert rule_faults(form.document, rules) == ()
        hold(form, data)

    hold_for_generated()


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
