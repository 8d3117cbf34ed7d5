"""A run of an agent: what a round costs, at one, ten, a hundred and a thousand of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec

from fxai.effects import runtime
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Work
from tests.benchmarks.scripted import Turns, agent_of, layer_of

__all__ = ["by_hand", "works"]

Run = Callable[[Coroutine[Any, Any, object]], object]

# What the best library measured elsewhere takes, as a multiple of the loop by hand in the same run: 57 µs beside 1.6
# for a run of one round, 48 beside 1.25 for a further round, of which the half is what we allow ourselves.
BEST_RUN, HALF_OF_BEST_ROUND = 35, 19
TEN = "ten rounds"


def works() -> Iterator[Work]:
    """Runs of different lengths, in one event loop, with the layer built before."""
    loop = asyncio.new_event_loop()
    run: Run = loop.run_until_complete
    yield Work("a run of 1 round", _contenders(run, 1, 500), 500, (Budget(BEST_RUN, HAND),))
    yield Work("a round, of 10", _contenders(run, 10, 50), 500, (Budget(HALF_OF_BEST_ROUND, HAND),))
    for rounds in (100, 1000):
        contenders = {**_contenders(run, rounds, 1000 // rounds), TEN: _contenders(run, 10, 100)[FXAI]}
        budgets = (Budget(HALF_OF_BEST_ROUND, HAND), Budget(1.3, TEN))
        yield Work(f"a round, of {rounds:,}", contenders, 1000, budgets)
    loop.close()


def _contenders(run: Run, rounds: int, times: int) -> dict[str, Callable[[], object]]:
    agent = agent_of(rounds)
    built = runtime(layer_of(Turns(rounds)))
    served: Any = run(built.__aenter__())
    model, tools = hand.rounds(rounds), by_hand()

    async def ours() -> None:
        for _ in range(times):
            await served.run(agent.execute("go"))

    async def plain() -> None:
        for _ in range(times):
            await hand.agent(model, tools, "go")

    return {FXAI: lambda: run(ours()), HAND: lambda: run(plain())}


def by_hand() -> dict[str, Callable[[str], Coroutine[Any, Any, str]]]:
    """The tools of the loop by hand."""
    decoder = msgspec.json.Decoder(hand.Forecast)
    return {"forecast": lambda text: hand.call_async(decoder, hand.forecast_async, text)}
