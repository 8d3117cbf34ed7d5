"""Compare fxai with its rivals: `python -m tests.benchmarks.rivals [WORD ...] [options]`.

The command prints a row for each work whose name contains a word, by default for all works. In each round, fxai and
the rival do the work directly one after the other. A ratio is the median over the rounds of the cost of fxai by the
cost of the rival, and its spread is the range of the middle half. Then the command prints how the costs of fxai grow.

Options:
    --rounds N    the number of rounds. Default: 9.
    --json FILE   also write the ratios as JSON.
    --svg FILE    also draw the growth.
    --store       write the ratios to `tests/benchmarks/ratios.json`, which belongs to a release.
    --compare     print which ratios are more than 15 % worse than the stored ratios, and exit with 1 if there are any.
    --page        write the tables of `docs/explanation/performance.md`.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from tests.benchmarks.rivals.contender import Contender, ContenderError, versions
from tests.benchmarks.rivals.growth import GROWTH, Growth, draw
from tests.benchmarks.rivals.page import write_page
from tests.benchmarks.rivals.results import Ratio, Results, compare
from tests.benchmarks.rivals.table import ALONE, ROWS, SCRIPTS, Row
from tests.benchmarks.rivals.worker import QUIET, block
from tests.kit.source import ROOT

STORED = ROOT / "tests" / "benchmarks" / "ratios.json"


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rivals")
    parser.add_argument("words", nargs="*", metavar="WORD", help="measure only works whose name contains a word")
    parser.add_argument("--rounds", type=int, default=9, help="the number of rounds (default: 9)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the ratios as JSON")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the growth")
    parser.add_argument("--store", action="store_true", help="store the ratios for a release")
    parser.add_argument("--compare", action="store_true", help="print what is worse than the stored ratios")
    parser.add_argument("--page", action="store_true", help="write the tables of the page about performance")
    chosen = parser.parse_args(arguments)
    if chosen.rounds < 3:
        parser.error("--rounds must be at least 3, because the spread needs three ratios")
    contenders = {name: Contender(name) for name in SCRIPTS}
    try:
        results = _measure(contenders, chosen.words, chosen.rounds)
    finally:
        for one in contenders.values():
            one.close()
    if chosen.json is not None:
        chosen.json.write_bytes(results.to_json())
    if chosen.svg is not None:
        chosen.svg.write_text(draw(results.growth), "utf-8")
    if chosen.page:
        write_page(msgspec.json.decode(results.to_json(), type=Results))  # with the digits of the stored ratios
    worse = compare(Results.read(STORED), results) if chosen.compare else []
    if chosen.store:
        STORED.write_bytes(results.to_json())
    for line in worse:
        print(line)
    return 1 if worse else 0


def _measure(contenders: dict[str, Contender], words: list[str], rounds: int) -> Results:
    def is_chosen(name: str) -> bool:
        return not words or any(word in name for word in words)

    ratios: list[Ratio] = []
    print(f"Python {platform.python_version()}, {median(block() for _ in range(9)) / QUIET:.1f} times as slow as usual")
    print(f"{'work':44}{'fxai':>12}{'rival':>12}{'ratio':>8}   spread         target")
    for row in ROWS:
        if is_chosen(row.name) or is_chosen(row.work):
            try:
                ratios.append(_ratio(contenders, row, rounds))
            except (ContenderError, subprocess.CalledProcessError) as error:
                print(f"{row.name:44}{error}")
                continue
            print(ratios[-1].line(), flush=True)
    if is_chosen("import"):
        for ratio in _imports(contenders, rounds):
            ratios.append(ratio)
            print(ratio.line(), flush=True)
    growth: list[Growth] = []
    for name, sizes in GROWTH.items():
        if is_chosen(name):
            growth.append(_growth(contenders[ALONE], name, sizes, rounds))
            print(growth[-1].line(), flush=True)
    return Results(platform.python_version(), versions(), tuple(ratios), tuple(growth))


def _ratio(contenders: dict[str, Contender], row: Row, rounds: int) -> Ratio:
    mine: list[float] = []
    theirs: list[float] = []
    kind, figure = ("memory", "bytes") if row.memory else ("work", "blocks")
    for number in range(1 if row.memory else rounds):
        turns = [(mine, ALONE, row.work), (theirs, row.rival, row.their_work)]
        for costs, who, work in turns if number % 2 else reversed(turns):
            costs.append(contenders[who].ask(**{kind: work})[figure])
    scale = 1.0 if row.memory else QUIET
    scaled = [cost * scale for cost in mine], [cost * scale for cost in theirs]
    return Ratio.of(row.name, row.beside, row.target, *scaled, memory=row.memory)


_STATEMENTS = {
    "fxai": "from fxai import Tool, Toolkit, Layer, fx",
    "its dependencies": "import msgspec, anyio; from returns import result, io, future, context, maybe",
    "mirascope": "from mirascope import llm",
}


def _imports(contenders: dict[str, Contender], rounds: int) -> Iterator[Ratio]:
    """Measure imports, each in a new process: of fxai beside its own dependencies, and beside mirascope."""
    seconds: dict[str, list[float]] = {name: [] for name in _STATEMENTS}
    code = "import time; begun = time.process_time(); {}; print(time.process_time() - begun)"
    for number in range(rounds + 1):
        for name, statement in _STATEMENTS.items():
            python = contenders["mirascope" if name == "mirascope" else ALONE].python()
            command = [python, "-W", "ignore", "-c", code.format(statement)]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # compiling is not a part of an import
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
            if number:  # the first process writes the bytecode
                seconds[name].append(float(done.stdout))
    yield Ratio.of("import, beside its dependencies", ALONE, 1.7, seconds["fxai"], seconds["its dependencies"])
    yield Ratio.of("import", "mirascope", 0.8, seconds["fxai"], seconds["mirascope"])


def _growth(contender: Contender, name: str, sizes: tuple[int, ...], rounds: int) -> Growth:
    costs: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(max(3, rounds // 3)):
        for size in sizes:
            costs[size].append(contender.ask(work=f"{name}, {size}")["blocks"] * QUIET / size)
    return Growth(name, {size: median(each) for size, each in costs.items()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
