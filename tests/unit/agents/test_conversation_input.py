"""The conversation that an agent receives: results without a call, and calls of tools that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from returns.result import Success

from fxai.agents import Agent, Memory
from fxai.effects import fx
from fxai.messages import (
    AssistantMessage,
    Message,
    Prompt,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import ModelRequest
from fxai.providers import anthropic, openai
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.floor import request_breaches

GO, NEXT = UserMessage.make("Go"), UserMessage.make("Next")
CALL: Final = AssistantMessage.make(ToolCallPart("c1", "add", {"a": 1}))
RESULT: Final = ToolMessage.make(ToolResultPart("c1", "add", 3))


def _run(prompt: Prompt) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel.make([text("Done.")])
    return fx.run_result(Agent.make("a").execute(prompt).provide(model.layer)), model


@every(
    "messages",
    [
        (GO, RESULT, NEXT),
        (GO, CALL, RESULT, RESULT, NEXT),
        (GO, CALL, RESULT, NEXT, RESULT),
        (GO, CALL, RESULT, ToolMessage.make(ToolResultPart("c2", "add", 3))),
    ],
)
def test_a_result_that_no_call_waits_for_fails_the_run(messages: tuple[Message, ...]) -> None:
    """The program made a mistake, so the run names the call before it asks the model."""
    ended, model = _run(Prompt(messages))

    assert "conversation has no call for the result of 'add'" in str(ended.failure())
    assert model.requests == []


@every(
    "messages",
    [
        (RESULT, GO),
        (SystemMessage("Be brief."), RESULT, GO),
        (GO, CALL, CALL, RESULT, RESULT, NEXT),
        (GO, CALL, NEXT, RESULT),
    ],
)
def test_the_rest_of_a_window_and_late_results_do_not_fail(messages: tuple[Message, ...]) -> None:
    """A window that cut a turn starts with its results; a late result has its call."""
    ended, model = _run(Prompt(messages))

    assert ended.unwrap().text == "Done."
    assert len(model.requests) == 1


def _breaches(request: ModelRequest) -> list[str]:
    """The broken rules of a request on all wires."""
    messages = anthropic.prepare_request(request, model="claude-sonnet-5").body
    responses = openai.prepare_request(request, model="gpt-5.5").body
    chat = openai.prepare_request(request, model="gpt-4o", api="chat").body
    found = request_breaches(messages, "messages", system_between=False)
    return [*found, *request_breaches(responses, "responses"), *request_breaches(chat, "chat")]


def test_a_tool_of_one_run_does_not_break_the_next_run() -> None:
    """The calls of the tool stay in the memory when the tool is gone, under the name that they had before."""
    add = Tool.make("Calculator.add", success=int)
    memory, agent = Memory.in_process(), Agent.make("a")
    model = ScriptedModel.make([call("Calculator.add", {}), text("3"), text("You are welcome.")])
    first: Any = agent.with_tools(Toolkit.make(add)).with_memory(memory).execute("Add.")
    fx.run(first.provide(add.handler(lambda _: Success(3))).provide(model.layer))
    fx.run(agent.with_memory(memory).execute("Thank you.").provide(model.layer))
    request = model.requests[-1]
    body = anthropic.prepare_request(request, model="claude-sonnet-5").body

    assert request.tools == ()
    assert [_breaches(one) for one in model.requests] == [[], [], []]
    assert body["messages"][1]["content"][0]["name"] == "Calculator__add"


def test_half_surrogate_pairs_do_not_end_a_run_with_a_memory(tmp_path: Path) -> None:
    """A file stores UTF-8, so the next run reads U+FFFD instead of the half."""
    memory = Memory.file(tmp_path / "talk.json")
    model = ScriptedModel.make([text("cut \ud83d"), text("Done.")])
    agent = Agent.make("a").with_memory(memory)
    fx.run(agent.execute("caf\udce9").provide(model.layer))
    fx.run(agent.execute("Go on.").provide(model.layer))
    first, second, _ = model.requests[-1].prompt

    assert model.requests[0].prompt[0] == UserMessage.make("caf\udce9")
    assert (first, second) == (UserMessage.make("caf\ufffd"), AssistantMessage.make("cut \ufffd"))
