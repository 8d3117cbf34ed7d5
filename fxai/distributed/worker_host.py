"""The host of handlers on a worker. It loads targets, builds their layers, and runs calls.

Handlers run in a thread with its own event loop. Therefore a handler that computes delays neither the messages of the
cluster nor a cancellation. The host builds the layer of a target at its first call, and releases it when the worker
closes.

>>> list(find_target("fxai.cli.example:tools").tools)
['count_lines', 'list_directory']
>>> find_target("fxai.cli.example:nothing")
Traceback (most recent call last):
fxai.distributed.worker_host.TargetError: fxai.cli.example:nothing cannot be used: ...
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

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
from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, Await, EffectOf, Within
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import Runtime, runtime
from fxai.effects.tracing import Tracer
from fxai.messages.prompt import Prompt
from fxai.schema.codec import Schema
from fxai.tools.call import Call, Outcome
from fxai.tools.tool_error import HandlerUnavailable, OutcomeUnknown, Refused
from fxai.tools.tool_info import CallKey, ToolInfo
from fxai.tools.toolkit import bound_of

if TYPE_CHECKING:
    from distributed.security import Security

_LOG: Final = logging.getLogger("fxai.distributed")


@final
class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a worker. A worker of a work queue ignores `resources`, `name`, `host`, and `security`."""

    targets: tuple[str, ...] = ()
    """Tools with their handlers, as `module:name`.

    The worker loads and builds them before it accepts calls. A Dask worker loads other targets at their first call. A
    worker of a work queue runs only these targets.
    """
    threads: int = 16
    """Maximum number of concurrent calls. Default: 16. The handlers share one event loop."""
    resources: Mapping[str, float] = MappingProxyType({})
    """Amounts that calls can reserve, by name, such as `{"GPU": 1}`."""
    name: str | None = None
    """Name of the worker in the cluster. Default: its address."""
    host: str | None = None
    """Address to listen on. Default: the address from which this machine reaches the scheduler."""
    security: Security | None = None
    """TLS certificates, as a `distributed.Security`."""
    seconds: float = 10.0
    """Seconds to wait for the scheduler. Default: 10."""
    grace: float = 30.0
    """Seconds that running calls have to finish after the worker is cancelled. Default: 30."""
    wrap: Callable[[AnyLayer], AnyLayer] | None = None
    """Function that receives the layer of each target and returns the layer to build, such as `fxai.telemetry.trace`.

    Default: None, which builds the layers unchanged.
    """
    retention: float = 30 * 86_400.0
    """The seconds until the worker of a queue removes a finished call that its program or run has not removed.

    Default: 30 days.
    """

    def __hash__(self) -> int:
        return hash((self.targets, self.threads, self.name, self.host))


class TargetError(LookupError):
    """The target does not exist, or it is not tools with their handlers."""


@final
class TargetTool(msgspec.Struct, frozen=True):
    """A tool of a target."""

    tool: ToolInfo
    digest: str


@final
class Target(msgspec.Struct, eq=False):
    """Tools, the layer of their handlers, and the services of the layer after the host built it."""

    name: str
    tools: dict[str, TargetTool]
    layer: AnyLayer
    services: Runtime[Any] | None = None


def find_target(name: str) -> Target:
    """Return the target with the name `module:name`: a bound toolkit, a function tool, or a composite.

    Raises:
        TargetError: If the name is invalid, does not exist, or is a value of another type.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise TargetError(f"invalid target {name!r}. Use module:name.")
    try:
        value: Any = import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as raised:
        raise TargetError(f"{name} cannot be used: {type(raised).__name__}: {raised}") from raised
    return target_of(value, name)


def target_of(value: Any, name: str) -> Target:
    """Return the target of a value.

    Raises:
        TargetError: If the value is not a bound toolkit, a function tool, or a composite.
    """
    bound = bound_of(value) if hasattr(value, "__fx_bound__") and not isinstance(value, type) else None
    if bound is None or bound.is_live:
        advice = "use BoundToolkit.of(toolkit, layer), a function tool, or a composite"
        raise TargetError(f"{name} is of type {type(value).__name__}: {advice}")
    tools: dict[str, TargetTool] = {}
    for tool in bound.toolkit:
        is_typed = isinstance(tool.parameters, Schema)  # the program has validated raw parameters
        trusting = tool if is_typed else msgspec.structs.replace(tool, validation="none")
        tools[tool.name] = TargetTool(trusting, digest_of(tool.identity))
    return Target(name, tools, bound.layer)


class _NotSent:
    """The replacement of a conversation that the program did not send."""

    def __iter__(self) -> Any:
        raise LookupError("the conversation was not sent to the worker. Use distribute(…, messages=True).")


_NOT_SENT: Final = cast("Prompt", _NotSent())


class Link(Protocol):
    """The connection of a host to its cluster. The host calls it in the event loop that created the host."""

    @property
    def worker(self) -> str:
        """The name of the worker in messages."""
        ...

    async def start(self, call: CallEnvelope) -> Reply | None:
        """Return None if a call can start, otherwise its reply."""

    async def show(self, call: CallEnvelope, text: bytes) -> None:
        """Show a preliminary value of a call as JSON text. Return when the call can show the next value."""


@final
class Host:
    """The host of one worker. Call its methods in the event loop that created it."""

    def __init__(self, link: Link, options: WorkerOptions) -> None:
        self._link = link
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread("fxai-handlers")
        self._thread.start()
        self._targets: dict[str, Target] = {}
        self._opening: dict[str, asyncio.Future[Target]] = {}
        self._holders: set[asyncio.Task[None]] = set()  # in the thread: one task for each layer
        self._over = asyncio.Event()
        self._closing: asyncio.Future[None] | None = None
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._there: set[str] = set()  # calls that run, and calls whose programs have not read the reply
        self._left = asyncio.Event()  # set when one of these calls ends
        self._tasks: set[asyncio.Task[Any]] = set()  # in the thread: one task for each call

    async def idle(self) -> None:
        """Return when no call runs and programs have read all replies."""
        while self._there:
            self._left.clear()
            await self._left.wait()

    # -- targets

    async def open(self, name: str) -> Target:
        """Return a target with its layer. The host builds the layer once, and again if that failed.

        Raises:
            TargetError: If the target does not exist, or its layer cannot be built.
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

        async def hold() -> None:
            ready = asyncio.get_running_loop().create_future()
            holder = asyncio.create_task(self._keep(target, ready))
            self._holders.add(holder)
            holder.add_done_callback(self._holders.discard)
            await ready

        await self._within(hold())
        self._targets[name] = target
        return target

    async def _within(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a coroutine that runs in the thread of handlers."""
        return await asyncio.wrap_future(self._thread.submit(coroutine))

    async def _keep(self, target: Target, ready: asyncio.Future[None]) -> None:
        """Build the layer, and release it when the host closes. One task must do both."""
        try:
            wrap = self._options.wrap
            async with runtime(target.layer if wrap is None else wrap(target.layer)) as services:
                target.services = services
                ready.set_result(None)
                await self._over.wait()
        except (Exception, SystemExit) as raised:
            if ready.done():
                _LOG.error("the layer of %s was not released: %r", target.name, raised, exc_info=raised)
            else:
                why = f"cannot build the layer of {target.name}: {type(raised).__name__}: {raised}"
                ready.set_exception(TargetError(why))
        finally:
            ready.cancel()  # no effect unless this task was cancelled

    # -- calls

    async def answer(self, data: bytes) -> bytes:
        """Return the reply to a call. Both are JSON text."""
        call = read_call(data)
        if call.form != FORM:
            why = (
                f"{self._link.worker}: the program writes calls in form {call.form}, but this worker reads form {FORM}."
                " Use the same version of fxai on both sides."
            )
            return encode(lost_reply(why, begun=False))
        try:
            target = await self.open(call.target)
        except TargetError as error:
            return encode(lost_reply(str(error), begun=False))
        found = target.tools.get(call.tool)
        if found is None or found.digest != call.digest:
            other = f"its tool {call.tool!r} differs from the tool of the program. Restart the worker."
            if found is None:
                other = f"no tool {call.tool!r}; the tools are: {', '.join(target.tools) or 'none'}"
            why = f"{target.name} on the worker {self._link.worker}: {other}"
            return encode(lost_reply(why, begun=False))
        scope = self._scopes[call.key] = anyio.CancelScope()  # `stop` can arrive before the call may start
        try:
            before = await self._link.start(call)
            if before is not None:
                return encode(before)
            self._there.add(call.key)
            services = cast("Runtime[Any]", target.services)
            reply: bytes = await self._within(self._run_within(call, found.tool, services, scope))
            return reply
        finally:
            del self._scopes[call.key]

    async def _run_within(
        self, call: CallEnvelope, tool: ToolInfo, services: Runtime[Any], scope: anyio.CancelScope
    ) -> bytes:
        """Run the call in the thread of handlers."""
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
        except BaseException as raised:  # such as `sys.exit`, which ends the call and not the worker
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

        def trace(services: AnyContext) -> AnyEffect:
            tracer: Tracer | None = services.find(Tracer)
            resumes = tracer is not None and call.trace
            return tracer.resume(call.trace, made.inner_effect) if tracer is not None and resumes else made.effect

        return Within(trace)

    async def _show(self, call: CallEnvelope, text: bytes) -> None:
        """Show a value from the thread of handlers. Return when the call can show the next value."""
        shown = asyncio.run_coroutine_threadsafe(self._link.show(call, text), self._loop)
        await asyncio.wrap_future(shown)

    def stop(self, key: str) -> None:
        """Cancel a call. Its finalizers run. A call that does not run here is ignored."""
        scope = self._scopes.get(key)
        if scope is not None:
            self._thread.call(scope.cancel)

    def forget(self, key: str) -> None:
        """Remove a call, because its program has the reply or no longer needs it."""
        self._there.discard(key)
        self._left.set()

    # -- the end

    async def close(self) -> None:
        """Cancel the calls, release the layers, and end the thread, in at most twice the `grace` of the options."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async def wind_up() -> None:
            for scope in self._scopes.values():
                scope.cancel()
            await self._end_of(self._tasks, "calls still run")
            self._over.set()
            await self._end_of(self._holders, "layers are still open")

        with suppress(TimeoutError):  # a handler blocks the thread
            async with asyncio.timeout(2 * self._options.grace + 1):
                await self._within(wind_up())
        if not await in_daemon(lambda: self._thread.close(1.0)):
            _LOG.warning("the thread of handlers did not end; it continues in the background")

    async def _end_of(self, tasks: set[asyncio.Task[Any]], what: str) -> None:
        if tasks:
            grace = self._options.grace
            _, left = await asyncio.wait(tasks, timeout=grace)
            if left:
                _LOG.warning("%d %s after %s s; the worker no longer waits for them", len(left), what, grace)


def _deadline(call: CallEnvelope) -> float | None:
    if call.seconds is None:
        return None
    waited = max(0.0, time.time() - call.sent) if call.sent else 0.0
    return time.monotonic() + call.seconds - waited


def _reply(tool: ToolInfo, end: Exit[Outcome, Any]) -> Reply:
    if not isinstance(end, Succeeded):
        return encode_cause(tool, end.cause)
    outcome = end.value
    if not outcome.is_failure:
        return Gave(msgspec.Raw(outcome.encoded_json))
    if isinstance(outcome.result, HandlerUnavailable | OutcomeUnknown):
        return lost_reply(outcome.result.reason, begun=isinstance(outcome.result, OutcomeUnknown))
    if isinstance(outcome.result, Refused):
        return encode_cause(tool, Cause((Fail(outcome.result),)))
    return Gone((FailReason(msgspec.Raw(outcome.encoded_json)),))
