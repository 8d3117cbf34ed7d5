"""Run this process as a Dask worker, and run calls as tasks of Dask. Requires the extra `distributed`.

>>> _host_and_port("tcp://127.0.0.1:8786"), _host_and_port("cluster.example.org")
(('127.0.0.1', 8786), ('cluster.example.org', 8786))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast, final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from distributed import Status, Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import get_ip
from distributed.worker import get_worker
from typing_extensions import override

from fxai.distributed.dask_scheduler import GO, STOPPED, connection_arguments, require_scheduler
from fxai.distributed.engine import ClusterUnavailable
from fxai.distributed.envelope import CallEnvelope, Gone, InterruptReason, Reply, lost_reply
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.worker_host import Host, TargetError, WorkerOptions
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of

# -- calls as tasks of Dask

_HOSTS: Final[WeakKeyDictionary[Worker, Host]] = WeakKeyDictionary()


def host_of(worker: Worker, options: WorkerOptions | None = None) -> Host:
    """Return the host of a worker. The first call creates it."""
    host = _HOSTS.get(worker)
    if host is None:
        host = _HOSTS[worker] = Host(_RegistryLink(worker), options or WorkerOptions())
    return host


@final
class _RegistryLink:
    """The connection to the registry on the scheduler."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def worker(self) -> str:
        address: str = self._worker.address
        return address

    async def start(self, call: CallEnvelope) -> Reply | None:
        registry: Any = self._worker.scheduler
        verdict: str = await registry.fxai_begin(key=call.key, worker=self._worker.address, once=call.once)
        if verdict == GO:
            return None
        if verdict == STOPPED:
            return Gone((InterruptReason(),))
        return lost_reply(f"the worker {verdict} started the call and then was lost or closed", begun=True)

    async def show(self, call: CallEnvelope, text: bytes) -> None:
        registry: Any = self._worker.scheduler
        await registry.fxai_show(client=call.client, key=call.key, text=text)


async def run_call(data: bytes) -> bytes:
    """Return the reply to a call. It runs as a task of a Dask worker."""
    return await host_of(get_worker()).answer(data)


@final
class HostPlugin(WorkerPlugin):
    """A plugin of each worker. It stops cancelled calls, and closes the host with its worker."""

    name = "fxai-host"
    idempotent = True

    def __init__(self) -> None:
        self._worker: Worker | None = None

    @override
    def setup(self, worker: Worker) -> None:
        """Register the handler of the messages of the registry."""
        self._worker = worker
        handlers: dict[str, Any] = cast(Any, worker).stream_handlers
        handlers["fxai-stop"] = self._stop

    @override
    def transition(self, key: Any, start: Any, finish: Any, **kwargs: Any) -> None:
        """Stop a call whose program has disconnected, and remove a call when Dask removes its task."""
        if finish in ("cancelled", "released", "forgotten"):
            self._stop(key)
        if finish == "forgotten" and self._worker is not None and (host := _HOSTS.get(self._worker)) is not None:
            host.forget(key)

    @override
    async def teardown(self, worker: Worker) -> None:
        """Close the host if its worker closes. A replaced plugin does not close it."""
        host = _HOSTS.get(worker)
        if host is not None and worker.status.name in ("closing", "closed", "failed"):
            await host.close()

    def _stop(self, key: str, **_: Any) -> None:
        host = None if self._worker is None else _HOSTS.get(self._worker)
        if host is not None:
            host.stop(key)


# -- the process


def serve_dask(
    scheduler: str, options: WorkerOptions, on_listening: Callable[[str], object] | None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Return the worker that `fxai.distributed.serve_worker` describes."""
    process = _Process(scheduler, options, on_listening)

    async def serve() -> Exit[None, ClusterUnavailable | TargetError]:
        thread = LoopThread("fxai-worker")
        thread.start()
        try:
            await result_of(thread.submit(process.run()))
        except TargetError as error:
            return Failed(Cause((Fail(error),)))
        except _UnavailableError as error:
            return Failed(Cause((Fail(ClusterUnavailable(scheduler, str(error))),)))
        except BaseException:
            await shield(result_of(thread.submit(process.drain())))
            raise
        finally:
            await shield(result_of(thread.submit(process.close())))
            await shield(in_thread(thread.close))
        return Succeeded(None)

    return AwaitExit(lambda _: serve())


class _UnavailableError(Exception):
    """No scheduler answers. The text is the reason."""


@final
class _Process:
    """A worker. Call its methods in the thread of its event loop."""

    def __init__(self, scheduler: str, options: WorkerOptions, on_listening: Callable[[str], object] | None) -> None:
        self._scheduler = scheduler
        self._options = options
        self._on_listening = on_listening
        self._worker: Any = None

    async def run(self) -> None:
        """Run calls until the cluster removes the worker."""
        options = self._options
        try:
            _ = connection_arguments(self._scheduler, options.security, "worker")
            address = options.host or cast(Any, get_ip)(*_host_and_port(self._scheduler))
        except (OSError, ValueError) as error:
            raise _UnavailableError(str(error)) from error
        self._worker = cast(Any, Worker)(
            self._scheduler,
            nthreads=options.threads,
            resources=dict(options.resources) or None,
            name=options.name,
            host=address,
            security=options.security,
            death_timeout=options.seconds,
            dashboard=False,
            plugins=(HostPlugin(),),
        )
        host = host_of(self._worker, options)
        for target in options.targets:
            await host.open(target)
        await self._require_scheduler(options.seconds)
        try:
            await self._worker
        except Exception as error:
            raise _UnavailableError(f"{type(error).__name__}: {error}") from error
        if self._on_listening is not None:
            self._on_listening(self._worker.address)
        await self._worker.finished()
        await self._require_scheduler(2.0)  # Dask also closes the worker if the scheduler is lost

    async def _require_scheduler(self, seconds: float) -> None:
        try:
            await require_scheduler(self._scheduler, self._options.security, "worker", seconds)
        except OSError as error:
            raise _UnavailableError(str(error)) from error

    async def drain(self) -> None:
        """Accept no new calls, and wait for running calls."""
        worker = self._worker
        if worker is None or worker.status is not Status.running:
            return
        worker.memory_manager.memory_pause_fraction = False  # otherwise Dask resumes a worker with free memory
        worker.status = Status.paused
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.grace):
                await host_of(worker).idle()

    async def close(self) -> None:
        """Release the layers, and disconnect from the cluster."""
        worker = self._worker
        if worker is None:
            return
        if worker.status is not Status.init:
            await worker.close()
        await host_of(worker).close()


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if not parts.hostname:
        raise ValueError("invalid address. Use tcp://host:8786.")
    return parts.hostname, parts.port or 8786
