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

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast, final

import msgspec

__all__ = [
    "DECIMAL_STRING",
    "DURATION_MILLIS",
    "DURATION_SECONDS",
    "EPOCH_MILLIS",
    "EPOCH_SECONDS",
    "INT_STRING",
    "Codec",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)


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


def _duration(unit: timedelta) -> Callable[[float], timedelta]:
    def decode(count: float) -> timedelta:
        try:
            return count * unit
        except OverflowError:
            raise ValueError("a duration of at most 999999999 days") from None

    return decode


def _units(unit: timedelta) -> Callable[[timedelta], float]:
    def encode(duration: timedelta) -> float:
        whole, rest = divmod(duration, unit)
        return duration / unit if rest else whole

    return encode


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("a decimal number such as '1.50'") from None
    if not number.is_finite():
        raise ValueError("a finite decimal number")
    return number


def _decimal_text(number: Decimal) -> str:
    if not number.is_finite():
        raise ValueError("a finite decimal number")
    return str(number)


EPOCH_MILLIS: Final = Codec(int, _time(_MILLI), _count(_MILLI))
"""An aware `datetime` as whole milliseconds since 1970-01-01T00:00:00Z; decodes in UTC, finer parts are cut off."""

EPOCH_SECONDS: Final = Codec(int, _time(_SECOND), _count(_SECOND))
"""An aware `datetime` as whole seconds since 1970-01-01T00:00:00Z; decodes in UTC, finer parts are cut off."""

DECIMAL_STRING: Final = Codec(str, _decimal, _decimal_text)
"""A finite `Decimal` as a string, every digit kept."""

INT_STRING: Final = Codec(str, int, str)
"""An `int` of any size as a string of decimal digits."""

DURATION_SECONDS: Final = Codec(float, _duration(_SECOND), _units(_SECOND))
"""A `timedelta` as a number of seconds, to the microsecond."""

DURATION_MILLIS: Final = Codec(float, _duration(_MILLI), _units(_MILLI))
"""A `timedelta` as a number of milliseconds, to the microsecond."""
