"""Stop conditions: when a run ends though the model would go on."""

from __future__ import annotations

from typing import Any

import pytest

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Budget, HasToolCall, Step, Steps, has_tool_call, step_count_is
from fxai.agents.run_options import StepCountIs
from fxai.effects import Backend, Layer, fx
from fxai.messages import NetworkError, Response
from fxai.testing import call, text
from fxai.tools import Tool, Toolkit
from tests.kit.runs import BOTH, ONE, Way, end_of, unanswered


def test_a_condition_on_a_tool_that_the_agent_lacks_is_refused() -> None:
    """Such a run would never stop. Tools of a source, or of a stateful prompt, are not known before the run."""

    @tool
    def halve(n: int) -> int:
        """Halves a number."""
        return n // 2

    add = Tool.make("add", success=int)
    agent: Any = Agent.make("adder", toolkit=Toolkit.make(add), stop_when=has_tool_call("ad"))
    live: Any = BoundToolkit.of(Toolkit.empty(), Layer.empty(), now=fx.succeed(BoundToolkit.make()))

    with pytest.raises(
        ValueError,
        match=r"has_tool_call\('ad'\): agent 'adder' has no tool 'ad' \(did you mean 'add'\?\)\. Use one of: add\.$",
    ):
        agent.execute("add")
    with pytest.raises(ValueError, match=r"Use one of: add, halve\.$"):
        agent.with_tools(halve).execute("add")
    for later in (ToolSource(fx.succeed(BoundToolkit.make())), live):
        assert agent.with_tools(later).execute("add") is not None


@BOTH
def test_a_run_stops_after_a_number_of_steps(way: Way, backend: Backend) -> None:
    """With what there is: an answer, and no failure. The calls of the last step were run."""
    end = end_of(way, backend, [call("add", ONE)] * 5, stop_when=(step_count_is(2),))

    assert (end.answer.ended, len(end.answer.steps), len(end.model.requests)) == ("stopped", 2, 2)
    assert end.desk.journal.lines == ["add 1", "add 1"]
    assert unanswered(end.answer.history) == []


@BOTH
def test_a_run_stops_after_a_call(way: Way, backend: Backend) -> None:
    """Of one of the tools that are named, in the last step; it is run."""
    turns = [call("add", ONE), [call("add", ONE), call("raw", {"the": "answer"})], text("never")]
    end = end_of(way, backend, turns, stop_when=(has_tool_call("nope", "raw"),))

    assert (end.answer.ended, len(end.answer.steps)) == ("stopped", 2)
    assert [result.result for result in end.answer.steps[-1].results] == [3, {"the": "answer"}]


@BOTH
def test_any_condition_stops_it(way: Way, backend: Backend) -> None:
    """A function of the steps, or an effect; the first that holds, and no other is asked."""
    asked: list[str] = []

    def never(steps: Steps) -> bool:
        asked.append(f"never {len(steps)}")
        return False

    def at_two(steps: Steps) -> Any:
        asked.append("effect")
        return fx.checkpoint().as_(len(steps) == 2)

    def last(_: Steps) -> bool:
        asked.append("last")
        return False

    end = end_of(way, backend, [call("add", ONE)] * 5, stop_when=(never, at_two, last))

    assert len(end.answer.steps) == 2
    assert asked == ["never 1", "effect", "last", "never 2", "effect"]


@BOTH
def test_the_last_turn_asks_no_condition(way: Way, backend: Backend) -> None:
    """A run that is done is done; one whose calls wait is pending."""
    asked: list[int] = []

    def always(steps: Steps) -> bool:
        asked.append(len(steps))
        return True

    done = end_of(way, backend, [text("ok")], stop_when=(always,))
    waits = end_of(way, backend, [call("add", ONE)], stop_when=(always,), options={"resolve_tools": False})

    assert (done.answer.ended, waits.answer.ended) == ("done", "pending")
    assert asked == []


@BOTH
def test_a_stop_is_no_limit(way: Way, backend: Backend) -> None:
    """Where both would end a run, it has stopped."""
    end = end_of(way, backend, [call("add", ONE)], stop_when=(step_count_is(1),), budget=Budget(rounds=1))

    assert end.answer.ended == "stopped"


@BOTH
def test_a_condition_may_fail_or_be_broken(way: Way, backend: Backend) -> None:
    """A failure is the run's, a bug is a defect."""

    def broken(_: Steps) -> bool:
        raise RuntimeError("boom")

    def failing(_: Steps) -> Any:
        return fx.fail(NetworkError("TransportError"))

    ended = end_of(way, backend, [call("add", ONE)], stop_when=(failing,))
    defect = end_of(way, backend, [call("add", ONE)], stop_when=(broken,))

    assert ended.failure == NetworkError("TransportError")
    assert [str(one) for one in defect.cause.defects] == ["boom"]


@BOTH
def test_a_condition_says_yes_or_no(way: Way, backend: Backend) -> None:
    """What is neither is a bug, and no yes: everything that waits to be run would be one."""

    def vague(_: Steps) -> str:
        return "no"

    ended = end_of(way, backend, [call("add", ONE)], stop_when=(vague,))

    assert ["stop condition returned 'no'" in str(one) for one in ended.cause.defects] == [True]


def test_conditions_are_values() -> None:
    """Two of the same are one; those that could never hold are refused."""
    assert step_count_is(2) == StepCountIs(2)
    assert has_tool_call("a", "b") == HasToolCall(("a", "b"))
    assert len({step_count_is(2), step_count_is(2)}) == 1
    with pytest.raises(ValueError, match="number must be at least 1"):
        step_count_is(0)
    with pytest.raises(ValueError, match="at least"):
        has_tool_call()
    several: Any = ["a", "b"]
    with pytest.raises(TypeError, match="tool name must be a string"):
        has_tool_call(several)


def test_the_steps_so_far_do_not_change() -> None:
    """What somebody was shown stays so when the run goes on; it is a sequence."""
    grown = [Step(1, Response()), Step(2, Response())]
    steps = Steps(grown)
    grown.append(Step(3, Response()))

    assert (len(steps), steps[-1].number, [step.number for step in steps]) == (2, 2, [1, 2])
    assert [step.number for step in steps[:1]] == [1]
    assert steps == Steps(grown[:2])
    assert hash(steps) == hash(Steps(grown[:2]))
    assert repr(steps).startswith("Steps([Step(")
    with pytest.raises(IndexError, match="step 2 does not exist: the run has 2 steps"):
        steps[2]
