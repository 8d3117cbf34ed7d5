"""Effect operations: a step of each, beside the sketch, and beside what one would write without a library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import fxai.effects as ours
from tests.benchmarks import sketch as theirs
from tests.benchmarks.measure import FXAI, HAND, SKETCH, Budget, Work

__all__ = ["works"]

STEPS = 20_000
CHAIN = 100
BUDGETED = {"map", "flat_map", "generator: step", "service access"}

Run = Callable[[Coroutine[Any, Any, object]], object]
Program = Callable[[], object]


class Steps(Protocol):
    """What `yield from` runs, in either library."""

    def __iter__(self) -> Generator[Any, object, Any]: ...


def works() -> Iterator[Work]:
    """One work an operation. All contenders run in one event loop, which has been running before."""
    loop = asyncio.new_event_loop()
    run: Run = loop.run_until_complete
    mine, older, plain = _programs(ours, run), _programs(theirs, run), _plain(run)
    for name, program in mine.items():
        contenders = {FXAI: program, SKETCH: older[name]}
        if name in plain:
            contenders[HAND] = plain[name]
        yield Work(name, contenders, STEPS, (Budget(1.15, SKETCH),) if name in BUDGETED else ())
    loop.close()


def _programs(library: Any, run: Run) -> dict[str, Program]:
    return {**_chains(library, run), **_generators(library, run), **_leaves(library, run)}


def _chains(library: Any, run: Run) -> dict[str, Program]:
    fx: Any = library.fx

    def increment(n: int) -> int:
        return n + 1

    def succeeding(n: int) -> Any:
        return fx.succeed(n + 1)

    def mapped() -> None:
        for _ in range(STEPS // CHAIN):
            effect = fx.succeed(0)
            for _ in range(CHAIN):
                effect = effect.map(increment)
            run(fx.run_async(effect))

    def flat_mapped() -> None:
        for _ in range(STEPS // CHAIN):
            effect = fx.succeed(0)
            for _ in range(CHAIN):
                effect = effect.flat_map(succeeding)
            run(fx.run_async(effect))

    def caught() -> Any:
        for n in range(STEPS):
            yield from fx.fail(n).catch_all(fx.succeed)

    return {"map": mapped, "flat_map": flat_mapped, "fail + catch_all": lambda: run(fx.run_async(fx.gen(caught)()))}


def _generators(library: Any, run: Run) -> dict[str, Program]:
    fx: Any = library.fx
    succeed: Callable[[int], Steps] = fx.succeed
    database: Any = type("Database", (library.Service,), {"value": 1})
    live = library.Layer.succeed(database, database())

    def yielding() -> Any:
        total: Any = 0
        for n in range(STEPS):
            total = yield from succeed(n)
        return total

    def adding(n: int) -> Any:
        return n + (yield from succeed(1))

    inner: Callable[[int], Steps] = fx.gen(adding)
    asked: Steps = database

    def calling() -> Any:
        total: Any = 0
        for n in range(STEPS):
            total = yield from inner(n)
        return total

    def asking() -> Any:
        total: Any = 0
        for _ in range(STEPS):
            total = (yield from asked).value
        return total

    return {
        "generator: step": lambda: run(fx.run_async(fx.gen(yielding)())),
        "generator: calls a generator": lambda: run(fx.run_async(fx.gen(calling)())),
        "service access": lambda: run(fx.run_async(fx.gen(asking)().provide(live))),
    }


def _leaves(library: Any, run: Run) -> dict[str, Program]:
    fx: Any = library.fx

    def suspending() -> Any:
        for _ in range(STEPS):
            yield from fx.wait(lambda: asyncio.sleep(0))

    def immediate() -> Any:
        for _ in range(STEPS):
            yield from fx.wait(_one)

    def runs() -> None:
        effect = fx.succeed(1)
        for _ in range(STEPS):
            fx.run_sync(effect)

    async def awaited() -> None:
        effect = fx.succeed(1)
        for _ in range(STEPS):
            await fx.run_async(effect)

    return {
        "async leaf that suspends": lambda: run(fx.run_async(fx.gen(suspending)())),
        "async leaf that does not": lambda: run(fx.run_async(fx.gen(immediate)())),
        "run_sync": runs,
        "await run_async": lambda: run(awaited()),
    }


async def _one() -> int:
    return 1


async def _same(n: int) -> int:
    return n


def _plain(run: Run) -> dict[str, Program]:
    database: ContextVar[int] = ContextVar("database")
    database.set(1)

    async def chained() -> None:
        for n in range(STEPS):
            await _same(n)

    async def nested() -> None:
        async def inner(n: int) -> int:
            return n + await _one()

        for n in range(STEPS):
            await inner(n)

    async def asking() -> None:
        for _ in range(STEPS):
            database.get()

    async def failing(n: int) -> None:
        raise ValueError(n)

    async def caught() -> None:
        for n in range(STEPS):
            try:
                await failing(n)
            except ValueError:
                continue

    async def suspending() -> None:
        for _ in range(STEPS):
            await asyncio.sleep(0)

    return {
        "flat_map": lambda: run(chained()),
        "fail + catch_all": lambda: run(caught()),
        "generator: step": lambda: run(chained()),
        "generator: calls a generator": lambda: run(nested()),
        "service access": lambda: run(asking()),
        "async leaf that suspends": lambda: run(suspending()),
        "async leaf that does not": lambda: run(chained()),
        "await run_async": lambda: run(chained()),
    }
