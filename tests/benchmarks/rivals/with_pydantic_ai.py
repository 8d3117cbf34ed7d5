"""The works of pydantic-ai: its tools, its agent on a function model, and its adapter for the AI SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from importlib import import_module
from itertools import count
from typing import Any

from tests.benchmarks.rivals import inputs
from tests.benchmarks.rivals.pydantic_inputs import Order, echo_dict, forecast_dict, submit_dict
from tests.benchmarks.rivals.worker import Work, awaited, in_loop, repeated, serve

ai: Any = import_module("pydantic_ai")
messages: Any = import_module("pydantic_ai.messages")
retry_error: Any = import_module("pydantic_ai.exceptions").ToolRetryError
function_model: Any = import_module("pydantic_ai.models.function").FunctionModel
adapter: Any = import_module("pydantic_ai.ui.vercel_ai").VercelAIAdapter
WORD = "word "
_numbers = count()


def _define(make: Callable[[int], Any]) -> Work:
    def one() -> None:
        ai.Tool(make(next(_numbers))).tool_def  # noqa: B018  # it builds the JSON Schema

    return repeated(one)


def _scalars(number: int) -> Any:
    def tool(city: str, days: int, metric: bool) -> str:
        """Weather forecast for a city."""
        return ""

    tool.__name__ = f"forecast_{number}"
    return tool


def _nested(number: int) -> Any:
    def tool(order: Order, dry_run: bool) -> str:
        """Submit an order."""
        return ""

    tool.__name__ = f"submit_{number}"
    return tool


async def _manager() -> Any:
    tools = {"forecast": forecast_dict, "submit": submit_dict, "echo": echo_dict}
    toolset = import_module("pydantic_ai.toolsets").FunctionToolset(
        [ai.Tool(function, name=name) for name, function in tools.items()], max_retries=1
    )
    usage = import_module("pydantic_ai.usage").RunUsage()
    model = import_module("pydantic_ai.models.test").TestModel()
    context = ai.RunContext(deps=None, model=model, usage=usage)
    return await import_module("pydantic_ai.tool_manager").ToolManager(toolset).for_run_step(context)


def _calls(name: str, text: str) -> Work:
    manager = in_loop(_manager())

    async def call() -> str:
        try:
            result = await manager.handle_call(messages.ToolCallPart(name, text, "c1"))
            return str(messages.ToolReturnPart(name, result, "c1").model_response_str())
        except retry_error as error:
            return str(error.tool_retry.model_response_str())

    return awaited(call)


def _words(number: int) -> Any:
    async def stream(_: Any, __: Any) -> AsyncIterator[str]:
        for _ in range(number):
            yield WORD

    return ai.Agent(function_model(stream_function=stream))


def _app(words: int) -> Any:
    starlette: Any = import_module("starlette.applications")
    routing: Any = import_module("starlette.routing")
    agent = _words(words)

    async def answer(request: Any) -> Any:
        return await adapter.dispatch_request(request, agent=agent)

    return starlette.Starlette(routes=[routing.Route("/api/chat", answer, methods=["POST"])])


def _first_chunk() -> Work:
    app = _app(3)
    return awaited(lambda: inputs.Exchange(app, inputs.ui_body(next(_numbers))).read_first())


def _deltas() -> Work:
    app = _app(1000)
    return awaited(lambda: inputs.Exchange(app, inputs.ui_body(next(_numbers))).read())


if __name__ == "__main__":
    serve(
        {
            "define": lambda: _define(_scalars),
            "define nested": lambda: _define(_nested),
            "call nested": lambda: _calls("submit", inputs.NESTED),
            "echo nested": lambda: _calls("echo", inputs.NESTED),
            "bad nested": lambda: _calls("submit", inputs.NESTED_BAD),
            "first chunk": _first_chunk,
            "1,000 deltas": _deltas,
        }
    )
