"""One tool: what goes in, what comes out, what can go wrong; then the code behind it; then a model that calls it.

Run it: `python examples/10_one_tool.py`. It needs no network and no key: the model is a script.
"""

from __future__ import annotations

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.annotations import Readonly
from fxai.testing import ScriptedModel, call, text

# A tool is a value. Its types are ordinary types, and what can go wrong is one of them.


class Recipe(msgspec.Struct, frozen=True):
    """A dish, and for how many people."""

    dish: str
    people: int = 2


class Shopping(msgspec.Struct, frozen=True):
    """What to buy, in grams."""

    items: dict[str, int]


class UnknownDish(msgspec.Struct, frozen=True):
    """Nobody knows how to cook this; these are known."""

    dish: str
    known: tuple[str, ...]


shopping_list = Tool.make(
    "shopping_list",
    description="What to buy for a dish, in grams.",
    parameters=Recipe,
    success=Shopping,
    failure=UnknownDish,
    failure_mode="return",  # the model reads this failure and may try again; "error" would end the run with it
).annotate(Readonly, True)

kit = Toolkit.make(shopping_list)
print("The model is told:", shopping_list.json_schema()["properties"])

# A handler is a function. Its return type says the same as the tool: another success or failure is a type error.

PANTRY = {"pasta": {"spaghetti": 125, "tomatoes": 200}, "risotto": {"rice": 90, "mushrooms": 150}}


def on_shopping_list(recipe: Recipe) -> Result[Shopping, UnknownDish]:
    """Looks it up."""
    if recipe.dish not in PANTRY:
        return Failure(UnknownDish(recipe.dish, tuple(PANTRY)))
    return Success(Shopping({item: grams * recipe.people for item, grams in PANTRY[recipe.dish].items()}))


handlers = kit.to_layer(shopping_list.handler(on_shopping_list))

# A call is a program: nothing happens until it is run, and it does not run without its handler.

bought = fx.run(kit.call("shopping_list", {"dish": "pasta", "people": 4}).provide(handlers))
print("Called with JSON:", bought.result)

wrong = fx.run(kit.call("shopping_list", {"dish": "pasta", "people": "four"}).provide(handlers))
print("Called wrongly:  ", wrong.result)

typed = fx.run_result(shopping_list.call(Recipe("soup")).provide(handlers))
print("Called from here:", typed.failure())

# An agent is a model that is asked until it calls no more tools. This one reads the failure, and corrects itself.

model = ScriptedModel.make(
    [
        call("shopping_list", {"dish": "spaghetti"}),
        call("shopping_list", {"dish": "pasta"}),
        text("Buy 250 g of spaghetti and 400 g of tomatoes."),
    ]
)
agent = Agent.make("cook", instructions="Help with the shopping.", toolkit=kit)
answer = fx.run(agent.execute("What do I need for spaghetti for two?").provide(handlers).provide(model.layer))

for step in answer.steps:
    for result in step.response.tool_results:
        print(f"Turn {step.number}:", "failed with" if result.is_failure else "got", result.result)
print("Answer:", answer.text)
