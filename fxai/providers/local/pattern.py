r"""Patterns as grammar: a regular expression of JSON Schema as the GBNF of the JSON strings that match it.

A grammar can count and choose, so literals, classes, groups, alternatives and repetition carry over. What looks
around or back does not: look-ahead, look-behind, back-references, word boundaries and Unicode properties are a
`PatternError` that names them. Lengths are bounded, so that whatever is generated ends.

>>> pattern_grammar("^v[0-9]{1,2}$", 0, None)
'"v" [\\x30-\\x39]{1,2}'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fxai.schema.budget import MAX_PATTERN
from fxai.schema.expression import (
    Characters,
    Choice,
    Node,
    PatternError,
    Ranges,
    Repeat,
    Series,
    overlap,
    parse,
    without,
)
from fxai.schema.pattern import expansion

__all__ = ["literal", "pattern_grammar", "string_grammar"]

_TOP: Final = 0x10FFFF
_CHUNK: Final = 1000
_ESCAPED: Final = {0x09: r"\\t", 0x0A: r"\\n", 0x0D: r"\\r", 0x22: r"\\\"", 0x5C: r"\\\\"}


def literal(text: str) -> str:
    r"""The GBNF literal of exactly ``text``.

    >>> literal('a"b\n')
    '"a\\"b\\n"'
    """
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(special.get(c) or (c if " " <= c != "\x7f" else f"\\x{ord(c):02X}") for c in text) + '"'


def string_grammar(least: int, most: int) -> str:
    """The GBNF of what stands between the quotes of any JSON string of ``least`` to ``most`` characters.

    >>> string_grammar(1, 9)
    'char{1,9}'
    """
    whole, rest = divmod(least, _CHUNK)
    parts = [f"char{{{_CHUNK},{_CHUNK}}}"] * whole
    parts += [f"char{{{rest},{rest + most - least}}}"] if rest + most - least else []
    return " ".join(parts) or '""'


def pattern_grammar(pattern: str, least: int, most: int | None, *, bound: int = 256) -> str:
    r"""The GBNF of what stands between the quotes of JSON strings that match ``pattern``.

    ``least`` and ``most`` are the string's own length bounds; repetition without an end stops so that the
    string has at most ``most`` characters, or ``bound`` where there is no ``most``. What is generated is a part of
    what matches (classes like ``\W`` stay within ASCII). Raises `PatternError`.

    >>> pattern_grammar("^a+$", 2, 4)
    '"a"{2,4}'
    """
    try:
        if expansion(pattern) > MAX_PATTERN:
            raise PatternError(f"with its repetitions written out it has more than {MAX_PATTERN} characters")
    except ValueError as error:
        raise PatternError(str(error)) from None
    node = parse(pattern)
    limit = most if most is not None else max(bound, _least(node), least)
    fitted = _raise_to(_cap(node, limit), least)
    if fitted is None or _least(fitted) > limit:
        end = "" if most is None else f" to {most}"
        raise PatternError(f"no string of {least}{end} characters matches {pattern!r}")

    return _render(fitted, top=True)


def _least(node: Node) -> int:
    """The fewest characters that the node matches."""
    match node:
        case Characters():
            return 1
        case Series(parts):
            return sum(map(_least, parts))
        case Choice(branches):
            return min(map(_least, branches))
        case Repeat(inner, least, _):
            return least * _least(inner)


def _most(node: Node) -> int | None:
    """The most characters that the node matches; None when there is no end."""
    match node:
        case Characters():
            return 1
        case Series(parts):
            return _fold(map(_most, parts), sum)
        case Choice(branches):
            return _fold(map(_most, branches), max)
        case Repeat(inner, _, most):
            each = _most(inner)
            return None if most is None or each is None else most * each


def _fold(sizes: map[int | None], how: Callable[[list[int]], int]) -> int | None:
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return how(known) if len(known) == len(listed) else None


def _cap(node: Node, limit: int) -> Node:
    """The same node with its repetition ended so that it matches at most ``limit`` characters, where it can be."""
    longest = _most(node)
    if longest is not None and longest <= limit:
        return node
    match node:
        case Characters():
            return node
        case Choice(branches):
            fitting = tuple(_cap(b, limit) for b in branches if _least(b) <= limit)
            return Choice(fitting or branches)
        case Repeat(inner, least, most):
            return _cap_repeat(inner, least, most, limit)
        case Series(parts):
            return _cap_sequence(parts, limit)


def _cap_repeat(inner: Node, least: int, most: int | None, limit: int) -> Node:
    each = _most(inner)
    if each is None or each * max(least, 1) > limit:
        inner = _cap(inner, max(_least(inner), limit // max(least, 2)))
        each = _most(inner) or 1
    count = limit // max(each, 1)
    return Repeat(inner, least, max(least, count if most is None else min(most, count)))


def _cap_sequence(parts: tuple[Node, ...], limit: int) -> Node:
    spare = limit - sum(map(_least, parts))
    shares = sum(1 for part in parts if _most(part) != _least(part))
    capped: list[Node] = []
    for part in parts:
        flexible = _most(part) != _least(part)
        share = max(0, spare) // max(1, shares) if flexible else 0
        fitted = _cap(part, _least(part) + share) if flexible else part
        spare, shares = spare - ((_most(fitted) or 0) - _least(part)), shares - flexible
        capped.append(fitted)
    return Series(tuple(capped))


def _raise_to(node: Node, least: int) -> Node | None:
    """The same node with its repetition begun later, so that it matches ``least`` characters or more; None if never."""
    if _least(node) >= least:
        return node
    if (_most(node) or 0) < least:
        return None
    match node:
        case Characters():
            return None
        case Choice(branches):
            fitting = tuple(b for branch in branches if (b := _raise_to(branch, least)) is not None)
            return Choice(fitting) if fitting else None
        case Repeat():
            return _raise_repeat(node, least)
        case Series(parts):
            return _raise_sequence(parts, least)


def _raise_repeat(node: Repeat, least: int) -> Node | None:
    each = max(1, _most(node.node) or 1)
    count = max(node.least, -(-least // each))
    inner = _raise_to(node.node, -(-least // count))
    return None if inner is None else replace(node, node=inner, least=count)


def _raise_sequence(parts: tuple[Node, ...], least: int) -> Node | None:
    raised = list(parts)
    missing = least - sum(map(_least, parts))
    for index, part in enumerate(parts):
        room = min(missing, (_most(part) or 0) - _least(part))
        better = _raise_to(part, _least(part) + room) if room > 0 else None
        if better is not None:
            missing -= _least(better) - _least(part)
            raised[index] = better
    return Series(tuple(raised)) if missing <= 0 else None


def _render(node: Node, *, top: bool = False) -> str:
    match node:
        case Characters(ranges):
            return _render_set(ranges)
        case Series(parts):
            text = " ".join(_render(part) for part in _joined(parts)) or '""'
            return text if top or len(parts) == 1 else f"({text})"
        case Choice(branches):
            text = " | ".join(_render(branch, top=True) for branch in branches)
            return f"({text})"
        case Repeat(inner, least, most):
            return '""' if most == 0 else f"{_render(inner)}{{{least},{most}}}"


def _joined(parts: tuple[Node, ...]) -> list[Node]:
    return [part for part in parts if not (isinstance(part, Repeat) and part.most == 0)]


def _render_set(ranges: Ranges) -> str:
    """A class over the characters of JSON text: plain ones as they are, the others as JSON escapes them."""
    plain = overlap(overlap(ranges, without(((0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F)))), ((0x20, _TOP),))
    escaped = [text for code, text in _ESCAPED.items() if any(low <= code <= high for low, high in ranges)]
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and plain:
        return literal(chr(plain[0][0]))
    options = ["[" + "".join(_render_range(low, high) for low, high in plain) + "]"] if plain else []
    options += [f'"{text}"' for text in escaped]
    if not options:
        raise PatternError("a control character")
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _render_range(low: int, high: int) -> str:
    first = _code_text(low)
    return first if low == high else f"{first}-{_code_text(high)}"


def _code_text(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
