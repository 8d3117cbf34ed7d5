"""Answers of Chat Completions as servers of others write them: whole, piece by piece, and refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from returns.result import Success

from fxai.effects import fx
from fxai.messages import (
    AiError,
    FileUrl,
    InvalidOutputError,
    Prompt,
    RateLimitError,
    Response,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import openai
from fxai.providers.openai.chat_reply import ChatReader
from fxai.tools import Tool, Toolkit
from tests.kit.data import is_array, is_object

SENT = openai.prepare_request(ModelRequest(Prompt.make("?")), model="m", api="chat")
PIXEL = "data:image/png;base64,iVBORw=="


def _whole(message: dict[str, Any], reason: Any = "stop", **more: Any) -> Response:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": reason}
    return Response(openai.read_reply({"id": "c", "choices": [choice], **more}, SENT))


def _streamed(*deltas: dict[str, Any], reason: Any = "stop", **more: Any) -> Response:
    reader = ChatReader(SENT)
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **more})
    parts = [part for chunk in chunks for part in reader.read("", json.dumps(chunk))]
    return Response.from_stream([*parts, *reader.read("", "[DONE]")])


def _marks(part: Any) -> Any:
    return part.metadata.get("openai", {})


def _finish(response: Response) -> Any:
    return _marks(response.content[-1])


# -- texts and thoughts


def test_a_content_that_is_a_list_is_read_piece_by_piece() -> None:
    """Mistral's thoughts are reasoning, its texts one text; what has no part stays whole and goes back."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    reference = {"type": "reference", "reference_ids": [1]}
    response = _whole({"content": [thinking, {"type": "text", "text": "Yes."}, reference]})

    assert (response.reasoning_text, response.text) == ("Hm.", "Yes.")
    assert _marks(response.content[1]) == {"field": "content", "detail": {"closed": True}}
    assert _marks(response.content[3]) == {"content": reference}


def test_a_stream_of_lists_gives_the_same_parts() -> None:
    """A thought after a text is another thought."""
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": one}]} for one in ("H", "m.", "And?")]
    pieces = [thought[0], thought[1], {"type": "text", "text": "Yes."}, thought[2], {"type": "text", "text": "No."}]
    whole = _whole({"content": [_both(*thought[:2]), *pieces[2:]]})

    assert _streamed(*({"content": [piece]} for piece in pieces)).content == whole.content
    assert [part.type for part in whole.content[1:-1]] == ["reasoning", "text", "reasoning", "text"]


def _both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [*first["thinking"], *second["thinking"]]}


DETAILS = [
    {"type": "reasoning.text", "text": "Hm.", "signature": "S", "index": 0, "format": "anthropic-claude-v1"},
    {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 1, "format": "openai-responses-v1"},
]


def test_details_of_reasoning_are_reasoning_with_signatures_and_go_back() -> None:
    """Once, though `reasoning` says the same; what is encrypted has no text."""
    response = _whole({"content": "Yes.", "reasoning": "Hm.", "reasoning_details": DETAILS})
    turn = Prompt.from_parts(response.content)
    router = openai.Profile("chat", server=openai.SERVERS["openrouter"])

    assert [part.text for part in response.content if part.type == "reasoning"] == ["Hm.", ""]
    (message,) = openai.prepare_prompt(turn, api="chat", profile=router)["messages"]
    assert message == {"role": "assistant", "content": "Yes.", "reasoning_details": DETAILS}


def test_details_come_in_pieces() -> None:
    """Of one index and type; the signature with the last one."""
    first, last = (
        {"type": "reasoning.text", "index": 0, "text": "H"},
        {"type": "reasoning.text", "index": 0, "text": "m."},
    )
    response = _streamed(
        {"reasoning": "H", "reasoning_details": [first]},
        {"reasoning": "m.", "reasoning_details": [{**last, "signature": "S", "format": "anthropic-claude-v1"}]},
        {"content": "Yes."},
        {"reasoning_details": [DETAILS[1]]},
    )
    details = [part for part in response.content if part.type == "reasoning"]

    assert [part.text for part in details] == ["Hm.", ""]
    assert _marks(details[0])["detail"]["signature"] == "S"
    assert _marks(details[1])["detail"]["data"] == "gAAA"


def test_reasoning_beside_encrypted_details_is_kept() -> None:
    """Where no detail says it; two fields that differ are two pieces."""
    response = _whole({"content": "Yes.", "reasoning": "Hm.", "reasoning_details": DETAILS[1:]})

    assert response.reasoning_text == "Hm."
    assert _whole({"reasoning": "A", "reasoning_content": "B"}).reasoning_text == "BA"
    assert _whole({"reasoning": "A", "reasoning_content": "A"}).reasoning_text == "A"
    assert _streamed({"reasoning": "A"}, {"reasoning": "\n\n"}, {"reasoning": "B"}).reasoning_text == "A\n\nB"


# -- calls


def test_a_call_is_of_what_its_type_says() -> None:
    """Snowflake writes an empty custom tool beside the function, an empty sound, an empty reason and empty places."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a":1}'},
        "custom": {"name": "", "input": ""},
    }
    empty = {"audio": {"id": "", "data": "", "transcript": "", "expires_at": 0}, "refusal": "", "annotations": None}
    calling = _whole({"content": "", "tool_calls": [call], **empty}, "")
    saying = _whole({"content": "4", "function_call": {"name": "", "arguments": ""}, **empty}, "")

    assert [(one.name, one.params) for one in calling.tool_calls] == [("add", {"a": 1})]
    assert (calling.finish_reason, saying.finish_reason) == ("tool-calls", "stop")
    assert [part.type for part in saying.content] == ["response-metadata", "text", "finish"]


def test_an_empty_reason_in_each_chunk_does_not_end_a_stream() -> None:
    """Only the last event does."""
    reader = ChatReader(SENT)
    reader.read("", json.dumps({"choices": [{"delta": {"content": "Y"}, "finish_reason": ""}]}))

    with pytest.raises(openai.ReplyError, match="ended before"):
        reader.end()
    assert _streamed({"content": "Y"}, reason="").finish_reason == "stop"


def test_what_a_server_writes_beside_a_call_goes_back_with_it() -> None:
    """Gemini's signature of its thoughts, whole and streamed; OpenAI's own API is not sent it."""
    extra = {"google": {"thought_signature": "S"}}
    function = {"name": "add", "arguments": "{}"}
    call = {"index": 0, "id": "c1", "type": "function", "extra_content": extra, "function": function}
    whole, streamed = _whole({"tool_calls": [call]}), _streamed({"tool_calls": [call]})
    turn = Prompt.from_parts(whole.content)
    result = Prompt.make(
        [{"role": "tool", "content": [{"type": "tool-result", "id": "c1", "name": "add", "result": 1}]}]
    )
    there = openai.prepare_prompt(turn + result, api="chat")["messages"][0]["tool_calls"]
    ours = openai.Profile("chat", server=openai.OPENAI_CHAT)

    assert whole.tool_calls == streamed.tool_calls
    assert there[0]["extra_content"] == extra
    assert (
        "extra_content"
        not in openai.prepare_prompt(turn + result, profile=ours, api="chat")["messages"][0]["tool_calls"][0]
    )


def test_each_call_of_an_answer_has_an_id_of_its_own() -> None:
    """Where a server gives one twice, or none: then it is of the answer, so that no other turn has it."""
    function = {"function": {"name": "add", "arguments": "{}"}}
    twice = _whole({"tool_calls": [{"id": "x", **function}, {"id": "x", **function}, function]}, id="resp/1")

    assert [call.id for call in twice.tool_calls] == ["x", "x_1", "call_resp_1_2"]


def test_a_call_in_the_field_of_old_is_a_call() -> None:
    """`function_call`, of which there was one in a turn."""
    old = {"function_call": {"name": "add", "arguments": '{"a":1}'}}

    assert _whole(old, "function_call").tool_calls[0].params == {"a": 1}
    assert _streamed(old, reason="function_call").tool_calls[0].params == {"a": 1}


def test_calls_that_are_wrapped_into_one_are_calls() -> None:
    """OpenAI's `multi_tool_use.parallel`, whole and in pieces."""
    uses = [{"recipient_name": f"functions.{name}", "parameters": {"a": 1}} for name in ("add", "halve")]
    arguments = json.dumps({"tool_uses": uses})
    call = {"index": 0, "id": "c", "function": {"name": "multi_tool_use.parallel", "arguments": arguments}}
    whole, streamed = _whole({"tool_calls": [call]}), _streamed({"tool_calls": [call]})

    assert [(one.id, one.name, one.params) for one in whole.tool_calls] == [
        ("c_1", "add", {"a": 1}),
        ("c_2", "halve", {"a": 1}),
    ]
    assert streamed.tool_calls == whole.tool_calls


# -- calls that a server refuses

REFUSED = {
    "code": "tool_use_failed",
    "type": "invalid_request_error",
    "message": "Tool call validation failed",
    "failed_generation": '{"name": "add", "arguments": {"b": 1}}',
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
ADD = Tool.dynamic("add", parameters=SCHEMA)


def _model(*answers: httpx2.Response) -> Any:
    left = list(answers)
    transport = httpx2.MockTransport(lambda _: left.pop(0))
    return openai.layer("m", server="groq", api_key="k", transport=transport, retry=None)


def _asked(model: Any, stream: bool) -> Any:
    kit = Toolkit.make(ADD)
    whole = LanguageModel.generate_text("?", toolkit=kit).map(lambda response: response.content)
    asked: Any = LanguageModel.stream_text("?", toolkit=kit).collect() if stream else whole
    return fx.run_result(asked.provide(kit.to_layer(ADD.handler(lambda _: Success(None)))).provide(model))


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_call_is_the_models_mistake_and_it_is_told(stream: bool) -> None:
    """A status of 400 is a turn with that call, whose result says what is wrong; the words are at its end."""
    parts = _asked(_model(httpx2.Response(400, json={"error": REFUSED})), stream).unwrap()
    response = Response.from_stream(parts)
    (call,), (result,) = response.tool_calls, response.tool_results

    assert (call.name, call.params, response.finish_reason) == ("add", {"b": 1}, "tool-calls")
    assert result.is_failure
    assert "'a'" in json.dumps(result.encoded_result) or "/a" in json.dumps(result.encoded_result)
    assert [_marks(part)["error"] for part in response.content if part.type == "finish"] == [REFUSED]


def test_a_call_that_is_refused_in_the_middle_of_a_stream_is_kept_with_what_came() -> None:
    """Groq ends such a stream by an event that is an error."""
    reader = ChatReader(SENT)
    parts = reader.read("", json.dumps({"choices": [{"delta": {"reasoning": "Hm."}}]}))
    parts += reader.read("error", json.dumps({"error": {**REFUSED, "status_code": 400}}))
    response = Response.from_stream(parts)

    assert reader.done
    assert (response.reasoning_text, response.tool_calls[0].name) == ("Hm.", "add")


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ('<function=add>{"a": 1}</function>', [{"a": 1}]),
        ('[{"name": "add", "parameters": {"a": 1}}, {"function": {"name": "add", "arguments": {}}}]', [{"a": 1}, {}]),
        ('{"tool_calls": [{"name": "add", "arguments": "{\\"a\\": 1}"}]}', [{"a": 1}]),
    ],
)
def test_refused_calls_are_read_in_each_form(written: str, calls: list[Any]) -> None:
    """As models write them."""
    parts = openai.read_reply({"error": {**REFUSED, "failed_generation": written}}, SENT)

    assert [call.params for call in Response(parts).tool_calls] == calls


def test_a_refusal_with_many_tags_is_read_once() -> None:
    """Each tag might begin a call: the text is not read to its end for each of them."""
    error = {**REFUSED, "failed_generation": "<function=add{}" * 60_000 + "!"}

    with pytest.raises(openai.ReplyError, match="the model wrote"):
        openai.read_reply({"error": error}, SENT)


def test_fields_that_come_with_each_token_are_joined() -> None:
    """Lists behind one another, objects by their members; each answer has its own."""
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}, "token_ids": [1]}
    chunk = json.dumps({"id": "c", "model": "m", "choices": [choice]})
    for _ in range(2):
        reader = ChatReader(SENT)
        parts = [*reader.read("", chunk), *reader.read("", chunk), *reader.read("", "[DONE]")]
        kept = _marks(parts[-1])

        assert kept == {"logprobs": {"content": [{"token": "a"}] * 2}, "token_ids": [1, 1]}


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://a.example/b.JPG?sig=x.png", "image/jpeg"),
        ("https://a.example/b#c.gif", "image/png"),
        ("data:,Hi", "text/plain"),
        ("data:image/gif;base64,@", "image/gif"),
    ],
)
def test_a_file_by_its_address_has_the_type_of_its_path(url: str, kind: str) -> None:
    """Of an image, by its ending; of data, as it says, else a text."""
    content = _whole({"images": [{"image_url": url}]}).content
    (file,) = (part for part in content if part.type == "file")

    assert (file.media_type, file.data) == (kind, FileUrl(url))


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_wrote_that_is_no_call_is_a_failure_to_try_again(stream: bool) -> None:
    """With what it wrote: no such request is wrong in itself."""
    error = {**REFUSED, "message": "Tool choice is required", "failed_generation": "maybe"}
    failure: AiError = _asked(_model(httpx2.Response(400, json={"error": error})), stream).failure()

    assert isinstance(failure.reason, InvalidOutputError)
    assert failure.is_retryable
    assert "Tool choice is required; the model wrote: maybe" in failure.message


def test_the_words_of_a_server_behind_a_router_are_told() -> None:
    """OpenRouter has them in the metadata of its error, at a status and in a stream."""
    raw = {"code": 429, "message": "Provider returned error", "metadata": {"raw": "Slow down", "provider_name": "Acme"}}
    reason = openai.ReplyError
    with pytest.raises(reason, match="Provider returned error: Acme: Slow down") as caught:
        openai.read_reply({"error": raw}, SENT)

    assert isinstance(caught.value.reason, RateLimitError)
    assert "Acme: Slow down" in AiError.from_status("a", "b", 429, {"error": raw}).message


# -- sources, files, tools that a server ran


def test_pages_beside_the_choices_are_sources_once() -> None:
    """In the order in which the text counts them, with the titles that search results have."""
    more = {
        "citations": ["https://a", "https://b"],
        "search_results": [{"url": "https://b", "title": "B", "date": "2026"}],
    }
    whole, streamed = _whole({"content": "Yes [2]."}, **more), _streamed({"content": "Yes [2]."}, **more)

    assert [(one.url, one.title) for one in whole.sources] == [("https://a", None), ("https://b", "B")]
    assert whole.sources == streamed.sources
    assert _marks(whole.sources[1])["date"] == "2026"


def test_annotations_are_sources_with_their_places_and_files_go_back() -> None:
    """A file that OpenRouter read is not read again where its annotation is sent back."""
    cited = {"type": "url_citation", "url_citation": {"url": "https://a", "title": "A", "start_index": 3}}
    file = {"type": "file", "file": {"hash": "h", "content": [{"type": "text", "text": "PDF"}]}}
    response = _whole({"content": "Yes.", "annotations": [cited, file]})
    router = openai.Profile("chat", server=openai.SERVERS["openrouter"])
    turn = Prompt.from_parts(response.content)

    assert [(one.url, _marks(one)["start_index"]) for one in response.sources] == [("https://a", 3)]
    assert openai.prepare_prompt(turn, api="chat", profile=router)["messages"][0]["annotations"] == [file]


def test_images_that_a_model_made_are_files() -> None:
    """With their bytes where the URL holds them, else by it."""
    images = [{"type": "image_url", "image_url": {"url": url}} for url in (PIXEL, "https://a/b.webp")]
    files = _whole({"content": "", "images": images}).files

    assert [(one.media_type, one.data) for one in files] == [
        ("image/png", b"\x89PNG"),
        ("image/webp", FileUrl("https://a/b.webp")),
    ]
    assert _streamed({"images": images}).files == files


def test_tools_that_a_server_ran_are_calls_with_results() -> None:
    """Groq's search: its output and what it found; in a stream the call comes before the result."""
    found = {"results": [{"url": "https://a", "title": "A", "score": 0.5}]}
    tool = {"index": 0, "type": "search", "arguments": '{"query": "x"}'}
    done = {**tool, "output": "Title: A", "search_results": found}
    whole = _whole({"content": "Yes.", "executed_tools": [done]})
    streamed = _streamed({"executed_tools": [tool]}, {"executed_tools": [done]}, {"content": "Yes."})

    assert whole.content == streamed.content
    (call,), (result,) = whole.tool_calls, whole.tool_results
    assert (call.name, call.params, call.provider_executed) == ("search", {"query": "x"}, True)
    assert result.result == {"output": "Title: A", "search_results": found}
    assert whole.sources[0].url == "https://a"
    assert whole.finish_reason == "stop"


def test_a_tool_that_told_of_no_output_has_a_result_all_the_same() -> None:
    """Every call gets one."""
    response = _streamed({"executed_tools": [{"index": 0, "type": "python", "arguments": "print(1)"}]})

    assert [one.result for one in response.tool_results] == [{}]
    assert response.tool_calls[0].params == "print(1)"


# -- what stands around


def test_what_an_answer_says_beside_its_message_is_at_its_end() -> None:
    """The cost, the tier, filters, log probabilities, the server's own reason; streamed as whole."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 0.25}
    more = {"usage": usage, "service_tier": "flex", "provider": "Acme", "moderation": {"flagged": False}}
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "native_finish_reason": "end_turn",
        "content_filter_results": {"a": 1},
    }
    probable = [{"token": "Y", "logprob": -0.5}, {"token": "es", "logprob": -0.1}]
    body = {**more, "choices": [{**choice, "message": {"content": "Yes"}, "logprobs": {"content": probable}}]}
    whole = Response(openai.read_reply(body, SENT))
    reader = ChatReader(SENT)
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": one["token"]}, "logprobs": {"content": [one]}}]}
        for one in probable
    ]
    chunks.append({**more, "choices": [{**choice, "delta": {}}]})
    streamed = Response.from_stream(
        [part for one in chunks for part in reader.read("", json.dumps(one))] + reader.end()
    )

    assert _finish(whole) == _finish(streamed)
    assert _finish(whole)["usage"] == {"cost": 0.25}
    assert _finish(whole)["logprobs"] == {"content": probable}
    assert {"service_tier", "provider", "moderation", "native_finish_reason"} <= _finish(whole).keys()


def test_groqs_streams_have_their_usage_in_a_place_of_their_own() -> None:
    """It is counted, and what else stands there is kept."""
    groq = {"id": "req_1", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "queue_time": 0.5}}
    response = _streamed({"content": "Yes."}, x_groq=groq)

    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 4)
    assert (_finish(response)["x_groq"], _finish(response)["usage"]) == ({"id": "req_1"}, {"queue_time": 0.5})


@pytest.mark.parametrize(("reason", "said"), [("stop", None), ("eos", None), ("end", "end")])
def test_a_reason_in_other_words_is_kept(reason: str, said: str | None) -> None:
    """Where it says more than the reason of the finish."""
    assert _finish(_whole({"content": "Yes."}, reason)).get("finish_reason") == said


def test_fields_of_a_message_that_nobody_knows_are_at_the_end() -> None:
    """The last value of each; what a server reads again is in the history."""
    response = _streamed({"channel": "analysis", "reasoning": "Hm."}, {"content": "Yes.", "extra_content": {"g": 1}})
    turn = Prompt.from_parts(response.content)

    assert _finish(response)["message"] == {"channel": "analysis"}
    assert openai.prepare_prompt(turn, api="chat")["messages"][0]["extra_content"] == {"g": 1}


@pytest.mark.parametrize("end", ["data: [DONE]", "data: [DONE]\n", "data:[DONE]\r\n"])
def test_a_stream_may_end_right_behind_its_last_event(end: str) -> None:
    """Some servers send no blank line there; the answer is whole, also without a reason."""
    body = 'data: {"choices": [{"delta": {"content": "Yes."}}]}\n\n' + end
    answer = httpx2.Response(200, content=body.encode(), headers={"content-type": "text/event-stream"})
    asked = LanguageModel.stream_text("?").collect()
    response = Response.from_stream(fx.run(asked.provide(_model(answer))))

    assert (response.text, response.finish_reason) == ("Yes.", "unknown")


# -- servers that write anything

THOUGHTFUL = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Yes."}]
SEARCHED = {"index": 0, "type": "search", "arguments": "{}", "search_results": {"results": [{"url": "https://a"}]}}
MESSAGE: dict[str, Any] = {
    "content": THOUGHTFUL,
    "refusal": "No.",
    "reasoning": "Hm.",
    "reasoning_details": DETAILS,
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a", "title": "A"}}],
    "images": [{"image_url": {"url": PIXEL}}],
    "audio": {"id": "a", "data": "UklGRg==", "transcript": "Yes", "expires_at": 1},
    "executed_tools": [SEARCHED],
    "tool_calls": [{"id": "x", "index": 0, "type": "function", "function": {"name": "add", "arguments": "{}"}}],
    "extra_content": {"a": 1},
}
CHOICE = {"index": 0, "finish_reason": "stop", "logprobs": {"content": [{"token": "a"}]}, "message": MESSAGE}
FULL: dict[str, Any] = {
    "id": "c",
    "created": 1,
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    "x_groq": {"usage": {"prompt_tokens": 1}},
    "citations": ["https://a"],
    "search_results": [{"url": "https://a", "title": "A"}],
    "choices": [CHOICE],
}
ODD: list[Any] = [None, "", 0, 1.5, True, [], {}, [1], {"a": 1}, "x", [None], [{}], [[]]]


def _locations(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members: list[Any] = [*value.items()] if is_object(value) else [*enumerate(value)] if is_array(value) else []
    return [location for key, one in members for location in ((*path, key), *_locations(one, (*path, key)))]


def _changed(path: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(FULL))
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


@pytest.mark.parametrize("stream", [False, True])
def test_anything_anywhere_is_parts_or_a_typed_failure(stream: bool) -> None:
    """No value at no place of an answer breaks the reader."""
    for path in _locations(FULL):
        for value in ODD:
            answer = _changed(path, value)
            choices = answer.get("choices")
            for choice in choices if stream and is_array(choices) else []:
                if is_object(choice):
                    choice["delta"] = choice.pop("message", None)
            reader = ChatReader(SENT)
            with suppress(openai.ReplyError):
                _ = reader.read("", json.dumps(answer)) if stream else openai.read_reply(answer, SENT)
            with suppress(openai.ReplyError):
                assert not stream or reader.read("", "[DONE]") is not None
