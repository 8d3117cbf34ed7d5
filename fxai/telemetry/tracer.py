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
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Enter, Fold, Local, Observe, OnExit, Succeed, Suspend, Sync, Within
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.tracing import AttributeValue, Operation, Tracer
from fxai.models.embedding_model import EmbeddingCall
from fxai.models.interceptor import Interceptor, RunInfo, StepInfo
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelCall
from fxai.models.price import PriceTable
from fxai.telemetry import convention
from fxai.telemetry.convention import Attributes, Content, SpanData, as_text, location_of
from fxai.tools.handler import ToolExecution

_A = TypeVar("_A")

_LOG: Final = logging.getLogger("fxai.telemetry")
_CLIENTS: Final = frozenset({"chat", "embeddings"})  # the operations of requests to a provider
_NOTHING: EffectOf[None] = Succeed(None)
_NO_DATA: Final = SpanData("", "", {})


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
class _Position(msgspec.Struct):
    """The position of a span: its agent and conversation, and the numbers of requests and calls of the agent's run."""

    agent: str | None = None
    conversation: str | None = None
    requests: int = 0
    calls: int = 0


_NOWHERE: Final[_Position] = _Position()


@final
class OtelTracer(Tracer):
    """A tracer of a span. `fxai.telemetry.layer` creates a tracer without a span."""

    __slots__ = ("_position", "_span", "context", "instruments")

    def __init__(
        self,
        instruments: Instruments,
        context: Context | None = None,
        span: Span | None = None,
        position: _Position = _NOWHERE,
    ) -> None:
        self.instruments: Instruments = instruments
        self.context: Context | None = context
        self._span = span
        self._position = position

    @override
    def trace(self, operation: Operation, effect: Any) -> AnyEffect:
        traced = _Traced(self, operation, effect, self._position)
        return OnExit(Within(traced.run), traced.end)

    @override
    def trace_stream(self, operation: Operation, opening: Any) -> AnyEffect:
        return Within(_Traced(self, operation, opening, self._position).open)

    @override
    def activate(self, awaitable: Awaitable[_A]) -> Awaitable[_A]:
        return awaitable if self.context is None else _Active(self.context, awaitable)

    @override
    def annotate(self, attributes: Mapping[str, AttributeValue]) -> None:
        if self._span is not None:
            _guard(self._span.set_attributes, attributes)

    @override
    def link(self, carrier: Mapping[str, str]) -> None:
        if self._span is not None:
            _guard(_link, self._span, carrier)

    @override
    def inject(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=self.parent())
        return carrier

    @override
    def resume(self, carrier: Mapping[str, str], effect: Any) -> AnyEffect:
        context = propagate.extract(carrier)
        inner = OtelTracer(self.instruments, context)
        return Local(_with_current(context, effect), partial(_with_tracer, inner))

    def parent(self) -> Context:
        """Return the context of the span, or the current context if the tracer has no span."""
        return get_current() if self.context is None else self.context


def _link(span: Span, carrier: Mapping[str, str]) -> None:
    other = get_current_span(propagate.extract(carrier, Context())).get_span_context()
    if other.is_valid and other.span_id != span.get_span_context().span_id:
        span.add_link(other)


def _with_tracer(tracer: Tracer, env: AnyContext) -> AnyContext:
    return ContextOf({**env.services, Tracer: tracer})


def _guard(f: Callable[..., object], *arguments: Any) -> None:
    """Call a function that must not stop the program. Log an exception without its message."""
    try:
        f(*arguments)
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
    kind = _CALLING.get(effect.op)
    return cast(AnyEffect, effect) if kind is None else kind(partial(_in_context, context, effect.f))


_CALLING: Final[Mapping[int, Callable[..., AnyEffect]]] = {one.op: one for one in (Within, Enter, Suspend, Sync)}


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
class _Traced(msgspec.Struct, eq=False):
    """An operation with its span, and the effect that does it."""

    tracer: OtelTracer
    operation: Operation
    source: Any
    position: _Position
    data: SpanData = _NO_DATA
    span: Span | None = None
    context: Context | None = None
    is_own: bool = True  # False if another library ends the span
    began: float = 0.0
    first: float | None = None
    parts: list[Any] = msgspec.field(default_factory=list[Any])

    def run(self, env: AnyContext) -> AnyEffect:
        """Start the span, and return the source inside the span."""
        inner = self._start(env)
        if inner is None:
            return cast(AnyEffect, self.source)
        return Local(_with_current(cast(Context, self.context), self.source), lambda _: inner)

    def open(self, env: AnyContext) -> AnyEffect:
        """Start the span, and return the pull of a stream inside it. The span ends with the stream or its scope."""
        scope: Scope = env.fetch(Scope)
        token = scope.add(self._leave)
        inner = self._start(env)
        if inner is None:
            scope.remove(token)
            return cast(AnyEffect, self.source)
        tracer = inner.services[Tracer]

        def pull_in_span(pull: AnyEffect) -> AnyEffect:
            return Succeed(Fold(Local(pull, partial(_with_tracer, tracer)), self._fail, self._take))

        return Fold(Local(self.source, lambda _: inner), self._fail, pull_in_span)

    # -- start

    def _start(self, env: AnyContext) -> AnyContext | None:
        """Start the span, and return the services inside the span, or None if no span started."""
        _guard(self._start_span)
        span, context, position = self.span, self.context, self.position
        if span is None or context is None:
            return None
        if isinstance(self.operation, ToolExecution):  # the requests of a handler do not count for the agent
            position = _Position(None, position.conversation)
        return _with_tracer(OtelTracer(self.tracer.instruments, context, span, position), env)

    def _start_span(self) -> None:
        instruments, operation, parent = self.tracer.instruments, self.operation, self.tracer.parent()
        data = self.data = convention.start(operation)
        attributes, position = data.attributes, self.position
        known = attributes.get(convention.CONVERSATION)
        if isinstance(known, str):
            self.position = _Position(position.agent, known)
        elif position.conversation is not None and self.data.operation in convention.IN_CONVERSATIONS:
            attributes[convention.CONVERSATION] = position.conversation
        if isinstance(operation, convention.AgentRun):
            self.position = _Position(operation.name, position.conversation)
        elif position.agent is not None and isinstance(operation, ModelCall):
            position.requests += 1
        elif position.agent is not None and isinstance(operation, ToolExecution):
            position.calls += 1
            attributes[convention.AGENT] = position.agent
        self.began = perf_counter()
        if self.tracer.context is None and _is_same(span := get_current_span(parent), operation):
            self.is_own = False
            span.set_attributes(data.attributes)
        else:
            kind = SpanKind.CLIENT if data.operation in _CLIENTS else SpanKind.INTERNAL
            span = instruments.tracer.start_span(data.name, parent, kind, data.attributes)
        self.span, self.context = span, set_span_in_context(span, parent)
        if instruments.content.where == "span" and span.is_recording():
            _show(span, instruments.content.before(operation))

    # -- a stream

    def _take(self, part: Any) -> AnyEffect:
        if part is END:
            self._finish(Succeeded(tuple(self.parts)))
        else:
            if self.first is None:
                self.first = perf_counter() - self.began
            if self.tracer.instruments.content.where != "off" or part.type in _TELLING:
                self.parts.append(part)
        return Succeed(part)

    def _fail(self, cause: Cause[object]) -> None:
        self._finish(Failed(cause))

    def _leave(self, _: Exit[object, object]) -> EffectOf[None]:
        if self.span is not None:
            _guard(self.span.set_attribute, convention.INTERRUPTED, True)
            self._finish(Succeeded(tuple(self.parts)))
        return _NOTHING

    # -- end

    def end(self, exit_: Exit[object, object]) -> EffectOf[None]:
        """End the span if it is open."""
        self._finish(exit_)
        return _NOTHING

    def _finish(self, exit_: Exit[object, object]) -> None:
        span, self.span = self.span, None
        if span is None:
            return
        took = perf_counter() - self.began
        _guard(self._tell, span, exit_, took)
        if self.is_own:
            _guard(span.end)

    def _tell(self, span: Span, exit_: Exit[object, object], took: float) -> None:
        content = self.tracer.instruments.content
        if isinstance(exit_, Failed):
            found = convention.fail(self.operation, exit_.cause)
        else:
            found = convention.end(self.operation, exit_.value)
        if self.first is not None:
            found[convention.FIRST_PART] = self.first
        if found:
            span.set_attributes(found)
        if convention.ERROR_TYPE in found and self.is_own:
            is_shown = content.where == "span"  # the message of an error can repeat content
            message = content.message(exit_.cause) if is_shown and isinstance(exit_, Failed) else None
            span.set_status(Status(StatusCode.ERROR, message))
        duration = convention.DURATIONS.get(self.data.operation)
        if duration is not None:
            self._measure(span, exit_, found, duration, took)
            self._record(span, exit_, found)

    def _measure(self, span: Span, exit_: Exit[object, object], found: Attributes, duration: str, took: float) -> None:
        histograms, operation, context = self.tracer.instruments.histograms, self.operation, self.context
        every = self.data.attributes | found
        attributes = {name: value for name, value in every.items() if name in _OF_METRICS}
        histograms[duration].record(took, attributes, context)
        if self.first is not None:
            histograms[convention.FIRST_PART_METRIC].record(self.first, attributes, context)
        if isinstance(operation, convention.AgentRun):
            named = {convention.AGENT: operation.name}
            histograms[convention.AGENT_REQUESTS].record(self.position.requests, named, context)
            histograms[convention.AGENT_CALLS].record(self.position.calls, named, context)
        elif isinstance(operation, (ModelCall, EmbeddingCall)) and isinstance(exit_, Succeeded):
            self._measure_usage(span, operation.info, exit_.value, found, attributes)

    def _measure_usage(
        self, span: Span, info: ModelInfo, value: object, found: Attributes, attributes: Attributes
    ) -> None:
        """Record the counts of the provider, and their cost. Skip unknown counts, because they are not zero."""
        instruments, kind, prices = self.tracer.instruments, self.data.operation, self.tracer.instruments.prices
        for attribute, counter in instruments.usage.items():
            count: Any = found.get(attribute)
            if count is None:
                continue
            metric = convention.TOKENS.get((kind, attribute))
            if metric is not None:
                instruments.histograms[metric].record(count, attributes, self.context)
            if kind == "chat":
                counter.add(count, {**attributes, "gen_ai.token.modality": "unknown"}, self.context)

        usage = None if prices is None else convention.usage_of(value)
        if prices is None or usage is None:
            return
        if kind == "embeddings" and usage.output_tokens is None:
            usage = msgspec.structs.replace(usage, output_tokens=0)
        cost = prices.cost(info, usage)
        if cost is not None:
            span.set_attributes({convention.COST: float(cost), convention.CURRENCY: prices.currency})
            instruments.cost.add(float(cost), {**attributes, convention.CURRENCY: prices.currency}, self.context)

    # -- content and events

    def _record(self, span: Span, exit_: Exit[object, object], found: Attributes) -> None:
        content, operation = self.tracer.instruments.content, self.operation
        if content.where == "span" and span.is_recording() and isinstance(exit_, Succeeded):
            _show(span, content.after(operation, exit_.value))
        if not isinstance(operation, ModelCall):
            return
        if content.where == "event" and not _is_dropped(span):
            recorded = content.before(operation)
            if isinstance(exit_, Succeeded):
                recorded |= content.after(operation, exit_.value)
            details = {**self.data.attributes, **found, **recorded}
            self._emit("gen_ai.client.inference.operation.details", details, SeverityNumber.DEBUG)
        if isinstance(exit_, Failed) and convention.ERROR_TYPE in found:
            kind = type(convention.failure_of(exit_.cause))
            recorded = {"exception.type": f"{kind.__module__}.{kind.__qualname__}"}
            message = content.message(exit_.cause)
            if message is not None:
                recorded[convention.EXCEPTION_MESSAGE] = message
            self._emit("gen_ai.client.operation.exception", {**self.data.attributes, **recorded}, SeverityNumber.WARN)

    def _emit(self, name: str, attributes: Any, severity: SeverityNumber) -> None:
        self.tracer.instruments.logger.emit(
            event_name=name, attributes=attributes, context=self.context, severity_number=severity
        )


_OF_METRICS: Final = frozenset(
    {
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
    }
)
_TELLING: Final = frozenset({"finish", "response-metadata"})  # the parts of a stream without content


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
