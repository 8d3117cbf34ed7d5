"""Engines: what a cluster is made of, and the calls that it has.

>>> call = PendingCall("add-1", lambda: None)
>>> call.end(b"1"), call.end(b"2"), call.reply
(None, None, b'1')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, final

import msgspec
from typing_extensions import override

from fxai.distributed.envelope import CallEnvelope

if TYPE_CHECKING:
    from fxai.tools.call_key import CallKey


@final
class ClusterUnavailable(msgspec.Struct, frozen=True, tag="cluster-unavailable"):
    """The scheduler or the database of a cluster could not be reached, or does not take what calls need."""

    address: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"there is no cluster at {self.address}: {self.reason}"


@final
class PendingCall:
    """A call on the cluster: what was shown of it and not read yet, and its reply, when there is one."""

    __slots__ = ("_wake", "begun_before", "key", "name", "reply", "shown", "stopping")

    def __init__(
        self, key: str, wake: Callable[[], None], name: CallKey | None = None, *, begun_before: bool = False
    ) -> None:
        self.key: str = key
        self.begun_before: bool = begun_before
        """Whether a call of its key was begun before, so that it is there, or was removed."""
        self._wake = wake
        self.name: CallKey | None = name
        """What a durable run calls it; None: nobody asks for it again."""
        self.shown: deque[tuple[int, bytes]] = deque()
        """Preliminary values, JSON text, with what `Cluster.let_go` is told of them."""
        self.reply: bytes | None = None
        """The reply, JSON text."""
        self.stopping: bool = False
        """Whether it was stopped."""

    def show(self, serial: int, text: bytes) -> None:
        """Adds a preliminary value."""
        self.shown.append((serial, text))
        self._wake()

    def end(self, reply: bytes) -> None:
        """Has the reply, once."""
        if self.reply is None:
            self.reply = reply
            self._wake()


class Engine(ABC):
    """What a cluster is made of. Its methods but `open` and `close` may be called in any thread, and return at once."""

    address: str
    """Where it is, in words, without a password."""
    joins_calls: bool = False
    """Whether a call that is begun again under the same key is the one that is there."""

    @abstractmethod
    async def open(self) -> None:
        """Connects; raises what that raises, with nothing left open."""

    @abstractmethod
    async def close(self) -> None:
        """Leaves; calls that are there have the reply that they are lost."""

    def refuse(self, resources: Mapping[str, float]) -> str | None:
        """Why calls cannot take these resources; None: they can."""
        del resources
        return None

    @property
    @abstractmethod
    def reader_id(self) -> str:
        """Who reads preliminary values here: what an envelope says of it."""

    @abstractmethod
    def begin(
        self,
        pending: PendingCall,
        call: CallEnvelope,
        *,
        resources: Mapping[str, float],
        priority: int,
        seconds: float | None,
    ) -> None:
        """Sends a call; see `Cluster.begin`."""

    @abstractmethod
    def let_go(self, serial: int) -> None:
        """Lets the handler go on that has shown a value."""

    @abstractmethod
    def stop(self, pending: PendingCall) -> None:
        """Stops a call: it gets a reply, when its handler's finalizers have run."""

    def forget(self, pending: PendingCall) -> None:
        """The program has the reply of a call, or leaves it behind."""
        del pending


def require_dask() -> None:
    """Raises an `ImportError` that says which extra is missing, where Dask is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise ImportError("a cluster needs Dask, which the extra brings: pip install 'fxai[distributed]'")
