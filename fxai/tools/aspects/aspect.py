"""Aspects are immutable values that wrap handlers. Use an aspect to add behavior to many handlers in one place.

An aspect wraps the handlers of a layer: `aspect.wrap(tool.handler(f))`, or the layer of a whole toolkit. In each call,
these stages run in order: `before`, the handler, `after`, `recover`, `format`. Each stage receives the result of the
stages before it. To combine two aspects, write `outer.and_then(inner)`.

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

# The type variable of the requirements has a default, for a hook without requirements.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, cast, final, overload

import msgspec
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar, override

from fxai.effects.cause import AnyCause, AnyExit, Succeeded
from fxai.effects.constructor import is_plain_awaitable, lift_any
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Ask, AwaitExit, EffectOf, FailCause, Fold, Local, Succeed, Suspend, Within
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.layer import LayerOf, MemoMap, build_layer
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.scope import Scope
from fxai.schema.fault import SchemaError
from fxai.tools.handler import (
    Answering,
    CallInfo,
    HandlerError,
    answer_effect,
    context_of,
    lift_answer,
)
from fxai.tools.handler_types import HandlerReturn
from fxai.tools.identity import Identity
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_info import CallContext, ToolInfo

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt

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
    """The answer of a hook: `Return(value)`, with any value. A hook that returns None gives no answer."""

    value: _S_co
    """The answer."""


@final
class Invocation(msgspec.Struct, Generic[_P_co], eq=False, frozen=True):
    """A call of a handler, for an aspect."""

    params: _P_co
    """The decoded parameters."""
    context: CallContext
    """The context of the call: the conversation, the deadline, and the receiver of preliminary values."""

    @property
    def call_id(self) -> str:
        """The model's id of the call. Empty if no model made the call."""
        return self.context.call_id

    @property
    def tool(self) -> ToolInfo:
        """The called tool."""
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
"""The possible return values of a hook: an answer `S`, None for no answer, or a failure `F`. A hook can require `R`."""

Wrap = Callable[[Invocation, AnyEffect], AnyEffect]
"""A function that wraps the effect of a handler or of an inner aspect."""


class Gate(ABC):
    """A wrap that can change the parameters of a call. Guards use it."""

    holds_preliminary: bool = False
    """True if no preliminary value leaves the handler."""

    @abstractmethod
    def pass_on(self, call: Invocation, proceed: Callable[[Any], AnyEffect], around: AnyContext) -> AnyEffect:
        """Return the effect of the call.

        Args:
            call: The call.
            proceed: Returns the effect of the handler and of the inner aspects for parameters.
            around: The services when fxai built the layer.
        """


Wrapping = Callable[[AnyContext, AnyContext], AnyContext]
"""A function that wraps the handlers of a context. Its arguments are this context and the context of services."""

_Wraps = tuple[tuple[Identity | None, Wrap | Gate], ...]  # innermost first


class Stateless(msgspec.Struct, frozen=True):
    """The settings of an aspect without state. Each layer uses the same wrap."""

    def __call__(self) -> Wrap:
        """Return the function that wraps a handler."""
        return self.wrap

    @abstractmethod
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        """Return the effect of a call whose handler is `proceed`."""


@final
class AspectHooks(Stateless, frozen=True):
    """The four hooks of an aspect."""

    before: Callable[[Any], Any] | None = None
    after: Callable[[Any, Any], Any] | None = None
    recover: Callable[[Any, Any], Any] | None = None
    format: Callable[[Any, Any], Any] | None = None

    @override
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        effect = proceed
        if (after := self.after) is not None:
            effect = effect.flat_map(lambda value: _or(after(call, value), call, "after", Succeed(value)))
        if (before := self.before) is not None:
            run = effect
            effect = Suspend(lambda: _or(before(call), call, "before", run))
        if (recover := self.recover) is not None:

            def on_failure(cause: AnyCause) -> AnyEffect | None:
                if cause.defects or not cause.failures:
                    return None
                return _or(recover(call, cause.failures[0]), call, "recover", FailCause(cause))

            effect = Fold(effect, on_failure, None)
        return effect if self.format is None else _format(self.format, call, effect)


def _or(returned: Any, call: Invocation, hook: str, otherwise: AnyEffect) -> AnyEffect:
    """Return the effect of a hook's answer: the value of its `Return`, or `otherwise` if it is None."""
    answer = hook_answer(returned, (Return,), lambda given: _advice(given, call, hook))
    return answer.flat_map(lambda given: otherwise if given is None else Succeed(given.value))


def _format(hook: Callable[[Any, Any], Any], call: Invocation, proceed: AnyEffect) -> AnyEffect:
    def form(result: Result[Any, Any]) -> AnyEffect:
        returned = hook(call, result)
        return Within(lambda services: lift_answer(returned, call.tool.name, services, lambda: call.context))

    def on_cause(cause: AnyCause) -> AnyEffect | None:
        return None if cause.defects or not cause.failures else form(Failure(cause.failures[0]))

    return Fold(proceed, on_cause, lambda value: form(Success(value)))


def hook_answer(returned: Any, kinds: tuple[type[Any], ...], advise: Callable[[Any], str]) -> AnyEffect:
    """Return the effect of the answer of a hook.

    Args:
        returned: The value that the hook returned.
        kinds: The classes of an answer. None is always an answer.
        advise: Returns the message of the `TypeError` for any other value.
    """
    if returned is None or returned.__class__ in kinds:
        return Succeed(returned)
    if is_plain_awaitable(returned):
        return AwaitExit(lambda fiber: _await(returned, kinds, advise, fiber))
    effect = None if isinstance(returned, Maybe) else lift_any(returned)
    if effect is None:
        raise TypeError(advise(returned))

    def check(given: Any) -> Any:
        if given is None or given.__class__ in kinds:
            return given
        raise TypeError(advise(given))

    return effect.map(check)


async def _await(
    awaitable: PlainAwaitable[Any], kinds: tuple[type[Any], ...], advise: Callable[[Any], str], fiber: Fiber
) -> AnyExit:
    given = await awaitable
    if given is None or given.__class__ in kinds:
        return Succeeded(given)
    return await run_fiber(hook_answer(given, kinds, advise), fiber.env)


def _advice(given: Any, call: Invocation, hook: str) -> str:
    answer = "recover from the failure" if hook == "recover" else "replace the handler's value"
    return (
        f"hook {hook!r} of an aspect of {call.tool.name!r} returned {given!r}. Return Return(value) to {answer}, "
        "None to change nothing, or Failure(error)."
    )


@final
class Ring(msgspec.Struct, frozen=True):
    """A single aspect, not a combination."""

    only: Identity | None
    """The tool whose handler the aspect wraps, or None for every handler."""
    start: Callable[[], Wrap | Gate]
    """A function that creates the wrap and its state. fxai calls it once when it builds a layer."""


@final
class Aspect(msgspec.Struct, Generic[_R_co], frozen=True):
    """A wrapper of handlers. `R` is the set of services that it needs, a union that always contains `None`.

    `and_then` is associative, and `Aspect.empty()` is its neutral element.
    """

    rings: tuple[Ring, ...] = ()
    """The single aspects of a combination, outermost first."""

    # -- constructors

    @staticmethod
    def empty() -> Aspect:
        """Return the aspect that does nothing."""
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
        """Return the aspect of some hooks. Each hook receives the `Invocation` with call id, tool, and parameters.

        Args:
            tool: Tool whose handler the aspect wraps. The tool also defines the types. Default: the handlers of all
                tools.
            before: Hook before the handler. `Return(value)` answers the call without the handler and `after`. A failure
                also ends the call. None continues.
            after: Hook for the success. `Return(value)` or a failure replaces the success. None keeps it.
            recover: Hook for a typed failure of the handler or of an earlier hook. `Return(value)` converts it to a
                success, `Failure(error)` replaces it, and None keeps it.
            format: Function of the final `Result`. Its return value is the result of the call. It can have any form
                that a handler can return.

        An exception in a hook is a defect of the call. No hook receives defects.

        Raises:
            SchemaError: If the tool is external. It has no handler in this program.
        """
        return Aspect((Ring(identity_of(tool), AspectHooks(before, after, recover, format)),))

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
        """Return the aspect that runs `f(invocation, proceed)` instead of the handler.

        Args:
            f: Function that can run the effect `proceed` (the handler) any number of times. Its return value can have
                any form that a handler can return.
            tool: Tool whose handler the aspect wraps. The tool also defines the types. Default: the handlers of all
                tools.

        Raises:
            SchemaError: If the tool is external. It has no handler in this program.
        """
        return Aspect((Ring(identity_of(tool), Around(f)),))

    @staticmethod
    def of(start: Callable[[], Wrap | Gate], tool: AnyTool | None = None) -> Aspect:
        """Return an aspect with state. fxai calls `start` when it builds a layer. `start` returns the wrap.

        Raises:
            SchemaError: If the tool is external. It has no handler in this program.
        """
        return Aspect((Ring(identity_of(tool), start),))

    # -- composition

    def and_then(self, inner: Aspect[_R2]) -> Aspect[_R_co | _R2]:
        """Return this aspect around `inner`. The `before` of this aspect runs first, and its other hooks run last."""
        return Aspect((*self.rings, *inner.rings))

    # -- use

    def wrap(self, layer: LayerOf[_T, _E, _R2]) -> LayerOf[_T, _E, _R_co | _R2]:
        """Return the layer with wrapped handlers. The layer can contain any number of handlers.

        Other services of the layer stay unchanged. If an aspect has state (a cache, a rate limit), all handlers of the
        layer share the state while the layer exists.

        If an aspect is for one tool and the layer has no handler for it, building the layer raises `HandlerError`.
        """

        def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
            built = build_layer(layer, memo, scope)
            return built.flat_map(lambda given: Ask(lambda around: self.start()(given, around)))

        return LayerOf(build)

    def start(self) -> Wrapping:
        """Return the function that wraps existing handlers. The state of the aspect starts now."""
        wraps = tuple((ring.only, ring.start()) for ring in reversed(self.rings))
        return lambda given, around: _apply(wraps, given, around)


def _apply(wraps: _Wraps, given: AnyContext, around: AnyContext) -> AnyContext:
    identities = [key for key in given if isinstance(key, Identity)]
    stray = [only.name for only, _ in reversed(wraps) if only is not None and only not in identities]
    if stray:
        there = ", ".join(identity.name for identity in identities) or "none"
        raise HandlerError(
            f"aspect for {', '.join(stray)}: the wrapped layer has no handler for it. "
            f"The layer has handlers for: {there}"
        )
    services = dict(given.services)
    for identity in identities:
        chosen = tuple(wrap for only, wrap in wraps if only is None or only == identity)
        if chosen:
            services[identity] = Wrapped(services[identity], chosen, around)
    return ContextOf(services)


def identity_of(tool: AnyTool | None) -> Identity | None:
    """Return the identity of the tool that an aspect wraps, or None for all tools.

    Raises:
        SchemaError: If the tool is external. It has no handler in this program.
    """
    if tool is None:
        return None
    if not tool.requires_handler:
        raise SchemaError(
            f"tool {tool.name!r} is external: another program answers its calls. An aspect cannot wrap its handler."
        )
    return tool.identity


@final
class Around(Stateless, frozen=True):
    """An aspect of one function of the invocation and of the handler's effect."""

    f: Callable[[Any, Any], Any]

    @override
    def wrap(self, call: Invocation, proceed: AnyEffect) -> AnyEffect:
        def start(services: AnyContext) -> AnyEffect:
            return lift_answer(self.f(call, proceed), call.tool.name, services, lambda: call.context)

        return Within(start)


@final
class Wrapped:
    """A handler with aspects in a context, and the services at the time when fxai built it."""

    __slots__ = ("_around", "_gates", "_inner", "_wraps")

    def __init__(self, inner: Answering, wraps: tuple[Wrap | Gate, ...], around: AnyContext) -> None:
        self._inner = inner
        self._wraps = wraps  # innermost first
        self._gates = [at for at, wrap in enumerate(wraps) if isinstance(wrap, Gate)]
        self._around = around

    @property
    def joins_calls(self) -> bool:
        """True if the inner handler resumes a call when it receives the key of this call again."""
        return bool(getattr(self._inner, "joins_calls", False))

    @property
    def is_elsewhere(self) -> bool:
        """True if the inner handler runs in another process."""
        return getattr(self._inner, "is_elsewhere", False)

    def missing(self, services: AnyContext) -> tuple[Any, ...]:
        """Return the missing services of the inner handler."""
        return self._inner.missing(services)

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> AnyEffect:
        """Return the effect of the handler with the aspects around it."""
        invocation: Invocation = Invocation(params, context_of(tool, call))
        effect = self._wrap(len(self._wraps), len(self._gates), invocation, tool, call, services)
        context = self._around.merge(services)
        return Local(effect, lambda _: context)

    def _wrap(
        self,
        end: int,
        gates: int,
        invocation: Invocation,
        tool: ToolInfo,
        call: CallInfo | None,
        services: AnyContext,
    ) -> AnyEffect:
        """Return the effect of the handler in its first `end` aspects, `gates` of which are gates."""
        inner, begin = self._inner, 0
        effect: AnyEffect
        if gates:
            at = self._gates[gates - 1]
            gate, begin = cast(Gate, self._wraps[at]), at + 1
            if gate.holds_preliminary and call is not None:
                call = _Silent(call)

            def proceed(params: Any) -> AnyEffect:
                given = invocation if params is invocation.params else Invocation(params, invocation.context)
                return self._wrap(at, gates - 1, given, tool, call, services)

            effect = gate.pass_on(invocation, proceed, self._around)
        else:
            run: AnyEffect = Suspend(lambda: answer_effect(inner.answer(invocation.params, tool, call, services)))
            # The handler uses its own services, not the services of the aspects.
            effect = Local(run, lambda _: services)
        for wrap in self._wraps[begin:end]:
            effect = cast(Wrap, wrap)(invocation, effect)
        return effect


@final
class _Silent(CallInfo):
    """A call whose handler emits no preliminary values."""

    def __init__(self, call: CallInfo) -> None:
        self._call = call

    @property
    @override
    def prompt(self) -> Prompt | None:
        return self._call.prompt

    @property
    @override
    def emit(self) -> None:
        return None

    @override
    def context(self, tool: ToolInfo) -> CallContext:
        whole = self._call.context(tool)
        return CallContext(tool, whole.call_id, self._call.prompt, whole.deadline, key=whole.key)
