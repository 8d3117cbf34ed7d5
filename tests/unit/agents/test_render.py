"""What a render defines: what is the same when it is defined twice, and what a state may begin with."""

from __future__ import annotations

from typing import Any

import pytest

from fxai import tool
from fxai.agents import Agent
from fxai.agents.stateful import Render, RenderFailed
from fxai.agents.sub_agent import AgentTypes
from fxai.effects import Cause
from fxai.models import LanguageModel
from fxai.schema import Schema
from fxai.testing import call
from tests.kit.every import every
from tests.kit.renders import cause_of_play, play_out

optional: Schema[str | None] = Schema.of(str | None)


@tool
def double(number: int) -> int:
    """Doubles a number."""
    return number * 2


@tool
def triple(number: int) -> int:
    """Triples a number."""
    return number * 3


def _failure(cause: Cause[Any]) -> RenderFailed:
    (failure,) = cause.failures
    assert isinstance(failure, RenderFailed)
    return failure


# -- the same thing twice


def test_what_is_made_alike_twice_is_once() -> None:
    """A function tool, a composite of the same tools, and a sub-agent of the same agent."""
    poet = Agent.make("poet")

    def render(at: Render[LanguageModel]) -> None:
        for _ in range(2):
            at.tools(triple)
            at.composite("numbers", double)
            at.agent("poet", poet)

    played = play_out(render, call("numbers", {"calls": [{"name": "double", "args": {"number": 4}}]}))

    assert played.offered[0] == ["triple", "numbers", "poet"]
    assert played.answer.steps[0].results[0].encoded_result == {"results": [{"name": "double", "result": 8}]}


@pytest.mark.parametrize("others", [{"concurrency": 2}, {"description": "Other."}])
def test_composites_that_differ_are_two(others: dict[str, Any]) -> None:
    """Another number at once, or another option: they cannot have one name."""

    def render(at: Render[LanguageModel]) -> None:
        at.composite("numbers", double)
        at.composite("numbers", double, **others)

    assert _failure(cause_of_play(render)).reason == "conflict"


def test_composites_of_other_tools_are_two() -> None:
    """They cannot have one name."""

    def render(at: Render[LanguageModel]) -> None:
        at.composite("numbers", double)
        at.composite("numbers", triple)

    assert _failure(cause_of_play(render)).reason == "conflict"


# -- what a state begins with


@every(
    ("initial", "schema", "held"),
    [
        ((), tuple[str, ...], ()),
        (("a",), tuple[str, ...], ("a",)),
        ([1], list[int], [1]),
        ({"a": 1}, dict[str, int], {"a": 1}),
        (None, optional, None),
        ("a", optional, "a"),
        (1, float, 1),
    ],
)
def test_a_state_begins_with_a_value_of_its_schema(initial: Any, schema: Any, held: object) -> None:
    """Which no checker can see of a class, whose type widens."""

    def render(at: Render[LanguageModel]) -> None:
        at.state("key", initial, schema=schema)

    assert play_out(render).values["key"] == held


@pytest.mark.parametrize(("initial", "schema"), [(1, str), (("a",), list[int]), ([1], list[str]), (1, optional)])
def test_a_state_that_is_none_of_its_schema_is_refused_at_once(initial: Any, schema: Any) -> None:
    """And not when its state is written, after the run."""

    def render(at: Render[LanguageModel]) -> None:
        at.state("key", initial, schema=schema)

    failure = _failure(cause_of_play(render))

    assert failure.reason == "state"
    assert f"initial value of state 'key' does not satisfy its schema, got {initial!r}" in failure.message


# -- types


def test_what_an_agent_is_for_checkers_is_never_made() -> None:
    """`AgentTypes` is a type and no value."""
    with pytest.raises(TypeError, match="only a type"):
        AgentTypes()
