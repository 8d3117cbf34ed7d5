"""Prices by the length of prompts and by names, and the prices of the package `genai-prices`."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

import pytest

from fxai.messages import Usage
from fxai.models import ModelInfo, Price, PriceTable
from fxai.models.price import PriceRule, pattern_of, read_rules

DAY: Final = date(2026, 11, 26)
installed = pytest.mark.skipif(find_spec("genai_prices") is None, reason="the extra prices is not installed")


def test_a_long_prompt_costs_the_price_of_its_tier() -> None:
    """The tier applies to all tokens of a request whose prompt is longer than its limit."""
    price = Price.per_million("1", "10", long={100: Price.per_million("2", "20"), 1000: Price.per_million("3", "30")})
    costs = [price.cost(Usage(tokens, 10)) for tokens in (100, 101, 1000, 1001)]

    assert [cost and cost * 1_000_000 for cost in costs] == [200, 402, 2200, 3303]
    assert price.highest(10**9)[0] == 3
    assert [price.highest(tokens)[0] for tokens in (100, 101, 2000)] == [1, 2, 3]
    assert [price.highest(tokens)[1] for tokens in (100, 101, 2000)] == [10, 20, 30]


def test_a_rule_is_about_the_names_at_one_provider() -> None:
    """The address decides which provider it is; without an address, the provider's name decides."""
    price = Price.per_million("1", "2")
    rule = PriceRule("acme", r"https://api\.acme\.example", r"\Asmall", price)
    table = PriceTable("USD", {"acme:small-9": Price.per_million("9", "9")}, (rule,))

    assert table.price_of(ModelInfo("acme", "Small-1")) == price
    assert table.price_of(ModelInfo("openai", "small-1", "api.acme.example", 443)) == price
    assert table.price_of(ModelInfo("acme", "small-1", "localhost", 80)) is None
    assert table.price_of(ModelInfo("openai", "small-1")) is None
    assert table.price_of(ModelInfo("acme", "small-9")) == Price.per_million("9", "9")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error states the command that installs the package."""
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    with pytest.raises(ImportError, match=r"pip install 'fxai\[prices\]'"):
        PriceTable.genai_prices()


def _clause(**parts: object) -> SimpleNamespace:
    return SimpleNamespace(**parts)


@pytest.mark.parametrize(
    ("clause", "names"),
    [
        (_clause(equals="A.1"), {"a.1"}),
        (_clause(starts_with="a."), {"a.1", "a.1-b"}),
        (_clause(ends_with="b"), {"a.1-b", "ab"}),
        (_clause(contains="1"), {"a.1", "a.1-b", "1"}),
        (_clause(regex="^a[.b]"), {"a.1", "a.1-b", "ab"}),
        (_clause(or_=[_clause(equals="ab"), _clause(equals="1")]), {"ab", "1"}),
        (_clause(and_=[_clause(starts_with="a"), _clause(ends_with="b")]), {"a.1-b", "ab"}),
    ],
)
def test_a_clause_is_a_pattern(clause: Any, names: set[str]) -> None:
    """Each kind of clause of the package finds the same names as its pattern."""
    rule = PriceRule("p", "", pattern_of(clause), Price.per_million(1, 1))

    assert {name for name in ("a.1", "a.1-b", "ab", "1", "") if rule.matches(ModelInfo("p", name))} == names


def test_an_unknown_kind_of_clause_is_an_error() -> None:
    """A newer package does not silently lose its prices."""
    with pytest.raises(ValueError, match="unknown clause 'sounds_like'"):
        pattern_of(_clause(sounds_like="gpt"))


@pytest.mark.slow
@installed
@pytest.mark.parametrize(
    ("info", "usage", "cost"),
    [
        (ModelInfo("openai", "gpt-6-sol", "api.openai.com", 443), Usage(1000, 100), "0.003"),
        (ModelInfo("openai", "gpt-5.5-2026-04-23"), Usage(300_000, 0), "3"),
        (ModelInfo("anthropic", "claude-sonnet-5"), Usage(1000, 100, cached_input_tokens=500), "0.0021"),
        (ModelInfo("anthropic", "claude-haiku-5-5"), Usage(100_000, 1000), "0.0105"),
        (ModelInfo("openai", "gpt-4.1"), Usage(1_000_000, 0), "2"),
    ],
)
def test_the_package_knows_the_prices_of_five_models(info: ModelInfo, usage: Usage, cost: str) -> None:
    """A changed price of a new version of the package is noticed."""
    assert PriceTable.genai_prices(on=DAY).cost(info, usage) == Decimal(cost)


@pytest.mark.slow
@installed
def test_a_gap_of_the_package_is_no_price() -> None:
    """An unknown model has no price, and the program can state one."""
    stated = Price.per_million("1", "2")
    table = PriceTable.genai_prices({"gpt-6.2-sol": stated}, on=DAY)

    assert PriceTable.genai_prices(on=DAY).price_of(ModelInfo("openai", "gpt-6.2-sol")) is None
    assert table.price_of(ModelInfo("openai", "gpt-6.2-sol")) == stated
    assert table.price_of(ModelInfo("openai", "gpt-6-sol", "localhost", 8000)) is None
    assert table == PriceTable.genai_prices({"gpt-6.2-sol": stated}, on=DAY)


@pytest.mark.slow
@installed
def test_the_package_agrees_about_every_model_of_four_providers() -> None:
    """The converted prices cost what the package itself calculates, below and above the limit of a tier."""
    package: Any = import_module("genai_prices")
    types: Any = import_module("genai_prices.types")
    data: Any = import_module("genai_prices.data")
    day: Any = import_module("datetime").datetime(2026, 11, 26, 12)
    table, compared = PriceTable.genai_prices(on=DAY), 0
    for provider in (one for one in data.providers if one.id in ("openai", "anthropic", "groq", "mistral")):
        for model in provider.models:
            for tokens in (1000, 900_000):
                cost = table.cost(ModelInfo(provider.id, model.id), Usage(tokens, 10, cached_input_tokens=100))
                usage = types.Usage(input_tokens=tokens, output_tokens=10, cache_read_tokens=100)
                if cost is not None and model.match.is_match(model.id):
                    said = package.calc_price(usage, model.id, provider_id=provider.id, genai_request_timestamp=day)
                    assert (model.id, cost) == (model.id, said.total_price)
                    compared += 1

    assert compared > 200
    assert len(read_rules(DAY)) > 1500
