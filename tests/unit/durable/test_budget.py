"""Budgets of a run that goes on in another program: they hold over all programs of the run together."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fxai import Agent, Budget, BudgetExceeded, LanguageModel, Tool, Toolkit, fx
from fxai.annotations import Idempotent
from fxai.durable import Runs, durable
from fxai.effects import Gen, Layer
from fxai.messages import Finish, Text, ToolCall, Usage
from fxai.models import Allowances, Limit, ModelRequest, limit
from fxai.testing import TestClock
from tests.kit.every import every

DAY = 86_400.0


class Desk(LanguageModel):
    """A model that takes 40 s a turn, and a tool that takes 10 s."""

    def __init__(self, turns: int = 3) -> None:
        self.asked: list[int] = []
        self.looks: list[int] = []
        self._turns = turns

    def ask(self, request: ModelRequest) -> Any:
        """Calls the tool with the number of the turn, until there were enough."""
        turn = sum(message.role == "assistant" for message in request.prompt)

        def answer() -> Any:
            self.asked.append(turn)
            usage = Usage(50, 50)
            if turn == self._turns or not request.tools or request.tool_choice == "none":
                return (Text("Done."), Finish("stop", usage))
            return (ToolCall(f"c{turn}", "look", turn), Finish("tool-calls", usage))

        return fx.sleep(40).map(lambda _: answer())

    def look(self, number: int) -> Any:
        """Looks, for 10 s."""

        def end() -> int:
            self.looks.append(number)
            return number

        return fx.sleep(10).map(lambda _: end())

    @property
    def layer(self) -> Any:
        """The model and the handler."""
        handler: Any = look.handler(self.look)
        return handler | Layer.succeed(LanguageModel, self)


look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)


def _agent(at_limit: Any = "fail", **budget: Any) -> Any:
    return Agent.make("clerk", toolkit=Toolkit.make(look), budget=Budget(**budget), at_limit=at_limit)


def _go(agent: Any, desk: Desk, runs: Runs, now: float, seconds: float = DAY) -> tuple[Any, float]:
    """How a program ends that goes on with the run, and after how many seconds; None where it is stopped before."""
    clock, times = TestClock(now), list[float]()

    def program() -> Gen[Any, Any, Any]:
        asked: Any = agent.execute("Go.").provide(durable(desk.layer, run="r", store=runs))
        handle: Any = yield from fx.fork(asked.exit().ensuring(fx.sync(lambda: times.append(clock.monotonic()))))
        yield from clock.advance(seconds)
        return cast(Any, (yield from handle.join())) if handle.ended else None

    return clock.run(fx.gen(program)()), times[0] if times else 0.0


def _stop(agent: Any, desk: Desk, runs: Runs) -> None:
    """Has a program stop in its second call, after 94 s; of these the journal knows 90."""
    assert _go(agent, desk, runs, 0, 94)[0] is None
    assert desk.looks == [0]


@pytest.mark.parametrize(("seconds", "left"), [(120, 30), (95, 5)])
def test_seconds_go_on_where_the_program_before_was(seconds: float, left: float) -> None:
    """The 90 s until its last record count, and the month in which no program had the run does not."""
    desk, runs, agent = Desk(), Runs.in_process(), _agent(seconds=seconds)
    _stop(agent, desk, runs)
    end, took = _go(agent, desk, runs, 30 * DAY)
    assert isinstance(end.cause.failures[0], BudgetExceeded)
    assert end.cause.failures[0].what == "seconds"
    assert took == left


def test_a_run_that_is_done_in_its_time_is_done() -> None:
    """Also where the programs together, with the days between, took longer."""
    desk, runs, agent = Desk(), Runs.in_process(), _agent(seconds=181)
    _stop(agent, desk, runs)
    end, took = _go(agent, desk, runs, 30 * DAY)
    assert end.value.text == "Done."
    assert took == 90
    assert desk.asked == [0, 1, 2, 3]


@every("at_limit", ["fail", "answer", "last_text"])
@every("seconds", [60, 45, 100])
def test_what_was_cut_is_cut_again(at_limit: Any, seconds: float) -> None:
    """A run whose time was up comes to the same when it is run again, in no time, and nothing is run again."""
    desk, runs = Desk(), Runs.in_process()
    agent = _agent(at_limit, seconds=seconds)
    first, _ = _go(agent, desk, runs, 0)
    asked, looks = list(desk.asked), list(desk.looks)
    again, took = _go(agent, desk, runs, 30 * DAY)
    assert took == 0
    assert (desk.asked, desk.looks) == (asked, looks)
    assert _history(again) == _history(first)
    assert fx.run(runs.show("r")).questions == ()


def _history(end: Any) -> Any:
    return end.cause.failures[0].history if hasattr(end, "cause") else end.value.history


def test_a_sub_agent_has_its_own_time() -> None:
    """Which goes on in the middle of it, too."""
    desk, runs = Desk(), Runs.in_process()
    helper = _agent(seconds=95)

    def boss(turn: int) -> Any:
        return ToolCall("b", "clerk", {"prompt": "Look."}) if turn == 0 else Text("All done.")

    agent = Agent.make("boss", model=_Scripted(boss).layer).with_tools(helper.as_tool())
    _stop(agent, desk, runs)
    end, took = _go(agent, desk, runs, 30 * DAY)
    result = end.value.steps[0].results[0]
    assert result.result.reason == "budget"
    assert took == 5


class _Scripted(LanguageModel):
    """A model that says at once what a function of the turn gives."""

    def __init__(self, say: Any) -> None:
        self._write_message = say

    def ask(self, request: ModelRequest) -> Any:
        """One part, and the finish."""
        part = self._write_message(sum(message.role == "assistant" for message in request.prompt))
        return fx.succeed((part, Finish("tool-calls" if isinstance(part, ToolCall) else "stop")))

    @property
    def layer(self) -> Any:
        """Its layer."""
        return Layer.succeed(LanguageModel, self)


@pytest.mark.parametrize(("budget", "what"), [({"rounds": 3}, "rounds"), ({"tokens": 250}, "tokens")])
def test_turns_from_the_journal_count(budget: Any, what: str) -> None:
    """Rounds and tokens are those of all programs together."""
    desk, runs, agent = Desk(), Runs.in_process(), _agent(**budget)
    _stop(agent, desk, runs)
    end, _ = _go(agent, desk, runs, DAY)
    assert end.cause.failures[0].what == what
    assert desk.asked == [0, 1, 2]


def test_calls_from_the_journal_count() -> None:
    """Calls are those of all programs together; the third is not run."""
    desk, runs, agent = Desk(), Runs.in_process(), _agent(calls=2)
    _stop(agent, desk, runs)
    end, _ = _go(agent, desk, runs, DAY)
    assert end.cause.failures[0].what == "calls"
    assert desk.looks == [0, 1]


def test_a_limit_around_the_model_is_charged_once() -> None:
    """A turn from the journal is not asked for, so it costs nothing again."""
    desk, runs, allowances = Desk(), Runs.in_process(), Allowances.in_process()
    spared: Any = limit(
        Layer.succeed(LanguageModel, desk), Limit.budget("demo", tokens=10_000), allowances=allowances, max_tokens=100
    )
    agent = Agent.make("clerk", toolkit=Toolkit.make(look), model=spared)
    _stop(agent, desk, runs)
    assert allowances.look_up("demo tokens", now=0.0).committed == 200
    assert _go(agent, desk, runs, DAY)[0].value.text == "Done."
    assert allowances.look_up("demo tokens", now=0.0).committed == 400


def test_a_timeout_around_the_program_goes_on() -> None:
    """It is one for the whole run; what had ended before is never cut."""
    desk, runs = Desk(), Runs.in_process()
    program: Any = _Timed(_agent(), 120)
    _stop(program, desk, runs)
    end, took = _go(program, desk, runs, 30 * DAY)
    assert took == 30
    assert type(end.cause.failures[0]).__name__ == "Timeout"


class _Timed:
    """An agent whose program is cut."""

    def __init__(self, agent: Any, seconds: float) -> None:
        self._agent = agent
        self._seconds = seconds

    def execute(self, prompt: str) -> Any:
        """The answer, in time."""
        return self._agent.execute(prompt).timeout(self._seconds)
