"""The loop: one result for each call, in order; what ends a run and what does not; cancellation in each phase."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from fxai.agents import Budget, RunFailed, step_count_is
from fxai.agents.loop import run_loop
from fxai.effects import Backend, fx
from fxai.messages import AiError, NetworkError, Prompt, ToolApprovalResponsePart, ToolCall, ToolMessage
from fxai.models import ToolChoice
from fxai.testing import ScriptedModel, call, delay, fails, finish, text
from fxai.tools import Denied, HandlerFailed, Interrupted, Tool, Toolkit, UnknownTool
from tests.kit.every import every
from tests.kit.journal import turns as turns_of
from tests.kit.rounds import Desk
from tests.kit.runs import BOTH, ONE, Way, end_of, plan_of, stream_loop, unanswered
from tests.kit.samples import Sum, add

wipe = Tool.make("wipe", parameters=Sum, success=str, failure=str, failure_mode="return", needs_approval=True)


def _is_handlers(failure: object) -> bool:
    return isinstance(failure, HandlerFailed)


# -- one result for each call


@BOTH
def test_each_call_has_one_result_in_its_place(way: Way, backend: Backend) -> None:
    """Whatever becomes of it, and in whatever order they end: the history of a stream is that of a whole run."""
    calls = [
        call("slow", {"a": 1, "b": 3}, id="slow"),
        call("nope", {}, id="unknown"),
        call("slow", {"a": 2, "b": 1}, id="quick"),
        call("add", {"a": "x"}, id="wrong"),
        call("add", ONE, id="right"),
    ]
    end = end_of(way, backend, [["So: ", *calls], text("ok")], passes=9)
    results = end.answer.steps[0].results

    assert [result.id for result in results] == [one.id for one in calls]
    assert [result.is_failure for result in results] == [False, True, False, True, False]
    assert unanswered(end.answer.history) == []
    assert [line for line in end.desk.journal.lines if line.startswith("end")] == ["end 2", "end 1"]


@BOTH
def test_a_call_that_fails_does_not_lose_the_others(way: Way, backend: Backend) -> None:
    """In failure mode `"error"` it fails the run, when all have ended; the history has every result."""
    calls = [call("double", ONE, id="d"), call("slow", {"a": 1, "b": 3}, id="s"), call("add", ONE, id="a")]
    end = end_of(way, backend, [call("add", ONE), ["So: ", *calls]], passes=9)
    failure: Any = end.failure

    assert _is_handlers(failure)
    assert "end 1" in end.desk.journal.lines
    assert [message.role for message in failure.history] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [(part.id, part.is_failure) for part in failure.history[4].content] == [
        ("d", True),
        ("s", False),
        ("a", False),
    ]


@BOTH
def test_a_failure_and_a_call_that_is_cut(way: Way, backend: Backend) -> None:
    """Where the time is up while others run, the failure holds a result of each all the same."""
    calls = [call("double", ONE, id="d"), call("slow", {"a": 1, "b": 60}, id="s")]
    end = end_of(way, backend, [calls], budget=Budget(seconds=5), passes=99)
    history = end.failure.history

    assert unanswered(history) == []
    assert history[2].content[1].result["type"] == "execution-interrupted"


# -- what the model may do wrong


@BOTH
def test_a_choice_that_the_model_breaks_is_kept(way: Way, backend: Backend) -> None:
    """What it calls beside the choice is not run, and it is told why."""
    options: Any = {"tool_choice": ToolChoice.one_of(["raw"])}
    end = end_of(way, backend, [call("add", ONE), call("raw", {}), text("ok")], options=options)
    refused = end.answer.steps[0].results[0].result

    assert isinstance(refused, Denied)
    assert "allows only: raw" in refused.reason
    assert end.answer.steps[1].results[0].result == {}
    assert end.desk.journal.lines == []


@BOTH
def test_a_tool_that_is_gone_may_stand_in_the_history(way: Way, backend: Backend) -> None:
    """The run goes on from it; when the model calls it again, it is told which tools there are."""
    before = end_of("whole", backend, [call("add", ONE), text("3")]).answer.history
    desk = Desk()
    turns = [call("add", ONE), text("sorry")]
    end = end_of(way, backend, turns, prompt=before + Prompt.make("Again."), desk=desk, toolkit=desk.kit.pick("raw"))

    assert end.answer.steps[0].results[0].result == UnknownTool("add", ("raw",))
    assert end.shown[0] == ["user", "assistant", "tool", "assistant", "user"]


# -- what ends a run


@every("reason", ["length", "content-filter", "other", "error", "unknown"])
@BOTH
def test_a_turn_that_was_cut_ends_a_run(reason: Any, way: Way, backend: Backend) -> None:
    """To ask again would come to the same; its calls are answered, so that the history is valid."""
    called = end_of(way, backend, [["Ha", call("add", ONE), finish(reason)]])
    said = end_of(way, backend, [["Ha", finish(reason)]])

    assert (called.answer.ended, called.answer.finish_reason) == ("done", reason)
    assert isinstance(called.answer.response.tool_results[0].result, Interrupted)
    assert (said.answer.ended, said.answer.finish_reason, said.answer.text) == ("done", reason, "Ha")
    assert called.desk.journal.lines == []


@BOTH
def test_a_paused_turn_goes_on(way: Way, backend: Backend) -> None:
    """Also where the provider ran tools of its own in it, and each is a round of the budget."""
    theirs = ToolCall("p", "search", {}, provider_executed=True)
    end = end_of(way, backend, [[theirs, finish("pause")], ["Hm ", finish("pause")], text("ok")])
    cut = end_of(way, backend, [["Hm ", finish("pause")]], budget=Budget(rounds=1))

    assert (end.answer.text, len(end.answer.steps)) == ("ok", 3)
    assert cut.failure.what == "rounds"


# -- failures of the model


@BOTH
def test_a_failure_of_the_model_holds_the_conversation(way: Way, backend: Backend) -> None:
    """In any round; a run goes on from it. It is an `AiError` as any other."""
    end = end_of(way, backend, [call("add", ONE), ["Half ", fails(NetworkError("TransportError"))]])
    failure = end.failure
    again = end_of(way, backend, [text("3")], prompt=failure.history)

    assert isinstance(failure, AiError)
    assert isinstance(failure, RunFailed)
    assert (failure.reason, failure.is_retryable) == (NetworkError("TransportError"), True)
    assert [message.role for message in failure.history] == ["user", "assistant", "tool"]
    assert again.answer.text == "3"


@BOTH
def test_a_request_that_cannot_be_made_holds_it_too(way: Way, backend: Backend) -> None:
    """Nobody is asked."""
    end = end_of(way, backend, [], options={"tool_choice": ToolChoice.tool("nope")})

    assert isinstance(end.failure, RunFailed)
    assert end.failure.history == Prompt.make("go")
    assert end.model.requests == []


# -- approvals


def _approving(way: Way, backend: Backend, params: Any, approved: bool = True, **plan: Any) -> Any:
    """A run that goes on from a history in which a call of `wipe`, and one that waits, were asked for."""
    desk = Desk()
    kit: Any = Toolkit.make(wipe).merge(desk.kit)

    def on_wipe(p: Sum) -> Any:
        return fx.sleep(p.b).as_(f"wiped {p.a}") if p.a else fx.fail("empty")

    shared: dict[str, Any] = {"desk": desk, "toolkit": kit, "layer": wipe.handler(on_wipe)}
    asked = end_of("whole", backend, [[call("wipe", params, id="w"), call("add", ONE, id="a")]], **shared)
    assert (asked.answer.ended, len(asked.answer.steps)) == ("pending", 1)

    (waiting,) = asked.answer.pending
    answered = ToolMessage((ToolApprovalResponsePart(waiting.approval_id or "", approved),))
    prompt = asked.answer.history.append(answered)
    return end_of(way, backend, plan.pop("turns", [text("ok")]), prompt=prompt, **shared, **plan)


def _turns(history: Prompt) -> list[str]:
    """Who speaks: an answer to a request for approval stands in a tool message of its own."""
    return [role for role, _ in groupby(message.role for message in history)]


@BOTH
def test_approved_calls_run_before_the_model_is_asked(way: Way, backend: Backend) -> None:
    """Their results come first, in the first step, and stand behind the turn that made the call."""
    end = _approving(way, backend, {"a": 7, "b": 0})
    (step,) = end.answer.steps

    assert [result.result for result in step.results] == ["wiped 7"]
    assert step.text == "ok"
    assert _turns(end.model.requests[0].prompt) == ["user", "assistant", "tool"]
    assert _turns(end.answer.history) == ["user", "assistant", "tool", "assistant"]


@BOTH
def test_a_run_with_approvals_counts_anew(way: Way, backend: Backend) -> None:
    """Calls that were approved were counted by the run that made them."""
    end = _approving(way, backend, {"a": 7, "b": 0}, budget=Budget(rounds=1, calls=0))

    assert (end.answer.ended, end.answer.text) == ("done", "ok")


@BOTH
def test_stop_conditions_do_not_see_what_was_before(way: Way, backend: Backend) -> None:
    """A run has the steps that it made itself."""
    end = _approving(
        way, backend, {"a": 7, "b": 0}, stop_when=(step_count_is(2),), turns=[call("add", ONE), text("ok")]
    )

    assert (end.answer.ended, len(end.answer.steps)) == ("done", 2)


@BOTH
def test_an_error_after_approved_calls_holds_their_results(way: Way, backend: Backend) -> None:
    """They have been run: whoever goes on must know."""
    end = _approving(way, backend, {"a": 7, "b": 0}, turns=[fails(NetworkError("TransportError"))])

    assert "wiped 7" in end.failure.history.to_json()


@BOTH
def test_a_failure_in_the_next_turn_holds_them_too(way: Way, backend: Backend) -> None:
    """Both in its response and in its history, each once."""
    end = _approving(way, backend, {"a": 7, "b": 0}, turns=[[call("double", ONE, id="d")]])
    failure: Any = end.failure

    assert _is_handlers(failure)
    assert [result.id for result in failure.response.tool_results] == ["w", "d"]
    assert failure.history.to_json().count("wiped 7") == 1
    assert _turns(failure.history) == ["user", "assistant", "tool", "assistant", "tool"]


@BOTH
def test_an_approved_call_that_hangs_is_cut(way: Way, backend: Backend) -> None:
    """Its result says so: it has been used, and may have done something."""
    end = _approving(way, backend, {"a": 7, "b": 60}, budget=Budget(seconds=5), passes=99)
    history = end.failure.history

    assert end.failure.what == "seconds"
    assert _turns(history) == ["user", "assistant", "tool"]
    assert [p.id for m in history if m.role == "tool" for p in m.content if p.type == "tool-result"] == ["a", "w"]
    assert "the time limit of the run has passed" in history.to_json()
    if way == "stream":
        assert [(part.id, part.is_failure) for part in end.parts] == [("w", True)]


@BOTH
def test_a_history_that_waits_still_asks_nobody(way: Way, backend: Backend) -> None:
    """The run is over at once, pending."""
    desk = Desk()
    kit: Any = Toolkit.make(wipe).merge(desk.kit)
    asked = end_of("whole", backend, [[call("wipe", ONE, id="w")]], desk=desk, toolkit=kit)
    end = end_of(way, backend, [], prompt=asked.answer.history, desk=desk, toolkit=kit)

    assert (end.answer.ended, [one.id for one in end.answer.pending]) == ("pending", ["w"])
    assert end.model.requests == []
    assert [part.type for part in end.parts] == ([] if way == "whole" else ["finish"])


# -- cancellation


def _hangs(desk: Desk) -> Any:
    return desk.journal.note("in").and_then(fx.sleep(1000)).ensuring(desk.journal.note("out"))


def _always(given: object) -> Any:
    """A function that gives it, whatever it is asked."""

    def give(_: object) -> object:
        return given

    return give


def _phases(desk: Desk) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Where a run may be when it is cancelled: its script, and its plan."""
    hangs, done = _hangs(desk), [call("add", ONE)]
    return {
        "preparing": ([], {"prepare_step": (hangs.as_,)}),
        "its tools": ([], {"tools_now": hangs}),
        "calling": ([[call("hang", {}), call("add", ONE)]], {}),
        "listening": ([*done], {"on_step": (_always(hangs),)}),
        "stopping": ([*done], {"stop_when": (_always(hangs.as_(True)),)}),
    }


PHASES = ["preparing", "its tools", "calling", "listening", "stopping"]


def _interrupted(way: Way, backend: Backend, turns: list[Any], desk: Desk, on_answer: Any = None, **plan: Any) -> Any:
    """The model of a run that is interrupted when nothing moves any more."""
    model, hang = ScriptedModel.make(turns), Tool.make("hang", success=int)
    plan.setdefault("toolkit", desk.kit.merge(Toolkit.make(hang)))
    made = plan_of(desk, **plan)

    def kept(answer: Any) -> Any:
        return fx.succeed(None) if on_answer is None else on_answer(answer)

    whole: Any = run_loop(Prompt.make("go"), made).tap(kept)
    run: Any = whole if way == "whole" else stream_loop(Prompt.make("go"), made, kept).drain()

    @fx.gen
    def program() -> Any:
        handle = yield from fx.fork(run)
        yield from fx.wait(lambda: turns_of(300))
        assert not handle.ended
        yield from handle.interrupt()

    served: Any = fx.scoped(program()).provide(hang.handler(lambda _: _hangs(desk).as_(1)))
    fx.run(desk.served(served, model).provide(desk.clock.layer), backend=backend)
    return model


@every("phase", PHASES)
@every("budget", [Budget(), Budget(seconds=9999, calls=9)], ids=["free", "timed"])
@BOTH
def test_a_run_can_be_cancelled_in_each_phase(phase: str, budget: Budget, way: Way, backend: Backend) -> None:
    """What is under way is stopped, its finalizers run, and nothing comes after it."""
    desk = Desk()
    turns, plan = _phases(desk)[phase]
    model = _interrupted(way, backend, turns, desk, budget=budget, **plan)

    assert [line for line in desk.journal.lines if line in ("in", "out")] == ["in", "out"]
    assert len(model.requests) == len(turns)


@pytest.mark.parametrize("budget", [Budget(), Budget(seconds=9999)], ids=["free", "timed"])
@BOTH
def test_a_run_can_be_cancelled_while_it_asks(budget: Budget, way: Way, backend: Backend) -> None:
    """In any round, half-way through a turn."""
    desk = Desk()
    model = _interrupted(way, backend, [call("add", ONE), ["Half ", delay(1000), "late"]], desk, budget=budget)

    assert len(model.requests) == 2
    assert desk.journal.lines == ["add 1"]


@BOTH
def test_a_run_can_be_cancelled_while_its_answer_is_kept(way: Way, backend: Backend) -> None:
    """A memory that hangs is left."""
    desk = Desk()
    _interrupted(way, backend, [text("ok")], desk, on_answer=_always(_hangs(desk)))

    assert desk.journal.lines == ["in", "out"]


@BOTH
def test_a_run_that_was_cancelled_can_be_run_again(way: Way, backend: Backend) -> None:
    """A run is a value: nothing of the one before is in it."""
    desk, model = Desk(), ScriptedModel.make([[delay(1000)], call("add", ONE), text("ok")])
    run: Any = run_loop(Prompt.make("go"), plan_of(desk))
    stream: Any = stream_loop(Prompt.make("go"), plan_of(desk)).collect()
    effect = run if way == "whole" else stream

    @fx.gen
    def program() -> Any:
        handle = yield from fx.fork(effect)
        yield from fx.wait(lambda: turns_of(100))
        yield from handle.interrupt()
        yield from effect

    fx.run(desk.served(fx.scoped(program()), model).provide(desk.clock.layer), backend=backend)

    assert [len(request.prompt) for request in model.requests] == [1, 1, 3]
    assert add.name in [tool.name for tool in model.requests[0].tools]
