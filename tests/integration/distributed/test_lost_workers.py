"""Workers that are killed in the middle of a call: what is run again, and what is told of the others."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from fxai.distributed import Cluster, distribute
from fxai.effects import EffectOf, fx
from fxai.tools import HandlerUnavailable, OutcomeUnknown
from tests.kit import cluster_tools as tools
from tests.kit import clusters
from tests.kit.cluster_tools import Pair, kit, records

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.cluster_tools:desk"


def _on(address: str, program: EffectOf[Any, Any, Any]) -> Any:
    live = distribute(tools.desk, TARGET).provide(Cluster.layer(address))
    return fx.run_exit(program.provide(live))


def test_a_call_whose_worker_is_killed_is_run_again_only_where_that_is_the_same(folder: None) -> None:
    """The idempotent one gives its result, run by another worker; of the other one the outcome is not known."""
    with clusters.start() as cluster:
        workers = [cluster.start_worker(TARGET) for _ in range(5)]
        for worker in workers:
            worker.found(clusters.READY)
        calls = [kit.call("kill_again", "first"), kit.call("kill", "second"), tools.add.call(Pair(1, 2))]
        again, once, other = [_on(cluster.address, each.exit()).value for each in calls]

    assert again.value.result == "alive"
    assert records("kill first") == ["kill first"] * 3
    (failure,) = once.cause.failures
    assert isinstance(failure, OutcomeUnknown)
    assert "was lost or closed" in failure.reason
    assert records("kill second") == ["kill second"]
    assert other.value == 3


def test_a_call_that_waits_on_a_worker_that_is_killed_is_run_by_another(folder: None) -> None:
    """It had not begun, so it is run, once, though it must not be run twice."""
    with clusters.start() as cluster:
        first = cluster.add_worker(TARGET, "--threads", "1")
        holding = tools.forever.call("the only slot").timeout(60).exit()
        waiting = tools.add.call(Pair(3, 4))

        @fx.gen
        def program() -> Any:
            yield from fx.fork(holding)
            yield from _until("begun the only slot")
            waits = yield from fx.fork(waiting)
            yield from fx.sleep(0.5)
            first.signal(signal.SIGKILL)
            yield from fx.wait(lambda: _later(cluster))
            return (yield from waits.join())

        end = _on(cluster.address, fx.scoped(program()))

    assert end.value == 7


async def _later(cluster: clusters.RunningCluster) -> None:
    from anyio import to_thread

    await to_thread.run_sync(lambda: cluster.add_worker(TARGET))


@fx.gen
def _until(line: str) -> Any:
    while not records(line):
        yield from fx.sleep(0.05)


def test_a_call_whose_worker_was_the_last_one_ends(folder: None) -> None:
    """Nobody is left to run it, or to say that it was begun before."""
    with clusters.start() as cluster:
        cluster.add_worker(TARGET)
        live = distribute(tools.desk, TARGET, wait=0.5).provide(Cluster.layer(cluster.address))
        failed = fx.run_result(kit.call("kill", "the last one").provide(live)).failure()

    assert isinstance(failed, OutcomeUnknown)
    assert "the worker of the call was lost, and the cluster at" in failed.reason


def test_a_call_without_any_worker_fails_in_time() -> None:
    """A cluster without workers is no reason to hang."""
    with clusters.start() as cluster:
        live = distribute(tools.desk, TARGET, wait=0.3).provide(Cluster.layer(cluster.address))
        failed = fx.run_result(kit.call("add", {"a": 1, "b": 2}).provide(live)).failure()

    assert isinstance(failed, HandlerUnavailable)
    assert "no worker" in failed.reason


def test_a_call_whose_cluster_is_lost_ends(folder: None, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows what became of it, and that is what it says."""
    caplog.set_level(logging.CRITICAL)
    with clusters.start() as cluster:
        cluster.add_worker(TARGET)

        @fx.gen
        def program() -> Any:
            handle = yield from fx.fork(kit.call("forever", "with the cluster").exit())
            yield from _until("begun with the cluster")
            cluster.end_scheduler()
            return (yield from handle.join())

        end = _on(cluster.address, fx.scoped(program()))

    (failure,) = end.value.cause.failures
    assert isinstance(failure, OutcomeUnknown)
    assert failure.reason.startswith("no result from the cluster at tcp://127.0.0.1:")


def test_processes_of_a_local_cluster_end_with_it(folder: None) -> None:
    """They run calls, in processes of their own; when the layer is released none of them is left."""
    who = kit.call("who", {}).map(lambda given: int(given.encoded_result[0]))
    live = distribute(tools.desk, TARGET).provide(Cluster.local_layer(workers=2, threads=2))

    pids = set(fx.run(fx.for_each(range(20), lambda _: who, concurrency=8).provide(live)))
    assert pids
    assert os.getpid() not in pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert len(records("released desk")) >= len(pids)
