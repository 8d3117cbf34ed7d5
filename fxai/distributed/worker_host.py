"""The host of handlers on a worker: it loads targets, builds their layers once, and runs calls.

Handlers run in a thread with an event loop of its own, so that one that computes holds up neither the messages of a
cluster nor a cancellation. A layer is built when its target is first called, and released when the worker closes.

>>> list(find_target("fxai.cli.example:tools").tools)
['count_lines', 'list_directory', 'read_text_file', 'git_log']
>>> find_target("fxai.cli.example:nothing")
Traceback (most recent call last):
fxai.distributed.worker_host.TargetError: fxai.cli.example:nothing cannot be used: ...
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Protocol, cast, final

import anyio
import msgspec

from fxai.distributed.envelope import (
    FORM,
    WIDE,
    CallEnvelope,
    FailReason,
    Gave,
    Gone,
    InterruptReason,
    Reply,
    digest_of,
    encode,
    encode_cause,
    lost_reply,
    read_call,
)
from fxai.distributed.loop_thread import LoopThread, in_daemon
from fxai.effects.cause import Cause, Die, Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Await, EffectOf, Within
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import Runtime, runtime
from fxai.effects.tracing import Tracer
from fxai.messages.prompt import Prompt
from fxai.schema.codec import Schema
from fxai.tools.call import Call, Outcome
from fxai.tools.call_key import CallKey
from fxai.tools.tool_error import HandlerUnavailable, OutcomeUnknown
from fxai.tools.tool_options import ToolInfo
from fxai.tools.toolkit import bound_of

_LOG: Final = logging.getLogger("fxai.distributed")

GRACE: Final = 30.0
"""Seconds that handlers, and then layers, have to end when a worker closes, unless it says otherwise."""


class TargetError(LookupError):
    """What a target names is not there, or is no tools with their handlers."""


@final
class TargetTool(msgspec.Struct, frozen=True):
    """A tool of a target."""

    tool: ToolInfo
    digest: str


@final
class Target(msgspec.Struct, eq=False):
    """Tools with the layer of their handlers, and what became of that layer."""

    name: str
    tools: dict[str, TargetTool]
    layer: AnyLayer
    services: Runtime[Any] | None = None


def find_target(name: str) -> Target:
    """The tools and handlers that `module:name` names: a bound toolkit, a function tool or a composite.

    Raises:
        TargetError: the name is none, nothing is there, or it is something else; the message says what.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise TargetError(f"{name!r} names no target: write module:name")
    try:
        value: Any = import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as raised:
        raise TargetError(f"{name} cannot be used: {type(raised).__name__}: {raised}") from raised
    return target_of(value, name)


def target_of(value: Any, name: str) -> Target:
    """The tools and handlers of a value.

    Raises:
        TargetError: it is no bound toolkit, function tool or composite.
    """
    bound = bound_of(value) if hasattr(value, "__fx_bound__") and not isinstance(value, type) else None
    if bound is None or bound.is_live:
        advice = (
            "a target has tools and their handlers: BoundToolkit.of(toolkit, layer), a function tool or a composite"
        )
        raise TargetError(f"{name} is of type {type(value).__name__}: {advice}")
    tools = {tool.name: TargetTool(_trusting(tool), digest_of(tool.identity)) for tool in bound.toolkit}
    return Target(name, tools, bound.layer)


def _trusting(tool: ToolInfo) -> ToolInfo:
    """The tool, with raw parameters as they are: the program has looked at them."""
    return tool if isinstance(tool.parameters, Schema) else msgspec.structs.replace(tool, validation="none")


class _NotSent:
    """Stands in for the conversation where it was not sent."""

    def __iter__(self) -> Any:
        raise LookupError("the conversation was not sent to the worker: say distribute(…, messages=True)")


_NOT_SENT: Final = cast("Prompt", _NotSent())


def _as_it_is(layer: AnyLayer) -> AnyLayer:
    return layer


class Link(Protocol):
    """What connects a host to its cluster; it is asked in the event loop in which the host was made."""

    @property
    def worker(self) -> str:
        """What the worker is called in messages."""
        ...

    async def begin(self, call: CallEnvelope) -> Reply | None:
        """None where a call may begin, else its reply."""

    async def show(self, call: CallEnvelope, text: bytes) -> None:
        """Shows a preliminary value of a call, JSON text; returns when the next one may be shown."""


@final
class Host:
    """What runs the calls of one worker; its methods are called in the event loop in which it was made."""

    def __init__(self, link: Link) -> None:
        self.wrap: Callable[[AnyLayer], AnyLayer] = _as_it_is
        """Is given the layer of each target, and gives the one that is built."""
        self.grace: float = GRACE
        """Seconds that handlers, and then layers, have to end when it closes."""
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread("fxai-handlers")
        self._thread.start()
        self._targets: dict[str, Target] = {}
        self._opening: dict[str, asyncio.Future[Target]] = {}
        self._holders: set[asyncio.Task[None]] = set()  # in the thread: each holds the layer of a target
        self._over = asyncio.Event()
        self._closing: asyncio.Future[None] | None = None
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._there: set[str] = set()  # the calls that run, or whose replies wait
        self._left = asyncio.Event()  # of one of them
        self._tasks: set[asyncio.Task[Any]] = set()  # in the thread: the calls

    async def idle(self) -> None:
        """Returns when no call runs, and no reply waits here for its program."""
        while self._there:
            self._left.clear()
            await self._left.wait()

    # -- targets

    async def open(self, name: str) -> Target:
        """A target with its layer built; built once, and again where that failed.

        Raises:
            TargetError: there is no such target, or its layer cannot be built.
        """
        target = self._targets.get(name)
        if target is not None:
            return target
        opening = self._opening.get(name)
        if opening is None:
            opening = self._opening[name] = asyncio.ensure_future(self._open(name))
            opening.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(opening)

    async def _open(self, name: str) -> Target:
        target = await in_daemon(lambda: find_target(name))
        await self._within(self._hold(target))
        self._targets[name] = target
        return target

    async def _within(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives in the thread of handlers."""
        return await asyncio.wrap_future(self._thread.submit(coroutine))

    async def _hold(self, target: Target) -> None:
        ready = asyncio.get_running_loop().create_future()
        holder = asyncio.create_task(self._keep(target, ready))
        self._holders.add(holder)
        holder.add_done_callback(self._holders.discard)
        await ready

    async def _keep(self, target: Target, ready: asyncio.Future[None]) -> None:
        """Builds the layer, and releases it when the host closes: both in this task."""
        try:
            async with runtime(self.wrap(target.layer)) as services:
                target.services = services
                ready.set_result(None)
                await self._over.wait()
        except (Exception, SystemExit) as raised:
            if ready.done():
                _LOG.error("the layer of %s was not released: %r", target.name, raised, exc_info=raised)
            else:
                why = f"the layer of {target.name} cannot be built: {type(raised).__name__}: {raised}"
                ready.set_exception(TargetError(why))
        finally:
            ready.cancel()  # it is done, unless this task was cancelled

    # -- calls

    async def answer(self, data: bytes) -> bytes:
        """The reply to a call, both as JSON text."""
        call = read_call(data)
        if call.form != FORM:
            return encode(lost_reply(_other_form(call, self._link.worker), begun=False))
        try:
            target = await self.open(call.target)
        except TargetError as error:
            return encode(lost_reply(str(error), begun=False))
        found = target.tools.get(call.tool)
        if found is None or found.digest != call.digest:
            return encode(lost_reply(_other_tool(target, call, self._link.worker), begun=False))
        return await self._run(call, found.tool, cast("Runtime[Any]", target.services))

    async def _run(self, call: CallEnvelope, tool: ToolInfo, services: Runtime[Any]) -> bytes:
        scope = self._scopes[call.key] = anyio.CancelScope()  # it may be stopped before it is known that it may begin
        try:
            before = await self._link.begin(call)
            if before is not None:
                return encode(before)
            self._there.add(call.key)
            reply: bytes = await self._within(self._run_within(call, tool, services, scope))
            return reply
        finally:
            del self._scopes[call.key]

    async def _run_within(
        self, call: CallEnvelope, tool: ToolInfo, services: Runtime[Any], scope: anyio.CancelScope
    ) -> bytes:
        """Runs the call, in the thread of handlers."""
        reply: Reply = Gone((InterruptReason(),))
        if scope.cancel_called:
            return encode(reply)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            with scope:
                reply = _reply(tool, await services.run_exit(self._effect(call, tool)))
            return encode(reply)
        except asyncio.CancelledError:
            raise
        except BaseException as raised:  # such as that of `sys.exit`: the end of the call, and not of the worker
            return encode(encode_cause(tool, Cause((Die(raised),))))
        finally:
            self._tasks.discard(task)

    def _effect(self, call: CallEnvelope, tool: ToolInfo) -> AnyEffect:
        def show(outcome: Outcome) -> EffectOf[None]:
            return Await(lambda _: self._show(call, outcome.encoded_json))

        made = Call(
            {tool.name: tool},
            tool.name,
            bytes(call.params),
            is_text=True,
            call_id=call.call_id,
            on_invalid_call="error",
            limits=WIDE,
            prompt=_NOT_SENT if call.messages is None else Prompt.from_json(call.messages).unwrap(),
            deadline=_deadline(call),
            emit=show if call.client else None,
            reads_text=False,
            key=CallKey(call.idempotency_key or call.key),
        )

        def trace(services: ContextOf[Any]) -> AnyEffect:
            tracer: Tracer | None = services.find(Tracer)
            resumes = tracer is not None and call.trace
            return tracer.resume(call.trace, made.inner_effect) if tracer is not None and resumes else made.effect

        return Within(trace)

    async def _show(self, call: CallEnvelope, text: bytes) -> None:
        """Returns when the next value may be shown; waits in the thread of handlers."""
        shown = asyncio.run_coroutine_threadsafe(self._link.show(call, text), self._loop)
        await asyncio.wrap_future(shown)

    def stop(self, key: str) -> None:
        """Cancels a call, whose finalizers run; nothing happens where it does not run here."""
        scope = self._scopes.get(key)
        if scope is not None:
            self._thread.call(scope.cancel)

    def forget(self, key: str) -> None:
        """The program has the reply of a call, or needs none any more."""
        self._there.discard(key)
        self._left.set()

    # -- the end

    async def close(self) -> None:
        """Cancels what runs, releases the layers, in at most twice `grace` seconds, and ends the thread; once."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        with suppress(TimeoutError):  # a handler holds the thread
            async with asyncio.timeout(2 * self.grace + 1):
                await self._within(self._wind_up())
        if not await in_daemon(lambda: self._thread.close(1.0)):
            _LOG.warning("the thread of handlers does not end: it is left behind")

    async def _wind_up(self) -> None:
        for scope in self._scopes.values():
            scope.cancel()
        await self._end_of(self._tasks, "calls go on")
        self._over.set()
        await self._end_of(self._holders, "layers are not released")

    async def _end_of(self, tasks: set[asyncio.Task[Any]], what: str) -> None:
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=self.grace)
            if left:
                _LOG.warning("after %s s %d %s: they are left behind", self.grace, len(left), what)


def _deadline(call: CallEnvelope) -> float | None:
    if call.seconds is None:
        return None
    waited = max(0.0, time.time() - call.sent) if call.sent else 0.0
    return time.monotonic() + call.seconds - waited


def _other_form(call: CallEnvelope, worker: str) -> str:
    return (
        f"on {worker} the program writes calls in the form {call.form}, and this worker reads the form {FORM}; "
        "use one version of fxai"
    )


def _other_tool(target: Target, call: CallEnvelope, worker: str) -> str:
    if call.tool in target.tools:
        other = f"its tool {call.tool!r} is another than the program's: restart the worker with the program's version"
    else:
        other = f"it has no tool {call.tool!r}; it has {', '.join(target.tools) or 'none'}"
    return f"{target.name} on the worker {worker}: {other}"


def _reply(tool: ToolInfo, end: Exit[Outcome, Any]) -> Reply:
    if not isinstance(end, Succeeded):
        return encode_cause(tool, end.cause)
    outcome = end.value
    if not outcome.is_failure:
        return Gave(msgspec.Raw(outcome.encoded_json))
    if isinstance(outcome.result, HandlerUnavailable | OutcomeUnknown):
        return lost_reply(outcome.result.reason, begun=isinstance(outcome.result, OutcomeUnknown))
    return Gone((FailReason(msgspec.Raw(outcome.encoded_json)),))
