"""Outputs: typed answers, and what becomes of those that do not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fxai.agents import Agent, Answer, Budget, RunFailed, step_count_is
from fxai.effects import Backend
from fxai.messages import AiError, Prompt, StructuredOutputError
from fxai.schema import Schema
from fxai.testing import call, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.rounds import Desk
from tests.kit.runs import BOTH, ONE, Way, end_of


class Total(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A typed answer."""

    sum: int
    exact: bool


TOTAL = Schema.of(Total)
RIGHT = '{"sum": 3, "exact": true}'
WRONG = '{"sum": "three", "exact": 1}'


@BOTH
def test_an_answer_has_the_type_that_was_asked_for(way: Way, backend: Backend) -> None:
    """Every step is held to its schema; calls go before it."""
    end = end_of(way, backend, [call("add", ONE), text(RIGHT)], output=TOTAL)

    assert end.answer.output == Total(3, True)
    assert end.answer.text == RIGHT
    assert [request.response_schema for request in end.model.requests] == [TOTAL.document] * 2


@BOTH
def test_without_a_type_the_output_is_the_text(way: Way, backend: Backend) -> None:
    """And no model hears of a schema."""
    end = end_of(way, backend, [text("ok")])

    assert end.answer.output == "ok"
    assert end.model.requests[0].response_schema is None


@BOTH
def test_a_wrong_answer_is_told_with_every_fault(way: Way, backend: Backend) -> None:
    """And asked for again; both stay in the history. It is a round as any."""
    end = end_of(way, backend, [text(WRONG), text(RIGHT)], output=TOTAL)
    told: Any = end.model.requests[1].prompt[-1]

    assert end.answer.output == Total(3, True)
    assert end.shown == [["user"], ["user", "assistant", "user"]]
    assert "/sum: expected integer, found string" in told.content[0].text
    assert "/exact: expected boolean, found integer" in told.content[0].text
    assert [message.role for message in end.answer.history] == ["user", "assistant", "user", "assistant"]
    assert len(end.answer.steps) == 2


@pytest.mark.parametrize("retries", [0, 1, 2])
@BOTH
def test_it_is_told_so_often_and_no_more(retries: int, way: Way, backend: Backend) -> None:
    """Then it is a failure, which holds the text, the place and the conversation."""
    end = end_of(way, backend, [text(WRONG)] * (retries + 1), output=TOTAL, output_retries=retries)
    failure = end.failure

    assert isinstance(failure, RunFailed)
    assert isinstance(failure.reason, StructuredOutputError)
    assert (failure.reason.text, failure.reason.pointer) == (WRONG, "/sum")
    assert failure.history[-1].role == "assistant"
    assert len(failure.history) == 2 * (retries + 1)


@pytest.mark.parametrize("said", ["", "   ", "Three.", "```json\n{}\n```"])
@BOTH
def test_what_is_no_json_is_wrong(said: str, way: Way, backend: Backend) -> None:
    """Nothing at all, too."""
    end = end_of(way, backend, [text(said)], output=TOTAL, output_retries=0)

    assert isinstance(end.failure.reason, StructuredOutputError)


@BOTH
def test_an_answer_that_was_cut_is_not_asked_for_again(way: Way, backend: Backend) -> None:
    """It would be cut again; one that fits all the same is an answer."""
    cut = end_of(way, backend, [['{"sum": 3', finish("length")]], output=TOTAL)
    whole = end_of(way, backend, [[RIGHT, finish("length")]], output=TOTAL)

    assert isinstance(cut.failure.reason, StructuredOutputError)
    assert whole.answer.output == Total(3, True)


@BOTH
def test_retries_are_rounds_of_the_budget(way: Way, backend: Backend) -> None:
    """A wrong answer in the last round of it is a spent budget."""
    end = end_of(way, backend, [text(WRONG)], output=TOTAL, budget=Budget(rounds=1))

    assert end.failure.what == "rounds"
    assert "int" in str(end.failure.history[-1])


@BOTH
def test_the_last_turn_of_a_budget_is_typed_too(way: Way, backend: Backend) -> None:
    """A right one is the answer, a wrong one a failure; the last text that was said may fit."""
    limits: dict[str, Any] = {"output": TOTAL, "budget": Budget(rounds=1), "at_limit": "answer"}
    right = end_of(way, backend, [call("add", ONE), text(RIGHT)], **limits)
    wrong = end_of(way, backend, [call("add", ONE), text(WRONG)], **limits)
    limits["at_limit"] = "last_text"
    last = end_of(way, backend, [[RIGHT, call("add", ONE)]], **limits)
    none = end_of(way, backend, [["So: ", call("add", ONE)]], **limits)

    assert (right.answer.output, right.answer.ended) == (Total(3, True), "limit")
    assert isinstance(wrong.failure.reason, StructuredOutputError)
    assert last.answer.output == Total(3, True)
    with pytest.raises(LookupError, match=r"this last text is invalid: .*So: "):
        _ = none.answer.output


@BOTH
def test_a_run_that_ended_otherwise_has_no_output(way: Way, backend: Backend) -> None:
    """Where it stopped, or waits: asking for it says which, and what to do."""
    desk = Desk()
    kit: Any = Toolkit.make(Tool.make("client").external()).merge(desk.kit)
    waits = end_of(way, backend, [call("client", {})], desk=desk, toolkit=kit, output=TOTAL)
    stopped = end_of(way, backend, [call("add", ONE)], output=TOTAL, stop_when=(step_count_is(1),))

    assert (waits.answer.ended, stopped.answer.ended) == ("pending", "stopped")
    with pytest.raises(LookupError, match=r"calls are pending \(client\)"):
        _ = waits.answer.output
    with pytest.raises(LookupError, match="a stop condition ended the run"):
        _ = stopped.answer.output


@BOTH
def test_no_value_is_a_value(way: Way, backend: Backend) -> None:
    """A type may allow null."""
    end = end_of(way, backend, [text("null")], output=Schema.of(type(None)))

    assert end.answer.output is None


def test_a_failed_run_is_written_without_its_conversation() -> None:
    """As any `AiError`: what was said is not for a log."""
    error = AiError("Agent", "execute", StructuredOutputError(text="x", pointer="", description="y"))
    failed = RunFailed.of(error, Prompt.make("secret"))

    assert failed.to_json() == error.to_json()
    assert failed.to_data() == error.to_data()
    assert str(failed) == str(error)
    assert (failed.error, RunFailed.of(failed, Prompt.empty)) == (error, failed)
    assert AiError.from_json(failed.to_json()).unwrap() == error


def test_an_answer_is_asked_for_once_at_least() -> None:
    """Fewer retries than none are refused."""
    with pytest.raises(ValueError, match="output_retries must be at least 0"):
        Agent.make("a", output=int, output_retries=-1)


def test_an_answer_compares_by_what_it_holds() -> None:
    """And hashes by its history."""
    one: Answer[Any] = Answer((), Prompt.make("a"), "done", True, 1)

    assert one == Answer((), Prompt.make("a"), "done", True, 1)
    assert one != Answer((), Prompt.make("a"), "done", True, 2)
    assert hash(one) == hash(Answer((), Prompt.make("a")))
