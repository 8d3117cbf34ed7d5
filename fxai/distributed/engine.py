"""The interface between a `Cluster` and the system that runs its calls: Dask or a work queue.

>>> call = PendingCall(CallEnvelope("add-1", "shop:desk", "add", "", msgspec.Raw(b"[]")), lambda: None)
>>> call.end(b"1"), call.end(b"2"), call.reply
(None, None, b'1')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import msgspec
from typing_extensions import override

from fxai.distributed.envelope import CallEnvelope

if TYPE_CHECKING:
    from fxai.tools.tool_info import CallKey


@final
class ClusterUnavailable(msgspec.Struct, frozen=True, tag="cluster-unavailable"):
    """The scheduler or the database of a cluster cannot be reached, or it refuses the call."""

    address: str
    """The address of the scheduler or database."""
    reason: str
    """The reason."""

    @override
    def __str__(self) -> str:
        return f"no cluster at {self.address}: {self.reason}"


@final
class PendingCall(msgspec.Struct, eq=False):
    """A call on the cluster: its preliminary values that the program has not read, and its reply."""

    call: CallEnvelope
    wake: Callable[[], None]
    """The function to call after each change. It returns immediately, and any thread can call it."""
    name: CallKey | None = None
    """The name of the call in a durable run. None if no later program can ask for the call."""
    started_before: bool = False
    """True if a call with this key was started before. The cluster then has the call, or has removed it."""
    resources: Mapping[str, float] = MappingProxyType({})
    """Amounts of the resources of a worker that the call reserves, by name."""
    priority: int = 0
    """Calls with a higher priority run first."""
    patience: float | None = None
    """Maximum seconds without a worker that can run the call. None waits without a limit."""
    shown: deque[tuple[int, bytes]] = msgspec.field(default_factory=deque[tuple[int, bytes]])
    """The unread preliminary values as JSON text, each with the number for `Engine.let_go`."""
    reply: bytes | None = None
    """The reply as JSON text. None while the call runs."""
    stopping: bool = False
    """True if the program stopped the call."""

    @property
    def key(self) -> str:
        """The key of the call on the cluster."""
        return self.call.key

    def show(self, serial: int, text: bytes) -> None:
        """Add a preliminary value."""
        self.shown.append((serial, text))
        self.wake()

    def end(self, reply: bytes) -> None:
        """Set the reply. A second reply has no effect."""
        if self.reply is None:
            self.reply = reply
            self.wake()


class Engine(ABC):
    """A system that runs the calls of a cluster.

    You can call its methods except `open` and `close` in any thread. They return immediately.
    """

    address: str
    """The location of the system for people, without a password."""
    joins_calls: bool = False
    """True if a second call with the same key joins the first call."""

    @abstractmethod
    async def open(self) -> None:
        """Connect. If that fails, raise the error and leave nothing open."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect. Running calls receive the reply that they are lost."""

    def refuse(self, resources: Mapping[str, float]) -> str | None:
        """Return the reason why calls cannot use these resources. None if they can."""
        del resources
        return None

    @property
    @abstractmethod
    def reader_id(self) -> str:
        """The address to which workers send preliminary values. It is in the envelope of each call."""

    @abstractmethod
    def start(self, pending: PendingCall) -> None:
        """Send a call."""

    @abstractmethod
    def let_go(self, serial: int) -> None:
        """Resume the handler that showed a value."""

    @abstractmethod
    def stop(self, pending: PendingCall) -> None:
        """Stop a call with `stopping`. The call receives a reply after the finalizers of its handler ran."""

    def forget(self, pending: PendingCall) -> None:
        """Remove the state of a call that the program no longer waits for."""
        del pending


def require_dask() -> None:
    """Raise an `ImportError` with the missing extra if Dask is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise ImportError("a cluster requires Dask. Install it: pip install 'fxai[distributed]'")
