"""The tracer that creates spans, metrics, and events of OpenTelemetry. `fxai.telemetry.layer` provides it.

A tracer belongs to one span, and the context carries it to the work inside the span. A tracer without a span starts
spans below the current span of OpenTelemetry, such as the span of a web server's request.

If the tracer or a function that it calls fails, the tracer logs the error to `fxai.telemetry`. The program continues.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any, Final, TypeVar, cast, final

import msgspec
from opentelemetry import propagate
from opentelemetry._logs import Logger, LoggerProvider, SeverityNumber, get_logger
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import Counter, Histogram, MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_current_span, get_tracer
from opentelemetry.trace import Tracer as SpanMaker
from opentelemetry.trace.propagation import set_span_in_context
from typing_extensions import override

from fxai.effects.cause import Cause, Exit, Failed, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Enter, Fold, Local, Observe, OnExit, Succeed, Suspend, Sync, Within
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.tracing import AttributeValue, Operation, Tracer
from fxai.messages.part import Usage
from fxai.models.embedding_model import EmbeddingCall
from fxai.models.interceptor import Interceptor, RunInfo, StepInfo
from fxai.models.model_request import ModelCall
from fxai.models.price import PriceTable
from fxai.telemetry import convention
from fxai.telemetry.content import Content, as_text, location_of
from fxai.telemetry.convention import Attributes, SpanData
from fxai.tools.handler import ToolExecution

_A = TypeVar("_A")

_LOG: Final = logging.getLogger("fxai.telemetry")
_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_NOTHING: EffectOf[None] = Succeed(None)


def _version() -> str:
    try:
        return version("fxai")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0"


@final
class Instruments:
    """The OpenTelemetry objects that create the spans and metrics of a layer."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        logger_provider: LoggerProvider | None,
        content: Content,
        prices: PriceTable | None,
    ) -> None:
        self.content = content
        self.prices = prices
        url = convention.SCHEMA_URL
        self.tracer: SpanMaker = get_tracer("fxai", _version(), tracer_provider, url)
        self.logger: Logger = get_logger("fxai", _version(), logger_provider, url)
        meter = get_meter("fxai", _version(), meter_provider, url)
        self.histograms: dict[str, Histogram] = {
            name: meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
            for name, (unit, bounds, description) in convention.HISTOGRAMS.items()
        }
        self.usage: dict[str, Counter] = {
            attribute: meter.create_counter(convention.counter_of(attribute), "{token}", description)
            for attribute, description in convention.USAGE.items()
        }
        self.cost: Counter = meter.create_counter("fxai.client.cost", description="Cost of requests by your prices.")


@final
class _Position:
    """The position of a span: its agent and conversation, and the numbers of requests and calls of the agent's run."""

    __slots__ = ("agent", "calls", "conversation", "requests")

    def __init__(self, agent: str | None = None, conversation: str | None = None) -> None:
        self.agent: str | None = agent
        self.conversation: str | None = conversation
        self.requests: int = 0
        self.calls: int = 0


_NOWHERE: Final[_Position] = _Position()


@final
class OtelTracer(Tracer):
    """A tracer of a span. `fxai.telemetry.layer` creates a tracer without a span."""

    __slots__ = ("_context", "_instruments", "_position", "_span")

    def __init__(
        self,
        instruments: Instruments,
        context: Context | None = None,
        span: Span | None = None,
        position: _Position = _NOWHERE,
    ) -> None:
        self._instruments = instruments
        self._context = context
        self._span = span
        self._position = position

    @override
    def trace(self, operation: Operation, effect: Any) -> AnyEffect:
        traced = _Traced(self._instruments, operation, self._position, is_root=self._context is None)
        return OnExit(Within(lambda env: traced.run(effect, env, self._parent())), traced.end)

    @override
    def trace_stream(self, operation: Operation, opening: Any) -> AnyEffect:
        traced = _Traced(self._instruments, operation, self._position)
        return Within(lambda env: traced.open(opening, env, self._parent()))

    @override
    def activate(self, awaitable: Awaitable[_A]) -> Awaitable[_A]:
        return awaitable if self._context is None else _Active(self._context, awaitable)

    @override
    def annotate(self, attributes: Mapping[str, AttributeValue]) -> None:
        if self._span is not None:
            _guard(lambda: cast(Span, self._span).set_attributes(attributes))

    @override
    def link(self, carrier: Mapping[str, str]) -> None:
        if self._span is not None:
            _guard(lambda: self._link(cast(Span, self._span), carrier))

    def _link(self, span: Span, carrier: Mapping[str, str]) -> None:
        other = get_current_span(propagate.extract(carrier, Context())).get_span_context()
        if other.is_valid and other.span_id != span.get_span_context().span_id:
            span.add_link(other)

    @override
    def inject(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=self._parent())
        return carrier

    @override
    def resume(self, carrier: Mapping[str, str], effect: Any) -> AnyEffect:
        context = propagate.extract(carrier)
        inner = OtelTracer(self._instruments, context)
        return Local(_with_current(context, effect), partial(_with_tracer, inner))

    def _parent(self) -> Context:
        return get_current() if self._context is None else self._context


def _with_tracer(tracer: Tracer, env: ContextOf[Any]) -> ContextOf[Any]:
    return ContextOf({**env.services, Tracer: tracer})


def _guard(f: Callable[[], Any]) -> None:
    """Run a function that must not stop the program. Log an exception without its message."""
    try:
        f()
    except Exception as error:
        _LOG.error("telemetry failed, and the program continues: %s", location_of(error))


@final
class _Active:
    """An awaitable that runs with a given current context."""

    __slots__ = ("_awaitable", "_context")

    def __init__(self, context: Context, awaitable: Awaitable[Any]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        token = attach(self._context)
        try:
            return (yield from self._awaitable.__await__())
        finally:
            detach(token)

    def close(self) -> None:
        """Close the awaitable if nothing awaited it."""
        getattr(self._awaitable, "close", lambda: None)()


def _in_context(context: Context, f: Callable[..., Any], *arguments: Any) -> Any:
    token = attach(context)
    try:
        return f(*arguments)
    finally:
        detach(token)


def _with_current(context: Context, effect: Any) -> AnyEffect:
    """Return the effect. If the effect calls a function, call it with the span of a context as the current span."""
    if effect.op == Within.op:
        return Within(lambda env: _in_context(context, effect.f, env))
    if effect.op == Enter.op:
        return Enter(lambda fiber: _in_context(context, effect.f, fiber))
    if effect.op == Suspend.op:
        return Suspend(lambda: _in_context(context, effect.f))
    return Sync(lambda: _in_context(context, effect.f)) if effect.op == Sync.op else cast(AnyEffect, effect)


@final
class SpanInterceptor(Interceptor):
    """An interceptor that puts each run of an agent and each step in a span. Models and tools report to the tracer."""

    @override
    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        return Observe(running, convention.AgentRun(about.agent, about.prompt))

    @override
    def step(self, about: StepInfo, running: AnyEffect) -> AnyEffect:
        return Observe(running, convention.AgentStep(about.number))


# -- one operation


@final
class _Traced:
    """An operation with its span."""

    def __init__(
        self, instruments: Instruments, operation: Operation, position: _Position, *, is_root: bool = False
    ) -> None:
        self._instruments = instruments
        self._operation = operation
        self._position = position
        self._is_root = is_root
        self._data = SpanData("", "internal", "", {})
        self._span: Span | None = None
        self._context: Context | None = None
        self._is_own = True  # False if another library ends the span
        self._began = 0.0
        self._first: float | None = None
        self._parts: list[Any] = []

    def run(self, effect: Any, env: ContextOf[Any], parent: Context) -> AnyEffect:
        """Start the span, and return the effect inside the span."""
        _guard(lambda: self._start(parent))
        inner = self._inner(env)
        return effect if inner is None else Local(_with_current(cast(Context, self._context), effect), lambda _: inner)

    def open(self, opening: Any, env: ContextOf[Any], parent: Context) -> AnyEffect:
        """Start the span, and return the pull of a stream inside it. The span ends with the stream or its scope."""
        scope: Scope = env.fetch(Scope)
        token = scope.add(self._leave)
        _guard(lambda: self._start(parent))
        inner = self._inner(env)
        if inner is None:
            scope.remove(token)
            return cast(AnyEffect, opening)
        tracer = inner.services[Tracer]

        def pull_in_span(pull: AnyEffect) -> AnyEffect:
            return Succeed(Fold(Local(pull, partial(_with_tracer, tracer)), self._fail, self._take))

        return Fold(Local(opening, lambda _: inner), self._fail, pull_in_span)

    def _inner(self, env: ContextOf[Any]) -> ContextOf[Any] | None:
        if self._span is None or self._context is None:
            return None
        return _with_tracer(OtelTracer(self._instruments, self._context, self._span, self._inner_position()), env)

    def _inner_position(self) -> _Position:
        """Return the position of the work inside. The requests of a handler do not count for the agent."""
        is_call = isinstance(self._operation, ToolExecution)
        return _Position(None, self._position.conversation) if is_call else self._position

    # -- start

    def _start(self, parent: Context) -> None:
        data = self._data = convention.start(self._operation)
        self._note_position(data.attributes)
        self._began = perf_counter()
        span = get_current_span(parent)
        self._is_own = not (self._is_root and _is_same(span, self._operation))
        if self._is_own:
            kind = _KINDS[data.kind]
            span = self._instruments.tracer.start_span(data.name, parent, kind, data.attributes)
        elif span.is_recording():
            span.set_attributes(data.attributes)
        self._span, self._context = span, set_span_in_context(span, parent)
        content = self._instruments.content
        if content.where == "span" and span.is_recording():
            _show(span, content.before(self._operation))

    def _note_position(self, attributes: Attributes) -> None:
        operation, position = self._operation, self._position
        known = attributes.get(convention.CONVERSATION)
        if isinstance(known, str):
            self._position = _Position(position.agent, known)
        elif position.conversation is not None and self._data.operation in convention.IN_CONVERSATIONS:
            attributes[convention.CONVERSATION] = position.conversation
        if isinstance(operation, convention.AgentRun):
            self._position = _Position(operation.name, position.conversation)
        elif position.agent is not None and isinstance(operation, ModelCall):
            position.requests += 1
        elif position.agent is not None and isinstance(operation, ToolExecution):
            position.calls += 1
            attributes[convention.AGENT] = position.agent

    # -- a stream

    def _take(self, part: Any) -> AnyEffect:
        if part is END:
            self._finish(Succeeded(tuple(self._parts)))
        else:
            if self._first is None:
                self._first = perf_counter() - self._began
            if self._instruments.content.where != "off" or part.type in _TELLING:
                self._parts.append(part)
        return Succeed(part)

    def _fail(self, cause: Cause[Any]) -> None:
        self._finish(Failed(cause))

    def _leave(self, _: Exit[Any, Any]) -> EffectOf[None]:
        if self._span is not None:
            _guard(lambda: cast(Span, self._span).set_attribute(convention.INTERRUPTED, True))
            self._finish(Succeeded(tuple(self._parts)))
        return _NOTHING

    # -- end

    def end(self, exit_: Exit[Any, Any]) -> EffectOf[None]:
        """End the span if it is open."""
        self._finish(exit_)
        return _NOTHING

    def _finish(self, exit_: Exit[Any, Any]) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        took = perf_counter() - self._began
        _guard(lambda: self._tell(span, exit_, took))
        if self._is_own:
            _guard(span.end)

    def _tell(self, span: Span, exit_: Exit[Any, Any], took: float) -> None:
        is_failed = isinstance(exit_, Failed)
        found = (convention.fail if is_failed else convention.end)(self._operation, _end_of(exit_))
        if self._first is not None:
            found[convention.FIRST_PART] = self._first
        span.set_attributes(found)
        if convention.ERROR_TYPE in found and self._is_own:
            span.set_status(Status(StatusCode.ERROR, self._description(exit_)))
        self._measure(span, exit_, found, took)
        self._record(span, exit_, found)

    def _description(self, exit_: Exit[Any, Any]) -> str | None:
        """Return the message of the error, which is content because it can repeat content."""
        content = self._instruments.content
        return content.message(exit_.cause) if isinstance(exit_, Failed) and content.where == "span" else None

    def _measure(self, span: Span, exit_: Exit[Any, Any], found: Attributes, took: float) -> None:
        duration = convention.DURATIONS.get(self._data.operation)
        if duration is None:
            return
        histograms, context = self._instruments.histograms, self._context
        both = {**self._data.attributes, **found}
        attributes: Attributes = {name: both[name] for name in _OF_METRICS if name in both}
        histograms[duration].record(took, attributes, context)
        if self._first is not None:
            histograms[convention.FIRST_PART_METRIC].record(self._first, attributes, context)
        operation = self._operation
        if isinstance(operation, convention.AgentRun):
            named = {convention.AGENT: operation.name}
            histograms[convention.AGENT_REQUESTS].record(self._position.requests, named, context)
            histograms[convention.AGENT_CALLS].record(self._position.calls, named, context)
        elif isinstance(exit_, Succeeded) and isinstance(operation, ModelCall | EmbeddingCall):
            self._count(span, operation, exit_.value, attributes)

    def _count(self, span: Span, operation: ModelCall | EmbeddingCall, value: Any, attributes: Attributes) -> None:
        usage = convention.usage_of(value)
        if usage is None:
            return
        self._count_tokens(operation, usage, attributes)
        prices = self._instruments.prices
        if prices is None:
            return
        if isinstance(operation, EmbeddingCall) and usage.output_tokens is None:
            usage = msgspec.structs.replace(usage, output_tokens=0)
        cost = prices.cost(operation.info, usage)
        if cost is not None:
            span.set_attributes({convention.COST: float(cost), convention.CURRENCY: prices.currency})
            self._instruments.cost.add(float(cost), {**attributes, convention.CURRENCY: prices.currency}, self._context)

    def _count_tokens(self, operation: ModelCall | EmbeddingCall, usage: Usage, attributes: Attributes) -> None:
        """Record the counts of the provider. Skip unknown counts, because they are not zero."""
        histograms, context = self._instruments.histograms, self._context
        counts = {"input": usage.input_tokens, "output": usage.output_tokens}
        kind = "inference" if isinstance(operation, ModelCall) else "embeddings"
        for way, count in counts.items():
            metric = histograms.get(f"gen_ai.client.{kind}.operation.{way}_tokens")
            if metric is not None and count is not None:
                metric.record(count, attributes, context)
        if kind == "embeddings":
            return
        of_any = {**attributes, "gen_ai.token.modality": "unknown"}
        for attribute, count in convention.usage_attributes(usage).items():
            self._instruments.usage[attribute].add(count, of_any, context)

    # -- content and events

    def _record(self, span: Span, exit_: Exit[Any, Any], found: Attributes) -> None:
        content, operation = self._instruments.content, self._operation
        if content.where == "span" and span.is_recording() and isinstance(exit_, Succeeded):
            _show(span, content.after(operation, exit_.value))
        if not isinstance(operation, ModelCall):
            return
        if content.where == "event" and not _is_dropped(span):
            recorded = content.before(operation)
            if isinstance(exit_, Succeeded):
                recorded |= content.after(operation, exit_.value)
            details = {**self._data.attributes, **found, **recorded}
            self._emit("gen_ai.client.inference.operation.details", details, SeverityNumber.DEBUG)
        if isinstance(exit_, Failed) and convention.ERROR_TYPE in found:
            recorded = {"exception.type": convention.exception_type(exit_.cause)}
            message = content.message(exit_.cause)
            if message is not None:
                recorded[convention.EXCEPTION_MESSAGE] = message
            self._emit("gen_ai.client.operation.exception", {**self._data.attributes, **recorded}, SeverityNumber.WARN)

    def _emit(self, name: str, attributes: Any, severity: SeverityNumber) -> None:
        self._instruments.logger.emit(
            event_name=name, attributes=attributes, context=self._context, severity_number=severity
        )


_OF_METRICS: Final = (
    convention.OPERATION,
    convention.PROVIDER,
    convention.REQUEST_MODEL,
    convention.RESPONSE_MODEL,
    convention.TOOL_NAME,
    convention.TOOL_TYPE,
    convention.AGENT,
    convention.ERROR_TYPE,
    "server.address",
    "server.port",
)
_TELLING: Final = frozenset({"finish", "response-metadata"})  # the parts of a stream without content


def _end_of(exit_: Exit[Any, Any]) -> Any:
    return exit_.cause if isinstance(exit_, Failed) else exit_.value


def _is_dropped(span: Span) -> bool:
    """Return True if a sampler dropped the span. Without a tracer provider, no sampler exists."""
    context = span.get_span_context()
    return context.is_valid and not context.trace_flags.sampled


def _show(span: Span, found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        span.set_attribute(name, as_text(value))


def _is_same(span: Span, operation: Operation) -> bool:
    """Return True if another library, such as an MCP server, already started a span for this tool call."""
    known: Any = getattr(span, "attributes", None)
    if not known or not isinstance(operation, ToolExecution) or not span.is_recording():
        return False
    return (
        "mcp.method.name" in known
        and known.get(convention.OPERATION) == "execute_tool"
        and known.get(convention.TOOL_NAME) == operation.name
    )
