"""A collector on loopback: what comes to it over OTLP/HTTP, decoded by the official messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collected", "collector"]


class Collected:
    """What came, by path, as it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[tuple[str, bytes]] = []

    def spans(self) -> list[Any]:
        """The spans that came, in the messages of the protocol."""
        return [
            span
            for request in self._requests("/v1/traces", ExportTraceServiceRequest)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> list[Any]:
        """The metrics that came."""
        return [
            metric
            for request in self._requests("/v1/metrics", ExportMetricsServiceRequest)
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def events(self) -> list[Any]:
        """The log records that came."""
        return [
            record
            for request in self._requests("/v1/logs", ExportLogsServiceRequest)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def _requests(self, path: str, kind: Any) -> list[Any]:
        return [kind.FromString(body) for location, body in self.bodies if location == path]


@contextmanager
def collector() -> Generator[Collected]:
    """A collector that listens for the time of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # as the base class calls it
            body = self.rfile.read(int(self.headers["content-length"]))
            is_packed = self.headers.get("content-encoding") == "gzip"
            collected.bodies.append((self.path, gzip.decompress(body) if is_packed else body))
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # as the base class calls it
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected = Collected(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
