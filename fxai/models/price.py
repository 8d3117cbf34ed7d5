"""Prices for models: state them in the program, or use the package `genai-prices` of the extra `prices`.

fxai itself contains no price, because providers change them.

>>> from fxai.messages.part import Usage
>>> table = PriceTable("USD", {"openai:gpt-6-sol": Price.per_million("2", "10", cached_input="0.2")})
>>> table.cost(ModelInfo("openai", "gpt-6-sol"), Usage(input_tokens=2000, output_tokens=100, cached_input_tokens=1000))
Decimal('0.0032')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, cast, final

import msgspec

from fxai.messages.part import Usage
from fxai.models.model_info import ModelInfo
from fxai.schema.data import is_array

_MILLION: Final = 1_000_000
_LOCATIONS: Final = 12  # decimal places of a price per million; the price for a token then has eighteen


def amount_of(given: object, what: str) -> Decimal:
    """Return an amount of money or a price from a string, an integer, or a `Decimal`.

    Raises:
        TypeError: If it is a `float`, which is not exact for most amounts, or not a number.
        ValueError: If it is negative, infinite, or has more than 12 decimal places.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | Decimal):
        raise TypeError(f"{what} must be a string such as '0.15', an integer, or a Decimal, got {given!r}")
    try:
        amount = Decimal(given)
    except InvalidOperation:
        raise ValueError(f"{what} must be a number, got {given!r}") from None
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or amount < 0 or exponent < -_LOCATIONS or amount.adjusted() > _LOCATIONS:
        raise ValueError(f"{what} must be at least 0, below 10^13, and have at most 12 decimal places, got {given}")
    return amount


@final
class Price(msgspec.Struct, frozen=True):
    """The prices for a model per million tokens. Create it with `Price.per_million`."""

    input: Decimal
    """The price for input tokens."""
    output: Decimal
    """The price for output tokens."""
    cached_input: Decimal
    """The price for input tokens that the provider reads from its cache."""
    cache_write: Decimal
    """The price for input tokens that the provider writes to its cache."""
    tiers: tuple[tuple[int, Price], ...] = ()
    """The prices for long prompts, each with the number of input tokens above which it applies to all tokens in the
    request, from the shortest prompts to the longest."""

    @staticmethod
    def per_million(
        input: str | int | Decimal,  # providers use this name
        output: str | int | Decimal,
        *,
        cached_input: str | int | Decimal | None = None,
        cache_write: str | int | Decimal | None = None,
        long: Mapping[int, Price] | None = None,
    ) -> Price:
        """Return the price for a model per million tokens. Strings such as `"0.15"` are exact.

        Args:
            input: The price for input tokens.
            output: The price for output tokens, including reasoning.
            cached_input: The price for input tokens from the cache. Default: the price for input tokens.
            cache_write: The price for input tokens written to the cache. Default: the price for input tokens.
            long: The prices for long prompts, by the number of input tokens above which they apply. Default: None.

        Raises:
            TypeError: If a price is a `float` or not a number.
            ValueError: If a price is negative, infinite, or has too many decimal places.

        >>> price = Price.per_million("5", "30", long={272_000: Price.per_million("10", "45")})
        >>> price.cost(Usage(272_000, 0)), price.cost(Usage(300_000, 0))
        (Decimal('1.36'), Decimal('3'))
        """
        plain = amount_of(input, "price of input tokens")
        return Price(
            plain,
            amount_of(output, "price of output tokens"),
            plain if cached_input is None else amount_of(cached_input, "price of cached input tokens"),
            plain if cache_write is None else amount_of(cache_write, "price of input tokens written to the cache"),
            tuple(sorted((long or {}).items())),
        )

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the cost of a usage, or None if the provider did not report the tokens."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, written = usage.cached_input_tokens or 0, usage.cache_write_input_tokens or 0
        plain = max(usage.input_tokens - cached - written, 0)
        *_, price = self._up_to(usage.input_tokens)
        sums = plain * price.input + cached * price.cached_input + written * price.cache_write
        return (sums + usage.output_tokens * price.output) / _MILLION

    def highest(self, input_tokens: int) -> tuple[Decimal, Decimal]:
        """Return the highest prices of a million input tokens and of a million output tokens.

        Args:
            input_tokens: The maximum number of input tokens.
        """
        prices = [*self._up_to(input_tokens)]
        most = max(max(one.input, one.cached_input, one.cache_write) for one in prices)
        return most, max(one.output for one in prices)

    def _up_to(self, tokens: int) -> Iterator[Price]:
        """Return the prices for prompts up to a length. The last price is the price for this length."""
        yield self
        yield from (price for above, price in self.tiers if above < tokens)


@final
class PriceRule(msgspec.Struct, frozen=True):
    """The price for all models that a provider offers under matching names."""

    provider: str
    """The provider, such as `"openai"`."""
    address: str
    """A regular expression that matches the start of the provider's URLs."""
    name: str
    """A regular expression to search in the lower-case names of the models."""
    price: Price

    def matches(self, info: ModelInfo) -> bool:
        """Return whether the rule applies to this model. Without an address, fxai compares the provider name."""
        if info.address is None:
            is_there = self.provider == info.provider
        else:
            is_there = re.match(self.address, f"https://{info.address}") is not None
        return is_there and re.search(self.name, info.model.lower()) is not None


@final
class PriceTable(msgspec.Struct, frozen=True):
    """The prices for models in one currency."""

    currency: str
    """The currency, such as `"USD"`."""
    prices: Mapping[str, Price]
    """The prices by model: `"openai:gpt-6-sol"`, or `"gpt-6-sol"` for any provider. The first form wins."""
    rules: tuple[PriceRule, ...] = ()
    """Prices by patterns of names, for models without an entry in `prices`. fxai uses the first matching rule."""

    def __post_init__(self) -> None:
        given: Any = self.prices
        if not all(isinstance(name, str) and isinstance(price, Price) for name, price in given.items()):
            raise TypeError("prices must be a mapping from the names of models to Price.per_million(…)")

    def __hash__(self) -> int:
        return hash((self.currency, *self.prices, len(self.rules)))

    @staticmethod
    def genai_prices(prices: Mapping[str, Price] | None = None, *, on: date | None = None) -> PriceTable:
        """Return the prices in US dollars from the package `genai-prices`. It requires the extra `prices`.

        fxai reads the data of the installed package and never starts its updater. A model has no price if the package
        does not contain it, or if its price depends on more than its tokens. If a price depends on the time of day,
        fxai uses the highest price. The table does not include the fees of searches and the special prices for audio,
        images, and batches.

        Args:
            prices: Prices that override the package, see `PriceTable.prices`.
            on: The date of the prices. Default: today in UTC.

        Raises:
            ImportError: If the extra is not installed.
        """
        return PriceTable("USD", dict(prices or {}), read_rules(on))

    def price_of(self, info: ModelInfo) -> Price | None:
        """Return the price for a model, or None."""
        return self.prices.get(str(info)) or self.prices.get(info.model) or _by_rule(self, info)

    def cost(self, info: ModelInfo, usage: Usage) -> Decimal | None:
        """Return the cost of a usage of a model, or None if the price or the number of tokens is unknown."""
        price = self.price_of(info)
        return None if price is None else price.cost(usage)


@lru_cache(maxsize=1024)
def _by_rule(table: PriceTable, info: ModelInfo) -> Price | None:
    return next((rule.price for rule in table.rules if rule.matches(info)), None)


# -- the package genai-prices

_Amount: TypeAlias = Any  # a Decimal, or prices by the length of the prompt
# The units that fxai can count. A model with another obligatory unit, such as requests, has no price here.
_TOKENS: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
_OBLIGATORY: Final = frozenset(("requests_kcount", "input_mchars", "audio_hours", "input_audio_hours"))


class _Model(Protocol):
    match: object
    prices: object


class _Provider(Protocol):
    id: str
    api_pattern: str
    models: Sequence[_Model]
    fallback_model_providers: Sequence[str] | None


def read_rules(on: date | None = None) -> tuple[PriceRule, ...]:
    """Return the prices of the installed package on a date, by default today in UTC, as rules.

    Raises:
        ImportError: If the extra is not installed.
    """
    try:
        data = import_module("genai_prices.data")
    except ImportError as error:
        raise ImportError("genai-prices is not installed. Install it: pip install 'fxai[prices]'") from error
    providers = cast("Sequence[_Provider]", data.providers)
    return tuple(_rules(providers, on or datetime.now(UTC).date()))


def _rules(providers: Sequence[_Provider], on: date) -> Iterator[PriceRule]:
    by_id = {one.id: one for one in providers}
    for provider in providers:
        others = [by_id[name] for name in provider.fallback_model_providers or () if name in by_id]
        for model in (model for one in (provider, *others) for model in one.models):
            price = _price(model.prices, on)
            if price is not None:
                yield PriceRule(provider.id, provider.api_pattern, pattern_of(model.match), price)


def pattern_of(clause: object) -> str:
    """Return the regular expression of a clause of the package, to search in a lower-case name.

    Raises:
        ValueError: If the package contains a new kind of clause.
    """
    ((kind, value),) = vars(clause).items()
    if kind == "regex":
        return f"(?:{value})"
    if kind in ("or_", "and_"):
        inner = [pattern_of(one) for one in value]
        return f"(?:{'|'.join(inner)})" if kind == "or_" else r"\A" + "".join(f"(?=.*?{one})" for one in inner)
    plain = re.escape(str(value).lower())
    forms = {"equals": rf"\A{plain}\Z", "starts_with": rf"\A{plain}", "ends_with": rf"{plain}\Z", "contains": plain}
    if kind not in forms:
        raise ValueError(f"genai-prices contains an unknown clause {kind!r}. Install an older version of genai-prices.")
    return forms[kind]


def _price(prices: object, on: date) -> Price | None:
    """Return the price on a date, or None if the package has no price that fxai can use."""
    if not is_array(prices):
        return _price_of(prices)
    now = datetime.combine(on, time(12), UTC)
    dated = [one for one in prices if not hasattr(one.constraint, "start_time")]
    timed = [one for one in prices if hasattr(one.constraint, "start_time")]
    valid = [one for one in dated if one.constraint is None or one.constraint.active(now)]
    found = [_price_of(one.prices) for one in (*(valid[-1:] or dated[:1]), *timed)]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: (one.output, one.input)) if len(known) == len(found) else None


def _price_of(prices: object) -> Price | None:
    """Return a price, or None if tokens have no price or other units have a price too."""
    given = {name: amount for name, amount in vars(prices).items() if amount is not None}
    if not {"input_mtok", "output_mtok"} <= given.keys() or _OBLIGATORY & given.keys():
        return None
    starts = sorted({tier.start for name in _TOKENS for tier in getattr(given.get(name), "tiers", ())})
    return _plain(given, -1, {start: _plain(given, start, {}) for start in starts})


def _plain(given: dict[str, _Amount], start: int, long: dict[int, Price]) -> Price:
    amounts = {name: _amount(given[name], start) for name in _TOKENS if name in given}
    return Price.per_million(
        amounts["input_mtok"],
        amounts["output_mtok"],
        cached_input=amounts.get("cache_read_mtok"),
        cache_write=amounts.get("cache_write_mtok"),
        long=long,
    )


def _amount(amount: _Amount, start: int) -> Decimal:
    if not isinstance(amount, Decimal):
        amount = next((tier.price for tier in reversed(amount.tiers) if tier.start <= start), amount.base)
    found = Decimal(amount)
    rounded = round(found, 12)  # the package calculated some prices with floats: 0.18000000000000002
    return found if rounded == found else rounded
