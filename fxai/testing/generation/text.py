r"""Strings that a schema takes: by pattern, by format, by length.

A pattern is followed by Hypothesis's own strategy for regular expressions, in Python's dialect; where that reads it
otherwise than ECMA-262 does, what comes is looked at again by the caller.

>>> import re
>>> bounded(r"^[a-z]+$", 3, 5)[0]
'^[a-z]{3,5}$'
>>> python_pattern(r"^(?<year>\d{4})$")
'^(?P<year>[0-9]{4})\\Z'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from fxai.schema.pattern import rewritten

__all__ = ["FORMATS", "bounded", "by_format", "characters", "python_pattern", "register_format", "strings"]

_LETTERS: Final = {
    "L": "a-zA-ZäöüÄÖÜßé",
    "Lu": "A-ZÄÖÜ",
    "Ll": "a-zäöüßé",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!?.,:;",
    "Z": " ",
}
_UNICODE: Final = re.compile(r"\\[pP]\{(?:General_Category=|gc=)?(\w+)\}")
_CODE: Final = re.compile(r"\\U([0-9a-f]{8})")
_UNBOUNDED: Final = re.compile(r"(?<!\\)(?P<one>[+*])\??|(?P<many>\{\d+,\})")

characters: Final = st.characters(exclude_categories=["Cs"])
"""Every character that JSON text can carry."""


@lru_cache(maxsize=1024)
def strings(least: int, most: int | None) -> st.SearchStrategy[str]:
    """Strings of between `least` and `most` characters; short ones where there is no end."""
    return st.text(characters, min_size=least, max_size=least + 12 if most is None else most)


def python_pattern(pattern: str) -> str:
    """A pattern of ECMA-262 in Python's dialect, meaning the same as far as it can."""
    text = re.sub(r"\(\?<(?![=!])", "(?P<", rewritten(pattern)).replace("(?a:\\b)", r"\b")
    text = _UNICODE.sub(lambda found: f"[{_LETTERS.get(found[1], 'a-z')}]", text)
    text = re.sub(r"\[(\^?)\[([^\]]+)\]\]", r"[\1\2]", text)  # a class that held one letter class alone
    return _CODE.sub(lambda found: re.escape(chr(int(found[1], 16))), text)


def bounded(pattern: str, least: int, most: int | None) -> list[str]:
    """The same pattern with its open repetitions held to a length, first all of them, then the last: to be tried."""
    found = list(_UNBOUNDED.finditer(pattern))
    if not found or (least == 0 and most is None):
        return []
    variants: list[str] = []
    for chosen in (found, found[-1:], found[:1]):
        text = pattern
        for match in reversed(chosen):
            low = max(least if len(chosen) == 1 or len(found) == 1 else least // len(found), match[0] == "+")
            high = "" if most is None else str(max(most, low))
            text = f"{text[: match.start()]}{{{low},{high}}}{text[match.end() :]}"
        variants.append(text)
    return list(dict.fromkeys(variants))


@lru_cache(maxsize=512)
def matching(pattern: str) -> st.SearchStrategy[str] | None:
    """Strings in which a pattern of Python's is found; nothing for one that Python cannot read."""
    try:
        strategy = st.from_regex(re.compile(pattern), alphabet=characters)
        strategy.validate()
    except (re.error, OverflowError, RecursionError, ValueError, TypeError, NotImplementedError):
        return None
    return strategy


@lru_cache(maxsize=512)
def patterned(pattern: str, least: int, most: int | None) -> tuple[st.SearchStrategy[str], ...]:
    """What to try for a pattern and a length, the best first; nothing where the pattern cannot be followed."""
    try:
        plain = python_pattern(pattern)
    except ValueError:
        return ()
    tried = (matching(variant) for variant in (*bounded(plain, least, most), plain))
    return tuple(strategy for strategy in tried if strategy is not None)


# ---- formats


def _written(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return strategy.map(msgspec.to_builtins).map(str)


_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,6}[a-z0-9])?"
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL}){{0,2}}"
_PATH: Final = r"(?:/[a-z0-9_~.-]{1,5}){0,3}"


def _like(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(pattern), fullmatch=True)


FORMATS: Final[dict[str, Callable[[], st.SearchStrategy[str]]]] = {
    "date": lambda: _written(st.dates()),
    "date-time": lambda: _written(st.datetimes(timezones=st.just(UTC))),
    "time": lambda: _written(st.times(timezones=st.just(UTC))),
    "duration": lambda: _written(st.timedeltas(timedelta(0), timedelta(9999))),
    "decimal": lambda: st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    "uuid": lambda: _written(st.uuids()),
    "email": lambda: _like(rf"[a-z0-9]{{1,6}}@{_HOST}\.org"),
    "idn-email": lambda: _like(rf"[a-zäöü]{{1,6}}@{_HOST}\.org"),
    "hostname": lambda: _like(_HOST),
    "idn-hostname": lambda: _like(rf"[a-zäöü]{{1,6}}\.{_LABEL}"),
    "ipv4": lambda: st.ip_addresses(v=4).map(str),
    "ipv6": lambda: st.ip_addresses(v=6).map(str),
    "uri": lambda: _like(rf"https?://{_HOST}{_PATH}"),
    "iri": lambda: _like(rf"https?://{_HOST}{_PATH}"),
    "uri-reference": lambda: _like(rf"(?:https?://{_HOST})?{_PATH}"),
    "iri-reference": lambda: _like(rf"(?:https?://{_HOST})?{_PATH}"),
    "uri-template": lambda: _like(rf"https?://{_HOST}/\{{[a-z]{{1,5}}\}}"),
    "json-pointer": lambda: _like(_PATH),
    "relative-json-pointer": lambda: _like(rf"[0-9]{_PATH}"),
    "regex": lambda: st.sampled_from(["", "^a", "[0-9]+", "^(a|b)*$"]),
}
"""By format, strings of it. `register_format` adds to them."""


def register_format(name: str, strategy: st.SearchStrategy[str]) -> None:
    """From now on, take strings of the format `name` from `strategy`: for formats of your own, or better values.

    >>> register_format("sku", st.from_regex("[A-Z]{3}-[0-9]{4}", fullmatch=True))
    >>> by_format({"format": "sku"}, {}) is not None
    True
    """
    FORMATS[name] = lambda: strategy
    _known.cache_clear()


@lru_cache(maxsize=64)
def _known(name: str) -> st.SearchStrategy[str] | None:
    make = FORMATS.get(name)
    return None if make is None else make()


def _base64(value: bytes) -> str:
    return str(msgspec.to_builtins(value))


def by_format(schema: dict[str, Any], given: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str] | None:
    """Strings of the format or encoding that a schema says; those of `given` first; nothing where it says none."""
    name = schema.get("format")
    if isinstance(name, str) and name in given:
        return given[name]
    if schema.get("contentEncoding") == "base64":
        return st.binary(max_size=8).map(_base64)
    return _known(name) if isinstance(name, str) else None
