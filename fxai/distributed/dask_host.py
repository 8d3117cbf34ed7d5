"""Hosts on the workers of Dask: the task that runs a call, and the plugin that stops calls. Needs `distributed`.

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
    """The host of a worker, which is made where there is none."""
    host = _HOSTS.get(worker)
    if host is None:
        host = _HOSTS[worker] = Host(_RegistryLink(worker))
    return host


@final
class _RegistryLink:
    """Asks the registry on the scheduler."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def worker(self) -> str:
        address: str = self._worker.address
        return address

    async def begin(self, call: CallEnvelope) -> Reply | None:
        registry: Any = self._worker.scheduler
        verdict: str = await registry.fxai_begin(key=call.key, worker=self._worker.address, once=call.once)
        if verdict == GO:
            return None
        if verdict == STOPPED:
            return Gone((InterruptReason(),))
        return lost_reply(f"it was begun on the worker {verdict}, which was lost or closed", begun=True)

    async def show(self, call: CallEnvelope, text: bytes) -> None:
        registry: Any = self._worker.scheduler
        await registry.fxai_show(client=call.client, key=call.key, text=text)


async def run_call(data: bytes) -> bytes:
    """The reply to a call, run by the worker of Dask whose task this is."""
    return await host_of(get_worker()).answer(data)


@final
class HostPlugin(WorkerPlugin):
    """A plugin of each worker: it stops calls that are cancelled, and closes the host with its worker."""

    name = "fxai-host"
    idempotent = True

    def __init__(self) -> None:
        self._worker: Worker | None = None

    @override
    def setup(self, worker: Worker) -> None:
        """Listens to what the registry says."""
        self._worker = worker
        handlers: dict[str, Any] = cast(Any, worker).stream_handlers
        handlers["fxai-stop"] = self._stop

    @override
    def transition(self, key: Any, start: Any, finish: Any, **kwargs: Any) -> None:
        """Stops a call that Dask has cancelled: its program has left; and forgets one that Dask does."""
        if finish in _ENDS:
            self._stop(key)
        if finish == "forgotten" and self._worker is not None and (host := _HOSTS.get(self._worker)) is not None:
            host.forget(key)

    @override
    async def teardown(self, worker: Worker) -> None:
        """Closes the host; one that only gets another plugin goes on."""
        host = _HOSTS.get(worker)
        if host is not None and worker.status.name in ("closing", "closed", "failed"):
            await host.close()

    def _stop(self, key: str, **_: Any) -> None:
        host = None if self._worker is None else _HOSTS.get(self._worker)
        if host is not None:
            host.stop(key)


_ENDS: Final = frozenset(("cancelled", "released", "forgotten"))
