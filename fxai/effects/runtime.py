"""Functions and runtimes that run programs. Use them at the edge of an application.

>>> from fxai.effects import fx
>>> run_result(fx.fail("no"))
<Failure: no>
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Literal, Never, TypeAlias, cast, final

import anyio
from returns.io import IOResult
from returns.result import Result
from typing_extensions import TypeVar

from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Exit, Failed, Succeeded, ending, outcome
from fxai.effects.context import EMPTY, AnyContext, Enclosure
from fxai.effects.effect import EffectOf, Instruction, require_no_effect
from fxai.effects.fiber import Fiber, close_block, report, run_fiber
from fxai.effects.layer import LayerOf, MemoMap, build_layer
from fxai.effects.mistake import not_an_effect
from fxai.effects.scope import Scope

_A = TypeVar("_A")
_E = TypeVar("_E")
_Out = TypeVar("_Out")
_R_contra = TypeVar("_R_contra", contravariant=True)

Runnable: TypeAlias = EffectOf[_A, _E, None] | EffectOf[_A, _E, Never]
"""An effect that needs no more services. All functions that run an effect accept this type.

The type is a union. Otherwise mypy would derive the type of the layer in `run(program.provide(layer))` from it, and
report the mistake for the layer.
"""

Backend: TypeAlias = Literal["asyncio", "trio"]


def run(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> _A:
    """Run `effect` on a new event loop and return its value.

    Raises:
        BaseException: If the effect fails. fxai raises a failure that is an exception, or a `FailureError` with the
            cause, or the defect, or `InterruptedProgramError` if the program interrupted itself.
        RuntimeError: If an event loop already runs in this thread. Await `run_async` there.
        TypeError: If `effect` is not an effect, or if its value is an effect that was not run.
        ValueError: If `backend` is unknown or not installed.
    """
    end = run_exit(effect, backend=backend)
    if isinstance(end, Succeeded):
        return end.value
    raise end.cause.squash()


def run_exit(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> Exit[_A, _E]:
    """Run `effect` on a new event loop and return its exit. Failures and defects of the effect are not raised.

    Raises:
        RuntimeError: If an event loop already runs in this thread. Await `run_async_exit` there.
        TypeError: If `effect` is not an effect, or if its value is an effect that was not run.
        ValueError: If `backend` is unknown or not installed.
    """
    given: Any = effect
    if not isinstance(cast(object, given), EffectOf):
        raise not_an_effect(given)
    ends: list[Exit[_A, _E]] = []

    async def main() -> None:  # returns None, because asyncio formats the result of a task that it shuts down
        ends.append(await run_fiber(given, EMPTY))

    try:
        anyio.run(main, backend=backend)
    except LookupError as error:
        raise ValueError(f"backend must be 'asyncio', or 'trio' if it is installed, got {backend!r}") from error
    except RuntimeError:
        running = event_loop()
        if running is None:
            raise
        remedy = "Await fx.run_async(effect) or fx.run_async_exit(effect) instead."
        raise RuntimeError(f"an event loop ({running}) already runs in this thread. {remedy}") from None
    (end,) = ends
    return _verify(end)


def run_result(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> Result[_A, _E]:
    """Run `effect` and return its value or its typed failure as a `Result`. Raise its defect or interruption."""
    return outcome(run_exit(effect, backend=backend))


def run_io_result(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> IOResult[_A, _E]:
    """Run `effect` like `run_result` and return an `IOResult`, which marks the result as impure."""
    return IOResult.from_result(run_result(effect, backend=backend))


def run_sync(effect: Runnable[_A, _E]) -> _A:
    """Run an effect that awaits nothing and return its value, without an event loop and without a coroutine.

    Raises:
        BaseException: If the effect fails, like `run`.
        RuntimeError: If the effect awaits something.
    """
    given: Any = effect
    try:
        exit_: Exit[_A, _E] = Fiber(EMPTY, fair=False).run_sync(given)
    except BaseException as raised:
        report(raised)
        raise
    return _value(exit_)


async def run_async(effect: Runnable[_A, _E]) -> _A:
    """Run `effect` in the current task and return its value. Raise errors like `run`, and cancellations of the task."""
    given: Any = effect
    end: Exit[_A, _E] = await run_fiber(given, EMPTY)
    return _value(end)


EffectOf.__fx_run__ = staticmethod(run_async)


async def run_async_exit(effect: Runnable[_A, _E]) -> Exit[_A, _E]:
    """Run `effect` in the current task and return how it ended.

    Raises:
        BaseException: The cancellation of the task.
        TypeError: If `effect` is not an effect, or if its value is an effect that was not run.
    """
    given: Any = effect
    end: Exit[_A, _E] = await run_fiber(given, EMPTY)
    return _verify(end)


@final
class Runtime(Generic[_R_contra]):
    """Built services. Until the block of `runtime` ends, you can run any number of programs with them, concurrently."""

    __slots__ = ("_context", "_enclosure", "_scope")

    def __init__(self, context: AnyContext, scope: Scope | None = None) -> None:
        self._context = context
        self._enclosure: Enclosure | None = context.find(Enclosure)
        self._scope = scope or Scope()

    def _enclose(self, effect: EffectOf[_A, _E, _R_contra | None]) -> EffectOf[_A, _E, _R_contra | None]:
        """Return the effect, wrapped by the code that the layers put around each program.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        if self._scope.closed:
            raise RuntimeError(
                "this Runtime has ended and has released its services. Run programs inside `async with runtime(layer)`."
            )
        return effect if self._enclosure is None else self._enclosure.around(effect)

    async def run(self, effect: EffectOf[_A, _E, _R_contra | None]) -> _A:
        """Run `effect` in the current task with these services and return its value. Raise errors like `run_async`.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        if self._scope.closed or self._enclosure is not None:  # usually neither
            effect = self._enclose(effect)
        fiber = Fiber(self._context, has_task=True)
        try:
            pending = fiber.step(effect, None, None)
            end: Exit[_A, _E] = fiber.finish() if pending is None else await fiber.drive(pending)
        except BaseException as raised:
            report(raised)
            raise
        return _value(end)

    async def run_exit(self, effect: EffectOf[_A, _E, _R_contra | None]) -> Exit[_A, _E]:
        """Run `effect` in the current task with these services and return its exit.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
            TypeError: If the value of `effect` is an effect that was not run.
        """
        return _verify(await run_fiber(self._enclose(effect), self._context))

    async def run_result(self, effect: EffectOf[_A, _E, _R_contra | None]) -> Result[_A, _E]:
        """Run `effect` and return its value or its typed failure. Raise its defect or interruption.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        return outcome(await self.run_exit(effect))


@final
class runtime(Generic[_Out]):  # noqa: N801  # callers use it like a function: `async with runtime(layer) as services`
    """A context manager that builds `layer` once, returns a `Runtime`, and releases the layer at the end."""

    __slots__ = ("_layer", "_scope")

    def __init__(self, layer: LayerOf[_Out, Any, None]) -> None:
        self._layer = layer
        self._scope = Scope()

    async def __aenter__(self) -> Runtime[_Out]:
        memo = MemoMap()
        try:
            built = await run_fiber(build_layer(self._layer, memo, self._scope), EMPTY)
        except BaseException as error:
            await close_block(self._scope.close(ending(error)), EMPTY, error)
            raise
        if isinstance(built, Failed):
            closed = await run_fiber(self._scope.close(built), EMPTY)
            cause = built.cause.combine(closed.cause) if isinstance(closed, Failed) else built.cause
            raise cause.squash()
        return Runtime(memo.into(built.value), self._scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await close_block(self._scope.close(ending(error)), EMPTY, error)


def _verify(end: Exit[_A, _E]) -> Exit[_A, _E]:
    if isinstance(end, Succeeded) and end.value.__class__.__base__ is Instruction:
        require_no_effect(end.value)
    return end


def _value(exit_: Exit[_A, _E]) -> _A:
    if not isinstance(exit_, Succeeded):
        raise exit_.cause.squash()
    value = exit_.value
    if value.__class__.__base__ is Instruction:
        require_no_effect(value)
    return value
