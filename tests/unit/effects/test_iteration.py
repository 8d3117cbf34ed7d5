"""Streams read from plain asynchronous Python."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fxai.effects import Backend, Effect, FailureError, Stream, StreamOf, fx
from tests.kit.journal import Journal, Lost, running_tasks, turns


def numbers(journal: Journal, *, buffered: bool) -> StreamOf[int, Any, None]:
    """Numbers without end that wait, and write how they ended."""

    def following(n: int) -> Effect[tuple[int, int] | None]:
        return fx.sleep(0).as_((n, n + 1))

    stream = Stream.unfold(0, following).on_exit(lambda e: fx.sleep(0.001).and_then(journal.ends(e)))
    return stream.buffer(2) if buffered else stream


@pytest.fixture(params=[False, True], ids=["pulled", "buffered"])
def buffered(request: pytest.FixtureRequest) -> bool:
    """Whether a forked program stands behind the stream."""
    return bool(request.param)


def test_iterating_gives_the_values(backend: Backend) -> None:
    """To the end; the stream can be iterated again."""
    stream = Stream.make(1, 2, 3)

    async def main() -> list[list[int]]:
        seen: list[list[int]] = []
        for _ in range(2):
            async with stream.iterate() as items:
                seen.append([item async for item in items])
        return seen

    assert anyio.run(main, backend=backend) == [[1, 2, 3], [1, 2, 3]]


def test_leaving_early_stops_the_producer(buffered: bool, backend: Backend) -> None:
    """After the block its finalizers, waits included, have run, and nothing is left running."""
    journal = Journal()

    async def main() -> tuple[int, int, list[str]]:
        before = running_tasks()
        async with numbers(journal, buffered=buffered).iterate() as items:
            async for item in items:
                if item == 3:
                    break
        lines = list(journal.lines)
        await turns(1)
        return before, running_tasks(), lines

    before, after, lines = anyio.run(main, backend=backend)

    assert before == after
    assert lines == ["interruption" if buffered else "success"]


def test_an_exception_in_the_body_stops_the_producer_and_goes_on(buffered: bool, backend: Backend) -> None:
    """The finalizers are told of it."""
    journal = Journal()

    async def main() -> None:
        async with numbers(journal, buffered=buffered).iterate() as items:
            async for item in items:
                if item == 2:
                    raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        anyio.run(main, backend=backend)
    assert journal.lines == ["interruption" if buffered else "defect"]


@pytest.mark.parametrize("where", ["pulling", "body"])
def test_a_cancellation_stops_the_producer_and_goes_on(where: str, buffered: bool, backend: Backend) -> None:
    """While it waits for a value as well as in the body."""
    journal = Journal()

    async def main() -> bool:
        with anyio.move_on_after(0.005) as scope:
            async with numbers(journal, buffered=buffered).iterate() as items:
                async for _ in items:
                    if where == "body":
                        await anyio.sleep(60)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert journal.lines == ["interruption"]


def test_a_typed_failure_is_raised(backend: Backend) -> None:
    """Itself if it is an exception, else as `FailureError`; what came before was given."""
    seen: list[int] = []

    async def read(stream: StreamOf[int, Any, None]) -> None:
        async with stream.iterate() as items:
            async for item in items:
                seen.append(item)  # noqa: PERF401

    with pytest.raises(FailureError):
        anyio.run(read, Stream.make(1).concat(Stream.fail(Lost())), backend=backend)
    with pytest.raises(OSError, match="gone"):
        anyio.run(read, Stream.make(2).concat(Stream.fail(OSError("gone"))), backend=backend)
    assert seen == [1, 2]


def test_finalizers_hear_of_the_failure(backend: Backend) -> None:
    """A stream that failed is released as failed."""
    journal = Journal()
    failing: StreamOf[int, Lost, None] = Stream.make(1).concat(Stream.fail(Lost())).on_exit(journal.ends)

    async def main() -> None:
        async with failing.iterate() as items:
            async for _ in items:
                pass

    with pytest.raises(FailureError):
        anyio.run(main, backend=backend)
    assert journal.lines == ["failure"]


def test_a_stream_that_fails_to_open_is_released(backend: Backend) -> None:
    """The block is not entered."""
    journal = Journal()
    opening: Effect[Any, OSError] = fx.fail(OSError("gone"))
    failing: StreamOf[int, Any, None] = Stream.unwrap(opening)
    released = failing.on_exit(journal.ends)

    async def main() -> None:
        async with released.iterate():
            journal.add("entered")

    with pytest.raises(OSError, match="gone"):
        anyio.run(main, backend=backend)
    assert journal.lines == ["failure"]


def test_a_failing_finalizer_is_raised_when_the_body_was_not(backend: Backend) -> None:
    """It does not hide an exception of the body."""

    def broken() -> None:
        raise ZeroDivisionError("release")

    stream = Stream.make(1, 2).ensuring(fx.sync(broken))

    async def main(error: Exception | None) -> None:
        async with stream.iterate():
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        anyio.run(main, None, backend=backend)
    with pytest.raises(KeyError):
        anyio.run(main, KeyError("body"), backend=backend)


def test_items_outside_the_block(backend: Backend) -> None:
    """Before it they are refused with the remedy; after it there are none."""
    stream = Stream.make(1, 2)

    async def main() -> list[int]:
        reading: Any = stream.iterate()
        with pytest.raises(RuntimeError, match=r"async with stream\.iterate"):
            await anext(reading)
        async with reading as items:
            pass
        return [item async for item in items]

    assert anyio.run(main, backend=backend) == []
