"""Answers that another process gives after a program stopped waiting for them: no program loses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from returns.result import Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.durable import Reply, RunQuestion, Runs, RunWaiting, durable, step
from fxai.durable.record import Begun
from fxai.durable.run_journal import RunJournal
from fxai.effects import Gen
from fxai.messages import ToolMessage
from fxai.testing import ScriptedModel, call, text
from fxai.tools import OutcomeUnknown
from tests.kit.stopping_journals import stop_after


class Crash(BaseException):
    """Stands for the end of the process: no program handles it."""


class Desk:
    """A clerk with tools, and a person who answers the questions of the run at a chosen moment."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.log: list[Any] = []
        self.crashes = False
        self.replies: Callable[[RunQuestion], Reply] = _reply
        self.wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
        self.outside = Tool.make("outside", parameters=int, success=int).external()
        self.pay = Tool.make("pay", parameters=int, success=int)
        kit = Toolkit.make(self.wipe, self.outside, self.pay)
        self.clerk: Any = Agent.make("clerk", toolkit=kit)
        self.hasty: Any = Agent.make("clerk", toolkit=kit, on_step=lambda _: self.answer())
        """A clerk whose questions are answered after its calls stopped waiting, and before its run ends."""

    @property
    def handlers(self) -> Any:
        """The handlers, which write down their calls."""

        def note(name: str) -> Callable[[int], Any]:
            def handle(number: int) -> Any:
                self.log.append((name, number))
                if self.crashes:
                    raise Crash
                return Success(number)

            return handle

        wipe: Any = self.wipe.handler(note("wipe"))
        return wipe | self.pay.handler(note("pay"))

    def answer(self) -> Any:
        """Answers all open questions; then the program reads its journal, because it writes to it."""

        def answer() -> Gen[None, Any, Any]:
            for question in (yield from self.runs.show("r")).questions:
                yield from self.runs.answer("r", question.id, self.replies(question))
            yield from step("read", fx.succeed(1), int)

        return fx.gen(answer)()

    def answer_after(self, program: Any) -> Any:
        """The program; if it fails, the person answers all open questions before the run ends."""

        def answer(failure: Any) -> Any:
            return self.answer().and_then(fx.fail(failure))

        return program.catch_all(answer)

    def run(self, program: Any, *script: Any) -> Any:
        """Runs a program as the run once; returns how it ended."""
        model = ScriptedModel.make([*script])
        return fx.run_exit(program.provide(durable(self.handlers | model.layer, run="r", store=self.runs)))

    @property
    def status(self) -> str:
        """The status of the run."""
        return fx.run(self.runs.show("r")).state.status

    @property
    def questions(self) -> int:
        """The number of open questions."""
        return len(fx.run(self.runs.show("r")).questions)


def _reply(question: RunQuestion) -> Reply:
    if question.kind == "approval":
        return Reply.approve()
    return Reply.result(7)


@pytest.fixture(params=["process", "sqlite"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """A desk with runs in this process, or in a SQLite database."""
    return Desk(Runs.in_process() if request.param == "process" else Runs.sqlite(tmp_path / "runs.db"))


def test_a_sub_agent_does_not_fail_as_pending(desk: Desk) -> None:
    """All its questions are answered before its turn ends: the run is left, and its next program uses the answers."""
    boss: Any = Agent.make("boss").with_tools(desk.hasty.as_tool()).execute("Go.")
    end = desk.run(boss, call("clerk", {"prompt": "Go."}), (call("outside", 1), call("wipe", 2)))
    assert [type(one) for one in end.cause.failures] == [RunWaiting]
    assert end.cause.failures[0].questions == ()
    assert str(end.cause.failures[0]) == "the run 'r' stopped just before its answers arrived. Resume it."
    assert (desk.status, desk.questions) == ("stopped", 0)
    done = desk.run(boss, text("I have 7 and 2."), text("Done."))
    assert done.value.steps[0].results[0].result == "I have 7 and 2."
    assert (desk.status, desk.log) == ("done", [("wipe", 2)])


def test_an_agent_that_ended_pending_is_not_done(desk: Desk) -> None:
    """Its questions are answered before the program ends: the run stands still, and any program can resume it."""
    asked: Any = desk.hasty.execute("Go.")
    end = desk.run(asked, (call("outside", 1), call("wipe", 2)))
    assert end.value.ended == "pending"
    assert (desk.status, desk.questions) == ("stopped", 0)
    done = desk.run(asked, text("Done."))
    assert [one.result for one in done.value.steps[0].results] == [7, 2]
    assert (desk.status, desk.log) == ("done", [("wipe", 2)])


def test_a_denied_call_is_not_waited_for_twice(desk: Desk) -> None:
    """A denial has no record of its own; the program that uses it ends the run all the same."""
    desk.replies = lambda _: Reply.deny("no")
    asked: Any = desk.hasty.execute("Go.")
    _ = desk.run(asked, call("wipe", 2))
    assert desk.status == "stopped"
    assert desk.run(asked, text("Done.")).value.text == "Done."
    assert (desk.status, desk.log) == ("done", [])


def test_a_call_in_doubt_that_is_answered_late_has_not_failed(desk: Desk) -> None:
    """The program stops with `OutcomeUnknown`, and the next one uses the answer."""
    asked: Any = desk.clerk.execute("Go.")
    late = desk.answer_after(asked)
    desk.crashes = True
    with pytest.raises(Crash):
        desk.run(late, call("pay", 1))
    desk.crashes = False
    assert isinstance(desk.run(late).cause.failures[0], OutcomeUnknown)
    assert (desk.status, desk.questions) == ("stopped", 0)
    assert [one.result for one in desk.run(late, text("Done.")).value.steps[0].results] == [7]
    assert (desk.status, desk.log) == ("done", [("pay", 1)])


def test_a_step_in_doubt_that_is_answered_late_has_not_failed(desk: Desk) -> None:
    """As a call: neither a late answer nor a late answer to the question asked again is lost."""

    def work() -> int:
        if desk.crashes:
            raise Crash
        return 0

    taken: Any = step("work", fx.sync(work), int)
    late = desk.answer_after(taken)
    desk.crashes = True
    with pytest.raises(Crash):
        desk.run(late)
    desk.crashes = False
    desk.replies = lambda _: Reply.unknown()  # no answer to the question about a step
    assert isinstance(desk.run(late).cause.failures[0], OutcomeUnknown)
    assert desk.status == "stopped"
    desk.replies = _reply
    assert isinstance(desk.run(late).cause.failures[0], RunWaiting)
    assert desk.status == "stopped"
    assert desk.run(late).value == 7
    assert desk.status == "done"


def test_an_answer_that_fits_late_after_one_that_did_not(desk: Desk) -> None:
    """The question is asked again, and answered before the program ends: the run has not failed."""
    asked: Any = desk.clerk.execute("Go.")
    late = desk.answer_after(asked)
    _ = desk.run(late, call("outside", 1))
    desk.replies = lambda _: Reply.result("seven")
    fx.run(desk.runs.answer("r", fx.run(desk.runs.show("r")).questions[0].id, Reply.result("seven")))
    desk.replies = _reply
    assert isinstance(desk.run(late).cause.failures[0], RunWaiting)
    assert (desk.status, desk.questions) == ("stopped", 0)
    assert [one.result for one in desk.run(late, text("Done.")).value.steps[0].results] == [7]


def test_a_failure_of_the_program_stays_one(desk: Desk) -> None:
    """A late answer does not change how a program ended that failed for another reason."""
    asked: Any = desk.hasty.execute("Go.").and_then(fx.fail("bad"))
    assert desk.run(asked, call("wipe", 2)).cause.failures == ("bad",)
    assert desk.status == "failed"


def test_a_program_that_answers_itself_overrules_a_late_answer(desk: Desk) -> None:
    """The program denies what a person approves just then: its own answer counts, also when it runs again."""

    def go() -> Gen[Any, Any, Any]:
        asked = cast(Any, (yield from desk.hasty.execute("Go.")))
        replies = ToolMessage.make(*[one.deny("not by me") for one in asked.pending])
        return cast(Any, (yield from desk.clerk.execute(asked.history.append(replies))))

    program: Any = fx.gen(go)()
    first = desk.run(program, call("wipe", 2), text("Denied."))
    assert first.value.text == "Denied."
    assert (desk.status, desk.log) == ("done", [])
    assert desk.run(program).value.text == "Denied."
    assert desk.log == []


def test_an_answer_is_read_after_a_record_could_not_be_written() -> None:
    """The answer gets the number that the record would have had, and a program that waits sees it."""
    desk = Desk(Runs.in_process())
    asked: Any = desk.clerk.execute("Go.")
    _ = desk.run(asked, call("outside", 1))
    journal = RunJournal.open("r", stop_after(0, desk.runs.store))
    with pytest.raises(OSError, match="the process has ended"):
        journal.write(Begun("/x", "x"))
    question = fx.run(desk.runs.show("r")).questions[0]
    fx.run(desk.runs.answer("r", question.id, Reply.result(7)))
    journal.read()
    assert journal.known.part(question.path).reply == Reply.result(7)
