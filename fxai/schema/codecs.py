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
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.pattern import PatternTimeoutError, compiled_python_pattern, in_time, shared_matcher

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
