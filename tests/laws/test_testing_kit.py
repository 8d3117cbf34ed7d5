"""The testing kit, on schemas and tools that nobody chose, and on those of real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from fxai import Strict, Tool, Toolkit
from fxai.schema import JsonSchema
from fxai.schema.dialect import DIALECTS
from fxai.testing import check_toolkit
from fxai.testing.strategies import (
    Draft,
    annotation_maps,
    decode_parameters,
    instances,
    invalid_parameters,
    json_schemas,
    not_instances,
    parameters,
    toolkits,
    tools,
    typed_parameters,
)
from tests.kit.every import every
from tests.kit.json_schema_suite import Group, groups, refusal
from tests.kit.oracle import oracle
from tests.kit.trials import examples

LAW = settings(max_examples=examples(25))
QUICK = settings(
    LAW, max_examples=examples(60), phases=(Phase.generate,), suppress_health_check=list(cast("Any", HealthCheck))
)
SERVERS = sorted((Path(__file__).parents[1] / "integration" / "mcp_schemas").glob("*.json"))
DRAFTS: list[Draft] = ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]


@pytest.mark.parametrize("draft", DRAFTS)
@given(st.data())
@LAW
def test_what_is_drawn_is_what_the_schema_takes(draft: Draft, draw: st.DataObject) -> None:
    """Documents are usable and say their draft; instances are valid, by the engine and by `jsonschema`."""
    document = draw.draw(json_schemas(draft))
    made = JsonSchema.of(document)
    good = draw.draw(instances(document))

    assert document.get("$schema", DIALECTS["https://json-schema.org/draft/2020-12/schema"].uri) in DIALECTS
    assert made.validate(good) == ()
    assert oracle(document)(good)


@given(json_schemas(objects=True), st.data())
@LAW
def test_near_misses_are_refused(document: dict[str, Any], draw: st.DataObject) -> None:
    """By the engine and by `jsonschema`."""
    made, bad = JsonSchema.of(document), draw.draw(not_instances(document))

    assert made.validate(bad)
    assert not oracle(document)(bad)


def _drawn(tool: Tool[Any, Any, Any]) -> int:
    """How many valid and invalid parameters of a tool were drawn, with Hypothesis's health checks on."""
    seen: list[Any] = []

    @settings(max_examples=4, database=None)
    @given(parameters(tool), invalid_parameters(tool))
    def held(good: Any, bad: Any) -> None:
        assert isinstance(decode_parameters(tool, good), Success)
        assert isinstance(decode_parameters(tool, bad), Failure)
        seen.append(good)

    held()
    return len(seen)


@pytest.mark.slow
@every("server", SERVERS, ids=lambda path: path.stem)
def test_every_tool_of_a_real_server_has_parameters(server: Path) -> None:
    """Valid ones and invalid ones, without any trouble."""
    for listed in json.loads(server.read_text(encoding="utf-8"))["tools"]:
        assert _drawn(Tool.dynamic(listed["name"], parameters=listed["inputSchema"])) > 0


def _satisfiable() -> list[Group]:
    found = [group for group in groups("2020-12") if any(valid for _, _, valid in group.tests)]
    return [group for group in found if refusal(group) is None]


@pytest.mark.slow
def test_every_schema_of_the_official_suite_has_instances() -> None:
    """Of each schema for which the suite knows valid data, some is drawn."""
    for group in _satisfiable():
        document = JsonSchema.of(group.document)

        assert document.validate(find(instances(document), lambda _: True, settings=QUICK)) == ()


@pytest.mark.slow
@given(toolkits(most=2))
@settings(QUICK, max_examples=3)
def test_every_toolkit_holds_every_law(kit: Toolkit[Any]) -> None:
    """Of all kinds, over types and raw documents: or the law, the strategy or the library would be wrong."""
    renamed = Toolkit.of([tool.rename(f"t{index}").annotate(Strict, None) for index, tool in enumerate(kit)])

    check_toolkit(renamed, max_examples=10)
    assert len(renamed) == len(kit)


@given(tools(), annotation_maps(), st.data())
@LAW
def test_parameters_are_what_the_handler_gets(tool: Tool[Any, Any, Any], notes: Any, draw: st.DataObject) -> None:
    """Plain ones decode; typed ones are of the type, for they encode."""
    given_plain, typed = draw.draw(parameters(tool)), draw.draw(typed_parameters(tool.annotate_all(notes)))

    assert isinstance(decode_parameters(tool, given_plain), Success)
    if isinstance(tool.parameters, JsonSchema):
        assert tool.parameters.validate(typed) == ()
    else:
        assert isinstance(tool.parameters.encode(typed), Success)
