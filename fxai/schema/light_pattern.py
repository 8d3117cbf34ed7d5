r"""Patterns of Python types: which of them the engine of `re` decides in a time that grows with the text alone.

`msgspec` matches the pattern of a `Meta` by `re`, which tries one way after the other and cannot be stopped. A pattern
is light where each character of the text leaves one way to go on (no two that follow one another share a character), so
that there is nothing to try again; it begins at the beginning of the text, or has decided within a few characters of
any place. Every other pattern is matched within a set time.

>>> [is_light(pattern) for pattern in (r"^[a-z]+(-[a-z]+)*$", r"^\d{4}-\d{2}$", r"^(a+)+$", r"[a-z]+\d")]
[True, True, False, False]
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, final

__all__ = ["is_light"]

_MOST_PLACES: Final = 512
_FEW: Final = 8  # how many characters a pattern may look at from any place of the text, where it is not tied to one
_SHORT: Final = 256
_FEW_WAYS: Final = 32
_FAR: Final = 10**6
_OTHERS: Final = 1 << 128  # stands for every character that is not ASCII
_ALL: Final = _OTHERS * 2 - 1
_WITHOUT: Final = re.IGNORECASE | re.MULTILINE | re.LOCALE


@final
class _Ways:
    """What a part of a pattern may begin with and end with.

    Attributes:
        empty: it may match nothing.
        first: the places that it may begin with.
        last: the places that it may end with.
        longest: how many characters it matches at most.
        ways: in how many ways it may match, at most.
    """

    __slots__ = ("empty", "first", "last", "longest", "ways")

    def __init__(self, *, empty: bool, first: list[int], last: list[int], longest: int, ways: int = 1) -> None:
        self.empty = empty
        self.first = first
        self.last = last
        self.longest = min(longest, _FAR)
        self.ways = min(ways, _FAR)


class _HeavyError(Exception):
    """The pattern holds what may be tried in more than one way, or what is not looked into."""


@lru_cache(maxsize=1024)
def is_light(pattern: str) -> bool:
    """Whether `re` searches with a pattern in a time that grows with the text alone; False where that is not known."""
    try:
        parsed: Any = import_module("re._parser").parse(pattern)
        if parsed.state.flags & _WITHOUT:
            return False
        items = list(parsed)
        tied = bool(items) and _name(items[0]) == "AT" and str(items[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
        return _Places().decide(items[1:] if tied else items, tied=tied)
    except (_HeavyError, RecursionError, ImportError, AttributeError, re.error, OverflowError):
        return False


def _name(item: Any) -> str:
    return str(item[0])


@final
class _Places:
    """The places of a pattern, each with the characters that it takes, and which may follow which."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.after: list[list[int]] = []

    def decide(self, items: list[Any], *, tied: bool) -> bool:
        """Whether these parts, the whole pattern, can be decided in one go; raises where they cannot."""
        whole = self.row(items)
        if tied and whole.longest <= _SHORT and whole.ways <= _FEW_WAYS:
            return True
        self._hold_apart(whole.first)
        for follow in self.after:
            self._hold_apart(follow)
        return tied or self._is_short(items)

    def _is_short(self, items: list[Any]) -> bool:
        """Whether a match, or that there is none, is known after a few characters: what repeats stands at the end."""
        before = items
        if items and _name(items[-1]) in _REPEATS and int(items[-1][1][1]) > _FEW:
            least, _, inner = items[-1][1]
            if len(inner) != 1 or _name(inner[0]) not in _SINGLE or least > _FEW:
                return False
            before = items[:-1]
        return _Places().row(before).longest <= _FEW

    def _hold_apart(self, places: list[int]) -> None:
        seen = 0
        for place in places:  # one that stands there twice can be come to in two ways
            if seen & self.taken[place]:
                raise _HeavyError
            seen |= self.taken[place]

    def row(self, items: list[Any]) -> _Ways:
        """Parts one behind the other."""
        whole = _Ways(empty=True, first=[], last=[], longest=0)
        for item in items:
            part = self.part(item)
            self._follow(whole.last, part.first)
            whole = _Ways(
                empty=whole.empty and part.empty,
                first=whole.first + part.first if whole.empty else whole.first,
                last=whole.last + part.last if part.empty else part.last,
                longest=whole.longest + part.longest,
                ways=whole.ways * part.ways,
            )
        return whole

    def _follow(self, before: list[int], behind: list[int]) -> None:
        for place in before:
            self.after[place] += behind

    def part(self, item: Any) -> _Ways:
        """One part of a pattern."""
        name, said = _name(item), item[1]
        if name in _SINGLE:
            if len(self.taken) >= _MOST_PLACES:
                raise _HeavyError
            self.taken.append(_characters(item))
            self.after.append([])
            place = len(self.taken) - 1
            return _Ways(empty=False, first=[place], last=[place], longest=1)
        if name == "SUBPATTERN" and not said[1] and not said[2]:
            return self.row(list(said[3]))
        if name == "BRANCH":
            ways = [self.row(list(way)) for way in said[1]]
            return _Ways(
                empty=any(way.empty for way in ways),
                first=[place for way in ways for place in way.first],
                last=[place for way in ways for place in way.last],
                longest=max(way.longest for way in ways),
                ways=sum(way.ways for way in ways),
            )
        if name in _REPEATS:
            return self._repeated(int(said[0]), int(said[1]), list(said[2]))
        if name == "AT" and str(said) in ("AT_END", "AT_END_STRING"):
            return _Ways(empty=True, first=[], last=[], longest=0)
        raise _HeavyError

    def _repeated(self, least: int, most: int, items: list[Any]) -> _Ways:
        """Copies one behind the other; beyond a number of them, one that follows itself."""
        endless = most - least > _MOST_PLACES
        copies = [self.row(items) for _ in range(min(max(least, 1) if endless else most, _MOST_PLACES + 1))]
        if any(copy.empty for copy in copies):
            raise _HeavyError  # what is empty may be repeated in any number of ways
        before: list[int] = []
        last: list[int] = []
        for number, copy in enumerate(copies):
            self._follow(before, copy.first)
            before = copy.last
            last = last + before if number >= least else before
        if endless:
            self._follow(before, copies[-1].first)
        longest = _FAR if endless else sum(copy.longest for copy in copies)
        ways, each = 0, 1
        for number in range(len(copies) + 1):
            ways += each if number >= least else 0
            each = min(each * copies[0].ways, _FAR) if copies else 1
        first = copies[0].first if copies else []
        return _Ways(empty=least == 0, first=first, last=last, longest=longest, ways=_FAR if endless else ways)


_REPEATS: Final = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))
_SINGLE: Final = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN"))
_CLASSES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def _characters(item: Any) -> int:
    """Which characters one place takes, as bits: those of ASCII, and one for all others."""
    name, said = _name(item), item[1]
    if name == "LITERAL":
        return 1 << said if said < 128 else _OTHERS
    if name == "NOT_LITERAL":
        return _ALL & ~(1 << said) if said < 128 else _ALL
    if name == "ANY":
        return _ALL
    held, negated = 0, False
    for kind, value in said:
        word = str(kind)
        if word == "NEGATE":
            negated = True
        elif word == "LITERAL":
            held |= _characters((kind, value))
        elif word == "RANGE":
            low, high = value
            held |= (1 << min(high + 1, 128)) - (1 << min(low, 128)) | (_OTHERS if high > 127 else 0)
        else:
            shape = re.compile(_CLASSES[str(value)])
            held |= sum(1 << code for code in range(128) if shape.match(chr(code))) | _OTHERS
    return (_ALL & ~held) | _OTHERS if negated else held
