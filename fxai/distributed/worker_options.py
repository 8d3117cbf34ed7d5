"""What a worker is to its cluster.

>>> WorkerOptions(targets=("shop:desk",)).threads
16
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import msgspec

from fxai.effects.layer import AnyLayer

if TYPE_CHECKING:
    from distributed.security import Security


@final
class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to its cluster. Of a work queue, `resources`, `name`, `host` and `security` mean nothing.

    Attributes:
        targets: `module:name` of tools and their handlers, which are loaded and built before calls come. A worker of
            Dask loads others when they are first called; one of a work queue runs no calls of others.
        threads: how many calls it runs at once; 16 by default. They take no threads: handlers share one event loop.
        resources: what calls may take of it, by name, such as `{"GPU": 1}`.
        name: what the cluster calls it; by default its address.
        host: the address to listen on; by default the one by which this machine reaches the scheduler, and no other.
        security: the certificates of TLS, as `distributed.Security` has them.
        seconds: how long the scheduler is waited for; 10 by default.
        grace: how many seconds calls that run have to end when it is cancelled; 30 by default.
        retention: of a work queue: calls are removed that ended so many seconds ago, and whose program or run has not
            removed them; 30 days by default.
        wrap: is given the layer of each target, and gives the one that is built, such as `fxai.telemetry.trace`, under
            which calls are traced; None, the default: the layers are built as they are.
    """

    targets: tuple[str, ...] = ()
    threads: int = 16
    resources: Mapping[str, float] = MappingProxyType({})
    name: str | None = None
    host: str | None = None
    security: Security | None = None
    seconds: float = 10.0
    grace: float = 30.0
    wrap: Callable[[AnyLayer], AnyLayer] | None = None
    retention: float = 30 * 86_400.0

    def __hash__(self) -> int:
        return hash((self.targets, self.threads, self.name, self.host))
