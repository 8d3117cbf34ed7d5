"""Listening: who is told each finished step."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from returns.result import Failure, Success

from fxai.agents import Budget, Step
from fxai.effects import Backend, fx
from fxai.messages import Usage, WarningPart
from fxai.testing import call, finish, text
from tests.kit.runs import BOTH, ONE, Way, end_of
from tests.kit.samples import Sum, add


@BOTH
def test_each_finished_step_is_told_once(way: Way, backend: Backend) -> None:
    """In order, the last one too: they are the steps of the answer."""
    seen: list[Step] = []
    end = end_of(way, backend, [call("add", ONE), call("add", ONE), text("ok")], on_step=(seen.append,))

    assert [step.number for step in seen] == [1, 2, 3]
    assert tuple(seen) == end.answer.steps


@BOTH
def test_a_step_says_everything_of_its_round(way: Way, backend: Backend) -> None:
    """Calls, results in their types, which of them are dynamic, usage and warnings."""
    warning = WarningPart("seed", "unsupported-option")
    wrong = call("add", {"a": "x"}, id="w")
    said = ["So: ", call("add", ONE, id="a"), call("raw", {"n": 1}, id="r"), wrong, warning]
    seen: list[Step] = []
    end_of(way, backend, [[*said, finish("tool-calls", Usage(10, 5))], text("ok")], on_step=(seen.append,))
    step = seen[0]

    assert (step.text, step.finish_reason, step.usage) == ("So: ", "tool-calls", Usage(10, 5))
    assert [(one.id, one.dynamic) for one in step.calls] == [("a", False), ("r", True), ("w", False)]
    assert [(one.id, one.dynamic, one.is_failure) for one in step.results] == [
        ("a", False, False),
        ("r", True, False),
        ("w", False, True),
    ]
    assert step.results_of(add) == (Success(3), Failure(step.results[2].result))
    assert step.params_of(add) == (Sum(1, 2),)
    assert step.warnings == (warning,)


@BOTH
def test_the_run_waits_for_who_listens(way: Way, backend: Backend) -> None:
    """An effect is run before the model is asked again."""
    log: list[str] = []

    def listen(step: Step) -> Any:
        return fx.checkpoint().and_then(fx.sync(lambda: log.append(f"told {step.number}")))

    def prepare(setup: Any) -> Any:
        log.append(f"asks {setup.number}")
        return setup

    end_of(way, backend, [call("add", ONE), text("ok")], on_step=(listen,), prepare_step=(prepare,))

    assert log == ["asks 1", "told 1", "asks 2", "told 2"]


@BOTH
def test_a_listener_may_fail_the_run(way: Way, backend: Backend) -> None:
    """By a failure of its effect; the next one is not told, and a stream does not give the end of the round."""
    seen: list[Step] = []
    end = end_of(way, backend, [call("add", ONE)], on_step=(_full, seen.append))

    assert end.failure == "full"
    assert seen == []
    assert all(part.type != "finish" for part in end.parts)


def _raises(_: Step) -> None:
    raise RuntimeError("boom")


def _dies(_: Step) -> Any:
    return fx.die(RuntimeError("boom"))


def _full(_: Step) -> Any:
    return fx.fail("full")


def _hangs(_: Step) -> Any:
    return fx.sleep(60)


def _hangs_first(step: Step) -> Any:
    return fx.sleep(60) if step.number == 1 else None


def _gives_nonsense(_: Step) -> Any:
    return "boom"


@pytest.mark.parametrize("listener", [_raises, _dies, _gives_nonsense])
@BOTH
def test_a_bug_of_a_listener_does_not_end_the_run(
    listener: Any, way: Way, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, with what went wrong; the others are told."""
    seen: list[Step] = []
    with caplog.at_level(logging.ERROR, logger="fxai.agents"):
        end = end_of(way, backend, [call("add", ONE), text("ok")], on_step=(listener, seen.append))

    assert end.answer.text == "ok"
    assert len(seen) == 2
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "on_step raised after step 1. The run continues",
        "on_step raised after step 2. The run continues",
    ]


@BOTH
def test_a_listener_that_hangs_is_cut(way: Way, backend: Backend) -> None:
    """When the time of the run is up; what the step said is in the history."""
    budget = Budget(seconds=5)
    end = end_of(way, backend, [call("add", ONE)], on_step=(_hangs,), budget=budget, passes=99)

    turns = [call("add", ONE, id="a"), text("ok")]
    limits: dict[str, Any] = {"budget": budget, "at_limit": "answer", "passes": 8}
    last = end_of(way, backend, turns, on_step=(_hangs_first,), **limits)

    assert (end.failure.what, len(end.failure.history)) == ("seconds", 3)
    assert (last.answer.text, last.answer.ended, len(last.answer.steps)) == ("ok", "limit", 2)
    assert [round_.finish_reason for round_ in last.rounds] == ([] if way == "whole" else ["tool-calls", "stop"])
