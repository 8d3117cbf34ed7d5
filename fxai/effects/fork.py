"""Forked programs: in the background, until their scope closes.

>>> from fxai.effects import fx
>>> def program():
...     handle = yield from fx.fork(fx.sleep(0.001).as_("done"))
...     return (yield from handle.join())
>>> fx.run(fx.scoped(fx.gen(program)()))
'done'
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import Context as Variables
from functools import partial
from typing import Any, Generic, Never, cast, final

import anyio
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Interrupt
from fxai.effects.concurrency import begin
from fxai.effects.effect import AnyEffect, AwaitExit, EffectOf, FailCause, Suspend
from fxai.effects.exit import Exit, Failed, Succeeded
from fxai.effects.fiber import Children, Fiber, Inside, inside, report_cause
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.spawn import Held, spawn, stops_the_loop

__all__ = ["FiberHandle", "fork"]

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")
_A_co = TypeVar("_A_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)


@final
class FiberHandle(Generic[_A_co, _E_co]):
    """A program in the background: how to wait for it, ask how it ended, or stop it."""

    __slots__ = ("_done", "_exit", "_fatal", "_task")

    def __init__(self) -> None:
        self._exit: Exit[Any, Any] | None = None
        self._fatal: BaseException | None = None
        self._done: anyio.Event | None = None
        self._task: Held | None = None

    @property
    def ended(self) -> bool:
        """True when the program has ended, its finalizers included."""
        return self._exit is not None

    def exit(self) -> EffectOf[Exit[_A_co, _E_co], Never, None]:
        """How the program ended; waits for it."""
        return AwaitExit(lambda _: self._wait(wrap=True))

    def join(self) -> EffectOf[_A_co, _E_co, None]:
        """The program's value; its failure, defect or interruption is this effect's."""
        return AwaitExit(lambda _: self._wait(wrap=False))

    def interrupt(self) -> EffectOf[None, Never, None]:
        """Stops the program and waits until its finalizers have run; nothing happens when it has ended.

        What fails in them is in its `exit()`, and in the log `fxai.effects`.
        """
        return Suspend(lambda: self._stop(tells=False))

    def release(self, end: Exit[Any, Any]) -> EffectOf[None, Never, None]:
        """Stops the program as `interrupt` does, where its scope closes, told how that ended.

        A defect of the program that was stopped stands beside the failure of the scope's own program; where that
        succeeded, its value stands, and the defect is in the log only.
        """
        return Suspend(lambda: self._stop(tells=isinstance(end, Failed)))

    def _stop(self, *, tells: bool) -> EffectOf[None, Never, None]:
        if self._fatal is not None:
            raise self._fatal
        if self._exit is not None or self._task is None:
            return NOTHING
        self._task.cancel()
        return self.exit().flat_map(lambda end: _stopped(end, tells=tells))

    def _wait(self, *, wrap: bool) -> Any:
        if self._fatal is not None:
            raise self._fatal
        if self._exit is not None:
            end: Exit[Any, Any] = Succeeded(self._exit) if wrap else self._exit
            return end

        async def wait() -> Exit[Any, Any]:
            await cast(anyio.Event, self._done).wait()
            end: Exit[Any, Any] = self._wait(wrap=wrap)
            return end

        return wait()

    def start(
        self, fiber: Fiber, pending: Awaitable[Any] | None, variables: Variables, ended: Callable[[], None]
    ) -> None:
        """Goes on with a fiber that has run until its first wait, in a task where it needs one; then calls `ended`."""
        if pending is None:
            self._exit = fiber.ended()
        else:
            self._spawn(fiber, pending, variables, ended)
            return
        ended()

    def in_turn(self, effect: AnyEffect, env: Any, ended: Callable[[], None], gives: object) -> Children:
        """Where no event loop runs: the program first, then `gives`."""
        self._exit = (yield from inside(effect, env)).ended()
        ended()
        return Succeeded(gives)

    def _spawn(self, fiber: Fiber, pending: Awaitable[Any], variables: Variables, ended: Callable[[], None]) -> None:
        self._done = anyio.Event()
        self._task = spawn(partial(self._run, fiber, pending, ended), variables)

    async def _run(
        self, fiber: Fiber, pending: Awaitable[Any], ended: Callable[[], None], held: AbstractContextManager[Any]
    ) -> None:
        try:
            with held:
                await fiber.drive(pending)
        except BaseException as raised:
            if stops_the_loop(raised):
                raise
            self._fatal = raised  # raised where the program is awaited, or its scope closes
        finally:
            self._exit = fiber.exit or Failed(Cause((Interrupt(),)))
            if self._fatal is None:
                ended()
            cast(anyio.Event, self._done).set()


def _stopped(end: Exit[Any, Any], *, tells: bool) -> EffectOf[None, Never, None]:
    cause: Cause[Any] = end.cause.besides_interruption() if isinstance(end, Failed) else Cause(())
    defects = tuple(reason for reason in cause.reasons if isinstance(reason, Die))
    if tells and defects:
        return FailCause(Cause(defects))
    report_cause(cause)
    return NOTHING


def fork(effect: EffectOf[_A, _E, _R]) -> EffectOf[FiberHandle[_A, _E], Never, _R | Scope | None]:
    """Starts `effect` in the background and gives its handle; it is interrupted when the scope around closes.

    What it acquires stays until then too, and is released after it was interrupted.
    """
    return AwaitExit(lambda fiber: fork_in(fiber, effect, fiber.env.fetch(Scope)))


def fork_in(fiber: Fiber, effect: AnyEffect, scope: Scope, gives: object = None) -> Any:
    """The exit of what it `gives`, by default the handle of `effect`, which is started and held by `scope`.

    Where no event loop runs, the exit is waited for.
    """
    handle: FiberHandle[Any, Any] = FiberHandle()
    given = handle if gives is None else gives
    own = Scope()  # a part of `scope`: what the program acquires is released after it was stopped, not before
    held = scope.add(lambda exit_: Suspend(lambda: handle.release(exit_)).on_exit(lambda _: own.close(exit_)))

    def ended() -> None:
        if own.empty:
            scope.remove(held)

    env = fiber.env.put(Scope, own)
    if not fiber.fair:
        return Inside(handle.in_turn(effect, env, ended, given))
    handle.start(*begin(effect, fiber, env), ended)
    return Succeeded(given)
