"""Retry: a handler that failed is run again, as a schedule says.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Failure, Success
>>> runs: list[int] = []
>>> flaky = Tool.make("flaky", parameters=int, success=int, failure=str)
>>> f = lambda n: Failure("busy") if runs.append(n) is None and len(runs) < n else Success(len(runs))
>>> fx.run_sync(flaky.call(3).provide(retry(Schedule.recurs(5), tool=flaky).wrap(flaky.handler(f))))
3
"""

from __future__ import annotations

from typing import Any, final, overload

import msgspec
from typing_extensions import TypeVar

from fxai.effects.effect import AnyEffect
from fxai.effects.schedule import Schedule
from fxai.tools.annotations import Idempotent, Readonly
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.aspects.hook import Invocation, Wrap
from fxai.tools.tool import AnyTool, Tool

__all__ = ["retry"]

_F = TypeVar("_F")


@overload
def retry(schedule: Schedule[object, Any]) -> Aspect: ...
@overload
def retry(schedule: Schedule[_F, Any], *, tool: Tool[Any, Any, _F]) -> Aspect: ...
def retry(schedule: Schedule[Any, Any], *, tool: AnyTool | None = None) -> Aspect:
    """The aspect that runs a handler again after a typed failure, for as long as `schedule` says.

    Then the last failure stands. Defects are not tried again, nor is a failure that has `is_retryable` and says
    False; one with a `retry_after`, in seconds, is waited for at least that long. Each run is a whole one:
    preliminary values are shown anew.

    Args:
        schedule: when to try again; for one tool it is given that tool's failures.
        tool: the tool whose handler it is for, whatever its annotations say. By default the handlers of all tools
            that may be run twice: those annotated as `Idempotent` or `Readonly`. The others are run once.

    Raises:
        SchemaError: the tool is external: it has no handler here.
    """
    return Aspect.of(Retrying(schedule, asking=tool is None), tool)


@final
class Retrying(msgspec.Struct, frozen=True):
    """When handlers are run again."""

    schedule: Schedule[Any, Any]
    asking: bool
    """Whether the tool has to say that it may be run twice."""

    def __call__(self) -> Wrap:
        """What wraps handlers in the schedule."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        if self.asking and not (call.tool.get(Idempotent) or call.tool.get(Readonly)):
            return proceed
        return proceed.retry(self.schedule)
