"""The context of a model: a step with a compaction or with large results, compared with a step without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from returns.result import Success

from fxai.agents import Agent, Compaction, LargeResults
from fxai.agents import Budget as RunBudget
from fxai.effects import Layer, runtime
from fxai.models import LanguageModel, estimated_tokens
from fxai.storage import ResultStore
from tests.benchmarks.measure import FXAI, Budget, Work
from tests.benchmarks.scripted import Turns, forecast, kit

__all__ = ["works"]

PLAIN = "without"
STEPS = 10
LARGE = "x" * 20_000


def works() -> Iterator[Work]:
    """Steps of a run with one call each, in one event loop."""
    loop = asyncio.new_event_loop()
    store = ResultStore.in_process()
    features: dict[str, tuple[dict[str, Any], str, float]] = {
        "clear_results": ({"compaction": Compaction.clear_results(keep=2)}, "sunny", 3),
        "at_tokens, never reached": (
            {"compaction": Compaction.window(2).at_tokens(10**6, count=estimated_tokens)},
            "sunny",
            2,
        ),
        "large results, a small one": ({"large_results": LargeResults(store)}, "sunny", 2),
        "large results, one of 20 kB": ({"large_results": LargeResults(store, max_tokens=500)}, LARGE, 6),
    }
    for name, (options, found, ratio) in features.items():
        contenders = {FXAI: _run(loop, options, found), PLAIN: _run(loop, {}, found)}
        yield Work(f"a step with {name}", contenders, 20 * STEPS, (Budget(ratio, PLAIN),))
    loop.close()


def _run(loop: asyncio.AbstractEventLoop, options: dict[str, Any], found: str) -> Callable[[], object]:
    agent = Agent.make("bench", toolkit=kit, budget=RunBudget(rounds=STEPS + 1), **options)
    live = forecast.handler(lambda _: Success({"found": found}))
    built = runtime(kit.to_layer(live) | Layer.succeed(LanguageModel, Turns(STEPS)))
    served: Any = loop.run_until_complete(built.__aenter__())

    async def run() -> None:
        for _ in range(20):
            await served.run(agent.execute("go"))

    return lambda: loop.run_until_complete(run())
