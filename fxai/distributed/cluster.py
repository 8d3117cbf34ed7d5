"""Clusters: what runs the calls of handlers elsewhere, as a service.

`Cluster.layer(address)` connects to a cluster of Dask that runs, and `Cluster.local_layer()` starts one on this
machine; they need the extra `distributed`. `Cluster.queue_layer(place)` has a work queue in a database, which survives
the loss of the program and of its workers, and needs the extra `durable`.

>>> from fxai.effects import fx
>>> failed = fx.run_result(fx.service(Cluster).provide(Cluster.layer("tcp://127.0.0.1:1", seconds=0.2)))
>>> print(failed.failure())
there is no cluster at tcp://127.0.0.1:1: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, final
from uuid import uuid4

from fxai.distributed.engine import ClusterUnavailable, Engine, PendingCall, require_dask
from fxai.distributed.envelope import CallEnvelope
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import wait
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.scope import acquire_release
from fxai.effects.service import Service

if TYPE_CHECKING:
    import os

    from distributed.security import Security

    from fxai.tools.call_key import CallKey


@final
class Cluster(Service):
    """A cluster that runs calls of handlers; made by its layers. Its methods may be called in any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @staticmethod
    def layer(
        address: str, *, security: Security | None = None, seconds: float = 10.0
    ) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """The layer of a cluster of Dask that runs.

        Args:
            address: where its scheduler is: `"tcp://host:8786"`, `"tls://host:8786"`.
            security: the certificates of TLS, as `distributed.Security` has them.
            seconds: how long the scheduler is waited for.

        Fails with `ClusterUnavailable`: no scheduler answers, or it has no fxai or another version of Dask.

        Raises:
            ImportError: the extra `distributed` is not installed.
        """

        def make() -> Engine:
            require_dask()
            from fxai.distributed.dask_cluster import DaskEngine  # which needs Dask

            return DaskEngine(address, security=security, seconds=seconds)

        return _layer(make)

    @staticmethod
    def local_layer(*, workers: int = 2, threads: int = 16) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """The layer of a cluster of Dask of processes on this machine, which listen on the loopback address alone.

        The processes use TLS with certificates that are made for this cluster alone, so that other users of the machine
        cannot join it.

        Args:
            workers: how many processes there are.
            threads: how many calls each runs at once.

        Fails with `ClusterUnavailable`: the processes do not start.

        Raises:
            ImportError: the extra `distributed` is not installed.
        """

        def make() -> Engine:
            require_dask()
            from fxai.distributed.dask_cluster import DaskEngine  # which needs Dask

            return DaskEngine("127.0.0.1", local=(workers, threads))

        return _layer(make)

    @staticmethod
    def queue_layer(place: str | os.PathLike[str]) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """The layer of a work queue in a database: its calls survive the loss of the program and of the workers.

        Workers are started by `fxai worker --queue PLACE module:name`. A program that goes on with a durable run joins
        its calls that wait there, run, or have ended meanwhile.

        Args:
            place: the path of a SQLite database, for programs and workers of one machine; or
                `postgresql://USER:PASSWORD@HOST/DATABASE`. Parameters and results stand there as they are, until the
                program has them, or its durable run has journalled them.

        Fails with `ClusterUnavailable`: the database cannot be opened.

        Raises:
            ImportError: the extra `durable` is not installed.
            ValueError: it is no such place.
        """
        from fxai.storage.job_table import read_place  # only where there is a queue

        where = read_place(place)

        def make() -> Engine:
            from fxai.distributed.queue_cluster import QueueEngine  # only where there is a queue

            return QueueEngine(where)

        return _layer(make)

    @property
    def address(self) -> str:
        """Where it is, in words, without a password."""
        return self._engine.address

    # -- what handlers elsewhere need of it

    @property
    def joins_calls(self) -> bool:
        """Whether a call that is begun again under the same key is the one that is there."""
        return self._engine.joins_calls

    @property
    def reader_id(self) -> str:
        """Who reads preliminary values here: what an envelope says of it."""
        return self._engine.reader_id

    def refuse(self, resources: Mapping[str, float]) -> str | None:
        """Why calls cannot take these resources; None: they can."""
        return self._engine.refuse(resources) if resources else None

    def new_key(self, tool: str) -> str:
        """The key of a new call; a cluster shows calls by the name before the last dash."""
        return f"{tool}-{uuid4().hex}"

    def begin(
        self,
        call: CallEnvelope,
        wake: Callable[[], None],
        *,
        name: CallKey | None = None,
        begun_before: bool = False,
        resources: Mapping[str, float],
        priority: int = 0,
        seconds: float | None = None,
    ) -> PendingCall:
        """Sends a call; the pending call calls `wake`, in another thread, when it has something new.

        Args:
            call: the call.
            wake: must return at once.
            name: what a durable run calls it, if its key was made of that.
            begun_before: whether a call of its key was begun before, so that it is there, or was removed.
            resources: what of a worker's resources it takes, by name.
            priority: calls of a higher one go first.
            seconds: how long there may be no worker that can run it; None: without end.
        """
        pending = PendingCall(call.key, wake, name, begun_before=begun_before)
        self._engine.begin(pending, call, resources=resources, priority=priority, seconds=seconds)
        return pending

    def let_go(self, serial: int) -> None:
        """Lets the handler go on that has shown a value."""
        self._engine.let_go(serial)

    def stop(self, pending: PendingCall) -> None:
        """Stops a call: it gets a reply, when its handler's finalizers have run."""
        pending.stopping = True
        self._engine.stop(pending)

    def forget(self, pending: PendingCall) -> None:
        """The program has the reply of a call, or leaves it behind."""
        self._engine.forget(pending)


def _close(engine: Engine) -> EffectOf[None]:
    return wait(engine.close)


def _layer(make: Callable[[], Engine]) -> LayerOf[Cluster, ClusterUnavailable, None]:
    """The layer of a cluster that `make` makes."""

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

    acquire: EffectOf[Engine, ClusterUnavailable] = AwaitExit(lambda _: open_cluster())
    opened = acquire_release(acquire, _close)
    return LayerOf.scoped(Cluster, opened.map(Cluster))
