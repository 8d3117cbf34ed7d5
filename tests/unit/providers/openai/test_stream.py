"""Streams of OpenAI: from events to parts, whatever order they come in and wherever they end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fxai.messages import (
    ContentPolicyError,
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    NetworkError,
    Prompt,
    QuotaExhaustedError,
    RateLimitError,
    Response,
    StreamPart,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.http.reply import failure_of
from fxai.providers.openai import Api
from fxai.providers.openai.chat_reply import ChatReader
from fxai.providers.openai.reply import ResponsesReader
from fxai.schema import JsonSchema
from fxai.tools import Tool
from tests.kit.every import every

add = Tool.dynamic("math.add", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
NUMBERS = JsonSchema.of({"type": "array", "items": {"type": "integer"}})


def _sent(*tools: Any, api: Api = "responses", model: str = "gpt-6-luna", **given: Any) -> openai.WireRequest:
    return openai.prepare_request(ModelRequest(Prompt.make("Hi"), tools, **given), model=model, api=api)


def _all(reader: ResponsesReader | ChatReader, *events: Any) -> list[StreamPart]:
    parts: list[StreamPart] = []
    for event in events:
        parts.extend(reader.read("message", event if isinstance(event, str) else json.dumps(event)))
    return parts


def _responses(*events: Any, sent: openai.WireRequest | None = None) -> list[StreamPart]:
    return _all(ResponsesReader(sent or _sent(add)), *events)


def _chat(*deltas: dict[str, Any], reason: str = "stop", sent: openai.WireRequest | None = None) -> list[StreamPart]:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    last: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return _all(ChatReader(sent or _sent(add, api="chat")), *chunks, last, "[DONE]")


def _added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def _delta(index: int, delta: str) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}


def _says(delta: str, index: int = 0, **other: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": delta, **other}


def _completed(*output: dict[str, Any], kind: str = "completed", **other: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "r", "status": kind, "output": list(output), **other}}


def _call(id_: str, arguments: str = "") -> dict[str, Any]:
    return {"type": "function_call", "id": f"f{id_}", "call_id": id_, "name": "math__add", "arguments": arguments}


# -- Responses


def test_events_without_indexes_go_by_their_ids() -> None:
    """Servers of others leave the index out, or the id too: then a piece is of the item that was told of last."""
    item = {"type": "message", "id": "m1"}
    other = {"type": "message", "id": "m2"}
    bare = {"type": "response.output_text.delta", "content_index": 0}
    by_id = _responses(
        {"type": "response.output_item.added", "item": item},
        {"type": "response.output_item.added", "item": other},
        {**bare, "item_id": "m1", "delta": "On"},
        {**bare, "item_id": "m2", "delta": "tw"},
        {**bare, "delta": "o"},
        {**bare, "item_id": "m1", "delta": "e"},
        _completed(
            {**item, "content": [{"type": "output_text", "text": "One"}]},
            {**other, "content": [{"type": "output_text", "text": "two"}]},
        ),
    )
    nowhere = _responses({**bare, "delta": "Al"}, {**bare, "delta": "one"}, _says("!", 0), _completed())

    assert [part.text for part in Response.from_stream(by_id).content if part.type == "text"] == ["One", "two"]
    assert [part.text for part in Response.from_stream(nowhere).content if part.type == "text"] == ["Alone!"]


def test_streamed_thoughts_are_those_of_the_whole_item() -> None:
    """Each summary and each text with its metadata, what is encrypted with the last; all end where their item does."""
    lines: list[Any] = [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}]
    aloud = {"type": "reasoning_text", "text": "Aloud."}
    item = {"type": "reasoning", "id": "rs", "summary": lines, "content": [aloud], "encrypted_content": "E"}
    hidden: dict[str, Any] = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "H"}
    about = {"output_index": 0, "item_id": "rs"}
    delta = {"type": "response.reasoning_summary_text.delta", **about}
    parts = _responses(
        _added(0, type="reasoning", id="rs", summary=[]),
        {**delta, "summary_index": 0, "delta": "Fir"},
        {**delta, "summary_index": 0, "delta": "st."},
        {**delta, "summary_index": 1, "delta": "Sec"},
        _done(0, **item),
        _added(1, **{**hidden, "encrypted_content": None}),
        _done(1, **hidden),
        _completed(item, hidden),
    )
    sent = _sent(add)
    whole = openai.read_reply({"id": "r", "status": "completed", "output": [item, hidden]}, sent)
    streamed = [part for part in Response.from_stream(parts).content if part.type == "reasoning"]

    assert streamed == [part for part in whole if part.type == "reasoning"]
    assert [part.metadata["openai"].get("encrypted_content") for part in streamed] == [None, None, "E", "H"]


@every(
    ("code", "kind"),
    [
        ("server_error", InternalProviderError),
        ("rate_limit_exceeded", RateLimitError),
        ("insufficient_quota", QuotaExhaustedError),
        ("overloaded", InternalProviderError),
        ("cyber_policy", ContentPolicyError),
        ("image_policy_violation", ContentPolicyError),
        ("invalid_prompt", InvalidRequestError),
        ("never_heard_of_it", InvalidRequestError),
        (None, InternalProviderError),
        ("error", InternalProviderError),
        (400, InvalidRequestError),
        (429, RateLimitError),
        (200, InternalProviderError),
    ],
)
def test_an_error_goes_by_its_code(code: Any, kind: type[Any]) -> None:
    """Or by its type, or by the status that servers of others write there."""
    error = {"message": "Oh.", "param": "input"}
    reason = failure_of({**error, "code": code}).reason

    assert isinstance(reason, kind)
    assert getattr(reason, "status", 500) == (503 if code == "overloaded" else 500)
    assert isinstance(failure_of({**error, "type": code}).reason, kind)


def test_interleaved_calls_do_not_mix() -> None:
    """Each delta belongs to its call by the index, whatever comes between."""
    parts = _responses(
        _added(0, **_call("c1")),
        _added(1, **_call("c2")),
        _delta(1, '{"a"'),
        _delta(0, "{"),
        _delta(1, ":2}"),
        _delta(0, '"a":1}'),
        _done(1, **_call("c2", '{"a":2}')),
        _done(0, **_call("c1", '{"a":1}')),
        _completed(),
    )
    response = Response.from_stream(parts)

    assert [(call.id, call.params) for call in response.tool_calls] == [("c1", {"a": 1}), ("c2", {"a": 2})]
    assert [part.delta for part in parts if part.type == "tool-params-delta" and part.id == "c2"] == ['{"a"', ":2}"]
    assert response.finish_reason == "tool-calls"


def test_events_without_an_index_belong_by_the_id_of_their_item() -> None:
    """A server that counts nothing still says which item it means."""
    about = {"item_id": "fc1"}
    events = (
        {"type": "response.output_item.added", "item": _call("c1")},
        {"type": "response.output_item.added", "item": _call("c2")},
        {"type": "response.function_call_arguments.delta", **about, "delta": '{"a":1}'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc2", "delta": '{"a":2}'},
    )
    response = Response.from_stream(_responses(*events, _completed(_call("c1", '{"a":1}'), _call("c2", '{"a":2}'))))

    assert [(call.id, call.params) for call in response.tool_calls] == [("c1", {"a": 1}), ("c2", {"a": 2})]


def test_an_item_that_is_told_only_when_it_is_whole_is_given_whole() -> None:
    """A server may send no pieces at all: the completed response holds everything."""
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi."}]}
    parts = _responses(_completed(said, _call("c1", "{}")))

    assert [part.type for part in parts] == [
        *("response-metadata", "text-start", "text-delta", "text-end"),
        *("tool-params-start", "tool-params-delta", "tool-params-end", "tool-call", "finish"),
    ]
    assert parts[4:7] == [
        ToolParamsStart("c1", "math.add", dynamic=True),
        ToolParamsDelta("c1", "{}"),
        ToolParamsEnd("c1"),
    ]
    assert ToolParamsDelta("c2", '{"a') in _responses(_completed(_call("c2", '{"a')))


def test_a_held_answer_that_is_told_only_when_it_is_whole_is_given_whole() -> None:
    """A text has a start and an end, whatever came of it before."""
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": '{"value": [1]}'}]}
    parts = _responses(_completed(said), sent=_sent(response_schema=NUMBERS))

    assert [part.type for part in parts][1:] == ["text-start", "text-delta", "text-end", "finish"]


def test_a_block_begins_as_soon_as_it_is_told_of() -> None:
    """Reasoning with its item, a text with its place in it; of what is neither, nothing is shown."""
    location = {"type": "response.content_part.added", "output_index": 1, "content_index": 0}
    thought = _responses(_added(0, type="reasoning", id="rs", summary=[]))
    texts = [_responses({**location, "part": {"type": kind}}) for kind in ("output_text", "refusal", "invented")]

    assert [part.type for part in thought] == ["reasoning-start"]
    assert [[part.type for part in parts] for parts in texts] == [["text-start"], ["text-start"], []]


def test_a_source_is_given_once() -> None:
    """When it is told of, or with the whole text; its id is that of the item, its text and its number in it."""
    page = {"type": "url_citation", "title": "There", "url": "https://e.org"}
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi.", "annotations": [page]}]}
    event = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": page}
    location = {"content_index": 0, "annotation_index": 0}
    early = _responses({**event, **location, "item_id": "m"}, _done(0, **said), _completed(said))
    late = _responses(_says("Hi."), _done(0, **said), _completed(said))

    for parts in (early, late):
        assert [(part.id, part.url) for part in parts if part.type == "source"] == [("m:0:0", "https://e.org")]


def test_a_piece_of_arguments_that_is_empty_or_no_text_is_passed_over() -> None:
    """Nothing of it is shown, and the call is what it is when it is whole."""
    bad: list[Any] = [_delta(0, ""), {**_delta(0, ""), "delta": None}, {**_delta(0, ""), "delta": {"a": 1}}]
    parts = _responses(_added(0, **_call("c1")), *bad, _done(0, **_call("c1", '{"a":1}')))

    assert [part.delta for part in parts if part.type == "tool-params-delta"] == ['{"a":1}']


def test_all_reasoning_that_was_begun_ends_with_its_item() -> None:
    """Also what the whole item does not list."""
    delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
    pieces = [{**delta, "summary_index": n, "delta": f"{n}"} for n in range(2)]
    item = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "0"}]}
    parts = _responses(_added(0, type="reasoning", id="rs", summary=[]), *pieces, _done(0, **item))

    assert [part.id for part in parts if part.type == "reasoning-end"] == ["0:0", "0:1"]


def test_an_item_that_is_never_told_whole_is_what_came_of_it() -> None:
    """A server may send pieces alone, and then only that it is done."""
    events = (
        _says("Hel"),
        _says("lo"),
        _added(1, **_call("c1")),
        _delta(1, '{"a":1}'),
        _added(2, type="reasoning", id="rs"),
        {"type": "response.reasoning_text.delta", "output_index": 2, "content_index": 0, "delta": "Hm."},
    )
    response = Response.from_stream(_responses(*events, _completed()))

    assert response.text == "Hello"
    assert response.tool_calls[0].params == {"a": 1}
    assert response.reasoning_text == "Hm."
    assert [part.metadata for part in response.content if part.type == "reasoning"] == [
        {"openai": {"id": "rs", "kind": "content"}}
    ]
    assert [part.type for part in _responses(*events, _completed()) if part.type.endswith("-end")] == [
        *("text-end", "tool-params-end", "reasoning-end"),
    ]


def test_what_was_given_is_not_given_again() -> None:
    """The whole item repeats its pieces, and the whole response its items; only what is missing follows."""
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]}
    parts = _responses(_added(0, type="message", id="m", content=[]), _says("Hel"), _done(0, **said), _completed(said))

    assert [part.delta for part in parts if part.type == "text-delta"] == ["Hel", "lo"]
    assert [part.type for part in parts].count("text-end") == 1


def test_unknown_events_say_nothing() -> None:
    """Events of a later version are passed over, and so is what is behind the end."""
    assert _responses({"type": "response.invented", "output_index": 7}, {"type": "keepalive"}, {}) == []
    assert _responses(_completed(), _says("late"), "[DONE]")[-1].type == "finish"


@every(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow."}, RateLimitError),
        ({"type": "error", "error": {"code": "server_error", "message": "Oh."}}, InternalProviderError),
        (_completed(kind="failed", error={"code": "server_error", "message": "Oh."}), InternalProviderError),
        ({"error": {"message": "Oh.", "code": 500}}, InternalProviderError),
        ("{", InvalidOutputError),
        ("[]", InvalidOutputError),
    ],
)
def test_an_error_in_a_stream_is_a_typed_failure(event: Any, kind: type[Any]) -> None:
    """What came before it stands."""
    reader = ResponsesReader(_sent())
    before = _all(reader, _says("Hi"))

    with pytest.raises(openai.ReplyError) as raised:
        _all(reader, event)
    assert isinstance(raised.value.reason, kind)
    assert Response.from_stream(before).text == "Hi"


def test_a_cut_stream_is_a_typed_failure_that_can_be_tried_again() -> None:
    """The call that was cut is kept as one that cannot be run."""
    reader = ResponsesReader(_sent(add))
    parts = _all(reader, _says("Hi"), _added(1, **_call("c1")), _delta(1, '{"a":'))

    with pytest.raises(openai.ReplyError) as raised:
        reader.end()
    call = Response.from_stream(parts).tool_calls[0]
    assert isinstance(raised.value.reason, NetworkError)
    assert raised.value.reason.is_retryable
    assert (call.name, call.params_text) == ("math.add", '{"a":')


def test_an_incomplete_response_ends_with_its_reason() -> None:
    """A call that the limit cut is one that cannot be run."""
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    events = (
        _added(0, **_call("c1")),
        _delta(0, '{"a"'),
        _completed(_call("c1", '{"a"'), kind="incomplete", **details),
    )
    response = Response.from_stream(_responses(*events))

    assert response.finish_reason == "length"
    assert response.tool_calls[0].params_text == '{"a"'


def test_an_answer_by_a_schema_is_shown_when_it_is_whole() -> None:
    """A piece of the wrapper is not a piece of the answer. An unchanged schema shows its pieces immediately."""
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": '{"value": [1]}'}]}
    plain = JsonSchema.of(
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False}
    )
    held = _responses(_says('{"val'), _says('ue": [1]}'), _done(0, **said), sent=_sent(response_schema=NUMBERS))
    shown = _responses(_says('{"a"'), sent=_sent(response_schema=plain))

    assert [part.delta for part in held if part.type == "text-delta"] == ["[1]"]
    assert [part.type for part in held] == ["text-start", "text-delta", "text-end"]
    assert [part.delta for part in shown if part.type == "text-delta"] == ['{"a"']


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_answer_in_another_form_is_converted_while_it_arrives(api: Api) -> None:
    """The strict form wraps the list and states null for an absent property. The pieces are of the list itself."""
    element = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    schema = JsonSchema.of({"type": "array", "items": element})
    pieces = ['{"value": [{"a": 1, "b"', ': null}, {"a"', ': 2, "b": "tw', 'o"}', "]}"]
    sent = _sent(api=api, response_schema=schema)
    text = {"type": "output_text", "text": "".join(pieces)}
    if api == "chat":
        parts = _chat(*[{"content": piece} for piece in pieces], sent=sent)
    else:
        done = _done(0, type="message", id="m", content=[text])
        parts = _responses(*map(_says, pieces), done, _completed(), sent=sent)
    deltas = [part.delta for part in parts if part.type == "text-delta"]

    assert deltas == ['[{"a":1', "},{", '"a":2,"b":"tw', 'o"}', "]"]
    assert Response.from_stream(parts).text == '[{"a":1},{"a":2,"b":"two"}]'


def test_a_refusal_in_place_of_an_answer_by_a_schema_is_given_once() -> None:
    """It is no answer, so it is shown as it comes."""
    said = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]}
    delta = {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No"}
    parts = _responses(delta, _done(0, **said), _completed(), sent=_sent(response_schema=NUMBERS))

    assert [part.delta for part in parts if part.type == "text-delta"] == ["No", "."]
    assert Response.from_stream(parts).finish_reason == "content-filter"


def test_what_a_server_says_of_itself_at_the_end_is_not_lost() -> None:
    """Some say the model and the time only when they are done."""
    begun = {"type": "response.created", "response": {"id": "r"}}
    response = Response.from_stream(_responses(begun, _completed(model="m", created_at=0)))

    assert (response.id, response.model) == ("r", "m")
    assert response.timestamp is not None


def test_an_answer_by_a_tool_that_is_never_told_whole_is_what_came_of_it() -> None:
    """It is the text of the answer, not a call."""
    sent = _sent(model="gpt-audio", response_schema=NUMBERS)
    item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "final_answer", "arguments": ""}
    response = Response.from_stream(_responses(_added(0, **item), _delta(0, '{"value": [1]}'), _completed(), sent=sent))

    assert (response.text, response.tool_calls) == ("[1]", ())


def test_the_name_of_an_event_says_what_it_is_where_its_data_do_not() -> None:
    """Servers of others write the type in one of the two places."""
    reader = ResponsesReader(_sent())
    parts = list(reader.read("response.output_text.delta", json.dumps({"output_index": 0, "delta": "Hi."})))

    assert [part.delta for part in parts if part.type == "text-delta"] == ["Hi."]


def test_an_image_in_the_making_is_a_preliminary_result() -> None:
    """It is dropped from the whole response."""
    partial = {"partial_image_index": 0, "partial_image_b64": "aGk=", "output_format": "png"}
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "aGk="}
    parts = _responses(
        _added(0, type="image_generation_call", id="ig"),
        {"type": "response.image_generation_call.partial_image", "output_index": 0, "item_id": "ig", **partial},
        _done(0, **item),
    )
    early = [part for part in parts if part.type == "tool-result" and part.preliminary]

    assert early[0].result == {"partial_image": {"index": 0, "data": "aGk=", "media_type": "image/png"}}
    assert [part.type for part in Response.from_stream(parts).content] == ["tool-call", "file", "tool-result"]


def test_the_input_of_a_custom_call_is_streamed_as_json() -> None:
    """As everything is that a stream gives of parameters."""
    item = {"type": "custom_tool_call", "id": "x", "call_id": "c", "name": "sql"}
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0}
    events = (
        _added(0, **item, input=""),
        {**delta, "delta": 'a"'},
        {**delta, "delta": "\n"},
        _done(0, **item, input='a"\n'),
    )
    parts = _responses(*events, sent=_sent(openai.custom("sql")))
    written = "".join(part.delta for part in parts if part.type == "tool-params-delta")
    chat = _chat(
        {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": 'a"'}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "\n"}}]},
        sent=_sent(openai.custom("sql"), api="chat"),
    )

    assert msgspec.json.decode(written) == 'a"\n'
    assert msgspec.json.decode("".join(part.delta for part in chat if part.type == "tool-params-delta")) == 'a"\n'
    assert Response.from_stream(chat).tool_calls[0].params == 'a"\n'


# -- Chat Completions


def _piece(index: int | None, text: str = "", **other: Any) -> dict[str, Any]:
    function = {"arguments": text, **({"name": other.pop("name")} if "name" in other else {})}
    location = {} if index is None else {"index": index}
    return {"tool_calls": [{**location, "function": function, **other}]}


def test_interleaved_calls_of_a_completion_do_not_mix() -> None:
    """Each piece belongs to its call by the index."""
    parts = _chat(
        _piece(0, id="c1", name="math__add"),
        _piece(1, id="c2", name="math__add"),
        _piece(1, '{"a"'),
        _piece(0, '{"a":1}'),
        _piece(1, ":2}"),
        reason="tool_calls",
    )

    response = Response.from_stream(parts)
    assert [(call.id, call.params, call.dynamic) for call in response.tool_calls] == [
        ("c1", {"a": 1}, True),
        ("c2", {"a": 2}, True),
    ]


def test_a_new_id_at_a_known_index_is_another_call() -> None:
    """Some servers give every call the index 0, others none at all; the id tells them apart."""
    for index in (0, None):
        parts = _chat(
            _piece(index, "{}", id="c1", name="math__add"),
            _piece(index, '{"a":', id="c2", name="math__add"),
            _piece(index, "2}"),
        )
        calls = Response.from_stream(parts).tool_calls
        assert [(call.id, call.params) for call in calls] == [("c1", {}), ("c2", {"a": 2})]


def test_a_call_without_an_id_has_one_of_ours() -> None:
    """So that a result can refer to it; a name that comes late starts it late."""
    parts = _chat(_piece(0, '{"a"'), _piece(0, ":1}", name="math__add"))

    assert [part.type for part in parts][1:4] == ["tool-params-start", "tool-params-delta", "tool-params-end"]
    assert Response.from_stream(parts).tool_calls[0].id == "call_0"


def test_of_several_answers_the_first_one_is_read() -> None:
    """Their chunks come mixed, and a server may say who answers only after its filter has spoken."""
    chunks: list[Any] = [
        {"id": "", "model": "", "choices": [], "prompt_filter_results": []},
        *({"id": "c", "model": "m", "choices": [{"index": at, "delta": {"content": f"{at}"}}]} for at in (1, 0, 1)),
        {"choices": [{"index": at, "delta": {"content": f"{at}"}} for at in (1, 0)]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    response = Response.from_stream(_all(ChatReader(_sent(api="chat")), *chunks, "[DONE]"))

    assert (response.text, response.finish_reason, response.model) == ("00", "stop", "m")


def test_reasoning_ends_where_the_answer_begins() -> None:
    """And is one part of the response."""
    parts = _chat({"reasoning_content": "H"}, {"reasoning_content": "m."}, {"content": "Yes."})

    assert [part.type for part in parts] == [
        *("response-metadata", "reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-end", "finish"),
    ]
    assert Response.from_stream(parts).reasoning_text == "Hm."


def test_reasoning_ends_where_a_call_begins_and_where_the_turn_does() -> None:
    """Each time before what follows; a server that says it in two fields says it once."""
    call = _chat({"reasoning": "Hm."}, _piece(0, "{}", id="c1", name="math__add"))
    alone = _chat({"reasoning": "Hm.", "reasoning_content": "Hm."})

    assert [part.type for part in call][1:5] == [
        *("reasoning-start", "reasoning-delta", "reasoning-end", "tool-params-start"),
    ]
    assert [part.type for part in alone][1:] == ["reasoning-start", "reasoning-delta", "reasoning-end", "finish"]


def test_what_is_empty_in_a_piece_says_nothing() -> None:
    """Servers write every field into each piece: an empty text or refusal begins none, and no text is none."""
    empty: dict[str, Any] = {"content": "", "refusal": "", "reasoning_content": "", "tool_calls": []}
    odd = {"content": ["x"], "refusal": ["x"]}
    parts = _chat(empty, odd, {**_piece(0, "{}", id="c1", name="math__add"), "content": ""})

    assert [part.type for part in parts] == [
        *("response-metadata", "tool-params-start", "tool-params-delta", "tool-params-end", "tool-call", "finish"),
    ]


def test_pieces_of_one_call_may_repeat_its_id_or_leave_its_index_out() -> None:
    """They are of one call all the same, also where only the later ones have the index 0."""
    about = {"id": "c1", "name": "math__add"}
    repeated = _chat(_piece(0, '{"a"', **about), _piece(0, ":1}", **about))
    bare = _chat(_piece(None, '{"a"', name="math__add"), _piece(0, ":1}"))

    for parts in (repeated, bare):
        assert [call.params for call in Response.from_stream(parts).tool_calls] == [{"a": 1}]


def test_a_call_beside_an_answer_by_a_tool_is_a_call() -> None:
    """Only the tool that stands for the answer is the answer."""
    sent = _sent(add, api="chat", model="gpt-audio", response_schema=NUMBERS)
    parts = _chat(_piece(0, '{"a": 1}', id="c1", name="math__add"), reason="tool_calls", sent=sent)
    response = Response.from_stream(parts)

    assert [(call.name, call.params) for call in response.tool_calls] == [("math.add", {"a": 1})]
    assert (response.text, response.finish_reason) == ("", "tool-calls")


def test_sources_of_a_completion_are_counted() -> None:
    """Each has an id of its own, across all pieces."""
    cited = [{"type": "url_citation", "url_citation": {"url": f"https://e.org/{n}", "title": "T"}} for n in range(3)]
    parts = _chat({"content": "Hi.", "annotations": cited[:2]}, {"annotations": cited[2:]})

    assert [(one.id, one.url) for one in Response.from_stream(parts).sources] == [
        (f"source:{n}", f"https://e.org/{n}") for n in range(3)
    ]


def test_behind_its_end_a_completion_says_nothing() -> None:
    """Whatever a server still sends."""
    reader = ChatReader(_sent(api="chat"))
    _all(reader, {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}, "[DONE]")

    assert reader.read("message", "[DONE]") == reader.read("message", "no JSON") == []


def test_a_completion_may_end_without_saying_done() -> None:
    """Where it said why it finished, it is whole; otherwise it was cut."""
    reader = ChatReader(_sent(api="chat"))
    parts = _all(reader, {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    cut = ChatReader(_sent(api="chat"))
    _all(cut, {"choices": [{"delta": {"content": "Hi"}}]})

    assert Response.from_stream([*parts, *reader.end()]).finish_reason == "stop"
    assert reader.end() == []
    with pytest.raises(openai.ReplyError, match="the stream ended before the model finished"):
        cut.end()


def test_an_error_in_a_chunk_is_a_typed_failure() -> None:
    """Servers write it into the stream once the status is sent."""
    reader = ChatReader(_sent(api="chat"))

    with pytest.raises(openai.ReplyError) as raised:
        _all(reader, {"error": {"code": 429, "message": "Slow."}})
    with pytest.raises(openai.ReplyError) as named:
        reader.read("error", json.dumps({"code": 429, "message": "Slow."}))
    assert isinstance(raised.value.reason, RateLimitError)
    assert isinstance(named.value.reason, RateLimitError)


def test_a_completion_by_a_schema_is_shown_when_it_is_whole() -> None:
    """By its own form, or by the tool that stands for one."""
    held = _chat({"content": '{"val'}, {"content": 'ue": [1]}'}, sent=_sent(api="chat", response_schema=NUMBERS))
    called = _chat(
        _piece(0, '{"value"', id="c", name="final_answer"),
        _piece(0, ": [1]}"),
        reason="tool_calls",
        sent=_sent(api="chat", model="gpt-audio", response_schema=NUMBERS),
    )

    assert [part.delta for part in held if part.type == "text-delta"] == ["[1]"]
    assert [part.type for part in called] == ["response-metadata", "text-start", "text-delta", "text-end", "finish"]
    assert Response.from_stream(called).finish_reason == "stop"


@pytest.mark.parametrize("mark", ["[DONE]", " [DONE]\n"])
def test_the_mark_of_the_end_is_not_an_event(mark: str) -> None:
    """Some servers end each stream with `[DONE]`. fxai ignores it before and after the end of the response."""
    reader = ResponsesReader(_sent(add))

    before = reader.read("message", mark)
    parts = _all(reader, _completed({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}))

    assert (before, reader.read("message", mark)) == ([], [])
    assert Response.from_stream(parts).text == "Hi"


def test_a_refusal_in_pieces_ends_the_turn() -> None:
    """As a text that says so; on both wires."""
    chat = Response.from_stream(_chat({"refusal": "N"}, {"refusal": "o."}))
    said = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]}
    delta = {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No"}
    response = Response.from_stream(_responses(delta, _completed(said)))

    assert [(one.text, one.finish_reason) for one in (chat, response)] == [("No.", "content-filter")] * 2


def test_a_sound_in_pieces_is_a_file() -> None:
    """Its bytes and its words are joined."""
    sent = _sent(api="chat", provider_options={"openai": {"audio": {"voice": "alloy", "format": "pcm16"}}})
    pieces = ({"id": "a1", "transcript": "H"}, {"data": "aA==", "transcript": "i."}, {"data": "aQ==", "expires_at": 9})
    file = Response.from_stream(_chat(*({"audio": piece} for piece in pieces), sent=sent)).files[0]

    assert (file.media_type, file.data) == ("audio/pcm", b"hi")
    assert file.metadata == {"openai": {"audio": "a1", "transcript": "Hi.", "expires_at": 9}}


def test_each_piece_of_arguments_is_given_once() -> None:
    """What a stream gives of them is as much as what came, however many pieces there are."""
    for number in (200, 2000):
        reader = ResponsesReader(_sent(add))
        _all(reader, _added(0, **_call("c1")))
        parts = _all(reader, *[_delta(0, " ")] * number, _done(0, **_call("c1", " " * number)))

        assert "".join(part.delta for part in parts if part.type == "tool-params-delta") == " " * number
