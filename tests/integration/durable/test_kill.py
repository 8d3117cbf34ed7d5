"""Runs that are killed at any moment: every one ends, no finished call runs twice, no answer is lost, doubts are asked.

By default a few of them; `FXAI_KILLED_RUNS=100` says how many in each database, as `nox -s kills` does.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from fxai import fx
from fxai.durable import Runs
from tests.kit.durable_program import World
from tests.kit.killing import KilledRun, Killing
from tests.kit.postgres import fresh_database, own_postgres, runs_in

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("FXAI_KILLED_RUNS", "5"))


@pytest.fixture(scope="module")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killing]:
    """What starts processes and kills them."""
    with Killing(tmp_path_factory.mktemp("killing")) as killing:
        yield killing


def _check(runs: list[KilledRun]) -> None:
    for seed, run in enumerate(runs):
        assert run.faults == (), (seed, run)
        assert run.answer == run.expected, (seed, run)
    assert sum(run.kills for run in runs) >= len(runs)
    assert len(runs) < 50 or sum(run.doubts for run in runs) > 0


@pytest.mark.timeout(600 + 30 * RUNS)
def test_runs_in_sqlite_survive_kills(killing: Killing) -> None:
    """With parallel calls, sub-agents, approvals, results from outside, timers, and changed prompts, in SQLite."""
    _check([killing.run(str(killing.folder / "runs.db"), seed) for seed in range(RUNS)])


@pytest.mark.timeout(600 + 30 * RUNS)
def test_runs_in_postgres_survive_kills(killing: Killing, postgres_url: str) -> None:
    """The same in a PostgreSQL database, with a real server."""
    store = fresh_database(postgres_url)
    runs_in("postgres", store)
    _check([killing.run(store, seed) for seed in range(1000, 1000 + RUNS)])


@pytest.mark.timeout(600 + 30 * RUNS)
def test_runs_survive_kills_and_restarts_of_postgres(killing: Killing) -> None:
    """The server restarts while a program runs, and again later; the programs lose only time."""
    with own_postgres() as server:
        store = fresh_database(server.url)
        runs_in("postgres", store)

        def restart() -> None:
            server.stop()
            server.start()

        _check([killing.run(store, seed, restart) for seed in range(2000, 2000 + (RUNS + 1) // 2)])


def test_of_two_processes_that_resume_a_run_one_wins(killing: Killing) -> None:
    """The other one is told that the run is owned, and does nothing of it."""
    store, world = str(killing.folder / "two.db"), World(killing.folder / "two.world")
    first = killing.start(store, "two", "7", world.path)
    while not fx.run(Runs.sqlite(store).list()):
        time.sleep(0.005)
    _stop(first, store)
    second = killing.start(store, "two", "7", world.path)
    assert killing.wait(second) == 4
    os.kill(first, signal.SIGCONT)
    assert killing.wait(first) in (0, 3)


def _stop(pid: int, store: str) -> None:
    """Stops a process, which lives and owns its run, at a moment when it does not hold the database."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        with closing(sqlite3.connect(store, timeout=0)) as database, suppress(sqlite3.OperationalError):
            database.execute("BEGIN IMMEDIATE")
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.001)


def test_a_journal_is_its_owners_alone(killing: Killing) -> None:
    """The database and what stands beside it can be read by nobody else: it holds conversations."""
    _ = killing.run(str(killing.folder / "private.db"), 3)
    files = [path for path in killing.folder.iterdir() if path.name.startswith("private.db")]
    assert files
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
