"""Loops: the conformance cases of the area `loop`, and of `tool-result-wire` those of Anthropic's wire.

What the other system calls a run of one step is a round here, `LanguageModel.generate_text`; what it runs to the end is
an agent. Its handlers that raise are handlers that fail here: what nobody declared is a defect, which no model is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from returns.result import Failure, Success

from fxai.agents import (
    Agent,
    Answer,
    Budget,
    BudgetExceeded,
    Step,
    Steps,
    StepSetup,
    StopCondition,
    has_tool_call,
    step_count_is,
)
from fxai.effects import Backend, Gen, StreamOf, fx
from fxai.messages import (
    AssistantMessage,
    Message,
    Prompt,
    Response,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    ToolResultPart,
    Usage,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import anthropic, openai
from fxai.schema import parse_json
from fxai.testing import ScriptedModel, TestClock, call, finish
from fxai.tools import CallContext, Interrupted, InvalidParameters, Tool, Toolkit, UnknownTool
from fxai.tools.aspects import timeout
from tests.kit.conformance import Case, case
from tests.kit.samples import giving


class City(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the cases' tools."""

    city: str


class Nothing(msgspec.Struct, frozen=True):
    """No parameters."""


_Handler = Any  # of any tool of the cases


class Bench:
    """The tools of a case with handlers that do what it says, its model, and what came of both."""

    def __init__(self, case: Case, **handlers: _Handler) -> None:
        self.executed: list[str] = []
        self.inputs: list[Any] = []
        self.ended: list[tuple[str, float]] = []
        self.clock = TestClock()
        self.model = ScriptedModel.make([_turn(turn) for turn in case.given["model"]])
        self.tools: dict[str, Tool[Any, Any, Any]] = {}
        self._handlers: list[tuple[str, _Handler]] = []
        for name, given in case.given["tools"].items():
            tool = _tool(name, given)
            handles = given["handler"]
            self.tools[name] = tool.external() if handles is None else tool
            if handles is not None:
                self._handlers.append((name, handlers.get(name) or self._doing(name, handles)))
        self.kit: Toolkit[Any] = Toolkit.of(self.tools.values())

    def _doing(self, name: str, does: Mapping[str, Any]) -> _Handler:
        def handler(params: Any) -> Any:
            self.note(name, params)
            if "raises" in does:
                return Failure(does["raises"])
            value = self.inputs[-1] if "echo" in does else does["returns"]
            waits = fx.sleep(does.get("after_ms", 0) / 1000)
            return waits.and_then(fx.sync(lambda: self.ended.append((name, self.clock.now())))).as_(value)

        return handler

    def note(self, name: str, params: Any) -> None:
        """A handler begins."""
        self.executed.append(name)
        self.inputs.append(msgspec.to_builtins(params))

    @property
    def layer(self) -> Any:
        """The handlers."""
        first, *rest = [self.tools[name].handler(handler) for name, handler in self._handlers]
        layer: Any = first
        for one in rest:
            layer = layer | one
        return layer

    def served(self, program: Any) -> Any:
        """The program with handlers, model, and a clock that has gone on for an hour when it is over."""
        given = program.provide(self.layer) if self._handlers else program
        moved: Any = fx.all_(given.provide(self.model.layer), self.clock.advance(3600)).map(lambda pair: pair[0])
        return moved.provide(self.clock.layer)

    def round(self, backend: Backend, **options: Any) -> Response:
        """The response of one round."""
        options.setdefault("toolkit", self.kit)
        response: Response = fx.run(self.served(LanguageModel.generate_text("go", **options)), backend=backend)
        return response

    def run(self, backend: Backend, **options: Any) -> Answer:
        """The answer of a run to the end."""
        agent: Any = Agent.make("cases", toolkit=self.kit, **options)
        answer: Answer = fx.run(self.served(agent.execute("go")), backend=backend)
        return answer


def _tool(name: str, given: Mapping[str, Any]) -> Tool[Any, Any, Any]:
    """A typed tool; of a raw JSON Schema, unchecked, where the case does not validate."""
    outcome: dict[str, Any] = {"failure": str, "failure_mode": "return"}
    if not given["validated"]:
        return Tool.dynamic(name, parameters=given["input_schema"], validation="none", **outcome)
    parameters = City if given["input_schema"]["properties"] else Nothing
    make: Any = Tool.make
    made: Tool[Any, Any, Any] = make(name, parameters=parameters, success=object, **outcome)
    return made


def _call(given: Mapping[str, Any]) -> ToolCall:
    """A call of the model, read from its text as providers read it."""
    read, own = parse_json(given["arguments"]), given.get("provider_executed", False)
    params, text = (read.unwrap(), None) if isinstance(read, Success) else (None, given["arguments"])
    return ToolCall(given["id"], given["name"], params, own, given.get("dynamic", False), text)


def _turn(given: Mapping[str, Any]) -> list[Any]:
    """What the model says in one turn of a case."""
    said: list[Any] = []
    for part in given["content"]:
        if "tool_call" in part:
            said.append(_call(part["tool_call"]))
        elif "tool_result" in part:
            told = part["tool_result"]
            said.append(ToolResult(told["id"], told["name"], told["result"], provider_executed=True))
        else:
            said.append(part["text"])
    return [*said, finish(given["finish"], Usage(*given.get("usage", ())))]


def _output(result: ToolResultPart) -> dict[str, Any]:
    """A result as the cases write it: text or data, marked where it is a failure."""
    kind = "text" if isinstance(result.result, str) else "json"
    return {"type": f"error-{kind}" if result.is_failure else kind, "value": result.result}


def _written(message: Message) -> dict[str, Any]:
    """A message as the cases write it."""
    content: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case ToolCallPart():
                content.append({"type": "tool-call", "id": part.id, "name": part.name, "input": part.params})
            case ToolResultPart():
                content.append({"type": "tool-result", "id": part.id, "name": part.name, "output": _output(part)})
            case _:
                content.append(msgspec.to_builtins(part))
    return {"role": message.role, "content": content}


def _messages(history: Iterable[Message]) -> list[dict[str, Any]]:
    """What was said since the question."""
    return [_written(message) for message in history if message.role != "user"]


def _left(response: Response) -> list[dict[str, Any]]:
    """The messages that one round leaves."""
    return _messages(Prompt.from_parts(response.content))


def _facts(part: ToolCall) -> dict[str, Any]:
    """A call as the cases write it, without the marks that only the other system sets."""
    return {"type": part.type, "id": part.id, "name": part.name, "input": part.params}


def _unmarked(expected: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a case without its marks: `dynamic`, `invalid`, and the name of its error."""
    return {key: expected[key] for key in ("type", "id", "name", "input")}


def _failed(expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of a case with a declared failure in place of what was raised there: no class stands before it."""
    text = json.dumps(expected).replace("Error: boom", "boom")
    told: list[dict[str, Any]] = json.loads(text)
    return told


# -- results of tools, on Anthropic's wire


def _result(output: Mapping[str, Any]) -> ToolResultPart:
    """A result of ours for an output of theirs."""
    kind = output["type"]
    if kind == "execution-denied":
        return ToolResultPart("c1", "t", output, is_failure=True)
    return ToolResultPart("c1", "t", output["value"], is_failure=kind.startswith("error"))


def _block(output: Mapping[str, Any]) -> Any:
    turn = (AssistantMessage((ToolCallPart("c1", "t", {}),)), ToolMessage((_result(output),)))
    request = ModelRequest(Prompt.make("go").append(*turn))
    (block,) = anthropic.prepare_request(request, model="claude-sonnet-5").body["messages"][-1]["content"]
    return block


@case("VE-062", "VE-068")
def test_a_result_on_anthropics_wire(case: Case) -> None:
    """A text as it is, data as JSON text; a failure is marked."""
    assert _block(case.given["output"]) == case.expect["block"]


@case("VE-070", "VE-072")
def test_a_denial_on_anthropics_wire(case: Case) -> None:
    """Told by its reason, as there; marked as a failure, as our semantics has every call that was not run."""
    assert _block(case.given["output"]) == {**case.expect["block"], "is_error": True}


# -- one round


@case("VE-078")
def test_a_round_does_not_ask_again(case: Case, backend: Backend) -> None:
    """One round is what they do by default: the tool runs, and the model is not told yet."""
    bench = Bench(case)
    response = bench.round(backend)

    assert len(bench.model.requests) == case.expect["model_calls"] == case.expect["steps"]
    assert response.text == case.expect["text"]
    assert bench.executed == case.expect["executed"]
    assert _left(response) == case.expect["messages"]


@case("VE-080")
def test_what_a_handler_gives_is_what_the_history_has(case: Case, backend: Backend) -> None:
    """A text stays text, anything else is data, nothing is null."""
    assert _left(Bench(case).round(backend)) == case.expect["messages"]


@case("VE-083")
def test_results_are_in_the_order_of_the_calls(case: Case, backend: Backend) -> None:
    """Though the second call ends first."""
    bench = Bench(case)
    response = bench.round(backend)

    assert [name for name, _ in bench.ended] == ["fast", "slow"]
    assert _left(response) == case.expect["messages"]


@case("VE-084")
def test_calls_run_at_the_same_time(case: Case, backend: Backend) -> None:
    """By the clock of the test, three calls take as long as one."""
    bench = Bench(case)
    bench.round(backend)
    one = case.given["tools"]["slow"]["handler"]["after_ms"] / 1000

    assert bench.executed == case.expect["executed"]
    assert [time for _, time in bench.ended] == [one] * 3
    assert one * 1000 < case.expect["max_ms"] < 3 * one * 1000


@case("VE-088")
def test_blank_arguments_are_an_empty_object(case: Case, backend: Backend) -> None:
    """As a model's answer over HTTP has them, by each wire that has them as text."""
    given = case.given["model"][0]["content"][0]["tool_call"]
    function = {"name": given["name"], "arguments": given["arguments"]}
    asked = {"id": given["id"], "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [asked]}
    item = {"type": "function_call", "id": "f1", "call_id": given["id"], **function}
    answers: dict[Any, Any] = {
        "chat": {"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]},
        "responses": {"id": "r", "status": "completed", "output": [item]},
    }
    for api, answer in answers.items():
        bench = Bench(case)
        transport = httpx2.MockTransport(lambda _, answer=answer: httpx2.Response(200, json=answer))
        layer = openai.layer("gpt-5.5", api=api, api_key="sk-1", retry=None, transport=transport)
        program: Any = LanguageModel.generate_text("go", toolkit=bench.kit).provide(bench.layer)
        response: Response = fx.run(program.provide(layer), backend=backend)

        assert bench.inputs == case.expect["inputs"]
        assert _facts(response.tool_calls[0]) == case.expect["content_first"]


@case("VE-090")
def test_a_raw_schema_can_be_left_unchecked(case: Case, backend: Backend) -> None:
    """With `validation="none"`, which they do always; by default the same call does not reach the handler."""
    bench, checked = Bench(case), Bench(case)
    bench.round(backend)
    tool = Tool.dynamic("weather", parameters=case.given["tools"]["weather"]["input_schema"])
    checked.tools["weather"] = tool
    response = checked.round(backend, toolkit=Toolkit.make(tool))

    assert (bench.executed, bench.inputs) == (case.expect["executed"], case.expect["inputs"])
    assert checked.executed == []
    assert isinstance(response.tool_results[0].result, InvalidParameters)


@case("VE-095")
def test_calls_run_when_the_model_stopped(case: Case, backend: Backend) -> None:
    """A provider may say `stop` beside calls."""
    bench = Bench(case)
    response = bench.round(backend)

    assert response.finish_reason == "stop"
    assert bench.executed == case.expect["executed"]


@case("VE-105")
def test_a_stream_has_a_last_item(case: Case, backend: Backend) -> None:
    """It is the result. By our semantics each call has one: a stream without any is a bug of its handler.

    Theirs comes to nothing then. To say nothing, a stream of ours gives None, and the history is the same.
    """
    items: Any = case.given["tools"]["weather"]["handler"]["yields"]
    silent = Bench(case, weather=giving(StreamOf.from_iterable(items)))
    says_none = Bench(case, weather=giving(StreamOf.make(None)))
    ended: Any = fx.run_exit(silent.served(LanguageModel.generate_text("go", toolkit=silent.kit)), backend=backend)

    assert _left(says_none.round(backend)) == case.expect["messages"]
    assert ["'weather' returned an empty stream" in str(defect) for defect in ended.cause.defects] == [True]


@case("VE-106")
def test_what_a_generator_returns_is_the_result(case: Case, backend: Backend) -> None:
    """Where theirs is lost: what it gave before is preliminary, and only shown."""
    does = case.given["tools"]["weather"]["handler"]

    def handler(_: City, call: CallContext) -> Gen[object]:
        for value in does["yields"]:
            yield from call.preliminary(value)
        return does["then_returns"]

    shown = Bench(case, weather=handler)
    stream: Any = LanguageModel.stream_text("go", toolkit=shown.kit)
    parts: list[Any] = fx.run(shown.served(stream.collect()), backend=backend)
    results = [(part.result, part.preliminary) for part in parts if part.type == "tool-result"]
    called, answered = Bench(case, weather=handler).round(backend).content[:2]

    assert isinstance(called, ToolCall)
    assert isinstance(answered, ToolResult)
    assert _facts(called) == case.expect["content"][0]
    assert results == [(case.expect["content"][1]["output"], True), (does["then_returns"], False)]
    assert (answered.result, answered.preliminary) == (does["then_returns"], False)


@case("VE-107", "VE-108")
def test_a_mended_call_runs_in_place_of_the_broken_one(case: Case, backend: Backend) -> None:
    """Its arguments or its name. Whole and streamed, the response has it there, under the id of the model's own."""
    bench, streamed = Bench(case), Bench(case)

    def repair(call: ToolCall, _: object) -> Any:
        mended = {**case.given["model"][0]["content"][0]["tool_call"], **case.given["repair"]}
        return fx.succeed(msgspec.structs.replace(_call(mended), id=call.id))

    response = bench.round(backend, repair=repair)
    first = case.expect["content_first"]
    stream: Any = LanguageModel.stream_text("go", toolkit=streamed.kit, repair=repair)
    told = Response.from_stream(fx.run(streamed.served(stream.collect()), backend=backend))

    assert bench.executed == streamed.executed == [first["name"]]
    assert bench.inputs == [first["input"]]
    assert [(r.id, r.result, r.is_failure) for r in response.tool_results] == [(first["id"], first["input"], False)]
    assert _facts(response.tool_calls[0]) == first
    assert told.content == response.content


@case("VE-109")
def test_a_repair_that_gives_nothing_changes_nothing(case: Case, backend: Backend) -> None:
    """The call fails as it would have; the marks that theirs gets are a failed result here."""
    bench, seen = Bench(case), list[str]()

    def repair(call: ToolCall, _: object) -> Any:
        seen.append(call.name)
        return fx.succeed(case.given["repair"])

    response = bench.round(backend, repair=repair)
    first = case.expect["content_first"]

    assert seen == [first["name"]]
    assert bench.executed == case.expect["executed"]
    assert _facts(response.tool_calls[0]) == _unmarked(first)
    assert isinstance(response.tool_results[0].result, UnknownTool)


@case("VE-127")
def test_a_tool_that_the_provider_runs_need_not_be_declared(case: Case, backend: Backend) -> None:
    """Call and result pass through, and nothing of ours runs."""
    bench = Bench(case)
    response = bench.round(backend)
    (called,) = response.tool_calls
    expected = {"dynamic": called.dynamic, "provider_executed": called.provider_executed}

    assert {**_facts(called), **expected} == case.expect["content_first"]
    assert [(r.id, r.result, r.is_failure) for r in response.tool_results] == [("c1", "r", False)]
    assert bench.executed == []
    assert response.text == "done"


# -- what the model is shown


@case("VE-113")
def test_what_is_not_picked_is_an_unknown_tool(case: Case, backend: Backend) -> None:
    """`pick` gives the toolkit of the tools that are active: the model is shown these, and no other is run."""
    bench = Bench(case)
    response = bench.round(backend, toolkit=bench.kit.pick(*case.given["active"]))
    shown = [[tool.name for tool in request.tools] for request in bench.model.requests]

    assert shown == case.expect["tools_sent"]
    assert bench.executed == case.expect["executed"]
    assert _facts(response.tool_calls[0]) == _unmarked(case.expect["content_first"])
    assert response.tool_results[0].result == UnknownTool("rm", ("weather",))


@case("VE-114")
def test_no_tools_are_no_field_of_the_request(case: Case, backend: Backend) -> None:
    """On no wire: not even an empty list."""
    bench = Bench(case)
    bench.round(backend, toolkit=bench.kit.pick(*case.given["active"]))
    (request,) = bench.model.requests
    bodies = [
        openai.prepare_request(request, model="gpt-5.5", api="responses").fields,
        openai.prepare_request(request, model="gpt-5.5", api="chat").fields,
        anthropic.prepare_request(request, model="claude-sonnet-5").body,
    ]

    assert [request.tools or None] == case.expect["tools_sent"]
    assert [body.get("tools") for body in bodies] == case.expect["tools_sent"] * 3
    assert not any("tools" in body or "tool_choice" in body for body in bodies)


@case("VE-116")
def test_tools_are_sent_in_the_order_of_the_toolkit(case: Case, backend: Backend) -> None:
    """As they were declared, on the wire, too."""
    bench = Bench(case)
    bench.round(backend)
    (request,) = bench.model.requests
    wire = anthropic.prepare_request(request, model="claude-sonnet-5").body["tools"]

    assert [[tool.name for tool in request.tools]] == case.expect["tools_sent"]
    assert [[tool["name"] for tool in wire]] == case.expect["tools_sent"]


@case("VE-117")
def test_the_choice_is_left_to_the_model(case: Case, backend: Backend) -> None:
    """In each step, unless something else is said."""
    bench = Bench(case)
    bench.run(backend)

    assert [request.tool_choice for request in bench.model.requests] == case.expect["tool_choice_sent"]


@case("VE-118")
def test_a_demand_holds_for_the_first_round_alone(case: Case, backend: Backend) -> None:
    """Where theirs is repeated until the limit: by our semantics a call that was demanded has then been made."""
    bench = Bench(case)
    limit = Budget(rounds=case.given["stop"]["steps"])
    agent: Any = Agent.make("cases", toolkit=bench.kit, tool_choice=case.given["choice"], budget=limit)
    ended: Any = fx.run_exit(bench.served(agent.execute("go")), backend=backend)

    assert isinstance(ended.cause.failures[0], BudgetExceeded)
    assert len(bench.model.requests) == case.expect["model_calls"]
    assert [r.tool_choice for r in bench.model.requests] == [case.expect["tool_choice_sent"][0], "auto", "auto"]


# -- runs


@case("VE-081")
def test_a_failure_does_not_end_a_run(case: Case, backend: Backend) -> None:
    """In failure mode "return" the model is told. What a handler raises is no failure, but a defect, and ends it."""
    bench = Bench(case)
    answer = bench.run(backend)
    called, failed, said = case.expect["content"]
    result = answer.steps[0].response.tool_results[0]

    assert (len(bench.model.requests), answer.text) == (case.expect["model_calls"], case.expect["text"])
    assert _facts(answer.steps[0].response.tool_calls[0]) == called
    assert (result.id, result.name, result.is_failure) == (failed["id"], failed["name"], True)
    assert failed["error_contains"] in result.encoded_result
    assert answer.steps[1].response.text == said["text"]
    assert _messages(answer.history) == _failed(case.expect["messages"])

    broken = Bench(case, weather=_raising)
    agent: Any = Agent.make("cases", toolkit=broken.kit)
    ended: Any = fx.run_exit(broken.served(agent.execute("go")), backend=backend)

    assert [str(defect) for defect in ended.cause.defects] == ["boom"]
    assert len(broken.model.requests) == 1


def _raising(_: object) -> Any:
    raise RuntimeError("boom")


@case("VE-082")
def test_a_failure_does_not_lose_the_other_results(case: Case, backend: Backend) -> None:
    """Nor does a handler that raises: the other's result was told before the run ends with the defect."""
    bench = Bench(case)
    answer = bench.run(backend)

    assert len(bench.model.requests) == case.expect["model_calls"]
    assert _messages(answer.history) == _failed(case.expect["messages"])

    broken, told = Bench(case, bad=_raising), list[Any]()
    agent: Any = Agent.make("cases", toolkit=broken.kit)

    def keep(part: Any) -> Any:
        return fx.sync(lambda: told.append(part))

    ended: Any = fx.run_exit(broken.served(agent.stream("go").for_each(keep)), backend=backend)

    assert [str(defect) for defect in ended.cause.defects] == ["boom"]
    assert [part.result for part in told if part.type == "tool-result" and not part.is_failure] == [{"c": 21}]


@case("VE-085")
def test_an_unknown_tool_is_told_with_those_there_are(case: Case, backend: Backend) -> None:
    """The run goes on. The marks that theirs gets are a failed result here: `dynamic` is of dynamic tools alone."""
    bench = Bench(case)
    answer = bench.run(backend)
    response = answer.steps[0].response
    called, _, said = case.expect["content"]

    assert (len(bench.model.requests), bench.executed) == (case.expect["model_calls"], case.expect["executed"])
    assert _facts(response.tool_calls[0]) == _unmarked(called)
    assert response.tool_results[0].is_failure
    assert response.tool_results[0].result == UnknownTool("wether", ("weather",))
    told = response.tool_results[0].encoded_result["message"]
    assert told == "unknown tool 'wether' (did you mean 'weather'?). Call one of these tools: weather"
    assert answer.text == said["text"]


@case("VE-086")
def test_parameters_that_do_not_fit_are_told(case: Case, backend: Backend) -> None:
    """The handler does not run, the run goes on. The marks that theirs gets are a failed result here."""
    bench = Bench(case)
    answer = bench.run(backend)
    response = answer.steps[0].response
    called, _, said = case.expect["content"]

    assert (len(bench.model.requests), bench.executed) == (case.expect["model_calls"], case.expect["executed"])
    assert _facts(response.tool_calls[0]) == _unmarked(called)
    assert response.tool_results[0].is_failure
    assert isinstance(response.tool_results[0].result, InvalidParameters)
    assert "invalid arguments for 'weather'" in response.tool_results[0].encoded_result["message"]
    assert answer.text == said["text"]


@case("VE-087")
def test_text_that_is_no_json_stays_in_the_call(case: Case, backend: Backend) -> None:
    """And in the history, where theirs has `{}`: ours loses nothing, and keeps it apart from the parameters.

    What Anthropic is sent is an object in both: here with the text in it, under the key that its documentation names.
    """
    bench = Bench(case)
    answer = bench.run(backend)
    (called,) = answer.steps[0].response.tool_calls
    first = case.expect["content_first"]
    kept = answer.history[1].content[0]
    sent = anthropic.prepare_request(bench.model.requests[1], model="claude-sonnet-5").body["messages"]

    assert bench.executed == case.expect["executed"]
    assert (called.id, called.name, called.params_text) == (first["id"], first["name"], first["input"])
    assert isinstance(answer.steps[0].response.tool_results[0].result, InvalidParameters)
    assert isinstance(kept, ToolCallPart)
    assert (kept.params, kept.params_text) == (None, first["input"])
    assert sent[1]["content"][0]["input"] == {"INVALID_JSON": first["input"]}
    assert answer.text == "done"


@case("VE-093")
def test_a_call_of_somebody_else_ends_a_run(case: Case, backend: Backend) -> None:
    """It waits. By our semantics the run ends with "pending", where theirs has "tool-calls"."""
    bench = Bench(case)
    answer = bench.run(backend)

    assert (len(bench.model.requests), len(answer.steps)) == (case.expect["model_calls"], case.expect["steps"])
    assert answer.finish_reason == "pending"
    assert [one.id for one in answer.pending] == ["c1"]
    assert _messages(answer.history) == case.expect["messages"]


@case("VE-094")
def test_own_calls_run_before_a_run_ends_so(case: Case, backend: Backend) -> None:
    """The history has their results; only the other call waits."""
    bench = Bench(case)
    answer = bench.run(backend)

    assert (len(bench.model.requests), bench.executed) == (case.expect["model_calls"], case.expect["executed"])
    assert _messages(answer.history) == case.expect["messages"]
    assert [one.id for one in answer.pending] == ["c2"]


@case("VE-096", "VE-097", "VE-099")
def test_a_turn_that_was_cut_has_its_calls_answered(case: Case, backend: Backend) -> None:
    """Nothing runs, as there. By our semantics each call is answered as interrupted, so that the history stays valid.

    A run ends there, in both.
    """
    bench = Bench(case)
    response = bench.round(backend)
    made, answered = _left(response)
    result = response.tool_results[0].result

    assert (bench.executed, len(bench.model.requests)) == (case.expect["executed"], case.expect["model_calls"])
    assert response.finish_reason == case.expect["finish"]
    assert [made] == case.expect["messages"]
    assert isinstance(result, Interrupted)
    assert answered["content"][0]["output"]["value"]["type"] == "execution-interrupted"

    again = Bench(case)
    answer = again.run(backend)

    assert [step.finish_reason for step in answer.steps] == [case.expect["finish"]]
    assert (again.executed, len(again.model.requests)) == (case.expect["executed"], case.expect["model_calls"])


def _condition(stop: Mapping[str, Any]) -> StopCondition:
    """A stop condition as a case writes it."""
    if "steps" in stop:
        return step_count_is(stop["steps"])
    return has_tool_call(stop["tool"]) if "tool" in stop else lambda _: not stop["never"]


def _stopping(case: Case) -> tuple[StopCondition, ...]:
    several: Any = case.given["stop"]
    if not hasattr(several, "append"):
        several = [several]
    return tuple([_condition(one) for one in several])


@case("VE-100", "VE-101", "VE-102")
def test_a_stop_condition_ends_a_run(case: Case, backend: Backend) -> None:
    """After a number of steps, after a call of a tool, which is run, or whichever of several is first."""
    bench = Bench(case)
    answer = bench.run(backend, stop_when=_stopping(case))

    assert answer.ended == "stopped"
    assert len(bench.model.requests) == len(answer.steps) == case.expect["model_calls"]
    assert bench.executed == case.expect.get("executed", ["weather"])
    assert answer.finish_reason == case.expect.get("finish", "tool-calls")


@case("VE-103")
def test_a_run_that_is_done_asks_no_condition(case: Case, backend: Backend) -> None:
    """One that is always true is not asked either: the run has not stopped, it is done."""
    asked: list[int] = []

    def always(steps: Steps) -> bool:
        asked.append(len(steps))
        return True

    bench = Bench(case)
    answer = bench.run(backend, stop_when=(*_stopping(case), always))

    assert (answer.ended, asked) == ("done", [])
    assert (len(bench.model.requests), answer.text) == (case.expect["model_calls"], case.expect["text"])


@case("VE-115")
def test_a_step_may_put_its_tools_in_order(case: Case, backend: Backend) -> None:
    """There is no option for it: tools are sent in the order of the toolkit, which a step may have its own of."""
    first: list[str] = case.given["order"]

    def ordered(setup: StepSetup) -> StepSetup:
        tools: list[Tool[Any, Any, Any]] = sorted(setup.toolkit, key=lambda tool: (tool.name not in first, tool.name))
        return setup.with_tools(Toolkit.of(tools))

    bench = Bench(case)
    bench.run(backend, prepare_step=ordered)

    assert [[tool.name for tool in request.tools] for request in bench.model.requests] == case.expect["tools_sent"]


@case("VE-124")
def test_each_step_is_told_once(case: Case, backend: Backend) -> None:
    """With its number, which begins at 1 here and at 0 there."""
    told: list[Step] = []
    answer = Bench(case).run(backend, on_step=told.append)

    assert [step.number - 1 for step in told] == case.expect["step_callbacks"]
    assert tuple(told) == answer.steps


@case("VE-125")
def test_a_listener_that_raises_does_not_break_a_run(
    case: Case, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """What it raised is logged here, where it is lost there."""

    def broken(_: Step) -> None:
        raise RuntimeError("boom")

    bench = Bench(case)
    with caplog.at_level("ERROR", logger="fxai.agents"):
        answer = bench.run(backend, on_step=broken)

    assert (answer.text, len(bench.model.requests)) == (case.expect["text"], case.expect["model_calls"])
    assert ["boom" in record.message for record in caplog.records] == [True, True]


@case("VE-120")
def test_a_cancelled_run_is_over(case: Case, backend: Backend) -> None:
    """The cancellation, which stands for the signal of the other system, is raised; the model is not asked again."""
    stopped: list[anyio.CancelScope] = []

    def cancelling(_: City) -> Any:
        return fx.sync(stopped[0].cancel).and_then(fx.never())

    bench = Bench(case, weather=cancelling)
    agent: Any = Agent.make("cases", toolkit=bench.kit)
    answers: list[Any] = []

    async def main() -> None:
        with anyio.CancelScope() as scope:
            stopped.append(scope)
            answers.append(await fx.run_async(agent.execute("go").provide(bench.layer).provide(bench.model.layer)))

    anyio.run(main, backend=backend)

    assert [scope.cancelled_caught for scope in stopped] == [True]
    assert answers == []
    assert len(bench.model.requests) == case.expect["model_calls"]


@case("VE-122")
def test_a_handler_that_takes_too_long_is_stopped(case: Case, backend: Backend) -> None:
    """By our semantics it is cancelled, and its finalizers run; theirs is only told, and goes on."""
    bench = Bench(case)
    tool, left = bench.tools["weather"], list[float]()
    does, seconds = case.given["tools"]["weather"]["handler"], case.given["tool_timeout_ms"] / 1000

    def handler(params: City) -> Any:
        bench.note("weather", params)
        late: Any = fx.sleep(does["after_ms"] / 1000).as_(does["returns"])
        return late.ensuring(fx.sync(lambda: left.append(bench.clock.now())))

    limited = timeout(seconds, tool=tool, failure=lambda _: "it took too long").wrap(tool.handler(handler))
    program: Any = LanguageModel.generate_text("go", toolkit=bench.kit).provide(limited).provide(bench.model.layer)
    moved: Any = fx.all_(program, bench.clock.advance(60)).provide(bench.clock.layer)
    response: Response = fx.run(moved, backend=backend)[0]

    assert _facts(response.tool_calls[0]) == case.expect["content"][0]
    assert [(r.result, r.is_failure) for r in response.tool_results] == [("it took too long", True)]
    assert left == [seconds]


@case("VE-123")
def test_usage_adds_up_and_the_text_is_the_last(case: Case, backend: Backend) -> None:
    """Over all steps of a run."""
    answer = Bench(case).run(backend)

    assert [answer.usage.input_tokens, answer.usage.output_tokens] == case.expect["usage"]
    assert answer.text == case.expect["text"]


@case("LM-Q12")
def test_a_condition_of_the_user_ends_a_run(case: Case, backend: Backend) -> None:
    """There it is ignored for one of a thousand steps."""
    tool = Tool.make("again", success=int)
    model = ScriptedModel.make([call("again", {})] * 9)
    agent: Any = Agent.make("cases", toolkit=Toolkit.make(tool))
    steps = int(case.given.split()[-2])
    program = agent.stop_when(step_count_is(steps)).execute("go").provide(tool.handler(giving(Success(1))))
    answer = fx.run(program.provide(model.layer), backend=backend)

    assert "ignored" in case.expect
    assert (len(model.requests), answer.ended) == (steps, "stopped")
