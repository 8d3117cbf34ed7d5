"""Run the price desk of `46_price_desk.py` in pydantic-ai."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart, ToolFailed
from pydantic_ai.models.function import AgentInfo, FunctionModel


@dataclass
class Prices:
    """The prices of a shop in cents."""

    cents: dict[str, int]


desk = Agent(deps_type=Prices, instructions="Answer questions about prices.")


@desk.tool
async def look_up(ctx: RunContext[Prices], item: str) -> int:
    """Returns the price of an item in cents."""
    if item not in ctx.deps.cents:
        raise ToolFailed(f"no price for {item}")
    return ctx.deps.cents[item]


TURNS = [
    ModelResponse([ToolCallPart("look_up", {"item": "tea"}), ToolCallPart("look_up", {"item": "milk"})]),
    ModelResponse([TextPart("Tea costs 250 cents. We have no milk.")]),
    ModelResponse([TextPart("Two teas cost 500 cents.")]),
]


def play(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    """Return the next turn of the script."""
    return TURNS.pop(0)


def main() -> None:
    """Ask two questions in one conversation."""
    model, prices = FunctionModel(play), Prices({"tea": 250})
    first = desk.run_sync("What do tea and milk cost?", deps=prices, model=model)
    returned = [part for message in first.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    print("results:", *(part.content for part in returned), sep="\n  ")
    print("answer:", first.output)
    second = desk.run_sync("And two teas?", deps=prices, model=model, message_history=first.all_messages())
    print("answer:", second.output)


if __name__ == "__main__":
    main()
