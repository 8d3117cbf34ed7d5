"""One round: the model's turn, then exactly one result for each of its calls."""

from __future__ import annotations

import copy
from typing import Any, Never

import httpx2
import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.agents import Agent, RunFailed
from fxai.effects import Backend, Layer, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    FilePart,
    FinishReason,
    InvalidUserInputError,
    Prompt,
    RateLimitError,
    Response,
    SystemMessage,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    ToolResultPart,
    UserMessage,
)
from fxai.models import Chat, LanguageModel, ToolChoice, fallback, per_step
from fxai.providers import anthropic, host, openai
from fxai.testing import ScriptedModel, call, delay, fails, finish, text
from fxai.tools import (
    CallContext,
    Denied,
    HandlerFailed,
    Interrupted,
    InvalidParameters,
    InvalidResult,
    Tool,
    Toolkit,
    UnknownTool,
)
from tests.kit.every import every
from tests.kit.journal import Journal
from tests.kit.rounds import Desk, asked, exit_of
from tests.kit.samples import Sum, TooBig, add, double, giving

ONE = {"a": 1, "b": 2}
RESULT = ToolResultPart("c", "add", 3)


def _results(response: Response) -> list[tuple[str, Any, bool]]:
    return [(r.id, r.encoded_result, r.is_failure) for r in response.tool_results]


# -- what a round gives


def test_a_turn_without_calls_is_the_response(backend: Backend) -> None:
    """Text as the model said it, in one piece."""
    response = asked(Desk(), ["Good ", "day."], backend)

    assert response == Response((Text("Good day."), *response.content[1:]))
    assert (response.text, response.finish_reason, response.tool_calls) == ("Good day.", "stop", ())


def test_a_result_has_both_forms_and_stands_before_finish(backend: Backend) -> None:
    """Parts in order: what the model said, the results, how it finished."""
    response = asked(Desk(), ["So:", call("add", ONE, id="c")], backend)

    assert [part.type for part in response.content] == ["text", "tool-call", "tool-result", "finish"]
    assert response.tool_results == (ToolResult("c", "add", 3, 3),)


def test_results_are_in_the_order_of_the_calls(backend: Backend) -> None:
    """Whichever handler finishes first."""
    desk = Desk()
    said = [call("slow", {"a": 1, "b": 3}, id="a"), call("slow", {"a": 2, "b": 1}, id="b"), call("add", ONE, id="c")]
    model = ScriptedModel.make([said])
    program = desk.served(LanguageModel.generate_text("go", toolkit=desk.kit), model)
    moved = fx.all_(program, desk.clock.advance(5)).provide(desk.clock.layer)

    response = fx.run(moved, backend=backend)[0]

    assert [r.id for r in response.tool_results] == ["a", "b", "c"]
    assert [line for line in desk.journal.lines if line.startswith("end")] == ["end 2", "end 1"]


@pytest.mark.parametrize(
    ("concurrency", "trace"),
    [
        (1, ["start 1", "end 1", "left 1", "start 2", "end 2", "left 2", "start 3", "end 3", "left 3"]),
        (2, ["start 1", "start 2", "end 2", "left 2", "start 3", "end 1", "left 1", "end 3", "left 3"]),
        (None, ["start 1", "start 2", "start 3", "end 2", "left 2", "end 3", "left 3", "end 1", "left 1"]),
    ],
)
def test_concurrency_bounds_how_many_handlers_run(concurrency: int | None, trace: list[str], backend: Backend) -> None:
    """One after another, two at once, or all; the order of the results stays."""
    desk = Desk()
    said = [call("slow", {"a": n, "b": seconds}, id=str(n)) for n, seconds in ((1, 30), (2, 10), (3, 21))]
    model = ScriptedModel.make([said])
    program = desk.served(LanguageModel.generate_text("go", toolkit=desk.kit, concurrency=concurrency), model)
    moved = fx.all_(program, desk.clock.advance(100)).provide(desk.clock.layer)

    response = fx.run(moved, backend=backend)[0]

    assert [r.result for r in response.tool_results] == [1, 2, 3]
    assert desk.journal.lines == trace


def test_an_empty_turn_is_an_empty_response() -> None:
    """No text, no reasoning, no reason given, nothing counted."""

    class Silent(LanguageModel):
        """Says nothing at all."""

        def ask(self, request: Any) -> Any:
            """Nothing."""
            return fx.succeed(())

    response = fx.run(LanguageModel.generate_text("go").provide(Layer.succeed(LanguageModel, Silent())))
    parts = fx.run(LanguageModel.stream_text("go").collect().provide(Layer.succeed(LanguageModel, Silent())))

    assert (response.text, response.reasoning_text, response.finish_reason) == ("", None, "unknown")
    assert parts == []


# -- calls that are not run


@every("reason", ["length", "content-filter", "error", "other", "unknown"])
def test_a_turn_that_was_cut_runs_nothing(reason: FinishReason, backend: Backend) -> None:
    """Each call is answered by `Interrupted`, so the history stays valid."""
    desk = Desk()
    response = asked(desk, [call("add", ONE, id="a"), call("add", ONE, id="b"), finish(reason)], backend)

    assert desk.journal.lines == []
    assert [r.id for r in response.tool_results] == ["a", "b"]
    for result in response.tool_results:
        assert isinstance(result.result, Interrupted)
        assert result.is_failure
        assert result.encoded_result["type"] == "execution-interrupted"
        assert reason in result.encoded_result["reason"]


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "pause"])
def test_a_finished_turn_runs_its_calls(reason: FinishReason, backend: Backend) -> None:
    """Whatever a provider calls the end of a turn with calls."""
    assert _results(asked(Desk(), [call("add", ONE, id="a"), finish(reason)], backend)) == [("a", 3, False)]


@every(
    ("choice", "runs"),
    [
        ("auto", ["add", "raw"]),
        ("required", ["add", "raw"]),
        ("none", []),
        (ToolChoice.tool("add"), ["add"]),
        (ToolChoice.one_of(["raw"]), ["raw"]),
        (ToolChoice.one_of(["raw", "add"], mode="required"), ["add", "raw"]),
    ],
)
def test_a_call_outside_the_choice_is_refused(choice: Any, runs: list[str], backend: Backend) -> None:
    """It becomes a failed result that says what is allowed, and is not run."""
    response = asked(Desk(), [call("add", ONE), call("raw", {})], backend, tool_choice=choice)
    ran = [r.name for r in response.tool_results if not r.is_failure]
    refused = [r for r in response.tool_results if r.is_failure]

    assert ran == runs
    assert len(ran) + len(refused) == 2
    assert all(isinstance(r.result, Denied) and r.encoded_result["type"] == "execution-denied" for r in refused)
    assert all("tool choice" in str(r.result) for r in refused)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tool_choice": ToolChoice.tool("nope")}, "nope"),
        ({"tool_choice": ToolChoice.one_of(["add", "nope"])}, "nope"),
    ],
)
def test_a_choice_that_cannot_be_met_is_an_error_before_the_request(options: dict[str, Any], said: str) -> None:
    """The model is not asked; the message names the tools that are not there."""
    model = ScriptedModel.make([])
    given: dict[str, Any] = {"toolkit": Toolkit.make(add.external()), **options}
    failed: Any = fx.run_result(LanguageModel.generate_text("go", **given).provide(model.layer))

    assert isinstance(failed.failure(), AiError)
    assert failed.failure().reason.parameter == "tool_choice"
    assert said in str(failed.failure())
    assert model.requests == []


@every("way", ["text", "object", "stream", "chat"])
@every(
    ("choice", "left"),
    [
        ("required", "auto"),
        (ToolChoice.tool("add"), "auto"),
        (ToolChoice.one_of(["add"]), "none"),
        (ToolChoice.one_of(["add"], mode="required"), "none"),
    ],
)
def test_where_there_is_no_tool_nothing_is_required(choice: Any, left: Any, way: str, backend: Backend) -> None:
    """The model is asked all the same, for nothing in particular; a warning says so, first of all parts."""
    model = ScriptedModel.make(['{"n": 1}'])
    asked: dict[str, Any] = {
        "text": LanguageModel.generate_text("go", tool_choice=choice),
        "object": LanguageModel.generate_object("go", dict[str, int], tool_choice=choice).map(lambda one: one.response),
        "stream": LanguageModel.stream_text("go", tool_choice=choice).collect().map(Response.from_stream),
        "chat": fx.service(Chat).flat_map(lambda chat: chat.generate_text("go", tool_choice=choice)),
    }
    response = fx.run(asked[way].provide(Chat.layer()).provide(model.layer), backend=backend)
    (warning,) = response.warnings

    assert [part.type for part in response.content] == ["warning", "text", "finish"]
    assert (warning.kind, warning.subject) == ("unsupported-option", "tool_choice")
    assert "fxai requires no call" in warning.message
    assert [(request.tool_choice, request.tools) for request in model.requests] == [(left, ())]


# -- nothing said


@every("way", ["text", "object", "stream", "chat", "chat, streamed", "agent", "agent, streamed"])
@every(
    ("said", "words"),
    [
        ([], "it contains no message"),
        (Prompt.make([]).set_system("Be brief."), "only system messages"),
        (Prompt((UserMessage(()),)), "blank"),
        ("", "blank"),
        (" \n\t", "blank"),
        (Prompt.make("").set_system("Be brief."), "blank"),
        ([UserMessage.make("Hello"), AssistantMessage.make("Hi."), UserMessage.make(" ")], "blank"),
        ([UserMessage.make("Hello"), UserMessage.make("", "  "), SystemMessage("Be brief.")], "blank"),
        ([AssistantMessage(())], "only system messages and blank messages"),
    ],
)
def test_nothing_said_is_one_failure_before_anybody_is_asked(said: Any, words: str, way: str, backend: Backend) -> None:
    """The same whatever is asked for, and of whom; a blank text is told from no message at all."""
    model = ScriptedModel.make([])
    agent = Agent.make("quiet")
    asked: dict[str, Any] = {
        "text": LanguageModel.generate_text(said),
        "object": LanguageModel.generate_object(said, int),
        "stream": LanguageModel.stream_text(said).drain(),
        "chat": fx.service(Chat).flat_map(lambda chat: chat.generate_text(said)),
        "chat, streamed": fx.service(Chat).flat_map(lambda chat: chat.stream_text(said).drain()),
        "agent": agent.execute(said),
        "agent, streamed": agent.stream(said).drain(),
    }
    failed: Any = fx.run_result(asked[way].provide(Chat.layer()).provide(model.layer), backend=backend).failure()
    failed = failed.error if isinstance(failed, RunFailed) else failed

    assert isinstance(failed, AiError)
    assert isinstance(failed.reason, InvalidUserInputError)
    assert "prompt needs no answer: " in failed.message
    assert words in failed.message
    assert model.requests == []


def test_nothing_is_sent_to_any_provider_where_nothing_is_said() -> None:
    """OpenAI by both of its APIs, Anthropic, a program, and models behind others fail as the scripted one does."""
    sent: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(500)

    http: Any = {"api_key": "k", "transport": httpx2.MockTransport(answer), "retry": None}
    scripted = ScriptedModel.make([])
    layers: list[Any] = [
        openai.layer("gpt-5.5", **http),
        openai.layer("gpt-5.5", api="chat", **http),
        anthropic.layer("claude-sonnet-5", **http),
        host.model("cat"),
        fallback(scripted.layer, scripted.layer),
        per_step({"one": scripted.layer}, lambda _: "one"),
    ]
    failures: list[Any] = [fx.run_result(LanguageModel.generate_text("").provide(one)).failure() for one in layers]

    assert {str(failure) for failure in failures} == {str(failures[0])}
    assert isinstance(failures[0].reason, InvalidUserInputError)
    assert (sent, scripted.requests) == ([], [])


@every(
    "said",
    [
        [UserMessage.make("Hello"), AssistantMessage.make("Once upon")],
        [AssistantMessage.make("Once upon")],
        [UserMessage.make(""), UserMessage.make("Hello"), SystemMessage("Be brief.")],
        [UserMessage.make(FilePart("image/png", b"1"), "")],
        [UserMessage.make("Hello"), AssistantMessage.make(ToolCallPart("c", "add", ONE)), ToolMessage((RESULT,))],
        [UserMessage.make("Hello"), AssistantMessage(())],
        [AssistantMessage((TextPart("", metadata={"acme": {"block": {}}}),))],
    ],
)
def test_what_goes_on_from_a_history_is_asked(said: Any, backend: Backend) -> None:
    """An answer begun, results, files alone, blank messages further up: there is something to answer."""
    model = ScriptedModel.make(["Fine."])

    assert fx.run(LanguageModel.generate_text(said).provide(model.layer), backend=backend).text == "Fine."


def test_a_choice_without_names_is_refused() -> None:
    """To allow no tool there is a word."""
    with pytest.raises(ValueError, match='"none"'):
        ToolChoice.one_of([])


def test_the_model_is_shown_what_it_may_choose_from() -> None:
    """`one_of` narrows the tools of the request; a single tool is named among all; the choice is passed on."""
    cases: list[tuple[Any, list[str]]] = [
        ("auto", ["add", "double"]),
        (ToolChoice.tool("add"), ["add", "double"]),
        (ToolChoice.one_of(["double"]), ["double"]),
    ]
    for choice, shown in cases:
        model = ScriptedModel.make([text("ok")])
        kit: Toolkit[Any] = Toolkit.of([add.external(), double.external()])
        fx.run(LanguageModel.generate_text("go", toolkit=kit, tool_choice=choice).provide(model.layer))

        assert [tool.name for tool in model.requests[0].tools] == shown
        assert model.requests[0].tool_choice == choice


def test_the_common_options_reach_the_model() -> None:
    """Each field of `ModelOptions` is in the request; what belongs to the round is not."""
    model = ScriptedModel.make([text("ok")])
    options: Any = {
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ("x",),
        "reasoning": "low",
        "parallel_tool_calls": False,
        "provider_options": {"acme": {"a": 1}},
    }
    fx.run(LanguageModel.generate_text("go", concurrency=2, **options).provide(model.layer))
    request = model.requests[0]

    assert {name: getattr(request, name) for name in options} == options
    assert request.prompt == Prompt.make("go")
    assert request.response_schema is None


def test_calls_of_external_tools_stay_open(backend: Backend) -> None:
    """They have no result, the turn is pending, and the others are answered."""
    desk = Desk()
    client = Tool.make("client")
    kit: Any = Toolkit.make(client.external()).merge(desk.kit)
    response = asked(desk, [call("client", {}, id="x"), call("add", ONE, id="a")], backend, toolkit=kit)

    assert response.finish_reason == "pending"
    assert _results(response) == [("a", 3, False)]


def test_provider_executed_calls_pass_through(backend: Backend) -> None:
    """They are not run, and keep the result that the provider gave."""
    desk = Desk()
    said = [
        ToolCall("p", "add", ONE, provider_executed=True),
        ToolResult("p", "add", {"total": 3}, provider_executed=True),
        call("add", ONE, id="a"),
    ]
    response = asked(desk, said, backend)

    assert desk.journal.lines == ["add 1"]
    assert [(r.id, r.provider_executed, r.encoded_result) for r in response.tool_results] == [
        ("p", True, {"total": 3}),
        ("a", False, 3),
    ]


def test_a_dynamic_tools_call_and_result_are_flagged(backend: Backend) -> None:
    """And those of a tool that is not there: no type describes them either."""
    response = asked(Desk(), [call("raw", {"x": 1}, id="r"), call("add", ONE, id="a"), call("nope", {})], backend)

    assert [c.dynamic for c in response.tool_calls] == [True, False, True]
    assert [r.dynamic for r in response.tool_results] == [True, False, True]


def test_resolution_can_be_left_out(backend: Backend) -> None:
    """The calls are given back and nothing is run."""
    desk = Desk()
    response = asked(desk, [call("add", ONE, id="a")], backend, resolve_tools=False)

    assert [part.type for part in response.content] == ["tool-call", "finish"]
    assert response.finish_reason == "tool-calls"
    assert desk.journal.lines == []


# -- the model's mistakes


def test_the_models_mistakes_are_results_it_can_read(backend: Backend) -> None:
    """Unknown tool, wrong parameters and text that is no JSON are failed results; the others run."""
    said = [
        call("nope", {}, id="u"),
        call("add", {"a": "x"}, id="p"),
        ToolCall("t", "add", None, params_text='{"a": 1,'),
        call("add", ONE, id="a"),
    ]
    response = asked(Desk(), said, backend)
    kinds: list[Any] = [type(r.result) for r in response.tool_results]

    assert kinds == [UnknownTool, InvalidParameters, InvalidParameters, int]
    assert "not JSON" in response.tool_results[2].encoded_result["message"]
    assert Prompt.from_json(Prompt.from_parts(response.content).to_json()).unwrap().messages


def test_mistakes_fail_the_round_when_asked(backend: Backend) -> None:
    """`on_invalid_call="error"`: a typed failure, after the other calls, whose response holds all results."""
    ended = exit_of(Desk(), [call("nope", {}, id="u"), call("add", ONE, id="a")], backend, on_invalid_call="error")
    failure: Any = ended.cause.failures[0]

    assert isinstance(failure, UnknownTool)
    assert failure.response is not None
    assert [(r.id, r.is_failure) for r in failure.response.tool_results] == [("u", True), ("a", False)]


# -- handlers that fail


def test_a_failing_handler_neither_cancels_nor_loses_its_siblings(backend: Backend) -> None:
    """They finish; then the round fails with the failure, whose response holds every result in call order."""
    desk = Desk()
    said = [
        call("slow", {"a": 1, "b": 5}, id="s"),
        call("double", ONE, id="d"),
        call("add", ONE, id="a"),
    ]
    model = ScriptedModel.make([said])
    program = desk.served(LanguageModel.generate_text("go", toolkit=desk.kit), model)
    moved = fx.all_(program.exit(), desk.clock.advance(9)).provide(desk.clock.layer)

    ended = fx.run(moved, backend=backend)[0]

    failure: Any = ended.cause.failures[0]
    assert type(failure) is HandlerFailed
    assert failure.response is not None
    assert (failure.name, failure.error) == ("double", TooBig(1))
    assert _results(failure.response) == [("s", 1, False), ("d", {"limit": 1}, True), ("a", 3, False)]
    assert failure.response.finish_reason == "tool-calls"
    assert "end 1" in desk.journal.lines


@pytest.mark.parametrize("concurrency", [1, 2, None])
def test_two_failing_handlers_are_both_told(concurrency: int | None, backend: Backend) -> None:
    """The cause holds both, each with all results."""
    ended = exit_of(
        Desk(),
        [call("double", ONE), call("double", {"a": 2, "b": 2}), call("add", ONE)],
        backend,
        concurrency=concurrency,
    )

    assert [f.error for f in ended.cause.failures] == [TooBig(1), TooBig(2)]
    assert [len(f.response.tool_results) for f in ended.cause.failures] == [3, 3]


def test_a_defect_is_neither_shown_nor_swallowed(backend: Backend) -> None:
    """Siblings finish; the round breaks with the defect; beside a typed failure both are kept."""
    desk = Desk()
    alone = exit_of(desk, [call("broken", {}), call("add", ONE)], backend)
    both = exit_of(desk, [call("broken", {}), call("double", ONE)], backend)

    assert (alone.cause.defects, alone.cause.failures) == ((desk.boom,), ())
    assert "add 1" in desk.journal.lines
    assert both.cause.defects == (desk.boom,)
    told = both.cause.failures[0].response.tool_results[0]
    assert isinstance(told.result, Interrupted)
    assert "boom" not in str(told.encoded_result)


def test_a_result_that_does_not_fit_fails_the_round(backend: Backend) -> None:
    """`InvalidResult` holds the other results; the model is not told what was wrong."""
    desk = Desk()
    bad = Tool.make("bad", success=int)
    kit: Any = Toolkit.make(bad).merge(desk.kit)
    model = ScriptedModel.make([[call("bad", {}, id="b"), call("add", ONE, id="a")]])
    program: Any = LanguageModel.generate_text("go", toolkit=kit).provide(bad.handler(giving(Success("x"))))
    ended: Any = fx.run_exit(desk.served(program, model), backend=backend)
    failure: Any = ended.cause.failures[0]

    assert isinstance(failure, InvalidResult)
    assert failure.response is not None
    assert [r.is_failure for r in failure.response.tool_results] == [True, False]


def test_a_bug_in_to_model_output_is_a_defect_of_that_call_alone(backend: Backend) -> None:
    """The others finish first."""
    desk = Desk()

    def bad(_: object) -> None:
        raise desk.boom

    shown = Tool.make("shown", success=int, to_model_output=bad)
    kit: Any = Toolkit.make(shown).merge(desk.kit)
    model = ScriptedModel.make([[call("shown", {}), call("slow", {"a": 1, "b": 0})]])
    program: Any = LanguageModel.generate_text("go", toolkit=kit).provide(shown.handler(giving(Success(1))))
    ended: Any = fx.run_exit(desk.served(program, model), backend=backend)

    (defect,) = ended.cause.defects
    assert "to_model_output of the tool 'shown' raised RuntimeError: boom" in str(defect)
    assert defect.__cause__ is desk.boom
    assert "end 1" in desk.journal.lines


@every("way", ["text", "stream", "chat", "agent", "agent, streamed"])
def test_a_preliminary_value_of_another_type_fails_its_call_alone(way: str, backend: Backend) -> None:
    """The same typed failure in every kind of round, told with the results of the others, which end first."""
    desk = Desk()
    early = Tool.make("early", success=int)

    def handler(_: object, context: CallContext) -> Any:
        return context.preliminary("one").ensuring(desk.journal.note("stopped")).as_(1)

    kit: Any = Toolkit.make(early).merge(desk.kit)
    agent = Agent.make("a", toolkit=kit)
    asked: dict[str, Any] = {
        "text": LanguageModel.generate_text("go", toolkit=kit),
        "stream": LanguageModel.stream_text("go", toolkit=kit).drain(),
        "chat": fx.service(Chat).flat_map(lambda chat: chat.generate_text("go", toolkit=kit)),
        "agent": agent.execute("go"),
        "agent, streamed": agent.stream("go").drain(),
    }
    model = ScriptedModel.make([[call("early", {}, id="e"), call("slow", {"a": 1, "b": 0}, id="s")]])
    program: Any = asked[way].provide(early.handler(handler)).provide(Chat.layer())
    ended: Any = fx.run_exit(desk.served(program, model), backend=backend)
    (failure,) = ended.cause.failures

    assert isinstance(failure, InvalidResult)
    assert (failure.name, failure.preliminary, ended.cause.defects) == ("early", True, ())
    assert failure.response is not None
    assert [(r.id, r.is_failure) for r in failure.response.tool_results] == [("e", True), ("s", False)]
    assert {"stopped", "end 1"} <= set(desk.journal.lines)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_bug_in_to_model_output_of_a_preliminary_value_names_the_tool(streamed: bool, backend: Backend) -> None:
    """A defect of the call, as that of the result; where nobody reads preliminary values, it is that of the result."""

    def bad(value: int) -> str:
        return dict[int, str]()[value]

    early = Tool.make("early", success=int, to_model_output=bad)

    def handler(_: object, context: CallContext) -> Any:
        return context.preliminary(1).as_(2)

    model = ScriptedModel.make([call("early", {})])
    kit: Any = Toolkit.make(early)
    whole: Any = LanguageModel.generate_text("go", toolkit=kit)
    asked: Any = LanguageModel.stream_text("go", toolkit=kit).drain() if streamed else whole
    ended: Any = fx.run_exit(asked.provide(early.handler(handler)).provide(model.layer), backend=backend)
    (defect,) = ended.cause.defects

    assert f"to_model_output of the tool 'early' raised KeyError: {1 if streamed else 2}" in str(defect)


def test_to_model_output_changes_what_the_model_is_shown(backend: Backend) -> None:
    """The result itself stays; failures are shown as they are."""
    shown = add.with_options(to_model_output=lambda n: f"it is {n}")
    desk = Desk()
    kit = desk.kit.omit("add").merge(Toolkit.make(shown))
    response = asked(desk, [call("add", ONE), call("add", {})], backend, toolkit=kit)

    assert (response.tool_results[0].result, response.tool_results[0].encoded_result) == (3, "it is 3")
    assert response.tool_results[1].encoded_result["type"] == "invalid-parameters"


# -- the model's own failures, and the handler's context


def test_the_models_failure_is_the_rounds(backend: Backend) -> None:
    """As `AiError`; nothing runs."""
    ended = exit_of(Desk(), [delay(0), fails(RateLimitError(retry_after=2))], backend)
    failure: Any = ended.cause.failures[0]

    assert isinstance(failure, AiError)
    assert (failure.is_retryable, failure.retry_after) == (True, 2)


def test_the_handler_sees_call_and_conversation(backend: Backend) -> None:
    """Its id, its tool, the messages without the system prompt, and the deadline."""
    seen: list[Any] = []

    def handler(p: Sum, context: CallContext) -> Any:
        seen.append((context.call_id, context.tool.name, [m.role for m in context.messages], context.deadline))
        return Success(0)

    prompt = Prompt.make("go").set_system("Secret.")
    model = ScriptedModel.make([[call("add", ONE, id="c9")]])
    program = LanguageModel.generate_text(prompt, toolkit=Toolkit.make(add), deadline=3.0)
    fx.run(program.provide(add.handler(handler)).provide(model.layer), backend=backend)

    assert seen == [("c9", "add", ["user"], 3.0)]


def test_preliminary_values_of_a_whole_round_are_dropped(backend: Backend) -> None:
    """Only streams show them."""

    def handler(p: Sum, context: CallContext) -> Any:
        return context.preliminary(1).and_then(fx.succeed(2))

    model = ScriptedModel.make([[call("add", ONE, id="c9")]])
    program = LanguageModel.generate_text("go", toolkit=Toolkit.make(add)).provide(add.handler(handler))

    assert _results(fx.run(program.provide(model.layer), backend=backend)) == [("c9", 2, False)]


def test_a_handlers_journal_is_empty_where_the_model_fails() -> None:
    """A journal that nobody wrote into is the sign that no handler ran."""
    journal = Journal()
    model = ScriptedModel.make([[call("add", ONE), fails(RateLimitError())]])
    program = LanguageModel.generate_text("go", toolkit=Toolkit.make(add))
    handlers = add.handler(lambda p: journal.note("ran").as_(1))

    assert isinstance(fx.run_result(program.provide(handlers).provide(model.layer)), Failure)
    assert journal.lines == []


def test_a_tool_that_needs_approval_is_not_run_unasked(backend: Backend) -> None:
    """The handler does not run; a request stands where the result would, and the turn waits."""
    ran: list[object] = []
    guarded = Tool.make("wipe", success=str, needs_approval=True)
    kit = Toolkit.make(guarded)

    def on_wipe(params: object) -> Result[str, Never]:
        ran.append(params)
        return Success("gone")

    model = ScriptedModel.make([call("wipe", {}, id="w")])
    asked = LanguageModel.generate_text("wipe it", toolkit=kit).provide(guarded.handler(on_wipe)).provide(model.layer)
    response = fx.run(asked, backend=backend)

    assert (ran, response.tool_results, response.finish_reason) == ([], (), "pending")
    assert [part.type for part in response.content] == ["tool-call", "tool-approval-request", "finish"]
    assert [(one.id, one.name) for one in response.pending] == [("w", "wipe")]


class Loose(msgspec.Struct):
    """Parameters with a part of any type."""

    note: Any


LOOSE: list[Any] = [
    Tool.dynamic("send", parameters={"type": "object"}, success=str),
    Tool.dynamic("send", parameters={"type": "object"}, success=str, validation="none"),
    Tool.make("send", parameters=Loose, success=str),
]


@every("tool", LOOSE, ids=["raw", "unseen", "typed"])
@every("note", [{"to": ["ann"]}, ["ann"]], ids=["object", "array"])
def test_what_a_handler_changes_is_its_own(tool: Any, note: Any, backend: Backend) -> None:
    """The next request says what the model said, whatever a handler or a predicate does to the parameters."""

    def changes(params: Any) -> None:
        inside: Any = params.note if isinstance(params, Loose) else params["note"]
        inside.clear()

    def decides(params: Any, _: CallContext) -> bool:
        changes(params)
        return False

    def on_send(params: Any) -> Result[str, Never]:
        heard.append(copy.deepcopy(msgspec.to_builtins(params)))
        changes(params)
        return Success("sent")

    heard: list[Any] = []
    asking = tool.with_options(needs_approval=decides)
    said = {"note": copy.deepcopy(note)}
    model = ScriptedModel.make([call("send", {"note": note}, id="s"), text("Done.")])
    agent: Any = Agent.make("a", toolkit=Toolkit.of([asking])).execute("go")
    fx.run(agent.provide(asking.handler(on_send)).provide(model.layer), backend=backend)
    history = model.requests[1].prompt.messages[1].content

    assert heard == [said]
    assert [part.params for part in history if isinstance(part, ToolCallPart)] == [said]


def test_data_without_an_end_is_still_a_mistake() -> None:
    """What holds itself, or nests deeper than a stack, is refused as before and not copied without an end."""
    tool: Any = LOOSE[0]
    loop: Any = {}
    loop["self"] = loop
    deep: Any = {}
    for _ in range(100_000):
        deep = {"d": deep}

    for params in (loop, deep):
        called: Any = Toolkit.of([tool]).call("send", params).provide(tool.handler(giving(Success("sent"))))
        assert fx.run(called).is_failure
