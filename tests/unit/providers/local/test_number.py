"""Numbers as grammar: the digits of a range are exactly its numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from fxai.providers.local.gbnf import integers, multiples, numbers
from tests.kit.gbnf import Gbnf

BOUNDS = st.integers(-3000, 3000)


@given(BOUNDS, BOUNDS, st.integers(-4000, 4000))
def test_a_range_of_integers_accepts_its_integers_and_no_other(a: int, b: int, value: int) -> None:
    """The grammar of the integers between two bounds accepts an integer exactly if it lies between them."""
    low, high = min(a, b), max(a, b)
    accepts = Gbnf(f"root ::= {integers(low, high)}").accepts

    assert accepts(str(value)) == (low <= value <= high)


@given(st.none() | BOUNDS, st.none() | BOUNDS, st.randoms(use_true_random=False))
def test_open_ranges_of_integers_stay_within_their_bounds(low: int | None, high: int | None, random: Random) -> None:
    """What a range with open ends generates keeps the bounds that there are."""
    text = integers(low, high)
    if text is None:
        assert low is not None
        assert high is not None
        assert low > high
        return

    value = int(Gbnf(f"root ::= {text}").sample(random))

    assert low is None or value >= low
    assert high is None or value <= high


@given(
    st.none() | st.decimals(-50, 50, places=3),
    st.none() | st.decimals(-50, 50, places=3),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_ranges_of_numbers_stay_within_their_bounds(
    low: Decimal | None, high: Decimal | None, above: bool, below: bool, random: Random
) -> None:
    """What a range of numbers generates keeps its bounds, and leaves an exclusive one out."""
    text = numbers(low, high, above=above, below=below)
    if text is None:
        assert low is not None
        assert high is not None
        assert high - low < Decimal("0.00001")
        return

    value = Decimal(Gbnf(f"root ::= {text}").sample(random))

    assert low is None or value > low or (value == low and not above)
    assert high is None or value < high or (value == high and not below)


TENTHS = st.integers(-35, 35).map(lambda number: Decimal(number) / 10)


@given(TENTHS, TENTHS, st.integers(-400, 400).map(lambda number: Decimal(number) / 100))
@example(Decimal("0.5"), Decimal("1.5"), Decimal("1.0"))
@example(Decimal("0.5"), Decimal(1), Decimal("0.75"))
@example(Decimal("0.5"), Decimal(2), Decimal("1.25"))
@example(Decimal("-1.5"), Decimal("-0.5"), Decimal(-1))
@example(Decimal(0), Decimal(1), Decimal(0))
def test_a_range_of_numbers_accepts_its_numbers_and_no_other(a: Decimal, b: Decimal, value: Decimal) -> None:
    """The grammar accepts a number with six digits exactly if it is in the range. No character class is empty."""
    low, high = min(a, b), max(a, b)
    text = numbers(low, high)
    assert text is not None
    accepts = Gbnf(f"root ::= {text}").accepts

    assert accepts(f"{value:.6f}") == (low <= value <= high)
    assert all(first <= last for first, last in re.findall(r"\[(.)-(.)\]", text))


@given(st.integers(1, 200), st.none() | BOUNDS, st.none() | BOUNDS, st.randoms(use_true_random=False))
def test_multiples_are_multiples_within_their_bounds(
    step: int, low: int | None, high: int | None, random: Random
) -> None:
    """What the grammar of multiples generates is a multiple of the step and keeps the bounds."""
    text = multiples(step, low, high)
    if text is None:
        assert low is not None
        assert high is not None
        return

    value = int(Gbnf(f"root ::= {text}").sample(random))

    assert value % step == 0
    assert low is None or value >= low
    assert high is None or value <= high
