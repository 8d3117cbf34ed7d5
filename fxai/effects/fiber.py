"""Fibers: the interpreter, which runs an effect.

A fiber holds the state of one running effect. `step` is a plain loop over instructions with a stack of its own:
it never recurses, so chains may be as deep as memory allows, and it needs no event loop. It stops when an
awaitable is needed; `drive` awaits that one and goes on.

Cancellation, `KeyboardInterrupt` and `SystemExit` unwind the stack, so that finalizers run, shielded; no
`catch` sees them, and they leave the fiber as the exception they came as.
"""

# The loop holds values of every program at once: they are Any here, by design.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from contextvars import copy_context
from types import GeneratorType
from typing import Any, ClassVar, cast, final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Fail, Interrupt
from fxai.effects.clock import LIVE, Clock
from fxai.effects.effect import EffectOf, Timeout, nesting
from fxai.effects.exit import Exit, Failed, Succeeded

__all__ = ["Fiber", "begin", "run_fiber"]

_A = TypeVar("_A")
_E = TypeVar("_E")

# The instructions, as numbered in `effect`; local names are faster to read than attributes.
(
    _SUCCEED,
    _MAP,
    _FLAT,
    _GEN,
    _SYNC,
    _SUSPEND,
    _ASK,
    _LOCAL,
    _FOLD,
    _ON_EXIT,
    _FAIL,
    _MASK,
    _AWAIT,
    _AWAIT_EXIT,
    _YIELD,
    _FETCH,
) = range(16)
_RESTORE, _UNMASK, _RESUME, _FLATTEN, _START = range(16, 21)  # frames that are no instructions

_FAIR = 4096  # instructions between two turns of the event loop
_NEVER = 1 << 62
_BEGUN = 24  # children begun inside their parents' steps, before one is left to its own task


class _Restore(msgspec.Struct, eq=False):
    env: Any
    op: ClassVar[int] = _RESTORE


class _Resume(msgspec.Struct, eq=False):
    value: Any
    cause: Any
    op: ClassVar[int] = _RESUME


class _Start(msgspec.Struct, eq=False):
    effect: Any
    op: ClassVar[int] = _START


class _Mark(msgspec.Struct, eq=False):
    op: int


_UNMASK_FRAME = _Mark(_UNMASK)
_FLATTEN_FRAME = _Mark(_FLATTEN)
_TURN = cast("Awaitable[Any]", _Mark(-1))  # stands for "let others run": the driver awaits a checkpoint for it


class _Unwind(BaseException):
    """Thrown into generators when a typed failure passes, so that their `finally` runs and `except` does not."""

    def __init__(self, cause: Cause[Any]) -> None:
        self.cause = cause


@final
class Fiber:
    """The state of one running effect."""

    __slots__ = ("_depth", "_fatal", "_left", "_mask", "_stack", "env", "exit", "fair")

    env: Any
    _left: int
    exit: Exit[Any, Any] | None

    def __init__(self, env: Any, *, fair: bool = True) -> None:
        self._stack: list[Any] = []
        self.env = env
        self._mask = 0
        self._fatal: BaseException | None = None
        self.exit = None
        self._depth = 0
        self.fair = fair
        self._left = _FAIR if fair else _NEVER

    def step(self, cur: Any, value: Any, cause: Any) -> Awaitable[Any] | None:  # noqa: C901
        """Runs until something must be awaited, which it gives, or until `exit` is set: then None."""
        # One long function, on purpose: a call per instruction would double the price of each.
        stack = self._stack
        push = stack.append
        pop = stack.pop
        generator_class: Any = GeneratorType
        succeeded: Any = Succeeded
        failed: Any = Failed
        left = self._left
        saved, nesting.depth = nesting.depth, self._depth
        try:
            while True:
                try:
                    if cause is not None:
                        while True:  # unwinding
                            if not stack:
                                self.exit = Failed(cause)
                                return None
                            frame = pop()
                            if frame.__class__ is generator_class:
                                exception = self._exception(cause)
                                try:
                                    cur = frame.throw(exception)
                                except StopIteration as stop:
                                    value = stop.value
                                    cur = None
                                except BaseException as raised:
                                    if raised is not exception:
                                        cause = self._cause(raised)
                                    continue
                                else:
                                    push(frame)
                                cause = None
                                break
                            op = frame.op
                            if op == _FOLD:
                                if self._fatal is not None and cause.interrupted:
                                    continue
                                handler = frame.on_cause(cause)
                                if handler is None:
                                    continue
                                cur = handler
                                cause = None
                                break
                            if op == _ON_EXIT:
                                push(_Resume(None, cause))
                                push(_UNMASK_FRAME)
                                self._mask += 1
                                cur = frame.f(Failed(cause))
                                cause = None
                                break
                            if op == _RESTORE:
                                self.env = frame.env
                            elif op == _UNMASK:
                                self._mask -= 1
                            elif op == _RESUME and frame.cause is not None:
                                cause = frame.cause.combine(cause)

                    while True:  # running
                        if cur is not None:
                            left -= 1
                            if left < 0:
                                left = _FAIR
                                push(_Start(cur))
                                return _TURN
                            op = cur.op
                            if op == _SUCCEED:
                                value = cur.value
                            elif op == _FLAT or op == _MAP or op == _FOLD or op == _ON_EXIT:  # noqa: SIM109
                                push(cur)
                                cur = cur.source
                                continue
                            elif op == _GEN:
                                generator = cur.f(*cur.args, **cur.kwargs)
                                try:
                                    cur = next(generator)
                                except StopIteration as stop:
                                    value = stop.value
                                else:
                                    push(generator)
                                    continue
                            elif op == _FETCH:
                                try:
                                    value = self.env.services[cur.key]
                                except KeyError:
                                    value = self.env.fetch(cur.key)
                            elif op == _SYNC:
                                value = cur.f()
                            elif op == _ASK:
                                value = cur.f(self.env)
                            elif op == _FAIL:
                                cause = cur.cause
                                cur = None
                                break
                            elif op == _SUSPEND:
                                cur = cur.f()
                                continue
                            elif op == _LOCAL:
                                push(_Restore(self.env))
                                self.env = cur.f(self.env)
                                cur = cur.source
                                continue
                            elif op == _MASK:
                                self._mask += 1
                                push(_UNMASK_FRAME)
                                cur = cur.source
                                continue
                            elif op == _AWAIT:
                                return cast("Awaitable[Any]", cur.f(self))
                            elif op == _AWAIT_EXIT:
                                push(_FLATTEN_FRAME)
                                value = cur.f(self)
                                if value.__class__ is not succeeded and value.__class__ is not failed:
                                    return cast("Awaitable[Any]", value)
                            else:
                                value = None
                                if self.fair:
                                    return _TURN

                        cur = None
                        while stack:  # hand the value to the next frame
                            frame = pop()
                            if frame.__class__ is generator_class:
                                try:
                                    cur = frame.send(value)
                                except StopIteration as stop:
                                    value = stop.value
                                    continue
                                push(frame)
                                break
                            op = frame.op
                            if op == _MAP:
                                value = frame.f(value)
                            elif op == _FLAT:
                                cur = frame.f(value)
                                break
                            elif op == _FOLD:
                                if frame.on_value is not None:
                                    cur = frame.on_value(value)
                                    break
                            elif op == _RESTORE:
                                self.env = frame.env
                            elif op == _UNMASK:
                                self._mask -= 1
                            elif op == _FLATTEN:
                                if value.__class__ is succeeded:
                                    value = value.value
                                else:
                                    cause = value.cause
                                    break
                            elif op == _ON_EXIT:
                                push(_Resume(value, None))
                                push(_UNMASK_FRAME)
                                self._mask += 1
                                cur = frame.f(Succeeded(value))
                                break
                            elif op == _RESUME:
                                if frame.cause is not None:
                                    cause = frame.cause
                                    break
                                value = frame.value
                            elif op == _START:
                                cur = frame.effect
                                break
                        else:
                            self.exit = Succeeded(value)
                            return None
                        if cause is not None:
                            break
                except BaseException as raised:
                    cause = self._cause(raised)
                    cur = None
        finally:
            self._left = left
            self._depth = nesting.depth
            nesting.depth = saved

    def _exception(self, cause: Cause[Any]) -> BaseException:
        if self._fatal is not None and cause.interrupted:
            return self._fatal
        reasons = cause.reasons
        if len(reasons) == 1 and isinstance(reasons[0], Die):
            return reasons[0].defect
        return _Unwind(cause)

    def _cause(self, raised: BaseException) -> Cause[Any]:
        if isinstance(raised, _Unwind):
            return raised.cause
        if isinstance(raised, Exception):
            return Cause((Die(raised),))

        self._fatal = raised
        return Cause((Interrupt(),))

    async def drive(self, pending: Awaitable[Any] | None) -> Exit[Any, Any]:
        """Awaits what `step` gave, goes on, until the effect has ended.

        Raises:
            BaseException: the cancellation (or `KeyboardInterrupt`, `SystemExit`) that ended it, itself.
        """
        while pending is not None:
            value: Any = None
            try:
                awaited = checkpoint() if pending is _TURN else pending
                if self._mask or self._fatal is not None:  # finalizers are not interrupted
                    with anyio.CancelScope(shield=True):
                        value = await awaited
                else:
                    value = await awaited
            except BaseException as raised:
                pending = self.step(None, None, self._cause(raised))
            else:
                pending = self.step(None, value, None)

        return self.ended()

    def ended(self) -> Exit[Any, Any]:
        """The exit, once `step` gave None.

        Raises:
            BaseException: the cancellation that ended it, itself.
        """
        end = cast("Exit[Any, Any]", self.exit)
        if self._fatal is not None and isinstance(end, Failed) and end.cause.interrupted:
            raise self._fatal
        return end

    def postpone(self, effect: EffectOf[Any, Any, Any]) -> None:
        """Makes `effect` what the next `step` begins with."""
        self._stack.append(_Start(effect))

    def run_sync(self, effect: EffectOf[Any, Any, Any]) -> Exit[Any, Any]:
        """The exit of an effect that awaits nothing; one that awaits is a defect."""
        pending = self.step(effect, None, None)
        return self.ended() if pending is None else self.refuse(pending)

    def refuse(self, pending: Awaitable[Any] | None) -> Exit[Any, Any]:
        """The exit of an effect that awaits where no event loop runs: a defect, when its finalizers have run."""
        while pending is not None:
            close: Callable[[], None] | None = getattr(pending, "close", None)
            if close is not None:
                close()
            error = RuntimeError("no event loop runs and the effect awaits something: use fx.run or fx.run_async")
            pending = self.step(None, None, Cause((Die(error),)))

        return self.ended()

    # -- what instructions ask of the fiber that runs them

    def clock(self) -> Clock:
        """The clock of the environment: the live one unless a layer gave another."""
        return cast(Clock, self.env.find(Clock, LIVE))

    async def timeout(self, effect: EffectOf[Any, Any, Any], seconds: float) -> Exit[Any, Any]:
        """The exit of `effect`, or `Timeout` when the clock has gone on by `seconds` first."""
        end: Exit[Any, Any] | None = None
        with anyio.CancelScope() as scope:
            async with self.clock().deadline(scope, seconds):
                end = await run_fiber(effect, self.env)

        return Failed(Cause((Fail(Timeout(seconds)),))) if end is None else end


async def run_fiber(effect: EffectOf[_A, _E, Any], env: Any) -> Exit[_A, _E]:
    """The exit of `effect`, run in the current task.

    Raises:
        BaseException: the cancellation of the task, itself, when finalizers have run.
    """
    fiber = Fiber(env)
    pending = fiber.step(effect, None, None)
    if pending is None:
        return fiber.ended()
    return await fiber.drive(pending)


def begin(
    effect: EffectOf[Any, Any, Any], parent: Fiber, env: Any = None
) -> tuple[Fiber, Awaitable[Any] | None, Variables]:
    """A child that has run until its first wait, in a copy of the context variables; what it waits for, if anything.

    Children of concurrent operators start so: those that never wait need no task, and what they do to context
    variables stays theirs. Where a task is needed, start it by `variables.run`; it goes on with `drive`.
    """
    fiber = Fiber(parent.env if env is None else env, fair=parent.fair)
    variables = copy_context()
    if nesting.begun >= _BEGUN and parent.fair:
        fiber.postpone(effect)
        return fiber, _TURN, variables

    nesting.begun += 1
    try:
        pending = variables.run(fiber.step, effect, None, None)
    finally:
        nesting.begun -= 1
    return fiber, pending, variables
