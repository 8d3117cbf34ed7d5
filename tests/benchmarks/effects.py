"""Effect operations: a step of each, beside what one would write without a library.

The budgets are 1.15 times what the sketch cost that this library grew from, as multiples of the work by hand; a step of
`map` cost it 3.7 chained awaits, one of `flat_map` 5.0, one of a generator 2.1, and access to a service 28 lookups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

from fxai import effects
from fxai.effects import fx
from tests.benchmarks.measure import FXAI, HAND, Budget, Work

__all__ = ["works"]

STEPS = 20_000
CHAIN = 100
# 1.15 times what the sketch cost.
BUDGETS = {"map": 4.3, "flat_map": 5.8, "generator: step": 2.4, "service access": 32.0}

Run = Callable[[Coroutine[Any, Any, object]], object]
Program = Callable[[], object]


def works() -> Iterator[Work]:
    """One work an operation. All contenders run in one event loop, which has been running before."""
    loop = asyncio.new_event_loop()
    run: Run = loop.run_until_complete
    plain = _plain(run)
    for name, program in {**_chains(run), **_generators(run), **_leaves(run)}.items():
        contenders = {FXAI: program, **({HAND: plain[name]} if name in plain else {})}
        yield Work(name, contenders, STEPS, (Budget(BUDGETS[name], HAND),) if name in BUDGETS else ())
    loop.close()


def _chains(run: Run) -> dict[str, Program]:
    def increment(n: int) -> int:
        return n + 1

    def succeeding(n: int) -> Any:
        return fx.succeed(n + 1)

    def mapped() -> None:
        for _ in range(STEPS // CHAIN):
            effect: effects.Effect[int] = fx.succeed(0)
            for _ in range(CHAIN):
                effect = effect.map(increment)
            run(fx.run_async(effect))

    def flat_mapped() -> None:
        for _ in range(STEPS // CHAIN):
            effect: effects.Effect[int] = fx.succeed(0)
            for _ in range(CHAIN):
                effect = effect.flat_map(succeeding)
            run(fx.run_async(effect))

    def caught() -> Any:
        for n in range(STEPS):
            yield from fx.fail(n).catch_all(fx.succeed)

    return {"map": mapped, "flat_map": flat_mapped, "fail + catch_all": lambda: run(fx.run_async(fx.gen(caught)()))}


def _generators(run: Run) -> dict[str, Program]:
    class Database(effects.Service):
        value = 1

    live = effects.Layer.succeed(Database, Database())

    def yielding() -> Any:
        total: Any = 0
        for n in range(STEPS):
            total = yield from fx.succeed(n)
        return total

    def adding(n: int) -> Any:
        return n + (yield from fx.succeed(1))

    inner = fx.gen(adding)

    def calling() -> Any:
        total: Any = 0
        for n in range(STEPS):
            total = yield from inner(n)
        return total

    def asking() -> Any:
        total: Any = 0
        for _ in range(STEPS):
            total = (yield from Database).value
        return total

    return {
        "generator: step": lambda: run(fx.run_async(fx.gen(yielding)())),
        "generator: calls a generator": lambda: run(fx.run_async(fx.gen(calling)())),
        "service access": lambda: run(fx.run_async(fx.gen(asking)().provide(live))),
    }


def _leaves(run: Run) -> dict[str, Program]:
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
        "map": lambda: run(chained()),
        "flat_map": lambda: run(chained()),
        "fail + catch_all": lambda: run(caught()),
        "generator: step": lambda: run(chained()),
        "generator: calls a generator": lambda: run(nested()),
        "service access": lambda: run(asking()),
        "async leaf that suspends": lambda: run(suspending()),
        "async leaf that does not": lambda: run(chained()),
        "await run_async": lambda: run(chained()),
    }
