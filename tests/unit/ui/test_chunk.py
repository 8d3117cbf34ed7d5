"""The encoder of the UI message stream, where runs are not as they mostly are."""

from __future__ import annotations

from typing import Any

import pytest

from fxai import fx
from fxai.effects import Backend, Cause, Die, Fail, Failed, Interrupt, StreamOf, stream_steps
from fxai.effects.effect import FailCause, Succeed, Sync
from fxai.messages import (
    ApprovalRequest,
    File,
    FileUrl,
    Finish,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    WarningPart,
)
from fxai.tools import Denied
from fxai.ui import Chunk, ChunkEncoder, DataPart, MessageBuilder, StreamOptions, Version, encode_stream
from tests.kit.every import every

CALL = [ToolParamsStart("c1", "look"), ToolParamsEnd("c1"), ToolCall("c1", "look", {"path": "/a"})]
DENIED = ToolResult("c1", "look", Denied("look", "it may not be chosen"), "it may not be chosen", is_failure=True)


def encode(*parts: Any, version: Version = 7) -> list[Chunk]:
    """The chunks of an answer of these parts, which a client can put together."""
    encoder = ChunkEncoder(StreamOptions(version), message_id="m")
    chunks = [*encoder.start(), *(chunk for part in parts for chunk in encoder.encode(part)), *encoder.finish()]
    builder = MessageBuilder("m")
    for chunk in chunks:
        builder.add(chunk)
    return chunks


def _types(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks[1:-1] if not chunk["type"].endswith("-step")]


def test_a_denial_that_nobody_was_asked_about_is_a_failure() -> None:
    """A client knows a denied call only by the approval that it was asked for."""
    chunks = encode(*CALL, DENIED, Finish("stop"))

    assert _types(chunks) == ["tool-input-start", "tool-input-available", "tool-output-error"]
    assert chunks[-3]["errorText"] == "it may not be chosen"


@pytest.mark.parametrize(
    ("version", "type_"), [(5, "tool-output-error"), (6, "tool-output-denied"), (7, "tool-output-denied")]
)
def test_a_denial_that_was_asked_for_is_one(version: Version, type_: str) -> None:
    """In this answer, or, where the call is of the one before, in that; version 5 has none."""
    type_ = "tool-output-error" if version == 5 else "tool-output-denied"
    asked = encode(*CALL, ApprovalRequest("a1", "c1"), DENIED, Finish("stop"), version=version)
    before = ChunkEncoder(StreamOptions(version), message_id="m").encode(DENIED)

    assert _types(asked)[-1] == type_
    assert [chunk["type"] for chunk in before][-1] == type_


def test_pieces_of_a_call_of_no_known_tool_are_left_out() -> None:
    """The call itself has all of its parameters."""
    chunks = encode(ToolParamsDelta("c1", "{"), ToolParamsEnd("c1"), ToolCall("c1", "look", {}), Finish("stop"))

    assert _types(chunks) == ["tool-input-available"]


def test_steps_are_closed_and_opened_around_what_is_in_them() -> None:
    """Data before a step is in none; each turn of the model is one."""
    added = [TextStart("t"), TextDelta("t", "Hi."), TextEnd("t")]
    chunks = encode(DataPart("n", 1), *added, Finish("tool-calls"), *added, Finish("length"))
    types = [chunk["type"] for chunk in chunks]

    assert types[:3] == ["start", "data-n", "start-step"]
    assert types.count("start-step") == types.count("finish-step") == 2
    assert chunks[-1] == {"type": "finish", "finishReason": "length"}


# -- metadata of the message


def _reason(finish: Finish) -> dict[str, str]:
    return {"reason": finish.reason}


def _nothing(_: Finish) -> None:
    return None


@pytest.mark.parametrize(
    ("make", "told"),
    [(None, []), (_nothing, []), (_reason, [{"reason": "tool-calls"}, {"reason": "stop"}])],
)
def test_metadata_of_the_message_comes_after_each_step(make: Any, told: list[Any]) -> None:
    """Nothing is sent where there is none."""
    encoder = ChunkEncoder(StreamOptions(message_metadata=make))
    added = [TextStart("t"), TextDelta("t", "Hi."), TextEnd("t")]
    parts: list[Any] = [*added, Finish("tool-calls"), *added, Finish("stop")]
    chunks = [chunk for part in parts for chunk in encoder.encode(part)]
    locations = [location for location, chunk in enumerate(chunks) if chunk["type"] == "message-metadata"]

    assert [chunks[location]["messageMetadata"] for location in locations] == told
    assert all(chunks[location - 1]["type"] == "finish-step" for location in locations)


# -- how an answer ends


def _stream(end: Any) -> StreamOf[Any, Any, None]:
    """An answer that says something, and then ends so."""
    return StreamOf.make(TextStart("t")).concat(stream_steps(lambda _: end))


@pytest.mark.parametrize(
    ("end", "types"),
    [
        (Succeed(None), ["finish-step", "finish"]),
        (FailCause(Cause((Fail("it is away"),))), ["error"]),
        (FailCause(Cause((Die(ZeroDivisionError()),))), ["error"]),
    ],
)
def test_the_last_chunk_says_how_an_answer_ended(end: Any, types: list[str], backend: Backend) -> None:
    """A failure and a defect are its end, and no failure of the stream."""
    options = StreamOptions(error_text=repr)
    chunks = fx.run(encode_stream(_stream(end), options).collect(), backend=backend)
    texts = [chunk["errorText"] for chunk in chunks if "errorText" in chunk]

    assert [chunk["type"] for chunk in chunks] == ["start", "start-step", "text-start", *types]
    assert texts in ([], ["'it is away'"], ["ZeroDivisionError()"])


def test_an_answer_that_is_cancelled_has_no_last_chunk(backend: Backend) -> None:
    """The stream is cancelled, too: whoever cancelled it says what comes last."""
    seen: list[str] = []
    stream = encode_stream(_stream(FailCause(Cause((Interrupt(),)))))
    ended = fx.run_exit(stream.for_each(lambda chunk: Sync(lambda: seen.append(chunk["type"]))), backend=backend)

    assert isinstance(ended, Failed)
    assert ended.cause.reasons == (Interrupt(),)
    assert seen == ["start", "start-step", "text-start"]


# -- what is sent


MARK = {"openai": {"itemId": "i1"}}
LOOK = {"toolCallId": "c1", "toolName": "look"}
PARTS: list[tuple[Any, Chunk, str]] = [
    (TextStart("t", metadata=MARK), {"type": "text-start", "id": "t", "providerMetadata": MARK}, "metadata"),
    (
        ToolCall("c1", "look", {"a": 1}, metadata=MARK),
        {"type": "tool-input-available", **LOOK, "input": {"a": 1}, "providerMetadata": MARK},
        "metadata",
    ),
    (
        ToolCall("c1", "look", None, params_text="{half", dynamic=True),
        {"type": "tool-input-available", **LOOK, "input": "{half", "dynamic": True},
        "",
    ),
    (ReasoningStart("r"), {"type": "reasoning-start", "id": "r"}, "reasoning"),
    (
        Source("s", "Page", "https://example.org"),
        {"type": "source-url", "sourceId": "s", "url": "https://example.org", "title": "Page"},
        "sources",
    ),
    (
        Source("s", media_type="text/plain", file_name="a.txt"),
        {
            "type": "source-document",
            "sourceId": "s",
            "mediaType": "text/plain",
            "title": "a.txt",
            "filename": "a.txt",
        },
        "sources",
    ),
    (
        File("image/png", b"hi", metadata=MARK),
        {"type": "file", "url": "data:image/png;base64,aGk=", "mediaType": "image/png", "providerMetadata": MARK},
        "metadata",
    ),
    (
        File("image/png", FileUrl("https://example.org/a.png")),
        {"type": "file", "url": "https://example.org/a.png", "mediaType": "image/png"},
        "",
    ),
    (DataPart("n", 1), {"type": "data-n", "data": 1}, ""),
    (DataPart("n", 1, "d1", True), {"type": "data-n", "data": 1, "id": "d1", "transient": True}, ""),
    (
        WarningPart("no seed", "unsupported-option"),
        {"type": "data-warning", "data": {"message": "no seed", "kind": "unsupported-option"}, "transient": True},
        "",
    ),
]


@every(("part", "chunk", "option"), PARTS)
def test_a_part_is_sent_as_its_options_say(part: Any, chunk: Chunk, option: str) -> None:
    """By default all of it; what only a provider understands, reasoning and sources can be left out."""

    def sent(**options: Any) -> list[Chunk]:
        chunks = ChunkEncoder(StreamOptions(**options)).encode(part)
        return [one for one in chunks if one["type"] != "start-step"]

    without: Chunk = {name: value for name, value in chunk.items() if name != "providerMetadata"}
    others = {name: False for name in ("metadata", "reasoning", "sources") if name != option}

    assert sent() == sent(**others) == [chunk]
    if option:
        assert sent(**{option: False}) == ([without] if option == "metadata" else [])
