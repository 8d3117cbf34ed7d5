"""Prices: what models cost, as the program says. The package knows no price: providers change them.

>>> from fxai.messages.part import Usage
>>> table = PriceTable("USD", {"openai:gpt-5": Price.per_million("1.25", "10", cached_input="0.125")})
>>> table.cost(ModelInfo("openai", "gpt-5"), Usage(input_tokens=2000, output_tokens=100, cached_input_tokens=1000))
Decimal('0.002375')
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, final

import msgspec

from fxai.messages.part import Usage
from fxai.models.model_info import ModelInfo

_MILLION: Final = 1_000_000
_PLACES: Final = 12  # of a price per million; a price for a token then has eighteen


def amount_of(given: object, what: str) -> Decimal:
    """An amount of money, or a price, that somebody wrote: a text, an integer or a `Decimal`.

    Raises:
        TypeError: it is a `float`, which cannot say most amounts, or no number at all.
        ValueError: it is negative, infinite or finer than 12 decimal places.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | Decimal):
        raise TypeError(f"{what} is {given!r}: write it as a text, such as '0.15', as an integer or as a Decimal")
    try:
        amount = Decimal(given)
    except InvalidOperation:
        raise ValueError(f"{what} is {given!r}, which is no number") from None
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or amount < 0 or exponent < -_PLACES or amount.adjusted() > _PLACES:
        raise ValueError(f"{what} is {given}: it must be at least 0, below 10^13, and have at most 12 decimal places")
    return amount


@final
class Price(msgspec.Struct, frozen=True):
    """What a model costs, each per million tokens. `Price.per_million` makes one."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    """Of input tokens that were read from the provider's cache."""
    cache_write: Decimal
    """Of input tokens that were written to it."""

    @staticmethod
    def per_million(
        input: str | int | Decimal,  # as providers call it
        output: str | int | Decimal,
        *,
        cached_input: str | int | Decimal | None = None,
        cache_write: str | int | Decimal | None = None,
    ) -> Price:
        """The price of a model, per million tokens; texts are exact, such as `"0.15"`.

        Args:
            input: of input tokens.
            output: of output tokens, reasoning among them.
            cached_input: of those read from the cache; by default as `input`.
            cache_write: of those written to it; by default as `input`.

        Raises:
            TypeError: one is a `float`, or no number.
            ValueError: one is negative, infinite or too fine.
        """
        plain = amount_of(input, "the price of input tokens")
        return Price(
            plain,
            amount_of(output, "the price of output tokens"),
            plain if cached_input is None else amount_of(cached_input, "the price of cached input tokens"),
            plain if cache_write is None else amount_of(cache_write, "the price of input tokens written to the cache"),
        )

    def cost(self, usage: Usage) -> Decimal | None:
        """What these tokens cost; None where the provider did not say how many they were."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, written = usage.cached_input_tokens or 0, usage.cache_write_input_tokens or 0
        plain = max(usage.input_tokens - cached - written, 0)
        sums = plain * self.input + cached * self.cached_input + written * self.cache_write
        return (sums + usage.output_tokens * self.output) / _MILLION

    @property
    def highest_input(self) -> Decimal:
        """The most that a million input tokens may cost, however they are cached."""
        return max(self.input, self.cached_input, self.cache_write)


@final
class PriceTable(msgspec.Struct, frozen=True):
    """The prices of models in one currency."""

    currency: str
    """Such as `"USD"`."""
    prices: Mapping[str, Price]
    """By model, such as `"openai:gpt-5"`, or, for any provider, `"gpt-5"`; the first form is looked for first."""

    def __post_init__(self) -> None:
        given: Any = self.prices
        if not all(isinstance(name, str) and isinstance(price, Price) for name, price in given.items()):
            raise TypeError("prices is a mapping of the names of models to Price.per_million(…)")

    def __hash__(self) -> int:
        return hash((self.currency, *self.prices))

    def price_of(self, info: ModelInfo) -> Price | None:
        """The price of a model, if the table has it."""
        return self.prices.get(str(info)) or self.prices.get(info.model)

    def cost(self, info: ModelInfo, usage: Usage) -> Decimal | None:
        """What these tokens of a model cost; None where the price or the number of tokens is not known."""
        price = self.price_of(info)
        return None if price is None else price.cost(usage)
