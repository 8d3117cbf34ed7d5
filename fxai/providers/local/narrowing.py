"""Narrowing: what the examples of a tool show about its parameters, used to hold a small model closer to the request.

A small model copies its examples where it should copy the request. Where every example takes a value word by word from
its request, the value is one of the words of this request too; where one listed value is named, it is that one; and
where nothing is named, it is what the examples have whose requests name nothing either.

>>> shown = (("Is it hot in Rome, in Fahrenheit?", {"unit": "F"}), ("Rain in Madrid?", {"unit": "C"}))
>>> unit = {"type": "string", "enum": ["C", "F"]}
>>> narrowed({"properties": {"unit": unit}}, "Is it cold in Oslo?", shown)["properties"]["unit"]["enum"]
['C']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from fxai.providers.local.form import members

__all__ = ["narrowed"]

Shown: TypeAlias = Sequence[tuple[str, Any]]
"""Example requests, each with the parameters that are right."""

_WORD: Final = re.compile(r"[^\s]+")
_EDGE: Final = " \t\n.,;:!?\"'()[]{}“”‘’"
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_MOST_WORDS: Final = 24


def narrowed(schema: Mapping[str, Any], request: str, shown: Shown) -> dict[str, Any]:
    """The same schema, its plain properties held to what ``request`` and the examples leave of them."""
    properties: dict[str, Any] = {}
    for name, said in schema.get("properties", {}).items():
        values = _values(members(said), request, _of(shown, name))
        properties[name] = said if not values else {**members(said), "enum": values}
    return {**schema, "properties": properties} if properties else dict(schema)


def _of(shown: Shown, name: str) -> list[tuple[str, Any]]:
    return [(said, members(params)[name]) for said, params in shown if name in members(params)]


def _values(said: Mapping[str, Any], request: str, shown: Shown) -> list[Any]:
    """The values that are left for one property; none where nothing is known."""
    listed = said.get("enum")
    if isinstance(listed, list):
        return _named(lambda text: _mentioned(text, said["enum"]), request, shown)
    if said.keys() & {"$ref", "anyOf", "oneOf", "allOf", "const", "format", "pattern"}:
        return []
    match said.get("type"):
        case "integer" | "number":
            copied = [value in _numbers(text) for text, value in shown if _numbers(text)]
            return _named(_numbers, request, shown) if copied and all(copied) else []
        case "string":
            copied = [isinstance(value, str) and value in _spans(text) for text, value in shown]
            return _spans(request) if len(copied) > 1 and all(copied) else []
        case _:
            return []


def _named(find: Callable[[str], list[Any]], request: str, shown: Shown) -> list[Any]:
    """What the request names; else the one value of the examples whose requests name nothing."""
    named = find(request)
    if named:
        return named
    silent = [value for text, value in shown if not find(text)]
    return silent[:1] if silent and all(value == silent[0] for value in silent) else []


def _mentioned(text: str, listed: list[Any]) -> list[Any]:
    """The listed values that are words of the text, or short capitals that a word after the first begins with."""
    words = [word.strip(_EDGE) for word in _WORD.findall(text)]
    lower = f" {' '.join(words).lower()} "
    exact = [value for value in listed if isinstance(value, str) and f" {value.lower()} " in lower]
    if exact:
        return exact
    short = [value for value in listed if isinstance(value, str) and len(value) <= 2 and value.isupper()]
    return [value for value in short if any(word.startswith(value) for word in words[1:])]


def _numbers(text: str) -> list[Any]:
    found = (float(number) if "." in number else int(number) for number in _NUMBER.findall(text))
    return list(dict.fromkeys(found))


def _spans(text: str) -> list[Any]:
    """Every run of words of the text, without the punctuation around it; none of a long text."""
    words = [match.span() for match in _WORD.finditer(text)]
    if len(words) > _MOST_WORDS:
        return []
    runs = (text[words[i][0] : words[j][1]].strip(_EDGE) for i in range(len(words)) for j in range(i, len(words)))
    return [run for run in dict.fromkeys(runs) if run]
