"""Create tools from functions and from the methods of an object. Signatures and docstrings define the tools.

Run `python examples/40_tools_from_functions.py`. It needs no network and no key, because the model is scripted.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, BoundToolkit, Toolkit, fx, tool
from fxai.annotations import Readonly
from fxai.testing import ScriptedModel, call, text

# The decorator adds a tool to a function. You can still call the function: `price(3, "tea")`.

PRICES = {"tea": 250, "coffee": 320}


class SoldOut(msgspec.Struct, frozen=True):
    """The drink is sold out. `left` lists the other drinks."""

    left: tuple[str, ...]


@tool(failure_mode="return", annotations={Readonly: True})
def price(
    count: Annotated[int, msgspec.Meta(ge=1)], drink: str, currency: Literal["EUR", "NOK"] = "EUR"
) -> Result[float, SoldOut]:
    """Tells what some drinks cost.

    Args:
        count: How many.
        drink: Which drink.
        currency: What to pay in.
    """
    if drink not in PRICES:
        return Failure(SoldOut(tuple(PRICES)))
    return Success(count * PRICES[drink] / 100 * (1 if currency == "EUR" else 11.5))


print("Called from here:  ", price(3, "tea"))
print("The model is told: ", price.tool.json_schema()["properties"]["count"])

# The public methods of an object with a docstring also become tools.


class Tab:
    """The orders of a guest."""

    def __init__(self, guest: str) -> None:
        """Start without orders."""
        self.guest = guest
        self.orders: list[str] = []

    def order(self, drink: str, count: int = 1) -> int:
        """Writes down an order, and tells how many drinks are on the tab."""
        self.orders += [drink] * count
        return len(self.orders)

    async def read(self) -> list[str]:
        """Reads the tab."""
        return self.orders

    def settle(self) -> None:
        """Forgets the tab."""
        self.orders.clear()


tab = Tab("Ann")
tools = BoundToolkit.make(price, Toolkit.from_object(tab, only=["order", "read"]))
print("Tools:             ", ", ".join(tools.toolkit.tools))

# A bound toolkit combines tools and handlers. The agent receives the toolkit, and the program receives the layer.

model = ScriptedModel.make(
    [
        call("price", {"count": 2, "drink": "cocoa"}),
        call("price", {"count": 2, "drink": "tea"}),
        call("Tab.order", {"drink": "tea", "count": 2}),
        text("Two teas are on your tab: 5 euros."),
    ]
)
agent = Agent.make("waiter", instructions="Take orders.", toolkit=tools.toolkit)
answer = fx.run(agent.execute("Two cocoas, or teas.").provide(tools.layer).provide(model.layer))

for step in answer.steps:
    for result in step.response.tool_results:
        print(f"Turn {step.number}:", result.name, "failed with" if result.is_failure else "gave", result.result)
print("Answer:", answer.text)
print("On the tab:", tab.orders)
