"""Policies: aspects that are ready to use: `cache`, `log`, `rate_limit`, `retry` and `timeout`.

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
from threading import Lock
from typing import Any, Final, cast, final, overload

import msgspec
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Ask, Await, EffectOf, FailCause, Fold, Succeed, Timeout, Within
from fxai.effects.schedule import Schedule
from fxai.effects.service import Clock
from fxai.effects.waker import SharedEvent
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError
from fxai.tools.aspects.aspect import Aspect, Invocation, Wrap
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_options import Idempotent, Readonly

_P = TypeVar("_P")
_F = TypeVar("_F")


# -- cache

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
        return Cache(self).wrap


@final
class _Run:
    """One run of a handler: under way while `exit` is None."""

    __slots__ = ("exit", "ready", "until")

    def __init__(self) -> None:
        self.exit: Exit[Any, Any] | None = None
        self.until: float | None = None
        self.ready: SharedEvent | None = None


@final
class Cache:
    """The results that are kept, by call."""

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._runs: dict[Hashable, _Run] = {}  # the one unused for longest first
        self._turn = Lock()  # of threads that share the layer

    def wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        """The result that is kept, or that of a run."""

        def begin(context: ContextOf[Any]) -> AnyEffect:
            key = (call.tool.identity, (self._caching.key or _encode)(call))
            with self._turn:
                run = self._runs.pop(key, None)
                if run is None or (run.until is not None and run.until <= context.fetch(Clock).monotonic()):
                    run = self._runs[key] = _Run()
                    return proceed.on_exit(self._settling(key, run))
                self._runs[key] = run
            return Succeed(cast("Any", run.exit).value) if run.exit is not None else _join(run, Within(begin))

        return Within(begin)

    def _settling(self, key: Hashable, run: _Run) -> Callable[[Exit[Any, Any]], EffectOf[None]]:
        def settle(end: Exit[Any, Any], now: float) -> None:
            run.exit = end
            run.until = None if self._caching.ttl is None else now + self._caching.ttl
            with self._turn:
                if not isinstance(end, Succeeded) and self._runs.get(key) is run:
                    del self._runs[key]
                self._trim()
            if run.ready is not None:
                run.ready.set()

        return lambda end: Ask(lambda context: settle(end, context.fetch(Clock).monotonic()))

    def _trim(self) -> None:
        while len(self._runs) > self._caching.size:
            oldest = next((key for key, run in self._runs.items() if run.exit is not None), None)
            if oldest is None:  # all are under way
                return
            del self._runs[oldest]


def _join(run: _Run, again: AnyEffect) -> AnyEffect:
    """What a run under way comes to; run again where it was interrupted."""
    ready = run.ready = run.ready or SharedEvent()

    def settle(_: object) -> AnyEffect:
        end = cast("Exit[Any, Any]", run.exit)
        if isinstance(end, Succeeded):
            return Succeed(end.value)
        return again if end.cause.interrupted else FailCause(end.cause)

    async def wait() -> None:
        if run.exit is None:  # another thread may have ended it in between
            await ready.wait()

    waited: EffectOf[Any] = Await(lambda _: wait())
    return waited.flat_map(settle)


def _encode(call: Invocation[Any]) -> bytes:
    parameters = call.tool.parameters
    try:
        plain = parameters.encode_unsafe(call.params) if isinstance(parameters, Schema) else call.params
        return _TEXT(plain)
    except (DecodeError, TypeError, ValueError) as error:
        raise TypeError(
            f"the parameters of {call.tool.name!r} have no JSON form to be cached by: {error}; give cache(key=…)"
        ) from None


# -- log

_INFO: Final = 20  # as in `logging`, which is slow to import


def log(*, logger: str = "fxai.tools", level: int = _INFO, content: bool = False) -> Aspect:
    """The aspect that logs the end of each run of a handler.

    The record says which tool, and in its fields `fxai_tool`, `fxai_call_id`, `fxai_outcome` (`"success"`,
    `"failure"`, `"defect"` or `"interrupted"`) and `fxai_seconds`, by the `Clock`; of a defect, in `fxai_defect`, the
    class of the exception.

    Args:
        logger: the name of the logger.
        level: `logging.INFO` by default; of successes, failures and interruptions; a defect is an error.
        content: whether the record holds what may be secret too: parameters and results, as `fxai_params` and
            `fxai_result`, and the traceback of a defect. Not by default; the defect goes up with its traceback anyway.
    """
    return Aspect.of(Logging(logger, level, content))


@final
class Logging(msgspec.Struct, frozen=True):
    """What is logged, and where."""

    logger: str
    level: int
    content: bool

    def __call__(self) -> Wrap:
        """What wraps handlers in a log."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        def begin(context: ContextOf[Any]) -> AnyEffect:
            clock: Clock = context.fetch(Clock)
            started = clock.monotonic()

            def write(end: Exit[Any, Any]) -> EffectOf[None]:
                return Ask(lambda _: self._write(call, end, clock.monotonic() - started))

            return proceed.on_exit(write)

        return Within(begin)

    def _write(self, call: Invocation[Any], end: Exit[Any, Any], seconds: float) -> None:
        import logging

        outcome = "success" if isinstance(end, Succeeded) else _kind_of_end(end.cause)
        logger = logging.getLogger(self.logger)
        level = logging.ERROR if outcome == "defect" else self.level
        if not logger.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "fxai_tool": call.tool.name,
            "fxai_call_id": call.call_id,
            "fxai_outcome": outcome,
            "fxai_seconds": seconds,
        }
        defect = None if isinstance(end, Succeeded) else next(iter(end.cause.defects), None)
        if defect is not None:
            fields["fxai_defect"] = type(defect).__name__
        if self.content:
            fields |= {"fxai_params": call.params, "fxai_result": _result(end)}
        message = "the tool %s ended in %s after %.3f s"
        traceback = defect if self.content else None
        logger.log(level, message, call.tool.name, outcome, seconds, extra=fields, exc_info=traceback)


def _kind_of_end(cause: Cause[Any]) -> str:
    if cause.defects:
        return "defect"
    return "interrupted" if cause.interrupted else "failure"


def _result(end: Exit[Any, Any]) -> Any:
    return end.value if isinstance(end, Succeeded) else next(iter(end.cause.failures), None)


# -- rate limit


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
        self._turn = Lock()  # of threads that share the layer

    def wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        """The run, when it has its token."""

        def begin(context: ContextOf[Any]) -> AnyEffect:
            with self._turn:
                wait = self._wait(context.fetch(Clock).monotonic())
                is_refused = wait > 0 and self._limit.failure is not None
                self._tokens -= not is_refused
            if is_refused:
                return FailCause(Cause((Fail(cast("Any", self._limit.failure)(call, wait)),)))
            return proceed if wait <= 0 else self._sleep(wait).and_then(proceed)

        return Within(begin)

    def _wait(self, now: float) -> float:
        """Seconds until there is a token for one more run."""
        if self._counted is not None:
            gained = (now - self._counted) / self._seconds
            self._tokens = min(float(self._limit.calls), self._tokens + gained)
        self._counted = now
        return (1 - self._tokens) * self._seconds

    def _sleep(self, seconds: float) -> EffectOf[None]:
        sleep: EffectOf[None] = Await(lambda fiber: fiber.clock().sleep(seconds))
        return sleep.on_exit(lambda end: Ask(lambda _: self._release(end)))

    def _release(self, end: Exit[Any, Any]) -> None:
        if not isinstance(end, Succeeded):
            with self._turn:
                self._tokens += 1  # of a run that never began


# -- retry


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


# -- timeout


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
        return Fold(limited, lambda cause: self._late(call, cause), _result_of)

    def _late(self, call: Invocation[Any], cause: Cause[Timeout]) -> AnyEffect:
        if not cause.failures:
            return FailCause(cause)
        return FailCause(Cause((self._reason(call), *cause.reasons[1:])))

    def _reason(self, call: Invocation[Any]) -> Fail[Any] | Die:
        if self.failure is not None:
            return Fail(self.failure(call))
        late = f"the handler of {call.tool.name!r} took longer than {self.seconds} s"
        return Die(TimeoutError(f"{late}; to make that a failure of the tool, give timeout(…, tool=…, failure=…)"))


def _result_of(end: Exit[Any, Any]) -> AnyEffect:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)
