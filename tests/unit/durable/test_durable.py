"""A durable run: what has ended is not run again, what is in doubt is asked about, and one program at a time has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from returns.result import Failure, Success

from fxai import Agent, LanguageModel, Memory, Tool, Toolkit, fx
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.annotations import Idempotent, Resumable
from fxai.durable import (
    JournalFailure,
    ProgramChanged,
    QuestionUnknown,
    Reply,
    RunCancelled,
    RunOwned,
    RunQuestion,
    Runs,
    RunWaiting,
    durable,
    step,
    version,
)
from fxai.effects import Failed, Gen, Layer
from fxai.messages import Prompt, ToolCall, ToolMessage
from fxai.testing import ScriptedModel, TestClock, call, text
from fxai.tools import CallFailureError, OutcomeUnknown


class Crash(BaseException):
    """Stands for the end of the process: nothing may handle it."""


class Shop:
    """Tools whose handlers write down what they did, and may crash."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.crash: Callable[[Any], None] = lambda _: None
        self.charge = Tool.make("charge", parameters=int, success=int, failure=str, failure_mode="return")
        self.look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)
        self.wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
        self.outside = Tool.make("outside", parameters=int, success=int).external()
        self.pay = Tool.make("pay", parameters=int, success=int)
        self.kit = Toolkit.make(self.charge, self.look, self.wipe, self.outside, self.pay)

    def _do(self, name: str) -> Callable[[int], Any]:
        def handle(n: int) -> Any:
            self.log.append((name, n))
            self.crash(n)
            return Failure("no money") if n < 0 else Success(n * 10)

        return handle

    @property
    def layer(self) -> Any:
        """The handlers."""
        handlers: Any = self.charge.handler(self._do("charge")) | self.look.handler(self._do("look"))
        return handlers | self.wipe.handler(self._do("wipe")) | self.pay.handler(self._do("pay"))

    @property
    def agent(self) -> Any:
        """An agent with all tools."""
        return Agent.make("clerk", toolkit=self.kit)


def _run(shop: Shop, runs: Runs, model: ScriptedModel, agent: Any = None, **options: Any) -> Any:
    asked: Any = (shop.agent if agent is None else agent).execute("Go.")
    return fx.run_exit(asked.provide(durable(shop.layer | model.layer, run="r", store=runs, **options)))


def _question(runs: Runs) -> RunQuestion:
    return fx.run(runs.show("r")).questions[0]


def _answer(runs: Runs, reply: Reply) -> None:
    fx.run(runs.answer("r", _question(runs).id, reply))


def _results(end: Any) -> list[Any]:
    return [result.result for one in end.value.steps for result in one.results]


def _failure(end: Any) -> Any:
    return end.cause.failures[0]


def _crash_at(number: int) -> Callable[[Any], None]:
    def crash(n: int) -> None:
        if n == number:
            raise Crash

    return crash


@pytest.fixture
def runs() -> Runs:
    """A store of its own."""
    return Runs.in_process()


def test_what_has_ended_is_not_run_again(runs: Runs) -> None:
    """A run that is run again asks no model and calls no handler: the journal answers."""
    shop = Shop()
    model = ScriptedModel.make([(call("charge", 1), call("charge", -2)), text("Done.")])
    first, second = _run(shop, runs, model), _run(shop, runs, ScriptedModel.make([]))
    assert first.value.text == second.value.text == "Done."
    assert _results(first) == _results(second) == [10, "no money"]
    assert second.value.history == first.value.history
    assert shop.log == [("charge", 1), ("charge", -2)]


def test_a_failure_in_the_error_channel_is_given_again(runs: Runs) -> None:
    """A handler that failed is not asked again; the failure has its type."""
    pay = Tool.make("pay", parameters=int, success=int, failure=str)
    log: list[int] = []

    def fail(n: int) -> Failure[str]:
        log.append(n)
        return Failure("no money")

    def ask(model: ScriptedModel) -> Any:
        asked: Any = Agent.make("clerk", toolkit=Toolkit.make(pay)).execute("Go.")
        layer: Any = pay.handler(fail) | model.layer
        return fx.run_exit(asked.provide(durable(layer, run="r", store=runs)))

    ends = [ask(ScriptedModel.make([call("pay", 1)])), ask(ScriptedModel.make([]))]
    assert [end.cause.failures[0].error for end in ends] == ["no money", "no money"]
    assert log == [1]


def test_a_call_in_doubt_is_asked_about_and_not_run_again(runs: Runs) -> None:
    """The run is left with a typed failure until a person says what became of the call; siblings are not lost."""
    shop = Shop()
    shop.crash = _crash_at(2)
    script = [(call("charge", 1), call("charge", 2))]
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make(script))
    end = _run(shop, runs, ScriptedModel.make([text("Done.")]))
    failure = end.cause.failures[0]
    assert isinstance(failure, OutcomeUnknown)
    assert failure.name == "charge"
    question = _question(runs)
    assert (question.kind, question.tool, question.params) == ("doubt", "charge", 2)
    assert fx.run(runs.list())[0].status == "waiting"
    _answer(runs, Reply.result(99))
    assert _results(_run(shop, runs, ScriptedModel.make([text("Done.")]))) == [10, 99]
    assert shop.log == [("charge", 1), ("charge", 2)]


@pytest.mark.parametrize(
    ("reply", "expected", "calls"),
    [
        (Reply.again(), 20, 2),
        (Reply.result("lost", is_failure=True), "lost", 1),
        (Reply.unknown(), OutcomeUnknown, 1),
    ],
)
def test_a_doubt_is_settled_in_each_way(runs: Runs, reply: Reply, expected: object, calls: int) -> None:
    """It is run again where that is said, given as a failure, or told to the model as unknown."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("charge", 2)]))
    _ = _run(shop, runs, ScriptedModel.make([]))
    _answer(runs, reply)
    shop.crash = _crash_at(0)
    result = _results(_run(shop, runs, ScriptedModel.make([text("Done.")])))[0]
    assert isinstance(result, expected) if isinstance(expected, type) else result == expected
    assert shop.log == [("charge", 2)] * calls
    assert _results(_run(shop, runs, ScriptedModel.make([])))[0] == result  # the answer was used, and stays


def test_an_answer_is_used_once(runs: Runs) -> None:
    """A call that may run again, and is killed again, is asked about again."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("charge", 2)]))
    _ = _run(shop, runs, ScriptedModel.make([]))
    _answer(runs, Reply.again())
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([]))
    assert isinstance(_failure(_run(shop, runs, ScriptedModel.make([]))), OutcomeUnknown)
    assert shop.log == [("charge", 2)] * 2


def test_a_reply_that_does_not_fit_is_asked_for_again(runs: Runs) -> None:
    """A result that is none of the tool's success type is not lost and not taken: the question says why."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("charge", 2)]))
    _ = _run(shop, runs, ScriptedModel.make([]))
    _answer(runs, Reply.result("many"))
    end = _run(shop, runs, ScriptedModel.make([]))
    assert isinstance(end.cause.failures[0], RunWaiting)
    assert "expected integer" in _question(runs).reason


def test_an_idempotent_call_in_doubt_is_run_again(runs: Runs) -> None:
    """Nobody is asked."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("look", 2)]))
    shop.crash = _crash_at(0)
    assert _results(_run(shop, runs, ScriptedModel.make([text("Done.")]))) == [20]
    assert shop.log == [("look", 2), ("look", 2)]


def test_a_call_that_broke_is_in_doubt(runs: Runs) -> None:
    """A defect ends the run as ever; when it is run again, the question says what broke."""
    shop = Shop()

    def broken(_: int) -> None:
        raise RuntimeError("a bug")

    shop.crash = broken
    end = _run(shop, runs, ScriptedModel.make([call("charge", 2)]))
    assert "a bug" in str(end.cause.defects[0])
    assert isinstance(_run(shop, runs, ScriptedModel.make([])).cause.failures[0], OutcomeUnknown)
    assert "a bug" in _question(runs).reason


def _lose_at(number: int) -> Callable[[Any], None]:
    """As a handler does whose worker was lost."""

    def lose(n: int) -> None:
        if n == number:
            raise CallFailureError(OutcomeUnknown("charge", "its worker was lost"))

    return lose


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["charge", "pay"])
def test_a_handler_that_does_not_know_what_became_of_it_is_asked_about(runs: Runs, inside: bool, name: str) -> None:
    """At once, in either failure mode, also in a sub-agent: neither model is told, and nothing is run twice."""
    shop = Shop()
    shop.crash = _lose_at(2)
    agent = Agent.make("boss").with_tools(shop.agent.as_tool()) if inside else shop.agent
    script: list[Any] = [(call(name, 1), call(name, 2)), text("Charged."), text("Done.")]
    if inside:
        script = [call("clerk", {"prompt": "Charge."}), *script]
    end = _run(shop, runs, ScriptedModel.make(script), agent)
    assert isinstance(_failure(end), OutcomeUnknown)
    question = _question(runs)
    assert (question.kind, question.tool, question.params) == ("doubt", name, 2)
    assert "its worker was lost" in question.reason
    _answer(runs, Reply.result(7))
    end = _run(shop, runs, ScriptedModel.make([text("Charged."), text("Done.")][not inside :]), agent)
    assert _results(end) == (["Charged."] if inside else [10, 7])
    assert shop.log == [(name, 1), (name, 2)]


def test_a_handler_that_does_not_know_is_run_again_where_that_is_said(runs: Runs) -> None:
    """By an answer, as often as it is needed; where it is idempotent, by running the run again, and nobody is asked."""
    shop = Shop()
    shop.crash = _lose_at(2)
    for _ in range(2):
        assert isinstance(_failure(_run(shop, runs, ScriptedModel.make([call("charge", 2)]))), OutcomeUnknown)
        _answer(runs, Reply.again())
    shop.crash = _crash_at(0)
    look = ScriptedModel.make([call("look", 3), text("Done.")])
    shop.crash = _lose_at(3)
    assert isinstance(_failure(_run(shop, runs, look)), OutcomeUnknown)
    assert fx.run(runs.show("r")).questions == ()
    shop.crash = _crash_at(0)
    assert _results(_run(shop, runs, ScriptedModel.make([text("Done.")]))) == [20, 30]
    assert shop.log == [("charge", 2)] * 3 + [("look", 3)] * 2


def test_an_approval_is_waited_for_without_a_process(runs: Runs) -> None:
    """The run ends pending, as without the layer; answered, the call is run when the run is, and its turn goes on."""
    shop = Shop()
    end = _run(shop, runs, ScriptedModel.make([(call("wipe", 1), call("charge", 2))]))
    assert end.value.ended == "pending"
    assert [one.name for one in end.value.pending] == ["wipe"]
    _answer(runs, Reply.approve())
    assert _results(_run(shop, runs, ScriptedModel.make([text("Done.")]))) == [10, 20]
    assert sorted(shop.log) == [("charge", 2), ("wipe", 1)]


def test_a_denied_call_is_not_run(runs: Runs) -> None:
    """The model reads why."""
    shop = Shop()
    _ = _run(shop, runs, ScriptedModel.make([call("wipe", 1)]))
    _answer(runs, Reply.deny("not today"))
    model = ScriptedModel.make([text("Done.")])
    assert _run(shop, runs, model).value.text == "Done."
    assert "not today" in model.requests[0].prompt.to_json()
    assert shop.log == []


def test_a_result_from_outside_is_waited_for(runs: Runs) -> None:
    """An external call is a question that is answered by its result."""
    shop = Shop()
    end = _run(shop, runs, ScriptedModel.make([call("outside", 1)]))
    assert end.value.ended == "pending"
    _answer(runs, Reply.result(5))
    assert _results(_run(shop, runs, ScriptedModel.make([text("Done.")]))) == [5]


def test_a_program_may_answer_its_approvals_itself(runs: Runs) -> None:
    """What it answers is no question any more, its calls run once, and a run again gives the same."""
    shop = Shop()

    def go() -> Gen[Any, Any, Any]:
        answer = cast(Any, (yield from shop.agent.execute("Go.")))
        replies = ToolMessage.make(*[one.approve() for one in answer.pending])
        return cast(Any, (yield from shop.agent.execute(answer.history.append(replies))))

    def ask(model: ScriptedModel) -> Any:
        asked: Any = fx.gen(go)()
        return fx.run_exit(asked.provide(durable(shop.layer | model.layer, run="r", store=runs)))

    first = ask(ScriptedModel.make([call("wipe", 1), text("Done.")]))
    second = ask(ScriptedModel.make([]))
    assert first.value.text == second.value.text == "Done."
    assert shop.log == [("wipe", 1)]
    assert fx.run(runs.show("r")).state.status == "done"


def test_a_sub_agent_waits_too(runs: Runs) -> None:
    """Its question leaves the whole run, which goes on in the middle of the sub-agent; no turn is asked twice."""
    shop = Shop()
    agent = Agent.make("boss").with_tools(shop.agent.as_tool())
    script = [call("clerk", {"prompt": "Wipe."}), call("wipe", 1)]
    end = _run(shop, runs, ScriptedModel.make(script), agent)
    assert isinstance(end.cause.failures[0], RunWaiting)
    _answer(runs, Reply.approve())
    model = ScriptedModel.make([text("Wiped."), text("All done.")])
    done = _run(shop, runs, model, agent)
    assert done.value.text == "All done."
    assert _results(done) == ["Wiped."]
    assert shop.log == [("wipe", 1)]


def test_a_sub_agent_that_was_killed_goes_on(runs: Runs) -> None:
    """The call of a sub-agent is gone on with: only the call inside that was in doubt is asked about."""
    shop = Shop()
    shop.crash = _crash_at(2)
    agent = Agent.make("boss").with_tools(shop.agent.as_tool())
    script = [call("clerk", {"prompt": "Charge."}), call("charge", 1), call("charge", 2)]
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make(script), agent)
    end = _run(shop, runs, ScriptedModel.make([]), agent)
    assert isinstance(end.cause.failures[0], OutcomeUnknown)
    _answer(runs, Reply.result(7))
    assert _results(_run(shop, runs, ScriptedModel.make([text("Charged."), text("Done.")]), agent)) == ["Charged."]
    assert shop.log == [("charge", 1), ("charge", 2)]


def test_a_streamed_run_is_journalled_and_given_again(runs: Runs) -> None:
    """A run may be read whole after it was streamed, and the other way round."""
    shop = Shop()
    model = ScriptedModel.make([call("charge", 1), text("Done.")])
    streamed: Any = shop.agent.stream("Go.").collect()
    parts = fx.run(streamed.provide(durable(shop.layer | model.layer, run="r", store=runs)))
    assert _results(_run(shop, runs, ScriptedModel.make([]))) == [10]
    nothing = ScriptedModel.make([])
    again = fx.run(streamed.provide(durable(shop.layer | nothing.layer, run="r", store=runs)))
    assert [part.type for part in again] == [part.type for part in parts]
    assert [part.delta for part in again if part.type == "text-delta"] == ["Done."]
    assert shop.log == [("charge", 1)]


def test_a_memory_is_loaded_and_committed_once(runs: Runs) -> None:
    """What the run began with is journalled, so that it is the same again; a commit that has ended is not repeated."""
    shop, memory = Shop(), Memory.in_process()
    fx.run(memory.commit(Prompt.make("I am Ann.")))
    agent = shop.agent.with_memory(memory)
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("look", 2)]), agent)
    fx.run(memory.commit(Prompt.make("I am Bob.")))
    shop.crash = _crash_at(0)
    first = _run(shop, runs, ScriptedModel.make([text("Done.")]), agent)
    assert "I am Bob." not in first.value.history.to_json()
    assert _run(shop, runs, ScriptedModel.make([]), agent).value.history == first.value.history
    assert len(fx.run(memory.turns())) == 3


def test_two_programs_cannot_have_one_run(runs: Runs) -> None:
    """The one that comes second is told so, and nothing of it runs."""
    shop = Shop()

    inner: Any = shop.agent.execute("Go.").provide(
        durable(shop.layer | ScriptedModel.make([text("Mine.")]).layer, run="r", store=runs)
    )
    outer: Any = inner.exit().provide(durable(Layer.empty(), run="r", store=runs))
    end: Any = fx.run(outer)
    assert isinstance(end, Failed)
    assert isinstance(_failure(end), RunOwned)


def test_a_changed_prompt_is_noticed(runs: Runs) -> None:
    """What the model was asked with is compared; the failure names what changed, and `continue` goes on."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("look", 2)]))
    shop.crash = _crash_at(0)
    other = Agent.make("clerk", toolkit=shop.kit, instructions="Be brief.")
    failure = _run(shop, runs, ScriptedModel.make([]), other).cause.failures[0]
    assert isinstance(failure, ProgramChanged)
    assert "instructions" in failure.changes[0]
    done = _run(shop, runs, ScriptedModel.make([text("Done.")]), other, on_change="continue")
    assert done.value.text == "Done."


def test_changed_tools_are_noticed(runs: Runs) -> None:
    """A tool with another description or schema is another program."""
    shop = Shop()
    shop.crash = _crash_at(2)
    with pytest.raises(Crash):
        _run(shop, runs, ScriptedModel.make([call("look", 2)]))
    tools = [one.with_description("Another.") if one.name == "look" else one for one in shop.kit]
    other = Agent.make("clerk", toolkit=Toolkit.of(tools))
    failure = _run(shop, runs, ScriptedModel.make([]), other).cause.failures[0]
    assert isinstance(failure, ProgramChanged)
    assert "tools" in failure.changes[0]


def test_a_version_is_refused_kept_or_gone_on_with(runs: Runs) -> None:
    """A run that another version began is refused, finished as the old one, or gone on with, as the program says."""
    shop = Shop()

    def ask(newest: str, **options: Any) -> Any:
        asked: Any = version(newest)
        return fx.run_exit(asked.provide(durable(shop.layer, run="r", store=runs, version=newest, **options)))

    assert ask("1").value == "1"
    assert isinstance(ask("2").cause.failures[0], ProgramChanged)
    assert ask("2", on_change="old").value == "1"
    assert ask("2", on_change="continue").value == "2"
    assert fx.run(version("3")) == "3"


def test_a_cancelled_run_does_not_go_on(runs: Runs) -> None:
    """It ends at its next call, and is refused from then on."""
    shop = Shop()

    def cancel(_: int) -> None:
        fx.run_sync(runs.cancel("r"))

    shop.crash = cancel
    end = _run(shop, runs, ScriptedModel.make([call("charge", 1), call("charge", 2)]))
    assert isinstance(end.cause.failures[0], RunCancelled)
    assert fx.run(runs.list())[0].status == "cancelled"
    assert isinstance(_run(shop, runs, ScriptedModel.make([])).cause.failures[0], RunCancelled)
    assert shop.log == [("charge", 1)]


def test_a_call_waits_in_its_place_as_long_as_there_is_patience(runs: Runs) -> None:
    """An answer that comes meanwhile goes on with the run; else it ends pending."""
    shop = Shop()
    model = ScriptedModel.make([call("wipe", 1), text("Done.")])
    asked: Any = shop.agent.execute("Go.")
    waiting: Any = asked.provide(durable(shop.layer | model.layer, run="r", store=runs, patience=1e6))

    def answer() -> Gen[Any, Any, Any]:
        while not (fx.run_sync(runs.list()) and fx.run_sync(runs.show("r")).questions):
            yield from fx.sleep(0.001)
        question = fx.run_sync(runs.show("r")).questions[0]
        yield from runs.answer("r", question.id, Reply.approve())

    both: Any = fx.all_(waiting, fx.gen(answer)())
    assert fx.run(both)[0].text == "Done."


def test_a_long_sleep_goes_on_after_a_crash(runs: Runs) -> None:
    """A week is slept once: what is journalled is when it ends."""
    clock, week = TestClock(), 7 * 86_400.0

    def sleep() -> Gen[Any, Any, Any]:
        slept: Any = fx.sleep(week).provide(durable(Layer.empty(), run="r", store=runs))
        handle = yield from fx.fork(slept)
        while not clock.sleepers:
            yield from fx.wait(anyio.lowlevel.checkpoint)
        yield from clock.advance(week / 2)
        return handle

    def to_its_end() -> Gen[Any, Any, Any]:
        handle = yield from sleep()
        yield from handle.join()

    clock.run(fx.gen(sleep)())  # is interrupted in the middle of the week
    assert fx.run(runs.list())[0].status == "stopped"
    clock.run(fx.gen(to_its_end)())
    assert clock.monotonic() == week


def test_a_step_of_the_program_is_run_once(runs: Runs) -> None:
    """Its value is journalled; in doubt it is asked about, unless it is idempotent."""
    log: list[str] = []
    crash = [True]

    def work(name: str) -> Any:
        def do() -> int:
            log.append(name)
            if name == "b" and crash[0]:
                raise Crash
            return len(log)

        return fx.sync(do)

    def go() -> Gen[Any, Any, Any]:
        one = yield from step("s", work("a"), int)
        two = yield from step("s", work("b"), int)
        return one, two

    def ask() -> Any:
        asked: Any = fx.gen(go)()
        return fx.run_exit(asked.provide(durable(Layer.empty(), run="r", store=runs)))

    with pytest.raises(Crash):
        ask()
    crash[0] = False
    assert isinstance(ask().cause.failures[0], OutcomeUnknown)
    _answer(runs, Reply.again())
    assert ask().value == ask().value == (1, 3)
    assert log == ["a", "b", "b"]


def test_a_step_that_does_not_know_what_became_of_it_is_asked_about(runs: Runs) -> None:
    """A failure that says so is no failure that a second run mends."""
    shop = Shop()
    shop.crash = _lose_at(2)
    asked: Any = step("charge", shop.kit.call("pay", 2).map(lambda outcome: outcome.encoded_result), int)

    def ask() -> Any:
        return fx.run_exit(asked.provide(durable(shop.layer, run="r", store=runs)))

    assert isinstance(_failure(ask()), OutcomeUnknown)
    assert isinstance(_failure(ask()), OutcomeUnknown)
    _answer(runs, Reply.result(20))
    assert ask().value == 20
    assert shop.log == [("pay", 2)]


def test_what_a_person_cannot_answer_is_refused(runs: Runs) -> None:
    """An unknown question, one that is answered, and a reply of the wrong kind are typed failures."""
    shop = Shop()
    _ = _run(shop, runs, ScriptedModel.make([call("wipe", 1)]))
    question = _question(runs)

    def refused(name: str, reply: Reply) -> Any:
        return _failure(fx.run_exit(runs.answer("r", name, reply)))

    assert "approve or deny" in refused(question.id, Reply.result(1)).why
    assert isinstance(refused("nothing", Reply.approve()), QuestionUnknown)
    fx.run(runs.answer("r", question.call_id, Reply.approve()))
    assert "not open" in refused(question.id, Reply.approve()).why


def test_a_journal_that_cannot_be_written_stops_the_run() -> None:
    """Nothing is run of which it could not be known that it ran."""
    shop = Shop()
    runs = Runs.sqlite("/proc/nothing/runs.db")
    failure = _run(shop, runs, ScriptedModel.make([call("charge", 1)])).cause.failures[0]
    assert isinstance(failure, JournalFailure)
    assert shop.log == []


def test_a_handler_made_of_steps_is_gone_on_with(runs: Runs) -> None:
    """A tool that says it is `Resumable` is entered again, and its steps are not run twice."""
    log: list[str] = []
    crash = [True]
    ship = Tool.make("ship", parameters=int, success=int).annotate(Resumable, True)

    def handle(n: int) -> Any:
        def go() -> Gen[Any, Any, Any]:
            packed = yield from step("pack", fx.sync(lambda: log.append("pack")).as_(n), int)
            if crash[0]:
                raise Crash
            return packed + 1

        return fx.gen(go)()

    def ask(model: ScriptedModel) -> Any:
        asked: Any = LanguageModel.generate_text("Go.", toolkit=Toolkit.make(ship))
        layer: Any = ship.handler(handle) | model.layer
        return fx.run_exit(asked.provide(durable(layer, run="r", store=runs)))

    with pytest.raises(Crash):
        ask(ScriptedModel.make([call("ship", 1)]))
    crash[0] = False
    assert [result.result for result in ask(ScriptedModel.make([])).value.tool_results] == [2]
    assert log == ["pack"]


def test_a_name_or_a_choice_that_cannot_be_is_refused() -> None:
    """Before anything runs, with what can be."""
    with pytest.raises(ValueError, match="1 to 200"):
        durable(Layer.empty(), run="")
    choice: Any = "maybe"
    with pytest.raises(ValueError, match="'refuse', 'old', 'continue'"):
        durable(Layer.empty(), run="r", store=Runs.in_process(), on_change=choice)


def test_the_state_of_a_prompt_is_what_it_was(runs: Runs) -> None:
    """What handlers changed is journalled with their calls, and is there again when they are not run again."""
    log: list[int] = []
    crash = [True]
    count = Tool.make("count", parameters=int, success=int)

    def counter(at: Render[None]) -> None:
        total = at.state("total", 0)

        def add(n: int) -> Any:
            def go() -> Gen[Any, Any, Any]:
                log.append(n)
                if n == 5 and crash[0]:
                    raise Crash
                yield from total.update(lambda value: value + n)
                return n

            return fx.gen(go)()

        at.tool(count.annotate(Idempotent, True), add)
        at.system("sum", f"The sum is {total.value}.")

    prompt = StatefulPrompt.make("counter", counter)

    def ask(model: ScriptedModel) -> Any:
        asked: Any = prompt.execute("Count.")
        return fx.run_exit(asked.provide(durable(model.layer, run="r", store=runs)))

    script = [(call("count", 1), call("count", 2)), (call("count", 3), call("count", 5))]
    with pytest.raises(Crash):
        ask(ScriptedModel.make(script))
    crash[0] = False
    model = ScriptedModel.make([text("Done.")])
    first, second = ask(model), ask(ScriptedModel.make([]))
    assert first.value.state.values["total"] == second.value.state.values["total"] == 11
    assert "The sum is 11." in model.requests[0].prompt.to_json()
    assert log == [1, 2, 3, 5, 5]


def test_a_running_run_is_listed_as_running(runs: Runs) -> None:
    """While a program has it; one whose program was killed is stopped."""
    shop = Shop()
    seen: list[str] = []

    def look(_: int) -> None:
        seen.append(fx.run_sync(runs.list())[0].status)
        seen.append(fx.run_sync(runs.show("r")).state.status)

    shop.crash = look
    _ = _run(shop, runs, ScriptedModel.make([call("charge", 1), text("Done.")]))
    assert seen == ["running", "running"]
    shop.crash = _crash_at(2)
    layer = shop.layer | ScriptedModel.make([call("charge", 2)]).layer
    asked: Any = shop.agent.execute("Go.").provide(durable(layer, run="other", store=runs))
    with pytest.raises(Crash):
        fx.run(asked)
    assert {one.run: one.status for one in fx.run(runs.list())} == {"r": "done", "other": "stopped"}


def test_a_run_can_be_removed(runs: Runs) -> None:
    """And all that is known of it; the name is free again."""
    shop = Shop()
    _ = _run(shop, runs, ScriptedModel.make([text("One.")]))
    fx.run(runs.remove("r"))
    assert fx.run(runs.list()) == ()
    assert _run(shop, runs, ScriptedModel.make([text("Two.")])).value.text == "Two."


def test_a_repaired_call_is_not_run_again(runs: Runs) -> None:
    """The repair's own call has a place of its own; the history is the same when the run is run again."""
    shop = Shop()
    agent = Agent.make("clerk", toolkit=shop.kit, repair=lambda made, _: ToolCall(made.id, made.name, 4))
    first = _run(shop, runs, ScriptedModel.make([call("charge", "four"), text("Done.")]), agent)
    second = _run(shop, runs, ScriptedModel.make([]), agent)
    assert first.value.history == second.value.history
    assert shop.log == [("charge", 4)]


def test_a_call_with_json_text_is_read_the_same_again(runs: Runs) -> None:
    """Where text was read as the list that it says, the history has the list, also when the journal answers."""
    sums = Tool.make("sums", parameters=list[int], success=int)

    def ask(model: ScriptedModel) -> Any:
        asked: Any = Agent.make("clerk", toolkit=Toolkit.make(sums)).execute("Go.")
        layer: Any = sums.handler(lambda numbers: Success(sum(numbers))) | model.layer
        return fx.run_exit(asked.provide(durable(layer, run="r", store=runs)))

    first, second = ask(ScriptedModel.make([call("sums", "[1, 2]"), text("Done.")])), ask(ScriptedModel.make([]))
    assert _results(first) == [3]
    assert first.value.history == second.value.history


def test_a_worker_goes_on_with_what_stands_still(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    """A run that was killed is ended by it, and one that waits when its answer is there; others it leaves alone."""
    shop = Shop()
    shop.crash = _crash_at(2)

    def go(run: str, *script: Any) -> Any:
        asked: Any = shop.agent.execute("Go.")
        return asked.provide(durable(shop.layer | ScriptedModel.make([*script]).layer, run=run, store=runs))

    with pytest.raises(Crash):
        fx.run(go("killed", call("look", 2)))
    assert fx.run(go("waiting", call("wipe", 1))).ended == "pending"
    assert fx.run(go("over", text("Done."))).text == "Done."
    shop.crash = _crash_at(0)
    worker: Any = runs.recover(lambda run: go(run, text("Done.")))
    assert fx.run(worker) == ("killed",)
    assert fx.run(worker) == ()
    question = fx.run(runs.show("waiting")).questions[0]
    fx.run(runs.answer("waiting", question.id, Reply.approve()))
    assert fx.run(worker) == ("waiting",)
    assert {one.status for one in fx.run(runs.list())} == {"done"}
    assert caplog.records == []


@pytest.mark.parametrize(
    "url", ["postgresql://ann:secret@db.example.org/runs", "postgres://ann:secret@db.example.org/runs"]
)
def test_a_url_names_a_server_and_no_file(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the place nor a file has the password, whether the program or the environment names the URL."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FXAI_RUNS", url)
    for runs in (Runs.at(url), Runs.at()):
        assert type(runs.store).__name__ == "PostgresJournals"
        assert runs.location == "PostgreSQL, db.example.org/runs"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("FXAI_RUNS", str(tmp_path / "mine.db"))
    assert Runs.at().location == str(tmp_path / "mine.db")
    monkeypatch.delenv("FXAI_RUNS")
    assert type(Runs.at().store).__name__ == "TableJournals"
    assert Runs.at().location.endswith("fxai-runs.db")


def test_the_error_of_a_run_lists_all_questions_and_the_command(runs: Runs) -> None:
    """It names the remedy for steps that may run twice, and one call answers everything."""
    slow = [step("mail", fx.sleep(n / 100).and_then(_crashing(n)), int) for n in (1, 2)]
    program: Any = fx.for_each(slow, lambda one: one, concurrency=None)
    with pytest.raises(Crash):
        fx.run(program.provide(durable(Layer.empty(), run="my run", store=runs)))
    end: Any = fx.run_exit(program.provide(durable(Layer.empty(), run="my run", store=runs)))
    questions = fx.run(runs.show("my run")).questions
    said = str(end.cause.failures[0])
    assert {one.reason for one in questions} == {"the step started but did not finish"}
    pairs = " ".join(f"{one.id}=REPLY" for one in questions)
    assert f"fxai runs answer 'my run' {pairs}" in said
    assert "step(…, idempotent=True)" in said
    assert all(f"\n  {one.id}  doubt of mail" in said for one in questions)
    refused: Any = fx.run_exit(runs.answer_all("my run", {questions[0].id: Reply.again(), "nothing": Reply.again()}))
    assert isinstance(_failure(refused), QuestionUnknown)
    assert fx.run(runs.show("my run")).questions == questions
    fx.run(runs.answer_all("my run", {one.id: Reply.result(7) for one in questions}))
    assert fx.run(program.provide(durable(Layer.empty(), run="my run", store=runs)))[0] == 7


def _crashing(number: int) -> Any:
    def crash() -> int:
        raise Crash(number)

    return fx.sync(crash)


def test_runs_go_on_by_name_and_number(runs: Runs) -> None:
    """A worker recovers those whose names begin so, the newest first, and not more than it says."""
    ended: list[str] = []
    for name in ("a-1", "a-2", "a-3", "b-1"):
        with pytest.raises(Crash):
            fx.run(_crashing(1).provide(durable(Layer.empty(), run=name, store=runs)))

    def program(run: str) -> Any:
        return fx.sync(lambda: ended.append(run)).provide(durable(Layer.empty(), run=run, store=runs))

    assert fx.run(runs.recover(program, prefix="a-", limit=2)) == ("a-3", "a-2")
    assert fx.run(runs.recover(program, prefix="a-")) == ("a-1",)
    assert sorted(ended) == ["a-1", "a-2", "a-3"]
    assert [one.run for one in fx.run(runs.list(status="stopped"))] == ["b-1"]
    assert [one.run for one in fx.run(runs.list(limit=1, after="a-2"))] == ["a-1"]
