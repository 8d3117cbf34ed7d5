"""Timeout: how long a handler may take.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> slow = Tool.make("slow", parameters=float, success=str, failure=str)
>>> limited = timeout(0.01, tool=slow, failure=lambda call: f"not within {call.params} s")
>>> fx.run_result(slow.call(5.0).provide(limited.wrap(slow.handler(lambda s: fx.sleep(s).as_("done")))))
<Failure: not within 5.0 s>
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final, overload

import msgspec
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.effect import AnyEffect, FailCause, Fold, Succeed, Timeout
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.aspects.hook import Invocation, Wrap
from fxai.tools.tool import AnyTool, Tool

__all__ = ["timeout"]

_P = TypeVar("_P")
_F = TypeVar("_F")


@overload
def timeout(seconds: float) -> Aspect: ...
@overload
def timeout(seconds: float, *, tool: Tool[_P, Any, _F], failure: Callable[[Invocation[_P]], _F]) -> Aspect: ...
def timeout(
    seconds: float, *, tool: AnyTool | None = None, failure: Callable[[Invocation[Any]], Any] | None = None
) -> Aspect:
    """The aspect that stops a handler after some time; its finalizers run first.

    Args:
        seconds: the most time that a run may take, by the `Clock`.
        tool: the tool whose handler it is for; by default the handlers of all tools.
        failure: gives the typed failure of a call that took too long. Without it that is a defect, a `TimeoutError`:
            no tool has declared such a failure, so no caller could have expected it.

    A handler in a thread (`blocking=True`) cannot be stopped: it is waited for as its `grace` says.

    Raises:
        ValueError: `seconds` is not positive.
        SchemaError: the tool is external: it has no handler here.
    """
    if seconds <= 0:
        raise ValueError(f"a timeout of {seconds} s lets nothing run: it must be positive")
    return Aspect.of(Limiting(seconds, failure), tool)


@final
class Limiting(msgspec.Struct, frozen=True):
    """How long a handler may take, and what it comes to when it takes longer."""

    seconds: float
    failure: Callable[[Invocation[Any]], Any] | None

    def __call__(self) -> Wrap:
        """What wraps handlers in the limit."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        # The exit is the value, so that a `Timeout` that the handler failed with is not taken for this one.
        limited = proceed.exit().timeout(self.seconds)
        return Fold(limited, lambda cause: self._late(call, cause), _outcome)

    def _late(self, call: Invocation[Any], cause: Cause[Timeout]) -> AnyEffect:
        if not cause.failures:
            return FailCause(cause)
        return FailCause(Cause((self._reason(call), *cause.reasons[1:])))

    def _reason(self, call: Invocation[Any]) -> Fail[Any] | Die:
        if self.failure is not None:
            return Fail(self.failure(call))
        said = f"the handler of {call.tool.name!r} took longer than {self.seconds} s"
        return Die(TimeoutError(f"{said}; to make that a failure of the tool, give timeout(…, tool=…, failure=…)"))


def _outcome(end: Exit[Any, Any]) -> AnyEffect:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)
