"""Find out which small faults in the package the tests notice: `python -m tests.mutation`.

The command draws mutants, which are copies of the package with one small fault. It runs the tests once without a mutant
and records which tests reach the line of each mutant. Then it runs these tests with each mutant until one fails. A
mutant that no test finds is a hole in the tests, or code that no user needs, or a fault without effect. The command
exits with 1 if the tests find fewer than 92 percent, and with 2 if the tests cannot run without a mutant.

Options after `--` are options of pytest, for example `-- -m "not slow"`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.mutation.draw import draw, package_of, packages
from tests.mutation.lanes import Lanes
from tests.mutation.mutant import Mutant
from tests.mutation.probe import Reach, plant, reaches, remove, test_of
from tests.mutation.session import Record, Recorder, Session, preload
from tests.mutation.trial import Control, Trial, Verdict, check

FLOOR = 0.92
LEFT_OUT = (".git", ".venv", ".nox", ".cache", ".hypothesis", ".*_cache", "__pycache__", "*.egg-info", "build", "dist")


class _ControlError(Exception):
    """The tests cannot run without a mutant."""


def main(arguments: Sequence[str]) -> int:
    """Draw the mutants, run the tests, print the report, and return the exit code."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = _options(arguments[:at])
    drawn = _mutants(options)
    if options.draw:
        options.draw.write_bytes(msgspec.json.format(msgspec.json.encode(drawn)))
        print(f"{len(drawn)} mutants in {options.draw}")
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
            verdicts = _verdicts(drawn, Path(folder).resolve(), options, arguments[at + 1 :])
    except _ControlError as error:
        print(error, file=sys.stderr)
        return 2
    if options.result:
        options.result.write_bytes(msgspec.json.format(msgspec.json.encode(verdicts)))
    return 0 if _report(verdicts) >= FLOOR * len(verdicts) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--package", action="append", help="Package to mutate, more than once if needed. Default: all.")
    parser.add_argument("--count", type=int, default=100, help="Number of mutants. Default: 100.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the drawing. Default: 0.")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="Write the mutants to a file and stop.")
    parser.add_argument("--mutants", type=Path, metavar="FILE", help="File of mutants to use, instead of a drawing.")
    parser.add_argument("--result", type=Path, metavar="FILE", help="File for the result of each mutant, as JSON.")
    parser.add_argument("--tests", action="append", default=[], help="Path of tests to run. Default: all tests.")
    parser.add_argument("--jobs", type=int, default=2, help="Number of processes that run tests. Default: 2.")
    parser.add_argument("--patience", type=float, default=30.0, help="Seconds before a test may time out. Default: 30.")
    parser.add_argument("--project", type=Path, default=Path(), help="Project to mutate. Default: this folder.")
    return parser.parse_args(arguments)


def _mutants(options: argparse.Namespace) -> list[Mutant]:
    if options.mutants:
        return msgspec.json.decode(options.mutants.read_bytes(), type=list[Mutant])
    return draw(options.project, options.package or packages(options.project), options.count, options.seed)


def _verdicts(
    drawn: Sequence[Mutant], folder: Path, options: argparse.Namespace, others: Sequence[str]
) -> list[Verdict]:
    copies = [folder / f"copy-{number}" for number in range(options.jobs)]
    preload(options.project)
    control, grouped, found = _control(drawn, copies[0], options, others)
    for copy in copies[1:]:
        shutil.copytree(copies[0], copy, symlinks=True)
    # from here on the copies stay as they are: a compiled mutant would be read again
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    lanes = Lanes(copies, others, grouped)
    trials = {one: Trial(one, reach, at) for at, (one, reach) in enumerate(zip(drawn, found, strict=True), 1)}
    return _confirmed(trials, control, lanes)


def _control(
    drawn: Sequence[Mutant], copy: Path, options: argparse.Namespace, others: Sequence[str]
) -> tuple[Control, frozenset[str], list[Reach]]:
    """Run the tests without a mutant, and record which mutants they reach."""
    shutil.copytree(options.project, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    records, reached, log = (copy.with_suffix(end) for end in (".json", ".reached", ".log"))
    plant(copy, drawn, reached)
    session = Session(copy, ["-n", str(options.jobs), *others, *options.tests], Recorder(records), log)
    session.wait()
    record = msgspec.json.decode(records.read_bytes(), type=Record) if records.exists() else Record({}, [])
    found = reaches(copy, reached, len(drawn))
    remove(copy, drawn)
    if session.code not in (0, 1) or not record.passed:
        output = log.read_text(encoding="utf-8")
        raise _ControlError(f"{output}\nThe tests do not run without a mutant. Correct the errors above.")
    if not any(one.tests for one in found):
        raise _ControlError("No test reaches a mutant. Install the project with `pip install -e`.")
    print(f"{len(record.passed)} tests pass without a mutant, in {sum(record.passed.values()):.0f} s of tests.")
    for name in record.failed:
        print(f"{name} fails without a mutant, so it does not count.")
    seconds = {test_of(name): seconds for name, seconds in record.passed.items()}
    return (
        Control(seconds, options.patience),
        frozenset(test_of(name) for name in record.passed if test_of(name) != name),
        found,
    )


def _confirmed(trials: dict[Mutant, Trial], control: Control, lanes: Lanes) -> list[Verdict]:
    """Run the trials. A test that also fails alone without a mutant does not count, so its mutants run again."""
    verdicts: dict[Mutant, Verdict] = {}
    trusted: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    left = list(trials.values())
    while left:
        for verdict in lanes.run([trial.job(control, without) for trial in left]):
            verdicts[verdict.mutant] = verdict
            print(f"{verdict.found_by or 'NOT FOUND'}: {verdict.mutant}", flush=True)
        finders = sorted({one.found_by for one in verdicts.values() if one.found_by} - trusted)
        shares = [finders[at :: len(lanes.copies)] for at in range(len(lanes.copies))]
        failing = frozenset[str]().union(*lanes.run([check(share, control) for share in shares]))
        for name in sorted(failing):
            print(f"{name} fails alone without a mutant, so it does not count.")
        trusted, without = trusted | (frozenset(finders) - failing), without | failing
        left = [trials[mutant] for mutant, verdict in verdicts.items() if verdict.found_by in failing]
    return [verdicts[mutant] for mutant in trials]


def _report(verdicts: Sequence[Verdict]) -> int:
    """Print the mutants that no test finds, and the numbers of each package. Return the number of found mutants."""
    print("\nNot found:")
    for one in verdicts:
        if one.found_by is None:
            print(f"  {one.mutant}   ({one.reached_by} tests reach it, {one.ran} ran)")
    print("\nFound:")
    for name in sorted({package_of(one.mutant.path) for one in verdicts}):
        those = [one for one in verdicts if package_of(one.mutant.path) == name]
        print(f"  {name}: {sum(one.found_by is not None for one in those)} of {len(those)}")
    found = sum(one.found_by is not None for one in verdicts)
    print(f"  {found} of {len(verdicts)}: {found / max(1, len(verdicts)):.1%}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
