"""Servers that count the ids of calls anew in each turn: every call has an id of its own on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.messages import AssistantMessage, Prompt, ToolCallPart, ToolMessage, ToolResultPart, UserMessage
from fxai.models import ModelRequest, PreparationError
from fxai.providers import anthropic, openai


def _turn(city: str) -> tuple[AssistantMessage, ToolMessage]:
    call = ToolCallPart("call_0", "weather", {"city": city})
    return AssistantMessage((call,)), ToolMessage((ToolResultPart("call_0", "weather", city.upper()),))


PROMPT = Prompt((UserMessage.make("Go"), *_turn("Oslo"), *_turn("Rome"), *_turn("Bern")))


def test_on_responses() -> None:
    """Each call has its own result, whether the history is written at once or goes on."""
    items: list[Any] = openai.prepare_request(ModelRequest(PROMPT), model="gpt-5.5").fields["input"]

    assert [(item.get("call_id"), item.get("arguments") or item.get("output")) for item in items[1:]] == [
        ("call_0", '{"city":"Oslo"}'),
        ("call_0", "OSLO"),
        ("call_0_2", '{"city":"Rome"}'),
        ("call_0_2", "ROME"),
        ("call_0_3", '{"city":"Bern"}'),
        ("call_0_3", "BERN"),
    ]


def test_on_anthropic() -> None:
    """The API refuses one id for two calls."""
    body = anthropic.prepare_request(ModelRequest(PROMPT), model="claude-sonnet-5").body
    blocks = [block for message in body["messages"][1:] for block in message["content"]]

    assert [block.get("id") or block["tool_use_id"] for block in blocks] == [
        *("call_0", "call_0"),
        *("call_0_2", "call_0_2"),
        *("call_0_3", "call_0_3"),
    ]
    assert [block["content"] for block in blocks[1::2]] == ["OSLO", "ROME", "BERN"]


def test_an_id_that_another_call_has_is_not_taken() -> None:
    """Where a server gave `call_0_2` itself."""
    other = ToolCallPart("call_0_2", "weather", {})
    told = (AssistantMessage((other,)), ToolMessage((ToolResultPart("call_0_2", "weather", "X"),)))
    prompt = Prompt((UserMessage.make("Go"), *told, *_turn("Oslo"), *_turn("Rome")))
    items: list[Any] = openai.prepare_request(ModelRequest(prompt), model="gpt-5.5").fields["input"]

    assert [item["call_id"] for item in items[1::2]] == ["call_0_2", "call_0", "call_0_3"]


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_call_without_a_result_is_found_behind_one_with_the_same_id(api: Any) -> None:
    """The result of an earlier call is not its result."""
    prompt = Prompt((UserMessage.make("Go"), *_turn("Oslo"), _turn("Rome")[0]))
    with pytest.raises(PreparationError, match="the call 'call_0' of the tool 'weather' has no result"):
        openai.prepare_request(ModelRequest(prompt), model="gpt-5.5", api=api)
