"""Run this process as a Dask worker until it is cancelled. Requires the extra `distributed`.

>>> _host_and_port("tcp://127.0.0.1:8786"), _host_and_port("cluster.example.org")
(('127.0.0.1', 8786), ('cluster.example.org', 8786))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast, final
from urllib.parse import urlsplit

from distributed import Status, Worker
from distributed.utils import get_ip

from fxai.distributed.dask_host import HostPlugin, host_of
from fxai.distributed.dask_scheduler import connection_arguments, require_scheduler
from fxai.distributed.engine import ClusterUnavailable
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.worker_host import TargetError
from fxai.distributed.worker_options import WorkerOptions
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of


def serve_dask(
    scheduler: str, options: WorkerOptions, on_listening: Callable[[str], object] | None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Return the worker that `fxai.distributed.serve_worker` describes."""
    return AwaitExit(lambda _: _serve(_Process(scheduler, options, on_listening)))


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
    """No scheduler answers."""

    def __init__(self, failure: ClusterUnavailable) -> None:
        super().__init__(failure)
        self.failure = failure


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
        self._worker = self._make()
        host = host_of(self._worker)
        host.wrap, host.grace = options.wrap or host.wrap, options.grace
        for target in options.targets:
            await host.open(target)
        await self._require_scheduler(options.seconds)
        try:
            await self._worker
        except Exception as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        if self._on_listening is not None:
            self._on_listening(self._worker.address)
        await self._worker.finished()
        await self._require_scheduler(2.0)  # Dask also closes the worker if the scheduler is lost

    async def _require_scheduler(self, seconds: float) -> None:
        try:
            await require_scheduler(self._scheduler, self._options.security, "worker", seconds)
        except OSError as error:
            raise self._unavailable(str(error)) from error

    def _make(self) -> Any:
        options = self._options
        try:
            _ = connection_arguments(self._scheduler, options.security, "worker")
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
