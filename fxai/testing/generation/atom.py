"""Numbers and strings that schemas take together.

>>> from fxai.schema.dialect import LATEST
>>> from fxai.schema.keywords import validator_of
>>> from fxai.testing.generation.conjunction import gathered
>>> schema = {"multipleOf": 0.5, "minimum": 1, "exclusiveMaximum": 3}
>>> reach = reach_of(gathered([validator_of(LATEST.uri, schema)], lambda options: options[0]))
>>> reach.low, reach.high, reach.step
(Fraction(1, 1), Fraction(3, 1), Fraction(1, 2))
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fxai.testing.generation.conjunction import Conjunction, Dead, keyword_of
from fxai.testing.generation.text import by_format, patterned, strings

__all__ = ["Reach", "integers", "numbers", "reach_of", "texts"]

_FAR = 10**6
_LONGEST = 10_000  # characters that are drawn for one string


class Reach(NamedTuple):
    """The numbers between two ends, at equal steps where `step` is set; an open end is `None`."""

    low: Fraction | None
    high: Fraction | None
    open_low: bool
    open_high: bool
    step: Fraction | None

    def whole(self, step: Fraction) -> tuple[int | None, int | None]:
        """The least and the greatest count of steps in reach."""
        low = high = None
        if self.low is not None:
            low = math.ceil(self.low / step)
            low += self.open_low and low * step == self.low
        if self.high is not None:
            high = math.floor(self.high / step)
            high -= self.open_high and high * step == self.high
        if low is not None and high is not None and low > high:
            raise Dead
        return low, high

    def holds(self, number: float) -> bool:
        """Whether a number lies between the ends."""
        above = self.low is None or (number > self.low if self.open_low else number >= self.low)
        return above and (self.high is None or (number < self.high if self.open_high else number <= self.high))


def reach_of(here: Conjunction) -> Reach:
    """The numbers that all the schemas of a place take."""
    lows = sorted(_ends(here, "minimum", "exclusiveMinimum"), reverse=True)
    highs = sorted((end, not open_) for end, open_ in _ends(here, "maximum", "exclusiveMaximum"))
    step: Fraction | None = None
    for multiple in here.all("multipleOf"):
        exact = Fraction(str(multiple))
        step = exact if step is None else _both(step, exact)
    low, open_low = lows[0] if lows else (None, False)
    high, closed_high = highs[0] if highs else (None, True)
    return Reach(low, high, open_low, not closed_high, step)


def _ends(here: Conjunction, bound: str, exclusive: str) -> list[tuple[Fraction, bool]]:
    ends: list[tuple[Fraction, bool]] = []
    for part in here.parts:
        closed, opened = keyword_of(part, bound), keyword_of(part, exclusive)
        if closed is not None:
            ends.append((Fraction(str(closed)), opened is True))
        if opened is not None and not isinstance(opened, bool):
            ends.append((Fraction(str(opened)), True))
    return ends


def _both(one: Fraction, other: Fraction) -> Fraction:
    """The least number that is a multiple of both."""
    return Fraction(math.lcm(one.numerator, other.numerator), math.gcd(one.denominator, other.denominator))


def _near(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Ends that are not so far that values get unwieldy where one end is open."""
    if low is None and high is not None:
        return min(high - _FAR, -_FAR), high
    if high is None and low is not None:
        return low, max(low + _FAR, _FAR)
    return low, high


def integers(here: Conjunction) -> st.SearchStrategy[Any]:
    """Whole numbers in reach; some are written as `3.0`, where the dialect calls that an integer.

    Raises:
        Dead: there is none.
    """
    reach = reach_of(here)
    step = 1 if reach.step is None else reach.step.numerator
    low, high = _near(*reach.whole(Fraction(step)))
    return _steps(low, high, step, pointed=all(part.dialect != "draft-04" for part in here.parts))


@lru_cache(maxsize=1024)
def _steps(low: int | None, high: int | None, step: int, *, pointed: bool) -> st.SearchStrategy[Any]:
    counts = st.integers(low, high)
    whole = counts if step == 1 else counts.map(lambda count: count * step)
    return st.one_of(whole, whole, whole, whole.map(_pointed)) if pointed else whole


def numbers(here: Conjunction) -> st.SearchStrategy[Any]:
    """Numbers in reach, whole ones among them.

    Raises:
        Dead: there is none.
    """
    reach = reach_of(here)
    if reach.step is not None:
        step = reach.step
        low, high = _near(*reach.whole(step))
        return st.integers(low, high).map(lambda count: _written(count * step))
    low_float, high_float = _float(reach.low, up=True), _float(reach.high, up=False)
    strategies: list[st.SearchStrategy[Any]] = []
    with suppress(Dead):
        strategies.append(integers(here))
    if low_float is None or high_float is None or low_float <= high_float:
        strategies.append(st.floats(low_float, high_float, allow_nan=False, allow_infinity=False))
    if not strategies:
        raise Dead
    return _either(tuple(strategies))


@lru_cache(maxsize=1024)
def _either(strategies: tuple[st.SearchStrategy[Any], ...]) -> st.SearchStrategy[Any]:
    return st.one_of(strategies)


def _pointed(number: int) -> float:
    """A whole number as a float, where none is lost."""
    return float(number) if abs(number) < 2**53 else number


def _written(number: Fraction) -> float:
    return int(number) if number.denominator == 1 else float(number)


def _float(end: Fraction | None, *, up: bool) -> float | None:
    """The nearest float that is not beyond an end; nothing for an end that no float reaches."""
    if end is None:
        return None
    try:
        near = float(end)
    except OverflowError:
        return None
    if (up and near < end) or (not up and near > end):
        near = math.nextafter(near, math.inf if up else -math.inf)
    return near if math.isfinite(near) else None


def texts(here: Conjunction, formats: dict[str, st.SearchStrategy[str]]) -> list[st.SearchStrategy[str]]:
    """Strings, by pattern, by format or by length, the best first: what comes must be looked at where several hold.

    Raises:
        Dead: no length is left.
    """
    least = math.ceil(max(here.all("minLength"), default=0))
    most = min((math.floor(end) for end in here.all("maxLength")), default=None)
    if least > _LONGEST or (most is not None and least > most):
        raise Dead
    found: list[st.SearchStrategy[str]] = []
    spoken = (by_format(part.schema, formats) for part in here.parts)
    found += [strategy for strategy in spoken if strategy is not None]
    for pattern in here.all("pattern"):
        found += patterned(pattern, least, most)
    return [*found, strings(least, most)]
