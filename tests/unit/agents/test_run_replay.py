"""Replays of recorded runs: recorded turns with live tools, recorded results with a live model, and divergence."""

from __future__ import annotations

from typing import Any, Never, assert_type

import pytest
from returns.result import Failure, Success

from fxai.agents import Agent, Compaction, RunDiverged, RunRecord, diff_runs, replay_results, replay_turns
from fxai.annotations import Readonly
from fxai.durable import Runs, durable
from fxai.effects import EffectOf, Failed, Layer, LayerOf, fx
from fxai.messages import Pending, Prompt, ToolCall
from fxai.models import ApprovalLedger, LanguageModel
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit
from tests.kit.journal import boom
from tests.kit.recorded_runs import asked, clerk, handlers, order, price, record_of


def _model(*turns: Any) -> LayerOf[LanguageModel]:
    return ScriptedModel.make(turns).layer


def _diverged(program: EffectOf[Any, Any, Any]) -> RunDiverged:
    """The typed failure of a replay that its record cannot answer."""
    ended = fx.run_exit(program)
    assert isinstance(ended, Failed)
    assert ended.cause.defects == ()
    (failure,) = ended.cause.failures
    assert isinstance(failure, RunDiverged)
    return failure


BEFORE = RunRecord.of(fx.run(asked(_model([call("price", "tea")], [call("order", {"tea": 2})], text("Done.")))))


# -- recorded turns


def test_recorded_turns_run_changed_tools() -> None:
    """With recorded turns, the tools run, and the difference names the changed result."""
    after = RunRecord.of(fx.run(asked(replay_turns(BEFORE), cents=300)))

    (change,) = diff_runs(BEFORE, after).changes
    assert (change.tool, change.values[0].before, change.values[0].after) == ("price", 253, 303)


def test_recorded_turns_name_the_missing_turn() -> None:
    """If the run needs more turns than the record has, the failure names the step."""
    short = record_of([[("price", "tea", None)]])
    cut = RunRecord(short.steps[:1])

    failure = _diverged(asked(replay_turns(cut)))

    assert (failure.kind, failure.step) == ("turn", 2)
    assert str(failure).startswith("the record has no turn for step 2\n")


def test_strict_turns_name_a_changed_result() -> None:
    """With `strict`, a changed result stops the run before the next turn, with its pointer."""
    failure = _diverged(asked(replay_turns(BEFORE, strict=True), cents=300))

    assert (failure.kind, failure.step) == ("results", 2)
    assert [str(value) for value in failure.values] == ["/calls/price/result: 253 → 303"]


def test_strict_turns_name_a_changed_prompt() -> None:
    """With `strict`, another prompt stops the run before its first turn."""
    running = clerk.execute("Buy coffee.").provide(handlers())

    failure = _diverged(running.provide(replay_turns(BEFORE, strict=True)))

    assert (failure.kind, failure.step) == ("prompt", 1)
    assert failure.values[0].pointer == "/0/content/0/text"


def test_strict_turns_accept_other_instructions() -> None:
    """The instructions of an agent are code, so a change of them is not a divergence."""
    changed = Agent.make("clerk", toolkit=clerk.toolkit, instructions="Sell nothing.")
    running = changed.execute("Buy tea.").provide(handlers()).provide(replay_turns(BEFORE, strict=True))

    assert fx.run(running).text == "Done."


def test_another_model_continues_after_the_record() -> None:
    """With `otherwise`, another model answers all requests after the first that the record cannot answer."""
    other = _model([call("price", "milk")], text("I gave up."))

    answer = fx.run(asked(replay_turns(BEFORE, strict=True, otherwise=other), cents=300))

    assert [one.name for step in answer.steps for one in step.calls] == ["price", "price"]
    assert answer.text == "I gave up."


def test_a_stream_gets_recorded_turns_and_the_other_model() -> None:
    """A streamed run reads the recorded turns, and then the other model, as streams."""
    cut = RunRecord(BEFORE.steps[:1], BEFORE.prompt)

    parts = fx.run(asked(replay_turns(cut, otherwise=_model(text("The end."))), streams=True))

    assert [part.delta for part in parts if part.type == "text-delta"] == ["The end."]


def test_recorded_turns_replace_the_model_of_an_agent() -> None:
    """An agent with its own model does not call it."""
    own = Agent.make("clerk", toolkit=clerk.toolkit, model=_model())
    running = own.execute("Buy tea.").provide(handlers()).provide(replay_turns(BEFORE))

    assert fx.run(running).text == "Done."


def test_recorded_turns_answer_rounds_without_an_agent() -> None:
    """A program that calls the model itself receives the recorded turns in order."""
    before = record_of([], "One.")
    program = LanguageModel.generate_text("Hi").provide(replay_turns(before))

    assert fx.run(program).text == "One."
    assert _diverged(LanguageModel.generate_text("Hi").provide(replay_turns(RunRecord(())))).step == 1


def test_the_types_of_a_replay_name_its_failure() -> None:
    """The failure `RunDiverged` is a part of the layer's type."""
    assert_type(replay_turns(BEFORE), LayerOf[LanguageModel, RunDiverged, None])
    assert_type(replay_results(Layer.empty(), BEFORE), LayerOf[Never, RunDiverged, None])


def test_a_turn_that_was_pending_waits_again() -> None:
    """A recorded turn whose call waited for an approval asks for the approval again."""
    pay = Tool.make("pay", parameters=int, success=int, needs_approval=True)
    agent = Agent.make("till", toolkit=pay)
    running = agent.execute("Pay.").provide(pay.handler(Success))
    before = RunRecord.of(fx.run(running.provide(_model([call("pay", 3)]))))

    again = fx.run(running.provide(replay_turns(before)))

    assert (before.ended, again.ended) == ("pending", "pending")
    assert diff_runs(before, RunRecord.of(again)).same


# -- sub-agents


def _shop() -> tuple[Agent[Any, Any, Any, Any], Any]:
    finder = Agent.make("find/er", toolkit=price)
    return Agent.make("shop", toolkit=Toolkit.make(order)).with_tools(finder.as_tool()), handlers()


def test_a_durable_record_replays_sub_agents() -> None:
    """The record of a durable run contains the turns of sub-agents, and each run of a sub-agent takes its own turns."""
    shop, live = _shop()
    runs = Runs.in_process()
    program = shop.execute("Buy.").provide(live)
    ask = [call("find/er", {"prompt": "tea"}), call("find/er", {"prompt": "milk"})]
    model = _model(ask, [call("price", "a")], text("1"), [call("price", "bb")], text("2"), text("All."))
    _ = fx.run(program.provide(durable(model, run="a", store=runs)))
    before = fx.run(runs.record("a"))

    _ = fx.run(program.provide(durable(replay_turns(before, strict=True), run="b", store=runs)))
    after = fx.run(runs.record("b"))

    assert {(step.agent, step.run) for step in before.steps} == {("", 0), ("find%2Fer", 0), ("find%2Fer", 1)}
    assert before.answer == "All."
    assert diff_runs(before, after).same


def test_a_record_of_an_answer_has_no_turns_of_sub_agents() -> None:
    """A sub-agent diverges if the record contains only the steps of its caller."""
    shop, live = _shop()
    before = record_of([[("find/er", {"prompt": "tea"}, None)]])

    failure = _diverged(shop.execute("Buy.").provide(live).provide(replay_turns(before)))

    assert (failure.kind, failure.agent, failure.step) == ("turn", "find%2Fer", 1)


# -- recorded results

BROKEN = price.handler(lambda _: boom()) | order.handler(lambda _: boom())


def _with_results(record: RunRecord, *turns: Any, **options: Any) -> EffectOf[Any, Any]:
    return clerk.execute("Buy tea.").provide(BROKEN).provide(replay_results(_model(*turns), record, **options))


def test_recorded_results_run_no_handler() -> None:
    """With recorded results, another model runs without side effects."""
    answer = fx.run(_with_results(BEFORE, [call("order", {"tea": 2}), call("price", "tea")], text("Bought.")))

    assert [result.result for result in answer.steps[0].results] == [{"tea": 4}, 253]


def test_a_call_that_is_not_recorded_names_the_nearest_call() -> None:
    """The failure names the call, and its difference from the most similar recorded call."""
    failure = _diverged(_with_results(BEFORE, [call("order", {"tea": 3})]))

    assert (failure.kind, failure.step, failure.tool, failure.params) == ("call", 1, "order", {"tea": 3})
    assert [str(value) for value in failure.values] == ["/params/tea: 2 → 3"]
    assert "unknown='run'" in str(failure)


def test_an_unknown_call_can_run() -> None:
    """With `unknown="run"`, a call that the record does not contain runs its handler."""
    model = _model([call("price", "tea"), call("price", "milk")], text("Ok."))
    running = clerk.execute("Buy.").provide(handlers(500)).provide(replay_results(model, BEFORE, unknown="run"))

    assert [result.result for result in fx.run(running).steps[0].results] == [253, 504]


def test_equal_calls_take_their_results_in_order() -> None:
    """Each recorded result answers one call; a readonly tool returns its last result again."""
    before = record_of([[("price", "tea", (False, 1)), ("price", "tea", (False, 2))]])
    thrice = [call("price", "tea")] * 3
    kept = price.annotate(Readonly, True)
    agent = Agent.make("clerk", toolkit=kept)
    reading = agent.execute("Buy.").provide(kept.handler(lambda _: boom()))

    answer = fx.run(reading.provide(replay_results(_model(thrice, text("Ok.")), before)))

    assert [result.result for result in answer.steps[0].results] == [1, 2, 2]
    assert _diverged(_with_results(before, thrice)).kind == "call"


def test_recorded_failures_keep_their_kind() -> None:
    """A failure of the tool, a denial, and a validation error reach the model as they were recorded."""
    denial = {"type": "execution-denied", "reason": "not today"}
    before = record_of([[("price", "", (True, "no item")), ("price", "gold", (True, denial))]])

    answer = fx.run(_with_results(before, [call("price", ""), call("price", "gold"), call("price", 7)], text("No.")))

    first, second, third = answer.steps[0].results
    assert (first.result, second.encoded_result) == ("no item", denial)
    assert third.encoded_result["type"] == "invalid-parameters"


def test_a_failure_in_the_error_channel_fails_again() -> None:
    """A recorded failure of a tool in failure mode "error" ends the run with this failure."""
    pay = Tool.make("pay", parameters=int, success=int, failure=str)
    running = Agent.make("till", toolkit=pay).execute("Pay.")
    model = [call("pay", 3)]
    ended = fx.run_exit(running.provide(pay.handler(lambda _: Failure("no money"))).provide(_model(model)))
    before = RunRecord.of(ended)

    again = fx.run_exit(running.provide(pay.handler(lambda _: boom())).provide(replay_results(_model(model), before)))

    assert before.ended == "failed"
    assert diff_runs(before, RunRecord.of(again)).same


def test_a_result_of_another_type_diverges() -> None:
    """If the type of a tool changed, the failure names the location in the recorded result."""
    before = record_of([[("order", {"tea": 2}, (False, {"tea": "two"}))]])

    failure = _diverged(_with_results(before, [call("order", {"tea": 2})]))

    assert (failure.kind, failure.values[0].pointer) == ("result", "/result/tea")


def test_a_recorded_call_needs_no_approval() -> None:
    """A recorded call runs without approval, and an unknown call still needs it."""
    pay = Tool.make("pay", parameters=int, success=int, needs_approval=True)
    running = Agent.make("till", toolkit=pay).execute("Pay.").provide(pay.handler(lambda _: boom()))
    before = record_of([[("pay", 3, (False, 9))]])

    paid = fx.run(running.provide(replay_results(_model([call("pay", 3)], text("Paid.")), before)))
    waits = fx.run(running.provide(replay_results(_model([call("pay", 4)]), before)))

    assert (paid.text, paid.steps[0].results[0].result) == ("Paid.", 9)
    assert [one.name for one in waits.pending] == ["pay"]


def test_an_external_call_gets_its_recorded_result() -> None:
    """A call that the program answers from outside does not stay pending if the record has its result."""
    pick = Tool.make("pick", parameters=int, success=str).external()
    running = Agent.make("till", toolkit=pick).execute("Pick.")
    before = record_of([[("pick", 1, (False, "red"))]])

    answer = fx.run(running.provide(replay_results(_model([call("pick", 1)], text("Red.")), before)))

    assert (answer.text, answer.steps[0].results[0].result) == ("Red.", "red")


def test_an_approved_call_of_an_earlier_run_gets_its_result() -> None:
    """The result of a call that the history approves belongs to a call of an earlier run."""
    pay = Tool.make("pay", parameters=int, success=int, needs_approval=True)
    agent = Agent.make("till", toolkit=pay)
    live = pay.handler(lambda n: Success(n * 2))
    first = fx.run(agent.execute("Pay.").provide(live).provide(_model([ToolCall("c1", "pay", 3)])))
    history = first.history.reply(Pending.approve)
    second = fx.run(agent.execute(history).provide(live).provide(_model(text("Paid."))))
    before = RunRecord.of(second)
    broken = agent.execute(history).provide(pay.handler(lambda _: boom()))

    fresh = ApprovalLedger.in_process().layer
    again = fx.run(broken.provide(replay_results(_model(text("Paid.")), before)).provide(fresh))

    assert [(one.name, one.result) for one in before.steps[0].calls] == [("pay", 6)]
    assert diff_runs(before, RunRecord.of(again)).same


@pytest.mark.parametrize("order_of_layers", ["inside", "outside"])
def test_a_durable_layer_keeps_the_typed_failure(order_of_layers: str) -> None:
    """A replay inside or outside a durable layer fails with its typed failure."""
    cut, store = RunRecord(BEFORE.steps[:1], BEFORE.prompt), Runs.in_process()
    if order_of_layers == "inside":
        program: Any = asked(durable(replay_turns(cut), run="r", store=store))
    else:
        program = asked(durable(Layer.empty(), run="r", store=store)).provide(replay_turns(cut))

    assert _diverged(program).kind == "turn"


def test_a_prompt_is_not_needed() -> None:
    """Strict turns do not compare prompts if the record has none."""
    bare = RunRecord(BEFORE.steps)

    assert bare.prompt == Prompt.empty
    assert fx.run(asked(replay_turns(bare, strict=True))).text == "Done."


def test_strict_turns_compare_results_and_not_their_form_for_the_model() -> None:
    """A tool with its own output for the model does not diverge if its results are the same."""
    loud = price.with_options(to_model_output=lambda result: f"{result} CENTS")
    running = Agent.make("clerk", toolkit=loud).execute("Buy.").provide(loud.handler(lambda _: Success(5)))
    before = RunRecord.of(fx.run(running.provide(_model([call("price", "tea")], text("Ok.")))))

    assert fx.run(running.provide(replay_turns(before, strict=True))).text == "Ok."


def test_recorded_results_answer_sub_agents() -> None:
    """The recorded answer of a sub-agent replaces its run, and a record with its steps has no difference."""
    shop, live = _shop()
    runs = Runs.in_process()
    ask = call("find/er", {"prompt": "tea"})
    first = _model(ask, [call("price", "a")], text("1"), text("All."))
    _ = fx.run(shop.execute("Buy.").provide(live).provide(durable(first, run="a", store=runs)))
    before = fx.run(runs.record("a"))

    second = replay_results(_model(ask, text("All.")), before)
    _ = fx.run(shop.execute("Buy.").provide(live).provide(durable(second, run="b", store=runs)))

    assert before.nested
    assert diff_runs(before, fx.run(runs.record("b"))).same


def test_a_request_outside_a_round_needs_another_model() -> None:
    """The request of a compaction for a summary is not recorded, so it fails with the reason, or uses `otherwise`."""
    wordy = Agent.make("clerk", compaction=Compaction.summary(keep=1).at_step(1))
    earlier = [{"role": role, "content": "Hello."} for _ in range(3) for role in ("user", "assistant")]
    running = wordy.execute(Prompt.make(earlier) + Prompt.make("Buy."))
    before = record_of([], "Ok.")

    failed = fx.run_exit(running.provide(replay_turns(before)))
    answer = fx.run(running.provide(replay_turns(before, otherwise=_model(*[text("A summary.")] * 9))))

    assert isinstance(failed, Failed)
    assert "the replay of a run answers only requests of rounds and agents" in str(failed.cause.failures[0])
    assert answer.text == "Ok."


def test_a_diverged_run_has_its_record_so_far() -> None:
    """The failure contains the conversation, so that the run so far can be compared with the record."""
    turns = fx.run_exit(asked(replay_turns(BEFORE, strict=True), cents=300))
    calls = fx.run_exit(_with_results(BEFORE, [call("price", "tea")], [call("order", {"tea": 9})]))

    assert diff_runs(BEFORE, RunRecord.of(turns), ignore=["/calls/order"]).pointers == (
        "/answer",
        "/calls/price/result",
        "/end/ended",
        "/end/failure",
    )
    assert [one.name for step in RunRecord.of(calls).steps for one in step.calls] == ["price"]


def test_a_failure_has_json_without_the_conversation() -> None:
    """The JSON form contains the kind, the step, and the differences."""
    data = _diverged(asked(replay_turns(BEFORE, strict=True), cents=300)).to_data()

    assert data == {
        "kind": "results",
        "agent": "",
        "step": 2,
        "tool": "",
        "values": [{"pointer": "/calls/price/result", "before": 253, "after": 303}],
    }


@pytest.mark.parametrize(
    "failure", [{"type": []}, {"type": "execution-denied", "reason": 7}, {"type": "other"}, 5, None]
)
def test_a_strange_failure_is_a_result_of_the_tool_or_diverges(failure: Any) -> None:
    """A recorded failure in a form that no program wrote does not break the replay."""
    before = record_of([[("price", "tea", (True, failure))]])
    ended = fx.run_exit(_with_results(before, [call("price", "tea")], text("Ok.")))

    assert not (isinstance(ended, Failed) and ended.cause.defects)


def test_a_call_that_was_invalid_diverges_if_it_is_valid_now() -> None:
    """A recorded validation error is no result for a call that the tool now accepts."""
    before = record_of([[("price", "tea", (True, {"type": "invalid-parameters", "name": "price"}))]])

    assert _diverged(_with_results(before, [call("price", "tea")])).kind == "call"
