"""Preparing: what may be changed of one step before it is asked."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from fxai import BoundToolkit
from fxai.agents import Agent, Budget, RunFailed, StepSetup
from fxai.effects import Backend, LayerOf, fx
from fxai.messages import AiError, NetworkError, Prompt, ToolMessage, ToolResultPart, UserMessage
from fxai.models import LanguageModel, ToolChoice
from fxai.testing import ScriptedModel, call, fails, text
from fxai.tools import Tool, Toolkit, UnknownTool
from tests.kit.every import every
from tests.kit.rounds import Desk
from tests.kit.runs import BOTH, ONE, Way, end_of


def _each(change: Callable[[StepSetup], Any]) -> Any:
    """Changes each step."""
    return change


def _in_step(number: int, change: Callable[[StepSetup], Any]) -> Any:
    """Changes one step, and no other."""
    return _each(lambda setup: change(setup) if setup.number == number else setup)


@BOTH
def test_it_is_told_how_a_step_would_be_asked(way: Way, backend: Backend) -> None:
    """Its number, the steps before it, what the model is shown, and the options: a demand holds for the first."""
    seen: list[StepSetup] = []

    def look(setup: StepSetup) -> StepSetup:
        seen.append(setup)
        return setup

    options: Any = {"tool_choice": "required", "temperature": 0.5}
    end = end_of(way, backend, [call("add", ONE), text("ok")], prepare_step=(look,), options=options)

    assert [(setup.number, len(setup.steps), len(setup.messages)) for setup in seen] == [(1, 0, 1), (2, 1, 3)]
    assert [setup.options.get("tool_choice") for setup in seen] == ["required", "auto"]
    assert seen[0].toolkit == end.desk.kit
    assert [request.temperature for request in end.model.requests] == [0.5, 0.5]


@BOTH
def test_what_is_changed_holds_for_one_step(way: Way, backend: Backend) -> None:
    """Tools, choice, options and messages; the history keeps what was said."""

    def change(setup: StepSetup) -> StepSetup:
        some = setup.with_tools(setup.toolkit.pick("raw")).with_choice("required").with_options(max_tokens=7)
        return some.with_messages("Only this.")

    turns = [call("add", ONE), call("raw", {}), text("ok")]
    end = end_of(way, backend, turns, prepare_step=(_in_step(2, change),))
    first, second, third = end.model.requests

    assert [[tool.name for tool in r.tools] for r in (second, third)] == [["raw"], [t.name for t in end.desk.kit]]
    assert [r.tool_choice for r in (first, second, third)] == ["auto", "required", "auto"]
    assert [r.max_tokens for r in (first, second, third)] == [None, 7, None]
    assert second.prompt == Prompt.make("Only this.")
    assert end.shown[2] == ["user", "assistant", "tool", "assistant", "tool"]
    assert "Only this." not in end.answer.history.to_json()


@BOTH
@pytest.mark.parametrize("left", ["call", "result"])
def test_a_call_is_shown_with_its_result_or_not_at_all(left: str, way: Way, backend: Backend) -> None:
    """Messages that split them fail the step, with the whole history, before the model is asked."""

    def cut(setup: StepSetup) -> StepSetup:
        said = list(setup.messages)
        return setup.with_messages(said[:2] if left == "call" else said[2:])

    end = end_of(way, backend, [call("add", ONE, id="c1")], prepare_step=(_in_step(2, cut),))

    assert isinstance(end.failure, RunFailed)
    assert "prepare_step separated a call from its result, which must follow it directly: c1" in str(end.failure)
    assert [message.role for message in end.failure.history] == ["user", "assistant", "tool"]
    assert len(end.model.requests) == 1


@BOTH
def test_what_the_history_had_split_before_is_the_callers(way: Way, backend: Backend) -> None:
    """Only a change of a step is looked at."""
    past = Prompt([ToolMessage.make(ToolResultPart("old", "add", 5)), UserMessage.make("go")])
    more = _each(lambda setup: setup.with_messages([*setup.messages, UserMessage.make("Be brief.")]))
    end = end_of(way, backend, [text("ok")], prompt=past, prepare_step=(more,))

    assert end.shown == [["tool", "user", "user"]]
    assert end.answer.text == "ok"


_WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda _: None, "prepare_step returned None. Return the setup"),
    (lambda _: fx.succeed("model"), "prepare_step returned 'model'"),
    (lambda setup: setup.with_tools([]), r"toolkit must be a Toolkit, got \[\]"),
    (
        lambda setup: setup.with_model(ScriptedModel.make([])),
        r"model must be a layer of a model, .* Pass its `\.layer`",
    ),
    (lambda setup: setup.with_options(temprature=1), "unknown round option 'temprature'. .*temperature"),
]


@every(("change", "said"), _WRONG)
def test_what_is_no_setup_is_a_bug(change: Any, said: str, backend: Backend) -> None:
    """A defect, which says what to give."""
    end = end_of("whole", backend, [], prepare_step=(change,))

    (defect,) = end.cause.defects
    assert isinstance(defect, TypeError)
    assert re.search(said, str(defect))


@BOTH
def test_a_tool_that_a_step_does_not_have_is_not_run(way: Way, backend: Backend) -> None:
    """The model is told which there are."""
    prepare = _in_step(1, lambda setup: setup.with_tools(setup.toolkit.pick("raw")))
    end = end_of(way, backend, [call("add", ONE), text("ok")], prepare_step=(prepare,))

    assert end.answer.steps[0].results[0].result == UnknownTool("add", ("raw",))
    assert end.desk.journal.lines == []


@BOTH
def test_a_step_may_ask_another_model(way: Way, backend: Backend) -> None:
    """Its layer is built when it is first asked, once, and released with the run; handlers keep the run's model."""
    log: list[str] = []
    other = ScriptedModel.make([call("who", {}), text("large")])
    who = Tool.make("who", success=str)

    def on_who(_: object) -> Any:
        return LanguageModel.generate_text("Who?").map(lambda response: response.text)

    counted: Any = LayerOf.scoped(LanguageModel, _counted(other, log))
    even = _each(lambda setup: setup.with_model(counted) if setup.number > 1 else setup)
    desk = Desk()
    kit: Any = desk.kit.merge(Toolkit.make(who))
    turns = [call("add", ONE), text("small")]
    end = end_of(way, backend, turns, desk=desk, toolkit=kit, layer=who.handler(on_who), prepare_step=(even,))

    assert end.answer.text == "large"
    assert end.answer.steps[1].results[0].result == "small"
    assert len(other.requests) == 2
    assert log == ["built", "released"]


def _counted(model: ScriptedModel, log: list[str]) -> Any:
    @fx.gen
    def opened() -> Any:
        log.append("built")
        yield from fx.add_finalizer(lambda _: fx.sync(lambda: log.append("released")))
        built: Any = yield from model.layer.build()
        return built.fetch(LanguageModel)

    return opened()


@BOTH
def test_a_model_that_is_not_there_fails_its_step(way: Way, backend: Backend) -> None:
    """With the conversation until then."""
    error = AiError("Acme", "open", NetworkError("TransportError"))
    broken: Any = LayerOf.effect(LanguageModel, fx.fail(error))
    prepare = _in_step(2, lambda setup: setup.with_model(broken))
    end = end_of(way, backend, [call("add", ONE)], prepare_step=(prepare,))

    assert end.failure.error == error
    assert len(end.failure.history) == 3


@BOTH
def test_several_change_it_in_turn(way: Way, backend: Backend) -> None:
    """The first one first; they may be effects."""
    one = _each(lambda setup: setup.with_options(max_tokens=1, temperature=1.0))
    two = _each(lambda setup: fx.succeed(setup.with_options(max_tokens=(setup.options.get("max_tokens") or 0) + 1)))
    end = end_of(way, backend, [text("ok")], prepare_step=(one, two))
    (request,) = end.model.requests

    assert (request.max_tokens, request.temperature) == (2, 1.0)


@BOTH
def test_it_may_fail_or_be_broken(way: Way, backend: Backend) -> None:
    """A failure is the run's, as it is; a bug is a defect. Nobody is asked."""

    def broken(_: StepSetup) -> StepSetup:
        raise RuntimeError("boom")

    failing = end_of(way, backend, [], prepare_step=(_each(lambda _: fx.fail("no")),))
    defect = end_of(way, backend, [], prepare_step=(broken,))

    assert failing.failure == "no"
    assert [str(one) for one in defect.cause.defects] == ["boom"]


@BOTH
@pytest.mark.parametrize(
    ("choice", "left", "shown"),
    [
        (ToolChoice.tool("add"), "auto", ["raw"]),
        (ToolChoice.one_of(["add", "double"], mode="required"), "none", []),
        (ToolChoice.one_of(["add", "raw"], mode="required"), ToolChoice(("raw",), "required"), ["raw"]),
    ],
)
def test_a_choice_of_tools_that_a_step_lacks_requires_none_of_them(
    choice: Any, left: Any, shown: list[str], way: Way, backend: Backend
) -> None:
    """What is left of the choice holds; where nothing is, nothing is required, and a warning of the step says so."""
    narrow = _in_step(1, lambda setup: setup.with_tools(setup.toolkit.pick("raw")))
    end = end_of(way, backend, ["ok"], prepare_step=(narrow,), options={"tool_choice": choice})
    (request,) = end.model.requests
    warned = [warning.subject for warning in end.answer.steps[0].response.warnings]

    assert (request.tool_choice, [tool.name for tool in request.tools]) == (left, shown)
    assert warned == ([] if left == ToolChoice(("raw",), "required") else ["tool_choice"])


@BOTH
def test_a_choice_of_a_tool_that_the_run_does_not_know_is_refused(way: Way, backend: Backend) -> None:
    """Before anybody is asked; it says which tools there are."""
    narrow = _each(lambda setup: setup.with_tools(setup.toolkit.pick("raw")))
    end = end_of(way, backend, [], prepare_step=(narrow,), options={"tool_choice": ToolChoice.tool("adde")})

    assert "names tools that are not in the toolkit: adde. The tools are: raw" in str(end.failure)


@BOTH
def test_a_step_that_is_shown_nothing_fails_before_the_model_is_asked(way: Way, backend: Backend) -> None:
    """As a prompt that says nothing does."""
    end = end_of(way, backend, [], prepare_step=(_each(lambda setup: setup.with_messages("  ")),))

    assert isinstance(end.failure, RunFailed)
    assert "prompt needs no answer" in str(end.failure)
    assert end.model.requests == []


@BOTH
def test_the_last_turn_of_a_budget_is_prepared_too(way: Way, backend: Backend) -> None:
    """But it cannot be given its tools back."""
    prepare = _each(lambda setup: setup.with_choice("required").with_options(max_tokens=setup.number))
    turns = [call("add", ONE), text("ok")]
    end = end_of(way, backend, turns, prepare_step=(prepare,), budget=Budget(rounds=1), at_limit="answer")

    assert [(r.tool_choice, r.max_tokens) for r in end.model.requests] == [("required", 1), ("none", 2)]


# -- tools that change while the run goes on


@BOTH
def test_the_tools_of_a_step_are_those_that_are_there_now(way: Way, backend: Backend) -> None:
    """Asked for before each step; their layer is there for it. A call of one that has gone is told so."""
    old, new = Tool.make("old", success=str), Tool.make("new", success=str)
    tools: list[BoundToolkit[Any, Any, Any]] = [
        BoundToolkit.of(Toolkit.make(old), old.handler(lambda _: fx.succeed("from old"))),
        BoundToolkit.of(Toolkit.make(new), new.handler(lambda _: fx.succeed("from new"))),
    ]
    asked: list[int] = []

    def now() -> Any:
        asked.append(len(asked))
        return fx.succeed(tools[min(asked[-1], 1)])

    turns = [call("old", {}), call("new", {}), call("old", {}), text("ok")]
    end = end_of(way, backend, turns, tools_now=fx.suspend(now))
    results = [step.results[0].result for step in end.answer.steps[:3]]

    assert results == ["from old", "from new", UnknownTool("old", ("new",))]
    assert [[tool.name for tool in r.tools] for r in end.model.requests] == [["old"], ["new"], ["new"], ["new"]]
    assert len(asked) == 4


@BOTH
def test_tools_that_cannot_be_had_fail_the_run(way: Way, backend: Backend) -> None:
    """With what went wrong with them."""
    end = end_of(way, backend, [], tools_now=fx.fail("the server is gone"))

    assert end.failure == "the server is gone"


@BOTH
def test_a_preparation_that_hangs_is_cut(way: Way, backend: Backend) -> None:
    """Whether it is asked how a step is to be, or for its tools."""
    hangs = fx.sleep(60)
    prepare = _in_step(2, hangs.as_)
    end = end_of(way, backend, [call("add", ONE)], prepare_step=(prepare,), budget=Budget(seconds=5), passes=99)
    tools = end_of(way, backend, [], tools_now=hangs.as_(None), budget=Budget(seconds=5), passes=99)

    assert (end.failure.what, len(end.failure.history)) == ("seconds", 3)
    assert (tools.failure.what, len(tools.failure.history)) == ("seconds", 1)


@pytest.mark.parametrize("number", [1, 2])
@BOTH
def test_a_prepared_step_fails_as_any(number: int, way: Way, backend: Backend) -> None:
    """An error of the model holds the conversation."""
    turns = [call("add", ONE)] * (number - 1)
    end = end_of(
        way, backend, [*turns, fails(NetworkError("TransportError"))], prepare_step=(_each(lambda setup: setup),)
    )

    assert len(end.failure.history) == 2 * number - 1


def test_prepare_step_cannot_change_the_options_of_other_runs() -> None:
    """A hook that changes its dictionary of options in place changes no later step and no later run of the agent."""

    def change(setup: StepSetup) -> StepSetup:
        setup.options["temperature"] = 1.0 + setup.number
        return setup

    turns = [text("ok"), text("ok")]
    model = ScriptedModel.make(turns)
    once = Agent.make("a", temperature=0.5, prepare_step=change)
    plain = Agent.make("a", temperature=0.5)

    _ = fx.run(once.execute("Hello").provide(model.layer))
    _ = fx.run(once.execute("Hello").provide(model.layer))

    assert [request.temperature for request in model.requests] == [2.0, 2.0]
    assert (once.options, plain == Agent.make("a", temperature=0.5)) == (plain.options, True)


def test_agent_with_a_computed_plan_is_the_same_value() -> None:
    """A run does not change the equality, the hash, or the pickled form of its agent."""
    agent = Agent.make("a", temperature=0.5)
    before = pickle.dumps(agent)

    _ = fx.run(agent.execute("Hello").provide(ScriptedModel.make([text("ok")]).layer))

    assert (agent == Agent.make("a", temperature=0.5), pickle.dumps(agent)) == (True, before)
    assert hash(agent) == hash(pickle.loads(before))
