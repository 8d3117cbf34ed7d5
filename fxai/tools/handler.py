"""Handlers: the code behind a tool, joined to it by a layer.

A handler takes the decoded parameters, and the `CallContext` if it takes two arguments. It returns a `Result`, an
awaitable of one, a `FutureResult`, an `IOResult`, a `RequiresContextFutureResult`, an `Effect`, a generator of
effects, or a `Stream` whose last item is the result. A bare value is a defect: it says neither success nor failure.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> half = Tool.make("half", parameters=int, success=int, failure=str)
>>> handled = half.handler(lambda n: Failure("odd") if n % 2 else Success(n // 2))
>>> fx.run_result(half.call(6).provide(handled)), fx.run_result(half.call(7).provide(handled))
(<Success: 3>, <Failure: odd>)
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from time import perf_counter
from types import CoroutineType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Never, Protocol, cast, final
from weakref import WeakSet

import anyio
import anyio.lowlevel
import msgspec
from returns.context import RequiresContextFutureResult
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from returns.unsafe import unsafe_perform_io
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects.cancellation import event_loop, shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import lift_any, of_result
from fxai.effects.context import ContextOf, MissingServiceError
from fxai.effects.effect import (
    AnyEffect,
    Await,
    AwaitExit,
    EffectOf,
    Generate,
    Instruction,
    Local,
    Observe,
    Within,
)
from fxai.effects.fiber import run_fiber
from fxai.effects.layer import LayerOf
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.pull import END
from fxai.effects.scope import scoped
from fxai.effects.stream import AnyStream, StreamOf
from fxai.effects.tracing import Operation
from fxai.tools.identity import Identity
from fxai.tools.tool_options import CallContext, ToolInfo
from fxai.tools.type_hints import needed_services

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_O = TypeVar("_O")
_T = TypeVar("_T")
_E = TypeVar("_E")
_R2 = TypeVar("_R2")
_R = TypeVar("_R", default=None)
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)

HandlerReturn = TypeAliasType(
    "HandlerReturn",
    Result[_S, _F]  # first what is meant most often: messages of checkers begin with it
    | EffectOf[_S, _F, _R]
    | Generator[EffectOf[Any, _F, _R], object, _S]
    | PlainAwaitable[Result[_S, _F] | IOResult[_S, _F] | EffectOf[_S, _F, _R]]
    | StreamOf[_S, _F, _R]
    | IOResult[_S, _F]
    | RequiresContextFutureResult[_S, _F, ContextOf[_R]],
    type_params=(_S, _F, _R),
)
"""What a handler may return: success `S`, failure `F`, needed services `R`."""


@final
class HandlerOf(Generic[_P, _S, _F]):
    """The member of `R` that says: a handler is needed, from parameters `P` to success `S` or failure `F`.

    It is a type only and never made: at run time the handler is found by the tool itself.
    """

    def __init__(self) -> None:
        raise TypeError("HandlerOf is a type only: handlers are made by tool.handler(f)")


@final
class Gives(Generic[_T_co, _E_co, _R_co]):
    """What something gives: the handlers of tools `T`; it may fail with `E`, and needs `R`. A type only, never made."""

    def __init__(self) -> None:
        raise TypeError("Gives is a type only: use BoundToolkit or ToolSource")


@final
class MethodsOf(Generic[_O]):
    """The member of `R` that says: the handlers of the tools made from an object of class `O` are needed.

    It is a type only and never made: at run time each handler is found by its tool.
    """

    def __init__(self) -> None:
        raise TypeError("MethodsOf is a type only: handlers of methods come from Toolkit.from_object(obj).layer")


class Given(NamedTuple):
    """The key that says which function gave a handler, so that `Toolkit.to_layer` notices one tool with two of them."""

    identity: Identity
    function: int
    """The function's `id`; the handler in the same context holds the function."""


class CallInfo(Protocol):
    """A call as handlers and aspects see it: each `Call` is one."""

    @property
    def prompt(self) -> Prompt | None:
        """The conversation so far; None where no model made the call."""

    @property
    def emit(self) -> Callable[[Any], EffectOf[None]] | None:
        """What is given the preliminary outcomes; None where they are not read."""

    def context(self, tool: ToolInfo, /) -> CallContext:
        """What the handler of `tool` may know of the call."""
        ...


class InnerCall(msgspec.Struct, frozen=True, eq=False):
    """A call inside the call of a composite, which is about to be run."""

    index: int
    """Which of the calls inside, from 0."""
    name: str
    params: Any
    """As plain JSON data, as they were given."""
    call_id: str
    tool: ToolInfo


class InnerCalls(ABC):
    """What stands around each call inside of composites: a service that no type names, found under its class."""

    @abstractmethod
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        """A call that is run, which gives its `Outcome`."""


class Answering(Protocol):
    """What a context holds for a tool: a handler, or one that aspects wrap."""

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]) -> Any:
        """A `Result`, or else the effect of what it gives."""

    def missing(self, services: ContextOf[Any]) -> tuple[Any, ...]:
        """The keys of the services that it says it needs, and that it would not find if it were called with these."""
        ...


@final
class PlainInThreads:
    """The key of a context in which handlers that are plain functions run in threads, by default."""


def in_threads(context: ContextOf[Any]) -> ContextOf[Any]:
    """Return the context of a server: plain functions run in threads, so that none of them stops the others."""
    return ContextOf({**context.services, PlainInThreads: True})


@final
class Handler(msgspec.Struct, eq=False):
    """A handler in a context: the function, and the services that were there when its layer was built."""

    f: Callable[..., Any]
    context: ContextOf[Any]
    wants_context: bool
    blocking: Blocking | None = None
    threads: Threads | None = None

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]) -> Any:
        """What the handler returned: a `Result`, or else the effect of what it gives."""
        if self.blocking is not None:
            arguments = (params, context_of(tool, call)) if self.wants_context else (params,)
            return self.blocking.call(self.f, arguments, tool.name)
        if self.threads is not None and services.services.get(PlainInThreads) and self.threads.are_for_it:
            arguments = (params, context_of(tool, call)) if self.wants_context else (params,)
            ran: EffectOf[Any] = self.threads.blocking.run(self.f, arguments, tool.name)
            return ran.flat_map(lambda returned: self._read(returned, tool, call, services))

        begun = perf_counter()
        returned = self.f(params, context_of(tool, call)) if self.wants_context else self.f(params)
        if perf_counter() - begun > HELD_SECONDS:
            report_held(tool.name, self.f, perf_counter() - begun)
        kind = returned.__class__
        if kind is Success or kind is Failure:
            return returned
        return self._read(returned, tool, call, services)

    def _read(self, returned: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]) -> AnyEffect:
        if returned.__class__ is CoroutineType:
            return _Awaiting(self, returned, tool, call, services)
        return self._lift(returned, tool, call, services)

    def missing(self, services: ContextOf[Any]) -> tuple[Any, ...]:
        """The keys of the services that the function's return annotation names, and that are not given.

        An annotation that is not there, or that names what is only there for checkers, says nothing.
        """
        context = self.context.merge(services)
        return tuple(key for key in needed_services(self.f) if context.find(key) is None)

    async def wait(
        self, coroutine: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]
    ) -> Exit[Any, Any]:
        """How it ended, of a handler that returned a coroutine."""
        returned = await _Watched(coroutine, tool.name, self.f)
        kind = returned.__class__
        if kind is Success:
            return Succeeded(returned.unwrap())
        if kind is Failure:
            return Failed(Cause((Fail(returned.failure()),)))
        return await run_fiber(self._lift(returned, tool, call, services), services)

    def _lift(self, returned: Any, tool: ToolInfo, call: CallInfo | None, services: ContextOf[Any]) -> AnyEffect:
        context = self.context.merge(services)
        effect = lift_answer(returned, tool.name, context, lambda: context_of(tool, call))
        if isinstance(effect, Generate):
            effect = _watch_generator(effect, tool.name, self.f)
        return Local(effect, lambda _: context)


@final
class _Awaiting(Instruction, eq=False):
    """The effect of what a coroutine of a handler gives."""

    handler: Handler
    coroutine: Any
    tool: ToolInfo
    call: CallInfo | None
    services: ContextOf[Any]
    op = AwaitExit.op

    def f(self, _: object) -> Awaitable[Exit[Any, Any]]:
        return self.handler.wait(self.coroutine, self.tool, self.call, self.services)


def lift_answer(returned: Any, name: str, services: ContextOf[Any], call: Callable[[], CallContext]) -> AnyEffect:
    """The effect of what a handler of the tool `name` returned; `call` gives what it may know of its call.

    Raises:
        TypeError: it returned none of what a handler may return; the message says what it may.
    """
    if isinstance(returned, StreamOf):
        return _last(cast(Any, returned), call())
    effect: AnyEffect | None
    if isinstance(returned, RequiresContextFutureResult):
        effect = lift_any(cast(Any, returned)(services))
    else:
        effect = None if isinstance(returned, Maybe) else lift_any(returned)
    if effect is None:
        raise TypeError(_advice(name, returned))
    return effect


def joins_calls(tool: ToolInfo, services: ContextOf[Any]) -> bool:
    """Whether the handler of a tool, given the key of a call that it was given before, goes on with that call."""
    handler = services.services.get(tool.identity)
    return bool(getattr(handler, "joins_calls", False))


def answer_effect(answer: Any) -> AnyEffect:
    """What a handler answered, as an effect."""
    return of_result(cast(Any, answer)) if isinstance(answer, Success | Failure) else answer


def context_of(tool: ToolInfo, call: CallInfo | None) -> CallContext:
    """What the handler of `tool` may know of a call; None: of one from our own code."""
    return CallContext(tool) if call is None else call.context(tool)


def _last(stream: AnyStream, call: CallContext) -> AnyEffect:
    """The last item of a stream; those before it are preliminary."""

    def read(pull: AnyEffect) -> Generator[AnyEffect, Any, Any]:
        held = yield pull
        if held is END:
            raise TypeError(f"the handler of {call.tool.name!r} gave an empty stream: its last item is the result")
        while (item := (yield pull)) is not END:
            yield call.preliminary(held)
            held = item
        return held

    return scoped(stream.pull().flat_map(lambda pull: Generate(read, (pull,), {})))


def _advice(name: str, returned: Any) -> str:
    return (
        f"the handler of {name!r} returned {returned!r}, which says neither success nor failure: return a Result "
        "(Success(value) or Failure(error)), an awaitable of one, an Effect, a generator of effects or a Stream"
    )


_LEFT_BEHIND = "the blocking handler of %r goes on after %s s: its thread is left behind"


@final
class Blocking(msgspec.Struct, frozen=True):
    """How to run a handler that blocks: in a worker thread, which Python cannot cancel.

    A cancellation waits for it `grace` seconds, then leaves it behind and says so in the log `fxai.tools`. Such a
    handler returns a `Result` or an `IOResult`.
    """

    grace: float = 5.0

    def call(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> AnyEffect:
        """The effect of `f(*arguments)` in a worker thread."""
        return self.run(f, arguments, name).flat_map(lambda returned: of_result(_result(returned, name)))

    def run(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> EffectOf[Any]:
        """Return the effect of `f(*arguments)` in a worker thread; its value is what `f` returns, of any form."""
        return Await(lambda _: self._run(f, arguments, name))

    async def _run(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> Any:
        from anyio import from_thread, to_thread  # they import what threads need

        ended = anyio.Event()
        portal = anyio.lowlevel.current_token()
        turn = threading.Lock()  # taken by the thread when it begins, or by a cancellation that comes first

        def work() -> Any:
            if not turn.acquire(blocking=False):
                return None
            try:
                return f(*arguments)
            finally:
                with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # no task waits any more
                    from_thread.run_sync(ended.set, token=portal)

        try:
            return await to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            if not turn.acquire(blocking=False):  # else it waited for a free thread, and never begins now
                await self._wait(ended, name)
            raise

    async def _wait(self, ended: anyio.Event, name: str) -> None:
        try:
            await shield(self._in_time(ended))
        finally:
            if not ended.is_set():
                import logging

                logging.getLogger("fxai.tools").warning(_LEFT_BEHIND, name, self.grace)

    async def _in_time(self, ended: anyio.Event) -> None:
        with anyio.move_on_after(self.grace):
            await ended.wait()


@final
class Threads(msgspec.Struct, frozen=True):
    """How a handler runs in a server, unless its `blocking` says otherwise."""

    function: Any
    """The function as the user wrote it."""
    blocking: Blocking

    @property
    def are_for_it(self) -> bool:
        """True if it is a plain function, and an event loop runs that it could hold up."""
        f = inspect.unwrap(self.function) if callable(self.function) else self.function
        call = f if inspect.isroutine(f) else type(f).__call__
        others = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        return event_loop() is not None and not any(is_other(call) for is_other in others)


def threading_of(written: object, blocking: bool | None, grace: float) -> tuple[Blocking | None, Threads | None]:
    """Return how a handler runs in a thread, if it does, and how it runs in a server.

    Args:
        written: The function as the user wrote it.
        blocking: As for `Tool.handler`.
        grace: Seconds that a cancellation waits for the thread.
    """
    if blocking is None:
        return None, Threads(written, Blocking(grace))
    return (Blocking(grace) if blocking else None), None


# -- handlers that hold up the event loop

HELD_SECONDS: Final = 0.1
"""Seconds that a handler may hold up the event loop before fxai reports it."""

_reported: WeakSet[Any] = WeakSet()
_HELD = "the handler of %r held up the event loop for %.1f s, and all other programs on it. %s"
_REMEDY = "Run it in a thread: blocking=True."
_REMEDY_OF_STEPS = "Do what takes long in a thread: fx.in_thread(…), or a plain function with blocking=True."


def report_held(name: str, f: Callable[..., Any], seconds: float, remedy: str = _REMEDY) -> None:
    """Write to the log `fxai.tools` that a handler held up the event loop, once for each function."""
    function = getattr(f, "__func__", f)
    if event_loop() is None or function in _reported:
        return
    _reported.add(function)
    import logging

    logging.getLogger("fxai.tools").warning(_HELD, name, seconds, remedy)


@final
class _Watched(msgspec.Struct, eq=False):
    """A coroutine or a generator, whose steps are timed: what it does between two waits holds up the event loop."""

    steps: Any
    name: str
    function: Callable[..., Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self.steps.send, None)
        while True:
            begun = perf_counter()
            try:
                waited = step()
            except StopIteration as stop:
                return stop.value
            finally:
                seconds = perf_counter() - begun
                if seconds > HELD_SECONDS:
                    report_held(self.name, self.function, seconds, _REMEDY_OF_STEPS)
            try:
                sent = yield waited
            except BaseException as raised:
                step = partial(self.steps.throw, raised)
            else:
                step = partial(self.steps.send, sent)


def _watch_generator(effect: Generate, name: str, f: Callable[..., Any]) -> Generate:
    """Return the effect, which times the steps of its generator."""

    def start(*args: Any, **kwargs: Any) -> Any:
        made = effect.f(*args, **kwargs)
        return _Watched(made, name, f).__await__() if isinstance(made, GeneratorType) else made

    start.__name__ = getattr(effect.f, "__name__", "start")
    return Generate(start, effect.args, effect.kwargs)


def _result(returned: Any, name: str) -> Result[Any, Any]:
    if isinstance(returned, Success | Failure):
        given: Result[Any, Any] = cast(Any, returned)
        return given
    if isinstance(returned, IOResult):
        result: Result[Any, Any] = cast(Any, unsafe_perform_io)(returned)
        return result
    raise TypeError(
        f"the blocking handler of {name!r} returned {returned!r}: in a thread it must return a Result or an IOResult"
    )


def handler_layer(
    identity: Identity,
    f: Callable[..., Any],
    blocking: Blocking | None = None,
    threads: Threads | None = None,
) -> LayerOf[Any, Never, Any]:
    """The layer that gives `f` as the handler of a tool, with the services that are there when it is built.

    Args:
        identity: Of the tool.
        f: The handler.
        blocking: How it runs in a thread. Default: None, it does not.
        threads: How it runs in a server. Default: None, as anywhere.
    """
    wants_context = _positional(f) >= 2
    if blocking is not None and inspect.iscoroutinefunction(f):
        raise TypeError(f"the handler of {identity.name!r} is a coroutine function: leave blocking=True out")

    if inspect.isasyncgenfunction(f):
        raise TypeError(
            f"the handler of {identity.name!r} is an asynchronous generator: return Stream.from_async(…) of its items, "
            "the last of which is the result"
        )
    given = Given(identity, id(f))

    def bind(context: ContextOf[Any]) -> ContextOf[Any]:
        handler = Handler(f, context, wants_context=wants_context, blocking=blocking, threads=threads)
        return ContextOf({identity: handler, given: True})

    return LayerOf.of(bind)


def handler_of(f: Callable[..., Any], services: ContextOf[Any]) -> Handler:
    """`f` as the handler of a tool, with services that are there already."""
    return Handler(f, services, wants_context=_positional(f) >= 2, blocking=None)


def _positional(f: Callable[..., Any]) -> int:
    # What `signature` would say, without its cost, of functions, methods, and what `fx.gen` makes of them.
    inner: Any = cast(Any, f).__func__ if isinstance(f, MethodType) else f
    if type(inner) is FunctionType and inner.__dict__.keys() == {"__wrapped__"}:
        inner = inner.__dict__["__wrapped__"]
    if type(inner) is FunctionType and not inner.__dict__:
        given = len(inner.__defaults__ or ()) + isinstance(f, MethodType)
        return max(0, inner.__code__.co_argcount - given)
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def missing_handler(tool: ToolInfo) -> LookupError:
    """The defect of a call whose tool has no handler, which the checkers could not see."""
    if not tool.requires_handler:
        return LookupError(
            f"the tool {tool.name!r} is external: its calls are answered outside of this program, not by a handler here"
        )
    return LookupError(
        f"no layer gives a handler for the tool {tool.name!r}: provide tool.handler(f), "
        "best by toolkit.to_layer(…), which checks that each tool has one"
    )


@final
class ToolExecution(Operation, eq=False):
    """A call of a tool that is run, for a tracer; it gives an `Outcome`, or, typed, what the handler does."""

    name: str
    tool: ToolInfo | None
    """None: there is no tool of that name."""
    call_id: str
    """Empty where no model made the call."""
    given: Any
    """The parameters: plain JSON data or its text."""
    is_typed: bool = False
    """Whether the parameters are a value of their type, and the call gives one, as `tool.call` does."""


def typed_call(tool: ToolInfo, params: Any) -> AnyEffect:
    """The typed success or failure of a tool's handler for typed parameters; no JSON is involved."""

    def start(services: ContextOf[Any]) -> AnyEffect:
        handler: Answering | None = services.find(tool.identity)
        if handler is None:
            raise missing_handler(tool)
        return answer_effect(handler.answer(params, tool, None, services))

    return Observe(Within(start), ToolExecution(tool.name, tool, "", params, is_typed=True))


class HandlerError(TypeError):
    """Handlers and tools do not match: a handler is missing, there are two for one tool, or one is for no tool."""


def check_handlers(
    tools: Mapping[str, ToolInfo], layer: LayerOf[_T, _E, _R2], left_out: frozenset[Identity] = frozenset()
) -> LayerOf[_T, _E, _R2]:
    """The layer, whose building raises `HandlerError` unless each tool has one handler there.

    No other tool may have one, but for those that were left out of the tools.
    """
    needed = {tool.identity: tool.name for tool in tools.values() if tool.requires_handler}

    def check(context: ContextOf[Any]) -> ContextOf[Any]:
        givers: list[Identity] = []
        services: dict[Any, Any] = {}
        for key, service in context.services.items():
            if isinstance(key, Given):
                givers.append(key.identity)
            else:
                services[key] = service
        if services.keys() != needed.keys() or len(set(givers)) < len(givers):
            _require_match(tools, needed, givers, services, left_out)
        return ContextOf(services)

    return layer.map_context(check)


def _require_match(
    tools: Iterable[str],
    needed: Mapping[Identity, str],
    givers: list[Identity],
    services: Mapping[Any, Any],
    left_out: frozenset[Identity],
) -> None:
    missing = [name for identity, name in needed.items() if services.get(identity) is None]
    extra = [key.name for key in services if isinstance(key, Identity) and key not in needed and key not in left_out]
    problems = (("no handler for", missing), ("two handlers for", _duplicates(givers)), ("no such tool here", extra))
    found = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems if names)
    if found:
        raise HandlerError(f"the handlers do not match Toolkit({', '.join(tools)}): {found}")


def _duplicates(givers: Iterable[Identity]) -> list[str]:
    return [identity.name for identity, number in Counter(givers).items() if number > 1]


def check_doubled(context: ContextOf[Any]) -> ContextOf[Any]:
    """The services of `context`, once no tool has two handlers there; else a `HandlerError` is raised."""
    doubled = _duplicates(key.identity for key in context if isinstance(key, Given))
    if doubled:
        raise HandlerError(
            f"two handlers for: {', '.join(doubled)}; tools made alike from two objects need different names when "
            "they are made, such as by Toolkit.from_object(obj, name=…)"
        )
    return context


def missing_services(tools: Iterable[ToolInfo], services: ContextOf[Any]) -> tuple[tuple[str, str], ...]:
    """The services that handlers of these tools say they need and that are missing here, as (tool, service) names."""
    handlers: Iterable[tuple[str, Answering | None]] = ((tool.name, services.find(tool.identity)) for tool in tools)
    found = ((name, handler) for name, handler in handlers if handler is not None)
    return tuple(
        (name, MissingServiceError(key).service) for name, handler in found for key in handler.missing(services)
    )
