"""A handler, a value or a schema of another type than the model."""

from __future__ import annotations

from typing import Never

from pydantic import BaseModel
from returns.result import Result, Success

from fxai.schema import Schema
from fxai.tools import Tool


class Item(BaseModel):
    """A line of an order."""

    sku: str


class Receipt(BaseModel):
    """A result."""

    total: int


order = Tool.make("order", parameters=Item, success=Receipt)


def takes_dict(item: dict[str, str]) -> Result[Receipt, Never]:
    """Accept what no model is."""
    return Success(Receipt(total=len(item)))


def gives_item(item: Item) -> Result[Item, Never]:
    """Return another model."""
    return Success(item)


order.handler(takes_dict)  # wrong: the handler receives an Item
order.handler(gives_item)  # wrong: the success is a Receipt
order.call({"sku": "a"})  # wrong: an Item
Schema.of(Item).encode(Receipt(total=1))  # wrong: not an Item
others: Schema[Receipt] = Schema.of(Item)  # wrong: another model
total: int = Schema.of(Receipt).decode_unsafe({})  # wrong: a Receipt
