"""Answer letters to a bakery with a stateful prompt and a real local model.

The model first sorts a letter and then receives only the tools for its kind. The model has 270 million parameters, so
it can choose among few tools. The reply contains the results of the tools, not the model's text. Install the extra
`local`, and run `python examples/96_tools_by_mode.py`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fxai import Agent, Effect, Example, Gen, LanguageModel, RunError, Tool, fx
from fxai.agents import has_tool_call
from fxai.agents.stateful import PromptState, Render, RenderFailed, StatefulPrompt
from fxai.providers import local

LETTERS = (
    "My order 4711 did not come today.",
    "The bread was burnt! I want my money back.",
    "When do you open on Sunday?",
    "What is the price of a cake?",
    "Is there any news of order 12?",
)
ORDERS = {4711: "two loaves", 5: "a cake"}
PRICES = {"bread": 4, "cake": 12, "coffee": 2}
HOURS = {"Saturday": "8 to 12", "Sunday": "9 to 11"}


class Kind(msgspec.Struct, frozen=True):
    """What a letter is about."""

    kind: Literal["order", "complaint", "question"]


class Order(msgspec.Struct, frozen=True):
    """Which order."""

    number: int


class Item(msgspec.Struct, frozen=True):
    """Which item."""

    item: Literal["bread", "cake", "coffee"]


class Day(msgspec.Struct, frozen=True):
    """Which day."""

    day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


sort = Tool.make(
    "sort_letter",
    description="Sorts a letter: is it about an order, a complaint, or a question?",
    parameters=Kind,
    success=str,
    input_examples=[
        Example("My order number 52 has not arrived.", {"kind": "order"}),
        Example("The coffee was cold and I am angry.", {"kind": "complaint"}),
        Example("Are you open on Monday?", {"kind": "question"}),
        Example("Where is order 8?", {"kind": "order"}),
        Example("What does a coffee cost?", {"kind": "question"}),
        Example("The cake was stale. I want my money back.", {"kind": "complaint"}),
        Example("At what time do you open on Friday?", {"kind": "question"}),
    ],
)
find_order = Tool.make(
    "find_order",
    description="Finds an order by its number.",
    parameters=Order,
    success=str,
    input_examples=[
        Example("My order number 52 has not arrived.", {"number": 52}),
        Example("Where is order 8?", {"number": 8}),
    ],
)
refund = Tool.make(
    "refund",
    description="Gives the money back for something.",
    parameters=Item,
    success=str,
    input_examples=[
        Example("The coffee was cold and I am angry.", {"item": "coffee"}),
        Example("The cake was stale. I want my money back.", {"item": "cake"}),
    ],
)
opening_hours = Tool.make(
    "opening_hours",
    description="Says when the bakery is open.",
    parameters=Day,
    success=str,
    input_examples=[
        Example("Are you open on Monday?", {"day": "Monday"}),
        Example("At what time do you open on Friday?", {"day": "Friday"}),
    ],
)
price = Tool.make(
    "price",
    description="Says what something costs.",
    parameters=Item,
    success=str,
    input_examples=[
        Example("What does a coffee cost?", {"item": "coffee"}),
        Example("How much is bread?", {"item": "bread"}),
    ],
)


def post(at: Render) -> None:
    """Define the tools for a letter. The mode selects the tools, and each tool sets the next mode."""
    mode = at.state("mode", "sort")
    sent = at.state("sent", list[str]())

    def reply(text: str) -> Effect[str]:
        return sent.update(lambda texts: [*texts, text]).and_then(mode.set("sort")).as_(text)

    at.system("desk", f"You work at the post desk of a bakery. Mode: {mode.value}.")
    if mode.value == "sort":
        at.tool(sort, lambda letter: mode.set(letter.kind).as_(letter.kind))
    elif mode.value == "order":
        at.tool(find_order, lambda order: reply(f"Your order: {ORDERS.get(order.number, 'we cannot find it')}."))
    elif mode.value == "complaint":
        at.tool(refund, lambda asked: reply(f"We are sorry. You get the money for the {asked.item} back."))
    else:
        at.tool(opening_hours, lambda asked: reply(f"{asked.day}: {HOURS.get(asked.day, 'closed')}."))
        at.tool(price, lambda asked: reply(f"One {asked.item} is {PRICES[asked.item]} euros."))


# The model must call a tool of the mode. A letter is finished when a tool of its kind has answered it.

desk = Agent.make(
    "post",
    prompt=StatefulPrompt.make("post", post),
    prepare_step=lambda setup: setup.with_choice("required"),
    stop_when=has_tool_call("find_order", "refund", "opening_hours", "price"),
)


@fx.gen
def main() -> Gen[None, RunError | RenderFailed, LanguageModel]:
    """Answer all letters in order. Each run continues from the state of the run before."""
    state = PromptState()
    for letter in LETTERS:
        print(letter)
        answer = yield from desk.execute(letter, state=state)
        for step in answer.steps:
            called = ", ".join(f"{call.name} {call.params}" for call in step.calls)
            mode = step.record.before.values["mode"]
            print(f"  mode {mode}, tools {' '.join(step.record.tools)}; called {called}")
        assert answer.state is not None
        state = answer.state
        print(f"  -> {state.values['sent'][-1]}")
    print(f"Sent: {len(state.values['sent'])}. Mode: {state.values['mode']}.")


if __name__ == "__main__":
    fx.run(main().provide(local.layer()))
