"""The works of fxai, and of fxai beside itself: growth, tracing, and the testing kit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Never

import httpx2
import msgspec
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from returns.result import Result, Success

from fxai import Agent, AiError, Budget, Effect, Gen, LanguageModel, Layer, Tool, Toolkit, fx
from fxai.durable import Runs, durable, step
from fxai.effects import LayerOf, runtime
from fxai.models import Limit, limit
from fxai.providers import anthropic, openai
from fxai.schema import JsonSchema
from fxai.telemetry import layer as telemetry_layer
from fxai.testing import check_toolkit
from fxai.ui import AppOptions, chat_app
from tests.benchmarks import hand
from tests.benchmarks.rivals import inputs, raw_inputs
from tests.benchmarks.rivals.growth import GROWTH
from tests.benchmarks.rivals.worker import Prepare, Work, awaited, in_loop, repeated, serve
from tests.benchmarks.scripted import Turns, agent_of, layer_of
from tests.benchmarks.stream import Wire
from tests.benchmarks.ui import Words

forecast = Tool.make("forecast", parameters=hand.Forecast, success=dict[str, Any])
forecast_async = Tool.make("forecast_async", parameters=hand.Forecast, success=dict[str, Any])
submit = Tool.make("submit", parameters=hand.Submission, success=dict[str, Any])
echo = Tool.make("echo", parameters=hand.Submission, success=list[hand.Item])
kit = Toolkit.make(forecast, forecast_async, submit, echo)
_numbers = count()


async def _forecast_async(asked: hand.Forecast) -> Result[dict[str, Any], Never]:
    return Success(await hand.forecast_async(asked))


async def _submit(asked: hand.Submission) -> Result[dict[str, Any], Never]:
    return Success(await hand.submit_async(asked))


async def _echo(asked: hand.Submission) -> Result[list[hand.Item], Never]:
    return Success(asked.order.items)


handlers = kit.to_layer(
    forecast.handler(lambda asked: Success(hand.forecast(asked)))
    | forecast_async.handler(_forecast_async)
    | submit.handler(_submit)
    | echo.handler(_echo)
)


def _served(layer: LayerOf[Any, Any]) -> Any:
    return in_loop(runtime(layer).__aenter__())


# -- tools


def _define(fields: list[tuple[str, type[Any]]]) -> Work:
    def one() -> None:
        number = next(_numbers)
        Tool.make(f"tool_{number}", parameters=msgspec.defstruct("P", fields, frozen=True), success=str).json_schema()

    return repeated(one)


def _call_sync(text: str) -> Work:
    context: Any = fx.run_sync(fx.scoped(handlers.build()))

    def one() -> None:
        fx.run_sync(kit.call_json("forecast", text).provide_context(context)).encoded_json.decode()

    return repeated(one)


def _call(name: str, text: str) -> Work:
    served = _served(handlers)

    async def one() -> None:
        outcome = await served.run(kit.call_json(name, text))
        outcome.encoded_json.decode()

    return awaited(one)


# -- runs


def _run(rounds: int) -> Work:
    served, agent = _served(layer_of(Turns(rounds))), agent_of(rounds)
    return awaited(lambda: served.run(agent.execute("go")))


def _crowd() -> Work:
    served, agent = _served(layer_of(Turns(inputs.ROUNDS, suspends=True))), agent_of(inputs.ROUNDS)
    runs = fx.for_each(range(1000), lambda _: agent.execute("go"), concurrency=None)
    return awaited(lambda: served.run(runs))


def _over_http(model: LayerOf[LanguageModel, AiError], number: int, *, streamed: bool = False) -> Work:
    tool = Tool.make("forecast", parameters=hand.Forecast, success=dict[str, Any])
    kit = Toolkit.make(tool)
    agent = Agent.make("bench", toolkit=kit)
    served = _served(kit.to_layer(tool.handler(_forecast_async)) | model)

    async def one() -> None:
        if streamed:
            await served.run(agent.stream("go").drain())
        else:
            answer = await served.run(agent.execute("go"))
            assert answer.text == "done"

    async def all_() -> None:
        await asyncio.gather(*(one() for _ in range(number)))

    return awaited(all_)


def _messages() -> LayerOf[LanguageModel, AiError]:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        body = json.loads(request.content)
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=headers, content=inputs.messages_events(len(body["messages"])))
        return httpx2.Response(200, json=inputs.messages_answer(len(body["messages"])))

    return anthropic.layer("claude-sonnet-5", api_key="none", transport=httpx2.MockTransport(answer))


def _responses() -> LayerOf[LanguageModel, AiError]:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        body = json.loads(request.content)
        results = sum(item.get("type") == "function_call_output" for item in body["input"])
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=headers, content=inputs.responses_events(results))
        return httpx2.Response(200, json=inputs.responses_answer(results))

    return openai.layer("gpt-5.5", api_key="none", transport=httpx2.MockTransport(answer))


# -- the page, durable runs, tracing


def _app(words: int, *, first: bool) -> Work:
    options = AppOptions(turns_per_minute=10**9)
    app = chat_app(Agent.make("bench"), layer=Layer.succeed(LanguageModel, Words(words)), options=options)

    async def one() -> None:
        exchange = inputs.Exchange(app, inputs.ui_body(next(_numbers)))
        await (exchange.read_first() if first else exchange.read())

    return awaited(one)


def _durable(steps: int) -> Work:
    location = Path(mkdtemp()) / "runs.db"
    store = Runs.at(location)

    @fx.gen
    def program() -> Gen[int, Any, Any]:
        total = 0
        for _ in range(steps):
            add: Effect[int] = fx.succeed(total + 1)
            total = yield from step("add", add, int)
        return total

    def one() -> Any:
        layer: Any = durable(Layer.empty(), run=f"r{next(_numbers)}", store=store)
        return fx.run_async(program().provide(layer))

    return awaited(one)


def _traced(*, traced: bool) -> Work:
    layer: Any = layer_of(Turns(10))
    if traced:
        layer |= telemetry_layer(tracer_provider=TracerProvider(), meter_provider=MeterProvider())
    served, agent = _served(layer), agent_of(10)
    return awaited(lambda: served.run(agent.execute("go")))


def _faults(schema: JsonSchema, value: object) -> Work:
    return repeated(lambda: schema.validate(value))


def _ten_tools() -> Work:
    fields = {"city": str, "days": int, "tags": list[str], "places": list[dict[str, int]]}
    raw: list[Any] = [Tool.dynamic(f"raw_{n}", parameters=raw_inputs.WORKS["valid"][0]) for n in range(5)]
    typed: list[Any] = [
        Tool.make(
            f"typed_{n}", parameters=msgspec.defstruct(f"P{n}", [*fields.items()], frozen=True), success=list[int]
        )
        for n in range(5)
    ]
    return repeated(lambda: check_toolkit(Toolkit.make(*raw, *typed)))


# -- growth


def _joined(number: int) -> Work:
    """Join the handlers of so many tools by `|`, and build the layer."""
    tools: list[Any] = [Tool.make(f"t{n}", parameters=int, success=int) for n in range(number)]

    def one() -> None:
        layer: Any = Layer.empty()
        for tool in tools:
            layer = layer | tool.handler(Success)
        fx.run_sync(fx.scoped(layer.build()))

    return repeated(one)


def _limited(number: int) -> Work:
    """Make so many requests at once under a limit in the process."""
    model: Any = Layer.succeed(LanguageModel, Turns(0, suspends=True))
    served = _served(limit(model, Limit.per_minute("key", requests=10**9, tokens=10**12), max_tokens=10))
    requests = fx.for_each(range(number), lambda _: LanguageModel.generate_text("go"), concurrency=None)
    return awaited(lambda: served.run(requests))


def _deltas(number: int) -> Work:
    tool = Tool.make("submit", parameters=hand.Submission, success=dict[str, Any])
    layer = tool.handler(_submit) | Layer.succeed(LanguageModel, Wire(hand.events(number)))
    served = _served(layer)
    reading = LanguageModel.stream_text("go", toolkit=Toolkit.make(tool)).drain()
    return awaited(lambda: served.run(reading))


def _rounds_over(wire: str, rounds: int) -> Work:
    """Run so many rounds over a wire. Each request contains all earlier messages."""
    bodies = {"anthropic": _messages_body, "responses": _responses_body, "chat": _chat_body}
    turns = count()

    def answer(_: httpx2.Request) -> httpx2.Response:
        turn = next(turns) % (rounds + 1)
        return httpx2.Response(200, content=bodies[wire](turn, is_last=turn == rounds))

    transport = httpx2.MockTransport(answer)
    model: LayerOf[LanguageModel, AiError]
    if wire == "anthropic":
        model = anthropic.layer("claude-sonnet-5", api_key="none", transport=transport)
    else:
        api: Any = wire
        model = openai.layer("gpt-5.5", api=api, api_key="none", transport=transport)
    tool = Tool.make("forecast", parameters=hand.Forecast, success=dict[str, Any])
    agent = Agent.make("bench", toolkit=Toolkit.make(tool), budget=Budget(rounds=rounds + 1), max_tokens=1000)
    served = _served(tool.handler(_forecast_async) | model)
    return awaited(lambda: served.run(agent.execute("go")))


def _messages_body(turn: int, *, is_last: bool) -> bytes:
    content = {"type": "tool_use", "id": f"c{turn}", "name": "forecast", "input": json.loads(inputs.SCALARS)}
    answer = inputs.messages_answer(2 * inputs.ROUNDS)
    return json.dumps(answer if is_last else {**answer, "content": [content], "stop_reason": "tool_use"}).encode()


def _responses_body(turn: int, *, is_last: bool) -> bytes:
    answer = inputs.responses_answer(inputs.ROUNDS if is_last else 0)
    if not is_last:
        answer["output"][0] |= {"id": f"fc{turn}", "call_id": f"c{turn}"}
    return json.dumps(answer).encode()


def _chat_body(turn: int, *, is_last: bool) -> bytes:
    function = {"name": "forecast", "arguments": inputs.SCALARS}
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if not is_last:
        calls = [{"id": f"c{turn}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if is_last else "tool_calls", "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.5", "choices": [choice]}
    return json.dumps({**whole, "usage": usage}).encode()


_GROWING: dict[str, Callable[[int], Work]] = {
    "a round of a run": _run,
    "a round over Anthropic": partial(_rounds_over, "anthropic"),
    "a round over Responses": partial(_rounds_over, "responses"),
    "a round over Chat": partial(_rounds_over, "chat"),
    "a handler joined by |": _joined,
    "a request under a limit": _limited,
    "a delta of a stream": _deltas,
}


def _works() -> dict[str, Prepare]:
    scalars: list[tuple[str, Any]] = [("city", str), ("days", int), ("metric", bool)]
    works: dict[str, Prepare] = {
        "define": lambda: _define(scalars),
        "define nested": lambda: _define([("order", hand.Order), ("dry_run", bool)]),
        "call": lambda: _call_sync(inputs.SCALARS),
        "call async": lambda: _call("forecast_async", inputs.SCALARS),
        "bad call": lambda: _call_sync(inputs.BAD),
        "bad call async": lambda: _call("forecast_async", inputs.BAD),
        "call nested": lambda: _call("submit", inputs.NESTED),
        "echo nested": lambda: _call("echo", inputs.NESTED),
        "bad nested": lambda: _call("submit", inputs.NESTED_BAD),
        "run, 0 rounds": lambda: _run(0),
        "run, 1 round": lambda: _run(1),
        "run, 10 rounds": lambda: _run(10),
        "run, 100 rounds": lambda: _run(100),
        "1,000 runs": _crowd,
        "messages, 1": lambda: _over_http(_messages(), 1),
        "messages, 100": lambda: _over_http(_messages(), 100),
        "responses, 1": lambda: _over_http(_responses(), 1),
        "responses, 100": lambda: _over_http(_responses(), 100),
        "responses streamed, 1": lambda: _over_http(_responses(), 1, streamed=True),
        "responses streamed, 100": lambda: _over_http(_responses(), 100, streamed=True),
        "first chunk": lambda: _app(3, first=True),
        "1,000 deltas": lambda: _app(1000, first=False),
        "durable, 1 step": lambda: _durable(1),
        "durable, 20 steps": lambda: _durable(20),
        "round, traced": lambda: _traced(traced=True),
        "round, untraced": lambda: _traced(traced=False),
        "check of ten tools": _ten_tools,
    }
    for name, (schema, value) in raw_inputs.WORKS.items():
        works[name] = partial(_faults, JsonSchema.of(schema), value)
    for name, sizes in GROWTH.items():
        for size in sizes:
            works[f"{name}, {size}"] = partial(_GROWING[name], size)
    return works


if __name__ == "__main__":
    serve(_works())
