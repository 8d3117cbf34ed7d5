"""Codecs: how a Python type travels when its JSON form is another type.

A codec is carried in `Annotated`, beside the Python type. What stands after it in the same `Annotated` (a
`msgspec.Meta` with bounds or a description) is about the JSON form.

>>> from datetime import datetime, timezone
>>> EPOCH_MILLIS.decode(1000)
datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
>>> EPOCH_MILLIS.encode(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc))
1000
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any, Final, NamedTuple, cast, final

import msgspec

from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.pattern import (
    Characters,
    Choice,
    Node,
    Other,
    PatternError,
    PatternTimeoutError,
    Repeat,
    Series,
    compiled_python_pattern,
    in_time,
    parse,
    shared_matcher,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(days=999999999)
_SAFE: Final = 2**53 - 1  # beyond, neighbouring integers are one number in JSON
_DIGITS: Final = re.compile(r"-?[0-9]+")
_NUMERAL: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,8})?")
_MOST: Final = 5_000  # characters of an integer that is read: the time grows faster than their number
_PLAIN: Final = 600  # digits, and bits, that Python reads and writes as an integer whatever its limit is


@final
class Codec(msgspec.Struct, frozen=True):
    """How a Python value becomes another value on the wire, and comes back.

    Attributes:
        wire: the type of the JSON form: any type a schema can be of, with its bounds.
        decode: the Python value for a wire value. A `ValueError` is a fault at that place; any other exception is a
            bug of the codec and is raised as it is.
        encode: the wire value for a Python value; a `ValueError` is a fault at that place.
        keywords: further JSON Schema keywords of the wire form, as JSON text; none by default.
    """

    wire: Any
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]
    keywords: bytes | None = None

    def json_schema(self) -> dict[str, Any] | None:
        """The further JSON Schema keywords, as a fresh plain copy; `None` without any."""
        return None if self.keywords is None else cast("dict[str, Any]", msgspec.json.decode(self.keywords))

    @staticmethod
    def make(
        wire: object,
        decode: Callable[[Any], Any],
        encode: Callable[[Any], Any],
        json_schema: Mapping[str, Any] | None = None,
    ) -> Codec:
        """A codec of two functions; `json_schema` adds keywords to the wire type's own schema."""
        keywords = None if json_schema is None else msgspec.json.encode(dict(json_schema))
        return Codec(wire, decode, encode, keywords)


def _time(unit: timedelta) -> Callable[[int], datetime]:
    def decode(count: int) -> datetime:
        try:
            return _EPOCH + count * unit
        except OverflowError:
            raise ValueError("a time of the years 1 to 9999") from None

    return decode


def _count(unit: timedelta) -> Callable[[datetime], int]:
    def encode(time: datetime) -> int:
        if time.tzinfo is None:
            raise ValueError("a datetime with a time zone: naive ones name no instant")
        return (time - _EPOCH) // unit

    return encode


def _times(unit: timedelta) -> Codec:
    count = _count(unit)
    reach = {"minimum": count(datetime.min.replace(tzinfo=UTC)), "maximum": count(datetime.max.replace(tzinfo=UTC))}
    return Codec.make(int, _time(unit), count, reach)


def _durations(unit: timedelta) -> Codec:
    def decode(count: float) -> timedelta:
        if not -most <= count <= most:
            raise ValueError(refusal)
        return count * unit

    def encode(duration: timedelta) -> float:
        whole, rest = divmod(duration, unit)
        if not -most <= whole + bool(rest) <= most:
            raise ValueError(refusal)
        return duration / unit if rest else whole

    most = min(_LONGEST // unit, _SAFE)
    refusal = f"a duration of at most {(most * unit).days} days"
    return Codec.make(float, decode, encode, {"minimum": -most, "maximum": most})


def _decimal(text: str) -> Decimal:
    if _NUMERAL.fullmatch(text) is None:
        raise ValueError("a decimal number such as '1.50'")
    return Decimal(text)


def _decimal_text(number: Decimal) -> str:
    text = str(number)
    if _NUMERAL.fullmatch(text) is None:
        raise ValueError("a finite decimal number, of an exponent of at most 8 digits")
    return text


def _integer(text: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise ValueError("an integer such as '-12'")
    if len(text) > _MOST:
        raise ValueError(f"an integer of at most {_MOST} characters")
    return -_natural(text[1:]) if text.startswith("-") else _natural(text)


def _natural(digits: str) -> int:
    """A number of its digits, long ones in halves: Python's time grows with the square of their number."""
    if len(digits) <= _PLAIN:
        return int(digits)
    half = len(digits) // 2
    shift: int = 10**half
    return _natural(digits[:-half]) * shift + _natural(digits[-half:])


def _integer_text(number: int) -> str:
    """The digits of a number; long ones by way of `Decimal`, which Python's limit on digits is not about."""
    return str(int(number)) if number.bit_length() < _PLAIN else f"{Decimal(int(number)):f}"


EPOCH_MILLIS: Final = _times(_MILLI)
"""An aware `datetime` as whole milliseconds since 1970-01-01T00:00:00Z; decodes in UTC, finer parts are cut off."""

EPOCH_SECONDS: Final = _times(_SECOND)
"""An aware `datetime` as whole seconds since 1970-01-01T00:00:00Z; decodes in UTC, finer parts are cut off."""

DECIMAL_STRING: Final = Codec.make(str, _decimal, _decimal_text, {"pattern": f"^{_NUMERAL.pattern}$"})
"""A finite `Decimal` as a string, every digit kept; an exponent has at most eight digits."""

INT_STRING: Final = Codec.make(str, _integer, _integer_text, {"pattern": f"^{_DIGITS.pattern}$", "maxLength": _MOST})
"""An `int` as a string of decimal digits, of at most 5,000 characters where it is read."""

DURATION_SECONDS: Final = _durations(_SECOND)
"""A `timedelta` of at most 999999999 days as a number of seconds; to the microsecond in the first 250 years."""

DURATION_MILLIS: Final = _durations(_MILLI)
"""A `timedelta` of at most 104249991 days as a number of milliseconds; to the microsecond in the first 250 years."""


@final
class Matching(msgspec.Struct, frozen=True):
    """What takes the texts that a pattern of Python's own language is found in, and every value that is no text."""

    pattern: str

    def __call__(self, value: Any) -> Any:
        """The value itself.

        Raises:
            DecodeError: it is another text, or the time of the patterns is used up.
        """
        if isinstance(value, str):
            expected = ""
            try:
                with shared_matcher() as matcher:
                    if not matcher.search(compiled_python_pattern(self.pattern), self.pattern, value):
                        expected = f"string matching {self.pattern!r}"
            except PatternTimeoutError:
                expected = in_time(self.pattern)
            if expected:
                raise DecodeError(DecodeFailure((Fault("", expected, found_in(value)),)))
        return value


def matching(pattern: str, tp: Any) -> Codec:
    """The codec of a type whose texts are those that a pattern is found in."""
    check = Matching(pattern)
    return Codec.make(tp, check, check, {"pattern": pattern})


# ---- which patterns need it
_MOST_PLACES: Final = 512
_FEW: Final = 8  # how many characters a pattern may look at from any place of the text, where it is not tied to one
_SHORT: Final = 256
_FEW_WAYS: Final = 32
_LONG: Final = 10**6
_NOT_ASCII: Final = 1 << 128  # stands for every character that is not ASCII
_ANY: Final = _NOT_ASCII * 2 - 1
_WITHOUT: Final = re.IGNORECASE | re.MULTILINE | re.LOCALE
_ENDS: Final = ("$", r"\Z")
_CONTROLS: Final = tuple("tnrfva")
_HARMLESS_FLAGS: Final = re.compile(r"\(\?[asu]+\)")


@lru_cache(maxsize=1024)
def is_light(pattern: str) -> bool:
    r"""Whether `re` searches with a Python pattern in a time that grows with the text alone; False where not known.

    `msgspec` matches the pattern of a `Meta` by `re`, which tries one way after the other and cannot be stopped. A
    pattern is light where each character of the text leaves one way to go on (no two that follow one another share a
    character), so that there is nothing to try again; it begins at the beginning of the text, or has decided within a
    few characters of any place.

    >>> [is_light(pattern) for pattern in (r"^[a-z]+(-[a-z]+)*$", r"^\d{4}-\d{2}$", r"^(a+)+$", r"[a-z]+\d")]
    [True, True, False, False]
    """
    try:
        if re.compile(pattern).flags & _WITHOUT or "{," in pattern:  # in Python alone, `{,9}` is a quantifier
            return False
        whole = parse(_HARMLESS_FLAGS.sub("", pattern, count=1))
        parts = whole.parts if isinstance(whole, Series) else _branches_apart(whole)
        tied = bool(parts) and parts[0] in (Other("^"), Other(r"\A"))
        return _Places().decide(parts[1:] if tied else parts, tied=tied)
    except (_HeavyError, PatternError, RecursionError, re.error, OverflowError):
        return False


class _HeavyError(Exception):
    """The pattern holds what may be tried in more than one way, or what is not looked into."""


class _Ways(NamedTuple):
    """What a part of a pattern may begin with and end with.

    Attributes:
        empty: it may match nothing.
        first: the places that it may begin with.
        last: the places that it may end with.
        longest: how many characters it matches at most.
        ways: in how many ways it may match, at most.
    """

    empty: bool
    first: list[int]
    last: list[int]
    longest: int
    ways: int = 1


@final
class _Places:
    """The places of a pattern, each with the characters that it takes, and which may follow which."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.after: list[list[int]] = []

    def decide(self, parts: Sequence[Node], *, tied: bool) -> bool:
        """Whether these parts, the whole pattern, can be decided in one go; raises where they cannot."""
        whole = self.row(parts)
        if tied and whole.longest <= _SHORT and whole.ways <= _FEW_WAYS:
            return True
        self._hold_apart(whole.first)
        for follow in self.after:
            self._hold_apart(follow)
        return tied or self._is_short(parts)

    def _is_short(self, parts: Sequence[Node]) -> bool:
        """Whether a match, or that there is none, is known after a few characters: what repeats stands at the end."""
        last = parts[-1] if parts else None
        if isinstance(last, Repeat) and (last.most is None or last.most > _FEW):
            if not isinstance(_bare(last.node), Characters) or last.least > _FEW:
                return False
            parts = parts[:-1]
        return _Places().row(parts).longest <= _FEW

    def _hold_apart(self, places: list[int]) -> None:
        seen = 0
        for place in places:  # one that stands there twice can be come to in two ways
            if seen & self.taken[place]:
                raise _HeavyError
            seen |= self.taken[place]

    def row(self, parts: Sequence[Node]) -> _Ways:
        """Parts one behind the other."""
        whole = _Ways(empty=True, first=[], last=[], longest=0)
        for part in map(self.part, parts):
            self._follow(whole.last, part.first)
            whole = _Ways(
                empty=whole.empty and part.empty,
                first=whole.first + part.first if whole.empty else whole.first,
                last=whole.last + part.last if part.empty else part.last,
                longest=min(whole.longest + part.longest, _LONG),
                ways=min(whole.ways * part.ways, _LONG),
            )
        return whole

    def _follow(self, before: list[int], behind: list[int]) -> None:
        for place in before:
            self.after[place] += behind

    def part(self, node: Node) -> _Ways:
        """One part of a pattern."""
        match node:
            case Characters(text):
                return self._place(_characters(text))
            case Series(parts):
                return self.row(parts)
            case Repeat(inner, least, most, _):
                return self._repetition(inner, least, most)
            case Choice():
                return self._choice(node)
            case Other(text):
                if text not in _ENDS:
                    raise _HeavyError
                return _Ways(empty=True, first=[], last=[], longest=0)

    def _place(self, characters: int) -> _Ways:
        if len(self.taken) >= _MOST_PLACES:
            raise _HeavyError
        self.taken.append(characters)
        self.after.append([])
        place = len(self.taken) - 1
        return _Ways(empty=False, first=[place], last=[place], longest=1)

    def _choice(self, choice: Choice) -> _Ways:
        singles = [_bare(branch) for branch in choice.branches]
        texts = [single.text for single in singles if isinstance(single, Characters)]
        if len(texts) == len(singles):
            return self._place(reduce(int.__or__, map(_characters, texts)))
        parts = _branches_apart(choice)
        if parts[0] != choice:
            return self.row(parts)
        ways = [self.part(branch) for branch in choice.branches]
        return _Ways(
            empty=any(way.empty for way in ways),
            first=[place for way in ways for place in way.first],
            last=[place for way in ways for place in way.last],
            longest=max(way.longest for way in ways),
            ways=min(sum(way.ways for way in ways), _LONG),
        )

    def _repetition(self, inner: Node, least: int, most: int | None) -> _Ways:
        """Copies one behind the other; beyond a number of them, one that follows itself."""
        endless = most is None or most - least > _MOST_PLACES
        count = max(least, 1) if most is None or endless else most
        copies = [self.part(inner) for _ in range(min(count, _MOST_PLACES + 1))]
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
        longest = _LONG if endless else min(sum(copy.longest for copy in copies), _LONG)
        ways, each = 0, 1
        for number in range(len(copies) + 1):
            ways += each if number >= least else 0
            each = min(each * copies[0].ways, _LONG) if copies else 1
        first = copies[0].first if copies else []
        return _Ways(
            empty=least == 0, first=first, last=last, longest=longest, ways=_LONG if endless else min(ways, _LONG)
        )


def _bare(node: Node) -> Node:
    """What a group holds that holds one thing."""
    while isinstance(node, Series) and len(node.parts) == 1:
        node = node.parts[0]
    return node


def _branches_apart(choice: Choice) -> tuple[Node, ...]:
    """The parts that all branches begin with, and the choice of what follows them."""
    branches = [branch.parts if isinstance(branch, Series) else (branch,) for branch in choice.branches]
    shared = 0
    while all(len(parts) > shared and parts[shared] == branches[0][shared] for parts in branches):
        shared += 1
    rest = Choice(tuple(Series(parts[shared:]) for parts in branches))
    return (*branches[0][:shared], rest) if shared else (choice,)


@lru_cache(maxsize=1024)
def _characters(text: str) -> int:
    """Which characters one place takes in Python, as bits: those of ASCII, and one for all others."""
    if text == ".":
        return _ANY
    odd = text[:2] == "[]" or text[:3] == "[^]"  # Python reads on where ECMA-262 does not
    names = re.findall(r"\\(.)", text)
    if odd or any(name.isdigit() or (name.isalpha() and name not in (*"dDwWsSxu", *_CONTROLS)) for name in names):
        raise _HeavyError
    others = (
        not text.isascii() or text.startswith("[^") or any(name.isalpha() and name not in _CONTROLS for name in names)
    )
    takes = re.compile(re.escape(text) if len(text) == 1 else text).match
    return sum(1 << code for code in range(128) if takes(chr(code))) | (_NOT_ASCII if others else 0)
