"""The works of the `openai` SDK: a loop by hand over the Responses API, with whole answers and with raw events."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

from tests.benchmarks.rivals import inputs
from tests.benchmarks.rivals.worker import Work, awaited, serve

sdk: Any = import_module("openai")
http: Any = import_module("httpx2")
TOOL = {
    "type": "function",
    "name": "forecast",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
        "required": ["city", "days", "metric"],
        "additionalProperties": False,
    },
    "strict": True,
}


async def _forecast(city: str, days: int, metric: bool) -> dict[str, Any]:
    return {"city": city, "days": days, "ok": metric}


def _client() -> Any:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        body = json.loads(request.content)
        results = sum(item.get("type") == "function_call_output" for item in body["input"])
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return http.Response(200, headers=headers, content=inputs.responses_events(results))
        return http.Response(200, json=inputs.responses_answer(results))

    transport = http.MockTransport(answer)
    return sdk.AsyncOpenAI(api_key="none", http_client=http.AsyncClient(transport=transport))


async def _ask(client: Any, items: list[Any], *, streamed: bool) -> Any:
    asked = {"model": "gpt-5.5", "input": items, "tools": [TOOL]}
    if not streamed:
        return await client.responses.create(**asked)
    response: Any = None
    async for event in await client.responses.create(stream=True, **asked):
        if event.type == "response.completed":
            response = event.response
    return response


def _runs(number: int, *, streamed: bool) -> Work:
    client = _client()

    async def one() -> None:
        items: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            response = await _ask(client, items, streamed=streamed)
            calls = [item for item in response.output if item.type == "function_call"]
            items += [item.to_dict() for item in response.output]
            if not calls:
                assert response.output_text == "done"
                return
            for call in calls:
                result = json.dumps(await _forecast(**json.loads(call.arguments)))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})

    async def all_() -> None:
        await asyncio.gather(*(one() for _ in range(number)))

    return awaited(all_)


if __name__ == "__main__":
    serve(
        {
            "responses, 1": lambda: _runs(1, streamed=False),
            "responses, 100": lambda: _runs(100, streamed=False),
            "responses streamed, 1": lambda: _runs(1, streamed=True),
            "responses streamed, 100": lambda: _runs(100, streamed=True),
        }
    )
