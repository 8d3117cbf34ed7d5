"""Cancellation: how fxai holds it off, and how fxai finds out who requested it.

A cancel scope of anyio is asked again at each wait, and its shield holds it off. asyncio itself (`Task.cancel`,
`wait_for`, `timeout`, Ctrl-C) throws one exception into whatever the task waits for, past every shield. So a part
that is not to be interrupted is awaited through a `Guard`: the task waits for an object of the guard's in place of
the future, and it is that object which asyncio cancels. The guard notes what came from outside and lets through what
was meant for the part itself: a timeout inside it, a task group inside it. The guard raises what was noted.

Tasks, context variables and cancel scopes stay as they are, and nothing here costs anything where nothing is guarded.

Other code can raise a `CancelledError` that no scope and no task of the run requested: a future that a connection pool
cancelled, a task of another library. asyncio and trio know what was requested, so `is_foreign` asks them.

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
_SCOPE = "cancel scope "  # in the message of each cancellation that anyio makes


def event_loop() -> Literal["asyncio", "trio"] | None:
    """The event loop that runs this code, or None."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"

    loops = sys.modules.get("asyncio")
    if loops is None:  # so it runs nothing either
        return None
    try:
        loops.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"


class Request(msgspec.Struct, frozen=True):
    """A cancellation that asyncio was asked for: its message, and how many the task had been asked for with it."""

    task: Any
    message: Any
    count: int

    @property
    def stands(self) -> bool:
        """False once it was taken back by `Task.uncancel`."""
        return bool(self.task.cancelling() >= self.count)

    def error(self) -> BaseException:
        """A new exception for it."""
        from asyncio import CancelledError

        return CancelledError() if self.message is None else CancelledError(self.message)

    def exception(self, error: BaseException | None) -> BaseException:
        """`error`, if it may be what was raised for this, and no scope takes it for its own; else a new one."""
        from asyncio import CancelledError

        if isinstance(error, CancelledError) and not is_of_scope(error.args[0] if error.args else None):
            return error
        return self.error()


def is_of_scope(message: Any) -> bool:
    """Whether a cancellation of an asyncio task with this message was made by a cancel scope of anyio."""
    return isinstance(message, str) and _SCOPE in message


def request_of(raised: BaseException, delivered: int = 0) -> Request | None:
    """The cancellation of this task by asyncio itself that `raised` is of; the others are asked for again.

    Args:
        raised: What was awaited raised it.
        delivered: The number of requests that the task had received before.
    """
    if event_loop() != "asyncio":
        return None
    from asyncio import CancelledError, current_task

    task = current_task()
    if task is None or task.cancelling() <= delivered or anyio.current_effective_deadline() == float("-inf"):
        return None  # the latter: by a cancel scope
    seen: BaseException | None = raised
    while seen is not None and not isinstance(seen, CancelledError):  # what a `finally` raised in its place
        seen = None if seen.__suppress_context__ else seen.__context__  # `raise … from …` is a timeout's answer to it
    return None if seen is None else Request(task, seen.args[0] if seen.args else None, task.cancelling())


# -- cancellations that nobody requested


def delivered_requests() -> int:
    """Return the number of cancellations by asyncio itself that this task has received; 0 on other event loops."""
    if event_loop() != "asyncio":
        return 0
    from asyncio import current_task

    task = current_task()
    if task is None or not task.cancelling():
        return 0
    return task.cancelling() - cast(bool, getattr(task, "_must_cancel", False))  # the latter: asyncio will raise it


def is_foreign(raised: BaseException, delivered: int = 0, *, shielded: bool = False) -> bool:
    """Return True if `raised` is a cancellation that no scope and no task of the run requested.

    A group of exceptions is foreign if it contains one of these and, apart from them, only ordinary exceptions.

    Args:
        raised: An exception that this task caught just now.
        delivered: The number of requests that the task had received before, by `delivered_requests`.
        shielded: True if no scope reaches the code that raised it. Default: False, fxai asks the scopes of the task.
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
    """Return True if a plain function raised an ordinary exception or a cancellation: no request arrives in there."""
    return isinstance(raised, Exception) or is_foreign(raised, sys.maxsize, shielded=True)


async def refuse_foreign(awaitable: Awaitable[_A], delivered: int | None = None) -> _A:
    """Return the value of `awaitable`; for code of users that no fiber awaits.

    Args:
        awaitable: What is awaited.
        delivered: As for `is_foreign`. Default: None, as many as the task has received now.

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


_guard: ContextVar[Guard | None] = ContextVar("fxai_guard", default=None)  # inherited by the callbacks of timeouts


@final
class Guard:
    """An awaitable in which a task of asyncio is not cancelled from outside; `request` is what was held off.

    With `after_first` it is cancelled once: what is held off is what comes while it unwinds. `on_held` is called when
    something is held off.
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
        self._is_asked_before = cast(bool, getattr(self._task, "_must_cancel", False))  # by a step, just now
        self._outer: Guard | None = None
        self._passes = after_first
        self._on_held = on_held
        self._held: list[Any] = []  # the messages of what is kept from the awaitable
        self._is_over = False
        self.request: Request | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        outer = _guard.get()
        self._outer = outer if outer is not None and outer._task is self._task else None
        token = _guard.set(self)
        try:
            return (yield from _relay(self._awaitable, self._waiter))
        except GeneratorExit:
            self._held.clear()  # no task waits any more
            raise
        finally:
            _guard.reset(token)
            self._outer = None  # contexts that were copied meanwhile hold this guard
            self._is_over = True
            if self._held:
                self._loop.call_soon(self._ask_again)
                yield _Waiter(None, self, self._loop)

    def _waiter(self, future: Any) -> Any:
        if future is not None:
            if not getattr(future, "_asyncio_future_blocking", False):
                return future  # nothing that can be waited for: the task says so
            future._asyncio_future_blocking = False
        return _Waiter(future, self, self._loop)

    def holds(self, message: Any) -> bool:
        """Whether a cancellation with this message, made now, is kept from what is awaited.

        Timeouts and scopes inside count the cancellations that were asked for: this one counts when they are over.
        """
        is_asked_before, self._is_asked_before = self._is_asked_before, False
        if self._is_over:
            self.request = self.request or Request(self._task, message, self._task.cancelling())
        elif is_of_scope(message):
            return is_asked_before  # a scope asks again
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
        """True where what runs now was begun by what is awaited: a timeout's callback has the context of its start."""
        guard = _guard.get()
        while guard is not None and guard is not self:
            guard = guard._outer
        return guard is self


@final
class _Waiter(msgspec.Struct, eq=False):
    """What a task waits for in place of a future, or of its next turn: the cancellations of the task come here."""

    _future: asyncio.Future[Any] | None
    _guard: Guard
    _loop: asyncio.AbstractEventLoop
    _asyncio_future_blocking: bool = True  # how asyncio knows a future, of any class

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
        """Whether the cancellation is taken care of; else the task raises it at its next turn."""
        if self._guard.holds(msg):
            return True
        return self._future is not None and self._future.cancel(msg=msg)


def _relay(awaitable: Awaitable[Any], around: Callable[[Any], Any]) -> Generator[Any, Any, Any]:
    """What is awaited, with each future that it waits for replaced by what `around` gives; it may raise instead."""
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
class interrupt(msgspec.Struct, eq=False):  # noqa: N801  # used as a function: `await interrupt(awaitable, request)`
    """The awaitable, cancelled where it first waits."""

    _awaitable: Awaitable[Any]
    _request: Request | None

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from _relay(self._awaitable, self._cancel))

    def _cancel(self, future: Any) -> Any:
        request, self._request = self._request, None
        if request is None:
            return future

        token = _guard.set(None)  # it comes from outside of every guard that has begun in the awaitable
        try:
            is_taken = future is not None and future.cancel(msg=request.message)
        finally:
            _guard.reset(token)
        if not is_taken:
            raise request.error()
        return future


async def shield(awaitable: Awaitable[_A], on_held: Callable[[], object] | None = None) -> _A:
    """The value of `awaitable`, which neither a cancel scope around nor asyncio itself interrupts.

    Args:
        awaitable: what runs to its end.
        on_held: is called when a cancellation by asyncio itself is held off, in whichever task asks for it.

    Raises:
        BaseException: the cancellation by asyncio that came meanwhile, with what `awaitable` raised attached.
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
    """The value of `awaitable`, which asyncio itself cancels at most once: what that begins, runs to its end.

    It is for coroutines of others, whose `finally` a second `Task.cancel` would cut short. Cancel scopes of anyio and
    trio interrupt it as ever: those who wait in a `finally` shield it from them.

    Raises `BaseException`: what `awaitable` raises; a cancellation by asyncio that came while it unwound, if it did not
    raise one.
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
