"""Runtimes: where a program, which is a value, is run.

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
from fxai.effects.context import EMPTY, ContextOf, enclose
from fxai.effects.effect import EffectOf, Instruction, require_no_effect
from fxai.effects.fiber import Fiber, close_block, report, run_fiber
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.mistake import not_an_effect
from fxai.effects.scope import Scope

_A = TypeVar("_A")
_E = TypeVar("_E")
_Out = TypeVar("_Out")
_R_contra = TypeVar("_R_contra", contravariant=True)

Runnable: TypeAlias = EffectOf[_A, _E, None] | EffectOf[_A, _E, Never]
"""An effect that needs nothing more, as all that run one take it.

It is a union so that mypy does not expect it of the layer in `run(program.provide(layer))`, and blame that one.
"""

Backend: TypeAlias = Literal["asyncio", "trio"]


def run(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> _A:
    """The value of `effect`, run on an event loop of its own.

    Raises:
        BaseException: a typed failure, itself if it is an exception, else as `FailureError` with the cause;
            a defect as itself; `InterruptedProgramError` when the program interrupted itself.
        RuntimeError: an event loop runs here already: await `run_async` there.
        TypeError: `effect` is no effect, or gives one that was not run.
    """
    end = run_exit(effect, backend=backend)
    if isinstance(end, Succeeded):
        return end.value
    raise end.cause.squash()


def run_exit(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> Exit[_A, _E]:
    """How `effect` ended, run on an event loop of its own; nothing that goes wrong in it is raised.

    Raises:
        RuntimeError: an event loop runs here already: await `run_async_exit` there.
        TypeError: `effect` is no effect, or gives one that was not run.
    """
    given: Any = effect
    if not isinstance(cast(object, given), EffectOf):
        raise not_an_effect(given)
    ends: list[Exit[_A, _E]] = []

    async def main() -> None:  # gives nothing: asyncio writes out what a task gave when it is left, however long it is
        ends.append(await run_fiber(given, EMPTY))

    try:
        anyio.run(main, backend=backend)
    except RuntimeError:
        running = event_loop()
        if running is None:
            raise
        remedy = "await fx.run_async(effect), or fx.run_async_exit(effect)"
        raise RuntimeError(f"an event loop ({running}) runs here: {remedy}") from None
    (end,) = ends
    return _verify(end)


def run_result(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> Result[_A, _E]:
    """The value of `effect` or its typed failure, as a `Result`; a defect or an interruption is raised."""
    return outcome(run_exit(effect, backend=backend))


def run_io_result(effect: Runnable[_A, _E], *, backend: Backend = "asyncio") -> IOResult[_A, _E]:
    """What `run_result` gives, marked as coming from the outside world."""
    return IOResult.from_result(run_result(effect, backend=backend))


def run_sync(effect: Runnable[_A, _E]) -> _A:
    """The value of an effect that awaits nothing; no event loop is started, and no coroutine is made.

    Raises:
        BaseException: as `run`.
        RuntimeError: the effect awaits something.
    """
    given: Any = effect
    try:
        exit_: Exit[_A, _E] = Fiber.without_loop(EMPTY).run_sync(given)
    except BaseException as raised:
        report(raised)
        raise
    return _value(exit_)


async def run_async(effect: Runnable[_A, _E]) -> _A:
    """The value of `effect`, run in the current task; raises as `run` does, and what cancels the task."""
    given: Any = effect
    end: Exit[_A, _E] = await run_fiber(given, EMPTY)
    return _value(end)


EffectOf.__fx_run__ = staticmethod(run_async)


async def run_async_exit(effect: Runnable[_A, _E]) -> Exit[_A, _E]:
    """Run `effect` in the current task and return how it ended.

    Raises:
        BaseException: The cancellation of the task.
        TypeError: If `effect` is no effect, or gives one that was not run.
    """
    given: Any = effect
    end: Exit[_A, _E] = await run_fiber(given, EMPTY)
    return _verify(end)


@final
class Runtime(Generic[_R_contra]):
    """Services that are built: programs run with them, any number and at once, until the block of `runtime` ends."""

    __slots__ = ("_context", "_scope")

    def __init__(self, context: ContextOf[Any], scope: Scope | None = None) -> None:
        self._context = context
        self._scope = scope

    def _open(self) -> ContextOf[Any]:
        """Return the services.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        if self._scope is not None and self._scope.closed:
            raise RuntimeError(
                "this Runtime has ended: its services were released. Run programs inside `async with runtime(layer)`."
            )
        return self._context

    async def run(self, effect: EffectOf[_A, _E, _R_contra | None]) -> _A:
        """The value of `effect`, run in the current task with these services; raises as `run_async` does.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        context = self._open()
        fiber = Fiber(context)
        try:
            pending = fiber.step(enclose(effect, context), None, None)
            end: Exit[_A, _E] = fiber.finish() if pending is None else await fiber.drive(pending)
        except BaseException as raised:
            report(raised)
            raise
        return _value(end)

    async def run_exit(self, effect: EffectOf[_A, _E, _R_contra | None]) -> Exit[_A, _E]:
        """How `effect` ended, run in the current task with these services.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
            TypeError: If `effect` gives an effect that was not run.
        """
        context = self._open()
        return _verify(await run_fiber(enclose(effect, context), context))

    async def run_result(self, effect: EffectOf[_A, _E, _R_contra | None]) -> Result[_A, _E]:
        """The value of `effect` or its typed failure; a defect or an interruption is raised.

        Raises:
            RuntimeError: If the block of `runtime` has ended.
        """
        return outcome(await self.run_exit(effect))


@final
class runtime(Generic[_Out]):  # noqa: N801  # used as a function: `async with runtime(layer) as services`
    """A context manager that builds `layer` once, gives a `Runtime`, and releases the layer when left."""

    __slots__ = ("_layer", "_scope")

    def __init__(self, layer: LayerOf[_Out, Any, None]) -> None:
        self._layer = layer
        self._scope = Scope()

    async def __aenter__(self) -> Runtime[_Out]:
        memo = MemoMap()
        try:
            built = await run_fiber(self._layer.build_in(memo, self._scope), EMPTY)
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
    end = _verify(exit_)
    if isinstance(end, Succeeded):
        return end.value
    raise end.cause.squash()
