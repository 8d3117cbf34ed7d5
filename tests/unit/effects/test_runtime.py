"""Running: what leaves a run, and where it may be started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from returns.io import IOFailure, IOSuccess
from returns.result import Failure, Success

from fxai.effects import (
    Backend,
    Cause,
    Effect,
    Fail,
    Failed,
    FailureError,
    Gen,
    Interrupt,
    InterruptedProgramError,
    Layer,
    Service,
    Stream,
    Succeeded,
    Tag,
    fx,
    runtime,
)
from fxai.effects.cancellation import event_loop
from tests.kit.every import every
from tests.kit.journal import Lost, boom

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


class Database(Service):
    """A service."""


class Port(Tag[int]):
    """A key that is no service."""


def numbers() -> Gen[int]:
    """A generator without its decorator."""
    yield from fx.succeed(1)
    return 1


async def answered() -> int:
    """A coroutine."""
    return 1


NO_EFFECTS: list[tuple[Any, str]] = [
    (None, r"got None\. Add the missing `return`"),
    (numbers, r"Call it: numbers\(…\)"),
    (numbers(), r"Put @fx\.gen on the function numbers"),
    (Database, r"Write `yield from Database`, or fx\.service\(Database\)"),
    (Port, r"Write `yield from Port`, or fx\.service\(Port\)"),
    (Success(1), r"fx\.lift"),
    (Layer.succeed(Port, 1), r"program\.provide\(layer\)"),
    (Stream.make(1), r"\.collect\(\)"),
    (5, r"got 5\. .*fx\.succeed"),
]


@fx.gen
def yielding(given: Any) -> Gen[Any]:
    """A generator that yields what is no effect."""
    return (yield given)


@fx.gen
def handling(given: Any) -> Gen[Any]:
    """A generator whose handler gives what is no effect."""
    return (yield from fx.fail("no").catch_all(lambda _: given))


GIVEN: dict[str, Callable[[Any], Any]] = {
    "run": lambda given: given,
    "yield": yielding,
    "flat_map": lambda given: fx.succeed(1).flat_map(lambda _: given),
    "tap": lambda given: fx.succeed(1).tap(lambda _: given),
    "and_then": lambda given: fx.succeed(1).and_then(given),
    "suspend": lambda given: fx.suspend(lambda: given),
    "catch_all": handling,
    "catch_cause": lambda given: fx.fail(1).catch_cause(lambda _: given),
    "or_else": lambda given: fx.fail(1).or_else(given),
    "ensuring": lambda given: fx.succeed(1).ensuring(given),
    "release": lambda given: fx.scoped(fx.acquire_release(fx.succeed(1), lambda _: given)),
    "all_": lambda given: fx.all_(fx.succeed(1), given),
    "fork": lambda given: fx.scoped(fx.fork(given).flat_map(lambda handle: handle.join())),
}


@every("location", GIVEN.values(), ids=GIVEN)
@every(("given", "words"), NO_EFFECTS, ids=[str(i) for i in range(len(NO_EFFECTS))])
def test_what_is_no_effect_is_a_type_error_that_says_what_to_write(
    given: Any, words: str, location: Callable[[Any], Any]
) -> None:
    """Wherever it was given, with and without a loop; nothing takes None for an effect that does nothing."""
    for run in (fx.run_sync, fx.run):
        with pytest.raises(TypeError, match=words):
            run(location(given))


def test_a_coroutine_is_no_effect_either() -> None:
    """It could be awaited only once."""
    coroutine: Any = answered()

    with pytest.raises(TypeError, match=r"fx\.wait\(lambda: answered\(…\)\)"):
        fx.run(coroutine)
    coroutine.close()


def test_the_error_of_a_generator_that_yields_no_effect_points_at_its_line() -> None:
    """It is raised there, where it can be caught too."""
    with pytest.raises(TypeError) as caught:
        fx.run_sync(yielding(Database))
    assert any(entry.name == "yielding" for entry in caught.traceback)


def test_a_function_under_gen_that_is_no_generator_is_a_type_error_that_says_what_to_write() -> None:
    """A function without `yield from`, and a coroutine function; another error of a function is left as it is."""

    def plain() -> Any:
        return 3

    async def waits() -> Any:
        return 3

    def broken() -> Any:
        raise TypeError("'int' object is not callable")

    coroutine: Any = waits
    with pytest.raises(TypeError, match=r"plain contains no `yield from`"):
        fx.run(fx.gen(plain)())
    with pytest.warns(RuntimeWarning, match="never awaited"), pytest.raises(TypeError, match="waits is a coroutine"):
        fx.run(fx.gen(coroutine)())
    with pytest.raises(TypeError, match="not callable"):
        fx.run(fx.gen(broken)())


@pytest.mark.parametrize("method", ["run", "run_exit", "run_result"])
def test_a_runtime_that_has_ended_runs_no_program(method: str, backend: Backend) -> None:
    """Its services were released, so a program could use a closed connection: it does not start."""
    ran: list[str] = []

    async def main() -> None:
        async with runtime(Layer.empty()) as services:
            await getattr(services, method)(fx.sync(lambda: ran.append("inside")))
        with pytest.raises(RuntimeError, match=r"^this Runtime has ended.*async with runtime"):
            await getattr(services, method)(fx.sync(lambda: ran.append("after")))

    anyio.run(main, backend=backend)

    assert ran == ["inside"]


@pytest.mark.parametrize("run", [fx.run, fx.run_sync, fx.run_exit, fx.run_result])
def test_an_effect_that_a_program_returns_and_does_not_run_is_a_type_error(run: Callable[[Any], Any]) -> None:
    """`return effect` for `return (yield from effect)`, and `map` for `flat_map`."""

    @fx.gen
    def forgotten() -> Gen[Any]:
        yield from fx.succeed(1)
        return fx.fail("never seen")

    async def main(program: Any) -> Any:
        async with runtime(Layer.empty()) as services:
            return await services.run(program)

    for program in (forgotten(), fx.succeed(1).map(fx.succeed)):
        with pytest.raises(TypeError, match=r"return \(yield from effect\).*flat_map"):
            run(program)
        with pytest.raises(TypeError, match="was not run"):
            anyio.run(fx.run_async, program)
        with pytest.raises(TypeError, match="was not run"):
            anyio.run(main, program)
    assert fx.run_sync(fx.succeed(1).map(fx.succeed).flat_map(lambda effect: effect)) == 1


def test_run_inside_a_running_loop_refuses_and_names_what_to_use(backend: Backend) -> None:
    """`run`, `run_exit` and the others point to `run_async`, and start nothing."""
    started: list[int] = []
    effect = fx.sync(lambda: started.append(1))
    runners: list[Any] = [fx.run, fx.run_exit, fx.run_result, fx.run_io_result]

    async def main() -> None:
        for runner in runners:
            with pytest.raises(RuntimeError, match=rf"event loop \({backend}\) already runs in this thread\. Await fx"):
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


def test_the_value_of_a_program_is_not_written_out(backend: Backend) -> None:
    """However long it is: an event loop that is left writes out what its task gave, so it gives nothing."""
    written: list[object] = []

    class Long:
        def __repr__(self) -> str:
            written.append(self)
            return "Long()"

    value = fx.run(fx.succeed(Long()), backend=backend)

    assert isinstance(value, Long)
    assert written == []
