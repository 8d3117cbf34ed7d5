"""The filter on event streams: what passes is the same bytes, however the stream arrives."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fxai.mcp.client_transport import EventFilter
from tests.kit.every import every

LINES = st.sampled_from([b"data: 1", b"data:{}", b"id: 5", b": note", b"event: message", b"", b"x"])
STREAMS = st.tuples(st.lists(LINES, max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"])).map(
    lambda drawn: drawn[1].join(drawn[0])
)


def _fed(events: EventFilter, pieces: list[bytes]) -> bytes:
    return b"".join([*(events.feed(piece) for piece in pieces), events.rest()])


@given(STREAMS, st.lists(st.integers(0, 80), max_size=6), st.integers(1, 40))
def test_a_stream_passes_as_it_is(stream: bytes, cuts: list[int], most: int) -> None:
    """Without a change, the same bytes pass, wherever the stream is cut and however little is kept."""
    locations = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    assert _fed(EventFilter(lambda data: data, most), [stream[a:b] for a, b in pairwise(locations)]) == stream


@every("end", [b"\n", b"\r\n", b"\r"])
def test_data_is_changed_whole(end: bytes) -> None:
    """The data of all lines of an event is one value; the other lines of the event stay."""
    seen: list[bytes] = []

    def change(data: bytes) -> bytes:
        seen.append(data)
        return b"new" if data.startswith(b"old") else data

    stream = end.join([b"id: 1", b"data: old", b"data:er", b"", b"data: kept", b"", b""])
    passed = [
        _fed(EventFilter(change, 99), [stream[at : at + size] for at in range(0, 99, size)]) for size in (1, 5, 99)
    ]

    assert set(passed) == {b"id: 1\ndata: new\n\n" + end.join([b"data: kept", b"", b""])}
    assert set(seen) == {b"old\ner", b"kept"}
