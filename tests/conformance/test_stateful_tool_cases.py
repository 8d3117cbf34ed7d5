"""Tools of stateful prompts, as the other system has them: the cases of the areas `tool` and `agent`."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Failure, Result, Success

from fxai.agents import Agent
from fxai.agents.stateful import Render, RenderFailed, StatefulPrompt, StepView
from fxai.testing import ScriptedModel, call, text
from fxai.tools import BoundToolkit, CallContext, Toolkit
from fxai.tools.aspects import Aspect, Invocation
from tests.kit.conformance import Case, case
from tests.kit.renders import Calls, plain_tool, play, play_failing

DONE = text("Done")


def _bound(name: str, handler: Any, aspect: Aspect[Any]) -> BoundToolkit[Any, Any, Any]:
    tool = plain_tool(name)
    layer: Any = aspect.wrap(tool.handler(handler))
    return BoundToolkit.of(Toolkit.make(tool), layer)


def _calls(*calls: tuple[str, Any]) -> dict[str, Any]:
    return {"calls": [{"name": name, "args": args} for name, args in calls]}


# -- calls and results


@case("LM001")
def test_a_tool_is_called_once(case: Case) -> None:
    """With the parameters, and with what a handler may know of the call."""
    tool, given = plain_tool("testTool"), list[Any]()

    def handler(params: Any, context: CallContext) -> Result[Any, str]:
        given.append((params, context.call_id, [message.role for message in context.messages]))
        return Success("ok")

    def render(at: Render) -> None:
        at.tool(tool, handler)

    play(render, ["Calling.", call("testTool", {"x": 5}, id="c1")], DONE)

    assert case.expect.startswith("spy called once with ({x:5}")
    assert [(params, call_id) for params, call_id, _ in given] == [({"x": 5}, "c1")]
    assert "system" not in given[0][2]


@case("LM021")
def test_the_next_step_is_shown_the_result(case: Case) -> None:
    """As the last message, of the role `tool`, for the call that it answers."""
    tool = plain_tool("sum")

    def render(at: Render) -> None:
        at.tool(tool, Calls(lambda p: p["a"] + p["b"]))

    played = play(render, call("sum", {"a": 5, "b": 3}, id="c1"), DONE)
    told: Any = played.record(2).messages[-1]

    assert 'role:"tool"' in case.expect
    assert (told.role, [(part.id, part.result) for part in told.content]) == ("tool", [("c1", 8)])


@case("LM022")
def test_the_steps_tell_the_calls_in_order(case: Case) -> None:
    """Two steps with a call each, and the one that has none."""
    tools = [plain_tool("one"), plain_tool("two")]

    def render(at: Render) -> None:
        for tool in tools:
            at.tool(tool, Calls())

    played = play(render, call("two", {}, id="a"), call("one", {}, id="b"), DONE)

    assert case.expect == ">=2 steps and >=2 tool-calls"
    assert [[(one.id, one.name) for one in step.calls] for step in played.answer.steps] == [
        [("a", "two")],
        [("b", "one")],
        [],
    ]


@case("LM025")
def test_the_failure_of_a_tool_is_in_its_step(case: Case) -> None:
    """As a failed result; the model is told it, and the run goes on."""
    tool = plain_tool("fails")

    def render(at: Render) -> None:
        at.tool(tool, Calls(fails="it failed"))

    played = play(render, call("fails", {}), DONE)
    told: Any = played.requests[1].prompt[-1]

    assert case.expect.startswith(">=1 step")
    assert [(one.is_failure, one.result) for one in played.answer.steps[0].results] == [(True, "it failed")]
    assert [(part.is_failure, part.result) for part in told.content] == [(True, "it failed")]


@case("LM029")
def test_an_effect_chooses_the_handler_of_the_next_render(case: Case) -> None:
    """Both run, each for the calls of its steps."""
    tool, first, second = plain_tool("dynamic"), Calls(), Calls()

    def render(at: Render) -> None:
        version = at.state("version", 1)
        at.tool(tool, first if version.value == 1 else second)
        at.effect("flip", lambda step: version.set(2) if step.number == 2 else None)

    play(render, *[call("dynamic", {"x": x}) for x in (10, 20, 30)], DONE)

    assert case.expect == "at least one implementation ran"
    assert (first.given, second.given) == ([{"x": 10}, {"x": 20}], [{"x": 30}])


@case("LM-P03")
def test_a_failure_is_told_in_one_way(case: Case) -> None:
    """With an aspect or without. There options, even empty ones, make a success of it."""
    tool = plain_tool("fails")
    told: list[Any] = []
    for options in ({}, {"aspect": Aspect.empty()}, {"aspect": Aspect.make()}):
        given: Any = options

        def render(at: Render, given: Any = given) -> None:
            at.tool(tool, Calls(fails="boom"), **given)

        (result,) = play(render, call("fails", {}), DONE).answer.steps[0].results
        told.append((result.is_failure, result.encoded_result))

    assert "undefined -> " in case.expect
    assert told == [(True, "boom")] * 3


@case("LM-Q02")
def test_an_effect_can_tell_a_failure_from_none(case: Case) -> None:
    """The last results say which they are. There both are null."""
    fails, gives, seen = plain_tool("fails"), plain_tool("gives"), list[Any]()

    def render(at: Render) -> None:
        at.tool(fails, Calls(fails="boom"))
        at.tool(gives, lambda _: Success(None))

        def look(step: StepView) -> None:
            seen.append([(one.name, one.is_failure, one.result) for one in step.last_results])

        at.effect("look", look)

    play(render, [call("fails", {}), call("gives", {})], DONE)

    assert "indistinguishable from null" in case.expect
    assert seen == [[], [("fails", True, "boom"), ("gives", False, None)]]


@case("LM-Q04")
def test_a_result_is_told_as_it_is(case: Case) -> None:
    """Whatever its fields are called. There one that looks like the answer of an agent is cut down to its text."""
    tool, given = plain_tool("gives"), {"response": "only this", "steps": [1, 2]}

    def render(at: Render) -> None:
        at.tool(tool, lambda _: Success(given))

    assert case.expect == 'collapsed to text "only this"'
    assert play(render, call("gives", {}), DONE).results(1) == [given]


@case("LM-Q11")
def test_a_tool_may_give_none(case: Case) -> None:
    """It is a result like any other. There the run ends in silence."""
    tool = plain_tool("gives")

    def render(at: Render) -> None:
        at.tool(tool, lambda _: Success(None))

    played = play(render, call("gives", {}), DONE)

    assert "run ends silently" in case.expect
    assert (played.results(1), played.answer.text) == ([None], "Done")


# -- tools that come


@case("LM-P04a", "LM-P04b")
def test_a_tool_that_is_defined_from_the_second_step_on(case: Case) -> None:
    """It is offered there and can be called, whether or not there was a tool before. There it needs one."""
    first, second, handler = plain_tool("a"), plain_tool("b"), Calls()

    def render(at: Render) -> None:
        ready = at.state("ready", False)
        if case.id == "LM-P04a":
            at.tool(first, lambda _: ready.set(True).as_("done"))
        else:
            at.effect("ready", lambda _: ready.set(True))
        if ready.value:
            at.tool(second, handler)

    played = play(render, call("a", {}), call("b", {"x": 1}), DONE)
    before = ["a"] if case.id == "LM-P04a" else []

    assert "b" in case.expect
    assert played.offered == [before, [*before, "b"], [*before, "b"]]
    assert played.record(2).tools == (*before, "b")
    assert handler.given == [{"x": 1}]


# -- composites


@case("LM-P01")
def test_an_unknown_sub_tool_is_an_error_of_its_own(case: Case) -> None:
    """There it rejects the whole call; our semantics lets the others run."""
    read = Calls()

    def render(at: Render) -> None:
        at.composite("file", _bound("read", read, Aspect.empty()))

    asked = call("file", _calls(("nope", {}), ("read", {"path": "a"})))
    (result,) = play(render, asked, DONE).results(1)
    nope, done = result["results"]

    assert "no sub-tool runs" in case.expect
    assert (nope["name"], nope["result"]["error"]["type"]) == ("nope", "unknown-tool")
    assert (done["result"], read.given) == ("done", [{"path": "a"}])


@case("LM-P17")
def test_a_failure_of_a_hook_of_a_sub_tool_is_its_own(case: Case) -> None:
    """The rest go on, where it is typed; an exception is a defect of the run. There both end the composite."""
    behind = Calls()

    def other(_: Invocation[Any], error: str) -> Result[Any, str]:
        return Failure(f"{error}, and so did the hook")

    def boom(_: Invocation[Any], error: str) -> Result[Any, str]:
        raise ZeroDivisionError(error)

    def rendering(recover: Any) -> Any:
        def render(at: Render) -> None:
            failing = _bound("a", Calls(fails="a failed"), Aspect.make(recover=recover))
            at.composite("both", failing, _bound("b", behind, Aspect.empty()))

        return render

    asked = call("both", _calls(("a", {}), ("b", {"x": 1})))
    (result,) = play(rendering(other), asked, DONE).results(1)
    cause, model = play_failing(rendering(boom), asked, DONE)

    assert "b never runs" in case.expect
    assert [one["result"] for one in result["results"]] == [{"error": "a failed, and so did the hook"}, "done"]
    assert behind.given == [{"x": 1}]
    assert [str(defect) for defect in cause.defects] == ["a failed"]
    assert len(model.requests) == 1


# -- agents


class Task(msgspec.Struct, frozen=True):
    """What an agent is to do."""

    task: str


@case("LM164")
def test_an_agent_is_a_tool_of_the_render(case: Case) -> None:
    """It is asked what the model wrote; the parent's step has its call and its answer."""
    child = ScriptedModel.make([text("Dug.")])
    worker = Agent.make("digger", model=child.layer, instructions="Dig.")

    def render(at: Render) -> None:
        at.agent("worker", worker, parameters=Task, prompt=lambda p: f"Your task: {p.task}")

    played = play(render, call("worker", {"task": "dig"}), DONE)

    assert case.expect == "execute got args {task}; parent step has tool-call worker"
    assert "Your task: dig" in str(child.requests[0].prompt)
    assert [one.name for one in played.answer.steps[0].calls] == ["worker"]
    assert played.results(1) == ["Dug."]


@case("LM-P08")
def test_a_stateful_prompt_is_an_agent_of_another_one(case: Case) -> None:
    """It is rendered anew, its effects run, and its answer is used. There none of that happens."""
    look, child = plain_tool("look"), ScriptedModel.make([call("look", {}), text("Found.")])

    def searching(at: Render) -> None:
        found = at.state("found", 0)
        looking = at.tool(look, lambda _: found.update(lambda n: n + 1).as_("here"))
        at.system("found", f"{found.value} found.")
        at.effect("remind", lambda step: looking.remind() if step.number == 2 else None)

    searcher = Agent.make("searcher", prompt=StatefulPrompt.make("searcher", searching), model=child.layer)

    def render(at: Render) -> None:
        at.agent("searcher", searcher)

    played = play(render, call("searcher", {"prompt": "Find it."}), DONE)

    assert "effects never run, no re-render, no reminder" in case.expect
    assert [f"{n} found." in (child.requests[n].prompt.system() or "") for n in (0, 1)] == [True, True]
    assert ["remind" in str(request.prompt).lower() for request in child.requests] == [False, True]
    assert played.results(1) == ["Found."]
    assert played.values == {}


@case("LM-P08b")
def test_the_steps_of_an_agent_are_its_own(case: Case) -> None:
    """Also where both ask one model. There the parent has the steps of both."""
    worker, heard = Agent.make("worker"), list[int]()

    def render(at: Render) -> None:
        at.agent("worker", worker.on_step(lambda step: heard.append(step.number)))

    played = play(render, call("worker", {"prompt": "Dig."}), text("Dug."), DONE)

    assert "parent.steps contains the child steps too" in case.expect
    assert [step.text for step in played.answer.steps] == ["", "Done"]
    assert [played.record(step).tools for step in (1, 2)] == [("worker",), ("worker",)]
    assert (heard, len(played.requests)) == ([1], 3)


@case("LM-Q03")
def test_what_several_prompts_share_is_a_function_of_a_render(case: Case) -> None:
    """It works in the prompt of an agent as in any other. There plugins are lost on the way."""
    look, child = plain_tool("look"), ScriptedModel.make([call("look", {}), text("Found.")])

    def with_search(at: Render) -> None:
        found = at.state("found", 0)
        at.tool(look, lambda _: found.update(lambda n: n + 1).as_("here"))
        at.data("found", found.value)

    searcher = Agent.make("searcher", prompt=StatefulPrompt.make("searcher", with_search), model=child.layer)

    def render(at: Render) -> None:
        with_search(at)
        at.agent("searcher", searcher)

    played = play(render, [call("look", {}), call("look", {})], call("searcher", {"prompt": "Find it."}), DONE)

    assert case.expect.startswith("undefined")
    assert played.offered[0] == ["look", "searcher"]
    assert [tool.name for tool in child.requests[0].tools] == ["look"]
    assert "<found>\n1\n</found>" in (child.requests[1].prompt.system() or "")
    assert (played.values, played.results(2)) == ({"found": 2}, ["Found."])


@case("LM-R08")
def test_a_tool_and_an_agent_of_one_name_are_refused(case: Case) -> None:
    """The failure names it. There the later one replaces the other in silence."""
    worker = Agent.make("worker")

    def render(at: Render) -> None:
        at.tool(plain_tool("x"), Calls())
        at.agent("x", worker)

    cause, model = play_failing(render, text("never"))
    (failure,) = cause.failures

    assert case.expect == "later registration replaces silently"
    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.prompt, failure.step) == ("conflict", "prompt", 1)
    assert "'x'" in failure.message
    assert model.requests == []
