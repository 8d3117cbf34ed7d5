"""Run the price desk of `46_price_desk.py` in the OpenAI Agents SDK."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agents import (
    Agent,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    ToolCallOutputItem,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


@dataclass
class Prices:
    """The prices of a shop in cents."""

    cents: dict[str, int]


class NoPrice(Exception):
    """The shop does not sell this item."""


def tell_failure(_: RunContextWrapper[Any], error: Exception) -> str:
    """Return the text for the model if the tool fails."""
    if isinstance(error, NoPrice):
        return f"no price for {error}"
    raise error


@function_tool(failure_error_function=tell_failure)
def look_up(ctx: RunContextWrapper[Prices], item: str) -> int:
    """Returns the price of an item in cents."""
    if item not in ctx.context.cents:
        raise NoPrice(item)
    return ctx.context.cents[item]


desk = Agent[Prices](name="desk", instructions="Answer questions about prices.", tools=[look_up])


def calls(*items: str) -> list[Any]:
    """Return a turn with calls."""
    return [
        ResponseFunctionToolCall(
            type="function_call", name="look_up", call_id=item, arguments=json.dumps({"item": item})
        )
        for item in items
    ]


def text(words: str) -> list[Any]:
    """Return a turn with text."""
    content = ResponseOutputText(type="output_text", text=words, annotations=[])
    return [ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[content])]


class Scripted(Model):
    """A model that plays a script."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns = list(turns)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: ARG002
        """Return the next turn of the script."""
        return ModelResponse(self.turns.pop(0), Usage(), None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to stream."""
        raise NotImplementedError


def main() -> None:
    """Ask two questions in one conversation."""
    set_tracing_disabled(True)
    script = Scripted(
        calls("tea", "milk"), text("Tea costs 250 cents. We have no milk."), text("Two teas cost 500 cents.")
    )
    config, prices, session = RunConfig(model=script), Prices({"tea": 250}), SQLiteSession("1")
    first = Runner.run_sync(desk, "What do tea and milk cost?", context=prices, session=session, run_config=config)
    outputs = [item.output for item in first.new_items if isinstance(item, ToolCallOutputItem)]
    print("results:", *outputs, sep="\n  ")
    print("answer:", first.final_output)
    second = Runner.run_sync(desk, "And two teas?", context=prices, session=session, run_config=config)
    print("answer:", second.final_output)


if __name__ == "__main__":
    main()
