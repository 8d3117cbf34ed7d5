"""Patterns of Python types that `re` could try without end: searched with within a set time, as a codec.

>>> from fxai.schema.fault import DecodeError
>>> check = matching("^(a+)+$", str).decode
>>> check("aa")
'aa'
>>> try:
...     check("b")
... except DecodeError as error:
...     print(error)
expected string matching '^(a+)+$', found string 'b'
"""

from __future__ import annotations

from typing import Any, final

import msgspec

from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.pattern import PatternTimeout, in_time, python_pattern, shared_matcher
from fxai.schema.wire import Codec

__all__ = ["Matching", "matching"]


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
                    if not matcher.searched(python_pattern(self.pattern), self.pattern, value):
                        expected = f"string matching {self.pattern!r}"
            except PatternTimeout:
                expected = in_time(self.pattern)
            if expected:
                raise DecodeError(DecodeFailure((Fault("", expected, found_in(value)),)))
        return value


def matching(pattern: str, tp: Any) -> Codec:
    """The codec of a type whose texts are those that a pattern is found in."""
    check = Matching(pattern)
    return Codec.make(tp, check, check, {"pattern": pattern})
