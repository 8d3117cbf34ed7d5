"""Define one tool, write its handler, call it, and let a model call it.

Run `python examples/10_one_tool.py`. It needs no network and no key, because the model is scripted.
"""

from __future__ import annotations

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.annotations import Readonly
from fxai.testing import ScriptedModel, call, text

# A tool is an immutable value with ordinary types. The failure is one of these types.


class Recipe(msgspec.Struct, frozen=True):
    """A dish and a number of people."""

    dish: str
    people: int = 2


class Shopping(msgspec.Struct, frozen=True):
    """The items to buy, in grams."""

    items: dict[str, int]


class UnknownDish(msgspec.Struct, frozen=True):
    """No recipe exists for this dish. `known` lists the dishes with a recipe."""

    dish: str
    known: tuple[str, ...]


shopping_list = Tool.make(
    "shopping_list",
    description="What to buy for a dish, in grams.",
    parameters=Recipe,
    success=Shopping,
    failure=UnknownDish,
    failure_mode="return",  # the model reads this failure and can try again; "error" would end the run
).annotate(Readonly, True)

kit = Toolkit.make(shopping_list)
print("The model is told:", shopping_list.json_schema()["properties"])

# A handler is a function. Its return type must match the tool. Otherwise, type checkers report an error.

PANTRY = {"pasta": {"spaghetti": 125, "tomatoes": 200}, "risotto": {"rice": 90, "mushrooms": 150}}


def on_shopping_list(recipe: Recipe) -> Result[Shopping, UnknownDish]:
    """Look up the items of a dish."""
    if recipe.dish not in PANTRY:
        return Failure(UnknownDish(recipe.dish, tuple(PANTRY)))
    return Success(Shopping({item: grams * recipe.people for item, grams in PANTRY[recipe.dish].items()}))


handlers = kit.to_layer(shopping_list.handler(on_shopping_list))

# A call is a program. fxai runs it only in `fx.run`, and only with its handler.

bought = fx.run(kit.call("shopping_list", {"dish": "pasta", "people": 4}).provide(handlers))
print("Called with JSON:", bought.result)

wrong = fx.run(kit.call("shopping_list", {"dish": "pasta", "people": "four"}).provide(handlers))
print("Called wrongly:  ", wrong.result)

typed = fx.run_result(shopping_list.call(Recipe("soup")).provide(handlers))
print("Called from here:", typed.failure())

# An agent calls a model until the model answers without a tool call. This model reads the failure and calls again.

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
