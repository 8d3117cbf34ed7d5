"""Deadlines that stand still while somebody is asked: by a clock of the test's, so that no time passes."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from fxai.mcp.session import Deadlines
from tests.kit.every import every


def _elapsed(body: Callable[[Deadlines], Awaitable[Any]]) -> tuple[Any, float]:
    """What `body` gives, and the seconds that it took on a clock that leaps to whatever is waited for."""

    async def timed() -> tuple[Any, float]:
        begun = anyio.current_time()
        return await body(Deadlines()), anyio.current_time() - begun

    return anyio.run(timed, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})


async def _limited(deadlines: Deadlines, seconds: float | None, takes: float) -> bool:
    """Whether work that takes so long is done within a limit."""
    try:
        with deadlines.within(seconds):
            await anyio.sleep(takes)
    except TimeoutError:
        return False
    return True


async def _asked(deadlines: Deadlines, begins: float, takes: float) -> None:
    await anyio.sleep(begins)
    with deadlines.standing_still():
        await anyio.sleep(takes)


@pytest.mark.parametrize(("seconds", "takes", "done"), [(10, 9, True), (10, 11, False), (None, 10_000, True)])
def test_without_questions_a_limit_is_a_limit(seconds: float | None, takes: float, done: bool) -> None:
    """Work that takes longer than its limit is cut off when that is over; without one it takes as long as it likes."""
    assert _elapsed(lambda all_: _limited(all_, seconds, takes)) == (done, min(takes, seconds or takes))


@every(
    ("questions", "ends"),
    [
        ([(3, 100)], 110),
        ([(3, 100), (5, 1)], 110),
        ([(3, 5), (4, 100)], 111),
        ([(3, 100), (3, 100)], 110),
        ([(1, 10), (12, 20)], 40),
        ([(0, 50), (10, 100), (60, 100)], 170),
        ([(20, 100)], 10),
    ],
)
def test_time_in_which_somebody_is_asked_does_not_count(questions: list[tuple[float, float]], ends: float) -> None:
    """Each call has its seconds beside the questions, which may overlap, hold one another, or come again."""

    async def program(deadlines: Deadlines) -> list[Any]:
        found: list[Any] = []
        async with anyio.create_task_group() as group:
            for begins, takes in questions:
                group.start_soon(_asked, deadlines, begins, takes)
            begun = anyio.current_time()
            found += [await _limited(deadlines, 10, 10_000), anyio.current_time() - begun]
            group.cancel_scope.cancel()
        return found

    assert _elapsed(program)[0] == [False, ends]


def test_a_call_that_begins_during_a_question_has_all_of_its_time() -> None:
    """Its seconds begin when the question is over; a call without a limit has none after it either."""

    async def program(deadlines: Deadlines) -> list[Any]:
        found: list[Any] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_asked, deadlines, 0, 50)
            await anyio.sleep(20)
            begun = anyio.current_time()
            found += [deadlines.is_still, await _limited(deadlines, 10, 10_000), anyio.current_time() - begun]
            found.append(await _limited(deadlines, None, 10_000))
        return found

    assert _elapsed(program)[0] == [True, False, 40, True]


def test_two_calls_each_have_their_own_time() -> None:
    """A question holds up the limits of both, each by what it had left."""
    ended: list[tuple[float, float]] = []

    async def call(deadlines: Deadlines, begins: float, seconds: float) -> None:
        await anyio.sleep(begins)
        await _limited(deadlines, seconds, 10_000)
        ended.append((seconds, anyio.current_time()))

    async def program(deadlines: Deadlines) -> float:
        begun = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(_asked, deadlines, 4, 100)
            group.start_soon(call, deadlines, 0, 5)
            group.start_soon(call, deadlines, 3, 30)
        return begun

    begun, _ = _elapsed(program)

    assert [(seconds, at - begun) for seconds, at in ended] == [(5, 105), (30, 133)]


def test_a_question_that_fails_lets_time_go_on(backend: str) -> None:
    """However a question ends, limits hold again after it, on either event loop."""

    async def program() -> tuple[bool, bool]:
        deadlines = Deadlines()
        try:
            with deadlines.standing_still():
                raise LookupError
        except LookupError:
            return deadlines.is_still, await _limited(deadlines, 0.01, 5)

    assert anyio.run(program, backend=backend) == (False, False)


def test_limits_that_are_over_leave_nothing() -> None:
    """A connection over which thousands of calls went holds nothing of them."""

    async def program(deadlines: Deadlines) -> int:
        gc.freeze()  # only what comes from here on is looked at
        try:
            for _ in range(100):
                await _limited(deadlines, 10, 0)
            gc.collect()
            return sum(isinstance(one, anyio.CancelScope) for one in gc.get_objects())
        finally:
            gc.unfreeze()

    assert _elapsed(program)[0] < 10
