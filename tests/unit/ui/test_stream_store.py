"""Stores of streams: in this process, in files and in a database, read from any place and signalled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Gen, fx
from fxai.effects import Backend, Exit, Failed, Scope
from fxai.testing import TestClock
from fxai.ui import DONE, Signal, Stop, StreamStore, StreamStoreError, StreamWriter, UserReply
from tests.kit.every import every
from tests.kit.trials import examples

Make: TypeAlias = Callable[..., StreamStore]


@pytest.fixture(params=["in_process", "files", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a store of a kind; those that others can read stand at one place."""
    makers: dict[str, Make] = {
        "in_process": StreamStore.in_process,
        "files": partial(StreamStore.files, tmp_path / "streams"),
        "sqlite": partial(StreamStore.sqlite, tmp_path / "streams.db"),
    }
    return makers[str(request.param)]


def event(n: int) -> bytes:
    """An event."""
    return b'data: {"n":%d}\n\n' % n


def events(first: int, last: int) -> bytes:
    """The events from one to another, together."""
    return b"".join(map(event, range(first, last)))


@fx.gen
def whole(store: StreamStore, conversation: str = "c1", after: int = 0, id_: str | None = None) -> Gen[bytes, Any]:
    """All that a reader gets of a stream."""
    return b"".join((yield from store.read(conversation, id_, after=after).collect()))


@fx.gen
def write(store: StreamStore, count: int, conversation: str = "c1", id_: str = "t1") -> Gen[None, Any, Scope]:
    """A stream of some events."""
    writer = yield from store.open(conversation, id_)
    for n in range(count):
        yield from writer.write((event(n),))


@pytest.mark.parametrize("after", [0, 1, 9, 10, 11, 500])
def test_a_reader_gets_what_is_behind_its_place(make: Make, after: int, backend: Backend) -> None:
    """From the first event on, or behind those that it has; `DONE` is the last one, of which none is lost."""
    store = make()
    fx.run(fx.scoped(write(store, 10)), backend=backend)
    read = fx.run(whole(store, after=after), backend=backend)

    assert read == (events(0, 10) + DONE)[len(events(0, min(after, 10))) :] if after <= 10 else read == b""


def test_readers_at_once_read_the_same_while_it_is_written(make: Make, backend: Backend) -> None:
    """Each from its own place, none of them waits for another, and all end with the stream."""
    store = make()

    @fx.gen
    def play() -> Gen[list[bytes], Any, Scope]:
        writing = yield from fx.fork(fx.scoped(slow(store)))
        yield from until_active(store)
        read: tuple[bytes, ...] = yield from fx.all_(whole(store), whole(store, after=3), whole(store, after=7))
        yield from writing.join()
        return list(read)

    assert fx.run(fx.scoped(play()), backend=backend) == [events(n, 20) + DONE for n in (0, 3, 7)]


def test_a_reader_on_another_event_loop_reads_what_is_written(make: Make, backend: Backend) -> None:
    """Each thread has an event loop of its own; the reader is woken there."""
    store, read = make(), list[bytes]()

    def follow() -> None:
        reading = until_active(store).and_then(whole(store))
        read.append(fx.run(reading.timeout(20), backend=backend))

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    fx.run(fx.scoped(slow(store)), backend=backend)
    reader.join(20)

    assert read == [events(0, 20) + DONE]


@fx.gen
def slow(store: StreamStore) -> Gen[None, Any, Scope]:
    """A stream of twenty events, with pauses."""
    writer = yield from store.open("c1", "t1")
    for n in range(20):
        yield from writer.write((event(n),))
        yield from fx.sleep(0.01)


@fx.gen
def until_active(store: StreamStore, conversation: str = "c1") -> Gen[str, Any]:
    """Waits until a turn runs, and gives its id."""
    while True:
        active = yield from store.active(conversation)
        if active is not None:
            return active
        yield from fx.sleep(0.005)


def test_a_stream_that_nobody_wrote_is_empty(make: Make, backend: Backend) -> None:
    """So is one of another turn; nothing runs, and nothing takes a signal."""
    store = make()
    fx.run(fx.scoped(write(store, 3)), backend=backend)

    assert fx.run(whole(store, "other"), backend=backend) == b""
    assert fx.run(whole(store, id_="t0"), backend=backend) == b""
    assert fx.run(store.active("c1"), backend=backend) is None
    assert fx.run(store.signal("c1", Stop()), backend=backend) is False


def test_a_second_turn_of_a_conversation_is_refused_while_one_runs(make: Make, backend: Backend) -> None:
    """The failure says so; when the first has ended, the next one takes its place."""
    store = make()

    @fx.gen
    def play() -> Gen[Exit[StreamWriter, StreamStoreError], Any, Scope]:
        yield from store.open("c1", "t1")
        return (yield from fx.scoped(store.open("c1", "t2")).exit())

    refused = fx.run(fx.scoped(play()), backend=backend)
    fx.run(fx.scoped(write(store, 2, id_="t3")), backend=backend)

    assert isinstance(refused, Failed)
    assert [str(one) for one in refused.cause.failures] == [
        "stream of conversation 'c1' could not be opened: another turn is active"
    ]
    assert fx.run(whole(store), backend=backend) == events(0, 2) + DONE


def test_signals_come_once_each_and_in_order(make: Make, backend: Backend) -> None:
    """Those that came before the turn looked are not lost."""
    store = make()
    sent: list[Signal] = [UserReply("q1", "accept", {"n": 1}), UserReply("q2", "decline"), Stop()]

    @fx.gen
    def play() -> Gen[tuple[list[bool], list[Any]], Any, Scope]:
        writer = yield from store.open("c1", "t1")
        taken: list[bool] = yield from fx.for_each(sent, lambda signal: store.signal("c1", signal))
        got: list[Any] = []
        yield from writer.listen(got.append)
        return taken, got

    taken, got = fx.run(fx.scoped(play()), backend=backend)
    assert taken == [True, True, True]
    assert got == sent


def test_a_writer_waits_for_a_reader_that_is_too_far_behind(backend: Backend) -> None:
    """So what is kept for it is bounded; when it reads or leaves, the writer goes on."""
    store = StreamStore.in_process()
    written: list[int] = []

    @fx.gen
    def fill(writer: StreamWriter) -> Gen[None, Any]:
        for n in range(50):
            yield from writer.write((event(n),))
            written.append(n)

    @fx.gen
    def play() -> Gen[tuple[int, int], Any, Scope]:
        writer = yield from store.open("c1", "t1", most_ahead=5)
        first = yield from fx.fork(fx.scoped(hold(store)))
        yield from fx.sleep(0.02)
        filling = yield from fx.fork(fill(writer))
        yield from fx.sleep(0.1)
        ahead = len(written)
        yield from first.interrupt()
        yield from filling.join()
        return ahead, len(written)

    ahead, all_ = fx.run(fx.scoped(play()), backend=backend)
    assert ahead <= 12  # five beyond the one batch that the reader took, which five more could be in
    assert all_ == 50


@fx.gen
def hold(store: StreamStore) -> Gen[None, Any, Scope]:
    """A reader that takes one batch and no more."""

    async def read() -> None:
        async with store.read("c1").iterate() as batches:
            async for _ in batches:
                await anyio.sleep_forever()

    yield from fx.wait(read)


def test_a_stream_that_is_too_large_fails(make: Make, backend: Backend) -> None:
    """The failure says what to raise; what was written can be read."""
    ended = fx.run_exit(fx.scoped(write(make(most_bytes=100), 50)), backend=backend)

    assert isinstance(ended, Failed)
    (failure,) = ended.cause.failures
    assert isinstance(failure, StreamStoreError)
    assert "Raise most_bytes" in str(failure)


def test_the_last_reader_that_leaves_is_noticed(make: Make, backend: Backend) -> None:
    """And not before: another reader stays."""
    store = make()
    order: list[str] = []

    @fx.gen
    def play() -> Gen[None, Any, Scope]:
        writer = yield from store.open("c1", "t1")
        yield from writer.write((event(0),))
        readers = yield from fx.for_each((0, 1), lambda _: fx.fork(fx.scoped(hold(store))))
        yield from fx.sleep(0.05)
        leaving = yield from fx.fork(writer.left.map(lambda _: order.append("left")))
        for n, reader in enumerate(readers):
            yield from fx.sleep(0.05)
            order.append(f"reader {n}")
            yield from reader.interrupt()
        yield from leaving.join()

    fx.run(fx.scoped(play()), backend=backend)
    assert order == ["reader 0", "reader 1", "left"]


def test_what_is_removed_is_gone(make: Make, backend: Backend) -> None:
    """One that runs is not removed."""
    store = make()

    @fx.gen
    def play() -> Gen[str | None, Any, Scope]:
        yield from store.open("c1", "t1")
        yield from store.remove("c1")
        return (yield from store.active("c1"))

    running = fx.run(fx.scoped(play()), backend=backend)
    fx.run(store.remove("c1"), backend=backend)

    assert running == "t1"
    assert fx.run(whole(store), backend=backend) == b""


def test_a_stream_that_has_ended_is_forgotten_after_a_while() -> None:
    """It can be read again for as long as the store keeps it."""
    store, clock = StreamStore.in_process(keep=60), TestClock()

    @fx.gen
    def play() -> Gen[tuple[bytes, bytes], Any, Scope]:
        yield from fx.scoped(write(store, 2))
        soon = yield from whole(store)
        yield from clock.advance(61)
        return soon, (yield from whole(store))

    soon, late = fx.run(fx.scoped(play()).provide(clock.layer))
    assert (soon, late) == (events(0, 2) + DONE, b"")


@every("id_", ["../../etc/passwd", "a/b", "x" * 200, "..", "con", "a\x00b".replace("\x00", "%00"), "~"])
def test_the_id_of_a_conversation_leads_nowhere_else(id_: str, tmp_path: Path) -> None:
    """Files stand in the folder of the store, whatever the id is."""
    store = StreamStore.files(tmp_path / "within")
    fx.run(fx.scoped(write(store, 2, id_)))

    assert fx.run(whole(store, id_)) == events(0, 2) + DONE
    assert [path.name for path in tmp_path.iterdir()] == ["within"]


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.lists(st.binary(min_size=1, max_size=20), max_size=4), max_size=12), st.integers(0, 60))
def test_batches_change_nothing(written: list[list[bytes]], after: int) -> None:
    """However events are written together, a reader has them from its place on, each once."""
    store = StreamStore.in_process()

    @fx.gen
    def fill() -> Gen[None, Any, Scope]:
        writer = yield from store.open("c1", "t1")
        for batch in written:
            yield from writer.write(batch)

    fx.run(fx.scoped(fill()))
    all_ = [*(one for batch in written for one in batch), DONE]
    assert fx.run(whole(store, after=after)) == b"".join(all_[after:])
