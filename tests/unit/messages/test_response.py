"""Responses: gathered from a stream, read by properties, written and read back."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fxai.messages import (
    AiError,
    AnyPart,
    ApprovalRequest,
    ErrorPart,
    File,
    FileUrl,
    Finish,
    InternalProviderError,
    MessageError,
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Response,
    ResponseMetadata,
    Source,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    Usage,
    WarningPart,
    part_to_data,
    stream_of,
)
from tests.kit.every import every

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
WHOLE: tuple[Part, ...] = (
    ResponseMetadata("r1", "acme-1", NOON),
    Reasoning("hm", metadata={"acme": {"signature": "S"}}),
    Text("Look. "),
    ToolCall("b", "t", {"n": 1}),
    ToolCall("a", "t", None, params_text="{oops"),
    ToolResult("a", "t", "bad", is_failure=True),
    ToolResult("b", "t", 5),
    ApprovalRequest("q", "a"),
    File("image/png", b"\x00", "a.png"),
    File("image/png", FileUrl("https://e.org/")),
    Source("s1", "A page", "https://e.org/"),
    WarningPart("no seed here", "unsupported-option", "seed"),
    ErrorPart(AiError("Acme", "stream_text", InternalProviderError("lost"))),
    Text("Done."),
    Finish("tool-calls", Usage(5, 2)),
)


def test_a_response_is_read_by_its_properties() -> None:
    """Each kind of part has a property; results stand in the order of their calls."""
    response = Response(WHOLE)

    assert response.text == "Look. Done."
    assert response.reasoning_text == "hm"
    assert [call.id for call in response.tool_calls] == ["b", "a"]
    assert [(result.id, result.result) for result in response.tool_results] == [("b", 5), ("a", "bad")]
    assert [len(part) for part in (response.files, response.sources, response.warnings, response.errors)] == [
        2,
        1,
        1,
        1,
    ]
    assert response.approval_requests == (ApprovalRequest("q", "a"),)
    assert (response.finish_reason, response.usage) == ("tool-calls", Usage(5, 2))
    assert (response.id, response.model, response.timestamp) == ("r1", "acme-1", NOON)


def test_an_empty_response_says_so() -> None:
    """Without parts the text is empty, the reasoning none, the finish reason unknown and nothing was counted."""
    response = Response()

    assert (response.text, response.reasoning_text, response.finish_reason) == ("", None, "unknown")
    assert response.usage == Usage()
    assert (response.id, response.model, response.timestamp) == (None, None, None)


def test_results_of_earlier_calls_come_before_the_others() -> None:
    """A result whose call is not in the response stands first; preliminary ones are not among the results."""
    response = Response(
        (
            ToolCall("a", "t", {}),
            ToolResult("a", "t", 0, preliminary=True),
            ToolResult("a", "t", 1),
            ToolResult("old", "t", 2),
        )
    )

    assert [result.result for result in response.tool_results] == [2, 1]


def test_the_last_word_of_a_response_counts() -> None:
    """Of several metadata and finish parts the last that says something counts, and usage adds up."""
    response = Response(
        (ResponseMetadata("r", "m"), Finish("pause", Usage(1)), ResponseMetadata("r2"), Finish("stop", Usage(2)))
    )

    assert (response.id, response.model, response.finish_reason, response.usage) == ("r2", "m", "stop", Usage(3))


def test_interleaved_pieces_do_not_mix() -> None:
    """Texts, reasoning and calls that come at once are kept apart by kind and id, each where it started."""
    parts: list[AnyPart] = [
        TextStart("0"),
        ReasoningStart("0"),
        ToolParamsStart("x", "t"),
        TextDelta("0", "a"),
        ToolParamsStart("y", "u"),
        ReasoningDelta("0", "1"),
        ToolParamsDelta("y", "{}"),
        ToolParamsDelta("x", '{"n"'),
        TextDelta("0", "b"),
        ReasoningEnd("0"),
        ToolParamsEnd("y"),
        ToolCall("y", "u", {}),
        ToolParamsDelta("x", ": 1}"),
        ReasoningDelta("0", "late"),
        TextEnd("0"),
        ToolParamsEnd("x"),
        ToolCall("x", "t", {"n": 1}),
    ]

    assert Response.from_stream(parts).content == (
        Text("ab"),
        Reasoning("1"),
        ToolCall("x", "t", {"n": 1}),
        ToolCall("y", "u", {}),
        Reasoning("late"),
    )


def test_an_id_that_starts_again_is_another_part() -> None:
    """Providers count their blocks anew in every turn."""
    turn: list[AnyPart] = [TextStart("0"), TextDelta("0", "a"), TextEnd("0")]

    assert Response.from_stream([*turn, *turn]).content == (Text("a"), Text("a"))
    assert Response.from_stream([*turn[:2], *turn]).content == (Text("a"), Text("a"))


def test_deltas_without_a_start_start_a_part() -> None:
    """A stream joined in the middle, or a provider that sends no starts, loses nothing; a stray end is nothing."""
    parts: list[AnyPart] = [TextDelta("0", "a"), ReasoningDelta("0", "b"), ToolParamsDelta("c", "{"), TextEnd("9")]

    assert Response.from_stream(parts).content == (
        Text("a"),
        Reasoning("b"),
        ToolCall("c", "", None, params_text="{"),
    )


def test_a_stream_that_was_cut_keeps_what_came() -> None:
    """Text that never ended is there, and a call whose parameters broke off, as one that cannot be run."""
    parts: list[AnyPart] = [
        TextStart("0"),
        TextDelta("0", "par"),
        ToolParamsStart("x", "t", metadata={"acme": {"id": "i"}}),
        ToolParamsDelta("x", '{"n": '),
    ]

    assert Response.from_stream(parts).content == (
        Text("par"),
        ToolCall("x", "t", None, params_text='{"n": ', metadata={"acme": {"id": "i"}}),
    )


def test_a_repaired_call_takes_the_place_of_the_one_it_stands_for() -> None:
    """Whole or in pieces, and that of its own turn alone: ids are counted anew in every turn."""
    call, mended = ToolCall("0", "t", 1, metadata={"acme": {"id": "i"}}), ToolCall("0", "u", 2, repaired=True)
    turn: list[AnyPart] = [call, Text("a"), Finish("tool-calls")]
    pieces: list[AnyPart] = [*stream_of([call]), Text("a"), mended, Finish("tool-calls")]
    kept = msgspec.structs.replace(mended, metadata=call.metadata)

    assert Response.from_stream([*turn, *turn[:2], mended]).content == (*turn, kept, Text("a"))
    assert Response.from_stream(pieces).content == (kept, *turn[1:])
    assert Response.from_stream([*turn, mended]).content == (*turn, mended)
    assert Response.from_stream([kept, Text("a")]).content == (kept, Text("a"))


def test_metadata_of_pieces_is_joined() -> None:
    """What a provider says at the start, on the way and at the end is on the whole part, the later word winning."""
    parts: list[AnyPart] = [
        ReasoningStart("0", metadata={"acme": {"id": "i", "n": 1}}),
        ReasoningDelta("0", "r", metadata={"acme": {"n": 2}}),
        ReasoningEnd("0", metadata={"acme": {"signature": "S"}, "other": "x"}),
        ToolParamsStart("c", "t", metadata={"acme": {"id": "i"}}),
        ToolParamsEnd("c", metadata={"acme": {"n": 3}}),
        ToolCall("c", "t", {}, metadata={"acme": {"k": 4}}),
    ]

    assert [part.metadata for part in Response.from_stream(parts).content] == [
        {"acme": {"id": "i", "n": 2, "signature": "S"}, "other": "x"},
        {"acme": {"id": "i", "n": 3, "k": 4}},
    ]


def test_a_stream_of_preliminary_results_ends_in_one() -> None:
    """Preliminary results are gone from the whole."""
    parts = [ToolResult("c", "t", number, preliminary=number < 2) for number in range(3)]

    assert Response.from_stream(parts).content == (ToolResult("c", "t", 2),)


def test_gathering_takes_steps_in_proportion_to_the_stream() -> None:
    """Each delta is joined once: a text of 20,000 pieces is as long as its pieces, and made by one join."""
    pieces = 20_000
    response = Response.from_stream([TextStart("0"), *([TextDelta("0", "ab")] * pieces)])

    assert len(response.text) == 2 * pieces


def test_a_response_as_a_stream_and_back() -> None:
    """Taken to pieces and gathered again, nothing has changed, metadata and broken parameters included."""
    response = Response(WHOLE)
    stream = list(response.to_stream())

    assert Response.from_stream(stream) == response
    assert "".join(part.delta for part in stream if part.type == "text-delta") == response.text
    assert [part.delta for part in stream if part.type == "tool-params-delta"] == ['{"n":1}', "{oops"]


def test_everything_survives_json() -> None:
    """A response is written to JSON and read back, its pieces too."""
    response = Response(WHOLE)

    assert Response.from_json(response.to_json()).unwrap() == response
    assert Response.from_data(response.to_data()).unwrap() == response
    assert pickle.loads(pickle.dumps(response)) == response
    assert hash(Response.from_json(response.to_json()).unwrap()) == hash(response)


def test_results_are_written_encoded() -> None:
    """The Python value of a result stays here; the encoded form is what is written, and what is read back."""
    result = ToolResult("c", "t", {1, 2}, [1, 2])

    assert part_to_data(result) == {"type": "tool-result", "id": "c", "name": "t", "result": [1, 2]}
    assert Response.from_json(Response((result,)).to_json()).unwrap().content == (ToolResult("c", "t", [1, 2]),)
    assert ToolResult("c", "t", None).encoded_result is None


@pytest.mark.slow
def test_what_is_no_json_cannot_be_written() -> None:
    """NaN in a payload is refused, with its place, and never written as null."""
    with pytest.raises(MessageError, match="/params/n"):
        Response((ToolCall("c", "t", {"n": float("nan")}),)).to_json()


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("[", ""),
        ('[{"type": "text-delta", "id": "0", "delta": "a"}]', "/0/type"),
        ('[{"type": "finish", "reason": "stop", "usage": {"input_tokens": "5"}}]', "/0/usage/input_tokens"),
        ('[{"type": "text", "text": "a", "colour": "red"}]', "/0/colour"),
    ],
)
def test_what_is_no_response_is_a_failure_with_a_place(text: str, pointer: str) -> None:
    """Garbage, stream parts in a whole response, wrong types and unknown fields point at their place."""
    assert [fault.pointer for fault in Response.from_json(text).failure().faults] == [pointer]


def test_usage_adds_what_is_known() -> None:
    """What no side tells stays unknown; what one side tells is kept."""
    left, right = Usage(1, None, 3), Usage(1, 2, reasoning_tokens=4)

    assert left + right == Usage(2, 2, 3, None, 4)
    assert (left + right).total_tokens == 4
    assert Usage().total_tokens is None
    assert repr(Usage(1)) == "Usage(input_tokens=1)"


@every("count", [-1, -(10**30), True, float("nan"), 1.5, "7"])
def test_what_is_no_number_of_tokens_is_unknown(count: object) -> None:
    """Whoever made the usage: a server, a host, a model of one's own; nothing is counted backwards."""
    wrong: Any = count

    assert Usage(wrong, 3, wrong, wrong, wrong) == Usage(None, 3)
    assert (Usage(5, 3) + Usage(wrong, wrong)).total_tokens == 8
