"""Streams of another process: read from any place, stopped, answered, removed, and ended where the process is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import pytest

from fxai import Gen, fx
from fxai.effects import Backend, EffectOf, Exit, Failed, Scope
from fxai.storage.journal_store import FileJournals
from fxai.storage.private_file import file_name
from fxai.ui import DONE, Signal, Stop, StreamStore, StreamStoreError, StreamWriter, UserReply
from fxai.ui.shared_stream import SharedStreams, journal_form
from tests.kit.every import every

Make: TypeAlias = Callable[..., StreamStore]
_A = TypeVar("_A")


@pytest.fixture(params=["files", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes stores at one place, each as a process of its own has it: they share no memory."""
    makers: dict[str, Make] = {
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
def whole(store: StreamStore, after: int = 0, id_: str | None = None) -> Gen[bytes, Any]:
    """All that a reader gets of a stream."""
    return b"".join((yield from store.read("c1", id_, after=after).collect().timeout(20)))


@fx.gen
def write(store: StreamStore, count: int, id_: str = "t1", conversation: str = "c1") -> Gen[None, Any, Scope]:
    """A stream of some events, in several batches for the others."""
    writer = yield from store.open(conversation, id_)
    for n in range(count):
        yield from writer.write((event(n),))
        yield from fx.sleep(0.03)


def _run(program: EffectOf[_A, Any, Scope | None], backend: Backend = "asyncio") -> _A:
    """Run a program in a scope; one that hangs fails."""
    return fx.run(fx.scoped(program).timeout(20), backend=backend)


@fx.gen
def until_active(store: StreamStore) -> Gen[str, Any]:
    """Waits until a turn runs, and gives its id."""
    while True:
        active = yield from store.active("c1")
        if active is not None:
            return active
        yield from fx.sleep(0.005)


# -- reading


def test_a_second_store_reads_a_stream_while_it_is_written(make: Make, backend: Backend) -> None:
    """Every event from the place of the reader on, once and in order, and the end."""
    writer, reader = make(), make()

    @fx.gen
    def play() -> Gen[list[bytes], Any, Scope]:
        writing = yield from fx.fork(fx.scoped(write(writer, 20)))
        yield from until_active(reader)
        read = yield from fx.all_(whole(reader), whole(reader, 3), whole(reader, 11), whole(reader, 0, "t1"))
        yield from writing.join()
        return list(read)

    assert _run(play(), backend) == [events(n, 20) + DONE for n in (0, 3, 11, 0)]


@pytest.mark.parametrize("after", [0, 1, 4, 8, 9, 100])
def test_a_second_store_resumes_a_stream_that_has_ended(make: Make, after: int) -> None:
    """From the place of the reader, which may be inside of a batch."""
    _run(write(make(), 8))

    assert fx.run(whole(make(), after)) == (events(after, 8) + DONE if after <= 8 else b"")


def test_a_second_store_reads_no_stream_of_another_turn(make: Make) -> None:
    """Nor one that nobody wrote. If another turn begins, the stream ends where the reader is."""
    first, second = make(), make()

    @fx.gen
    def replaced() -> Gen[bytes, Any, Scope]:
        writing = yield from fx.fork(fx.scoped(write(first, 5)))
        yield from until_active(second)
        reading = yield from fx.fork(whole(second, id_="t1"))
        yield from writing.join()
        yield from fx.scoped(write(first, 1, "t2"))
        return (yield from reading.join())

    assert fx.run(whole(second)) == b""
    assert (events(0, 5) + DONE).startswith(_run(replaced()))
    assert fx.run(whole(second, id_="t1")) == b""
    assert fx.run(whole(second, id_="t2")) == fx.run(whole(second)) == event(0) + DONE


@pytest.mark.slow
def test_a_second_store_waits_for_a_turn_that_is_silent(tmp_path: Path) -> None:
    """As long as its process is there, also where the reader named no turn."""
    first, second = StreamStore.files(tmp_path), StreamStore.files(tmp_path)

    @fx.gen
    def play() -> Gen[bytes, Any, Scope]:
        writing = yield from fx.fork(fx.scoped(silent()))
        yield from until_active(second)
        read = yield from whole(second)
        yield from writing.join()
        return read

    @fx.gen
    def silent() -> Gen[None, Any, Scope]:
        writer = yield from first.open("c1", "t1")
        yield from writer.write((event(0),))
        yield from fx.sleep(1.8)  # more looks than a reader is patient for
        yield from writer.write((event(1),))

    assert _run(play()) == events(0, 2) + DONE


# -- signals


@fx.gen
def _signals(writer: StreamWriter, number: int) -> Gen[list[Any], Any]:
    found: list[Any] = []
    arrived = anyio.Event()

    def take(signal: Signal) -> None:
        found.append(signal)
        if len(found) == number:
            arrived.set()

    yield from fx.scoped(writer.listen(take).and_then(fx.wait(arrived.wait))).timeout(20)
    return found


def test_a_second_store_signals_a_turn(make: Make, backend: Backend) -> None:
    """It is told that somebody takes the signal; each comes once and in order, before and after the first look."""
    first, second = make(), make()
    sent: list[Signal] = [UserReply("q1", "accept", {"n": 1}), UserReply("q2", "decline"), Stop()]

    @fx.gen
    def play() -> Gen[tuple[list[bool], list[Any], list[Any]], Any, Scope]:
        writer = yield from first.open("c1", "t1")
        taken: list[bool] = yield from fx.for_each(sent, lambda signal: second.signal("c1", signal))
        got = yield from _signals(writer, 3)
        waiting = yield from fx.fork(_signals(writer, 2))
        yield from second.signal("c1", UserReply("q3", "cancel"))
        yield from fx.sleep(0.3)
        yield from second.signal("c1", Stop())
        return taken, got, (yield from waiting.join())

    taken, got, more = _run(play(), backend)

    assert taken == [True, True, True]
    assert got == sent
    assert more == [UserReply("q3", "cancel"), Stop()]


def test_signals_to_a_turn_that_has_ended_reach_no_other(make: Make) -> None:
    """Nobody takes them, and the next turn begins without those of the turn before."""
    first, second = make(), make()

    @fx.gen
    def play() -> Gen[tuple[bool, list[Any]], Any, Scope]:
        yield from fx.scoped(first.open("c1", "t1").and_then(second.signal("c1", UserReply("q1", "decline"))))
        late = yield from second.signal("c1", Stop())
        writer = yield from first.open("c1", "t2")
        yield from second.signal("c1", UserReply("q2", "decline"))
        return late, (yield from _signals(writer, 1))

    assert _run(play()) == (False, [UserReply("q2", "decline")])


# -- one turn at a time


def test_a_second_store_begins_no_turn_while_one_runs(make: Make) -> None:
    """It says that another process runs one; when that has ended, it begins its own."""
    first, second = make(), make()

    @fx.gen
    def play() -> Gen[tuple[Exit[StreamWriter, StreamStoreError], str | None], Any, Scope]:
        yield from first.open("c1", "t1")
        refused = yield from fx.scoped(second.open("c1", "t2")).exit()
        return refused, (yield from second.active("c1"))

    refused, active = _run(play())
    _run(write(second, 2, "t3"))

    assert isinstance(refused, Failed)
    assert [str(one) for one in refused.cause.failures] == [
        "stream of conversation 'c1' could not be opened: another turn is active in another process"
    ]
    assert active == "t1"
    assert fx.run(whole(first, id_="t3")) == events(0, 2) + DONE


def _journals(folder: Path) -> tuple[FileJournals, FileJournals]:
    streams, signals = (FileJournals(folder / name, journal_form(name)) for name in ("stream", "signal"))
    return streams, signals


def _shared(folder: Path, keep: float = 60.0) -> SharedStreams:
    return SharedStreams(*_journals(folder), keep)


def test_a_reader_that_asks_who_is_there_holds_no_turn_off(tmp_path: Path) -> None:
    """It owns the stream for a moment; a turn that begins then waits a little."""
    streams, _ = _journals(tmp_path)

    @fx.gen
    def play() -> Gen[str | None, Any, Scope]:
        glancing = yield from fx.fork(fx.scoped(streams.journal("c1").own(wait=False).and_then(fx.sleep(0.08))))
        yield from fx.sleep(0.02)
        yield from _shared(tmp_path).start("c1", "t1", 0.0)
        yield from glancing.join()
        return (yield from _shared(tmp_path).active("c1"))

    assert _run(play()) == "t1"


# -- a process that is gone


def test_a_stream_whose_process_is_gone_ends_there(tmp_path: Path) -> None:
    """Its readers get what was written and the end; nothing runs, and nobody takes a signal."""

    @fx.gen
    def play() -> Gen[tuple[bytes, str | None, bool], Any]:
        dying = _shared(tmp_path)
        begun = dying.start("c1", "t1", 0.0).and_then(dying.append("c1", [event(0), event(1)]))
        yield from fx.scoped(begun)  # it ends without a word
        other = StreamStore.files(tmp_path)
        read = yield from whole(other)
        return read, (yield from other.active("c1")), (yield from other.signal("c1", Stop()))

    assert fx.run(play()) == (events(0, 2) + DONE, None, False)


# -- what is removed


def _kept(folder: Path) -> list[str]:
    return sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("*/*.jsonl"))


def _file(folder: str, conversation: str) -> str:
    return f"{folder}/{file_name(conversation)}.jsonl"


def test_what_a_second_store_removes_is_gone(make: Make) -> None:
    """With its signals; a stream that runs stays."""
    first, second = make(), make()

    @fx.gen
    def play() -> Gen[str | None, Any, Scope]:
        yield from first.open("c1", "t1")
        yield from second.signal("c1", UserReply("q1", "decline"))
        yield from second.remove("c1")
        return (yield from second.active("c1"))

    running = _run(play())
    ended = fx.run(whole(second))
    fx.run(second.remove("c1"))

    assert (running, ended) == ("t1", DONE)
    assert fx.run(whole(make())) == b""


def test_a_removed_stream_leaves_no_file(tmp_path: Path) -> None:
    """Neither of its events nor of its signals."""
    first, second = StreamStore.files(tmp_path), StreamStore.files(tmp_path)
    _run(first.open("c1", "t1").and_then(second.signal("c1", UserReply("q1", "decline"))))
    before = _kept(tmp_path)
    fx.run(second.remove("c1"))

    assert (before, _kept(tmp_path)) == ([_file("signal", "c1"), _file("stream", "c1")], [])


def test_streams_that_ended_long_ago_are_removed_when_another_begins(tmp_path: Path) -> None:
    """With their signals, after `keep` seconds, looked for once a minute; what is young or runs stays."""
    before, store = _shared(tmp_path, 100.0), _shared(tmp_path, 100.0)
    for id_, ended in (("old", 1000.0), ("due", 1001.0), ("later", 1059.0), ("running", None)):
        begun: Any = before.start(id_, "t", 900.0)
        _run(begun if ended is None else begun.and_then(before.append(id_, [], ("t", ended))))
        _journals(tmp_path)[1].journal(id_).append({"type": "stop"})
    seen: list[list[str]] = []
    for now in (1101.0, 1160.0, 1161.0):
        _run(store.start("new", "t", now))
        seen.append([one for one in ("old", "due", "later", "running") if _file("stream", one) in _kept(tmp_path)])

    assert seen == [["due", "later", "running"], ["due", "later", "running"], ["running"]]
    assert [one for one in _kept(tmp_path) if one.startswith("signal/")] == [_file("signal", "running")]


# -- what cannot be read


@every("use", ["read", "active", "signal", "remove", "open"])
def test_a_damaged_journal_is_a_failure_that_says_what_was_done(use: str, tmp_path: Path) -> None:
    """Of the type of the store, with the conversation."""
    streams, _ = _journals(tmp_path)
    streams.journal("c1").append({"stream": "t1"}, state={"conversation": "c1"})  # which turn it is of is missing
    store = StreamStore.files(tmp_path)
    uses: dict[str, Any] = {
        "read": whole(store),
        "active": store.active("c1"),
        "signal": store.signal("c1", Stop()),
        "remove": store.remove("c1"),
        "open": fx.scoped(store.open("c1", "t1")),
    }
    ended = fx.run_exit(uses[use])

    assert isinstance(ended, Failed)
    (failure,) = ended.cause.failures
    assert isinstance(failure, StreamStoreError)
    doing = {"active": "read", "remove": "write"}.get(use, use)
    assert (failure.conversation_id, failure.doing) == ("c1", doing)
    assert "damaged state of a stream" in failure.description
