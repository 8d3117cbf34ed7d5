"""What a request to Anthropic's Messages API says."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.annotations import CacheControl
from fxai.messages import (
    AssistantMessage,
    FilePart,
    FileUrl,
    InvalidRequestError,
    InvalidUserInputError,
    Message,
    NetworkError,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnsupportedSchemaError,
    UserMessage,
)
from fxai.models import ModelRequest, PreparationError, ToolChoice
from fxai.providers.anthropic import PreparedRequest, prepare_request
from fxai.providers.anthropic.messages_input import hosted_block
from fxai.schema import JsonSchema, Schema
from fxai.tools import Tool
from tests.kit.every import every

SONNET = "claude-sonnet-5"
NEW = "claude-opus-5"  # the small ones take system messages between others from 5.5 on
OLD = "claude-sonnet-4-20250514"


class City(msgspec.Struct, frozen=True):
    """A city, and how many days."""

    name: str
    days: int | msgspec.UnsetType = msgspec.UNSET


WEATHER = Tool.make("weather.now", parameters=City, success=str)
CALL = ToolCallPart("c1", "weather.now", {"name": "Oslo"})
RESULT = ToolResultPart("c1", "weather.now", "21")
CITY = Schema.of(City).document
NUMBERS = JsonSchema.of({"type": "array", "items": {"type": "integer"}})


def _send(*messages: Message, model: str = SONNET, tools: Any = (), **options: Any) -> PreparedRequest:
    said = messages or (UserMessage.make("Hello"),)
    return prepare_request(ModelRequest(Prompt(said), tuple(tools), **options), model=model)


def _said(*messages: Message, **options: Any) -> list[tuple[str, list[str]]]:
    body = _send(*messages, **options).body
    return [(one["role"], [block["type"] for block in one["content"]]) for one in body["messages"]]


def _warned(sent: PreparedRequest) -> list[tuple[str, str | None]]:
    return [(warning.kind, warning.subject) for warning in sent.warnings]


def _refused(*messages: Message) -> str:
    with pytest.raises(PreparationError) as raised:
        _send(*messages)
    assert isinstance(raised.value.reason, InvalidUserInputError)
    return raised.value.reason.description


# -- messages


def test_messages_alternate() -> None:
    """What users say and what tools give is one role; messages of one role in a row are one message."""
    said = _said(
        UserMessage.make("Hello"),
        UserMessage.make("How is Oslo?"),
        AssistantMessage.make("Let me see."),
        AssistantMessage.make(CALL),
        ToolMessage.make(RESULT),
        UserMessage.make("And?"),
    )

    assert said == [
        ("user", ["text", "text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result", "text"]),
    ]


def test_results_stand_right_behind_their_calls() -> None:
    """A result comes first in the message after its call, in the order of the calls, wherever the history has it."""
    other = ToolCallPart("c2", "weather.now", {"name": "Rome"})
    sent = _send(
        UserMessage.make("Hello"),
        AssistantMessage.make(CALL, other),
        UserMessage.make("Hurry."),
        ToolMessage.make(ToolResultPart("c2", "weather.now", "30"), ToolApprovalResponsePart("a", True)),
        ToolMessage.make(RESULT),
    )
    content = sent.body["messages"][2]["content"]

    assert [block.get("tool_use_id", block["type"]) for block in content] == ["c1", "c2", "text"]


def test_one_id_in_two_turns_keeps_its_results_apart() -> None:
    """Other providers count their calls anew in each turn: each call gets the result that is next in line."""
    sent = _send(
        UserMessage.make("Hello"),
        AssistantMessage.make(CALL),
        ToolMessage.make(RESULT),
        AssistantMessage.make(CALL),
        ToolMessage.make(ToolResultPart("c1", "weather.now", "22")),
    )
    given = [block["content"] for one in sent.body["messages"] for block in one["content"] if "content" in block]

    assert given == ["21", "22"]


def test_a_call_needs_its_result() -> None:
    """Fxai names a call without a result before the provider refuses the request."""
    hello = UserMessage.make("Hello")

    assert "the call 'c1' of the tool 'weather.now' has no result" in _refused(hello, AssistantMessage.make(CALL))


def test_nothing_said_is_refused() -> None:
    """A prompt of system messages, or of texts that say nothing, has nothing to answer."""
    assert "nothing to answer" in _refused(SystemMessage("Be brief."), UserMessage.make("  "))


def test_system_messages_are_the_system_prompt() -> None:
    """Those at the start are text blocks of their own, each with its mark for the cache."""
    marked = SystemMessage("Be brief.", metadata={"anthropic": {"cache_control": {"type": "ephemeral"}}})
    sent = _send(marked, SystemMessage("Be kind."), SystemMessage(""), UserMessage.make("Hello"))

    assert sent.body["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be kind."},
    ]


def test_later_system_messages_stay_in_their_place_where_they_may() -> None:
    """A system message is in its place if the API allows that, and otherwise a marked part of a user message."""
    talk = (UserMessage.make("Hello"), SystemMessage("Now be brief."), AssistantMessage.make("Hi"))
    end = (UserMessage.make("And?"), SystemMessage("In German."), SystemMessage("And short."))
    new, old = _send(*talk, *end, model=NEW), _send(*talk, *end, model=OLD)
    behind_model = _send(*talk, SystemMessage("Be kind."), UserMessage.make("And?"), model=NEW)

    assert [one["role"] for one in new.body["messages"]] == ["user", "system", "assistant", "user", "system"]
    assert len(new.body["messages"][-1]["content"]) == 2
    assert "system" not in new.body
    assert [one["role"] for one in old.body["messages"]] == ["user", "assistant", "user"]
    assert "system" not in old.body  # the head was sent before
    assert [[block["text"] for block in one["content"]] for one in old.body["messages"]] == [
        ["Hello", "<system>\nNow be brief.\n</system>"],
        ["Hi"],
        ["And?", "<system>\nIn German.\n</system>", "<system>\nAnd short.\n</system>"],
    ]
    assert behind_model.body["messages"][-1]["content"][0]["text"] == "<system>\nBe kind.\n</system>"


@pytest.mark.parametrize("model", ["anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8@20260528", "some-server"])
def test_clouds_and_others_read_later_system_messages_as_marked_text(model: str) -> None:
    """Only Anthropic's own API receives system messages between others."""
    sent = _send(UserMessage.make("Hello"), SystemMessage("Be brief."), model=model)

    assert [one["role"] for one in sent.body["messages"]] == ["user"]
    assert sent.body["messages"][0]["content"][-1]["text"] == "<system>\nBe brief.\n</system>"


def test_what_the_wire_refuses_of_others_is_left_out_with_a_warning() -> None:
    """Reasoning without a signature, files that a model made and what another provider ran are not sent; it is said."""
    ran = ToolCallPart("ws_1", "web_search", {}, provider_executed=True)
    turn = AssistantMessage.make(ReasoningPart("Hm."), FilePart("image/png", b"x"), ran, "Hi")
    sent = _send(UserMessage.make("Hello"), turn, UserMessage.make("And?"))

    assert [block["type"] for block in sent.body["messages"][1]["content"]] == ["text"]
    assert _warned(sent) == [("history", None)] * 3
    assert [warning.message.partition(" is omitted")[0] for warning in sent.warnings] == [
        "reasoning that Anthropic did not sign",
        "a generated file of type 'image/png'",
        "a call or result of 'web_search' at another provider",
    ]


def test_an_answer_begun_does_not_end_in_space() -> None:
    """The API refuses trailing space; fxai keeps the text before it."""
    begun = (UserMessage.make("Hello"), AssistantMessage.make("I say \n"))
    sent = _send(*begun, model="claude-sonnet-4-5")

    assert sent.body["messages"][-1]["content"] == [{"type": "text", "text": "I say"}]
    assert sent.warnings == ()


def test_a_model_without_prefill_is_asked_to_continue() -> None:
    """A user message follows an answer that was begun, with a warning; a paused turn goes back unchanged."""
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make("I say \n"))
    search = ToolCallPart(
        "s", "search", {}, provider_executed=True, metadata={"anthropic": {"type": "server_tool_use"}}
    )
    paused = _send(UserMessage.make("Hello"), AssistantMessage.make("I look.", search))

    assert sent.body["messages"][-2:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "I say \n"}]},
        {"role": "user", "content": [{"type": "text", "text": "Continue."}]},
    ]
    assert _warned(sent) == [("other", None)]
    assert paused.body["messages"][-1]["role"] == "assistant"
    assert paused.warnings == ()


# -- parts


def test_calls_go_back_in_the_form_in_which_they_came() -> None:
    """The tool's name and its parameters are those of the wire: mapped, and in the strict form."""
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make(CALL), ToolMessage.make(RESULT), tools=[WEATHER])
    call = sent.body["messages"][1]["content"][0]

    assert call == {"type": "tool_use", "id": "c1", "name": "weather__now", "input": {"name": "Oslo"}}
    assert sent.tools.call(call["name"], call["input"]) == ("weather.now", CALL.params)


def test_ids_of_others_are_made_to_fit() -> None:
    """A call's id that the wire refuses is digested, in the call and in its result alike, each to another one."""
    calls = [ToolCallPart(id_, "weather.now", {}) for id_ in ("a|b", "a/b")]
    results = [ToolResultPart(call.id, call.name, "x") for call in calls]
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make(*calls), ToolMessage.make(*results))
    made = [block["id"] for block in sent.body["messages"][1]["content"]]

    assert [block["tool_use_id"] for block in sent.body["messages"][2]["content"]] == made
    assert len(set(made)) == 2
    assert all(set(one) <= set("ab_0123456789cdef") for one in made)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (ToolCallPart("c1", "f", None, params_text='{"a": '), {"INVALID_JSON": '{"a": '}),
        (ToolCallPart("c1", "f", [1]), {"INVALID_JSON": "[1]"}),
        (ToolCallPart("c1", "f", None), {}),
    ],
)
def test_parameters_are_an_object(call: ToolCallPart, given: dict[str, Any]) -> None:
    """What a model wrote in place of an object is under the key that Anthropic names for it."""
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make(call), ToolMessage.make(ToolResultPart("c1", "f", 1)))

    assert sent.body["messages"][1]["content"][0]["input"] == given


@every(
    ("result", "content"),
    [
        ("21", "21"),
        ({"c": 21}, '{"c":21}'),
        (["a"], '["a"]'),
        ([], "[]"),
        ({"type": "execution-denied", "name": "f", "reason": "not allowed"}, "not allowed"),
        ({"type": "execution-denied"}, "Tool call execution denied."),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "image", "media_type": "image/png", "data": "aGk="}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        ),
        (
            [{"type": "image", "media_type": "image/bmp", "data": "aGk="}],
            [
                {
                    "type": "text",
                    "text": "(the file, image/bmp, 2 bytes, is omitted: this model does not accept such files)",
                }
            ],
        ),
        ([{"type": "text", "text": ""}, {"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "file", "media_type": "image/png", "data": "aGk=", "file_name": "a.png"}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        ),
        ([{"type": "file", "data": "aGk="}], '[{"type":"file","data":"aGk="}]'),
        ([{"type": "image", "media_type": "image/png"}], '[{"type":"image","media_type":"image/png"}]'),
        (
            [{"type": "image", "media_type": "image/png", "data": "aGk=", "more": 1}],
            '[{"type":"image","media_type":"image/png","data":"aGk=","more":1}]',
        ),
        (
            [{"type": "tool_reference", "tool_name": "weather__now"}],
            [{"type": "tool_reference", "tool_name": "weather__now"}],
        ),
        (
            [{"type": "file", "media_type": "image/png", "data": "-"}],
            '[{"type":"file","media_type":"image/png","data":"-"}]',
        ),
        ([{"type": "text", "text": "a"}, 5], '[{"type":"text","text":"a"},5]'),
        (
            [{"type": "blob", "media_type": "image/png", "data": "aGk="}],
            '[{"type":"blob","media_type":"image/png","data":"aGk="}]',
        ),
        (
            [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}],
            '[{"type":"text","text":"","cache_control":{"type":"ephemeral"}}]',
        ),
    ],
)
def test_results_are_shown_as_what_they_are(result: Any, content: Any) -> None:
    """A text is itself, texts and pictures are blocks, a denial is its reason, anything else is JSON."""
    told = ToolMessage.make(ToolResultPart("c1", "weather.now", result, is_failure=True))
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make(CALL), told, tools=[WEATHER])
    block = sent.body["messages"][2]["content"][0]

    assert block == {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": True}


def test_a_file_in_a_result_that_is_left_out_is_told() -> None:
    """The model reads a note in its place, and the response says which kind was left out and why."""
    result = [{"type": "image", "media_type": "image/bmp", "data": "aGk="}]
    sent = _send(
        UserMessage.make("Hello"), AssistantMessage.make(CALL), ToolMessage.make(ToolResultPart("c1", "f", result))
    )

    assert _warned(sent) == [("history", "weather.now"), ("history", None)]
    assert sent.warnings[1].message == (
        "a file of type 'image/bmp' in a tool's result is omitted: Anthropic's Messages API rejects it"
    )


def test_a_result_of_nothing_has_no_content() -> None:
    """The wire needs none, and a success is not marked."""
    told = ToolMessage.make(ToolResultPart("c1", "weather.now", None))
    sent = _send(UserMessage.make("Hello"), AssistantMessage.make(CALL), told)

    assert sent.body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


def test_marks_for_the_cache_stand_on_blocks() -> None:
    """A part's mark is on its block, a message's on its last one."""
    mark = {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}
    parts = (TextPart("a", metadata=mark), TextPart("b"), TextPart("c"))
    content = _send(UserMessage(parts, metadata=mark)).body["messages"][0]["content"]

    assert ["cache_control" in block for block in content] == [True, False, True]


def test_a_block_of_the_wire_stands_in_place_of_a_text() -> None:
    """What no part is made for can be said all the same, as search results that the answer may cite."""
    block = {"type": "search_result", "source": "https://a", "title": "A", "content": [{"type": "text", "text": "x"}]}
    said = UserMessage.make("What?", TextPart("", metadata={"anthropic": {"block": block}}))

    assert _send(said).body["messages"][0]["content"][1] == block


def test_documents_carry_their_title_and_citations() -> None:
    """The title is the file's name unless one is given; citations are switched on by the metadata."""
    plain = FilePart("text/plain", b"Hi", "a.txt")
    cited = FilePart("application/pdf", b"PDF", "b.pdf", metadata={"anthropic": {"citations": True, "title": "B"}})
    sent = _send(UserMessage.make(plain, cited))
    first, second = sent.body["messages"][0]["content"]

    assert first["source"] == {"type": "text", "media_type": "text/plain", "data": "Hi"}
    assert (first["title"], second["title"], second["citations"]) == ("a.txt", "B", {"enabled": True})
    assert [(one.media_type, one.title) for one in sent.documents] == [
        ("text/plain", "a.txt"),
        ("application/pdf", "B"),
    ]


PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}


@every(
    ("file", "block"),
    [
        (
            FilePart.of_url("image/png", "https://example.org/a.png"),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            FilePart.of_url("application/pdf", "https://example.org/a.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        ),
        (FilePart("image/*", FileUrl("data:image/png;base64,aGk=")), {"type": "image", "source": PNG}),
        (FilePart("image/png", FileUrl("data:image/png;base64,aGk=")), {"type": "image", "source": PNG}),
        (
            FilePart("text/plain", FileUrl("data:text/plain,Good%20day")),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Good day"}},
        ),
        (
            FilePart("image/png", FileUrl("file_011CNha8iCJcU1wXNR6q4V8w")),
            {"type": "image", "source": {"type": "file", "file_id": "file_011CNha8iCJcU1wXNR6q4V8w"}},
        ),
        (
            FilePart(
                "text/csv",
                FileUrl("file_011CNha8iCJcU1wXNR6q4V8w"),
                metadata={"anthropic": {"type": "container_upload"}},
            ),
            {"type": "container_upload", "file_id": "file_011CNha8iCJcU1wXNR6q4V8w"},
        ),
        (
            FilePart("image/png", b"hi", metadata={"anthropic": {"type": "container_upload"}}),
            {"type": "image", "source": PNG},
        ),
    ],
)
def test_a_file_is_sent_by_its_bytes_its_address_or_its_id(file: FilePart, block: dict[str, Any]) -> None:
    """What is uploaded may go into the container of code execution; a data: URL is the bytes that it holds."""
    assert _send(UserMessage.make(file)).body["messages"][0]["content"] == [block]


@every(
    ("file", "said"),
    [
        (FilePart("audio/wav", b"x"), "of type 'audio/wav'. Use one of: image/jpeg"),
        (FilePart("image/bmp", b"x"), "does not accept files of type 'image/bmp'"),
        (FilePart.of_url("text/plain", "https://example.org/a.txt"), "cannot fetch a file of type"),
        (FilePart("text/plain", b"\xff"), "is not UTF-8 text"),
        (FilePart("image/png", FileUrl("data:image/png;base64,a")), "not base64"),
        (FilePart("image/png", FileUrl("data:image/png;base64,aG*k=")), "not base64"),
        (FilePart("image/*", b"x"), "does not accept files of type 'image/*'"),
        (FilePart("image/*", FileUrl("data:;base64,aGk=")), "does not accept files of type 'image/*'"),
        (FilePart("image/png", FileUrl("data:image/png;base64")), "no comma"),
    ],
)
def test_files_that_cannot_be_sent_are_refused(file: FilePart, said: str) -> None:
    """The error names the type and what is taken."""
    assert said in _refused(UserMessage.make(file))


# -- what else is asked for


@every(
    ("model", "most"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-20241022", 8192),
        ("claude-3-7-sonnet-latest", 64000),
        ("claude-opus-4-20250514", 32000),
        ("anthropic.claude-opus-4-1-20250805-v1:0", 32000),
        (OLD, 64000),
        ("claude-sonnet-4-5@20250929", 64000),
        ("claude-haiku-4-5", 64000),
        ("claude-opus-4-8", 128000),
        ("claude-fable-5-2", 128000),
        ("claude-haiku-5-5", 128000),
        ("claude-someday", 128000),
        ("some-server", 8192),
    ],
)
def test_answers_may_be_as_long_as_the_model_can(model: str, most: int) -> None:
    """The wire needs max_tokens: by default it is the model's own limit, or one that no such model is below."""
    asked = ModelRequest(Prompt.make("Hi"), max_tokens=5)

    assert _send(model=model).body["max_tokens"] == most
    assert prepare_request(asked, model=model, max_tokens=9).body["max_tokens"] == 5
    assert prepare_request(ModelRequest(Prompt.make("Hi")), model=model, max_tokens=9).body["max_tokens"] == 9


def test_a_temperature_is_a_warning_where_it_is_refused() -> None:
    """The current models accept no temperature; stop strings have another name in this API."""
    sent = _send(temperature=0.2, stop=("END",))

    assert _warned(sent) == [("unsupported-option", "temperature")]
    assert "temperature" not in sent.body
    assert sent.body["stop_sequences"] == ["END"]


@every(
    ("model", "effort", "thinking", "level", "warned"),
    [
        (SONNET, None, None, None, False),
        (SONNET, "none", {"type": "disabled"}, None, False),
        (SONNET, "minimal", {"type": "adaptive"}, "low", True),
        (SONNET, "medium", {"type": "adaptive"}, "medium", False),
        ("claude-fable-5", "none", {"type": "adaptive"}, "low", True),
        ("claude-fable-5", "high", {"type": "adaptive"}, "high", False),
        ("claude-haiku-4-5", "high", {"type": "enabled", "budget_tokens": 16384}, None, False),
        ("claude-haiku-4-5", "none", None, None, False),
        ("claude-3-7-sonnet-latest", "high", {"type": "enabled", "budget_tokens": 16384}, None, False),
        ("claude-opus-4-6", "high", {"type": "adaptive"}, "high", False),
        ("claude-3-5-haiku-latest", "low", None, None, True),
        ("claude-3-5-haiku-latest", "none", None, None, False),
    ],
)
def test_reasoning_is_said_as_the_model_has_it(
    model: str, effort: Any, thinking: Any, level: str | None, warned: bool
) -> None:
    """As an effort, a budget or not at all; what a model lacks is a warning."""
    sent = _send(model=model, reasoning=effort)

    assert sent.body.get("thinking") == thinking
    assert sent.body.get("output_config", {}).get("effort") == level
    assert _warned(sent) == ([("unsupported-option", "reasoning")] if warned else [])


def test_a_budget_leaves_room_for_the_answer() -> None:
    """It is half of what the answer may have; where that is too little to think, it is said."""
    small = _send(model="claude-haiku-4-5", reasoning="high", max_tokens=4000)
    least = _send(model="claude-haiku-4-5", reasoning="high", max_tokens=2048)
    tiny = _send(model="claude-haiku-4-5", reasoning="high", max_tokens=2047)

    assert small.body["thinking"]["budget_tokens"] == 2000
    assert least.body["thinking"]["budget_tokens"] == 1024
    assert "thinking" not in tiny.body
    assert "Set max_tokens to at least 2048" in tiny.warnings[0].message
    assert _warned(tiny) == [("unsupported-option", "reasoning")]


def test_a_model_that_must_call_thinks_only_if_it_can() -> None:
    """The API refuses a forced call with a thinking budget, and accepts it with adaptive thinking."""
    new = _send(tools=[WEATHER], tool_choice="required", reasoning="high")
    old = _send(tools=[WEATHER], tool_choice="required", reasoning="high", model="claude-haiku-4-5")

    assert (new.body["thinking"], new.body["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert (new.body["tool_choice"], old.body["tool_choice"]) == ({"type": "any"}, {"type": "any"})
    assert "thinking" not in old.body
    assert _warned(new) == []
    assert _warned(old) == [("unsupported-option", "reasoning")]


def test_a_budget_of_the_program_frees_a_forced_call() -> None:
    """The option `thinking` of the provider wins over a forced call, which becomes "auto" with a warning."""
    own = {"anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2000}}}
    forced: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    sent = _send(model="claude-haiku-4-5", provider_options=own, **forced)

    assert sent.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert _warned(sent) == [("unsupported-option", "tool_choice")]


def test_a_model_that_cannot_be_made_to_call_decides_itself() -> None:
    """Fable 5.1 and its like refuse a forced choice: it is "auto" with a warning, one call at a time where asked."""
    forced = {"tools": [WEATHER], "tool_choice": ToolChoice.tool("weather.now"), "parallel_tool_calls": False}
    new, before = _send(model="claude-fable-5-1", **forced), _send(model="claude-fable-5", **forced)

    assert new.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert _warned(new) == [("unsupported-option", "tool_choice")]
    assert before.body["tool_choice"]["type"] == "tool"
    assert _send(model="claude-opus-5", **forced).body["tool_choice"]["type"] == "tool"


def test_what_holds_by_itself_is_not_said() -> None:
    """A free choice among tools, and tools that are not there, take no room in the request."""
    assert set(_send(tools=[WEATHER]).body) == {"model", "messages", "tools", "max_tokens"}
    assert set(_send().body) == {"model", "messages", "max_tokens"}


# -- answers held to a schema


def test_an_answer_is_held_to_its_schema_by_the_models_own_means() -> None:
    """The strict form of the schema is the format of the output, beside the effort."""
    sent = _send(response_schema=CITY, reasoning="high", tools=[WEATHER])
    config = sent.body["output_config"]

    assert config["format"]["schema"]["additionalProperties"] is False
    assert (config["format"]["type"], config["effort"]) == ("json_schema", "high")
    assert [tool["name"] for tool in sent.body["tools"]] == ["weather__now"]
    assert sent.warnings == ()


def test_an_answer_that_is_no_object_is_a_member_of_one() -> None:
    """The wire takes an object at the root; the text is led back to what the schema says."""
    sent = _send(response_schema=NUMBERS)
    schema = sent.body["output_config"]["format"]["schema"]

    assert schema["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}
    assert sent.answer is not None
    assert sent.answer.text('{"value": [1]}') == "[1]"


def test_references_stay_right_in_a_member() -> None:
    """Definitions stay at the root, and what refers to the root refers to the member."""
    tree = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/X"}]}, "$defs": {"X": {"const": 1}}}
    sent = _send(response_schema=JsonSchema.of(tree), model=OLD)
    schema = JsonSchema.of(sent.body["tools"][0]["input_schema"])

    assert schema.validate({"value": [[1], 1]}) == ()
    assert schema.validate({"value": [[2]]}) != ()


def test_a_property_may_be_called_like_a_keyword() -> None:
    """A property `$ref` or `const` is a schema like any other, whose references are led along."""
    named = {"$ref": {"$ref": "#"}, "const": {"$ref": "#"}}
    odd = {"anyOf": [{"properties": named, "required": ["const"]}, {"const": 1}]}
    sent = _send(response_schema=JsonSchema.of(odd), model=OLD)
    properties = sent.body["tools"][0]["input_schema"]["properties"]["value"]["anyOf"][0]["properties"]

    assert properties == {name: {"$ref": "#/properties/value"} for name in named}


def test_a_model_without_structured_outputs_must_call_a_tool() -> None:
    """The answer is the parameters of a tool, which is chosen, or any tool where there are others."""
    alone = _send(response_schema=CITY, model=OLD)
    among = _send(response_schema=CITY, model=OLD, tools=[WEATHER, Tool.make("answer")])

    assert alone.body["tool_choice"] == {"type": "tool", "name": "answer", "disable_parallel_tool_use": True}
    assert alone.body["tools"][0]["input_schema"] == CITY.to_dict()
    assert among.body["tool_choice"] == {"type": "any"}
    assert [tool["name"] for tool in among.body["tools"]] == ["weather__now", "answer", "answer_2"]
    assert "output_config" not in alone.body
    assert alone.warnings == ()


def test_a_schema_without_a_strict_form_is_asked_for_by_a_tool() -> None:
    """It goes as it is, with the reason said."""
    open_ = JsonSchema.of({"type": "object", "additionalProperties": True})
    sent = _send(response_schema=open_)

    assert sent.body["tools"][0]["input_schema"] == open_.to_dict()
    assert _warned(sent) == [("not-strict", "response_schema")]
    assert "no strict form" in sent.warnings[0].message


def test_an_answer_that_must_be_strict_is_refused_where_it_cannot_be() -> None:
    """With strict_json_schema on, the error names the place and the keyword before anything is sent."""
    open_ = JsonSchema.of({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}})
    request = ModelRequest(Prompt.make("Hi"), response_schema=open_)
    with pytest.raises(PreparationError) as raised:
        prepare_request(request, model=SONNET, strict_json_schema=True)

    assert isinstance(raised.value.reason, UnsupportedSchemaError)
    assert raised.value.reason.pointer == "/properties/a"
    assert prepare_request(request, model=OLD, strict_json_schema=True).answer is not None


def test_a_turn_for_a_tool_is_not_one_for_the_answer() -> None:
    """Where a tool must be called anyway, no tool for the answer is beside it."""
    sent = _send(response_schema=CITY, model=OLD, tools=[WEATHER], tool_choice="required")

    assert [tool["name"] for tool in sent.body["tools"]] == ["weather__now"]
    assert sent.answer is None


def test_no_tool_but_the_answer_may_be_called_where_none_may() -> None:
    """With the choice "none" the answer's own tool is the one that is chosen."""
    sent = _send(response_schema=CITY, model=OLD, tools=[WEATHER], tool_choice="none")

    assert sent.body["tool_choice"]["name"] == "answer"


@every(
    ("name", "wire"),
    [("City", "City"), (None, "answer"), ("Ort[Größe]", "Ort_Gr_e"), ("x" * 99, "x" * 64), ("§", "answer")],
)
def test_the_tool_of_an_answer_has_its_name_and_says_what_it_is(name: str | None, wire: str) -> None:
    """The name of the type, as the wire takes it, or that of the title; its description stands behind what to do."""
    sent = _send(response_schema=CITY, response_name=name, model=OLD, tools=[Tool.make("City")])
    titled = _send(response_schema=JsonSchema.of({**CITY.to_dict(), "title": "A b!"}), response_name=name, model=OLD)
    tool = sent.body["tools"][-1]

    assert sent.answer is not None
    assert tool["name"] == sent.answer.tool == ("City_2" if wire == "City" else wire)
    assert tool["description"].startswith("Gives the answer. ")
    assert tool["description"].endswith(" A city, and how many days.")
    assert titled.body["tool_choice"]["name"] == "A_b"


def test_a_call_that_anthropic_ran_without_parameters_has_an_empty_input() -> None:
    """The wire wants an object there."""
    call = ToolCallPart("c1", "web_search", None, metadata={"anthropic": {"type": "server_tool_use"}})

    assert hosted_block(call) == {"type": "server_tool_use", "id": "c1", "name": "web_search", "input": {}}


# -- marks for the cache

EPHEMERAL = {"type": "ephemeral"}


def _mark(**extra: Any) -> dict[str, Any]:
    return {"anthropic": {"cache_control": EPHEMERAL, **extra}}


def _marks(body: dict[str, Any]) -> list[str]:
    """Which tools, system blocks and message blocks are marked; each by its name or the first word of its text."""
    blocks = [*body.get("tools", ()), *body.get("system", ())]
    for message in body["messages"]:
        blocks += message["content"]
        blocks += [inside for block in message["content"] for inside in _inside(block)]
    named = [str(one.get("name") or one.get("text") or one.get("type")) for one in blocks if "cache_control" in one]
    return [*named, *(["request"] if "cache_control" in body else [])]


def _inside(block: dict[str, Any]) -> list[Any]:
    inside: list[Any] | str | None = block.get("content")
    return inside if isinstance(inside, list) else []


def test_a_fifth_mark_for_the_cache_is_dropped() -> None:
    """Kept are the last one of the tools, the last one of the system prompt, and the last ones of the messages."""
    tools = [Tool.make(name).annotate(CacheControl, "default") for name in ("t1", "t2")]
    systems = [SystemMessage(text, metadata=_mark()) for text in ("s1", "s2")]
    users = [UserMessage((TextPart(text, metadata=_mark()),)) for text in ("u1", "u2", "u3")]
    answers = [AssistantMessage.make("Fine."), AssistantMessage.make("Well.")]
    sent = _send(*systems, users[0], answers[0], users[1], answers[1], users[2], tools=tools)

    assert _marks(sent.body) == ["t2", "s2", "u2", "u3"]
    assert _warned(sent) == [
        ("unsupported-option", "cache_control"),
        ("unsupported-option", "cache_control"),
        ("unsupported-option", "t1"),
    ]
    assert [warning.message.partition(":")[0] for warning in sent.warnings] == [
        "message 1",
        "part 1 of the system prompt",
        "tool 't1'",
    ]
    assert msgspec.json.decode(msgspec.json.encode(users[0].content[0].metadata)) == _mark()  # the history stays


@pytest.mark.parametrize(("own", "kept"), [(False, ["t", "u2", "u3", "u4"]), (True, ["t", "u3", "u4", "request"])])
def test_the_requests_own_mark_is_one_of_four(own: bool, kept: list[str]) -> None:
    """`cache_control` of the request marks its last block, so there is one less for the others."""
    users = [UserMessage((TextPart(text, metadata=_mark()),)) for text in ("u1", "u2", "u3", "u4")]
    options: Any = {"provider_options": {"anthropic": {"cache_control": EPHEMERAL}}} if own else {}
    sent = _send(*users, tools=[Tool.make("t").annotate(CacheControl, "default")], **options)

    assert _marks(sent.body) == kept
    assert len(sent.warnings) == 5 + own - 4


def test_marks_inside_results_and_kept_blocks_count() -> None:
    """A block of a result that is marked, and one that came with a mark, are marks of the messages."""
    inside = [{"type": "text", "text": f"r{n}", "cache_control": EPHEMERAL} for n in range(3)]
    kept = {"type": "odd", "cache_control": EPHEMERAL}
    turn = AssistantMessage((TextPart("", metadata={"anthropic": {"block": kept}}), CALL))
    result = ToolMessage((ToolResultPart("c1", "weather.now", inside, metadata=_mark()),))
    sent = _send(UserMessage.make("Hello"), turn, result, tools=[WEATHER])

    assert _marks(sent.body) == ["tool_result", "r0", "r1", "r2"]
    assert [warning.message.partition(":")[0] for warning in sent.warnings] == ["message 2"]


def test_four_marks_are_sent_and_words_are_no_marks() -> None:
    """Nothing is said of as many as Anthropic takes; a text that names the field is a text."""
    users = [UserMessage((TextPart('"cache_control"', metadata=_mark()),)) for _ in range(4)]
    sent = _send(*users, UserMessage.make('{"cache_control": {}}'))

    assert len(_marks(sent.body)) == 4
    assert sent.warnings == ()


@given(
    tools=st.lists(st.booleans(), max_size=7),
    systems=st.lists(st.booleans(), max_size=7),
    users=st.lists(st.booleans(), min_size=1, max_size=7),
    own=st.booleans(),
)
def test_a_request_never_has_more_than_four_marks(
    tools: list[bool], systems: list[bool], users: list[bool], own: bool
) -> None:
    """None is lost that would fit, each that is lost is told, and the last one of the tools is never lost to others."""
    kit = [Tool.make(f"t{n}").annotate(CacheControl, "5m" if yes else None) for n, yes in enumerate(tools)]
    told = [SystemMessage(f"s{n}", metadata=_mark() if yes else {}) for n, yes in enumerate(systems)]
    said = [UserMessage((TextPart(f"u{n}", metadata=_mark() if yes else {}),)) for n, yes in enumerate(users)]
    options: Any = {"provider_options": {"anthropic": {"cache_control": EPHEMERAL}}} if own else {}
    sent = _send(*told, *said, tools=kit, **options)
    number, left = sum((*tools, *systems, *users, own)), _marks(sent.body)

    assert len(left) == min(number, 4)
    assert len(sent.warnings) == max(number - 4, 0)
    for section, letter in ((tools, "t"), (systems, "s"), (users, "u")):
        last = max((at for at, yes in enumerate(section) if yes), default=None)
        assert last is None or f"{letter}{last}" in left
    assert ("request" in left) == own


def test_strict_tools_and_a_strict_answer_share_a_limit() -> None:
    """What the tools have used up of it is not there for the answer, which is then asked for by a tool."""
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(15)}}
    tool = Tool.dynamic("wide", parameters=wide)
    apart, both = _send(response_schema=JsonSchema.of(wide)), _send(response_schema=JsonSchema.of(wide), tools=[tool])

    assert "output_config" in apart.body
    assert "output_config" not in both.body
    assert "with it the request would have 30 optional parameters" in both.warnings[0].message


# -- options of Anthropic's own


def test_options_win_over_what_is_common() -> None:
    """They are merged last; the configuration of the output is joined; anything else goes through extra_body."""
    options = {
        "output_config": {"effort": "max"},
        "thinking": {"type": "disabled"},
        "extra_body": {"temperature": 1, "max_tokens": 7},
    }
    sent = _send(response_schema=CITY, reasoning="low", provider_options={"anthropic": options})

    assert sent.body["output_config"]["effort"] == "max"
    assert "format" in sent.body["output_config"]
    assert sent.body["thinking"] == {"type": "disabled"}
    assert (sent.body["temperature"], sent.body["max_tokens"], sent.max_tokens) == (1, 7, 7)


def test_betas_are_named_only_where_they_are_needed() -> None:
    """No header without a beta; those of fields, of tools and of the options are named once each."""
    tool = WEATHER.with_options(provider_options={"anthropic": {"betas": ["b-1"]}})
    options = {"mcp_servers": [{"type": "url", "url": "https://m", "name": "m"}], "betas": ["b-1", "b-2"]}
    sent = _send(tools=[tool], provider_options={"anthropic": options})

    assert _send().headers == {}
    assert sent.headers == {"anthropic-beta": "b-1,b-2,mcp-client-2025-11-20"}
    assert "betas" not in sent.body


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thinkng": {}}, "unknown option 'thinkng'. Use one of: betas, cache_control"),
        ({"service_tier": "fast"}, "Invalid enum value 'fast'"),
        ([], "Expected `object`"),
    ],
)
def test_wrong_options_are_refused(options: Any, said: str) -> None:
    """A word that is no option, and a wrong value, are told with what belongs there."""
    with pytest.raises(PreparationError) as raised:
        _send(provider_options={"anthropic": options})

    assert isinstance(raised.value.reason, InvalidRequestError)
    assert raised.value.reason.parameter == "provider_options['anthropic']"
    assert said in raised.value.reason.description


@pytest.mark.parametrize("odd", [object(), iter([1])])
def test_what_json_cannot_carry_is_refused(odd: object) -> None:
    """In what a model asked with and in what a tool gave: a typed error, and nothing is sent."""
    asked = AssistantMessage.make(ToolCallPart("c1", "f", {"a": odd}))
    given = ToolMessage.make(ToolResultPart("c1", "f", [odd]))
    for turn in ((asked, ToolMessage.make(RESULT)), (AssistantMessage.make(CALL), given)):
        with pytest.raises(PreparationError) as raised:
            _send(UserMessage.make("Hello"), *turn)

        assert isinstance(raised.value.reason, NetworkError)
        assert raised.value.reason.kind == "EncodeError"


def test_a_prepared_request_is_a_value() -> None:
    """Equal requests are equal, hash alike, and survive a pickle."""
    one, other = _send(response_schema=NUMBERS, tools=[WEATHER]), _send(response_schema=NUMBERS, tools=[WEATHER])

    assert one == other == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(other)
