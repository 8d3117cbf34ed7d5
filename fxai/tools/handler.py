"""Handlers are the functions that execute tool calls. Use this module to see the possible return values of a handler.

A handler receives the decoded parameters. If it has two arguments, it also receives the `CallContext`. It returns one
of these values:

- a `Result`, or an awaitable of a `Result`
- a `FutureResult`, `IOResult`, or `RequiresContextFutureResult`
- an `Effect`, or a generator of effects
- a `Stream` whose last item is the result

A bare value is a defect, because it is neither a success nor a failure. A layer connects a handler to its tool.

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
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from time import perf_counter
from types import CoroutineType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Protocol, TypeVar, cast, final

import anyio
import anyio.lowlevel
import msgspec
from returns.context import RequiresContextFutureResult
from returns.maybe import Maybe
from returns.result import Failure, Success

from fxai.effects import blocking as held
from fxai.effects.blocking import HELD_SECONDS
from fxai.effects.cancellation import event_loop, shield
from fxai.effects.cause import AnyExit, Cause, Fail, Failed, Succeeded
from fxai.effects.constructor import lift_any, of_result
from fxai.effects.context import AnyContext, ContextOf, MissingServiceError
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
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.layer import LayerOf, layer_from_context, map_layer_context
from fxai.effects.pull import END
from fxai.effects.scope import scoped
from fxai.effects.stream import AnyStream, StreamOf, pull_stream
from fxai.effects.tracing import Operation
from fxai.tools.identity import Identity
from fxai.tools.tool_error import nearest_name
from fxai.tools.tool_info import CallContext, ToolInfo
from fxai.tools.type_hints import needed_services

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt

_T = TypeVar("_T")
_E = TypeVar("_E")
_R2 = TypeVar("_R2")


@final
class Given(msgspec.Struct, frozen=True):
    """A key for the function of a handler. With it, `Toolkit.to_layer` detects two handlers for one tool."""

    identity: Identity
    function: int
    """The `id` of the function. The handler in the same context keeps the function alive."""


class CallInfo(Protocol):
    """The interface of a call for handlers and aspects. Every `Call` implements it."""

    @property
    def prompt(self) -> Prompt | None:
        """The conversation so far. None if no model made the call."""

    @property
    def emit(self) -> Callable[[Any], EffectOf[None]] | None:
        """The receiver of the preliminary outcomes. None if nobody reads them."""

    def context(self, tool: ToolInfo, /) -> CallContext:
        """Return the context of the call for the handler of `tool`."""
        ...


class InnerCall(msgspec.Struct, frozen=True, eq=False):
    """A call inside the call of a composite, before it runs."""

    index: int
    """The index of the inner call, from 0."""
    name: str
    params: Any
    """The raw arguments as a JSON value."""
    call_id: str
    tool: ToolInfo


class InnerCalls(ABC):
    """A service that wraps each inner call of composites. No type contains it, and its key is this class."""

    @abstractmethod
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        """Wrap the effect of an inner call, which returns its `Outcome`."""


class Answering(Protocol):
    """The service of a tool in a context, which is a handler with or without aspects."""

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> Any:
        """Execute the call. Return a `Result`, or the effect of the result."""

    def missing(self, services: AnyContext) -> tuple[Any, ...]:
        """Return the keys of the handler's declared services that are missing in `services` and in its own context."""
        ...


@final
class PlainInThreads:
    """The key of a context whose handlers run plain functions in threads by default."""


def in_threads(context: AnyContext) -> AnyContext:
    """Return the context of a server, which runs plain functions in threads, so that they do not block each other."""
    return ContextOf({**context.services, PlainInThreads: True})


_NOTHING: Final = object()


@final
class Handler(msgspec.Struct, eq=False):
    """A handler in a context, with its function and the services from the time when fxai built its layer."""

    f: Callable[..., Any]
    context: AnyContext
    wants_context: bool
    thread: WorkerThread | None = None
    """The option of the thread, or None if the function never runs in a thread."""
    is_coroutine: bool = False
    """True if a call of the function only creates a coroutine, so that fxai need not time it."""

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> Any:
        """Call the function. Return its `Result`, or the effect of the result."""
        thread = self.thread
        if thread is not None and (thread.is_required or PlainInThreads in services.services) and thread.is_useful:
            arguments = (params, context_of(tool, call)) if self.wants_context else (params,)
            ran = thread.run(self.f, arguments, tool.name)
            return ran.flat_map(lambda returned: self.lift(returned, tool, call, services))

        begun = 0.0 if self.is_coroutine else perf_counter()
        returned = self.f(params, context_of(tool, call)) if self.wants_context else self.f(params)
        if begun and perf_counter() - begun > HELD_SECONDS:
            report_held(tool.name, self.f, perf_counter() - begun)
        kind = returned.__class__
        if kind is CoroutineType:
            return CoroutineAnswer(self, returned, tool, call, services)
        return returned if kind is Success or kind is Failure else self.lift(returned, tool, call, services)

    def missing(self, services: AnyContext) -> tuple[Any, ...]:
        """Return the keys of the missing services that the function's return annotation names.

        If the annotation is missing, or its names exist only for type checkers, return an empty tuple.
        """
        context = self.context.merge(services)
        return tuple(key for key in needed_services(self.f) if context.find(key) is None)

    def lift(self, returned: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> AnyEffect:
        """Return the effect of a return value that is not a `Result`."""
        if returned.__class__ is CoroutineType:
            return CoroutineAnswer(self, returned, tool, call, services)
        context = self.context.merge(services)
        effect = lift_answer(returned, tool.name, context, lambda: context_of(tool, call))
        if isinstance(effect, Generate):
            effect = _watch_generator(effect, tool.name, self.f)
        return Local(effect, lambda _: context)


@final
class CoroutineAnswer(Instruction, eq=False):
    """The effect of a handler's coroutine."""

    handler: Handler
    coroutine: Any
    tool: ToolInfo
    call: CallInfo | None
    services: AnyContext
    waited: Any = _NOTHING
    """The object of the first wait, after `start`."""
    returned: Any = _NOTHING
    """The return value, if the coroutine ended in `start`."""
    raised: BaseException | None = None
    """The exception, if the coroutine raised it in `start`."""
    op: ClassVar[int] = AwaitExit.op

    def start(self) -> Any:
        """Run the coroutine until its first wait. If it returned a `Result`, return it, otherwise this effect."""
        begun = perf_counter()
        try:
            self.waited = self.coroutine.send(None)
        except StopIteration as stop:
            self.returned = stop.value
        except BaseException as raised:
            self.raised = raised
        if perf_counter() - begun > HELD_SECONDS:
            report_held(self.tool.name, self.handler.f, perf_counter() - begun, _REMEDY_OF_STEPS)
        kind = self.returned.__class__
        return self.returned if kind is Success or kind is Failure else self

    def f(self, fiber: Fiber) -> AnyExit | Awaitable[AnyExit]:
        """Return the exit of the handler, or the awaitable of its exit."""
        is_new = self.waited is _NOTHING and self.returned is _NOTHING and self.raised is None
        if is_new and fiber.starts_coroutines:
            self.start()
        if self.raised is not None:
            raise self.raised
        return self._wait() if self.returned is _NOTHING else self._exit(self.returned)

    async def _wait(self) -> AnyExit:
        returned = await _Watched(self.coroutine, self.tool.name, self.handler.f, self.waited)
        end = self._exit(returned)
        return end if isinstance(end, Succeeded | Failed) else await end

    def _exit(self, returned: Any) -> AnyExit | Awaitable[AnyExit]:
        if returned.__class__ is Success:
            return Succeeded(returned.unwrap())
        if returned.__class__ is Failure:
            return Failed(Cause((Fail(returned.failure()),)))
        return run_fiber(self.handler.lift(returned, self.tool, self.call, self.services), self.services)


def lift_answer(returned: Any, name: str, services: AnyContext, call: Callable[[], CallContext]) -> AnyEffect:
    """Return the effect of a handler's return value. `call` creates the context of the call.

    Raises:
        TypeError: If the type of the return value is not allowed. The message lists the allowed types.
    """
    if isinstance(returned, StreamOf):
        return _last(cast(Any, returned), call())
    effect: AnyEffect | None
    if isinstance(returned, RequiresContextFutureResult):
        effect = lift_any(cast(Any, returned)(services))
    else:
        effect = None if isinstance(returned, Maybe) else lift_any(returned)
    if effect is None:
        raise TypeError(
            f"handler {name!r} returned {returned!r}. Return a Result (Success(value) or Failure(error)), an awaitable "
            "of a Result, an Effect, a generator of effects, or a Stream."
        )
    return effect


def joins_calls(tool: ToolInfo, services: AnyContext) -> bool:
    """Return True if the handler resumes a call when it receives the key of this call again."""
    handler = services.services.get(tool.identity)
    return bool(getattr(handler, "joins_calls", False))


def answer_effect(answer: Any) -> AnyEffect:
    """Return the effect of a handler's answer."""
    return of_result(cast(Any, answer)) if isinstance(answer, Success | Failure) else answer


def context_of(tool: ToolInfo, call: CallInfo | None) -> CallContext:
    """Return the context of a call for the handler of `tool`. Without a call, return an empty context."""
    return CallContext(tool) if call is None else call.context(tool)


def _last(stream: AnyStream, call: CallContext) -> AnyEffect:
    """Return the effect of the last item of a stream. The items before it are preliminary."""

    def read(pull: AnyEffect) -> Generator[AnyEffect, Any, Any]:
        held = yield pull
        if held is END:
            raise TypeError(
                f"handler of {call.tool.name!r} returned an empty stream. Its last item must be the result."
            )
        while (item := (yield pull)) is not END:
            yield call.preliminary(held)
            held = item
        return held

    return scoped(pull_stream(stream).flat_map(lambda pull: Generate(read, (pull,), {})))


_LEFT_BEHIND = "blocking handler of %r still runs after %s s. fxai abandoned its thread."


@final
class WorkerThread(msgspec.Struct, frozen=True):
    """The option of a handler that can run in a worker thread. Python cannot cancel a thread.

    A cancellation waits `grace` seconds for the thread. Then fxai abandons the thread and logs a warning to
    `fxai.tools`.
    """

    function: Any
    """The function of the user, without wrappers."""
    is_required: bool
    """True if each call runs in a thread. If False, only the calls in a server do."""
    grace: float = 5.0

    @property
    def is_useful(self) -> bool:
        """False if the thread is optional, and no event loop runs or the function cannot block it."""
        if self.is_required:
            return True
        f = inspect.unwrap(self.function) if callable(self.function) else self.function
        call = f if inspect.isroutine(f) else type(f).__call__
        others = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        return event_loop() is not None and not any(is_other(call) for is_other in others)

    def run(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> EffectOf[Any]:
        """Return the effect that calls `f(*arguments)` in a worker thread. Its value is the unchanged return value."""
        return Await(lambda _: self._run(f, arguments, name))

    async def _run(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> Any:
        from anyio import from_thread, to_thread  # they import thread support

        ended = anyio.Event()
        portal = anyio.lowlevel.current_token()
        turn = threading.Lock()  # taken by the thread when it starts, or by an earlier cancellation

        def work() -> Any:
            if not turn.acquire(blocking=False):
                return None
            try:
                return f(*arguments)
            finally:
                with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # the waiting task has ended
                    from_thread.run_sync(ended.set, token=portal)

        try:
            return await to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            if not turn.acquire(blocking=False):  # otherwise the work never started
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


# -- handlers that block the event loop

_REMEDY = "Run it in a thread: blocking=True."
_REMEDY_OF_STEPS = "Run slow work in a thread: fx.in_thread(…), or a plain function with blocking=True."


def report_held(name: str, f: Callable[..., Any], seconds: float, remedy: str = _REMEDY) -> None:
    """Log to `fxai.tools` that a handler blocked the event loop, once per function."""
    held.report_held("fxai.tools", f"handler of {name!r}", getattr(f, "__func__", f), seconds, remedy)


@final
class _Watched(msgspec.Struct, eq=False):
    """A coroutine or a generator with timed steps. Each step between two waits blocks the event loop."""

    steps: Any
    name: str
    function: Callable[..., Any]
    waited: Any = _NOTHING
    """The object of the first wait if the first step already ran."""

    def __await__(self) -> Generator[Any, Any, Any]:
        waited, given = self.waited, None
        step: Callable[[Any], Any] = self.steps.send
        while True:
            if waited is _NOTHING:
                begun = perf_counter()
                try:
                    waited = step(given)
                except StopIteration as stop:
                    return stop.value
                finally:
                    if perf_counter() - begun > HELD_SECONDS:
                        report_held(self.name, self.function, perf_counter() - begun, _REMEDY_OF_STEPS)
            try:
                given = yield waited
            except BaseException as raised:
                step, given = self.steps.throw, raised
            else:
                step = self.steps.send
            waited = _NOTHING


def _watch_generator(effect: Generate, name: str, f: Callable[..., Any]) -> Generate:
    """Return the effect with timed steps of its generator."""

    def start(*args: Any, **kwargs: Any) -> Any:
        made = effect.f(*args, **kwargs)
        return _Watched(made, name, f).__await__() if isinstance(made, GeneratorType) else made

    start.__name__ = getattr(effect.f, "__name__", "start")
    return Generate(start, effect.args, effect.kwargs)


def handler_layer(
    identity: Identity,
    f: Callable[..., Any],
    blocking: bool | None = None,
    grace: float = 5.0,
    written: object = None,
) -> LayerOf[Any, Never, Any]:
    """Return the layer with `f` as the handler of a tool. The handler keeps the services of the layer's context.

    Args:
        identity: Identity of the tool.
        f: The handler.
        blocking: As for `Tool.handler`. Default: None, it runs in a thread only in a server.
        grace: Seconds that a cancellation waits for the thread. Default: 5.
        written: The function of the user, if `f` wraps it. Default: `f`.
    """
    if not callable(f):
        raise TypeError(f"handler of {identity.name!r} must be a function of its parameters, got {f!r}")

    wants_context = _positional(f) >= 2
    is_coroutine = inspect.iscoroutinefunction(f)
    if blocking and is_coroutine:
        raise TypeError(f"handler of {identity.name!r} is a coroutine function. Omit blocking=True.")

    if inspect.isasyncgenfunction(f):
        raise TypeError(
            f"handler of {identity.name!r} is an asynchronous generator. Return Stream.from_async(…) of its items. The "
            "last item is the result."
        )
    thread = None if blocking is False else WorkerThread(f if written is None else written, bool(blocking), grace)
    given = Given(identity, id(f))

    def bind(context: AnyContext) -> AnyContext:
        return ContextOf({identity: Handler(f, context, wants_context, thread, is_coroutine), given: True})

    return layer_from_context(bind)


def handler_of(f: Callable[..., Any], services: AnyContext) -> Handler:
    """Return `f` as a handler with existing services."""
    return Handler(f, services, wants_context=_positional(f) >= 2)


def _positional(f: Callable[..., Any]) -> int:
    # faster than `inspect.signature` for functions, methods, and results of `fx.gen`
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
    """Return the defect of a call without a handler. Type checkers could not detect this case."""
    if not tool.requires_handler:
        return LookupError(
            f"tool {tool.name!r} is external: another program answers its calls. It cannot have a handler."
        )
    return LookupError(
        f"no layer provides a handler for the tool {tool.name!r}. Provide tool.handler(f), best with "
        "toolkit.to_layer(…), which checks that each tool has a handler."
    )


@final
class ToolExecution(Operation, eq=False):
    """A running tool call, for a tracer. It returns an `Outcome`, or the typed result of the handler."""

    name: str
    tool: ToolInfo | None
    """The called tool, or None if no tool has this name."""
    call_id: str
    """Empty if no model made the call."""
    given: Any
    """The raw arguments: a JSON value or a JSON string."""
    is_typed: bool = False
    """True if the parameters and the result are typed values, as in `tool.call`."""


def typed_call(tool: ToolInfo, params: Any) -> AnyEffect:
    """Call a tool's handler with typed parameters. Return its typed success or failure without JSON."""

    def start(services: AnyContext) -> AnyEffect:
        handler: Answering | None = services.find(tool.identity)
        if handler is None:
            raise missing_handler(tool)
        return answer_effect(handler.answer(params, tool, None, services))

    return Observe(Within(start), ToolExecution(tool.name, tool, "", params, is_typed=True))


class HandlerError(TypeError):
    """An error for handlers that do not match the tools. A tool has no handler or two, or a handler has no tool."""

    def __init__(
        self, message: str, *, missing: Sequence[str] = (), doubled: Sequence[str] = (), extra: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.missing: tuple[str, ...] = tuple(missing)
        """The names of the tools without a handler."""
        self.doubled: tuple[str, ...] = tuple(doubled)
        """The names of the tools with two handlers."""
        self.extra: tuple[str, ...] = tuple(extra)
        """The names of the tools that have a handler but do not belong to the toolkit."""


def check_handlers(
    tools: Mapping[str, ToolInfo], layer: LayerOf[_T, _E, _R2], left_out: frozenset[Identity] = frozenset()
) -> LayerOf[_T, _E, _R2]:
    """Return the layer with a check of its handlers.

    Building the layer raises `HandlerError` unless each tool has one handler. Handlers of other tools are not allowed,
    except for the tools in `left_out`.
    """
    if not isinstance(cast(object, layer), LayerOf):
        raise _not_handlers(layer)
    needed = {tool.identity: tool.name for tool in tools.values() if tool.requires_handler}

    checked: tuple[tuple[Any, ...], tuple[Any, ...]] = (), ()  # the keys of the last context, all and without `Given`

    def check(context: AnyContext) -> AnyContext:
        nonlocal checked
        services = context.services
        keys, own = checked
        if tuple(services) != keys:  # another build of the same layers has the same keys
            keys, own = tuple(services), tuple([key for key in services if not isinstance(key, Given)])
            givers = [key.identity for key in services if isinstance(key, Given)]
            if set(own) != needed.keys() or len(set(givers)) < len(givers):
                _require_match(tools, needed, givers, own, left_out)
            checked = keys, own
        return ContextOf(dict(zip(own, map(services.__getitem__, own), strict=True)))

    return map_layer_context(layer, check, is_pure=True)


def _require_match(
    tools: Iterable[str],
    needed: Mapping[Identity, str],
    givers: list[Identity],
    services: Collection[Any],
    left_out: frozenset[Identity],
) -> None:
    missing = [name for identity, name in needed.items() if identity not in services]
    extra = [key.name for key in services if isinstance(key, Identity) and key not in needed and key not in left_out]
    doubled = _duplicates(givers)
    if missing or extra or doubled:
        raise _mismatch(tools, missing, doubled, extra)


def _mismatch(
    tools: Iterable[str], missing: Sequence[str], doubled: Sequence[str], extra: Sequence[str], hint: str = ""
) -> HandlerError:
    problems = (("no handler for", missing), ("two handlers for", doubled), ("not in the toolkit", extra))
    found = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems if names)
    message = f"handlers do not match Toolkit({', '.join(tools)}): {found}{hint}. Provide one handler for each tool."
    return HandlerError(message, missing=missing, doubled=doubled, extra=extra)


def check_names(tools: Mapping[str, ToolInfo], handlers: Mapping[str, object]) -> None:
    """Check that the keys of `handlers` are the names of the tools that need a handler.

    Raises:
        HandlerError: If a tool has no handler, or a key is not the name of such a tool.
        TypeError: If `handlers` is not a mapping.
    """
    if not isinstance(cast(object, handlers), Mapping):
        raise TypeError(f"handlers must be a mapping from tool names to functions, got {handlers!r:.200}.")
    needed = {name: tool.identity for name, tool in tools.items() if tool.requires_handler}
    extra = [name for name in handlers if name not in needed]
    given = {identity for name, identity in needed.items() if name in handlers}  # renamed copies share an identity
    missing = [name for name, identity in needed.items() if identity not in given]
    if missing or extra:
        raise _mismatch(tools, missing, (), extra, nearest_name(extra[0], missing) if extra else "")


def _not_handlers(given: Any) -> TypeError:
    """Return the error for a value that is not a layer of handlers."""
    remedy = "Pass the layers of the handlers: a.handler(f) | b.handler(g)"
    if isinstance(given, Mapping):
        remedy = "For handlers by name, write kit.to_layer_by_name(…)"
    elif isinstance(given, Iterable):
        remedy = "Merge the layers: Layer.merge_all(*handlers)"
    elif callable(given):
        remedy = "Create the layer of a handler: tool.handler(f)"
    return TypeError(f"handlers must be a layer, got {cast(object, given)!r:.200}. {remedy}.")


def _duplicates(givers: Iterable[Identity]) -> list[str]:
    return [identity.name for identity, number in Counter(givers).items() if number > 1]


def check_doubled(context: AnyContext) -> AnyContext:
    """Return `context`, or raise `HandlerError` if a tool has two handlers."""
    doubled = _duplicates(key.identity for key in context if isinstance(key, Given))
    if doubled:
        raise HandlerError(
            f"two handlers for: {', '.join(doubled)}. If you create tools from two objects, name them differently, "
            "such as with Toolkit.from_object(obj, name=…).",
            doubled=doubled,
        )
    return context


def missing_services(tools: Iterable[ToolInfo], services: AnyContext) -> tuple[tuple[str, str], ...]:
    """Return the missing services that handlers of these tools declare, as pairs of a tool name and a service name."""
    handlers: Iterable[tuple[str, Answering | None]] = ((tool.name, services.find(tool.identity)) for tool in tools)
    found = ((name, handler) for name, handler in handlers if handler is not None)
    return tuple(
        (name, MissingServiceError(key).service) for name, handler in found for key in handler.missing(services)
    )
