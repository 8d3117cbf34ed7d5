"""Every request that we make of OpenAI fits its SDK's own parameter types: any prompt, any options, both wires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from fxai.messages import (
    AnyPart,
    FilePart,
    FileUrl,
    Message,
    Prompt,
    SystemMessage,
    TextPart,
    ToolApprovalResponsePart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.openai import Api
from fxai.schema import JsonSchema
from tests.kit import sdk_samples as samples
from tests.kit.data import is_array, is_object
from tests.kit.every import every
from tests.kit.openai_answers import CHAT, ITEMS, TOOLS, chat_reply, reply
from tests.kit.sdkcheck import faults
from tests.kit.trials import examples

pytestmark = pytest.mark.slow


def _faults(sent: openai.WireRequest) -> list[str]:
    if sent.api == "chat":
        return faults(completion_create_params.CompletionCreateParamsNonStreaming, sent.fields)
    return faults(response_create_params.ResponseCreateParamsNonStreaming, sent.fields)


def _request(prompt: Prompt, **given: Any) -> ModelRequest:
    options: dict[str, Any] = {"tools": tuple(TOOLS), **given}
    return ModelRequest(prompt, **options)


SENT = openai.prepare_request(_request(Prompt.make("Hi")), model="gpt-5.5")

RESULTS: dict[str, Any] = {
    "shell": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    "computer": {"image_url": "data:,"},
    "tool_search": [{"type": "function", "name": "a", "parameters": {}, "strict": False}],
}


def _answered(parts: tuple[AnyPart, ...], *, failed: bool) -> Iterator[Message]:
    """What the parts leave in the history, each call of ours answered."""
    prompt = Prompt.from_parts(parts)
    yield from prompt
    for message in prompt:
        for part in message.content if message.role == "assistant" else ():
            if part.type == "tool-call" and not part.provider_executed:
                result = "it broke" if failed else RESULTS.get(part.name, {"found": [1]})
                yield ToolMessage((ToolResultPart(part.id, part.name, result, failed),))
            elif part.type == "tool-approval-request":
                yield ToolMessage((ToolApprovalResponsePart(part.approval_id, not failed, "so"),))


@every("name", ITEMS)
@every("failed", [False, True])
def test_each_item_goes_back_in_a_request(name: str, failed: bool) -> None:
    """What the provider answered, and what came of it, is taken by its SDK's types."""
    items = [ITEMS[name], *([ITEMS["text"]] if ITEMS[name]["type"] == "reasoning" else [])]
    parts = openai.read_reply(reply(items), SENT)
    again = Prompt([UserMessage.make("Hi"), *_answered(parts, failed=failed)])
    sent = openai.prepare_request(_request(again), model="gpt-5.5")

    assert _faults(sent) == []
    assert len(sent.fields["input"]) >= 1 + len(items)


ALL = openai.read_reply(reply(list(ITEMS.values())), SENT)
COMPLETION = openai.read_reply(
    chat_reply(CHAT), openai.prepare_request(_request(Prompt.make("Hi")), model="gpt-4o", api="chat")
)

texts = st.text(min_size=1, max_size=20)
files = st.sampled_from(
    [
        FilePart("image/png", b"hi"),
        FilePart("image/png", FileUrl("https://example.org/a.png"), metadata={"openai": {"detail": "low"}}),
        FilePart("image/png", FileUrl("file-a1")),
        FilePart("application/pdf", b"hi", "a.pdf"),
        FilePart("application/pdf", FileUrl("file-a1")),
    ]
)
marks: list[dict[str, Any]] = [{}, {"openai": {"prompt_cache_breakpoint": {"mode": "explicit"}}}]
marked = st.builds(TextPart, texts, metadata=st.sampled_from(marks))
users = st.lists(marked | files, min_size=1, max_size=3).map(lambda parts: [UserMessage(tuple(parts))])
systems = st.builds(SystemMessage, texts).map(lambda message: [message])


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """What some parts of an answer leave in the history, answered."""
    chosen = draw(st.lists(st.sampled_from(list(ITEMS)), unique=True, max_size=6))
    parts = draw(st.sampled_from([COMPLETION, openai.read_reply(reply([ITEMS[one] for one in chosen]), SENT)]))
    return list(_answered(parts, failed=draw(st.booleans())))


prompts = st.lists(users | systems | turns(), min_size=1, max_size=4).map(
    lambda groups: Prompt([message for group in groups for message in group])
)
schemas = st.sampled_from(
    [
        JsonSchema.of({"type": "integer"}),
        JsonSchema.of(
            {"title": "An answer", "type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
        ),
        JsonSchema.of({"type": "object"}),
        JsonSchema.of({"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "boolean"}}]}),
    ]
)
options = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 9),
        "temperature": st.floats(0, 2),
        "stop": st.just(("END",)),
        "reasoning": st.sampled_from(["none", "minimal", "low", "medium", "high"]),
        "parallel_tool_calls": st.booleans(),
        "response_schema": schemas,
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
        "tools": st.sampled_from([(), (samples.ours,), tuple(TOOLS)]),
    },
)
profiles = st.builds(
    openai.Profile,
    strict_json_schema=st.sampled_from([None, False]),
    supports_strict=st.none() | st.booleans(),
    supports_schema=st.none() | st.booleans(),
    system_role=st.sampled_from([None, "instructions", "system", "developer"]),
    store=st.none() | st.booleans(),
)
models = st.sampled_from(["gpt-5.5", "gpt-4o", "gpt-3.5-turbo", "qwen3"])
apis: st.SearchStrategy[Api] = st.sampled_from(["responses", "chat"])


def _nulls(value: Any) -> Iterator[str]:
    if is_object(value):
        for key, inner in value.items():
            yield from [key] if inner is None else _nulls(inner)
    elif is_array(value):
        for inner in value:
            yield from _nulls(inner)


# Fields that the SDK's types want, though they may be null; and what the schema of a tool of ours says.
NEEDED = {"code", "outputs", "result", "keys", "strict", "parameters", "default"}


@settings(max_examples=examples(60))
@given(prompts, options, profiles, models, apis)
def test_every_request_fits(
    prompt: Prompt, given: dict[str, Any], profile: openai.Profile, model: str, api: Api
) -> None:
    """And nothing in it is null that need not be there."""
    request = _request(prompt.append(UserMessage.make("Go on.")), **given)
    sent = openai.prepare_request(request, model=model, profile=profile, api=api)

    assert _faults(sent) == []
    assert set(_nulls(sent.fields)) <= NEEDED
    assert sent.encoded


@settings(max_examples=examples(20))
@given(prompts)
def test_what_goes_on_from_an_answer_fits_as_well(prompt: Prompt) -> None:
    """A request that says only what is new is a request."""
    sent = openai.prepare_request(_request(prompt), model="gpt-5.5")
    shorter = {**sent.fields, "previous_response_id": "resp_1", "input": sent.fields["input"][-1:]}

    assert faults(response_create_params.ResponseCreateParamsNonStreaming, shorter) == []
    assert len(ALL) > len(ITEMS)
