"""An index of tools: rank tools by the words of a request. Tool search uses it to find tools among hundreds.

The ranking is BM25 over the names, descriptions, and parameters of the tools. Words in a name count most. The index
needs no model and no other package, because the packages for BM25 need NumPy or are no longer maintained.

>>> from fxai.tools.tool import Tool
>>> tools = [Tool.make("send_mail", description="Send an email."), Tool.make("list_files", description="List files.")]
>>> index = ToolIndex(tools)
>>> [tool.name for tool in index.search("email somebody", 5)], index.search("weather", 5)
(['send_mail'], ())
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, final

from fxai.schema.data import is_object
from fxai.tools.identity import NameRule
from fxai.tools.tool import AnyTool

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_NAME: Final = re.compile(r"[^\s,;'\"`()\[\]{}<>]+")
_RULE: Final = NameRule(128)
_LONGEST: Final = 4_000  # maximum number of characters of a query or of the description of a tool

_IN_NAME, _IN_DESCRIPTION, _IN_PARAMETER = 3.0, 1.0, 0.5
_SATURATION, _LENGTH = 1.2, 0.3  # the parameters k1 and b of BM25
_ALIKE: Final = 0.2  # weight of a word that means the same as a word of the request

_IGNORED: Final = frozenset(
    _WORD.findall(
        "a all an and any are as at be by can do does for from has have how i if in into is it its let me my need of on"
        " or our please so some that the their them then there these this those to up us use want was we what when"
        " where which who will with would you your"
    )
)
_SAME: Final = (
    "add append create insert make new",
    "cancel delete drop erase remove",
    "change edit modify patch rename set update",
    "display get list read retrieve see show view",
    "find lookup query search",
    "email mail",
    "post reply send submit write",
    "calendar event meeting",
    "directory folder",
    "image photo picture screenshot",
    "message chat",
    "open go navigate visit",
    "page tab",
    "repo repository",
    "task todo",
    "time clock date",
    "url link address website",
)


@final
class ToolIndex:
    """An index of tools by their words. It never changes, and threads can share it."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self.tools: tuple[AnyTool, ...] = tuple(tools)
        """The tools in the index."""
        self._names: dict[str, int] = {}
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._lengths: list[float] = []
        self._in_names: list[frozenset[str]] = []
        for at, tool in enumerate(self.tools):
            for name in (tool.name, _RULE.of(tool.name)):  # the model reads the name in the form of its provider
                self._names.setdefault(name.casefold(), at)
            weights = _weights(tool)
            self._lengths.append(sum(weights.values()))
            self._in_names.append(frozenset(_stems(tool.name)))
            for word, weight in weights.items():
                self._postings[word].append((at, weight))
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0

    def search(self, query: str, most: int) -> tuple[AnyTool, ...]:
        """Return the tools that match a request, best first: the tools that it names, then the tools by their words.

        Args:
            query: The words of the request, or names of tools.
            most: Maximum number of tools, except that all named tools are in the result.
        """
        return self.first(query, self.rank(query), most)

    def first(self, query: str, ranked: Iterable[int], most: int) -> tuple[AnyTool, ...]:
        """Return the tools that a request names, and the first tools of an order. See `search`.

        Args:
            query: The request.
            ranked: The positions of tools in `tools`, best first.
            most: Maximum number of tools.
        """
        words = [query.strip(), *_NAME.findall(query[:_LONGEST])]
        found = [self._names.get(each.casefold()) for word in words for each in (word, word.strip(".:!?"))]
        named = dict.fromkeys(at for at in found if at is not None)
        rest = [at for at in ranked if at not in named][: max(0, most - len(named))]
        return tuple(self.tools[at] for at in (*named, *rest))

    def rank(self, query: str) -> tuple[int, ...]:
        """Return the positions of the tools that share a word with a request, best first."""
        wanted = _weights_of(query[:_LONGEST])
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in wanted.items():
            found = self._postings.get(word, ())
            rarity = math.log(1 + (len(self.tools) - len(found) + 0.5) / (len(found) + 0.5))
            for at, count in found:
                length = 1 - _LENGTH + _LENGTH * self._lengths[at] / self._mean
                scores[at] += weight * rarity * count * (_SATURATION + 1) / (count + _SATURATION * length)
        for at in scores:  # a name that consists of words of the request is a better match than a longer name
            name = self._in_names[at]
            scores[at] *= 1 + sum(wanted.get(word, 0.0) for word in name) / max(1, len(name))
        return tuple(sorted(scores, key=lambda at: (-scores[at], at)))


def words_of(tool: AnyTool) -> str:
    """Return the words of a tool as one text, for the ranking by an embedding model."""
    parameters = ", ".join(name for name, _ in _parameters(tool))
    return f"{tool.name}: {tool.description or ''} ({parameters})"[:_LONGEST]


def _weights(tool: AnyTool) -> Mapping[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for word in _stems(tool.name):
        weights[word] += _IN_NAME
    for word in _stems((tool.description or "")[:_LONGEST]):
        weights[word] += _IN_DESCRIPTION
    for name, description in _parameters(tool):
        for word in (*_stems(name), *_stems(description[:_LONGEST])):
            weights[word] += _IN_PARAMETER
    return weights


def _parameters(tool: AnyTool) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of the parameters of a tool, without parameters inside of parameters."""
    members = tool.json_schema().get("properties")
    for name, schema in members.items() if is_object(members) else ():
        description = schema.get("description") if is_object(schema) else None
        yield name, description if isinstance(description, str) else ""


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Return a word without a usual English ending."""
    for ending in ("ings", "ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _stems(text: str) -> list[str]:
    return [_stem(word) for found in _WORD.findall(text) if (word := found.casefold()) not in _IGNORED]


def _weights_of(query: str) -> Mapping[str, float]:
    """Return the words of a request with their weights: 1, or less for words with the same meaning."""
    words = _stems(query)
    wanted = {other: _ALIKE for word in words for other in _alike().get(word, ())}
    return wanted | dict.fromkeys(words, 1.0)


@lru_cache(maxsize=1)
def _alike() -> Mapping[str, Sequence[str]]:
    groups = [_stems(group) for group in _SAME]
    return {word: group for group in groups for word in group}
