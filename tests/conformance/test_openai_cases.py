"""OpenAI's wires: failures, finish reasons, results of tools, and requests that go on from an answer."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from fxai.effects import Gen, Scope, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    Prompt,
    Response,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import openai
from fxai.providers.http import open_client
from fxai.providers.openai.model import Continuation
from fxai.providers.openai.reply import finish_of
from tests.kit.conformance import Case, case

# -- failures and finish reasons


@case("provider.openai/179")
def test_an_exhausted_quota_is_no_rate_limit(case: Case) -> None:
    """Both have the status 429; the code of the body tells them apart, the header says how long to wait."""
    found: list[str] = []
    for code in case.given["bodies"]:
        headers = {"retry-after": case.given["retry-after"]}
        answer = httpx2.Response(429, headers=headers, json={"error": {"code": code, "message": "No."}})
        transport = httpx2.MockTransport(lambda _, answer=answer: answer)
        layer = openai.layer("gpt-5.5", api_key="sk-1", retry=None, transport=transport)
        error = fx.run_result(LanguageModel.generate_text("Hi").provide(layer)).failure()
        assert isinstance(error, AiError)
        wait = f"(retryAfter={error.retry_after:g}s)" if error.is_retryable else ""
        found.append(f"{type(error.reason).__name__}{wait}")

    assert found == case.expect["reasons"]


@case("provider.openai/180")
def test_a_finish_reason_is_told_by_the_reason_and_the_calls(case: Case) -> None:
    """Where the provider names none, calls decide; a reason that nobody knows is unknown, unless there are calls."""
    found = [finish_of(reason, calls=calls) for reason, calls in case.given["cases"]]

    assert found == case.expect["reasons"]


# -- results of tools


def _result(output: dict[str, Any]) -> ToolResultPart:
    """A result of ours for an output of theirs."""
    kind = output["type"]
    if kind == "execution-denied":
        return ToolResultPart("c1", "t", output, is_failure=True)
    return ToolResultPart("c1", "t", output["value"], is_failure=kind.startswith("error"))


@case("VE-063", "VE-065", "VE-067", "VE-069", "VE-071", "VE-073")
def test_a_result_on_chat_completions(case: Case) -> None:
    """Data as JSON, a denial by its reason; a failure is wrapped, as the cases have it since their newer versions."""
    turn = (AssistantMessage((ToolCallPart("c1", "t", {}),)), ToolMessage((_result(case.given["output"]),)))
    expected = case.expect if case.newer is None else case.newer["expect"]

    assert openai.prepare_prompt(Prompt(turn), api="chat")["messages"][-1] == expected["message"]


# -- going on from an answer


class _Server:
    """Answers each turn, and keeps what it was asked."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """The next turn's answer, a call in the first one."""
        self.bodies.append(json.loads(request.content))
        turn = len(self.bodies)
        content: list[Any] = [{"type": "output_text", "text": f"Turn {turn}.", "annotations": []}]
        item: dict[str, Any] = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": content}
        return httpx2.Response(200, json={"id": f"resp_{turn}", "status": "completed", "output": [item]})

    def run(self, turns: int, known: Continuation | None, forget_after: int = 0) -> None:
        """Ask again and again, with all that was said."""

        @fx.gen
        def asking() -> Gen[None, AiError, Scope]:
            transport = httpx2.MockTransport(self.answer)
            client = yield from open_client(base_url=openai.BASE_URL, retry=None, transport=transport)
            model = openai.OpenAIModel(client, "gpt-5.5", openai.Profile(), known)
            prompt = Prompt.make("Hi")
            for turn in range(1, turns + 1):
                parts = yield from model.ask(ModelRequest(prompt))
                prompt = (prompt + Prompt.from_parts(parts)).append(UserMessage.make("And now?"))
                if known is not None and turn == forget_after:
                    known.clear()

        fx.run(fx.scoped(asking()))


@case("lm.tracker/109")
def test_nothing_is_told_of_earlier_answers_where_none_are_remembered(case: Case) -> None:
    """Each request holds the whole prompt."""
    server = _Server()
    server.run(2, None)

    assert [body.get("previous_response_id") for body in server.bodies] == [case.expect["previousResponseId"]] * 2
    assert [len(body["input"]) for body in server.bodies] == [1, 3]


@case("lm.tracker/111")
def test_what_is_forgotten_is_sent_whole_and_then_gone_on_from(case: Case) -> None:
    """The turn after it begins anew; the one after that goes on from the new answer."""
    server = _Server()
    server.run(4, Continuation(), forget_after=int(case.given["clear after"].split()[-1]))
    earlier = [body.get("previous_response_id") for body in server.bodies]

    assert earlier == [None, "resp_1", case.expect["turn3.previousResponseId"], case.expect["turn4.previousResponseId"]]
    assert len(server.bodies[2]["input"]) == 5
    assert len(server.bodies[3]["input"]) == 1


@case("lm.tracker/115")
def test_the_results_behind_a_call_are_what_is_new(case: Case) -> None:
    """The call is the provider's own; only what came of it is sent."""
    known = Continuation()
    sent = openai.prepare_request(ModelRequest(Prompt.make("Add.")), model="gpt-5.5")
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}"}
    parts = openai.read_reply({"id": "resp_1", "status": "completed", "output": [call]}, sent)
    known.remember([*sent.fields["input"], call], "resp_1")
    history = Prompt.make("Add.") + Prompt.from_parts(parts)
    again = history.append(ToolMessage((ToolResultPart("c1", "add", 5),)))
    found = known.shorten(openai.prepare_prompt(again)["input"])

    assert Response(parts).id == "resp_1"
    assert case.expect["incremental"] == ["tool result"]
    assert found == ("resp_1", [{"type": "function_call_output", "call_id": "c1", "output": "5"}])
