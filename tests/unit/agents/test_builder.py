"""Builders: what is bound for one run, and only for it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from returns.result import Result, Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Budget, BudgetExceeded, Compaction, Memory, Step, StepSetup, step_count_is
from fxai.effects import Backend, Layer, Service, fx
from fxai.messages import Prompt, Response
from fxai.models import LanguageModel, ToolChoice
from fxai.testing import ScriptedModel, TestClock, call, text
from fxai.tools import CallContext, HandlerFailed, Tool, ToolConflictError, Toolkit
from tests.kit.every import every
from tests.kit.journal import Journal
from tests.kit.samples import TooBig, add, add_kit, double, on_add, on_double

ONE = {"a": 1, "b": 2}
HANDLERS: Any = Toolkit.make(add, double).to_layer(add.handler(on_add) | double.handler(on_double))
agent = Agent.make("sums", instructions="You add.", toolkit=add_kit)


@tool
def triple(n: int) -> int:
    """Triples a number."""
    return 3 * n


def _asked(run: Any, backend: Backend = "asyncio") -> list[str]:
    """The names of the tools that the model is shown."""
    model = ScriptedModel.make([text("ok"), text("ok")])
    fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)
    fx.run(run.stream("?").drain().provide(HANDLERS).provide(model.layer), backend=backend)
    shown, streamed = ([one.name for one in request.tools] for request in model.requests)
    assert shown == streamed
    return shown


def _nothing(_: Any) -> Result[int, Any]:
    return Success(0)


def _journalled(journal: Journal) -> ToolSource[Any, Any, Any]:
    """A source that writes when it is opened and closed."""
    bound: Any = BoundToolkit.make(triple)
    return ToolSource(fx.acquire_release(journal.note("open"), lambda _: journal.note("close")).as_(bound))


# -- tools


def test_tools_are_bound_behind_the_agents_own(backend: Backend) -> None:
    """For this run; the agent has what it had."""
    assert _asked(agent.with_tools(double), backend) == ["add", "double"]
    assert _asked(agent, backend) == ["add"]
    assert [one.name for one in agent.with_tools(double).tools] == ["add", "double"]
    assert [one.name for one in agent.tools] == ["add"]


def test_the_agents_own_tools_can_be_left_out(backend: Backend) -> None:
    """Those that are bound stay, whichever was said first."""
    assert _asked(agent.without_tools(), backend) == []
    assert _asked(agent.without_tools().with_tools([double]), backend) == ["double"]
    assert agent.with_tools([double]).without_tools() == agent.without_tools().with_tools([double])


@every("choice", ["required", ToolChoice.tool("double"), ToolChoice.one_of(["double"])])
@every("more", [False, True])
def test_an_agents_choice_demands_nothing_of_tools_that_are_left_out(choice: Any, more: bool, backend: Backend) -> None:
    """Without them nothing is required, and a warning says so; any tool that is bound meets a demand for any."""
    agent: Any = Agent.make("sums", toolkit=Toolkit.make(Tool.make("double")), tool_choice=choice)
    bound = agent.without_tools().with_tools(triple) if more else agent.without_tools()
    model = ScriptedModel.make(["ok", "ok"])
    answer = fx.run(bound.execute("go").provide(model.layer), backend=backend)
    parts = fx.run(bound.stream("go").collect().provide(model.layer), backend=backend)
    warned = [] if more and choice == "required" else ["tool_choice"]

    assert [warning.subject for warning in answer.steps[0].response.warnings] == warned
    assert [part.subject for part in parts if part.type == "warning"] == warned
    assert all(request.tool_choice in (("required",) if not warned else ("auto", "none")) for request in model.requests)


def test_a_call_of_a_tool_that_is_left_out_is_a_mistake() -> None:
    """The model is told that there is no such tool."""
    model = ScriptedModel.make([call("add", ONE), text("ok")])
    answer = fx.run(agent.without_tools().execute("?").provide(model.layer))

    assert "unknown-tool" in answer.history.to_json()


def test_a_builder_does_not_change() -> None:
    """What is made of it is another one."""
    bound = agent.with_tools([double])
    more = bound.with_tools(triple).without_tools().with_memory(Memory.in_process()).on_step(lambda _: None)

    assert bound == agent.with_tools([double])
    assert more != bound
    assert more.name == agent.name


def test_a_builder_is_a_value() -> None:
    """It compares, hashes, refuses changes, can be pickled, and says what it binds."""
    bound: Any = agent.with_tools([double]).without_tools()

    assert bound == agent.without_tools().with_tools(double)
    assert hash(bound) == hash(agent.without_tools().with_tools(double))
    assert pickle.loads(pickle.dumps(bound)) == bound
    with pytest.raises(AttributeError):
        bound.name = "other"
    assert repr(bound) == "Agent('sums', tools=[add]).without_tools().with_tools(double)"
    assert repr(agent.builder) == "Agent('sums', tools=[add])"


def test_a_conflict_with_the_agents_own_tools_is_told_at_once() -> None:
    """The message says how to go on; without the agent's own there is none."""
    other: Tool[Any, Any, Any] = Tool.make("add", success=str)

    with pytest.raises(ToolConflictError, match=r"'add'.*on_conflict.*without_tools\(\)"):
        agent.with_tools(other)
    assert agent.with_tools(other, on_conflict="first").tools == agent.tools
    assert agent.with_tools(other, on_conflict="last").tools == (other,)
    assert agent.without_tools().with_tools(other).tools == (other,)


def test_function_tools_bring_their_handlers(backend: Backend) -> None:
    """Nothing else is to be provided."""
    model = ScriptedModel.make([call("triple", {"n": 2}), text("6")])
    answer = fx.run(Agent.make("a").with_tools([triple]).execute("?").provide(model.layer), backend=backend)

    assert list(agent.with_tools([triple]).unanswered.tools) == ["add"]
    assert answer.steps[0].results[0].result == 6


def test_an_agents_own_tools_may_bring_their_handlers(backend: Backend) -> None:
    """A bound toolkit or a source may be an agent's own; left out, it is not opened."""
    journal = Journal()
    own = Agent.make("a", toolkit=_journalled(journal))
    model = ScriptedModel.make([text("none"), call("triple", {"n": 2}), text("6")])
    fx.run(own.without_tools().execute("?").provide(model.layer), backend=backend)
    unopened = list(journal.lines)
    answer: Any = fx.run(own.execute("?").provide(model.layer), backend=backend)

    assert unopened == []
    assert answer.steps[0].results[0].result == 6
    assert journal.lines == ["open", "close"]


def test_bound_handlers_may_need_services(backend: Backend) -> None:
    """They are given from outside, as to any handler."""

    class Rate(Service):
        value = 4

    @tool
    def scaled(n: int) -> Any:
        """Scales a number."""
        return fx.service(Rate).map(lambda rate: rate.value * n)

    model = ScriptedModel.make([call("scaled", {"n": 2}), text("ok")])
    run: Any = Agent.make("a").with_tools(scaled).execute("?")
    answer = fx.run(run.provide(model.layer).provide(Layer.succeed(Rate, Rate())), backend=backend)

    assert answer.steps[0].results[0].result == 8


# -- sources


def test_a_source_is_open_for_the_run_only(backend: Backend) -> None:
    """Opened before the model is asked, closed after the last turn, for each run anew."""
    journal = Journal()
    run: Any = agent.with_tools(_journalled(journal))
    model = ScriptedModel.make([call("triple", {"n": 2}), text("6"), text("again")])
    first = fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)
    fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)

    assert [one.name for one in model.requests[0].tools] == ["add", "triple"]
    assert first.steps[0].results[0].result == 6
    assert journal.lines == ["open", "close"] * 2


def test_a_source_is_closed_whatever_happens(backend: Backend) -> None:
    """A failure, a defect, a cancellation and a stream that is left early close it."""
    broken: Any = Tool.make("broken")

    def boom(_: object) -> Any:
        raise RuntimeError("boom")

    def slow(_: object) -> Any:
        return fx.sleep(3600)

    endings: list[Any] = [
        (on_double, call("double", {"a": 9, "b": 9}), 3600),
        (boom, call("broken", {}), 3600),
        (slow, call("broken", {}), 0.05),
    ]
    for handler, said, seconds in endings:
        journal, model = Journal(), ScriptedModel.make([said, text("never")])
        kit: Any = Toolkit.make(double, broken)
        run: Any = Agent.make("a", toolkit=kit).with_tools(_journalled(journal)).execute("?")
        layer: Any = double.handler(on_double) | broken.handler(handler)
        ended: Any = fx.run_exit(run.provide(layer).provide(model.layer).timeout(seconds), backend=backend)

        assert ended.cause.reasons
        assert journal.lines == ["open", "close"]


def test_a_stream_closes_its_source_when_it_is_left(backend: Backend) -> None:
    """It is open while parts are read."""
    journal = Journal()
    stream: Any = Agent.make("a").with_tools(_journalled(journal)).stream("?")
    model = ScriptedModel.make([["one ", "two ", "three"]])
    opened: list[Any] = []

    def look(_: object) -> Any:
        return fx.sync(lambda: opened.append(list(journal.lines)))

    fx.run(stream.tap(look).take(1).drain().provide(model.layer), backend=backend)

    assert opened == [["open"]]
    assert journal.lines == ["open", "close"]


def test_a_source_that_fails_fails_the_run(backend: Backend) -> None:
    """With its failure; the model is not asked."""
    failing: ToolSource[Any, Any, Any] = ToolSource(fx.fail(TooBig(1)))
    model = ScriptedModel.make([text("never")])
    bound: Any = agent.with_tools(failing)
    ended: Any = fx.run_exit(bound.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)
    streamed: Any = fx.run_exit(bound.stream("?").drain().provide(HANDLERS).provide(model.layer), backend=backend)

    assert ended.cause.failures == (TooBig(1),)
    assert streamed.cause.failures == (TooBig(1),)
    assert model.requests == []


def test_tools_that_come_and_go_are_asked_for_before_each_step(backend: Backend) -> None:
    """A live source's tools of the moment are shown, with their handlers."""
    state: list[Any] = [BoundToolkit.make(triple)]

    @tool
    def halve(n: int) -> int:
        """Halves a number."""
        state[0] = BoundToolkit.make(triple)
        return n // 2

    both: Any = BoundToolkit.make(triple, halve)
    live: Any = BoundToolkit.of(both.toolkit, both.layer, now=fx.sync(lambda: state[0]))
    state[0] = both
    model = ScriptedModel.make([call("halve", {"n": 4}), text("ok")])
    run: Any = agent.with_tools(ToolSource(fx.succeed(live)))
    answer = fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)

    assert answer.steps[0].results[0].result == 2
    assert [[one.name for one in request.tools] for request in model.requests] == [
        ["add", "triple", "halve"],
        ["add", "triple"],
    ]


@pytest.mark.parametrize("server_first", [True, False])
def test_a_server_cannot_end_a_run_by_a_name(
    server_first: bool, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that it adds in the middle under a taken name is left out, and a warning is logged."""
    state: list[Any] = []

    @tool
    def halve(n: int) -> int:
        """Halves a number."""
        state[0] = more
        return n // 2

    other: Any = Tool.make("triple", description="Of the server.", success=int)
    own: Any = BoundToolkit.make(halve)
    kit: Any = own.toolkit.merge(Toolkit.make(other))
    more: Any = BoundToolkit.of(kit, own.layer | other.handler(_nothing))
    live: Any = BoundToolkit.of(own.toolkit, own.layer, now=fx.sync(lambda: state[0]))
    state.append(live)
    server: Any = ToolSource(fx.succeed(live))
    run: Any = agent.with_tools(*([server, triple] if server_first else [triple, server]))
    model = ScriptedModel.make([call("halve", {"n": 4}), call("triple", {"n": 4}), text("ok")])
    answer = fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)

    assert [step.results[0].result for step in answer.steps[:2]] == [2, 12]
    assert [sorted(one.name for one in request.tools) for request in model.requests] == [["add", "halve", "triple"]] * 3
    assert ["ignored the new tool 'triple'" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("at_limit", ["fail", "answer", "last_text"])
def test_sources_are_opened_in_the_time_of_the_run(at_limit: Any, backend: Backend) -> None:
    """One that never opens is closed when the time is up, and the run ends as its budget says."""
    log: list[str] = []

    @fx.gen
    def opening() -> Any:
        yield from fx.add_finalizer(lambda _: fx.sync(lambda: log.append("closed")))
        yield from fx.never()

    hanging: Any = ToolSource(opening())
    model = ScriptedModel.make([text("without it"), text("without it")])
    seconds = 0.2 if at_limit == "answer" else 0.01  # the answer takes as long again at most, also on a busy machine
    brief: Any = Agent.make("a", budget=Budget(seconds=seconds), at_limit=at_limit).with_tools(hanging)
    ended: Any = fx.run_exit(brief.execute("?").provide(model.layer), backend=backend)
    streamed: Any = fx.run_exit(brief.stream("?").collect().provide(model.layer), backend=backend)

    assert log == ["closed"] * 2
    if at_limit == "answer":
        assert (ended.value.text, ended.value.ended) == ("without it", "limit")
        assert Response.from_stream(streamed.value).text == "without it"
    else:
        late = BudgetExceeded("seconds", seconds, Prompt.make("?"))
        assert ended.cause.failures == streamed.cause.failures == (late,)


def test_what_opening_takes_is_not_there_for_the_rest(backend: Backend) -> None:
    """The time runs from before the sources are opened: calls are told when it ends."""
    clock, ends = TestClock(), list[float | None]()
    until = Tool.make("until", success=int)

    def on_until(_: Any, about: CallContext) -> Result[int, Any]:
        ends.append(about.deadline)
        return Success(1)

    bound: Any = BoundToolkit.of(Toolkit.make(until), until.handler(on_until))
    slow: Any = ToolSource(clock.advance(3).as_(bound))
    model = ScriptedModel.make([call("until", {}), text("ok")])
    brief: Any = Agent.make("a", budget=Budget(seconds=5)).with_tools(slow)
    begun = clock.monotonic()
    fx.run(brief.execute("?").provide(model.layer).provide(clock.layer), backend=backend)

    assert ends == [begun + 5]


# -- hooks and the rest of the run


def test_hooks_are_bound_for_the_run(backend: Backend) -> None:
    """The agent's own come first; each prepares, hears or stops in its order."""
    heard: list[str] = []

    def noted(name: str) -> Any:
        def note(step: Step) -> None:
            heard.append(f"{name}{step.number}")

        return note

    def prepared(name: str) -> Any:
        def prepare(setup: StepSetup) -> StepSetup:
            heard.append(f"{name}?")
            return setup

        return prepare

    own = Agent.make("a", toolkit=add_kit, on_step=noted("own"), prepare_step=[prepared("own")])
    run = own.on_step(noted("bound")).prepare_step(prepared("bound")).stop_when(step_count_is(2))
    model = ScriptedModel.make([call("add", ONE)] * 5)
    answer = fx.run(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)

    assert answer.ended == "stopped"
    assert heard == ["own?", "bound?", "own1", "bound1", "own?", "bound?", "own2", "bound2"]
    assert repr(own).count("stop_when") == 0


def test_hooks_may_be_effects_that_fail(backend: Backend) -> None:
    """Their failure is the run's."""
    run = agent.on_step(lambda _: fx.fail(TooBig(3)))
    model = ScriptedModel.make([text("ok")])
    ended: Any = fx.run_exit(run.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)

    assert ended.cause.failures == (TooBig(3),)


def test_a_hook_is_a_function() -> None:
    """Anything else is refused at once."""
    wrong: Any = 3

    with pytest.raises(TypeError, match="on_step must be a function, got 3"):
        agent.on_step(wrong)


def test_a_memory_is_one() -> None:
    """Anything else is refused at once, and another service where it is asked for."""
    wrong: Any = "notes.jsonl"
    service: Any = LanguageModel
    model = ScriptedModel.make([])

    with pytest.raises(TypeError, match=r"memory must be a Memory, such as Memory\.file\(path\), .*got 'notes\.jsonl'"):
        agent.with_memory(wrong)
    with pytest.raises(TypeError, match="the layer must provide a Memory"):
        fx.run(Agent.make("a").with_memory(service).execute("?").provide(model.layer))


def test_a_builder_shows_how_it_was_made() -> None:
    """Its tools, its memory and its hooks, each as one writes it."""
    built = Agent.make("a").with_tools(triple).with_memory(Memory.in_process(Compaction.window(3), keep=9))

    assert repr(built.stop_when(step_count_is(2))) == (
        "Agent('a').with_tools(triple).with_memory(Memory.in_process(Compaction.window(3), keep=9))"
        ".stop_when(StepCountIs(number=2))"
    )


def test_a_builder_runs_as_its_agent_says(backend: Backend) -> None:
    """Instructions, options, budget, limit and output are the agent's."""
    own = Agent.make("a", instructions="Be brief.", toolkit=add_kit, budget=Budget(rounds=2), temperature=0.5)
    model = ScriptedModel.make([call("add", ONE)] * 3)
    run = own.with_tools(double).execute("?").provide(HANDLERS).provide(model.layer)
    ended: Any = fx.run_exit(run, backend=backend)

    assert isinstance(ended.cause.failures[0], BudgetExceeded)
    assert [(r.prompt.system(), r.temperature) for r in model.requests] == [("Be brief.", 0.5)] * 2
    lasting = Agent.make("a", toolkit=add_kit, budget=Budget(rounds=1), at_limit="last_text").with_tools(double)
    last = fx.run(lasting.execute("?").provide(HANDLERS).provide(ScriptedModel.make([call("add", ONE)]).layer))
    assert last.ended == "limit"
    typed = Agent.make("a", output=int, output_retries=0).with_tools(double)
    model = ScriptedModel.make([text("no number"), text("1")])
    failed: Any = fx.run_exit(typed.execute("?").provide(HANDLERS).provide(model.layer), backend=backend)
    assert failed.cause.failures
    assert len(model.requests) == 1


def test_a_failing_handler_of_bound_tools_fails_the_run(backend: Backend) -> None:
    """As one of the agent's own, with the history; streamed or not."""
    turns: list[Any] = [call("double", {"a": 9, "b": 9}), text("never")]
    run = agent.with_tools(double)
    whole: Any = fx.run_exit(
        run.execute("?").provide(HANDLERS).provide(ScriptedModel.make(turns).layer), backend=backend
    )
    parts: Any = fx.run_exit(
        run.stream("?").drain().provide(HANDLERS).provide(ScriptedModel.make(turns).layer), backend=backend
    )

    assert type(whole.cause.failures[0]) is HandlerFailed
    assert whole.cause.failures[0].history == parts.cause.failures[0].history


def test_an_empty_builder_runs_as_the_agent(backend: Backend) -> None:
    """The model is asked the same, and the answer is the same."""
    turns: list[Any] = [call("add", ONE, id="c"), text("3")]
    models = [ScriptedModel.make(turns) for _ in range(2)]
    runs = (agent.execute("?"), agent.builder.execute("?"))
    answers = [
        fx.run(run.provide(HANDLERS).provide(model.layer), backend=backend)
        for run, model in zip(runs, models, strict=True)
    ]

    assert answers[0] == answers[1]
    assert models[0].requests == models[1].requests
    assert agent.with_tools([]) == agent.builder
    assert agent.builder.builder == agent.builder


def test_many_runs_of_one_builder_do_not_mix(backend: Backend) -> None:
    """Each opens its own source, and they run at once."""
    journal = Journal()
    run: Any = Agent.make("a").with_tools(_journalled(journal))

    def one(n: int) -> Any:
        model = ScriptedModel.make([call("triple", {"n": n}), text(str(3 * n))])
        return run.execute("?").provide(model.layer)

    answers: list[Any] = fx.run(fx.for_each(range(20), one, concurrency=None), backend=backend)

    assert [answer.text for answer in answers] == [str(3 * n) for n in range(20)]
    assert sorted(journal.lines) == ["close"] * 20 + ["open"] * 20


def test_parts_of_a_stream_are_those_of_the_answer(backend: Backend) -> None:
    """With tools that come along, too."""
    model = ScriptedModel.make([call("triple", {"n": 1}, id="t"), text("3")])
    parts = fx.run(Agent.make("a").with_tools(triple).stream("?").provide(model.layer).collect(), backend=backend)

    assert Response.from_stream(parts).text == "3"
    assert [part.result for part in parts if part.type == "tool-result"] == [3]


def test_a_tool_given_twice_needs_one_handler() -> None:
    """As itself and within a toolkit."""
    run = Agent.make("a").with_tools(add, Toolkit.make(add, double))
    model = ScriptedModel.make([call("add", ONE), text("3")])
    answer = fx.run(run.execute("?").provide(HANDLERS).provide(model.layer))

    assert answer.steps[0].results[0].result == 3
    assert [one.name for one in model.requests[0].tools] == ["add", "double"]
