"""Channels: from a producer to one reader, no faster than it reads."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fxai.effects import Backend, Cause, Fail, Failed, Gen, Scope, Succeeded, fx
from fxai.effects.pull import END, Channel
from tests.kit.journal import Journal, Lost


@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_put_waits_while_there_is_no_room(capacity: int, backend: Backend) -> None:
    """With capacity 0 until the item was taken, else while more than the capacity is unread."""
    journal = Journal()
    channel: Channel[int] = Channel(capacity)

    @fx.gen
    def producer() -> Gen[None]:
        for n in range(5):
            yield from channel.put(n)
            yield from journal.note(f"put {n}")

    @fx.gen
    def program() -> Gen[int, Any, Scope]:
        yield from fx.fork(producer())
        yield from fx.sleep(0.002)
        return len(journal.lines)

    assert fx.run(fx.scoped(program()), backend=backend) == capacity


def test_items_come_in_order_then_the_end(backend: Backend) -> None:
    """What was offered before the end is read before it."""
    channel: Channel[int] = Channel(1)
    for n in range(3):
        channel.offer(n)
    _ = channel.end(Succeeded(None))

    taken = fx.run(fx.collect([channel.take()] * 5), backend=backend)

    assert taken == [0, 1, 2, END, END]


def test_a_failed_end_is_the_readers_failure(backend: Backend) -> None:
    """After what is left."""
    channel: Channel[int] = Channel()
    channel.offer(1)
    _ = channel.end(Failed(Cause((Fail(Lost()),))))

    assert fx.run(channel.take(), backend=backend) == 1
    assert cast("Any", fx.run_exit(channel.take(), backend=backend)).cause.failures == (Lost(),)


def test_a_reader_waits_for_an_item_and_for_the_end(backend: Backend) -> None:
    """`take` wakes for either."""
    channel: Channel[int] = Channel()
    later = (
        fx.sleep(0)
        .and_then(channel.put(1))
        .and_then(fx.sleep(0))
        .and_then(fx.suspend(lambda: channel.end(Succeeded(None))))
    )

    both = fx.all_(fx.collect([channel.take(), channel.take()]), later)

    assert fx.run(both.timeout(5), backend=backend)[0] == [1, END]


def test_a_reader_that_is_interrupted_loses_nothing(backend: Backend) -> None:
    """An item that comes after an interrupted `take` is there for the next one."""
    channel: Channel[int] = Channel(2)
    program = channel.take().timeout(0.001).exit().and_then(channel.put(7)).and_then(channel.take())

    assert fx.run(program, backend=backend) == 7
