"""Schedules: how often and when, by a clock that stands still."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Failure

from fxai.effects import Backend, Clock, Effect, Gen, Layer, Retryable, Schedule, fx
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, StandingClock, ending_of


def pauses(schedule: Schedule[Any, Any], *, runs: int = 8, each: float = 0.0) -> list[float]:
    """The pauses of a program that is repeated, at most `runs` times, and takes `each` seconds."""
    clock = StandingClock()
    left = [runs]

    def once() -> bool:
        clock.time += each
        left[0] -= 1
        return left[0] > 0

    bounded: Schedule[bool, Any] = schedule.while_input(bool)
    repeated = fx.sync(once).repeat(bounded).provide(Layer.succeed(Clock, clock))
    fx.run(repeated)
    return [round(seconds, 6) for seconds in clock.slept] if any(clock.slept) else [0.0] * (runs - left[0] - 1)


@every(
    ("schedule", "expected"),
    [
        (Schedule.recurs(0), []),
        (Schedule.recurs(3), [0, 0, 0]),
        (Schedule.forever(), [0] * 7),
        (Schedule.spaced(2), [2] * 7),
        (Schedule.exponential(1), [1, 2, 4, 8, 16, 32, 64]),
        (Schedule.exponential(1, 3), [1, 3, 9, 27, 81, 243, 729]),
        (Schedule.linear(2), [2, 4, 6, 8, 10, 12, 14]),
        (Schedule.delays([5, 1, 3]), [5, 1, 3]),
        (Schedule.fixed(10), [10] * 7),
        (Schedule.exponential(1).capped(5), [1, 2, 4, 5, 5, 5, 5]),
        (Schedule.exponential(1).up_to(10), [1, 2, 4, 8]),
        (Schedule.spaced(1) & Schedule.recurs(2), [1, 1]),
        (Schedule.spaced(1) & Schedule.delays([3, 0.5]), [3, 1]),
        (Schedule.spaced(4) | Schedule.delays([1, 9]), [1, 4, 4, 4, 4, 4, 4]),
        (Schedule.delays([1]) | Schedule.delays([2, 3]), [1, 3]),
        (Schedule.delays([1, 2]).and_then(Schedule.delays([7])), [1, 2, 7]),
        (Schedule.recurs(0).and_then(Schedule.delays([7])), [7]),
        (Schedule.linear(1).modify_delay(lambda s: s * 10), [10, 20, 30, 40, 50, 60, 70]),
        (Schedule.spaced(3).jittered(1, 1), [3] * 7),
        (Schedule.spaced(3).map(str), [3] * 7),
    ],
    ids=repr,
)
def test_a_schedule_says_how_long_to_wait(schedule: Schedule[Any, Any], expected: list[float]) -> None:
    """The pauses between runs, in seconds, until it ends."""
    assert pauses(schedule) == expected
    assert pauses(schedule) == expected


def test_a_fixed_schedule_keeps_to_its_ticks() -> None:
    """Runs begin at multiples of the period after the first start; those that were missed are left out."""
    assert pauses(Schedule.fixed(10), runs=4, each=3) == [7, 7, 7]
    assert pauses(Schedule.fixed(10), runs=4, each=13) == [7, 7, 7]
    assert pauses(Schedule.fixed(0.1), runs=6) == [0.1] * 5
    assert pauses(Schedule.fixed(0), runs=3) == [0, 0]


def test_jitter_stays_between_its_bounds() -> None:
    """Each delay is multiplied by a number between the two."""
    jittered = pauses(Schedule.spaced(10).jittered(0.5, 1.5), runs=50)

    assert all(5 <= seconds <= 15 for seconds in jittered)
    assert len(set(jittered)) > 1


def test_an_exponential_schedule_never_overflows() -> None:
    """Thousands of tries under a cap go on waiting for the cap."""
    assert pauses(Schedule.exponential(1).capped(60), runs=3000)[-1] == 60


def test_outputs_are_those_of_the_parts() -> None:
    """`&` pairs them, `|` has None for a part that has ended, `map` changes them."""
    seen: list[Any] = []

    def outputs(schedule: Schedule[object, Any]) -> list[Any]:
        seen.clear()
        fx.run_sync(fx.succeed(0).repeat(schedule.map(seen.append)))
        return list(seen)

    assert outputs(Schedule.recurs(3)) == [1, 2, 3]
    assert outputs(Schedule.recurs(2) & Schedule.forever()) == [(1, 1), (2, 2)]
    assert outputs(Schedule.recurs(1) | Schedule.recurs(2)) == [(1, 1), (None, 2)]
    assert outputs(Schedule.recurs(2).map(lambda n: n * 10)) == [10, 20]


def test_inputs_end_a_schedule_for_good() -> None:
    """`while_input` and `until_input` end at the first input that says so, also as a part of another."""
    numbers = iter(range(100))
    until = fx.sync(lambda: next(numbers)).repeat(Schedule.forever().until_input(lambda n: n == 3))
    again = iter([1, 0, 1, 1, 1, 1])
    ones: Schedule[int, int] = Schedule.forever().while_input(lambda n: n == 1)
    one_of = ones | Schedule.recurs(2)

    assert fx.run_sync(until) == 3
    assert fx.run_sync(fx.sync(lambda: next(again)).repeat(one_of)) == 1
    assert list(again) == [1, 1, 1]


def test_a_schedule_is_a_value_that_says_what_it_is() -> None:
    """Its repr reads as it was made, with brackets where they matter."""
    base = Schedule.exponential(0.1).capped(1).up_to(30)

    assert repr(base & Schedule.recurs(6)) == "Schedule(exponential(0.1, 2).capped(1).up_to(30) & recurs(6))"
    assert repr((Schedule.recurs(1) | Schedule.recurs(2)) & Schedule.recurs(3)) == (
        "Schedule((recurs(1) | recurs(2)) & recurs(3))"
    )
    assert repr((Schedule.recurs(1) & Schedule.recurs(2)).capped(1)) == "Schedule((recurs(1) & recurs(2)).capped(1))"


class Attempts:
    """An effect that fails a number of times, and counts."""

    def __init__(self, *failures: Any) -> None:
        self.failures = list(failures)
        self.made = 0

    def effect(self) -> Effect[str, Any]:
        """One attempt."""

        @fx.gen
        def attempt() -> Gen[str, Any]:
            self.made += 1
            if self.failures:
                yield from fx.fail(self.failures.pop(0))
            return "ok"

        return attempt()


def test_retry_tries_again_after_typed_failures() -> None:
    """Until it succeeds, or the schedule ends: then the last failure stands."""
    twice, often = Attempts(Lost("1"), Lost("2")), Attempts(*(Lost(str(n)) for n in range(9)))

    assert fx.run_sync(twice.effect().retry(Schedule.recurs(5))) == "ok"
    assert fx.run_sync(often.effect().retry(Schedule.recurs(3)).result()) == Failure(Lost("3"))
    assert (twice.made, often.made) == (3, 4)


def test_retry_does_not_try_again_after_a_defect() -> None:
    """A bug is not cured by trying again."""
    journal = Journal()
    broken = journal.note("tried").and_then(fx.die(ValueError("bug")))

    assert ending_of(fx.run_sync(broken.retry(Schedule.recurs(5)).exit())) == "defect"
    assert journal.lines == ["tried"]


class Overloaded(msgspec.Struct, frozen=True):
    """A failure that says whether and when to try again."""

    is_retryable: bool = True
    retry_after: float | None = None


def test_retry_honours_what_a_failure_says() -> None:
    """One that is not retryable is final; `retry_after` is the least pause."""
    assert isinstance(Overloaded(), Retryable)
    final, waiting = Attempts(Overloaded(is_retryable=False)), Attempts(*(Overloaded(retry_after=s) for s in (9, 1, 0)))
    clock = StandingClock()
    retried = waiting.effect().retry(Schedule.spaced(2)).provide(Layer.succeed(Clock, clock))

    assert ending_of(fx.run_sync(final.effect().retry(Schedule.recurs(5)).exit())) == "failure"
    assert final.made == 1
    assert fx.run(retried) == "ok"
    assert clock.slept == [9, 2, 2]


def test_each_retry_counts_for_itself() -> None:
    """A schedule holds no state: the same effect can be run again, and at once."""
    always: Effect[int, Lost] = fx.fail(Lost())
    journal = Journal()
    retried = journal.note("try").and_then(always).retry(Schedule.recurs(1)).result()

    fx.run_sync(fx.all_(retried, retried).and_then(retried))

    assert len(journal.lines) == 6


def test_repeat_gives_the_last_value_and_stops_at_a_failure() -> None:
    """After each success, for as long as the schedule says."""
    numbers = iter(range(100))
    counting = fx.sync(lambda: next(numbers))
    failing: Effect[int, Lost] = counting.flat_map(lambda n: fx.fail(Lost()) if n == 6 else fx.succeed(n))

    assert fx.run_sync(counting.repeat(Schedule.recurs(3))) == 3
    assert fx.run_sync(failing.repeat(Schedule.forever()).result()) == Failure(Lost())
    assert next(numbers) == 7


def test_a_pause_can_be_cancelled(backend: Backend) -> None:
    """A retry that waits is interrupted like any wait."""
    always: Effect[int, Lost] = fx.fail(Lost())

    assert ending_of(fx.run_exit(always.retry(Schedule.spaced(60)).timeout(0.005), backend=backend)) == "failure"


def test_a_retry_without_end_is_fair(backend: Backend) -> None:
    """A retry with no pause lets others run, and can be timed out."""
    always: Effect[int, Lost] = fx.fail(Lost())

    assert ending_of(fx.run_exit(always.retry(Schedule.forever()).timeout(0.005), backend=backend)) == "failure"
