"""Prices of the package `genai-prices`, as rules of a price table. `PriceTable.genai_prices` reads them.

The package is imported at the first use, and its updater never starts.

>>> from types import SimpleNamespace
>>> pattern_of(SimpleNamespace(contains="gpt"))
'gpt'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, cast

from fxai.models.price import Price, PriceRule
from fxai.schema.data import is_array

_Amount: TypeAlias = Any  # a Decimal, or prices by the length of the prompt
# What fxai can count. A model with another obligatory unit, such as requests, has no price here.
_TOKENS: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
_OBLIGATORY: Final = frozenset(("requests_kcount", "input_mchars", "audio_hours", "input_audio_hours"))


class _Model(Protocol):
    """A model of the package."""

    match: object
    prices: object


class _Provider(Protocol):
    """A provider of the package."""

    id: str
    api_pattern: str
    models: Sequence[_Model]
    fallback_model_providers: Sequence[str] | None


def read_rules(on: date | None = None) -> tuple[PriceRule, ...]:
    """Return the prices of the installed package as rules.

    Args:
        on: The date for which the prices are valid. None: today in UTC.

    Raises:
        ImportError: If the extra is not installed.
    """
    try:
        data = import_module("genai_prices.data")
    except ImportError as error:
        raise ImportError("PriceTable.genai_prices() needs genai-prices: pip install 'fxai[prices]'") from error
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
    """Return the regular expression of a clause, which is searched in a lower-case name.

    Args:
        clause: A clause of the package: equals, starts with, ends with, contains, a regular expression, or, and.

    Raises:
        ValueError: If the package has a new kind of clause.
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
        raise ValueError(f"genai-prices has an unknown clause {kind!r}. Install an older version of genai-prices.")
    return forms[kind]


def _price(prices: object, on: date) -> Price | None:
    """Return the price on a date. None if the package has none that fxai can count."""
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
    """Return a price. None if tokens have no price, or other units have one too."""
    given = {name: amount for name, amount in vars(prices).items() if amount is not None}
    if not {"input_mtok", "output_mtok"} <= given.keys() or _OBLIGATORY & given.keys():
        return None
    starts = sorted({tier.start for name in _TOKENS for tier in getattr(given.get(name), "tiers", ())})
    return _plain(given, -1, {start: _plain(given, start, {}) for start in starts})


def _plain(given: dict[str, _Amount], start: int, long: dict[int, Price]) -> Price:
    """Return the prices of prompts above a length."""
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
    rounded = round(found, 12)  # some were calculated as a float: 0.18000000000000002
    return found if rounded == found else rounded
