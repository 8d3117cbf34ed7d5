r"""Text and JSON that are safe to display. Use this module to display text of a model, tool, server, schema, or file.

Unsafe text can control a terminal or look like other text. This module replaces control characters, invisible
characters, and characters that change the direction of text.

>>> clean("\x1b[31mred\x9b0m \u202eback\r\n")
'�[31mred�0m �back\n'
>>> one_line("two\nlines \x07and a bell")
'two lines and a bell'
>>> print(in_line({"city": "Tromsø", "odd": "\x9b31m\u202e"}))
{"city": "Tromsø", "odd": "\u009b31m\u202e"}
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

_LONGEST: Final = 600
_SUSPECT: Final = r"[^\x20-\x7e\n\t]"
_JOINERS: Final = "\u200c\u200d"
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks without a visible form."""
_RUN: Final = r"((?:\\u[0-9a-f]{4}|[^\n]){1,6}?)\1{40,}"
_PLAIN_NAME: Final = r"[\w.:/-]{1,80}"


@lru_cache(maxsize=4096)
def _is_harmless(character: str) -> bool:
    """Return True if a character is visible, is not a control character, and does not change the text direction."""
    if character in _BLANK or 0xE0000 <= ord(character) < 0xE1000:
        return False
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _replace(text: str, sign: str) -> str:
    if text.isascii() and text.isprintable():
        return text

    def replacement(found: re.Match[str]) -> str:
        character, at = found[0], found.start()
        if character in _JOINERS:  # valid between two visible characters outside ASCII, as in many scripts and emoji
            around = text[at - 1 : at], text[at + 1 : at + 2]
            if all(c and not c.isascii() and c not in _JOINERS and _is_harmless(c) for c in around):
                return character
        return character if _is_harmless(character) else sign

    return re.sub(_SUSPECT, replacement, text)


def clean(text: str) -> str:
    """Replace each unsafe character with `�`. Preserve line ends and tabs."""
    return _replace(text.replace("\r\n", "\n"), "�")


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Return the text as one line of about `longest` characters at most, with spaces for unsafe characters."""
    line = " ".join(_replace(text[: longest * 8], " ").split())
    if len(line) <= longest:
        return line
    return f"{line[: longest * 2 // 3]} … {line[-longest // 3 :]}"


def quote_name(name: str) -> str:
    """Return a plain name unchanged, and any other name in quotes. Readers cannot confuse it with other words."""
    return name if re.fullmatch(_PLAIN_NAME, name) and name.isascii() else one_line(in_line(name))


def squeeze(text: str) -> str:
    """Replace repeated text with one copy and its number, so that it cannot hide the text after it.

    >>> squeeze("rm -rf ~" + " " * 5000 + "; ls")
    'rm -rf ~⟨" " 5,000 times⟩; ls'
    """
    return re.sub(_RUN, lambda run: f'⟨"{run[1]}" {len(run[0]) // len(run[1]):,} times⟩', text)


# ---- JSON: the same data, with unsafe characters as escapes


def indent_json(data: Any) -> str:
    """Return a JSON value as indented text."""
    return _escape_all(json.dumps(data, indent=2, ensure_ascii=False))


def in_line(data: Any, *, compact: bool = False) -> str:
    """Return a JSON value as text in one line. A compact line has no spaces after commas and colons."""
    return _escape_all(json.dumps(data, ensure_ascii=False, separators=(",", ":") if compact else None))


def json_line(data: Any, enc_hook: Callable[[Any], Any] | None = None) -> str:
    """Return data as one line of JSON with its line end, for another program. `enc_hook` is the hook of msgspec."""
    import msgspec  # `fxai --help` writes no JSON

    try:
        text = msgspec.json.encode(data, enc_hook=enc_hook).decode()
    except (UnicodeEncodeError, OverflowError):  # msgspec does not encode a lone surrogate or a large integer
        text = json.dumps(msgspec.to_builtins(data, enc_hook=enc_hook), separators=(",", ":"))
    return _escape_all(text) + "\n"


def _escape_all(text: str) -> str:
    if text.isascii() and "\x7f" not in text:
        return text

    def escape(found: re.Match[str]) -> str:
        character = found[0]
        if character.isprintable() and character not in _BLANK:
            return character
        return json.dumps(character)[1:-1].replace("\x7f", "\\u007f")

    return re.sub(_SUSPECT, escape, text)
