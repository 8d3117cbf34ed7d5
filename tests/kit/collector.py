"""A collector on loopback: what comes to it over OTLP/HTTP, decoded by the official messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collected", "collector"]


class Collected:
    """What came, by path, as it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[tuple[str, bytes]] = []

    def spans(self) -> list[Any]:
        """The spans that came, in the messages of the protocol."""
        found: list[Any] = []
        for path, body in self.bodies:
            if path == "/v1/traces":
                request: Any = ExportTraceServiceRequest.FromString(body)
                found += [
                    span
                    for resource in request.resource_spans
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return found


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
