"""The types of the works as pydantic models, and the handlers, for the contenders that are made for pydantic."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter

__all__ = [
    "Address",
    "Item",
    "Order",
    "echo_dict",
    "echo_json",
    "forecast_dict",
    "forecast_json",
    "plain_forecast_dict",
    "plain_forecast_json",
    "submit_dict",
    "submit_json",
]


class Address(BaseModel):
    """The destination of an order."""

    street: str
    city: str
    zip: str
    country: str


class Item(BaseModel):
    """A line of an order, with twenty fields."""

    sku: str
    name: str
    quantity: int
    unit_price: float
    currency: str
    taxable: bool
    tax_rate: float
    discount: float
    weight_kg: float
    length_cm: float
    width_cm: float
    height_cm: float
    color: str
    size: str
    brand: str
    category: str
    tags: list[str]
    warehouse_id: int
    notes: str | None = None
    gift: bool = False


class Order(BaseModel):
    """An order of many lines."""

    order_id: str
    customer: str
    address: Address
    items: list[Item]


_items = TypeAdapter(list[Item])


def plain_forecast_dict(city: str, days: int, metric: bool) -> dict[str, Any]:
    """Weather forecast for a city."""
    return {"city": city, "days": days, "ok": metric}


async def forecast_dict(city: str, days: int, metric: bool) -> dict[str, Any]:
    """Weather forecast for a city."""
    return {"city": city, "days": days, "ok": metric}


async def submit_dict(order: Order, dry_run: bool) -> dict[str, Any]:
    """Submit an order."""
    return {"order_id": order.order_id, "n": len(order.items), "first": order.items[0].sku}


async def echo_dict(order: Order, dry_run: bool) -> list[Item]:
    """Return the items of an order."""
    return order.items


def plain_forecast_json(city: str, days: int, metric: bool) -> str:
    """Weather forecast for a city."""
    return json.dumps({"city": city, "days": days, "ok": metric})


async def forecast_json(city: str, days: int, metric: bool) -> str:
    """Weather forecast for a city."""
    return json.dumps({"city": city, "days": days, "ok": metric})


async def submit_json(order: Order, dry_run: bool) -> str:
    """Submit an order."""
    return json.dumps({"order_id": order.order_id, "n": len(order.items), "first": order.items[0].sku})


async def echo_json(order: Order, dry_run: bool) -> str:
    """Return the items of an order."""
    return _items.dump_json(order.items).decode()
