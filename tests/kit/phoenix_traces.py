"""Traces in a collector of others: Arize Phoenix is told of programs over OTLP, and what it understood is read back.

`python -m tests.kit.phoenix_traces --phoenix PYTHON` starts the Phoenix of that interpreter on loopback, with a folder
of its own; `nox -s traces` makes the environment and runs this. It prints the spans as Phoenix has them, and exits with
1 where one is missing, or where a name, a nesting, a kind, a status, an attribute or a number of tokens is not what it
was when it was sent.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fxai import fx
from tests.kit.traced_programs import TREES, programs
from tests.kit.traces import Traces

__all__ = ["run"]

_PATIENCE: Final = 180.0
_ON_SERVER: Final = "tools/call double"
_KINDS: Final = {"invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL", "embeddings": "EMBEDDING"}
_TOKENS: Final = {
    "gen_ai.usage.input_tokens": "llm.token_count.prompt",
    "gen_ai.usage.output_tokens": "llm.token_count.completion",
}

Found = Mapping[str, Any]
"""A span as Phoenix gives it."""


# -- Phoenix


@contextmanager
def _phoenix(python: str, folder: Path) -> Generator[str]:
    """Its address, for the time of the block: on loopback, on ports that are free, and telling nobody of itself."""
    told = {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(_free_port())}
    told |= {"PHOENIX_GRPC_PORT": str(_free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}
    told |= {"PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false"}
    log = folder / "phoenix.log"
    with log.open("wb") as output:
        command = [python, "-m", "phoenix.server.main", "serve"]
        server = subprocess.Popen(command, env={**os.environ, **told}, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{told['PHOENIX_PORT']}"
        _wait(server, url, log)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"Phoenix did not start:\n{log.read_text()[-4000:]}") from None
            time.sleep(0.5)


def _read(url: str, ids: set[str]) -> dict[str, Found]:
    """The spans that Phoenix has, by their ids, when these are there and that of the MCP server too."""
    until = time.monotonic() + _PATIENCE
    while True:
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000", timeout=_PATIENCE) as answer:
            found: list[Found] = json.loads(answer.read())["data"]
        known = {span["context"]["span_id"]: span for span in found}
        is_complete = ids <= known.keys() and any(span["name"] == _ON_SERVER for span in found)
        if is_complete or time.monotonic() > until:
            return known
        time.sleep(0.5)


# -- what was sent, and what came


def _send(url: str, folder: Path) -> Traces:
    """Runs the programs; their spans, and those of the `mcp` SDK, are kept here and sent there."""
    traces = Traces()
    traces.tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    trace.set_tracer_provider(traces.tracers)
    try:
        for program in programs(folder, url).values():
            fx.run(program.provide(traces.layer(content="span")))
    finally:
        traces.tracers.shutdown()
    return traces


def _id(context: Any) -> str:
    return f"{context.span_id:016x}"


def _compare(sent: ReadableSpan, came: Found | None) -> Generator[str]:
    """What is not as it was sent."""
    if came is None:
        yield f"{sent.name} is missing"
        return
    own: dict[str, Any] = json.loads(json.dumps(dict(sent.attributes or {})))
    attributes: Found = came["attributes"]
    expected = {
        "name": sent.name,
        "parent_id": _id(sent.parent) if sent.parent else None,
        "status_code": sent.status.status_code.name,
        "span_kind": _KINDS.get(str(own.get("gen_ai.operation.name")), "UNKNOWN"),
    }
    for key, value in expected.items():
        if came[key] != value:
            yield f"{key} of {sent.name} is {came[key]!r}, not {value!r}"
    understood = {_TOKENS[key]: value for key, value in own.items() if key in _TOKENS}
    for key, value in {**own, **understood}.items():
        if attributes.get(key) != value:
            yield f"{key} of {sent.name} is {attributes.get(key)!r}, not {value!r}"


def _server_faults(spans: Mapping[str, Found]) -> Generator[str]:
    """The span of the server stands in that of the SDK's client, which stands in the call, and is that of the call."""
    found = [span for span in spans.values() if span["name"] == _ON_SERVER]
    if len(found) != 1:
        yield f"the server has {len(found)} spans of the call, not 1"
        return
    above = spans.get(found[0]["parent_id"], {})
    call = spans.get(above.get("parent_id", ""), {})
    if (above.get("name"), call.get("name")) != ("MCP send tools/call double", "execute_tool double"):
        yield f"the server's span stands in {above.get('name')!r} in {call.get('name')!r}"
    if found[0]["span_kind"] != "TOOL" or found[0]["attributes"].get("gen_ai.tool.type") != "function":
        yield f"the server's span is no call of a tool: {found[0]['attributes']}"


def _tree(spans: Mapping[str, Found]) -> list[Any]:
    """The names of what the programs are to have, nested; what the SDK has of its own is left out of the way."""
    ordered = sorted(spans.values(), key=lambda span: str(span["start_time"]))

    def under(parent: str | None) -> list[Any]:
        found: list[Any] = []
        for span in ordered:
            if span["parent_id"] == parent:
                inside = under(span["context"]["span_id"])
                is_own = "mcp.method.name" not in span["attributes"] or span["name"].startswith("execute_tool")
                found += ([[span["name"], *inside] if inside else span["name"]]) if is_own else inside
        return found

    return under(None)


def _show(tree: Sequence[Any], depth: int = 0) -> None:
    for one in tree:
        names: list[Any] = [one] if isinstance(one, str) else one
        print("  " * depth + names[0])
        _show(names[1:], depth + 1)


def run(phoenix: str) -> list[str]:
    """What Phoenix has otherwise than it was sent; the spans that it has are printed."""
    with tempfile.TemporaryDirectory() as location, _phoenix(phoenix, Path(location)) as url:
        traces = _send(url, Path(location))
        spans = _read(url, {_id(span.context) for span in traces.spans})
    tree = _tree(spans)
    _show(tree)
    faults = [fault for span in traces.spans for fault in _compare(span, spans.get(_id(span.context)))]
    faults += _server_faults(spans)
    for found, (name, wanted) in zip(tree, TREES.items(), strict=False):
        if found != [name, *wanted]:
            faults.append(f"{found}, not {[name, *wanted]}")
    count = sum(len(span.attributes or {}) for span in traces.spans)
    print(f"{len(traces.spans)} spans with {count} attributes were sent, {len(spans)} are there")
    return faults if len(tree) == len(TREES) else [*faults, f"{len(tree)} traces, not {len(TREES)}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phoenix", required=True, help="the interpreter of the environment that has arize-phoenix")
    wrong = run(parser.parse_args().phoenix)
    print(*wrong or ["all as it should be"], sep="\n")
    sys.exit(bool(wrong))
