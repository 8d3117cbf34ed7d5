"""Importing: the names users begin with, beside the three libraries underneath, each time in a fresh process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks.measure import FXAI, HAND, Budget, Measured

__all__ = ["works"]

STATEMENTS = {
    FXAI: "from fxai import Tool, Toolkit, Layer, fx",
    HAND: "import msgspec, anyio, returns.result, returns.io, returns.future, returns.context, returns.maybe",
}
REPETITIONS = 15
CODE = """
import json, sys, time
before, begun = len(sys.modules), time.process_time()
{}
print(json.dumps([time.process_time() - begun, len(sys.modules) - before]))
"""


def works() -> Iterator[Measured]:
    """CPU time of the import, and the number of modules that it loads; `by hand` is importing what it stands on."""
    seconds: dict[str, list[float]] = {who: [] for who in STATEMENTS}
    modules: dict[str, int] = {}
    for repetition in range(REPETITIONS + 1):
        for who in sorted(STATEMENTS, reverse=bool(repetition % 2)):
            took, modules[who] = _fresh(STATEMENTS[who])
            if repetition:  # the first writes the bytecode
                seconds[who].append(took)
    name = f"{modules[FXAI]} modules; by hand {modules[HAND]}"
    yield Measured(name, {who: statistics.median(taken) for who, taken in seconds.items()}, (Budget(2, HAND),))


def _fresh(statement: str) -> tuple[float, int]:
    command = [sys.executable, "-W", "ignore", "-c", CODE.format(statement)]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout)
    return float(seconds), int(modules)
