"""Tools whose handlers have spans of their own, for programs and for workers; `traced_worker` is of workers alone."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, Final

from returns.result import Result, Success

from fxai import tool
from fxai.effects import Gen, Layer, fx
from fxai.tools import BoundToolkit, CallContext, Tool, Toolkit

__all__ = ["COLLECTOR", "desk", "kit", "plain"]

COLLECTOR: Final = "FXAI_TEST_COLLECTOR"
"""The environment variable of the URL that spans of workers go to."""

look = Tool.make("look", parameters=str, success=str)
lose = Tool.make("lose", parameters=str, success=str)
imported = Tool.make("imported", success=list[str])
kit: Toolkit[Any] = Toolkit.make(look, lose, imported)


@fx.gen
def _look(key: str, call: CallContext) -> Gen[str]:
    yield from call.preliminary(f"looking for {key}")
    found = yield from fx.sleep(0.01).as_(key.upper()).span("search", key=key)
    both = yield from fx.for_each(["left", "right"], lambda name: fx.succeed(found).span(name), concurrency=2)
    return both[0]


def _lose(key: str) -> Result[str, Any]:
    """Ends its worker."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Success(key)


def _imported(_: object) -> Result[list[str], Any]:
    return Success(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))


live: Any = Layer.merge_all(look.handler(_look), lose.handler(_lose), imported.handler(_imported)).layer
desk: BoundToolkit[Any] = BoundToolkit.of(kit, kit.to_layer(live))


@tool
def plain(key: str) -> str:
    """A plain function, in which another library is traced."""
    from opentelemetry import trace

    with trace.get_tracer("other").start_as_current_span("request"):
        return key.upper()
