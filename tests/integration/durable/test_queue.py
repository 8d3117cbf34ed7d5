"""Runs on a queue whose workers are killed at any moment: every one ends, and nothing is run twice.

By default a few of them; `FXAI_KILLED_RUNS=100` says how many in each database, as `nox -s kills` does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fxai import fx
from fxai.durable import Runs
from tests.kit.killing import KilledRun
from tests.kit.postgres import fresh_database, runs_in
from tests.kit.queue_killing import QueueKilling

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("FXAI_KILLED_RUNS", "3"))

_SHOP = """
from fxai import fx
from fxai.durable import durable, step
from fxai.effects import Layer


def handle_order(run):
    noted = step("note", fx.sync(lambda: print("handled", run, flush=True)), type(None), idempotent=True)
    return noted.and_then(fx.sleep(0.3)).provide(durable(Layer.empty(), run=run))
"""


def _check(runs: list[KilledRun]) -> None:
    for run in runs:
        assert run.faults == (), run
        assert run.answer == run.expected, run
    assert runs[0].kills > 0


@pytest.mark.parametrize("first", range(0, RUNS, 10))
def test_workers_of_sqlite_are_killed(first: int, tmp_path: Path) -> None:
    """With approvals, results from outside, timers and sub-agents; what a worker had another one goes on with."""
    names = [f"run-{number}" for number in range(first, min(first + 10, RUNS))]
    _check(QueueKilling(tmp_path, str(tmp_path / "runs.db")).run(names, first))


@pytest.mark.parametrize("first", range(0, RUNS, 10))
def test_workers_of_postgres_are_killed(first: int, tmp_path: Path, postgres_url: str) -> None:
    """The same in a PostgreSQL database, with a real server."""
    names = [f"run-{number}" for number in range(first, min(first + 10, RUNS))]
    store = fresh_database(postgres_url)
    runs_in("postgres", store)
    _check(QueueKilling(tmp_path, store).run(names, 1000 + first))


def test_a_worker_of_the_command_line(tmp_path: Path) -> None:
    """`fxai runs work` runs what is submitted, until it is stopped by a signal; then it lets its runs end."""
    (tmp_path / "shop.py").write_text(_SHOP)
    runs = Runs.sqlite(tmp_path / "fxai-runs.db")
    command = [sys.executable, "-m", "fxai", "runs", "work", "shop:handle_order"]
    for name in ("a", "b"):
        fx.run(runs.submit(name, "shop:handle_order"))
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        try:
            assert "worker runs shop:handle_order" in worker.stderr.readline()
            handled = sorted(worker.stderr.readline() for _ in "ab")  # what programs print goes there
            assert handled == ["handled a\n", "handled b\n"]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 143
        finally:
            worker.kill()
    assert {one.run: one.status for one in fx.run(runs.list())} == {"a": "done", "b": "done"}
