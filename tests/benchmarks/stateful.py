"""A stateful prompt of twenty definitions: what its step costs beside a plain step with the same ten tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fxai.agents import Agent, Budget
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import Effect, Layer, fx, runtime
from fxai.models import LanguageModel
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand, measure
from tests.benchmarks.measure import FXAI, Work
from tests.benchmarks.scripted import Turns, forecast

__all__ = ["works"]

PLAIN, TEN = "a plain step", "ten steps"
# Each step defines twenty things, and a run of a plain agent defines its tools once: 4.5 to 5.8 times were measured.
TIMES_PLAIN = 7
FLAT = 1.3

FOUND: dict[str, Any] = {"degrees": 21.4}
CUSTOMER = {"name": "Ann", "orders": [1, 2, 3], "address": {"street": "Mill Lane", "number": 7}}
SHOP = {"opens": "8:00", "closes": "12:00", "days": ["Saturday", "Sunday"]}
RULES = ("Answer in one line.", "Never invent an order.", "Ask before you refund.")

others = [
    Tool.make(f"tool_{number}", description="Does it.", parameters=hand.Forecast, success=str) for number in range(9)
]
kit: Toolkit[Any] = Toolkit.make(forecast, *others)


def _desk(at: Render, *, changes: bool) -> None:
    """Ten tools, four systems, three data, two states, one effect; with `changes`, each step has a text of its own."""
    steps = at.state("steps", 0)
    mode = at.state("mode", "basic")

    def on_forecast(_: hand.Forecast) -> Effect[dict[str, Any]]:
        return steps.update(lambda n: n + 1).as_(FOUND) if changes else fx.succeed(FOUND)

    at.system("role", f"You are in {mode.value} mode; {steps.value} searches so far.")
    for number, rule in enumerate(RULES):
        at.system(f"rule_{number}", rule)
    at.data("customer", CUSTOMER)
    at.data("shop", SHOP)
    at.data("language", "English")
    look = at.tool(forecast, on_forecast)
    for other in others:
        at.tool(other, lambda _: fx.succeed("done"))
    at.effect("hint", lambda _: look.remind(), deps=(mode.value,))


def works() -> Iterator[Work]:
    """Runs of different lengths, with a text that stays and with one that changes, in one event loop."""
    loop = asyncio.new_event_loop()
    for what, changes in (("a constant text", False), ("a changing text", True)):
        prompt = StatefulPrompt.make("desk", partial(_desk, changes=changes))
        for rounds in (10, 100, 1000):
            contenders = _contenders(loop, prompt, rounds, 1000 // rounds)
            budgets = [measure.Budget(TIMES_PLAIN, PLAIN)]
            if rounds > 10:
                contenders[TEN] = _contenders(loop, prompt, 10, 100)[FXAI]
                budgets.append(measure.Budget(FLAT, TEN))
            yield Work(f"a step, of {rounds:,}, {what}", contenders, 1000, tuple(budgets))
    loop.close()


def _contenders(
    loop: asyncio.AbstractEventLoop, prompt: StatefulPrompt[Any, Any], rounds: int, times: int
) -> dict[str, Callable[[], object]]:
    budget = Budget(rounds=rounds + 1)
    model = Layer.succeed(LanguageModel, Turns(rounds))
    handlers: Any = forecast.handler(lambda _: fx.succeed(FOUND))
    for other in others:
        handlers = handlers | other.handler(lambda _: fx.succeed("done"))
    stateful: Agent[Any, Any, Any] = Agent.make("bench", prompt=prompt, budget=budget)
    plain: Agent[Any, Any, Any] = Agent.make("bench", toolkit=kit, budget=budget)
    return {
        FXAI: _runs(loop, stateful, model, times),
        PLAIN: _runs(loop, plain, model | kit.to_layer(handlers), times),
    }


def _runs(
    loop: asyncio.AbstractEventLoop, agent: Agent[Any, Any, Any], layer: Layer[Any], times: int
) -> Callable[[], object]:
    served: Any = loop.run_until_complete(runtime(layer).__aenter__())

    async def run() -> None:
        for _ in range(times):
            await served.run(agent.execute("go"))

    return lambda: loop.run_until_complete(run())
