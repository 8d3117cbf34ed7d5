"""Failures of durable runs, the questions after a wrong answer, and the turns that a resumed run requests again."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from returns.result import Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.annotations import Idempotent
from fxai.durable import (
    AnyDurableFailure,
    JournalFailure,
    ProgramChanged,
    QuestionUnknown,
    Reply,
    RunCancelled,
    RunOwned,
    Runs,
    RunUnknown,
    RunWaiting,
    durable,
    step,
)
from fxai.durable.failure import RunAsleep
from fxai.durable.run_journal import RunJournal
from fxai.effects import Layer
from fxai.messages import AssistantMessage, InternalProviderError, Prompt, ToolCall, UserMessage
from fxai.storage.journal import ProcessJournal
from fxai.testing import ScriptedModel, call, fails, text

FAILURES: list[tuple[AnyDurableFailure, str]] = [
    (RunOwned("r"), "the run 'r' continues in another program. Wait until that program ends."),
    (RunUnknown("r", "this process"), "run 'r' does not exist in this process. To list the runs, run fxai runs list."),
    (RunWaiting("r", ()), "the run 'r' stopped just before its answers arrived. Resume it."),
    (RunAsleep("r", 60.0), "the run 'r' sleeps for 60 s. It continues when a program runs it again."),
    (QuestionUnknown("r", "q", "not open"), "cannot answer the question 'q' of the run 'r': not open"),
    (RunCancelled("r"), "the run 'r' was cancelled. Start another run."),
    (ProgramChanged("r", ("tools",)), "the program of the run 'r' changed: tools. Run the program that started it,"),
    (JournalFailure("r", "the disk is away"), "the journal of the run 'r': the disk is away"),
]


AWAY = InternalProviderError("the server is away")


@pytest.fixture
def runs() -> Runs:
    """A store of its own."""
    return Runs.in_process()


def _go(runs: Runs, program: Any, layer: Any = None, **options: Any) -> Any:
    return fx.run_exit(program.provide(durable(layer or Layer.empty(), run="r", store=runs, **options)))


def _crash() -> Any:
    def crash() -> None:
        raise SystemExit

    return fx.sync(crash)


def _crash_with(_: object) -> Any:
    return _crash()


@pytest.mark.parametrize(("failure", "said"), FAILURES, ids=lambda one: type(one).__name__)
def test_failure_is_a_value_with_a_message(failure: AnyDurableFailure, said: str) -> None:
    """It can be compared, hashed, and matched by its class, and its message names the run and the remedy."""
    assert str(failure).startswith(said)
    assert len({failure, type(failure)(*[getattr(failure, name) for name in failure.__struct_fields__])}) == 1
    assert failure.exact is failure


# -- answers


@pytest.mark.parametrize("is_external", [True, False])
def test_question_after_a_wrong_answer_has_the_same_kind(is_external: bool, runs: Runs) -> None:
    """The result of an external call stays a result, and the outcome of a call that fxai started stays in doubt."""
    tool: Any = Tool.make("look", parameters=int, success=int)
    kit: Any = Toolkit.make(tool.external() if is_external else tool)
    program: Any = Agent.make("clerk", toolkit=kit).execute("Go.")
    layer: Any = ScriptedModel.make([call("look", 1)]).layer
    if not is_external:
        layer = tool.handler(_crash_with) | layer
        with pytest.raises(SystemExit):
            _go(runs, program, layer)
    _go(runs, program, layer)
    before = fx.run(runs.show("r")).questions[0]
    fx.run(runs.answer("r", before.id, Reply.result("no number")))
    _go(runs, program, layer)
    after = fx.run(runs.show("r")).questions[0]

    assert (before.kind, after.kind) == (("result",) * 2 if is_external else ("doubt",) * 2)
    assert after.reason.startswith("invalid answer: ")


def test_run_that_waits_ends_with_the_failure_of_its_journal(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with patience does not wait for an answer that it could not read."""
    tool: Any = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
    program: Any = Agent.make("clerk", toolkit=Toolkit.make(tool)).execute("Go.")
    layer: Any = tool.handler(Success) | ScriptedModel.make([call("wipe", 1)]).layer
    read = RunJournal.read

    def refuse(self: RunJournal) -> None:
        if self.known.questions:
            raise OSError("the disk is away")
        read(self)

    monkeypatch.setattr(RunJournal, "read", refuse)
    end = _go(runs, program, layer, patience=60.0)

    assert [type(one) for one in end.cause.failures] == [JournalFailure]
    assert "the disk is away" in str(end.cause.failures[0])


def test_end_of_a_run_that_cannot_be_written_is_in_the_log(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The value of the program is not lost."""
    append = ProcessJournal[Any].append

    def refuse(self: Any, part: Any, *given: Any) -> None:
        if "closed" in repr(part).lower():
            raise OSError("the disk is full")
        append(self, part, *given)

    monkeypatch.setattr(ProcessJournal, "append", refuse)
    end = _go(runs, step("a", fx.succeed("value"), str))

    assert end.value == "value"
    (message,) = [one.getMessage() for one in caplog.records if one.name == "fxai.durable"]
    assert message == "cannot record the end of the run: the journal of the run 'r': the disk is full"


def test_recover_logs_the_failure_of_a_run_unless_another_program_has_the_run(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    """The other runs continue."""
    for name in ("broken", "owned", "well"):
        crashing: Any = step("a", fx.succeed(1), int).and_then(_crash())
        with pytest.raises(SystemExit):
            fx.run(crashing.provide(durable(Layer.empty(), run=name, store=runs)))

    def program(name: str) -> Any:
        ends = {"broken": fx.fail("no money"), "owned": fx.fail(RunOwned("owned")), "well": fx.succeed(1)}
        whole: Any = step("a", fx.succeed(1), int).and_then(ends[name])
        return whole.provide(durable(Layer.empty(), run=name, store=runs))

    with caplog.at_level(logging.WARNING, "fxai.durable"):
        recovered: Any = fx.run(runs.recover(program))

    assert recovered == ("well",)
    assert [one.getMessage() for one in caplog.records] == ["the run 'broken' did not end: no money"]


# -- turns without an agent


@pytest.mark.parametrize("is_stream", [True, False])
def test_changed_prompt_of_a_direct_request_is_refused(is_stream: bool, runs: Runs) -> None:
    """The answer to another prompt is not given for this one."""

    def program(day: str) -> Any:
        history = Prompt.make(f"Today is {day}.").append(AssistantMessage.make("Fine."), UserMessage.make("Which day?"))
        streamed: Any = LanguageModel.stream_text(history).collect()
        return (streamed if is_stream else LanguageModel.generate_text(history)).and_then(_crash())

    layer = ScriptedModel.make([text("Monday.")]).layer
    with pytest.raises(SystemExit):
        _go(runs, program("Monday"), layer)
    end: Any = _go(runs, program("Tuesday"), layer)

    assert [type(one) for one in end.cause.failures] == [ProgramChanged]


@pytest.mark.parametrize("is_stream", [True, False])
def test_direct_request_in_place_of_another_part_is_refused_before_it_is_sent(is_stream: bool, runs: Runs) -> None:
    """The program would otherwise pay for an answer that it cannot use."""
    model = ScriptedModel.make([text("Monday.")])
    streamed: Any = LanguageModel.stream_text("Go.").collect()
    asked: Any = streamed if is_stream else LanguageModel.generate_text("Go.")
    with pytest.raises(SystemExit):
        _go(runs, step("mail", fx.succeed(1), int).and_then(_crash()), model.layer)
    end: Any = _go(runs, asked, model.layer)

    assert [type(one) for one in end.cause.failures] == [ProgramChanged]
    assert model.requests == []


def test_each_direct_request_has_its_own_repair(runs: Runs) -> None:
    """A resumed run reads the repairs in their sequence, also if a model uses the ID of a call twice."""
    look: Any = Tool.make("look", parameters=int, success=int)
    repaired: list[str] = []

    def repair(made: Any, _: Any) -> Any:
        repaired.append(made.id)
        return fx.succeed(ToolCall(made.id, "look", len(repaired)))

    def ask() -> Any:
        return LanguageModel.generate_text("Go.", toolkit=Toolkit.make(look), repair=repair)

    def program(last: Any) -> Any:
        return fx.for_each(range(2), lambda _: ask()).flat_map(last.as_)

    layer: Any = look.handler(Success) | ScriptedModel.make([call("lok", 0, id="a"), call("lok", 0, id="a")]).layer
    with pytest.raises(SystemExit):
        _go(runs, program(_crash()), layer)
    end: Any = _go(runs, program(fx.succeed(None)), layer)

    assert [part.result for answer in end.value for part in answer.content if part.type == "tool-result"] == [1, 2]
    assert repaired == ["a", "a"]


# -- failed turns


def test_failed_turn_is_requested_again_although_a_parallel_branch_continued(runs: Runs) -> None:
    """The other branch did not take its path because of the failure."""

    def program() -> Any:
        asked: Any = LanguageModel.generate_text("Go.")
        later: Any = fx.sleep(0.02).and_then(step("mail", fx.succeed(1), int))
        both: Any = fx.all_(asked.result(), later)
        return both.flat_map(finish)

    def finish(ends: Any) -> Any:
        return fx.lift(ends[0])

    first: Any = _go(runs, program(), ScriptedModel.make([fails(AWAY)]).layer)
    second: Any = _go(runs, program(), ScriptedModel.make([text("Done.")]).layer)

    assert "away" in str(first.cause)
    assert second.value.text == "Done."


def test_failed_turn_inside_a_call_that_runs_again_is_requested_again(runs: Runs) -> None:
    """The call ended with a defect because of the turn, and its tool is idempotent."""
    look: Any = Tool.make("look", parameters=int, success=str).annotate(Idempotent, True)

    def handle(_: int) -> Any:
        asked: Any = LanguageModel.generate_text("Look.")
        return asked.map(text_of).or_die()

    def text_of(answer: Any) -> str:
        return str(answer.text)

    program: Any = Agent.make("clerk", toolkit=Toolkit.make(look)).execute("Go.")
    scripts: list[list[Any]] = [[call("look", 1), fails(AWAY)], [text("A cup."), text("Done.")]]
    first, second = (_go(runs, program, look.handler(handle) | ScriptedModel.make(one).layer) for one in scripts)

    assert "away" in str(first.cause)
    assert second.value.text == "Done."
