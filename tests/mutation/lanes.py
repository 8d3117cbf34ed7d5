"""Copies of the project as lanes. Use this module to run jobs side by side, one session at a time in each copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar, final

import msgspec

from tests.mutation.session import Selection, Session

__all__ = ["Batch", "Ended", "Job", "Lanes", "Running"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


@final
class Batch(msgspec.Struct, frozen=True):
    """Tests for one session."""

    tests: tuple[tuple[str, float], ...]
    """The IDs of the tests, each with its time limit in seconds."""
    seconds: float
    """The sum of the durations of the tests without a mutant."""
    stops: bool = True
    """True if the session ends at the first failure."""


@final
class Ended(msgspec.Struct, frozen=True):
    """The end of a session."""

    started: frozenset[str]
    failures: Mapping[str, str]
    """The reason of each failed test: `failed`, `time limit`, or `ended early`."""


Running = Generator[Batch, Ended, _T_co]
"""A job at work: it yields batches and receives their ends."""
Job = Callable[[Path], Running[_T_co]]
"""A function from a copy to a generator. A generator changes its copy and restores it."""


@final
class _Lane(Generic[_T]):
    """One job in one copy."""

    def __init__(self, job: Job[_T], copy: Path) -> None:
        self.copy = copy
        self.running = job(copy)
        self.batch: Batch | None = None
        self.session: Session | None = None
        self.results: list[_T] = []
        self.proceed(None)

    def proceed(self, ended: Ended | None) -> None:
        try:
            self.batch = next(self.running) if ended is None else self.running.send(ended)
        except StopIteration as stop:
            self.batch = None
            self.results.append(stop.value)


@final
class Lanes:
    """Copies of the project.

    Args:
        copies: The copies. Each runs one session at a time.
        options: The options of each session of pytest.
        grouped: Tests that need a resource of the machine. Two sessions with such tests never run at the same time.
    """

    def __init__(self, copies: Sequence[Path], options: Sequence[str], grouped: frozenset[str]) -> None:
        self.copies = copies
        self.options = options
        self.grouped = grouped

    def run(self, jobs: Sequence[Job[_T]]) -> Iterator[_T]:
        """Yield the results of jobs, as they end."""
        waiting, idle = list(reversed(jobs)), list(self.copies)
        lanes: list[_Lane[_T]] = []
        try:
            while waiting or lanes:
                while waiting and idle:
                    lanes.append(_Lane(waiting.pop(), idle.pop()))
                for lane in list(lanes):
                    self._step(lane, lanes)
                    if lane.results:
                        lanes.remove(lane)
                        idle.append(lane.copy)
                        yield lane.results[0]
                time.sleep(0.02)
        finally:
            for lane in lanes:
                if lane.session is not None:
                    lane.session.kill()
                lane.running.close()

    def _step(self, lane: _Lane[_T], lanes: Sequence[_Lane[_T]]) -> None:
        if lane.batch is None:
            return
        if lane.session is None:
            others = [one.batch for one in lanes if one.session is not None and one.batch is not None]
            if not (self._is_grouped(lane.batch) and any(map(self._is_grouped, others))):
                lane.session = self._start(lane.copy, lane.batch)
        elif lane.session.is_over:
            ended = _ended(lane.batch, lane.session, self._output(lane.copy))
            lane.session = None
            lane.proceed(ended)

    def _is_grouped(self, batch: Batch) -> bool:
        return any(test in self.grouped for test, _ in batch.tests)

    def _output(self, copy: Path) -> Path:
        return copy.with_suffix(".tests")

    def _start(self, copy: Path, batch: Batch) -> Session:
        files = list(dict.fromkeys(test.partition("::")[0] for test, _ in batch.tests))
        self._output(copy).unlink(missing_ok=True)
        plugin = Selection(dict(batch.tests), self._output(copy))
        # less than the sum of the limits, because an import that never ends has no limit of its own
        seconds = 30.0 + max(limit for _, limit in batch.tests) + 2.0 * len(files) + 6.0 * batch.seconds
        arguments = [*(["-x"] if batch.stops else []), *self.options, *files]
        return Session(copy, arguments, plugin, copy.with_suffix(".log"), seconds)


def _ended(batch: Batch, session: Session, output: Path) -> Ended:
    text = output.read_text(encoding="utf-8") if output.exists() else ""
    lines = [line.split("\t", 1) for line in text.splitlines()]
    started = [test for word, test in lines if word == "start"]
    failures: dict[str, str] = {}
    for word, test in lines:
        if word != "start":
            failures.setdefault(test, word)
    last = started[-1] if started else batch.tests[0][0]
    if session.is_late:
        failures.setdefault(last, "time limit")
    elif session.code not in (0, 1, 2, 5) or (session.code in (1, 2) and not failures):
        failures.setdefault(last, "ended early")
    return Ended(frozenset(started), failures)
