"""Codecs: convert a Python type whose JSON form is another type.

You declare a codec in `Annotated`, next to the Python type. A `msgspec.Meta` after the codec describes the JSON form,
with bounds or a description.

>>> from datetime import datetime, timezone
>>> EPOCH_MILLIS.decode(1000)
datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
>>> EPOCH_MILLIS.encode(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc))
1000
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.data import JsonObject
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.pattern import PatternTimeoutError, in_time, shared_matcher

_JSON: Final = msgspec.json.encode

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(days=999999999)
_SAFE: Final = 2**53 - 1  # JSON readers cannot distinguish larger integers from their neighbors
_DIGITS: Final = re.compile(r"-?[0-9]+")
_NUMERAL: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,8})?")
_MOST: Final = 4_300  # characters of an integer, which is the default limit of Python


@final
class Codec(msgspec.Struct, frozen=True):
    """A conversion between a Python value and its wire value."""

    wire: Any
    """The type of the JSON form, with its bounds. Any type of a schema is allowed."""
    decode: Callable[[Any], Any]
    """A function from a wire value to the Python value. A `ValueError` is a validation error at the location of the
    value. Any other exception is a bug of the codec, and fxai raises it unchanged."""
    encode: Callable[[Any], Any]
    """A function from a Python value to the wire value. A `ValueError` is a validation error at the location of the
    value."""
    keywords: bytes | None = None
    """More JSON Schema keywords of the wire form, as JSON text. Default: None."""

    def json_schema(self) -> JsonObject | None:
        """Return a new copy of the additional JSON Schema keywords, or None."""
        return None if self.keywords is None else cast("JsonObject", msgspec.json.decode(self.keywords))


def _times(unit: timedelta) -> Codec:
    def decode(count: int) -> datetime:
        try:
            return _EPOCH + count * unit
        except OverflowError:
            raise ValueError("a time of the years 1 to 9999") from None

    def encode(time: datetime) -> int:
        if time.tzinfo is None:
            raise ValueError("a datetime with a time zone, because a naive datetime is not an instant")
        return (time - _EPOCH) // unit

    reach = {"minimum": encode(datetime.min.replace(tzinfo=UTC)), "maximum": encode(datetime.max.replace(tzinfo=UTC))}
    return Codec(int, decode, encode, _JSON(reach))


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
    return Codec(float, decode, encode, _JSON({"minimum": -most, "maximum": most}))


def _decimal(text: str) -> Decimal:
    if _NUMERAL.fullmatch(text) is None:
        raise ValueError("a decimal number such as '1.50'")
    return Decimal(text)


def _decimal_text(number: Decimal) -> str:
    text = str(number)
    if _NUMERAL.fullmatch(text) is None:
        raise ValueError("a finite decimal number, of an exponent of at most 8 digits")
    return text


def _integer_text(text: str) -> str:
    if _DIGITS.fullmatch(text) is None:
        raise ValueError("an integer such as '-12'")
    if len(text) > _MOST:
        raise ValueError(f"an integer of at most {_MOST} characters")
    return text


EPOCH_MILLIS: Final = _times(_MILLI)
"""An aware `datetime` as whole milliseconds since 1970-01-01T00:00:00Z. It decodes in UTC, without finer parts."""

EPOCH_SECONDS: Final = _times(_SECOND)
"""An aware `datetime` as whole seconds since 1970-01-01T00:00:00Z. It decodes in UTC, without finer parts."""

DECIMAL_STRING: Final = Codec(str, _decimal, _decimal_text, _JSON({"pattern": f"^{_NUMERAL.pattern}$"}))
"""A finite `Decimal` as a string with every digit. An exponent has at most eight digits."""

INT_STRING: Final = Codec(
    str,
    lambda text: int(_integer_text(text)),
    lambda number: _integer_text(str(int(number))),
    _JSON({"pattern": f"^{_DIGITS.pattern}$", "maxLength": _MOST}),
)
"""An `int` as a string of decimal digits. It has at most 4,300 characters."""

DURATION_SECONDS: Final = _durations(_SECOND)
"""A `timedelta` of at most 999999999 days as a number of seconds, exact to the microsecond up to 250 years."""

DURATION_MILLIS: Final = _durations(_MILLI)
"""A `timedelta` of at most 104249991 days as a number of milliseconds, exact to the microsecond up to 250 years."""


@final
class Matching(msgspec.Struct, frozen=True):
    """A check that accepts a string if the search for a Python pattern finds a match, and every other value."""

    pattern: str

    def __call__(self, value: Any) -> Any:
        """Return the value unchanged.

        Raises:
            DecodeError: If a string has no match, or if the time limit of the patterns is exceeded.
        """
        if isinstance(value, str):
            expected = ""
            try:
                with shared_matcher() as matcher:
                    if not matcher.matches(self.pattern, value, python=True):
                        expected = f"string matching {self.pattern!r}"
            except PatternTimeoutError:
                expected = in_time(self.pattern)
            if expected:
                raise DecodeError(DecodeFailure((Fault("", expected, found_in(value)),)))
        return value
