"""Count the instructions of the processor that a work takes: `python -m tests.benchmarks.instructions [WORD ...]`.

Counts do not depend on other programs of the machine, so they show small changes that times hide. The command needs
`valgrind`. It runs each work whose name contains a word in a new process, once with few and once with many
repetitions, and prints the difference for one repetition, in thousands. To count another commit, set `PYTHONPATH` to a
checkout of it and run this file by its path: the works use public names only.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, Never

import msgspec
from returns.result import Result, Success

from fxai.agents import Agent
from fxai.effects import Effect, Layer, fx, runtime
from fxai.messages import (
    AiError,
    AssistantMessage,
    Finish,
    Part,
    Prompt,
    Text,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.models.request_cache import RequestCache
from fxai.providers.openai import prepare_request
from fxai.tools import Tool, Toolkit

__all__ = ["main"]

Repeat = Callable[[int], object]

GOOD: Final = '{"city": "Lisbon", "days": 3, "metric": true}'
BAD: Final = '{"city": "Lisbon", "days": "three", "metric": true}'
CITIES: Final = {"Lisbon": {"city": "Lisbon", "celsius": 21.5, "rain": False}}
FEW: Final = 50
MORE: Final = 150


class Forecast(msgspec.Struct, frozen=True):
    """Three scalars."""

    city: str
    days: int
    metric: bool


forecast = Tool.make("forecast", parameters=Forecast, success=dict[str, Any])
forecast_async = Tool.make("forecast_async", parameters=Forecast, success=dict[str, Any])
kit = Toolkit.make(forecast, forecast_async)


def _forecast(asked: Forecast) -> Result[dict[str, Any], Never]:
    return Success(CITIES[asked.city])


async def _forecast_async(asked: Forecast) -> Result[dict[str, Any], Never]:
    return Success(CITIES[asked.city])


handlers = kit.to_layer(forecast.handler(_forecast) | forecast_async.handler(_forecast_async))


class OneCall(LanguageModel):
    """A model that asks for one call and then ends the run."""

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Return the turn that the length of the prompt names."""
        if len(request.prompt) > 1:
            return fx.succeed((Text("done"), Finish("stop")))
        return fx.succeed((ToolCall("c1", "forecast", msgspec.json.decode(GOOD)), Finish("tool-calls")))


def _calls(name: str, text: str) -> Repeat:
    async def repeat(number: int) -> None:
        async with runtime(handlers) as served:
            for _ in range(number):
                await served.run(kit.call_json(name, text))

    return lambda number: asyncio.run(repeat(number))


def _run_sync(number: int) -> None:
    for _ in range(number):
        fx.run_sync(kit.call_json("forecast", GOOD).provide(handlers))


def _rounds(number: int) -> None:
    agent = Agent.make("bench", toolkit=kit)
    layer = handlers | Layer.succeed(LanguageModel, OneCall())

    async def repeat() -> None:
        async with runtime(layer) as served:
            for _ in range(number):
                await served.run(agent.execute("Go."))

    asyncio.run(repeat())


def _requests(number: int) -> None:
    cache, prompt = RequestCache[Any, Any](), Prompt.make("Go.")
    for at in range(number + 500):
        call = ToolCallPart(f"c{at}", "forecast", msgspec.json.decode(GOOD))
        prompt = prompt.append(AssistantMessage.make(call), ToolMessage.make(ToolResultPart(call.id, "forecast", {})))
        if at >= 499:
            prepare_request(ModelRequest(prompt, (forecast,)), model="gpt-5.5", cache=cache)


WORKS: Final[dict[str, Repeat]] = {
    "a call": _calls("forecast", GOOD),
    "a call, async handler": _calls("forecast_async", GOOD),
    "a call, bad arguments": _calls("forecast", BAD),
    "a call, run_sync": _run_sync,
    "a run of one round": _rounds,
    "a request of 1,000 messages": _requests,
}


def main(arguments: list[str]) -> int:
    """Count the chosen works, or do one of them in a counted process, and return the exit code."""
    if arguments[:1] == ["--repeat"]:
        repeat, number = WORKS[arguments[1]], int(arguments[2])
        repeat(FEW // 2)
        gc.collect()
        gc.disable()
        repeat(number)
        return 0
    if shutil.which("valgrind") is None:
        print("This command needs `valgrind`. Install it with the package manager of the system.", file=sys.stderr)
        return 2
    for name in WORKS:
        if not arguments or any(word in name for word in arguments):
            count = (_counted(name, FEW + MORE) - _counted(name, FEW)) / MORE
            print(f"{name:32}{count / 1_000:10.1f}", flush=True)
    return 0


def _counted(name: str, number: int) -> int:
    work = [sys.executable, __file__, "--repeat", name, str(number)]
    subprocess.run(work, check=True)  # compiles the modules, so that no counted process compiles them
    process = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}", *work],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(process.stderr.rpartition("Collected : ")[2].split()[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
