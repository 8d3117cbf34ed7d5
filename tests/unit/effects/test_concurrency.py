"""Concurrent operators: bounded, ordered, structured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
import pytest

from fxai.effects import Backend, Cause, Effect, EffectOf, Fail, Failed, Gen, Interrupt, fx
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of, running_tasks, turns


class Gauge:
    """How many run at once, and how many did at most."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    def around(self, effect: Effect[int]) -> Effect[int]:
        """The effect, counted while it runs."""

        def enter() -> None:
            self.now += 1
            self.most = max(self.most, self.now)

        def leave() -> None:
            self.now -= 1

        return fx.sync(enter).and_then(effect).ensuring(fx.sync(leave))


@every("concurrency", [1, 2, 3, 100, None])
@every("wait", [0, 1], ids=["sync", "waiting"])
def test_values_come_in_the_order_of_the_items(concurrency: int | None, wait: int, backend: Backend) -> None:
    """Whatever ends first, the list is in the order of the items."""

    def slower_first(n: int) -> Effect[int]:
        turn: Effect[None] = fx.succeed(None)
        for _ in range((5 - n) * wait):
            turn = turn.and_then(fx.sleep(0))
        return turn.as_(n * n)

    values = fx.run(fx.for_each(range(5), slower_first, concurrency=concurrency), backend=backend)

    assert values == [0, 1, 4, 9, 16]


@every(("concurrency", "most"), [(1, 1), (2, 2), (3, 3), (8, 8), (50, 20), (None, 20)])
def test_concurrency_bounds_how_many_run_at_once(concurrency: int | None, most: int, backend: Backend) -> None:
    """No more than the limit at any moment, and as many as it allows."""
    gauge = Gauge()
    slow = fx.sleep(0).and_then(fx.sleep(0)).and_then(fx.sleep(0.001))

    values = fx.run(
        fx.for_each(range(20), lambda n: gauge.around(slow.as_(n)), concurrency=concurrency), backend=backend
    )

    assert values == list(range(20))
    assert (gauge.most, gauge.now) == (most, 0)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_limit_below_one_is_refused(concurrency: int) -> None:
    """The error says what may be given."""
    with pytest.raises(ValueError, match="concurrency must be at least 1, or None"):
        _ = fx.for_each([1], fx.succeed, concurrency=concurrency)


def test_nothing_to_do_gives_nothing(backend: Backend) -> None:
    """Empty items give an empty list at any limit."""
    for concurrency in (1, 2, None):
        assert fx.run(fx.for_each(list[int](), fx.succeed, concurrency=concurrency), backend=backend) == []
    assert fx.run_sync(fx.collect(list[Effect[int]]())) == []


def test_items_are_read_once_per_run_before_anything_starts() -> None:
    """Items that change while the program runs change nothing in it."""
    items = [1, 2]

    def grow(n: int) -> Effect[int]:
        items.append(n)
        return fx.succeed(n)

    assert fx.run_sync(fx.for_each(items, grow)) == [1, 2]
    assert fx.run_sync(fx.for_each(items, grow, concurrency=2)) == [1, 2, 1, 2]


def test_collect_runs_one_after_another(backend: Backend) -> None:
    """Each effect ends before the next begins; the first failure ends it."""
    journal = Journal()

    def step(name: str) -> Effect[str]:
        return journal.note(f"begin {name}").and_then(fx.sleep(0)).and_then(journal.note(f"end {name}")).as_(name)

    assert fx.run(fx.collect([step("a"), step("b")]), backend=backend) == ["a", "b"]
    assert journal.lines == ["begin a", "end a", "begin b", "end b"]

    failing: list[EffectOf[Any, Any, None]] = [fx.fail(Lost()), step("c")]
    assert ending_of(fx.run_exit(fx.collect(failing), backend=backend)) == "failure"
    assert len(journal.lines) == 4


@pytest.mark.parametrize("operator", ["for_each", "all_", "limited"])
def test_a_failing_child_interrupts_the_others_before_the_parent_goes_on(operator: str, backend: Backend) -> None:
    """Finalizers of the siblings, waits included, have run when the parent sees the failure."""
    journal = Journal()
    slow = fx.never().on_exit(lambda end: fx.sleep(0.001).and_then(journal.ends(end)))
    failing: Effect[None, Lost] = fx.sleep(0).and_then(fx.fail(Lost()))
    effects: list[Effect[Any, Lost]] = [slow, failing, slow]
    program: EffectOf[Any, Lost, None]
    if operator == "all_":
        program = fx.all_(effects[0], effects[1], effects[2])
    else:
        limit = 3 if operator == "limited" else None
        program = fx.for_each([*effects, journal.note("begun")][: limit or 3], lambda e: e, concurrency=limit)

    ended = fx.run_exit(program.catch_cause(lambda cause: journal.note("parent").as_(cause)), backend=backend)

    assert cast("Any", ended).value == Cause((Fail(Lost()),))
    assert journal.lines == ["interruption", "interruption", "parent"]


async def _cancelled_by_somebody() -> None:
    await asyncio.sleep(0)
    task = cast("asyncio.Task[None]", asyncio.current_task())
    task.cancel()
    await asyncio.sleep(60)


def test_a_child_whose_task_somebody_cancels_is_interrupted() -> None:
    """It has no value then, and none is made up: the others are interrupted, and the parent goes on with the cause."""
    journal = Journal()
    slow = fx.never().on_exit(lambda end: fx.sleep(0.001).and_then(journal.ends(end)))

    ended = fx.run_exit(fx.all_(fx.wait(_cancelled_by_somebody), slow))

    assert ended == Failed(Cause((Interrupt(),)))
    assert journal.lines == ["interruption"]


def test_a_race_goes_on_past_a_child_whose_task_somebody_cancels() -> None:
    """It is one that did not succeed, as one that fails."""
    late: Effect[str] = fx.sleep(0.01).as_("late")
    cancelled: Effect[str] = fx.wait(_cancelled_by_somebody).as_("never")

    assert fx.run(fx.race(cancelled, late)) == "late"


def test_children_end_whole_when_their_parent_is_cancelled_again_and_again() -> None:
    """Each cancellation of the parent's task waits for the finalizers of all children, those that wait too."""
    journal = Journal()
    slow = fx.never().on_exit(lambda end: fx.sleep(0.01).and_then(journal.ends(end)))

    async def cancelled() -> None:
        task = asyncio.ensure_future(fx.run_async(fx.for_each(range(3), lambda _: slow, concurrency=None)))
        for _ in range(3):
            await asyncio.sleep(0.001)
            task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())

    assert journal.lines == ["interruption"] * 3


def test_children_that_were_not_begun_are_not_begun_after_a_failure(backend: Backend) -> None:
    """A failure stops the rest."""
    journal = Journal()

    def child(n: int) -> Effect[None, Lost]:
        return journal.note(f"begun {n}").and_then(fx.sleep(0)).and_then(fx.fail(Lost()) if n == 1 else fx.never())

    ended = fx.run_exit(fx.for_each(range(10), child, concurrency=2), backend=backend)

    assert ending_of(ended) == "failure"
    assert journal.lines == ["begun 0", "begun 1"]


@every("concurrency", [1, 2, None])
@every("raises", [False, True])
def test_children_after_one_that_fails_without_a_wait_do_not_run(
    concurrency: int | None, raises: bool, backend: Backend
) -> None:
    """A child that fails in its first step stops the operator. No later child runs, with or without an event loop."""

    def ends(journal: Journal) -> list[Any]:
        def child(n: int) -> Effect[None, Lost]:
            failing: Effect[None, Lost] = fx.sync(boom) if raises else fx.fail(Lost())
            return journal.note(f"begun {n}").and_then(failing if n == 1 else fx.succeed(None))

        return [fx.for_each(range(5), child, concurrency=concurrency), fx.all_(child(0), child(1), child(2))]

    for which in (0, 1):
        for run in (fx.run_sync, partial(fx.run, backend=backend)):
            journal = Journal()
            assert ending_of(run(ends(journal)[which].exit())) == ("defect" if raises else "failure")
            assert journal.lines == ["begun 0", "begun 1"]


def test_what_siblings_fail_with_meanwhile_is_kept(backend: Backend) -> None:
    """A finalizer that dies in an interrupted sibling stands beside the first failure."""

    def child(n: int) -> Effect[None, Lost]:
        failing: Effect[None, Lost] = fx.sleep(0).and_then(fx.fail(Lost(str(n))))
        return failing if n else fx.never().ensuring(fx.sync(boom))

    ended = cast("Failed[Lost]", fx.run_exit(fx.for_each([0, 1], child, concurrency=None), backend=backend))

    assert ended.cause.failures == (Lost("1"),)
    assert [type(defect) for defect in ended.cause.defects] == [ZeroDivisionError]
    assert not ended.cause.interrupted


def test_a_defect_in_a_child_is_the_parents_defect(backend: Backend) -> None:
    """A bug in one child interrupts the others and is no failure."""
    journal = Journal()
    both = fx.all_(fx.never().on_exit(journal.ends), fx.sleep(0).and_then(fx.sync(boom)))

    assert ending_of(fx.run_exit(both, backend=backend)) == "defect"
    assert journal.lines == ["interruption"]


def test_all_gives_a_tuple_in_the_order_given(backend: Backend) -> None:
    """Two to four effects of different types."""
    late = fx.sleep(0.001).as_("late")

    assert fx.run(fx.all_(late, fx.succeed(1)), backend=backend) == ("late", 1)
    assert fx.run(fx.all_(fx.succeed(1), late, fx.succeed(None)), backend=backend) == (1, "late", None)
    assert fx.run(fx.all_(late, fx.succeed(1), late, fx.succeed(2)), backend=backend) == ("late", 1, "late", 2)


def test_children_really_run_at_once(backend: Backend) -> None:
    """Each waits for the other: one after another they would never end."""
    one, two = anyio.Event(), anyio.Event()

    def meet(mine: anyio.Event, other: anyio.Event) -> Effect[bool]:
        return fx.sync(mine.set).and_then(fx.wait(other.wait)).as_(True)

    assert fx.run(fx.all_(meet(one, two), meet(two, one)).timeout(5), backend=backend) == (True, True)


@pytest.mark.parametrize("swap", [False, True])
def test_a_race_gives_the_first_success_and_interrupts_the_other(swap: bool, backend: Backend) -> None:
    """The loser's finalizers have run when the race is over, on either side."""
    journal = Journal()
    slow: Effect[str] = fx.never().on_exit(lambda end: fx.sleep(0.001).and_then(journal.ends(end)))
    fast = fx.sleep(0.001).as_("fast")

    value = fx.run(fx.race(fast, slow) if swap else fx.race(slow, fast), backend=backend)

    assert value == "fast"
    assert journal.lines == ["interruption"]


def test_a_race_waits_for_a_success_past_a_failure(backend: Backend) -> None:
    """A failure alone does not end a race; where both fail both causes are kept."""
    failing = cast("Effect[str, Lost]", fx.fail(Lost("a")))
    in_time: Effect[str, Lost] = fx.sleep(0.001).as_("late")
    late = cast("Effect[str, Lost]", fx.sleep(0.001).and_then(fx.fail(Lost("b"))))

    assert fx.run(fx.race(failing, in_time).or_die(), backend=backend) == "late"
    both = cast("Failed[Lost]", fx.run_exit(fx.race(late, failing), backend=backend))
    assert both.cause.failures == (Lost("a"), Lost("b"))


def test_a_race_that_is_won_at_once_does_not_begin_the_other(backend: Backend) -> None:
    """The first of two that never wait wins, and the second is not run, with or without an event loop."""
    for run in (fx.run_sync, partial(fx.run, backend=backend)):
        journal = Journal()

        assert run(fx.race(fx.succeed(1), journal.note("begun").as_(2))) == 1
        assert journal.lines == []


def test_none_is_a_value_that_wins(backend: Backend) -> None:
    """A race won with `None` gives `None`."""
    assert fx.run(fx.race(fx.never(), fx.sleep(0)), backend=backend) is None
    assert fx.run(fx.for_each([1, 2], lambda _: fx.sleep(0), concurrency=2), backend=backend) == [None, None]


PROGRAMS: dict[str, Callable[[Effect[None]], EffectOf[Any, Any, None]]] = {
    "for_each": lambda slow: fx.for_each([slow, fx.fail(Lost()).delay(0)], lambda e: e, concurrency=None),
    "race": lambda slow: fx.race(slow, fx.sleep(0)),
    "fork": lambda slow: fx.scoped(fx.fork(slow).and_then(fx.sleep(0))),
    "timeout": lambda slow: slow.timeout(0.001),
    "nested": lambda slow: fx.race(fx.all_(slow, fx.scoped(fx.fork(slow).and_then(slow))), fx.sleep(0.001)),
}


@every("name", list(PROGRAMS))
def test_nothing_is_left_running_after_a_run(name: str, backend: Backend) -> None:
    """When a program has ended no task of it is left, on either loop."""
    journal = Journal()
    slow = fx.never().ensuring(fx.sleep(0.001).and_then(journal.note("released")))

    async def main() -> tuple[int, int]:
        before = running_tasks()
        await fx.run_async_exit(PROGRAMS[name](slow))
        await turns(1)  # asyncio itself needs one to forget a task that has ended
        return before, running_tasks()

    before, after = anyio.run(main, backend=backend)

    assert before == after
    assert set(journal.lines) == {"released"}


def test_children_need_what_the_parent_has(backend: Backend) -> None:
    """Services of the parent are the children's, in tasks as well."""

    @fx.gen
    def child(n: int) -> Gen[int, Any, Any]:
        yield from fx.sleep(0)
        context = yield from fx.context()
        return int(context.find("base")) + n

    parent = fx.for_each([1, 2], child, concurrency=2)
    base = fx.context().map(lambda context: context.put("base", 10))

    given = base.flat_map(lambda context: cast("EffectOf[list[int]]", parent.provide_context(context)))

    assert fx.run(given, backend=backend) == [11, 12]
