"""Servers of Chat Completions: what each is sent, where it is, and with which key."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import msgspec
import pytest

from fxai.effects import fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    AuthenticationError,
    FilePart,
    ModelUnavailableError,
    Prompt,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest, PreparationError, ToolChoice
from fxai.providers import from_name, openai
from fxai.schema import JsonSchema, Schema
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.server_table import PAGE, fill_page

SERVERS = openai.SERVERS
ADD = Tool.dynamic("add", parameters={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
ANSWER = {"id": "c", "choices": [{"message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}]}


class Sum(msgspec.Struct, frozen=True):
    """A sum."""

    value: int


def _sent(server: str | openai.Server, model: str = "m", **request: Any) -> openai.WireRequest:
    stream = request.pop("stream", False)
    made = ModelRequest(request.pop("prompt", Prompt.make("Hello")), request.pop("tools", ()), **request)
    profile = openai.Profile("chat", server=openai.server_of(server))
    return openai.prepare_request(made, model=model, profile=profile, stream=stream)


def _said(mark: dict[str, Any], text: str = "Hm.") -> ReasoningPart:
    return ReasoningPart(text, metadata={"openai": mark})


def _turn(server: str | openai.Server, *content: Any) -> dict[str, Any]:
    """The message of the model's turn as the server gets it."""
    calls = [ToolMessage((ToolResultPart(part.id, part.name, 1),)) for part in content if part.type == "tool-call"]
    messages = _sent(server, prompt=Prompt((UserMessage.make("?"), AssistantMessage(content), *calls))).fields
    made: dict[str, Any] = messages["messages"][1]
    return made


# -- requests


@every("name", SERVERS)
def test_each_server_gets_the_most_tokens_in_its_field(name: str) -> None:
    """Exactly one of the two fields."""
    fields = _sent(name, max_tokens=9).fields
    known = SERVERS[name].token_limit or "max_tokens"

    assert {key: fields[key] for key in ("max_tokens", "max_completion_tokens") if key in fields} == {known: 9}


@every("name", SERVERS)
def test_a_stream_is_asked_for_its_usage_where_the_server_knows_that(name: str) -> None:
    """`stream_options` is in no other request."""
    body = _sent(name, stream=True).body

    assert ("stream_options" in body) == SERVERS[name].stream_usage
    assert "stream_options" not in _sent(name).body


@pytest.mark.parametrize(("name", "strict"), [("ollama", None), ("deepseek", None), ("vllm", True), ("xai", True)])
def test_tools_are_strict_where_the_server_has_that(name: str, strict: bool | None) -> None:
    """Elsewhere the schema goes as it is, without the flag."""
    (tool,) = _sent(name, tools=(ADD,)).fields["tools"]

    assert tool["function"].get("strict") is strict


@pytest.mark.parametrize(
    ("name", "model", "by_tool"),
    [
        ("groq", "openai/gpt-oss-120b", False),
        ("groq", "llama-3.3-70b-versatile", True),
        ("deepseek", "deepseek-flash", True),
        ("ollama", "qwen3", False),
    ],
)
def test_an_answer_is_held_to_a_schema_where_the_server_can(name: str, model: str, by_tool: bool) -> None:
    """Elsewhere the model gives it by a tool; a server that cannot demand a call is not asked to."""
    sent = _sent(name, model, response_schema=JsonSchema.of(Schema.of(Sum).json_schema()))

    assert (sent.format is not None and sent.format.tool is not None) == by_tool
    assert ("response_format" in sent.fields) != by_tool
    assert ("tool_choice" in sent.fields) == (by_tool and SERVERS[name].forced_choice)


@pytest.mark.parametrize(("choice", "sent"), [("required", None), (ToolChoice.tool("add"), None), ("none", "none")])
def test_a_call_is_not_demanded_where_the_server_refuses_that(choice: Any, sent: Any) -> None:
    """The response warns that the model is free; a choice that demands nothing stands."""
    made = _sent("moonshot", tools=(ADD,), tool_choice=choice)

    assert made.fields.get("tool_choice") in (sent, "auto")
    assert [warning.subject for warning in made.warnings if warning.subject == "tool_choice"] == (
        [] if choice == "none" else ["tool_choice"]
    )


@every(
    ("name", "effort", "field"),
    [
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("mistral", "low", {"reasoning_effort": "none"}),
        ("mistral", "medium", {"reasoning_effort": "high"}),
        ("mistral", "none", {"reasoning_effort": "none"}),
        ("deepseek", "medium", {"reasoning_effort": "low"}),
        ("groq", "medium", {"reasoning_effort": "medium"}),
    ],
)
def test_an_effort_is_the_nearest_that_the_server_has(name: str, effort: Any, field: dict[str, Any]) -> None:
    """Fxai sends it in the field of the server. A tie goes down, and a substitute is a warning."""
    made = _sent(name, reasoning=effort)

    assert {key: one for key, one in made.fields.items() if key.startswith("reasoning")} == field
    assert bool(made.warnings) == (effort not in json.dumps(field))


@every(
    ("server", "model", "takes"),
    [
        ("xai", "grok-4", False),
        ("xai", "grok-3", True),
        ("mistral", "mistral-large-latest", True),
        (openai.OPENAI_CHAT, "gpt-4.1", True),
        (openai.OPENAI_CHAT, "gpt-6-sol", False),
        (openai.OPENAI_CHAT, "gpt-5.5", False),
    ],
)
def test_stop_texts_go_where_a_model_takes_them(server: Any, model: str, takes: bool) -> None:
    """Elsewhere they are a warning."""
    made = _sent(server, model, stop=("END",))

    assert ("stop" in made.fields) == takes
    assert [warning.subject for warning in made.warnings] == ([] if takes else ["stop"])


def test_documents_are_refused_where_a_server_takes_none() -> None:
    """Before anything is sent; images go through."""
    pdf, png = FilePart("application/pdf", b"%PDF"), FilePart("image/png", b"PNG")
    with pytest.raises(PreparationError, match="azure takes no documents"):
        _sent("azure", prompt=Prompt((UserMessage.make("?", pdf),)))

    assert _sent("azure", prompt=Prompt((UserMessage.make("?", png),))).fields["messages"]


# -- its own options


def test_a_servers_own_fields_are_options_under_its_name() -> None:
    """As a value or a plain object; what OpenAI's API has as well."""
    search = openai.SearchSettings(include_domains=("python.org",))
    value = _sent("groq", provider_options={"groq": openai.GroqOptions(search_settings=search)}).fields
    plain = {"search_settings": {"include_domains": ["python.org"]}, "seed": 7}
    both = _sent("groq", provider_options={"groq": plain, "openai": {"top_p": 0.5}, "mistral": {"x": 1}}).fields

    assert value["search_settings"] == {"include_domains": ["python.org"]}
    assert (both["search_settings"], both["seed"], both["top_p"]) == (value["search_settings"], 7, 0.5)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("groq", {"reasoning_fromat": "raw"}, "there is no option 'reasoning_fromat'; there are: .*reasoning_format"),
        ("groq", {"reasoning_format": "loud"}, "Invalid enum value 'loud'"),
        ("openrouter", {"provider": {"ordr": []}}, "unknown field `ordr`"),
        ("huggingface", {"messages": []}, "'messages' is made from the model"),
    ],
)
def test_an_option_that_a_server_has_not_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    """With the place and what there is; a server whose options are not known takes any but what is made here."""
    with pytest.raises(PreparationError, match=said):
        _sent(name, provider_options={name: options})


# -- what goes back


def test_reasoning_goes_back_in_the_field_that_it_came_in() -> None:
    """Where the server reads it; an unknown server reads what it wrote."""
    part = _said({"field": "reasoning_content"})

    assert _turn("moonshot", part, TextPart("Yes."))["reasoning_content"] == "Hm."
    assert _turn(openai.COMPATIBLE, part, TextPart("Yes."))["reasoning_content"] == "Hm."


def test_reasoning_of_another_server_goes_into_the_field_that_a_server_has() -> None:
    """Mistral's thoughts at DeepSeek, DeepSeek's at Cerebras; OpenAI has none, and a warning says so."""
    thought, other = _said({"field": "content"}), _said({"field": "reasoning_content"})
    sent = _sent(openai.OPENAI_CHAT, prompt=Prompt((AssistantMessage((other, TextPart("Yes."))),)))

    assert _turn("deepseek", thought, TextPart("Yes."))["reasoning_content"] == "Hm."
    assert _turn("cerebras", other, TextPart("Yes."))["reasoning"] == "Hm."
    assert sent.fields["messages"] == [{"role": "assistant", "content": "Yes."}]
    assert "reasoning is not sent to OpenAI's Chat Completions API" in sent.warnings[0].message


def test_deepseek_has_its_field_in_every_turn() -> None:
    """Empty where the model said nothing in it, as in a turn of another model."""
    assert _turn("deepseek", TextPart("Yes."))["reasoning_content"] == ""
    assert "reasoning_content" not in _turn("moonshot", TextPart("Yes."))


def test_mistral_has_thoughts_in_its_content() -> None:
    """A list where there are some, a text where there are none."""
    turn = _turn("mistral", _said({"field": "content", "detail": {"closed": True}}), TextPart("Yes."))

    assert turn["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
        {"type": "text", "text": "Yes."},
    ]
    assert _turn("mistral", TextPart("Yes."))["content"] == "Yes."


def test_ids_of_calls_are_short_where_a_server_wants_that() -> None:
    """The same one for the call and its result; one that is short already stays."""
    made = _sent(
        "mistral",
        prompt=Prompt(
            (
                AssistantMessage(
                    (ToolCallPart("call_from_elsewhere", "add", {}), ToolCallPart("abcABC123", "add", {}))
                ),
                ToolMessage((ToolResultPart("call_from_elsewhere", "add", 1), ToolResultPart("abcABC123", "add", 2))),
            )
        ),
    ).fields["messages"]
    ids = [call["id"] for call in made[0]["tool_calls"]]

    assert ids == [message["tool_call_id"] for message in made[1:]]
    assert ids[1] == "abcABC123"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


def test_ids_that_repeat_across_turns_each_have_their_result() -> None:
    """Some servers count the calls of each turn from nought."""
    turns = [
        one
        for value in (1, 2)
        for one in (
            AssistantMessage((ToolCallPart("call_0", "add", {"a": value}),)),
            ToolMessage((ToolResultPart("call_0", "add", value),)),
        )
    ]
    messages = _sent("ollama", prompt=Prompt(tuple(turns))).fields["messages"]

    assert [message["role"] for message in messages] == ["assistant", "tool", "assistant", "tool"]
    assert [message["content"] for message in messages[1::2]] == ["1", "2"]
    assert [message["tool_call_id"] for message in messages[1::2]] == ["call_0", "call_0_2"]


def test_ids_that_repeat_in_one_turn_each_have_their_result() -> None:
    """In the order in which they stand."""
    calls = AssistantMessage(tuple(ToolCallPart("x", "add", {"a": value}) for value in (1, 2)))
    results = ToolMessage(tuple(ToolResultPart("x", "add", value) for value in (1, 2)))
    messages = _sent("ollama", prompt=Prompt((calls, results))).fields["messages"]

    assert [call["id"] for call in messages[0]["tool_calls"]] == ["x", "x_2"]
    assert [(one["tool_call_id"], one["content"]) for one in messages[1:]] == [("x", "1"), ("x_2", "2")]


# -- where it is, and the key


class _Peer:
    def __init__(self, status: int = 200, body: Any = ANSWER) -> None:
        self.requests: list[httpx2.Request] = []
        self.transport = httpx2.MockTransport(self._respond)
        self._answer = status, body

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(self._answer[0], json=self._answer[1])


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys and addresses but those of a test."""
    theirs = [name for server in SERVERS.values() for name in (*server.keys, server.url_variable)]
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_ENDPOINT", *theirs):
        monkeypatch.delenv(name, raising=False)


def _ask(name: str, peer: _Peer, **options: Any) -> Any:
    asked = LanguageModel.generate_text("What is 13 plus 29?")
    return fx.run_result(asked.provide(from_name(name, transport=peer.transport, retry=None, **options)))


@every("name", [server.name for server in SERVERS.values() if server.base_url[:1] != "{"])
def test_each_server_is_asked_at_its_address_with_its_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By its name alone, and Chat Completions without being told."""
    server, peer = SERVERS[name], _Peer()
    monkeypatch.setenv(server.key, "sk-own")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "org-us")
    text = _ask(f"{name}:some/model", peer).unwrap().text
    (request,) = peer.requests

    assert text == "42"
    assert str(request.url) == f"{server.base_url.replace('{SNOWFLAKE_ACCOUNT}', 'org-us')}/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-own"
    assert json.loads(request.content)["model"] == "some/model"


@every("name", [server.name for server in SERVERS.values() if server.needs_key])
def test_a_key_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own is none, and nothing is asked."""
    peer = _Peer()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://there.example")
    monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "org-us")
    error: AiError = _ask(f"{name}:m", peer).failure()

    assert isinstance(error.reason, AuthenticationError)
    assert (error.module, peer.requests) == (name, [])
    assert SERVERS[name].key in error.message


@pytest.mark.parametrize(
    ("endpoint", "version", "url"),
    [
        ("https://a.openai.azure.com", "", "https://a.openai.azure.com/openai/v1/chat/completions"),
        ("https://a.openai.azure.com/openai/v1/", "", "https://a.openai.azure.com/openai/v1/chat/completions"),
        (
            "https://a.openai.azure.com/",
            "2025-04-01-preview",
            "https://a.openai.azure.com/openai/deployments/ours/chat/completions?api-version=2025-04-01-preview",
        ),
    ],
)
def test_a_deployment_is_asked_at_azure(monkeypatch: pytest.MonkeyPatch, endpoint: str, version: str, url: str) -> None:
    """By the endpoint that is set, with the key in its own header; the model behind it is named by the user."""
    peer = _Peer()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
    monkeypatch.setenv("OPENAI_API_VERSION", version)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-1")
    asked = LanguageModel.generate_text("Hello", max_tokens=9, temperature=1.0)
    model = from_name("azure:ours=gpt-5.5", transport=peer.transport, retry=None)
    response = fx.run(asked.provide(model))
    (request,) = peer.requests

    assert str(request.url) == url
    assert (request.headers["api-key"], "authorization" in request.headers) == ("key-1", False)
    assert json.loads(request.content)["model"] == "ours"
    assert json.loads(request.content)["max_completion_tokens"] == 9
    assert [warning.subject for warning in response.warnings] == ["temperature"]


def test_where_nothing_says_where_a_server_is_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed failure, before anything is sent."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-1")
    error: AiError = _ask("azure:ours", _Peer()).failure()

    assert isinstance(error.reason, ModelUnavailableError)
    assert "set AZURE_OPENAI_ENDPOINT" in error.message


def test_a_server_is_known_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own key goes there; what knows no server is as before, and so is a key of OpenAI's for want of another."""
    peer = _Peer()
    options: dict[str, Any] = {"api": "chat", "base_url": "https://api.groq.com/openai/v1"}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    _ask("openai:m", peer, **options).unwrap()
    monkeypatch.setenv("GROQ_API_KEY", "gsk-own")
    _ask("openai:m", peer, **options).unwrap()

    assert [one.headers["authorization"] for one in peer.requests] == ["Bearer sk-of-openai", "Bearer gsk-own"]
    assert openai.server_at("https://mine.openai.azure.com/openai/v1").name == "azure"
    assert openai.server_at("https://user@api.openai.com/v1") is openai.OPENAI_CHAT
    assert openai.server_at("http://127.0.0.1:9/v1") is openai.COMPATIBLE


def test_a_server_of_ones_own_has_its_own_key_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failures are named after it; a variable of its name gives another address."""
    acme = openai.Server(name="acme", base_url="https://llm.acme.example/v1", key="ACME_KEY", needs_key=False)
    peer = _Peer(400, {"error": {"message": "no"}})
    monkeypatch.setenv("ACME_KEY", "k")
    monkeypatch.setenv("ACME_BASE_URL", "https://other.example/v2")
    model = openai.layer("large", server=acme, transport=peer.transport, retry=None)
    error = fx.run_result(LanguageModel.generate_text("?").provide(model)).failure()

    assert str(peer.requests[0].url) == "https://other.example/v2/chat/completions"
    assert isinstance(error, AiError)
    assert (peer.requests[0].headers["authorization"], error.module) == ("Bearer k", "acme")


def test_a_server_that_there_is_not_is_a_failure_of_the_layer() -> None:
    """With the names that there are."""
    asked = LanguageModel.generate_text("?").provide(openai.layer("m", server="grok"))
    error = fx.run_result(asked).failure()

    assert "there is no server 'grok'; there is: alibaba, azure" in error.message


def test_the_page_shows_what_the_recordings_show() -> None:
    """Each cell of the table is of a recording or a run; `python -m tests.kit.server_table` writes it anew."""
    page = PAGE.read_text(encoding="utf-8")

    assert fill_page(page) == page
