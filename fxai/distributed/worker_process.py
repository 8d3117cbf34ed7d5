"""Run this process as a worker of a cluster until it is cancelled.

The worker loads and builds its targets before it connects to the cluster. If you cancel it, it accepts no new calls,
waits for running calls, and releases its layers.

>>> from fxai.effects import fx
>>> failed = fx.run_result(serve_worker("tcp://127.0.0.1:1", WorkerOptions(seconds=0.2)))
>>> print(failed.failure())
no cluster at tcp://127.0.0.1:1: ...
>>> failed = fx.run_result(serve_queue("jobs.db", WorkerOptions(targets=("fxai.cli.example:nothing",))))
>>> print(failed.failure())
fxai.cli.example:nothing cannot be used: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fxai.distributed.engine import ClusterUnavailable, require_dask
from fxai.distributed.worker_host import TargetError, WorkerOptions
from fxai.effects.effect import EffectOf, Suspend

if TYPE_CHECKING:
    import os


def serve_worker(
    scheduler: str, options: WorkerOptions | None = None, on_listening: Callable[[str], object] | None = None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Run calls for a Dask cluster until the worker is cancelled or the scheduler removes it.

    Args:
        scheduler: Address of the scheduler, such as `"tcp://host:8786"`.
        options: Options of the worker.
        on_listening: Function that receives the address of the worker when it is ready.

    Fails with:
        TargetError: If a target cannot be used.
        ClusterUnavailable: If no scheduler answers, or it no longer answers.

    Raises:
        ImportError: If the extra `distributed` is not installed.
    """

    def serve() -> EffectOf[None, ClusterUnavailable | TargetError]:
        require_dask()
        from fxai.distributed.dask_worker import serve_dask  # requires Dask

        return serve_dask(scheduler, options or WorkerOptions(), on_listening)

    return Suspend(serve)


def serve_queue(
    location: str | os.PathLike[str], options: WorkerOptions, on_ready: Callable[[str], object] | None = None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Run the calls of the targets in a work queue until the worker is cancelled.

    Args:
        location: Location of the queue, as for `Cluster.queue_layer`.
        options: Options of the worker, with at least one target.
        on_ready: Function that receives the name of the worker when it is ready.

    Fails with:
        TargetError: If a target cannot be used.
        ClusterUnavailable: If the database cannot be opened or refuses, or if other workers took over the calls of this
            worker because its lock was lost.

    Raises:
        ImportError: If the extra `durable` is not installed.
        ValueError: If the location is invalid, no target is given, or an option does not exist for queues.
    """
    from fxai.distributed.queue_cluster import serve_calls  # requires the extra durable

    return serve_calls(location, options, on_ready)
