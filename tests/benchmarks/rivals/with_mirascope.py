"""The works of mirascope: its tools, and the loop of its manual on a scripted provider."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from tests.benchmarks.rivals import inputs
from tests.benchmarks.rivals.pydantic_inputs import forecast_dict
from tests.benchmarks.rivals.worker import Work, awaited, serve

llm: Any = import_module("mirascope.llm")
base: Any = import_module("mirascope.llm.providers.base")
encode: Any = import_module("mirascope.llm.providers.base._utils").encode_tool_output_content
forecast = llm.tool(forecast_dict)


def _no(*_: Any, **__: Any) -> Any:
    raise NotImplementedError


def _nothing(*_: Any) -> None: ...


async def _call(self: Any, *, model_id: str, messages: Any, toolkit: Any, format: Any = None, **params: Any) -> Any:
    turn = (len(messages) - 1) // 2
    if self.waits:
        await asyncio.sleep(0)
    if turn:
        for part in messages[-1].content:
            encode(part.result)
    content: list[Any] = [llm.Text(text="done")]
    if turn < self.rounds:
        content = [llm.ToolCall(id=f"c{turn}", name="forecast_dict", args=inputs.SCALARS)]
    about = {"provider_id": "stub", "model_id": model_id, "provider_model_name": "stub"}
    message = llm.messages.AssistantMessage(content=content, raw_message=None, **about)
    return llm.AsyncResponse(
        raw=None,
        params=params,
        tools=toolkit,
        format=format,
        input_messages=messages,
        finish_reason=None,
        usage=None,
        assistant_message=message,
        **about,
    )


_unused = (
    *("_call", "_context_call", "_stream", "_context_stream"),
    *("_context_call_async", "_stream_async", "_context_stream_async"),
)
Stub: Any = type(
    "Stub",
    (base.BaseProvider,),
    {
        "id": "stub",
        "default_scope": "stub/",
        "error_map": {},
        "rounds": 0,
        "waits": False,
        "__init__": _nothing,
        "get_error_status": _nothing,
        "_call_async": _call,
        **dict.fromkeys(_unused, _no),
    },
)


async def _run(model: Any) -> Any:
    response = await model.call_async("go", tools=[forecast])
    while response.tool_calls:
        response = await response.resume(await response.execute_tools())
    return response


def _runs(rounds: int, number: int = 1, *, waits: bool = False) -> Work:
    provider = Stub()
    provider.rounds, provider.waits = rounds, waits

    async def all_() -> None:
        llm.register_provider(provider)
        model = llm.Model("stub/x")
        if number == 1:
            await _run(model)
        else:
            await asyncio.gather(*(_run(model) for _ in range(number)))

    return awaited(all_)


if __name__ == "__main__":
    serve(
        {
            "run, 0 rounds": lambda: _runs(0),
            "run, 1 round": lambda: _runs(1),
            "run, 10 rounds": lambda: _runs(10),
            "run, 100 rounds": lambda: _runs(100),
            "1,000 runs": lambda: _runs(inputs.ROUNDS, 1000, waits=True),
        }
    )
