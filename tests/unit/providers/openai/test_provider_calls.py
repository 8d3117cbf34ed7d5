"""Calls whose maker or whose tool is not plain from the item: of the provider's own tools, and calls in one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fxai.messages import Prompt, Response, ToolMessage, ToolResultPart
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.openai.reply import ResponsesReader
from fxai.tools import Tool
from tests.kit.every import every

_TEXT = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
TEXT: dict[str, Any] = {**_TEXT, "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
POSTS = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "xs_1", "status": "completed"}
SEARCH: dict[str, Any] = {**POSTS, "name": "x_keyword_search", "input": '{"query":"snow"}'}
_X = {"type": "x_search_call", "id": "fc_8", "call_id": "", "status": "completed", "name": "x_semantic_search"}
UNKNOWN: dict[str, Any] = {**_X, "arguments": '{"query":"snow"}'}
_NO_PARAMETERS: dict[str, Any] = {}
_USES: list[dict[str, Any]] = [
    {"recipient_name": "functions.add", "parameters": {"a": 1}},
    {"recipient_name": "sub", "parameters": _NO_PARAMETERS},
]
_WRAPPER = {"type": "function_call", "id": "fc_1", "call_id": "c", "status": "completed"}
WRAPPER: dict[str, Any] = {**_WRAPPER, "name": "multi_tool_use.parallel", "arguments": json.dumps({"tool_uses": _USES})}


def _sent(*tools: Tool[Any, Any, Any]) -> openai.WireRequest:
    return openai.prepare_request(ModelRequest(Prompt.make("Hello"), tools), model="grok-4")


def _read(items: Sequence[dict[str, Any]], *tools: Tool[Any, Any, Any]) -> Response:
    """The answer of these items, which is the same where it is streamed."""
    sent = _sent(*tools)
    answer = {"id": "r", "status": "completed", "output": list(items)}
    told: list[dict[str, Any]] = []
    for location, item in enumerate(items):
        about: dict[str, Any] = {"output_index": location}
        told.append({"type": "response.output_item.added", **about, "item": {**item, "arguments": "", "input": ""}})
        if "arguments" in item:
            told.append({"type": "response.function_call_arguments.delta", **about, "delta": item["arguments"]})
        if "input" in item:
            told.append({"type": "response.custom_tool_call_input.delta", **about, "delta": item["input"]})
        told.append({"type": "response.output_item.done", **about, "item": item})
    told.append({"type": "response.completed", "response": answer})
    reader = ResponsesReader(sent)
    streamed = [part for one in told for part in reader.read("", json.dumps(one))]
    whole = Response(openai.read_reply(answer, sent))
    assert _content(Response.from_stream(streamed)) == _content(whole)
    return whole


def _content(response: Response) -> list[Any]:
    return [part for part in response.content if part.type not in ("response-metadata", "finish")]


def _next(response: Response) -> list[Any]:
    turn = Prompt.from_parts(response.content)
    results = [ToolResultPart(call.id, call.name, 1) for call in response.tool_calls if not call.provider_executed]
    behind = (ToolMessage(tuple(results)),) if results else ()
    prompt = Prompt((*Prompt.make("Hello").messages, *turn.messages, *behind))
    items: list[Any] = openai.prepare_request(ModelRequest(prompt), model="grok-4").fields["input"]
    return items[1:]


def test_a_custom_call_that_the_model_went_on_from_was_run_by_the_provider() -> None:
    """Of a tool that the request does not have: xAI writes calls of its own tools so. It goes back as it came."""
    response = _read([SEARCH, TEXT])
    (call,), (result,) = response.tool_calls, response.tool_results

    assert (call.id, call.name, call.provider_executed) == ("xs_1", "x_keyword_search", True)
    assert (result.id, result.result, response.finish_reason) == ("xs_1", {"status": "completed"}, "stop")
    assert _next(response) == [SEARCH, TEXT]


def test_a_custom_call_at_the_end_waits_for_its_result() -> None:
    """Nobody ran it yet: a model that made up a tool is told so."""
    response = _read([TEXT, SEARCH])
    (call,) = response.tool_calls

    assert (call.provider_executed, call.params, response.finish_reason) == (False, SEARCH["input"], "tool-calls")


def test_a_custom_call_of_a_tool_of_the_request_is_never_the_providers() -> None:
    """Whatever stands behind it."""
    (call,) = _read([SEARCH, TEXT], openai.custom(name="x_keyword_search")).tool_calls

    assert not call.provider_executed


def test_a_call_of_an_unknown_type_is_a_call_that_the_provider_ran() -> None:
    """With the name that it says, or that of its type, and it goes back as it came, without an id that is empty."""
    response = _read([UNKNOWN, {"type": "radio_call", "id": "rc_1", "status": "failed"}, TEXT])
    first, second = response.tool_calls

    assert (first.name, first.params["arguments"], first.provider_executed) == (
        "x_semantic_search",
        {"query": "snow"},
        True,
    )
    assert (second.name, response.tool_results[1].is_failure) == ("radio", True)
    assert _next(response)[0] == {key: one for key, one in UNKNOWN.items() if key != "call_id"}


def test_calls_in_one_call_are_calls() -> None:
    """OpenAI's models wrap calls into a tool that nobody offered; each gets an id of its own, and goes back alone."""
    response = _read([WRAPPER])

    assert [(call.id, call.name, call.params) for call in response.tool_calls] == [
        ("c_1", "add", {"a": 1}),
        ("c_2", "sub", {}),
    ]
    assert [item.get("name") for item in _next(response)] == ["add", "sub", None, None]


@every(
    "written",
    ["{", "[]", "{}", '{"tool_uses": []}', '{"tool_uses": [{"parameters": {}}]}', '{"tool_uses": [1]}'],
)
def test_a_wrapper_around_nothing_is_the_call_that_it_is(written: str) -> None:
    """The model reads that there is no such tool."""
    (call,) = _read([{**WRAPPER, "arguments": written}]).tool_calls

    assert (call.id, call.name) == ("c", "multi_tool_use.parallel")


def test_a_tool_of_the_wrappers_name_is_called_by_it() -> None:
    """A toolkit may have a tool `parallel`."""
    (call,) = _read([{**WRAPPER, "name": "parallel"}], Tool.dynamic("parallel")).tool_calls

    assert (call.name, call.params) == ("parallel", {"tool_uses": _USES})


def test_what_is_not_known_stays_beside_and_does_not_go_back() -> None:
    """Fields of texts, reasoning and calls, and contents of a message: an API may refuse them in a request."""
    contents = [{"type": "output_text", "text": "Hi", "tone": "warm"}, {"type": "smell", "of": "tea"}]
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "mood": "calm"}
    call = {**WRAPPER, "name": "add", "arguments": "{}", "speed": 2}
    response = _read([thought, {**TEXT, "weight": 3, "content": contents}, call])
    beside = [part.metadata["openai"]["beside"] for part in _content(response)]

    assert beside == [{"mood": "calm"}, {"weight": 3, "content": [contents[1]], "tone": "warm"}, {"speed": 2}]
    assert not any("beside" in item or "speed" in item or "mood" in item for item in _next(response))
    assert Response.from_json(response.to_json()).unwrap() == response


def test_the_end_of_an_answer_holds_what_else_it_says() -> None:
    """The tier that served, filters, the cost: in the metadata of the finish; what repeats the request is not there."""
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "cost": 0.5, "is_byok": False}
    details = {"input_tokens_details": {"cached_tokens": 4, "audio_tokens": 3, "image_tokens": 0}}
    reply: dict[str, Any] = {
        "status": "completed",
        "output": [],
        "temperature": 1.0,
        "service_tier": "flex",
        "moderation": {"a": 1},
    }
    *_, finish = openai.read_reply({**reply, "usage": {**usage, **details}, "debug": None}, _sent())

    assert finish.metadata["openai"] == {
        "service_tier": "flex",
        "moderation": {"a": 1},
        "usage": {"cost": 0.5, "is_byok": False, "input_tokens_details": {"audio_tokens": 3}},
    }
