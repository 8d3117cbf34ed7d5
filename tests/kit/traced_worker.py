"""What a worker that is traced imports: a provider that exports in batches, and the desk with a tracer in its layer."""

from __future__ import annotations

import os
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fxai import telemetry
from fxai.tools import BoundToolkit
from tests.kit import traced_tools
from tests.kit.traced_tools import COLLECTOR, kit, plain

__all__ = ["bare", "desk", "plain"]

provider = TracerProvider(resource=Resource({"service.name": "worker"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{os.environ[COLLECTOR]}/v1/traces")))
trace.set_tracer_provider(provider)

bare = traced_tools.desk
desk: BoundToolkit[Any] = BoundToolkit.of(kit, telemetry.trace(bare.layer))
