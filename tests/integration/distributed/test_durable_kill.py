"""Durable runs on a cluster that is killed at any moment: its scheduler, its workers, or the program.

By default a few of them; `FXAI_KILLED_RUNS=100` says how many, as `nox -s kills` does.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from tests.kit.cluster_killing import ClusterKilling

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

RUNS = int(os.environ.get("FXAI_KILLED_RUNS", "12"))


def test_runs_on_a_cluster_survive_kills(tmp_path: Path) -> None:
    """Every run ends with the answer of one never killed; no finished call runs twice, and doubts are asked."""
    killed: Counter[str] = Counter()
    with ClusterKilling(tmp_path) as killing:
        for seed in range(2000, 2000 + RUNS):
            run, victims = killing.run(seed)
            killed.update(victims)
            assert run.faults == (), (seed, run)
            assert run.answer == run.expected, (seed, run)
        killing.end_orphans()

    assert set(killed) == {"program", "worker", "scheduler"}
    assert killed.total() >= RUNS
