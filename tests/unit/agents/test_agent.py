"""Agents: a model asked until it is done."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from typing import Any

import pytest

from fxai.agents import Agent, Budget, BudgetExceeded
from fxai.effects import Backend, fx
from fxai.messages import (
    AiError,
    NetworkError,
    Prompt,
    Response,
    ToolCall,
    ToolParamsDelta,
    ToolParamsStart,
    ToolResult,
    Usage,
)
from fxai.models import LanguageModel, ToolChoice
from fxai.testing import ScriptedModel, call, fails, finish, text
from fxai.tools import HandlerFailed, Tool, Toolkit, UnknownTool
from tests.kit.every import every
from tests.kit.rounds import Desk
from tests.kit.samples import TooBig, add

ONE = {"a": 1, "b": 2}


def _agent(desk: Desk, **options: Any) -> Any:
    options.setdefault("toolkit", desk.kit)
    return Agent.make("helper", **options)


def _run(turns: list[Any], backend: Backend = "asyncio", prompt: Any = "go", **options: Any) -> tuple[Any, Any]:
    """The exit of a run, and the model that was asked."""
    desk, model = Desk(), ScriptedModel.make(turns)
    ended: Any = fx.run_exit(desk.served(_agent(desk, **options).execute(prompt), model), backend=backend)
    return ended, model


def _streamed(turns: list[Any], backend: Backend = "asyncio", **options: Any) -> tuple[list[Any], Any]:
    desk, parts = Desk(), list[Any]()
    stream: Any = desk.served(_agent(desk, **options).stream("go"), ScriptedModel.make(turns))
    ended: Any = fx.run_exit(stream.for_each(_into(parts)), backend=backend)
    return parts, ended


def _into(parts: list[Any]) -> Any:
    def add(part: Any) -> Any:
        return fx.sync(lambda: parts.append(part))

    return add


def _rounds(parts: list[Any]) -> list[Response]:
    """The response of each round: they end with their finish."""
    rounds: list[list[Any]] = [[]]
    for part in parts:
        rounds[-1].append(part)
        if part.type == "finish":
            rounds.append([])
    return [Response.from_stream(round_) for round_ in rounds if round_]


# -- to the end


def test_it_asks_until_a_turn_calls_nothing(backend: Backend) -> None:
    """Each round sees what the rounds before it said and gave."""
    ended, model = _run([call("add", ONE, id="a"), [call("add", {"a": 3, "b": 3}, id="b")], text("6")], backend)
    answer = ended.value

    assert (answer.text, answer.finish_reason, len(answer.steps)) == ("6", "stop", 3)
    assert [step.number for step in answer.steps] == [1, 2, 3]
    assert [[m.role for m in r.prompt] for r in model.requests] == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool", "assistant", "tool"],
    ]
    assert answer.history == model.requests[2].prompt + Prompt.from_parts(answer.response.content)
    assert answer.pending == ()


def test_instructions_are_the_system_prompt() -> None:
    """They come first, once, in every round; handlers do not see them."""
    ended, model = _run([call("add", ONE), text("ok")], instructions="Add.")

    assert [request.prompt.system() for request in model.requests] == ["Add.", "Add."]
    assert ended.value.history.system() == "Add."


def test_a_run_goes_on_from_a_history() -> None:
    """A prompt may be a whole conversation."""
    first, _ = _run([text("Hello Ann.")], prompt="I am Ann.")
    second, model = _run([text("Ann.")], prompt=first.value.history + Prompt.make("Who am I?"))

    assert [m.role for m in model.requests[0].prompt] == ["user", "assistant", "user"]
    assert second.value.text == "Ann."


def test_usage_is_that_of_all_rounds() -> None:
    """Tokens add up."""
    ended, _ = _run(
        [
            [call("add", ONE), finish("tool-calls", Usage(input_tokens=10, output_tokens=1))],
            ["ok", finish("stop", Usage(input_tokens=20, output_tokens=2))],
        ]
    )

    assert (ended.value.usage.input_tokens, ended.value.usage.output_tokens) == (30, 3)


# -- the budget


def test_the_budget_is_ten_rounds(backend: Backend) -> None:
    """Then it fails with the conversation so far; the message says what to do."""
    ended, model = _run([call("add", ONE)] * 20, backend)
    failure: Any = ended.cause.failures[0]

    assert isinstance(failure, BudgetExceeded)
    assert (failure.what, failure.limit, len(model.requests)) == ("rounds", 10, 10)
    assert len(failure.history) == 21
    assert "10 rounds" in str(failure)
    assert "Budget(rounds=" in str(failure)


def test_the_last_round_may_be_the_answer() -> None:
    """A budget is spent only when more is needed."""
    ended, _ = _run([call("add", ONE), text("ok")], budget=Budget(rounds=2))

    assert ended.value.text == "ok"


def test_a_budget_allows_one_round_at_least() -> None:
    """One that would never ask is refused."""
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        Budget(rounds=0)


# -- choices


@every(
    ("choice", "following"),
    [
        ("required", "auto"),
        ("none", "none"),
        ("auto", "auto"),
        (ToolChoice.tool("add"), "auto"),
        (ToolChoice.one_of(["add"], mode="required"), ToolChoice.one_of(["add"])),
        (ToolChoice.one_of(["add"]), ToolChoice.one_of(["add"])),
    ],
)
def test_a_demand_holds_for_the_first_round(choice: Any, following: Any, backend: Backend) -> None:
    """`required` and `tool` do; a narrowed choice stays narrowed."""
    turns: list[Any] = [[call("add", ONE), finish("tool-calls")], text("ok")]
    desk, model = Desk(), ScriptedModel.make(turns)
    fx.run(desk.served(_agent(desk, tool_choice=choice).execute("go"), model), backend=backend)
    again = ScriptedModel.make(turns)
    fx.run(desk.served(_agent(desk, tool_choice=choice).stream("go").drain(), again), backend=backend)

    for asked in (model, again):
        assert [request.tool_choice for request in asked.requests] == [choice, following]


# -- what ends a run early, and what does not


def test_calls_of_others_end_a_run_pending(backend: Backend) -> None:
    """It is no failure; the answer says which calls wait, and its own calls are answered."""
    desk = Desk()
    kit: Any = Toolkit.make(Tool.make("client").external()).merge(desk.kit)
    ended, model = _run([[call("client", {}, id="x"), call("add", ONE, id="a")], text("never")], backend, toolkit=kit)
    answer = ended.value

    assert (answer.finish_reason, [c.id for c in answer.pending]) == ("pending", ["x"])
    assert [r.id for r in answer.response.tool_results] == ["a"]
    assert len(model.requests) == 1


def test_a_history_of_its_own_is_not_instructed_twice(backend: Backend) -> None:
    """A run that goes on from it is shown the instructions once."""
    agent = Agent.make("a", instructions="Be brief.")
    model = ScriptedModel.make([text("one"), text("two")])
    first = fx.run(agent.execute("go").provide(model.layer), backend=backend)
    fx.run(agent.execute(first.history + Prompt.make("on")).provide(model.layer), backend=backend)

    assert [m.role for m in model.requests[1].prompt] == ["system", "user", "assistant", "user"]


def test_calls_that_are_not_resolved_end_a_run(backend: Backend) -> None:
    """With `resolve_tools=False` they wait for the caller, who goes on from the history."""
    ended, model = _run([call("add", ONE, id="a"), text("never")], backend, resolve_tools=False)

    assert [c.id for c in ended.value.pending] == ["a"]
    assert len(model.requests) == 1


def test_a_paused_turn_is_asked_to_go_on(backend: Backend) -> None:
    """The provider stopped a long turn: the next round continues it."""
    ended, model = _run([["Hm, ", finish("pause")], text("done.")], backend)

    assert [step.response.finish_reason for step in ended.value.steps] == ["pause", "stop"]
    assert [m.role for m in model.requests[1].prompt] == ["user", "assistant"]


def test_a_turn_that_was_cut_ends_the_run(backend: Backend) -> None:
    """Its calls are answered as interrupted; to ask again would come to the same."""
    ended, model = _run([[call("add", ONE), finish("length")], text("never")], backend)

    assert (ended.value.finish_reason, ended.value.ended) == ("length", "done")
    assert "execution-interrupted" in ended.value.history.to_json()
    assert len(model.requests) == 1


def test_provider_executed_calls_need_no_other_round() -> None:
    """They have their results."""
    said = [
        ToolCall("p", "add", ONE, provider_executed=True),
        ToolResult("p", "add", 3, provider_executed=True),
        "It is 3.",
    ]
    ended, model = _run([said])

    assert ended.value.text == "It is 3."
    assert len(model.requests) == 1


# -- failures


def test_a_failing_handler_fails_with_the_whole_history(backend: Backend) -> None:
    """What was said in all rounds, the results of the last one too."""
    ended, _ = _run([call("add", ONE), ["So:", call("double", ONE, id="d"), call("add", ONE, id="a")]], backend)
    failure: Any = ended.cause.failures[0]

    assert type(failure) is HandlerFailed
    assert failure.error == TooBig(1)
    assert failure.history is not None
    assert [m.role for m in failure.history] == ["user", "assistant", "tool", "assistant", "tool"]
    assert "So:" in failure.history.to_json()


def test_a_stream_fails_with_the_same_history(backend: Backend) -> None:
    """Streamed or not, the failure holds the same conversation."""
    turns = [call("add", ONE, id="x"), ["So:", call("double", ONE, id="d"), call("add", ONE, id="a")]]
    whole, _ = _run(list(turns), backend)
    parts, ended = _streamed(list(turns), backend)

    assert ended.cause.failures[0].history == whole.cause.failures[0].history
    assert len(_rounds(parts)) == 2


def test_the_models_mistakes_do_not_end_a_run(backend: Backend) -> None:
    """It reads what was wrong and goes on."""
    ended, model = _run([call("nope", {}), call("add", {"a": "x"}), text("sorry")], backend)

    assert ended.value.text == "sorry"
    assert isinstance(ended.value.steps[0].response.tool_results[0].result, UnknownTool)
    assert len(model.requests) == 3


def test_the_models_failure_is_the_runs(backend: Backend) -> None:
    """In any round, streamed or not."""
    turns = [call("add", ONE), ["Half ", fails(NetworkError("TransportError"))]]
    ended, _ = _run(list(turns), backend)
    parts, streamed = _streamed(list(turns), backend)

    assert isinstance(ended.cause.failures[0], AiError)
    assert streamed.cause.failures == ended.cause.failures
    assert _rounds(parts)[1].text == "Half "


def test_a_defect_breaks_the_run() -> None:
    """It is not told to the model."""
    ended, model = _run([call("broken", {}), text("never")])

    assert [str(defect) for defect in ended.cause.defects] == ["boom"]
    assert len(model.requests) == 1


# -- streams


STREAMS: dict[str, list[Any]] = {
    "text": [["Good ", "day."]],
    "calls": [["So: ", call("add", ONE, id="a"), call("raw", {}, id="r")], call("nope", {}, id="u"), text("ok")],
    "pause": [["Hm ", finish("pause")], text("ok")],
    "cut": [
        ["x", ToolParamsStart("c", "add"), ToolParamsDelta("c", '{"a"'), finish("length")],
        [call("add", ONE, id="b"), finish("length")],
        text("ok"),
    ],
}


@pytest.mark.parametrize("turns", list(STREAMS))
def test_a_stream_says_what_execute_gives(turns: str, backend: Backend) -> None:
    """Round by round, the parts fold to the response of the step."""
    ended, _ = _run(list(STREAMS[turns]), backend)
    parts, _ = _streamed(list(STREAMS[turns]), backend)

    for folded, step in zip(_rounds(parts), ended.value.steps, strict=True):
        assert (folded.text, folded.tool_calls) == (step.response.text, step.response.tool_calls)
        assert folded.tool_results == step.response.tool_results
        assert folded.finish_reason == step.response.finish_reason


def test_a_stream_has_a_budget_too(backend: Backend) -> None:
    """After the parts of the last round it fails."""
    parts, ended = _streamed([call("add", ONE)] * 5, backend, budget=Budget(rounds=3))

    assert isinstance(ended.cause.failures[0], BudgetExceeded)
    assert len(_rounds(parts)) == 3
    assert len(ended.cause.failures[0].history) == 7


# -- values and many runs


def test_an_agent_is_a_value() -> None:
    """It compares and hashes, refuses changes, can be pickled, and two of the same are one."""
    kit = Toolkit.make(add)
    agent: Any = Agent.make("a", instructions="x", toolkit=kit, temperature=0.1, output=int)

    assert agent == Agent.make("a", instructions="x", toolkit=kit, temperature=0.1, output=int)
    assert hash(agent) == hash(Agent.make("a", instructions="x", toolkit=kit, temperature=0.1, output=int))
    assert pickle.loads(pickle.dumps(agent)) == agent
    assert agent != Agent.make("a", instructions="x", toolkit=kit, temperature=0.2, output=int)
    assert repr(agent) == "Agent('a', tools=[add])"
    with pytest.raises(AttributeError):
        agent.name = "b"


def test_options_are_frozen() -> None:
    """What was given can be changed later, and nothing that the agent shows can."""
    given: dict[str, Any] = {"acme": {"tags": ["a"]}}
    agent = Agent.make("a", provider_options=given)
    given["acme"]["tags"].append("b")
    shown: Any = agent.options

    assert dict(agent.options) == {"provider_options": {"acme": {"tags": ["a"]}}}
    with pytest.raises(TypeError):
        shown["temperature"] = 1
    with pytest.raises(TypeError):
        shown["provider_options"]["acme"]["more"] = 1
    with pytest.raises((TypeError, AttributeError)):
        shown["provider_options"]["acme"]["tags"].append("c")


def test_an_option_that_there_is_not_is_refused() -> None:
    """The message says which there are."""
    make: Any = Agent.make

    with pytest.raises(TypeError, match=r"unknown agent option 'temprature'\. Use one of: .*temperature"):
        make("a", temprature=1)
    for wrong in (3, [3]):
        with pytest.raises(TypeError, match="on_step must be a function or a list of functions, got 3"):
            make("a", on_step=wrong)


@every(
    ("option", "said"),
    [
        ({"model": "openai:gpt-5"}, r"from_name\('openai:gpt-5'\) of fxai.providers"),
        ({"model": ScriptedModel.make([])}, r"Pass its `\.layer`"),
        ({"model": 3}, r"Pass a layer of fxai\.providers"),
        ({"budget": 3}, r"Pass Budget\(rounds=…"),
        ({"toolkit": "search"}, "Pass the tool itself, not its name"),
        ({"name": 3}, "agent name must be a string, got 3"),
        ({"instructions": ["Be brief."]}, "instructions must be one string"),
        ({"output_retries": "2"}, "output_retries must be a number, got '2'"),
    ],
)
def test_a_value_of_another_kind_is_refused(option: dict[str, Any], said: str) -> None:
    """The message says what to give."""
    make: Any = Agent.make

    with pytest.raises(TypeError, match=said):
        make(**{"name": "a", **option})


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"at_limit": "stop"}, "at_limit must be one of 'fail', 'answer', 'last_text', got 'stop'"),
        ({"name": ""}, "agent name must be a string that is not empty"),
        ({"output_retries": -1}, "output_retries must be at least 0, got -1"),
    ],
)
def test_a_value_that_means_nothing_is_refused(option: dict[str, Any], said: str) -> None:
    """When the agent is made, not when it runs."""
    make: Any = Agent.make

    with pytest.raises(ValueError, match=said):
        make(**{"name": "a", **option})


def test_a_tool_choice_that_there_is_not_is_refused(backend: Backend) -> None:
    """It is no "auto": the model is not asked."""
    ended, model = _run([], backend, tool_choice="any")

    assert "must be 'auto', 'none', 'required', or a ToolChoice, got 'any'" in str(ended.cause.failures[0])
    assert model.requests == []


def test_an_output_type_makes_the_answer_typed(backend: Backend) -> None:
    """The model is shown its schema; `str` is text."""
    agent = Agent.make("a", output=list[int])
    model = ScriptedModel.make([text("[1, 2]")])
    answer = fx.run(agent.execute("?").provide(model.layer), backend=backend)

    assert answer.output == [1, 2]
    assert model.requests[0].response_schema is not None
    assert Agent.make("a", output=str) == Agent.make("a")


def test_an_agent_has_a_model_of_its_own(backend: Backend) -> None:
    """Without one around it is asked, streamed or not, and released with the run."""
    model = ScriptedModel.make([text("one"), text("two")])
    agent = Agent.make("a", model=model.layer)
    answer = fx.run(agent.execute("?"), backend=backend)
    parts = fx.run(agent.stream("?").collect(), backend=backend)

    assert answer.text == "one"
    assert Response.from_stream(parts).text == "two"


def test_an_agents_own_model_is_asked_and_the_one_around_is_the_handlers(backend: Backend) -> None:
    """What a handler asks of a `LanguageModel` is asked of the one that the program was given."""
    own = ScriptedModel.make([call("ask", {}), text("done")] * 2)
    around = ScriptedModel.make([text("from around")] * 2)
    ask = Tool.make("ask", success=str)
    heard = ask.handler(lambda _: LanguageModel.generate_text("?").map(lambda said: said.text).or_die())
    agent = Agent.make("a", toolkit=Toolkit.make(ask), model=own.layer)
    program = agent.execute("go").provide(heard).provide(around.layer)
    streamed = agent.stream("go").provide(heard).provide(around.layer)
    answer = fx.run(program, backend=backend)
    fx.run(streamed.drain(), backend=backend)

    assert answer.steps[0].results[0].result == "from around"
    assert (len(own.requests), len(around.requests)) == (4, 2)


def test_runs_of_one_agent_do_not_mix(backend: Backend) -> None:
    """Fifty at once, each with a conversation of its own."""
    desk = Desk()
    agent = _agent(desk)

    def run(n: int) -> Any:
        model = ScriptedModel.make([call("add", {"a": n, "b": n}), text(f"{2 * n}")])
        return desk.served(agent.execute(f"{n} + {n}?"), model)

    answers: list[Any] = fx.run(fx.for_each(range(50), run, concurrency=None), backend=backend)

    assert [answer.text for answer in answers] == [str(2 * n) for n in range(50)]
    assert [answer.steps[0].response.tool_results[0].result for answer in answers] == [2 * n for n in range(50)]
    assert {len(answer.history) for answer in answers} == {4}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "rounds"), [("execute", 1000), ("stream", 400)])
def test_the_memory_of_a_long_run_grows_with_its_length(way: str, rounds: int) -> None:
    """A thousand rounds take about ten times what a hundred take, not a hundred times."""

    def peak(rounds: int) -> int:
        desk = Desk()
        model = ScriptedModel.make([*([call("add", ONE)] * rounds), text("end")])
        agent = _agent(desk, budget=Budget(rounds=rounds + 1))
        program = agent.execute("go") if way == "execute" else agent.stream("go").drain()
        gc.collect()
        tracemalloc.start()
        fx.run(desk.served(program, model))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(5)
    short, long = peak(rounds // 10), peak(rounds)

    assert long < 20 * short
