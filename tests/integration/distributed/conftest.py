"""One cluster and one work queue for a module of tests, with two workers each, started as users start them."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.kit import clusters, queues


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Where handlers write what happens to them."""
    from tests.kit import cluster_tools  # it needs what is skipped without

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cluster_tools.FOLDER, str(tmp_path_factory.mktemp("records")))
        yield


@pytest.fixture(scope="module")
def cluster(folder: None) -> Generator[clusters.RunningCluster]:
    """Two workers that have built the desk, and take four calls each."""
    with clusters.start() as running:
        first = running.start_worker("tests.kit.cluster_tools:desk", "--threads", "4", "--resource", "food=1")
        running.add_worker("tests.kit.cluster_tools:desk", "--threads", "4")
        first.found(clusters.READY)
        yield running


@pytest.fixture(scope="module")
def queue(folder: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[queues.RunningQueue]:
    """Two workers that have built the desk, and take four calls each, of a queue in SQLite."""
    with queues.start(str(tmp_path_factory.mktemp("queue") / "jobs.db")) as running:
        targets = (*(f"tests.kit.cluster_tools:{name}" for name in ("desk", "shout")), "--threads", "4")
        first = running.start_worker(*targets)
        running.add_worker(*targets)
        first.found(queues.READY)
        yield running
