"""Streams of OpenAI's own event types: split anywhere, the parts of the whole answer; cut, a failure with what came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent

from fxai.messages import NetworkError, Part, Prompt, Response, StreamPart
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.http import read_events
from fxai.providers.openai.chat_reply import ChatReader
from fxai.providers.openai.reply import ResponsesReader
from tests.kit.every import every
from tests.kit.openai_answers import CHAT, ITEMS, TOOLS, chat_events, chat_reply, events, reply
from tests.kit.trials import examples

pytestmark = pytest.mark.slow

ASKED = ModelRequest(Prompt.make("Hi"), tuple(TOOLS))
SENT = openai.prepare_request(ASKED, model="gpt-5.5")
CHAT_SENT = openai.prepare_request(ASKED, model="gpt-4o", api="chat")


def _read(reader: ResponsesReader | ChatReader, given: Iterable[Any]) -> list[StreamPart]:
    return [part for event in given for part in reader.read("message", json.dumps(event))]


@every("name", ITEMS)
@every("size", [1, 3, 1000])
def test_a_streamed_item_is_the_whole_one(name: str, size: int) -> None:
    """In pieces of any size."""
    parts = _read(ResponsesReader(SENT), events([ITEMS[name]], size))

    assert Response.from_stream(parts).content == openai.read_reply(reply([ITEMS[name]]), SENT)


def test_all_items_streamed_are_the_whole_response() -> None:
    """One after the other."""
    parts = _read(ResponsesReader(SENT), events(list(ITEMS.values())))

    assert Response.from_stream(parts).content == openai.read_reply(reply(list(ITEMS.values())), SENT)


@settings(max_examples=examples(60))
@given(st.data())
def test_items_that_come_interleaved_do_not_mix(data: st.DataObject) -> None:
    """Each event belongs to its item: whatever order several items come in, each is the whole one."""
    names = data.draw(st.lists(st.sampled_from(sorted(ITEMS)), min_size=2, max_size=4, unique=True))
    items = [ITEMS[name] for name in names]
    told = events(items)
    head, last = told[:2], told[-1]
    queues = [[event for event in told[2:-1] if event["output_index"] == location] for location in range(len(items))]
    mixed = [queue.pop(0) for queue in queues]  # items begin in their order
    while any(queues):
        mixed.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    parts = _read(ResponsesReader(SENT), [*head, *mixed, last])
    whole = openai.read_reply(reply(items), SENT)

    content = Response.from_stream(parts).content

    assert len(content) == len(whole)
    assert [part for part in content if part not in whole] == []


def test_interleaved_chunks_are_the_whole_completion() -> None:
    """In pieces of any size, the two calls in turn."""
    whole = openai.read_reply(chat_reply(CHAT), CHAT_SENT)
    for size in (1, 3, 1000):
        reader = ChatReader(CHAT_SENT)
        parts = [*_read(reader, chat_events(CHAT, size=size)), *reader.read("message", "[DONE]")]

        assert Response.from_stream(parts).content == whole


# -- split


@cache
def _bytes(api: str) -> bytes:
    if api == "chat":
        texts = [json.dumps(chunk) for chunk in chat_events(CHAT)] + ["[DONE]"]
        return "".join(f"data: {text}\n\n" for text in texts).encode()
    told = events([ITEMS[name] for name in ("thought", "text", "function", "web search")], 7)
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told).encode()


def _parts(pieces: Iterable[bytes], api: str) -> tuple[Part, ...]:
    reader = ChatReader(CHAT_SENT) if api == "chat" else ResponsesReader(SENT)
    found, broken = read_events(pieces)
    assert broken is None
    parts = [part for event in found for part in reader.read(event.name, event.data)]
    return Response.from_stream([*parts, *reader.end()]).content


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_bytes_split_at_each_place_give_the_same_parts(api: str) -> None:
    """One split anywhere, and every byte by itself."""
    whole = _bytes(api)
    expected = _parts([whole], api)
    step = max(len(whole) // 60, 1)

    assert all(_parts([whole[:at], whole[at:]], api) == expected for at in range(1, len(whole), step))
    assert _parts([whole[at : at + 1] for at in range(len(whole))], api) == expected


@settings(max_examples=examples(30))
@given(st.data(), st.sampled_from(["chat", "responses"]))
def test_bytes_split_anywhere_give_the_same_parts(data: st.DataObject, api: str) -> None:
    """As often as you like."""
    whole = _bytes(api)
    locations = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[a:b] for a, b in zip([0, *locations], [*locations, len(whole)], strict=True)]

    assert _parts(pieces, api) == _parts([whole], api)


# -- cut


def _cut(reader: ResponsesReader | ChatReader, told: Sequence[Any], at: int) -> tuple[Response, Any]:
    parts: list[StreamPart] = []
    try:
        for event in told[:at]:
            parts.extend(reader.read("message", json.dumps(event)))
        parts.extend(reader.end())
    except openai.ReplyError as error:
        return Response.from_stream(parts), error.reason
    return Response.from_stream(parts), None


def test_a_response_cut_at_each_event_keeps_what_came() -> None:
    """Until its last event it is a failure that can be tried again; what came is a beginning of the whole."""
    told = events(list(ITEMS.values()))
    whole = Response(openai.read_reply(reply(list(ITEMS.values())), SENT))
    for at in range(len(told)):
        kept, reason = _cut(ResponsesReader(SENT), told, at)

        assert isinstance(reason, NetworkError)
        assert whole.text.startswith(kept.text)
        assert (whole.reasoning_text or "").startswith(kept.reasoning_text or "")
        assert len(kept.tool_calls) <= len(whole.tool_calls)
    assert _cut(ResponsesReader(SENT), told, len(told))[1] is None


def test_a_completion_cut_at_each_chunk_keeps_what_came() -> None:
    """A call that was cut cannot be run; once it said why it finished, the answer is whole."""
    told = chat_events(CHAT)
    whole = Response(openai.read_reply(chat_reply(CHAT), CHAT_SENT))
    for at in range(len(told) - 1):
        kept, reason = _cut(ChatReader(CHAT_SENT), told, at)

        assert isinstance(reason, NetworkError)
        assert whole.text.startswith(kept.text)
        assert all(call.params_text is not None for call in kept.tool_calls)
    assert _cut(ChatReader(CHAT_SENT), told, len(told) - 1)[0].tool_calls == whole.tool_calls


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_bytes_cut_at_each_place_keep_what_came(api: str) -> None:
    """In the middle of an event it is the event that is broken; between two, the answer that is not whole."""
    whole = _bytes(api)
    text = Response(_parts([whole], api)).text
    closing = whole.index(b'finish_reason": "tool') if api == "chat" else len(whole) - 1
    for at in range(0, closing, max(closing // 80, 1)):
        found, broken = read_events([whole[:at]])
        reader = ChatReader(CHAT_SENT) if api == "chat" else ResponsesReader(SENT)
        kept, reason = _cut(reader, [json.loads(event.data) for event in found], len(found))

        assert broken is not None or reason is not None
        assert text.startswith(kept.text)
        assert all(call.params_text is not None or call.params for call in kept.tool_calls)


ENDS = ("response.completed", "response.incomplete")


def test_each_event_of_the_sdk_can_come_at_any_time() -> None:
    """Whatever its fields, and before anything that it is about: it is read, or it is a typed failure."""
    union = get_args(get_args(ResponseStreamEvent)[0])
    kinds = [get_args(kind.model_fields["type"].annotation)[0] for kind in union]
    about = {
        "output_index": 0,
        "item_id": "i",
        "delta": "x",
        "item": {"type": "message"},
        "part": {"type": "output_text"},
    }

    assert len(kinds) >= 59
    for kind in kinds:
        odd: list[dict[str, Any]] = [{}, about, {"delta": 1, "item": 2, "part": []}]
        for fields in odd:
            event = {"type": kind, **fields}
            kept, reason = _cut(ResponsesReader(SENT), [event], 1)
            assert reason is not None or kind in ENDS
            assert isinstance(reason, NetworkError) or kind in (*ENDS, "error", "response.failed")
            assert len(kept.content) <= 3
