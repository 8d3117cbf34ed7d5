"""`history_of`, and the memory of a run that a defect of a handler ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fxai import Agent, Memory, tool
from fxai.agents import RunFailed, history_of
from fxai.effects import Backend, Cause, Die, EffectOf, Exit, Failed, fx
from fxai.messages import NetworkError, Prompt, ToolMessage
from fxai.testing import ScriptedModel, call, fails, text
from tests.kit.runs import unanswered


class Bank:
    """Tools of a bank, and what they did."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @tool
        def pay(to: str) -> str:
            """Pay a person."""
            self.paid.append(to)
            return f"paid {to}"

        @tool
        def broken(n: int) -> str:
            """Have a bug."""
            raise KeyError(n)

        self.agent: Any = Agent.make("bank").with_tools(pay, broken)


BOB = [call("pay", {"to": "bob"}, id="bob"), call("broken", {"n": 1}, id="broken")]


def whole(run: Any) -> Any:
    """The answer of an agent."""
    return run.execute("go")


def streamed(run: Any) -> Any:
    """The parts of the answer of an agent."""
    return run.stream("go").collect()


def _results(message: Any) -> list[tuple[str, bool]]:
    return [(one.id, one.is_failure) for one in message.content]


WAYS = pytest.mark.parametrize("way", [whole, streamed])


@WAYS
def test_history_of_a_defect_has_the_results_of_every_call_that_ended(
    way: Callable[[Any], EffectOf[Any, Any, Any]], backend: Backend
) -> None:
    """The exit, its cause, and the exception that a run raises have the same history; each call has one result."""
    bank = Bank()
    model = ScriptedModel.make([call("pay", {"to": "ann"}, id="ann"), BOB])

    end: Exit[Any, Any] = fx.run_exit(way(bank.agent).provide(model.layer), backend=backend)

    assert isinstance(end, Failed)
    history = history_of(end)
    assert history is not None
    assert bank.paid == ["ann", "bob"]
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant", "tool"]
    assert unanswered(history) == []
    assert _results(history[4]) == [("bob", False), ("broken", True)]
    assert history_of(end.cause) is history
    assert history_of(end.cause.defects[0]) is history


def test_history_of_an_exception_that_a_run_raised() -> None:
    """`fx.run` raises the exception of the handler, and another run continues from its history."""
    bank = Bank()
    with pytest.raises(KeyError) as caught:
        fx.run(bank.agent.execute("go").provide(ScriptedModel.make([BOB]).layer))

    history = history_of(caught.value)
    assert history is not None
    again: Any = bank.agent.execute(history.extend(Prompt.make("again")))
    assert fx.run(again.provide(ScriptedModel.make([text("done")]).layer)).text == "done"


def test_history_of_other_ends() -> None:
    """A typed failure and an answer have theirs; a bug of other code and a cancellation have none."""
    bank = Bank()
    failed = fx.run_exit(
        bank.agent.execute("go").provide(ScriptedModel.make([fails(NetworkError("TransportError"))]).layer)
    )
    answered = fx.run_exit(bank.agent.execute("go").provide(ScriptedModel.make([text("hi")]).layer))

    assert isinstance(failed, Failed)
    assert isinstance(failed.cause.failures[0], RunFailed)
    assert history_of(failed) == Prompt.make("go")
    assert [message.role for message in history_of(answered) or ()] == ["user", "assistant"]
    assert history_of(fx.run_exit(fx.die(KeyError()))) is None
    assert history_of(Failed(Cause((Die(KeyError()),)))) is None


def test_history_of_a_defect_in_a_sub_agent_is_the_one_of_the_outer_run() -> None:
    """The exception passes both runs, and belongs to the outermost."""
    inner = Bank()
    asking: Any = Agent.make("outer").with_tools(inner.agent.as_tool("ask"))
    model = ScriptedModel.make([call("ask", {"prompt": "inner"}), BOB])

    end = fx.run_exit(asking.execute("outer").provide(model.layer))

    history = history_of(end)
    assert history is not None
    assert history[0] == Prompt.make("outer")[0]
    assert unanswered(history) == []


@WAYS
def test_a_memory_keeps_what_had_ended_before_a_defect(
    way: Callable[[Any], EffectOf[Any, Any, Any]], backend: Backend
) -> None:
    """The next run reads the calls and their results."""
    bank, memory = Bank(), Memory.in_process()
    agent = bank.agent.with_memory(memory)
    fx.run_exit(way(agent).provide(ScriptedModel.make([call("pay", {"to": "ann"}), BOB]).layer), backend=backend)
    kept: Any = fx.run(memory.load())

    model = ScriptedModel.make([text("I paid both.")])
    fx.run(agent.execute("whom?").provide(model.layer), backend=backend)

    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant", "tool"]
    assert unanswered(kept) == []
    assert [message.role for message in model.requests[0].prompt][-2:] == ["tool", "user"]


def test_a_memory_keeps_the_results_of_approved_calls_beside_a_broken_one() -> None:
    """They were committed as in doubt before the calls ran, and the results replace that."""

    @tool(needs_approval=True)
    def pay(to: str) -> str:
        """Pay a person."""
        return f"paid {to}"

    @tool(needs_approval=True)
    def broken(n: int) -> str:
        """Have a bug."""
        raise KeyError(n)

    memory = Memory.in_process()
    agent: Any = Agent.make("bank").with_tools(pay, broken).with_memory(memory)
    asked = fx.run(agent.execute("go").provide(ScriptedModel.make([BOB]).layer))
    answers = Prompt([ToolMessage(tuple(one.approve() for one in asked.pending))])

    end = fx.run_exit(agent.execute(answers).provide(ScriptedModel.make([]).layer))

    kept: Any = fx.run(memory.load())
    assert isinstance(end, Failed)
    assert [one.result for one in kept[-1].content if one.type == "tool-result" and not one.is_failure] == ["paid bob"]
    assert history_of(end) == kept
