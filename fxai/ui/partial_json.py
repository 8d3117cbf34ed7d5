"""A parser for incomplete JSON text, such as the parameters of a call while the model writes them.

>>> parse_partial('{"city": "Os')
{'city': 'Os'}
>>> parse_partial('{"city": "Oslo", "da')
{'city': 'Oslo'}
"""

from __future__ import annotations

import re
from typing import Any, Final, final

import msgspec

from fxai.schema.fault import DecodeError
from fxai.schema.parsing import parse_json_unsafe

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<open>[{\[]) | (?P<close>[}\]]) | (?P<comma>,) | (?P<colon>:)
      | (?P<string>"(?:[^"\\]++|\\.)*+")
      | (?P<cut>"(?:[^"\\]++|\\u[dD][89abAB]..\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+)
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) | (?P<word>[a-z]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = ("true", "false", "null")
_CLOSING: Final = {"{": "}", "[": "]"}


def parse_partial(text: str) -> Any:
    """Return the value of an incomplete JSON text.

    A string ends at the end of the text. The value omits keys without a value, incomplete escapes, and single halves of
    a surrogate pair. The result agrees with `parsePartialJson` of the package `ai` of the npm registry, version
    7.0.173, except for such halves.

    Returns `msgspec.UNSET` if the text is empty or is not the beginning of a JSON text.
    """
    complete = _Prefix(text).complete()
    try:
        return parse_json_unsafe(complete) if complete else msgspec.UNSET
    except DecodeError:
        return msgspec.UNSET


@final
class _Prefix:
    """The beginning of a JSON text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[str] = []
        self._end = 0  # the last place where the text can be closed
        self._tail = ""  # the text that completes the value at this place
        self._is_key = False

    def complete(self) -> str:
        """Return the text up to the last place where it can be closed, with the closing brackets."""
        location = 0
        while location < len(self._text):
            token = _TOKEN.match(self._text, location)
            if token is None or token.lastgroup is None or not self._take(token.lastgroup, token):
                break
            location = token.end()
        return self._text[: self._end] + self._tail + "".join(_CLOSING[one] for one in reversed(self._open))

    def _take(self, kind: str, token: re.Match[str]) -> bool:
        """Read a token. Return whether more tokens can follow."""
        found = str(token[kind])
        match kind:
            case "open":
                self._open.append(found)
                self._is_key = found == "{"
            case "close":
                if not self._open or _CLOSING[self._open.pop()] != found:
                    return False
                self._is_key = False
            case "comma" | "colon":
                self._is_key = kind == "comma" and self._open[-1:] == ["{"]
                return True
            case "string" if self._is_key:
                return True
            case "cut" | "word":
                return self._take_unfinished(found, token.end())
            case _:
                pass
        self._end = token.end()
        return True

    def _take_unfinished(self, found: str, end: int) -> bool:
        word = next((word for word in _WORDS if word.startswith(found)), None)
        if found.startswith('"') and not self._is_key:
            self._end, self._tail = end, '"'
        elif word is not None and (word == found or end == len(self._text)):
            self._end, self._tail = end, word[len(found) :]
        return word == found
