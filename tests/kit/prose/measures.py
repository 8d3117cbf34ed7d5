"""Measures of plain English. Each counts a form of sentence, word, or punctuation that makes readers decode.

The measures count forms, not meaning. A text can pass every measure and still be unclear, so a reader must review it:

- `idiom` finds listed wordings only, and some of its findings are correct English.
- `nounfunction` compares the first word with a list of verbs. "Handles the thing" passes and explains nothing.
- `passive` does not know grammar: it counts "is nested".
- `verbless` takes any word that can be a verb for a verb, so it misses fragments.
- The distance of function words needs about 2,000 words to be stable. Only sentences of another structure lower it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from tests.kit.prose.texts import Text
from tests.kit.prose.words import (
    COMPILED_IDIOMS,
    FINITE,
    NOT_PARTICIPLES,
    NOUN_HEAD,
    OPENING,
    PASSIVE,
    PILE,
    PROFILE,
    RIDDLE,
    VERBS,
    WORD,
)

__all__ = ["DISTANCE", "MEASURES", "Figures", "Finding", "Measure", "findings"]

MAX_WORDS = 30
DISTANCE = "k function-word distance"
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|Mr|Dr|No|approx|incl|resp)\.")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z`\"'(\[\d]|(?:fxai|httpx|attrs|anyio|pydantic|msgspec)\b)",
)
_COLON = re.compile(r"[:;](?= )")
_YOU = re.compile(r"\byou(?:rs?|rself)?\b", re.IGNORECASE)


class Measure(NamedTuple):
    """A number of findings per 1,000 or per 100 units of text."""

    name: str
    finding: str
    """The name of its findings."""
    unit: str
    per: int
    target: float | None
    """The largest figure of plain text. For `you`, the smallest."""

    def figure(self, found: float, of: int) -> float:
        """Return the findings per 1,000 or per 100 units."""
        return self.per * found / max(of, 1)


MEASURES = (
    Measure("a idioms /1000", "idiom", "words", 1000, 10.0),
    Measure("b1 riddle summaries %", "riddle", "summaries", 100, 5.0),
    Measure("b2 functions without verb %", "nounfunction", "functions", 100, 15.0),
    Measure("c long sentences /1000", "long", "words", 1000, 3.0),
    Measure("d relative pile-ups /1000", "pile", "words", 1000, 1.0),
    Measure("e passives /1000", "passive", "words", 1000, 20.0),
    Measure("f colons, semicolons /1000", "colon", "words", 1000, 13.0),
    Measure("g verbless % of docs", "verbless", "docs_sentences", 100, None),
    Measure("i odd openings % of sentences", "opening", "sentences", 100, 4.0),
    Measure("h 'you' and 'your' /1000 of docs", "you", "docs_words", 1000, 8.0),
    Measure("j what, where /1000", "what", "profile_words", 1000, 3.0),
)
"""The measures in the order of the report. The targets are nearly the worst figures of five libraries."""


class Finding(NamedTuple):
    """A place that a measure counts."""

    measure: str
    path: str
    line: int
    kind: str
    note: str

    def __str__(self) -> str:
        """Return the place, the measure, and the words that it counts."""
        return f"{self.path}:{self.line}: {self.kind}: {self.measure}: {self.note}"


class Figures:
    """Counts of findings, units of text, and function words."""

    def __init__(self, counts: Mapping[str, int] | None = None, words: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts)
        self.function_words: Counter[str] = Counter(words)

    def add(self, other: Figures) -> None:
        """Add the counts of another text."""
        self.counts.update(other.counts)
        self.function_words.update(other.function_words)

    @property
    def distance(self) -> float:
        """The mean distance of the function words from the profile, in deviations. 0 for fewer than 300 words."""
        words = self.counts["profile_words"]
        if words < 300:
            return 0.0
        distances = (
            min(abs(1000 * self.function_words[word] / words - mean) / deviation, 12)
            for word, (mean, deviation) in PROFILE.items()
        )
        return sum(distances) / len(PROFILE)

    def report(self) -> dict[str, float]:
        """Return the rounded figures by the names of the measures."""
        figures: dict[str, float] = {"words": self.counts["words"]}
        for measure in MEASURES:
            figures[measure.name] = round(measure.figure(self.counts[measure.finding], self.counts[measure.unit]), 1)
        figures[DISTANCE] = round(self.distance, 2)
        figures["words a sentence"] = round(max(self.counts["words"], 1) / max(self.counts["sentences"], 1), 1)
        return figures


def findings(texts: Iterable[Text], figures: Figures) -> Iterator[Finding]:
    """Yield the findings, and add them and the number of words to the figures."""
    texts = list(texts)
    for finding in _findings(texts, figures):
        figures.counts[finding.measure] += 1
        yield finding


def _findings(texts: list[Text], figures: Figures) -> Iterator[Finding]:
    yield from _idioms(texts)
    for text in texts:
        words = WORD.findall(text.text)
        figures.counts["words"] += len(words)
        if text.kind == "summary":
            yield from _first_line(text, words, figures.counts)
        for sentence in _sentences(text.text):
            yield from _sentence(text, sentence, figures.counts)
        for match in _COLON.finditer(text.text):
            yield _finding(text, "colon", text.text[max(match.start() - 40, 0) : match.end() + 40])
        if text.kind == "docs":
            figures.counts["docs_words"] += len(words)
            figures.counts["you"] += len(_YOU.findall(text.text))
        if text.kind in {"docs", "docstring", "summary"}:
            yield from _function_words(text, words, figures)


def _finding(text: Text, measure: str, note: str) -> Finding:
    return Finding(measure, text.path, text.line, text.kind, note)


def _idioms(texts: list[Text]) -> Iterator[Finding]:
    """Yield the idioms. Search all the prose for each idiom, because a search per paragraph is slow."""
    joined = "\n".join(text.text for text in texts)
    starts = [0, *accumulate(len(text.text) + 1 for text in texts)]
    taken: set[int] = set()
    for idiom, pattern in COMPILED_IDIOMS:
        for match in pattern.finditer(joined):
            text = texts[bisect_right(starts, match.start()) - 1]
            if idiom.is_for_first_lines and text.kind not in {"summary", "help", "cell"}:
                continue
            if taken.isdisjoint(location := range(*match.span())):
                taken.update(location)
                yield _finding(text, "idiom", f"{idiom.name}: '{match.group().strip()}' → {idiom.advice}")


def _first_line(text: Text, words: list[str], counts: Counter[str]) -> Iterator[Finding]:
    counts["summaries"] += 1
    is_riddle = RIDDLE.match(text.text)
    if is_riddle:
        yield _finding(text, "riddle", "the first line does not name a thing or an action")
    if text.is_function:
        counts["functions"] += 1
        if is_riddle or NOUN_HEAD.match(text.text) or not words or not _is_verb(words[0]):
            yield _finding(text, "nounfunction", "the first line of a function does not start with a verb")


def _sentences(text: str) -> list[str]:
    text = _ABBREVIATIONS.sub(lambda match: match.group().replace(".", "\N{ONE DOT LEADER}"), text)
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if WORD.search(sentence)]


def _sentence(text: Text, sentence: str, counts: Counter[str]) -> Iterator[Finding]:
    counts["sentences"] += 1
    length = len(WORD.findall(sentence))
    relatives = len(PILE.findall(sentence))
    if OPENING.match(sentence):
        yield _finding(text, "opening", sentence[:90])
    if length > MAX_WORDS:
        yield _finding(text, "long", f"{length} words")
    if relatives >= 2:
        yield _finding(text, "pile", f"{relatives} relative words: {sentence[:90]}")
    for match in PASSIVE.finditer(sentence):
        if match.group(1).lower() not in NOT_PARTICIPLES:
            yield _finding(text, "passive", match.group())
    if text.kind == "docs" and sentence.endswith((".", "!")) and length >= 4:
        counts["docs_sentences"] += 1
        if not _has_verb(sentence):
            yield _finding(text, "verbless", sentence[:90])


def _function_words(text: Text, words: list[str], figures: Figures) -> Iterator[Finding]:
    figures.counts["profile_words"] += len(words)
    known = [word for word in map(str.lower, words) if word in PROFILE]
    figures.function_words.update(known)
    for word in known:
        if word in {"what", "where"}:
            yield _finding(text, "what", f"'{word}' → name the thing, or write 'if'")


def _is_verb(word: str) -> bool:
    word = word.lower()
    if word in VERBS:
        return True
    return any(
        word.endswith(ending) and word.removesuffix(ending) + stem in VERBS
        for ending, stem in (("ies", "y"), ("es", ""), ("s", ""))
    )


def _has_verb(sentence: str) -> bool:
    """Return True if a word of the sentence can be a finite verb."""
    for word in WORD.findall(sentence):
        lower = word.lower().replace("’", "'")
        if lower in FINITE or _is_verb(lower) or (lower.endswith("ed") and lower not in NOT_PARTICIPLES):
            return True
    return False
