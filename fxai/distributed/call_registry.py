"""The registry of calls on the scheduler of a cluster: which were begun, on which worker, and which are to stop.

Dask runs a task again when its worker is lost, or its result with it. So a worker asks the registry before it begins a
call, and a call that must not run twice is begun once. Preliminary values go through it too: a handler waits here
until its program has read them.

>>> registry = CallRegistry()
>>> registry.begin("a", "tcp://one", once=True), registry.begin("a", "tcp://two", once=True)
('go', 'tcp://one')
>>> registry.begin("b", "tcp://one", once=False), registry.begin("b", "tcp://two", once=False)
('go', 'go')
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec
from distributed.diagnostics.plugin import SchedulerPlugin
from typing_extensions import override

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler

GO: Final = "go"
"""The call may begin."""
STOPPED: Final = "stopped"
"""The call was stopped before it began."""


@final
class _Showing(msgspec.Struct, eq=False):
    """A preliminary value until it is read."""

    key: str
    text: bytes
    read: asyncio.Future[None]


@final
class _Reader(msgspec.Struct, eq=False):
    """What a client is shown, oldest first."""

    items: deque[int] = msgspec.field(default_factory=deque[int])
    ready: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


@final
class CallRegistry(SchedulerPlugin):
    """A plugin of the scheduler; its methods but the hooks are what workers and clients ask it."""

    name = "fxai-call-registry"
    idempotent = True

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._begun: dict[str, str] = {}  # the worker, by the key of the call
        self._stopped: set[str] = set()
        self._readers: dict[str, _Reader] = {}
        self._showings: dict[int, _Showing] = {}
        self._serial = 0

    @override
    async def start(self, scheduler: Scheduler) -> None:
        """Offers what it does to workers and clients."""
        self._scheduler = scheduler
        handlers: dict[str, Any] = cast(Any, scheduler).handlers
        handlers.update(
            fxai_begin=self.begin,
            fxai_stop=self.stop,
            fxai_progress=self.progress,
            fxai_show=self.show,
            fxai_read=self.read,
            fxai_let_go=self.let_go,
        )

    @override
    def transition(self, key: Any, start: Any, finish: Any, *args: Any, stimulus_id: str, **kwargs: Any) -> None:
        """Forgets a call when the scheduler does."""
        if finish == "forgotten" and (key in self._begun or key in self._stopped):
            self._begun.pop(key, None)
            self._stopped.discard(key)
            self._let_call_go(key)

    def _let_call_go(self, key: str) -> None:
        self.let_go([serial for serial, showing in self._showings.items() if showing.key == key])

    @override
    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Lets handlers go on that show something to a client that has left."""
        reader = self._readers.pop(client, None)
        if reader is not None:
            self.let_go(list(reader.items))

    # -- asked by workers

    def begin(self, key: str, worker: str, once: bool) -> str:
        """`GO`, `STOPPED`, or the address of the worker that has begun the call, where that must be `once`."""
        is_over = self._scheduler is not None and key not in self._scheduler.tasks  # its program has left
        if is_over or key in self._stopped:
            return STOPPED
        before = self._begun.get(key)
        if before is not None and once:
            return before
        self._begun[key] = worker
        return GO

    async def show(self, client: str, key: str, text: bytes) -> None:
        """Returns when the client has read a preliminary value, JSON text, or does not read any more."""
        if self._scheduler is None or client not in self._scheduler.clients or key in self._stopped:
            return
        self._serial += 1
        read = asyncio.get_running_loop().create_future()
        self._showings[self._serial] = _Showing(key, text, read)
        reader = self._readers.setdefault(client, _Reader())
        reader.items.append(self._serial)
        reader.ready.set()
        await read

    # -- asked by clients

    def stop(self, keys: list[str]) -> list[str]:
        """Stops calls; gives those that have begun, so that their ends have to be waited for."""
        self._stopped.update(keys)
        stopped = set(keys)
        self.let_go([serial for serial, showing in self._showings.items() if showing.key in stopped])
        return [key for key in keys if self._stop_begun(key)]

    def _stop_begun(self, key: str) -> bool:
        worker = self._begun.get(key)
        if worker is None or self._scheduler is None or worker not in self._scheduler.workers:
            return False
        self._scheduler.worker_send(worker, {"op": "fxai-stop", "key": key})
        return True

    def progress(self, key: str) -> tuple[bool, bool]:
        """Whether a call was begun, and whether it is stuck: no worker runs it now, and none is there that could."""
        scheduler, worker = self._scheduler, self._begun.get(key)
        if scheduler is None or worker in scheduler.workers:
            return worker is not None, False
        task: Any = scheduler.tasks.get(key)
        return worker is not None, not scheduler.workers or (task is not None and task.state == "no-worker")

    async def read(self, client: str, seconds: float) -> list[tuple[int, str, bytes]]:
        """What the client is shown, each with its serial number and key; waits for it for some seconds."""
        reader = self._readers.setdefault(client, _Reader())
        try:
            async with asyncio.timeout(seconds):
                await reader.ready.wait()
        except TimeoutError:
            return []
        reader.ready.clear()
        serials = list(reader.items)
        reader.items.clear()
        there = ((serial, self._showings.get(serial)) for serial in serials)
        return [(serial, showing.key, showing.text) for serial, showing in there if showing is not None]

    def let_go(self, serials: list[int]) -> None:
        """Lets the handlers go on that have shown these values."""
        for serial in serials:
            showing = self._showings.pop(serial, None)
            if showing is not None and not showing.read.done():
                showing.read.set_result(None)
