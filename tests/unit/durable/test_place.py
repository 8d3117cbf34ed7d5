"""The place of a part in a durable run: the schedule does not change it, and another program is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from returns.result import Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import JournalFailure, ProgramChanged, Reply, Runs, durable, step
from fxai.durable.record import Begun, Opened
from fxai.durable.run_journal import RunJournal
from fxai.effects import Gen, Layer, Schedule, Stream, Succeeded, runtime
from fxai.messages import AiError, ToolMessage, UnknownError
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel, TestClock, call, delay, text
from tests.kit.every import every


class Crash(BaseException):
    """The end of the process. No program handles it."""


@pytest.fixture
def runs() -> Runs:
    """A store of its own."""
    return Runs.in_process()


def _go(runs: Runs, program: Any, layer: Any = None, **options: Any) -> Any:
    return fx.run_exit(program.provide(durable(layer or Layer.empty(), run="r", store=runs, **options)))


def _status(runs: Runs) -> str:
    return fx.run(runs.show("r")).state.status


def _failure(end: Any) -> Any:
    return end.cause.failures[0]


def _crash() -> Any:
    def crash() -> None:
        raise Crash

    return fx.sync(crash)


def _crash_with(_: object) -> Any:
    return _crash()


def _note(log: list[str], what: str, name: str = "mail") -> Any:
    return step(name, fx.sync(lambda: log.append(what)).as_(what), str)


def _sequence(effects: list[Any]) -> Gen[list[Any], Any, Any]:
    values: list[Any] = []
    for effect in effects:
        values.append((yield from effect))  # noqa: PERF401
    return values


OPERATORS: dict[str, Callable[[list[Any]], Any]] = {
    "for_each": lambda effects: fx.for_each(effects, lambda one: one, concurrency=None),
    "all_": lambda effects: fx.all_(effects[0], effects[1]),
    "fork": lambda effects: fx.scoped(
        fx.for_each(effects, fx.fork).flat_map(lambda forks: fx.for_each(forks, lambda one: one.join()))
    ),
    "stream": lambda effects: fx.suspend(lambda: _stream(effects)),
}


def _stream(effects: list[Any]) -> Any:
    return Stream.from_iterable(effects).map_effect(lambda one: one, concurrency=4).collect()


@pytest.mark.parametrize("operator", ["for_each", "all_", "fork"])
def test_a_question_of_one_branch_leaves_the_others_compared(runs: Runs, operator: str) -> None:
    """A renamed step is refused next to a step in doubt, also if the journal has it from a program with a question."""
    log: list[str] = []
    stuck = _note([], "a").and_then(step("doubt", _crash(), str))

    def program(name: str) -> Any:
        late = fx.sleep(0.02).and_then(_note(log, "b", name))
        return OPERATORS[operator]([stuck.exit(), late])

    with pytest.raises(Crash):
        _go(runs, program("mail"))
    assert log == []
    assert _go(runs, program("mail")).value[1] == "b"
    assert log == ["b"]
    assert "/step letter is new" in str(_failure(_go(runs, program("letter"))))
    assert log == ["b"]


@pytest.mark.parametrize("operator", [*OPERATORS])
def test_parallel_steps_with_one_name_keep_their_places(runs: Runs, operator: str) -> None:
    """A step whose look-up is faster after the crash than before has its own value, and each mail is sent once."""
    log: list[str] = []

    def program(slow: str, last: Any) -> Any:
        def one(name: str) -> Any:
            return (fx.sleep(0.01) if name == slow else fx.checkpoint()).and_then(_note(log, name))

        return OPERATORS[operator]([one("a"), one("b")]).flat_map(last.as_)

    with pytest.raises(Crash):
        _go(runs, OPERATORS[operator]([fx.sleep(0.01).and_then(_crash()), _note(log, "b")]))
    assert log == ["b"]
    assert list(_go(runs, program("b", fx.succeed(None))).value) == ["a", "b"]
    assert sorted(log) == ["a", "b"]
    assert _status(runs) == "done"


def test_for_each_has_the_same_places_with_any_concurrency(runs: Runs) -> None:
    """A program may change the concurrency between two processes."""
    log: list[str] = []
    for concurrency in (1, 2, None):
        program = fx.for_each(["a", "b", "c"], lambda one: _note(log, one), concurrency=concurrency)
        assert _go(runs, program).value == ["a", "b", "c"]
    assert log == ["a", "b", "c"]


def test_a_name_cannot_be_the_place_of_another_part(runs: Runs) -> None:
    """Names with the characters of paths stay names."""
    log: list[str] = []
    names = ["x+1", "x", "x", "x/0", "x%2F0"]
    for _ in range(2):
        assert _go(runs, fx.gen(_sequence)([_note(log, name, name) for name in names])).value == names
    assert log == names


class Desk:
    """A clerk whose call charges, and may crash."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.log: list[int] = []
        self.crashes = False
        self.charge = Tool.make("charge", parameters=int, success=str)

    def _charge(self, cents: int) -> Any:
        self.log.append(cents)
        if self.crashes:
            raise Crash
        return Success("charged")

    def go(self, prompt: str, name: str = "clerk", *script: Any, **options: Any) -> Any:
        """Runs the agent with a prompt once."""
        model = ScriptedModel.make([*script])
        asked: Any = Agent.make(name, toolkit=Toolkit.make(self.charge)).execute(prompt)
        return _go(self.runs, asked, self.charge.handler(self._charge) | model.layer, **options)


@pytest.mark.parametrize(("prompt", "name"), [("Pay order 18.", "clerk"), ("Pay order 17.", "auditor")])
def test_a_changed_agent_is_refused_before_it_does_anything(runs: Runs, prompt: str, name: str) -> None:
    """Another prompt, or another name: the call in doubt is not run again, and the first program can still go on."""
    desk = Desk(runs)
    desk.crashes = True
    with pytest.raises(Crash):
        desk.go("Pay order 17.", "clerk", call("charge", 500))
    desk.crashes = False
    script = [call("charge", 500), text("Paid.")]
    assert isinstance(_failure(desk.go(prompt, name, *script)), ProgramChanged)
    assert (desk.log, _status(runs)) == ([500], "failed")
    assert not isinstance(_failure(desk.go("Pay order 17.")), ProgramChanged)
    fx.run(runs.answer("r", fx.run(runs.show("r")).questions[0].id, Reply.result("charged")))
    assert desk.go("Pay order 17.", "clerk", text("Paid.")).value.text == "Paid."
    assert (desk.log, _status(runs)) == ([500], "done")


def test_a_program_that_goes_on_with_changes_is_not_done_in_doubt(runs: Runs) -> None:
    """With `continue` another agent may run, and the run waits until a person states the outcome of the open call."""
    desk = Desk(runs)
    desk.crashes = True
    with pytest.raises(Crash):
        desk.go("Pay.", "clerk", call("charge", 500))
    desk.crashes = False
    assert desk.go("Pay.", "auditor", text("No."), on_change="continue").value.text == "No."
    assert _status(runs) == "waiting"
    fx.run(runs.answer("r", fx.run(runs.show("r")).questions[0].id, Reply.unknown()))
    assert desk.go("Pay.", "auditor", on_change="continue").value.text == "No."
    assert (desk.log, _status(runs)) == ([500], "done")


def test_a_program_that_ends_without_recorded_parts_is_refused(runs: Runs) -> None:
    """A shorter program has not done what the journal has, so its run is not done."""
    log: list[str] = []
    three = [_note(log, "a"), _note(log, "b"), _note(log, "c")]
    with pytest.raises(Crash):
        _go(runs, fx.collect(three).and_then(_crash()))
    failure = _failure(_go(runs, fx.collect(three[:2])))
    assert isinstance(failure, ProgramChanged)
    assert failure.changes == ("the program ended without /each/2/step mail",)
    assert _status(runs) == "failed"
    assert _go(runs, fx.collect(three)).value == log == ["a", "b", "c"]


def test_two_programs_with_the_services_of_one_run_reach_its_parts_together(runs: Runs) -> None:
    """A runtime that is left after only the first of them is another program, and its run is not done."""
    log: list[str] = []

    async def go(*names: str) -> None:
        async with runtime(durable(Layer.empty(), run="r", store=runs)) as services:
            for name in names:
                await services.run(_note(log, name))

    for _ in range(2):
        anyio.run(go, "a", "b")
        assert (log, _status(runs)) == (["a", "b"], "done")
    with pytest.raises(Exception, match="ended without /step mail"):
        anyio.run(go, "a")
    assert _status(runs) == "failed"


def test_a_renamed_step_is_refused_before_it_runs(runs: Runs) -> None:
    """The message names the new step and the recorded step in its place."""
    log: list[str] = []

    def program(name: str) -> Any:
        return step(name, fx.sync(lambda: log.append(name)).as_(name), str)

    with pytest.raises(Crash):
        _go(runs, program("mail").and_then(_crash()))
    failure = _failure(_go(runs, program("post")))
    assert failure.changes == ("/step post is new, and the journal has /step mail in its place",)
    assert log == ["mail"]


def test_a_part_that_lost_a_race_is_no_change(runs: Runs) -> None:
    """The winner has its value from the journal at once, so that the other program does not start again."""
    log: list[str] = []

    def program(first: Any, last: Any) -> Any:
        loser = fx.collect([_note(log, "a"), fx.sleep(60), _note(log, "b")])
        return fx.race(first.and_then(_note(log, "w")).as_([]), loser).and_then(last)

    with pytest.raises(Crash):
        _go(runs, program(fx.sleep(0.01), _crash()))
    assert isinstance(_go(runs, program(fx.succeed(None), _note(log, "z"))), Succeeded)
    assert (log, _status(runs)) == (["a", "w", "z"], "done")


def test_a_part_of_a_fork_that_was_interrupted_is_no_change(runs: Runs) -> None:
    """The program ends before the fork has reached what it had reached before."""
    log: list[str] = []

    def program(fork: Any, last: Any) -> Any:
        forked = fx.fork(fork.and_then(_note(log, "a")).and_then(fx.sleep(60)))
        return fx.scoped(forked.and_then(fx.sleep(0.02)).and_then(last))

    with pytest.raises(Crash):
        _go(runs, program(fx.succeed(None), _crash()))
    assert isinstance(_go(runs, program(fx.sleep(30), _note(log, "z"))), Succeeded)
    assert (log, _status(runs)) == (["a", "z"], "done")


def test_a_prompt_is_compared_before_its_first_turn(runs: Runs) -> None:
    """The journal has the prompt of an agent with its next record, also if that is a record of another part."""
    layer = ScriptedModel.make([delay(60)]).layer

    def program(prompt: str) -> Any:
        asked: Any = Agent.make("clerk").execute(prompt)
        crashing: Any = fx.checkpoint().and_then(_note([], "a"))
        return fx.all_(asked, crashing.and_then(_crash()))

    with pytest.raises(Crash):
        _go(runs, program("Hello."), layer)
    failure = _failure(_go(runs, program("Good-bye."), layer))
    assert failure.changes == ("content of /all/0/clerk",)


def test_a_step_that_the_program_interrupted_is_asked_about(runs: Runs) -> None:
    """The program has its value, and the run is done when a person has stated the outcome."""

    def program() -> Any:
        slow = step("slow", fx.sleep(0.5).as_(1), int)
        return fx.race(slow, fx.sleep(0.01).as_(0))

    assert _go(runs, program()).value == 0
    assert _status(runs) == "waiting"
    question = fx.run(runs.show("r")).questions[0]
    assert (question.kind, question.tool) == ("doubt", "slow")
    fx.run(runs.answer("r", question.id, Reply.result(7)))
    assert _go(runs, program()).value == 7
    assert _status(runs) == "done"


def test_an_idempotent_step_that_the_program_interrupted_is_no_question(runs: Runs) -> None:
    """Its outcome need not be known, because it may run again."""
    slow = step("slow", fx.sleep(0.5).as_(1), int, idempotent=True)
    assert _go(runs, fx.race(slow, fx.sleep(0.01).as_(0))).value == 0
    assert _status(runs) == "done"
    assert [one.status for one in fx.run(runs.show("r")).steps] == ["interrupted"]


def test_a_step_after_a_timeout_is_no_change(runs: Runs) -> None:
    """A part that has no record because it was cut, and that starts again, is not a new part of its sequence."""
    log: list[str] = []
    clock = TestClock()

    def program(last: Any) -> Any:
        cut = step("slow", fx.sleep(50).as_(1), int, idempotent=True).timeout(10)
        return cut.exit().and_then(_note(log, "fallback")).and_then(last)

    def advance(program: Any) -> Any:
        def go() -> Gen[Any, Any, Any]:
            asked: Any = program.provide(durable(Layer.empty(), run="r", store=runs))
            handle = yield from fx.fork(asked.exit())
            yield from clock.advance(100)
            return (yield from handle.join())

        return clock.run(fx.gen(go)())

    with pytest.raises(Crash):
        advance(program(_crash()))
    assert isinstance(advance(program(_note(log, "last"))), Succeeded)
    assert log == ["fallback", "last"]


class _Failing(LanguageModel):
    """A model that fails."""

    def ask(self, request: ModelRequest) -> Any:
        """Fails."""
        del request
        return fx.fail(AiError("demo", "ask", UnknownError(description="away")))


def test_an_agent_that_failed_before_its_first_turn_is_no_change(runs: Runs) -> None:
    """Its fallback is in the journal, and the agent that failed is not a new part that came before it."""
    log: list[str] = []

    def program(last: Any) -> Any:
        asked: Any = Agent.make("primary").execute("Go.")
        failing: Any = asked.exit().and_then(_note(log, "fallback"))
        return failing.and_then(last)

    layer = Layer.succeed(LanguageModel, _Failing())
    with pytest.raises(Crash):
        _go(runs, program(_crash()), layer)
    assert isinstance(_go(runs, program(_note(log, "last")), layer), Succeeded)
    assert log == ["fallback", "last"]


def test_a_repeated_step_has_a_place_each_time(runs: Runs) -> None:
    """Attempts of a schedule are parts of one sequence."""
    log: list[str] = []
    repeated = _note(log, "a").repeat(Schedule.recurs(2))
    for _ in range(2):
        assert _go(runs, repeated).value == "a"
    assert log == ["a"] * 3


@every("concurrency", [1, None])
def test_equal_agents_in_parallel_keep_their_answers(runs: Runs, concurrency: int | None) -> None:
    """Agents with one name and one prompt are different parts."""
    agent = Agent.make("clerk")

    def program(end: Any) -> Any:
        one = agent.execute("Go.").map(lambda answer: answer.text)
        return fx.for_each([one, one, one], lambda one: one, concurrency=concurrency).flat_map(end)

    script = [text("1"), text("2"), text("3")]
    with pytest.raises(Crash):
        _go(runs, program(_crash_with), ScriptedModel.make(script).layer)
    again = _go(runs, program(fx.succeed), ScriptedModel.make([]).layer)
    assert again.value == ["1", "2", "3"]


def test_a_journal_of_an_older_form_is_refused(runs: Runs) -> None:
    """The failure names the form; nothing runs."""
    log: list[str] = []
    journal = RunJournal.open("r", runs.store)
    fx.run(journal.append(Opened(0.0)))
    fx.run(journal.append(Begun("/clerk.2fee11fbe9f0/1/0", "charge", 5)))
    failure = _failure(_go(runs, _note(log, "a")))
    assert isinstance(failure, JournalFailure)
    assert "form 1" in failure.description
    assert log == []


def test_an_approval_is_used_in_one_place_of_a_run(runs: Runs) -> None:
    """The ledger refuses the second use, also within one run."""
    wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
    log: list[int] = []

    def handle(n: int) -> Any:
        log.append(n)
        return Success(n)

    def go() -> Gen[Any, Any, Any]:
        agent: Any = Agent.make("clerk", toolkit=Toolkit.make(wipe))
        pending = cast(Any, (yield from agent.execute("Go.")))
        approved: Any = pending.history.append(_approve(pending))
        first = cast(Any, (yield from agent.execute(approved)))
        second = cast(Any, (yield from agent.execute(approved).exit()))
        return first, second

    model = ScriptedModel.make([call("wipe", 1), text("Done."), text("Done.")])
    first, second = _go(runs, fx.gen(go)(), wipe.handler(handle) | model.layer).value
    assert first.text == "Done."
    assert hasattr(second, "cause")
    assert log == [1]


def test_an_approval_of_a_run_is_not_that_of_another_run_with_its_name() -> None:
    """A store of its own, or a name that is used again, gets requests with other ids."""
    wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
    agent: Any = Agent.make("clerk", toolkit=Toolkit.make(wipe))
    ids: set[str] = set()
    for _ in range(3):
        model = ScriptedModel.make([call("wipe", 1)])
        pending = _go(Runs.in_process(), agent.execute("Go."), wipe.handler(Success) | model.layer).value.pending
        ids.update(one.approval_id for one in pending)
    assert len(ids) == 3


def _approve(pending: Any) -> Any:
    return ToolMessage.make(*[one.approve() for one in pending.pending])


def test_a_value_that_is_none_of_its_schema_is_a_defect_that_names_the_step(runs: Runs) -> None:
    """Checkers find a common class of both, so the mistake is found when the step has a value."""
    count: Any = fx.succeed(1)

    end = _go(runs, step("count", count, str))

    assert [str(one) for one in end.cause.defects] == [
        "the value of the step 'count' does not match the schema of the step: expected string, found integer 1"
    ]
