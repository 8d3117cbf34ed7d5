"""Approvals: the conformance cases of the areas `lm.approval` and `approval`."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from returns.result import Success

from fxai.agents import Agent
from fxai.effects import Backend, Exit, Failed, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    InvalidApprovalError,
    Part,
    Prompt,
    Response,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCall,
    ToolCallPart,
    ToolkitRequiredError,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from fxai.models import ApprovalKey, ApprovalLedger, LanguageModel
from fxai.models.approval import authority
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit, UnknownTool
from tests.kit.conformance import Case, case


class Params(msgspec.Struct, frozen=True):
    """Whether it is dangerous."""

    dangerous: bool = True


class City(msgspec.Struct, frozen=True):
    """Where."""

    city: str


class Bench:
    """A tool that asks, its runs, and what the model was asked."""

    def __init__(self, name: str = "A", parameters: type[Any] = Params, *, needs: Any = True, gives: str = "R") -> None:
        self.ran: list[Any] = []
        self.tool: Any = Tool.make(name, parameters=parameters, success=str, needs_approval=needs)
        self.other: Any = Tool.make("B", success=str)
        self.kit: Toolkit[Any] = Toolkit.of([self.tool])
        self.model = ScriptedModel.make([])
        self.gives = gives

    def _handled(self, params: Any) -> Any:
        self.ran.append(msgspec.to_builtins(params))
        return Success(self.gives)

    def served(self, program: Any, states: Any) -> Any:
        """The program with handlers, a script and a ledger of its own."""
        self.model = ScriptedModel.make(states)
        layer: Any = self.tool.handler(self._handled) | self.other.handler(self._handled)
        return program.provide(layer).provide(self.model.layer).provide(ApprovalLedger.in_process())

    def exit(self, prompt: Any, states: Any, backend: Backend, **options: Any) -> Any:
        """How one round ended."""
        options.setdefault("toolkit", self.kit)
        ended: Exit[Any, Any] = fx.run_exit(
            self.served(LanguageModel.generate_text(prompt, **options), states), backend=backend
        )
        return ended

    def asked(self, *calls: ToolCall) -> Prompt:
        """The history of a round that asked."""
        made = calls or (call("A", {"dangerous": True}, id="c1"),)
        response = self.exit("go", [list(made)], "asyncio").value
        return Prompt.make("go").with_response(response.content)

    def shown(self) -> list[tuple[str, list[str]]]:
        """The kinds of parts that the model was shown, without what the user said."""
        (request,) = self.model.requests
        said = [m for m in request.prompt if m.role == "assistant" or m.role == "tool"]
        return [(m.role, [part.type for part in m.content]) for m in said]


def _answered(history: Prompt, *, approved: bool = True, reason: str | None = None) -> Prompt:
    return history.append(
        ToolMessage(tuple(one.approve(reason) if approved else one.deny(reason) for one in history.pending))
    )


def _reason(ended: Any) -> Any:
    error: AiError = ended.cause.failures[0]
    return error.reason


# -- lm.approval


@case("lm.approval/091")
def test_a_predicate_decides(case: Case, backend: Backend) -> None:
    """Call by call."""

    def needs(params: Params, _: object) -> bool:
        return params.dangerous

    given: Any = case.given["calls"]
    bench = Bench(needs=needs)
    kinds: list[str] = []
    for params in given:
        response: Response = bench.exit("go", [call("A", params)], backend).value
        kinds.append(response.content[1].type)

    assert kinds == case.expect["second part"]


@case("lm.approval/093")
def test_an_approved_call_runs_first(case: Case, backend: Backend) -> None:
    """The model is shown the call and its result, and nothing of approvals."""
    bench = Bench()
    bench.exit(_answered(bench.asked()), [text("ok")], backend)
    result = cast(ToolMessage, bench.model.requests[0].prompt[-1]).content[0]

    assert len(bench.ran) == case.expect["handlers run"]
    expected = [(role, [kind.split()[0] for kind in kinds]) for role, kinds in case.expect["provider prompt"]]
    assert bench.shown() == expected
    assert result.type == "tool-result"
    assert result.result == "R"


@case("lm.approval/094")
def test_a_denied_call_is_a_failed_result(case: Case, backend: Backend) -> None:
    """With type and reason."""
    bench = Bench()
    history = _answered(bench.asked(), approved=case.given["approved"], reason=case.given["reason"])
    (result,) = bench.exit(history, [text("ok")], backend).value.tool_results
    expected = case.expect["tool-result"]

    assert (result.is_failure, result.encoded_result) == (expected["isFailure"], expected["result"])
    assert len(bench.ran) == case.expect["handlers run"]


@case("lm.approval/095")
def test_an_unanswered_request_stays(case: Case, backend: Backend) -> None:
    """Where the conversation goes on past it; without another word of the user the model would not be asked."""
    bench = Bench()
    history = bench.asked(call("A", {}, id="resolved"), call("A", {}, id="unresolved"))
    first, open_one = history.pending
    said = history.append(ToolMessage.make(first.approve()), UserMessage.make("And?"))
    bench.exit(said, [text("ok")], backend)
    (turn,) = [m for m in bench.model.requests[0].prompt if m.role == "assistant"]
    requests = [part for part in turn.content if part.type == "tool-approval-request"]
    expected = case.expect["assistant parts"]

    assert sum(part.type == "tool-call" for part in turn.content) == expected["tool-call"]
    assert [part.tool_call_id for part in requests] == expected["tool-approval-request"]
    assert requests[0].approval_id == open_one.approval_id


@case("lm.approval/096")
def test_earlier_rounds_are_without_approvals_too(case: Case, backend: Backend) -> None:
    """Their calls and results stay."""
    bench = Bench()
    history = _answered(bench.asked())
    settled = history.with_response(bench.exit(history, [text("ok")], backend).value.content)
    bench.exit(settled.append(UserMessage.make("more")), [text("ok")], backend)
    kinds = [kind for _, some in bench.shown() for kind in some]

    assert sum("approval" in kind for kind in kinds) == case.expect["approval parts"]
    assert (kinds.count("tool-call"), kinds.count("tool-result")) == (
        case.expect["tool-call"],
        case.expect["tool-result"],
    )
    assert len(bench.ran) == 1


@case("lm.approval/097")
def test_a_call_with_a_result_is_not_run_again(case: Case, backend: Backend) -> None:
    """Whatever the answer to its request was."""
    bench = Bench()
    history = _answered(bench.asked()).with_response([ToolResult("c1", "A", "done")])
    ended = bench.exit(history, [text("ok")], backend)

    assert ended.value.text == "ok"
    assert len(bench.ran) == case.expect["handlers run"]


@case("lm.approval/098")
def test_a_stream_gives_the_result_first(case: Case, backend: Backend) -> None:
    """Then what the model says, here nothing but the finish."""
    bench = Bench()
    program: Any = LanguageModel.stream_text(_answered(bench.asked()), toolkit=bench.kit).collect()
    parts: list[Part] = fx.run(bench.served(program, [[]]), backend=backend)

    assert case.given["stream"]
    assert [part.type for part in parts] == case.expect["types"]


@case("lm.approval/099")
def test_a_response_holds_the_result_first(case: Case, backend: Backend) -> None:
    """And ends, as every response of ours, with its finish."""
    bench = Bench()
    response: Response = bench.exit(_answered(bench.asked()), [text("ok")], backend).value

    assert [part.type for part in response.content] == [*case.expect["content types"], "finish"]


@case("lm.approval/100")
def test_answers_need_a_toolkit(case: Case, backend: Backend) -> None:
    """Approved or denied: a typed error names the tools, and nobody is asked."""
    for answer in case.given["answers"]:
        bench = Bench()
        history = _answered(bench.asked(), approved=answer == "approved")
        none = bench.exit(history, [], backend, toolkit=Toolkit.empty())

        assert _reason(none) == ToolkitRequiredError(tuple(case.expect["error"]["pendingApprovals"]))
        assert type(_reason(none)).__name__ == case.expect["error"]["reason"]
        assert len(bench.model.requests) == case.expect["requests sent"]


@case("lm.approval/101")
def test_an_approved_tool_must_be_there(case: Case, backend: Backend) -> None:
    """What the case calls ToolNotFoundError is our `UnknownTool`."""
    bench = Bench()
    ended = bench.exit(_answered(bench.asked()), [], backend, toolkit=Toolkit.of([bench.other]))

    assert case.expect["error.reason"] == "ToolNotFoundError"
    assert ended.cause.failures == (UnknownTool("A", ("B",)),)
    assert len(bench.model.requests) == case.expect["requests sent"]


@case("lm.approval/102")
def test_a_denied_tool_need_not_be_there(case: Case, backend: Backend) -> None:
    """It would not be run anyway."""
    bench = Bench()
    history = _answered(bench.asked(), approved=False)
    (result,) = bench.exit(history, [text("ok")], backend, toolkit=Toolkit.of([bench.other])).value.tool_results

    assert result.encoded_result["type"] == case.expect["tool-result"]["type"]


@case("lm.approval/104")
def test_a_request_without_its_call_is_typed(case: Case, backend: Backend) -> None:
    """An `InvalidApprovalError`, where the other system breaks."""
    bench = Bench()
    (request,) = [part for part in bench.asked()[1].content if isinstance(part, ToolApprovalRequestPart)]
    ended = bench.exit(_answered(Prompt((AssistantMessage.make(request),))), [], backend)

    assert case.expect["typed error"] is isinstance(_reason(ended), InvalidApprovalError)
    assert _reason(ended).problem == "no-call"


@case("lm.approval/106")
def test_a_denial_wins(case: Case, backend: Backend) -> None:
    """One result, and no run."""
    bench = Bench()
    history = bench.asked()
    (one,) = history.pending
    answers = [one.approve() if said == "approved" else one.deny() for said in case.given["responses"]]
    response = bench.exit(history.append(ToolMessage(tuple(answers))), [text("ok")], backend).value

    assert len(bench.ran) == case.expect["handlers run"]
    assert len(response.tool_results) == case.expect["results for the call"]


@case("lm.approval/107")
def test_a_predicate_that_fails_asks(case: Case, backend: Backend) -> None:
    """As one that raises does."""

    def raises(*_: object) -> bool:
        raise ZeroDivisionError

    def fails(*_: object) -> Any:
        return fx.fail("lost")

    for needs in (raises, fails):
        bench = Bench(needs=needs)
        response: Response = bench.exit("go", [call("A", {})], backend).value

        assert response.content[1].type == case.expect["part"]
        assert len(bench.ran) == case.expect["handlers run"]


# -- approval


def _rm(case: Case, *, needs: Any = True) -> Bench:
    handler = case.given["tools"]["rm"]["handler"]
    return Bench("rm", City, needs=needs, gives=handler["returns"] if isinstance(handler["returns"], str) else "R")


def _history(case: Case, bench: Bench, **answer: Any) -> Prompt:
    """The history of the case: a call that was asked for, and its answer."""
    given = case.given["history"]["call"]
    asked = bench.asked(call(given["name"], given["input"], id="c1"))
    return _answered(asked, approved=case.given["history"]["approved"], **answer)


def _run(bench: Bench, prompt: Any, states: Any, backend: Backend, layer: Any = None) -> Any:
    program: Any = bench.served(Agent.make("a", toolkit=bench.kit).execute(prompt), states)
    ended: Exit[Any, Any] = fx.run_exit(program if layer is None else program.provide(layer), backend=backend)
    return ended


@case("VE-129")
def test_the_loop_waits_for_those_that_need_it(case: Case, backend: Backend) -> None:
    """The others run at once."""

    def needs(params: City, _: object) -> bool:
        asks: str = case.given["approval"]["rm"]["if_city"]
        return params.city == asks

    bench = _rm(case, needs=needs)
    calls = [call(c["tool_call"]["name"], msgspec.json.decode(c["tool_call"]["arguments"]), id=c["tool_call"]["id"])
             for c in case.given["model"][0]["content"]]  # fmt: skip
    answer = _run(bench, "go", [calls], backend).value

    assert len(bench.model.requests) == case.expect["model_calls"]
    assert bench.ran == case.expect["inputs_seen"]
    assert len(bench.ran) == len(case.expect["executed"])
    assert [one.id for one in answer.pending] == ["c1"]


@case("VE-130")
def test_an_approved_history_goes_on(case: Case, backend: Backend) -> None:
    """The tool runs, then the model is asked once; its messages are those of the case."""
    bench = _rm(case)
    answer = _run(bench, _history(case, bench), [text("done")], backend).value
    result = [part for part in answer.history[2].content if part.type == "tool-result"]
    tool, assistant = case.expect["messages"]

    assert (len(bench.ran), len(bench.model.requests)) == (len(case.expect["executed"]), case.expect["model_calls"])
    assert [one.result for one in result] == [tool["content"][0]["output"]["value"]]
    assert answer.text == assistant["content"][0]["text"]


@case("VE-131")
def test_a_denied_history_goes_on(case: Case, backend: Backend) -> None:
    """Without a run; the model reads the denial."""
    bench = _rm(case)
    answer = _run(bench, _history(case, bench, reason=case.given["history"]["reason"]), [text("done")], backend).value
    results = [part.result for part in answer.history[2].content if part.type == "tool-result"]

    assert (bench.ran, len(bench.model.requests)) == (case.expect["executed"], case.expect["model_calls"])
    assert results == [case.expect["messages"][0]["content"][0]["output"]]
    assert answer.text == case.expect["messages"][1]["content"][0]["text"]


@case("VE-132")
def test_approved_input_that_does_not_fit_is_told_to_the_model(case: Case, backend: Backend) -> None:
    """As the newer version has it. We ask for no such call; here one is signed by hand."""
    bench = _rm(case)
    given = case.given["history"]["call"]
    made = ToolCall("c1", given["name"], given["input"])
    request = fx.run_sync(authority()).request(made, bench.tool)
    asked = ToolApprovalRequestPart(
        request.approval_id, request.tool_call_id, request.digest, request.expires, request.signature
    )
    turn = AssistantMessage.make(ToolCallPart(made.id, made.name, made.params), asked)
    answer = _run(bench, _answered(Prompt((UserMessage.make("go"), turn))), [text("done")], backend).value

    assert (bench.ran, len(bench.model.requests)) == (
        case.newer["expect"]["executed"],
        case.newer["expect"]["model_calls"],
    )
    assert answer.steps[0].response.tool_results[0].encoded_result["type"] == "invalid-parameters"


@case("VE-136")
def test_an_answer_to_nothing_is_refused(case: Case, backend: Backend) -> None:
    """What the case calls InvalidToolApprovalError."""
    bench = _rm(case)
    given = case.given["history"]["call"]
    asked = bench.asked(call(given["name"], given["input"], id="c1"))
    ended = _run(bench, asked.append(ToolMessage.make(ToolApprovalResponsePart("wrong", True))), [], backend)

    assert isinstance(ended, Failed)
    assert _reason(ended) == InvalidApprovalError("wrong", "no-request")
    assert len(bench.model.requests) == case.expect["model_calls"]


@case("VE-137")
def test_with_a_key_an_unsigned_request_is_refused(case: Case, backend: Backend) -> None:
    """What the case calls InvalidToolApprovalSignatureError."""
    bench = _rm(case)
    history = _history(case, bench)
    unsigned = Prompt(
        msgspec.structs.replace(m, content=tuple(
            msgspec.structs.replace(part, signature="") if part.type == "tool-approval-request" else part
            for part in m.content
        )) if m.role == "assistant" else m
        for m in history
    )  # fmt: skip
    ended = _run(bench, unsigned, [], backend, ApprovalKey(case.given["secret"].ljust(16, "!")).layer)

    assert _reason(ended).problem == "forged"
    assert bench.ran == case.expect["executed"]
