"""Runs as a page is told of them: Hypothesis draws the parts of runs, and their chunks, however they end."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from fxai.messages import (
    ApprovalRequest,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsStart,
    ToolResult,
)
from fxai.tools import Denied
from fxai.ui import Chunk, ChunkEncoder, DataPart

__all__ = ["DATA", "TEXTS", "Sent", "chunks", "runs"]

Sent = StreamPart | DataPart

TEXTS = st.text(max_size=8)
DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda some: st.lists(some, max_size=2) | st.dictionaries(TEXTS, some, max_size=2),
    max_leaves=4,
)


@st.composite
def a_text(draw: st.DrawFn, id_: str) -> list[Sent]:
    """A text or reasoning, in pieces; it may be cut before its end."""
    pieces = draw(st.lists(TEXTS, max_size=3))
    ends = draw(st.booleans())
    if draw(st.booleans()):
        return [TextStart(id_), *(TextDelta(id_, piece) for piece in pieces), *([TextEnd(id_)] if ends else [])]
    thoughts: list[Sent] = [ReasoningStart(id_), *(ReasoningDelta(id_, piece) for piece in pieces)]
    return [*thoughts, *([ReasoningEnd(id_)] if ends else [])]


@st.composite
def a_call(draw: st.DrawFn, id_: str) -> list[Sent]:
    """A call, whole or in pieces, and what came of it."""
    params, dynamic = draw(st.dictionaries(TEXTS, DATA, max_size=2)), draw(st.booleans())
    parts: list[Sent] = []
    if draw(st.booleans()):
        text = msgspec.json.encode(params).decode()
        at = draw(st.integers(0, len(text)))
        pieces = [ToolParamsDelta(id_, text[:at]), ToolParamsDelta(id_, text[at:])]
        parts += [ToolParamsStart(id_, "tool", dynamic=dynamic), *pieces]
    parts.append(ToolCall(id_, "tool", params, dynamic=dynamic))
    shown = ToolResult(id_, "tool", 1, draw(DATA), preliminary=True, dynamic=dynamic)
    parts += [shown] * draw(st.integers(0, 2))
    ended = draw(st.sampled_from(["good", "failed", "denied", "asks", "open"]))
    if ended == "asks":
        parts.append(ApprovalRequest(f"ask-{id_}", id_))
    elif ended == "good":
        parts.append(ToolResult(id_, "tool", 1, draw(DATA), dynamic=dynamic))
    elif ended != "open":
        result = Denied("tool", "no") if ended == "denied" else "no"
        parts.append(ToolResult(id_, "tool", result, draw(TEXTS), is_failure=True, dynamic=dynamic))
    return parts


OTHERS: st.SearchStrategy[Sent] = st.sampled_from(
    [
        DataPart("state", {"n": 1}),
        DataPart("progress", 5, "p", transient=True),
        File("image/png", b"png"),
        Source("s", url="https://example.org"),
    ]
)


@st.composite
def runs(draw: st.DrawFn) -> list[Sent]:
    """The parts of a run of some steps, in each of which several things come at once."""
    parts: list[Sent] = []
    for step in range(draw(st.integers(0, 3))):
        count = range(draw(st.integers(0, 4)))
        threads: list[list[Sent]] = [
            draw(a_text(f"{step}-{n}") | a_call(f"{step}-{n}") | OTHERS.map(lambda one: [one])) for n in count
        ]
        while any(threads):
            thread = draw(st.sampled_from([thread for thread in threads if thread]))
            parts.append(thread.pop(0))
        parts.append(Finish(draw(st.sampled_from(["stop", "tool-calls", "error"]))))
    return parts


@st.composite
def chunks(draw: st.DrawFn) -> list[Chunk]:
    """Chunks of a run that ended well, failed, was stopped, or was cut."""
    encoder = ChunkEncoder(message_id="m")
    whole = [*encoder.start(), *(chunk for part in draw(runs()) for chunk in encoder.encode(part))]
    match draw(st.sampled_from(["good", "failed", "stopped", "cut"])):
        case "good":
            return [*whole, *encoder.finish()]
        case "failed":
            return [*whole, *encoder.error("no")]
        case "stopped":
            return [*whole, *encoder.abort()]
        case _:
            return whole[: draw(st.integers(1, len(whole)))]
