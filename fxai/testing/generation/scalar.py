"""Generators of numbers and strings for several schemas: by bounds, pattern, format, or length.

>>> from fxai.schema.engine import Engine
>>> from fxai.testing.generation.conjunction import gather
>>> schema = {"multipleOf": 0.5, "minimum": 1, "exclusiveMaximum": 3}
>>> reach = reach_of(gather([Engine(schema).root], lambda options: options[0]))
>>> reach.low, reach.high, reach.step
(Fraction(1, 1), Fraction(3, 1), Fraction(1, 2))
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from hypothesis import strategies as st

from fxai.schema.data import JsonObject
from fxai.schema.pattern import tokens, translate
from fxai.testing.generation.conjunction import Conjunction, DeadEndError, keyword_of

_FAR = 10**6
_LONGEST = 10_000  # maximum characters of one string


class Reach(NamedTuple):
    """An interval of numbers, with equal steps if `step` is set. `None` means an open end."""

    low: Fraction | None
    high: Fraction | None
    open_low: bool
    open_high: bool
    step: Fraction | None

    def whole(self, step: Fraction) -> tuple[int | None, int | None]:
        """Return the smallest and the greatest number of steps in the interval."""
        low = high = None
        if self.low is not None:
            low = math.ceil(self.low / step)
            low += self.open_low and low * step == self.low
        if self.high is not None:
            high = math.floor(self.high / step)
            high -= self.open_high and high * step == self.high
        if low is not None and high is not None and low > high:
            raise DeadEndError
        return low, high

    def holds(self, number: float) -> bool:
        """Return True if a number is in the interval."""
        above = self.low is None or (number > self.low if self.open_low else number >= self.low)
        return above and (self.high is None or (number < self.high if self.open_high else number <= self.high))


def reach_of(here: Conjunction) -> Reach:
    """Return the numbers that all schemas of a location accept."""
    lows = sorted(_ends(here, "minimum", "exclusiveMinimum"), reverse=True)
    highs = sorted((end, not open_) for end, open_ in _ends(here, "maximum", "exclusiveMaximum"))
    step: Fraction | None = None
    for multiple in here.all("multipleOf"):
        exact = Fraction(str(multiple))
        if step is not None:  # the smallest number that is a multiple of both
            numerator = math.lcm(step.numerator, exact.numerator)
            exact = Fraction(numerator, math.gcd(step.denominator, exact.denominator))
        step = exact
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


def _near(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Return near ends if one end is open, to avoid unwieldy values."""
    if low is None and high is not None:
        return min(high - _FAR, -_FAR), high
    if high is None and low is not None:
        return low, max(low + _FAR, _FAR)
    return low, high


def integers(here: Conjunction) -> st.SearchStrategy[Any]:
    """Generate integers in the interval.

    Raises:
        DeadEndError: If the interval contains no integer.
    """
    reach = reach_of(here)
    step = 1 if reach.step is None else reach.step.numerator
    low, high = _near(*reach.whole(Fraction(step)))
    return between(low, high) if step == 1 else between(low, high).map(lambda count: count * step)


@lru_cache(maxsize=1024)  # to look up a strategy is faster than to create it for each value
def between(low: int | None, high: int | None) -> st.SearchStrategy[int]:
    """Generate integers from `low` to `high`."""
    return st.integers(low, high)


def numbers(here: Conjunction) -> st.SearchStrategy[Any]:
    """Generate numbers in the interval, including integers.

    Raises:
        DeadEndError: If the interval contains no number.
    """
    reach = reach_of(here)
    if reach.step is not None:
        step = reach.step
        low, high = _near(*reach.whole(step))
        exact = between(low, high).map(lambda count: count * step)
        return exact.map(lambda number: int(number) if number.denominator == 1 else float(number))
    low_float, high_float = _float(reach.low, up=True), _float(reach.high, up=False)
    strategies: list[st.SearchStrategy[Any]] = []
    with suppress(DeadEndError):
        strategies.append(integers(here))
    if low_float is None or high_float is None or low_float <= high_float:
        strategies.append(st.floats(low_float, high_float, allow_nan=False, allow_infinity=False))
    if not strategies:
        raise DeadEndError
    return _either(tuple(strategies))


@lru_cache(maxsize=1024)
def _either(strategies: tuple[st.SearchStrategy[Any], ...]) -> st.SearchStrategy[Any]:
    return st.one_of(strategies)


def _float(end: Fraction | None, *, up: bool) -> float | None:
    """Return the nearest float inside an end, or None if no float reaches the end."""
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
    """Return strategies of strings by pattern, format, or length, the best first. If several apply, check the value.

    Raises:
        DeadEndError: If no length is possible.
    """
    least = math.ceil(max(here.all("minLength"), default=0))
    most = min((math.floor(end) for end in here.all("maxLength")), default=None)
    if least > _LONGEST or (most is not None and least > most):
        raise DeadEndError
    found: list[st.SearchStrategy[str]] = []
    spoken = (by_format(part.schema, formats) for part in here.parts)
    found += [strategy for strategy in spoken if strategy is not None]
    for pattern in here.all("pattern"):
        found += by_pattern(pattern, least, most)
    return [*found, strings(least, most)]


characters: Final = st.characters(exclude_categories=["Cs"])
"""All characters that JSON can carry."""


@lru_cache(maxsize=1024)
def strings(least: int, most: int | None) -> st.SearchStrategy[str]:
    """Generate strings of `least` to `most` characters. Without `most`, generate short strings."""
    return st.text(characters, min_size=least, max_size=least + 12 if most is None else most)


def with_lengths(pattern: str, least: int, most: int | None) -> list[str]:
    """Return variants of the pattern with limited repetitions: all of them, then the last, then the first.

    >>> with_lengths("^[a-z]+$", 3, 5)
    ['^[a-z]{3,5}$']
    """
    parts = list(tokens(pattern))
    found = [at for at, (kind, text) in enumerate(parts) if kind == "times" and (text in "*+" or text[-2:] == ",}")]
    if not found or (least == 0 and most is None):
        return []
    variants: list[str] = []
    for chosen in (found, found[-1:], found[:1]):
        texts = [text for _, text in parts]
        for at in chosen:
            low = max(least if len(chosen) == 1 else least // len(found), texts[at] == "+")
            texts[at] = f"{{{low},{'' if most is None else max(most, low)}}}"
            if parts[at + 1 : at + 2] == [("times", "?")]:
                texts[at + 1] = ""
        variants.append("".join(texts))
    return list(dict.fromkeys(variants))


@lru_cache(maxsize=512)
def matching(pattern: str) -> st.SearchStrategy[str] | None:
    """Generate strings that match a pattern of Python. Return None if Python cannot read the pattern."""
    try:
        strategy = st.from_regex(re.compile(pattern), alphabet=characters)
        strategy.validate()
    except (re.error, OverflowError, RecursionError, ValueError, TypeError, NotImplementedError):
        return None
    return strategy


@lru_cache(maxsize=512)
def by_pattern(pattern: str, least: int, most: int | None) -> tuple[st.SearchStrategy[str], ...]:
    """Return strategies for a pattern and a length, the best first. Return none if no strategy supports the pattern."""
    tried = (matching(translate(variant, python=True)) for variant in (*with_lengths(pattern, least, most), pattern))
    return tuple(strategy for strategy in tried if strategy is not None)


# ---- formats


def _encoded_text(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return strategy.map(msgspec.to_builtins).map(str)


_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,6}[a-z0-9])?"
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL}){{0,2}}"
_PATH: Final = r"(?:/[a-z0-9_~.-]{1,5}){0,3}"


def _like(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(pattern), fullmatch=True)


FORMATS: Final[dict[str, Callable[[], st.SearchStrategy[str]]]] = {
    "date": lambda: _encoded_text(st.dates()),
    "date-time": lambda: _encoded_text(st.datetimes(timezones=st.just(UTC))),
    "date-time-local": lambda: _encoded_text(st.datetimes()),
    "time": lambda: _encoded_text(st.times(timezones=st.just(UTC))),
    "partial-time": lambda: _encoded_text(st.times()),
    "duration": lambda: _encoded_text(st.timedeltas(timedelta(0), timedelta(9999))),
    "decimal": lambda: st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    "uuid": lambda: _encoded_text(st.uuids()),
    "email": lambda: _like(rf"[a-z0-9]{{1,6}}@{_HOST}\.org"),
    "idn-email": lambda: _like(rf"[a-zäöü]{{1,6}}@{_HOST}\.org"),
    "hostname": lambda: _like(_HOST),
    "idn-hostname": lambda: _like(rf"[a-zäöü]{{1,6}}\.{_LABEL}"),
    "ipv4": lambda: st.ip_addresses(v=4).map(str),
    "ipv6": lambda: st.ip_addresses(v=6).map(str),
    "uri": lambda: _like(rf"https?://{_HOST}{_PATH}"),
    "iri": lambda: _like(rf"https?://{_HOST}{_PATH}"),
    "uri-reference": lambda: _like(rf"(?:https?://{_HOST})?{_PATH}"),
    "iri-reference": lambda: _like(rf"(?:https?://{_HOST})?{_PATH}"),
    "uri-template": lambda: _like(rf"https?://{_HOST}/\{{[a-z]{{1,5}}\}}"),
    "json-pointer": lambda: _like(_PATH),
    "relative-json-pointer": lambda: _like(rf"[0-9]{_PATH}"),
    "regex": lambda: st.sampled_from(["", "^a", "[0-9]+", "^(a|b)*$"]),
}
"""Strategies of strings by format. `register_format` adds formats."""


def register_format(name: str, strategy: st.SearchStrategy[str]) -> None:
    """Register a strategy for the format `name`. Use it for your own formats, or for better values.

    >>> register_format("sku", st.from_regex("[A-Z]{3}-[0-9]{4}", fullmatch=True))
    >>> by_format({"format": "sku"}, {}) is not None
    True
    """
    FORMATS[name] = lambda: strategy
    _of_format.cache_clear()


@lru_cache(maxsize=64)
def _of_format(name: str) -> st.SearchStrategy[str] | None:
    make = FORMATS.get(name)
    return None if make is None else make()


def by_format(schema: JsonObject, given: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str] | None:
    """Generate strings of a schema's format or encoding, first from `given`. Return None if it has neither."""
    name = schema.get("format")
    if isinstance(name, str) and name in given:
        return given[name]
    if schema.get("contentEncoding") == "base64":
        return _encoded_text(st.binary(max_size=8))
    return _of_format(name) if isinstance(name, str) else None
