"""Forked programs: in the background, held by a scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from fxai.effects import (
    Backend,
    Cause,
    Die,
    Effect,
    EffectOf,
    Fail,
    Failed,
    FiberHandle,
    Gen,
    Interrupt,
    Scope,
    Succeeded,
    fx,
)
from tests.kit.journal import Journal, Lost, boom, running_tasks, turns


def forked(
    effect: EffectOf[Any, Any, Any], then: Callable[[FiberHandle[Any, Any]], EffectOf[Any, Any, Any]]
) -> EffectOf[Any, Any, None]:
    """Forks the effect in a scope, then runs what `then` makes of the handle."""
    return fx.scoped(fx.fork(effect).flat_map(then))


@pytest.mark.parametrize("wait", [fx.succeed(None), fx.sleep(0)], ids=["sync", "waiting"])
def test_joining_gives_the_programs_own_end(wait: Effect[None], backend: Backend) -> None:
    """Value, failure and defect of the forked program are those of `join`."""

    def joined(effect: EffectOf[Any, Any, None]) -> EffectOf[Any, Any, None]:
        return forked(wait.and_then(effect), lambda handle: handle.join())

    bug = ValueError("bug")

    assert fx.run_exit(joined(fx.succeed(5)), backend=backend) == Succeeded(5)
    assert fx.run_exit(joined(fx.fail(Lost())), backend=backend) == Failed(Cause((Fail(Lost()),)))
    assert fx.run_exit(joined(fx.die(bug)), backend=backend) == Failed(Cause((Die(bug),)))


@pytest.mark.parametrize("wait", [fx.succeed(None), fx.sleep(0)], ids=["sync", "waiting"])
def test_the_exit_of_a_forked_program_is_a_value(wait: Effect[None], backend: Backend) -> None:
    """`exit` waits for the end and fails with nothing; asking again gives the same."""

    @fx.gen
    def twice(handle: FiberHandle[Any, Any]) -> Gen[Any]:
        first = yield from handle.exit()
        second = yield from handle.exit()
        return first, second, handle.ended

    failed = Failed(Cause((Fail(Lost()),)))

    assert fx.run(forked(wait.and_then(fx.fail(Lost())), twice), backend=backend) == (failed, failed, True)
    assert fx.run(forked(wait.as_(1), twice), backend=backend) == (Succeeded(1), Succeeded(1), True)


def test_a_forked_program_runs_beside(backend: Backend) -> None:
    """The program that forked goes on while the forked one waits."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None, Any, Scope]:
        handle = yield from fx.fork(journal.note("child 1").and_then(fx.sleep(0)).and_then(journal.note("child 2")))
        yield from journal.note("parent")
        yield from handle.join()
        yield from journal.note("joined")

    fx.run(fx.scoped(program()), backend=backend)

    assert journal.lines == ["child 1", "parent", "child 2", "joined"]


def test_interrupting_waits_for_the_finalizers(backend: Backend) -> None:
    """When `interrupt` has ended the program has, finalizers included; its exit says so."""
    journal = Journal()
    slow = fx.never().on_exit(lambda end: fx.sleep(0.001).and_then(journal.ends(end)))

    @fx.gen
    def stop(handle: FiberHandle[Any, Any]) -> Gen[Any]:
        yield from handle.interrupt()
        yield from journal.note(f"ended {handle.ended}")
        yield from handle.interrupt()
        return (yield from handle.exit())

    assert fx.run(forked(slow, stop), backend=backend) == Failed(Cause((Interrupt(),)))
    assert journal.lines == ["interruption", "ended True"]


def test_joining_an_interrupted_program_is_an_interruption_and_a_value(backend: Backend) -> None:
    """It is no cancellation of the task that joins: `catch_cause` sees it, `run` raises it."""
    joined = forked(fx.never(), lambda handle: handle.interrupt().and_then(handle.join()))

    assert fx.run(joined.catch_cause(lambda cause: fx.succeed(cause.interrupted)), backend=backend) is True


def test_what_an_interrupted_programs_finalizers_failed_with_is_kept(backend: Backend) -> None:
    """The exit of an interrupted program holds a defect of its finalizer."""
    slow = fx.never().ensuring(fx.sync(boom))

    ended = fx.run(forked(slow, lambda handle: handle.interrupt().and_then(handle.exit())), backend=backend)

    assert ended.cause.interrupted
    assert [type(defect) for defect in ended.cause.defects] == [ZeroDivisionError]


@pytest.mark.parametrize("end", ["success", "failure", "cancellation"])
def test_a_closing_scope_interrupts_what_was_forked(end: str, backend: Backend) -> None:
    """However the scope closes, what it holds has ended, finalizers included, before it is closed."""
    journal = Journal()
    slow = fx.never().on_exit(lambda e: fx.sleep(0.001).and_then(journal.ends(e)))
    bodies: dict[str, Effect[None, Lost]] = {
        "success": fx.sleep(0),
        "failure": fx.sleep(0).and_then(fx.fail(Lost())),
        "cancellation": fx.never(),
    }
    program = fx.scoped(fx.fork(slow).and_then(bodies[end])).on_exit(lambda _: journal.note("closed"))

    fx.run_exit(program.timeout(0.01), backend=backend)

    assert journal.lines == ["interruption", "closed"]


def test_a_program_is_stopped_before_what_it_uses_is_released(backend: Backend) -> None:
    """What a forked program acquired, early or late, is released after it was interrupted."""
    journal = Journal()

    @fx.gen
    def child() -> Gen[None, Any, Scope]:
        yield from journal.held("early")
        yield from fx.sleep(0)
        yield from journal.held("late")
        yield from fx.never().ensuring(journal.note("stopped"))

    @fx.gen
    def program() -> Gen[None, Any, Scope]:
        yield from journal.held("outer")
        yield from fx.fork(child())
        yield from fx.sleep(0.005)

    fx.run(fx.scoped(program()), backend=backend)

    assert journal.lines == ["+outer", "+early", "+late", "stopped", "-late", "-early", "-outer"]


def test_what_an_ended_program_acquired_stays_until_the_scope_closes(backend: Backend) -> None:
    """A forked program may acquire something for the one that joins it."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None, Any, Scope]:
        handle = yield from fx.fork(fx.sleep(0).and_then(journal.held("a")))
        name = yield from handle.join()
        yield from journal.note(f"uses {name}")

    fx.run(fx.scoped(program()), backend=backend)

    assert journal.lines == ["+a", "uses a", "-a"]


def test_what_is_being_acquired_while_the_scope_closes_is_released(backend: Backend) -> None:
    """An acquisition that the closing scope waits for does not leak."""
    journal = Journal()
    slow = fx.acquire_release(fx.sleep(0.01).and_then(journal.note("+a")), lambda _: journal.note("-a"))

    fx.run(fx.scoped(fx.fork(slow).and_then(fx.sleep(0))), backend=backend)

    assert journal.lines == ["+a", "-a"]


def test_a_closed_scope_forks_nothing(backend: Backend) -> None:
    """Nothing is started that nobody would stop."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        context = yield from fx.scoped(fx.context())
        yield from cast("EffectOf[Any]", fx.fork(journal.note("started"))).provide_context(context)

    with pytest.raises(RuntimeError, match="the scope is closed"):
        fx.run(cast("EffectOf[None]", program()), backend=backend)
    assert journal.lines == []


def test_forks_of_forks_end_with_the_scope(backend: Backend) -> None:
    """A program forked by a forked one is held by the same scope."""
    journal = Journal()
    leaf = fx.never().ensuring(journal.note("leaf"))
    middle = fx.fork(leaf).and_then(fx.never()).ensuring(journal.note("middle"))

    async def main() -> tuple[int, int]:
        before = running_tasks()
        await fx.run_async(fx.scoped(fx.fork(middle).and_then(fx.sleep(0))))
        await turns(1)
        return before, running_tasks()

    before, after = anyio.run(main, backend=backend)

    assert before == after
    assert sorted(journal.lines) == ["leaf", "middle"]


def test_a_failing_fork_nobody_joins_does_not_fail_the_program(backend: Backend) -> None:
    """Its end is known by its handle alone."""
    assert fx.run(forked(fx.sleep(0).and_then(fx.fail(Lost())), lambda _: fx.sleep(0.002).as_(1)), backend=backend) == 1


def test_joining_can_be_interrupted_without_stopping_the_program(backend: Backend) -> None:
    """A timeout on `join` leaves the forked program running."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[Any, Any, Scope]:
        ready = anyio.Event()
        handle = yield from fx.fork(fx.wait(ready.wait).and_then(journal.note("went on")).as_(1))
        waited = yield from handle.join().timeout(0.001).exit()
        yield from fx.sync(ready.set)
        return type(waited).__name__, (yield from handle.join())

    assert fx.run(fx.scoped(program()), backend=backend) == ("Failed", 1)
    assert journal.lines == ["went on"]
