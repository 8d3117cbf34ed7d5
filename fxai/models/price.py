"""Prices of models. State them in the program, or take them from the package `genai-prices` of the extra `prices`.

fxai itself contains no price, because providers change them.

>>> from fxai.messages.part import Usage
>>> table = PriceTable("USD", {"openai:gpt-6-sol": Price.per_million("2", "10", cached_input="0.2")})
>>> table.cost(ModelInfo("openai", "gpt-6-sol"), Usage(input_tokens=2000, output_tokens=100, cached_input_tokens=1000))
Decimal('0.0032')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache
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
class PriceTier(msgspec.Struct, frozen=True):
    """The prices of long prompts, each per million tokens. They apply to all tokens of the request."""

    above: int
    """The number of input tokens above which the tier applies."""
    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal


@final
class Price(msgspec.Struct, frozen=True):
    """What a model costs, each per million tokens. `Price.per_million` makes one."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    """Of input tokens that were read from the provider's cache."""
    cache_write: Decimal
    """Of input tokens that were written to it."""
    tiers: tuple[PriceTier, ...] = ()
    """The prices of long prompts, from the shortest prompts to the longest."""

    @staticmethod
    def per_million(
        input: str | int | Decimal,  # as providers call it
        output: str | int | Decimal,
        *,
        cached_input: str | int | Decimal | None = None,
        cache_write: str | int | Decimal | None = None,
        long: Mapping[int, Price] | None = None,
    ) -> Price:
        """The price of a model, per million tokens; texts are exact, such as `"0.15"`.

        Args:
            input: of input tokens.
            output: of output tokens, reasoning among them.
            cached_input: of those read from the cache; by default as `input`.
            cache_write: of those written to it; by default as `input`.
            long: The prices of long prompts, by the number of input tokens above which they apply. None: no tiers.

        Raises:
            TypeError: one is a `float`, or no number.
            ValueError: one is negative, infinite or too fine.

        >>> price = Price.per_million("5", "30", long={272_000: Price.per_million("10", "45")})
        >>> price.cost(Usage(272_000, 0)), price.cost(Usage(300_000, 0))
        (Decimal('1.36'), Decimal('3'))
        """
        plain = amount_of(input, "the price of input tokens")
        tiers = [(above, price) for above, price in sorted((long or {}).items())]
        return Price(
            plain,
            amount_of(output, "the price of output tokens"),
            plain if cached_input is None else amount_of(cached_input, "the price of cached input tokens"),
            plain if cache_write is None else amount_of(cache_write, "the price of input tokens written to the cache"),
            tuple(PriceTier(above, one.input, one.output, one.cached_input, one.cache_write) for above, one in tiers),
        )

    def cost(self, usage: Usage) -> Decimal | None:
        """What these tokens cost; None where the provider did not say how many they were."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, written = usage.cached_input_tokens or 0, usage.cache_write_input_tokens or 0
        plain = max(usage.input_tokens - cached - written, 0)
        *_, price = self._up_to(usage.input_tokens)
        sums = plain * price.input + cached * price.cached_input + written * price.cache_write
        return (sums + usage.output_tokens * price.output) / _MILLION

    @property
    def highest_input(self) -> Decimal:
        """The most that a million input tokens may cost, however they are cached and however long the prompt is."""
        longest = max((tier.above for tier in self.tiers), default=0)
        return self.highest(longest + 1)[0]

    def highest(self, input_tokens: int) -> tuple[Decimal, Decimal]:
        """Return the highest prices of a million input tokens and of a million output tokens.

        Args:
            input_tokens: The maximum number of input tokens.
        """
        prices = [*self._up_to(input_tokens)]
        most = max(max(one.input, one.cached_input, one.cache_write) for one in prices)
        return most, max(one.output for one in prices)

    def _up_to(self, tokens: int) -> Iterator[Price | PriceTier]:
        """Return the prices of prompts up to a length. The last price is the price of this length."""
        yield self
        yield from (tier for tier in self.tiers if tier.above < tokens)


@final
class PriceRule(msgspec.Struct, frozen=True):
    """The price of all models that a provider offers under matching names."""

    provider: str
    """The provider, such as `"openai"`."""
    address: str
    """A regular expression that matches the start of the provider's URLs."""
    name: str
    """A regular expression that is found in the lower-case names of the models."""
    price: Price

    def matches(self, info: ModelInfo) -> bool:
        """Return True if the rule is about this model. Without an address, the name of the provider decides.

        Args:
            info: The model.
        """
        if info.address is None:
            is_there = self.provider == info.provider
        else:
            is_there = re.match(self.address, f"https://{info.address}") is not None
        return is_there and re.search(self.name, info.model.lower()) is not None


@final
class PriceTable(msgspec.Struct, frozen=True):
    """The prices of models in one currency."""

    currency: str
    """Such as `"USD"`."""
    prices: Mapping[str, Price]
    """By model, such as `"openai:gpt-6-sol"`, or, for any provider, `"gpt-6-sol"`. The first form wins."""
    rules: tuple[PriceRule, ...] = ()
    """Prices by patterns of names. fxai uses the first rule that matches, for models without an entry in `prices`."""

    def __post_init__(self) -> None:
        given: Any = self.prices
        if not all(isinstance(name, str) and isinstance(price, Price) for name, price in given.items()):
            raise TypeError("prices is a mapping of the names of models to Price.per_million(…)")

    def __hash__(self) -> int:
        return hash((self.currency, *self.prices, len(self.rules)))

    @staticmethod
    def genai_prices(prices: Mapping[str, Price] | None = None, *, on: date | None = None) -> PriceTable:
        """Return the prices in US dollars that the package `genai-prices` contains. Needs the extra `prices`.

        fxai reads the data of the installed package and never starts its updater. A model that the package does not
        know, or whose price depends on more than its tokens, has no price. If a price depends on the time of day, fxai
        takes the highest. The fees of searches and the special prices of audio, images and batches are not part.

        Args:
            prices: Prices that win over the package, as in `PriceTable.prices`.
            on: The date for which the prices are valid. None: today in UTC.

        Raises:
            ImportError: If the extra is not installed.
        """
        from fxai.models.price_catalog import read_rules

        return PriceTable("USD", dict(prices or {}), read_rules(on))

    def price_of(self, info: ModelInfo) -> Price | None:
        """The price of a model, if the table has it."""
        return self.prices.get(str(info)) or self.prices.get(info.model) or _by_rule(self, info)

    def cost(self, info: ModelInfo, usage: Usage) -> Decimal | None:
        """What these tokens of a model cost; None where the price or the number of tokens is not known."""
        price = self.price_of(info)
        return None if price is None else price.cost(usage)


@lru_cache(maxsize=1024)
def _by_rule(table: PriceTable, info: ModelInfo) -> Price | None:
    return next((rule.price for rule in table.rules if rule.matches(info)), None)
