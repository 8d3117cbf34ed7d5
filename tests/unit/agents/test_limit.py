"""Limits: what a budget counts, what it cuts, and what becomes of a run that it cut."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Success

from fxai.agents import Budget, BudgetExceeded
from fxai.agents.answer import Limit
from fxai.agents.run_options import AtLimit
from fxai.effects import Backend
from fxai.messages import Prompt, ToolCall, Usage
from fxai.testing import call, delay, finish, text
from fxai.tools import CallContext, Denied, Interrupted, Tool, Toolkit
from tests.kit.every import every
from tests.kit.rounds import Desk
from tests.kit.runs import BOTH, ONE, Way, end_of, unanswered

SLOW = {"a": 1, "b": 100}

SPENT: dict[Limit, tuple[Budget, float, list[Any]]] = {
    "rounds": (Budget(rounds=2), 2, [call("add", ONE), call("add", ONE)]),
    "tokens": (Budget(tokens=30), 30, [[call("add", ONE), finish("tool-calls", Usage(20, 10))]]),
    "calls": (Budget(calls=1), 1, [["So: ", call("add", ONE), call("add", ONE)]]),
    "seconds": (Budget(seconds=5), 5, [["So: ", call("add", ONE)], [delay(60), "late"]]),
}


@BOTH
@pytest.mark.parametrize("what", list(SPENT))
def test_a_spent_budget_is_a_failure_with_the_history(what: Limit, way: Way, backend: Backend) -> None:
    """It says what ran out and what to do; each call in the history has its result."""
    budget, limit, turns = SPENT[what]
    end = end_of(way, backend, [*turns, *([] if what == "seconds" else [text("never")])], budget=budget, passes=99)
    failure = end.failure

    assert isinstance(failure, BudgetExceeded)
    assert (failure.what, failure.limit) == (what, limit)
    assert f"did not finish within {limit:g} {what.removesuffix('s')}" in str(failure)
    assert f"Budget({what}=" in str(failure)
    assert failure.history[0] == Prompt.make("go")[0]
    assert unanswered(failure.history) == []
    assert len(end.model.requests) == len(turns)


@BOTH
@pytest.mark.parametrize("what", list(SPENT))
def test_the_model_may_answer_once_more(what: Limit, way: Way, backend: Backend) -> None:
    """With `at_limit="answer"`: it is shown everything, and may call nothing."""
    budget, _, turns = SPENT[what]
    end = end_of(way, backend, [*turns, text("In short.")], budget=budget, at_limit="answer", passes=99)
    answer = end.answer

    assert (answer.text, answer.ended) == ("In short.", "limit")
    assert [request.tool_choice for request in end.model.requests] == [*["auto"] * len(turns), "none"]
    assert [tool.name for tool in end.model.requests[-1].tools] == [tool.name for tool in end.desk.kit]
    assert unanswered(answer.history) == []
    assert answer.history[-1].role == "assistant"


@BOTH
@pytest.mark.parametrize("what", list(SPENT))
def test_the_last_text_may_be_the_answer(what: Limit, way: Way, backend: Backend) -> None:
    """With `at_limit="last_text"` nobody is asked again: what was said last is the text, if it was empty, too."""
    budget, _, turns = SPENT[what]
    end = end_of(way, backend, turns, budget=budget, at_limit="last_text", passes=99)
    answer = end.answer

    assert (answer.text, answer.ended) == ("So: " if what in ("calls", "seconds") else "", "limit")
    assert len(end.model.requests) == len(turns)
    assert unanswered(answer.history) == []


@BOTH
def test_the_last_turn_cannot_call(way: Way, backend: Backend) -> None:
    """A model that calls all the same is answered, and that is the end; the text is the last one that there is."""
    turns = [["Well, ", call("add", ONE)], [call("add", ONE, id="x")]]
    end = end_of(way, backend, turns, budget=Budget(rounds=1), at_limit="answer")
    (result,) = end.answer.response.tool_results

    assert (end.answer.text, end.answer.ended, len(end.answer.steps)) == ("Well, ", "limit", 2)
    assert isinstance(result.result, Denied)
    assert end.desk.journal.lines == ["add 1"]


@BOTH
@pytest.mark.parametrize("at_limit", ["fail", "answer", "last_text"])
def test_a_budget_that_is_just_enough_cuts_nothing(at_limit: AtLimit, way: Way, backend: Backend) -> None:
    """It is spent only when more is needed: the turn that spends it may be the last one."""
    turns = [call("add", ONE), ["ok", finish("stop", Usage(20, 10))]]
    budget = Budget(rounds=2, tokens=1, calls=1, seconds=1)
    end = end_of(way, backend, turns, budget=budget, at_limit=at_limit)

    assert (end.answer.text, end.answer.ended) == ("ok", "done")


@BOTH
def test_a_model_that_never_stops_is_stopped(way: Way, backend: Backend) -> None:
    """After ten rounds, unless said otherwise."""
    end = end_of(way, backend, [call("add", ONE)] * 20)

    assert (end.failure.what, end.failure.limit, len(end.model.requests)) == ("rounds", 10, 10)
    assert len(end.failure.history) == 21


# -- tokens


@BOTH
def test_tokens_of_all_rounds_count(way: Way, backend: Backend) -> None:
    """In and out; what no provider told is not counted."""
    turn = [call("add", ONE), finish("tool-calls", Usage(10, 5))]
    untold = [call("add", ONE), finish("tool-calls")]
    end = end_of(way, backend, [turn, untold, turn, turn, text("never")], budget=Budget(tokens=45))

    assert (end.failure.what, len(end.model.requests)) == ("tokens", 4)


@BOTH
def test_a_server_that_counts_backwards_gives_no_tokens_back(way: Way, backend: Backend) -> None:
    """What is no number of tokens is unknown: it makes no budget larger."""
    turn = [call("add", ONE), finish("tool-calls", Usage(10, 5))]
    hostile = [call("add", ONE), finish("tool-calls", Usage(-1000, 5))]
    end = end_of(way, backend, [turn, hostile, turn, turn, text("never")], budget=Budget(tokens=45))

    assert (end.failure.what, len(end.model.requests)) == ("tokens", 4)


# -- calls


@BOTH
def test_calls_beyond_the_budget_are_not_run(way: Way, backend: Backend) -> None:
    """Those that fit are; each has its result, in the order of the calls, and the last turn reads them."""
    calls = [call("add", {"a": n, "b": 0}, id=f"c{n}") for n in range(4)]
    turns = [[calls[0]], calls[1:], text("ok")]
    end = end_of(way, backend, turns, budget=Budget(calls=2), at_limit="answer")
    results = end.answer.steps[1].results

    assert sorted(end.desk.journal.lines) == ["add 0", "add 1"]
    assert [result.id for result in results] == ["c1", "c2", "c3"]
    assert [isinstance(result.result, Interrupted) for result in results] == [False, True, True]
    assert "2 calls" in results[1].encoded_result["reason"]
    assert unanswered(end.answer.history) == []


@BOTH
def test_calls_with_one_id_are_two_calls_of_a_budget(way: Way, backend: Backend) -> None:
    """The second call of an id counts as its own call, so only the call within the budget runs."""
    twice = [call("add", ONE, id="c"), call("add", ONE, id="c")]
    end = end_of(way, backend, [twice, text("ok")], budget=Budget(calls=1), at_limit="answer")
    results = end.answer.steps[0].results

    assert [one.id for one in results] == ["c", "c_2"]
    assert [isinstance(one.result, Interrupted) for one in results] == [False, True]
    assert end.desk.journal.lines == ["add 1"]


@BOTH
def test_a_budget_of_no_calls_runs_none(way: Way, backend: Backend) -> None:
    """The model may still answer."""
    end = end_of(way, backend, [call("add", ONE), text("never")], budget=Budget(calls=0))
    idle = end_of(way, backend, [text("ok")], budget=Budget(calls=0))

    assert end.failure.what == "calls"
    assert end.desk.journal.lines == []
    assert idle.answer.text == "ok"


@BOTH
def test_calls_of_others_do_not_count(way: Way, backend: Backend) -> None:
    """Neither those that the provider runs, nor those that wait for somebody else."""
    desk = Desk()
    kit: Any = Toolkit.make(Tool.make("client").external()).merge(desk.kit)
    theirs = ToolCall("p", "search", {}, provider_executed=True)
    turns = [[theirs, call("client", {}, id="x"), call("add", ONE, id="a")]]
    end = end_of(way, backend, turns, desk=desk, toolkit=kit, budget=Budget(calls=1))

    assert (end.answer.ended, [one.id for one in end.answer.pending]) == ("pending", ["x"])
    assert desk.journal.lines == ["add 1"]


@BOTH
def test_calls_that_nobody_resolves_do_not_count(way: Way, backend: Backend) -> None:
    """With `resolve_tools=False` they are the caller's."""
    options = {"resolve_tools": False}
    end = end_of(way, backend, [call("add", ONE, id="a")], options=options, budget=Budget(calls=0))

    assert (end.answer.ended, [one.id for one in end.answer.pending]) == ("pending", ["a"])


# -- seconds


@BOTH
def test_a_question_that_hangs_is_cut(way: Way, backend: Backend) -> None:
    """Half of a turn is no turn: the history is that before it."""
    end = end_of(way, backend, [call("add", ONE), ["Half ", delay(60), "late"]], budget=Budget(seconds=5), passes=99)

    assert end.failure.what == "seconds"
    assert [message.role for message in end.failure.history] == ["user", "assistant", "tool"]
    assert end.desk.clock.monotonic() == 5


@BOTH
def test_calls_that_hang_are_cut(way: Way, backend: Backend) -> None:
    """Their finalizers run; the results of those that ended stay, the others say why there is none."""
    calls = [call("slow", SLOW, id="s"), call("add", ONE, id="a")]
    end = end_of(way, backend, [["So: ", *calls]], budget=Budget(seconds=5), passes=99)
    history = end.failure.history
    results: list[Any] = list(history[2].content)

    assert "left 1" in end.desk.journal.lines
    assert "end 1" not in end.desk.journal.lines
    assert [message.role for message in history] == ["user", "assistant", "tool"]
    assert [(part.id, part.is_failure) for part in results] == [("s", True), ("a", False)]
    assert results[0].result["type"] == "execution-interrupted"
    assert unanswered(history) == []


def test_a_stream_that_was_cut_is_complete(backend: Backend) -> None:
    """Each call that it told of has its result, and each round its end."""
    calls = [call("slow", SLOW, id="s"), call("add", ONE, id="a")]
    end = end_of("stream", backend, [calls, text("ok")], budget=Budget(seconds=5), at_limit="answer", passes=99)
    half = end_of("stream", backend, [["Ha", delay(60)], "ok"], budget=Budget(seconds=5), at_limit="answer", passes=99)

    assert [r.id for r in end.rounds[0].tool_results] == ["s", "a"]
    assert [round_.finish_reason for round_ in end.rounds] == ["tool-calls", "stop"]
    assert [(round_.text, round_.finish_reason) for round_ in half.rounds] == [("Ha", "other"), ("ok", "stop")]
    assert len(half.answer.steps) == 1


@BOTH
def test_the_last_turn_has_as_long_again(way: Way, backend: Backend) -> None:
    """And no longer: a model that hangs in it, too, is cut."""
    limits: dict[str, Any] = {"budget": Budget(seconds=5), "at_limit": "answer", "passes": 99}
    end = end_of(way, backend, [[delay(60), "late"], [delay(4), "ok"]], **limits)
    cut = end_of(way, backend, [[delay(60), "late"], [delay(6), "later"]], **limits)

    assert end.answer.text == "ok"
    assert (cut.failure.what, cut.desk.clock.monotonic()) == ("seconds", 10)


@BOTH
def test_a_text_that_was_never_said_is_no_answer(way: Way, backend: Backend) -> None:
    """`"last_text"` has none where the first turn was cut: then it is a failure."""
    end = end_of(way, backend, [[delay(60), "late"]], budget=Budget(seconds=5), at_limit="last_text", passes=99)

    assert end.failure.what == "seconds"


@BOTH
def test_handlers_know_when_the_run_will_be_cut(way: Way, backend: Backend) -> None:
    """The nearer one of the budget's time and the caller's deadline."""
    seen: list[float | None] = []
    look = Tool.make("look", success=int)

    def handler(_: object, context: CallContext) -> Success[int]:
        seen.append(context.deadline)
        return Success(1)

    for options in ({}, {"deadline": 3.0}, {"deadline": 300.0}):
        plan: dict[str, Any] = {"toolkit": Toolkit.make(look), "options": options, "budget": Budget(seconds=60)}
        end_of(way, backend, [call("look", {}), text("ok")], layer=look.handler(handler), **plan)

    assert seen == [60.0, 3.0, 60.0]


# -- budgets


def test_a_run_that_goes_on_counts_anew(backend: Backend) -> None:
    """The history of one that was cut is a good prompt, with a budget of its own."""
    budget = Budget(rounds=1, calls=1)
    first = end_of("whole", backend, [call("add", ONE)], budget=budget)
    second = end_of("whole", backend, [text("3")], prompt=first.failure.history, budget=budget)

    assert second.answer.text == "3"
    assert second.shown == [["user", "assistant", "tool"]]


@every("wrong", [{"rounds": 0}, {"tokens": 0}, {"seconds": 0}, {"seconds": -1.0}, {"calls": -1}])
def test_a_budget_that_allows_nothing_is_refused(wrong: dict[str, Any]) -> None:
    """When it is made; the message says which, and what to allow."""
    with pytest.raises(ValueError, match=r"must be (at least|greater than)"):
        Budget(**wrong)
