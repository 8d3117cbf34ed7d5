"""Serve the tools of a shop as an MCP server, and use them with an agent as an MCP client.

The server is this file as a program. The agent starts it for a run, and it ends with the run. The server requires
approval for `order`, and the client asks the user. Install the extra `mcp`, and run
`python examples/90_mcp_both_sides.py`.
"""

from __future__ import annotations

import sys

import msgspec

from fxai import Agent, BoundToolkit, Gen, Layer, Tag, Tool, Toolkit, fx, mcp, tool
from fxai.annotations import Readonly, Title
from fxai.testing import ScriptedModel, call, text


class Stock(Tag[dict[str, int]]):
    """The number of pieces of each item."""


class Item(msgspec.Struct, frozen=True):
    """An item of the shop."""

    name: str


class SoldOut(msgspec.Struct, frozen=True, tag_field="type", tag="sold-out"):
    """The item is sold out. `left` lists the other items."""

    left: tuple[str, ...]


class Shelf(msgspec.Struct, frozen=True):
    """The number of pieces of an item."""

    name: str
    pieces: int


look = (
    Tool.make("look", description="Says how much of an item there is.", parameters=Item, success=Shelf, failure=SoldOut)
    .annotate(Title, "Look on the shelf")
    .annotate(Readonly, True)
)


@fx.gen
def on_look(item: Item) -> Gen[Shelf, SoldOut, Stock]:
    """Return the number of pieces on the shelf."""
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
    """Serve the tools on standard input and output. A layer supplies the service of the handlers."""
    looks = BoundToolkit.of(Toolkit.make(look), look.handler(on_look))
    shop = looks.merge(BoundToolkit.make(order))
    fx.run(mcp.serve_stdio(shop, name="shop", version="1.0").provide(Layer.succeed(Stock, {"tea": 3, "mugs": 40})))


def answer(question: mcp.Elicitation) -> mcp.ElicitAnswer:
    """Answer the server's question on behalf of the user."""
    print(f"Asked: {question.message}")
    return mcp.ElicitAnswer("accept", {"approve": True})


def main() -> None:
    """Run an agent with the server in this file."""
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
