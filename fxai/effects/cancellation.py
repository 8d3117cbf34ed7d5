"""Cancellation: protection from it, and the search for its origin. Use it to shield code and to find foreign errors.

A cancel scope of anyio repeats its request at each wait, and a shield of anyio blocks it. asyncio itself
(`Task.cancel`, `wait_for`, `timeout`, Ctrl-C) throws one exception into the awaited future of the task, past every
shield. Therefore fxai awaits an uninterruptible part through a `Guard`. The task waits for an object of the guard
instead of the future, and asyncio cancels this object. The guard records cancellations from outside. It passes on
cancellations from inside the part, such as from its own timeout or task group. At the end, the guard raises the
recorded cancellation.

Tasks, context variables, and cancel scopes stay unchanged. Without a guard, this module costs nothing.

Other code can raise a `CancelledError` that no scope and no task of the run requested: a future that a connection pool
cancelled, or a task of another library. asyncio and trio know all requests, so `is_foreign` queries them.

>>> from asyncio import CancelledError
>>> is_foreign(CancelledError())  # no event loop runs, so none has cancelled anything
True
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context as Variables
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, cast, final

import anyio
import msgspec
from typing_extensions import TypeVar

from fxai.effects.cause import ForeignCancellationError

if TYPE_CHECKING:
    import asyncio

_A = TypeVar("_A")
_SCOPE = "cancel scope "  # the prefix of each cancellation message of anyio


def event_loop() -> Literal["asyncio", "trio"] | None:
    """Return the name of the event loop that runs this code, or None."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"

    loops = sys.modules.get("asyncio")
    if loops is None:  # without this import, no event loop runs
        return None
    try:
        loops.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"


def _current_task() -> asyncio.Task[Any] | None:
    """Return the current task of asyncio. Return None on other event loops."""
    if event_loop() != "asyncio":
        return None
    task: asyncio.Task[Any] | None = sys.modules["asyncio"].current_task()  # an import here would take half of the time
    return task


class Request(msgspec.Struct, frozen=True):
    """A cancellation request of asyncio, with its message and the number of requests of the task up to this request."""

    task: Any
    message: Any
    count: int

    @property
    def stands(self) -> bool:
        """Return false if `Task.uncancel` revoked the request."""
        return bool(self.task.cancelling() >= self.count)

    def error(self) -> BaseException:
        """Return a new exception for the request."""
        from asyncio import CancelledError

        return CancelledError() if self.message is None else CancelledError(self.message)

    def exception(self, error: BaseException | None) -> BaseException:
        """Return `error` if it can stem from this request and no scope claims it. Otherwise return a new exception."""
        from asyncio import CancelledError

        if isinstance(error, CancelledError) and not is_of_scope(error.args[0] if error.args else None):
            return error
        return self.error()


def is_of_scope(message: Any) -> bool:
    """Return true if a cancel scope of anyio created the cancellation of an asyncio task with this message."""
    return isinstance(message, str) and _SCOPE in message


def request_of(raised: BaseException, delivered: int = 0) -> Request | None:
    """Return the request of asyncio itself that caused `raised`, and request the other cancellations again.

    Args:
        raised: Exception of the awaited code.
        delivered: Number of requests that the task had received before.
    """
    task = _current_task()
    if task is None or task.cancelling() <= delivered or anyio.current_effective_deadline() == float("-inf"):
        return None  # the cancellation of a cancel scope
    from asyncio import CancelledError

    seen: BaseException | None = raised
    while seen is not None and not isinstance(seen, CancelledError):  # an exception that a `finally` raised instead
        seen = None if seen.__suppress_context__ else seen.__context__  # `raise … from …` is the response of a timeout
    return None if seen is None else Request(task, seen.args[0] if seen.args else None, task.cancelling())


# -- foreign cancellations


def delivered_requests() -> int:
    """Return the number of cancellations by asyncio itself that this task received. Return 0 on other loops."""
    task = _current_task()
    if task is None or not task.cancelling():
        return 0
    return task.cancelling() - cast(bool, getattr(task, "_must_cancel", False))  # asyncio raises the last request later


def is_foreign(raised: BaseException, delivered: int = 0, *, shielded: bool = False) -> bool:
    """Return True if `raised` is a cancellation that no scope and no task of the run requested.

    A group of exceptions is foreign if it contains a foreign cancellation and otherwise only ordinary exceptions.

    Args:
        raised: Exception that this task just caught.
        delivered: Number of requests that the task had received before, from `delivered_requests`.
        shielded: True if no scope reaches the code that raised it. Default: False, so fxai queries the scopes.
    """
    if isinstance(raised, Exception):
        return False
    if isinstance(raised, BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", cast(Any, raised).exceptions)
        return all(isinstance(one, Exception) or is_foreign(one, delivered, shielded=shielded) for one in inner)
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    loop = event_loop()
    if asyncio is not None and isinstance(raised, asyncio.CancelledError):
        if loop != "asyncio":
            return True
        task = asyncio.current_task()
        is_requested = task is None or task.cancelling() > delivered
    elif trio is not None and isinstance(raised, trio.Cancelled):
        if loop != "trio":
            return True
        is_requested = False
    else:
        return False
    return not is_requested and (shielded or anyio.current_effective_deadline() != float("-inf"))


def is_bug(raised: BaseException) -> bool:
    """Return true if a plain function raised an ordinary exception or a cancellation. No request reaches such code."""
    return isinstance(raised, Exception) or is_foreign(raised, sys.maxsize, shielded=True)


async def refuse_foreign(awaitable: Awaitable[_A], delivered: int | None = None) -> _A:
    """Return the value of `awaitable`. Use it for user code that no fiber awaits.

    Args:
        awaitable: Awaitable of user code.
        delivered: Number of requests, like the parameter of `is_foreign`. Default: the current number of the task.

    Raises:
        ForeignCancellationError: If `awaitable` raises a cancellation that no scope and no task requested.
    """
    delivered = delivered_requests() if delivered is None else delivered
    try:
        return await awaitable
    except BaseException as raised:
        if is_foreign(raised, delivered):
            raise ForeignCancellationError.of(raised) from raised
        raise


_guard: ContextVar[Guard | None] = ContextVar("fxai_guard", default=None)  # callbacks of timeouts inherit it


@final
class Guard:
    """An awaitable that protects a task of asyncio from outside cancellations. `request` is the blocked request.

    With `after_first`, the guard passes on the first cancellation and blocks later cancellations during the unwinding.
    The guard calls `on_held` when it blocks a cancellation.
    """

    __slots__ = (
        "_awaitable",
        "_held",
        "_is_asked_before",
        "_is_over",
        "_loop",
        "_on_held",
        "_outer",
        "_passes",
        "_task",
        "request",
    )

    def __init__(
        self, awaitable: Awaitable[Any], *, after_first: bool = False, on_held: Callable[[], object] | None = None
    ) -> None:
        from asyncio import current_task, get_running_loop

        self._awaitable = awaitable
        self._loop = get_running_loop()
        self._task = cast("asyncio.Task[Any]", current_task())
        self._is_asked_before = cast(bool, getattr(self._task, "_must_cancel", False))  # in the current step
        self._outer: Guard | None = None
        self._passes = after_first
        self._on_held = on_held
        self._held: list[Any] = []  # the messages of the blocked cancellations
        self._is_over = False
        self.request: Request | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        outer = _guard.get()
        self._outer = outer if outer is not None and outer._task is self._task else None
        token = _guard.set(self)
        try:
            return (yield from _relay(self._awaitable, self._waiter))
        except GeneratorExit:
            self._held.clear()  # no task waits now
            raise
        finally:
            _guard.reset(token)
            self._outer = None  # copies of the context still hold this guard
            self._is_over = True
            if self._held:
                self._loop.call_soon(self._ask_again)
                yield _Waiter(None, self, self._loop)

    def _waiter(self, future: Any) -> Any:
        if future is not None:
            if not getattr(future, "_asyncio_future_blocking", False):
                return future  # not awaitable, so the task raises an error
            future._asyncio_future_blocking = False
        return _Waiter(future, self, self._loop)

    def holds(self, message: Any) -> bool:
        """Return true if the guard blocks a cancellation with this message.

        Timeouts and scopes inside count cancellation requests. The guard repeats a blocked request after they end.
        """
        is_asked_before, self._is_asked_before = self._is_asked_before, False
        if self._is_over:
            self.request = self.request or Request(self._task, message, self._task.cancelling())
        elif is_of_scope(message):
            return is_asked_before  # the scope repeats its request
        elif not is_asked_before and self._is_inside():
            return False
        elif self._passes:
            self._passes = False
            return False
        else:
            self._held.append(message)
            self._task.uncancel()
            if self._on_held is not None:
                self._on_held()
        return True

    def _ask_again(self) -> None:
        for message in self._held:
            self._task.cancel(message)

    def _is_inside(self) -> bool:
        """Return true if the awaited code started the current code. A timeout callback has the context of its start."""
        guard = _guard.get()
        while guard is not None and guard is not self:
            guard = guard._outer
        return guard is self


@final
class _Waiter(msgspec.Struct, eq=False):
    """The object that a task awaits instead of a future or its next turn. It receives the cancellations of the task."""

    _future: asyncio.Future[Any] | None
    _guard: Guard
    _loop: asyncio.AbstractEventLoop
    _asyncio_future_blocking: bool = True  # marks a future of any class for asyncio

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop if self._future is None else self._future.get_loop()

    def add_done_callback(self, callback: Callable[[Self], object], *, context: Variables | None = None) -> None:
        if self._future is None:
            self._loop.call_soon(callback, self, context=context)
        else:
            self._future.add_done_callback(lambda _: callback(self), context=context)

    def done(self) -> bool:
        return self._future is not None and self._future.done()

    def result(self) -> Any:
        return None if self._future is None else self._future.result()

    def cancel(self, msg: Any = None) -> bool:
        """Return true if the cancellation is handled. If false, the task raises it at its next turn."""
        if self._guard.holds(msg):
            return True
        return self._future is not None and self._future.cancel(msg=msg)


def _relay(awaitable: Awaitable[Any], around: Callable[[Any], Any]) -> Generator[Any, Any, Any]:
    """Await `awaitable` and replace each awaited future with `around(future)`, which can also raise."""
    steps: Any = awaitable.__await__()
    step: Callable[[], Any] = steps.__next__
    while True:
        try:
            waited = step()
        except StopIteration as stop:
            return stop.value
        try:
            yield around(waited)
        except BaseException as raised:
            step = partial(steps.throw, raised)
        else:
            step = steps.__next__


@final
class interrupt(msgspec.Struct, eq=False):  # noqa: N801  # callers use it like a function: `await interrupt(…)`
    """An awaitable that receives a cancellation at its first wait."""

    _awaitable: Awaitable[Any]
    _request: Request | None

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from _relay(self._awaitable, self._cancel))

    def _cancel(self, future: Any) -> Any:
        request, self._request = self._request, None
        if request is None:
            return future

        token = _guard.set(None)  # the request comes from outside every guard inside the awaitable
        try:
            is_taken = future is not None and future.cancel(msg=request.message)
        finally:
            _guard.reset(token)
        if not is_taken:
            raise request.error()
        return future


async def shield(awaitable: Awaitable[_A], on_held: Callable[[], object] | None = None) -> _A:
    """Return the value of `awaitable`, protected from enclosing cancel scopes and from asyncio itself.

    Args:
        awaitable: Awaitable that runs until its end.
        on_held: Function that fxai calls when it blocks a cancellation by asyncio itself, in the requesting task.

    Raises:
        BaseException: The blocked cancellation by asyncio, with the errors of `awaitable` attached.
    """
    if event_loop() != "asyncio":
        with anyio.CancelScope(shield=True):
            return await awaitable
    guard = Guard(awaitable, on_held=on_held)
    ended: tuple[Any, BaseException | None] = None, None
    with anyio.CancelScope(shield=True):
        ended = await _end_of(guard)
    return cast(_A, _outcome(guard, *ended))


async def cancelled_once(awaitable: Awaitable[_A]) -> _A:
    """Return the value of `awaitable`, which asyncio itself cancels at most once. Its cleanup then runs completely.

    Use it for coroutines of other libraries, because a second `Task.cancel` would interrupt their `finally`. Cancel
    scopes of anyio and trio still interrupt it. Code that waits in a `finally` shields itself from these scopes.

    Raises:
        BaseException: The exceptions of `awaitable`, or a cancellation by asyncio during its unwinding if `awaitable`
            did not raise a cancellation.
    """
    if event_loop() != "asyncio":
        return await awaitable
    guard = Guard(awaitable, after_first=True)
    return cast(_A, _outcome(guard, *await _end_of(guard)))


async def _end_of(guard: Guard) -> tuple[Any, BaseException | None]:
    try:
        return await guard, None
    except BaseException as error:
        return None, error


def _outcome(guard: Guard, value: Any, raised: BaseException | None) -> Any:
    request = guard.request
    if request is not None and request.stands and (raised is None or isinstance(raised, Exception)):
        raise request.error() from raised
    if raised is not None:
        raise raised
    return value
