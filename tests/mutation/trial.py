"""Trials of mutants. Use this module to learn which mutants the tests find."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import final

import msgspec

from tests.mutation.draw import package_of
from tests.mutation.lanes import Batch, Job, Running
from tests.mutation.mutant import Mutant
from tests.mutation.probe import Reach

__all__ = ["Control", "Trial", "Verdict", "check"]


@final
class Control(msgspec.Struct, frozen=True):
    """The tests that pass without a mutant."""

    seconds: Mapping[str, float]
    """The duration of each test."""
    patience: float
    """The seconds that each test may take in addition to six times its duration."""

    def batch(self, tests: Sequence[str], *, stops: bool = True) -> Batch:
        """Return a batch of tests."""
        limits = tuple((test, self.patience + 6.0 * self.seconds[test]) for test in tests)
        return Batch(limits, sum(self.seconds[test] for test in tests), stops)


@final
class Verdict(msgspec.Struct, frozen=True):
    """The result of one trial."""

    mutant: Mutant
    reached_by: int
    """The number of tests that execute the line. Tests that only share a result of the line do not count."""
    ran: int
    """The number of tests in the sessions of the trial."""
    seconds: float
    found_by: str | None = None
    """The ID of the test that finds the mutant. None if no test finds it."""
    how: str = ""
    """`failed`, `time limit`, or `ended early`."""


@final
class Trial(msgspec.Struct, frozen=True):
    """One mutant, and the tests that may find it.

    Args:
        number: A number that no other mutant has.
    """

    mutant: Mutant
    reach: Reach
    number: int

    def job(self, control: Control, without: frozenset[str]) -> Job[Verdict]:
        """Return a job that puts the mutant into a copy, runs tests until one finds it, and restores the copy.

        Args:
            control: The tests that may find the mutant.
            without: Tests that may not find it.
        """

        def run(copy: Path) -> Running[Verdict]:
            started, ran = time.monotonic(), 0
            reached = len(self.reach.tests & control.seconds.keys())
            with _mutated(copy / self.mutant.path, self.mutant, self.number):
                for batch in self._batches(control, without):
                    ran += len(batch.tests)
                    ended = yield batch
                    for test, how in ended.failures.items():
                        return Verdict(self.mutant, reached, ran, time.monotonic() - started, test, how)
            return Verdict(self.mutant, reached, ran, time.monotonic() - started)

        return run

    def _batches(self, control: Control, without: frozenset[str]) -> Iterator[Batch]:
        """Yield batches of rising cost: first the tests that reach the line, the cheapest and nearest first.

        The other tests of the same files follow, because a fixture or a cache may share a result of the line. If the
        import of the package executes the line, all tests follow.
        """
        known = [test for test in control.seconds if test not in without]
        files = self.reach.files | {_file(test) for test in self.reach.tests}
        stages: list[list[str]] = [[], [], []]
        for test in known:
            is_first = test in self.reach.tests or _file(test) in self.reach.files
            stages[0 if is_first else 1 if _file(test) in files else 2].append(test)
        for tests in stages if self.reach.is_everywhere else stages[:2]:
            yield from _batches(sorted(tests, key=lambda test: self._rank(test, control)), control)

    def _rank(self, test: str, control: Control) -> float:
        """Return the cost of a test, times its distance from the module."""
        path = Path(self.mutant.path)
        is_beside = _file(test) == self.mutant.path or Path(_file(test)).name == f"test_{path.stem}.py"
        is_near = is_beside or _file(test).startswith(f"tests/unit/{package_of(self.mutant.path)}/")
        return (0.01 + control.seconds[test]) * (10 - 4 * is_near - 4 * is_beside)


def check(tests: Sequence[str], control: Control) -> Job[frozenset[str]]:
    """Return a job that runs tests without a mutant and gives those that fail."""

    def run(_copy: Path) -> Running[frozenset[str]]:
        failures: set[str] = set()
        left = list(tests)
        while left:
            ended = yield control.batch(left, stops=False)
            failures |= ended.failures.keys()
            left = [test for test in left if test not in ended.started | ended.failures.keys()]
            if not ended.started and not ended.failures:
                return frozenset([*failures, *left])  # pytest collects them only with a mutant
        return frozenset(failures)

    return run


def _file(test: str) -> str:
    return test.partition("::")[0]


def _batches(tests: Sequence[str], control: Control) -> Iterator[Batch]:
    """Cut tests into batches. Each further file of a batch costs a third of a second for its collection."""
    budget, cost = 2.0, 0.0
    batch: list[str] = []
    files: set[str] = set()
    for test in tests:
        batch.append(test)
        cost += control.seconds[test] + (0.0 if _file(test) in files else 0.3)
        files.add(_file(test))
        if cost > budget:
            yield control.batch(batch)
            budget, cost, batch, files = budget * 4, 0.0, [], set[str]()
    if batch:
        yield control.batch(batch)


@contextmanager
def _mutated(path: Path, mutant: Mutant, number: int) -> Generator[None]:
    text, times = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(mutant.applied(text), encoding="utf-8")
        os.utime(path, (number, number))  # a time that no compiled module has: Python compiles the source again
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
