"""What a program told OpenTelemetry: its spans as trees, its metrics and its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from typing_extensions import Unpack

from fxai.effects import Layer
from fxai.telemetry import TelemetryOptions, layer

__all__ = ["Traces"]


class Traces:
    """Providers that keep what they are told, for one test."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, limits: SpanLimits | None = None) -> None:
        self._spans = InMemorySpanExporter()
        make_logs: Any = InMemoryLogRecordExporter  # which has no types
        self._logs = make_logs()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=sampler, span_limits=limits)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._loggers = LoggerProvider()
        self._loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self._meters = MeterProvider([self._reader])

    def layer(self, **options: Unpack[TelemetryOptions]) -> Layer[Any]:
        """The layer whose tracer tells these providers."""
        options["tracer_provider"] = self.tracers
        options["meter_provider"] = self._meters
        options["logger_provider"] = self._loggers
        return layer(**options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order of their beginnings."""
        return tuple(sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time or 0))

    def named(self, name: str) -> ReadableSpan:
        """The one span of a name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def attributes(self, name: str) -> Mapping[str, Any]:
        """The attributes of the one span of a name."""
        return dict(self.named(name).attributes or {})

    def tree(self) -> list[Any]:
        """The names of the spans: `[name, children…]` of one that has any, the name of one that has none."""
        spans = self.spans
        known = {span.context.span_id for span in spans if span.context}

        def under(parent: int | None) -> list[Any]:
            found: list[Any] = []
            for span in spans:
                above = span.parent.span_id if span.parent else None
                above = above if above in known else None
                if above == parent and span.context:
                    inside = under(span.context.span_id)
                    found.append([span.name, *inside] if inside else span.name)
            return found

        return under(None)

    @property
    def events(self) -> list[tuple[str | None, dict[str, Any]]]:
        """The names and attributes of the events."""
        records = [log.log_record for log in self._logs.get_finished_logs()]
        return [(record.event_name, dict(record.attributes or {})) for record in records]

    def metrics(self) -> list[Any]:
        """The metrics that were measured, in the SDK's form."""
        data = self._reader.get_metrics_data()
        return [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def scopes(self) -> dict[str, set[tuple[str, str | None, str | None]]]:
        """Return the name, the version, and the schema of the library that made each kind of signal."""
        data = self._reader.get_metrics_data()
        resources = data.resource_metrics if data else ()
        found: dict[str, list[Any]] = {
            "spans": [span.instrumentation_scope for span in self.spans],
            "events": [log.instrumentation_scope for log in self._logs.get_finished_logs()],
            "metrics": [each.scope for resource in resources for each in resource.scope_metrics],
        }
        return {kind: {(one.name, one.version, one.schema_url) for one in scopes} for kind, scopes in found.items()}

    def points(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """The attributes and the sums of a metric."""
        metrics = [metric for metric in self.metrics() if metric.name == name]
        points: list[Any] = [point for metric in metrics for point in metric.data.data_points]
        return [(dict(point.attributes), float(_sum_of(point))) for point in points]


def _sum_of(point: Any) -> Any:
    return point.sum if hasattr(point, "sum") else point.value
