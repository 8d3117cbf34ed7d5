"""What is read in a whole reply of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fxai.messages import (
    AiError,
    AuthenticationError,
    InternalProviderError,
    InvalidOutputError,
    Part,
    Prompt,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    Response,
    Source,
    Text,
    ToolCall,
    ToolMessage,
    ToolResultPart,
)
from fxai.models import ModelRequest
from fxai.providers.anthropic import PreparedRequest, parse_reply, prepare_request
from fxai.schema import JsonSchema
from fxai.tools import Tool
from tests.kit.anthropic_replies import ALL_BLOCKS, CITY, FOUND, MODEL, PAGE, RESULT, SENT, TOOLS, message
from tests.kit.every import every

NUMBERS = {"type": "array", "items": {"type": "integer"}}
OLD = "claude-sonnet-4-20250514"


def _parts(content: Sequence[Any], stop: str = "end_turn", sent: PreparedRequest = SENT, **more: Any) -> Response:
    return Response(parse_reply(json.dumps(message(content, stop, **more)).encode(), sent).unwrap())


def _failure(body: Any) -> AiError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_reply(data, SENT).failure()


def _asked(schema: Any, model: str = MODEL) -> PreparedRequest:
    request = ModelRequest(Prompt.make("Hi"), tuple(TOOLS[:1]), response_schema=JsonSchema.of(schema))
    return prepare_request(request, model=model)


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def _answer(value: Any, id_: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "answer", "input": value}


def test_a_reply_says_who_answered_and_what_it_took() -> None:
    """Id, model, tokens with the cached ones among the input, and why it ended, with what else the wire says."""
    reply = _parts([_text("Hi")], "stop_sequence", stop_sequence="END", container={"id": "c_1"})
    finish = reply.content[-1]

    assert (reply.id, reply.model, reply.text) == ("msg_1", "claude-sonnet-5-20260801", "Hi")
    assert (reply.usage.input_tokens, reply.usage.total_tokens, reply.usage.reasoning_tokens) == (15, 22, 4)
    assert finish.metadata["anthropic"]["stop_sequence"] == "END"
    assert finish.metadata["anthropic"]["usage"]["server_tool_use"] == {
        "web_search_requests": 2,
        "web_fetch_requests": 1,
    }
    assert finish.metadata["anthropic"]["container"] == {"id": "c_1"}


@pytest.mark.parametrize(("tier", "told"), [(None, {}), ("batch", {"usage": {"service_tier": "batch"}})])
def test_what_usage_says_beside_the_counts_is_kept_where_it_is_something(tier: Any, told: dict[str, Any]) -> None:
    """A field that is null says nothing."""
    (finish,) = [
        part for part in _parts([], usage={"output_tokens": 3, "service_tier": tier}).content if part.type == "finish"
    ]
    said: Any = finish.metadata.get("anthropic", {})

    assert {key: one for key, one in said.items() if key == "usage"} == told


def test_usage_that_is_not_said_stays_unknown() -> None:
    """Nothing is made up where a server leaves counts out."""
    reply = _parts([], usage={"output_tokens": 3, "input_tokens": None})

    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_input_tokens) == (None, 3, None)


def test_a_refusal_is_filtered_content() -> None:
    """What it is about stands in the metadata."""
    reply = _parts([], "refusal", stop_details={"type": "refusal", "category": "bio", "explanation": "No."})

    assert reply.finish_reason == "content-filter"
    assert reply.content[-1].metadata["anthropic"]["stop_details"]["category"] == "bio"


def test_a_reason_that_nobody_knows_is_another_one() -> None:
    """The API may add stop reasons; none at all is unknown."""
    assert _parts([], "tired").finish_reason == "other"
    assert _parts([_text("a")], stop_reason=None).finish_reason == "unknown"


def test_citations_become_sources_once_each() -> None:
    """A page by its URL, a document by its type and title in the request; the text keeps where they stand."""
    search = {"type": "search_result_location", "source": "https://example.org/s", "title": "S", "cited_text": "x"}
    untitled = {**PAGE, "document_title": None}
    reply = _parts([_text("a", citations=[FOUND, PAGE]), _text("b", citations=[FOUND, search, untitled])])

    assert reply.sources == (
        Source("source-0", None, "https://example.org/rain"),
        Source("source-1", "report.pdf", media_type="application/pdf"),
        Source("source-2", "S", "https://example.org/s"),
    )
    assert reply.content[1].metadata == {"anthropic": {"citations": [FOUND, PAGE]}}


def test_calls_are_led_back_to_our_names_and_parameters() -> None:
    """The name is the tool's own; what the strict form adds is gone; a toolset's call is one of its tool."""
    loose = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    tools: tuple[Any, ...] = (Tool.dynamic("a.b", parameters=loose), TOOLS[-1])
    sent = prepare_request(ModelRequest(Prompt.make("Hi"), tools), model=MODEL)
    call = {"type": "tool_use", "id": "t1", "name": "a__b", "input": {"city": "Oslo", "days": None}}
    click = {"type": "tool_use", "id": "t2", "name": "left_click", "input": {"x": 1}, "toolset_name": "computer"}
    reply = _parts([call, click], "tool_use", sent)

    assert reply.tool_calls == (
        ToolCall("t1", "a.b", {"city": "Oslo"}),
        ToolCall("t2", "computer", {"action": "left_click", "x": 1}),
    )
    assert reply.finish_reason == "tool-calls"


def test_results_of_a_paused_turn_find_their_tool() -> None:
    """The call was in an earlier reply: the result's type names the tool, by the name that it has here."""
    reply = _parts([block for block in ALL_BLOCKS if block["type"].endswith("_tool_result")])

    assert [part.name for part in reply.content if part.type == "tool-result"] == [
        *("look_up", "run_code", "run_code", "web_fetch", "find_tool", "look_up", "run_code"),
    ]


def test_a_failed_search_is_a_failure() -> None:
    """Results that the provider marks as errors are failures of provider-run tools."""
    reply = _parts(ALL_BLOCKS)
    failed = {part.id: part.is_failure for part in reply.content if part.type == "tool-result"}

    assert failed["srvtoolu_6"] is True
    assert failed["srvtoolu_1"] is False
    assert all(part.provider_executed for part in reply.content if part.type == "tool-result")


def test_calls_of_an_mcp_server_are_provider_run() -> None:
    """They keep the server's name, and their results whether they are errors."""
    call = {"type": "mcp_tool_use", "id": "m1", "name": "echo", "server_name": "s", "input": {"x": 1}}
    result = {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [_text("no")]}
    reply = _parts([call, result])
    sent = prepare_request(ModelRequest(Prompt.make("Hi").concat(Prompt.from_parts(reply.content))), model=MODEL)

    assert [(part.name, part.provider_executed) for part in reply.tool_calls] == [("echo", True)]
    assert [(part.name, part.is_failure) for part in reply.content if part.type == "tool-result"] == [("echo", True)]
    assert sent.body["messages"][1]["content"] == [call, result]


def test_a_block_that_nobody_knows_goes_back_as_it_came() -> None:
    """The API may add kinds of blocks: one is an empty text that holds it, through JSON and back to the wire."""
    block = {"type": "compaction", "content": "So far so good.", "encrypted_content": "E"}
    reply = _parts([block, _text("Hi")])
    known = Prompt.from_json(Prompt.make("Hi").concat(Prompt.from_parts(reply.content)).to_json()).unwrap()

    assert reply.text == "Hi"
    assert prepare_request(ModelRequest(known), model=MODEL).body["messages"][1]["content"][0] == block


def test_a_program_that_waits_names_its_container() -> None:
    """The next request has to name it, and only the next: it goes through the history."""
    call = {**ALL_BLOCKS[-2], "caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    reply = _parts([call], "tool_use", container={"id": "c_1", "expires_at": "2026-01-01T00:00:00Z"})
    asked = Prompt.make("Hi").concat(Prompt.from_parts(reply.content))
    answered = asked.append(ToolMessage.make(ToolResultPart("toolu_1", "weather.now", "21")))
    later = answered.concat(Prompt.from_parts([Text("Done.")])).concat("And?")
    direct = _parts([ALL_BLOCKS[-1]], "tool_use", container={"id": "c_1"})

    assert prepare_request(ModelRequest(answered), model=MODEL).body["container"] == "c_1"
    assert "container" not in prepare_request(ModelRequest(later), model=MODEL).body
    assert [part.type for part in direct.content] == ["response-metadata", "tool-call", "finish"]


def test_a_container_is_named_while_its_program_waits_alone() -> None:
    """Once the model has gone on, or where no container is said, the next request names none."""
    call = {**ALL_BLOCKS[-2], "caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    direct = {**ALL_BLOCKS[-2], "id": "toolu_2", "caller": {"type": "direct"}}
    result = ToolMessage.make(ToolResultPart("toolu_1", "weather.now", "21"))
    waiting = _parts([call, direct], "tool_use", container={"id": "c_1"})
    paused = Prompt.make("Hi").concat(Prompt.from_parts(waiting.content))
    both = paused.append(result, ToolMessage.make(ToolResultPart("toolu_2", "weather.now", "22")))
    later = both.concat(Prompt.from_parts(_parts([_text("Done.")]).content))
    nowhere = _parts([call], "tool_use", container={"expires_at": "2026-01-01T00:00:00Z"})

    assert [part.type for part in waiting.content] == ["response-metadata", "tool-call", "tool-call", "text", "finish"]
    assert [one.metadata["anthropic"]["caller"]["type"] for one in waiting.tool_calls] == [
        "code_execution_20260120",
        "direct",
    ]
    assert prepare_request(ModelRequest(both), model=MODEL).body["container"] == "c_1"
    assert "container" not in prepare_request(ModelRequest(later), model=MODEL).body
    assert [part.type for part in nowhere.content] == ["response-metadata", "tool-call", "finish"]


@every(
    ("cited", "expected"),
    [
        ({"document_index": 0}, Source("source-0", "report.pdf", media_type="application/pdf")),
        ({"document_index": 1}, Source("source-0", None, media_type="application/octet-stream")),
        ({"document_index": -1}, Source("source-0", None, media_type="application/octet-stream")),
        ({"document_index": 0, "document_title": "T"}, Source("source-0", "T", media_type="application/pdf")),
        ({"document_index": 9, "document_title": "T"}, Source("source-0", "T", media_type="application/octet-stream")),
        ({"url": "https://a", "title": "A"}, Source("source-0", "A", "https://a")),
        ({"source": "https://b", "title": "B"}, Source("source-0", "B", "https://b")),
        ({"document_index": "0"}, None),
        ({}, None),
        ("page 1", None),
    ],
)
def test_what_is_cited_is_a_source(cited: Any, expected: Source | None) -> None:
    """By its address, or by its place among the documents of the request; what names neither is none."""
    reply = _parts([_text("So.", citations=[cited, cited])])

    assert list(reply.sources) == ([] if expected is None else [expected])
    assert reply.content[1].metadata == {"anthropic": {"citations": [cited, cited]}}


def test_what_names_no_source_hides_none_behind_it() -> None:
    """A citation of a kind that nobody knows is passed over, and the next one counts."""
    cited = [{"type": "invented"}, {"url": "https://a", "title": "A"}]

    assert _parts([{**_text("Hi"), "citations": cited}]).sources == (Source("source-0", "A", "https://a"),)


def test_sources_are_told_once_and_numbered() -> None:
    """The same document twice is one, another page of it is too; another document of that title is not."""
    pages = [{"document_index": 0, "start_page_number": 1}, {"document_index": 0, "start_page_number": 2}]
    others = [{"document_index": 1, "document_title": "report.pdf"}, {"url": "https://a"}, {"url": "https://a"}]
    reply = _parts([_text("One.", citations=pages), _text("Two.", citations=[*others, pages[0]])])

    assert [(one.id, one.title, one.url) for one in reply.sources] == [
        ("source-0", "report.pdf", None),
        ("source-1", "report.pdf", None),
        ("source-2", None, "https://a"),
    ]


@every(
    ("kind", "name"),
    [
        ("web_search_tool_result", "look_up"),
        ("bash_code_execution_tool_result", "run_code"),
        ("code_execution_tool_result", "run_code"),
        ("tool_search_tool_result", "find_tool"),
        ("web_fetch_tool_result", "web_fetch"),
        ("mcp_tool_result", "mcp"),
    ],
)
def test_a_result_whose_call_was_in_another_turn_is_named_by_its_type(kind: str, name: str) -> None:
    """The tool has the name that it has here; one that is not among the tools has the wire's."""
    block: dict[str, Any] = {"type": kind, "tool_use_id": "srvtoolu_9", "content": []}
    (result,) = _parts([block]).tool_results

    assert (result.id, result.name, result.is_failure, result.provider_executed) == ("srvtoolu_9", name, False, True)


@every(
    ("more", "failed"),
    [
        ({"is_error": True}, True),
        ({"is_error": False}, False),
        ({"is_error": 1}, False),
        ({"content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}, True),
        ({"content": {"type": "web_search_result"}}, False),
        ({"content": {"type": 5}}, False),
        ({"content": "error"}, False),
    ],
)
def test_a_result_of_a_tool_of_the_provider_says_whether_it_failed(more: dict[str, Any], failed: bool) -> None:
    """By its flag, or by the type of its content; the flag stays as it came."""
    (result,) = _parts([{"type": "web_search_tool_result", "tool_use_id": "s", "content": [], **more}]).tool_results

    assert result.is_failure is failed
    assert ("is_error" in result.metadata["anthropic"]) == ("is_error" in more)


def test_an_answer_is_led_back_to_its_schema() -> None:
    """What the strict form adds is gone; a text that is its own form stays as the model wrote it."""
    loose = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    closed = {**loose, "required": ["a", "b"], "additionalProperties": False}

    assert _parts([_text('{"a": 1, "b": null}')], sent=_asked(loose)).text == '{"a":1}'
    assert _parts([_text('{"a": 1,  "b": "x"}')], sent=_asked(closed)).text == '{"a": 1,  "b": "x"}'
    assert _parts([_text('{"value": [1]}')], sent=_asked(NUMBERS)).text == "[1]"
    assert _parts([_text("I will not.")], sent=_asked(NUMBERS)).text == "I will not."


def test_an_answer_by_a_tool_is_a_text() -> None:
    """Its call is no call, and the turn is done; with a call of ours beside it, it waits for that."""
    sent = _asked(CITY, OLD)
    alone = _parts([_answer({"city": "Oslo"})], "tool_use", sent)
    beside = _parts([_answer({"city": "Oslo"}), ALL_BLOCKS[-2]], "tool_use", sent)
    member = _parts([_answer({"value": [1, 2]})], "tool_use", _asked(NUMBERS, OLD))

    assert (alone.text, alone.tool_calls, alone.finish_reason) == ('{"city":"Oslo"}', (), "stop")
    assert (len(beside.tool_calls), beside.finish_reason) == (1, "tool-calls")
    assert member.text == "[1,2]"


def test_what_was_not_done_is_told_with_the_reply() -> None:
    """The warnings of the request come first."""
    sent = prepare_request(ModelRequest(Prompt.make("Hi"), temperature=1), model=MODEL)
    kinds: list[str] = [part.type for part in _parts([], sent=sent).content]

    assert kinds == ["warning", "response-metadata", "finish"]


@every(
    ("kind", "reason"),
    [
        ("rate_limit_error", RateLimitError),
        ("authentication_error", AuthenticationError),
        ("billing_error", QuotaExhaustedError),
        ("overloaded_error", InternalProviderError),
        ("a_new_error", InternalProviderError),
    ],
)
def test_an_error_in_place_of_a_message_is_that_error(kind: str, reason: type[Reason]) -> None:
    """Proxies answer 200 with an error inside: its type says which, and its words are kept."""
    error = _failure({"type": "error", "error": {"type": kind, "message": "too bad"}})

    assert isinstance(error.reason, reason)
    assert "too bad" in error.message


@every(
    ("body", "pointer"),
    [
        (b"<html>", ""),
        (b'{"content": "\xff"}', ""),
        (b"[" * 100_000 + b"]" * 100_000, ""),
        ([], ""),
        ({"type": "message"}, "/content"),
        (message([{"type": "text"}]), "/content/0/text"),
        (message([5]), "/content/0/type"),
        (message([_text("a"), {"type": "server_tool_use", "name": "x", "input": {}}]), "/content/1/id"),
        (message([{"type": "web_search_tool_result", "content": [RESULT]}]), "/content/0/tool_use_id"),
    ],
)
def test_what_is_no_message_is_told_with_its_place(body: Any, pointer: str) -> None:
    """The failure says where in the reply, and what belongs there."""
    error = _failure(body)

    assert isinstance(error.reason, InvalidOutputError)
    assert (error.module, error.method, error.reason.pointer) == ("anthropic", "ask", pointer)


def test_every_part_of_a_reply_is_plain() -> None:
    """Parts survive JSON."""
    parts: tuple[Part, ...] = _parts(ALL_BLOCKS, "tool_use").content

    assert Response.from_json(Response(parts).to_json()).unwrap().content == parts
