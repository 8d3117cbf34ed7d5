"""Streams of all three wires through the whole layer, split at every byte and cut at every byte."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple, Never

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Result
from typing_extensions import override

from fxai.effects import Effect, Gen, Scope, fx
from fxai.messages import AiError, InvalidOutputError, NetworkError, Response, StreamPart
from fxai.models import LanguageModel
from fxai.providers.http import read_events
from tests.kit.anthropic_replies import interleaved, message, sse
from tests.kit.openai_answers import chat_events, response_events
from tests.kit.openai_answers import events as whole_events
from tests.kit.trials import examples
from tests.kit.wires import WIRES, kit, model

TEXT = "Já ☃"
CITIES = ("Oslo", "Ålesund")


def _function(number: int, city: str) -> dict[str, Any]:
    arguments = json.dumps({"city": city})
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return {**call, "name": "weather", "arguments": arguments}


def _responses() -> bytes:
    text: dict[str, Any] = {"type": "output_text", "text": TEXT, "annotations": []}
    said: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    said["content"] = [text]
    items: list[dict[str, Any]] = [said, *(_function(number, city) for number, city in enumerate(CITIES))]
    told = whole_events(items)
    queues = [list(response_events(item, location, 5)) for location, item in enumerate(items)]
    mixed = [event for turn in zip_longest(*queues) for event in turn if event is not None]
    return sse([told[0], *mixed, told[-1]])


def _chat() -> bytes:
    calls = [
        {"id": one["call_id"], "type": "function", "function": {"name": "weather", "arguments": one["arguments"]}}
        for one in (_function(number, city) for number, city in enumerate(CITIES))
    ]
    told = chat_events({"role": "assistant", "content": TEXT, "tool_calls": calls}, size=5)
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in told) + b"data: [DONE]\n\n"


def _messages() -> bytes:
    calls: list[Any] = [
        {"type": "tool_use", "id": f"call_{number}", "name": "weather", "input": {"city": city}}
        for number, city in enumerate(CITIES)
    ]
    return sse(interleaved(message([{"type": "text", "text": TEXT, "citations": None}, *calls], "tool_use")))


_REPORTED: dict[str, Callable[[], bytes]] = {"responses": _responses, "chat": _chat, "messages": _messages}


@cache
def _bytes(wire: str) -> bytes:
    """A text and two parallel calls whose events take turns."""
    return _REPORTED[wire]()


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces, and then ends, or breaks."""

    def __init__(self, pieces: list[bytes], *, breaks: bool = False) -> None:
        self._pieces = pieces
        self._breaks = breaks

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise httpx2.ReadError("the line went dead")


class Came(NamedTuple):
    """The parts of a stream, and the failure behind them."""

    parts: list[StreamPart]
    ended: Result[None, Any]


def _into(parts: list[StreamPart]) -> Callable[[StreamPart], Effect[None]]:
    return lambda part: fx.sync(lambda: parts.append(part))


def _read(wire: str, bodies: list[Pieces]) -> list[Came]:
    """What our layer makes of each of the bodies, asked one after the other over one client."""
    waiting = iter(bodies)

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=next(waiting))

    @fx.gen
    def each() -> Gen[list[Came], AiError, LanguageModel | Scope]:
        came: list[Came] = []
        for _ in bodies:
            parts: list[StreamPart] = []
            asked: Any = LanguageModel.stream_text("Go", toolkit=kit, resolve_tools=False)
            reading: Effect[Result[None, Any], Never, LanguageModel] = asked.for_each(_into(parts)).result()
            came.append(Came(parts, (yield from reading)))
        return came

    served = model(wire, "http://127.0.0.1:9", transport=httpx2.MockTransport(answer))
    program: Effect[list[Came], AiError] = fx.scoped(each()).provide(served)
    return fx.run(program)


def _locations(wire: str) -> list[int]:
    """Where to cut: in the middle of each event, and a byte before, at and behind its end."""
    ends = [found.end() for found in re.finditer(rb"\n\n", _bytes(wire))]
    around = {end + by for end in ends for by in (-2, -1, 0, 1)} | {(a + b) // 2 for a, b in pairwise([0, *ends])}
    return sorted(at for at in around if at < len(_bytes(wire)))


@cache
def _whole(wire: str) -> tuple[StreamPart, ...]:
    [came] = _read(wire, [Pieces([_bytes(wire)])])
    assert not isinstance(came.ended, Failure)
    return tuple(came.parts)


@pytest.mark.parametrize("wire", WIRES)
def test_interleaved_calls_do_not_mix(wire: str) -> None:
    """Their events take turns; each gets its own pieces."""
    response = Response.from_stream(_whole(wire))
    deltas = [part.id for part in _whole(wire) if part.type == "tool-params-delta"]

    assert response.text == TEXT
    assert [(call.id, call.params) for call in response.tool_calls] == [
        ("call_0", {"city": "Oslo"}),
        ("call_1", {"city": "Ålesund"}),
    ]
    assert sum(a != b for a, b in pairwise(deltas)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_bytes_split_anywhere_are_the_same_events(wire: str) -> None:
    """In two at every place, also in the middle of a sign, and byte by byte: a layer sees events alone."""
    body = _bytes(wire)
    whole = read_events([body])
    different = [at for at in range(len(body)) if read_events([body[:at], body[at:]]) != whole]

    assert different == []
    assert read_events([body[at : at + 1] for at in range(len(body))]) == whole
    assert len(whole[0]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_a_split_stream_gives_the_same_parts(wire: str) -> None:
    """Through the whole layer: around the end of each event, within it, and byte by byte."""
    body = _bytes(wire)
    split = [Pieces([body[:at], body[at:]]) for at in _locations(wire)]
    bytewise = Pieces([body[at : at + 1] for at in range(len(body))])

    assert all(tuple(came.parts) == _whole(wire) for came in _read(wire, [*split, bytewise]))


@settings(max_examples=examples(30))
@given(st.sampled_from(WIRES), st.lists(st.integers(0, 10**6), max_size=30))
def test_a_stream_split_in_many_pieces_gives_the_same_parts(wire: str, cuts: list[int]) -> None:
    """Wherever the pieces end, and however many there are; empty ones among them."""
    body = _bytes(wire)
    locations = [0, *sorted(cut % len(body) for cut in cuts), len(body)]
    [came] = _read(wire, [Pieces([body[a:b] for a, b in pairwise(locations)])])

    assert tuple(came.parts) == _whole(wire)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_bytes_cut_anywhere_are_the_events_before(wire: str) -> None:
    """At every place: the events whose data came, and no other. The last event needs no blank line."""
    body = _bytes(wire)
    whole = read_events([body])[0]
    for at in range(len(body)):
        before, after = body[:at], body[at:]
        only_blank = after.startswith(b"\n\n") or (before[-1:] == b"\n" != before[-2:-1] and after[:1] == b"\n")
        assert read_events([before])[0] == whole[: before.count(b"\n\n") + only_blank]


def _end(wire: str) -> int:
    """From which byte on an answer is whole: of Chat Completions, before the count of tokens and `[DONE]`."""
    body = _bytes(wire)
    last = body.rstrip(b"\n")
    return body.index(b"\n\n", body.index(b'"finish_reason": "tool_calls"')) if wire == "chat" else len(last)


@pytest.mark.slow
@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_stream_keeps_what_came(wire: str, breaks: bool) -> None:
    """A typed failure behind a beginning of the parts; only where the answer said its end before, there may be none."""
    body, locations, whole = _bytes(wire), _locations(wire), _whole(wire)
    calls = {call.id: call for call in Response.from_stream(whole).tool_calls}
    for at, came in zip(locations, _read(wire, [Pieces([body[:at]], breaks=breaks) for at in locations]), strict=True):
        kept = Response.from_stream(came.parts)
        if not isinstance(came.ended, Failure):
            assert at >= _end(wire)
            assert tuple(came.parts[:-1]) == whole[:-1]
            assert kept.finish_reason == "tool-calls"
            continue

        assert isinstance(came.ended.failure().reason, NetworkError if breaks or at else InvalidOutputError)
        assert came.ended.failure().is_retryable
        assert tuple(came.parts) == whole[: len(came.parts)]
        assert TEXT.startswith(kept.text)
        assert all(call.params is None or call == calls[call.id] for call in kept.tool_calls)
        assert kept.finish_reason == "unknown"
