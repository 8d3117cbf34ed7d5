"""JSON whose characters are cut in two: within a text, and between the events of a stream."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.providers.http.event import JsonEvents, read_json
from tests.kit.every import every

TEXTS = st.text(st.sampled_from(["a", "ß", "😀", "𝄞", "\\", '"', "\ud83d", "\ude00"]), max_size=8)


def _units(text: str) -> list[str]:
    """The halves and whole characters of UTF-16 that a text consists of."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return [encoded[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(encoded), 2)]


def _mended(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _pieces(text: str, cuts: list[int]) -> list[str]:
    """The text in pieces that end anywhere between two units."""
    units = _units(text)
    locations = sorted({0, len(units), *(cut % (len(units) + 1) for cut in cuts)})
    return ["".join(units[start:end]) for start, end in pairwise(locations)]


def _read(events: list[Any]) -> list[Any]:
    reader = JsonEvents()
    return [one for event in events for one in reader.read(json.dumps(event))] + reader.end()


@given(TEXTS)
def test_half_characters_in_a_text_are_replaced(text: str) -> None:
    """Whole characters stay, and U+FFFD replaces each half."""
    written = json.dumps({"text": text, text: 1})

    assert read_json(written) == {"text": _mended(text), _mended(text): 1}
    assert read_json(b"\xef\xbb\xbf" + written.encode()) == read_json(written)


@every("text", ["", "{", '{"a": NaN}', '{"a": "\\ud83d', '{"a": "\\ud83d"} x', "\ufeff", b"\xff"])
def test_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    """A half character does not make JSON of text that is none."""
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        read_json(text)
    if isinstance(text, str):
        with pytest.raises(msgspec.DecodeError):
            JsonEvents().read(text)


@given(TEXTS, st.lists(st.integers(0, 9)))
def test_characters_cut_between_events_are_joined(text: str, cuts: list[int]) -> None:
    """Wherever the deltas of a string are cut, the string is the string of the whole."""
    deltas = [{"type": "delta", "delta": {"text": piece}} for piece in _pieces(text, cuts)]

    read = _read([*deltas, {"type": "stop"}])

    assert "".join(one["delta"]["text"] for one in read[:-1]) == _mended(text)
    assert read[-1] == {"type": "stop"}


@given(st.lists(st.tuples(TEXTS, st.lists(st.integers(0, 9))), min_size=2, max_size=3), st.randoms())
def test_interleaved_strings_do_not_mix(blocks: list[tuple[str, list[int]]], random: Any) -> None:
    """Each half joins the string at its own index, and the events keep their order."""
    waiting = [[(at, piece) for piece in _pieces(text, cuts)] for at, (text, cuts) in enumerate(blocks)]
    events: list[Any] = []
    while any(waiting):
        at, piece = random.choice([one for one in waiting if one]).pop(0)
        calls = [{"index": at, "function": {"arguments": piece}}]
        events.append({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
    calls = [one["choices"][0]["delta"]["tool_calls"][0] for one in _read(events)]

    assert [call["index"] for call in calls] == [one["choices"][0]["delta"]["tool_calls"][0]["index"] for one in events]
    for at, (text, _) in enumerate(blocks):
        assert "".join(call["function"]["arguments"] for call in calls if call["index"] == at) == _mended(text)


def test_an_event_waits_only_for_its_own_string() -> None:
    """An event of another kind releases a half character, so that no reader waits for the end of the stream."""
    reader = JsonEvents()

    assert reader.read('{"index": 0, "delta": {"text": "a\\ud83d"}}') == []
    assert reader.read('{"index": 0, "type": "stop"}') == [
        {"index": 0, "delta": {"text": "a�"}},
        {"index": 0, "type": "stop"},
    ]
    assert reader.read('{"index": 0, "delta": {"text": "\\ude00"}}') == [{"index": 0, "delta": {"text": "�"}}]
    assert reader.end() == []
