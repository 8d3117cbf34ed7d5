"""How a stream of Anthropic's Messages API is told, part by part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fxai.messages import (
    AiError,
    InternalProviderError,
    InvalidOutputError,
    NetworkError,
    Prompt,
    Response,
    StreamPart,
    Text,
    ToolCall,
)
from fxai.models import ModelRequest
from fxai.providers.anthropic import MessagesReader, PreparedRequest, ReplyError, parse_reply, prepare_request
from fxai.schema import JsonSchema
from tests.kit.anthropic_replies import (
    ALL_BLOCKS,
    CITY,
    MODEL,
    SENT,
    TOOLS,
    events_of,
    interleaved,
    is_decided_by,
    message,
    pieces_of,
    read_all,
)
from tests.kit.every import every

NUMBERS = {"type": "array", "items": {"type": "integer"}}
OLD = "claude-sonnet-4-20250514"
CALL = ALL_BLOCKS[-2]


def _failed(*events: Any) -> AiError:
    """What the last of the events fails with; those before it may not fail."""
    reader = MessagesReader(SENT)
    for event in events[:-1]:
        reader.read("", json.dumps(event))
    last = events[-1]
    with pytest.raises(ReplyError) as raised:
        reader.read("", last if isinstance(last, str) else json.dumps(last))
    return AiError("anthropic", "ask_stream", raised.value.reason)


def _asked(schema: Any, model: str = MODEL) -> PreparedRequest:
    request = ModelRequest(Prompt.make("Hi"), tuple(TOOLS[:1]), response_schema=JsonSchema.of(schema))
    return prepare_request(request, model=model, stream=True)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "citations": None}


def test_a_stream_is_told_as_it_comes() -> None:
    """Texts, thinking and parameters come in the provider's own pieces, the call when it is whole."""
    thought = {"type": "thinking", "thinking": "Hmmm", "signature": "S"}
    parts = is_decided_by(events_of(message([thought, _text("Good"), CALL], "tool_use")))

    assert [part.type for part in parts] == [
        "response-metadata",
        *("reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-delta", "text-end"),
        "tool-params-start",
        *("tool-params-delta",) * 6,
        *("tool-params-end", "tool-call", "finish"),
    ]
    assert [getattr(part, "id", None) for part in parts if part.type.endswith("-start")] == ["0", "1", "toolu_1"]


def test_a_stream_amounts_to_the_whole_reply() -> None:
    """Gathered, every kind of block is what the same message gives at once."""
    whole = message(ALL_BLOCKS, "tool_use")

    assert read_all(events_of(whole)) == parse_reply(json.dumps(whole).encode(), SENT).unwrap()


def test_blocks_side_by_side_do_not_mix() -> None:
    """Each piece goes to the block of its index, however they alternate."""
    whole = message(ALL_BLOCKS, "tool_use")
    parts, expected = read_all(interleaved(whole)), parse_reply(json.dumps(whole).encode(), SENT).unwrap()

    assert sorted(map(repr, parts)) == sorted(map(repr, expected))


def test_a_text_begins_with_its_first_piece() -> None:
    """A stream that is cut right after the block began has no empty text; a text that is empty and whole is one.

    It stands where its block began all the same.
    """
    begun = events_of(message([]))[0]
    start, *pieces, stop = pieces_of(0, _text("Good"))
    empty, side_by_side = [start, stop], [start, pieces_of(1, CALL)[0], *pieces]

    assert [part.type for part in is_decided_by([begun, start])] == ["response-metadata"]
    assert [part.type for part in is_decided_by([begun, start, pieces[0]])[1:]] == ["text-start", "text-delta"]
    assert [part.type for part in is_decided_by([begun, *empty])[1:]] == ["text-start", "text-end"]
    assert [part.type for part in is_decided_by([begun, *side_by_side])[1:3]] == ["text-start", "tool-params-start"]


def test_two_thousand_pieces_are_one_call() -> None:
    """However finely parameters are cut, the call is theirs."""
    given = {"city": "O" * 2000}
    start, *_, stop = pieces_of(0, CALL)
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": sign}}
        for sign in json.dumps(given)
    ]
    begun, *_, ended, done = events_of(message([], "tool_use"))
    parts = is_decided_by([begun, start, *deltas, stop, ended, done])

    assert [part.params for part in parts if part.type == "tool-call"] == [given]
    assert len(parts) == len(deltas) + 5


def test_a_call_without_pieces_has_what_its_start_says() -> None:
    """Some servers send parameters whole, or none where there are none."""
    start, stop = pieces_of(0, CALL)[0], pieces_of(0, CALL)[-1]
    full = {**start, "content_block": {**CALL, "id": "t2"}, "index": 1}
    parts = is_decided_by([events_of(message([]))[0], start, stop, full, {**stop, "index": 1}])

    assert [part.params for part in parts if part.type == "tool-call"] == [{}, {"city": "Oslo"}]


def test_parameters_that_are_no_json_are_kept_as_text() -> None:
    """A turn that was cut by its token limit ends in the middle of a call: it cannot be run, and nothing is lost."""
    start, *pieces, stop = pieces_of(0, CALL)
    events = events_of(message([], "max_tokens"))
    parts = is_decided_by([events[0], start, *pieces[:3], stop, *events[-2:]])
    calls = [part for part in parts if part.type == "tool-call"]

    assert [(call.params, call.params_text) for call in calls] == [(None, '{"city')]


def test_what_is_not_known_is_passed_over() -> None:
    """Pings and new events are no failure; new deltas and a new kind of block are kept with what they say."""
    new = {"type": "compaction", "content": None}
    events = [
        events_of(message([]))[0],
        {"type": "ping"},
        {"type": "news", "of": "tomorrow"},
        {"type": "content_block_start", "index": 0, "content_block": _text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "mood_delta", "mood": "good"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": new},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "compaction_delta", "content": "So far."}},
        {"type": "content_block_stop", "index": 1},
    ]

    assert [part.metadata for part in read_all(events) if part.type == "text"] == [
        {"anthropic": {"beside": {"mood": "good"}}},
        {"anthropic": {"block": {"type": "compaction", "content": "So far."}}},
    ]


def test_counts_of_a_stream_are_totals() -> None:
    """Later counts take the place of earlier ones; what they leave out stands."""
    finish = is_decided_by(events_of(message([_text("Hi")])))[-1]

    assert finish.type == "finish"
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.cached_input_tokens) == (15, 7, 3)


@every("location", range(1, len(events_of(message([_text("Good day."), CALL], "tool_use")))))
def test_a_cut_stream_is_a_failure_that_keeps_what_came(location: int) -> None:
    """Cut before any event, the reader says that the message was not whole; what came before stands."""
    events = events_of(message([_text("Good day."), CALL], "tool_use"))
    reader = MessagesReader(SENT)
    told: list[StreamPart] = [part for one in events[:location] for part in reader.read("", json.dumps(one))]
    kept = Response.from_stream([*told, *reader.rest()])
    with pytest.raises(ReplyError) as raised:
        reader.end()

    assert isinstance(raised.value.reason, NetworkError)
    assert raised.value.reason.is_retryable
    assert not reader.done
    assert "Good day.".startswith(kept.text)
    assert all(call.params is None or call.params == {"city": "Oslo"} for call in kept.tool_calls)
    assert len(kept.text) == min(9, max(0, location - 3) * 3)


def test_a_whole_stream_has_no_end_to_tell() -> None:
    """After its last event there is no failure."""
    reader = MessagesReader(SENT)
    for event in events_of(message([])):
        reader.read("", json.dumps(event))

    assert reader.done
    assert reader.end() == []


def test_an_error_event_is_that_error() -> None:
    """An overloaded provider says so in the middle of a stream, and that it helps to try again."""
    error = _failed(
        events_of(message([]))[0], {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    )

    assert isinstance(error.reason, InternalProviderError)
    assert error.reason.overloaded
    assert error.is_retryable


START = {"type": "content_block_start", "index": 0, "content_block": _text("")}


OUT_OF_ORDER: list[tuple[list[Any], str]] = [
    (["{"], "not JSON"),
    (["[]"], "/type"),
    ([{"type": "message_start"}], "/message"),
    ([{"type": "content_block_start", "index": 0}], "/content_block/type"),
    ([{**START, "index": None}], "/index"),
    ([{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}], "/content_block/name"),
    ([{"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}}], "/content_block/id"),
    ([{"type": "content_block_delta", "index": 0, "delta": {}}], "is not open"),
    ([START, {"type": "content_block_delta", "index": 0}], "/delta/type"),
    ([START, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}], "/delta/text"),
    ([{"type": "content_block_stop", "index": 0}], "is not open"),
    ([START, {"type": "message_stop"}], "before its blocks 0 did"),
]


@every(("events", "said"), OUT_OF_ORDER)
def test_a_stream_out_of_order_is_a_typed_failure(events: list[Any], said: str) -> None:
    """What cannot stand where it stands is named with its place."""
    error = _failed(*events)

    assert isinstance(error.reason, InvalidOutputError)
    assert said in error.message


def test_an_answer_in_another_form_is_converted_while_it_arrives() -> None:
    """The pieces are the JSON of the requested schema. An answer in the requested form arrives unchanged."""
    events = events_of(message([_text('{"value": [1, 2]}')]))
    converted, whole = (
        is_decided_by(events, _asked(NUMBERS)),
        is_decided_by(events, _asked({**CITY, "additionalProperties": False})),
    )

    assert [part.delta for part in converted if part.type == "text-delta"] == ["[", "1", ",2]"]
    assert len([part for part in whole if part.type == "text-delta"]) == 6


def test_an_answer_by_a_tool_is_streamed_as_text() -> None:
    """The pieces of its arguments are pieces of the text, and the call is not a part."""
    call = {"type": "tool_use", "id": "t1", "name": "answer", "input": {"city": "Oslo"}}
    parts = is_decided_by(events_of(message([call], "tool_use")), _asked(CITY, OLD))

    deltas = [part.delta for part in parts if part.type == "text-delta"]
    others = [part.type for part in parts if part.type != "text-delta"]

    assert others == ["response-metadata", "text-start", "text-end", "finish"]
    assert len(deltas) > 1
    assert "".join(deltas) == '{"city":"Oslo"}'
    assert [part.reason for part in parts if part.type == "finish"] == ["stop"]


def test_an_answer_that_was_held_back_is_kept_when_the_stream_is_cut() -> None:
    """What came of it is told as it came."""
    events = events_of(message([_text('{"value": [1, 2]}')]))
    reader = MessagesReader(_asked(NUMBERS))
    told = [part for one in events[:5] for part in reader.read("", json.dumps(one))]

    assert Response.from_stream(told).text == ""
    assert Response.from_stream([*told, *reader.rest()]).text == '{"valu'


PLACES: list[tuple[list[Any], str, str]] = [
    ([{"type": "message_start", "message": []}], "/message", "expected a message"),
    (
        [{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "a"}}],
        "/index",
        "block 3 is not open",
    ),
    ([{"type": "content_block_stop", "index": 3}], "/index", "block 3 is not open"),
    ([START, {"type": "message_stop"}], "", "the message ended before its blocks 0 did"),
]


@every(("events", "pointer", "said"), PLACES)
def test_what_is_out_of_order_is_told_with_its_place(events: list[Any], pointer: str, said: str) -> None:
    """The place in the event, and what is wrong there."""
    assert _failed(*events).reason == InvalidOutputError(said, pointer)


def test_what_a_block_begins_with_is_told() -> None:
    """Of a text and of thinking: some servers send the first piece, or all of it, with the start."""
    blocks = [_text("Good"), {"type": "thinking", "thinking": "Hm", "signature": "S"}]
    starts = [{"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(blocks)]
    stops = [{"type": "content_block_stop", "index": at} for at in range(2)]
    parts = is_decided_by([events_of(message([]))[0], *starts, *stops])

    assert [part.delta for part in parts if part.type == "text-delta"] == ["Good"]
    assert [part.delta for part in parts if part.type == "reasoning-delta"] == ["Hm"]


def test_a_container_that_is_named_at_the_start_is_named_at_the_end() -> None:
    """What the last event leaves out or calls null stands as it was said first."""
    call = {**CALL, "caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    begun, *middle, ended, done = events_of(message([call], "tool_use"))
    begun = {**begun, "message": {**begun["message"], "container": {"id": "c_1"}}}
    for left in ({}, {"container": None}):
        parts = read_all([begun, *middle, {**ended, "delta": {**ended["delta"], **left}}, done])

        assert Text("", metadata={"anthropic": {"container": "c_1"}}) in parts


def test_what_was_held_back_is_told_once() -> None:
    """Whoever asks for the rest again gets nothing."""
    reader = MessagesReader(_asked(NUMBERS))
    for event in events_of(message([_text('{"value": [1, 2]}')]))[:5]:
        reader.read("", json.dumps(event))

    assert [part.type for part in reader.rest()] == ["text-delta"]
    assert reader.rest() == ()


def test_a_cut_call_cannot_be_run() -> None:
    """Its parameters are kept as the text that came."""
    start, first, second, *_ = pieces_of(0, CALL)
    parts = read_all([events_of(message([]))[0], start, first, second])

    assert parts[-1] == ToolCall("toolu_1", "weather.now", None, params_text='{"c')


def test_a_message_that_is_whole_when_it_starts_is_told() -> None:
    """As one that goes on with a program's calls: nothing of it comes in events of its own."""
    whole = message([_text("Good"), CALL], "tool_use")
    begun, *_, done = events_of(whole)

    assert read_all([{**begun, "message": whole}, done]) == read_all(events_of(whole))


@pytest.mark.parametrize(("pieces", "text"), [(2, '{"c'), (0, "{")])
@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_that_the_end_of_the_message_cuts_cannot_be_run(pieces: int, text: str, reason: str) -> None:
    """A message that became too long ends inside a call, whose end no event tells: its text is kept."""
    begun, *_, ended, done = events_of(message([], reason))
    parts = read_all([begun, *pieces_of(0, CALL)[: pieces + 1], ended, done])

    assert [(part.params, part.params_text) for part in parts if part.type == "tool-call"] == [(None, text)]
    assert [part.reason for part in parts if part.type == "finish"] == ["length"]
