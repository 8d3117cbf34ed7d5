"""Streams of a program that runs while it is read: from one emitted value to the next, and ended where it stands."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from fxai.effects import (
    Backend,
    Cause,
    Die,
    Effect,
    Emit,
    Fail,
    Failed,
    Gen,
    Layer,
    Stream,
    StreamOf,
    Tag,
    fx,
    pull_stream,
    stream_steps,
)
from fxai.effects.pull import END
from tests.kit.journal import Journal, running_tasks


class Base(Tag[int]):
    """A number."""


def numbers(journal: Journal, until: int = 3, wait: float = 0) -> StreamOf[int, Any, Any]:
    """Numbers from 0; writes what it does between them, and its end."""

    def program(emit: Emit[int]) -> Effect[None]:
        def body() -> Gen[None]:
            try:
                for n in range(until):
                    yield from journal.note(f"before {n}")
                    if wait:
                        yield from fx.sleep(wait)
                    yield from emit(n)
            finally:
                yield from fx.sleep(wait)
                yield from journal.note("closed")

        return fx.gen(body)()

    return stream_steps(program)


def test_it_runs_from_one_value_to_the_next(backend: Backend) -> None:
    """Nothing is done ahead of the reader, and every reading is a run of its own."""
    journal = Journal()
    stream = numbers(journal).tap(lambda n: journal.note(f"read {n}"))

    assert fx.run(stream.collect(), backend=backend) == [0, 1, 2]
    assert journal.lines == ["before 0", "read 0", "before 1", "read 1", "before 2", "read 2", "closed"]
    assert fx.run(stream.collect(), backend=backend) == [0, 1, 2]


def test_a_program_that_awaits_nothing_needs_no_event_loop() -> None:
    """Also one that emits nothing, or goes on in other streams."""

    def twice(emit: Emit[int]) -> Effect[None]:
        return Stream.make(1, 2).for_each(lambda n: emit(n).and_then(emit(10 * n)))

    assert fx.run_sync(stream_steps(twice).collect()) == [1, 10, 2, 20]
    assert fx.run_sync(stream_steps(lambda _: fx.succeed(None)).collect()) == []


def test_after_the_end_there_is_the_end() -> None:
    """However often it is asked."""

    def read() -> Gen[list[Any], Any, Any]:
        stream: StreamOf[int, Any, Any] = stream_steps(lambda emit: emit(1))
        pull = yield from pull_stream(stream)
        values: list[Any] = []
        for _ in range(4):
            values.append((yield from pull))  # noqa: PERF401
        return values

    assert fx.run_sync(fx.scoped(fx.gen(read)())) == [1, END, END, END]


def test_what_the_program_fails_with_the_stream_fails_with(backend: Backend) -> None:
    """After the values before it; a failure that the program handles is not seen."""

    def fails(emit: Emit[int]) -> Effect[None, str]:
        return emit(1).and_then(fx.fail("no"))

    def handles(emit: Emit[int]) -> Effect[None]:
        return fails(emit).catch_all(lambda _: emit(2))

    read: list[int] = []
    end = fx.run_exit(stream_steps(fails).for_each(lambda n: fx.sync(lambda: read.append(n))), backend=backend)
    assert end == Failed(Cause((Fail("no"),)))
    assert read == [1]
    assert fx.run(stream_steps(handles).collect(), backend=backend) == [1, 2]


def test_a_bug_is_a_defect_of_the_reader() -> None:
    """With its traceback."""

    def broken(emit: Emit[int]) -> Effect[None]:
        return emit(1).map(lambda _: 1 / 0).as_(None)

    with pytest.raises(ZeroDivisionError):
        fx.run_sync(stream_steps(broken).collect())


@pytest.mark.parametrize("after", [0, 1])
def test_what_stops_the_program_stops_its_reader(backend: Backend, after: int) -> None:
    """`SystemExit` leaves the stream as itself, when finalizers have run; with an event loop and without."""
    journal = Journal()

    def stop() -> None:
        raise SystemExit(3)

    def program(emit: Emit[int]) -> Effect[None]:
        emitted = emit(1) if after else fx.succeed(None)
        return emitted.and_then(fx.sync(stop)).ensuring(journal.note("closed"))

    stream = stream_steps(program)
    with pytest.raises(SystemExit):
        fx.run(stream.collect(), backend=backend)
    with pytest.raises(SystemExit):
        fx.run_sync(stream.collect())
    assert journal.lines == ["closed", "closed"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_reader_that_leaves_ends_it_where_it_stands(backend: Backend, number: int) -> None:
    """Its finalizers run, innermost first, before the reader goes on; a program that has not begun has none."""
    journal = Journal()
    program = numbers(journal, wait=0.001).ensuring(journal.note("stream closed")).take(number).collect()

    assert fx.run(program.tap(lambda _: journal.note("gone on")), backend=backend) == list(range(number))
    closed = ["closed"] if number else []
    assert [line for line in journal.lines if "before" not in line] == [*closed, "stream closed", "gone on"]


def test_no_handler_of_the_program_sees_that_the_reader_left() -> None:
    """Not even one of every cause: the program does not go on. What is emitted in the meantime is read by nobody."""
    journal = Journal()

    def program(emit: Emit[int]) -> Effect[None]:
        def body() -> Gen[None]:
            try:
                yield from emit(1)
            finally:
                yield from emit(2)
                yield from journal.note("closed")

        return fx.gen(body)().exit().and_then(journal.note("went on")).catch_all(lambda _: journal.note("handled"))

    assert fx.run_sync(stream_steps(program).take(1).collect()) == [1]
    assert journal.lines == ["closed"]


def test_what_fails_when_the_reader_left_is_told() -> None:
    """A finalizer that fails is a defect of the reader, as in any scope."""

    def program(emit: Emit[int]) -> Effect[None]:
        return emit(1).ensuring(fx.sync(lambda: 1 / 0).as_(None))

    end = fx.run_sync(stream_steps(program).take(1).collect().exit())
    assert isinstance(end, Failed)
    assert [type(reason.defect) for reason in end.cause.reasons if isinstance(reason, Die)] == [ZeroDivisionError]


def test_services_of_the_program_stay_its_own(backend: Backend) -> None:
    """Layers around the stream are there in it, layers in it are there between its values, and not for the reader."""

    def around(emit: Emit[int]) -> Any:
        inner = (
            fx.service(Base).flat_map(emit).and_then(fx.service(Base).flat_map(emit)).provide(Layer.succeed(Base, 5))
        )
        return fx.service(Base).flat_map(emit).and_then(inner).and_then(fx.service(Base).flat_map(emit))

    stream: StreamOf[int, Any, Any] = stream_steps(around).provide(Layer.succeed(Base, 1))
    seen = stream.map_effect(lambda n: fx.service(Base).map(lambda outer: (n, outer)))
    assert fx.run(seen.collect().provide(Layer.succeed(Base, 9)), backend=backend) == [(1, 9), (5, 9), (5, 9), (1, 9)]


def test_a_value_that_is_emitted_beside_the_program_is_a_defect(backend: Backend) -> None:
    """The message says what is there for that."""

    def beside(emit: Emit[int]) -> Any:
        return fx.all_(fx.sleep(0.001), emit(1))

    def timed(emit: Emit[int]) -> Any:
        return emit(1).timeout(5)

    for program in (beside, timed):
        with pytest.raises(RuntimeError, match=r"StreamOf\.emitting"):
            fx.run(stream_steps(program).collect(), backend=backend)


@pytest.mark.parametrize("wait", [0, 30])
def test_a_cancelled_reader_cancels_it(backend: Backend, wait: float) -> None:
    """Where it waits, and where it stands between two values; its finalizers run to their end."""
    journal = Journal()
    begun = anyio.Event()

    def program(emit: Emit[int]) -> Effect[None]:
        waiting = fx.sync(begun.set).and_then(fx.sleep(wait)).and_then(emit(1)).and_then(emit(2))
        return waiting.on_exit(journal.ends)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            reading = stream_steps(program).for_each(lambda _: fx.sleep(30))
            group.start_soon(lambda: fx.run_async(reading))
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert journal.lines == ["interruption"]


def test_asyncio_may_cancel_it() -> None:
    """`wait_for` around the reader: the program's finalizers run once, to their end, and no task is left."""
    journal = Journal()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fx.run_async(numbers(journal, wait=0.001).for_each(lambda _: fx.sleep(30))), 0.05)
        assert journal.lines == ["before 0", "closed"]
        assert running_tasks() == 1

    asyncio.run(main())


def test_streams_of_streams_have_room(backend: Backend) -> None:
    """Readings within readings, far deeper than the stack of a task would take."""

    def nested(depth: int) -> StreamOf[int, Any, Any]:
        stream: StreamOf[int, Any, Any] = Stream.make(1, 2)
        for _ in range(depth):
            stream = stream_steps(lambda emit, inner=stream: inner.for_each(emit))  # type: ignore[misc]
        return stream

    assert fx.run(nested(300).collect(), backend=backend) == [1, 2]


def test_it_is_read_in_plain_python(backend: Backend) -> None:
    """And is over when the block is left."""
    journal = Journal()

    async def main() -> list[int]:
        async with numbers(journal, wait=0.001).iterate() as items:
            async for item in items:
                return [item]
        return []

    assert anyio.run(main, backend=backend) == [0]
    assert journal.lines == ["before 0", "closed"]


def test_the_scope_of_the_program_is_its_own(backend: Backend) -> None:
    """What it acquires within `scoped` is released there, and not when the stream ends."""
    journal = Journal()

    def program(emit: Emit[str]) -> Any:
        held = fx.scoped(fx.acquire_release(journal.note("open"), lambda _: journal.note("shut")).and_then(emit("a")))
        return held.and_then(emit("b"))

    stream = stream_steps(program).tap(journal.note)
    assert fx.run(stream.collect(), backend=backend) == ["a", "b"]
    assert journal.lines == ["open", "a", "shut", "b"]
