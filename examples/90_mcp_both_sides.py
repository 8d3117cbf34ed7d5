"""MCP on both sides: a shop's tools as a server, and an agent that uses them as a client would from anywhere.

The server is this file, started as a program; the agent starts it for its run, and it ends with the run. One of the
tools needs approval: whoever serves decides that, and the person at the client is asked.
Run it: `python examples/90_mcp_both_sides.py` (it needs the extra `mcp`).
"""

from __future__ import annotations

import sys

import msgspec

from fxai import Agent, BoundToolkit, Gen, Layer, Tag, Tool, Toolkit, fx, mcp, tool
from fxai.annotations import Readonly, Title
from fxai.testing import ScriptedModel, call, text


class Stock(Tag[dict[str, int]]):
    """What is on the shelves."""


class Item(msgspec.Struct, frozen=True):
    """Something of the shop's."""

    name: str


class SoldOut(msgspec.Struct, frozen=True, tag_field="type", tag="sold-out"):
    """There is none left."""

    left: tuple[str, ...]


class Shelf(msgspec.Struct, frozen=True):
    """What there is of an item."""

    name: str
    pieces: int


look = (
    Tool.make("look", description="Says how much of an item there is.", parameters=Item, success=Shelf, failure=SoldOut)
    .annotate(Title, "Look on the shelf")
    .annotate(Readonly, True)
)


@fx.gen
def on_look(item: Item) -> Gen[Shelf, SoldOut, Stock]:
    """What is on the shelf."""
    stock = yield from fx.service(Stock)
    pieces = stock.get(item.name, 0)
    if not pieces:
        return (yield from fx.fail(SoldOut(tuple(stock))))
    return Shelf(item.name, pieces)


@tool(needs_approval=True)
def order(name: str, pieces: int) -> str:
    """Orders more of an item."""
    return f"{pieces} of {name} are on their way"


def serve() -> None:
    """Serves the tools on standard input and output; the handlers' service comes from a layer, built once."""
    looks = BoundToolkit.of(Toolkit.make(look), look.handler(on_look))
    shop = looks.merge(BoundToolkit.make(order))
    fx.run(mcp.serve_stdio(shop, name="shop", version="1.0").provide(Layer.succeed(Stock, {"tea": 3, "mugs": 40})))


def answer(question: mcp.Elicitation) -> mcp.ElicitAnswer:
    """What the person says, asked by the server through the client."""
    print(f"Asked: {question.message}")
    return mcp.ElicitAnswer("accept", {"approve": True})


def main() -> None:
    """An agent with the server of this file, for one run."""
    shop = mcp.stdio(sys.executable, __file__, "serve", name="shop", elicit=answer).prefix("shop_")
    script = [
        call("shop_look", {"name": "tea"}),
        call("shop_look", {"name": "cake"}),
        call("shop_order", {"name": "tea", "pieces": 9}),
        text("There are 3 packs of tea and no cake; more tea is on its way."),
    ]
    model = ScriptedModel.make(script)
    done = fx.run(Agent.make("clerk").with_tools(shop).execute("What is there?").provide(model.layer))
    for result in (result for step in done.steps for result in step.results):
        print(f"{result.name} {'failed with' if result.is_failure else 'gave'} {result.encoded_result}")
    print(f"Answer: {done.text}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
