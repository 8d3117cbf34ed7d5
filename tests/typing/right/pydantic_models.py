"""Models of pydantic are types: a tool, a schema and an agent know the model that they were given."""

from __future__ import annotations

from typing import Annotated, Any, Never, assert_type

import msgspec
from pydantic import BaseModel, Field, RootModel
from returns.result import Failure, Result, Success

from fxai import tool
from fxai.effects import Effect
from fxai.schema import DecodeFailure, Schema
from fxai.tools import Tool, Toolkit


class Item(BaseModel):
    """A line of an order."""

    sku: str
    quantity: Annotated[int, Field(gt=0)]


class Names(RootModel[list[str]]):
    """A list in JSON."""


class Refused(BaseModel):
    """A failure."""

    why: str


class Record(msgspec.Struct):
    """A struct that contains a model."""

    item: Item


ITEMS = Schema.of(Item)
assert_type(ITEMS, Schema[Item])
assert_type(ITEMS.decode({}), Result[Item, DecodeFailure])
assert_type(ITEMS.encode(Item(sku="a", quantity=1)), Result[Any, DecodeFailure])
assert_type(Schema.of(Names).decode_unsafe([]), Names)
assert_type(Schema.of(list[Item]), Schema[list[Item]])
assert_type(Schema.of(Item | None), Schema[Item | None])
assert_type(Schema.of(Record).decode_unsafe({}).item, Item)

order = Tool.make("order", parameters=Item, success=Names, failure=Refused)
assert_type(order, Tool[Item, Names, Refused])
kit = Toolkit.make(order)


def on_order(item: Item) -> Result[Names, Refused]:
    """Answer a call."""
    return Success(Names([item.sku])) if item.quantity < 9 else Failure(Refused(why="too many"))


live = kit.to_layer(order.handler(on_order))
assert_type(order.call(Item(sku="a", quantity=1)).provide(live), Effect[Names, Refused])


@tool
def count(items: list[Item], least: Annotated[int, Field(gt=0)] = 1) -> int:
    """Count pieces."""
    return sum(item.quantity for item in items if item.quantity >= least)


assert_type(count([], 2), int)
only: Tool[Any, int, Never] = count.tool
