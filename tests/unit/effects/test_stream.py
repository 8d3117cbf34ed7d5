"""Streams: values, order, back-pressure, failure, and what stopping early releases."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import anyio
import pytest
from returns.maybe import Nothing, Some

from fxai.effects import (
    Backend,
    Cause,
    Context,
    Effect,
    Emit,
    Fail,
    Failed,
    Gen,
    Scope,
    Stream,
    StreamOf,
    Tag,
    fx,
    pull_stream,
)
from fxai.effects.pull import END
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of, running_tasks, turns


class Base(Tag[int]):
    """A number."""


def collected(stream: StreamOf[Any, Any, None]) -> list[Any]:
    """All values of a stream that does not wait."""
    return fx.run_sync(stream.collect().or_die())


def counting(journal: Journal, until: int = 1000) -> StreamOf[int, Any, None]:
    """Numbers from 0; writes each one when it is made, and the end when it is released."""

    def following(n: int) -> Effect[tuple[int, int] | None]:
        if n >= until:
            return fx.succeed(None)
        return journal.note(f"made {n}").as_((n, n + 1))

    return Stream.unfold(0, following).on_exit(journal.ends)


def test_constructors_give_their_values() -> None:
    """`empty`, `make`, `from_iterable`, `from_effect`, `unfold`, `suspend`, `unwrap`."""
    assert collected(Stream.empty()) == []
    assert collected(Stream.make(1, 2)) == [1, 2]
    assert collected(Stream.from_iterable(range(3))) == [0, 1, 2]
    assert collected(Stream.from_effect(fx.succeed(7))) == [7]
    assert collected(Stream.unfold(3, lambda n: fx.succeed((n, n - 1) if n else None))) == [3, 2, 1]
    assert collected(Stream.suspend(lambda: Stream.make(1))) == [1]
    assert collected(Stream.unwrap(fx.succeed(Stream.make(1)))) == [1]


def test_a_stream_is_read_anew_each_time() -> None:
    """State belongs to the reading, not to the stream."""
    streams: list[StreamOf[Any, Any, None]] = [
        Stream.from_iterable([1, 2, 3]).take(2),
        Stream.make(1, 2, 3).drop(1),
        Stream.make(1, 2, 3).scan(0, lambda a, b: a + b),
        Stream.make(1, 2, 3).take_while(lambda n: n < 3),
        Stream.unfold(0, lambda n: fx.succeed((n, n + 1) if n < 3 else None)),
        Stream.make(1).concat(Stream.make(2)),
        Stream.fail(1).catch_all(Stream.make),
        Stream.from_effect(fx.succeed(1)),
    ]

    for stream in streams:
        assert collected(stream) == collected(stream) != []


def test_combinators_give_what_they_name() -> None:
    """Values through each combinator of one stream."""
    five = Stream.from_iterable(range(5))

    assert collected(five.map(lambda n: n * n)) == [0, 1, 4, 9, 16]
    assert collected(five.map_effect(lambda n: fx.succeed(-n))) == [0, -1, -2, -3, -4]
    assert collected(five.filter(lambda n: n % 2 == 0)) == [0, 2, 4]
    assert collected(five.scan(10, lambda state, n: state + n)) == [10, 11, 13, 16, 20]
    assert collected(five.take(2)) == [0, 1]
    assert collected(five.take(0)) == collected(five.take(-1)) == []
    assert collected(five.take(99)) == [0, 1, 2, 3, 4]
    assert collected(five.drop(3)) == [3, 4]
    assert collected(five.drop(99)) == []
    assert collected(five.take_while(lambda n: n != 2)) == [0, 1]
    assert collected(five.grouped(2)) == [(0, 1), (2, 3), (4,)]
    assert collected(five.tap(fx.succeed)) == [0, 1, 2, 3, 4]
    assert collected(five.pipe(lambda stream: stream.take(1))) == [0]


def test_streams_join() -> None:
    """`concat`, `flat_map`, `zip` and `catch_all`, in order."""
    two, three = Stream.make(1, 2), Stream.make("a", "b", "c")

    assert collected(two.concat(three)) == [1, 2, "a", "b", "c"]
    assert collected(two.flat_map(lambda n: Stream.from_iterable([n] * n))) == [1, 2, 2]
    assert collected(two.zip(three)) == [(1, "a"), (2, "b")]
    assert collected(three.zip(two)) == [("a", 1), ("b", 2)]
    failing: StreamOf[int, str, None] = two.concat(Stream.fail("x"))
    assert collected(failing.catch_all(Stream.make)) == [1, 2, "x"]


def test_reading_gives_what_it_names() -> None:
    """`fold`, `first`, `last`, `drain`, `for_each`."""
    journal = Journal()
    five = Stream.from_iterable(range(5))

    assert fx.run_sync(five.fold(0, lambda a, b: a + b)) == 10
    assert fx.run_sync(five.first()) == Some(0)
    assert fx.run_sync(five.last()) == Some(4)
    assert fx.run_sync(Stream.empty().first()) == fx.run_sync(Stream.empty().last()) == Nothing
    assert fx.run_sync(five.tap(lambda n: journal.note(str(n))).drain()) is None
    assert fx.run_sync(five.take(2).for_each(lambda n: journal.note(f"each {n}"))) is None
    assert journal.lines == ["0", "1", "2", "3", "4", "each 0", "each 1"]


@pytest.mark.parametrize("number", [0, -1])
def test_sizes_below_one_are_refused(number: int) -> None:
    """The error names the argument."""
    with pytest.raises(ValueError, match="size must be at least 1"):
        Stream.make(1).grouped(number)
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        Stream.make(1).buffer(number)
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        Stream.make(1).map_effect(fx.succeed, concurrency=number)


ENDING: list[tuple[StreamOf[Any, Any, None], str]] = [
    (Stream.fail(Lost()), "failure"),
    (Stream.from_effect(fx.fail(Lost())), "failure"),
    (Stream.unwrap(cast("Effect[Any, Lost]", fx.fail(Lost()))), "failure"),
    (Stream.unfold(0, lambda _: fx.fail(Lost())), "failure"),
    (Stream.make(1).map_effect(lambda _: fx.fail(Lost())), "failure"),
    (Stream.make(1).flat_map(lambda _: Stream.fail(Lost())), "failure"),
    (Stream.make(1).concat(Stream.fail(Lost())), "failure"),
    (Stream.make(1).map(lambda _: boom()), "defect"),
    (Stream.make(1).filter(lambda _: bool(boom())), "defect"),
    (Stream.make(1).scan(0, lambda _, __: boom()), "defect"),
    (Stream.make(1).take_while(lambda _: bool(boom())), "defect"),
    (Stream.make(1).flat_map(lambda _: Stream.from_iterable([boom()])), "defect"),
    (Stream.suspend(lambda: Stream.make(boom())), "defect"),
    (Stream.suspend(lambda: Stream.from_iterable(boom() for _ in range(1))), "defect"),
    (Stream.fail(1).catch_all(lambda _: Stream.make(boom())), "defect"),
]


@every(("stream", "kind"), ENDING)
def test_failures_and_defects_stay_apart(stream: StreamOf[Any, Any, None], kind: str, backend: Backend) -> None:
    """What is declared is a failure, what a user function raises is a defect; `catch_all` sees failures only."""
    assert ending_of(fx.run_exit(stream.collect(), backend=backend)) == kind
    caught = stream.catch_all(lambda _: Stream.empty())
    assert ending_of(fx.run_exit(caught.collect(), backend=backend)) == ("success" if kind == "failure" else kind)


def test_map_error_changes_the_failure_of_opening_and_of_reading() -> None:
    """Wherever it fails."""
    open_failing: Effect[Any, Lost] = fx.fail(Lost("open"))
    opening: StreamOf[int, Lost, None] = Stream.unwrap(open_failing)
    reading: StreamOf[int, Lost, None] = Stream.make(1).concat(Stream.fail(Lost("read")))

    for stream, word in ((opening, "open"), (reading, "read")):
        assert fx.run_sync(stream.map_error(lambda error: error.what).collect().exit()) == Failed(Cause((Fail(word),)))


def test_a_failed_stream_is_released_before_the_one_that_goes_on() -> None:
    """Its finalizers hear of the failure, and have run when the other one is opened."""
    journal = Journal()
    failing = counting(journal, until=2).concat(Stream.fail(Lost())).on_exit(journal.ends)

    def other(_: object) -> StreamOf[int, Any, None]:
        return Stream.from_effect(journal.note("other").as_(9)).on_exit(journal.ends)

    assert collected(failing.catch_all(other)) == [0, 1, 9]
    assert journal.lines == ["made 0", "made 1", "success", "failure", "other", "success"]


def test_a_failure_of_the_stream_that_went_on_is_not_caught_again() -> None:
    """`catch_all` handles its own stream."""
    stream: StreamOf[int, str, None] = Stream.fail("a").catch_all(lambda error: Stream.fail(error + "b"))

    assert fx.run_sync(stream.collect().exit()) == Failed(Cause((Fail("ab"),)))


TRANSFORMED: dict[str, Callable[[StreamOf[int, Any, None]], StreamOf[Any, Any, None]]] = {
    "plain": lambda s: s,
    "map": lambda s: s.map(lambda n: n),
    "map_effect": lambda s: s.map_effect(fx.succeed),
    "filter": lambda s: s.filter(lambda _: True),
    "flat_map": lambda s: s.flat_map(Stream.make),
    "inner": lambda s: Stream.make(0).flat_map(lambda _: s),
    "concat": lambda s: s.concat(Stream.make(0)),
    "second": lambda s: Stream.empty().concat(s),
    "zip": lambda s: s.zip(s),
    "catch_all": lambda s: s.catch_all(lambda _: Stream.make(0)),
    "caught": lambda s: Stream.fail(0).catch_all(lambda _: s),
    "grouped": lambda s: s.grouped(1),
    "scan": lambda s: s.scan(0, lambda _, n: n),
    "take_while": lambda s: s.take_while(lambda _: True),
    "drop": lambda s: s.drop(1),
    "unwrap": lambda s: Stream.unwrap(fx.succeed(s)),
    "buffer": lambda s: s.buffer(2),
    "merge": lambda s: s.merge(s),
    "concurrent": lambda s: s.map_effect(lambda n: fx.sleep(0).as_(n), concurrency=3),
}


@every("name", list(TRANSFORMED))
@every("reader", ["take", "first", "failure", "defect", "cancelled", "whole"])
def test_every_finalizer_runs_exactly_once_however_reading_ends(name: str, reader: str, backend: Backend) -> None:
    """Stopping early, failing, dying, being cancelled, reading to the end: one release per reading of the source."""
    journal = Journal()
    opened = [0]

    def open_once() -> StreamOf[int, Any, None]:
        opened[0] += 1
        return counting(journal, until=5)

    stream = TRANSFORMED[name](Stream.suspend(open_once))
    readers: dict[str, Effect[Any, Any]] = {
        "take": stream.take(1).collect(),
        "first": stream.first(),
        "failure": stream.for_each(lambda _: fx.fail(Lost())),
        "defect": stream.for_each(lambda _: fx.sync(boom)),
        "cancelled": stream.for_each(lambda _: fx.never()).timeout(0.002),
        "whole": stream.drain(),
    }

    async def main() -> tuple[int, int]:
        before = running_tasks()
        await fx.run_async_exit(readers[reader])
        await turns(1)
        return before, running_tasks()

    before, after = anyio.run(main, backend=backend)
    ends = [line for line in journal.lines if not line.startswith("made")]

    assert before == after
    assert opened[0] >= 1
    assert len(ends) == opened[0]


def test_nothing_is_pulled_after_the_last_value_that_is_wanted() -> None:
    """`take` pulls no value more than it gives."""
    journal = Journal()

    fx.run_sync(counting(journal).take(2).collect())

    assert journal.lines == ["made 0", "made 1", "success"]


def test_a_producer_makes_a_value_only_when_it_is_asked_for() -> None:
    """Reading and making alternate."""
    journal = Journal()

    fx.run_sync(counting(journal, until=2).for_each(lambda n: journal.note(f"read {n}")))

    assert journal.lines == ["made 0", "read 0", "made 1", "read 1", "success"]


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_a_buffer_is_never_further_ahead_than_its_capacity(capacity: int, backend: Backend) -> None:
    """Values made and not yet read are at most `capacity`, and reach it with a slow reader."""
    ahead: list[int] = []
    made, read = [0], [0]

    def make(n: int) -> Effect[tuple[int, int] | None]:
        made[0] += 1
        ahead.append(made[0] - read[0])
        return fx.succeed((n, n + 1) if n < 20 else None)

    def slow(_: int) -> Effect[None]:
        read[0] += 1
        return fx.sleep(0).and_then(fx.sleep(0)).and_then(fx.sleep(0.0005))

    fx.run(Stream.unfold(0, make).buffer(capacity).for_each(slow), backend=backend)

    assert max(ahead[:-1]) == capacity


@pytest.mark.parametrize("buffer", [0, 1, 3])
def test_an_emitting_program_waits_until_it_is_read(buffer: int, backend: Backend) -> None:
    """`emit` returns at once for `buffer` unread values, and else when there is room."""
    emitted, read = [0], [0]
    ahead: list[int] = []

    def produce(emit: Emit[int]) -> Effect[None]:
        @fx.gen
        def loop() -> Gen[None]:
            for n in range(20):
                yield from emit(n)
                emitted[0] += 1
                ahead.append(emitted[0] - read[0])

        return loop()

    def slow(_: int) -> Effect[None]:
        read[0] += 1
        return fx.sleep(0).and_then(fx.sleep(0.0005))

    fx.run(Stream.emitting(produce, buffer=buffer).for_each(slow), backend=backend)

    assert emitted == read == [20]
    assert max(ahead) == buffer


def test_an_emitting_program_is_interrupted_when_the_reader_stops(backend: Backend) -> None:
    """Its finalizers, and what it acquired, are released, in that order."""
    journal = Journal()

    def produce(emit: Emit[int]) -> Any:
        @fx.gen
        def loop() -> Gen[None, Any, Scope]:
            yield from fx.sleep(0)
            yield from journal.held("a")
            while True:
                yield from emit(1).on_exit(lambda e: fx.succeed(None) if ending_of(e) == "success" else journal.ends(e))

        return loop()

    assert fx.run(Stream.emitting(produce).take(2).collect(), backend=backend) == [1, 1]
    assert journal.lines == ["+a", "interruption", "-a"]


def test_the_end_of_an_emitting_program_is_the_end_of_the_stream(backend: Backend) -> None:
    """Its failure too, after what it emitted."""
    read: list[int] = []

    def produce(emit: Emit[int]) -> Effect[None, Lost]:
        return emit(1).and_then(emit(2)).and_then(fx.fail(Lost()))

    seen = Stream.emitting(produce, buffer=5).tap(lambda n: fx.sync(lambda: read.append(n)))

    assert ending_of(fx.run_exit(seen.collect(), backend=backend)) == "failure"
    assert read == [1, 2]
    one: StreamOf[int, Any, None] = Stream.emitting(lambda emit: emit(1), buffer=1)
    assert fx.run(one.collect(), backend=backend) == [1]


def test_a_merge_gives_the_values_of_both(backend: Backend) -> None:
    """Each stream's own order is kept; it ends when both have."""
    letters = Stream.make("a", "b", "c").map_effect(lambda x: fx.sleep(0).as_(x))
    numbers = Stream.make(1, 2)

    merged: list[Any] = fx.run(letters.merge(numbers).collect(), backend=backend)

    assert [x for x in merged if isinstance(x, str)] == ["a", "b", "c"]
    assert [x for x in merged if isinstance(x, int)] == [1, 2]


def test_a_merge_does_not_wait_for_the_slower(backend: Backend) -> None:
    """What one gives comes although the other never does."""
    silent: StreamOf[int, Any, None] = Stream.from_effect(fx.never())

    assert fx.run(silent.merge(Stream.make(1, 2)).take(2).collect(), backend=backend) == [1, 2]


def test_a_failure_of_one_merged_stream_stops_the_other(backend: Backend) -> None:
    """Its finalizers run, and the merge fails."""
    journal = Journal()
    endless: StreamOf[int, Lost, None] = Stream.from_effect(fx.never()).on_exit(journal.ends)
    failing: StreamOf[int, Lost, None] = Stream.from_effect(fx.sleep(0)).map_effect(lambda _: fx.fail(Lost()))

    assert ending_of(fx.run_exit(endless.merge(failing).collect(), backend=backend)) == "failure"
    assert journal.lines == ["interruption"]


@pytest.mark.parametrize("concurrency", [1, 2, 3, 7])
def test_concurrent_effects_of_a_stream_are_bounded_and_in_order(concurrency: int, backend: Backend) -> None:
    """`map_effect(concurrency=n)` runs n at once, not more, and keeps the order."""
    now, most = [0], [0]

    def work(n: int) -> Effect[int]:
        def enter() -> None:
            now[0] += 1
            most[0] = max(most[0], now[0])

        def leave() -> None:
            now[0] -= 1

        slow = fx.sleep(0.002 if n % 3 == 0 else 0.0005)
        return fx.sync(enter).and_then(slow).ensuring(fx.sync(leave)).as_(n)

    values = fx.run(
        Stream.from_iterable(range(20)).map_effect(work, concurrency=concurrency).collect(), backend=backend
    )

    assert values == list(range(20))
    assert (most[0], now[0]) == (concurrency, 0)


def test_a_failure_among_concurrent_effects_stops_the_others(backend: Backend) -> None:
    """In order: what came before it is given, the rest is interrupted."""
    journal = Journal()
    given: list[int] = []

    def work(n: int) -> Effect[int, Lost]:
        if n == 0:
            return fx.sleep(0).as_(0)
        return fx.fail(Lost()) if n == 1 else fx.never().on_exit(journal.ends)

    stream = Stream.from_iterable(range(9)).map_effect(work, concurrency=3)
    ended = fx.run_exit(stream.for_each(lambda n: fx.sync(lambda: given.append(n))), backend=backend)

    assert ending_of(ended) == "failure"
    assert given == [0]
    assert set(journal.lines) == {"interruption"}


class Source:
    """An asynchronous generator that tells when it is closed."""

    def __init__(self, journal: Journal, *, opening: Callable[[], Any] | None = None) -> None:
        self.journal = journal

    async def numbers(self) -> AsyncIterator[int]:
        """Numbers without end."""
        n = 0
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                yield n
                n += 1
        finally:
            self.journal.add("closed")


@every("name", ["plain", "map", "flat_map", "inner", "buffer", "merge", "concurrent", "catch_all"])
def test_an_asynchronous_generator_is_closed_with_the_stream(name: str, backend: Backend) -> None:
    """Stopping early closes it, once for each reading, whatever stands between."""
    journal = Journal()
    opened = [0]

    def numbers() -> AsyncIterator[int]:
        opened[0] += 1
        return Source(journal).numbers()

    stream = TRANSFORMED[name](Stream.from_async(numbers))

    assert len(fx.run(stream.take(3).collect(), backend=backend)) == 3
    assert journal.lines == ["closed"] * opened[0]


def test_a_source_that_takes_time_to_open_is_closed_after_its_readers_stopped(backend: Backend) -> None:
    """Behind concurrent effects as well: nothing is closed while it is being read."""
    journal = Journal()
    slow: StreamOf[int, Any, None] = Stream.unwrap(fx.sleep(0.001).as_(Stream.from_async(Source(journal).numbers)))

    stream = slow.map_effect(lambda n: fx.sleep(0).as_(n), concurrency=3)

    assert fx.run(stream.take(2).collect(), backend=backend) == [0, 1]
    assert journal.lines == ["closed"]


def test_a_finite_asynchronous_generator_ends_the_stream(backend: Backend) -> None:
    """Its values, then the end; what it raises is a defect."""

    async def two() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def broken() -> AsyncIterator[int]:
        yield 1
        raise ValueError("broken")

    assert fx.run(Stream.from_async(two).collect(), backend=backend) == [1, 2]
    assert ending_of(fx.run_exit(Stream.from_async(broken).collect(), backend=backend)) == "defect"


def test_an_asynchronous_iterator_without_close_is_read_too(backend: Backend) -> None:
    """Only generators need closing."""

    class Plain:
        def __init__(self) -> None:
            self.left = [1, 2]

        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> int:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    assert fx.run(Stream.from_async(Plain).collect(), backend=backend) == [1, 2]


def test_each_inner_stream_is_released_before_the_next() -> None:
    """`flat_map` and `concat` hold one inner stream at a time, with what its steps acquired."""
    journal = Journal()

    def inner(n: int) -> StreamOf[int, Any, Any]:
        return Stream.make(n).map_effect(lambda x: journal.held(f"step {x}").as_(x)).on_exit(journal.ends)

    stream = cast("StreamOf[int, Any, None]", Stream.make(1, 2).flat_map(inner))

    assert collected(stream) == [1, 2]
    assert journal.lines == ["+step 1", "-step 1", "success", "+step 2", "-step 2", "success"]


def test_services_reach_every_step() -> None:
    """`provide_context` gives services to opening and to each pull."""
    stream = Stream.make(1, 2).map_effect(lambda n: fx.service(Base).map(lambda base: base + n))

    assert collected(stream.provide_context(Context.make(Base, 10))) == [11, 12]


def test_a_stream_can_be_pulled_by_hand() -> None:
    """`pull` opens it in the scope around; after the last value it gives `END`, again and again."""

    @fx.gen
    def program() -> Gen[list[Any], Any, Scope]:
        pull = yield from pull_stream(Stream.make(1, 2))
        values: list[Any] = []
        for _ in range(4):
            values.append((yield from pull))  # noqa: PERF401
        return values

    assert fx.run_sync(fx.scoped(program())) == [1, 2, END, END]
    assert repr(END) == "END"


@every("name", list(TRANSFORMED))
def test_the_end_stays_the_end(name: str, backend: Backend) -> None:
    """Pulling past the end gives the end, for every combinator."""

    @fx.gen
    def program() -> Gen[list[Any], Any, Scope]:
        pull = yield from pull_stream(TRANSFORMED[name](Stream.make(1, 2)))
        while (yield from pull) is not END:
            pass
        return [(yield from pull), (yield from pull)]

    assert fx.run(fx.scoped(program()), backend=backend) == [END, END]


def test_long_streams_are_stack_safe() -> None:
    """Thousands of stages, and many concatenated streams."""
    staged: StreamOf[int, Any, None] = Stream.make(0)
    for _ in range(5_000):
        staged = staged.map(lambda n: n + 1)
    joined: StreamOf[int, Any, None] = Stream.empty()
    for n in range(300):
        joined = joined.concat(Stream.make(n))

    assert collected(staged) == [5_000]
    assert collected(joined) == list(range(300))


def test_a_stream_that_filters_everything_is_fair(backend: Backend) -> None:
    """An endless stream of which nothing is kept can be timed out."""
    nothing = Stream.unfold(0, lambda n: fx.succeed((n, n + 1))).filter(lambda _: False)

    assert ending_of(fx.run_exit(nothing.collect().timeout(0.005), backend=backend)) == "failure"


def test_ensuring_is_a_finalizer_without_the_exit() -> None:
    """It runs when the stream ends."""
    journal = Journal()

    assert collected(Stream.make(1).ensuring(journal.note("done"))) == [1]
    assert journal.lines == ["done"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["left", "right", "merge"])
def test_very_many_streams_in_a_row_are_read_in_linear_time(form: str) -> None:
    """2,000 of them, put together one by one from either side: no value passes through all the others."""
    joined: Stream[int] = Stream.make(0)
    for number in range(1, 2_000):
        one = Stream.make(number)
        joined = one.concat(joined) if form == "right" else joined.concat(one) if form == "left" else joined.merge(one)

    started = time.process_time()
    values = fx.run(joined.collect())

    assert time.process_time() - started < 5
    assert sorted(values) == list(range(2_000))
    assert form == "merge" or values == sorted(values, reverse=form == "right")


def test_streams_in_a_row_are_released_one_by_one_however_they_are_put_together() -> None:
    """Each before the next is opened; `merge` and `concat` in one another keep to their own."""
    journal = Journal()

    def one(name: str) -> Stream[str]:
        return Stream.unwrap(journal.held(name).map(lambda _: Stream.make(name)))

    a, b, c, d = (one(name) for name in "abcd")

    assert fx.run_sync(a.concat(b).concat(c.concat(d)).collect()) == ["a", "b", "c", "d"]
    assert journal.lines == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]
    assert fx.run(a.merge(b).concat(c).merge(d).take(4).collect().map(sorted)) == ["a", "b", "c", "d"]
    assert fx.run_sync(a.concat(a).map(str.upper).concat(b).collect()) == ["A", "A", "b"]
