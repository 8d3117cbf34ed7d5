"""Measuring on a machine that does other things too: CPU time, interleaved, in units of a fixed block of work.

Each contender of a piece of work runs once a repetition, in turn, and each run is divided by the time that a fixed
block of interpreter work takes just before and after it. The median over the repetitions is what is printed, scaled
back to time by the median block. So a machine that slows down in the middle slows down both sides of a ratio.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.benchmarks.rivals.worker import QUIET, block

__all__ = ["FXAI", "HAND", "Budget", "Measured", "Work", "head", "measure", "show", "slowness"]

FXAI, HAND = "fxai", "by hand"
REPETITIONS = 9


class Budget(NamedTuple):
    """What a piece of work may cost: at most `ratio` times what `against` takes, and `plus` seconds (or bytes)."""

    ratio: float
    against: str = ""
    plus: float = 0.0

    def allowed(self, costs: Mapping[str, float], slowness: float) -> float:
        """What the budget comes to, beside what was measured, on a machine that is so many times as slow."""
        return self.ratio * costs.get(self.against, 0.0) + self.plus * slowness

    def words(self, unit: Callable[[float], str]) -> str:
        """The budget in words."""
        terms = [f"{self.ratio:g} × {self.against}"] if self.against else []
        return "≤ " + " + ".join([*terms, *([unit(self.plus)] if self.plus else [])])


class Work(NamedTuple):
    """One thing to do: who does it how, how many steps a run has, and what it may cost."""

    name: str
    contenders: Mapping[str, Callable[[], object]]
    steps: int = 1
    budgets: tuple[Budget, ...] = ()


class Measured(NamedTuple):
    """What a step of some work cost each contender: seconds, or bytes."""

    name: str
    costs: Mapping[str, float]
    budgets: tuple[Budget, ...] = ()
    slowness: float = 1.0
    in_bytes: bool = False

    def unit(self, cost: float) -> str:
        """A cost in words."""
        return f"{cost / 1000:.1f} kB" if self.in_bytes else _time(cost)

    def over(self) -> list[str]:
        """The budgets that were not kept."""
        return [
            one.words(self.unit) for one in self.budgets if self.costs[FXAI] > one.allowed(self.costs, self.slowness)
        ]


def measure(work: Work, repetitions: int = REPETITIONS) -> Measured:
    """The median cost of a step of `work`, for each contender."""
    runs: dict[str, list[float]] = {who: [] for who in work.contenders}
    blocks: list[float] = [block()]
    for run in work.contenders.values():  # a first run, to fill caches
        run()
    for repetition in range(repetitions):
        names = list(work.contenders)
        for who in names if repetition % 2 else reversed(names):
            gc.collect()
            before = block()
            begun = time.process_time()
            work.contenders[who]()
            took = time.process_time() - begun
            after = block()
            blocks += (before, after)
            runs[who].append(took / (before + after) * 2)
    unit = statistics.median(blocks)
    costs = {who: statistics.median(taken) * unit / work.steps for who, taken in runs.items()}
    return Measured(work.name, costs, work.budgets, unit / QUIET)


def show(measured: Measured) -> str:
    """One line: what each takes a step, the ratios, the budgets and whether they are kept."""
    costs, mine = measured.costs, measured.costs[FXAI]
    cells = [measured.unit(costs[who]) if who in costs else "" for who in (FXAI, HAND)]
    cells += [f"{mine / costs[HAND]:.2f} ×" if costs.get(HAND) else ""]
    cells += [f"   {mine / cost:.2f} × {who}" for who, cost in costs.items() if who not in (FXAI, HAND) and cost]
    over = measured.over()
    budgets = [budget.words(measured.unit) for budget in measured.budgets]
    verdicts = ", ".join(f"{one} {'OVER' if one in over else 'ok'}" for one in budgets)
    return f"{_row(measured.name, *cells)}   {verdicts}".rstrip()


def slowness() -> float:
    """How many times as slow this machine is now as the one that budgets in microseconds were set on."""
    return statistics.median(block() for _ in range(REPETITIONS)) / QUIET


def head(title: str) -> str:
    """The heading of a section, with the names of its columns."""
    return _row(title, FXAI, HAND, f"/ {HAND}")


def _row(name: str, *cells: str) -> str:
    return name.ljust(40) + "".join(cell.rjust(12) for cell in cells)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
