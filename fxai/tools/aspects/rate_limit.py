"""Rate limit: how often handlers may run in a time.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> ask = Tool.make("ask", parameters=int, success=int, failure=str)
>>> limit = rate_limit(2, per=60, tool=ask, failure=lambda call, seconds: "ask again in a minute")
>>> handlers = limit.wrap(ask.handler(lambda n: Success(n)))
>>> [str(answer) for answer in fx.run(fx.collect([ask.call(n).result() for n in (1, 2, 3)]).provide(handlers))]
['<Success: 1>', '<Success: 2>', '<Failure: ask again in a minute>']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final, overload

import msgspec
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Exit, Fail, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Ask, Await, EffectOf, FailCause, Within
from fxai.effects.service import Clock
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.aspects.hook import Invocation, Wrap
from fxai.tools.tool import AnyTool, Tool

__all__ = ["rate_limit"]

_P = TypeVar("_P")
_F = TypeVar("_F")


@overload
def rate_limit(calls: int, *, per: float) -> Aspect: ...
@overload
def rate_limit(
    calls: int, *, per: float, tool: Tool[_P, Any, _F], failure: Callable[[Invocation[_P], float], _F] | None = ...
) -> Aspect: ...
def rate_limit(
    calls: int,
    *,
    per: float,
    tool: AnyTool | None = None,
    failure: Callable[[Invocation[Any], float], Any] | None = None,
) -> Aspect:
    """The aspect of a token bucket: `calls` runs at once, then one every `per / calls` seconds, by the `Clock`.

    A run that has to wait does so, in the order of arrival; with `failure` it fails instead. All handlers of the
    wrapped layer share one bucket, which is full when the layer is built.

    Args:
        calls: how many runs there may be in `per` seconds.
        per: seconds.
        tool: the tool whose handler it is for; by default the handlers of all tools.
        failure: gives the typed failure of a call that would have to wait, from it and the seconds to wait.

    Raises:
        ValueError: `calls` is less than 1, or `per` is not positive.
        SchemaError: the tool is external: it has no handler here.
    """
    if calls < 1 or per <= 0:
        raise ValueError(f"{calls} calls in {per} s is no rate: both must be positive")
    return Aspect.of(Limit(calls, per, failure), tool)


@final
class Limit(msgspec.Struct, frozen=True):
    """How many runs there may be in how many seconds."""

    calls: int
    per: float
    failure: Callable[[Invocation[Any], float], Any] | None

    def __call__(self) -> Wrap:
        """What wraps handlers in a bucket that is full."""
        return Bucket(self).wrap


@final
class Bucket:
    """Tokens, one for each run that may begin; fewer than none while runs wait."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._seconds = limit.per / limit.calls  # for one token
        self._tokens = float(limit.calls)
        self._counted: float | None = None

    def wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        """The run, when it has its token."""

        def begin(context: ContextOf[Any]) -> AnyEffect:
            wait = self._wait(context.fetch(Clock).monotonic())
            if wait > 0 and self._limit.failure is not None:
                return FailCause(Cause((Fail(self._limit.failure(call, wait)),)))
            self._tokens -= 1
            return proceed if wait <= 0 else self._waited(wait).and_then(proceed)

        return Within(begin)

    def _wait(self, now: float) -> float:
        """Seconds until there is a token for one more run."""
        if self._counted is not None:
            gained = (now - self._counted) / self._seconds
            self._tokens = min(float(self._limit.calls), self._tokens + gained)
        self._counted = now
        return (1 - self._tokens) * self._seconds

    def _waited(self, seconds: float) -> EffectOf[None]:
        slept: EffectOf[None] = Await(lambda fiber: fiber.clock().sleep(seconds))
        return slept.on_exit(lambda end: Ask(lambda _: self._release(end)))

    def _release(self, end: Exit[Any, Any]) -> None:
        if not isinstance(end, Succeeded):
            self._tokens += 1  # of a run that never began
