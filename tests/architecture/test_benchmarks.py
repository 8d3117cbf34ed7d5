"""The comparison with rivals: its rows, its stored ratios, and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.rivals.growth import Growth, draw
from tests.benchmarks.rivals.page import FRONT
from tests.benchmarks.rivals.results import Ratio, Results, compare
from tests.benchmarks.rivals.table import ALONE, ROWS, SCRIPTS, Row
from tests.kit.source import ROOT

RIVALS = ROOT / "tests" / "benchmarks" / "rivals"
STORED = Results.read(ROOT / "tests" / "benchmarks" / "ratios.json")


def _ratio(ratio: float) -> Ratio:
    return Ratio.of("call", "anthropic", 0.8, [ratio] * 3, [1.0] * 3)


def _results(*ratios: Ratio) -> Results:
    return Results("3.11", {}, ratios, ())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}, {row.beside}")
def test_both_sides_of_a_row_have_its_work(row: Row) -> None:
    """The programs of fxai and of the rival name the work."""
    mine = (RIVALS / f"{SCRIPTS[ALONE]}.py").read_text("utf-8") + (RIVALS / "raw_inputs.py").read_text("utf-8")
    theirs = (RIVALS / f"{SCRIPTS[row.rival]}.py").read_text("utf-8")

    assert f'"{row.work}"' in mine
    assert f'"{row.their_work}"' in theirs or row.rival == "schemas"


def test_the_stored_ratios_contain_each_row() -> None:
    """A row without a stored ratio could become worse without a report."""
    assert {(row.name, row.beside) for row in ROWS} <= {(one.name, one.rival) for one in STORED.ratios}


def test_the_pages_show_the_stored_ratios() -> None:
    """Each stored row occurs on the page about performance, and each row of the front page there."""
    pages = {"explanation/performance.md": [one.name for one in STORED.ratios], "index.md": FRONT}
    for page, names in pages.items():
        text = (ROOT / "docs" / page).read_text("utf-8")
        rows = [(one.name, f"| {' | '.join(one.costs())} (") for one in STORED.ratios if one.name in names]

        assert set(names) == {name for name, _ in rows}
        assert [name for name, costs in rows if f"| {name} {costs}" not in text] == []


def test_a_ratio_that_is_more_than_15_percent_worse_is_reported() -> None:
    """A smaller change is within the spread of a measurement."""
    assert compare(_results(_ratio(1.0)), _results(_ratio(1.14))) == []
    assert compare(_results(_ratio(1.0)), _results(_ratio(1.16))) == [
        "worse: call: 1.00 before, 1.16 now, beside anthropic"
    ]


def test_results_are_the_same_after_storage(tmp_path: Path) -> None:
    """The JSON form keeps four digits."""
    results = Results("3.11", {"a": "0.60.3"}, (_ratio(0.5),), (Growth("a round", {1: 2e-6, 10: 2.5e-6}),))
    (tmp_path / "ratios.json").write_bytes(results.to_json())

    assert Results.read(tmp_path / "ratios.json") == results


def test_the_picture_escapes_names_and_shows_each_growth() -> None:
    """A picture has a line for each growth, and a name cannot end an element."""
    picture = draw([Growth("a <b>", {1: 1e-6, 10: 1e-6}), Growth("c", {10: 1e-6, 100: 1e-4})])

    assert picture.count("<polyline") == 2
    assert "a &lt;b&gt;" in picture
    assert Growth("c", {10: 1e-6, 100: 1e-4}).factor == pytest.approx(100)
