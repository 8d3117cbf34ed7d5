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

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import msgspec

from fxai.distributed.cluster import ClusterUnavailable, require_dask
from fxai.distributed.worker_host import TargetError
from fxai.effects.effect import EffectOf, Suspend
from fxai.effects.layer import AnyLayer

if TYPE_CHECKING:
    import os

    from distributed.security import Security


@final
class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to its cluster. Of a work queue, only `targets`, `threads`, `grace` and `wrap` mean something.

    Attributes:
        targets: `module:name` of tools and their handlers, which are loaded and built before calls come. A worker of
            Dask loads others when they are first called; one of a work queue runs no calls of others.
        threads: how many calls it runs at once; 16 by default. They take no threads: handlers share one event loop.
        resources: what calls may take of it, by name, such as `{"GPU": 1}`.
        name: what the cluster calls it; by default its address.
        host: the address to listen on; by default the one by which this machine reaches the scheduler, and no other.
        security: the certificates of TLS, as `distributed.Security` has them.
        seconds: how long the scheduler is waited for; 10 by default.
        grace: how many seconds calls that run have to end when it is cancelled; 30 by default.
        wrap: is given the layer of each target, and gives the one that is built, such as `fxai.telemetry.trace`, under
            which calls are traced; None, the default: the layers are built as they are.
    """

    targets: tuple[str, ...] = ()
    threads: int = 16
    resources: Mapping[str, float] = MappingProxyType({})
    name: str | None = None
    host: str | None = None
    security: Security | None = None
    seconds: float = 10.0
    grace: float = 30.0
    wrap: Callable[[AnyLayer], AnyLayer] | None = None

    def __hash__(self) -> int:
        return hash((self.targets, self.threads, self.name, self.host))


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
