"""Calling a tool whose types are models of pydantic: JSON text in, JSON text out.

If `pydantic-ai-slim` is installed, its tool manager runs the same functions in the same process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Never

from pydantic import BaseModel, TypeAdapter
from returns.result import Result, Success

from fxai.effects import Runtime, runtime
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Work
from tests.benchmarks.rivals.pydantic_inputs import Order

__all__ = ["works"]

PEER = "pydantic-ai"
BEST = 1.1


class Forecast(BaseModel):
    """Three scalars."""

    city: str
    days: int
    metric: bool


class Submission(BaseModel):
    """Parameters that are nested three deep."""

    order: Order
    dry_run: bool


class Receipt(BaseModel):
    """The result of each call."""

    id: str
    count: int


async def forecast(asked: Forecast) -> Receipt:
    """Forecast the weather."""
    return Receipt(id=asked.city, count=asked.days)


async def submit(asked: Submission) -> Receipt:
    """Submit an order."""
    return Receipt(id=asked.order.order_id, count=len(asked.order.items))


async def echo(asked: Submission) -> Submission:
    """Return the parameters."""
    return asked


forecast_tool = Tool.make("forecast", parameters=Forecast, success=Receipt)
submit_tool = Tool.make("submit", parameters=Submission, success=Receipt)
echo_tool = Tool.make("echo", parameters=Submission, success=Submission)
kit = Toolkit.make(forecast_tool, submit_tool, echo_tool)


async def _on_forecast(asked: Forecast) -> Result[Receipt, Never]:
    return Success(await forecast(asked))


async def _on_submit(asked: Submission) -> Result[Receipt, Never]:
    return Success(await submit(asked))


async def _on_echo(asked: Submission) -> Result[Submission, Never]:
    return Success(await echo(asked))


LAYER = kit.to_layer(
    forecast_tool.handler(_on_forecast) | submit_tool.handler(_on_submit) | echo_tool.handler(_on_echo)
)
CALLS: dict[str, tuple[str, Any, Any, str, int]] = {
    "three scalars in a model": ("forecast", forecast, Forecast, hand.SCALARS, 1000),
    "100 models of 20 fields": ("submit", submit, Submission, hand.NESTED, 50),
    "the same, returned": ("echo", echo, Submission, hand.NESTED, 50),
    "bad arguments of a model": ("forecast", forecast, Forecast, hand.BAD, 1000),
}


def works() -> Iterator[Work]:
    """A call of each sort. All contenders run in one event loop."""
    loop = asyncio.new_event_loop()
    run = loop.run_until_complete
    built = runtime(LAYER)
    served: Runtime[Any] = run(built.__aenter__())
    peer = run(_peer()) if find_spec("pydantic_ai") else None
    for title, (name, function, model, text, times) in CALLS.items():
        contenders: dict[str, Callable[[], object]] = {
            FXAI: partial(_run, run, _calls, served, name, text, times),
        }
        if text is not hand.BAD:
            by_hand = TypeAdapter(model).validator.validate_json
            contenders[HAND] = partial(_run, run, _by_hand, function, by_hand, text, times)
        if peer is not None:
            contenders[PEER] = partial(_run, run, _peer_calls, peer, name, text, times)
        yield Work(title, contenders, times, (Budget(BEST, PEER),) if peer is not None else ())
    run(built.__aexit__(None, None, None))
    loop.close()


def _run(run: Callable[[Any], object], work: Callable[..., Any], *given: Any) -> object:
    return run(work(*given))


async def _calls(served: Runtime[Any], name: str, text: str, times: int) -> None:
    for _ in range(times):
        outcome = await served.run(kit.call_json(name, text))
        outcome.encoded_json.decode()


async def _by_hand(function: Any, read: Callable[[str], Any], text: str, times: int) -> None:
    for _ in range(times):
        (await function(read(text))).model_dump_json()


async def _peer() -> Any:
    """Return a function that calls a tool of pydantic-ai."""
    messages: Any = import_module("pydantic_ai.messages")
    refused: Any = import_module("pydantic_ai.exceptions").ToolRetryError
    tools = import_module("pydantic_ai.toolsets").FunctionToolset([forecast, submit, echo], max_retries=1)
    usage = import_module("pydantic_ai.usage").RunUsage()
    model = import_module("pydantic_ai.models.test").TestModel()
    context = import_module("pydantic_ai").RunContext(deps=None, model=model, usage=usage)
    manager = await import_module("pydantic_ai.tool_manager").ToolManager(tools).for_run_step(context)

    async def call(name: str, text: str) -> str:
        try:
            result = await manager.handle_call(messages.ToolCallPart(name, text, "c1"))
        except refused as error:
            told: str = error.tool_retry.model_response_str()
            return told
        shown: str = messages.ToolReturnPart(name, result, "c1").model_response_str()
        return shown

    return call


async def _peer_calls(call: Any, name: str, text: str, times: int) -> None:
    for _ in range(times):
        await call(name, text)
