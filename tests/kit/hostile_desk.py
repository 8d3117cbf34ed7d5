"""Tools whose handlers do what handlers should not: they exit, hold their thread, or are too much."""

from __future__ import annotations

import sys
import time
from typing import Any, Never, cast

from returns.result import Failure, Result, Success

from fxai.effects import EffectOf, Layer, Service, fx
from fxai.tools import BoundToolkit, Tool, Toolkit
from tests.kit.cluster_tools import record

__all__ = ["desk", "kit"]

size = Tool.make("size", parameters=str, success=int)
repeat = Tool.make("repeat", parameters=int, success=str)
leave = Tool.make("leave", parameters=int, success=int)
leave_beside = Tool.make("leave_beside", parameters=int, success=int)
hold = Tool.make("hold", parameters=str, success=str)
wait = Tool.make("wait", parameters=int, success=int)
misfail = Tool.make("misfail", parameters=int, success=int, failure=str)
kit: Toolkit[Any] = Toolkit.of([size, repeat, leave, leave_beside, hold, wait, misfail])


def _leave(code: int) -> Result[int, Any]:
    sys.exit(code)


def _leave_beside(code: int) -> EffectOf[list[int]]:
    return fx.for_each([0, code], lambda one: fx.sync(lambda: sys.exit(one) if one else one), concurrency=2)


def _hold(name: str) -> Result[str, Any]:
    record(f"holds {name}")
    while True:
        time.sleep(0.01)


def _wait(number: int) -> EffectOf[Never]:
    record(f"waits {number}")
    return fx.never().ensuring(fx.sync(lambda: record(f"waited {number}")))


class Door(Service):
    """A service that cannot be built: the process is asked to exit."""


live: Any = Layer.merge_all(
    size.handler(lambda text: Success(len(text))),
    repeat.handler(lambda times: Success("x" * times)),
    leave.handler(_leave),
    leave_beside.handler(lambda code: _leave_beside(code).map(sum)),
    hold.handler(_hold),
    wait.handler(_wait),
    misfail.handler(cast(Any, Failure)),
).layer
desk: BoundToolkit[Any] = BoundToolkit.of(kit, kit.to_layer(live))
closed: BoundToolkit[Any] = BoundToolkit.of(
    Toolkit.make(size), size.handler(lambda text: Success(len(text))).provide(Layer.sync(Door, lambda: sys.exit(3)))
)
