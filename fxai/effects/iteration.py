"""Reading a stream from plain asynchronous Python."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Generic, Self, cast, final

from typing_extensions import TypeVar

from fxai.effects.channel import END
from fxai.effects.context import EMPTY, ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.exit import Exit, Failed, ending
from fxai.effects.fiber import attach_failure, run_fiber
from fxai.effects.scope import Scope

__all__ = ["Iteration"]

_A = TypeVar("_A")


@final
class Iteration(Generic[_A]):
    """One reading of a stream: a context manager that gives its values as an asynchronous iterator."""

    __slots__ = ("_context", "_failed", "_open", "_pull", "_scope")

    def __init__(self, open_: EffectOf[Any, Any, Any], context: ContextOf[Any] = EMPTY) -> None:
        self._open = open_
        self._scope = Scope()
        self._context = context.put(Scope, self._scope)
        self._pull: EffectOf[Any, Any, Any] | None = None
        self._failed: Exit[Any, Any] | None = None

    async def __aenter__(self) -> AsyncIterator[_A]:
        try:
            self._pull = self._value(await run_fiber(self._open, self._context))
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return cast("AsyncIterator[_A]", self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        closed = await run_fiber(self._scope.close(self._failed or ending(error)), self._context)
        if error is not None:
            attach_failure(error, closed)
        elif isinstance(closed, Failed):
            raise closed.cause.squash()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _A:
        if self._pull is None:
            raise RuntimeError("the stream is not open: read it inside `async with stream.iterate() as items`")
        if self._scope.closed:
            raise StopAsyncIteration

        item = self._value(await run_fiber(self._pull, self._context))
        if item is END:
            raise StopAsyncIteration
        return cast(_A, item)

    def _value(self, exit_: Exit[Any, Any]) -> Any:
        if isinstance(exit_, Failed):
            self._failed = exit_
            raise exit_.cause.squash()
        return exit_.value
