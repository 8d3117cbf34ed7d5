"""A thousand runs at once, of three rounds each, every turn of which waits once for the event loop."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

from fxai.effects import fx, runtime
from tests.benchmarks import hand
from tests.benchmarks.loop import by_hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Measured, Work
from tests.benchmarks.scripted import Turns, agent_of, layer_of

__all__ = ["works"]

RUNS, ROUNDS = 1000, 3
# Half of what the best library measured elsewhere takes, 207 ms, beside 22 by hand in the same run.
HALF_OF_BEST = 4.7
BYTES_A_RUN = 8000


def works() -> Iterator[Work | Measured]:
    """The time of a run, and the most memory that it holds at once."""
    loop = asyncio.new_event_loop()
    agent = agent_of(ROUNDS)
    built = runtime(layer_of(Turns(ROUNDS, suspends=True)))
    served: Any = loop.run_until_complete(built.__aenter__())
    model, tools = hand.rounds(ROUNDS), by_hand()
    crowd = fx.for_each(range(RUNS), lambda _: agent.execute("go"), concurrency=None)

    async def waiting(messages: list[hand.Message]) -> hand.Message:
        await asyncio.sleep(0)
        return await model(messages)

    async def plain() -> None:
        await asyncio.gather(*(hand.agent(waiting, tools, "go") for _ in range(RUNS)))

    contenders = {
        FXAI: lambda: loop.run_until_complete(served.run(crowd)),
        HAND: lambda: loop.run_until_complete(plain()),
    }
    yield Work(f"a run of {ROUNDS} rounds, of {RUNS:,}", contenders, RUNS, (Budget(HALF_OF_BEST, HAND),))
    memory = {who: _bytes(run) / RUNS for who, run in contenders.items()}
    yield Measured("the most memory at once, a run", memory, (Budget(0, plus=BYTES_A_RUN),), in_bytes=True)
    loop.run_until_complete(built.__aexit__(None, None, None))
    loop.close()


def _bytes(run: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
