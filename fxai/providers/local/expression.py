r"""Regular expressions as trees: what a pattern of JSON Schema repeats, chooses and strings together.

Look-ahead, look-behind, back-references, word boundaries and Unicode properties have no place in such a tree:
they are a `PatternError` that names them. Free text is allowed before and after, but where an anchor stands.

>>> parse("^a|b$").branches[0].parts[0]
Characters(ranges=((97, 97),))
>>> parse("^(?=a)b$")
Traceback (most recent call last):
    ...
fxai.providers.local.expression.PatternError: look-around '(?='
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Characters", "Choice", "Node", "PatternError", "Ranges", "Repeat", "Series", "overlap", "parse", "without"]

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points, as sorted pairs of first and last."""

_TOP: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))
_ASCII: Final[Ranges] = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x7E))
_NEWLINES: Final[Ranges] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "v": 0x0B, "0": 0x00}
_SLACK: Final = 64


class PatternError(ValueError):
    """What a grammar cannot say, or a pattern that is broken; its text names the construct."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Series:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One branch out of several."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same node ``least`` to ``most`` times; None is no end."""

    node: Node
    least: int
    most: int | None


Node: TypeAlias = "Characters | Series | Choice | Repeat"


def parse(pattern: str) -> Node:
    """The tree of ``pattern``. Raises `PatternError` for what a grammar cannot say and for a broken pattern."""
    return _Parser(pattern).parse()


class _Parser:
    """One pattern, read left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def parse(self) -> Node:
        branches = [self._anchored()]
        while self._take("|"):
            branches.append(self._anchored())
        if self.at < len(self.pattern):
            raise PatternError(f"unbalanced {self.pattern[self.at]!r}")
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _anchored(self) -> Node:
        """One branch at the top: free text before and after, but where an anchor forbids it."""
        anything = Repeat(Characters(without(_NEWLINES)), 0, _SLACK)
        before = () if self._take("^") else (anything,)
        body = self._sequence(top=True)
        after = () if self._take("$") else (anything,)
        return Series((*before, *body.parts, *after))

    def _choice(self) -> Node:
        branches: list[Node] = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, *, top: bool = False) -> Series:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if top and self.pattern[self.at] == "$" and self.pattern[self.at + 1 : self.at + 2] in ("", "|"):
                break
            parts.append(self._repeated())
        return Series(tuple(parts))

    def _repeated(self) -> Node:
        node = self._atom()
        while (bounds := self._quantifier()) is not None:
            node = Repeat(node, *bounds)
        return node

    def _quantifier(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        mark = self.pattern[self.at : self.at + 1]
        bounds = simple.get(mark)
        if bounds is not None:
            self.at += 1
        elif mark == "{":
            bounds = self._counts()
        if bounds is not None and not self._take("?") and self._take("+"):
            raise PatternError("possessive repetition")
        return bounds

    def _counts(self) -> tuple[int, int | None] | None:
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : max(end, self.at + 1)].partition(",")
        if end < 0 or not least.isdecimal() or not (most.isdecimal() or not most):
            return None
        self.at = end + 1
        upper = int(most) if most else None if comma else int(least)
        if upper is not None and upper < int(least):
            raise PatternError(f"repetition {{{least},{most}}} ends before it begins")
        return int(least), upper

    def _atom(self) -> Node:
        char = self.pattern[self.at]
        self.at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                return Characters(self._class())
            case ".":
                return Characters(without(_NEWLINES))
            case "\\":
                return Characters(self._escape())
            case "^" | "$":
                raise PatternError(f"the anchor {char!r} inside a pattern")
            case "*" | "+" | "?":
                raise PatternError(f"nothing to repeat before {char!r}")
            case _:
                return Characters(((ord(char), ord(char)),))

    def _group(self) -> Node:
        if self._take("?"):
            self._group_kind()
        node = self._choice()
        if not self._take(")"):
            raise PatternError("a '(' without its ')'")
        return node

    def _group_kind(self) -> None:
        rest = self.pattern[self.at :]
        if rest.startswith(("=", "!", "<=", "<!")):
            raise PatternError(f"look-around '(?{rest[: 2 if rest[0] == '<' else 1]}'")
        if rest.startswith(":"):
            self.at += 1
            return
        name_end = rest.find(">")
        if rest.startswith(("<", "P<")) and name_end > 0:
            self.at += name_end + 1
            return
        raise PatternError(f"the group '(?{rest[:1]}'")

    def _class(self) -> Ranges:
        negated = self._take("^")
        found: list[tuple[int, int]] = []
        broad = False
        while not self._take("]"):
            low, several = self._member()
            broad = broad or several
            if not several and self._range_follows():
                self.at += 1
                high, wrong = self._member()
                if wrong or high[0][0] < low[0][0]:
                    raise PatternError("a broken range in a class")
                low = ((low[0][0], high[0][0]),)
            found += low
        ranges = _union(found)
        return ranges if not negated else overlap(without(ranges), _ASCII) if broad else without(ranges)

    def _range_follows(self) -> bool:
        return self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", "")

    def _member(self) -> tuple[Ranges, bool]:
        """One member of a class, and whether it is itself a class, as all digits are."""
        if self.at >= len(self.pattern):
            raise PatternError("a '[' without its ']'")
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return ((ord(char), ord(char)),), False
        if self._take("b"):
            return ((8, 8),), False
        ranges = self._escape()
        return ranges, [low for low, _ in ranges] != [high for _, high in ranges] or len(ranges) > 1

    def _escape(self) -> Ranges:
        char = self.pattern[self.at : self.at + 1]
        self.at += 1
        classes = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
        if char.lower() in classes:
            ranges = classes[char.lower()]
            return ranges if char.islower() else overlap(without(ranges), _ASCII)
        if char in _CONTROLS:
            return ((_CONTROLS[char], _CONTROLS[char]),)
        if char in ("x", "u"):
            return self._code(2 if char == "x" else 4)
        if not char or char.isalnum():
            raise PatternError(f"the escape '\\{char}'")
        return ((ord(char), ord(char)),)

    def _code(self, size: int) -> Ranges:
        digits = self.pattern[self.at : self.at + size]
        try:
            code = int(digits, 16) if len(digits) == size else -1
        except ValueError:
            code = -1
        if code < 0:
            raise PatternError("a broken character code")
        self.at += size
        return ((code, code),)

    def _take(self, mark: str) -> bool:
        taken = self.pattern.startswith(mark, self.at)
        self.at += len(mark) * taken
        return taken


def _union(ranges: Sequence[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def without(ranges: Ranges) -> Ranges:
    """Every character but these (and never half of a surrogate pair)."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in _union([*ranges, _SURROGATES]):
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, _TOP)) if start <= _TOP else tuple(found)


def overlap(left: Ranges, right: Ranges) -> Ranges:
    """The characters that are in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return _union([(low, high) for low, high in pairs if low <= high])
