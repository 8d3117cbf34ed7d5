"""The results of the comparison: ratios, their JSON form, and what became worse."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import msgspec

from tests.benchmarks.rivals.growth import Growth

__all__ = ["Ratio", "Results", "compare", "time_text"]

_WORSE: Final = 1.15


class Ratio(msgspec.Struct, frozen=True):
    """The cost of a work of fxai by the cost of the same work of a rival."""

    name: str
    rival: str
    target: float
    ratio: float
    """The median over the rounds."""
    low: float
    """The lower end of the middle half of the ratios."""
    high: float
    """The upper end of the middle half of the ratios."""
    mine: float
    """The median cost of fxai: seconds on a quiet core, or bytes."""
    theirs: float
    memory: bool = False

    @staticmethod
    def of(
        name: str, rival: str, target: float, mine: list[float], theirs: list[float], *, memory: bool = False
    ) -> Ratio:
        """Return the ratio of costs that were measured in pairs."""
        each = [a / b for a, b in zip(mine, theirs, strict=True)]
        low, _, high = quantiles(each, n=4) if len(each) > 1 else (each[0],) * 3
        return Ratio(name, rival, target, median(each), low, high, median(mine), median(theirs), memory)

    @property
    def is_met(self) -> bool:
        """True if the ratio reaches its target."""
        return self.ratio <= self.target

    def costs(self) -> tuple[str, str]:
        """Return the costs of fxai and of the rival, with units."""
        show = _size if self.memory else time_text
        return show(self.mine), show(self.theirs)

    def line(self) -> str:
        """Return the row of a terminal."""
        mine, theirs = self.costs()
        met = "" if self.is_met else "   missed"
        spread = f"{self.low:.2f} to {self.high:.2f}"
        return (
            f"{self.name:44}{mine:>12}{theirs:>12}{self.ratio:8.2f}   {spread:15}≤ {self.target:g} × {self.rival}{met}"
        )


class Results(msgspec.Struct, frozen=True):
    """The results of one run of the comparison."""

    python: str
    versions: dict[str, str]
    ratios: tuple[Ratio, ...]
    growth: tuple[Growth, ...]

    @staticmethod
    def read(path: Path) -> Results:
        """Return the results in a file."""
        return msgspec.json.decode(path.read_bytes(), type=Results)

    def to_json(self) -> bytes:
        """Return the results as JSON, one figure in each line. Figures have four digits."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=1).decode()
        return re.sub(r"(?<=: )\d+\.\d+(e-\d+)?", lambda found: f"{float(found[0]):.4g}", text).encode() + b"\n"


def compare(stored: Results, results: Results) -> list[str]:
    """Return a line for each ratio that is more than 15 % worse than the stored ratio."""
    before = {(one.name, one.rival): one.ratio for one in stored.ratios}
    return [
        f"worse: {one.name}: {before[one.name, one.rival]:.2f} before, {one.ratio:.2f} now, beside {one.rival}"
        for one in results.ratios
        if one.ratio > _WORSE * before.get((one.name, one.rival), one.ratio)
    ]


def time_text(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _size(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
