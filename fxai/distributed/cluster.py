"""Clusters: the connection of a program to the scheduler of Dask, as a service.

`Cluster.layer(address)` connects to a cluster that runs; `Cluster.local_layer()` starts worker processes on this
machine, which end with the layer.

>>> from fxai.effects import fx
>>> failed = fx.run_result(fx.service(Cluster).provide(Cluster.layer("tcp://127.0.0.1:1", seconds=0.2)))
>>> print(failed.failure())
there is no cluster at tcp://127.0.0.1:1: ...
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, cast, final
from uuid import uuid4

import msgspec
from distributed import Client, LocalCluster
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker
from typing_extensions import override

from fxai.distributed.call_registry import CallRegistry
from fxai.distributed.envelope import CallEnvelope, Gone, InterruptReason, encode, lost_reply
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.worker_host import HostPlugin, run_call
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import wait
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.scope import acquire_release
from fxai.effects.service import Service
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of

if TYPE_CHECKING:
    from distributed.security import Security

_POLL_SECONDS: Final = 20.0
_INTERRUPTED: Final = encode(Gone((InterruptReason(),)))


@final
class ClusterUnavailable(msgspec.Struct, frozen=True, tag="cluster-unavailable"):
    """The scheduler of a cluster could not be reached, or does not take what calls need."""

    address: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"there is no cluster at {self.address}: {self.reason}"


@final
class PendingCall:
    """A call on the cluster: what was shown of it and not read yet, and its reply, when there is one."""

    __slots__ = ("_wake", "future", "key", "reply", "shown", "stopping")

    def __init__(self, key: str, wake: Callable[[], None]) -> None:
        self.key: str = key
        self._wake = wake
        self.shown: deque[tuple[int, bytes]] = deque()
        """Preliminary values, JSON text, with what `Cluster.let_go` is told of them."""
        self.reply: bytes | None = None
        """The reply, JSON text."""
        self.stopping: bool = False
        """Whether it was stopped."""
        self.future: Any = None
        """The future of Dask, in the thread of the cluster, while there is one."""

    def show(self, serial: int, text: bytes) -> None:
        """Adds a preliminary value."""
        self.shown.append((serial, text))
        self._wake()

    def end(self, reply: bytes) -> None:
        """Has the reply, once."""
        if self.reply is None:
            self.reply = reply
            self._wake()


@final
class Cluster(Service):
    """A cluster of Dask that runs calls of handlers; made by its layers. Its methods may be called in any thread."""

    def __init__(self, address: str, thread: LoopThread) -> None:
        self.address: str = address
        """Where its scheduler is."""
        self._thread = thread
        self._client: Any = None  # from `open` on
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self._calls: dict[str, PendingCall] = {}
        self._watched = 0  # calls whose preliminary values are read
        self._reader: asyncio.Task[None] | None = None

    @staticmethod
    def layer(
        address: str, *, security: Security | None = None, seconds: float = 10.0
    ) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """The layer of a cluster that runs.

        Args:
            address: where its scheduler is: `"tcp://host:8786"`, `"tls://host:8786"`.
            security: the certificates of TLS, as `distributed.Security` has them.
            seconds: how long the scheduler is waited for.

        Fails with `ClusterUnavailable`: no scheduler answers, or it has no fxai or another version of Dask.
        """
        return _layer(
            lambda: Cluster(address, LoopThread("fxai-cluster")), lambda self: self._connect(security, seconds)
        )

    @staticmethod
    def local_layer(*, workers: int = 2, threads: int = 16) -> LayerOf[Cluster, ClusterUnavailable, None]:
        """The layer of a cluster of processes on this machine, which listen on the loopback address alone.

        Args:
            workers: how many processes there are.
            threads: how many calls each runs at once.

        Fails with `ClusterUnavailable`: the processes do not start.
        """
        return _layer(
            lambda: Cluster("127.0.0.1", LoopThread("fxai-cluster")), lambda self: self._start(workers, threads)
        )

    # -- the connection, in its thread

    async def _start(self, workers: int, threads: int) -> None:
        local: Any = cast(Any, LocalCluster)(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any port: without an address it is 8787, at all addresses
            worker_dashboard_address="127.0.0.1:0",
            asynchronous=True,
        )
        cluster: Any = await self._stack.enter_async_context(local)
        self.address = cast(str, cluster.scheduler_address)
        await self._connect(None, 10.0)

    async def _connect(self, security: Security | None, seconds: float) -> None:
        options: dict[str, Any] = {} if security is None else {"security": security}
        made: Any = cast(Any, Client)(self.address, asynchronous=True, timeout=seconds, set_as_default=False, **options)
        client: Any = await self._stack.enter_async_context(made)
        await client.register_plugin(CallRegistry())
        await client.register_plugin(HostPlugin())
        self._client = client

    async def open(self, connect: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        """Connects; raises what that raises, with nothing left open."""
        self._thread.start()
        try:
            await result_of(self._thread.submit(connect(self)))
        except BaseException:
            await shield(self.close())
            raise

    async def close(self) -> None:
        """Leaves the cluster; calls that are on it have the reply that they are lost."""
        await result_of(self._thread.submit(self._leave()))
        await in_thread(self._thread.close)

    async def _leave(self) -> None:
        self._watched = 0
        tasks = [*self._tasks, *([] if self._reader is None else [self._reader])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()

    # -- calls

    def new_key(self, tool: str) -> str:
        """The key of a new call; a cluster shows calls by the name before the last dash."""
        return f"{tool}-{uuid4().hex}"

    @property
    def reader_id(self) -> str:
        """Who reads preliminary values here: what an envelope says of it."""
        return cast(str, self._client.id)

    def begin(
        self,
        call: CallEnvelope,
        wake: Callable[[], None],
        *,
        resources: Mapping[str, float],
        priority: int = 0,
        seconds: float | None = None,
    ) -> PendingCall:
        """Sends a call; the pending call calls `wake`, in another thread, when it has something new.

        Args:
            call: the call.
            wake: must return at once.
            resources: what of a worker's resources it takes, by name.
            priority: calls of a higher one go first.
            seconds: how long there may be no worker that can run it; None: without end.
        """
        pending = PendingCall(call.key, wake)
        following = self._follow(pending, call, dict(resources), priority, seconds)
        try:
            self._thread.submit(following)
        except RuntimeError:
            pending.end(encode(lost_reply("the program has left the cluster", begun=False)))
        return pending

    def let_go(self, serial: int) -> None:
        """Lets the handler go on that has shown a value."""
        self._thread.call(lambda: self._spawn(self._take(serial)))

    def stop(self, pending: PendingCall) -> None:
        """Stops a call: it gets a reply, when its handler's finalizers have run."""
        pending.stopping = True
        self._thread.call(lambda: self._spawn(self._stop(pending)))

    async def _follow(
        self,
        pending: PendingCall,
        call: CallEnvelope,
        resources: dict[str, float],
        priority: int,
        seconds: float | None,
    ) -> None:
        self._calls[pending.key] = pending
        self._watch(1 if call.client else 0)
        reply = encode(lost_reply("the program has left the cluster", begun=True))
        try:
            future = self._client.submit(
                run_call, encode(call), key=pending.key, pure=False, resources=resources or None, priority=priority
            )
            pending.future = future
            try:
                reply = await self._result(pending, resources, seconds)
            except (Exception, FutureCancelledError) as error:
                reply = await self._explain(pending, error)
            finally:
                pending.future = None
                future.release()
        finally:
            self._watch(-1 if call.client else 0)
            del self._calls[pending.key]
            pending.end(reply)

    async def _result(self, pending: PendingCall, resources: dict[str, float], seconds: float | None) -> bytes:
        while True:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    reply: bytes = await pending.future
                    return reply
            except TimeoutError:
                if not limit.expired():
                    raise
            begun, stuck = await self._progress(pending)
            if stuck and begun:
                raise _NoWorkerError(f"its worker was lost, and the cluster at {self.address} has no other one")
            if stuck:
                needs = f" with the resources {resources}" if resources else ""
                raise _NoWorkerError(f"for {seconds} s the cluster at {self.address} had no worker{needs}")

    async def _progress(self, pending: PendingCall) -> tuple[bool, bool]:
        begun, stuck = await self._client.scheduler.fxai_progress(key=pending.key)
        return begun, stuck

    async def _explain(self, pending: PendingCall, error: BaseException) -> bytes:
        """The reply of a call that Dask gave no value of."""
        if pending.stopping:
            return _INTERRUPTED
        if isinstance(error, _NoWorkerError):
            why = str(error)
        elif isinstance(error, KilledWorker):
            why = f"{error.allowed_failures + 1} workers were lost that were to run it"
        else:
            why = f"the cluster at {self.address} gave no result: {type(error).__name__}: {error}"
        try:
            begun, _ = await self._progress(pending)
        except Exception:  # the scheduler is lost, too
            begun = True
        return encode(lost_reply(why, begun=begun))

    async def _stop(self, pending: PendingCall) -> None:
        with suppress(OSError):  # the scheduler is lost, and the call with it
            begun = await self._client.scheduler.fxai_stop(key=pending.key)
            if not begun and pending.future is not None:
                await self._client.cancel([pending.future], force=True)

    async def _take(self, serial: int) -> None:
        with suppress(OSError):
            await self._client.scheduler.fxai_let_go(serials=[serial])

    def _watch(self, more: int) -> None:
        """Reads preliminary values for as long as there are calls whose are read."""
        self._watched += more
        if self._watched and self._reader is None:
            self._reader = asyncio.create_task(self._read())
            self._reader.add_done_callback(self._stop_reading)

    def _stop_reading(self, _: object) -> None:
        self._reader = None
        self._watch(0)

    async def _read(self) -> None:
        registry, client = self._client.scheduler, self._client.id
        while self._watched:
            try:
                shown = await registry.fxai_read(client=client, seconds=_POLL_SECONDS)
            except OSError:
                await asyncio.sleep(1)  # the client connects again, or ends the calls
                continue
            for serial, key, text in shown:
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


def _layer(
    make: Callable[[], Cluster], connect: Callable[[Cluster], Coroutine[Any, Any, None]]
) -> LayerOf[Cluster, ClusterUnavailable, None]:
    """The layer of a cluster that `make` makes, and that `connect` connects, in its own thread."""

    async def open_cluster() -> Exit[Cluster, ClusterUnavailable]:
        cluster = make()
        try:
            await cluster.open(connect)
        except Exception as error:
            return Failed(Cause((Fail(ClusterUnavailable(cluster.address, f"{type(error).__name__}: {error}")),)))
        return Succeeded(cluster)

    def close(cluster: Cluster) -> EffectOf[None]:
        return wait(cluster.close)

    acquire: EffectOf[Cluster, ClusterUnavailable] = AwaitExit(lambda _: open_cluster())
    return LayerOf.scoped(Cluster, acquire_release(acquire, close))
