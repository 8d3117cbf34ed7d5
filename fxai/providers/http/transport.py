"""Transports: how requests leave the process, as a service, so that a test can answer them itself.

`Transport` is a reference: clients use the network unless a layer gives another way, and `R` does not mention it.

>>> from fxai.effects import fx
>>> fx.run_sync(fx.reference(Transport).map(lambda transport: transport.over(lambda: None)))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

from typing_extensions import override

from fxai.effects.service import Reference

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport

__all__ = ["Transport"]


class Transport(Reference):
    """Who carries requests, for each client that is opened where this service is given."""

    @abstractmethod
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        """What carries the requests of one client, which closes it; None leaves them to the client itself.

        Args:
            live: Makes what the client would use itself, with its proxies; the caller closes it.
        """

    @property
    def needs_keys(self) -> bool:
        """Whether requests may reach a provider, which wants to see a key; False where all are answered from a file."""
        return True

    @classmethod
    @override
    def default(cls) -> Self:
        """The network."""
        network: Any = _NETWORK
        return cast("Self", network)


class _Network(Transport):
    @override
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        return None


_NETWORK = _Network()
