"""The layer of handlers that run on the workers of a cluster.

Use `distribute(desk, "shop:desk")` to run the handlers of `shop.desk` elsewhere. The program and the toolkit stay
unchanged. Each worker imports `shop`, builds the layer of `shop.desk` once, and runs the calls. This process builds no
layer.

>>> from fxai.cli.example import tools
>>> remote = distribute(tools, "fxai.cli.example:tools")
>>> distribute(tools.prefix("my."), "fxai.cli.example:tools")
Traceback (most recent call last):
fxai.distributed.worker_host.TargetError: fxai.cli.example:tools has other tools than those given here: ...
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Never, Protocol, cast, final
from uuid import uuid4

import anyio
import msgspec
from msgspec.structs import force_setattr
from typing_extensions import TypeVar, override

from fxai.distributed.cluster import Cluster
from fxai.distributed.engine import Engine, PendingCall
from fxai.distributed.envelope import FORM, WIDE, CallEnvelope, Gave, decode_cause, lost_reply, read_reply
from fxai.distributed.worker_host import TargetError, find_target, target_of
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Die, Exit, Failed, Succeeded, attach
from fxai.effects.constructor import context as context_effect
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.fiber import Fiber, run_fiber
from fxai.effects.layer import LayerOf
from fxai.effects.tracing import Tracer
from fxai.effects.waker import Home, Waker
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError
from fxai.tools.annotation import Idempotent, Readonly
from fxai.tools.handler import CallInfo, Given, context_of
from fxai.tools.handler_types import Gives
from fxai.tools.tool_error import CallFailureError, InvalidResult, nearest_name
from fxai.tools.tool_info import CallContext, ToolInfo

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_LEFT_BEHIND: Final = "the handler of %r still runs %s s after its call was cancelled; fxai no longer waits"


@final
class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that run the calls of a tool, and the number of concurrent calls."""

    resources: Mapping[str, float] = MappingProxyType({})
    """Amounts that a call reserves of the resources of its worker, by name, such as `{"GPU": 1}`.

    You declare them with `fxai worker --resource GPU=1`. Default: none.
    """
    concurrency: int | None = None
    """Maximum number of calls of this layer on the cluster.

    Further calls wait in the program, in order. Default: None, which is no limit. For a limit over all programs, use
    resources.
    """
    priority: int = 0
    """Priority. If workers are busy, calls with a higher priority run first. Default: 0."""

    def __post_init__(self) -> None:
        if any(amount <= 0 for amount in self.resources.values()):
            raise ValueError(f"resources must be greater than 0, got {dict(self.resources)}")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {self.concurrency}")
        force_setattr(self, "resources", MappingProxyType(dict(self.resources)))

    @override
    def __hash__(self) -> int:
        return hash((tuple(sorted(self.resources.items())), self.concurrency, self.priority))


@final
class _Options(msgspec.Struct, frozen=True):
    """The options of one layer."""

    target: str
    messages: bool
    wait: float | None
    grace: float


class _Handled(Protocol[_T_co]):
    """Tools with their handlers, whose layer has no requirements: a bound toolkit, a function tool, or a composite."""

    def __fx_gives__(self) -> Gives[_T_co, Any, None]: ...
    def __fx_bound__(self) -> Any: ...


def distribute(
    tools: _Handled[_T],
    target: str,
    *,
    placements: Mapping[str, Placement] = MappingProxyType({}),
    messages: bool = False,
    wait: float | None = 60.0,
    grace: float = 30.0,
) -> LayerOf[_T, Never, Cluster | None]:
    """Return the layer of handlers that run on the workers of a `Cluster`, instead of the layer of `tools`.

    If a worker is lost, the cluster runs its calls of `Idempotent` and `Readonly` tools again. Other calls fail with
    `OutcomeUnknown`. A call that could not start fails with `HandlerUnavailable`. Both are failures of calls as in
    `Toolkit.call` and in runs. If you cancel a call, fxai cancels its handler and waits for the finalizers. On a work
    queue, a resumed durable run joins the calls that it started.

    Args:
        tools: Tools with their handlers. They are the value of the target; fxai uses them for the types and a check.
        target: `module:name` of `tools`, as workers import it.
        placements: Workers for the calls of each tool, by the name of the tool.
        messages: True to send the conversation with each call. Otherwise `CallContext.messages` raises on the worker.
            Default: False.
        wait: Maximum seconds without a worker that can run a call. None waits without a limit. Default: 60.
        grace: Maximum seconds to wait for a cancelled call. Then fxai leaves its handler running and writes a warning
            to the log `fxai.distributed`. Default: 30.

    Raises:
        TargetError: If the target does not exist, or has other tools.
        KeyError: If a placement names an unknown tool.
        ValueError: If the layer uses a work queue, and a placement has resources.
    """
    here = target_of(tools, "what is distributed")
    _require_target(target, {name: each.digest for name, each in here.tools.items()})
    for name in placements:
        if name not in here.tools:
            near = nearest_name(name, here.tools)
            raise KeyError(f"placement for the unknown tool {name!r}{near}. Use one of: {', '.join(here.tools)}")
    options = _Options(target, messages, wait, grace)

    def bind(around: AnyContext) -> AnyContext:
        engine = around.fetch(Cluster).engine
        for name, placement in placements.items():
            why = engine.refuse(placement.resources) if placement.resources else None
            if why is not None:
                raise ValueError(f"the placement of the tool {name!r} requires {dict(placement.resources)}: {why}")
        services: dict[object, Any] = {}
        for name, each in here.tools.items():
            placement = placements.get(name, _ANYWHERE)
            identity = each.tool.identity
            services[identity] = RemoteHandler(engine, name, each.digest, placement, options)
            services[Given(identity, id(services[identity]))] = True
        return ContextOf(services)

    made: EffectOf[AnyContext, Never, Any] = context_effect().map(bind)
    return cast("LayerOf[_T, Never, Cluster | None]", LayerOf.effect_context(made))


_ANYWHERE: Final = Placement()


def _require_target(target: str, here: Mapping[str, str]) -> None:
    """Check the target if this process has imported its module. The check imports no module."""
    module = target.partition(":")[0]
    if module == "__main__":
        raise TargetError(f"{target}: workers have another __main__. Name the module as workers import it.")
    if module not in sys.modules:
        try:
            missing = find_spec(module) is None if module else False
        except (ImportError, ValueError):
            missing = True
        if missing:
            raise TargetError(f"{target}: no module named {module}")
        return
    there = {name: each.digest for name, each in find_target(target).tools.items()}
    if there != here:
        raise TargetError(f"{target} has other tools than those given here: {', '.join(there)}")


@final
class RemoteHandler:
    """The local replacement of a handler that runs on a worker."""

    __slots__ = ("_digest", "_engine", "_home", "_limit", "_name", "_options", "_placement")

    is_elsewhere = True
    """Local code cannot see the effects of the handler."""

    def __init__(self, engine: Engine, name: str, digest: str, placement: Placement, options: _Options) -> None:
        self._engine = engine
        self._name = name  # in the target
        self._digest = digest
        self._placement = placement
        self._options = options
        self._limit = None if placement.concurrency is None else anyio.Semaphore(placement.concurrency)
        self._home = Home(f"the tool {name!r} with Placement(concurrency=…)")

    @property
    def joins_calls(self) -> bool:
        """True if a call continues an earlier call with the same key."""
        return self._engine.joins_calls

    def missing(self, _: AnyContext) -> tuple[Any, ...]:
        """Return no services, because the layer of the worker provides them."""
        return ()

    def answer(self, params: Any, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> EffectOf[Any, Any]:
        """Return the effect of the result of the handler."""
        tracer: Tracer | None = services.find(Tracer)
        trace = {} if tracer is None else tracer.inject()
        return AwaitExit(lambda fiber: self._run(params, tool, call, trace, fiber))

    async def _run(
        self, params: Any, tool: ToolInfo, call: CallInfo | None, trace: dict[str, str], fiber: Fiber
    ) -> Exit[Any, Any]:
        about, waker, placed = context_of(tool, call), Waker(), self._placement
        name = about.key if self.joins_calls else None
        use = 0 if name is None else next(name.uses)
        envelope = self._envelope(params, tool, call, trace, fiber, use)
        started_before = name is not None and name.started_before and not use
        pending = PendingCall(
            envelope, waker, name, started_before, placed.resources, placed.priority, self._options.wait
        )
        if self._limit is None:
            return await self._call(pending, waker, tool, about, fiber)
        self._home.require()
        async with self._limit:
            return await self._call(pending, waker, tool, about, fiber)

    def _envelope(
        self, params: Any, tool: ToolInfo, call: CallInfo | None, trace: dict[str, str], fiber: Fiber, use: int
    ) -> CallEnvelope:
        about = context_of(tool, call)
        left = None if about.deadline is None else max(0.0, about.deadline - fiber.clock().monotonic())
        prompt = None if call is None else call.prompt
        written = _encode_params(tool, params)
        joined = about.key is not None and self.joins_calls
        key = self._joined_key(about.idempotency_key, use, written) if joined else uuid4().hex
        return CallEnvelope(
            key=f"{self._name}-{key}",  # Dask shows calls by the name before the last dash
            target=self._options.target,
            tool=self._name,
            digest=self._digest,
            params=msgspec.Raw(written),
            once=not (tool.get(Idempotent) or tool.get(Readonly)),
            client="" if call is None or call.emit is None else self._engine.reader_id,
            call_id=about.call_id,
            seconds=left,
            sent=0.0 if left is None else time.time(),
            idempotency_key=about.idempotency_key,
            messages=None if not self._options.messages else "[]" if prompt is None else prompt.to_json(),
            form=FORM,
            trace=trace,
        )

    def _joined_key(self, name: str, use: int, params: bytes) -> str:
        """Return a key from the name of a call and its content, so that a changed call has another key."""
        about = (name, str(use), self._options.target, self._name, self._digest)
        text = b"\0".join([*map(str.encode, about), params])
        return sha256(text).hexdigest()[:40]

    async def _call(
        self, pending: PendingCall, waker: Waker, tool: ToolInfo, about: CallContext, fiber: Fiber
    ) -> Exit[Any, Any]:
        self._engine.start(pending)
        try:
            while pending.reply is None:
                await waker.wait()
                end = await self._show(pending, tool, about, fiber)
                if isinstance(end, Failed):
                    await self._stop(pending, waker, tool)
                    return end
        except BaseException as raised:
            gone = await shield(self._stop(pending, waker, tool))
            attach(raised, gone.besides_interruption())
            raise
        finally:
            self._engine.forget(pending)
        return _exit(tool, pending.reply)

    async def _show(
        self, pending: PendingCall, tool: ToolInfo, about: CallContext, fiber: Fiber
    ) -> Exit[Any, Any] | None:
        """Show the preliminary values of the worker. Return the failure if one ends the call."""
        while pending.shown:
            serial, text = pending.shown.popleft()
            try:
                value = tool.success.decode_json_unsafe(text, WIDE)
            except DecodeError as error:
                failure = InvalidResult(tool.name, error.failure.faults, preliminary=True)
                return Failed(Cause((Die(CallFailureError(failure)),)))
            end = await run_fiber(about.preliminary(value), fiber.env)
            self._engine.let_go(serial)
            if isinstance(end, Failed):
                return end
        return None

    async def _stop(self, pending: PendingCall, waker: Waker, tool: ToolInfo) -> Cause[Any]:
        """Cancel the call and wait for its end. Return the failures until then."""
        pending.stopping = True
        self._engine.stop(pending)
        with anyio.move_on_after(self._options.grace):
            while pending.reply is None:
                await waker.wait()
        if pending.reply is None:
            logging.getLogger("fxai.distributed").warning(_LEFT_BEHIND, tool.name, self._options.grace)
            return Cause(())
        end = _exit(tool, pending.reply)
        return end.cause if isinstance(end, Failed) else Cause(())


def _encode_params(tool: ToolInfo, params: Any) -> bytes:
    """Return the parameters as JSON text."""
    try:
        if isinstance(tool.parameters, Schema):
            return tool.parameters.encode_json_unsafe(params)
        return msgspec.json.encode(params)
    except (DecodeError, TypeError, ValueError) as error:
        raise TypeError(f"cannot encode the parameters of {tool.name!r} as JSON for a worker: {error}") from None


def _exit(tool: ToolInfo, text: bytes) -> Exit[Any, Any]:
    """Return the exit of the handler from its reply."""
    try:
        reply = read_reply(text)
    except msgspec.DecodeError as error:
        reply = lost_reply(f"unreadable reply: {error}. Use the same version of fxai on both sides.", begun=True)
    if not isinstance(reply, Gave):
        return Failed(decode_cause(tool, reply))
    try:
        return Succeeded(tool.success.decode_json_unsafe(bytes(reply.value), WIDE))
    except DecodeError as error:
        return Failed(Cause((Die(CallFailureError(InvalidResult(tool.name, error.failure.faults))),)))
