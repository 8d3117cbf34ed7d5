"""Fibers: the interpreter is stack-safe, fair, bounded in memory, and lets nothing slip on the way out."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from fxai.effects import (
    Backend,
    Cause,
    Effect,
    EffectOf,
    Failed,
    FiberHandle,
    Gen,
    Interrupt,
    Layer,
    Schedule,
    Scope,
    Stream,
    Tag,
    fx,
)
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of, turns

Program: TypeAlias = EffectOf[Any, Any, None]

DEEP = 100_000
LONG = 1_000_000


def chained(link: Callable[[Program], Program], start: Program) -> Program:
    """`start`, with `link` applied 100,000 times."""
    effect = start
    for _ in range(DEEP):
        effect = link(effect)
    return effect


LINKS: list[tuple[Callable[[Program], Program], Program, int]] = [
    (lambda e: e.map(lambda n: n + 1), fx.succeed(0), DEEP),
    (lambda e: e.flat_map(lambda n: fx.succeed(n + 1)), fx.succeed(0), DEEP),
    (lambda e: fx.succeed(0).flat_map(lambda _: e), fx.succeed(7), 7),
    (lambda e: e.catch_all(lambda n: fx.fail(n + 1)), fx.fail(0), DEEP),
    (lambda e: e.map_error(lambda n: n + 1), fx.fail(0), DEEP),
    (lambda e: e.ensuring(fx.succeed(None)), fx.succeed(7), 7),
    (lambda e: e.uninterruptible(), fx.succeed(7), 7),
    (lambda e: fx.suspend(lambda: e), fx.succeed(7), 7),
]


@pytest.mark.slow
@every(
    ("link", "start", "value"),
    LINKS,
    ids=["map", "flat_map", "right-nested", "catch_all", "map_error", "ensuring", "uninterruptible", "suspend"],
)
def test_deep_chains_do_not_overflow(link: Callable[[Program], Program], start: Program, value: int) -> None:
    """100,000 links of any combinator run on a stack of our own."""
    assert fx.run_sync(chained(link, start).catch_all(fx.succeed)) == value


@pytest.mark.slow
def test_deep_recursion_of_generators_does_not_overflow() -> None:
    """Generators call generators 100,000 deep, and a failure unwinds them all."""

    @fx.gen
    def down(depth: int, leaf: Effect[int, Lost]) -> Gen[int, Lost]:
        return 1 + (yield from down(depth - 1, leaf)) if depth else (yield from leaf)

    assert fx.run_sync(down(DEEP, fx.succeed(0)).or_die()) == DEEP
    assert ending_of(fx.run_sync(down(DEEP, fx.fail(Lost())).exit())) == "failure"


def test_deep_nesting_of_concurrent_operators_does_not_overflow(backend: Backend) -> None:
    """Children begin inside their parents' steps only so deep; then each has its own task."""
    effect: Effect[int] = fx.succeed(1)
    for _ in range(300):
        effect = fx.for_each([effect], lambda inner: inner, concurrency=2).map(lambda values: values[0])

    assert fx.run(effect, backend=backend) == 1


NESTS: dict[str, Callable[[Program], Program]] = {
    "timeout": lambda e: e.timeout(60),
    "race": lambda e: fx.race(e, fx.never()),
    "for_each": lambda e: fx.for_each([e], lambda inner: inner, concurrency=2),
    "fork": lambda e: fx.scoped(fx.fork(e).flat_map(lambda handle: handle.join())),
    "provide": lambda e: e.provide(Layer.sync(Number, lambda: 1)),
    "lift": lambda e: fx.lift(_awaited(e)),
    "scoped": fx.scoped,
    "retry": lambda e: e.retry(Schedule.recurs(1)),
}


class Number(Tag[int]):
    """A service."""


async def _awaited(effect: Program) -> Program:
    return effect


@pytest.mark.slow
@every("nest", NESTS.values(), ids=NESTS)
def test_800_levels_of_any_operator_do_not_overflow(nest: Callable[[Program], Program], backend: Backend) -> None:
    """Whether what is inside waits and succeeds, or fails, or is interrupted: its finalizer runs once."""
    journal = Journal()

    def deep(inner: Program) -> Program:
        for _ in range(800):
            inner = nest(inner)
        return inner

    waited = fx.sleep(0.001).ensuring(journal.note("waited"))
    begun = anyio.Event()
    cut = fx.sync(begun.set).and_then(fx.never()).ensuring(journal.note("cut"))

    assert ending_of(fx.run_exit(deep(waited), backend=backend)) == "success"
    assert ending_of(fx.run_exit(fx.race(deep(cut), fx.wait(begun.wait)), backend=backend)) == "success"
    assert journal.lines == ["waited", "cut"]


def test_context_variables_pass_deep_timeouts(backend: Backend) -> None:
    """Beyond some depth they have a task of their own, which nobody notices."""

    def deep(effect: Program) -> Program:
        for _ in range(60):
            effect = effect.timeout(60)
        return effect

    program = deep(fx.sleep(0).and_then(fx.sync(lambda: VARIABLE.set("inside"))))

    assert fx.run(program.and_then(fx.sync(VARIABLE.get)), backend=backend) == "inside"
    with pytest.raises(ZeroDivisionError):
        fx.run(deep(fx.sleep(0).and_then(fx.sync(boom))), backend=backend)


FAILING: dict[str, Callable[[Program], Program]] = {
    "ensuring": lambda e: e.ensuring(cast("EffectOf[Any]", fx.fail(Lost()))),
    "on_exit": lambda e: e.on_exit(lambda _: fx.sync(boom)),
}


@pytest.mark.slow
@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
def test_very_many_failing_finalizers_keep_every_reason(failing: Callable[[Program], Program]) -> None:
    """In time that grows with their number, and with a note that people can read."""
    effect: Program = fx.fail(Lost("first"))
    for _ in range(20_000):
        effect = failing(effect)

    started = time.process_time()
    ended = fx.run_exit(effect)
    took = time.process_time() - started

    assert isinstance(ended, Failed)
    assert len(ended.cause.reasons) == 20_001
    assert len("".join(ended.cause.squash().__notes__)) < 2_000
    assert took < 20


class Watch:
    """The memory blocks that Python holds, looked at now and then in a long loop."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def at(self, step: int) -> int:
        """The number of the next step."""
        if step % 100_000 == 50_000:
            self.blocks.append(sys.getallocatedblocks())
        return step + 1

    def flat_map(self, step: int = 0) -> Effect[int]:
        """A recursion of `flat_map`."""
        return fx.succeed(self.at(step)).flat_map(self.flat_map) if step < LONG else fx.succeed(step)

    def gen_succeed(self) -> Effect[int]:
        """A generator that takes the fast way."""

        @fx.gen
        def loop() -> Gen[int]:
            step = 0
            while step < LONG:
                step = yield from fx.succeed(self.at(step))
            return step

        return loop()

    def gen_sync(self) -> Effect[int]:
        """A generator that takes the ordinary way."""

        @fx.gen
        def loop() -> Gen[int]:
            step = 0
            while step < LONG:
                step = yield from fx.sync(partial(self.at, step))
            return step

        return loop()

    def gen_catch(self) -> Effect[int]:
        """A generator whose every step fails and is caught."""

        @fx.gen
        def loop() -> Gen[int]:
            step = 0
            while step < LONG:
                step = yield from fx.fail(self.at(step)).catch_all(fx.succeed)
            return step

        return loop()

    def stream(self) -> Effect[int]:
        """A stream that is read to its end."""
        return Stream.from_iterable(range(LONG)).map(self.at).fold(0, lambda _, step: step)


@pytest.mark.slow
@every("loop", [Watch.flat_map, Watch.gen_succeed, Watch.gen_sync, Watch.gen_catch, Watch.stream])
def test_long_loops_do_not_grow_memory(loop: Callable[[Watch], Effect[int]]) -> None:
    """In a loop of 1,000,000 steps no step leaves anything behind."""
    watch = Watch()

    assert fx.run_sync(loop(watch)) == LONG
    assert len(watch.blocks) == 10
    assert max(watch.blocks) - min(watch.blocks) < 5_000


def test_many_forks_do_not_grow_memory(backend: Backend) -> None:
    """A scope forgets the programs forked in it when they have ended."""
    sizes: list[int] = []

    @fx.gen
    def program() -> Gen[None, Any, Scope]:
        scope = yield from Scope
        for _ in range(50):
            handle = yield from fx.fork(fx.sleep(0))
            yield from handle.join()
            yield from fx.fork(fx.succeed(1))
        sizes.append(int(scope.empty))

    fx.run(fx.scoped(program()), backend=backend)

    assert sizes == [1]


def test_a_suspended_effect_is_a_clear_error_without_a_loop_and_its_finalizers_run() -> None:
    """`run_sync` refuses what awaits, names what to use, and still releases what was acquired."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from journal.held("a")
        try:
            yield from fx.sleep(1)
        finally:
            yield from journal.note("finally")

    with pytest.raises(RuntimeError, match=r"no event loop .* Use fx\.run or fx\.run_async"):
        fx.run_sync(fx.scoped(cast("EffectOf[None]", program())))
    assert journal.lines == ["+a", "finally", "-a"]


SUSPENDED: list[Callable[[Program], Program]] = [
    lambda e: fx.for_each([1, 2], lambda _: e, concurrency=2),
    lambda e: fx.race(e, fx.never()),
    lambda e: fx.all_(fx.succeed(1), e),
    lambda e: fx.scoped(fx.fork(e).flat_map(lambda handle: handle.join())),
    lambda e: Stream.from_effect(e).buffer(1).collect(),
]


@every(
    "suspended",
    SUSPENDED,
    ids=["for_each", "race", "all_", "fork", "buffer"],
)
def test_children_that_suspend_without_a_loop_are_released_too(suspended: Callable[[Program], Program]) -> None:
    """A child of a concurrent operator that awaits gets the same error, and its finalizers run."""
    journal = Journal()

    with pytest.raises(RuntimeError, match="no event loop"):
        fx.run_sync(suspended(fx.never().ensuring(journal.note("released"))))
    assert journal.lines[0] == "released"


def test_concurrency_needs_no_loop_when_nothing_waits() -> None:
    """Concurrent operators and forks over effects that never wait run without a loop."""
    forked = fx.scoped(fx.fork(fx.succeed(3)).flat_map(lambda handle: handle.join()))

    assert fx.run_sync(fx.for_each([1, 2, 3], fx.succeed, concurrency=None)) == [1, 2, 3]
    assert fx.run_sync(fx.race(fx.fail(Lost()), fx.succeed(2))) == 2
    assert fx.run_sync(forked) == 3


def endless_succeed() -> Effect[None]:
    """A generator that never waits, on the fast way."""

    @fx.gen
    def loop() -> Gen[None]:
        while True:
            yield from fx.succeed(1)

    return loop()


def endless_sync() -> Effect[None]:
    """A generator that never waits, on the ordinary way."""

    @fx.gen
    def loop() -> Gen[None]:
        while True:
            yield from fx.sync(lambda: None)

    return loop()


def endless_flat_map() -> Effect[None]:
    """A recursion without end."""
    return fx.succeed(1).flat_map(lambda _: endless_flat_map())


def endless_nested() -> Effect[None]:
    """Generators inside generators that never wait."""

    @fx.gen
    def inner(depth: int) -> Gen[int]:
        return (yield from inner(depth - 1)) if depth else (yield from fx.succeed(1))

    @fx.gen
    def loop() -> Gen[None]:
        while True:
            yield from inner(8)

    return loop()


def endless_children() -> Effect[None]:
    """Very many children of which none waits."""
    return fx.for_each(range(10_000_000 // 10), fx.succeed, concurrency=None).flat_map(lambda _: endless_children())


def endless_stream() -> Effect[None]:
    """A stream without end, read without waiting."""
    return Stream.unfold(0, lambda n: fx.succeed((n, n + 1))).drain()


ENDLESS = [endless_succeed, endless_sync, endless_flat_map, endless_nested, endless_children, endless_stream]


@pytest.mark.slow
@every("endless", ENDLESS)
def test_a_long_synchronous_program_lets_others_run_and_can_be_cancelled(
    endless: Callable[[], Effect[None]], backend: Backend
) -> None:
    """Another task gets its turns beside it, and cancels it; its finalizers run."""
    journal = Journal()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async_exit, endless().on_exit(journal.ends))
            for _ in range(5):
                await checkpoint()
                journal.add("turn")
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)

    assert journal.lines == ["turn"] * 5 + ["interruption"]


@every("endless", ENDLESS)
def test_a_long_synchronous_program_can_be_timed_out(endless: Callable[[], Effect[None]], backend: Backend) -> None:
    """`timeout` holds for what never waits."""
    ended = fx.run_exit(endless().timeout(0.01), backend=backend)

    assert ending_of(ended) == "failure"


def test_a_checkpoint_lets_others_run(backend: Backend) -> None:
    """`fx.checkpoint()` gives the other tasks a turn, and is nothing without a loop."""
    journal = Journal()

    def worker(name: str) -> Effect[None]:
        step = journal.note(name).and_then(fx.checkpoint())
        return step.and_then(step)

    fx.run(fx.all_(worker("a"), worker("b")), backend=backend)

    assert sorted(journal.lines[:2]) == sorted(journal.lines[2:]) == ["a", "b"]
    assert fx.run_sync(fx.checkpoint().as_(1)) == 1


def until_ended(handle: FiberHandle[Any, Any]) -> Program:
    """Waits for a program without joining it."""

    @fx.gen
    def wait() -> Gen[None]:
        while not handle.ended:
            yield from fx.checkpoint()

    return wait()


AROUND: list[Callable[[Program], Program]] = [
    lambda e: e,
    lambda e: fx.sleep(0).and_then(e),
    lambda e: fx.all_(fx.never(), e),
    lambda e: fx.all_(fx.never(), fx.sleep(0).and_then(e)),
    lambda e: fx.all_(fx.sleep(0), e),
    lambda e: fx.race(fx.never(), fx.sleep(0).and_then(e)),
    lambda e: e.timeout(60),
    lambda e: fx.scoped(fx.fork(e).flat_map(lambda handle: handle.join())),
    lambda e: fx.scoped(fx.fork(fx.sleep(0).and_then(e)).flat_map(lambda handle: handle.join())),
    lambda e: fx.scoped(fx.fork(fx.sleep(0).and_then(e)).flat_map(until_ended)),
    lambda e: Stream.from_effect(fx.sleep(0).and_then(e)).buffer(1).collect(),
]


@every("stop", [KeyboardInterrupt, SystemExit])
@every(
    "around",
    AROUND,
    ids=["plain", "after", "child", "child after", "first", "race", "timeout", "fork", "fork after", "scope", "stream"],
)
def test_what_stops_the_program_passes_finalizers_and_is_never_caught(
    stop: type[BaseException], around: Callable[[Program], Program], backend: Backend
) -> None:
    """`KeyboardInterrupt` and `SystemExit` run finalizers and leave `fx.run` as themselves, in no group."""
    journal = Journal()

    def press() -> None:
        raise stop

    inner = around(fx.sync(press).ensuring(journal.note("inner")))
    program = inner.catch_cause(lambda _: journal.note("caught")).ensuring(journal.note("outer"))

    with pytest.raises(stop):
        fx.run(program, backend=backend)
    assert journal.lines == ["inner", "outer"]


def test_a_keyboard_interrupt_leaves_run_sync() -> None:
    """Without a loop as well."""
    journal = Journal()

    def press() -> None:
        raise KeyboardInterrupt

    program = fx.sync(press).ensuring(journal.note("released")).exit()

    with pytest.raises(KeyboardInterrupt):
        fx.run_sync(program)
    assert journal.lines == ["released"]


def test_a_cancellation_leaves_as_the_backends_own_exception(backend: Backend) -> None:
    """No `catch_cause`, `exit` or `catch_all` sees it; finalizers run, waits included."""
    journal = Journal()
    program = (
        fx.never()
        .on_exit(lambda end: fx.sleep(0.001).and_then(journal.ends(end)))
        .catch_cause(lambda _: journal.note("caught"))
        .exit()
    )

    async def main() -> bool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fx.run_async, program)
                await turns(3)
                scope.cancel()
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert journal.lines == ["interruption"]


def test_a_native_cancellation_of_an_asyncio_task_runs_finalizers() -> None:
    """`Task.cancel()` is a cancellation like any other."""
    journal = Journal()

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(fx.never().ensuring(fx.sleep(0.001).and_then(journal.note("done")))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert journal.lines == ["done"]


def test_further_native_cancellations_stop_no_finalizer() -> None:
    """However often asyncio cancels: each finalizer runs to its end, as within a cancel scope."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from journal.held("a")
        yield from fx.acquire_release(fx.succeed(1), lambda _: fx.sleep(0.02).and_then(journal.note("-slow")))
        yield from journal.held("b")
        yield from fx.never()

    async def main() -> int:
        task = asyncio.ensure_future(fx.run_async(fx.scoped(cast("EffectOf[None]", program()))))
        for _ in range(3):
            await turns(5)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelling()

    assert asyncio.run(main()) == 3
    assert journal.lines == ["+a", "+b", "-b", "-slow", "-a"]


def test_an_interruption_that_was_joined_is_a_value_also_while_cancelled(backend: Backend) -> None:
    """A finalizer that ends with somebody else's interruption does not keep the other finalizers from running."""
    journal = Journal()
    interrupted: Effect[None] = fx.fail_cause(Cause((Interrupt(),)))

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from journal.held("a")
        yield from fx.acquire_release(fx.succeed(1), lambda _: interrupted)
        yield from journal.held("b")
        yield from fx.never()

    fx.run_exit(fx.scoped(cast("EffectOf[None]", program())).timeout(0.005), backend=backend)

    assert journal.lines == ["+a", "+b", "-b", "-a"]


def test_an_uninterruptible_effect_is_waited_for(backend: Backend) -> None:
    """A cancellation arrives after it, at the next wait."""
    journal = Journal()
    program = fx.sleep(0.01).and_then(journal.note("whole")).uninterruptible().and_then(fx.never())

    async def main() -> bool:
        with anyio.move_on_after(0.001) as scope:
            await fx.run_async(program)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert journal.lines == ["whole"]


VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="none")


@pytest.mark.parametrize("wait", [fx.succeed(None), fx.sleep(0)], ids=["sync", "waiting"])
def test_context_variables_of_children_do_not_leak(wait: Effect[None], backend: Backend) -> None:
    """Each concurrent child sees what its parent set and keeps its own changes to itself."""

    def worker(name: str) -> Effect[tuple[str, str]]:
        def enter() -> str:
            before = VARIABLE.get()
            VARIABLE.set(name)
            return before

        return fx.sync(enter).flat_map(lambda before: wait.and_then(fx.sync(lambda: (before, VARIABLE.get()))))

    @fx.gen
    def program() -> Gen[Any]:
        yield from fx.sync(lambda: VARIABLE.set("parent"))
        one = yield from fx.for_each(["a", "b"], worker, concurrency=2)
        two = yield from fx.scoped(fx.fork(worker("c")).flat_map(lambda handle: handle.join()))
        three = yield from fx.race(worker("d"), fx.never())
        return [*one, two, three], VARIABLE.get()

    seen = fx.run(program(), backend=backend)

    assert seen == ([("parent", name) for name in "abcd"], "parent")


def test_an_interruption_from_inside_is_a_value(backend: Backend) -> None:
    """`run_exit` gives an interruption that no cancellation of the task made."""
    cause: Cause[Any] = Cause((Interrupt(),))

    assert fx.run_exit(fx.fail_cause(cause), backend=backend) == Failed(cause)
