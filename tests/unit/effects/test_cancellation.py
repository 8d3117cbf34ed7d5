"""Cancellation: by asyncio itself as by a cancel scope; what fails meanwhile is not lost; generators are no shelter."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

import anyio
import pytest
import trio

from fxai.effects import (
    Backend,
    Cause,
    Die,
    Effect,
    EffectOf,
    Fail,
    Failed,
    ForeignCancellationError,
    Gen,
    Layer,
    Stream,
    Tag,
    fx,
    runtime,
)
from fxai.effects.cancellation import cancelled_once, shield
from tests.kit.every import every
from tests.kit.journal import Journal, boom, ending_of, turns

Program: TypeAlias = EffectOf[Any, Any, None]

SLOW = 0.002


class Held(Tag[int]):
    """A service that a layer holds."""


async def by_wait_for(program: Awaitable[Any], seconds: float) -> None:
    """`asyncio.wait_for`."""
    await asyncio.wait_for(program, seconds)


async def by_timeout(program: Awaitable[Any], seconds: float) -> None:
    """`asyncio.timeout`."""
    async with asyncio.timeout(seconds):
        await program


async def by_cancel(program: Awaitable[Any], seconds: float) -> None:
    """`Task.cancel`, three times."""
    task = asyncio.ensure_future(program)
    for _ in range(3):
        await asyncio.sleep(seconds)
        task.cancel()
    await task


async def by_scope(program: Awaitable[Any], seconds: float) -> None:
    """A cancel scope of anyio."""
    with anyio.fail_after(seconds):
        await program


WAYS = [by_wait_for, by_timeout, by_cancel, by_scope]
Way: TypeAlias = Callable[[Awaitable[Any], float], Awaitable[None]]


def cut(way: Way, program: Callable[[], Awaitable[Any]], seconds: float = SLOW) -> BaseException:
    """What is raised where `program` is cut off after `seconds`; the task is left with no cancellation, nor others."""

    async def main() -> BaseException:
        with pytest.raises((TimeoutError, asyncio.CancelledError)) as caught:
            await way(program(), seconds)
        assert cast("asyncio.Task[Any]", asyncio.current_task()).cancelling() == 0
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return caught.value

    return asyncio.run(main())


def slow(journal: Journal, line: str) -> Effect[None]:
    """Writes a line, three waits later."""
    return fx.sleep(SLOW * 5).and_then(fx.checkpoint()).and_then(fx.sleep(SLOW * 3)).and_then(journal.note(line))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_acquired_is_released(way: Way) -> None:
    """Cut off while it acquires: the acquisition ends, and the release runs once, to its end."""
    journal = Journal()
    held = fx.acquire_release(slow(journal, "opened"), lambda _: slow(journal, "closed"))

    cut(way, lambda: fx.run_async(fx.scoped(held.and_then(fx.never()))))

    assert journal.lines == ["opened", "closed"]


AROUND: list[Callable[[Program], Program]] = [
    lambda e: e,
    lambda e: fx.all_(e, fx.never()),
    lambda e: fx.race(e, fx.never()).and_then(fx.never()),
    lambda e: e.timeout(60),
    lambda e: fx.scoped(fx.fork(e).flat_map(lambda handle: handle.join())),
    lambda e: Stream.from_effect(e).buffer(1).drain(),
]


@every("way", WAYS)
@every("around", AROUND, ids=["plain", "all", "race", "timeout", "fork", "stream"])
def test_what_is_uninterruptible_ends(way: Way, around: Callable[[Program], Program]) -> None:
    """Both halves of it happen, in every operator, and what follows does not."""
    journal = Journal()
    whole = journal.note("debit").and_then(slow(journal, "credit")).uninterruptible()

    cut(way, lambda: fx.run_async(around(whole.and_then(fx.sleep(0)).and_then(journal.note("after")))))

    assert journal.lines == ["debit", "credit"]


def test_a_cancellation_that_was_held_off_is_raised_at_the_end() -> None:
    """A program whose last step is uninterruptible ends it, and its task is cancelled all the same."""
    journal = Journal()

    error = cut(by_cancel, lambda: fx.run_async(slow(journal, "done").uninterruptible()))

    assert journal.lines == ["done"]
    assert isinstance(error, asyncio.CancelledError)


def test_the_message_and_the_count_of_cancellations_are_kept() -> None:
    """What `Task.cancel` was given arrives, and each call counts."""

    async def main() -> tuple[Any, int]:
        task = asyncio.ensure_future(fx.run_async(fx.sleep(SLOW).uninterruptible()))
        await asyncio.sleep(0)
        task.cancel("shutdown")
        task.cancel("again")
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value.args, task.cancelling()

    assert asyncio.run(main()) == (("shutdown",), 2)


def test_a_task_that_cancels_itself_is_held_off_too() -> None:
    """A step of an uninterruptible program cancels the task that runs it."""
    journal = Journal()

    def press() -> None:
        cast("asyncio.Task[Any]", asyncio.current_task()).cancel()

    program = fx.sync(press).and_then(slow(journal, "whole")).uninterruptible().and_then(fx.sleep(0))

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(program.and_then(journal.note("after"))))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert journal.lines == ["whole"]


async def timed_out(journal: Journal) -> None:
    """Waits for ever, in a timeout of asyncio."""
    try:
        async with asyncio.timeout(SLOW * 5):
            await asyncio.sleep(60)
    except TimeoutError:
        journal.add("timeout")


async def grouped(journal: Journal) -> None:
    """Waits for ever, in a task group of asyncio that fails."""

    async def fail() -> None:
        await asyncio.sleep(SLOW * 5)
        raise ValueError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(60)
    except* ValueError:
        journal.add("group")


async def scoped(journal: Journal) -> None:
    """Waits for ever, in a cancel scope."""
    with anyio.move_on_after(SLOW * 5) as scope:
        await anyio.sleep(60)
    journal.add(f"scope {scope.cancelled_caught}")


def timeouts_nest() -> bool:
    """Whether `asyncio.timeout` works in a task that was cancelled before: in CPython from 3.11.4 on."""

    async def main() -> bool:
        cast("asyncio.Task[Any]", asyncio.current_task()).cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        except BaseException as error:
            return isinstance(error, TimeoutError)
        return False

    return asyncio.run(main())


async def nested(journal: Journal) -> None:
    """A timeout of asyncio inside an uninterruptible program inside another."""
    await fx.run_async(fx.wait(lambda: timed_out(journal)).uninterruptible())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("inside", "line"), [(timed_out, "timeout"), (grouped, "group"), (scoped, "scope True"), (nested, "timeout")]
)
def test_a_timeout_inside_of_what_is_uninterruptible_works(
    way: Way, inside: Callable[[Journal], Awaitable[None]], line: str
) -> None:
    """Only what comes from outside is held off; also in a finalizer, that a cancellation brought about."""
    if line == "timeout" and not timeouts_nest():
        pytest.skip("asyncio.timeout of this Python does not work in a task that was cancelled")
    journal = Journal()
    program = fx.wait(lambda: inside(journal)).uninterruptible()

    cut(way, lambda: fx.run_async(program.and_then(fx.sleep(60)).ensuring(fx.wait(lambda: inside(journal)))))

    assert journal.lines == [line, line]


def test_a_timeout_around_an_uninterruptible_program_inside_another_waits_for_it() -> None:
    """Each uninterruptible part holds off what is outside of it, in the same task."""
    journal = Journal()

    async def outer() -> None:
        try:
            async with asyncio.timeout(SLOW):
                await fx.run_async(slow(journal, "inner").uninterruptible())
        except TimeoutError:
            journal.add("timeout")

    fx.run(fx.wait(outer).uninterruptible())

    assert journal.lines == ["inner", "timeout"]


VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="none")


def test_tasks_and_context_variables_stay_as_they_are() -> None:
    """What is held off runs in the same task and context: locks, tokens and scopes that know theirs still fit."""
    lock = anyio.Lock()
    seen: list[object] = []

    async def enter() -> Any:
        await lock.acquire()
        seen.append(asyncio.current_task())
        return VARIABLE.set("inside")

    async def leave(token: Any) -> None:
        await asyncio.sleep(0)
        seen.append((asyncio.current_task(), VARIABLE.get()))
        VARIABLE.reset(token)
        lock.release()

    async def main() -> None:
        held = fx.acquire_release(fx.wait(enter), lambda token: fx.wait(lambda: leave(token)))
        task = asyncio.ensure_future(fx.run_async(fx.scoped(held.and_then(fx.never()))))
        await turns(5)
        task.cancel()
        await asyncio.wait([task])
        assert seen == [task, (task, "inside")]

    asyncio.run(main())

    assert not lock.locked()


@every("turn", range(6))
def test_tasks_that_a_program_started_are_unwound_when_asyncio_cancels_them(turn: int) -> None:
    """Also before their first turn, which asyncio then never gives them: what they had begun is released."""
    journal = Journal()

    def child(name: str) -> Effect[None]:
        return journal.note(f"+{name}").and_then(fx.never()).ensuring(fx.sleep(0).and_then(journal.note(f"-{name}")))

    program = fx.scoped(fx.fork(child("fork")).and_then(fx.all_(child("a"), child("b"))))

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async_exit(program))
        await turns(turn)
        for other in asyncio.all_tasks() - {asyncio.current_task(), *([task] if turn else [])}:
            other.cancel()
        await turns(5)
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())

    assert sorted(line[1:] for line in journal.lines if line[0] == "+") == sorted(
        line[1:] for line in journal.lines if line[0] == "-"
    )


def test_ctrl_c_ends_what_is_uninterruptible_and_leaves_as_keyboard_interrupt() -> None:
    """Asyncio's runner cancels the main task, and asks whether that was all: it is told the truth."""
    journal = Journal()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test runner may ignore it
    press = fx.sync(lambda: signal.raise_signal(signal.SIGINT))
    program = press.and_then(slow(journal, "whole")).uninterruptible().and_then(fx.never())

    try:
        with pytest.raises(KeyboardInterrupt):
            fx.run(program.ensuring(slow(journal, "released")).timeout(60))
    finally:
        signal.signal(signal.SIGINT, before)
    assert journal.lines == ["whole", "released"]


@pytest.mark.parametrize("way", WAYS)
def test_layers_and_streams_read_from_plain_python_are_released(way: Way) -> None:
    """`runtime(layer)` and `stream.iterate()`, cut off while they build, run and close."""
    journal = Journal()
    acquire = fx.acquire_release(slow(journal, "+"), lambda _: slow(journal, "-"))
    layer: Any = Layer.scoped(Held, acquire.as_(1))

    async def serve() -> None:
        async with runtime(layer) as services:
            await services.run(fx.never())

    async def read() -> None:
        async with Stream.make(1).provide(layer).iterate() as items:
            async for _ in items:
                await asyncio.sleep(60)

    cut(way, serve)
    cut(way, serve, SLOW * 12)
    cut(way, read)
    cut(way, read, SLOW * 12)

    assert journal.lines == ["+", "-"] * 4


# -- what fails meanwhile

FAILING: list[Callable[[Program], Program]] = [
    lambda e: e,
    lambda e: fx.all_(e, fx.never()),
    lambda e: fx.race(e, fx.never()),
    lambda e: e.timeout(60),
    lambda e: fx.scoped(fx.fork(e).and_then(fx.never())),
    lambda e: fx.wait(lambda: fx.run_async(e)),
    lambda e: fx.scoped(fx.acquire_release(fx.succeed(1), lambda _: fx.sync(boom)).and_then(fx.never())),
]


@every("way", [by_wait_for, by_timeout, by_cancel])
@every("around", FAILING, ids=["plain", "all", "race", "timeout", "fork", "nested run", "release"])
def test_a_finalizer_that_fails_while_a_cancellation_passes_is_attached_and_logged_once(
    way: Way, around: Callable[[Program], Program], caplog: pytest.LogCaptureFixture
) -> None:
    """The `CancelledError` names it in a note, wherever it failed, and the log has its traceback."""
    failing = around(fx.never().ensuring(fx.sleep(0).and_then(fx.sync(boom))))

    error = cut(way, lambda: fx.run_async(failing))

    cancelled = error if isinstance(error, asyncio.CancelledError) else error.__cause__ or error.__context__
    assert cancelled is not None
    assert cancelled.__notes__ == ["meanwhile: defect ZeroDivisionError('boom')"]
    assert [(r.name, r.levelno, cast(Any, r.exc_info)[0]) for r in caplog.records] == [
        ("fxai.effects", logging.ERROR, ZeroDivisionError)
    ]


@every("around", FAILING)
def test_a_finalizer_that_fails_in_a_cancel_scope_is_logged(
    around: Callable[[Program], Program], backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """The scope drops the exception that it is attached to, so the log is where it is read."""

    async def main() -> bool:
        with anyio.move_on_after(SLOW) as scope:
            await fx.run_async(around(fx.never().ensuring(fx.sleep(0).and_then(fx.sync(boom)))))
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert [record.name for record in caplog.records] == ["fxai.effects"]


def test_the_finalizers_of_the_loser_of_a_race_are_logged(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """The winner's value stands."""
    loser = fx.never().ensuring(fx.sync(boom))

    assert fx.run(fx.race(loser, fx.sleep(0).as_(1)), backend=backend) == 1
    assert [record.name for record in caplog.records] == ["fxai.effects"]


def test_a_release_that_fails_after_an_error_in_the_block_is_attached_to_it() -> None:
    """`runtime(layer)` and `stream.iterate()` raise the block's error, with the other one in a note."""
    failing: Any = fx.acquire_release(fx.succeed(1), lambda _: fx.sync(boom))

    async def serve() -> None:
        async with runtime(Layer.scoped(Held, failing)):
            raise ValueError

    async def read() -> None:
        async with Stream.make(1).ensuring(fx.sync(boom)).iterate():
            raise ValueError

    for block in (serve, read):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  # it has no message
            asyncio.run(block())
        assert caught.value.__notes__ == ["meanwhile: defect ZeroDivisionError('boom')"]


# -- generators


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_that_catches_a_cancellation_is_cancelled_again(way: Way) -> None:
    """At each step outside of the handler; what it gives in the end does not stand either."""
    journal = Journal()

    @fx.gen
    def stubborn() -> Gen[int]:
        kept: list[BaseException] = []
        for _ in range(3):
            try:
                yield from fx.sleep(60)
            except BaseException as error:
                kept.append(error)
                journal.add("caught")
        return len(kept)

    cut(way, lambda: fx.run_async(stubborn().and_then(fx.sleep(60))))

    assert journal.lines == ["caught"] * 3


def test_a_generator_that_catches_a_cancellation_is_cancelled_again_on_trio() -> None:
    """As on asyncio."""
    journal = Journal()

    @fx.gen
    def stubborn() -> Gen[None]:
        try:
            yield from fx.sleep(60)
        except trio.Cancelled:
            journal.add("caught")
        yield from fx.sleep(60)

    async def main() -> None:
        with trio.move_on_after(SLOW):
            await fx.run_async(stubborn().on_exit(journal.ends))

    trio.run(main)

    assert journal.lines == ["caught", "interruption"]


@every("way", WAYS)
@every("form", ["finally", "except", "swallow", "inner"])
def test_a_generator_ends_the_handler_that_a_cancellation_brought_it_to(way: Way, form: str) -> None:
    """Steps in a `finally` or an `except`, of the generator or of one that it calls, are not interrupted."""
    journal = Journal()
    done = slow(journal, "done")

    @fx.gen
    def inner() -> Gen[None]:
        yield from done

    @fx.gen
    def program() -> Gen[None]:
        try:
            yield from fx.never()
        except BaseException:
            yield from inner() if form == "inner" else done
            if form != "swallow":
                raise
        yield from slow(journal, "not this")

    @fx.gen
    def finishing() -> Gen[None]:
        try:
            yield from fx.never()
        finally:
            yield from done

    cut(way, lambda: fx.run_async(finishing() if form == "finally" else program()))

    assert journal.lines == ["done"]


def test_a_cancellation_that_was_taken_back_is_over() -> None:
    """`Task.uncancel` says so; a generator that calls it has answered the cancellation itself."""

    @fx.gen
    def program() -> Gen[str]:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        try:
            yield from fx.sync(task.cancel)
            yield from fx.sleep(60)
        except asyncio.CancelledError:
            task.uncancel()
        yield from fx.sleep(0)
        return "went on"

    assert fx.run(program()) == "went on"


def test_the_cancellation_of_another_task_can_be_caught() -> None:
    """A task that was cancelled raises where it is awaited: nobody cancelled the one that waits."""

    async def cancelled() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    @fx.gen
    def program() -> Gen[str]:
        try:
            yield from fx.wait(cancelled)
        except ForeignCancellationError:
            yield from fx.sleep(0)
        yield from fx.sleep(0)
        return "went on"

    assert fx.run(program()) == "went on"


def test_an_awaitable_that_fails_for_a_cancellation_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """Its `finally` raised something else: that is a defect, which can be caught, and the cancellation goes on."""
    journal = Journal()

    async def clumsy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            boom()

    program = fx.wait(clumsy).catch_cause(lambda _: fx.succeed(None)).and_then(fx.sleep(60))

    error = cut(by_wait_for, lambda: fx.run_async(program.on_exit(journal.ends)))

    assert isinstance(error, TimeoutError)
    assert journal.lines == ["interruption"]
    assert isinstance(cut(by_wait_for, lambda: fx.run_async(fx.wait(clumsy))), TimeoutError)
    assert [cast(Any, record.exc_info)[0] for record in caplog.records] == [ZeroDivisionError]


BUG = ValueError("bug")


def raising() -> Any:
    """Raises the bug."""
    raise BUG


def finishing(body: Callable[[], EffectOf[Any, Any, None]], last: EffectOf[Any, Any, None]) -> Program:
    """A generator whose `finally` fails."""

    @fx.gen
    def program() -> Gen[Any, Any]:
        try:
            yield from body()
        finally:
            yield from last

    return program()


def handling(body: Callable[[], EffectOf[Any, Any, None]], last: EffectOf[Any, Any, None]) -> Program:
    """A generator whose `except` fails."""

    @fx.gen
    def program() -> Gen[Any, Any]:
        try:
            yield from body()
        except ValueError:
            yield from last

    return program()


BODIES: list[Callable[[], Program]] = [lambda: fx.die(BUG), raising, lambda: fx.sync(raising)]


@every("body", BODIES, ids=["die", "raise", "sync"])
def test_a_failure_in_an_except_or_a_finally_replaces_the_defect(body: Callable[[], Program]) -> None:
    """A generator follows Python: the exception that it handled is the context of the next one, and no reason."""
    for program in (finishing(body, fx.fail("late")), handling(body, fx.fail("late"))):
        assert fx.run_sync(program.exit()) == Failed(Cause((Fail("late"),)))
        assert fx.run_sync(program.catch_all(fx.succeed)) == "late"


@every("body", BODIES, ids=["die", "raise", "sync"])
def test_a_finalizer_that_fails_keeps_the_defect(body: Callable[[], Program]) -> None:
    """`ensuring` keeps both reasons, so no `catch_all` handles the cause."""
    program = fx.suspend(body).ensuring(fx.die(KeyError("late")))

    end = fx.run_sync(program.catch_all(fx.succeed).exit())

    assert ending_of(end) == "defect and defect"
    assert cast("Any", end).cause.reasons[0] == Die(BUG)


def test_a_defect_in_a_finally_has_the_earlier_defect_as_its_context() -> None:
    """Nested generators chain every defect, in the order in which they arose."""
    other, last = KeyError("other"), OSError("last")
    program = finishing(lambda: finishing(lambda: fx.die(BUG), fx.die(other)), fx.die(last))

    assert fx.run_sync(program.exit()) == Failed(Cause((Die(last),)))
    assert last.__context__ is other
    assert other.__context__ is BUG


def test_uninterrupted_is_for_plain_coroutines(backend: Backend) -> None:
    """It awaits to the end, in a cancel scope and under `Task.cancel`, and then the cancellation goes on."""
    journal = Journal()

    async def whole() -> None:
        await anyio.sleep(SLOW * 3)
        journal.add("whole")

    async def main() -> None:
        with anyio.move_on_after(SLOW):
            await shield(whole())
            await anyio.sleep(60)

    anyio.run(main, backend=backend)
    for way in WAYS:
        cut(way, lambda: fx.run_async(fx.wait(lambda: shield(whole())).and_then(fx.sleep(60))))

    assert journal.lines == ["whole"] * 5


@pytest.mark.parametrize("pauses", [[1], [1, 0], [1, 1], [0, 1, 1, 1]], ids=str)
def test_a_coroutine_that_is_cancelled_once_unwinds_whole(pauses: list[int]) -> None:
    """Every cancellation counts, the first is raised where it waits, and its `finally` runs to its end."""
    journal = Journal()

    async def foreign() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await turns(3)
            journal.add("closed")

    async def main() -> None:
        task = asyncio.ensure_future(cancelled_once(foreign()))
        await turns(1)
        for pause in pauses:
            await turns(pause)
            task.cancel("gone")
        with pytest.raises(asyncio.CancelledError, match="gone"):
            await task
        assert task.cancelling() == len(pauses)

    asyncio.run(main())

    assert journal.lines == ["closed"]


def test_a_coroutine_that_is_cancelled_once_keeps_its_own_timeouts(backend: Backend) -> None:
    """Which are its own affair; its value and its errors are as ever."""

    async def foreign() -> int:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        await turns(1)
        return 1

    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await cancelled_once(failing())
        with anyio.move_on_after(0) as scope:
            await cancelled_once(anyio.sleep_forever())
        assert scope.cancelled_caught
        return await cancelled_once(foreign())

    async def failing() -> None:
        boom()

    assert anyio.run(main, backend=backend) == 1
