r"""GBNF rules for strings and numbers. The grammar uses them for patterns, lengths, integers, and decimals with bounds.

A pattern can contain literals, classes, groups, alternatives, and repetition. A `PatternError` names any other part:
look-ahead, look-behind, back-references, word boundaries, or Unicode properties. All lengths have a limit. A grammar
counts symbols, not values. A range of numbers therefore becomes alternatives of digits: 7 to 12 is one digit from 7 to
9, or a 1 and a digit from 0 to 2.

>>> pattern_grammar("^v[0-9]{1,2}$", 0, None)
'"v" [\\x30-\\x39]{1,2}'
>>> integers(7, 12)
'[7-9] | "1" [0-2]'
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final, TypeAlias

from fxai.schema.budget import MAX_PATTERN
from fxai.schema.pattern import (
    Alternation,
    Characters,
    Node,
    Other,
    PatternError,
    Repeat,
    Series,
    expansion,
    longest,
    parse,
    set_members,
    shortest,
)

DIGITS: Final = 15
"""The maximum number of digits of an unbounded integer. A double represents them exactly."""

FRACTION_DIGITS: Final = 6
"""The maximum number of digits after the decimal point, unless a bound has more digits."""

_LARGEST: Final = 10**DIGITS - 1


def integers(low: int | None, high: int | None) -> str | None:
    """Return the GBNF alternatives of the integers from ``low`` to ``high``, or None if the range is empty.

    Without a bound, the integers have at most 15 digits, or one digit more than the other bound.

    >>> integers(-3, 2), integers(3, 2)
    ('"-" [1-3] | [0-2]', None)
    """
    bottom = min(-_LARGEST, -abs(high or 0) * 10) if low is None else low
    top = max(_LARGEST, abs(low or 0) * 10) if high is None else high
    parts = [f'"-" {part}' for part in _natural(max(1, -top), -bottom)] if bottom < 0 else []
    parts += _natural(max(bottom, 0), top) if top >= 0 else []
    return " | ".join(parts) if bottom <= top else None


def multiples(step: int, low: int | None, high: int | None, *, most: int = 512) -> str | None:
    """Return the GBNF alternatives of the multiples of ``step`` within the bounds, or None if this is impossible.

    A list contains up to ``most`` multiples. Without a bound, it contains the first ``most`` from the other bound or
    from zero. For an unbounded step that divides a power of ten, the alternatives are the last digits.

    >>> multiples(5, 0, 12), multiples(7, 0, 10**6)
    ('"0" | "5" | "10"', None)
    >>> multiples(5, None, None)
    '"-"? ("0" | "5" | [1-9] [0-9]{0,13} ("0" | "5"))'
    """
    size = next((d for d in range(1, 4) if 10**d % step == 0), None)
    if size is not None and low in (None, 0) and high is None:  # any digits before a few endings
        short = " | ".join(f'"{n}"' for n in range(0, 10**size, step))
        tails = " | ".join(f'"{n:0{size}}"' for n in range(0, 10**size, step))
        sign = '"-"? ' if low is None else ""
        return f"{sign}({short} | [1-9] [0-9]{{0,{DIGITS - size - 1}}} ({tails}))"

    first = -(-low // step) if low is not None else (high // step - most + 1 if high is not None else 0)
    last = high // step if high is not None else first + most - 1
    values = [f'"{n * step}"' for n in range(first, last + 1)] if 0 <= last - first < most else []
    return " | ".join(values) or None


def numbers(low: Decimal | None, high: Decimal | None, *, above: bool = False, below: bool = False) -> str | None:
    """Return the GBNF alternatives of the decimal numbers from ``low`` to ``high``, or None if the range is empty.

    ``above`` and ``below`` exclude the bound itself. Fractions have up to six digits, or the digits of a bound.

    >>> numbers(Decimal("0"), Decimal("1"))
    '[0] ("." [0-9]{1,6})? | "1" ("." "0"{1,6})?'
    >>> numbers(Decimal("1"), Decimal("0")) is None
    True
    """
    exponents = [bound.normalize().as_tuple().exponent for bound in (low, high) if bound is not None]
    scale = max(FRACTION_DIGITS, *(-exponent for exponent in exponents if isinstance(exponent, int)), 0)
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


def _on_grid(value: Decimal, step: Decimal, *, up: bool) -> Decimal:
    whole = (value / step).to_integral_value(rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return whole * step


def _natural(low: int, high: int) -> list[str]:
    """Return alternatives for ``low`` to ``high``, both 0 or more, with a group for each number of digits."""
    parts: list[str] = []
    for size in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (size - 1) if size > 1 else 0)
        last = min(high, 10**size - 1)
        parts += _digit_strings(str(first), str(last))
    if low > 1 or set(str(high)) != {"9"} or high < 10:
        return parts
    # all natural numbers up to some number of digits
    return ['"0"'] * (low == 0) + [f"[1-9] [0-9]{{0,{len(str(high)) - 1}}}"]


def _digit_strings(low: str, high: str) -> list[str]:
    """Return alternatives for digit strings of equal length, from ``low`` to ``high``."""
    if low == high:
        return [f'"{low}"']
    if len(low) == 1:
        return [f"[{low}-{high}]"]
    if low[0] == high[0]:
        return [f'"{low[0]}" {part}' for part in _digit_strings(low[1:], high[1:])]

    size, first, last, parts = len(low) - 1, int(low[0]), int(high[0]), list[str]()
    if set(low[1:]) != {"0"}:
        parts += [f'"{first}" {part}' for part in _digit_strings(low[1:], "9" * size)]
        first += 1
    tail = [] if set(high[1:]) == {"9"} else [f'"{last}" {part}' for part in _digit_strings("0" * size, high[1:])]
    last -= bool(tail)
    if first <= last:
        parts.append(f"[{first}-{last}] [0-9]{{{size}}}")
    return parts + tail


def _decimals(low: Decimal, high: Decimal, scale: int) -> list[str]:
    """Return alternatives for the decimals from ``low`` to ``high``, both 0 or more."""
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
    """Return alternatives for one whole part and the fractions from ``low`` to ``high``, as padded digit strings."""
    if not high.strip("0"):
        return [f'"{whole}" ("." "0"{{1,{len(high)}}})?']

    parts = [f'"{whole}"'] if not low.strip("0") else []
    return parts + [f'"{whole}." {part}' for part in _digit_strings(low, high)]


_TOP: Final = 0x10FFFF
_CHUNK: Final = 1000
_ESCAPED: Final = {0x09: r"\\t", 0x0A: r"\\n", 0x0D: r"\\r", 0x22: r"\\\"", 0x5C: r"\\\\"}


def literal(text: str) -> str:
    r"""Return the GBNF literal of ``text``.

    >>> literal('a"b\n')
    '"a\\"b\\n"'
    """
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(special.get(c) or (c if " " <= c != "\x7f" else f"\\x{ord(c):02X}") for c in text) + '"'


def string_grammar(least: int, most: int) -> str:
    """Return the GBNF of the contents of JSON strings with ``least`` to ``most`` characters, without the quotes.

    >>> string_grammar(1, 9)
    'char{1,9}'
    """
    whole, rest = divmod(least, _CHUNK)
    parts = [f"char{{{_CHUNK},{_CHUNK}}}"] * whole
    parts += [f"char{{{rest},{rest + most - least}}}"] if rest + most - least else []
    return " ".join(parts) or '""'


def pattern_grammar(pattern: str, least: int, most: int | None, *, bound: int = 256) -> str:
    r"""Return the GBNF of the contents of JSON strings that match ``pattern``, without the quotes.

    ``least`` and ``most`` are the length bounds of the string. Unlimited repetition stops at ``most`` characters, or at
    ``bound`` if ``most`` is None. The grammar generates only part of the matches: classes like ``\W`` stay within
    ASCII. Raises `PatternError`.

    >>> pattern_grammar("^a+$", 2, 4)
    '"a"{2,4}'
    """
    try:
        if expansion(pattern) > MAX_PATTERN:
            raise PatternError(f"the expanded repetitions have more than {MAX_PATTERN} characters")
    except ValueError as error:
        raise PatternError(str(error)) from None
    node = _whole(parse(pattern))
    limit = most if most is not None else max(bound, shortest(node), least)
    fitted = _raise_to(_cap(node, limit), least)
    if fitted is None or shortest(fitted) > limit:
        end = "" if most is None else f" to {most}"
        raise PatternError(f"no string of {least}{end} characters matches {pattern!r}")

    return _render(fitted, top=True)


def _whole(node: Node) -> Node:
    """Return a pattern for whole strings: free text before and after it, except at an anchor."""
    if isinstance(node, Alternation):
        return Alternation(tuple(map(_whole, node.branches)))
    parts = node.parts if isinstance(node, Series) else (node,)
    anything = Repeat(Characters("."), 0, _SLACK)
    before = () if parts[:1] == (Other("^"),) else (anything,)
    parts = parts[not before :]
    after = () if parts[-1:] == (Other("$"),) else (anything,)
    whole = Series((*before, *(parts if after else parts[:-1]), *after))
    _hold_expressible(whole)
    return whole


def _hold_expressible(node: Node) -> None:
    match node:
        case Characters(text):
            _ranges(text)
        case Series(inners) | Alternation(inners):
            for inner in inners:
                _hold_expressible(inner)
        case Repeat(inner, _, _, possessive):
            if possessive:
                raise PatternError("unsupported possessive repetition")
            _hold_expressible(inner)
        case Other(text):
            if text[0] == "\\":
                raise PatternError(f"unsupported escape '{text[:2]}'")
            kind = "anchor" if text in "^$" else "look-around" if text[-1] in "=!" else "group"
            raise PatternError(f"unsupported {kind} {text!r} inside a pattern")


def _cap(node: Node, limit: int) -> Node:
    """Limit the repetition in the node so that it matches at most ``limit`` characters, if possible."""
    end = longest(node)
    if end is not None and end <= limit:
        return node
    match node:
        case Characters() | Other():
            return node
        case Alternation(branches):
            fitting = tuple(_cap(b, limit) for b in branches if shortest(b) <= limit)
            return Alternation(fitting or branches)
        case Repeat(inner, least, most, _):
            each = longest(inner)
            if each is None or each * max(least, 1) > limit:
                inner = _cap(inner, max(shortest(inner), limit // max(least, 2)))
                each = longest(inner) or 1
            count = limit // max(each, 1)
            return Repeat(inner, least, max(least, count if most is None else min(most, count)))
        case Series(parts):
            spare = limit - sum(map(shortest, parts))
            shares = sum(1 for part in parts if longest(part) != shortest(part))
            capped: list[Node] = []
            for part in parts:
                flexible = longest(part) != shortest(part)
                share = max(0, spare) // max(1, shares) if flexible else 0
                fitted = _cap(part, shortest(part) + share) if flexible else part
                spare, shares = spare - ((longest(fitted) or 0) - shortest(part)), shares - flexible
                capped.append(fitted)
            return Series(tuple(capped))


def _raise_to(node: Node, least: int) -> Node | None:
    """Raise the repetition in the node so that it matches at least ``least`` characters. Return None if impossible."""
    if shortest(node) >= least:
        return node
    if (longest(node) or 0) < least:
        return None
    match node:
        case Characters() | Other():
            return None
        case Alternation(branches):
            fitting = tuple(b for branch in branches if (b := _raise_to(branch, least)) is not None)
            return Alternation(fitting) if fitting else None
        case Repeat():
            count = max(node.least, -(-least // max(1, longest(node.node) or 1)))
            inner = _raise_to(node.node, -(-least // count))
            return None if inner is None else Repeat(inner, count, node.most)
        case Series(parts):
            raised = list(parts)
            missing = least - sum(map(shortest, parts))
            for index, part in enumerate(parts):
                excess = min(missing, (longest(part) or 0) - shortest(part))
                better = _raise_to(part, shortest(part) + excess) if excess > 0 else None
                if better is not None:
                    missing -= shortest(better) - shortest(part)
                    raised[index] = better
            return Series(tuple(raised)) if missing <= 0 else None


def _render(node: Node, *, top: bool = False) -> str:
    match node:
        case Characters(text):
            return _render_set(_ranges(text))
        case Series(parts):
            shown = [part for part in parts if not (isinstance(part, Repeat) and part.most == 0)]
            text = " ".join(map(_render, shown)) or '""'
            return text if top or len(parts) == 1 else f"({text})"
        case Alternation(branches):
            text = " | ".join(_render(branch, top=True) for branch in branches)
            return f"({text})"
        case Repeat(inner, least, most, _):
            return '""' if most == 0 else f"{_render(inner)}{{{least},{most}}}"
        case Other(text):
            raise PatternError(text)


def _render_set(ranges: Ranges) -> str:
    """Return a class of characters in JSON text. JSON escapes replace the characters that need an escape."""
    plain = _overlap(_overlap(ranges, _without(((0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F)))), ((0x20, _TOP),))
    escaped = [text for code, text in _ESCAPED.items() if any(low <= code <= high for low, high in ranges)]
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and plain:
        return literal(chr(plain[0][0]))
    spans = (_code_text(low) if low == high else f"{_code_text(low)}-{_code_text(high)}" for low, high in plain)
    options = [f"[{''.join(spans)}]"] if plain else []
    options += [f'"{text}"' for text in escaped]
    if not options:
        raise PatternError("unsupported control character")
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _code_text(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


# ---- sets of characters

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points as sorted pairs: the first and the last of each range."""

_SURROGATES: Final = (0xD800, 0xDFFF)
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))
_ASCII: Final[Ranges] = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x7E))
_NEWLINES: Final[Ranges] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "v": 0x0B, "0": 0x00}
_SLACK: Final = 64


def _ranges(text: str) -> Ranges:
    """Return the characters of an element of a pattern, or some of them."""
    if text == ".":
        return _without(_NEWLINES)
    if text[0] == "[":
        return _set_ranges(text)
    if text[0] != "\\":
        return ((ord(text), ord(text)),)
    char = text[1:2]
    classes = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
    if char.lower() in classes:
        ranges = classes[char.lower()]
        return ranges if char.islower() else _overlap(_without(ranges), _ASCII)
    code = _CONTROLS.get(char, -1) if len(text) == 2 else -1 if char in "cpPk" else int(text[2:].strip("{}"), 16)
    if code < 0 and char.isalnum():
        raise PatternError(f"unsupported escape '{text[:2]}'")
    code = ord(char) if code < 0 else code
    return ((code, code),)


def _set_ranges(text: str) -> Ranges:
    negated, members = set_members(text)
    found: list[tuple[int, int]] = []
    broad = False
    pending = members[-2::-1]  # in reverse order, without the bracket
    while pending:
        low = _member_ranges(pending.pop())
        if _is_broad(low):
            broad = True
        elif pending[-1:] == ["-"] and len(pending) > 1:
            pending.pop()
            high = _member_ranges(pending.pop())
            if _is_broad(high) or high[0][0] < low[0][0]:
                raise PatternError("invalid range in a class")
            low = ((low[0][0], high[0][0]),)
        found += low
    ranges = _union(found)
    return ranges if not negated else _overlap(_without(ranges), _ASCII) if broad else _without(ranges)


def _is_broad(ranges: Ranges) -> bool:
    return len(ranges) > 1 or any(low != high for low, high in ranges)


def _member_ranges(text: str) -> Ranges:
    return ((8, 8),) if text == r"\b" else _ranges(text) if text[0] == "\\" else ((ord(text), ord(text)),)


def _union(ranges: Sequence[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _without(ranges: Ranges) -> Ranges:
    """Return all characters except these and the halves of surrogate pairs."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in _union([*ranges, _SURROGATES]):
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, _TOP)) if start <= _TOP else tuple(found)


def _overlap(left: Ranges, right: Ranges) -> Ranges:
    """Return the characters of both sets."""
    pairs = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return _union([(low, high) for low, high in pairs if low <= high])
