"""Spans on their way: exported over OTLP/HTTP to a collector on loopback, and read there."""

from __future__ import annotations

from typing import Any

import msgspec
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fxai import Agent, fx
from fxai.messages import Usage
from fxai.telemetry import layer
from fxai.testing import ScriptedModel, call, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.collector import collector


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


def _value(attributes: Any, key: str) -> Any:
    (value,) = [one.value for one in attributes if one.key == key]
    return getattr(value, value.WhichOneof("value"))


def test_a_collector_is_told_of_a_run() -> None:
    """Names, kinds, nesting and numbers of tokens are there, as they were when the run ended."""
    weather = Tool.make("weather", parameters=City, success=str)
    first = [call("weather", {"name": "Tokyo"}, id="c1"), finish("tool-calls", Usage(10, 5))]
    model = ScriptedModel.make([first, [text("Rain."), finish("stop", Usage(20, 7))]])
    agent = Agent.make("forecast", toolkit=Toolkit.make(weather), model=model.layer)
    run = agent.execute("Tokyo?").provide(weather.handler(lambda _: fx.succeed("rain")))

    with collector() as collected:
        provider = TracerProvider(resource=Resource({"service.name": "test"}))
        exporter = OTLPSpanExporter(f"{collected.url}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        fx.run(run.provide(layer(tracer_provider=provider)))
        provider.shutdown()
        spans = collected.spans()

    by_id = {span.span_id: span for span in spans}
    above = sorted((span.name, by_id[span.parent_span_id].name) for span in spans if span.parent_span_id)
    assert above == [
        ("chat scripted", "step"),
        ("chat scripted", "step"),
        ("execute_tool weather", "step"),
        ("step", "invoke_agent forecast"),
        ("step", "invoke_agent forecast"),
    ]
    chats = sorted((span for span in spans if span.name == "chat scripted"), key=lambda span: span.start_time_unix_nano)
    assert [span.kind for span in chats] == [3, 3]  # of a client
    assert [_value(span.attributes, "gen_ai.usage.input_tokens") for span in chats] == [10, 20]
    (called,) = [span for span in spans if span.name == "execute_tool weather"]
    assert _value(called.attributes, "gen_ai.tool.call.id") == "c1"


def test_a_collector_is_told_of_metrics_and_events() -> None:
    """Histograms with their buckets, counters, and what was said in the structure that the conventions give it."""
    model = ScriptedModel.make([[text("Rain."), finish("stop", Usage(20, 7))]])
    run = Agent.make("forecast", model=model.layer).execute("Tokyo?")

    with collector() as collected:
        meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{collected.url}/v1/metrics"))])
        loggers = LoggerProvider()
        loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{collected.url}/v1/logs")))
        fx.run(run.provide(layer(meter_provider=meters, logger_provider=loggers, content="event")))
        meters.shutdown()
        loggers.shutdown()
        metrics = {metric.name: metric for metric in collected.metrics()}
        (event,) = collected.events()

    (tokens,) = metrics["gen_ai.client.inference.operation.input_tokens"].histogram.data_points
    assert (tokens.sum, list(tokens.explicit_bounds)[:4]) == (20, [1, 4, 16, 64])
    (used,) = metrics["gen_ai.client.inference.usage.output_tokens"].sum.data_points
    assert (used.as_int, _value(used.attributes, "gen_ai.token.modality")) == (7, "unknown")
    assert metrics["gen_ai.client.inference.duration"].unit == "s"
    assert (event.event_name, event.severity_number) == ("gen_ai.client.inference.operation.details", 5)
    (answer,) = _value(event.attributes, "gen_ai.output.messages").values
    assert _value(answer.kvlist_value.values, "finish_reason") == "stop"
