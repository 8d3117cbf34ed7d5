"""Whole requests to Anthropic's Messages API, checked against the parameter types of its official SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_create_params
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    FileUrl,
    Message,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import ModelRequest, ToolChoice
from fxai.providers.anthropic import PreparedRequest, facts, parse_reply, prepare_request
from fxai.schema import JsonSchema
from tests.kit.anthropic_replies import ALL_BLOCKS, MODEL, SENT, TOOLS, message, messages
from tests.kit.data import is_array, is_object
from tests.kit.every import every
from tests.kit.sdkcheck import faults
from tests.kit.trials import examples

pytestmark = pytest.mark.slow

MODELS = ("claude-sonnet-5", "claude-fable-5-1", "claude-haiku-4-5", "claude-3-haiku-20240307", "some-server")
CACHED = {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}
CITED: dict[str, Any] = {"anthropic": {"citations": {"enabled": True}, "title": "R", "context": "C"}}
SCHEMAS: Sequence[Any] = (
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}},
    {"type": "array", "items": {"$ref": "#/$defs/X"}, "$defs": {"X": {"type": "string"}}},
    {"type": "object", "properties": {"next": {"$ref": "#"}}},
    True,
)


def request_faults(sent: PreparedRequest) -> list[str]:
    """Return the errors of a request by the SDK's types, which no longer have the sampling parameters of the API.

    A request that names a beta feature is checked against the types of the beta endpoint, which include its fields.
    """
    body = {name: value for name, value in sent.body.items() if name not in ("temperature", "top_p", "top_k")}
    streamed = "stream" in sent.body
    kinds: Any = beta_create_params if sent.betas else message_create_params
    kind: Any = kinds.MessageCreateParamsStreaming if streamed else kinds.MessageCreateParamsNonStreaming
    return faults(kind, body)


def _nulls(value: Any, location: str = "") -> list[str]:
    """Where there is a null, but for the titles of citations, which must be there."""
    if is_object(value):
        return [one for key, held in value.items() for one in _nulls(held, f"{location}/{key}")]
    if is_array(value):
        return [one for at, held in enumerate(value) for one in _nulls(held, f"{location}/{at}")]
    return [location] if value is None and not ("/citations/" in location and location.endswith("title")) else []


# -- any prompt

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_JSON: Any = st.none() | st.booleans() | _TEXT | st.lists(_TEXT, max_size=2) | st.dictionaries(_TEXT, _TEXT, max_size=2)
_FILES = st.sampled_from(
    [
        FilePart("image/png", b"PNG", metadata=CACHED),
        FilePart("image/jpg", FileUrl("data:image/jpeg;base64,aGk=")),
        FilePart.of_url("image/*", "https://example.org/cat.png"),
        FilePart("image/png", FileUrl("file_1")),
        FilePart("application/pdf", b"PDF", "r.pdf", metadata=CITED),
        FilePart.of_url("application/pdf", "https://example.org/r.pdf"),
        FilePart("application/pdf", FileUrl("file_2")),
        FilePart("text/csv", b"a;b", "t.csv"),
        FilePart("text/csv", FileUrl("file_3"), metadata={"anthropic": {"type": "container_upload"}}),
    ]
)
_TEXTS = st.builds(TextPart, _TEXT, metadata=st.sampled_from([{}, CACHED]))
_USERS = st.builds(UserMessage, st.lists(_TEXTS | _FILES, min_size=1, max_size=3).map(tuple))
_SYSTEMS = st.builds(SystemMessage, _TEXT, metadata=st.sampled_from([{}, CACHED]))
_RESULTS = _JSON | st.sampled_from(
    [
        [{"type": "text", "text": "21"}, {"type": "image", "media_type": "image/png", "data": "aGk="}],
        {"type": "execution-denied", "name": "weather.now", "reason": "no"},
        [{"type": "tool_reference", "tool_name": "weather__now"}],
    ]
)


@st.composite
def _turns(draw: st.DrawFn) -> list[Message]:
    """What a model said, with the results of its calls."""
    number = draw(st.integers(0, 2))
    calls = [
        ToolCallPart(f"c|{at}", draw(st.sampled_from(["weather.now", "computer", "gone!"])), draw(_JSON))
        for at in range(number)
    ]
    said: list[AssistantContent] = [
        TextPart(draw(_TEXT)),
        ReasoningPart("Hm.", metadata=draw(st.sampled_from([{}, {"anthropic": {"signature": "S"}}]))),
        FilePart("image/png", b"made"),
        ToolCallPart("ws_1", "web_search", {}, provider_executed=True),
        ToolApprovalRequestPart("a", "c|0"),
        *calls,
    ]
    results = [ToolResultPart(call.id, call.name, draw(_RESULTS), draw(st.booleans())) for call in calls]
    answered: list[Message] = [ToolMessage(tuple(results))] if results else []
    return [AssistantMessage(tuple(said)), *answered]


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    """Any prompt that can be sent."""
    turns = st.lists(_turns() | _USERS.map(lambda one: [one]) | _SYSTEMS.map(lambda one: [one]), max_size=4)
    return Prompt([UserMessage.make("Hello"), *(one for turn in draw(turns) for one in turn)])


@settings(max_examples=examples(60))
@given(st.data())
def test_any_request_fits_the_sdk(data: st.DataObject) -> None:
    """Whatever is said and asked for, the request is one by the SDK's types, without nulls or words of our own."""
    schema = data.draw(st.sampled_from([None, *map(JsonSchema.of, SCHEMAS)]))
    choices: list[Any] = ["auto", "none", "required", ToolChoice.tool("weather.now")]
    request = ModelRequest(
        data.draw(prompts()),
        data.draw(st.sampled_from([(), tuple(TOOLS), tuple(TOOLS[:1])])),
        data.draw(st.sampled_from(choices)),
        max_tokens=data.draw(st.none() | st.integers(1, 5000)),
        temperature=data.draw(st.none() | st.just(0.5)),
        stop=data.draw(st.sampled_from([(), ("END",)])),
        reasoning=data.draw(st.sampled_from([None, "none", "minimal", "low", "medium", "high"])),
        parallel_tool_calls=data.draw(st.none() | st.booleans()),
        response_schema=schema,
    )
    if not request.tools and request.tool_choice != "auto":
        request = ModelRequest(request.prompt, response_schema=schema)
    model = data.draw(st.sampled_from(MODELS))
    sent = prepare_request(request, model=model, stream=data.draw(st.booleans()))

    assert request_faults(sent) == []
    assert _nulls({**sent.body, "tools": [], "output_config": {}}) == []
    assert not {"facts", "strict_json_schema", "supports_strict", "response_schema"} & set(sent.body)
    assert "temperature" not in sent.body or facts(model).sampling == "always"


@every(
    "options",
    [
        {"container": "c_1", "metadata": {"user_id": "u"}, "service_tier": "auto"},
        {"container": {"id": "c_1", "skills": [{"type": "anthropic", "skill_id": "pdf"}]}, "speed": "fast"},
        {"cache_control": {"type": "ephemeral", "ttl": "5m"}, "inference_geo": "eu"},
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "max"}},
        {"diagnostics": {"previous_message_id": "msg_1"}, "user_profile_id": "u", "workspace_id": "w"},
    ],
)
def test_options_fit_the_sdk(options: dict[str, Any]) -> None:
    """What stands in provider_options is in the request, in the SDK's form."""
    request = ModelRequest(Prompt.make("Hi"), provider_options={"anthropic": options, "other": {"x": 1}})
    sent = prepare_request(request, model=MODEL)

    assert request_faults(sent) == []
    assert {key for key in options if key not in sent.body} <= {"user_profile_id", "workspace_id"}
    assert len(sent.headers) == len([key for key in options if key.endswith("_id")])


def _goes_back(whole: dict[str, Any]) -> PreparedRequest:
    """The request that goes on from a reply."""
    parts = parse_reply(json.dumps(whole).encode(), SENT).unwrap()
    said = Prompt.from_parts(parts)
    calls = [part for part in parts if part.type == "tool-call" and not part.provider_executed]
    results = ToolMessage(tuple(ToolResultPart(call.id, call.name, "done") for call in calls))
    known = Prompt.from_json(Prompt.make("What?").concat(said).append(results).to_json()).unwrap()
    return prepare_request(ModelRequest(known, tuple(TOOLS)), model=MODEL)


def _as_sent(block: dict[str, Any]) -> Any:
    """A block of a reply as a request has it: without what only replies have."""
    cited = block.get("citations")
    kept = {key: one for key, one in block.items() if key != "citations"}
    if cited:
        kept["citations"] = [{key: one for key, one in citation.items() if key != "file_id"} for citation in cited]
    return _without_nulls(kept)


def _without_nulls(value: Any) -> Any:
    if is_object(value):
        kept = {key: one for key, one in value.items() if one is not None or (key == "title" and "url" in value)}
        return {key: _without_nulls(one) for key, one in kept.items()}
    return [_without_nulls(one) for one in value] if is_array(value) else value


def test_a_request_that_leaves_thinking_to_the_api_fits_the_types_of_its_beta() -> None:
    """Thinking without digests asks the API to drop it; only the beta endpoint has the field for that."""
    thought = ReasoningPart("Hm.", metadata={"anthropic": {"signature": "S"}})
    call = ToolCallPart("c", "weather.now", {})
    answered = ToolMessage((ToolResultPart("c", "weather.now", "21"),))
    prompt = Prompt([UserMessage.make("Hello"), AssistantMessage((thought, call)), answered])
    sent = prepare_request(ModelRequest(prompt), model="claude-fable-5-1")

    assert sent.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert request_faults(sent) == []
    assert faults(message_create_params.MessageCreateParamsNonStreaming, sent.body) != []


def test_every_kind_of_block_goes_back_as_it_came() -> None:
    """From a reply to parts, to the history, to JSON and back, to a request: each block is there, in its place."""
    sent = _goes_back(message(ALL_BLOCKS, "tool_use"))
    back = [one for one in sent.body["messages"] if one["role"] == "assistant"]

    assert request_faults(sent) == []
    assert [one["content"] for one in back] == [[_as_sent(block) for block in ALL_BLOCKS]]
    assert sent.warnings == ()


@settings(max_examples=examples(60))
@given(messages())
def test_any_reply_goes_back_as_it_came(whole: dict[str, Any]) -> None:
    """Every block of a reply returns, except empty texts and thinking at the end, which the API refuses."""
    sent = _goes_back(whole)
    kept = [block for block in whole["content"] if block["type"] != "text" or block["text"].strip()]
    while kept and kept[-1]["type"] in ("thinking", "redacted_thinking"):
        kept.pop()
    back = [block for one in sent.body["messages"] if one["role"] == "assistant" for block in one["content"]]

    assert request_faults(sent) == []
    assert [_loose(block) for block in back] == [_loose(_as_sent(block)) for block in kept]


def _loose(block: dict[str, Any]) -> dict[str, Any]:
    """A block without the nulls in what a model gave a tool, which mean the same there."""
    return {**block, "input": _without_nulls(block["input"])} if "input" in block else block
