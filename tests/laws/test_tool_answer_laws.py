"""The law of answers by a call of a tool: their partials grow as the partials of a text do."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.messages import Prompt, Response, StreamPart
from fxai.models import ModelRequest
from fxai.models.partial_object import AnswerReader
from fxai.providers import anthropic, openai
from fxai.providers.anthropic import MessagesReader
from fxai.providers.openai.chat_reply import ChatReader
from fxai.schema import Schema
from fxai.testing.strategies import instances
from tests.kit.anthropic_replies import message
from tests.laws.test_partial_object_laws import TYPES, is_beginning, split

OLD = "claude-sonnet-4-20250514"


def _by_anthropic(request: ModelRequest, value: Any, cuts: list[int]) -> list[StreamPart]:
    sent = anthropic.prepare_request(request, model=OLD, stream=True)
    answer = sent.answer
    assert answer is not None
    assert answer.tool is not None
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": answer.tool, "input": {}}
    whole = message([], "tool_use")
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in split(json.dumps({"value": value} if answer.wrapped else value), cuts)
        ],
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": whole["usage"]},
        {"type": "message_stop"},
    ]
    reader = MessagesReader(sent)
    return [part for event in events for part in reader.read("", json.dumps(event))]


def _by_chat(request: ModelRequest, value: Any, cuts: list[int]) -> list[StreamPart]:
    sent = openai.prepare_request(request, model="gpt-audio", api="chat")
    answer = sent.format
    assert answer is not None
    assert answer.tool is not None
    pieces = split(json.dumps({"value": value} if answer.wrapped else value), cuts)
    calls: list[dict[str, Any]] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    calls[0] = {"index": 0, "id": "c", "function": {"name": answer.tool, "arguments": pieces[0]}}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": {"tool_calls": [call]}} for call in calls]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    reader = ChatReader(sent)
    events = [*[json.dumps({"choices": [choice]}) for choice in choices], "[DONE]"]
    return [part for event in events for part in reader.read("message", event)]


@pytest.mark.parametrize("stream", [_by_anthropic, _by_chat])
@given(data=st.data(), type_=st.sampled_from(TYPES), cuts=st.lists(st.integers(0, 120), max_size=12))
def test_the_partials_of_an_answer_by_a_tool_grow(
    stream: Any, data: st.DataObject, type_: Any, cuts: list[int]
) -> None:
    """Each partial is a beginning of the next partial, and the answer is the value."""
    schema = Schema[Any].of(type_)
    value = data.draw(instances(schema.json_schema(), undeclared=False))
    request = ModelRequest(Prompt.make("Go.")).answered_as(schema)
    parts = stream(request, value, cuts)
    reader = AnswerReader(schema)
    partials = [reader.value for part in parts if reader.read(part)]
    response = Response.from_stream(parts)

    assert all(itertools.starmap(is_beginning, itertools.pairwise([*partials, value])))
    assert msgspec.json.decode(response.text) == value
    assert response.finish_reason == "stop"


@pytest.mark.parametrize("stream", [_by_anthropic, _by_chat])
def test_an_answer_by_a_tool_has_partials_before_its_end(stream: Any) -> None:
    """A list of five numbers in pieces has at least five partials."""
    schema = Schema[Any].of(list[int])
    reader = AnswerReader(schema)
    parts = stream(ModelRequest(Prompt.make("Go.")).answered_as(schema), [1, 2, 3, 4, 5], list(range(40)))

    assert len([reader.value for part in parts if reader.read(part)]) >= 5
