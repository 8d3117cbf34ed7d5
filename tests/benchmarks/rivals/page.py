"""The tables and the picture of `docs/explanation/performance.md`, from the results of the comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.benchmarks.rivals.growth import Growth, draw
from tests.benchmarks.rivals.results import Ratio, Results
from tests.benchmarks.rivals.table import ALONE
from tests.kit.source import ROOT

__all__ = ["write_page"]

_PAGE: Final = ROOT / "docs" / "explanation" / "performance.md"
_PICTURE: Final = ROOT / "docs" / "images" / "growth.svg"


def write_page(results: Results) -> None:
    """Replace the tables between the marks of the page, and the picture. What is slower than a rival comes first."""
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
    text = _PAGE.read_text("utf-8")
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}{mark}\n{part}\n{end}{after}"
    _PAGE.write_text(text, "utf-8")
    _PICTURE.write_text(draw(results.growth), "utf-8")


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
        costs = ", ".join(f"{size:,}: {cost * 1e6:.3g} µs" for size, cost in sorted(one.costs.items()))
        rows.append(f"| {one.name.replace('|', '&#124;')} | {costs} | {one.factor:.2f} × |")
    return "\n".join(rows) + "\n"
