"""Server-sent events out of bytes: the standard's rules, any split of the bytes, and what breaks a stream."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import InvalidOutputError, NetworkError
from fxai.providers.http import Event, EventReader, read_events
from tests.kit.every import every

LINES = st.sampled_from(
    [
        b"",
        b":",
        b": keep-alive",
        b"data",
        b"data:",
        b"data: a",
        b"data:  b",
        b"data:x:y",
        "data: größe 𝄞 \u2028".encode(),
        b'data: {"a": 1}',
        b"event: delta",
        b"event:",
        b"event",
        b"id: 7",
        b"id",
        b"id: a\0b",
        b"retry: 10",
        b"unknown: field",
        b"no field",
        b"data: \xff",
        b"\xef\xbb\xbfdata: behind a BOM",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def _read(data: bytes) -> tuple[Event, ...]:
    events, fault = read_events([data])
    assert fault is None
    return events


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    locations = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(locations)]


@every(
    ("data", "expected"),
    [
        (b"", []),
        (b"data: a\n\n", [Event("message", "a")]),
        (b"data:a\n\n", [Event("message", "a")]),
        (b"data:  a\n\n", [Event("message", " a")]),
        (b"data\n\n", [Event("message", "")]),
        (b"data: a\ndata:\ndata: b\n\n", [Event("message", "a\n\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [Event("x", "a"), Event("message", "b")]),
        (b"event: x\n\ndata: b\n\n", [Event("message", "b")]),
        (b": a comment\ndata: a\n:\n\n", [Event("message", "a")]),
        (b"\n\n\ndata: a\n\n\n", [Event("message", "a")]),
        (b"data: a\r\rdata: b\r\n\r\n", [Event("message", "a"), Event("message", "b")]),
        (b"data: a\r\n\ndata: b\n\r", [Event("message", "a"), Event("message", "b")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [Event("message", "a", "1"), Event("message", "b", "1")]),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [Event("message", "a", "1"), Event("message", "b", "")]),
        (b"id: 1\nid: 2\0\ndata: a\n\n", [Event("message", "a", "1")]),
        (b"retry: 5\ndata: a\n\n", [Event("message", "a")]),
        (b"datas: x\ndata: a\n\n", [Event("message", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("message", "a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [Event("message", "b")]),
        (b"data: a\n\xef\xbb\xbfdata: b\n\n", [Event("message", "a")]),
        ("data: \u2028\u0085\x0b\n\n".encode(), [Event("message", "\u2028\u0085\x0b")]),
    ],
)
def test_bytes_are_read_by_the_standard(data: bytes, expected: list[Event]) -> None:
    """Fields, comments, line ends, ids, names, and a byte order mark, as the WHATWG standard says."""
    assert list(_read(data)) == expected


@given(STREAMS, st.lists(st.integers(0, 500), max_size=20))
def test_any_split_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    """Wherever the bytes are cut, the events and the fault are those of the whole."""
    assert read_events(_pieces(data, cuts)) == read_events([data])


@given(STREAMS)
def test_a_split_at_every_byte_gives_the_same_events(data: bytes) -> None:
    """Fed byte by byte, the events and the fault are those of the whole."""
    assert read_events([data[location : location + 1] for location in range(len(data))]) == read_events([data])


@given(STREAMS, st.integers(0, 500))
def test_a_cut_stream_keeps_what_came(data: bytes, cut: int) -> None:
    """The events of a stream that is cut are the first ones of the whole; a fault of the whole is not hidden by it.

    If the last event is whole JSON without its blank line, the stream may have gone on with more lines of it.
    """
    whole, broken = read_events([data])
    part, fault = read_events([data[: cut % (len(data) + 1)]])
    sure = part[:-1] if part and part[-1].data.strip() == '{"a": 1}' else part

    assert sure == whole[: len(sure)]
    assert broken is not None or len(part) <= len(whole) + 1
    assert fault is None or isinstance(fault, InvalidOutputError | NetworkError)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=5).filter(
                lambda name: name[0] != " "
            ),
            st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20),
        ),
        max_size=5,
    )
)
def test_what_is_written_is_read(written: list[tuple[str, str]]) -> None:
    """Events written by the standard's rules are read back, whatever is in their names and their data."""
    lines = [f"event: {name}\n" + "".join(f"data: {line}\n" for line in data.split("\n")) for name, data in written]

    events = _read("".join(f"{line}\n" for line in lines).encode())

    assert [(event.name, event.data) for event in events] == written


@every("rest", [b"da", b"data: b", b"data: b\n", b"event: x\n", b"data: b\r\nda", b"data: b\n:"])
def test_an_end_in_the_middle_of_an_event_is_a_fault(rest: bytes) -> None:
    """What came before the end is given; the unfinished event is a fault, not an event."""
    events, fault = read_events([b"data: a\n\n" + rest])

    assert events == (Event("message", "a"),)
    assert fault is not None
    assert "in the middle of an event" in fault.message
    assert isinstance(fault, NetworkError)
    assert fault.is_retryable
    assert "connection" in fault.advice


@every("end", [b"", b"\n", b"\r\n", b"\n:", b"\nid: 1", b"\nevent: x"])
@every("data", ['{"a": [1]}', "[1]", "[DONE]", ' {"a": "\\ud83d"}', '{"a": "größe 𝄞"}'])
def test_a_last_event_without_blank_line_is_read(data: str, end: bytes) -> None:
    """Whole JSON needs no blank line, because no further line can belong to it."""
    written = b"event: x\ndata: 1\n\ndata:" + data.encode() + end

    assert read_events([written]) == ((Event("x", "1"), Event("message", data.removeprefix(" "))), None)


@given(st.integers(0, 60))
def test_a_last_event_cut_within_its_json_is_a_fault(cut: int) -> None:
    """A cut stream never looks whole: fxai reads the last event only if its JSON is whole."""
    written = 'data: {"a": 1}\n\nevent: b\ndata: {"größe": [1, "}"]}\n'.encode()
    events, fault = read_events([written[:cut]])

    assert all(event.data in ('{"a": 1}', '{"größe": [1, "}"]}') for event in events)
    is_complete = written[:cut].endswith((b"1}", b"]}", b"}\n", b"}\n\n"))
    assert (fault is None) == (cut == 0 or is_complete)


@every("rest", [b"", b"\n", b": keep", b":\n", b"id: 1\n", b"retry: 1\n"])
def test_an_end_between_events_is_none(rest: bytes) -> None:
    """Comments and fields that make no event may stand before the end."""
    assert read_events([b"data: a\n\n" + rest])[1] is None


def test_bytes_that_are_not_utf8_are_a_fault_that_says_where() -> None:
    """The events before it are given, those behind it are not."""
    events, fault = read_events([b"data: a\n\ndata: \xc3\x28\n\ndata: c\n\n"])

    assert events == (Event("message", "a"),)
    assert fault is not None
    assert "byte 15 of the stream is not UTF-8" in fault.message


def test_an_event_that_is_too_large_is_a_fault() -> None:
    """Neither one endless line nor endless lines are kept beyond the limit; small events go on for ever."""
    line = read_events([b"data: a\n\n", b"data: ", *[b"x" * 10] * 100], largest=100)
    lines = read_events([b"data: x\n"] * 100, largest=100)
    small = read_events([b"data: x\n\n: keep-alive\n"] * 100, largest=100)

    assert line[0] == (Event("message", "a"),)
    assert line[1] == lines[1] == InvalidOutputError("an event is larger than the limit of 100 bytes")
    assert (len(small[0]), small[1]) == (100, None)


@every("cut", [False, True])
@every(
    ("data", "fits"),
    [
        (b"data: 1\n\n", 7),
        (b"data: 1\r\ndata: 2\r\n\r\n", 14),
        (b"data: 1\n:a comment\n\n", 17),
        (b"data: 1\n\ndata: 2\n\n", 7),
    ],
)
def test_an_event_may_be_as_large_as_allowed(data: bytes, fits: int, cut: bool) -> None:
    """Its lines without their ends, with the comment that is being read; one byte more is a fault."""
    pieces = [data[location : location + 1] for location in range(len(data))] if cut else [data]

    assert read_events(pieces, largest=fits)[1] is None
    assert read_events(pieces, largest=fits - 1)[1] == InvalidOutputError(
        f"an event is larger than the limit of {fits - 1} bytes"
    )


def test_comments_are_no_part_of_an_event_however_many() -> None:
    """What keeps a stream alive while an event is far off takes none of the bytes that the event may have."""
    assert read_events([b": keep-alive\n"] * 100 + [b"data: 1\n\n"], largest=20) == ((Event("message", "1"),), None)


@pytest.mark.parametrize(
    ("data", "size"), [(b"data: b\n", 8), (b"data: b\r\nda", 11), (b"da", 2), (b"id: 1\n\ndata: b", 14)]
)
def test_a_cut_says_how_much_came(data: bytes, size: int) -> None:
    """The bytes of the whole stream until its end, however they were cut."""
    fault = NetworkError("TransportError", f"the stream ends in the middle of an event, after {size} bytes")

    assert read_events([data])[1] == fault
    assert read_events([data[location : location + 1] for location in range(len(data))])[1] == fault


def test_the_first_fault_stands() -> None:
    """Bytes that are not UTF-8 are the fault, also where what stands behind them in the same piece is too large."""
    fault = read_events([b"data: \xff\n" + b"x" * 100], largest=50)[1]

    assert fault is not None
    assert "byte 6 of the stream is not UTF-8" in fault.message


def test_nothing_is_read_behind_a_fault() -> None:
    """A reader that has seen a fault gives no more events and keeps the fault."""
    reader = EventReader()
    reader.feed(b"data: \xff\n\n")

    assert reader.feed(b"data: a\n\n") == []
    assert reader.fault is not None
    assert reader.end() == reader.fault


@settings(max_examples=5)
@given(st.integers(1, 7))
def test_large_events_come_through_in_small_pieces(size: int) -> None:
    """A megabyte of data in pieces of a few bytes is read: the pieces are joined once."""
    data = json.dumps("größe" * 20_000, ensure_ascii=False).encode()
    stream = b"data: " + data + b"\n\n"

    events, fault = read_events([stream[start : start + size] for start in range(0, len(stream), size)])

    assert fault is None
    assert events[0].data.encode() == data


def test_the_reader_imports_no_http() -> None:
    """Reading events needs nothing but bytes: no HTTP is imported by its module."""
    source = Path(__file__).parents[4] / "fxai" / "providers" / "http" / "event.py"

    assert "httpx2" not in source.read_text(encoding="utf-8")


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data:[DONE]\r", b"data: [DONE]\n", b"event: x\ndata: [DONE]"])
def test_a_stream_may_break_off_behind_its_last_event(end: bytes) -> None:
    """`[DONE]` needs no blank line: nothing follows it. It is given once."""
    events, fault = read_events([b"data: 1\n\n", end])

    assert ([event.data for event in events], fault) == (["1", "[DONE]"], None)
    reader = EventReader()
    reader.feed(end)
    assert [len(reader.last()), len(reader.last())] == [1, 0]
    assert reader.end() is None


@pytest.mark.parametrize("end", [b"data: [DONE", b"data: 2", b"data: 1\ndata: [DONE]", b"event: [DONE]"])
def test_no_other_event_is_taken_without_its_end(end: bytes) -> None:
    """It may have been cut."""
    events, fault = read_events([end])

    assert events == ()
    assert isinstance(fault, NetworkError)
