"""The ratchet of prose: no folder gets harder to read than its recorded figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.prose.folders import figures_of_folders, top_level
from tests.kit.prose.measures import DISTANCE, MEASURES, Figures, findings
from tests.kit.prose.ratchet import Change, Entry, compare, read_record, updated, write_record
from tests.kit.prose.texts import texts_of
from tests.kit.source import ROOT

ADVICE = """
{0}

Rewrite the new text: its findings name a replacement. If a loss is right, for example because a file moved, record it:
    python -m tests.kit.prose --record --worse REASON
"""

IDIOM = next(measure for measure in MEASURES if measure.finding == "idiom")
YOU = next(measure for measure in MEASURES if measure.finding == "you")

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


def _figures(found: int, words: int) -> dict[str, Figures]:
    return {"fxai/new": Figures({"words": words, "idiom": found})}


def _is_worse(stored: tuple[int, int] | None, now: tuple[int, int]) -> bool:
    record = {"fxai/new": {IDIOM.name: Entry(*stored)}} if stored else {}
    return any(change.is_worse for change in compare(_figures(*now), record))


@pytest.mark.slow
def test_no_folder_reads_worse_than_recorded() -> None:
    """Every figure of every folder is at least as good as its record, up to one finding."""
    changes = compare(figures_of_folders(top_level()), read_record())
    worse = [str(change) for change in changes if change.is_worse]

    assert changes
    assert not worse, ADVICE.format("\n".join(worse))


def test_the_record_names_existing_folders() -> None:
    """The record has no folder that was removed. `--record` deletes it."""
    assert [folder for folder in read_record() if not (ROOT / folder).is_dir()] == []


@pytest.mark.parametrize(
    ("stored", "now", "worse"),
    [
        ((50, 1000), (50, 1000), False),
        ((50, 1000), (51, 1000), False),
        ((50, 1000), (52, 1000), True),
        ((50, 1000), (50, 800), False),
        ((50, 1000), (61, 2000), False),
        ((5, 1000), (15, 2000), False),
        ((5, 1000), (17, 2000), True),
        (None, (11, 1000), False),
        (None, (12, 1000), True),
    ],
    ids=[
        "unchanged",
        "one more finding",
        "two more findings",
        "plain text removed",
        "plain text added",
        "text added at the target",
        "text added above the target",
        "new folder at the target",
        "new folder above the target",
    ],
)
def test_a_folder_is_worse_if_its_new_text_misses_the_target(
    stored: tuple[int, int] | None, now: tuple[int, int], worse: bool
) -> None:
    """A folder fails if it has more findings than before, and more than the target allows for its new text."""
    assert _is_worse(stored, now) is worse


@pytest.mark.parametrize(("found", "worse"), [(50, False), (37, False), (36, True)])
def test_a_guide_keeps_its_you(found: int, worse: bool) -> None:
    """A guide fails if it loses more than one 'you' and 5 % of them."""
    change = Change("docs/how-to", YOU.name, YOU, Entry(40, 10000), Entry(found, 10000))

    assert change.is_worse is worse


@pytest.mark.parametrize(("distance", "worse"), [(2.4, False), (2.52, False), (2.54, True)])
def test_the_distance_may_vary_by_chance_only(distance: float, worse: bool) -> None:
    """The distance of 2,000 words may grow by 0.125, because 300 ordinary words can cause it."""
    change = Change("fxai/new", DISTANCE, None, Entry(2.4, 2000), Entry(distance, 2000))

    assert change.is_worse is worse


def test_a_failure_names_the_folder_the_figures_and_the_command() -> None:
    """The message of a loss shows both figures and the command that lists the findings."""
    change = next(one for one in compare(_figures(60, 1000), {"fxai/new": {IDIOM.name: Entry(50, 1000)}}))

    assert str(change) == (
        "fxai/new: a idioms /1000 is 60.0 (60 in 1000 words), recorded 50.0 (50 in 1000 words). "
        "List: python -m tests.kit.prose --since HEAD --list idiom fxai/new"
    )


def test_a_loss_needs_a_reason() -> None:
    """`--record` refuses a worse figure without a reason, and stores the reason next to the figure."""
    changes = compare(_figures(60, 1000), {"fxai/new": {IDIOM.name: Entry(50, 1000)}})

    with pytest.raises(ValueError, match="a idioms"):
        updated(changes)
    assert updated(changes, "A file moved.")["fxai/new"][IDIOM.name] == Entry(60, 1000, "A file moved.")


def test_the_record_is_updated_by_improvements_only(tmp_path: Path) -> None:
    """A better figure replaces the record, a figure within the tolerance does not, and the file has a line for each."""
    record = {"fxai/new": {IDIOM.name: Entry(50, 1000, "A file moved.")}}

    better = updated(compare(_figures(40, 1000), record))
    write_record(better, tmp_path / "prose.json")

    assert better["fxai/new"][IDIOM.name] == Entry(40, 1000)
    assert updated(compare(_figures(51, 1000), record))["fxai/new"][IDIOM.name] == record["fxai/new"][IDIOM.name]
    assert read_record(tmp_path / "prose.json") == better
    assert '    "a idioms /1000": [40,1000]' in (tmp_path / "prose.json").read_text(encoding="utf-8")


def test_every_measure_finds_its_riddle() -> None:
    """Text that is hard to read has findings of every measure, and plain text has none."""
    figures, plain = Figures(), Figures()
    riddles = [one for path, source in RIDDLES.items() for one in findings(texts_of(path, source), figures)]

    assert {measure.finding for measure in MEASURES} - {finding.measure for finding in riddles} == {"you"}
    assert figures.counts["you"] == 2
    assert list(findings(texts_of("page.md", PLAIN), plain)) == []
    assert plain.counts["words"] == 18


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
