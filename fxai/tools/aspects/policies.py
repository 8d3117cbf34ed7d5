"""The ready aspects `cache`, `log`, `rate_limit`, `retry`, and `timeout`. Use them to wrap the handlers of a layer.

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
from typing_extensions import TypeVar, override

from fxai.effects.cause import AnyExit, Cause, Die, Fail, Succeeded
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, Ask, Await, EffectOf, FailCause, Fold, Succeed, Timeout, Within
from fxai.effects.schedule import Schedule
from fxai.effects.service import Clock
from fxai.effects.waker import SharedEvent
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError
from fxai.tools.annotation import Idempotent, Readonly
from fxai.tools.aspects.aspect import Aspect, Invocation, Stateless, Wrap
from fxai.tools.tool import AnyTool, Tool

_P = TypeVar("_P")
_F = TypeVar("_F")


# -- cache

_TEXT = msgspec.json.Encoder(order="sorted").encode


def cache(*, ttl: float | None = None, size: int = 1024, key: Callable[[Invocation], Hashable] | None = None) -> Aspect:
    """Return an aspect that stores successes and returns them for equal calls.

    The aspect does not store failures and defects. Equal calls at the same time share one run and its exit. If this run
    is interrupted, a waiting call runs the handler again. Only the first caller receives preliminary values. The cache
    returns the stored value itself, so do not change it. The cache exists as long as the wrapped layer.

    Args:
        ttl: Seconds by the `Clock` until a stored success expires. Default: None, never.
        size: Maximum number of stored successes, for all handlers of the layer. If the cache is full, it removes the
            least recently used success. Default: 1024.
        key: Function that returns a key. Calls of one tool with the same key are equal. Default: the parameters as
            JSON. If they have no JSON form and `key` is None, the call ends with a defect.

    Raises:
        ValueError: If `size` is less than 1, or if `ttl` is not positive.
    """
    if size < 1 or (ttl is not None and ttl <= 0):
        raise ValueError(f"cache: size and ttl must be positive, got size={size} and ttl={ttl}")
    return Aspect.of(Caching(ttl, size, key))


@final
class Caching(msgspec.Struct, frozen=True):
    """The settings of a cache."""

    ttl: float | None
    size: int
    key: Callable[[Invocation], Hashable] | None

    def __call__(self) -> Wrap:
        """Return the function that wraps handlers in an empty cache."""
        return Cache(self).wrap


@final
class _CachedRun:
    """A run of a handler. `exit` is None while the handler runs."""

    __slots__ = ("exit", "ready", "until")

    def __init__(self) -> None:
        self.exit: AnyExit | None = None
        self.until: float | None = None
        self.ready: SharedEvent | None = None


@final
class Cache:
    """The stored successes by call."""

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._runs: dict[Hashable, _CachedRun] = {}  # least recently used first
        self._turn = Lock()  # several threads can share the layer

    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        """Return the stored success, or run the handler."""

        def start(context: AnyContext) -> AnyEffect:
            key = (call.tool.identity, (self._caching.key or _encode)(call))
            with self._turn:
                run = self._runs.pop(key, None)
                if run is None or (run.until is not None and run.until <= context.fetch(Clock).monotonic()):
                    run = self._runs[key] = _CachedRun()
                    return proceed.on_exit(self._finishing(key, run))
                self._runs[key] = run
            return Succeed(cast("Any", run.exit).value) if run.exit is not None else _join(run, Within(start))

        return Within(start)

    def _finishing(self, key: Hashable, run: _CachedRun) -> Callable[[AnyExit], EffectOf[None]]:
        def finish(end: AnyExit, now: float) -> None:
            run.exit = end
            run.until = None if self._caching.ttl is None else now + self._caching.ttl
            with self._turn:
                if not isinstance(end, Succeeded) and self._runs.get(key) is run:
                    del self._runs[key]
                self._trim()
            if run.ready is not None:
                run.ready.set()

        return lambda end: Ask(lambda context: finish(end, context.fetch(Clock).monotonic()))

    def _trim(self) -> None:
        while len(self._runs) > self._caching.size:
            oldest = next((key for key, run in self._runs.items() if run.exit is not None), None)
            if oldest is None:  # every run is still active
                return
            del self._runs[oldest]


def _join(run: _CachedRun, again: AnyEffect) -> AnyEffect:
    """Wait for an active run and return its exit. If the run was interrupted, run the handler again."""
    ready = run.ready = run.ready or SharedEvent()

    def finish(_: object) -> AnyEffect:
        end = cast("AnyExit", run.exit)
        if isinstance(end, Succeeded):
            return Succeed(end.value)
        return again if end.cause.interrupted else FailCause(end.cause)

    async def wait() -> None:
        if run.exit is None:  # another thread can end the run before this line
            await ready.wait()

    waited: EffectOf[Any] = Await(lambda _: wait())
    return waited.flat_map(finish)


def _encode(call: Invocation) -> bytes:
    parameters = call.tool.parameters
    try:
        plain = parameters.encode_unsafe(call.params) if isinstance(parameters, Schema) else call.params
        return _TEXT(plain)
    except (DecodeError, TypeError, ValueError) as error:
        raise TypeError(f"parameters of {call.tool.name!r} have no JSON form: {error}. Pass cache(key=…).") from None


# -- log

_INFO: Final = 20  # the value in `logging`, which is slow to import


def log(*, logger: str = "fxai.tools", level: int = _INFO, content: bool = False) -> Aspect:
    """Return an aspect that logs the end of each run of a handler.

    The record names the tool. It has the fields `fxai_tool`, `fxai_call_id`, `fxai_outcome` (`"success"`, `"failure"`,
    `"defect"`, or `"interrupted"`), and `fxai_seconds` (by the `Clock`). For a defect, `fxai_defect` contains the class
    of the exception.

    Args:
        logger: Name of the logger. Default: `"fxai.tools"`.
        level: Level of successes, failures, and interruptions. A defect always has the level ERROR. Default:
            `logging.INFO`.
        content: True to log data that may be secret: the parameters (`fxai_params`), the result (`fxai_result`), and
            the traceback of a defect. The program receives the traceback in any case. Default: False.
    """
    return Aspect.of(Logging(logger, level, content))


@final
class Logging(Stateless, frozen=True):
    """The settings of a log."""

    logger: str
    level: int
    content: bool

    @override
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        def start(context: AnyContext) -> AnyEffect:
            clock: Clock = context.fetch(Clock)
            started = clock.monotonic()

            def write(end: AnyExit) -> EffectOf[None]:
                return Ask(lambda _: self._write(call, end, clock.monotonic() - started))

            return proceed.on_exit(write)

        return Within(start)

    def _write(self, call: Invocation, end: AnyExit, seconds: float) -> None:
        import logging

        cause = Cause[Any](()) if isinstance(end, Succeeded) else end.cause
        is_over = "interrupted" if cause.interrupted else "failure" if cause.reasons else "success"
        outcome = "defect" if cause.defects else is_over
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
        defect = next(iter(cause.defects), None)
        if defect is not None:
            fields["fxai_defect"] = type(defect).__name__
        if self.content:
            result = end.value if isinstance(end, Succeeded) else next(iter(cause.failures), None)
            fields |= {"fxai_params": call.params, "fxai_result": result}
        message = "tool %s ended with %s after %.3f s"
        traceback = defect if self.content else None
        logger.log(level, message, call.tool.name, outcome, seconds, extra=fields, exc_info=traceback)


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
    failure: Callable[[Invocation, float], Any] | None = None,
) -> Aspect:
    """Return a token bucket: `calls` runs can start immediately, then one run per `per / calls` seconds by the `Clock`.

    Runs that must wait start in the order of arrival. With `failure`, they fail instead. All handlers of the wrapped
    layer share one bucket. The bucket is full when fxai builds the layer.

    Args:
        calls: Maximum number of runs in `per` seconds.
        per: Seconds.
        tool: Tool of the limited handler. Default: the handlers of all tools.
        failure: Function that returns the typed failure of a call that would have to wait. Its arguments are the
            invocation and the seconds to wait. Default: None, the call waits.

    Raises:
        ValueError: If `calls` is less than 1, or if `per` is not positive.
        SchemaError: If the tool is external. It has no handler in this program.
    """
    if calls < 1 or per <= 0:
        raise ValueError(f"rate_limit: calls and per must be positive, got {calls} calls per {per} s")
    return Aspect.of(RateLimitSettings(calls, per, failure), tool)


@final
class RateLimitSettings(msgspec.Struct, frozen=True):
    """The settings of a rate limit."""

    calls: int
    per: float
    failure: Callable[[Invocation, float], Any] | None

    def __call__(self) -> Wrap:
        """Return the function that wraps handlers in a full bucket."""
        return Bucket(self).wrap


@final
class Bucket:
    """A token bucket with one token per run that can start. The number is negative while runs wait."""

    def __init__(self, limit: RateLimitSettings) -> None:
        self._limit = limit
        self._seconds = limit.per / limit.calls  # per token
        self._tokens = float(limit.calls)
        self._counted: float | None = None
        self._turn = Lock()  # several threads can share the layer

    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        """Run the handler when it has a token."""

        def start(context: AnyContext) -> AnyEffect:
            with self._turn:
                wait = self._wait(context.fetch(Clock).monotonic())
                is_refused = wait > 0 and self._limit.failure is not None
                self._tokens -= not is_refused
            if is_refused:
                return FailCause(Cause((Fail(cast("Any", self._limit.failure)(call, wait)),)))
            return proceed if wait <= 0 else self._sleep(wait).and_then(proceed)

        return Within(start)

    def _wait(self, now: float) -> float:
        """Return the seconds until a token is available for one more run."""
        if self._counted is not None:
            gained = (now - self._counted) / self._seconds
            self._tokens = min(float(self._limit.calls), self._tokens + gained)
        self._counted = now
        return (1 - self._tokens) * self._seconds

    def _sleep(self, seconds: float) -> EffectOf[None]:
        sleep: EffectOf[None] = Await(lambda fiber: fiber.clock().sleep(seconds))
        return sleep.on_exit(lambda end: Ask(lambda _: self._release(end)))

    def _release(self, end: AnyExit) -> None:
        if not isinstance(end, Succeeded):
            with self._turn:
                self._tokens += 1  # this run never started


# -- retry


@overload
def retry(schedule: Schedule[object, Any]) -> Aspect: ...
@overload
def retry(schedule: Schedule[_F, Any], *, tool: Tool[Any, Any, _F]) -> Aspect: ...
def retry(schedule: Schedule[Any, Any], *, tool: AnyTool | None = None) -> Aspect:
    """Return an aspect that repeats a handler after a typed failure, as long as `schedule` allows.

    The call then ends with the last failure. The aspect does not repeat the handler after a defect, or after a failure
    whose `is_retryable` is False. If a failure has a `retry_after`, the aspect waits at least so many seconds. Each
    run is complete, so it emits its preliminary values again.

    Args:
        schedule: Schedule of the retries. With `tool`, it receives the failures of this tool.
        tool: Tool of the repeated handler, with any annotations. Default: the handlers of all tools with the annotation
            `Idempotent` or `Readonly`. The handlers of other tools run once.

    Raises:
        SchemaError: If the tool is external. It has no handler in this program.
    """
    return Aspect.of(Retrying(schedule, asking=tool is None), tool)


@final
class Retrying(Stateless, frozen=True):
    """The settings of a retry."""

    schedule: Schedule[Any, Any]
    asking: bool
    """True if the aspect repeats only tools whose annotations allow it."""

    @override
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        if self.asking and not (call.tool.get(Idempotent) or call.tool.get(Readonly)):
            return proceed
        return proceed.retry(self.schedule)


# -- timeout


@overload
def timeout(seconds: float) -> Aspect: ...
@overload
def timeout(seconds: float, *, tool: Tool[_P, Any, _F], failure: Callable[[Invocation[_P]], _F]) -> Aspect: ...
def timeout(
    seconds: float, *, tool: AnyTool | None = None, failure: Callable[[Invocation], Any] | None = None
) -> Aspect:
    """Return an aspect that stops a handler after some time. The finalizers of the handler run first.

    fxai cannot stop a handler in a thread (`blocking=True`). It waits for the thread up to the option `grace`.

    Args:
        seconds: Maximum duration of a run in seconds, by the `Clock`.
        tool: Tool of the stopped handler. Default: the handlers of all tools.
        failure: Function that returns the typed failure of a call that takes too long. Default: None, the call ends
            with a `TimeoutError` as a defect, because no tool declares this failure.

    Raises:
        ValueError: If `seconds` is not positive.
        SchemaError: If the tool is external. It has no handler in this program.
    """
    if seconds <= 0:
        raise ValueError(f"timeout must be positive, got {seconds} s")
    return Aspect.of(Limiting(seconds, failure), tool)


@final
class Limiting(Stateless, frozen=True):
    """The settings of a timeout."""

    seconds: float
    failure: Callable[[Invocation], Any] | None

    @override
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        # The exit is the value, to distinguish this timeout from a `Timeout` that the handler failed with.
        limited = proceed.exit().timeout(self.seconds)
        return Fold(limited, lambda cause: self._late(call, cause), _result_of)

    def _late(self, call: Invocation, cause: Cause[Timeout]) -> AnyEffect:
        if not cause.failures:
            return FailCause(cause)
        late = f"handler of {call.tool.name!r} ran longer than {self.seconds} s"
        defect = TimeoutError(f"{late}. For a typed failure, pass timeout(…, tool=…, failure=…).")
        reason = Die(defect) if self.failure is None else Fail(self.failure(call))
        return FailCause(Cause((reason, *cause.reasons[1:])))


def _result_of(end: AnyExit) -> AnyEffect:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)
