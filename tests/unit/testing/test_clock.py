"""The test clock: time passes when the test says so."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.effects import Backend, Clock, FailureError, Gen, Schedule, Scope, Timeout, fx
from fxai.testing import TestClock
from tests.kit.journal import Journal, Lost


def _with(clock: TestClock, program: Any, backend: Backend) -> Any:
    return fx.run(fx.scoped(program).provide(clock.layer), backend=backend)


def test_time_stands_still_until_it_is_advanced(backend: Backend) -> None:
    """A sleep ends when its time has come, not before."""
    clock, journal = TestClock(now=100), Journal()

    def program() -> Any:
        yield from fx.fork(fx.sleep(60).and_then(journal.note("slept")))
        yield from clock.advance(59.9)
        journal.add(f"{clock.now()}")
        yield from clock.advance(0.1)
        return (yield from fx.reference(Clock).map(lambda c: c.monotonic()))

    assert _with(clock, fx.gen(program)(), backend) == pytest.approx(60)
    assert journal.lines == ["159.9", "slept"]


def test_sleepers_go_on_in_the_order_of_their_times(backend: Backend) -> None:
    """Each sees the time that it waited for; what they start then is in order too."""
    clock, journal = TestClock(), Journal()

    def sleeper(name: str, *pauses: float) -> Any:
        def steps() -> Any:
            for pause in pauses:
                yield from fx.sleep(pause)
                journal.add(f"{name} {clock.now():g}")

        return fx.gen(steps)()

    def program() -> Any:
        for name, pauses in (("a", (3, 3)), ("b", (1, 4)), ("c", (2,))):
            yield from fx.fork(sleeper(name, *pauses))
        yield from clock.advance(10)
        return clock.now()

    assert _with(clock, fx.gen(program)(), backend) == 10
    assert journal.lines == ["b 1", "c 2", "a 3", "b 5", "a 6"]


def test_a_timeout_strikes_by_the_clock(backend: Backend) -> None:
    """The program's finalizers have run; one that is in time is not cut."""
    clock, journal = TestClock(), Journal()
    slow = fx.sleep(10).ensuring(journal.note("cut")).timeout(5).result()
    quick = fx.sleep(3).as_("in time").timeout(5)

    late, in_time, _ = _with(clock, fx.all_(slow, quick, clock.advance(20)), backend)

    assert late.failure() == Timeout(5)
    assert in_time == "in time"
    assert journal.lines == ["cut"]
    assert clock.sleepers == 0


def test_a_schedule_waits_by_the_clock(backend: Backend) -> None:
    """Retries are spaced without taking any time."""
    clock, tried = TestClock(), list[float]()

    def attempt() -> Any:
        tried.append(clock.now())
        return fx.fail(Lost())

    retried = fx.suspend(attempt).retry(Schedule.exponential(1.0) & Schedule.recurs(3)).result()
    _with(clock, fx.all_(retried, clock.advance(100)), backend)

    assert tried == [0, 1, 3, 7]


def test_a_sleeper_that_is_cancelled_is_forgotten(backend: Backend) -> None:
    """Nobody waits any more, and advancing past its time is no error."""
    clock = TestClock()
    program = fx.race(fx.sleep(50), fx.sleep(0)).and_then(clock.advance(100))

    _with(clock, program, backend)

    assert clock.sleepers == 0


def test_it_counts_who_waits(backend: Backend) -> None:
    """So that a test can see whether a program has come to its sleep."""
    clock = TestClock()

    def program() -> Any:
        yield from fx.fork(fx.sleep(5))
        yield from fx.fork(fx.sleep(9))
        yield from clock.advance(6)
        return clock.sleepers

    assert _with(clock, fx.gen(program)(), backend) == 1


def test_a_program_runs_by_the_clock_and_what_it_forked_is_stopped(backend: Backend) -> None:
    """`run` supplies the clock and a scope, gives the value and raises the failure."""
    clock, journal = TestClock(), Journal()

    @fx.gen
    def program() -> Gen[float, Lost, Scope]:
        yield from fx.fork(fx.sleep(60).ensuring(journal.note("stopped")))
        yield from clock.advance(30)
        return (yield from Clock).now()

    assert clock.run(program(), backend=backend) == 30
    assert journal.lines == ["stopped"]
    with pytest.raises(FailureError):
        clock.run(program().and_then(fx.fail(Lost())), backend=backend)


def test_time_does_not_go_back() -> None:
    """A negative step is refused."""
    with pytest.raises(ValueError, match="must be 0 or greater"):
        _ = TestClock().advance(-1)
