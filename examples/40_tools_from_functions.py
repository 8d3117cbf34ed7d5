"""Tools from functions and objects: signatures and docstrings say what the tools are; a model calls them.

Run it: `python examples/40_tools_from_functions.py`. It needs no network and no key: the model is a script.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, BoundToolkit, Toolkit, fx, tool
from fxai.annotations import Readonly
from fxai.testing import ScriptedModel, call, text

# A function is a tool. It stays a function: `price(3, "tea")` works as ever.

PRICES = {"tea": 250, "coffee": 320}


class SoldOut(msgspec.Struct, frozen=True):
    """There is none left; these are."""

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

# So is what an object can do: each public method that has a docstring.


class Tab:
    """What somebody has ordered."""

    def __init__(self, guest: str) -> None:
        """Begin with nothing ordered."""
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

# Together they are a toolkit with its layer. An agent takes the one, a program is provided the other.

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
