"""Messages put together of chunks, and JSON that is still coming, beside what a client of the AI SDK makes of both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fxai.schema.partial_json import parse_partial
from fxai.ui import Chunk, ChunkError, MessageBuilder
from tests.kit.node import Missing, installed, node

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
Json = dict[str, Any]

SOME: list[Chunk] = [
    *({"type": f"{kind}-{what}", "id": "a"} for kind in ("text", "reasoning") for what in ("start", "end")),
    *({"type": f"{kind}-delta", "id": "a", "delta": "x"} for kind in ("text", "reasoning")),
    {"type": "text-delta", "id": 1, "delta": "x"},
    {"type": "text-start", "id": None},
    {"type": "start-step"},
    {"type": "finish-step"},
    {"type": "reset-step"},
    {"type": "abort"},
    {"type": "error", "errorText": "x"},
    {"type": "made-up"},
    {"type": "tool-input-start", "toolCallId": "a", "toolName": "t"},
    *({"type": "tool-input-delta", "toolCallId": "a", "inputTextDelta": text} for text in ("[", '{"b":')),
    {"type": "tool-input-available", "toolCallId": "a", "toolName": "u", "input": {"a": 1}},
    {"type": "tool-input-error", "toolCallId": "a", "toolName": "t", "input": {"town": 1}, "errorText": "bad"},
    {"type": "tool-approval-request", "toolCallId": "a", "approvalId": "p"},
    {"type": "tool-approval-request", "toolCallId": "a", "approvalId": "q", "signature": "S", "isAutomatic": True},
    {"type": "tool-approval-response", "approvalId": "p", "approved": True},
    {"type": "tool-approval-response", "approvalId": "q", "approved": False, "reason": "no"},
    {"type": "tool-output-denied", "toolCallId": "a"},
    {"type": "tool-output-available", "toolCallId": "a", "output": None},
    {"type": "tool-output-available", "toolCallId": "a", "output": 1, "preliminary": True},
    {"type": "tool-output-error", "toolCallId": "a", "errorText": "no"},
    {"type": "data-x", "id": "a", "data": 1},
    {"type": "data-x", "data": 2},
    {"type": "data-x", "data": 3, "transient": True},
    {"type": "file", "url": "u", "mediaType": "m", "other": 1},
    {"type": "source-url", "sourceId": "s", "url": "u", "title": "T"},
    {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "t"}]},
    {"type": "finish", "finishReason": "stop", "messageMetadata": {"b": {"c": [1]}}},
]
END: Chunk = {"type": "message-metadata", "messageMetadata": {"end": True}}


def a_chunk(random: Random) -> Chunk:
    """One of them, or one with another id, name, mark or metadata."""
    chunk = dict(random.choice(SOME))
    for name in ("id", "toolCallId"):
        if chunk.get(name) == "a" and random.random() < 0.4:
            chunk[name] = "b"
    if chunk["type"].startswith("tool-input") and random.random() < 0.3:
        chunk["dynamic"] = random.random() < 0.8
    if "-o" not in chunk["type"] and not chunk["type"].startswith("data") and random.random() < 0.2:
        chunk["providerMetadata"] = {"acme": {"n": random.randrange(9)}}
    return chunk


def built(chunks: list[Chunk]) -> Json:
    """What a builder makes of chunks, or its error."""
    builder = MessageBuilder("")
    try:
        for chunk in (*chunks, END):
            builder.add(chunk)
    except ChunkError as error:
        return {"error": str(error)}
    return {"message": builder.message.to_data()}


def streams(random: Random) -> list[list[Chunk]]:
    """Streams of which most chunks have a place."""
    made: list[list[Chunk]] = []
    for _ in range(600):
        chunks: list[Chunk] = [{"type": "start", "messageMetadata": {"b": {"a": 1}}}]
        for _ in range(random.randrange(24)):
            chunk = a_chunk(random)
            if "error" not in built([*chunks, chunk]) or random.random() < 0.02:
                chunks.append(chunk)
        made.append(chunks)
    return made


def asked(given: list[Any]) -> list[Json]:
    """What the client makes of each."""
    try:
        modules = installed(HERE / "ai-clients")
    except Missing as missing:
        pytest.skip(str(missing))
    command = [node(), str(HERE / "build_messages.mjs"), str(modules)]
    done = subprocess.run(command, input=json.dumps(given).encode(), capture_output=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_a_builder_has_the_message_that_the_client_has(seed: int) -> None:
    """Or refuses what the client refuses; pieces of parameters that are over are refused here alone."""
    made = streams(Random(seed))
    pairs = [(chunks, built(chunks), theirs) for chunks, theirs in zip(made, asked(made), strict=True)]
    differing = [
        pair
        for pair in pairs
        if pair[1] != pair[2]
        and not ("error" in pair[1] and ("error" in pair[2] or "tool-input-delta of" in pair[1]["error"]))
    ]
    assert differing[:1] == []
    assert sum("message" in ours for _, ours, _ in pairs) > 300


TEXTS = [
    json.dumps({"city": 'Os"lo\\', "days": [1, -2.5, 1e21, True, False, None], "": {"a": []}, "é": "é\n"}, indent=1),
    json.dumps([[], {}, [{"a": {"b": "\u2028 \x01"}}], "nul", -0.25, {"true": True}]),
    *("-12.5e-3", "true", '"text"', ' {"a":1} ', "null"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_json_that_is_still_coming_is_read_as_the_client_reads_it(text: str) -> None:
    """Each prefix of it."""
    prefixes = [text[:end] for end in range(len(text) + 1)]
    ours = [parse_partial(prefix) for prefix in prefixes]
    assert [{} if value is msgspec.UNSET else {"value": value} for value in ours] == asked(prefixes)
