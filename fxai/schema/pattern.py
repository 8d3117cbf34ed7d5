r"""Regular expressions, above all those of JSON Schemas (ECMA-262): read by one parser, and searched within a set time.

A pattern is cut into tokens, and all else is made of these: its translation for the package `regex`, whose search can
be stopped, and for `re`; what it costs to compile; whether every provider takes it; and its tree (`parse`), which tells
how long its matches are.

>>> compiled_pattern("^[0-9]{3}$").search("123") is not None
True
>>> print(translate(r"^\d+$"))
^[0-9]+\Z
>>> is_plain("^[a-z]+(?:-[0-9]{2})?$"), is_plain(r"^(?!x)\w+$"), is_plain(r"\bword")
(True, False, False)
>>> parse("a{2,}")
Series(parts=(Repeat(node=Characters(text='a'), least=2, most=None, possessive=False),))
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import thread_time
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.schema.budget import MAX_LEVELS, MAX_PATTERN, Work, with_stack

SECONDS: Final = 0.04
"""How long the patterns of one validation may compute, all together."""


class PatternTimeoutError(Exception):
    """A pattern took longer than it may."""


class PatternError(ValueError):
    """A pattern that is broken, or has a part that its reader cannot express; the text names it."""


# ---- tokens

_ESCAPE: Final = (
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|c[A-Za-z]|[pP]\{[^}]{0,99}\}|k<\w+>|.)?"  # as a whole
)
_TOKEN: Final = re.compile(
    r"(?P<set>\\[dDwWsS]|\.|\[\^?(?:\\[pP]\{[^}]{0,99}\}|\\.|[^\]\\])*(?:\]|\\?\Z))"
    r"|(?P<other>[\^$]|\\(?:[pP]\{[^}]{0,99}\}|k<\w+>|[1-9bBkKpPAZzG]))"
    r"|(?P<times>[*+?]|\{\d+(?:,\d*)?\})"
    r"|(?P<open>\((?:\?(?:<?[=!]|:|P?<\w+>|[A-Za-z])?)?)|(?P<close>\))|(?P<bar>\|)"
    rf"|(?P<character>{_ESCAPE}|.)",
    re.DOTALL,
)
_MEMBER: Final = re.compile(rf"{_ESCAPE}|.", re.DOTALL)
_COUNTS: Final = re.compile(r"\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\}")


def tokens(pattern: str) -> Iterator[tuple[str | None, str]]:
    """Each token: its kind (the name of a group of `_TOKEN`) and its text; together they are the pattern."""
    return ((found.lastgroup, found[0]) for found in _TOKEN.finditer(pattern))


def set_members(text: str) -> tuple[bool, list[str]]:
    """Whether a set in brackets is negated, and its members with the closing bracket, which may be missing."""
    negated = text.startswith("[^")
    return negated, _MEMBER.findall(text, 1 + negated)


def is_plain(pattern: str) -> bool:
    """Whether a pattern needs no look-around, back-reference, word boundary or Unicode property."""
    return not any(
        (kind == "open" and text not in ("(", "(?:"))
        or (kind == "other" and text[0] == "\\")
        or (text[0] == "[" and any(member[0] == "\\" and member[1:2] in _ODD for member in set_members(text)[1]))
        for kind, text in tokens(pattern)
    )


_ODD: Final = tuple("123456789bBkKpPAZzG")


# ---- what a pattern costs

_BRANCH: Final = 8  # what a group and a branch cost, as characters
_FAR: Final = 10**12  # beyond any budget, and no number that grows on and on
_MOST_OF_ONE: Final = 2_000  # a repeated character costs no more, however often it may come again


def expansion(pattern: str) -> int:
    """How long a pattern is with every repetition written out: what it costs to compile, about.

    Raises `ValueError`: its groups nest deeper than `MAX_LEVELS`. >>> expansion("^[a-z]{2}$"),
    expansion("(?:a{1,9}b){1,9}"), expansion("((a{99}){99}){99}") > 900_000 (9, 171, True)
    """
    if len(pattern) > MAX_PATTERN:
        return len(pattern)
    groups: list[int] = []
    whole = last = 0
    simple = True
    for found in _TOKEN.finditer(pattern):  # as `tokens`, without a generator between
        kind, text = found.lastgroup, found[0]
        if kind == "times":
            last = min(last * _copies(text, simple=simple), _FAR)
        elif kind == "open":
            groups.append(whole + last)
            whole, last = max(len(text) - 2, 0), 0
            if len(groups) > MAX_LEVELS:
                raise ValueError(f"its groups nest deeper than {MAX_LEVELS} levels")
        elif kind == "close" and groups:
            whole, last = groups.pop(), whole + last + _BRANCH
            simple = False
        else:
            whole, last = whole + last + len(text) - 1, _BRANCH if kind == "bar" else 1
            simple = True
    return whole + last + sum(groups)


def _copies(times: str, *, simple: bool) -> int:
    """How often what is repeated stands in what a quantifier expands to."""
    counts = _COUNTS.fullmatch(times)
    if counts is None:
        return 2 if times == "+" else 1
    least = int(counts["least"][:9])
    most = int(counts["most"][:9]) if counts["most"] else least
    return max(least + 1, min(most, _MOST_OF_ONE) if simple else most)


# ---- what a pattern means

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
_CODE: Final = re.compile(r"\\(?:x(.{2})|u\{(.+)\}|u(.{4}))")
_LETTERS: Final = {
    "L": "a-zA-ZäöüÄÖÜßé",
    "Lu": "A-ZÄÖÜ",
    "Ll": "a-zäöüßé",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!?.,:;",
    "Z": " ",
}


@lru_cache(maxsize=1024)
def compiled_pattern(pattern: str) -> Any:
    """The pattern of a JSON Schema, ready to search with a timeout.

    Raises `ValueError`: it is no pattern, or one that expands to more than `MAX_PATTERN`; with the reason.
    """
    return _compile(pattern, ecma=True)


@lru_cache(maxsize=1024)
def compiled_python_pattern(pattern: str) -> Any:
    """A pattern of Python's own language, ready to search with a timeout.

    Raises:
        ValueError: the package `regex` cannot compile it, or it expands to more than `MAX_PATTERN`; with the reason.
    """
    return _compile(pattern, ecma=False)


def _compile(pattern: str, *, ecma: bool) -> Any:
    if expansion(pattern) > MAX_PATTERN:
        raise ValueError(f"with its repetitions written out it has more than {MAX_PATTERN} characters")
    import regex

    try:
        return with_stack(lambda: regex.compile(translate(pattern) if ecma else pattern))
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or "too complicated") from None


def translate(pattern: str, *, python: bool = False) -> str:
    r"""A pattern of ECMA-262 in the language of the package `regex`, with the same meaning.

    `python`: in that of `re`, as near as it comes; of a Unicode property some characters are taken.

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
    """What a backslash and what belongs to it mean."""
    sign = text[1:2]
    if sign == "c" and len(text) == 3:
        return _character(ord(text[2]) % 32, python=python)
    if code := _CODE.fullmatch(text):
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
        return "\\"  # refused when compiled
    return re.escape(chr(number)) if python else f"\\U{number:08x}"


def _set(text: str, *, python: bool) -> str:
    """What a set in brackets means."""
    negated, members = set_members(text)
    if members[-1:] != ["]"]:
        return "["  # refused when compiled
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
    """One character, itself or one of a set: its text in the pattern."""

    text: str


@final
class Other(msgspec.Struct, frozen=True):
    """What is no character by itself: an anchor, a boundary, look-around, a back-reference, a Unicode property."""

    text: str


@final
class Series(msgspec.Struct, frozen=True):
    """One part after the other."""

    parts: tuple[Node, ...]


@final
class Alternation(msgspec.Struct, frozen=True):
    """One branch out of several."""

    branches: tuple[Node, ...]


@final
class Repeat(msgspec.Struct, frozen=True):
    """The same node `least` to `most` times; None is no end. `possessive`: it gives nothing back."""

    node: Node
    least: int
    most: int | None
    possessive: bool = False


Node: TypeAlias = Characters | Other | Series | Alternation | Repeat


def parse(pattern: str) -> Series | Alternation:
    """The tree of a pattern; repetition that gives as little as possible is as any other.

    Raises `PatternError`: it is broken, or its groups nest deeper than `MAX_LEVELS`.
    """
    groups = [_Group("")]
    before: str | None = None
    for kind, text in tokens(pattern):
        if kind == "open":
            groups.append(_Group(text))
            if len(groups) > MAX_LEVELS:
                raise PatternError(f"its groups nest deeper than {MAX_LEVELS} levels")
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
        raise PatternError("a '(' without its ')'")
    return groups[0].content()


@final
class _Group:
    """A group that is being read."""

    def __init__(self, sign: str) -> None:
        self.sign = sign
        self.branches: list[Series] = []
        self.parts: list[Node] = []

    def take(self, kind: str | None, text: str) -> None:
        """Read a token that is no group and no quantifier."""
        if kind == "bar":
            self.branches.append(Series(tuple(self.parts)))
            self.parts = []
        elif text == "\\":
            raise PatternError("a '\\' at the end")
        elif text[0] == "[" and set_members(text)[1][-1:] != ["]"]:
            raise PatternError("a '[' without its ']'")
        else:
            self.parts.append(Other(text) if kind == "other" else Characters(text))

    def repeat(self, text: str, *, again: bool) -> None:
        """Repeat the last part; `again`: it is repeated already, so that this is a modifier, or broken."""
        if not self.parts:
            raise PatternError(f"nothing to repeat before {text!r}")
        counts = _COUNTS.fullmatch(text)
        if again and counts is None:
            if text != "?" and isinstance(self.parts[-1], Repeat):
                self.parts[-1] = msgspec.structs.replace(self.parts[-1], possessive=True)
            return
        least, most = (int(text == "+"), 1 if text == "?" else None)
        if counts is not None:
            least = int(counts["least"][:9])
            most = int(counts["most"][:9]) if counts["most"] else None if counts["open"] else least
            if most is not None and most < least:
                raise PatternError(f"repetition {text} ends before it begins")
        self.parts[-1] = Repeat(self.parts[-1], least, most)

    def node(self) -> Series | Alternation | Other:
        """What stands for the group, whose name and number count for nothing."""
        is_group = not self.sign.startswith("(?") or self.sign == "(?:" or self.sign.endswith(">")
        return self.content() if is_group else Other(self.sign)

    def content(self) -> Series | Alternation:
        """What stands in it."""
        last = Series(tuple(self.parts))
        return Alternation((*self.branches, last)) if self.branches else last


def shortest(node: Node) -> int:
    """The fewest characters that a node matches. Raises `PatternError`: what it matches is not known."""
    match node:
        case Characters():
            return 1
        case Series(parts):
            return sum(map(shortest, parts))
        case Alternation(branches):
            return min(map(shortest, branches))
        case Repeat(inner, least, _, _):
            return least * shortest(inner)
        case Other(text):
            raise PatternError(f"{text!r} inside a pattern")


def longest(node: Node) -> int | None:
    """The most characters that a node matches; None when there is no end.

    Raises `PatternError`: what it matches is not known.
    """
    match node:
        case Characters():
            return 1
        case Repeat(inner, _, most, _):
            each = longest(inner)
            return None if most is None or each is None else most * each
        case Other(text):
            raise PatternError(f"{text!r} inside a pattern")
        case Series(inners) | Alternation(inners):
            ends = [longest(inner) for inner in inners]
            known = [end for end in ends if end is not None]
            return None if len(known) < len(ends) else max(known) if isinstance(node, Alternation) else sum(known)


# ---- a search in a set time


def in_time(pattern: str) -> str:
    """What is expected where a pattern took too long."""
    return f"patterns that are decided within {SECONDS} seconds ({pattern!r} took longer)"


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

    def matches(self, pattern: str, text: str) -> bool:
        """Whether the pattern is found anywhere in the text. Raises `PatternTimeoutError`: the time is used up."""
        return self.search(compiled_pattern(pattern), pattern, text)

    def search(self, compiled: Any, pattern: str, text: str) -> bool:
        """The same by a pattern that is compiled already. Raises `PatternTimeoutError`: the time is used up."""
        if self.late is None and self._left > 0:
            start = thread_time()
            try:
                return compiled.search(text, timeout=self._left, concurrent=True) is not None
            except TimeoutError:
                pass
            finally:
                self._left -= thread_time() - start
        self.late = self.late or pattern
        raise PatternTimeoutError(pattern)


def matches(pattern: str, text: str, work: Work) -> bool:
    """Return whether a pattern is found in a text. All searches of one piece of work share one time.

    Raises:
        PatternTimeoutError: If the time is used up.
    """
    if work.searches is None:
        work.searches = Matcher(SECONDS)
    return cast("Matcher", work.searches).matches(pattern, text)


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
