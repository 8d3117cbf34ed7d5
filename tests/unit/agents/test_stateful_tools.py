"""Tools of stateful prompts: defined anew before each step, reminded of and disabled, and told of by the steps."""

from __future__ import annotations

from typing import Any

from returns.result import Result, Success

from fxai.agents import Agent
from fxai.agents.stateful import Definition, Render, StatefulPrompt, StepPatch, StepView
from fxai.effects import Effect, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import BoundToolkit, CallContext, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.kit.renders import Calls, plain_tool, play, play_failing


def _bound(name: str, handler: Any, aspect: Aspect | None = None) -> BoundToolkit[Any, Any, Any]:
    """A tool with its handler, for a composite."""
    tool = plain_tool(name)
    layer: Any = tool.handler(handler)
    return BoundToolkit.of(Toolkit.make(tool), layer if aspect is None else aspect.wrap(layer))


def _calls(*calls: tuple[str, Any]) -> dict[str, Any]:
    """The parameters of a composite."""
    return {"calls": [{"name": name, "args": args} for name, args in calls]}


# -- a single tool


def test_register_and_execute_a_simple_tool() -> None:
    """It is offered, and its handler is called once, with the parameters and the context of the call."""
    tool, given = plain_tool("testTool", description="A test tool"), list[Any]()

    def handler(params: Any, context: CallContext) -> Result[Any, str]:
        given.append((params, context.call_id, context.tool.name))
        return Success({"result": "success"})

    def render(at: Render) -> None:
        at.tool(tool, handler)

    played = play(render, ["Calling tool", call("testTool", {"x": 5}, id="c1")], text("Done"))

    assert given == [({"x": 5}, "c1", "testTool")]
    assert played.requests[0].tools[0].description == "A test tool"
    assert (played.results(1), played.answer.text) == ([{"result": "success"}], "Done")


def test_tools_without_options() -> None:
    """A name is enough: there is no description, no failure and no parameter to give."""
    tool = plain_tool("simple")

    def render(at: Render) -> None:
        at.tool(tool, lambda p: Success({"doubled": p["value"] * 2}))

    played = play(render, call("simple", {"value": 10}), text("Done"))

    assert played.results(1) == [{"doubled": 20}]


def test_pass_through_tool_execution_errors() -> None:
    """A typed failure is the call's result, and the run goes on; an exception is a defect that ends it, whole."""
    tool = plain_tool("failing")

    def failing(at: Render) -> None:
        at.tool(tool, Calls(fails="Tool failed"))

    def throwing(at: Render) -> None:
        at.tool(tool, Calls(lambda p: 1 // p["x"]))

    played = play(failing, call("failing", {"x": 1}), text("Error handled"))
    cause, model = play_failing(throwing, call("failing", {"x": 0}), text("never"))

    assert [(one.is_failure, one.encoded_result) for one in played.answer.steps[0].results] == [(True, "Tool failed")]
    assert played.answer.text == "Error handled"
    assert [type(defect) for defect in cause.defects] == [ZeroDivisionError]
    assert len(model.requests) == 1


def test_a_tool_gives_a_reference() -> None:
    """It has the name of the tool, and is its tag as text."""
    tool, made = plain_tool("myTool"), list[Definition]()

    def render(at: Render) -> None:
        made.append(at.tool(tool, Calls()))

    play(render, text("Hello"))

    assert [(str(one), f"{one}", one.name, one.kind) for one in made] == [("<myTool>", "<myTool>", "myTool", "tool")]


def test_a_reference_works_in_texts() -> None:
    """In messages and in systems it stands as the tag of the tool; other tags in a system do not."""
    tool = plain_tool("calculator")

    def render(at: Render) -> None:
        look = at.tool(tool, Calls())
        at.system("role", f"Use {look}, not <other>.")
        at.message(f"Use {look} to calculate")

    played = play(render, text("Hello"))

    assert played.shown(1)[0] == ("user", "Use <calculator> to calculate")
    assert "Use <calculator>, not &lt;other>." in played.systems[0]


# -- a composite


def test_register_a_composite_with_several_sub_tools() -> None:
    """It is one tool for the model; each handler gets the parameters of its own call."""
    add, multiply = Calls(lambda p: {"sum": p["a"] + p["b"]}), Calls(lambda p: {"product": p["a"] * p["b"]})

    def render(at: Render) -> None:
        at.composite("math", _bound("add", add), _bound("multiply", multiply), description="Math operations")

    asked = _calls(("add", {"a": 2, "b": 3}), ("multiply", {"a": 2, "b": 4}))
    played = play(render, call("math", asked), text("Done"))

    assert played.offered[0] == ["math"]
    assert (add.given, multiply.given) == ([{"a": 2, "b": 3}], [{"a": 2, "b": 4}])


def test_sub_tools_run_in_sequence() -> None:
    """In the order of the calls, one when the one before it is over."""
    order: list[str] = []

    def noting(name: str) -> Any:
        def handler(_: Any) -> Effect[str]:
            begun = fx.sync(lambda: order.append(f"{name} begins"))
            return begun.and_then(fx.sleep(0)).and_then(fx.sync(lambda: order.append(f"{name} ends"))).as_(name)

        return handler

    def render(at: Render) -> None:
        at.composite("ops", *[_bound(name, noting(name)) for name in ("third", "first", "second")])

    play(render, call("ops", _calls(("first", {}), ("second", {}), ("third", {}))), text("Done"))

    assert order == [f"{name} {what}" for name in ("first", "second", "third") for what in ("begins", "ends")]


def test_an_unknown_sub_tool_is_an_error_of_that_entry() -> None:
    """The others of the call run, before and behind it."""
    read = Calls(lambda _: {"content": "test"})

    def render(at: Render) -> None:
        at.composite("file", _bound("read", read))

    asked = _calls(("read", {"path": "/a"}), ("unknown", {"x": 1}), ("read", {"path": "/b"}))
    played = play(render, call("file", asked), text("Done"))
    (result,) = played.results(1)

    assert [one["name"] for one in result["results"]] == ["read", "unknown", "read"]
    assert result["results"][1]["result"]["error"]["type"] == "unknown-tool"
    assert read.given == [{"path": "/a"}, {"path": "/b"}]


def test_the_rest_go_on_after_the_failure_of_a_sub_tool() -> None:
    """What failed is told in its place."""
    succeed, fail = Calls(lambda _: {"result": "ok"}), Calls(fails="Failed")

    def render(at: Render) -> None:
        at.composite("mixed", _bound("succeed", succeed), _bound("fail", fail))

    asked = _calls(("succeed", {"x": 1}), ("fail", {"x": 2}), ("succeed", {"x": 3}))
    played = play(render, call("mixed", asked), text("Done"))
    (result,) = played.results(1)

    assert (succeed.given, fail.given) == ([{"x": 1}, {"x": 3}], [{"x": 2}])
    assert [one["result"] for one in result["results"]] == [{"result": "ok"}, {"error": "Failed"}, {"result": "ok"}]


def test_each_sub_tool_has_its_own_aspect() -> None:
    """Its hooks are given the calls of that tool, and no others."""
    seen: dict[str, list[Any]] = {"op1": [], "op2": []}

    def spying(name: str) -> Aspect:
        def after(invocation: Invocation[Any], result: object) -> None:
            seen[name].append((invocation.tool.name, invocation.params, result))

        return Aspect.make(after=after)

    def render(at: Render) -> None:
        result = Calls(lambda p: {"result": p["x"]})
        at.composite("ops", *[_bound(name, result, spying(name)) for name in ("op1", "op2")])

    play(render, call("ops", _calls(("op1", {"x": 1}), ("op2", {"x": 2}))), text("Done"))

    assert seen == {"op1": [("op1", {"x": 1}, {"result": 1})], "op2": [("op2", {"x": 2}, {"result": 2})]}


def test_sub_tools_recover_independently() -> None:
    """One makes a success of its failure, the other leaves it."""
    seen: list[tuple[str, str]] = []

    def recovering(gives: Any) -> Aspect:
        def recover(invocation: Invocation[Any], error: str) -> Any:
            seen.append((invocation.tool.name, error))
            return gives

        return Aspect.make(recover=recover)

    def render(at: Render) -> None:
        handled = _bound("fail1", Calls(fails="Error 1"), recovering(Return({"handled": True})))
        at.composite("risky", handled, _bound("fail2", Calls(fails="Error 2"), recovering(None)))

    played = play(render, call("risky", _calls(("fail1", {"x": 1}), ("fail2", {"x": 2}))), text("Done"))
    (result,) = played.results(1)

    assert seen == [("fail1", "Error 1"), ("fail2", "Error 2")]
    assert [one["result"] for one in result["results"]] == [{"handled": True}, {"error": "Error 2"}]


# -- rendered anew


def test_a_tool_persists_while_it_is_defined() -> None:
    """It is offered in every step, once, and called in each that asks for it."""
    tool, handler = plain_tool("persist"), Calls()

    def render(at: Render) -> None:
        at.tool(tool, handler)

    turns = ["Step 1", call("persist", {"x": 1})], ["Step 2", call("persist", {"x": 2})], text("Done")
    played = play(render, *turns)

    assert played.offered == [["persist"]] * 3
    assert handler.given == [{"x": 1}, {"x": 2}]


def test_a_tool_that_is_not_defined_again_is_gone() -> None:
    """Its call was run by the step that offered it; in the next step it is not offered, and a call is not run."""
    tool, given = plain_tool("conditional"), list[Any]()

    def render(at: Render) -> None:
        defined = at.state("defined", True)

        def handler(params: Any) -> Effect[str]:
            given.append(params)
            return defined.set(False).as_("gone")

        if defined.value:
            at.tool(tool, handler)

    played = play(render, call("conditional", {"x": 1}), call("conditional", {"x": 2}), text("Done"))

    assert played.offered == [["conditional"], [], []]
    assert given == [{"x": 1}]
    assert (played.results(1), played.results(2)[0]["type"]) == (["gone"], "unknown-tool")


def test_which_tools_there_are_depends_on_the_state() -> None:
    """The one that the state chooses is run, and the other one never."""
    tool, first, second = plain_tool("dynamic"), Calls(), Calls()

    def render(at: Render) -> None:
        mode = at.state("mode", "tool1")
        at.tool(tool, first if mode.value == "tool1" else second)

    play(render, call("dynamic", {"x": 1}), text("Done"))

    assert (first.given, second.given) == ([{"x": 1}], [])


# -- reminders and disabled tools


def _reminders(played: Any, step: int) -> list[str]:
    return [said for _, said in played.shown(step) if "remind" in said.lower()]


def test_remind_of_a_tool() -> None:
    """The step shows one reminder, behind everything else."""
    tool = plain_tool("important")

    def render(at: Render) -> None:
        important = at.tool(tool, Calls())
        at.effect("remind", lambda _: important.remind())

    played = play(render, text("Hello"))

    assert len(_reminders(played, 1)) == 1
    assert _reminders(played, 1) == [played.shown(1)[-1][1]]
    assert "important" in _reminders(played, 1)[0]


def test_remind_of_several_tools() -> None:
    """One reminder names them, each once, and no other."""
    tools = [plain_tool(f"tool{n}") for n in (1, 2, 3)]

    def render(at: Render) -> None:
        one, _, three = [at.tool(tool, Calls()) for tool in tools]
        at.effect("remind", lambda _: one.remind() + three.remind() + one.remind())

    (said,) = _reminders(play(render, text("Hello")), 1)

    assert [said.count(f"tool{n}") for n in (1, 2, 3)] == [1, 0, 1]


def test_disable_a_tool_for_a_step() -> None:
    """It is offered before and again afterwards; in that step its call is answered by a failure."""
    tool, handler = plain_tool("enabledTool"), Calls()

    def render(at: Render) -> None:
        enabled = at.tool(tool, handler)
        at.effect("disable", lambda step: enabled.disable() if step.number == 2 else None)

    ask = [call("enabledTool", {"x": n}) for n in (1, 2, 3)]
    played = play(render, *ask, text("Done"))

    assert played.offered == [["enabledTool"], [], ["enabledTool"], ["enabledTool"]]
    assert handler.given == [{"x": 1}, {"x": 3}]
    assert played.results(2)[0]["type"] == "unknown-tool"
    assert [played.record(n).tools for n in (1, 2, 3)] == [("enabledTool",), (), ("enabledTool",)]
    assert [played.record(n).patches for n in (1, 2, 3)] == [(), (("disable", StepPatch.hide("enabledTool")),), ()]


def test_hide_a_tool_of_the_agent() -> None:
    """One that the render does not define: in that step it is neither offered nor executed."""
    own, handler = plain_tool("own"), Calls()
    handlers: Any = own.handler(handler)

    def render(at: Render) -> None:
        if at.number == 1:
            at.effect("hide", lambda _: StepPatch.hide("own"))

    prompt = StatefulPrompt.make("prompt", render)
    agent: Any = Agent.make("agent", toolkit=BoundToolkit.of(Toolkit.make(own), handlers), prompt=prompt)
    model = ScriptedModel.make([call("own", {"x": 1}), call("own", {"x": 2}), text("Done")])
    answer = fx.run(agent.execute("go").provide(model.layer))

    assert [[tool.name for tool in request.tools] for request in model.requests] == [[], ["own"], ["own"]]
    assert [result.is_failure for step in answer.steps for result in step.results] == [True, False]
    assert handler.given == [{"x": 2}]
    assert [len(step.record.patches) for step in answer.steps] == [1, 0, 0]


def test_disable_in_an_effect_that_the_state_decides() -> None:
    """It runs again when the state changed, and what it gave holds for that step alone."""
    tool = plain_tool("tempTool")

    def render(at: Render) -> None:
        off = at.state("off", False)
        temp = at.tool(tool, lambda _: off.set(True).as_("done"))
        at.effect("disable", lambda _: temp.disable() if off.value else None, deps=(off.value,))

    played = play(render, call("tempTool", {}), call("tempTool", {}), text("Done"))

    assert played.offered == [["tempTool"], [], ["tempTool"]]


def test_remind_of_and_disable_one_tool() -> None:
    """Both in one step: it is hidden, whatever else; in the others it is offered and reminded of."""
    tool = plain_tool("flexible")

    def render(at: Render) -> None:
        flexible = at.tool(tool, Calls())
        at.effect("remind", lambda _: flexible.remind())
        at.effect("disable", lambda step: flexible.disable() if step.number > 1 else None)

    played = play(render, call("flexible", {}), text("Done"))

    assert played.offered == [["flexible"], []]
    assert "flexible" in _reminders(played, 1)[0]


# -- what the steps tell


def test_a_step_has_its_tool_call() -> None:
    """Among its output, with id, name and parameters; the reason of its end; and the tools that were active."""
    tool = plain_tool("testTool")

    def render(at: Render) -> None:
        at.tool(tool, Calls(lambda p: {"result": p["value"] * 2}))

    played = play(render, ["Calling tool", call("testTool", {"value": 42}, id="call_1")], text("Done"))
    step = played.answer.steps[0]

    assert [(one.id, one.name, one.params) for one in step.calls] == [("call_1", "testTool", {"value": 42})]
    assert [part.type for part in step.response.content][:2] == ["text", "tool-call"]
    assert step.finish_reason == "tool-calls"
    assert played.record(1).tools == ("testTool",)


def test_a_step_is_shown_the_result_of_the_step_before() -> None:
    """As a message of the role `tool`, the last one of what it was asked with."""
    tool = plain_tool("calculate")

    def render(at: Render) -> None:
        at.tool(tool, Calls(lambda p: {"sum": p["a"] + p["b"]}))

    played = play(render, call("calculate", {"a": 5, "b": 3}, id="call_1"), text("Result is 8"))
    told: Any = played.record(2).messages[-1]

    assert "tool" not in [message.role for message in played.record(1).messages]
    assert told.role == "tool"
    assert [(part.id, part.result) for part in told.content] == [("call_1", {"sum": 8})]
    assert played.record(2).messages == played.requests[1].prompt


def test_the_steps_have_several_calls_in_order() -> None:
    """Step by step, as they were made."""
    tools = [plain_tool("step1"), plain_tool("step2")]

    def render(at: Render) -> None:
        for tool in tools:
            at.tool(tool, Calls(lambda p: {"result": p["x"]}))

    turns = call("step1", {"x": 1}), ["First done", call("step2", {"x": 2}), call("step1", {"x": 3})], text("Done")
    steps = play(render, *turns).answer.steps

    assert [[one.name for one in step.calls] for step in steps] == [["step1"], ["step2", "step1"], []]
    assert [[one.result for one in step.results] for step in steps[:2]] == [
        [{"result": 1}],
        [{"result": 2}, {"result": 3}],
    ]


def test_a_step_has_the_call_of_a_composite() -> None:
    """As one call, with the calls inside as its parameters."""

    def render(at: Render) -> None:
        at.composite("math", _bound("add", Calls()), _bound("multiply", Calls()))

    asked = _calls(("add", {"a": 1, "b": 2}), ("multiply", {"a": 3, "b": 4}))
    (made,) = play(render, call("math", asked), text("Done")).answer.steps[0].calls

    assert (made.name, made.params) == ("math", asked)


def test_a_composite_gives_a_list_of_results() -> None:
    """One for each call, in the order of the calls."""

    def render(at: Render) -> None:
        ten, twenty = Calls(lambda p: {"value": p["x"] * 10}), Calls(lambda p: {"value": p["x"] * 20})
        at.composite("ops", _bound("op1", ten), _bound("op2", twenty))

    played = play(render, call("ops", _calls(("op2", {"x": 2}), ("op1", {"x": 1}))), text("Done"))
    results = [{"name": "op2", "result": {"value": 40}}, {"name": "op1", "result": {"value": 10}}]

    assert played.results(1) == [{"results": results}]


def test_a_step_has_the_failure_of_a_tool() -> None:
    """As a result that is marked as a failure, and the next step is shown it."""
    tool = plain_tool("failTool")

    def render(at: Render) -> None:
        at.tool(tool, Calls(fails="Tool execution failed"))

    played = play(render, call("failTool", {"x": 1}), text("Error handled"))
    (result,) = played.answer.steps[0].results
    told: Any = played.requests[1].prompt[-1]

    assert (result.is_failure, result.result) == (True, "Tool execution failed")
    assert [(part.is_failure, part.result) for part in told.content] == [(True, "Tool execution failed")]


# -- together


def test_aspects_work_in_every_step() -> None:
    """Each hook is called in each step that calls the tool."""
    tool, seen = plain_tool("tracked"), list[Any]()

    def before(invocation: Invocation[Any]) -> None:
        seen.append(("before", invocation.params))

    def after(_: Invocation[Any], result: Any) -> None:
        seen.append(("after", result))

    def render(at: Render) -> None:
        at.tool(tool, Calls(lambda p: p["x"] * 2), aspect=Aspect.make(before=before, after=after))

    play(render, call("tracked", {"x": 1}), call("tracked", {"x": 2}), text("Done"))

    assert seen == [("before", {"x": 1}), ("after", 2), ("before", {"x": 2}), ("after", 4)]


def test_sub_tools_of_a_composite_change_the_state() -> None:
    """One that runs behind another sees what it changed; the next render does too."""

    def render(at: Render) -> None:
        counter = at.state("counter", 0)

        def increment(_: Any) -> Effect[Any]:
            return counter.modify(lambda n: ({"counter": n + 1}, n + 1))

        def get(_: Any) -> Effect[Any]:
            return counter.now.map(lambda n: {"counter": n})

        at.composite("stateful", _bound("increment", increment), _bound("getValue", get))
        at.system("count", f"The counter is {counter.value}.")

    played = play(render, call("stateful", _calls(("increment", {}), ("getValue", {}))), text("Done"))
    (result,) = played.results(1)

    assert [one["result"] for one in result["results"]] == [{"counter": 1}, {"counter": 1}]
    assert ["The counter is 1." in system for system in played.systems] == [False, True]
    assert played.values == {"counter": 1}


def test_a_tool_that_uses_and_changes_the_state() -> None:
    """A handler sees the values of its render, and what it adds is there for the next one."""
    tool = plain_tool("outer")

    def render(at: Render) -> None:
        history = at.state("history", list[int]())

        def handler(params: Any) -> Effect[Any]:
            seen = len(history.value)
            return history.update(lambda before: [*before, params["value"]]).as_({"before": seen})

        at.tool(tool, handler)

    played = play(
        render, [call("outer", {"value": 5}), call("outer", {"value": 6})], call("outer", {"value": 7}), "Done"
    )

    assert [played.results(1), played.results(2)] == [[{"before": 0}, {"before": 0}], [{"before": 2}]]
    assert played.values == {"history": [5, 6, 7]}


def test_a_tool_is_defined_anew_with_another_handler() -> None:
    """What an effect of the step before changed decides which one; both run, each in its own step."""
    tool, first, second = plain_tool("dynamic"), Calls(lambda p: p["x"] * 2), Calls(lambda p: p["x"] * 3)

    def render(at: Render) -> None:
        version = at.state("version", "v1")
        at.tool(tool, first if version.value == "v1" else second)

        def flip(step: StepView) -> Effect[None] | StepPatch | None:
            return version.set("v2") if step.number == 1 else None

        at.effect("flip", flip)

    played = play(render, call("dynamic", {"x": 10}), call("dynamic", {"x": 20}), text("Done"))

    assert (first.given, second.given) == ([{"x": 10}], [{"x": 20}])
    assert (played.results(1), played.results(2)) == ([20], [60])
