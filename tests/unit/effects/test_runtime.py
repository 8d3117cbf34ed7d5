"""Running: what leaves a run, and where it may be started."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from returns.io import IOFailure, IOSuccess
from returns.result import Failure, Success

from fxai.effects import Cause, Effect, Fail, Failed, FailureError, Interrupt, InterruptedProgramError, Succeeded, fx
from fxai.effects.runtime import Backend
from fxai.effects.spawn import event_loop
from tests.unit.effects.journal import Lost, boom

interrupted: Effect[int] = fx.fail_cause(Cause((Interrupt(),)))


def test_run_gives_the_value(backend: Backend) -> None:
    """On an event loop of its own."""
    loop = fx.run(fx.sleep(0).and_then(fx.sync(event_loop)), backend=backend)

    assert loop == backend
    assert event_loop() is None


def test_run_raises_a_failure_a_defect_and_an_interruption(backend: Backend) -> None:
    """A failure itself if it is an exception, else `FailureError`; a defect itself."""
    with pytest.raises(OSError, match="gone"):
        fx.run(fx.fail(OSError("gone")), backend=backend)
    with pytest.raises(FailureError) as caught:
        fx.run(fx.fail(Lost("x")), backend=backend)
    with pytest.raises(ZeroDivisionError):
        fx.run(fx.sync(boom), backend=backend)
    with pytest.raises(InterruptedProgramError):
        fx.run(interrupted, backend=backend)
    assert caught.value.cause == Cause((Fail(Lost("x")),))


def test_run_exit_raises_nothing_that_goes_wrong_in_the_program(backend: Backend) -> None:
    """Every end is a value."""
    assert fx.run_exit(fx.succeed(1), backend=backend) == Succeeded(1)
    assert fx.run_exit(fx.fail(Lost()), backend=backend) == Failed(Cause((Fail(Lost()),)))
    assert isinstance(fx.run_exit(fx.sync(boom), backend=backend), Failed)
    assert fx.run_exit(interrupted, backend=backend) == Failed(Cause((Interrupt(),)))


def test_run_result_gives_a_result_and_raises_the_rest(backend: Backend) -> None:
    """A typed failure is a `Failure`, also as `IOResult`; defects are raised."""
    assert fx.run_result(fx.succeed(1), backend=backend) == Success(1)
    assert fx.run_result(fx.fail(Lost()), backend=backend) == Failure(Lost())
    assert fx.run_io_result(fx.succeed(1), backend=backend) == IOSuccess(1)
    assert fx.run_io_result(fx.fail(Lost()), backend=backend) == IOFailure(Lost())
    with pytest.raises(ZeroDivisionError):
        fx.run_result(fx.sync(boom), backend=backend)


def test_run_inside_a_running_loop_refuses_and_names_what_to_use(backend: Backend) -> None:
    """`run`, `run_exit` and the others point to `run_async`, and start nothing."""
    started: list[int] = []
    effect = fx.sync(lambda: started.append(1))
    runners: list[Any] = [fx.run, fx.run_exit, fx.run_result, fx.run_io_result]

    async def main() -> None:
        for runner in runners:
            with pytest.raises(RuntimeError, match=rf"event loop \({backend}\) runs here: await fx\.run_async"):
                runner(effect, backend=backend)

    anyio.run(main, backend=backend)

    assert started == []


def test_run_sync_works_inside_a_running_loop_without_touching_it(backend: Backend) -> None:
    """What never waits can be run anywhere; what waits is refused there too, and nothing is left running."""

    async def main() -> int:
        waiting: list[Effect[Any]] = [fx.sleep(1), fx.scoped(fx.fork(fx.sleep(1)).flat_map(lambda h: h.join()))]
        for effect in waiting:
            with pytest.raises(RuntimeError, match="no event loop"):
                fx.run_sync(effect)
        return fx.run_sync(fx.for_each([1, 2], fx.succeed, concurrency=2).map(sum))

    assert anyio.run(main, backend=backend) == 3


def test_run_async_runs_in_the_current_task(backend: Backend) -> None:
    """It gives the value, raises as `run` does; `run_async_exit` gives the exit."""

    async def main() -> list[Any]:
        with pytest.raises(FailureError):
            await fx.run_async(fx.fail(Lost()))
        return [await fx.run_async(fx.sleep(0).as_(1)), await fx.run_async_exit(fx.fail(Lost()))]

    assert anyio.run(main, backend=backend) == [1, Failed(Cause((Fail(Lost()),)))]


def test_the_event_loop_around_is_known(backend: Backend) -> None:
    """By name inside, None outside."""

    async def main() -> str | None:
        return event_loop()

    assert anyio.run(main, backend=backend) == backend
    assert event_loop() is None
