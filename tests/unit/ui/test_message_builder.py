"""Messages put together of chunks: what each chunk does, and what has no place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fxai.ui import Chunk, ChunkError, MessageBuilder, UIMessage
from tests.kit.every import every

STEP: Chunk = {"type": "start-step"}
Json = dict[str, Any]


def started(id_: str = "c", name: str = "add", **marks: Any) -> Chunk:
    """The chunk of a call that begins."""
    return {"type": "tool-input-start", "toolCallId": id_, "toolName": name, **marks}


def piece(text: str, id_: str = "c") -> Chunk:
    """The chunk of a piece of parameters."""
    return {"type": "tool-input-delta", "toolCallId": id_, "inputTextDelta": text}


def whole(id_: str = "c", name: str = "add", **marks: Any) -> Chunk:
    """The chunk of a whole call."""
    return {"type": "tool-input-available", "toolCallId": id_, "toolName": name, "input": {"a": 1}, **marks}


def output(value: Any, id_: str = "c", **marks: Any) -> Chunk:
    """The chunk of a result."""
    return {"type": "tool-output-available", "toolCallId": id_, "output": value, **marks}


def added(text: str, id_: str = "t", kind: str = "text") -> list[Chunk]:
    """The chunks of a text."""
    delta: Chunk = {"type": f"{kind}-delta", "id": id_, "delta": text}
    return [{"type": f"{kind}-start", "id": id_}, delta, {"type": f"{kind}-end", "id": id_}]


def built(*chunks: Chunk, before: UIMessage | None = None) -> MessageBuilder:
    """The builder of these chunks."""
    builder = MessageBuilder("m", before)
    for chunk in chunks:
        builder.add(chunk)
    return builder


def parts(*chunks: Chunk, before: UIMessage | None = None) -> list[Json]:
    """The parts of the message of these chunks."""
    return [dict(part) for part in built(*chunks, before=before).message.parts]


# -- the message


def test_the_message_has_the_id_of_its_start_and_all_metadata() -> None:
    """Objects in it are merged, and anything else gives way to what comes later."""
    chunks: list[Chunk] = [
        {"type": "start", "messageId": "n", "messageMetadata": {"usage": {"in": 1}, "tags": ["a"]}},
        {"type": "message-metadata", "messageMetadata": {"usage": {"out": 2}, "tags": ["b"]}},
        {"type": "finish", "messageMetadata": {"done": True}},
    ]
    builder = built(*chunks)
    assert builder.message.to_data() == {
        "id": "n",
        "role": "assistant",
        "parts": [],
        "metadata": {"usage": {"in": 1, "out": 2}, "tags": ["b"], "done": True},
    }
    assert (builder.finished, builder.aborted, builder.error) == (True, False, None)


def test_a_message_without_metadata_has_none() -> None:
    """Not even a null."""
    assert "metadata" not in built({"type": "start"}).message.to_data()
    assert built({"type": "start", "messageMetadata": None}).message.metadata is msgspec.UNSET


def test_how_an_answer_ended_is_known() -> None:
    """A failure with its words, or a stop; the parts stay."""
    failed, stopped = built(*added("Hi"), {"type": "error", "errorText": "no"}), built({"type": "abort"})
    assert (failed.error, failed.finished, failed.message.text) == ("no", False, "Hi")
    assert (stopped.aborted, stopped.finished) == (True, False)


def test_a_message_that_was_taken_does_not_change() -> None:
    """Each is as it was then."""
    builder = built(STEP, started(), piece('{"a"'))
    before = builder.message.to_data()
    builder.add(piece(": 1}"))
    assert before["parts"][1]["rawInput"] == '{"a"'
    assert builder.message.parts[1]["input"] == {"a": 1}


# -- texts


def test_a_text_streams_and_is_done() -> None:
    """Reasoning is also known by its id; texts of one id in two families are two."""
    start, delta, end = added("Hi")
    assert parts(start, delta) == [{"type": "text", "text": "Hi", "state": "streaming"}]
    assert parts(start, *added("Hm", kind="reasoning"), delta, end) == [
        {"type": "text", "text": "Hi", "state": "done"},
        {"type": "reasoning", "id": "t", "text": "Hm", "state": "done"},
    ]


def test_the_metadata_of_a_text_is_the_last_that_came() -> None:
    """As providers send signatures at the end."""
    start, delta, end = added("Hi")
    first: Json = {"providerMetadata": {"acme": {"id": 1}}}
    last: Json = {"providerMetadata": {"acme": {"signature": "S"}}}
    assert parts({**start, **first}, delta)[0]["providerMetadata"] == first["providerMetadata"]
    assert parts({**start, **first}, delta, {**end, **last})[0]["providerMetadata"] == last["providerMetadata"]


def test_a_text_whose_id_begins_again_keeps_what_it_had() -> None:
    """The pieces that come go into the new one."""
    start, delta, _ = added("Hi")
    assert [part["text"] for part in parts(start, delta, start, delta, delta)] == ["Hi", "HiHi"]


def test_a_step_that_is_reset_leaves_nothing_and_the_steps_before_it_stay() -> None:
    """Also what was open in them; calls of the step that is gone are not known any more."""
    start, delta, _ = added("Hi")
    builder = built(STEP, start, delta, STEP, *added("x", "u"), started(), {"type": "reset-step"})
    assert builder.message.parts == ({"type": "step-start"}, {**built(start, delta).message.parts[0]}, STEP_PART)
    with pytest.raises(ChunkError, match="unknown call 'c'"):
        builder.add(output(1))
    with pytest.raises(ChunkError, match="no open tool-input-start"):
        builder.add(piece("{"))


STEP_PART: Json = {"type": "step-start"}


# -- attachments, and data


@every(
    "chunk",
    [
        {"type": "file", "mediaType": "image/png", "url": "https://example.org/a.png"},
        {"type": "reasoning-file", "mediaType": "image/png", "url": "data:image/png;base64,"},
        {"type": "source-url", "sourceId": "s", "url": "https://example.org", "title": "An example"},
        {"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "A", "filename": "a.txt"},
        {"type": "custom", "kind": "acme.x", "providerMetadata": {"acme": {"a": 1}}},
        {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "Faster!"}]},
    ],
    ids=lambda chunk: str(chunk["type"]),
)
def test_an_attachment_is_a_part_as_it_came(chunk: Chunk) -> None:
    """Members that no version knows are left out."""
    assert parts({**chunk, "other": 1}) == [chunk]


def test_data_of_one_name_and_id_takes_the_place_of_the_one_before() -> None:
    """Data without an id is a part each time; transient data is none."""
    chunks: list[Chunk] = [
        {"type": "data-step", "id": "p", "data": {"pct": 10}},
        {"type": "data-note", "data": 1},
        {"type": "data-note", "data": 1},
        {"type": "data-toast", "data": "Hello", "transient": True},
        {"type": "data-step", "id": "p", "data": {"pct": 90}},
        {"type": "data-other", "id": "p", "data": None},
    ]
    assert parts(*chunks) == [
        {"type": "data-step", "id": "p", "data": {"pct": 90}},
        *[{"type": "data-note", "data": 1}] * 2,
        {"type": "data-other", "id": "p", "data": None},
    ]


# -- calls


def test_parameters_are_shown_as_far_as_they_have_come() -> None:
    """Nothing before the first piece, and nothing where it is no JSON."""
    shown = {"type": "tool-add", "toolCallId": "c", "state": "input-streaming"}
    assert parts(started()) == [shown]
    assert parts(started(), piece('{"a": ')) == [{**shown, "rawInput": '{"a": ', "input": {}}]
    assert parts(started(), piece("I think")) == [{**shown, "rawInput": "I think"}]
    assert parts(started(inputEncoding="text"), piece("I think")) == [
        {**shown, "inputEncoding": "text", "rawInput": "I think", "input": "I think"}
    ]


def test_a_whole_call_takes_the_place_of_its_pieces() -> None:
    """Also under another name, as a call that was repaired has."""
    part = {"type": "tool-sum", "toolCallId": "c", "state": "input-available", "input": {"a": 1}}
    assert parts(started(), piece("{"), whole(name="sum")) == [part]


def test_a_call_that_begins_again_in_its_step_begins_anew() -> None:
    """What it had come to is gone, but for the request for its approval."""
    asks = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"}
    (part,) = parts(whole(), asks, output(1, preliminary=True), started())
    assert part == {"type": "tool-add", "toolCallId": "c", "state": "input-streaming", "approval": {"id": "a"}}


def test_preliminary_outputs_give_way() -> None:
    """To the next one, to the last one, and to a failure."""
    shown = parts(whole(), output(1, preliminary=True), output(2, preliminary=True))[0]
    assert (shown["output"], shown["preliminary"]) == (2, True)
    failed = {"type": "tool-output-error", "toolCallId": "c", "errorText": "no"}
    (part,) = parts(whole(), output(1, preliminary=True), failed)
    assert part == {
        "type": "tool-add",
        "toolCallId": "c",
        "state": "output-error",
        "errorText": "no",
        "input": {"a": 1},
    }


def test_a_call_that_failed_in_mid_stream_keeps_the_parameters_that_had_come() -> None:
    """A static one also their text."""
    failed = {"type": "tool-output-error", "toolCallId": "c", "errorText": "stopped"}
    (static,) = parts(started(), piece('{"a": 1, "b'), failed)
    (dynamic,) = parts(started(dynamic=True), piece('{"a": 1, "b'), failed)
    assert (static["input"], static["rawInput"]) == ({"a": 1}, '{"a": 1, "b')
    assert (dynamic["input"], "rawInput" in dynamic) == ({"a": 1}, False)


def test_metadata_of_a_call_and_of_its_result_are_apart() -> None:
    """And the mark of the provider stays."""
    call, result = {"acme": {"id": "1"}}, {"acme": {"id": "2"}}
    (part,) = parts(whole(providerMetadata=call, providerExecuted=True), output(1, providerMetadata=result))
    assert (part["callProviderMetadata"], part["resultProviderMetadata"]) == (call, result)
    assert part["providerExecuted"] is True


def test_a_result_belongs_to_the_call_of_the_step_and_else_to_the_last_one_before() -> None:
    """Of two parts of one id in a step, to the first."""
    step = parts(STEP, whole(), STEP, whole(), output(1))
    assert [part.get("output") for part in step] == [None, None, None, 1]
    earlier = parts(STEP, whole(), STEP, output(1))
    assert [part.get("output") for part in earlier] == [None, 1, None]
    twice = parts(STEP, started(dynamic=True), whole(), output(1))
    assert [part.get("output") for part in twice] == [None, 1, None]


def test_an_approval_is_asked_for_and_answered() -> None:
    """What the request carries stays beside the answer."""
    asks = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c", "signature": "S", "reason": "why"}
    answer = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "no"}
    (asked,) = parts(whole(), asks)
    (part,) = parts(whole(), asks, answer)
    assert (asked["state"], asked["approval"]) == (
        "approval-requested",
        {"id": "a", "requestReason": "why", "signature": "S"},
    )
    assert (part["state"], part["approval"]) == (
        "approval-responded",
        {**asked["approval"], "approved": False, "reason": "no"},
    )


def test_open_calls_are_those_without_a_last_result() -> None:
    """Preliminary ones are none; calls of the provider are not counted."""
    asks = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "d"}
    chunks = [started("a"), whole("b"), output(1, "b"), whole("c"), output(1, "c", preliminary=True), whole("d"), asks]
    assert built(*chunks, whole("e", providerExecuted=True)).open_calls.keys() == {"a", "c", "d"}


def test_a_builder_goes_on_with_a_message() -> None:
    """Under its id, in its last step, with its calls and its data; the message itself stays as it was."""
    progress = {"type": "data-step", "id": "p", "data": 1}
    before = built(STEP, whole(), progress, {"type": "message-metadata", "messageMetadata": {"a": 1}}).message
    more = built(output(2), {**progress, "data": 2}, STEP, *added("Done."), before=before).message
    assert (more.id, more.metadata) == ("m", {"a": 1})
    assert [part.get("output", part.get("data", part.get("text"))) for part in more.parts] == [
        None,
        2,
        2,
        None,
        "Done.",
    ]
    assert "output" not in before.parts[1]
    assert len(parts(whole(), before=before)) == 3


# -- what has no place


@every(
    ("chunk", "problem"),
    [
        (
            {"type": "text-delta", "id": "t", "delta": "x"},
            "text-delta with the id 't': no text-start came before it",
        ),
        ({"type": "reasoning-end", "id": "t"}, "no reasoning-start came before it"),
        (piece("{"), "tool-input-delta of the call 'c': the step has no open tool-input-start"),
        (output(1), "tool-output-available: unknown call 'c'"),
        ({"type": "tool-output-denied", "toolCallId": "c"}, "unknown call 'c'"),
        (
            {"type": "tool-approval-response", "approvalId": "a", "approved": True},
            "tool-approval-response: unknown request 'a'",
        ),
        ({"type": "text-delta", "id": "t", "delta": 5}, "text-delta/delta: expected string, found integer 5"),
        ({"type": "text-delta", "id": "t"}, "text-delta/delta: expected string, found nothing"),
        ({"type": "text-start", "id": ["t"]}, "text-start/id: expected string, found array of 1 item"),
        ({"type": "start", "messageId": None}, "start/messageId: expected string, found null"),
        ({**whole(), "title": None}, "tool-input-available/title: expected string, found null"),
        ({**whole(), "dynamic": "yes"}, "tool-input-available/dynamic: expected boolean, found string 'yes'"),
        ({**whole(), "toolCallId": {}}, "tool-input-available/toolCallId: expected string, found object"),
        ({"type": "tool-output-available", "toolCallId": "c"}, "output: expected a value, found nothing"),
        ({"type": "data-x"}, "data-x/data: expected a value, found nothing"),
        ({"type": "data-x", "id": 1, "data": 1}, "data-x/id: expected string, found integer 1"),
        ({"type": "made-up"}, "unknown type of a chunk: string 'made-up'"),
        ({"type": ["start"]}, "unknown type of a chunk: array of 1 item"),
        ({}, "unknown type of a chunk: null"),
        ("start", "unknown type of a chunk: null"),
    ],
)
def test_a_chunk_that_is_wrong_is_refused_and_says_what(chunk: Any, problem: str) -> None:
    """The message is as it was before."""
    builder = built(STEP)
    with pytest.raises(ChunkError) as raised:
        builder.add(chunk)
    assert problem in str(raised.value)
    assert builder.message.parts == (STEP_PART,)


def test_parameters_of_a_step_that_is_over_take_no_more_pieces() -> None:
    """Nor those of a call that is whole, or has a result."""
    for ended in (STEP, whole(), output(1, preliminary=True)):
        with pytest.raises(ChunkError, match="the step has no open tool-input-start"):
            built(started(), piece("{"), ended, piece("}"))
