"""Operators that run programs concurrently. Use them for parallel requests, races, background work, and locks.

`for_each`, `all_`, and `race` wait for their children before the enclosing program continues. A forked program runs in
the background until its scope closes. A `Lock` admits one program at a time, across all threads. Each child runs inside
the step of its parent until its first wait. Only a waiting child receives a task. The first failure interrupts the
other children, and the parent continues after their finalizers.

>>> from fxai.effects import fx
>>> fx.run(fx.all_(fx.sleep(0.001).as_("a"), fx.succeed("b")))
('a', 'b')
>>> fx.run(fx.race(fx.sleep(60), fx.succeed("first")))
'first'
>>> def program():
...     handle = yield from fx.fork(fx.sleep(0.001).as_("done"))
...     return (yield from handle.join())
>>> fx.run(fx.scoped(fx.gen(program)()))
'done'
>>> lock = Lock()
>>> fx.run_sync(fx.scoped(lock.hold().map(lambda _: lock.is_held))), lock.is_held
(True, False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, cast, final, overload
from weakref import WeakValueDictionary

import anyio
import msgspec
from anyio.lowlevel import checkpoint, current_token
from typing_extensions import TypeVar

from fxai.effects.cancellation import event_loop
from fxai.effects.cause import AnyCause, AnyExit, Cause, Die, Exit, Failed, Interrupt, Succeeded, attach
from fxai.effects.context import AnyContext, Branches, ContextOf, branches_of
from fxai.effects.effect import (
    AnyEffect,
    Ask,
    Await,
    AwaitExit,
    EffectOf,
    FailCause,
    Generate,
    Local,
    OnExit,
    Suspend,
    Within,
    nesting,
)
from fxai.effects.fiber import FAIR, TURN_TAKEN, Children, Fiber, Hold, Inside, Pending, inside, report, report_cause
from fxai.effects.mistake import refuse_as_value
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.task import Held, spawn, stops_the_loop, task_group

if TYPE_CHECKING:
    _A = TypeVar("_A")
    _B = TypeVar("_B")
    _C = TypeVar("_C")
    _D = TypeVar("_D")
    _E = TypeVar("_E")
    _E2 = TypeVar("_E2")
    _E3 = TypeVar("_E3")
    _E4 = TypeVar("_E4")
    _R = TypeVar("_R")
    _R2 = TypeVar("_R2")
    _R3 = TypeVar("_R3")
    _R4 = TypeVar("_R4")
    _T = TypeVar("_T")


def collect(effects: Iterable[EffectOf[_A, _E, _R]]) -> EffectOf[list[_A], _E, _R]:
    """Return the effect of the values of `effects`, which run one after another.

    Raises:
        TypeError: If `effects` is a single effect, which only `yield from` can iterate.
    """
    return for_each(effects, lambda effect: effect)


def for_each(
    items: Iterable[_T], f: Callable[[_T], EffectOf[_B, _E, _R]], *, concurrency: int | None = 1
) -> EffectOf[list[_B], _E, _R]:
    """Return the effect of the values of `f(item)`, in the order of the items.

    If an effect fails, fxai interrupts the others and fails with the first failure. The cause also contains the
    failures of the interrupted effects.

    Args:
        items: Values, read once per run before any effect starts.
        f: Function that returns the effect of an item.
        concurrency: Maximum number of concurrent effects. None for no limit. Default: 1.

    Raises:
        TypeError: If `items` is an effect, which only `yield from` can iterate.
        ValueError: If `concurrency` is less than 1.
    """
    if isinstance(cast(object, items), EffectOf):
        refuse_as_value(items)
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, or None for no limit, got {concurrency}")
    if concurrency == 1:
        return Generate(_one_by_one, (items, f), {})

    def start(fiber: Fiber) -> Any:
        todo = list(items)
        effects = (Suspend(lambda item=item: f(item)) for item in todo)  # type: ignore[misc]
        return _children(fiber, "each", len(todo)).run(effects, concurrency or len(todo), list)

    return AwaitExit(start)


def _one_by_one(
    items: Iterable[_T], f: Callable[[_T], EffectOf[_B, _E, _R]]
) -> Generator[EffectOf[Any, _E, _R], object, list[_B]]:
    values: list[_B] = []
    todo = list(items)
    branches: Branches | None = cast(Any, (yield cast(Any, _EACH)))
    if branches is None:
        for item in todo:
            values.append((yield from f(item)))  # noqa: PERF401
        return values
    for index, item in enumerate(todo):
        effect: EffectOf[_B, _E, Any] = Local(f(item), lambda _, at=index: branches.context_of(at))  # type: ignore[misc]
        values.append((yield from effect))
    return values


_EACH: EffectOf[Any, Never, None] = Ask(lambda context: branches_of(context, "each"))


def parallel(effects: Sequence[AnyEffect]) -> EffectOf[list[Any], Any, Any]:
    """Return the effect of the values of all `effects`, which run concurrently."""
    return AwaitExit(lambda fiber: _children(fiber, "all", len(effects)).run(iter(effects), len(effects), list))


# The overloads with Never: pyright solves `E | E2` to Unknown when both are Never.
@overload
def all_(a: EffectOf[_A, Never, _R], b: EffectOf[_B, Never, _R2], /) -> EffectOf[tuple[_A, _B], Never, _R | _R2]: ...
@overload
def all_(a: EffectOf[_A, _E, _R], b: EffectOf[_B, _E2, _R2], /) -> EffectOf[tuple[_A, _B], _E | _E2, _R | _R2]: ...
@overload
def all_(
    a: EffectOf[_A, Never, _R], b: EffectOf[_B, Never, _R2], c: EffectOf[_C, Never, _R3], /
) -> EffectOf[tuple[_A, _B, _C], Never, _R | _R2 | _R3]: ...
@overload
def all_(
    a: EffectOf[_A, _E, _R], b: EffectOf[_B, _E2, _R2], c: EffectOf[_C, _E3, _R3], /
) -> EffectOf[tuple[_A, _B, _C], _E | _E2 | _E3, _R | _R2 | _R3]: ...
@overload
def all_(
    a: EffectOf[_A, Never, _R], b: EffectOf[_B, Never, _R2], c: EffectOf[_C, Never, _R3], d: EffectOf[_D, Never, _R4], /
) -> EffectOf[tuple[_A, _B, _C, _D], Never, _R | _R2 | _R3 | _R4]: ...
@overload
def all_(
    a: EffectOf[_A, _E, _R], b: EffectOf[_B, _E2, _R2], c: EffectOf[_C, _E3, _R3], d: EffectOf[_D, _E4, _R4], /
) -> EffectOf[tuple[_A, _B, _C, _D], _E | _E2 | _E3 | _E4, _R | _R2 | _R3 | _R4]: ...
def all_(*effects: Any) -> Any:
    """Run two to four effects concurrently and return their values as a tuple. For more effects, use `for_each`."""
    return parallel(effects).map(tuple)


@overload
def race(a: EffectOf[_A, Never, _R], b: EffectOf[_B, Never, _R2]) -> EffectOf[_A | _B, Never, _R | _R2]: ...
@overload
def race(a: EffectOf[_A, _E, _R], b: EffectOf[_B, _E2, _R2]) -> EffectOf[_A | _B, _E | _E2, _R | _R2]: ...
def race(a: Any, b: Any) -> Any:
    """Return the value of the first success and interrupt the other effect. If both fail, combine their causes."""

    def first(values: list[Any]) -> Any:
        return next(v for v in values if v is not _NONE)

    return AwaitExit(lambda fiber: _children(fiber, "race", 2, Succeeded).run(iter((a, b)), 2, first))


def cut(effect: EffectOf[_A, _E, _R], hold: Hold, failure: _E2) -> EffectOf[_A, _E | _E2, _R]:
    """Return an effect that fails with `failure` if `hold` cancels its scope.

    The cause also contains the failures of its finalizers.
    """
    return AwaitExit(lambda fiber: fiber.cut(effect, hold, failure))


_NONE = object()
_BEGUN = 24  # children started inside the steps of their parents, before a child receives its own task
_Started: TypeAlias = tuple[int, Fiber, Pending, Variables]


def start_child(
    effect: AnyEffect, parent: Fiber, env: AnyContext | None = None, *, later: bool = False
) -> tuple[Fiber, Pending | None, Variables]:
    """Run a child until its first wait, in a copy of the context variables. Return it and its awaitable, if any.

    Children of concurrent operators start this way. A child that never waits needs no task, and its changes to context
    variables stay in the copy. If the child waits, start a task with `variables.run` and continue with `drive`. With
    `later`, the child has not started and waits for its turn.
    """
    fiber = Fiber(parent.env if env is None else env)
    variables = copy_context()
    here = nesting.here
    if later or here.begun >= _BEGUN:
        fiber.postpone(effect)
        return fiber, TURN_TAKEN, variables

    here.begun += 1
    try:
        pending = variables.run(fiber.step, effect, None, None)
    finally:
        here.begun -= 1
    return fiber, pending, variables


class _Children(msgspec.Struct, eq=False):
    """The children of one operator, with their values, the causes of their failures, and the state of the operator."""

    _fiber: Fiber
    _values: list[Any]
    _decisive: type[AnyExit]  # the first exit of this type stops the other children
    _branches: Branches | None = None
    _causes: list[AnyCause] = []
    _stopped: bool = False
    _fatal: BaseException | None = None
    _running: int = 0
    _freed: anyio.Event | None = None
    _budget: int = FAIR  # instructions of children before other tasks get a turn
    _tasks: Any = None  # the task group, once a child waits

    def run(self, effects: Iterator[AnyEffect], limit: int, give: Callable[[list[Any]], Any]) -> Any:
        """Return the exit if no child waits. Otherwise return the awaitable of the exit."""
        if not self._fiber.fair:
            return Inside(self._in_turn(effects, give))
        for index, effect in enumerate(effects):
            started = self._start(index, effect)
            if started is not None:
                return self._in_tasks(started, effects, limit, give)
            if self._stopped:
                break

        return self._exit(give)

    def _start(self, index: int, effect: AnyEffect) -> _Started | None:
        """Start a child. Return it if it has to wait, and None if it has ended."""
        env = None if self._branches is None else self._branches.context_of(index)
        child, pending, variables = start_child(effect, self._fiber, env, later=self._budget < 0)
        if pending is not None:
            return index, child, pending, variables

        self._budget -= FAIR - child.left + 1
        self._over(index, child)
        return None

    def _over(self, index: int, child: Fiber) -> None:
        try:
            self._end(index, child.finish())
        except BaseException as raised:
            self._fatal = raised
            self._stopped = True

    def _in_turn(self, effects: Iterator[Any], give: Callable[[list[Any]], Any]) -> Children:
        for index, effect in enumerate(effects):
            env = self._fiber.env if self._branches is None else self._branches.context_of(index)
            child = yield from inside(effect, env)
            self._over(index, child)
            if self._stopped:
                break
        return self._exit(give)

    async def _in_tasks(
        self, first: _Started, effects: Iterator[Any], limit: int, give: Callable[[list[Any]], Any]
    ) -> AnyExit:
        started: _Started | None = first
        index = first[0]
        try:
            async with task_group() as self._tasks:
                while True:
                    if started is not None:
                        self._running += 1
                        at, child, pending, variables = started
                        self._tasks.start(partial(self._go_on, at, child, pending), variables)
                    effect = next(effects, None)
                    if effect is not None and (self._running >= limit or self._budget < 0):
                        await self._wait_for_slot(limit)
                    if effect is None or self._stopped:
                        break
                    index += 1
                    started = self._start(index, effect)
                if self._stopped:
                    self._tasks.cancel()
        except BaseException as raised:
            for cause in self._causes:
                attach(raised, cause.besides_interruption())
            raise

        return self._exit(give)

    async def _wait_for_slot(self, limit: int) -> None:
        """Wait until another child can run. If the budget is exhausted, let other tasks run."""
        while self._running >= limit and not self._stopped:
            self._freed = anyio.Event()
            await self._freed.wait()
        if self._budget < 0:
            self._budget = FAIR
            await checkpoint()

    async def _go_on(self, at: int, child: Fiber, pending: Pending, held: AbstractContextManager[Any]) -> None:
        with held:
            try:
                self._end(at, await child.drive(pending, delivered=0))
            except anyio.get_cancelled_exc_class() as raised:
                if self._stopped and self._decisive is Succeeded:
                    report(raised)  # the winner's value is the result, and the cause is dropped
                self._interrupt(at, child.besides())
                raise
            except BaseException as raised:  # KeyboardInterrupt or SystemExit in a task would stop the event loop
                self._fatal = raised
                self._stopped = True
            finally:
                self._running -= 1
                if self._freed is not None:
                    self._freed.set()
                if self._stopped:
                    self._tasks.cancel()

    def _interrupt(self, at: int, besides: AnyCause) -> None:
        if not self._stopped:  # a cancellation from outside, which fxai raises
            self._end(at, Failed(Cause((Interrupt(),)).combine(besides)))
        elif besides.reasons:
            self._causes.append(besides)

    def _end(self, index: int, exit_: AnyExit) -> None:
        if isinstance(exit_, Succeeded):
            if not (self._stopped and self._decisive is Succeeded):  # the first of two winners counts
                self._values[index] = exit_.value
        else:
            self._causes.append(exit_.cause)
        self._stopped = self._stopped or isinstance(exit_, self._decisive)

    def _exit(self, give: Callable[[list[Any]], Any]) -> AnyExit:
        if self._fatal is not None:
            raise self._fatal

        if self._stopped and self._branches is not None:
            self._branches.cut()
        won = self._stopped and self._decisive is Succeeded
        if not self._causes or won:
            return Succeeded(give(self._values))

        cause = self._causes[0]
        for other in self._causes[1:]:
            cause = cause.combine(other)
        return Failed(cause)


def _children(fiber: Fiber, kind: str, number: int, decisive: type[AnyExit] = Failed) -> _Children:
    return _Children(fiber, [_NONE] * number, decisive, branches_of(fiber.env, kind))


_A_co = TypeVar("_A_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)


@final
class FiberHandle(msgspec.Struct, Generic[_A_co, _E_co], eq=False):
    """A handle of a program in the background. Use it to wait for the program, read its exit, or stop it."""

    _scope: Scope  # its close interrupts the program
    _own: Scope  # nested in `_scope`, so that resources of the program are released after the program stopped
    _token: object = None  # the token of the finalizer in `_scope`
    _exit: AnyExit | None = None
    _fatal: BaseException | None = None
    _done: anyio.Event | None = None
    _task: Held | None = None
    _loop: object = None  # the event loop of the program
    _branches: Branches | None = None

    @property
    def ended(self) -> bool:
        """True if the program and its finalizers ended."""
        return self._exit is not None

    def exit(self) -> EffectOf[Exit[_A_co, _E_co], Never, None]:
        """Wait for the program and return its exit."""
        return AwaitExit(lambda _: self._wait(wrap=True))

    def join(self) -> EffectOf[_A_co, _E_co, None]:
        """Wait for the program and return its value. End with its failure, defect, or interruption."""
        return AwaitExit(lambda _: self._wait(wrap=False))

    def interrupt(self) -> EffectOf[None, Never, None]:
        """Stop the program and wait for its finalizers. If the program ended, do nothing.

        Failures of the finalizers are in `exit()` and in the log `fxai.effects`.
        """
        return Suspend(lambda: self._stop(tells=False))

    def _stop(self, *, tells: bool) -> EffectOf[None, Never, None]:
        if self._fatal is not None:
            raise self._fatal
        if self._exit is not None or self._task is None:
            return NOTHING
        self._require_home()
        if self._branches is not None:
            self._branches.cut()
        self._task.cancel()
        return self.exit().flat_map(lambda end: _report(end, tells=tells))

    def _wait(self, *, wrap: bool) -> Any:
        if self._fatal is not None:
            raise self._fatal
        if self._exit is not None:
            end: AnyExit = Succeeded(self._exit) if wrap else self._exit
            return end
        self._require_home()

        async def wait() -> AnyExit:
            await cast(anyio.Event, self._done).wait()
            end: AnyExit = self._wait(wrap=wrap)
            return end

        return wait()

    def _require_home(self) -> None:
        """Raise `RuntimeError` if another event loop than the program's runs, because a wait would never end."""
        if event_loop() is not None and current_token() != self._loop:
            raise RuntimeError(
                "this program was forked on another event loop, where it runs. Wait for it, or stop it, on that loop."
            )

    def start(self, fiber: Fiber, effect: AnyEffect, gives: object = None) -> Any:
        """Start the program and return the exit with this handle or `gives`. Without a loop, run it to its end."""
        self._token = self._scope.add(self._release)
        self._branches = branches_of(fiber.env, "fork")
        around = fiber.env if self._branches is None else self._branches.context_of(0)
        env: AnyContext = ContextOf({**around.services, Scope: self._own})
        if not fiber.fair:
            return Inside(self._in_turn(effect, env, gives))
        child, pending, variables = start_child(effect, fiber, env)
        if pending is None:
            self._end(child.finish())
        else:
            self._done = anyio.Event()
            self._loop = current_token()
            self._task = spawn(partial(self._run, child, pending), variables)
        return Succeeded(self if gives is None else gives)

    def _in_turn(self, effect: AnyEffect, env: AnyContext, gives: Any) -> Children:
        self._end((yield from inside(effect, env)).finish())
        return Succeeded(self if gives is None else gives)

    async def _run(self, child: Fiber, pending: Pending, held: AbstractContextManager[Any]) -> None:
        try:
            with held:
                await child.drive(pending, delivered=0)
        except BaseException as raised:
            if stops_the_loop(raised):
                raise
            self._fatal = raised  # raised again in `exit`, `join`, or the close of the scope
        finally:
            self._end(child.exit or Failed(Cause((Interrupt(),))))
            cast(anyio.Event, self._done).set()

    def _end(self, exit_: AnyExit) -> None:
        self._exit = exit_
        if self._own.empty and self._fatal is None:
            self._scope.remove(self._token)

    def _release(self, end: AnyExit) -> EffectOf[None, Never, None]:
        """Stop the program like `interrupt`, because its scope closes with the exit `end`.

        If the program of the scope failed, its cause also receives a defect of the stopped program. If it succeeded,
        its value stays, and only the log contains the defect.
        """
        stop = Suspend(lambda: self._stop(tells=isinstance(end, Failed)))
        return OnExit(stop, lambda _: self._own.release(end))


def _report(end: AnyExit, *, tells: bool) -> EffectOf[None, Never, None]:
    cause: AnyCause = end.cause.besides_interruption() if isinstance(end, Failed) else Cause(())
    defects = tuple(reason for reason in cause.reasons if isinstance(reason, Die))
    if tells and defects:
        return FailCause(Cause(defects))
    report_cause(cause)
    return NOTHING


def fork(effect: EffectOf[_A, _E, _R]) -> EffectOf[FiberHandle[_A, _E], Never, _R | Scope | None]:
    """Start `effect` in the background and return its handle. The close of the enclosing scope interrupts it.

    The scope also holds the resources of `effect` and releases them after the interruption.
    """
    return AwaitExit(lambda fiber: FiberHandle(fiber.env.fetch(Scope), Scope()).start(fiber, effect))


@final
class _LockTurn:
    """A program that waits for a lock."""

    __slots__ = ("_wake", "is_given")

    def __init__(self) -> None:
        self.is_given = False
        self._wake: Callable[[], bool] | None = None

    def give(self) -> bool:
        """Pass the lock to the program. Return False if its event loop has ended."""
        self.is_given = True
        return self._wake is None or self._wake()

    async def wait(self) -> None:
        """Wait until the program holds the lock."""
        from fxai.effects.waker import Waker  # only waiting programs need it, and it imports modules for threads

        waker = Waker()
        self._wake = waker.wake
        while not self.is_given:
            await waker.wait()


@final
class Lock(msgspec.Struct, eq=False, weakref=True):
    """A lock for the programs of a process, on any event loops. Waiting programs acquire it in their order."""

    is_held: bool = False
    """True if a program holds the lock."""
    guard: AbstractContextManager[Any] = msgspec.field(default_factory=RLock)
    """A thread lock, held while this lock changes its owner, or while a plain function uses the resource."""
    _queue: deque[_LockTurn] = msgspec.field(default_factory=deque[Any])

    def hold(self) -> EffectOf[None, Never, Scope]:
        """Wait until the lock is free and hold it until the scope closes."""
        return Within(lambda context: self._hold(context.fetch(Scope), self._wait))

    def hold_or(self, instead: EffectOf[None, _E, None]) -> EffectOf[None, _E, Scope]:
        """Hold the lock until the scope closes. If another program holds the lock, run `instead`."""
        return Within(lambda context: self._hold(context.fetch(Scope), lambda _: instead))

    def _hold(self, scope: Scope, wait: Callable[[Scope], EffectOf[None, Any, None]]) -> EffectOf[None, Any, None]:
        with self.guard:
            if self.is_held:
                return wait(scope)
            self.is_held = True
        scope.add(lambda _: self._release())
        return NOTHING

    def _wait(self, scope: Scope) -> EffectOf[None]:
        mine = _LockTurn()
        self._queue.append(mine)

        def end(exit_: AnyExit) -> EffectOf[Any]:
            if isinstance(exit_, Succeeded):
                scope.add(lambda _: self._release())
                return NOTHING
            with self.guard:
                if not mine.is_given:
                    self._queue.remove(mine)
                    return NOTHING
            return self._release()  # a cancelled program received the lock

        return OnExit(Await(lambda _: mine.wait()), end)

    def _release(self) -> EffectOf[Any]:
        """Pass the lock to the program that has waited longest, so that a new program does not overtake it."""
        with self.guard:
            while self._queue:
                if self._queue.popleft().give():
                    return NOTHING
            self.is_held = False
        return NOTHING


@final
class Locks:
    """Locks by key, for programs on any event loops. A lock exists while a program holds it or waits for it.

    >>> from fxai.effects import fx
    >>> locks = Locks()
    >>> fx.run(fx.scoped(locks.hold("a").map(lambda _: len(locks)))), len(locks)
    (1, 0)
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()
        self._guard = RLock()

    def __len__(self) -> int:
        return len(self._locks)

    def hold(self, key: Hashable) -> EffectOf[None, Never, Scope | None]:
        """Wait until the lock of the key is free and hold it until the scope closes."""

        def hold() -> EffectOf[None, Never, Scope]:
            with self._guard:
                lock = self._locks.get(key)
                if lock is None:
                    lock = self._locks[key] = Lock()
            return lock.hold()

        return Suspend(hold)
