"""Answer questions about prices with one tool, one service, one failure, and a conversation.

The files `beside/price_desk_*` are the same program in other libraries. Run `python examples/46_price_desk.py`.
"""

from __future__ import annotations

from fxai import Agent, Gen, LanguageModel, Layer, RunError, Service, fx, tool
from fxai.testing import ScriptedModel, call, text


class Prices(Service):
    """The prices of a shop in cents."""

    def __init__(self, cents: dict[str, int]) -> None:
        self.cents = cents


@tool(failure_mode="return")
def look_up(item: str) -> Gen[int, str, Prices]:
    """Returns the price of an item in cents."""
    prices = yield from Prices
    return (yield from fx.some(prices.cents.get(item), f"no price for {item}"))


desk = Agent.make("desk", instructions="Answer questions about prices.").with_tools(look_up)


@fx.gen
def serve() -> Gen[None, RunError, Prices | LanguageModel]:
    """Ask two questions in one conversation."""
    first = yield from desk.execute("What do tea and milk cost?")
    print("results:", *(result.encoded_result for result in first.steps[0].results), sep="\n  ")
    print("answer:", first.text)
    second = yield from desk.execute(first.history.concat("And two teas?"))
    print("answer:", second.text)


if __name__ == "__main__":
    model = ScriptedModel.make(
        [
            [call("look_up", {"item": "tea"}), call("look_up", {"item": "milk"})],
            text("Tea costs 250 cents. We have no milk."),
            text("Two teas cost 500 cents."),
        ]
    )
    fx.run(serve().provide(Layer.succeed(Prices, Prices({"tea": 250})) | model.layer))
