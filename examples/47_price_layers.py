"""Compose a program with services, layers, tagged errors, and a tool.

`beside/price_layers_effect.mts` is the same program in Effect. Run `python examples/47_price_layers.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Never

import msgspec
from typing_extensions import override

from fxai import Effect, Gen, HandlerOf, Layer, Schedule, Scope, Service, Tool, ToolError, Toolkit, fx


class NoPrice(msgspec.Struct, frozen=True, tag=True):
    """The shop does not sell this item."""

    item: str


class Prices(Service):
    """The prices of a shop."""

    @abstractmethod
    def cents(self, item: str) -> Effect[int, NoPrice]:
        """Return the price of an item."""


class Listed(Prices):
    """Prices in a table."""

    def __init__(self, table: dict[str, int]) -> None:
        self.table = table

    @override
    def cents(self, item: str) -> Effect[int, NoPrice]:
        return fx.some(self.table.get(item), NoPrice(item))


@fx.gen
def open_table(table: dict[str, int]) -> Gen[Prices, Never, Scope]:
    """Return the prices. The table closes with the scope."""
    yield from fx.acquire_release(fx.sync(lambda: print("open")), lambda _: fx.sync(lambda: print("close")))
    return Listed(table)


@fx.gen
def total(*items: str) -> Gen[int, NoPrice, Prices]:
    """Return the sum of the prices."""
    prices = yield from Prices
    return sum((yield from fx.for_each(items, prices.cents, concurrency=2)))


class Item(msgspec.Struct, frozen=True):
    """The parameters of the tool."""

    item: str


look_up = Tool.make(
    "look_up",
    description="Returns the price of an item in cents.",
    parameters=Item,
    success=int,
    failure=str,
    failure_mode="return",
)
kit = Toolkit.make(look_up)


def on_look_up(given: Item) -> Gen[int, str, Prices]:
    """Answer a call of the tool."""
    prices = yield from Prices
    return (yield from prices.cents(given.item).map_error(lambda error: f"no price for {error.item}"))


handlers = kit.to_layer(look_up.handler(on_look_up))


@fx.gen
def program() -> Gen[None, NoPrice | ToolError, Prices | HandlerOf[Item, int, str]]:
    """Use the service, handle its failure, retry, and call the tool."""
    print("total:", (yield from total("tea", "tea")))
    lost = total("tea", "milk").map(str).catch_all(lambda error: fx.succeed(f"no price for {error.item}"))
    print((yield from lost))
    print("retried:", (yield from total("cup").retry(Schedule.recurs(2)).or_else(fx.succeed(0))))
    for item in ("tea", "milk"):
        outcome = yield from kit.call("look_up", {"item": item})
        print("tool:", outcome.encoded_result)


if __name__ == "__main__":
    live = handlers.provide_merge(Layer.scoped(Prices, open_table({"tea": 250})))
    fx.run(program().provide(live))
