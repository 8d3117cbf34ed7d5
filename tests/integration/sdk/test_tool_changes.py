"""Tools that come and go in a conversation, and the context that Anthropic edits: requests by the SDKs' types."""

from __future__ import annotations

import json
from typing import Any, Never

import msgspec
import pytest
from anthropic.types.beta import BetaCompactionBlock, message_count_tokens_params, message_create_params
from openai.types.responses import input_token_count_params, response_create_params
from returns.result import Result, Success

from fxai.annotations import DeferLoading, Namespace, ToolNamespace
from fxai.effects import fx
from fxai.messages import AssistantMessage, Message, Prompt, SystemMessage, UserMessage
from fxai.messages import Response as Said
from fxai.models import LanguageModel, ModelRequest, PreparationError
from fxai.providers import anthropic, openai
from fxai.tools import Tool, Toolkit
from tests.kit.http_peer import answer, events, peer
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow


class City(msgspec.Struct, frozen=True):
    """A place."""

    name: str


WEATHER = Tool.make("weather.now", description="How warm it is.", parameters=City, success=str)
SEARCH = Tool.make("search", parameters=City, success=str)
TALK: tuple[Message, ...] = (UserMessage.make("Hello"), AssistantMessage.make("Good day."), UserMessage.make("Search!"))
CHANGE = SystemMessage.change_tools(add=["search"], content="You may search now.")
NEW = "claude-opus-5"
BY_VALUE, BY_NAME = "inline-tools-2026-09-15", "mid-conversation-tool-changes-2026-07-01"


def _request(*messages: Message, tools: Any = (WEATHER, SEARCH), **options: Any) -> ModelRequest:
    return ModelRequest(Prompt(messages), tools, **options)


def _anthropic(*messages: Message, model: str = NEW, **options: Any) -> anthropic.PreparedRequest:
    sent = anthropic.prepare_request(_request(*messages, **options), model=model)
    assert faults(message_create_params.MessageCreateParamsNonStreaming, sent.body) == []
    return sent


def _openai(*messages: Message, **options: Any) -> openai.WireRequest:
    sent = openai.prepare_request(_request(*messages, **options), model="gpt-5.5")
    assert faults(response_create_params.ResponseCreateParamsNonStreaming, sent.fields) == []
    assert faults(input_token_count_params.InputTokenCountParams, json.loads(sent.count_body())) == []
    return sent


def test_openai_is_sent_a_tool_where_it_comes() -> None:
    """As an item of its own, and not among the tools in front, so that the cache of what is before it holds."""
    before, after = _openai(*TALK, tools=(WEATHER,)), _openai(*TALK, CHANGE)
    item = after.fields["input"][3]

    assert after.fields["tools"] == before.fields["tools"]
    assert after.fields["input"][:3] == before.fields["input"]
    assert (item["type"], item["role"], [one["name"] for one in item["tools"]]) == (
        *("additional_tools", "developer"),
        ["search"],
    )
    assert after.fields["input"][4]["content"][0]["text"] == "You may search now."
    assert after.warnings == ()


def test_anthropic_is_sent_a_tool_where_it_comes() -> None:
    """By its definition, in the system message; the beta is named."""
    before, after = _anthropic(*TALK, tools=(WEATHER,)), _anthropic(*TALK, CHANGE)
    text, block = after.body["messages"][-1]["content"]

    assert after.body["tools"] == before.body["tools"]
    assert after.body["messages"][:-1] == before.body["messages"]
    assert (after.body["messages"][-1]["role"], text["text"]) == ("system", "You may search now.")
    assert (block["type"], block["tool"]["type"]) == ("tool_addition", "tool_definition")
    assert block["tool"]["definition"]["name"] == "search"
    assert after.headers["anthropic-beta"] == BY_VALUE
    assert faults(message_count_tokens_params.MessageCountTokensParams, json.loads(after.count_body())) == []


def test_the_only_tool_may_come_later() -> None:
    """Then the request has no tools in front; one that comes twice is defined once."""
    again = (AssistantMessage.make("Yes."), UserMessage.make("And now?"), CHANGE)
    both = _openai(*TALK, CHANGE, *again, tools=(SEARCH,))
    theirs = _anthropic(*TALK, CHANGE, *again, tools=(SEARCH,))
    blocks = [one for message in theirs.body["messages"] for one in message["content"] if "tool" in one]

    assert "tools" not in both.fields
    assert "tools" not in theirs.body
    assert [item["type"] for item in both.fields["input"]].count("additional_tools") == 1
    assert [block["tool"]["type"] for block in blocks] == ["tool_definition", "tool_reference"]


def test_a_tool_goes_at_anthropic_and_stays_at_openai() -> None:
    """There by its name; here a warning says so."""
    gone = SystemMessage.change_tools(remove=["weather.now"])
    theirs, ours = _anthropic(*TALK, gone), _openai(*TALK, gone)

    assert theirs.body["messages"][-1] == {
        "role": "system",
        "content": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "weather__now"}}],
    }
    assert (len(theirs.body["tools"]), theirs.headers["anthropic-beta"]) == (2, BY_NAME)
    assert len(ours.fields["input"]) == 3
    assert ["weather.now" in warning.message for warning in ours.warnings] == [True]


def test_a_deferred_tool_is_named() -> None:
    """It is among the tools in front, where the model does not see it."""
    later = _anthropic(*TALK, CHANGE, tools=(WEATHER, SEARCH.annotate(DeferLoading, True)))
    block = later.body["messages"][-1]["content"][1]

    assert block == {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "search"}}
    assert [tool.get("defer_loading") for tool in later.body["tools"]] == [None, True]
    assert later.headers["anthropic-beta"] == BY_NAME


def test_tools_of_a_namespace_and_of_openai_come_later_too() -> None:
    """A tool leaves its namespace in front; one that OpenAI runs is known by its type, a server by its label."""
    crm = ToolNamespace("crm", "Customers.")
    docs, mail = (openai.mcp(server_label=name, server_url=f"https://{name}.example") for name in ("docs", "mail"))
    tools = (WEATHER.annotate(Namespace, crm), SEARCH.annotate(Namespace, crm), openai.web_search(), docs, mail)
    change = SystemMessage.change_tools(add=["search", "web_search", mail.name])
    sent = _openai(*TALK, change, tools=tools) if docs.name != mail.name else _openai(*TALK, change, tools=tools[:3])
    front, late = sent.fields["tools"], sent.fields["input"][3]["tools"]

    assert [one["type"] for one in front][:1] == ["namespace"]
    assert [one["name"] for one in front[0]["tools"]] == ["weather__now"]
    assert [one["name"] for one in late[0]["tools"]] == ["search"]
    assert late[1]["type"] == "web_search"


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-sonnet-4-20250514", "some-server"])
def test_a_model_without_such_messages_has_all_tools_in_front(model: str) -> None:
    """The text is a marked part of a user message, and a removed tool stays, with a warning."""
    change = SystemMessage.change_tools(add=["search"], remove=["weather.now"], content="Search.")
    sent = _anthropic(*TALK, change, model=model)

    assert [tool["name"] for tool in sent.body["tools"]] == ["weather__now", "search"]
    assert sent.body["messages"][-1]["content"][-1]["text"] == "<system>\nSearch.\n</system>"
    assert "system" not in sent.body
    unknown = [model] if model == "some-server" else []
    assert [warning.subject for warning in sent.warnings] == [*unknown, "weather.now"]
    assert sent.betas == ()


def test_a_tool_that_there_is_none_of_is_a_warning() -> None:
    """A history may name tools that are gone."""
    change = SystemMessage.change_tools(add=["lost"], content="Now.")
    sent: tuple[Any, ...] = (_anthropic(*TALK, change), _openai(*TALK, change))

    for one in sent:
        assert [(warning.kind, warning.subject) for warning in one.warnings] == [("unsupported-tool", "lost")]


def _silent(_: City) -> Result[str, Never]:
    return Success("")


def test_a_longer_history_goes_on_from_what_was_written() -> None:
    """A model that is asked again writes new messages alone; what it sends is what a new one would."""
    longer = (*TALK, CHANGE, AssistantMessage.make("Yes."), UserMessage.make("And?"))
    reply = b'{"type":"message","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn"}'
    first, second = Prompt((*TALK, CHANGE)), Prompt(longer)
    kit: Any = Toolkit.make(WEATHER, SEARCH)
    with peer([answer(200, reply)]) as served:
        layer = anthropic.layer(NEW, base_url=served.url, api_key="k", max_tokens=99)

        def ask(prompt: Prompt) -> Any:
            return LanguageModel.generate_text(prompt, toolkit=kit, resolve_tools=False)

        fx.run(
            fx.for_each((first, second), ask)
            .provide(WEATHER.handler(_silent))
            .provide(SEARCH.handler(_silent))
            .provide(layer)
        )
    bodies = [json.loads(seen.body) for seen in served.seen]
    fresh = anthropic.prepare_request(_request(*longer), model=NEW, max_tokens=99).body

    assert bodies[1] == fresh
    assert [tool["name"] for tool in bodies[1]["tools"]] == ["weather__now"]
    assert all(seen.headers["anthropic-beta"] == BY_VALUE for seen in served.seen)


# -- the context at Anthropic

EDITS: Any = [
    {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
    {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 30_000},
        "keep": {"type": "tool_uses", "value": 2},
        "clear_at_least": {"type": "input_tokens", "value": 5000},
        "clear_tool_inputs": ["search"],
        "exclude_tools": ["weather__now"],
    },
    {
        "type": "compact_20260112",
        "trigger": {"type": "input_tokens", "value": 60_000},
        "instructions": "Keep names.",
        "pause_after_compaction": True,
    },
]


def _edited(options: Any) -> anthropic.PreparedRequest:
    return _anthropic(*TALK, provider_options={"anthropic": options})


def test_edits_of_the_context_are_typed_and_name_their_betas() -> None:
    """Each kind, with all that it may say; a request that only compacts names that beta alone."""
    every = _edited({"context_management": {"edits": EDITS}})
    compact = _edited({"context_management": {"edits": EDITS[2:]}})
    typed = msgspec.to_builtins(
        anthropic.RequestOptions(
            context_management=anthropic.ContextManagement(
                (anthropic.ClearThinking(keep="all"), anthropic.ClearToolUses(keep=anthropic.ToolUses(value=1)))
            )
        )
    )

    assert every.body["context_management"] == {"edits": EDITS}
    assert every.betas == ("context-management-2025-06-27", "compact-2026-01-12")
    assert compact.betas == ("compact-2026-01-12",)
    assert len(_edited(typed).body["context_management"]["edits"]) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"context_management": {"edits": [{"type": "clear_everything"}]}}, "clear_everything"),
        ({"context_management": {"edits": [{"type": "compact_20260112", "trigger": 5}]}}, "trigger"),
        ({"compaction": {"type": "summarize", "about": "all"}}, "about"),
    ],
)
def test_an_edit_that_there_is_none_of_is_refused(wrong: Any, said: str) -> None:
    """Before anything is sent, with its place."""
    with pytest.raises(PreparationError, match=said):
        _edited(wrong)


def test_a_conversation_is_compacted_and_goes_on() -> None:
    """Whole and streamed, the summary is a part that goes back as it came, in front of what is said next."""
    block = BetaCompactionBlock(content="They greeted.", type="compaction", signature="S", encrypted_content="E")
    whole = block.to_dict(exclude_none=False, exclude_unset=True)
    about = {"type": "message", "stop_reason": "compaction", "usage": {"input_tokens": 9, "output_tokens": 3}}
    begun = {**whole, "content": None, "encrypted_content": None}
    stream: list[Any] = [
        {"type": "message_start", "message": {**about, "stop_reason": None, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "compaction_delta", "content": "They greeted.", "encrypted_content": "E"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    data = b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in stream)
    options: Any = {"provider_options": {"anthropic": {"compaction": {"type": "summarize", "instructions": "Short."}}}}
    with peer([answer(200, json.dumps({**about, "content": [whole]}).encode())], events(data)) as served:
        layer = anthropic.layer(NEW, base_url=served.url, api_key="k", max_tokens=99)
        said = fx.run(LanguageModel.generate_text(Prompt(TALK), **options).provide(layer))
        parts = fx.run(LanguageModel.stream_text(Prompt(TALK), **options).collect().provide(layer))
    body = json.loads(served.seen[0].body)
    goes_on = Prompt.from_parts(said.content).append(UserMessage.make("And?"))
    next_ = _anthropic(*goes_on.messages, tools=())

    assert body["compaction"] == {"type": "summarize", "instructions": "Short."}
    assert served.seen[0].headers["anthropic-beta"] == "compact-2026-09-04"
    assert faults(message_create_params.MessageCreateParamsNonStreaming, body) == []
    assert said.finish_reason == "pause"
    assert Prompt.from_parts(Said.from_stream(parts).content) == Prompt.from_parts(said.content)
    assert next_.body["messages"][0] == {"role": "assistant", "content": [whole]}


def test_a_change_of_tools_says_what_changes() -> None:
    """Names both ways are a mistake, and so are none; it goes through JSON, as any message."""
    change = SystemMessage.change_tools(add=["a", "a", "b"], remove=["c"], content="Now.")
    back = Prompt.from_json(Prompt([change, UserMessage.make("Hi")]).to_json()).unwrap()
    plain = SystemMessage("Hello", metadata={"tools": {"add": ["a", 1], "remove": "c"}})

    assert (change.added_tools, change.removed_tools) == (("a", "b"), ("c",))
    assert back[0] == change
    assert (plain.added_tools, plain.removed_tools, SystemMessage("x").added_tools) == (("a",), (), ())
    wrongs: list[Any] = [{}, {"add": ["a"], "remove": ["a"]}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="add and remove"):
            SystemMessage.change_tools(**wrong)
