"""Traces in a collector of others: Arize Phoenix is told of a program over OTLP, and what it understood is read back.

`python -m tests.kit.phoenix_traces --phoenix PYTHON` starts the Phoenix of that interpreter on loopback, with a folder
of its own; `nox -s traces` makes the environment and runs this. It prints the spans as Phoenix has them, and exits with
1 where a name, a kind, a nesting or a number of tokens is not what it should be.
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
from typing import Any

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fxai import Agent, Tool, Toolkit, fx
from fxai.effects import Effect, Layer
from fxai.messages import Usage
from fxai.models import EmbeddingModel, Embeddings
from fxai.telemetry import layer
from fxai.testing import ScriptedModel, call, finish, text

__all__ = ["run"]

_PATIENCE = 180.0

# The spans in the order of their beginnings: how deep, the name, Phoenix's kind, and the tokens of input and output.
EXPECTED: list[tuple[int, str, str, tuple[int, int] | None]] = [
    (0, "request", "*", None),
    (1, "invoke_agent editor", "AGENT", None),
    (2, "step", "*", None),
    (3, "chat scripted", "LLM", (100, 20)),
    (3, "execute_tool look_up", "TOOL", None),
    (3, "execute_tool poet", "TOOL", None),
    (4, "invoke_agent poet", "AGENT", None),
    (5, "step", "*", None),
    (6, "chat scripted", "LLM", (30, 7)),
    (2, "step", "*", None),
    (3, "chat scripted", "LLM", (200, 40)),
    (1, "embeddings Lengths", "EMBEDDING", None),
]


class Word(msgspec.Struct, frozen=True):
    """A word."""

    word: str


class Lengths(EmbeddingModel):
    """Vectors of two numbers."""

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings]:
        """The lengths of the texts."""
        return fx.succeed(Embeddings(tuple((float(len(one)), 1.0) for one in texts), Usage(input_tokens=3)))


def program() -> Effect[Any, Any]:
    """A streamed run with two calls at once, one of them a sub-agent, and an embedding, in a span of its own."""
    look_up = Tool.make("look_up", parameters=Word, success=str, description="Looks a word up.")
    verse = ScriptedModel.make([[text("Roses are red."), finish("stop", Usage(30, 7))]])
    poet = Agent.make("poet", model=verse.layer)
    calls = [call("look_up", {"word": "rose"}), call("poet", {"prompt": "On roses."})]
    turns = [[*calls, finish("tool-calls", Usage(100, 20))], [text("Here it is."), finish("stop", Usage(200, 40))]]
    editor = Agent.make("editor", toolkit=Toolkit.make(look_up), model=ScriptedModel.make(turns).layer)
    tools = editor.with_tools(poet.as_tool(description="Writes a verse."))
    run = tools.stream("A verse, please.").collect().provide(look_up.handler(lambda _: fx.succeed("a flower")))
    embedded = EmbeddingModel.embed("Here it is.").provide(Layer.succeed(EmbeddingModel, Lengths()))
    return run.and_then(embedded).span("request", user="ann")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:  # of a server on loopback
        return json.loads(answer.read() or b"null")


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("Phoenix did not start") from None
            time.sleep(0.5)


def _spans(url: str, many: int) -> list[dict[str, Any]]:
    """The spans that Phoenix has, when they are all there."""
    until = time.monotonic() + _PATIENCE
    while True:
        found: list[dict[str, Any]] = _get(f"{url}/v1/projects/default/spans?limit=100")["data"]
        if len(found) >= many or time.monotonic() > until:
            return sorted(found, key=lambda span: str(span["start_time"]))
        time.sleep(0.5)


def _shown(spans: list[dict[str, Any]]) -> list[tuple[int, str, str, tuple[int, int] | None]]:
    depth: dict[str, int] = {}
    shown: list[tuple[int, str, str, tuple[int, int] | None]] = []
    for span in spans:
        above = span.get("parent_id")
        depth[span["context"]["span_id"]] = level = 0 if above is None else depth[above] + 1
        attributes: dict[str, Any] = span["attributes"]
        kind = str(span["span_kind"])
        given, answered = (attributes.get(f"llm.token_count.{one}") for one in ("prompt", "completion"))
        tokens = (int(given), int(answered)) if kind == "LLM" and given is not None and answered is not None else None
        shown.append((level, str(span["name"]), kind, tokens))
    return shown


def run(phoenix: str) -> list[str]:
    """What Phoenix understood otherwise than it should; it is printed too, with all that it has."""
    with tempfile.TemporaryDirectory() as folder:
        port, grpc = _free_port(), _free_port()
        told = {"PHOENIX_WORKING_DIR": folder, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port)}
        told |= {"PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_TELEMETRY_ENABLED": "false"}
        server = subprocess.Popen([phoenix, "-m", "phoenix.server.main", "serve"], env={**os.environ, **told})
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(server, url)
            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
            fx.run(program().provide(layer(tracer_provider=provider, content="span")))
            provider.shutdown()
            spans = _spans(url, len(EXPECTED))
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
    shown = _shown(spans)
    for level, name, kind, tokens in shown:
        print("  " * level + f"{name}  [{kind}]" + (f"  {tokens[0]} in, {tokens[1]} out" if tokens else ""))
    return _faults(shown)


def _faults(shown: list[tuple[int, str, str, tuple[int, int] | None]]) -> list[str]:
    faults = [] if len(shown) == len(EXPECTED) else [f"{len(shown)} spans, not {len(EXPECTED)}"]
    for found, wanted in zip(shown, EXPECTED, strict=False):
        if found != (*wanted[:2], found[2] if wanted[2] == "*" else wanted[2], wanted[3]):
            faults.append(f"{found}, not {wanted}")
    return faults


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phoenix", required=True, help="the interpreter of the environment that has arize-phoenix")
    wrong = run(parser.parse_args().phoenix)
    print(*wrong or ["all as it should be"], sep="\n")
    sys.exit(bool(wrong))
