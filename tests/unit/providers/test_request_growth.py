"""What a request costs as a run goes on: the tools are prepared once, and of the history only what is new."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import msgspec
import pytest

from fxai.effects import Effect, Gen, fx
from fxai.messages import AssistantMessage, Prompt, ToolCallPart, ToolMessage, ToolResultPart, UserMessage
from fxai.models import LanguageModel, ModelRequest
from fxai.models.request_cache import RequestCache
from fxai.providers import anthropic, openai
from fxai.providers.anthropic import prepare_request as prepare_anthropic
from fxai.providers.openai import prepare_request as prepare_openai
from fxai.tools import Tool
from tests.kit.calls import count_calls
from tests.kit.every import every

WIRES: dict[str, Callable[[ModelRequest, Any], object]] = {
    "responses": lambda request, cache: prepare_openai(request, model="gpt-5.5", cache=cache).encoded,
    "chat": lambda request, cache: prepare_openai(request, model="gpt-5.5", api="chat", cache=cache).encoded,
    "messages": lambda request, cache: prepare_anthropic(request, model="claude-sonnet-5", cache=cache),
}
PARAMS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}}}


def _calls(run: Callable[[], object]) -> int:
    """How many functions of Python were called."""
    run()  # what is made once in a process is there
    with count_calls() as count:
        run()
    return count.calls


def _ask(wire: str, rounds: int, tools: int, cache: Any) -> None:
    kit = tuple(Tool.dynamic(f"tool{number}", parameters=PARAMS) for number in range(tools))
    prompt = Prompt.make("Go.")
    for number in range(rounds):
        WIRES[wire](ModelRequest(prompt, kit), cache)
        call = ToolCallPart(f"c{number}", "tool0", {"a": number, "b": "x"})
        prompt = prompt.append(
            AssistantMessage.make(call), ToolMessage.make(ToolResultPart(call.id, "tool0", {"sum": number}))
        )


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_four_times_the_rounds_call_four_times_the_functions_at_most(wire: str) -> None:
    """A run of many rounds grows by its rounds, not by their square."""
    few = _calls(lambda: _ask(wire, 20, 5, RequestCache()))
    many = _calls(lambda: _ask(wire, 80, 5, RequestCache()))

    assert many <= 4.2 * few


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_a_round_calls_no_function_for_each_tool(wire: str) -> None:
    """The tools are prepared in the first round; later rounds cost the same with few tools and with many."""

    def later(tools: int) -> int:
        return _calls(lambda: _ask(wire, 9, tools, RequestCache())) - _calls(
            lambda: _ask(wire, 3, tools, RequestCache())
        )

    few, many = later(2), later(60)

    assert abs(many - few) <= 0.05 * few


def _answer(request: httpx2.Request) -> httpx2.Response:
    """The answer of each wire: nothing but a text."""
    if request.url.path.endswith("/messages"):
        block = {"type": "text", "text": "Yes."}
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        return httpx2.Response(200, json={**about, "content": [block], "usage": usage})
    if request.url.path.endswith("/chat/completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"id": "c", "choices": [choice]})
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    return httpx2.Response(200, json={"id": "r", "status": "completed", "output": [item]})


LAYERS: dict[str, Callable[..., Any]] = {
    "responses": partial(openai.layer, "gpt-5.5"),
    "chat": partial(openai.layer, "gpt-5.5", api="chat"),
    "messages": partial(anthropic.layer, "claude-sonnet-5", max_tokens=100),
}


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_a_model_keeps_what_its_requests_have_in_common(wire: str) -> None:
    """Asked again with one more message, the layer of each provider writes neither tools nor history anew."""
    layer = LAYERS[wire](api_key="sk-1", base_url="http://127.0.0.1:9", transport=httpx2.MockTransport(_answer))
    kit = tuple(Tool.dynamic(f"tool{number}", parameters=PARAMS) for number in range(40))
    long = Prompt([UserMessage.make("Go."), AssistantMessage.make("Well.")] * 200).concat("And?")

    @fx.gen
    def asked() -> Gen[tuple[int, int], Any, LanguageModel]:
        model = yield from LanguageModel
        more = long.append(AssistantMessage.make("Yes."), UserMessage.make("And?"))
        first = yield from _counted(model.ask(ModelRequest(long, kit)))
        return first, (yield from _counted(model.ask(ModelRequest(more, kit))))

    first, second = fx.run(asked().provide(layer))

    assert second < first / 5


@fx.gen
def _counted(effect: Effect[Any, Any]) -> Gen[int, Any]:
    with count_calls() as count:
        yield from effect
    return count.calls


def _digests(rounds: int) -> int:
    """How many digests are made in a conversation of so many rounds, each of which is sent as what is new."""
    sent: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(len(json.loads(request.content)["input"]))
        content = [{"type": "output_text", "text": "Yes."}]
        about = {"type": "message", "id": f"m{len(sent)}", "role": "assistant", "status": "completed"}
        output = [{**about, "content": content}]
        return httpx2.Response(200, json={"id": f"r{len(sent)}", "status": "completed", "output": output})

    layer = openai.layer("gpt-5.5", incremental=True, api_key="sk-1", transport=httpx2.MockTransport(answer))

    @fx.gen
    def converse() -> Gen[None, Any, LanguageModel]:
        model = yield from LanguageModel
        prompt = Prompt.make("Go.")
        for _ in range(rounds):
            parts = yield from model.ask(ModelRequest(prompt))
            prompt = (prompt + Prompt.from_parts(parts)).append(UserMessage.make("And?"))

    with count_calls(lambda event, called: event == "c_call" and called.__name__ == "digest") as count:
        fx.run(converse().provide(layer))

    assert sent == [1] * rounds
    return count.calls


@pytest.mark.slow
def test_an_answer_that_is_gone_on_from_digests_only_what_is_new() -> None:
    """Each round of an incremental conversation digests what it adds, however long the history has become."""
    assert _digests(80) <= 4.2 * _digests(20)


@every("wire", ["responses", "chat", "messages"])
def test_a_prepared_request_has_one_shape_in_both_providers(wire: str) -> None:
    """`body` and `fields` are the data of `encoded`, and both providers accept `stream` and `strict_json_schema`."""
    prepare: Callable[..., Any] = prepare_anthropic if wire == "messages" else prepare_openai
    model = {"model": "claude-sonnet-5"} if wire == "messages" else {"model": "gpt-5.5", "api": wire}
    tool = Tool.dynamic("look", parameters=PARAMS)

    for stream in (False, True):
        sent = prepare(ModelRequest(Prompt.make("Hello"), (tool,)), stream=stream, strict_json_schema=False, **model)

        assert sent.body == sent.fields == msgspec.json.decode(sent.encoded)
        assert sent.body.get("stream", False) is stream
        assert b'"strict":true' not in sent.encoded
        assert [warning.subject for warning in sent.warnings] == (["reasoning"] if wire == "chat" else [])
