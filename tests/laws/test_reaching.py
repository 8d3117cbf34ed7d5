"""What laws count of the cases that they came to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.reaching import Reached


def test_a_law_that_never_comes_to_a_case_says_so() -> None:
    """After trying it on more than it drew at first; it counts what it came to."""
    reached = Reached()

    @settings(max_examples=10, database=None)
    @given(st.integers(0, 10**6))
    def law(number: int) -> None:
        reached("some", when=number >= 0)
        reached("none", when=number < 0)

    with pytest.raises(AssertionError, match=r"reached too rarely: \{'none': 0\}, of \{'some': ") as failed:
        reached.by(law, some=10, none=1)
    assert "'some': 60" in str(failed.value)


@pytest.mark.parametrize(("least", "times"), [(1, 1), (2, 2), (4, 4), (6, 6)])
def test_a_law_that_came_to_a_case_too_rarely_is_tried_again(least: int, times: int) -> None:
    """As often as it takes, on other draws each time, and no more."""
    reached, tried = Reached(), list[int]()

    @settings(max_examples=1, database=None)
    @given(st.integers(0, 10**9))
    def law(number: int) -> None:
        tried.append(number)
        reached("one")

    reached.by(law, one=least)

    assert len(tried) == times


def test_a_law_that_does_not_hold_fails_whatever_it_reached() -> None:
    """The count does not stand in its way."""
    reached = Reached()

    @settings(max_examples=10, database=None)
    @given(st.booleans())
    def law(drawn: bool) -> None:
        reached("any")
        assert not drawn, "the law does not hold"

    with pytest.raises(AssertionError, match="the law does not hold"):
        reached.by(law, any=1)
