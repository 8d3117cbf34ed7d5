"""Options of a worker.

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
    """Options of a worker. A worker of a work queue ignores `resources`, `name`, `host`, and `security`.

    Attributes:
        targets: Tools with their handlers, as `module:name`. The worker loads and builds them before it accepts calls.
            A Dask worker loads other targets at their first call. A worker of a work queue runs only these targets.
        threads: Maximum number of concurrent calls. Default: 16. The handlers share one event loop.
        resources: Amounts that calls can reserve, by name, such as `{"GPU": 1}`.
        name: Name of the worker in the cluster. Default: its address.
        host: Address to listen on. Default: the address from which this machine reaches the scheduler.
        security: TLS certificates, as a `distributed.Security`.
        seconds: Seconds to wait for the scheduler. Default: 10.
        grace: Seconds that running calls have to finish after the worker is cancelled. Default: 30.
        retention: For a work queue: seconds after which the worker removes a finished call that its program or run has
            not removed. Default: 30 days.
        wrap: Function that receives the layer of each target and returns the layer to build, such as
            `fxai.telemetry.trace`. Default: None, which builds the layers unchanged.
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
