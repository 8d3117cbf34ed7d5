"""Numbers as grammar: decimal integers and fractions within bounds, digit by digit.

Grammars count symbols, not values, so a range becomes alternatives over digits: 7 to 12 is one
digit of 7 to 9, or a 1 followed by 0 to 2. The text is GBNF, the notation that llama.cpp reads.

>>> integers(7, 12)
'[7-9] | "1" [0-2]'
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

__all__ = ["DIGITS", "FRACTION_DIGITS", "integers", "multiples", "numbers"]

DIGITS: Final = 15
"""The digits that an unbounded integer may have: what a double carries exactly."""

FRACTION_DIGITS: Final = 6
"""The digits after the point that a number may have, unless its bounds are finer."""

_LARGEST: Final = 10**DIGITS - 1


def integers(low: int | None, high: int | None) -> str | None:
    """The GBNF alternatives of the integers from ``low`` to ``high``, both included; None when there are none.

    An open end stops at 15 digits, or one digit past the other bound.

    >>> integers(-3, 2)
    '"-" [1-3] | [0-2]'
    >>> integers(3, 2) is None
    True
    """
    bottom = min(-_LARGEST, -abs(high or 0) * 10) if low is None else low
    high = max(_LARGEST, abs(low or 0) * 10) if high is None else high
    low = bottom
    parts = _negative(low, high) + (_natural(max(low, 0), high) if high >= 0 else [])
    return " | ".join(parts) if low <= high else None


def multiples(step: int, low: int | None, high: int | None, *, most: int = 512) -> str | None:
    """The GBNF alternatives of the multiples of ``step`` within the bounds; None when they cannot be said, or none are.

    Up to ``most`` of them are listed one by one; with an open end, the first ``most`` from the bound (or from zero).
    A step that divides a power of ten is said by its last digits when nothing bounds it.

    >>> multiples(5, 0, 12)
    '"0" | "5" | "10"'
    >>> multiples(5, None, None)
    '"-"? ("0" | "5" | [1-9] [0-9]{0,13} ("0" | "5"))'
    >>> multiples(7, 0, 10**6) is None
    True
    """
    size = next((d for d in range(1, 4) if 10**d % step == 0), None)
    if size is not None and low in (None, 0) and high is None:
        return _endings(step, size, signed=low is None)

    first = -(-low // step) if low is not None else (high // step - most + 1 if high is not None else 0)
    last = high // step if high is not None else first + most - 1
    values = [f'"{n * step}"' for n in range(first, last + 1)] if 0 <= last - first < most else []
    return " | ".join(values) or None


def _endings(step: int, size: int, *, signed: bool) -> str:
    """Multiples of a step that divides ``10 ** size``: any digits, then one of few endings."""
    short = " | ".join(f'"{n}"' for n in range(0, 10**size, step))
    tails = " | ".join(f'"{n:0{size}}"' for n in range(0, 10**size, step))
    sign = '"-"? ' if signed else ""
    return f"{sign}({short} | [1-9] [0-9]{{0,{DIGITS - size - 1}}} ({tails}))"


def numbers(low: Decimal | None, high: Decimal | None, *, above: bool = False, below: bool = False) -> str | None:
    """The GBNF alternatives of the decimal numbers from ``low`` to ``high``; None when there are none.

    ``above`` and ``below`` leave the bound itself out. Fractions have up to six digits, or as many as a bound has.

    >>> numbers(Decimal("0"), Decimal("1"))
    '[0] ("." [0-9]{1,6})? | "1" ("." "0"{1,6})?'
    >>> numbers(Decimal("1"), Decimal("0")) is None
    True
    """
    scale = max(FRACTION_DIGITS, *(_places(bound) for bound in (low, high)))
    step = Decimal(1).scaleb(-scale)
    bottom = -Decimal(_LARGEST) if low is None else _on_grid(low, step, up=True) + (step if above else 0)
    top = Decimal(_LARGEST) if high is None else _on_grid(high, step, up=False) - (step if below else 0)
    if low is not None and high is None and bottom > top:
        top = bottom * 10
    if high is not None and low is None and bottom > top:
        bottom = top * 10
    if bottom > top:
        return None

    parts: list[str] = []
    if bottom < 0:
        parts += [f'"-" ({part})' for part in _decimals(max(-top, Decimal(0)), -bottom, scale)]
    if top >= 0:
        parts += _decimals(max(bottom, Decimal(0)), top, scale)
    return " | ".join(parts)


def _places(bound: Decimal | None) -> int:
    exponent = bound.normalize().as_tuple().exponent if bound is not None else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _on_grid(value: Decimal, step: Decimal, *, up: bool) -> Decimal:
    whole = (value / step).to_integral_value(rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return whole * step


def _negative(low: int, high: int) -> list[str]:
    if low >= 0:
        return []
    return [f'"-" {part}' for part in _natural(max(1, -high), -low)]


def _natural(low: int, high: int) -> list[str]:
    """Alternatives for ``low`` to ``high``, both 0 or more, one group for each count of digits."""
    parts: list[str] = []
    for size in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (size - 1) if size > 1 else 0)
        last = min(high, 10**size - 1)
        parts += _fixed(str(first), str(last))
    return _joined_lengths(parts, low, high)


def _joined_lengths(parts: list[str], low: int, high: int) -> list[str]:
    """The same alternatives, said shortly when they are all the naturals of up to some count of digits."""
    if low > 1 or set(str(high)) != {"9"} or high < 10:
        return parts
    return ['"0"'] * (low == 0) + [f"[1-9] [0-9]{{0,{len(str(high)) - 1}}}"]


def _fixed(low: str, high: str) -> list[str]:
    """Alternatives for digit strings of one length, from ``low`` to ``high``."""
    if low == high:
        return [f'"{low}"']
    if len(low) == 1:
        return [f"[{low}-{high}]"]
    if low[0] == high[0]:
        return [f'"{low[0]}" {part}' for part in _fixed(low[1:], high[1:])]

    size, first, last, parts = len(low) - 1, int(low[0]), int(high[0]), list[str]()
    if set(low[1:]) != {"0"}:
        parts += [f'"{first}" {part}' for part in _fixed(low[1:], "9" * size)]
        first += 1
    tail = [] if set(high[1:]) == {"9"} else [f'"{last}" {part}' for part in _fixed("0" * size, high[1:])]
    last -= bool(tail)
    if first <= last:
        parts.append(f"[{first}-{last}] [0-9]{{{size}}}")
    return parts + tail


def _decimals(low: Decimal, high: Decimal, scale: int) -> list[str]:
    """Alternatives for the decimals from ``low`` to ``high``, both 0 or more."""
    floor, ceiling = int(low), int(high)
    low_part, high_part = _fraction(low, scale), _fraction(high, scale)
    if floor == ceiling:
        return _edge(floor, low_part, high_part)

    parts: list[str] = []
    if low_part.strip("0"):
        parts += _edge(floor, low_part, "9" * scale)
        floor += 1
    if floor < ceiling:
        whole = " | ".join(_natural(floor, ceiling - 1))
        inner = f"({whole})" if " | " in whole else whole
        parts.append(f'{"[0]" if whole == chr(34) + "0" + chr(34) else inner} ("." [0-9]{{1,{scale}}})?')
    return parts + _edge(ceiling, "0" * scale, high_part)


def _fraction(value: Decimal, scale: int) -> str:
    return f"{int((value - int(value)).scaleb(scale)):0{scale}}"


def _edge(whole: int, low: str, high: str) -> list[str]:
    """Alternatives for one whole part and the fractions from ``low`` to ``high``, padded digit strings."""
    if not high.strip("0"):
        return [f'"{whole}" ("." "0"{{1,{len(high)}}})?']

    parts = [f'"{whole}"'] if not low.strip("0") else []
    return parts + [f'"{whole}." {part}' for part in _fixed(low, high)]
