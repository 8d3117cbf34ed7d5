"""Numbers as grammar: the digits of a range are exactly its numbers."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from hypothesis import given
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
