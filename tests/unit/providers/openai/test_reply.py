"""Whole answers of OpenAI, as parts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fxai.messages import (
    ApprovalRequest,
    ContentPolicyError,
    File,
    Finish,
    InternalProviderError,
    InvalidOutputError,
    Prompt,
    RateLimitError,
    Reasoning,
    Response,
    ResponseMetadata,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.openai import Api
from fxai.schema import JsonSchema
from fxai.tools import Tool
from tests.kit.every import every

PARAMS = {"type": "object", "properties": {"a": {"type": "integer"}}}
add = Tool.dynamic("math.add", parameters=PARAMS)


def _sent(*tools: Any, api: Api = "responses", model: str = "gpt-5.5", **given: Any) -> openai.WireRequest:
    return openai.prepare_request(ModelRequest(Prompt.make("Hi"), tools, **given), model=model, api=api)


def _read(*items: dict[str, Any], sent: openai.WireRequest | None = None, **other: Any) -> Response:
    data = {"id": "resp_1", "created_at": 0, "model": "m", "status": "completed", "output": list(items), **other}
    return Response(openai.read_reply(data, sent or _sent(add)))


def _chat(message: dict[str, Any], reason: str | None = "stop", sent: openai.WireRequest | None = None) -> Response:
    data = {"id": "c", "created": 0, "model": "m", "choices": [{"message": message, "finish_reason": reason}]}
    return Response(openai.read_reply(data, sent or _sent(add, api="chat")))


def _said(*content: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(content), **other}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _call(arguments: str, **other: Any) -> dict[str, Any]:
    about = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "math__add"}
    return {**about, "arguments": arguments, **other}


def test_a_response_begins_with_what_the_provider_says_of_it() -> None:
    """Warnings, then id, model and time; the finish with its usage is last."""
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    read = _read(_said(_text("Hi.")), sent=_sent(stop=("END",)), usage=usage)

    assert [part.type for part in read.content] == ["warning", "response-metadata", "text", "finish"]
    assert read.content[1] == ResponseMetadata("resp_1", "m", datetime(1970, 1, 1, tzinfo=UTC))
    assert read.usage == Usage(9, 2, 4)


def test_the_name_and_the_parameters_of_a_call_are_mapped_back() -> None:
    """The tool's own name; null for an optional field is gone; a dynamic tool is marked."""
    call = _read(_call('{"a": null}')).tool_calls[0]

    assert (call.id, call.name, call.params, call.dynamic) == ("c1", "math.add", {}, True)
    assert call.metadata == {"openai": {"id": "fc_1"}}


@pytest.mark.parametrize(("arguments", "params", "text"), [("", {}, None), ("{", None, "{"), ("NaN", None, "NaN")])
def test_arguments_that_are_no_json_are_kept_as_text(arguments: str, params: Any, text: str | None) -> None:
    """Blank ones are none at all."""
    function = {"name": "math__add", "arguments": arguments}
    calls = (
        _read(_call(arguments)).tool_calls[0],
        _chat({"tool_calls": [{"id": "c1", "type": "function", "function": function}]}).tool_calls[0],
    )

    assert [(call.params, call.params_text) for call in calls] == [(params, text)] * 2


@every(
    ("other", "item", "reason"),
    [
        ({}, _said(_text("Hi.")), "stop"),
        ({}, _call("{}"), "tool-calls"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, _call("{"), "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, _call("{"), "content-filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, _call("{}"), "other"),
        ({"status": "cancelled"}, _said(_text("Hi.")), "error"),
        ({"status": "incomplete", "incomplete_details": {"reason": ["odd"]}}, _said(_text("Hi.")), "unknown"),
        ({}, _said({"type": "refusal", "refusal": "No."}), "content-filter"),
    ],
)
def test_how_a_response_finished(other: dict[str, Any], item: dict[str, Any], reason: str) -> None:
    """By its status and its calls; a turn that the model refused runs none of them."""
    assert _read(item, **other).finish_reason == reason


@every(
    ("message", "given", "reason"),
    [
        ({"content": "Hi."}, "stop", "stop"),
        ({"content": "Hi."}, "length", "length"),
        ({"content": "Hi."}, "content_filter", "content-filter"),
        ({"content": "Hi."}, None, "unknown"),
        ({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}, "stop", "tool-calls"),
        ({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}]}, "length", "length"),
        ({"refusal": "No."}, "stop", "content-filter"),
    ],
)
def test_how_a_completion_finished(message: dict[str, Any], given: str | None, reason: str) -> None:
    """By its finish reason; some servers say `stop` beside calls."""
    assert _chat(message, given).finish_reason == reason


def test_sources_stand_behind_their_text() -> None:
    """A page by its address, a file by its name; the text keeps them for the history."""
    page = {"type": "url_citation", "start_index": 0, "end_index": 2, "title": "There", "url": "https://e.org"}
    file = {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 0}
    read = _read(_said({**_text("Hi."), "annotations": [page, file]}))

    assert [source.id for source in read.sources] == ["msg_1:0:0", "msg_1:0:1"]
    assert read.sources[0].url == "https://e.org"
    assert read.sources[1] == Source(
        "msg_1:0:1",
        "a.txt",
        None,
        "application/octet-stream",
        "a.txt",
        metadata={"openai": {"type": "file_citation", "file_id": "file-1"}},
    )
    assert read.content[1].metadata["openai"]["annotations"] == [page, file]


def test_reasoning_is_a_part_for_each_summary() -> None:
    """What is encrypted goes with the last; an item without any text is a part without text."""
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}
    two = _read({**item, "summary": [{"text": "A"}, {"text": "B"}]})
    none = _read({**item, "summary": []})

    assert two.content[1:3] == (
        Reasoning("A", metadata={"openai": {"id": "rs_1", "kind": "summary"}}),
        Reasoning("B", metadata={"openai": {"id": "rs_1", "kind": "summary", "encrypted_content": "e"}}),
    )
    assert none.content[1] == Reasoning("", metadata={"openai": {"id": "rs_1", "encrypted_content": "e"}})


def test_what_the_provider_ran_is_a_call_and_its_result() -> None:
    """Under the name that the tool has here; a failure is marked."""
    sent = _sent(
        openai.web_search(name="Web"), openai.mcp(server_label="docs", name="Docs", server_url="https://e.org")
    )
    action = {"type": "search", "query": "tea"}
    about = {"type": "mcp_call", "id": "m_1", "server_label": "docs", "name": "find", "arguments": '{"q":1}'}
    web, docs = (
        {"type": "web_search_call", "id": "w_1", "status": "completed", "action": action},
        {**about, "error": {"type": "http_error", "code": 500, "message": "down"}, "status": "failed"},
    )
    read = _read(web, docs, sent=sent)

    assert [(call.name, call.params) for call in read.tool_calls] == [
        ("Web", {"action": action}),
        ("Docs", {"name": "find", "arguments": {"q": 1}}),
    ]
    assert [result.is_failure for result in read.tool_results] == [False, True]
    assert all(call.provider_executed for call in read.tool_calls)
    assert all(result.provider_executed for result in read.tool_results)
    assert read.finish_reason == "stop"


def test_an_image_is_a_file() -> None:
    """Its bytes are in the file alone, and its result says the rest."""
    item = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "aGk=",
        "output_format": "webp",
    }
    read = _read(item)

    assert read.files == (File("image/webp", b"hi", metadata={"openai": {"id": "ig_1"}}),)
    assert read.tool_results[0].result == {"status": "completed", "output_format": "webp"}


def test_a_servers_question_waits_for_a_person() -> None:
    """The call, the question, and a turn that is pending."""
    item = {"type": "mcp_approval_request", "id": "r", "server_label": "mail", "name": "send", "arguments": "{}"}
    read = _read(item)

    assert read.approval_requests == (ApprovalRequest("r", "r"),)
    assert read.tool_calls[0].provider_executed
    assert read.finish_reason == "pending"


def test_a_shell_runs_where_its_environment_is() -> None:
    """In a container of the provider's both the call and its output are theirs; here the call is ours."""
    call = {"type": "shell_call", "id": "s", "call_id": "c1", "action": {"commands": ["ls"], "timeout_ms": None}}
    output: dict[str, Any] = {
        "type": "shell_call_output",
        "id": "o",
        "call_id": "c1",
        "output": [],
        "status": "completed",
    }
    location = {"environment": {"type": "container_reference", "container_id": "k"}}
    there = _sent(openai.shell(environment=openai.ContainerReference(container_id="k")))
    theirs = _read({**call, **location}, output, sent=there).content[1:-1]
    ours = _read(call, sent=_sent(openai.shell())).tool_calls[0]

    assert [type(part) for part in theirs] == [ToolCall, ToolResult]
    assert all(isinstance(part, ToolCall | ToolResult) and part.provider_executed for part in theirs)
    assert (ours.params, ours.provider_executed) == ({"commands": ["ls"]}, False)


def test_what_no_part_stands_for_is_kept_whole() -> None:
    """An item that nobody knows yet says nothing, and goes back with the history."""
    item = {"type": "invented", "id": "i", "nested": {"a": [1]}}
    read = _read(item)
    back = openai.prepare_prompt(Prompt.from_parts(read.content))

    assert read.text == ""
    assert back["input"] == [item]


def test_an_answer_by_a_schema_is_led_back() -> None:
    """The text of the response is JSON by the schema that was asked for, on both wires."""
    schema = JsonSchema.of({"type": "array", "items": {"type": "integer"}})
    chat = _sent(api="chat", response_schema=schema)

    assert _read(_said(_text('{"value": [1]}')), sent=_sent(response_schema=schema)).text == "[1]"
    assert _chat({"content": '{"value": [1]}'}, sent=chat).text == "[1]"


def test_the_answer_of_a_model_that_called_a_tool_for_it_is_its_text() -> None:
    """No call is left, and the turn is over."""
    schema = JsonSchema.of({"type": "array", "items": {"type": "integer"}})
    old: dict[str, Any] = {"model": "gpt-3.5-turbo", "response_schema": schema}
    function = {"name": "final_answer", "arguments": '{"value": [1]}'}
    item = {"type": "function_call", "call_id": "c", **function}
    read = _read(item, sent=_sent(**old))
    chat = _chat({"tool_calls": [{"id": "c", "function": function}]}, "tool_calls", _sent(api="chat", **old))

    assert [(one.text, one.tool_calls, one.finish_reason) for one in (read, chat)] == [("[1]", (), "stop")] * 2


def test_a_sound_is_a_file_with_its_words() -> None:
    """In the format that was asked for; its id goes back with the history."""
    sent = _sent(api="chat", provider_options={"openai": {"audio": {"voice": "alloy", "format": "mp3"}}})
    read = _chat(
        {"content": None, "audio": {"id": "a1", "data": "aGk=", "transcript": "Hi.", "expires_at": 9}}, sent=sent
    )
    back = openai.prepare_prompt(Prompt.from_parts(read.content), api="chat")

    assert (read.files[0].media_type, read.files[0].data) == ("audio/mp3", b"hi")
    assert read.files[0].metadata["openai"]["transcript"] == "Hi."
    assert back["messages"] == [{"role": "assistant", "audio": {"id": "a1"}}]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_a_compatible_server_is_read(field: str) -> None:
    """In either of the fields that servers use."""
    read = _chat({"content": "Yes.", field: "Hm."})

    assert read.reasoning_text == "Hm."
    assert read.text == "Yes."


def test_a_custom_call_has_a_text() -> None:
    """On both wires; it goes back as it came."""
    sent, chat = _sent(openai.custom("sql")), _sent(openai.custom("sql"), api="chat")
    item = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
    call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    read = [_read(item, sent=sent), _chat({"tool_calls": [call]}, "tool_calls", chat)]

    assert [(one.tool_calls[0].id, one.tool_calls[0].name) for one in read] == [("c", "sql")] * 2
    assert [one.tool_calls[0].params for one in read] == ["select 1"] * 2
    assert read[1].tool_calls[0].metadata == {"openai": {"type": "custom_tool_call"}}


@every(
    ("written", "params", "text"),
    [
        ('{"a": 1}', {"a": 1}, None),
        ({"a": 1}, {"a": 1}, None),
        (None, {}, None),
        ("", {}, None),
        ([], {}, None),
        ([1], [1], None),
        ("{", None, "{"),
    ],
)
def test_arguments_of_a_server_of_others_are_read_in_any_form(written: Any, params: Any, text: str | None) -> None:
    """As text, as the object itself, or not at all; without an id, a call has that of the answer and its place."""
    calls = [
        {"function": {"name": "math__add", "arguments": written}},
        {"id": "c2", "function": {"name": "math__add", "arguments": written}},
        {"custom": {"input": "x"}},
    ]
    first, second, third = _chat({"tool_calls": calls}, "tool_calls").tool_calls

    assert [(one.id, one.name) for one in (first, second, third)] == [
        ("call_c_0", "math.add"),
        ("c2", "math.add"),
        ("call_c_2", ""),
    ]
    assert [(one.params, one.params_text) for one in (first, second)] == [(params, text)] * 2
    assert third.params == "x"


@every(
    ("reply", "kind"),
    [
        (
            {"status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "Slow."}},
            RateLimitError,
        ),
        (
            {"status": "failed", "output": [], "error": {"code": "server_error", "message": "Oh."}},
            InternalProviderError,
        ),
        ({"status": "failed", "output": [], "error": {"code": "bio_policy", "message": "No."}}, ContentPolicyError),
        ({"status": "failed", "output": []}, InternalProviderError),
        ({"error": {"code": 503, "message": "full"}}, InternalProviderError),
        ({"error": "down"}, InternalProviderError),
        ({"status": "queued", "output": []}, InvalidOutputError),
        ({"status": "completed"}, InvalidOutputError),
        ({}, InvalidOutputError),
    ],
)
def test_an_answer_that_is_none_is_a_typed_failure(reply: dict[str, Any], kind: type[Any]) -> None:
    """An error in an answer of status 200 has the reason that its code means."""
    with pytest.raises(openai.ReplyError) as raised:
        openai.read_reply(json.dumps(reply), _sent())

    assert isinstance(raised.value.reason, kind)


@every("text", ["", "{", "[]", "null", '{"choices": []}', '{"choices": [{}]}', b"\xff"])
def test_what_is_no_completion_is_a_typed_failure(text: str | bytes) -> None:
    """Whatever a server sends instead."""
    with pytest.raises(openai.ReplyError) as raised:
        openai.read_reply(text, _sent(api="chat"))

    assert isinstance(raised.value.reason, InvalidOutputError)


def test_a_failed_response_says_why_where_it_says_so() -> None:
    """In the words of the provider; without them, that there are none."""
    for error, said in (
        ({"code": "server_error", "message": "Oh."}, "Oh."),
        (None, "the response failed; the server states no reason"),
    ):
        with pytest.raises(openai.ReplyError, match=said):
            openai.read_reply({"status": "failed", "output": [], "error": error}, _sent())


def test_an_item_that_was_cut_says_so() -> None:
    """Of a text, of reasoning and of a call; a whole one says nothing, since that is what an item is."""
    thought = {"type": "reasoning", "id": "rs", "summary": [{"text": "A"}]}
    for item in (_said(_text("Hi.")), thought, _call("{}")):
        whole = _read({**item, "status": "completed"}).content[1]
        cut = _read({**item, "status": "incomplete"}).content[1]

        assert "status" not in whole.metadata["openai"]
        assert cut.metadata["openai"]["status"] == "incomplete"


@pytest.mark.parametrize("arguments", ["[1]", "{", "7", ""])
def test_arguments_that_a_server_wrote_as_no_object_stay_text(arguments: str) -> None:
    """A call of the provider's is shown as it was, whatever its arguments are."""
    item = {"type": "mcp_call", "id": "m", "server_label": "docs", "name": "find", "arguments": arguments}

    assert _read(item).tool_calls[0].params == {"name": "find", "arguments": arguments}


def test_what_failed_at_the_provider_says_so_by_its_status_alone() -> None:
    """Without an error of its own; and what is null of it is left out."""
    item = {"type": "web_search_call", "id": "w", "status": "failed", "action": {"type": "search"}, "error": None}
    read = _read(item)

    assert (read.tool_results[0].is_failure, read.tool_results[0].result) == (True, {"status": "failed"})
    assert read.tool_calls[0].name == "web_search"


def test_an_image_that_cannot_be_read_stays_in_its_result() -> None:
    """There is no file of it, and nothing is lost."""
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "no base64"}
    read = _read(item)

    assert read.files == ()
    assert read.tool_results[0].result == {"status": "completed", "result": "no base64"}


def test_a_shell_of_the_providers_that_was_cut_says_so() -> None:
    """The status of its call is kept, unless it is whole."""
    location = {"environment": {"type": "container_reference", "container_id": "k"}}
    item = {"type": "shell_call", "id": "s", "call_id": "c1", "action": {"commands": ["ls"]}, **location}

    cut, whole = (_read({**item, "status": status}).tool_calls[0] for status in ("incomplete", "completed"))

    assert (cut.metadata["openai"]["status"], "status" in whole.metadata["openai"]) == ("incomplete", False)
    assert cut.provider_executed
    assert whole.provider_executed


def test_reasoning_in_two_fields_is_one_part() -> None:
    """Servers that know both names write both."""
    assert _chat({"content": "Yes.", "reasoning": "Hm.", "reasoning_content": "Hm."}).reasoning_text == "Hm."


def test_a_sound_that_is_no_base64_is_a_typed_failure() -> None:
    """It is told as output that is invalid."""
    with pytest.raises(openai.ReplyError, match="audio is not base64"):
        _chat({"audio": {"id": "a", "data": "a"}})


def test_a_failure_can_be_pickled() -> None:
    """As every exception should be."""
    import pickle

    error = openai.ReplyError(RateLimitError("Slow."))

    assert pickle.loads(pickle.dumps(error)).reason == error.reason


def test_a_turn_that_says_nothing_is_a_finish() -> None:
    """No text, no calls: it stopped."""
    assert _read().content[-1] == Finish("stop")
    assert _read(_said()).content[1] == Text("", metadata={"openai": {"item": _said()}})
