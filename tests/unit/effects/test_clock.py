"""The clock: time as a service."""

from __future__ import annotations

import time

from fxai.effects import Backend, Clock, Layer, fx
from tests.kit.journal import StandingClock, ending_of


def test_the_live_clock_is_there_unless_a_layer_gives_another(backend: Backend) -> None:
    """Its time is the machine's; `monotonic` does not go back."""
    clock = fx.run(fx.reference(Clock), backend=backend)
    before = time.time()

    assert before - 1 <= clock.now() <= time.time() + 1
    assert clock.monotonic() <= clock.monotonic()
    assert clock is Clock.default()


def test_sleeping_and_delays_go_by_the_clock(backend: Backend) -> None:
    """An hour passes at once by a clock that stands still."""
    clock = StandingClock()
    program = fx.sleep(3600).and_then(fx.succeed(1).delay(60))

    assert fx.run(program.provide(Layer.succeed(Clock, clock)), backend=backend) == 1
    assert clock.slept == [3600, 60]
    assert clock.time == 3660


def test_timeouts_go_by_the_clock(backend: Backend) -> None:
    """The clock decides when a deadline has passed: one that stands still never reaches it."""
    clock = Layer.succeed(Clock, StandingClock())

    in_time = fx.wait(lambda: StandingClock().sleep(0)).as_(1).timeout(0.000001)

    assert fx.run(in_time.provide(clock).or_die(), backend=backend) == 1
    assert ending_of(fx.run_exit(fx.never().timeout(0).provide(clock), backend=backend)) == "failure"


def test_a_sleep_that_is_not_positive_is_one_turn(backend: Backend) -> None:
    """Zero and less return at once."""
    assert fx.run(fx.sleep(0).and_then(fx.sleep(-5)).as_(1), backend=backend) == 1
