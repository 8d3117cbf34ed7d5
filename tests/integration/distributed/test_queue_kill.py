"""Durable runs on a work queue whose workers, or whose program, are killed at any moment.

By default a few of them; `FXAI_KILLED_RUNS=100` says how many in each database, as `nox -s kills` does.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="fxai[durable] is not installed")
pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from tests.kit.cluster_killing import ClusterKilling
from tests.kit.postgres import fresh_database

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

RUNS = int(os.environ.get("FXAI_KILLED_RUNS", "6"))


def _check(folder: Path, location: str, first: int) -> None:
    killed: Counter[str] = Counter()
    with ClusterKilling(folder, location) as killing:
        for seed in range(first, first + RUNS):
            run, victims = killing.run(seed)
            killed.update(victims)
            assert run.faults == (), (seed, run)
            assert run.answer == run.expected, (seed, run)

    assert set(killed) == {"program", "worker"}
    assert killed.total() >= RUNS


def test_runs_on_a_queue_in_sqlite_survive_kills(tmp_path: Path) -> None:
    """Every run ends with the answer of one never killed; no finished call runs twice, and doubts are asked."""
    _check(tmp_path, str(tmp_path / "jobs.db"), 3000)


def test_runs_on_a_queue_in_postgres_survive_kills(tmp_path: Path, postgres_url: str) -> None:
    """The same, with journal and queue in one PostgreSQL database."""
    _check(tmp_path, fresh_database(postgres_url), 4000)
