"""Ten thousand calls over two workers, beside the same calls in this process: CPU of all processes, and whether flat.

The machine does other things too, so it is CPU time that is counted: of the program, the scheduler and the workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from fxai.distributed import Cluster, distribute
from fxai.effects import EffectOf, Gen, fx
from tests.benchmarks.measure import FXAI, Budget, Measured, slowness
from tests.kit import cluster_tools as tools
from tests.kit import clusters, queues

__all__ = ["CALLS", "Spent", "at_once", "idle_queue", "spend", "spend_on_queue", "works"]

CALLS, SLICES = 10_000, 10
HERE = "in process"
TARGET = "tests.kit.cluster_tools:desk"
TICK = os.sysconf("SC_CLK_TCK")


class Spent(dict[str, float]):
    """Seconds of CPU by process, and of the clock on the wall."""

    @property
    def cpu(self) -> float:
        """The CPU of all."""
        return sum(seconds for name, seconds in self.items() if name != "wall")


def at_once(calls: int, number: int) -> EffectOf[Any, Any, Any]:
    """So many calls, of which a number are on their way at once."""
    return fx.for_each(range(calls), lambda n: tools.add.call(tools.Pair(n, 1)), concurrency=number)


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123  # read often
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def running(workers: int, threads: int = 64) -> Generator[tuple[clusters.RunningCluster, dict[str, int]]]:
    """A cluster, and the ids of its processes by name."""
    with TemporaryDirectory() as folder, clusters.start() as cluster:
        os.environ[tools.FOLDER] = folder
        started = [cluster.add_worker(TARGET, "--threads", str(threads)) for _ in range(workers)]
        pids = {f"worker {number}": worker.pid for number, worker in enumerate(started)}
        yield cluster, {"scheduler": cluster.scheduler_pid, **pids}


def spend(workers: int, number: int, slices: Sequence[int]) -> list[Spent]:
    """What slices of calls, one after another, cost each process; a first lot of calls warms the cluster up."""
    with running(workers) as (cluster, pids):
        live = distribute(tools.desk, TARGET).provide(Cluster.layer(cluster.address))
        return fx.run(_spend(pids, number, slices).provide(live))


def spend_on_queue(location: str, workers: int, number: int, calls: int) -> Spent:
    """What calls on a queue cost each process."""
    with TemporaryDirectory() as folder, queues.start(location) as queue:
        os.environ[tools.FOLDER] = folder
        started = [queue.add_worker(TARGET, "--threads", "64") for _ in range(workers)]
        pids = {f"worker {number}": worker.pid for number, worker in enumerate(started)}
        live = distribute(tools.desk, TARGET).provide(Cluster.queue_layer(location))
        return fx.run(_spend(pids, number, [calls]).provide(live))[0]


def idle_queue(location: str, seconds: float = 10.0) -> float:
    """How much of a core a worker takes that waits for calls."""
    with TemporaryDirectory() as folder, queues.start(location) as queue:
        os.environ[tools.FOLDER] = folder
        worker = queue.add_worker(TARGET)
        time.sleep(2.0)
        before = _cpu(worker.pid)
        time.sleep(seconds)
        return (_cpu(worker.pid) - before) / seconds


@fx.gen
def _spend(pids: dict[str, int], number: int, slices: Sequence[int]) -> Gen[list[Spent], Any, Any]:
    yield from at_once(500, number)
    spent: list[Spent] = []
    for calls in slices:
        before, begun, own = {name: _cpu(pid) for name, pid in pids.items()}, time.monotonic(), time.process_time()
        yield from at_once(calls, number)
        ended = Spent({name: (_cpu(pid) - before[name]) / calls for name, pid in pids.items()})
        ended["program"] = (time.process_time() - own) / calls
        ended["wall"] = (time.monotonic() - begun) / calls
        spent.append(ended)
    return spent


def works() -> Iterator[Measured]:
    """The CPU of a call, and that the last thousand cost what the first did."""
    spent = spend(2, 64, [CALLS // SLICES] * SLICES)
    with TemporaryDirectory() as folder:
        os.environ[tools.FOLDER] = folder
        begun = time.process_time()
        fx.run(at_once(CALLS, 64).provide(tools.desk.layer))
        here = (time.process_time() - begun) / CALLS
    slow = slowness()

    costs = {FXAI: sum(each.cpu for each in spent) / SLICES, HERE: here}
    yield Measured(f"a call, of {CALLS:,} over two workers: CPU of all processes", costs, (Budget(0, plus=0.02),), slow)
    first, last = (sum(each.cpu for each in part) / 3 for part in (spent[:3], spent[-3:]))
    yield Measured(
        "the last 3,000 calls beside the first", {FXAI: last, "the first": first}, (Budget(1.5, "the first"),), slow
    )
