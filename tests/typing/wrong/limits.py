"""Limits and prices that do not fit."""

from __future__ import annotations

from decimal import Decimal

from fxai import Layer, fx
from fxai.models import Limit, Price, PriceTable, limit
from tests.typing.desk import AGENT, MODEL, Database, rows

limited = limit(MODEL, Limit.per_minute("a", requests=3))

limit(MODEL, 3)  # wrong: a number is not a limit
limit(AGENT, Limit.per_minute("a", requests=3))  # wrong: an agent is not a layer
limit(MODEL, Limit.per_minute("a", request=3))  # wrong: a misspelt argument
limit(MODEL, Limit.per_minute("a", requests="3"))  # wrong: a number
limit(MODEL, Limit.budget("a", money=0.5))  # wrong: no float, since money is exact
limit(MODEL, unknown="maybe")  # wrong: no such rule
limit(MODEL, prices={"gpt": 3})  # wrong: a table of prices
limit(MODEL, patience="long")  # wrong: seconds are a number
Limit.per_minute(requests=3)  # wrong: no name
Price.per_million(1.5, 2.5)  # wrong: no float, since money is exact
Price.per_million("1")  # wrong: the price of the output is missing
PriceTable("USD", {"gpt": "1"})  # wrong: a string is not a price
fx.run(rows(1).provide(limited))  # wrong: a model is not a database
other: Layer[Database] = limited  # wrong: a model is not a database
cost: Decimal = Price.per_million("1", "2").cost(3)  # wrong: a usage
