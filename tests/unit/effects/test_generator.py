"""Generators under `fx.gen`: steps in order, Python's own control flow, clean unwinding."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import pytest

from fxai.effects import Backend, Cause, Die, Effect, EffectOf, Fail, Gen, Interrupt, Timeout, fx
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of


@fx.gen
def nested(depth: int, leaf: Effect[int, Lost]) -> Gen[int, Lost]:
    """A leaf `depth` generators deep, with one more for each."""
    if depth == 0:
        return (yield from leaf)
    return 1 + (yield from nested(depth - 1, leaf))


def test_steps_run_in_order_and_give_their_values() -> None:
    """`yield from` runs a step and gives its value; the return is the effect's value."""

    @fx.gen
    def program(start: int, *, step: int) -> Gen[list[int]]:
        """Three numbers."""
        a = yield from fx.succeed(start)
        b = yield from fx.sync(lambda: a + step)
        c = yield from fx.suspend(lambda: fx.succeed(b + step))
        return [a, b, c]

    assert fx.run_sync(program(1, step=10)) == [1, 11, 21]
    assert program.__name__ == "program"
    assert program.__doc__ == "Three numbers."


def test_a_generator_effect_can_be_run_again() -> None:
    """Each run has a generator of its own."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[int]:
        yield from journal.note("step")
        return 1

    effect = program()

    assert [fx.run_sync(effect), fx.run_sync(effect)] == [1, 1]
    assert journal.lines == ["step", "step"]


def test_a_generator_without_steps_gives_its_value() -> None:
    """A function that never yields on the way it took is an effect all the same."""

    @fx.gen
    def program(early: bool) -> Gen[int]:
        if early:
            return 1
        return (yield from fx.succeed(2))

    assert fx.run_sync(program(early=True)) == 1
    assert fx.run_sync(program(early=False)) == 2


@every("depth", [0, 1, 5, 6, 7, 8, 50, 5000])
def test_generators_nest_to_any_depth(depth: int) -> None:
    """Shallow ones are delegated natively, deep ones by the interpreter: nobody can tell."""
    assert fx.run_sync(nested(depth, fx.succeed(0))) == depth
    assert fx.run_sync(nested(depth, fx.fail(Lost("leaf"))).match(lambda e: e.what, str)) == "leaf"
    with pytest.raises(ZeroDivisionError):
        fx.run_sync(nested(depth, fx.sync(boom)))


@pytest.mark.parametrize("depth", [0, 3, 7, 20])
def test_nested_generators_wait(depth: int, backend: Backend) -> None:
    """A leaf that awaits works at every depth."""
    assert fx.run(nested(depth, fx.sleep(0).as_(0)), backend=backend) == depth


def test_a_typed_failure_leaves_the_generator_past_except_exception() -> None:
    """`except Exception` does not see it; `finally` and `with` run, innermost first."""
    journal = Journal()

    @contextmanager
    def block(name: str) -> Generator[None]:
        try:
            yield
        finally:
            journal.add(name)

    @fx.gen
    def program() -> Gen[int, Lost]:
        with block("with"):
            try:
                yield from fx.fail(Lost())
            except Exception:
                journal.add("seen")
            finally:
                journal.add("finally")
        return 1

    assert ending_of(fx.run_sync(program().exit())) == "failure"
    assert journal.lines == ["finally", "with"]


def test_a_defect_arrives_as_the_exception_it_is() -> None:
    """Python's `except` sees a defect of a step and may go on."""

    @fx.gen
    def program() -> Gen[str]:
        try:
            yield from fx.sync(boom)
        except ZeroDivisionError as error:
            return str(error)
        return "not reached"

    assert fx.run_sync(program()) == "boom"


def test_a_defect_shows_every_generator_frame() -> None:
    """The traceback of a defect names the generators it came through."""
    with pytest.raises(ZeroDivisionError) as caught:
        fx.run_sync(nested(3, fx.sync(boom)))

    assert [entry.name for entry in caught.traceback].count("nested") == 4


ENDS: dict[str, EffectOf[int, Lost, None]] = {
    "success": fx.succeed(1),
    "failure": fx.fail(Lost()),
    "defect": fx.sync(boom),
    "interruption": fx.fail_cause(Cause((Interrupt(),))),
}


@every("kind", list(ENDS))
@every("depth", [1, 3, 10])
def test_a_finally_with_steps_runs_once_however_it_ended(kind: str, depth: int, backend: Backend) -> None:
    """`finally` may hold steps that wait; it runs once and leaves the end as it is, at every depth."""
    journal = Journal()

    @fx.gen
    def program(level: int) -> Gen[int, Lost]:
        try:
            return (yield from (program(level - 1) if level > 1 else ENDS[kind]))
        finally:
            yield from fx.sleep(0)
            yield from journal.note(f"finally {level}")

    assert ending_of(fx.run_exit(program(depth), backend=backend)) == kind
    assert journal.lines == [f"finally {level}" for level in range(1, depth + 1)]


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_a_finally_with_steps_runs_on_cancellation(depth: int, backend: Backend) -> None:
    """A cancelled generator runs its `finally`, waits included, before the cancellation goes on."""
    journal = Journal()

    @fx.gen
    def program(level: int) -> Gen[int]:
        try:
            yield from program(level - 1) if level > 1 else fx.never()
        except Exception:
            journal.add("seen")
        finally:
            yield from fx.sleep(0.001)
            yield from journal.note(f"finally {level}")
        return 1

    async def main() -> bool:
        with anyio.move_on_after(0.005) as scope:
            await fx.run_async(program(depth))
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert journal.lines == [f"finally {level}" for level in range(1, depth + 1)]


def test_what_fails_in_a_finally_is_kept_beside_the_failure() -> None:
    """A `finally` that raises, or whose step fails, does not hide why it ran."""

    @fx.gen
    def raising() -> Gen[int, Lost]:
        try:
            yield from fx.fail(Lost("first"))
        finally:
            boom()
        return 1

    @fx.gen
    def failing() -> Gen[int, Lost]:
        try:
            try:
                return (yield from fx.fail(Lost("first")))
            finally:
                yield from fx.fail(Lost("second"))
        finally:
            yield from fx.fail(Lost("third"))

    @fx.gen
    def outer() -> Gen[int, Lost]:
        return (yield from failing())

    raised = cast("Any", fx.run_sync(raising().exit())).cause
    failed = cast("Any", fx.run_sync(outer().exit())).cause

    assert raised.reasons[0] == Fail(Lost("first"))
    assert isinstance(raised.reasons[1], Die)
    assert raised.defects[0].__context__ is None
    assert [failure.what for failure in failed.failures] == ["first", "second", "third"]


def test_a_defect_in_a_finally_is_chained_to_the_defect_before() -> None:
    """Between two exceptions Python's own chain tells the first."""

    @fx.gen
    def program() -> Gen[int]:
        try:
            yield from fx.sync(boom)
        finally:
            raise KeyError("late")

    with pytest.raises(KeyError) as caught:
        fx.run_sync(program())
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_a_failing_finally_does_not_swallow_a_cancellation(backend: Backend) -> None:
    """The cancellation goes on, and a handler further out does not see the defect of the `finally`."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None]:
        try:
            yield from fx.never()
        finally:
            boom()

    caught = program().catch_cause(lambda _: journal.note("caught"))
    ended = fx.run_exit(caught.timeout(0.005), backend=backend)

    assert journal.lines == []
    assert cast("Any", ended).cause.failures == (Timeout(0.005),)
    assert ending_of(ended) == "failure and defect"


def test_an_error_made_of_another_is_the_defect() -> None:
    """`raise … from …` translates a defect; the original is its cause."""

    @fx.gen
    def program() -> Gen[int]:
        try:
            return int((yield from fx.sync(boom)))
        except ZeroDivisionError as error:
            raise ValueError("translated") from error

    with pytest.raises(ValueError, match="translated") as caught:
        fx.run_sync(program())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_program_run_inside_an_unwinding_generator_is_its_own() -> None:
    """What another run raises in a `finally` does not take over reasons of the one around."""
    inner: list[Any] = []

    @fx.gen
    def program() -> Gen[int, Lost]:
        try:
            return (yield from fx.fail(Lost("outer")))
        finally:
            inner.append(fx.run_sync(fx.sync(boom).exit()))

    outer = cast("Any", fx.run_sync(program().exit()))

    assert outer.cause.failures == (Lost("outer"),)
    assert ending_of(inner[0]) == "defect"


def test_return_in_finally_stays_python() -> None:
    """A generator that catches everything, as Python lets it, has succeeded."""

    @fx.gen
    def program() -> Gen[int, Lost]:
        try:
            return (yield from fx.fail(Lost()))
        except BaseException:
            return 7

    assert fx.run_sync(program()) == 7


def test_a_generator_loop_catches_and_goes_on() -> None:
    """Failures handled inside leave no trace behind in the loop around."""

    @fx.gen
    def program() -> Gen[int]:
        total = 0
        for number in range(100):
            total += yield from (fx.fail(number) if number % 2 else fx.succeed(0)).catch_all(fx.succeed)
        return total

    assert fx.run_sync(program()) == sum(range(1, 100, 2))
