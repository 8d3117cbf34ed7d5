"""Workers: this process as a worker of a cluster, which runs calls until it is cancelled.

What it answers is loaded and built before the cluster knows it. When it is cancelled, it takes no new calls, lets those
that run end, and releases its layers.

>>> from fxai.effects import fx
>>> failed = fx.run_result(serve_worker("tcp://127.0.0.1:1", WorkerOptions(seconds=0.2)))
>>> print(failed.failure())
there is no cluster at tcp://127.0.0.1:1: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, final
from urllib.parse import urlsplit

import msgspec
from distributed import Status, Worker
from distributed.core import rpc
from distributed.utils import get_ip

from fxai.distributed.cluster import ClusterUnavailable
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.worker_host import Host, HostPlugin, TargetError
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.layer import AnyLayer
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of

if TYPE_CHECKING:
    from distributed.security import Security


@final
class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to its cluster.

    Attributes:
        targets: `module:name` of tools and their handlers, which are loaded and built before calls come; others are
            when they are first called.
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
    """Runs calls for the cluster whose scheduler is at an address, until it is cancelled or the cluster sends it away.

    Fails with `TargetError`, one of its targets cannot be used, or `ClusterUnavailable`: no scheduler answers, or it
    does not any more.

    Args:
        scheduler: such as `"tcp://host:8786"`.
        options: what the worker is to the cluster.
        on_listening: is called with its address when it is ready.
    """
    return AwaitExit(lambda _: _serve(_Process(scheduler, options or WorkerOptions(), on_listening)))


async def _serve(process: _Process) -> Exit[None, ClusterUnavailable | TargetError]:
    thread = LoopThread("fxai-worker")
    thread.start()
    try:
        await result_of(thread.submit(process.run()))
    except (TargetError, _UnavailableError) as error:
        failure = error if isinstance(error, TargetError) else error.failure
        return Failed(Cause((Fail(failure),)))
    except BaseException:
        await shield(result_of(thread.submit(process.drain())))
        raise
    finally:
        await shield(result_of(thread.submit(process.close())))
        await shield(in_thread(thread.close))
    return Succeeded(None)


class _UnavailableError(Exception):
    """The scheduler does not answer."""

    def __init__(self, failure: ClusterUnavailable) -> None:
        super().__init__(failure)
        self.failure = failure


@final
class _Process:
    """A worker; all but its making is done in the thread of its event loop."""

    def __init__(self, scheduler: str, options: WorkerOptions, on_listening: Callable[[str], object] | None) -> None:
        self._scheduler = scheduler
        self._options = options
        self._on_listening = on_listening
        self._worker: Any = None

    async def run(self) -> None:
        """Returns when the cluster sends the worker away."""
        options = self._options
        self._worker = self._make()
        host = Host.of(self._worker)
        host.wrap = options.wrap or host.wrap
        for target in options.targets:
            await host.open(target)
        try:
            await self._worker
        except Exception as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        if self._on_listening is not None:
            self._on_listening(self._worker.address)
        await self._worker.finished()
        await self._require_scheduler()

    async def _require_scheduler(self) -> None:
        """Whether the worker was sent away, or its scheduler is gone: Dask closes it in both cases."""
        asked: Any = cast(Any, rpc)(self._scheduler, connection_args=self._worker.connection_args)
        try:
            async with asyncio.timeout(2.0), asked:
                await asked.identity()
        except OSError as error:
            raise self._unavailable("it does not answer any more") from error

    def _make(self) -> Any:
        options = self._options
        try:
            host = options.host or cast(Any, get_ip)(*_host_and_port(self._scheduler))
        except (OSError, ValueError) as error:
            raise self._unavailable(str(error)) from error
        return cast(Any, Worker)(
            self._scheduler,
            nthreads=options.threads,
            resources=dict(options.resources) or None,
            name=options.name,
            host=host,
            security=options.security,
            death_timeout=options.seconds,
            dashboard=False,
            plugins=(HostPlugin(),),
        )

    def _unavailable(self, reason: str) -> _UnavailableError:
        return _UnavailableError(ClusterUnavailable(self._scheduler, reason))

    async def drain(self) -> None:
        """Takes no new calls, and waits for those that run."""
        worker = self._worker
        if worker is None or worker.status is not Status.running:
            return
        worker.status = Status.paused
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.grace):
                await Host.of(worker).idle()

    async def close(self) -> None:
        """Releases what was built, and leaves the cluster."""
        worker = self._worker
        if worker is None:
            return
        if worker.status is not Status.init:
            await worker.close()
        await Host.of(worker).close()


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if not parts.hostname:
        raise ValueError("write its address as tcp://host:8786")
    return parts.hostname, parts.port or 8786
