r"""Regular expressions of JSON Schemas (ECMA-262) and of Python. Use this module to read them or to search with them.

A search of the package `regex` can stop after a time limit.

>>> compiled_pattern("^[0-9]{3}$").search("123") is not None
True
>>> is_plain("^[a-z]+(?:-[0-9]{2})?$"), is_plain(r"^(?!x)\w+$"), is_plain(r"\bword")
(True, False, False)
>>> parse("a{2,}")
Series(parts=(Repeat(node=Characters(text='a'), least=2, most=None, possessive=False),))
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import thread_time
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.schema.budget import MAX_LEVELS, MAX_PATTERN, Work, with_stack

SECONDS: Final = 0.04
"""The maximum computing time for the patterns of a validation, in seconds."""


class PatternTimeoutError(Exception):
    """An error that ends a search after the time limit. Its argument is the pattern."""


class PatternError(ValueError):
    """An error for a pattern that is invalid or has an unsupported part. The message names the part."""


# ---- tokens

_ESCAPE: Final = (
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|c[A-Za-z]|[pP]\{[^}]{0,99}\}|k<\w+>|.)?"  # a full escape
)
_TOKEN: Final = (
    r"(?s)(?P<set>\\[dDwWsS]|\.|\[\^?(?:\\[pP]\{[^}]{0,99}\}|\\.|[^\]\\])*(?:\]|\\?\Z))"
    r"|(?P<other>[\^$]|\\(?:[pP]\{[^}]{0,99}\}|k<\w+>|[1-9bBkKpPAZzG]))"
    r"|(?P<times>[*+?]|\{\d+(?:,\d*)?\})"
    r"|(?P<open>\((?:\?(?:<?[=!]|:|P?<\w+>|[A-Za-z])?)?)|(?P<close>\))|(?P<bar>\|)"
    rf"|(?P<character>{_ESCAPE}|.)"
)
_MEMBER: Final = rf"(?s){_ESCAPE}|."
_COUNTS: Final = r"\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\}"


def tokens(pattern: str) -> Iterator[tuple[str | None, str]]:
    """Iterate over the tokens of a pattern, as kind and text. A kind is the name of a group in `_TOKEN`."""
    return ((found.lastgroup, found[0]) for found in re.finditer(_TOKEN, pattern))


def set_members(text: str) -> tuple[bool, list[str]]:
    """Return the negation and the members of a set in brackets. The last member is the `]`, if it exists."""
    negated = text.startswith("[^")
    return negated, re.findall(_MEMBER, text[1 + negated :])


def is_plain(pattern: str) -> bool:
    """Return True if a pattern has no look-around, back-reference, word boundary, or Unicode property."""
    return not any(
        (kind == "open" and text not in ("(", "(?:"))
        or (kind == "other" and text[0] == "\\")
        or (text[0] == "[" and any(member[0] == "\\" and member[1:2] in _ODD for member in set_members(text)[1]))
        for kind, text in tokens(pattern)
    )


_ODD: Final = tuple("123456789bBkKpPAZzG")


# ---- the cost of a pattern

_BRANCH: Final = 8  # the cost of a group or a branch, in characters
_FAR: Final = 10**12  # beyond every budget. Larger numbers would only make the multiplication slow
_MOST_OF_ONE: Final = 2_000  # the maximum cost of a repeated character, for any number of repetitions


def expansion(pattern: str) -> int:
    """Return the length of a pattern with expanded repetitions, as the approximate cost to compile the pattern.

    Raises:
        ValueError: If the groups have more than `MAX_LEVELS` levels.

    >>> expansion("^[a-z]{2}$"), expansion("(?:a{1,9}b){1,9}"), expansion("((a{99}){99}){99}") > 900_000
    (9, 171, True)
    """
    if len(pattern) > MAX_PATTERN:
        return len(pattern)
    groups: list[int] = []
    whole = last = 0
    simple = True
    for found in re.finditer(_TOKEN, pattern):  # faster than the generator `tokens`
        kind, text = found.lastgroup, found[0]
        if kind == "times":
            least, most = _counts(text)
            last = min(last * max(least + 1, min(most or 0, _MOST_OF_ONE if simple else _FAR)), _FAR)
        elif kind == "open":
            groups.append(whole + last)
            whole, last = max(len(text) - 2, 0), 0
            if len(groups) > MAX_LEVELS:
                raise ValueError(f"the groups have more than {MAX_LEVELS} levels of nesting")
        elif kind == "close" and groups:
            whole, last = groups.pop(), whole + last + _BRANCH
            simple = False
        else:
            whole, last = whole + last + len(text) - 1, _BRANCH if kind == "bar" else 1
            simple = True
    return whole + last + sum(groups)


def _counts(times: str) -> tuple[int, int | None]:
    """Return the minimum and the maximum of a quantifier. The maximum is None without an end."""
    counts = re.fullmatch(_COUNTS, times)
    if counts is None:
        return int(times == "+"), 1 if times == "?" else None
    least = int(counts["least"][:9])
    return least, int(counts["most"][:9]) if counts["most"] else None if counts["open"] else least


# ---- the meaning of a pattern

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
_SIGNS: Final = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "{": r"\{", "}": r"\}", "]": r"\]"}
_SAME: Final = tuple("fnrtvDWSpP123456789")
_CODE: Final = r"\\(?:x(.{2})|u\{(.+)\}|u(.{4}))"
_LETTERS: Final = {
    "L": "a-zA-ZäöüÄÖÜßé",
    "Lu": "A-ZÄÖÜ",
    "Ll": "a-zäöüßé",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!?.,:;",
    "Z": " ",
}


@lru_cache(maxsize=2048)
def compiled_pattern(pattern: str, *, python: bool = False) -> Any:
    """Compile a pattern of a JSON Schema, or of Python, for searches with a timeout.

    Raises:
        ValueError: If the pattern is invalid, or if it expands beyond `MAX_PATTERN`. The message is the reason.
    """
    if expansion(pattern) > MAX_PATTERN:
        raise ValueError(f"the expanded repetitions have more than {MAX_PATTERN} characters")
    import regex

    try:
        return with_stack(lambda: regex.compile(pattern if python else translate(pattern)))
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or "the pattern is too complex") from None


def translate(pattern: str, *, python: bool = False) -> str:
    r"""Translate a pattern of ECMA-262 to the language of the package `regex`.

    Args:
        pattern: A pattern of ECMA-262.
        python: True to translate the pattern to the language of `re`. This translation is approximate. For example,
            it replaces a Unicode property with some of its characters. Default: False.

    >>> print(translate(r"^(?<year>\d{4})$", python=True))
    ^(?P<year>[0-9]{4})\Z
    """
    return "".join(_translate_token(text, python=python) for _, text in tokens(pattern))


def _translate_token(text: str, *, python: bool) -> str:
    if text[0] == "\\":
        return _escape(text, _OUTSIDE, python=python)
    if text[0] == "[":
        return _set(text, python=python)
    if python and text.startswith("(?<") and text.endswith(">"):
        return f"(?P{text[2:]}"
    return _SIGNS.get(text, text)


def _escape(text: str, meanings: dict[str, str], *, python: bool) -> str:
    sign = text[1:2]
    if sign == "c" and len(text) == 3:
        return _character(ord(text[2]) % 32, python=python)
    if code := re.fullmatch(_CODE, text):
        return _character(int(code[1] or code[2] or code[3], 16), python=python)
    if sign in ("p", "P") and len(text) > 2:
        letters = _LETTERS.get(text[3:-1].rpartition("=")[2], "a-z")
        return text if not python else f"[{letters}]" if meanings is _OUTSIDE else letters
    if sign == "k" and len(text) > 2:
        return f"(?P={text[3:-1]})"
    if python and sign == "b" and meanings is _OUTSIDE:
        return text
    if sign in meanings:
        return meanings[sign]
    if sign in _SAME or not sign.isascii():
        return text if sign.isascii() else sign
    return sign if sign.isalnum() else text


def _character(number: int, *, python: bool) -> str:
    if number > 0x10FFFF:
        return "\\"  # regex cannot compile it and reports the error
    return re.escape(chr(number)) if python else f"\\U{number:08x}"


def _set(text: str, *, python: bool) -> str:
    negated, members = set_members(text)
    if members[-1:] != ["]"]:
        return "["  # regex cannot compile it and reports the error
    if len(members) == 1:
        return r"[\s\S]" if negated else r"(?!)"
    parts = [
        _escape(member, _INSIDE, python=python) if member[0] == "\\" else f"\\{member}" if member in "[&|~" else member
        for member in members[:-1]
    ]
    whole = f"[{'^' if negated else ''}{''.join(parts)}]"
    return f"(?a:{whole})" if any(member in (r"\D", r"\W", r"\S") for member in members) else whole


# ---- a pattern as a tree


@final
class Characters(msgspec.Struct, frozen=True):
    """A part that matches one character: a literal character or a set."""

    text: str


@final
class Other(msgspec.Struct, frozen=True):
    """Another part: an anchor, a boundary, look-around, a back-reference, or a Unicode property."""

    text: str


@final
class Series(msgspec.Struct, frozen=True):
    """A sequence of parts."""

    parts: tuple[Node, ...]


@final
class Alternation(msgspec.Struct, frozen=True):
    """A choice between branches."""

    branches: tuple[Node, ...]


@final
class Repeat(msgspec.Struct, frozen=True):
    """A repetition of a node. `most` is None without a maximum. A possessive repetition does not backtrack."""

    node: Node
    least: int
    most: int | None
    possessive: bool = False


Node: TypeAlias = Characters | Other | Series | Alternation | Repeat


def parse(pattern: str) -> Series | Alternation:
    """Return the tree of a pattern. The tree does not distinguish lazy repetitions from greedy repetitions.

    Raises:
        PatternError: If the pattern is invalid, or if its groups have more than `MAX_LEVELS` levels.
    """
    groups = [_Group("")]
    before: str | None = None
    for kind, text in tokens(pattern):
        if kind == "open":
            groups.append(_Group(text))
            if len(groups) > MAX_LEVELS:
                raise PatternError(f"the groups have more than {MAX_LEVELS} levels of nesting")
        elif kind == "close":
            if len(groups) == 1:
                raise PatternError("unbalanced ')'")
            node = groups.pop().node()
            groups[-1].parts.append(node)
        elif kind == "times":
            groups[-1].repeat(text, again=before == "times")
        else:
            groups[-1].take(kind, text)
        before = kind
    if len(groups) > 1:
        raise PatternError("missing ')' after '('")
    return groups[0].content()


@final
class _Group(msgspec.Struct, eq=False):
    """The state of a group during the parse."""

    sign: str
    branches: list[Series] = []
    parts: list[Node] = []

    def take(self, kind: str | None, text: str) -> None:
        """Add a token other than a group or a quantifier."""
        if kind == "bar":
            self.branches.append(Series(tuple(self.parts)))
            self.parts = []
        elif text == "\\":
            raise PatternError("incomplete escape '\\' at the end")
        elif text[0] == "[" and set_members(text)[1][-1:] != ["]"]:
            raise PatternError("missing ']' after '['")
        else:
            self.parts.append(Other(text) if kind == "other" else Characters(text))

    def repeat(self, text: str, *, again: bool) -> None:
        """Repeat the previous part. If the previous token is also a quantifier, `?` and `+` modify it."""
        if not self.parts:
            raise PatternError(f"missing expression before {text!r}")
        if again and text[0] != "{":
            if text != "?" and isinstance(self.parts[-1], Repeat):
                self.parts[-1] = msgspec.structs.replace(self.parts[-1], possessive=True)
            return
        least, most = _counts(text)
        if most is not None and most < least:
            raise PatternError(f"the maximum of the repetition {text} is less than its minimum")
        self.parts[-1] = Repeat(self.parts[-1], least, most)

    def node(self) -> Series | Alternation | Other:
        """Return the node for the group, without the name and the number of the group."""
        is_group = not self.sign.startswith("(?") or self.sign == "(?:" or self.sign.endswith(">")
        return self.content() if is_group else Other(self.sign)

    def content(self) -> Series | Alternation:
        """Return the contents of the group."""
        last = Series(tuple(self.parts))
        return Alternation((*self.branches, last)) if self.branches else last


def shortest(node: Node) -> int:
    """Return the minimum number of characters that a node matches.

    Raises:
        PatternError: If the node contains an `Other` part, because its length is unknown.
    """
    return int(_length(node, min))


def longest(node: Node) -> int | None:
    """Return the maximum number of characters that a node matches, or None without a maximum.

    Raises:
        PatternError: If the node contains an `Other` part, because its length is unknown.
    """
    found = _length(node, max)
    return None if found == math.inf else int(found)


def _length(node: Node, choose: Callable[[Iterable[float]], float]) -> float:
    match node:
        case Characters():
            return 1
        case Series(parts):
            return sum(_length(part, choose) for part in parts)
        case Alternation(branches):
            return choose(_length(branch, choose) for branch in branches)
        case Repeat(inner, least, most, _):
            each = _length(inner, choose)
            return 0 if each == 0 else each * (least if choose is min else math.inf if most is None else most)
        case Other(text):
            raise PatternError(f"{text!r} inside a pattern")


# ---- searches with a time limit


def in_time(pattern: str) -> str:
    """Return the expectation of the validation error for a pattern that exceeded the time limit."""
    return f"patterns that finish within {SECONDS} seconds ({pattern!r} took longer)"


@final
class Matcher(msgspec.Struct, eq=False):
    """A searcher whose searches share one time limit. Only the computing time of the current thread counts."""

    left: float = SECONDS
    """The time limit, or the rest of it, in seconds."""
    late: str | None = None
    """The pattern that exceeded the time limit, or None. After that, every search raises an error."""

    def matches(self, pattern: str, text: str, *, python: bool = False) -> bool:
        """Return True if the text contains a match of the pattern of a JSON Schema, or of Python.

        Raises:
            PatternTimeoutError: If the searches exceed the time limit.
        """
        compiled = compiled_pattern(pattern, python=python)
        if self.late is None and self.left > 0:
            start = thread_time()
            try:
                return compiled.search(text, timeout=self.left, concurrent=True) is not None
            except TimeoutError:
                pass
            finally:
                self.left -= thread_time() - start
        self.late = self.late or pattern
        raise PatternTimeoutError(pattern)


def matches(pattern: str, text: str, work: Work) -> bool:
    """Return True if the text contains a match of the pattern. All searches of the same work share a time limit.

    Raises:
        PatternTimeoutError: If the searches exceed the time limit.
    """
    if work.searches is None:
        work.searches = Matcher(SECONDS)
    return cast("Matcher", work.searches).matches(pattern, text)


class _Shared(threading.local):
    matcher: Matcher | None = None


_shared: Final = _Shared()


@contextmanager
def shared_matcher() -> Generator[Matcher]:
    """Yield the matcher that all patterns of a decoding share. A nested decoding uses the same matcher.

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
