"""The connection of a program to a Dask scheduler. Requires the extra `distributed`.

The connection has its own asyncio event loop in a thread, so that the program can use any event loop.

>>> DaskEngine("tcp://127.0.0.1:8786").address
'tcp://127.0.0.1:8786'
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, cast, final

from dask import config
from distributed import Client, LocalCluster
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker
from distributed.security import Security
from typing_extensions import override

from fxai.distributed.dask_scheduler import SHOWN, CallRegistry, require_scheduler
from fxai.distributed.dask_worker import HostPlugin, run_call
from fxai.distributed.engine import Engine, PendingCall
from fxai.distributed.envelope import Gone, InterruptReason, encode, lost_reply
from fxai.distributed.loop_thread import LoopThread
from fxai.effects.cancellation import shield
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of

_LARGE: Final = 5_000_000
"""Bytes of a large call. At 10 MB Dask warns its own users, who cannot change the call."""
_ONE_WORKER: Final = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # only one worker receives the call
_INTERRUPTED: Final = encode(Gone((InterruptReason(),)))


@final
class DaskEngine(Engine):
    """A Dask cluster that runs calls of handlers."""

    def __init__(
        self,
        address: str,
        *,
        security: Security | None = None,
        seconds: float = 10.0,
        local: tuple[int, int] | None = None,
    ) -> None:
        """Create an engine for a running scheduler, or for a `local` cluster: (processes, calls of each process)."""
        self.address: str = address
        self._thread = LoopThread("fxai-cluster")
        self._connect = (lambda: self._join(security, seconds)) if local is None else (lambda: self._start(*local))
        self._client: Any = None  # set by `open`
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self._calls: dict[str, PendingCall] = {}
        self._stopping: list[PendingCall] = []  # calls for the next message to the registry
        self._futures: dict[str, Any] = {}  # futures of Dask, in the thread of its loop

    # -- the connection, in its thread

    async def _start(self, workers: int, threads: int) -> None:
        # The scheduler runs any code that a client sends, and every user of the machine can reach a loopback port.
        security: Security = cast(Any, Security).temporary()
        local: Any = cast(Any, LocalCluster)(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any port; the default is 8787 on all addresses
            worker_dashboard_address="127.0.0.1:0",
            protocol="tls://",
            security=security,
            asynchronous=True,
        )
        cluster: Any = await self._stack.enter_async_context(local)
        self.address = cast(str, cluster.scheduler_address)
        await self._join(security, 10.0)

    async def _join(self, security: Security | None, seconds: float) -> None:
        await require_scheduler(self.address, security, "client", seconds)
        options: dict[str, Any] = {} if security is None else {"security": security}
        made: Any = cast(Any, Client)(self.address, asynchronous=True, timeout=seconds, set_as_default=False, **options)
        client: Any = await self._stack.enter_async_context(made)
        await client.register_plugin(CallRegistry())
        await client.register_plugin(HostPlugin())
        client.subscribe_topic(SHOWN, self._show)
        self._client = client

    @override
    async def open(self) -> None:
        self._thread.start()
        try:
            await result_of(self._thread.submit(cast(Any, self._connect)()))
        except BaseException:
            await shield(self.close())
            raise

    @override
    async def close(self) -> None:
        async def leave() -> None:
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._stack.aclose()

        await result_of(self._thread.submit(leave()))
        await in_thread(self._thread.close)

    # -- calls

    @property
    @override
    def reader_id(self) -> str:
        return cast(str, self._client.id)

    @override
    def start(self, pending: PendingCall) -> None:
        try:
            self._thread.submit(self._follow(pending))
        except RuntimeError:
            pending.end(encode(lost_reply("the program has disconnected from the cluster", begun=False)))

    @override
    def let_go(self, serial: int) -> None:
        self._thread.call(lambda: self._spawn(self._take(serial)))

    @override
    def stop(self, pending: PendingCall) -> None:
        def stop_soon() -> None:
            self._stopping.append(pending)
            if len(self._stopping) == 1:
                self._spawn(self._stop())

        self._thread.call(stop_soon)

    async def _follow(self, pending: PendingCall) -> None:
        call = pending.call
        self._calls[call.key] = pending
        reply = encode(lost_reply("the program has disconnected from the cluster", begun=True))
        try:
            data = encode(call)
            options: dict[str, Any] = {"resources": dict(pending.resources) or None, "priority": pending.priority}
            with cast(Any, config).set(_ONE_WORKER if len(data) >= _LARGE else {}):
                future = self._client.submit(run_call, data, key=call.key, pure=False, **options)
            self._futures[call.key] = future
            try:
                reply = await self._result(pending)
            except (Exception, FutureCancelledError) as error:
                reply = await self._explain(pending, error)
            finally:
                del self._futures[call.key]
                future.release()
        finally:
            del self._calls[call.key]
            pending.end(reply)

    async def _result(self, pending: PendingCall) -> bytes:
        while True:
            limit = asyncio.timeout(pending.patience)
            try:
                async with limit:
                    reply: Any = await self._futures[pending.key]
                    return reply if isinstance(reply, bytes) else b""
            except TimeoutError:
                if not limit.expired():
                    raise
            begun, stuck = await self._progress(pending)
            if stuck and begun:
                raise _NoWorkerError(f"the worker of the call was lost, and the cluster at {self.address} has no other")
            if stuck:
                needs = f" with the resources {dict(pending.resources)}" if pending.resources else ""
                raise _NoWorkerError(f"no worker{needs} in the cluster at {self.address} for {pending.patience} s")

    async def _progress(self, pending: PendingCall) -> tuple[bool, bool]:
        begun, stuck = await self._client.scheduler.fxai_progress(key=pending.key)
        return begun, stuck

    async def _explain(self, pending: PendingCall, error: BaseException) -> bytes:
        """Return the reply of a call for which Dask has no result."""
        if pending.stopping:
            return _INTERRUPTED
        if isinstance(error, _NoWorkerError):
            why = str(error)
        elif isinstance(error, KilledWorker):
            why = f"Dask lost {error.allowed_failures + 1} workers that ran the call"
        else:
            why = f"no result from the cluster at {self.address}: {type(error).__name__}: {error}"
        try:
            begun, _ = await self._progress(pending)
        except Exception:  # the scheduler is lost, too
            begun = True
        return encode(lost_reply(why, begun=begun))

    async def _stop(self) -> None:
        """Stop calls with one message, because a cancelled program can have thousands of calls."""
        stopping, self._stopping = self._stopping, []
        keys = [pending.key for pending in stopping]
        with suppress(OSError):  # the scheduler is lost, and the calls with it
            begun = set(await self._client.scheduler.fxai_stop(keys=keys))
            waiting = [self._futures[key] for key in keys if key not in begun and key in self._futures]
            if waiting:
                await self._client.cancel(waiting, force=True)

    async def _take(self, serial: int) -> None:
        with suppress(OSError):
            await self._client.scheduler.fxai_let_go(serials=[serial])

    def _show(self, event: tuple[float, tuple[int, str, bytes]]) -> None:
        serial, key, text = event[1]
        call = self._calls.get(key)
        if call is None:
            self._spawn(self._take(serial))
        else:
            call.show(serial, text)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _NoWorkerError(Exception):
    """No worker can run a call."""
