r"""Patterns of JSON Schemas: ECMA-262 regular expressions from anywhere, matched within a set time.

JSON Schema's patterns are those of ECMA-262, where `$` is the very end, `\d` is ASCII, and much that the package
`regex` reads into a pattern is plain text. They are rewritten for `regex`, which can stop a search that explodes.

>>> compiled_pattern("^[0-9]{3}$").search("123") is not None
True
>>> print(rewritten(r"^\d+$"))
^[0-9]+\Z
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import thread_time
from typing import Any, Final, final

from fxai.schema.budget import MAX_LEVELS, MAX_PATTERN, with_stack

__all__ = [
    "SECONDS",
    "Matcher",
    "PatternTimeout",
    "compiled_pattern",
    "expansion",
    "in_time",
    "python_pattern",
    "rewritten",
    "shared_matcher",
]

SECONDS: Final = 0.04
"""How long the patterns of one validation may compute, all together."""

_SPACES: Final = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OUTSIDE: Final = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
    "b": r"(?a:\b)",
    "B": r"(?a:\B)",
    "/": "/",
    "-": r"\-",
    "0": r"\x00",
}
_INSIDE: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES, "b": r"\x08", "/": "/", "0": r"\x00"}
_KEPT: Final = frozenset("fnrtvDWSpP123456789")
_QUANTIFIER: Final = re.compile(r"\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\}")
_PIECE: Final = re.compile(
    r"(?P<atom>\\.|\[\^?(?:\\.|[^\]\\])*\]?)|(?P<times>[*+?]|\{\d+(?:,\d*)?\})|(?P<sign>[()|])|(?P<one>.)", re.DOTALL
)
_BRANCH: Final = 8  # what a group and a branch cost, as characters
_FAR: Final = 10**12  # beyond any budget, and no number that grows on and on
_MOST_OF_ONE: Final = 2_000  # a repeated character costs no more, however often it may come again
_CODE: Final = re.compile(r"x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|u\{(?P<b>[0-9A-Fa-f]+)\}|c(?P<c>[A-Za-z])")
_PROPERTY: Final = re.compile(r"[pP]\{[^}]*\}")
_NAMED: Final = re.compile(r"k<(?P<name>\w+)>")


class PatternTimeout(Exception):
    """A pattern took longer than it may."""


@lru_cache(maxsize=1024)
def compiled_pattern(pattern: str) -> Any:
    """The pattern, ready to search with a timeout.

    Raises:
        ValueError: it is no pattern, or one that expands to more than `MAX_PATTERN`; says why.
    """
    if expansion(pattern) > MAX_PATTERN:
        raise ValueError(f"with its repetitions written out it has more than {MAX_PATTERN} characters")
    import regex

    try:
        return with_stack(lambda: regex.compile(rewritten(pattern)))
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or "too complicated") from None


@lru_cache(maxsize=1024)
def python_pattern(pattern: str) -> Any:
    """A pattern of Python's own language, ready to search with a timeout.

    Raises:
        ValueError: it cannot be searched with so, or it expands to more than `MAX_PATTERN`; says why.
    """
    if expansion(pattern) > MAX_PATTERN:
        raise ValueError(f"with its repetitions written out it has more than {MAX_PATTERN} characters")
    import regex

    try:
        return with_stack(lambda: regex.compile(pattern))
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or "too complicated") from None


def in_time(pattern: str) -> str:
    """What is expected where a pattern took too long."""
    return f"patterns that are decided within {SECONDS} seconds ({pattern!r} took longer)"


def expansion(pattern: str) -> int:
    """How long a pattern is with every repetition written out: what it costs to compile, about.

    Raises:
        ValueError: its groups nest deeper than `MAX_LEVELS`.

    >>> expansion("^[a-z]{2}$"), expansion("(?:a{1,9}b){1,9}"), expansion("((a{99}){99}){99}") > 900_000
    (9, 171, True)
    """
    if len(pattern) > MAX_PATTERN:
        return len(pattern)
    groups: list[int] = []
    whole = last = 0
    simple = True
    for piece in _PIECE.finditer(pattern):
        kind, text = piece.lastgroup, piece[0]
        if kind == "times":
            last = min(last * _copies(text, simple=simple), _FAR)
        elif text == "(" and kind == "sign":
            groups.append(whole + last)
            whole = last = 0
            if len(groups) > MAX_LEVELS:
                raise ValueError(f"its groups nest deeper than {MAX_LEVELS} levels")
        elif text == ")" and kind == "sign" and groups:
            whole, last = groups.pop(), whole + last + _BRANCH
            simple = False
        else:
            whole, last = whole + last + len(text) - 1, _BRANCH if text == "|" else 1
            simple = True
    return whole + last + sum(groups)


def _copies(times: str, *, simple: bool) -> int:
    """How often what is repeated stands in what a quantifier expands to."""
    counts = _QUANTIFIER.fullmatch(times)
    if counts is None:
        return 2 if times == "+" else 1
    least = int(counts["least"][:9])
    most = int(counts["most"][:9]) if counts["most"] else least
    return max(least + 1, min(most, _MOST_OF_ONE) if simple else most)


def rewritten(pattern: str) -> str:
    """The pattern in the language of the package `regex`, meaning what it means in ECMA-262."""
    return "".join(_pieces(pattern))


def _pieces(pattern: str) -> Iterator[str]:
    at, end = 0, len(pattern)
    while at < end:
        sign = pattern[at]
        if sign == "\\":
            piece, at = _escape(pattern, at + 1, _OUTSIDE)
        elif sign == "[":
            piece, at = _class(pattern, at + 1)
        elif sign == "{":
            quantifier = _QUANTIFIER.match(pattern, at)
            piece, at = (quantifier[0], quantifier.end()) if quantifier else (r"\{", at + 1)
        else:
            piece = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "}": r"\}", "]": r"\]"}.get(sign, sign)
            at += 1
        yield piece


def _escape(pattern: str, at: int, meanings: dict[str, str]) -> tuple[str, int]:
    """What follows a backslash, and where it ends."""
    if at >= len(pattern):
        return "\\", at  # refused when compiled
    sign = pattern[at]
    if code := _CODE.match(pattern, at):
        number = ord(code["c"]) % 32 if code["c"] else int(code["x"] or code["u"] or code["b"], 16)
        return (f"\\U{number:08x}" if number <= 0x10FFFF else "\\"), code.end()
    if sign in "pP" and (named := _PROPERTY.match(pattern, at)):
        return "\\" + named[0], named.end()
    if sign == "k" and (group := _NAMED.match(pattern, at)):
        return f"(?P={group['name']})", group.end()
    if sign in meanings:
        return meanings[sign], at + 1
    if sign in _KEPT or not sign.isascii():
        return "\\" + sign if sign.isascii() else sign, at + 1
    return (sign if sign.isalnum() else "\\" + sign), at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    """A character class from behind its bracket, and where it ends."""
    negated = pattern.startswith("^", at)
    at += negated
    parts: list[str] = []
    ascii_only = False
    while at < len(pattern) and pattern[at] != "]":
        if pattern[at] == "\\":
            ascii_only |= pattern[at + 1 : at + 2] in ("D", "W", "S")
            part, at = _escape(pattern, at + 1, _INSIDE)
        else:
            part, at = ("\\" + pattern[at] if pattern[at] in "[&|~" else pattern[at]), at + 1
        parts.append(part)
    if at >= len(pattern):
        return "[", at  # refused when compiled
    if not parts:
        return (r"[\s\S]" if negated else r"(?!)"), at + 1
    text = f"[{'^' if negated else ''}{''.join(parts)}]"
    return (f"(?a:{text})" if ascii_only else text), at + 1


@final
class Matcher:
    """Searches with patterns until the time of one validation is used up; what others compute is not counted.

    Attributes:
        late: the pattern that took too long, if one did; from then on every search raises.
    """

    __slots__ = ("_left", "late")

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds
        self.late: str | None = None

    def found(self, pattern: str, text: str) -> bool:
        """Whether the pattern is found anywhere in the text.

        Raises:
            PatternTimeout: the time is used up.
        """
        return self.searched(compiled_pattern(pattern), pattern, text)

    def searched(self, compiled: Any, pattern: str, text: str) -> bool:
        """The same by a pattern that is compiled already.

        Raises:
            PatternTimeout: the time is used up.
        """
        if self.late is None and self._left > 0:
            start = thread_time()
            try:
                return compiled.search(text, timeout=self._left, concurrent=True) is not None
            except TimeoutError:
                pass
            finally:
                self._left -= thread_time() - start
        self.late = self.late or pattern
        raise PatternTimeout(pattern)


class _Shared(threading.local):
    matcher: Matcher | None = None


_shared: Final = _Shared()


@contextmanager
def shared_matcher() -> Generator[Matcher]:
    """What the patterns of one decoding are searched with, so that all of them have one time; also inside another one.

    >>> with shared_matcher() as outer, shared_matcher() as inner:
    ...     outer is inner
    True
    """
    if _shared.matcher is not None:
        yield _shared.matcher
        return
    _shared.matcher = made = Matcher(SECONDS)
    try:
        yield made
    finally:
        _shared.matcher = None
