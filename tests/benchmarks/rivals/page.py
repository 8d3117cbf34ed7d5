"""The tables and the picture of `docs/explanation/performance.md` and of the front page, from the results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.benchmarks.rivals.growth import Growth, draw
from tests.benchmarks.rivals.results import Ratio, Results, time_text
from tests.benchmarks.rivals.table import ALONE
from tests.kit.source import ROOT

__all__ = ["FRONT", "write_page"]

FRONT: Final = (
    "import",
    "define a tool of three scalars",
    "call, `run_sync`",
    "a run without tools",
    "a run of 10 rounds",
    "1,000 deltas of a chat application",
)
"""The works in the table of the front page, faster and slower."""

_PAGE: Final = ROOT / "docs" / "explanation" / "performance.md"
_FRONT_PAGE: Final = ROOT / "docs" / "index.md"
_PICTURE: Final = ROOT / "docs" / "images" / "growth.svg"


def write_page(results: Results) -> None:
    """Replace the tables between the marks of both pages, and the picture. Works that are slower come first."""
    rivals = [one for one in results.ratios if one.rival != ALONE]
    slower = sorted((one for one in rivals if one.ratio > 1), key=lambda one: -one.ratio)
    faster = sorted((one for one in rivals if one.ratio <= 1), key=lambda one: one.ratio)
    itself = [one for one in results.ratios if one.rival == ALONE]
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    parts = {
        "slower": _table(slower),
        "faster": _table(faster),
        "itself": _table(itself),
        "growth": _growth(results.growth),
        "versions": f"Python {results.python}; {versions}.\n",
    }
    for name, part in parts.items():
        _replace(_PAGE, name, part)
    _replace(_FRONT_PAGE, "costs", _table([one for one in rivals if one.name in FRONT]))
    _PICTURE.write_text(draw(results.growth), "utf-8")


def _replace(page: Path, name: str, part: str) -> None:
    before, mark, rest = page.read_text("utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    page.write_text(f"{before}{mark}\n{part}\n{end}{after}", "utf-8")


def _table(ratios: Iterable[Ratio]) -> str:
    rows = ["| Work | fxai | Rival | Ratio | Middle half of the ratios |", "|---|---|---|---|---|"]
    for one in ratios:
        mine, theirs = one.costs()
        rows.append(
            f"| {one.name} | {mine} | {theirs} ({one.rival}) | {one.ratio:.2f} | {one.low:.2f} to {one.high:.2f} |"
        )
    return "\n".join(rows) + "\n"


def _growth(growths: Iterable[Growth]) -> str:
    rows = ["| Unit | Cost by the number of units | Growth |", "|---|---|---|"]
    for one in growths:
        costs = ", ".join(f"{size:,}: {time_text(cost)}" for size, cost in sorted(one.costs.items()))
        rows.append(f"| {one.name.replace('|', '&#124;')} | {costs} | {one.factor:.2f} × |")
    return "\n".join(rows) + "\n"
