"""What the checkers infer of limits and prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Never, assert_type

from fxai import Usage
from fxai.effects import LayerOf
from fxai.models import LanguageModel, Limit, Price, PriceTable, limit
from tests.typing.desk import MODEL

price = Price.per_million("1.25", "10", cached_input=Decimal("0.125"))
assert_type(price, Price)
assert_type(price.cost(Usage()), Decimal | None)
table = PriceTable("USD", {"gpt": price})
limited = limit(MODEL, Limit.per_minute("a", requests=3), Limit.budget("b", money="0.5"), prices=table)
assert_type(limited, LayerOf[LanguageModel, Never, None])
assert_type(Limit.per_minute("a", tokens=3), Limit)
