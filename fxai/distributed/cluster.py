"""The service that runs the calls of handlers in other processes, and the workers of a cluster.

`Cluster.layer(address)` connects to a running Dask cluster, and `Cluster.local_layer()` starts one on this machine.
Both require the extra `distributed`. `Cluster.queue_layer(location)` uses a work queue in a database, whose calls
survive the loss of the program and of its workers. It requires the extra `durable`.

>>> from fxai.effects import fx
>>> failed = fx.run_result(fx.service(Cluster).provide(Cluster.layer("tcp://127.0.0.1:1", seconds=0.2)))
>>> print(failed.failure())
no cluster at tcp://127.0.0.1:1: ...

`serve_worker` and `serve_queue` run this process as a worker until they are cancelled. A worker loads and builds its
targets before it connects to the cluster. If you cancel it, it accepts no new calls, waits for running calls, and
releases its layers.

>>> failed = fx.run_result(serve_queue("jobs.db", WorkerOptions(targets=("fxai.cli.example:nothing",))))
>>> print(failed.failure())
fxai.cli.example:nothing cannot be used: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from fxai.distributed.engine import ClusterUnavailable, Engine, require_dask
from fxai.distributed.worker_host import TargetError, WorkerOptions
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import wait
from fxai.effects.effect import AwaitExit, EffectOf, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.scope import acquire_release
from fxai.effects.service import Service

if TYPE_CHECKING:
    import os

    from distributed.security import Security


@final
class Cluster(Service):
    """A cluster that runs calls of handlers. Its layers create it."""

    def __init__(self, engine: Engine) -> None:
        self.engine: Engine = engine
        """The system that runs the calls."""

    @staticmethod
    def layer(
        address: str, *, security: Security | None = None, seconds: float = 10.0
    ) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """Return the layer of a running Dask cluster.

        Args:
            address: Address of the scheduler, such as `"tcp://host:8786"` or `"tls://host:8786"`.
            security: TLS certificates, as a `distributed.Security`.
            seconds: Seconds to wait for the scheduler. Default: 10.

        Fails with:
            ClusterUnavailable: If no scheduler answers, or it lacks fxai or has another version of Dask.

        Raises:
            ImportError: If the extra `distributed` is not installed.
        """

        def make() -> Engine:
            require_dask()
            from fxai.distributed.dask_cluster import DaskEngine  # requires Dask

            return DaskEngine(address, security=security, seconds=seconds)

        return _layer(make)

    @staticmethod
    def local_layer(*, workers: int = 2, threads: int = 16) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """Return the layer of a Dask cluster of processes on this machine, which listen only on the loopback address.

        The processes use TLS with certificates for this cluster, so that other users of the machine cannot join it.

        Args:
            workers: Number of processes. Default: 2.
            threads: Maximum number of concurrent calls of each process. Default: 16.

        Fails with:
            ClusterUnavailable: If the processes do not start.

        Raises:
            ImportError: If the extra `distributed` is not installed.
        """

        def make() -> Engine:
            require_dask()
            from fxai.distributed.dask_cluster import DaskEngine  # requires Dask

            return DaskEngine("127.0.0.1", local=(workers, threads))

        return _layer(make)

    @staticmethod
    def queue_layer(location: str | os.PathLike[str]) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """Return the layer of a work queue in a database. Its calls survive the loss of the program and of its workers.

        `fxai worker --queue PLACE module:name` starts a worker. A program that resumes a durable run joins the calls
        of the run that wait, run, or have ended.

        Args:
            location: Path of a SQLite database, for programs and workers of one machine, or
                `postgresql://USER:PASSWORD@HOST/DATABASE`. The database contains parameters and results as plain text
                until the program has received them, or its durable run has recorded them.

        Fails with:
            ClusterUnavailable: If the database cannot be opened.

        Raises:
            ImportError: If the extra `durable` is not installed.
            ValueError: If the location is invalid.
        """
        from fxai.storage.job_table import read_location  # only queues need it

        where = read_location(location)

        def make() -> Engine:
            from fxai.distributed.queue_cluster import QueueEngine  # only queues need it

            return QueueEngine(where)

        return _layer(make)

    @property
    def address(self) -> str:
        """The location of the cluster for people, without a password."""
        return self.engine.address


def _layer(make: Callable[[], Engine]) -> LayerOf[Cluster, ClusterUnavailable, None]:
    """Return the layer of a cluster with an engine."""

    async def open_cluster() -> Exit[Engine, ClusterUnavailable]:
        engine = make()
        try:
            await engine.open()
        except ImportError:
            raise
        except Exception as error:
            words = str(error) if isinstance(error, OSError) and error.errno is None else ""
            why = words or f"{type(error).__name__}: {error}"
            return Failed(Cause((Fail(ClusterUnavailable(engine.address, why)),)))
        return Succeeded(engine)

    def close(engine: Engine) -> EffectOf[None]:
        return wait(engine.close)

    acquire: EffectOf[Engine, ClusterUnavailable] = AwaitExit(lambda _: open_cluster())
    opened = acquire_release(acquire, close)
    return LayerOf.scoped(Cluster, opened.map(Cluster))


# -- workers


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
