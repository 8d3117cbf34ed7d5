"""The project's English: the targets for the package and the documentation, and a limit for the tests."""

from __future__ import annotations

import pytest

from tests.kit.prose.measures import MEASURES, Figures, figures_of_folders, findings, misses
from tests.kit.prose.texts import texts_of, top_level

ADVICE = """
{0}

Rewrite the text. `python -m tests.kit.prose --list all FOLDER` prints each finding with a replacement.
"""

RATES_OF_TESTS = {
    "tests": 75.2,
    "tests/acceptance": 172.1,
    "tests/architecture": 131.6,
    "tests/benchmarks": 182.4,
    "tests/conformance": 269.1,
    "tests/documents": 156.0,
    "tests/integration": 251.6,
    "tests/kit": 177.5,
    "tests/laws": 226.4,
    "tests/mutation": 46.9,
    "tests/typing": 233.0,
    "tests/unit": 272.0,
}
"""The findings per 1,000 words in the directories of tests. Lower a rate if you improve a directory."""

SLACK = 1.0
"""Findings per 1,000 words that a directory of tests can have above its rate."""

PLAIN = """
# Retry a call

To retry a call, pass a schedule to the tool. The schedule limits the attempts.
"""

# A page and a module with a finding of every measure.
RIDDLES = {
    "page.md": """
What stands in it is told to whoever asks for what it is; else it is none.

The last word for you.

The call is retried by a worker that waits until another worker has finished the job that it started in the same
queue on the same day with the same arguments and the same deadline, or until you stop it.
""",
    "module.py": '''
def place():
    """Where it is kept, and which of those that wait reads it."""
''',
}


def test_the_package_and_its_documentation_are_plain_english() -> None:
    """Each large directory, and their total, meet the target of each measure."""
    folders = figures_of_folders(name for name in top_level() if name != "tests")
    missed = list(misses(folders))

    assert {"docs/how-to", "fxai/effects"} <= folders.keys()
    assert not missed, ADVICE.format("\n".join(missed))


@pytest.mark.slow
def test_no_directory_of_tests_is_harder_to_read() -> None:
    """No directory of tests has more findings per 1,000 words than recorded. A new directory has at most 60."""
    rates = {folder: figures.rate for folder, figures in figures_of_folders(["tests"]).items()}
    worse = [
        f"{folder}: {rate} findings per 1,000 words, recorded: {RATES_OF_TESTS.get(folder, 60.0)}"
        for folder, rate in rates.items()
        if rate > RATES_OF_TESTS.get(folder, 60.0) + SLACK
    ]

    assert rates.keys() >= RATES_OF_TESTS.keys()
    assert not worse, ADVICE.format("\n".join(worse))


def _figures(**counts: int) -> Figures:
    figures = Figures()
    figures.counts.update(counts)
    return figures


@pytest.mark.parametrize(
    ("folder", "figures", "missed"),
    [
        ("fxai/new", _figures(words=2000, idiom=20), []),
        ("fxai/new", _figures(words=2000, idiom=21), ["a idioms /1000 is 10.5, target: at most 10.0"]),
        ("fxai/new", _figures(words=1999, idiom=40), []),
        ("fxai/new", _figures(words=2000, functions=100, nounfunction=16), ["b2 functions without verb % is 16.0"]),
        ("docs/how-to", _figures(words=2000, docs_words=2000, you=16), []),
        ("docs/how-to", _figures(words=2000, docs_words=2000, you=15), ["h 'you' and 'your' /1000 of docs is 7.5"]),
        ("docs/reference", _figures(words=2000, docs_words=2000), []),
        ("fxai/new", _figures(words=20000, profile_words=20000), ["k function-word distance is "]),
        ("fxai/new", _figures(words=19999, profile_words=19999), []),
    ],
    ids=[
        "at the target",
        "above the target",
        "small directory",
        "no verbs",
        "enough 'you'",
        "too few 'you'",
        "reference",
        "far from the profile",
        "small profile",
    ],
)
def test_a_large_directory_must_meet_each_target(folder: str, figures: Figures, missed: list[str]) -> None:
    """A directory of 2,000 words must meet the targets. The distance counts from 20,000 words, 'you' in guides."""
    found = [line.removeprefix(f"{folder}: ") for line in misses({folder: figures}) if line.startswith(folder)]

    assert [line[: len(start)] for line, start in zip(found, missed, strict=True)] == missed


def test_every_measure_finds_its_riddle() -> None:
    """Text that is hard to read has findings of every measure, and plain text has none."""
    figures, plain = Figures(), Figures()
    riddles = [one for path, source in RIDDLES.items() for one in findings(texts_of(path, source), figures)]

    measures = {measure.finding for measure in MEASURES}
    assert measures - {finding.measure for finding in riddles} == {"you", "distance"}
    assert figures.counts["you"] == 2
    assert list(findings(texts_of("page.md", PLAIN), plain)) == []
    assert plain.counts["words"] == 18


def test_all_prose_of_a_page_is_read() -> None:
    """Paragraphs, items, headings, and cells are prose. Code blocks, comments, and front matter are not."""
    source = """---
title: A page
---
# Call a tool

To call `add`, see [the guide](guide.md).
Pass *both* numbers.

<!-- skip: next -->
```python
# no prose
```

- One item.

| name | meaning |
|---|---|
| `a` | the first number |
"""
    assert [(text.line, text.kind, text.text) for text in texts_of("page.md", source)] == [
        (4, "heading", "Call a tool"),
        (6, "docs", "To call CODE, see the guide. Pass both numbers."),
        (14, "docs", "One item."),
        (16, "cell", "name"),
        (16, "cell", "meaning"),
        (18, "cell", "CODE"),
        (18, "cell", "the first number"),
    ]


def test_all_prose_of_a_module_is_read() -> None:
    """Docstrings, comments, messages, and help are prose. Code, examples, and pragmas are not."""
    source = '''
"""A module."""

NAME = "x # no comment"
"""A name."""


def run(parser):
    """Run a job.

    >>> run(None)
    Traceback and more output
    """
    # locked because two workers can write
    # the same file
    parser.add_argument("x", help="Seconds to wait.")  # noqa: E501
    raise ValueError(f"timeout must be {NAME} seconds")
'''
    assert [(text.kind, text.text) for text in texts_of("module.py", source)] == [
        ("summary", "A module."),
        ("summary", "A name."),
        ("summary", "Run a job."),
        ("message", "timeout must be CODE seconds"),
        ("help", "Seconds to wait."),
        ("comment", "locked because two workers can write the same file"),
    ]
