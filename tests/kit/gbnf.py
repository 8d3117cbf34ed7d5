"""A small reader of GBNF for tests: it writes random texts that a grammar accepts, and tells whether one is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

__all__ = ["Gbnf"]

_TOKEN = re.compile(r'\s*("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{\d+,?\d*\}|[()|?*+]|[a-z][a-z0-9-]*)')
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class _Text:
    text: str


@dataclass(frozen=True)
class _Class:
    ranges: tuple[tuple[int, int], ...]
    negated: bool


@dataclass(frozen=True)
class _Rule:
    name: str


@dataclass(frozen=True)
class _Row:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Or:
    options: tuple[_Node, ...]


@dataclass(frozen=True)
class _Times:
    node: _Node
    least: int
    most: int


_Node: TypeAlias = "_Text | _Class | _Rule | _Row | _Or | _Times"


class Gbnf:
    """A grammar read from its text."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, _Node] = {}
        for line in text.split("\n"):
            name, _, body = line.partition(" ::= ")
            tokens = _tokens(body)
            self.rules[name] = _options(tokens)
            assert not tokens, f"left over in {name}: {tokens}"

    def sample(self, random: Random) -> str:
        """A random text that the grammar accepts."""
        return self._sample(self.rules["root"], random)

    def accepts(self, text: str) -> bool:
        """Whether the grammar accepts the whole text."""
        return len(text) in self._ends(self.rules["root"], text, 0)

    def _sample(self, node: _Node, random: Random) -> str:
        match node:
            case _Text(text):
                return text
            case _Class():
                return _character(node, random)
            case _Rule(name):
                return self._sample(self.rules[name], random)
            case _Row(parts):
                return "".join(self._sample(part, random) for part in parts)
            case _Or(options):
                return self._sample(random.choice(options), random)
            case _Times(inner, least, most):
                count = random.choice((least, most, random.randint(least, min(most, least + 3))))
                return "".join(self._sample(inner, random) for _ in range(min(count, least + 40)))

    def _ends(self, node: _Node, text: str, at: int) -> set[int]:
        match node:
            case _Text(literal):
                return {at + len(literal)} if text.startswith(literal, at) else set()
            case _Class(ranges, negated):
                inside = at < len(text) and any(low <= ord(text[at]) <= high for low, high in ranges) != negated
                return {at + 1} if inside else set()
            case _Rule(name):
                return self._ends(self.rules[name], text, at)
            case _Row(parts):
                ends = {at}
                for part in parts:
                    ends = {end for start in ends for end in self._ends(part, text, start)}
                return ends
            case _Or(options):
                return {end for option in options for end in self._ends(option, text, at)}
            case _Times(inner, least, most):
                return self._repeated(inner, least, most, text, at)

    def _repeated(self, inner: _Node, least: int, most: int, text: str, at: int) -> set[int]:
        ends, found = {at}, {at} if least == 0 else set[int]()
        for count in range(1, most + 1):
            ends = {end for start in ends for end in self._ends(inner, text, start)}
            if not ends or (count > least and ends <= found):
                break
            found |= ends if count >= least else set()
        return found


def _tokens(body: str) -> list[str]:
    tokens, at = list[str](), 0
    while at < len(body.rstrip()):
        match = _TOKEN.match(body, at)
        assert match, f"cannot read {body[at : at + 40]!r}"
        tokens.append(match[1])
        at = match.end()
    return tokens


def _options(tokens: list[str]) -> _Node:
    options = [_row(tokens)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        options.append(_row(tokens))
    return options[0] if len(options) == 1 else _Or(tuple(options))


def _row(tokens: list[str]) -> _Node:
    parts = list[_Node]()
    while tokens and tokens[0] not in "|)":
        parts.append(_repeat(_atom(tokens), tokens))
    assert parts, "an empty alternative"
    return parts[0] if len(parts) == 1 else _Row(tuple(parts))


def _atom(tokens: list[str]) -> _Node:
    token = tokens.pop(0)
    if token == "(":
        inner = _options(tokens)
        assert tokens.pop(0) == ")", "a group without its end"
        return inner
    if token[0] == '"':
        return _Text(_unescape(token[1:-1]))
    if token[0] == "[":
        return _class(token[1:-1])
    assert token[0].isalpha(), f"unexpected {token}"
    return _Rule(token)


def _repeat(node: _Node, tokens: list[str]) -> _Node:
    if tokens and tokens[0] == "?":
        tokens.pop(0)
        return _Times(node, 0, 1)
    if tokens and tokens[0][0] == "{":
        least, comma, most = tokens.pop(0)[1:-1].partition(",")
        return _Times(node, int(least), int(most if comma else least))
    return node


def _class(body: str) -> _Class:
    negated = body.startswith("^")
    characters = list(re.finditer(_ESCAPE.pattern + "|.", body[negated:], re.DOTALL))
    texts = [_unescape(match[0]) for match in characters]
    marks = [match[0] for match in characters]
    ranges, index = list[tuple[int, int]](), 0
    while index < len(texts):
        if index + 2 < len(texts) and marks[index + 1] == "-":
            ranges.append((ord(texts[index]), ord(texts[index + 2])))
            index += 3
        else:
            ranges.append((ord(texts[index]), ord(texts[index])))
            index += 1
    return _Class(tuple(ranges), negated)


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] in "xuU" and len(code) > 1 else _PLAIN.get(code, code)

    return _ESCAPE.sub(one, text)


def _character(node: _Class, random: Random) -> str:
    if not node.negated:
        low, high = random.choice(node.ranges)
        return chr(random.choice((low, high, random.randint(low, min(high, low + 60)))))
    while True:
        code = random.choice((random.randint(32, 126), random.randint(160, 700), random.randint(0x1F600, 0x1F640)))
        if not any(low <= code <= high for low, high in node.ranges):
            return chr(code)
