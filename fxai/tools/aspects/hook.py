"""Hooks: what an aspect does before a handler, after it, when it failed, and at the end.

A hook is a plain function, a coroutine function, or one that gives a `Result`, an effect or a generator of effects.

>>> Return(0) == Return(0), Return(None) == None
(True, False)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, final

import msgspec
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.constructor import lift_any
from fxai.effects.effect import AnyEffect, AwaitExit, EffectOf, FailCause, Fold, Succeed, Suspend, Within
from fxai.effects.fiber import Fiber, run_fiber
from fxai.tools.handler import CallContext, lifted

if TYPE_CHECKING:
    from fxai.tools.options import ToolInfo

__all__ = ["HookReturn", "Hooks", "Invocation", "Return", "Wrap"]

_P_co = TypeVar("_P_co", covariant=True, default=Any)
_S_co = TypeVar("_S_co", covariant=True)
_S = TypeVar("_S")
_F = TypeVar("_F")
_R = TypeVar("_R", default=None)


@final
class Return(msgspec.Struct, Generic[_S_co], frozen=True):
    """The answer of a hook: `Return(value)`, whatever the value. A hook that returns None has nothing to say."""

    value: _S_co


@final
class Invocation(msgspec.Struct, Generic[_P_co], eq=False, frozen=True):
    """One run of a handler, as an aspect sees it."""

    params: _P_co
    """The decoded parameters."""
    context: CallContext
    """What the handler may know of the call: the conversation, the deadline, preliminary values."""

    @property
    def call_id(self) -> str:
        """The model's id of the call; empty when no model made it."""
        return self.context.call_id

    @property
    def tool(self) -> ToolInfo:
        """The tool that was called."""
        return self.context.tool


HookReturn = TypeAliasType(
    "HookReturn",
    Return[_S]
    | Result[Return[_S] | None, _F]
    | IOResult[Return[_S] | None, _F]
    | EffectOf[Return[_S], _F, _R]
    | EffectOf[None, _F, _R]
    | EffectOf[Return[_S] | None, _F, _R]
    | Generator[EffectOf[Any, _F, _R], object, Return[_S] | None]
    | Awaitable[Return[_S] | None]
    | Awaitable[Result[Return[_S] | None, _F]]
    | Awaitable[IOResult[Return[_S] | None, _F]]
    | None,
    type_params=(_S, _F, _R),
)
"""What a hook may return: an answer of type `S`, None for nothing to say, or a failure `F`; it may need `R`."""

Wrap = Callable[[Invocation[Any], AnyEffect], AnyEffect]
"""What an aspect makes of the effect of a handler, or of an aspect further in."""


@final
class Hooks(msgspec.Struct, frozen=True):
    """The four hooks of one aspect. They have no state, so calling the hooks gives the same wrap each time."""

    before: Callable[[Any], Any] | None = None
    after: Callable[[Any, Any], Any] | None = None
    recover: Callable[[Any, Any], Any] | None = None
    format: Callable[[Any, Any], Any] | None = None

    def __call__(self) -> Wrap:
        """What wraps a handler in the hooks."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        effect = proceed
        if self.after is not None:
            effect = _after(self.after, call, effect)
        if self.before is not None:
            effect = _before(self.before, call, effect)
        if self.recover is not None:
            effect = _recover(self.recover, call, effect)
        return effect if self.format is None else _format(self.format, call, effect)


def _before(hook: Callable[[Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    asked = Suspend(lambda: _answer(hook(call), call, "before"))
    return asked.flat_map(lambda said: proceed if said is None else Succeed(said.value))


def _after(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def after(value: Any) -> AnyEffect:
        return _answer(hook(call, value), call, "after").map(lambda said: value if said is None else said.value)

    return proceed.flat_map(after)


def _recover(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def recover(cause: Cause[Any]) -> AnyEffect | None:
        if cause.defects or not cause.failures:
            return None
        answered = _answer(hook(call, cause.failures[0]), call, "recover")
        return answered.flat_map(lambda said: FailCause(cause) if said is None else Succeed(said.value))

    return Fold(proceed, recover, None)


def _format(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def formed(result: Result[Any, Any]) -> AnyEffect:
        returned = hook(call, result)
        return Within(lambda services: lifted(returned, call.tool.name, services, lambda: call.context))

    def failed(cause: Cause[Any]) -> AnyEffect | None:
        return None if cause.defects or not cause.failures else formed(Failure(cause.failures[0]))

    return Fold(proceed, failed, lambda value: formed(Success(value)))


def _answer(returned: Any, call: Invocation[Any], hook: str) -> AnyEffect:
    """The effect of what a hook gives: a `Return`, or None."""
    if returned is None or returned.__class__ is Return:
        return Succeed(returned)
    if isawaitable(returned):
        return AwaitExit(lambda fiber: _awaited(returned, call, hook, fiber))
    effect = None if isinstance(returned, Maybe) else lift_any(returned)
    if effect is None:
        raise TypeError(_advice(returned, call, hook))
    return effect.map(lambda given: _checked(given, call, hook))


async def _awaited(awaited: Awaitable[Any], call: Invocation[Any], hook: str, fiber: Fiber) -> Exit[Any, Any]:
    given = await awaited
    if given is None or given.__class__ is Return:
        return Succeeded(given)
    return await run_fiber(_answer(given, call, hook), fiber.env)


def _checked(given: Any, call: Invocation[Any], hook: str) -> Any:
    if given is None or given.__class__ is Return:
        return given
    raise TypeError(_advice(given, call, hook))


def _advice(given: Any, call: Invocation[Any], hook: str) -> str:
    answer = "a failure that it recovers from" if hook == "recover" else "a value in place of the handler's"
    return (
        f"the hook {hook!r} of an aspect of {call.tool.name!r} gave {given!r}: return Return(value) to give {answer}, "
        "None to leave things as they are, or Failure(error)"
    )
