"""Workers: this process as a worker of a cluster, which runs calls until it is cancelled.

What it answers is loaded and built before the cluster knows it. When it is cancelled, it takes no new calls, lets those
that run end, and releases its layers.

>>> from fxai.effects import fx
>>> failed = fx.run_result(serve_worker("tcp://127.0.0.1:1", WorkerOptions(seconds=0.2)))
>>> print(failed.failure())
there is no cluster at tcp://127.0.0.1:1: ...
>>> failed = fx.run_result(serve_queue("jobs.db", WorkerOptions(targets=("fxai.cli.example:nothing",))))
>>> print(failed.failure())
fxai.cli.example:nothing cannot be used: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fxai.distributed.engine import ClusterUnavailable, require_dask
from fxai.distributed.worker_host import TargetError
from fxai.distributed.worker_options import WorkerOptions
from fxai.effects.effect import EffectOf, Suspend

if TYPE_CHECKING:
    import os


def serve_worker(
    scheduler: str, options: WorkerOptions | None = None, on_listening: Callable[[str], object] | None = None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Runs calls for the cluster of Dask whose scheduler is at an address, until it is cancelled or sent away.

    Fails with `TargetError`, one of its targets cannot be used, or `ClusterUnavailable`: no scheduler answers, or it
    does not any more.

    Args:
        scheduler: such as `"tcp://host:8786"`.
        options: what the worker is to the cluster.
        on_listening: is called with its address when it is ready.

    Raises:
        ImportError: the extra `distributed` is not installed.
    """

    def serve() -> EffectOf[None, ClusterUnavailable | TargetError]:
        require_dask()
        from fxai.distributed.dask_worker import serve_dask  # which needs Dask

        return serve_dask(scheduler, options or WorkerOptions(), on_listening)

    return Suspend(serve)


def serve_queue(
    place: str | os.PathLike[str], options: WorkerOptions, on_ready: Callable[[str], object] | None = None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Runs the calls of its targets that wait in a work queue, until it is cancelled.

    Fails with `TargetError`, one of its targets cannot be used, or `ClusterUnavailable`: the database cannot be opened,
    or refuses, or this worker was taken for dead.

    Args:
        place: where the queue is, as for `Cluster.queue_layer`.
        options: what the worker is to the queue; it has one target at least.
        on_ready: is called with its name when it is ready.

    Raises:
        ImportError: the extra `durable` is not installed.
        ValueError: it is no such place, there is no target, or the options have what queues have not.
    """
    from fxai.distributed.queue_worker import serve_calls  # only where there is a queue

    return serve_calls(place, options, on_ready)
