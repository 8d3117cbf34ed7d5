"""The task that runs a call on a Dask worker, and the plugin that stops calls. Requires the extra `distributed`.

>>> HostPlugin.name
'fxai-host'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, final
from weakref import WeakKeyDictionary

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker import get_worker
from typing_extensions import override

from fxai.distributed.call_registry import GO, STOPPED
from fxai.distributed.envelope import CallEnvelope, Gone, InterruptReason, Reply, lost_reply
from fxai.distributed.worker_host import Host

if TYPE_CHECKING:
    from distributed.worker import Worker

_HOSTS: Final[WeakKeyDictionary[Worker, Host]] = WeakKeyDictionary()


def host_of(worker: Worker) -> Host:
    """Return the host of a worker. The first call creates it."""
    host = _HOSTS.get(worker)
    if host is None:
        host = _HOSTS[worker] = Host(_RegistryLink(worker))
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
        if finish in _ENDS:
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


_ENDS: Final = frozenset(("cancelled", "released", "forgotten"))
