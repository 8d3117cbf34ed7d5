"""Connect to a Dask scheduler, and record its calls. Requires the extra `distributed`.

`CallRegistry` is a plugin of the scheduler that records which worker started each call, and which calls must stop. If
Dask loses a worker, or the result of a task, it runs the task again. Therefore a worker asks the registry before it
starts a call. A call that must not run twice starts only once. Preliminary values also pass the registry: a handler
waits there until its program has read the value.

>>> asyncio.run(require_scheduler("tls://127.0.0.1:1", None, "client", 0.2))
Traceback (most recent call last):
OSError: the scheduler requires TLS, and no certificate is given. Set `tls_ca_file`, ...
>>> registry = CallRegistry()
>>> registry.claim("a", "tcp://one", once=True), registry.claim("a", "tcp://two", once=True)
('go', 'tcp://one')
>>> registry.claim("b", "tcp://one", once=False), registry.claim("b", "tcp://two", once=False)
('go', 'go')
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, final

import msgspec
from distributed.core import rpc
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.security import Security
from typing_extensions import override

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler


Role: TypeAlias = Literal["client", "worker"]


async def require_scheduler(address: str, security: Security | None, role: Role, seconds: float) -> None:
    """Wait until a scheduler answers. An `OSError` contains the reason why it does not answer, or refuses.

    Without `security`, the process uses the certificates in the configuration of Dask for its role.
    """
    arguments = connection_arguments(address, security, role)
    asked: Any = cast(Any, rpc)(address, connection_args=arguments, timeout=seconds)
    try:
        async with asyncio.timeout(seconds), asked:
            await asked.identity()
    except TimeoutError as error:
        raise OSError(f"no scheduler answers within {seconds:g} s") from error
    except Exception as error:
        raise OSError(_explain(address, error)) from error


def connection_arguments(address: str, security: Security | None, role: Role) -> dict[str, Any]:
    """Return the arguments of a connection to a scheduler. An `OSError` reports missing or invalid certificates."""
    made: Any = Security
    try:
        chosen: Any = security or made()
        arguments: dict[str, Any] = chosen.get_connection_args(role)
    except OSError as error:  # from a file or from OpenSSL
        raise OSError(f"the certificates cannot be used: {error}") from error
    if address.startswith("tls://") and arguments.get("ssl_context") is None:
        raise OSError(
            f"the scheduler requires TLS, and no certificate is given. Set `tls_ca_file`, `tls_{role}_cert`, and "
            f"`tls_{role}_key`."
        )
    return arguments


def _explain(address: str, error: Exception) -> str:
    words = f"{type(error).__name__}: {error}"
    if "Timed out" in words:
        return f"no scheduler answers: {error}"
    if not isinstance(error, OSError):
        return f"no Dask scheduler answers there, or it refuses this connection: {words}"
    if address.startswith("tls://"):
        return (
            "the certificates do not match: each must be valid now, and signed by an authority in the `tls_ca_file` of "
            "the other process"
        )
    return "the connection was closed. If the scheduler requires TLS, use an address with tls://."


# -- the registry of calls

GO: Final = "go"
"""The worker can start the call."""
STOPPED: Final = "stopped"
"""The program stopped the call before it started."""


SHOWN: Final = "fxai-shown"
"""The topic of the events that send preliminary values to clients."""


@final
class _Showing(msgspec.Struct, eq=False):
    """A preliminary value that the client has not read."""

    client: str
    key: str
    read: asyncio.Future[None]


@final
class CallRegistry(SchedulerPlugin):
    """The plugin. Workers and clients call its methods through the scheduler."""

    name = "fxai-call-registry"
    idempotent = True

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._begun: dict[str, str] = {}  # address of the worker, by the key of the call
        self._stopped: set[str] = set()
        self._showings: dict[int, _Showing] = {}
        self._serial = 0

    @override
    async def start(self, scheduler: Scheduler) -> None:
        """Register the methods as handlers of the scheduler."""
        self._scheduler = scheduler
        handlers: dict[str, Any] = cast(Any, scheduler).handlers
        handlers.update(
            fxai_begin=self.claim,
            fxai_stop=self.stop,
            fxai_progress=self.progress,
            fxai_show=self.show,
            fxai_let_go=self.let_go,
        )

    @override
    def transition(self, key: Any, start: Any, finish: Any, *args: Any, stimulus_id: str, **kwargs: Any) -> None:
        """Remove a call when the scheduler removes its task."""
        if finish == "forgotten" and (key in self._begun or key in self._stopped):
            self._begun.pop(key, None)
            self._stopped.discard(key)
            self._release(lambda showing: showing.key == key)

    @override
    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Resume the handlers that show a value to a client that has disconnected."""
        self._release(lambda showing: showing.client == client)

    def _release(self, is_over: Callable[[_Showing], bool]) -> None:
        self.let_go([serial for serial, showing in self._showings.items() if is_over(showing)])

    # -- methods for workers

    def claim(self, key: str, worker: str, once: bool) -> str:
        """Return `GO`, `STOPPED`, or, for a call that must run `once`, the address of the worker that started it."""
        is_over = self._scheduler is not None and key not in self._scheduler.tasks  # its program has disconnected
        if is_over or key in self._stopped:
            return STOPPED
        before = self._begun.get(key)
        if before is not None and once:
            return before
        self._begun[key] = worker
        return GO

    async def show(self, client: str, key: str, text: bytes) -> None:
        """Show a preliminary value as JSON text. Return after the client has read it or has disconnected."""
        if self._scheduler is None or client not in self._scheduler.clients or key in self._stopped:
            return
        self._serial += 1
        read = asyncio.get_running_loop().create_future()
        self._showings[self._serial] = _Showing(client, key, read)
        # not `log_event`, because the scheduler would keep the values
        event = {"op": "event", "topic": SHOWN, "event": (time(), (self._serial, key, text))}
        cast(Any, self._scheduler).send_all({client: [event]}, {})
        await read

    # -- methods for clients

    def stop(self, keys: list[str]) -> list[str]:
        """Stop calls. Return the calls that have started, because the client must wait for their ends."""
        self._stopped.update(keys)
        self._release(lambda showing: showing.key in self._stopped)
        started: list[str] = []
        for key in keys:
            worker = self._begun.get(key)
            if worker is not None and self._scheduler is not None and worker in self._scheduler.workers:
                self._scheduler.worker_send(worker, {"op": "fxai-stop", "key": key})
                started.append(key)
        return started

    def progress(self, key: str) -> tuple[bool, bool]:
        """Return whether a call has started, and whether it is stuck because no worker can run it."""
        scheduler, worker = self._scheduler, self._begun.get(key)
        if scheduler is None or worker in scheduler.workers:
            return worker is not None, False
        task: Any = scheduler.tasks.get(key)
        return worker is not None, not scheduler.workers or (task is not None and task.state == "no-worker")

    def let_go(self, serials: list[int]) -> None:
        """Resume the handlers that showed these values."""
        for serial in serials:
            showing = self._showings.pop(serial, None)
            if showing is not None and not showing.read.done():
                showing.read.set_result(None)
