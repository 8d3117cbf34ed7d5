"""Streams of events over loopback: as they come, closed early, cut, stalled, refused, and tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from fxai.effects import Backend, Effect, Schedule, Stream, StreamOf, fx
from fxai.messages import AiError, InvalidOutputError, NetworkError, RateLimitError, RequestTimeoutError
from fxai.providers.http import Event, Secret, Timeout, open_client
from fxai.testing import TestClock
from tests.kit.every import every
from tests.kit.http_peer import Step, answer, events, peer

BODY = b"event: a\ndata: 1\n\ndata: 2\n\n: keep-alive\n\ndata: 3\n\n"
READ = [Event("a", "1"), Event("message", "2"), Event("message", "3")]


def _events(url: str, **options: Any) -> Stream[Event, AiError]:
    given: dict[str, Any] = {"retry": None, "module": "acme", **options}
    return StreamOf.unwrap(open_client(base_url=url, **given).map(lambda client: client.events("/stream", b"{}")))


def _kept(stream: Stream[Event, AiError]) -> Effect[tuple[list[Event], AiError | None]]:
    """What came, and the failure behind it."""
    came: list[Event] = []
    return stream.for_each(lambda event: fx.sync(lambda: came.append(event))).match(
        lambda error: (came, error), lambda _: (came, None)
    )


def _failure(kept: tuple[list[Event], AiError | None]) -> tuple[list[Event], Any]:
    came, error = kept
    assert error is not None
    return came, error.reason


@pytest.mark.parametrize(
    "pieces", [[BODY], [BODY[:9], BODY[9:20], BODY[20:]], [BODY[n : n + 1] for n in range(len(BODY))]]
)
def test_events_come_however_they_are_cut(backend: Backend, pieces: Sequence[bytes]) -> None:
    """The events of a stream are the same in one chunk, in three, and byte by byte."""
    with peer(events(*pieces)) as server:
        got = fx.run(_events(server.url).collect(), backend=backend)

    assert got == READ
    assert server.seen[0].headers["accept"] == "text/event-stream"


def test_an_event_is_given_before_the_next_one_comes(backend: Backend) -> None:
    """The first event is there while the server still holds the stream open, and leaving closes the connection."""
    with peer([*events(b"data: 1\n\n", whole=False), Step.HANG]) as server:
        first = fx.run(_events(server.url).first(), backend=backend)

        assert first.unwrap() == Event("message", "1")
        assert server.gone()


def test_leaving_a_stream_closes_its_connection_and_not_the_pool(backend: Backend) -> None:
    """A reader that stops early closes that connection at once; the client serves the next request."""

    @fx.gen
    def program(url: str, gone: Callable[[], bool]) -> Any:
        client = yield from open_client(base_url=url)
        first = yield from client.events("/", b"").take(1).collect()
        closed = yield from fx.sync(gone)
        answered = yield from client.get("/")
        return first, closed, answered.status

    with peer([*events(BODY, whole=False), Step.HANG], [answer(200, b"{}")]) as server:
        got = fx.run(fx.scoped(program(server.url, server.gone)), backend=backend)

    assert got == ([READ[0]], True, 200)


def test_a_stream_read_to_its_end_leaves_its_connection_to_the_next(backend: Backend) -> None:
    """The connection of a stream that ended is used again."""

    @fx.gen
    def program(url: str) -> Any:
        client = yield from open_client(base_url=url)
        yield from client.events("/", b"").drain()
        yield from client.events("/", b"").drain()

    with peer(events(BODY)) as server:
        fx.run(fx.scoped(program(server.url)), backend=backend)

    assert [seen.connection for seen in server.seen] == [1, 1]


def test_a_cancelled_reader_closes_its_connection(backend: Backend) -> None:
    """A reader that is interrupted while it waits for an event leaves nothing open."""
    with peer([*events(b"data: 1\n\n", whole=False), Step.HANG]) as server:
        reading = fx.fork(_events(server.url).drain()).and_then(fx.wait(server.asked)).and_then(fx.sleep(0.02))
        fx.run(fx.scoped(reading), backend=backend)

        assert server.gone()


@every("end", [Step.CLOSE, Step.RESET])
@every("size", range(9, len(BODY), 7))
def test_a_cut_stream_is_a_failure_behind_what_came(size: int, end: Step) -> None:
    """A connection that breaks keeps the whole events before it and ends in a typed failure."""
    with peer([*events(BODY[:size], whole=False), end]) as server:
        came, reason = _failure(fx.run(_kept(_events(server.url))))

    assert came == READ[: len(came)]
    assert isinstance(reason, NetworkError | InvalidOutputError)
    assert isinstance(reason, NetworkError) or "before its first event" in reason.message


def test_a_stream_that_ends_in_an_event_is_a_failure(backend: Backend) -> None:
    """A clean end of the answer in the middle of an event is a cut, behind what came: the advice is to try again."""
    with peer(events(b"data: 1\n\ndata: 2\n")) as server:
        came, reason = _failure(fx.run(_kept(_events(server.url)), backend=backend))

    assert came == [Event("message", "1")]
    assert isinstance(reason, NetworkError)
    assert "in the middle of an event" in reason.message


def test_a_stream_without_an_event_is_a_failure() -> None:
    """An answer that is empty, or only keeps alive, is no stream of events."""
    for pieces in ([], [b": ping\n\n"]):
        with peer(events(*pieces)) as server:
            came, reason = _failure(fx.run(_kept(_events(server.url))))

        assert (came, reason) == ([], InvalidOutputError("the stream ended before its first event"))


def test_a_stalled_stream_is_a_timeout(backend: Backend) -> None:
    """A stream that is silent for longer than `read` fails behind what came."""
    with peer([*events(b"data: 1\n\n", whole=False), Step.HANG]) as server:
        came, reason = _failure(fx.run(_kept(_events(server.url, timeout=Timeout(read=0.5))), backend=backend))

    assert came == [Event("message", "1")]
    assert isinstance(reason, RequestTimeoutError)
    assert reason.seconds == 0.5


def test_a_whole_stream_has_a_timeout_by_the_clock(backend: Backend) -> None:
    """`total` ends a stream that goes on for too long, however lively it is."""
    clock = TestClock()

    @fx.gen
    def program(url: str) -> Any:
        handle = yield from fx.fork(_kept(_events(url, timeout=Timeout(total=30)).tap(lambda _: clock.advance(20))))
        return (yield from handle.join())

    with peer([*events(b"data: 1\n\n", b"data: 2\n\n", whole=False), Step.HANG]) as server:
        came, reason = _failure(fx.run(fx.scoped(program(server.url)).provide(clock.layer), backend=backend))

    assert came == [Event("message", "1"), Event("message", "2")]
    assert reason == RequestTimeoutError(30, "the whole answer took longer")


def test_an_error_status_is_its_reason() -> None:
    """A stream that is refused fails as a whole answer would."""
    with peer([answer(429, b'{"error": {"message": "slow down"}}', "retry-after: 2")]) as server:
        _, reason = _failure(fx.run(_kept(_events(server.url))))

    assert reason == RateLimitError("slow down", retry_after=2.0)


@every("kind", ["application/json", "text/event-stream", "text/plain"])
def test_a_whole_answer_instead_of_a_stream_is_one_event(kind: str) -> None:
    """The reader of the events decides about a JSON object, because it can be an answer or an error."""
    with peer([answer(200, b'\xef\xbb\xbf\n{"error": {"code": "no_streams"}}', kind=kind)]) as server:
        came, failed = fx.run(_kept(_events(server.url)))

    assert (came, failed) == ([Event("whole answer", '\n{"error": {"code": "no_streams"}}')], None)


def test_a_page_instead_of_a_stream_is_invalid_output() -> None:
    """The failure of a page shows how the page begins."""
    with peer([answer(200, b"<h1>Log in</h1>", kind="text/html")]) as server:
        _, reason = _failure(fx.run(_kept(_events(server.url))))

    assert reason.description == "expected text/event-stream, got text/html: <h1>Log in</h1>"


@every("kind", ["text/plain", "text/plain; charset=utf-8", "application/octet-stream", "text/html", "application/json"])
@every("cut", [1, 3, 64])
def test_events_of_another_media_type_are_read(kind: str, cut: int) -> None:
    """The first field of the body shows that it is a stream of events, wherever the bytes are cut."""
    body = b": hello\n\ndata: 1\n\nevent: x\ndata: 2\n\n"
    pieces = [body[location : location + cut] for location in range(0, len(body), cut)]
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
    with peer([head, *pieces, Step.CLOSE]) as server:
        came, failed = fx.run(_kept(_events(server.url)))

    assert (came, failed) == ([Event("message", "1"), Event("x", "2")], None)


def test_empty_events_are_not_given() -> None:
    """Proxies send events without content to keep a connection open."""
    with peer(events(b"data:\n\ndata: \n\ndata: {}\n\ndata: null\n\ndata: 1\n\ndata\n\n")) as server:
        came, failed = fx.run(_kept(_events(server.url)))

    assert (came, failed) == ([Event("message", "1")], None)


def test_bytes_that_are_not_utf8_are_a_failure_behind_what_came() -> None:
    """Events before the broken byte are given."""
    with peer(events(b"data: 1\n\ndata: \xff\n\n")) as server:
        came, reason = _failure(fx.run(_kept(_events(server.url))))

    assert came == [Event("message", "1")]
    assert "not UTF-8" in reason.message


def test_a_stream_is_tried_again_until_its_first_event(backend: Backend) -> None:
    """A refusal, a cut before the first event and an empty stream are tried again; each attempt is closed."""
    cut: list[bytes | Step] = [*events(b"data: 1", whole=False), Step.CLOSE]
    with peer([answer(503, b"{}")], cut, events(), events(BODY)) as server:
        got = fx.run(_events(server.url, retry=Schedule.recurs(3)).collect(), backend=backend)

    assert got == READ
    assert len(server.seen) == 4


def test_a_stream_is_not_tried_again_behind_its_first_event() -> None:
    """What came cannot be taken back, so a cut behind it is a failure at once."""
    with peer([*events(b"data: 1\n\n", whole=False), Step.CLOSE]) as server:
        came, reason = _failure(fx.run(_kept(_events(server.url, retry=Schedule.recurs(3)))))

    assert came == [Event("message", "1")]
    assert isinstance(reason, NetworkError)
    assert len(server.seen) == 1


def test_each_reading_asks_anew() -> None:
    """A stream is a value: reading it twice sends two requests."""

    @fx.gen
    def program(url: str) -> Any:
        client = yield from open_client(base_url=url)
        stream = client.events("/", b"")
        return (yield from stream.collect()), (yield from stream.collect())

    with peer(events(BODY)) as server:
        got = fx.run(fx.scoped(program(server.url)))

    assert got == (READ, READ)
    assert len(server.seen) == 2


class _Body(httpx2.AsyncByteStream):
    """A body that tells when it is closed."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.closed = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    @override
    async def aclose(self) -> None:
        self.closed = True


def test_each_attempt_at_a_stream_is_closed(backend: Backend) -> None:
    """One that was broken before its first event is closed when the next one begins, and that with its reader."""
    bodies = [_Body(b"data: \xff\n\n", b": more\n"), _Body(BODY, b"data: 4\n\n")]
    closed: list[bool] = []
    left = iter(bodies)

    def respond(_: httpx2.Request) -> httpx2.Response:
        closed.extend(body.closed for body in bodies)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=next(left))

    opened = _events("https://x.example", transport=httpx2.MockTransport(respond), retry=Schedule.recurs(1))
    first = fx.run(opened.first(), backend=backend)

    assert first.unwrap() == READ[0]
    assert closed == [False, False, True, False]
    assert [body.closed for body in bodies] == [True, True]


def test_a_failure_of_a_stream_shows_no_secret() -> None:
    """What a provider repeats of the key behind a status is taken out."""
    reply = httpx2.Response(401, content=b"bad key sk-1234567890")
    opened = _events(
        "https://x.example",
        headers={"authorization": Secret("Bearer sk-1234567890")},
        transport=httpx2.MockTransport(lambda _: reply),
    )

    _, reason = _failure(fx.run(_kept(opened)))

    assert reason.description == "bad key (secret)"
