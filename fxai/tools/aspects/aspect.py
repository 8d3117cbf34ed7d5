"""Aspects: what happens around handlers, as values that compose.

An aspect wraps the handlers that a layer gives: `aspect.wrap(tool.handler(f))`, or a whole toolkit's at once. In each
call the stages follow each other, and each sees what those before it came to: `before`, the handler, `after`,
`recover`, `format`. Two aspects are one: `outer.and_then(inner)`.

>>> from fxai.effects import fx
>>> from fxai.tools.aspects.aspect import Return
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> half = Tool.make("half", parameters=int, success=int)
>>> known = Aspect.make(tool=half, before=lambda call: Return(0) if call.params == 0 else None)
>>> more = Aspect.make(tool=half, after=lambda call, result: Return(result + 1))
>>> handlers = known.and_then(more).wrap(half.handler(lambda n: Success(n // 2)))
>>> fx.run_sync(half.call(6).provide(handlers)), fx.run_sync(half.call(0).provide(handlers))
(4, 0)
"""

# The type variable of what is needed has a default: that of a hook that needs nothing.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, final, overload

import msgspec
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.constructor import is_plain_awaitable, lift_any
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Ask, AwaitExit, EffectOf, FailCause, Fold, Local, Succeed, Suspend, Within
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.scope import Scope
from fxai.schema.fault import SchemaError
from fxai.tools.handler import (
    Answering,
    CallInfo,
    HandlerError,
    HandlerReturn,
    answer_effect,
    context_of,
    lift_answer,
)
from fxai.tools.identity import Identity
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_options import CallContext, ToolInfo

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R", default=None)
_R2 = TypeVar("_R2")
_R_co = TypeVar("_R_co", covariant=True, default=None)
_P_co = TypeVar("_P_co", covariant=True, default=Any)
_S_co = TypeVar("_S_co", covariant=True)


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
    | PlainAwaitable[Return[_S] | None]
    | PlainAwaitable[Result[Return[_S] | None, _F]]
    | PlainAwaitable[IOResult[Return[_S] | None, _F]]
    | None,
    type_params=(_S, _F, _R),
)
"""What a hook may return: an answer of type `S`, None for nothing to say, or a failure `F`; it may need `R`."""

Wrap = Callable[[Invocation[Any], AnyEffect], AnyEffect]
"""What an aspect makes of the effect of a handler, or of an aspect further in."""

Wrapping = Callable[[ContextOf[Any], ContextOf[Any]], ContextOf[Any]]
"""What an aspect makes of a context with handlers, of that and of the services around."""

_Wraps = tuple[tuple[Identity | None, Wrap], ...]  # the innermost first


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
    return asked.flat_map(lambda answer: proceed if answer is None else Succeed(answer.value))


def _after(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def after(value: Any) -> AnyEffect:
        return _answer(hook(call, value), call, "after").map(lambda answer: value if answer is None else answer.value)

    return proceed.flat_map(after)


def _recover(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def recover(cause: Cause[Any]) -> AnyEffect | None:
        if cause.defects or not cause.failures:
            return None
        answered = _answer(hook(call, cause.failures[0]), call, "recover")
        return answered.flat_map(lambda answer: FailCause(cause) if answer is None else Succeed(answer.value))

    return Fold(proceed, recover, None)


def _format(hook: Callable[[Any, Any], Any], call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
    def form(result: Result[Any, Any]) -> AnyEffect:
        returned = hook(call, result)
        return Within(lambda services: lift_answer(returned, call.tool.name, services, lambda: call.context))

    def on_cause(cause: Cause[Any]) -> AnyEffect | None:
        return None if cause.defects or not cause.failures else form(Failure(cause.failures[0]))

    return Fold(proceed, on_cause, lambda value: form(Success(value)))


def _answer(returned: Any, call: Invocation[Any], hook: str) -> AnyEffect:
    """The effect of what a hook gives: a `Return`, or None."""
    if returned is None or returned.__class__ is Return:
        return Succeed(returned)
    if is_plain_awaitable(returned):
        return AwaitExit(lambda fiber: _await(returned, call, hook, fiber))
    effect = None if isinstance(returned, Maybe) else lift_any(returned)
    if effect is None:
        raise TypeError(_advice(returned, call, hook))
    return effect.map(lambda given: _check(given, call, hook))


async def _await(awaitable: PlainAwaitable[Any], call: Invocation[Any], hook: str, fiber: Fiber) -> Exit[Any, Any]:
    given = await awaitable
    if given is None or given.__class__ is Return:
        return Succeeded(given)
    return await run_fiber(_answer(given, call, hook), fiber.env)


def _check(given: Any, call: Invocation[Any], hook: str) -> Any:
    if given is None or given.__class__ is Return:
        return given
    raise TypeError(_advice(given, call, hook))


def _advice(given: Any, call: Invocation[Any], hook: str) -> str:
    answer = "a failure that it recovers from" if hook == "recover" else "a value in place of the handler's"
    return (
        f"the hook {hook!r} of an aspect of {call.tool.name!r} gave {given!r}: return Return(value) to give {answer}, "
        "None to leave things as they are, or Failure(error)"
    )


# The type variable of what is needed has a default: that of a hook that needs nothing.
# pyright: reportInvalidTypeVarUse=false


@final
class Ring(msgspec.Struct, frozen=True):
    """One aspect that is not composed of others."""

    only: Identity | None
    """The tool whose handler it wraps; None: every handler."""
    start: Callable[[], Wrap]
    """Gives what wraps the handlers, with a state of its own where there is one; called once when a layer is built."""


@final
class Aspect(msgspec.Struct, Generic[_R_co], frozen=True):
    """What happens around handlers; `R` is what services it needs for that (a union that always holds `None`).

    Aspects are a monoid: `and_then` is associative, and `Aspect.empty()` is neutral.
    """

    rings: tuple[Ring, ...] = ()
    """The aspects that it is composed of, the outermost first."""

    # -- constructors

    @staticmethod
    def empty() -> Aspect:
        """The aspect that does nothing."""
        return Aspect()

    @overload
    @staticmethod
    def make(
        *,
        tool: Tool[_P, _S, _F],
        before: Callable[[Invocation[_P]], HookReturn[_S, _F, _R]] | None = ...,
        after: Callable[[Invocation[_P], _S], HookReturn[_S, _F, _R]] | None = ...,
        recover: Callable[[Invocation[_P], _F], HookReturn[_S, _F, _R]] | None = ...,
        format: Callable[[Invocation[_P], Result[_S, _F]], HandlerReturn[_S, _F, _R]] | None = ...,
    ) -> Aspect[_R | None]: ...
    @overload
    @staticmethod
    def make(
        *,
        before: Callable[[Invocation], HookReturn[Any, Any, _R]] | None = ...,
        after: Callable[[Invocation, Any], HookReturn[Any, Any, _R]] | None = ...,
        recover: Callable[[Invocation, Any], HookReturn[Any, Any, _R]] | None = ...,
        format: Callable[[Invocation, Result[Any, Any]], HandlerReturn[Any, Any, _R]] | None = ...,
    ) -> Aspect[_R | None]: ...
    @staticmethod
    def make(
        *,
        tool: Any = None,
        before: Callable[..., Any] | None = None,
        after: Callable[..., Any] | None = None,
        recover: Callable[..., Any] | None = None,
        format: Callable[..., Any] | None = None,
    ) -> Any:
        """The aspect of some hooks, each of which sees the `Invocation`: call id, tool and parameters.

        Args:
            tool: the tool whose handler it wraps, with its types; by default the handlers of all tools.
            before: may answer at once by `Return(value)`: then neither handler nor `after` run. A failure ends the
                call likewise; None goes on.
            after: is given the result; `Return(value)` replaces it, a failure takes its place, None keeps it.
            recover: is given a typed failure, of the handler or of a hook before it; `Return(value)` makes it a
                success, `Failure(error)` another failure, None leaves it.
            format: is given what came of all that, as a `Result`, and says what the call gives, as a handler does.

        An exception in a hook is a defect of that call; no hook is given defects.

        Raises:
            SchemaError: the tool is external: it has no handler here.
        """
        return Aspect((Ring(_identity_of(tool), Hooks(before, after, recover, format)),))

    @overload
    @staticmethod
    def around(
        f: Callable[[Invocation[_P], EffectOf[_S, _F, None]], HandlerReturn[_S, _F, _R]], *, tool: Tool[_P, _S, _F]
    ) -> Aspect[_R | None]: ...
    @overload
    @staticmethod
    def around(
        f: Callable[[Invocation, EffectOf[Any, Any, None]], HandlerReturn[Any, Any, _R]],
    ) -> Aspect[_R | None]: ...
    @staticmethod
    def around(f: Callable[..., Any], *, tool: Any = None) -> Any:
        """The aspect that runs `f(invocation, proceed)` in place of the handler.

        Args:
            f: may run the effect `proceed`, which is the handler, no times, once or more often; returns any form that
                a handler may.
            tool: the tool whose handler it wraps, with its types; by default the handlers of all tools.

        Raises:
            SchemaError: the tool is external: it has no handler here.
        """
        return Aspect((Ring(_identity_of(tool), Around(f)),))

    @staticmethod
    def of(start: Callable[[], Wrap], tool: AnyTool | None = None) -> Aspect:
        """The aspect with a state: `start` is called when a layer is built, and gives what wraps its handlers.

        Raises:
            SchemaError: the tool is external: it has no handler here.
        """
        return Aspect((Ring(_identity_of(tool), start),))

    # -- composition

    def and_then(self, inner: Aspect[_R2]) -> Aspect[_R_co | _R2]:
        """This aspect around `inner`: its `before` comes first, all its other hooks come last."""
        return Aspect((*self.rings, *inner.rings))

    # -- use

    def wrap(self, layer: LayerOf[_T, _E, _R2]) -> LayerOf[_T, _E, _R_co | _R2]:
        """The layer whose handlers are wrapped: of one tool, of a toolkit, or of anything that holds handlers.

        Other services of the layer stay as they are. An aspect with a state (a cache, a rate limit) has one for all
        handlers of the layer, for as long as the layer lives.

        When the layer is built, an aspect for one tool whose handler is not in it is a `HandlerError`.
        """

        def build(memo: MemoMap, scope: Scope) -> EffectOf[ContextOf[Any], Any, Any]:
            built = layer.build_in(memo, scope)
            return built.flat_map(lambda given: Ask(lambda around: self.begin()(given, around)))

        return LayerOf(build)

    def begin(self) -> Wrapping:
        """What wraps handlers that are built already; a state of the aspect begins now."""
        wraps = tuple((ring.only, ring.start()) for ring in reversed(self.rings))
        return lambda given, around: _apply(wraps, given, around)


def _apply(wraps: _Wraps, given: ContextOf[Any], around: ContextOf[Any]) -> ContextOf[Any]:
    identities = [key for key in given if isinstance(key, Identity)]
    stray = [only.name for only, _ in reversed(wraps) if only is not None and only not in identities]
    if stray:
        there = ", ".join(identity.name for identity in identities) or "none"
        raise HandlerError(
            f"an aspect is for a tool whose handler is not in the layer that it wraps: {', '.join(stray)}; "
            f"the handlers there: {there}"
        )
    services = dict(given.services)
    for identity in identities:
        chosen = tuple(wrap for only, wrap in wraps if only is None or only == identity)
        if chosen:
            services[identity] = Wrapped(services[identity], chosen, around)
    return ContextOf(services)


def _identity_of(tool: AnyTool | None) -> Identity | None:
    if tool is None:
        return None
    if not tool.requires_handler:
        raise SchemaError(
            f"the tool {tool.name!r} is external: its calls are answered elsewhere, so no aspect can wrap its handler"
        )
    return tool.identity


@final
class Around(msgspec.Struct, frozen=True):
    """An aspect by one function of the invocation and of the handler's effect."""

    f: Callable[[Any, Any], Any]

    def __call__(self) -> Wrap:
        """What wraps a handler in the function."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        def begin(services: ContextOf[Any]) -> AnyEffect:
            return lift_answer(self.f(call, proceed), call.tool.name, services, lambda: call.context)

        return Within(begin)


@final
class Wrapped:
    """A handler in a context, with what is around it, and the services that were there when that was built."""

    __slots__ = ("_around", "_inner", "_wraps")

    def __init__(self, inner: Answering, wraps: tuple[Wrap, ...], around: ContextOf[Any]) -> None:
        self._inner = inner
        self._wraps = wraps  # the innermost first
        self._around = around

    @property
    def joins_calls(self) -> bool:
        """Whether the handler inside goes on with a call that it was given before."""
        return bool(getattr(self._inner, "joins_calls", False))

    @property
    def is_elsewhere(self) -> bool:
        """Whether the handler inside runs in another process."""
        return getattr(self._inner, "is_elsewhere", False)

    def missing(self, services: ContextOf[Any]) -> tuple[Any, ...]:
        """As of the handler inside."""
        return self._inner.missing(services)

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]) -> AnyEffect:
        """The effect of what the handler gives, and the aspects make of it."""
        inner = self._inner
        run: AnyEffect = Suspend(lambda: answer_effect(inner.answer(params, tool, call, services)))
        # What only the aspects were given is not for the handler, which has its own.
        effect: AnyEffect = Local(run, lambda _: services)
        invocation: Invocation[Any] = Invocation(params, context_of(tool, call))
        for wrap in self._wraps:
            effect = wrap(invocation, effect)
        context = self._around.merge(services)
        return Local(effect, lambda _: context)
