"""Measures of plain English. Each counts a form of sentence, word, or punctuation that makes readers decode.

The measures count forms, not meaning. A text can pass every measure and still be unclear, so a reader must review it:

- `idiom` finds only the wordings of `words.toml`, and some of its findings are correct English.
- `nounfunction` compares the first word with a list of verbs. "Handles the thing" passes and explains nothing.
- `passive` does not know grammar. For example, it counts "is closed" for a state.
- The distance of function words needs about 20,000 words to be stable. Only sentences of another structure lower it.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from tests.kit.prose.texts import WORD, Text, texts_below

__all__ = [
    "MEASURES",
    "VERBS",
    "Figures",
    "Finding",
    "Measure",
    "figures_of_folders",
    "findings",
    "misses",
    "total_of",
]

LARGE = 2000
"""Words of a folder whose figures are stable enough for the targets."""

LARGE_PROFILE = 20000
"""Words of a folder whose distance is stable enough for its target."""

_TABLES: Final = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
_PATTERNS: Final = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _TABLES["patterns"].items()}
_IDIOMS: Final = [
    (name, re.compile(pattern, re.MULTILINE), advice, table == "first_lines")
    for table in ("idioms", "first_lines")
    for name, (pattern, advice) in _TABLES[table].items()
]
VERBS: Final = frozenset(_TABLES["words"]["verbs"].split())
"""The verbs that can start a docstring or a remedy, in their base form."""
_NOT_PARTICIPLES: Final = frozenset(_TABLES["words"]["not_participles"].split())
_PROFILE: Final = {
    word: (float(mean), float(deviation))
    for word, mean, deviation in (entry.split(":") for entry in _TABLES["words"]["profile"].split())
}
_MAX_WORDS: Final = 30
_ABBREVIATIONS: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|Mr|Dr|No|approx|incl|resp)\.")
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z`\"'(\[\d]|(?:fxai|httpx|attrs|anyio|pydantic|msgspec)\b)"
)
_COLON: Final = re.compile(r"[:;](?= )")
_YOU: Final = re.compile(r"\byou(?:rs?|rself)?\b", re.IGNORECASE)


class Measure(NamedTuple):
    """A number of findings per 1,000 or per 100 units of text."""

    name: str
    finding: str
    """The name of its findings."""
    unit: str
    per: int
    target: float
    """The largest figure of plain text. For `you`, the smallest figure."""


MEASURES: Final = (
    Measure("a idioms /1000", "idiom", "words", 1000, 10.0),
    Measure("b1 riddle summaries %", "riddle", "summaries", 100, 5.0),
    Measure("b2 functions without verb %", "nounfunction", "functions", 100, 15.0),
    Measure("c long sentences /1000", "long", "words", 1000, 3.0),
    Measure("d relative pile-ups /1000", "pile", "words", 1000, 1.0),
    Measure("e passives /1000", "passive", "words", 1000, 20.0),
    Measure("f colons, semicolons /1000", "colon", "words", 1000, 13.0),
    Measure("h 'you' and 'your' /1000 of docs", "you", "docs_words", 1000, 8.0),
    Measure("i odd openings % of sentences", "opening", "sentences", 100, 4.0),
    Measure("j what, where /1000", "what", "profile_words", 1000, 3.0),
    Measure("k function-word distance", "distance", "profile_words", 1, 1.6),
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

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.function_words: Counter[str] = Counter()

    def figure(self, measure: Measure) -> float:
        """Return the rounded figure of a measure."""
        if measure.finding != "distance":
            return round(measure.per * self.counts[measure.finding] / max(self.counts[measure.unit], 1), 1)
        words = max(self.counts["profile_words"], 1)
        distances = (
            min(abs(1000 * self.function_words[word] / words - mean) / deviation, 12)
            for word, (mean, deviation) in _PROFILE.items()
        )
        return round(sum(distances) / len(_PROFILE), 2)

    @property
    def rate(self) -> float:
        """All findings per 1,000 words."""
        found = sum(self.counts[measure.finding] for measure in MEASURES if measure.finding != "you")
        return round(1000 * found / max(self.counts["words"], 1), 1)


def figures_of_folders(paths: Iterable[str]) -> dict[str, Figures]:
    """Return the figures of each folder. A folder is one or two levels deep, such as `tests` and `fxai/tools`."""
    folders: dict[str, Figures] = defaultdict(Figures)
    for name, texts in texts_below(paths):
        folder = "/".join(Path(name).parent.parts[:2]) or "."
        for _ in findings(texts, folders[folder]):
            pass
    return dict(sorted(folders.items()))


def total_of(folders: dict[str, Figures]) -> Figures:
    """Return the sum of the figures."""
    total = Figures()
    for figures in folders.values():
        total.counts.update(figures.counts)
        total.function_words.update(figures.function_words)
    return total


def misses(folders: dict[str, Figures]) -> Iterator[str]:
    """Yield a line for each target that a large folder or the total misses."""
    for folder, figures in {**folders, "TOTAL": total_of(folders)}.items():
        if figures.counts["words"] < LARGE:
            continue
        for measure in MEASURES:
            figure = figures.figure(measure)
            if measure.finding == "you":
                if folder.startswith("docs") and "reference" not in folder and figure < measure.target:
                    yield f"{folder}: {measure.name} is {figure}, target: at least {measure.target}"
            elif measure.finding == "distance" and figures.counts["words"] < LARGE_PROFILE:
                continue
            elif figure > measure.target:
                yield f"{folder}: {measure.name} is {figure}, target: at most {measure.target}"


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
            figures.counts["sentences"] += 1
            yield from _sentence(text, sentence)
        for match in _COLON.finditer(text.text):
            yield _finding(text, "colon", text.text[max(match.start() - 40, 0) : match.end() + 40])
        if text.kind == "docs":
            figures.counts["docs_words"] += len(words)
            figures.counts["you"] += len(_YOU.findall(text.text))
        if text.kind in {"docs", "docstring", "summary"}:
            figures.counts["profile_words"] += len(words)
            known = [word for word in map(str.lower, words) if word in _PROFILE]
            figures.function_words.update(known)
            for word in known:
                if word in {"what", "where"}:
                    yield _finding(text, "what", f"'{word}' → name the thing, or write 'if'")


def _finding(text: Text, measure: str, note: str) -> Finding:
    return Finding(measure, text.path, text.line, text.kind, note)


def _idioms(texts: list[Text]) -> Iterator[Finding]:
    """Yield the idioms. Search all the prose for each idiom, because a search per paragraph is slow."""
    joined = "\n".join(text.text for text in texts)
    starts = [0, *accumulate(len(text.text) + 1 for text in texts)]
    taken: set[int] = set()
    for name, pattern, advice, is_for_first_lines in _IDIOMS:
        for match in pattern.finditer(joined):
            text = texts[bisect_right(starts, match.start()) - 1]
            if is_for_first_lines and text.kind not in {"summary", "help", "cell"}:
                continue
            if taken.isdisjoint(location := range(*match.span())):
                taken.update(location)
                yield _finding(text, "idiom", f"{name}: '{match.group().strip()}' → {advice}")


def _first_line(text: Text, words: list[str], counts: Counter[str]) -> Iterator[Finding]:
    counts["summaries"] += 1
    is_riddle = _PATTERNS["riddle"].match(text.text)
    if is_riddle:
        yield _finding(text, "riddle", "the first line does not name a thing or an action")
    if text.is_function:
        counts["functions"] += 1
        if is_riddle or _PATTERNS["noun"].match(text.text) or not words or not _is_verb(words[0].lower()):
            yield _finding(text, "nounfunction", "the first line of a function does not start with a verb")


def _sentences(text: str) -> list[str]:
    text = _ABBREVIATIONS.sub(lambda match: match.group().replace(".", "\N{ONE DOT LEADER}"), text)
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if WORD.search(sentence)]


def _sentence(text: Text, sentence: str) -> Iterator[Finding]:
    if _PATTERNS["opening"].match(sentence):
        yield _finding(text, "opening", sentence[:90])
    if (length := len(WORD.findall(sentence))) > _MAX_WORDS:
        yield _finding(text, "long", f"{length} words")
    if (relatives := len(_PATTERNS["pile"].findall(sentence))) >= 2:
        yield _finding(text, "pile", f"{relatives} relative words: {sentence[:90]}")
    for match in _PATTERNS["passive"].finditer(sentence):
        if match.group(1).lower() not in _NOT_PARTICIPLES:
            yield _finding(text, "passive", match.group())


def _is_verb(word: str) -> bool:
    endings = (("", ""), ("ies", "y"), ("es", ""), ("s", ""))
    return any(word.endswith(ending) and word.removesuffix(ending) + stem in VERBS for ending, stem in endings)
