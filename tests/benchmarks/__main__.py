"""`python -m tests.benchmarks [section ...] [--profile]`: every section, or those named.

Prints one line a piece of work: what a step costs, the ratios, the budgets and whether they are kept. Exits with 1
when a budget was not kept. With `--profile`, prints beside it where the time of fxai goes.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable, Iterable
from importlib import import_module

from tests.benchmarks.measure import FXAI, Measured, Work, head, measure, show, slowness

SECTIONS = (
    "imports",
    "effects",
    "define",
    "call",
    "raw",
    "models",
    "strict",
    "loop",
    "context",
    "stateful",
    "crowd",
    "stream",
    "ui",
    "telemetry",
    "cluster",
    "features",
    "growth",
)


def main(arguments: list[str]) -> int:
    """Measure and print; gives the exit code."""
    profiled = "--profile" in arguments
    chosen = [name for name in arguments if not name.startswith("-")] or SECTIONS
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        print(f"no section is called {', '.join(unknown)}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2

    print(f"Python {sys.version.split()[0]}, {slowness():.1f} times as slow now as the machine the budgets were set on")
    over: list[str] = []
    for name in chosen:
        print(f"\n{head(name)}")
        works: Callable[[], Iterable[Work | Measured]] = import_module(f"tests.benchmarks.{name}").works
        for work in works():
            measured = work if isinstance(work, Measured) else measure(work)
            print(show(measured), flush=True)
            over += [f"{name}: {measured.name}: {budget}" for budget in measured.over()]
            if profiled and isinstance(work, Work):
                _profile(work.contenders[FXAI])
    print("\nevery budget is kept" if not over else "\nnot kept:\n  " + "\n  ".join(over))
    return 1 if over else 0


def _profile(run: Callable[[], object]) -> None:
    profile = cProfile.Profile()
    profile.runcall(run)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
