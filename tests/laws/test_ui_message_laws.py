"""What holds for the message of each run: it is of its form, says what the run said, and can be gone on with."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fxai.messages import Response, StreamPart
from fxai.ui import Chunk, ChunkEncoder, MessageBuilder, UIMessage, read_message
from tests.kit.ui_runs import Sent, chunks, runs


def built(sent: list[Chunk], before: UIMessage | None = None) -> MessageBuilder:
    """The builder of these chunks."""
    builder = MessageBuilder("m", before)
    for chunk in sent:
        builder.add(chunk)
    return builder


def encoded(parts: list[Sent]) -> list[Chunk]:
    """The chunks of a run that ended well."""
    encoder = ChunkEncoder(message_id="m")
    return [*encoder.start(), *(chunk for part in parts for chunk in encoder.encode(part)), *encoder.finish()]


@given(chunks())
def test_the_message_of_each_stream_is_one_that_a_client_may_send_back(sent: list[Chunk]) -> None:
    """Wherever the stream ends; it is read as it was."""
    message = built(sent).message
    assert read_message(message.to_data()).unwrap() == message


@given(runs())
def test_the_message_says_what_the_run_said(parts: list[Sent]) -> None:
    """Its texts, its calls with their parameters, and what came of each of them."""
    message = built(encoded(parts)).message
    told = Response.from_stream(part for part in parts if isinstance(part, StreamPart))
    calls = [(part["toolCallId"], part["input"]) for part in message.parts if "toolCallId" in part]

    assert message.text == told.text
    assert calls == [(part.id, part.params) for part in told.tool_calls]
    for part in told.tool_results:
        (shown,) = (each for each in message.parts if each.get("toolCallId") == part.id)
        assert _outcome(shown) == _told(part)


def _outcome(part: Any) -> Any:
    return part.get("output") if part["state"] == "output-available" else part.get("errorText", part["state"])


def _told(result: Any) -> Any:
    if not result.is_failure:
        return result.encoded_result
    return result.encoded_result if isinstance(result.result, str) else "output-denied"


@given(chunks(), st.data())
def test_a_message_that_is_gone_on_with_is_the_message_of_all_chunks(sent: list[Chunk], data: st.DataObject) -> None:
    """Where the first chunks ended nothing in its middle: a step, or the whole stream."""
    ends = [at + 1 for at, chunk in enumerate(sent) if chunk["type"] in ("start", "finish-step")]
    at = data.draw(st.sampled_from(ends)) if ends else len(sent)
    first = built(sent[:at])
    open_ = {part.get("id") for part in first.message.parts if part.get("state") == "streaming"}
    rest = [chunk for chunk in sent[at:] if chunk.get("id") not in open_ or chunk["type"].endswith("-start")]
    whole = [*sent[:at], *rest]
    assert built(rest, first.message).message == built(whole).message


@given(chunks())
def test_looking_at_a_message_in_between_changes_nothing(sent: list[Chunk]) -> None:
    """Whoever looks, and how often."""
    watched = MessageBuilder("m")
    for chunk in sent:
        watched.add(chunk)
        assert watched.message.id == "m"
    assert watched.message == built(sent).message
