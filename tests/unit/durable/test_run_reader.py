"""Durable runs as records: stores, sub-agents, repaired and denied calls, and the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai.agents import Agent, RunRecord, diff_runs, replay_results, replay_turns
from fxai.durable import Reply, Runs, RunUnknown, durable
from fxai.effects import Gen, fx
from fxai.messages import Prompt, ToolCall
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool
from tests.kit.journal import boom
from tests.kit.recorded_runs import asked, clerk, handlers, price


def _model(*turns: Any) -> Any:
    return ScriptedModel.make(turns).layer


def test_a_run_in_a_database_is_read_by_another_program(tmp_path: Path) -> None:
    """The record of a run in SQLite has the turns and the results of the run."""
    before = fx.run(asked(durable(_model([call("price", "tea")], text("Ok.")), run="r", store=tmp_path / "runs.db")))

    record = fx.run(Runs.sqlite(tmp_path / "runs.db").record("r"))

    assert (record.ended, record.answer, record.prompt) == ("done", "Ok.", Prompt.empty)
    assert diff_runs(RunRecord.of(before), record).same


def test_an_unknown_run_has_no_record() -> None:
    """The effect fails with the name of the run."""
    assert isinstance(fx.run(Runs.in_process().record("none").result()).failure(), RunUnknown)


def test_a_waiting_run_is_pending_and_a_denied_call_has_its_reason() -> None:
    """A call without an answer has no result. A denied call has the failure that the model reads."""
    pay = Tool.make("pay", parameters=int, success=int, needs_approval=True)
    runs = Runs.in_process()
    running = Agent.make("till", toolkit=pay).execute("Pay.").provide(pay.handler(Success))

    def run(*turns: Any) -> Any:
        return fx.run(running.provide(durable(_model(*turns), run="r", store=runs)))

    _ = run([call("pay", 1), call("pay", 2)])
    waiting = fx.run(runs.record("r"))
    first, second = fx.run(runs.show("r")).questions
    fx.run(runs.answer_all("r", {first.id: Reply.deny("not today"), second.id: Reply.approve()}))
    answer = run(text("Paid."))
    record = fx.run(runs.record("r"))

    assert (waiting.ended, [one.has_ended for one in waiting.steps[0].calls]) == ("pending", [False, False])
    assert [(one.result, one.is_failure) for one in record.steps[0].calls] == [
        ({"type": "execution-denied", "reason": "not today"}, True),
        (2, False),
    ]
    assert diff_runs(RunRecord.of(answer), record).same


def test_a_repaired_call_is_recorded_in_the_form_that_ran() -> None:
    """The record contains the name and the parameters after the repair, as the answer does."""
    agent = Agent.make("clerk", toolkit=price, repair=lambda wrong, _: ToolCall(wrong.id, "price", "tea"))
    runs = Runs.in_process()
    running = agent.execute("Buy.").provide(price.handler(lambda _: Success(5)))
    answer = fx.run(running.provide(durable(_model([call("prize", "tee")], text("Ok.")), run="r", store=runs)))

    record = fx.run(runs.record("r"))

    assert [(one.name, one.params, one.result) for one in record.steps[0].calls] == [("price", "tea", 5)]
    assert diff_runs(RunRecord.of(answer), record).same


def test_equal_ids_of_a_turn_keep_their_results() -> None:
    """If a model repeats an id, each call of the record has its own result."""
    runs = Runs.in_process()
    turn = [call("price", "a", id="x"), call("price", "bb", id="x")]
    _ = fx.run(asked(durable(_model(turn, text("Ok.")), run="r", store=runs)))

    assert [one.result for one in fx.run(runs.record("r")).steps[0].calls] == [251, 252]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_runs_of_several_agents_are_separate(concurrency: int) -> None:
    """Each run of an agent has its own steps, and a replay gives each run its own turns."""
    runs = Runs.in_process()
    buyer = Agent.make("buyer", toolkit=price)

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from fx.for_each([1, 2, 3], lambda n: buyer.execute(f"Buy {n}."), concurrency=concurrency)
        yield from clerk.execute("Sell.")
        yield from LanguageModel.generate_text("Bye.")

    turns = [[call("price", "x" * n)] for n in (1, 2, 3)] if concurrency == 3 else []
    model = [*turns, text("1"), text("2"), text("3"), text("Sold."), text("Bye!")]
    _ = fx.run(program().provide(handlers()).provide(durable(_model(*model), run="a", store=runs)))
    before = fx.run(runs.record("a"))

    _ = fx.run(program().provide(handlers()).provide(durable(replay_turns(before), run="b", store=runs)))

    agents = {(step.agent, step.run) for step in before.steps}
    assert agents == {("buyer", 0), ("buyer", 1), ("buyer", 2), ("clerk", 0), ("", 0)}
    assert diff_runs(before, fx.run(runs.record("b"))).same


class _Items(msgspec.Struct, frozen=True):
    items: list[int]


def test_json_text_in_parameters_is_recorded_in_its_parsed_form() -> None:
    """If the model writes an array as a JSON string, the record has the array, and recorded results answer the call."""
    pack = Tool.make("pack", parameters=_Items, success=int)
    runs = Runs.in_process()
    running = Agent.make("packer", toolkit=pack).execute("Pack.")
    live = pack.handler(lambda given: Success(sum(given.items)))
    turns = [call("pack", {"items": "[1, 2]"}), text("Ok.")]
    answer = fx.run(running.provide(live).provide(durable(_model(*turns), run="r", store=runs)))

    record = fx.run(runs.record("r"))
    again = fx.run(running.provide(pack.handler(lambda _: boom())).provide(replay_results(_model(*turns), record)))

    assert record.steps[0].calls[0].params == {"items": [1, 2]}
    assert diff_runs(RunRecord.of(answer), record).same
    assert diff_runs(record, RunRecord.of(again)).same


def test_requests_of_handlers_keep_their_turns() -> None:
    """A handler that calls the model itself receives its own recorded turns, next to the turns of the agent."""
    write = Tool.make("write", parameters=str, success=str)
    running = Agent.make("editor", toolkit=write).execute("Write.")

    @fx.gen
    def draft(about: str) -> Gen[str, Any, Any]:
        first = yield from LanguageModel.generate_text(f"Draft {about}.").or_die()
        second = yield from LanguageModel.generate_text(f"Improve {first.text}.").or_die()
        return second.text

    runs = Runs.in_process()
    live = write.handler(draft)
    model = _model(call("write", "a"), text("a1"), text("a2"), call("write", "b"), text("b1"), text("b2"), text("Ok."))

    def run(name: str, layer: Any) -> RunRecord:
        _ = fx.run(running.provide(live).provide(durable(layer, run=name, store=runs)))
        return fx.run(runs.record(name))

    before = run("a", model)
    after = run("b", replay_turns(before))

    assert [one.result for step in after.steps for one in step.calls] == ["a2", "b2"]
    assert before.answer == "Ok."
    assert diff_runs(before, after).same
