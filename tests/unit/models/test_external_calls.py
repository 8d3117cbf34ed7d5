"""Calls of external tools are validated before they become pending, and each call has its own id."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Result, Success

from fxai import Agent, Answer, Tool, ToolChoice, Toolkit, fx
from fxai.messages import ToolCall, ToolResult
from fxai.testing import ScriptedModel, call, text
from fxai.tools import InvalidParameters, ToolError


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


class Trip(msgspec.Struct, frozen=True):
    """A trip to a city."""

    city: City


pick = Tool.make("pick", description="Ask the user.", parameters=City, success=str).external()
plan = Tool.make("plan", description="Ask the user.", parameters=Trip, success=str).external()
kit: Toolkit[Any] = Toolkit.make(pick, plan)


def run(*turns: Any, **options: Any) -> Answer[Any]:
    """Run an agent with the external tools, and return its answer."""
    model = ScriptedModel.make([*turns, text("Sorry.")])
    return fx.run(Agent.make("clerk", toolkit=kit, **options).execute("Where to?").provide(model.layer))


@pytest.mark.parametrize(
    ("name", "params", "problem"),
    [
        ("pick", {"name": 7}, "/name"),
        ("pick", {}, "name"),
        ("pick", "Oslo", "expected object"),
        ("plan", {"city": {"name": None}}, "/city/name"),
    ],
)
def test_an_invalid_call_of_an_external_tool_fails_at_once(name: str, params: Any, problem: str) -> None:
    """The model receives the validation error in the next step, and no call stays pending."""
    answer = run(call(name, params))
    (result,) = answer.steps[0].results

    assert answer.pending == ()
    assert result.is_failure
    assert problem in str(result.encoded_result)


def test_a_valid_call_of_an_external_tool_stays_pending() -> None:
    """A valid call waits for a result from outside."""
    answer = run(call("pick", {"name": "Oslo"}))

    assert [one.params for one in answer.pending] == [{"name": "Oslo"}]


def test_an_external_tool_reads_json_text() -> None:
    """JSON text instead of an object is read, and the pending call holds the object."""
    answer = run(call("plan", {"city": '{"name": "Oslo"}'}))

    assert [one.params for one in answer.pending] == [{"city": {"name": "Oslo"}}]


def test_an_external_call_outside_the_choice_is_denied() -> None:
    """A call of a tool that the choice does not allow gets a failed result."""
    answer = run(call("plan", {"city": {"name": "Oslo"}}), tool_choice=ToolChoice.tool("pick"))

    assert answer.pending == ()
    assert answer.steps[0].results[0].is_failure


def test_an_external_call_is_repaired() -> None:
    """A repair replaces an invalid call, and the replacement stays pending."""

    def repair(bad: ToolCall, failure: object) -> ToolCall:
        return msgspec.structs.replace(bad, params={"name": "Oslo"})

    answer = run(call("pick", {"name": 7}), repair=repair)

    assert [one.params for one in answer.pending] == [{"name": "Oslo"}]


def test_an_invalid_external_call_fails_the_run_on_request() -> None:
    """With `on_invalid_call="error"`, the run fails with the validation error."""
    model = ScriptedModel.make([call("pick", {"name": 7})])
    agent = Agent.make("clerk", toolkit=kit, on_invalid_call="error")
    ended: Result[Any, Any] = fx.run_result(agent.execute("Where to?").provide(model.layer))
    failure: ToolError = ended.failure()

    assert isinstance(failure, InvalidParameters)


def test_two_external_calls_with_one_id_are_two_calls() -> None:
    """The second pending call with the same id gets an id of its own."""
    answer = run([call("pick", {"name": "Oslo"}, id="c"), call("pick", {"name": "Rome"}, id="c")])

    assert [(one.id, one.params) for one in answer.pending] == [("c", {"name": "Oslo"}), ("c_2", {"name": "Rome"})]


def test_two_calls_with_one_id_have_two_results() -> None:
    """Each of two calls with the same id runs and has its own result, whole and streamed."""
    tool = Tool.make("pick", description="Pick.", parameters=City, success=str)
    layer = Toolkit.make(tool).to_layer(tool.handler(lambda city: Success(city.name)))
    turn = [call("pick", {"name": "Oslo"}, id="c"), call("pick", {"name": "Rome"}, id="c")]
    agent = Agent.make("clerk", toolkit=Toolkit.make(tool))
    whole = fx.run(agent.execute("?").provide(layer).provide(ScriptedModel.make([turn, text("Done.")]).layer))
    model = ScriptedModel.make([turn, text("Done.")])
    parts = fx.run(agent.stream("?").provide(layer).provide(model.layer).collect())
    streamed = [part for part in parts if isinstance(part, ToolResult)]

    assert [(one.id, one.result) for one in whole.steps[0].results] == [("c", "Oslo"), ("c_2", "Rome")]
    assert [(one.id, one.result) for one in streamed] == [("c", "Oslo"), ("c_2", "Rome")]
