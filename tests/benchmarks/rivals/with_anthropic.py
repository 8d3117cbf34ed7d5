"""The works of the `anthropic` SDK: its beta tools and the runner of tools."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from itertools import count
from typing import Any

from tests.benchmarks.rivals import inputs
from tests.benchmarks.rivals.pydantic_inputs import forecast_json, plain_forecast_json
from tests.benchmarks.rivals.worker import Work, awaited, repeated, serve

sdk: Any = import_module("anthropic")
http: Any = import_module("httpx2")
plain_forecast = sdk.beta_tool(plain_forecast_json, name="forecast")
forecast = sdk.beta_async_tool(forecast_json, name="forecast")
_runs = count()


def _call(text: str) -> str:
    """Return what the runner sends for arguments as JSON text."""
    try:
        return str(plain_forecast.call(json.loads(text)))
    except ValueError as error:
        return repr(error)


async def _call_async(text: str) -> str:
    try:
        return str(await forecast.call(json.loads(text)))
    except ValueError as error:
        return repr(error)


def _client() -> Any:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        body = json.loads(request.content)
        return http.Response(200, json=inputs.messages_answer(len(body["messages"])))

    transport = http.MockTransport(answer)
    return sdk.AsyncAnthropic(api_key="none", http_client=http.AsyncClient(transport=transport))


def _runs_at_once(number: int) -> Work:
    client = _client()

    async def one() -> None:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5",
            max_tokens=1024,
            tools=[forecast],
            messages=[{"role": "user", "content": f"go {next(_runs)}"}],
            thread=False,  # each request contains the whole conversation
        )
        message = await runner.until_done()
        assert message.content[0].text == "done"

    async def all_() -> None:
        await asyncio.gather(*(one() for _ in range(number)))

    return awaited(all_)


if __name__ == "__main__":
    serve(
        {
            "call": lambda: repeated(lambda: _call(inputs.SCALARS)),
            "call async": lambda: awaited(lambda: _call_async(inputs.SCALARS)),
            "bad call": lambda: repeated(lambda: _call(inputs.BAD)),
            "bad call async": lambda: awaited(lambda: _call_async(inputs.BAD)),
            "messages, 1": lambda: _runs_at_once(1),
            "messages, 100": lambda: _runs_at_once(100),
        }
    )
