"""Fibers, which interpret effects. The functions of the runtime use them to run programs.

A fiber holds the state of one running effect. The method `step` is a plain loop over instructions with its own stack.
It never recurses, so the memory is the only limit of the depth of a chain, and it needs no event loop. If a program
needs an awaitable, `step` stops. The method `drive` awaits the awaitable and continues.

Cancellation, `KeyboardInterrupt`, and `SystemExit` unwind the stack, so that finalizers run, shielded. No `catch`
method handles these exceptions. They leave the fiber unchanged, with the other failures attached. A generator can catch
a cancellation, but the next step outside the handler cancels it again. A cancellation that no scope and no task
requested is a defect of the step that raised it.
"""

# The loop holds values of all programs, so they are Any here.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from operator import call
from types import GeneratorType
from typing import Any, TypeAlias, cast, final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from typing_extensions import TypeVar

from fxai.effects.cancellation import (
    Guard,
    Request,
    delivered_requests,
    event_loop,
    interrupt,
    is_foreign,
    refuse_foreign,
    request_of,
)
from fxai.effects.cause import (
    AnyCause,
    AnyExit,
    Cause,
    Die,
    Exit,
    Fail,
    Failed,
    ForeignCancellationError,
    Interrupt,
    Succeeded,
    attach,
    attachment,
    pass_on,
)
from fxai.effects.context import AnyContext, branches_of
from fxai.effects.effect import (
    AnyEffect,
    EffectOf,
    FailCause,
    Instruction,
    Local,
    Mark,
    Restore,
    Resume,
    Start,
    Timeout,
    nesting,
    not_a_generator,
    observe,
    require_no_effect,
)
from fxai.effects.mistake import not_an_effect
from fxai.effects.service import LIVE, Clock
from fxai.effects.task import in_own_task
from fxai.effects.tracing import Tracer

_A = TypeVar("_A")
_E = TypeVar("_E")

Hold: TypeAlias = Callable[[anyio.CancelScope], AbstractAsyncContextManager[None]]
"""A function that can cancel a scope, as a context manager."""

Pending: TypeAlias = Awaitable[Any]
"""The awaitable that a fiber waits for between two steps."""

# The instructions with their numbers in `effect`. Local names are faster to read than attributes.
_SUCCEED, _MAP, _FLAT, _FOLD, _AS, _THEN, _ON_EXIT = range(7)  # all except the first push themselves and run a source
_GEN, _FETCH, _SYNC, _ASK, _SUSPEND, _WITHIN, _ENTER = range(7, 14)  # these complete immediately
_WAIT, _AWAIT, _AWAIT_EXIT, _FAIL, _LOCAL, _MASK, _YIELD = range(14, 21)
_RESTORE, _UNMASK, _RESUME, _FLATTEN, _START = range(21, 26)  # frames, but not instructions

NESTED = 24  # fibers that wait for each other in one task; a new task starts with an empty stack
FAIR = 4096  # instructions between two turns of the event loop

_UNMASK_FRAME = Mark(_UNMASK)
_FLATTEN_FRAME = Mark(_FLATTEN)
_EMITTED: AnyExit = Succeeded(None)  # the exit of a fiber that still runs
_INTERRUPT = Interrupt()  # the default of fibers without an interruption; no cause contains it
RESUMED: Any = Mark(-2)  # means "continue with the value or the cause of the awaitable"
EMITTED = cast(Pending, Mark(-3))  # means "the reader of the program has a value"
TURN_TAKEN = cast(Pending, Mark(-1))  # means "let other tasks run": the driver awaits a checkpoint


class ReaderLeft(BaseException):
    """The exception that fxai throws into the generators of a program after its reader stopped."""


class _Unwind(BaseException):
    """The exception that fxai throws into generators for a typed failure. `finally` runs, and `except` ignores it."""

    def __init__(self, cause: AnyCause, fiber: Fiber) -> None:
        self.cause = cause
        self.fiber = fiber


@final
class Fiber(msgspec.Struct, eq=False):
    """The state of one running effect."""

    env: AnyContext
    fair: bool = True  # False: without an event loop, so the fiber must not await, and no other task needs a turn
    left: int = FAIR  # instructions before the fiber lets other tasks run
    exit: Any = None  # the Exit of an ended fiber
    nested: int = 0  # enclosing fibers that wait for this fiber in the same task
    has_task: bool = False  # True if the current task runs all steps and awaitables until the exit or the next value
    _stack: list[Any] = []
    _mask: int = 0
    _fatal: BaseException | None = None
    _depth: int = 0
    _interrupt: Any = _INTERRUPT
    _sheltered: Any = None  # the generators that caught a cancellation, as returned by `_shelter`
    _shelters: int = 0  # the number of them that wait in the `except` or `finally` of the cancellation
    _request: Request | None = None  # a cancellation by asyncio itself
    _delivered: int = -1  # requests that the task received before the fiber waits; -1: not counted

    @property
    def starts_coroutines(self) -> bool:
        """True if a coroutine can run until its first wait within a step: nothing would guard or interrupt its wait."""
        if not self.has_task or self._mask or self._shelters or Tracer in self.env.services:
            return False
        return self._fatal is None and self._request is None

    def step(self, cur: Any, value: Any, cause: Any) -> Pending | None:  # noqa: C901
        """Run `cur`, or continue if it is `RESUMED`. Stop at an awaitable and return it.

        At the end of the effect, set `exit` and return None.
        """
        # One long function, because a call per instruction would double the price of each instruction.
        resumed = cur is RESUMED
        if resumed:
            cur = None
        stack = self._stack
        push = stack.append
        pop = stack.pop
        generator_class: Any = GeneratorType
        succeeded: Any = Succeeded
        failed: Any = Failed
        instruction: Any = Instruction
        left = self.left
        here = nesting.here
        saved = here.depth
        if saved != self._depth:
            here.depth = self._depth
        awaited: Pending
        try:
            while True:
                try:
                    if cause is not None:
                        while True:  # unwinding
                            if not stack:
                                self.exit = Failed(cause.whole())
                                return None
                            frame = pop()
                            if frame.__class__ is generator_class:
                                exception = self._exception(cause)
                                if exception is self._fatal:
                                    frame = self._shelter(frame)
                                try:
                                    cur = frame.throw(exception)
                                except StopIteration as stop:
                                    value = stop.value
                                    cur = None
                                    resumed = True
                                except BaseException as raised:
                                    cause = self._since(cause if raised is exception else None, raised)
                                    continue
                                else:
                                    push(frame)
                                cause = None
                                break
                            op = frame.op
                            if op == _FOLD:
                                if self._fatal is not None and self._is_cancelled(cause):
                                    continue
                                handler = frame.on_cause(cause)
                                if handler is None:
                                    continue
                                cur = handler
                                cause = None
                                break
                            if op == _ON_EXIT:
                                push(Resume(None, cause))
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
                                left = FAIR
                                if self.fair:
                                    push(Start(cur))
                                    return TURN_TAKEN
                            op = cur.op
                            if op == _SUCCEED:
                                value = cur.value
                            elif op <= _ON_EXIT:
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
                            elif op <= _ENTER:
                                if op == _FETCH:
                                    try:
                                        value = self.env.services[cur.key]
                                    except KeyError:
                                        value = self.env.fetch(cur.key)
                                elif op == _SYNC:
                                    value = cur.f()
                                elif op == _ASK:
                                    value = cur.f(self.env)
                                elif op == _SUSPEND:
                                    cur = cur.f()
                                    continue
                                else:
                                    cur = cur.f(self.env if op == _WITHIN else self)
                                    continue
                            elif op <= _AWAIT:
                                awaited = cur.f() if op == _WAIT else cur.f(self)
                                tracer = self.env.services.get(Tracer)
                                return awaited if tracer is None else _activate(tracer, awaited)
                            elif op == _AWAIT_EXIT:
                                awaited = value = cur.f(self)
                                if value.__class__ is succeeded:
                                    value = value.value
                                elif value.__class__ is failed:
                                    cause = value.cause
                                    cur = None
                                    break
                                else:
                                    push(_FLATTEN_FRAME)
                                    tracer = self.env.services.get(Tracer)
                                    return awaited if tracer is None else _activate(tracer, awaited)
                            elif op == _FAIL:
                                cause = cur.cause
                                cur = None
                                break
                            elif op == _LOCAL:
                                if stack:  # otherwise nothing runs after the source
                                    push(Restore(self.env))
                                self.env = cur.f(self.env)
                                cur = cur.source
                                continue
                            elif op == _MASK:
                                self._mask += 1
                                push(_UNMASK_FRAME)
                                cur = cur.source
                                continue
                            else:
                                value = None
                                if self.fair:
                                    return TURN_TAKEN
                        elif resumed:
                            resumed = False
                        else:
                            raise not_an_effect(None)

                        cur = None
                        while stack:  # pass the value to the next frame
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
                            elif op == _AS:
                                if value.__class__.__base__ is instruction:
                                    require_no_effect(value)
                                value = frame.value
                            elif op == _THEN:
                                if value.__class__.__base__ is instruction:
                                    require_no_effect(value)
                                cur = frame.other
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
                                push(Resume(value, None))
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
                    if isinstance(raised, AttributeError) and raised.name == "op" and raised.obj is cur:
                        raised = not_an_effect(cur)  # checked only after an error, to save time
                    elif isinstance(raised, TypeError) and cur is not None:
                        raised = not_a_generator(raised, cur)
                    cause = self._since(None, raised)
                    cur = None
        finally:
            self.left = left
            depth = here.depth
            self._depth = depth
            if depth != saved:
                here.depth = saved

    def _exception(self, cause: AnyCause) -> BaseException:
        if self._fatal is not None and self._is_cancelled(cause):
            return self._fatal
        reasons = cause.reasons
        if len(reasons) == 1 and isinstance(reasons[0], Die):
            return reasons[0].defect
        return _Unwind(cause, self)

    def _shelter(self, generator: GeneratorType[Any, Any, Any]) -> GeneratorType[Any, Any, Any]:
        """Return a generator that behaves like `generator` and counts itself while it handles an exception."""
        self._sheltered = [one for one in self._sheltered or () if one.gi_frame is not None]
        if generator in self._sheltered:
            return generator
        sheltered = cast("GeneratorType[Any, Any, Any]", self._in_shelter(generator))
        next(sheltered)
        self._sheltered.append(sheltered)
        return sheltered

    def _in_shelter(self, generator: GeneratorType[Any, Any, Any]) -> Generator[Any, Any, Any]:
        effect, handles = None, False
        while True:
            resume: Callable[[], Any]
            self._shelters += handles
            try:
                value = yield effect
            except BaseException as raised:
                resume = partial(generator.throw, raised)
            else:
                resume = partial(generator.send, value)
            finally:
                self._shelters -= handles
            try:
                effect, handles = observe(resume)
            except StopIteration as stop:
                return stop.value

    def _is_cancelled(self, cause: AnyCause) -> bool:
        # By identity, because the interruption of a joined fiber is an ordinary reason.
        return any(reason is self._interrupt for reason in cause.reasons)

    def _cause(self, raised: BaseException, *, is_awaited: bool = False) -> AnyCause:
        if isinstance(raised, _Unwind):
            return raised.cause
        if isinstance(raised, Exception):
            return Cause((Die(raised),))
        if raised is not self._fatal and self._is_foreign(raised, is_awaited=is_awaited):
            return Cause((Die(ForeignCancellationError.of(raised)),))

        if self._fatal is None:
            self._interrupt = Interrupt()
            pass_on(raised, self._interrupt)
        self._fatal = raised
        return Cause((self._interrupt, *attachment(raised).reasons))

    def _is_foreign(self, raised: BaseException, *, is_awaited: bool) -> bool:
        if not self._mask and self._request is not None and self._request.stands:
            return False
        is_late = is_awaited or self._fatal is not None  # event loops raise cancellations only in waiting tasks
        if is_late and not self._mask:
            return is_foreign(raised, self._delivered)
        return is_foreign(raised, sys.maxsize, shielded=True)

    def is_foreign(self, raised: BaseException) -> bool:
        """Return true if the awaitable of this fiber raised an unrequested cancellation. Call it in the awaitable."""
        if self._mask or self._shelters:
            return is_foreign(raised, self._delivered)
        return self._is_foreign(raised, is_awaited=True)

    def _since(self, cause: AnyCause | None, raised: BaseException) -> AnyCause:
        """Return the cause of the exception, after the cause of the unwinding during which a `finally` raised it."""
        cause = self._cause(raised) if cause is None else cause
        last, earlier = raised, raised.__context__
        while earlier is not None:
            if isinstance(earlier, _Unwind) and earlier.fiber is self:
                cause = earlier.cause.combine(cause)
                after = earlier.__context__  # the cause already contains the earlier exceptions
                last.__context__ = after
                last = earlier
            else:
                if earlier is self._fatal and not self._is_cancelled(cause):
                    cause = Cause((self._interrupt,)).combine(cause)
                last = earlier
            earlier = earlier.__context__

        return cause

    async def drive(self, pending: Pending | None, delivered: int = -1) -> AnyExit:
        """Await the result of `step` and continue, until the effect ends or emits a value to its reader.

        If the effect emitted a value, `exit` is not set.

        Args:
            pending: The result of `step`.
            delivered: Number of cancellations by asyncio itself that the task received: 0 in a new task. Default: fxai
                counts them.

        Raises:
            BaseException: The cancellation, `KeyboardInterrupt`, or `SystemExit` that ended the fiber, unchanged.
        """
        self._delivered = delivered
        self.has_task = True
        while pending is not None:
            if pending is EMITTED:
                self.has_task = False  # another task can read the next value
                return _EMITTED
            if self._delivered or self._fatal is not None:
                self._delivered = delivered_requests()
            value: Any = None
            cause: AnyCause | None = None
            try:
                awaited = checkpoint() if pending is TURN_TAKEN else pending
                if self._mask or self._shelters:  # a cancellation must not interrupt finalizers
                    value = await self._await_guarded(awaited)
                elif self._request is not None and self._request.stands:
                    value = await interrupt(awaited, self._request)
                else:
                    value = await awaited
            except BaseException as raised:
                self._request = self._request or request_of(raised, self._delivered)
                cause = self._cause(raised, is_awaited=True)
            pending = self.step(RESUMED, value, cause)  # outside the handler, or it would be their context

        return self.finish()

    async def _await_guarded(self, awaited: Pending) -> Any:
        self._delivered = delivered_requests()
        with anyio.CancelScope(shield=True):
            inside = refuse_foreign(awaited, self._delivered)  # a guard blocks cancellations from outside
            if event_loop() != "asyncio":
                return await inside
            guard = Guard(inside)
            try:
                return await guard
            finally:
                self._request = self._request or guard.request

    def finish(self) -> AnyExit:
        """Return the exit after `step` returned None.

        Raises:
            BaseException: The cancellation that ended the fiber, unchanged, with the other failures attached. This
                includes a cancellation by asyncio itself that was blocked or that a generator caught, because asyncio
                does not deliver it again.
        """
        end: AnyExit = self.exit
        if self._fatal is None and self._request is None:
            return end
        fatal: BaseException | None = None
        if self._fatal is not None and isinstance(end, Failed) and self._is_cancelled(end.cause):
            fatal = self._fatal
        if self._request is not None and self._request.stands and not isinstance(fatal, KeyboardInterrupt | SystemExit):
            fatal = self._request.exception(fatal)
        if fatal is None:
            return end

        attach(fatal, self.besides())
        pass_on(self._interrupt, fatal)
        raise fatal

    def besides(self) -> AnyCause:
        """Return the failures apart from the interruption that ended the fiber. They come mostly from finalizers."""
        return self.exit.cause.besides_interruption() if isinstance(self.exit, Failed) else Cause(())

    def abandon(self) -> None:
        """Make the next `step` unwind the program like a cancellation, because its reader stopped."""
        self._fatal = ReaderLeft("the reader of the stream has left")
        self._interrupt = Interrupt()
        self.postpone(FailCause(Cause((self._interrupt,))))

    def hand_over(self, reader: Fiber) -> None:
        """Pass a blocked cancellation by asyncio to the fiber that reads this fiber."""
        reader._request = reader._request or self._request

    def postpone(self, effect: AnyEffect) -> None:
        """Make `effect` the start of the next `step`."""
        self._stack.append(Start(effect))

    def run_sync(self, effect: AnyEffect) -> AnyExit:
        """Run an effect that awaits nothing and return its exit. Awaiting is a defect."""
        pending: Any = self.step(effect, None, None)
        if pending is None:
            return self.finish()
        fiber = self
        run: Callable[..., Any] = call
        waiting: list[tuple[Fiber, Any, Children]] = []  # replaces recursion, so deep nesting does not use the C stack
        while pending is not None or waiting:
            if pending is None or (pending is EMITTED and waiting):
                fiber, run, children = waiting.pop()
            elif isinstance(pending, Inside):
                children = pending.children
            else:
                children = _refuse(pending)
            child, value, cause = run(fiber._lead, children)
            if child is not None:
                waiting.append((fiber, run, children))
                fiber, run = child[0], child[1].run
            pending = run(fiber.step, RESUMED, value, cause)

        return self.finish()

    def _lead(self, children: Children) -> tuple[tuple[Fiber, Variables] | None, Any, AnyCause | None]:
        """Return the next child, or the result of the children, or the cause of their exception."""
        try:
            return next(children), None, None
        except StopIteration as stop:
            return None, stop.value, None
        except BaseException as raised:
            return None, None, self._cause(raised)

    # -- for the instructions that the fiber runs

    def clock(self) -> Clock:
        """Return the clock of the environment. Default: the real clock."""
        return cast(Clock, self.env.find(Clock, LIVE))

    def timeout(self, effect: AnyEffect, seconds: float) -> Awaitable[AnyExit] | Inside:
        """Return the exit of `effect`, or `Timeout` if the clock first advances by `seconds`.

        Without an event loop, the effect cannot wait, so it has no limit.
        """
        return self._timeout(effect, seconds) if self.fair else Inside(_alone(effect, self.env))

    async def _timeout(self, effect: AnyEffect, seconds: float) -> AnyExit:
        branches, clock, failure = branches_of(self.env, "timeout"), self.clock(), Timeout(seconds)
        if branches is None:
            return await self._cut(effect, lambda scope: clock.deadline(scope, seconds), failure)
        effect = Local(effect, lambda _: branches.context_of(0))
        end = await self._cut(effect, lambda scope: branches.deadline(scope, clock, seconds), failure)
        has_fired = isinstance(end, Failed) and any(one is failure for one in end.cause.failures)
        is_late = await branches.is_late(has_fired=has_fired)
        return Failed(Cause((Fail(failure),))) if is_late and isinstance(end, Succeeded) else end

    def cut(self, effect: AnyEffect, hold: Hold, failure: object) -> Awaitable[AnyExit] | Inside:
        """Return the exit of `effect`, or the failure if `hold` first cancels the scope.

        Without an event loop, fxai does not call `hold`, because no other code could cancel the scope.
        """
        return self._cut(effect, hold, failure) if self.fair else Inside(_alone(effect, self.env))

    async def _cut(self, effect: AnyEffect, hold: Hold, failure: object) -> AnyExit:
        if self.nested >= NESTED:
            self.nested = 0  # a task has its own stack
            return await in_own_task(lambda: self._cut(effect, hold, failure))

        end: AnyExit | None = None
        fiber = Fiber(self.env, nested=self.nested + 1)
        with anyio.CancelScope() as scope:
            async with hold(scope):
                end = await fiber.drive(fiber.step(effect, None, None))

        if end is not None:
            return end
        if isinstance(failure, Timeout):
            pass_on(fiber._interrupt, failure)
        return Failed(Cause((Fail(failure),)).combine(fiber.besides()))


Children: TypeAlias = "Generator[tuple[Fiber, Variables], None, Any]"
"""Fibers without an event loop, each with its context variables. The generator continues after each fiber ends."""


@final
class Inside(msgspec.Struct, eq=False):
    """The children that a fiber without an event loop waits for. They run one after another and return its exit."""

    children: Children


def inside(effect: AnyEffect, env: AnyContext) -> Generator[tuple[Fiber, Variables], None, Fiber]:
    """Run a child without an event loop and return it after its end."""
    child = Fiber(env, fair=False)
    child.postpone(effect)
    yield child, copy_context()
    return child


def _alone(effect: AnyEffect, env: AnyContext) -> Children:
    return (yield from inside(effect, env)).finish()


def _activate(tracer: Tracer, awaited: Any) -> Any:
    """Return a plain awaitable in its span. Return an effect, or another object, unchanged."""
    is_plain = hasattr(awaited, "__await__") and not isinstance(awaited, EffectOf)
    return tracer.activate(awaited) if is_plain else awaited


def _refuse(awaited: Any) -> Children:
    """Raise an error for an awaitable that only an event loop can await. Run no children."""
    getattr(awaited, "close", lambda: None)()
    yield from ()
    raise RuntimeError("no event loop runs, and the effect awaits something. Use fx.run or fx.run_async.")


async def run_fiber(effect: EffectOf[_A, _E, Any], env: AnyContext) -> Exit[_A, _E]:
    """Run `effect` in the current task and return its exit.

    Raises:
        BaseException: The cancellation of the task, unchanged, after the finalizers.
    """
    fiber = Fiber(env, has_task=True)
    try:
        pending = fiber.step(effect, None, None)
        return fiber.finish() if pending is None else await fiber.drive(pending)
    except BaseException as raised:
        report(raised)
        raise


def report(raised: BaseException) -> None:
    """Log the failures attached to a cancellation in `fxai.effects`, once, because the scope drops the exception."""
    reasons = attachment(raised).reasons
    reported: int = vars(raised).get(_REPORTED, 0)
    if not isinstance(raised, Exception) and len(reasons) > reported:
        vars(raised)[_REPORTED] = len(reasons)
        report_cause(Cause(reasons[reported:]))


def report_cause(cause: AnyCause) -> None:
    """Log the failures apart from an interruption in `fxai.effects`, because no other code reports them."""
    import logging  # only for failed finalizers, which are rare

    for reason in cause.besides_interruption().reasons:
        error = Cause((reason,)).squash()
        level = logging.ERROR if isinstance(reason, Die) else logging.WARNING  # a typed failure is not a bug
        logging.getLogger("fxai.effects").log(level, "while a program was stopped: %r", error, exc_info=error)


_REPORTED = "__fxai_reported__"


async def close_block(closing: AnyEffect, env: AnyContext, error: BaseException | None) -> None:
    """Close the scope of a block of plain Python, which raised `error` or no exception.

    If the close fails, attach the failures to `error`, or raise them without an `error`.
    """
    closed = await run_fiber(closing, env)
    if isinstance(closed, Failed):
        if error is None:
            raise closed.cause.squash()
        attach(error, closed.cause)
        report(error)
