"""Sub-agents: an agent as a tool, whose answer its caller is given, and nothing of how it came about."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai import tool
from fxai.agents import Agent, Budget, BudgetExceeded, Memory, RunFailed, Step, SubAgentFailed, SubAgentRequest
from fxai.effects import Backend, Cause, fx
from fxai.messages import NetworkError
from fxai.models import LanguageModel
from fxai.schema import SchemaError
from fxai.testing import ScriptedModel, TestClock, call, fails, text
from fxai.tools import CallContext, HandlerFailed, Tool, ToolConflictError, Toolkit
from tests.kit.journal import Journal
from tests.kit.samples import add, add_kit, double, giving, on_add, on_double

ONE = {"a": 1, "b": 2}
SECRET = "the secret of the sub-agent"


class Topic(msgspec.Struct, frozen=True):
    """What to write about."""

    name: str
    lines: int = 2


def _child(*turns: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel.make(list(turns))
    make: Any = Agent.make
    return make("poet", model=model.layer, **options), model


def _asked(child: Any, backend: Backend = "asyncio", **params: Any) -> tuple[Any, ScriptedModel]:
    """The answer of an agent that asks `child` once, and the model that it asks itself."""
    model = ScriptedModel.make([call(child.tool.name, params or {"prompt": "go"}, id="c"), text("done")])
    parent: Any = Agent.make("parent").with_tools(child)
    return fx.run(parent.execute("?").provide(model.layer), backend=backend), model


def _result(answer: Any) -> Any:
    return answer.steps[0].results[0]


# -- the answer


def test_an_agent_answers_as_a_tool(backend: Backend) -> None:
    """Its text is the result; it is asked what the model wrote, and nothing of the caller's conversation."""
    child, model = _child(text("Roses."), instructions="Rhyme.")
    answer, asked = _asked(child.as_tool(), backend, prompt="On roses.")

    assert _result(answer).encoded_result == "Roses."
    assert [(m.role) for m in model.requests[0].prompt] == ["system", "user"]
    assert "On roses." in str(model.requests[0].prompt)
    assert asked.requests[0].tools[0].json_schema()["required"] == ["prompt"]


def test_an_answer_has_the_agents_output_type(backend: Backend) -> None:
    """The parent's model is given its JSON, and its steps the value."""
    child, _ = _child(text('{"name": "roses", "lines": 4}'), output=Topic)
    answer, _ = _asked(child.as_tool(), backend)

    assert _result(answer).result == Topic("roses", 4)
    assert _result(answer).encoded_result == {"name": "roses", "lines": 4}


def test_parameters_of_its_own_are_made_a_prompt(backend: Backend) -> None:
    """By the function that comes with them."""

    def asked(topic: Topic) -> str:
        return f"{topic.lines} lines on {topic.name}"

    child, model = _child(text("Roses."))
    made = child.as_tool("verse", parameters=Topic, prompt=asked)
    _asked(made, backend, name="roses", lines=4)

    assert made.tool.name == "verse"
    assert "4 lines on roses" in str(model.requests[0].prompt)


def test_parameters_need_a_prompt() -> None:
    """One without the other says nothing."""
    make: Any = Agent.make("a").as_tool

    with pytest.raises(SchemaError, match="parameters and prompt must be passed together"):
        make(parameters=Topic)
    with pytest.raises(SchemaError, match="parameters and prompt must be passed together"):
        make(prompt=str)


def test_a_tool_has_the_agents_name_and_options() -> None:
    """By default it says that it asks the agent, and tells failures to the model."""
    made = Agent.make("poet").as_tool()
    other = Agent.make("poet").as_tool("ask", description="Writes.", failure_mode="error", needs_approval=True)

    assert (made.tool.name, made.tool.description) == ("poet", "Runs the agent 'poet'.")
    assert made.tool.failure_mode == "return"
    assert (other.tool.name, other.tool.description, other.tool.failure_mode) == ("ask", "Writes.", "error")
    assert other.tool.needs_approval is True


def test_a_sub_agent_is_a_value() -> None:
    """It compares and hashes; given twice it is one tool, and two agents of one name are refused."""
    a, b = Agent.make("poet"), Agent.make("poet", instructions="Rhyme.")

    first, second = a.as_tool(), a.as_tool()

    assert first == second
    assert hash(first) == hash(second)
    assert Agent.make("p").with_tools(a.as_tool(), a.as_tool()) == Agent.make("p").with_tools(a.as_tool())
    with pytest.raises(ToolConflictError):
        Agent.make("p").with_tools(a.as_tool(description="x"), b.as_tool())


def test_its_tool_can_be_called_from_code(backend: Backend) -> None:
    """It is a tool like any other, with a layer."""
    child, _ = _child(text("Roses."))
    made = child.as_tool()
    said = fx.run(made.tool.call(SubAgentRequest("go")).provide(made.layer), backend=backend)

    assert said == "Roses."


def test_a_builder_is_a_tool_too(backend: Backend) -> None:
    """With what is bound: tools, hooks and a memory of its own."""
    child, model = _child(call("add", ONE), text("3"), text("again"))
    memory, steps = Memory.in_process(), list[Step]()
    bound = child.with_tools(add).with_memory(memory).on_step(steps.append)
    made = bound.as_tool()
    handlers: Any = add.handler(on_add)
    parent: Any = Agent.make("parent").with_tools(made)
    script = [call("poet", {"prompt": "1 + 2"}), call("poet", {"prompt": "and?"}), text("done")]
    fx.run(parent.execute("?").provide(handlers).provide(ScriptedModel.make(script).layer), backend=backend)

    assert [step.number for step in steps] == [1, 2, 1]
    assert "1 + 2" in str(model.requests[2].prompt)
    assert len(fx.run(memory.turns(), backend=backend)) == 2


def test_what_the_agent_needs_the_run_needs(backend: Backend) -> None:
    """Handlers of its tools, and a model where it has none, come from outside."""
    child = Agent.make("poet", toolkit=add_kit)
    model = ScriptedModel.make([call("poet", {"prompt": "?"}), call("add", ONE), text("three"), text("done")])
    run = Agent.make("parent").with_tools(child.as_tool()).execute("?")
    answer = fx.run(run.provide(add_kit.to_layer(add.handler(on_add))).provide(model.layer), backend=backend)

    assert _result(answer).result == "three"
    assert [[one.name for one in request.tools] for request in model.requests] == [["poet"], ["add"], ["add"], ["poet"]]


# -- what goes wrong


def test_its_failure_is_told_in_words(backend: Backend) -> None:
    """Which agent, why and what to do; nothing of what was said in the run, which the step holds all the same."""
    child, _ = _child(*[[SECRET, call("add", ONE)]] * 5, toolkit=add_kit, budget=Budget(rounds=2))
    made = child.as_tool()
    parent: Any = Agent.make("parent").with_tools(made)
    model = ScriptedModel.make([call("poet", {"prompt": "go"}), text("sorry")])
    run = parent.execute("?").provide(add.handler(on_add)).provide(model.layer)
    answer: Any = fx.run(run, backend=backend)
    failed = _result(answer).result

    assert _result(answer).is_failure
    assert (failed.agent, failed.reason) == ("poet", "budget")
    assert "did not finish within 2 rounds. Request less." in str(failed)
    assert isinstance(failed.error, BudgetExceeded)
    assert SECRET in str(failed.error.history)
    assert SECRET not in model.requests[1].prompt.to_json()
    assert set(_result(answer).encoded_result) == {"agent", "reason", "message"}


def test_the_failure_of_its_model_is_told_in_words(backend: Backend) -> None:
    """With whether it helps to ask again."""
    child, _ = _child([fails(NetworkError("TransportError", description=SECRET))])
    answer, model = _asked(child.as_tool(), backend)
    failed = _result(answer).result

    assert (failed.reason, type(failed.error)) == ("model", RunFailed)
    assert "NetworkError" in failed.message
    assert "Try again later" in failed.message
    assert SECRET not in model.requests[1].prompt.to_json()


def test_the_failure_of_its_tool_is_told_in_words(backend: Backend) -> None:
    """By the tool's name alone."""
    child, _ = _child(call("double", {"a": 9, "b": 9}), toolkit=Toolkit.make(double))
    parent: Any = Agent.make("parent").with_tools(child.as_tool())
    model = ScriptedModel.make([call("poet", {"prompt": "go"}), text("sorry")])
    run = parent.execute("?").provide(double.handler(on_double)).provide(model.layer)
    failed = _result(fx.run(run, backend=backend)).result

    assert (failed.reason, type(failed.error)) == ("tool", HandlerFailed)
    assert "its tool 'double' failed" in failed.message
    assert "TooBig" not in model.requests[1].prompt.to_json()


def test_an_output_that_does_not_fit_is_its_models_failure(backend: Backend) -> None:
    """After the retries; the text of it is not told."""
    child, _ = _child(*[text(SECRET)] * 3, output=Topic)
    answer, model = _asked(child.as_tool(), backend)

    assert _result(answer).result.reason == "model"
    assert SECRET not in model.requests[1].prompt.to_json()


def test_a_run_that_waits_fails(backend: Backend) -> None:
    """Nobody could answer the approval inside it: the failure says which tools wait, and nothing was run."""
    journal = Journal()
    careful = Tool.make("send", success=str, needs_approval=True)
    child, _ = _child(call("send", {}, id="s"), toolkit=Toolkit.make(careful))
    sends: Any = careful.handler(lambda _: journal.note("sent").as_("sent"))
    parent: Any = Agent.make("parent").with_tools(child.as_tool())
    model = ScriptedModel.make([call("poet", {"prompt": "go"}), text("sorry")])
    answer: Any = fx.run(parent.execute("?").provide(sends).provide(model.layer), backend=backend)
    failed = _result(answer).result

    assert (failed.reason, answer.ended) == ("pending", "done")
    assert "(send)" in failed.message
    assert failed.error.pending[0].id == "s"
    assert journal.lines == []


def test_an_approval_of_the_agent_itself_is_asked_for(backend: Backend) -> None:
    """It is a tool: with `needs_approval` its call waits for its caller's approval, and nothing of it runs."""
    child, model = _child(text("never"))
    answer, _ = _asked(child.as_tool(needs_approval=True), backend)

    assert answer.ended == "pending"
    assert model.requests == []


def test_another_failure_says_its_type(backend: Backend) -> None:
    """Such as that of a hook; its own text stays inside."""

    class Lost(msgspec.Struct, frozen=True):
        what: str

    child, _ = _child(text("Roses."))
    answer, model = _asked(child.on_step(giving(fx.fail(Lost(SECRET)))).as_tool(), backend)

    assert _result(answer).result.reason == "other"
    assert "(Lost)" in _result(answer).result.message
    assert SECRET not in model.requests[1].prompt.to_json()


def test_a_failure_can_fail_the_caller(backend: Backend) -> None:
    """In failure mode "error" it is the failure of the call, with its error."""
    child, _ = _child([fails(NetworkError("TransportError"))])
    made = child.as_tool(failure_mode="error")
    model = ScriptedModel.make([call("poet", {"prompt": "go"}), text("never")])
    run: Any = Agent.make("parent").with_tools(made).execute("?").provide(model.layer)
    ended: Any = fx.run_exit(run, backend=backend)
    failure = ended.cause.failures[0]

    assert type(failure) is HandlerFailed
    assert isinstance(failure.error, SubAgentFailed)
    assert isinstance(failure.error.error, RunFailed)


def test_a_defect_of_the_sub_agent_breaks_the_run(backend: Backend) -> None:
    """It is a bug, which no model is told."""
    broken: Any = Tool.make("broken")

    def boom(_: object) -> Any:
        raise RuntimeError("boom")

    child, _ = _child(call("broken", {}), toolkit=Toolkit.make(broken))
    model = ScriptedModel.make([call("poet", {"prompt": "go"}), text("never")])
    run: Any = Agent.make("parent").with_tools(child.as_tool()).execute("?")
    ended: Any = fx.run_exit(run.provide(broken.handler(boom)).provide(model.layer), backend=backend)

    assert [str(defect) for defect in ended.cause.defects] == ["boom"]
    assert len(model.requests) == 1


def test_a_failure_goes_through_json() -> None:
    """Without the error, which stays in the process."""
    schema = Agent.make("a").as_tool().tool.failure
    failed = SubAgentFailed("a", "other", "no", error=ValueError("x"))
    written = schema.encode(failed).unwrap()

    assert written == {"agent": "a", "reason": "other", "message": "no"}
    assert schema.decode(written).unwrap() == SubAgentFailed("a", "other", "no")
    assert hash(failed) == hash(SubAgentFailed("a", "other", "no"))


# -- time


def _timed(parent: Budget, child: Budget, spent: float, backend: Backend) -> Any:
    """The deadline that a tool of a sub-agent is told, where the caller has taken `spent` seconds."""
    clock, told = TestClock(), list[Any]()
    peek: Any = Tool.make("peek", success=str)

    def on_peek(_: object, context: CallContext) -> Any:
        told.append(context.deadline)
        return Success("seen")

    made, _ = _child(call("peek", {}), text("ok"), toolkit=Toolkit.make(peek), budget=child)

    @tool
    def wait() -> Any:
        """Lets time pass."""
        return clock.advance(spent)

    model = ScriptedModel.make([call("wait", {}), call("poet", {"prompt": "go"}), text("done")])
    run: Any = Agent.make("parent", budget=parent).with_tools(made.as_tool(), wait).execute("?")
    answer = fx.run(run.provide(peek.handler(on_peek)).provide(model.layer).provide(clock.layer), backend=backend)
    return answer.steps[1].results[0].result, told


def test_the_callers_time_bounds_it(backend: Backend) -> None:
    """What is left of it, or its own budget where that is less, is told to its handlers as their deadline."""
    bounded, told = _timed(Budget(seconds=100), Budget(), 40, backend)
    shorter, sooner = _timed(Budget(seconds=100), Budget(seconds=10), 40, backend)
    free, never = _timed(Budget(), Budget(), 40, backend)

    assert (bounded, shorter, free) == ("ok", "ok", "ok")
    assert (told, sooner, never) == ([100], [50], [None])


def test_a_cancellation_of_the_caller_cancels_it(backend: Backend) -> None:
    """Its handler is interrupted and its finalizers run, before the caller ends."""
    journal = Journal()
    slow: Any = Tool.make("slow")
    child, _ = _child(call("slow", {}), toolkit=Toolkit.make(slow))
    waits: Any = slow.handler(giving(fx.sleep(3600).ensuring(journal.note("left"))))
    model = ScriptedModel.make([call("poet", {"prompt": "go"})])
    run: Any = Agent.make("parent").with_tools(child.as_tool()).execute("?").provide(waits).provide(model.layer)
    ended: Any = fx.run(run.timeout(0.05).exit(), backend=backend)

    assert isinstance(ended.cause, Cause)
    assert journal.lines == ["left"]


def test_agents_may_be_nested(backend: Backend) -> None:
    """Each answers to the one that called it."""
    inner, _ = _child(text("deep"))
    middle_model = ScriptedModel.make([call("poet", {"prompt": "x"}), text("middle")])
    middle = Agent.make("middle", model=middle_model.layer).with_tools(inner.as_tool())
    answer, model = _asked(middle.as_tool(), backend)

    assert _result(answer).result == "middle"
    assert "deep" in str(middle_model.requests[1].prompt)
    assert "deep" not in model.requests[1].prompt.to_json()


def test_sub_agents_run_side_by_side(backend: Backend) -> None:
    """Two calls of one turn are two runs; the results are in the order of the calls."""
    child = Agent.make("poet", model=ScriptedModel.make([text("one"), text("two")]).layer)
    calls = [call("poet", {"prompt": "1"}, id="a"), call("poet", {"prompt": "2"}, id="b")]
    model = ScriptedModel.make([calls, text("done")])
    answer = fx.run(Agent.make("p").with_tools(child.as_tool()).execute("?").provide(model.layer), backend=backend)

    assert [result.id for result in answer.steps[0].results] == ["a", "b"]
    assert {result.result for result in answer.steps[0].results} == {"one", "two"}


def test_no_time_left_is_a_spent_budget(backend: Backend) -> None:
    """The agent is not asked."""
    clock = TestClock()
    child, model = _child(text("never"))
    made = child.as_tool()
    called: Any = LanguageModel.generate_text("?", toolkit=Toolkit.make(made.tool), deadline=-1.0)
    asking = ScriptedModel.make([call("poet", {"prompt": "go"})])
    said: Any = fx.run(called.provide(made.layer).provide(asking.layer).provide(clock.layer), backend=backend)

    assert said.tool_results[0].result.reason == "budget"
    assert "time limit had passed" in said.tool_results[0].result.message
    assert model.requests == []
