"""Hooks of a run that goes on: what one has done for a finished step is not done again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from fxai import Agent, Tool, Toolkit, fx
from fxai.agents.stateful import Render, StatefulPrompt, StepPatch
from fxai.annotations import Idempotent
from fxai.durable import Runs, durable, step
from fxai.messages import ToolCall
from fxai.testing import ScriptedModel, call, text
from fxai.tools import OutcomeUnknown

look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)


class Crash(BaseException):
    """Stands for the end of the process."""


class Desk:
    """A run of two calls and an answer, which crashes in the second call, and goes on."""

    def __init__(self) -> None:
        self.runs = Runs.in_process()
        self.log: list[Any] = []
        self.crashes = True
        self.requests: list[Any] = []

    def note(self, *what: Any) -> Any:
        """An effect that is written down."""
        return fx.sync(lambda: self.log.append(what[0] if len(what) == 1 else what))

    def _look(self, number: int) -> Any:
        def do() -> int:
            if number == 2 and self.crashes:
                raise Crash
            return number

        return fx.sync(do)

    def run(self, agent: Any, *script: Any) -> Any:
        """How a program ends that goes on with the run."""
        model = ScriptedModel.make([*script])
        handler: Any = look.handler(self._look)
        asked: Any = agent.execute("Go.").provide(durable(handler | model.layer, run="r", store=self.runs))
        try:
            return fx.run_exit(asked)
        finally:
            self.requests = model.requests

    def crash_and_go_on(self, make: Callable[[], Any]) -> tuple[Any, Any]:
        """How it ends when it goes on after the crash, and once more."""
        with pytest.raises(Crash):
            self.run(make(), call("look", 1), call("look", 2))
        self.crashes = False
        return self.run(make(), text("Done.")), self.run(make())


def _agent(**options: Any) -> Any:
    return Agent.make("clerk", toolkit=Toolkit.make(look), **options)


def test_a_listener_hears_of_each_step_once() -> None:
    """Whether it is a plain function or gives an effect."""
    desk = Desk()

    def plain(one: Any) -> None:
        desk.log.append(("plain", one.number))

    def effect(one: Any) -> Any:
        return desk.note("effect", one.number)

    first, again = desk.crash_and_go_on(lambda: _agent(on_step=plain).on_step(effect))
    assert first.value.text == again.value.text == "Done."
    assert desk.log == [(kind, number) for number in (1, 2, 3) for kind in ("plain", "effect")]


def test_a_listener_that_was_killed_is_run_again() -> None:
    """It is gone on with: a step in it that had ended is not run again."""
    desk = Desk()
    desk.crashes = False
    crashes = [True]

    def hear(one: Any) -> Any:
        def crash() -> None:
            desk.log.append("after")
            if crashes[0]:
                raise Crash

        return step("mail", desk.note("mail", one.number).as_(1), int).and_then(fx.sync(crash))

    with pytest.raises(Crash):
        desk.run(_agent(on_step=hear), call("look", 1))
    crashes[0] = False
    assert desk.run(_agent(on_step=hear), text("Done.")).value.text == "Done."
    assert desk.log == [("mail", 1), "after", "after", ("mail", 2), "after"]


def test_a_step_in_doubt_in_a_listener_leaves_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is no bug of the listener that the run goes on after."""
    desk = Desk()
    desk.crashes = False

    def hear(_: Any) -> Any:
        def crash() -> int:
            raise Crash

        return step("mail", fx.sync(crash), int)

    with pytest.raises(Crash):
        desk.run(_agent(on_step=hear), call("look", 1))
    end = desk.run(_agent(on_step=hear))
    assert isinstance(end.cause.failures[0], OutcomeUnknown)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("is_effect", [True, False])
def test_a_stop_condition_says_the_same_again(is_effect: bool) -> None:
    """What it said for a step is journalled, whatever it would say now."""
    desk = Desk()
    desk.crashes = False

    def stop(_: Any) -> Any:
        desk.log.append("asked")
        holds = len(desk.log) == 2
        return fx.succeed(holds) if is_effect else holds

    first = desk.run(_agent(stop_when=stop), call("look", 1), call("look", 2))
    again = desk.run(_agent(stop_when=stop))
    assert first.value.ended == again.value.ended == "stopped"
    assert first.value.history == again.value.history
    assert desk.log == ["asked", "asked"]


def test_what_prepares_a_step_is_asked_again_and_its_steps_are_not_run_again() -> None:
    """Its setup may hold a model and handlers; steps of one name in it are not taken for each other."""
    desk = Desk()

    def prepare(setup: Any) -> Any:
        asked = desk.note("step", setup.number).as_(setup.number * 10)
        return step("look up", asked, int).flat_map(lambda found: desk.note("found", found).as_(setup))

    first, _ = desk.crash_and_go_on(lambda: _agent(prepare_step=prepare))
    assert first.value.text == "Done."
    assert [one for one in desk.log if one[0] == "step"] == [("step", 1), ("step", 2), ("step", 3)]
    found = [number for name, number in desk.log if name == "found"]
    assert found == [10, 20, 10, 20, 30, 10, 20, 30]


def test_an_effect_of_a_prompt_is_run_once_a_step() -> None:
    """What it changed in the state, and what it hid, are there again; one that adds a tool is run again."""
    desk = Desk()
    extra = Tool.make("extra", success=int)

    def render(at: Render[None]) -> None:
        total = at.state("total", 0)

        def count(_: Any) -> Any:
            return desk.note("count").and_then(total.update(lambda value: value + 1)).as_(StepPatch.system("mood", "!"))

        def add(_: Any) -> Any:
            handler: Any = fx.succeed
            return desk.note("add").as_(StepPatch.tool(extra, handler))

        at.effect("count", count)
        at.effect("add", add)
        at.system("total", f"The total is {total.value}.")

    first, again = desk.crash_and_go_on(lambda: _agent(prompt=StatefulPrompt.make("counting", render)))
    assert first.value.text == again.value.text == "Done."
    assert first.value.state.values["total"] == again.value.state.values["total"] == 3
    assert desk.log.count("count") == 3
    assert desk.log.count("add") == 2 + 3 + 3  # a tool has a handler, which is no data


def test_a_repair_is_asked_once() -> None:
    """What it gave is journalled, a failure too: the model reads the same again."""
    desk = Desk()
    desk.crashes = False

    def repair(made: Any, _: Any) -> Any:
        mended = fx.fail("no idea") if made.name == "luck" else fx.succeed(ToolCall(made.id, "look", 7))
        return desk.note(made.name).and_then(mended)

    agent = _agent(repair=repair)
    first = desk.run(agent, (call("lok", 1), call("luck", 2)), text("Done."))
    again = desk.run(agent)
    assert first.value.history == again.value.history
    assert sorted(desk.log) == ["lok", "luck"]
    assert "no idea" in first.value.history.to_json()
