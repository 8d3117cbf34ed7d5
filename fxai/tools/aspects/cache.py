"""Cache: results that are kept, so that the same call is not run again.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> runs: list[int] = []
>>> half = Tool.make("half", parameters=int, success=int)
>>> handlers = cache(ttl=60).wrap(half.handler(lambda n: Success(n // 2) if runs.append(n) is None else Success(0)))
>>> fx.run_sync(fx.collect([half.call(6), half.call(8), half.call(6)]).provide(handlers)), runs
([3, 4, 3], [6, 8])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast, final

import anyio
import msgspec

from fxai.effects.cause import Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Ask, Await, EffectOf, FailCause, Succeed, Within
from fxai.effects.service import Clock
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.aspects.hook import Invocation, Wrap

__all__ = ["cache"]

_TEXT = msgspec.json.Encoder(order="sorted").encode


def cache(
    *, ttl: float | None = None, size: int = 1024, key: Callable[[Invocation[Any]], Hashable] | None = None
) -> Aspect:
    """The aspect that keeps successes and gives them again to the same call.

    Failures and defects are not kept. Calls that are the same and come at once share one run, whatever it comes to;
    one that is interrupted is run again for those who wait. Only the first caller sees preliminary values. The kept
    value itself is given, so it must not be changed. It is kept for as long as the wrapped layer lives.

    Args:
        ttl: seconds by the `Clock` that a result is kept; None, the default: without end.
        size: how many results are kept, of all the handlers of the layer; the one unused for longest goes first.
        key: what makes two calls of one tool the same; by default their parameters, as JSON. Calls whose parameters
            have no JSON form are a defect without it.

    Raises:
        ValueError: `size` is less than 1, or `ttl` is not positive.
    """
    if size < 1 or (ttl is not None and ttl <= 0):
        raise ValueError(f"a cache of size {size} and ttl {ttl} keeps nothing: both must be positive")
    return Aspect.of(Caching(ttl, size, key))


@final
class Caching(msgspec.Struct, frozen=True):
    """How results are kept."""

    ttl: float | None
    size: int
    key: Callable[[Invocation[Any]], Hashable] | None

    def __call__(self) -> Wrap:
        """What wraps handlers in a cache that is empty."""
        return Kept(self).wrap


@final
class _Run:
    """One run of a handler: under way while `exit` is None."""

    __slots__ = ("exit", "ready", "until")

    def __init__(self) -> None:
        self.exit: Exit[Any, Any] | None = None
        self.until: float | None = None
        self.ready: anyio.Event | None = None


@final
class Kept:
    """The results that a cache holds, by call."""

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._runs: dict[Hashable, _Run] = {}  # the one unused for longest first

    def wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        """The result that is kept, or that of a run."""

        def begin(context: ContextOf[Any]) -> AnyEffect:
            key = (call.tool.identity, (self._caching.key or _encoded)(call))
            run = self._runs.pop(key, None)
            if run is None or (run.until is not None and run.until <= context.fetch(Clock).monotonic()):
                run = self._runs[key] = _Run()
                return proceed.on_exit(self._settling(key, run))
            self._runs[key] = run
            return Succeed(cast("Any", run.exit).value) if run.exit is not None else _joined(run, Within(begin))

        return Within(begin)

    def _settling(self, key: Hashable, run: _Run) -> Callable[[Exit[Any, Any]], EffectOf[None]]:
        def settled(end: Exit[Any, Any], now: float) -> None:
            run.exit = end
            run.until = None if self._caching.ttl is None else now + self._caching.ttl
            if not isinstance(end, Succeeded) and self._runs.get(key) is run:
                del self._runs[key]
            self._trim()
            if run.ready is not None:
                run.ready.set()

        return lambda end: Ask(lambda context: settled(end, context.fetch(Clock).monotonic()))

    def _trim(self) -> None:
        while len(self._runs) > self._caching.size:
            oldest = next((key for key, run in self._runs.items() if run.exit is not None), None)
            if oldest is None:  # all are under way
                return
            del self._runs[oldest]


def _joined(run: _Run, again: AnyEffect) -> AnyEffect:
    """What a run under way comes to; run again where it was interrupted."""
    ready = run.ready = run.ready or anyio.Event()

    def ended(_: object) -> AnyEffect:
        end = cast("Exit[Any, Any]", run.exit)
        if isinstance(end, Succeeded):
            return Succeed(end.value)
        return again if end.cause.interrupted else FailCause(end.cause)

    waited: EffectOf[Any] = Await(lambda _: ready.wait())
    return waited.flat_map(ended)


def _encoded(call: Invocation[Any]) -> bytes:
    parameters = call.tool.parameters
    try:
        plain = parameters.encode_unsafe(call.params) if isinstance(parameters, Schema) else call.params
        return _TEXT(plain)
    except (DecodeError, TypeError, ValueError) as error:
        raise TypeError(
            f"the parameters of {call.tool.name!r} have no JSON form to be cached by: {error}; give cache(key=…)"
        ) from None
