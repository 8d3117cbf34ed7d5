"""Calling a tool: JSON text in, JSON text out, through a toolkit whose layer is built once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Never

import msgspec
from returns.result import Result, Success

from fxai.effects import Runtime, runtime
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Work

__all__ = ["works"]

Run = Callable[[Coroutine[Any, Any, object]], object]

# What the best library measured elsewhere takes, as a multiple of the work by hand in the same run: 4.8 µs beside 0.40
# for a call, 4.2 beside 0.68 for one with bad arguments.
BEST_CALL, BEST_BAD = 12, 6.2

forecast = Tool.make("forecast", parameters=hand.Forecast, success=dict[str, Any])
forecast_async = Tool.make("forecast_async", parameters=hand.Forecast, success=dict[str, Any])
submit = Tool.make("submit", parameters=hand.Submission, success=dict[str, Any])
DOCUMENT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
    "required": ["city", "days", "metric"],
    "additionalProperties": False,
}
dynamic = Tool.dynamic("dynamic", parameters=DOCUMENT)
kit = Toolkit.make(forecast, forecast_async, submit, dynamic)


def _on_forecast(asked: hand.Forecast) -> Result[dict[str, Any], Never]:
    return Success(hand.forecast(asked))


async def _on_forecast_async(asked: hand.Forecast) -> Result[dict[str, Any], Never]:
    return Success(await hand.forecast_async(asked))


def _on_submit(asked: hand.Submission) -> Result[dict[str, Any], Never]:
    return Success(hand.submit(asked))


def _on_dynamic(asked: object) -> Result[object, Never]:
    return Success(asked)


LAYER = kit.to_layer(
    forecast.handler(_on_forecast)
    | forecast_async.handler(_on_forecast_async)
    | submit.handler(_on_submit)
    | dynamic.handler(_on_dynamic)
)


def works() -> Iterator[Work]:
    """A call of each sort. All contenders run in one event loop, which has been running before."""
    loop = asyncio.new_event_loop()
    run: Run = loop.run_until_complete
    built = runtime(LAYER)
    served: Runtime[Any] = loop.run_until_complete(built.__aenter__())
    scalars, nested = msgspec.json.Decoder(hand.Forecast), msgspec.json.Decoder(hand.Submission)

    def by_hand(text: str) -> Callable[[], object]:
        return lambda: [hand.call(scalars, hand.forecast, text) for _ in range(2000)]

    yield Work(
        "three scalars, plain handler",
        {
            FXAI: lambda: run(_calls(served, "forecast", hand.SCALARS, 2000)),
            HAND: by_hand(hand.SCALARS),
        },
        2000,
        (Budget(10, HAND), Budget(BEST_CALL, HAND)),
    )
    yield Work(
        "three scalars, async handler",
        {
            FXAI: lambda: run(_calls(served, "forecast_async", hand.SCALARS, 2000)),
            HAND: lambda: run(_awaited(scalars, 2000)),
        },
        2000,
        (Budget(10, HAND),),
    )
    yield Work(
        "bad arguments",
        {FXAI: lambda: run(_calls(served, "forecast", hand.BAD, 2000)), HAND: by_hand(hand.BAD)},
        2000,
        (Budget(BEST_BAD, HAND),),
    )
    yield Work(
        "100 items of 20 fields",
        {
            FXAI: lambda: run(_calls(served, "submit", hand.NESTED, 100)),
            HAND: lambda: [hand.call(nested, hand.submit, hand.NESTED) for _ in range(100)],
        },
        100,
        (Budget(1.15, HAND),),
    )
    yield from _validated(served, run)
    loop.run_until_complete(built.__aexit__(None, None, None))
    loop.close()


def _validated(served: Runtime[Any], run: Run) -> Iterator[Work]:
    yield Work(
        "dynamic, validated",
        {
            FXAI: lambda: run(_calls(served, "dynamic", hand.SCALARS, 2000)),
            "a typed call": lambda: run(_calls(served, "forecast", hand.SCALARS, 2000)),
        },
        2000,
        (Budget(1, "a typed call", plus=8e-6),),
    )


async def _calls(served: Runtime[Any], name: str, text: str, times: int) -> None:
    for _ in range(times):
        outcome = await served.run(kit.call_json(name, text))
        outcome.encoded_json.decode()


async def _awaited(decoder: msgspec.json.Decoder[Any], times: int) -> None:
    for _ in range(times):
        await hand.call_async(decoder, hand.forecast_async, hand.SCALARS)
