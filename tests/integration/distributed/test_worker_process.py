"""`fxai worker` as a process: what it says when it cannot work, and how it ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from fxai.distributed import Cluster, TargetError, distribute
from fxai.effects import fx
from tests.kit import cluster_tools as tools
from tests.kit.cluster_tools import kit, records
from tests.kit.clusters import Process, RunningCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.cluster_tools:desk"


def _worker(*arguments: str) -> tuple[int, str]:
    process = Process(("-m", "fxai", "worker", *arguments))
    try:
        return process.wait(), process.output
    finally:
        process.end()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["tcp://127.0.0.1:1", "--tls-ca", "ca.pem"], 2, "TLS requires three files. Add --tls-cert and --tls-key."),
        (
            ["tcp://127.0.0.1:1", "--resource", "GPU"],
            2,
            "--resource must be NAME=N, got 'GPU'. Write, for example,",
        ),
        (["tcp://127.0.0.1:1", "tests.kit.nowhere:desk"], 1, "tests.kit.nowhere:desk cannot be used: ModuleNotFound"),
        (["tcp://127.0.0.1:1", "tests.kit.cluster_tools:nothing"], 1, "nothing is of type int: use BoundToolkit.of"),
        (["tcp://127.0.0.1:1", "tests.kit.cluster_tools:kit"], 1, "is of type Toolkit: use BoundToolkit.of"),
        (["tcp://127.0.0.1:1", "tests.kit.cluster_tools:broken"], 1, "broken: FailureError: no desk"),
        (["nowhere"], 1, "no cluster at nowhere: "),
        ([], 2, "missing SCHEDULER. Pass tcp://host:8786, or --queue."),
        (["--queue", "jobs.db"], 2, "missing TARGET. Name at least one module:name."),
        (["--queue", "jobs.db", "tcp://127.0.0.1:1"], 2, "--queue does not use a scheduler, got tcp://127.0.0.1:1"),
        (["--queue", "jobs.db", "a:b", "--resource", "GPU=1"], 2, "--resource requires a Dask cluster, not --queue"),
        (["--queue", "jobs.db", "a:b", "--tls-ca", "ca.pem"], 2, "--tls-ca requires a Dask cluster, not --queue"),
        (
            ["--queue", "mysql://localhost/jobs", "a:b"],
            2,
            "--queue: URL must be postgresql://USER:PASSWORD@HOST/DATABASE",
        ),
        (
            ["--queue", "/dev/null/jobs.db", "tests.kit.cluster_tools:desk"],
            1,
            "no cluster at /dev/null/jobs.db",
        ),
        (["--queue", "jobs.db", "tests.kit.nowhere:desk"], 1, "tests.kit.nowhere:desk cannot be used: ModuleNotFound"),
    ],
)
def test_a_worker_that_cannot_work_says_why_in_one_line(
    folder: None, arguments: Sequence[str], code: int, said: str
) -> None:
    """And what to do, before it has reached any cluster."""
    ended, output = _worker(*arguments)
    (line,) = [line for line in output.splitlines() if line.startswith("fxai: ")]

    assert ended == code, output
    assert said in line
    assert "Traceback" not in output


def test_a_worker_lets_calls_end_when_it_is_told_to(cluster: RunningCluster) -> None:
    """SIGTERM: the call that runs gives its result, then the layer is released, and the process ends as terminated."""
    worker = cluster.add_worker(TARGET, "--resource", "leaving=1")
    location: Any = {"count": tools.placed("leaving")}
    live = distribute(tools.desk, TARGET, placements=location).provide(Cluster.layer(cluster.address))
    released = len(records("released desk"))

    def tell(outcome: Any) -> Any:
        return fx.sync(lambda: worker.signal(signal.SIGTERM)) if outcome.result == 1 else fx.sleep(0.1)

    seen: list[Any] = []
    shown = kit.handle("count", 6).tap(tell).for_each(lambda one: fx.sync(lambda: seen.append(one.result)))
    fx.run(shown.provide(live))
    assert seen == [0, 1, 2, 3, 4, 5, 6]
    assert worker.wait() == 143
    assert re.search("fxai: terminated", worker.output)
    assert len(records("released desk")) == released + 1


def test_a_worker_whose_scheduler_is_gone_ends(folder: None) -> None:
    """It releases its layer, and says that the cluster is gone."""
    from tests.kit import clusters

    with clusters.start() as cluster:
        worker = cluster.add_worker(TARGET)
        cluster.end_scheduler()
        code = worker.wait()

        assert code == 1
        assert "no cluster at" in worker.output


def test_a_target_is_looked_at_where_the_program_is_written() -> None:
    """A name that is none, another one's, or nobody's is an error at once, before any cluster is asked."""
    with pytest.raises(TargetError, match="no module named nowhere"):
        distribute(tools.desk, "nowhere:desk")
    with pytest.raises(TargetError, match="invalid target"):
        distribute(tools.desk, "tests.kit.cluster_tools")
    with pytest.raises(TargetError, match="workers have another __main__"):
        distribute(tools.desk, "__main__:desk")
    with pytest.raises(TargetError, match="has other tools than those given here: shout"):
        distribute(tools.desk, "tests.kit.cluster_tools:shout")
    with pytest.raises(KeyError, match="did you mean 'count'"):
        distribute(tools.desk, TARGET, placements={"coumt": tools.placed("food")})
