"""The conventions for generative AI, attribute by attribute: what spans and metrics have of them, and in what form.

The tables hold all that the conventions have for an operation, at their release 0.1.0. What is never recorded of it
stands in the page about telemetry, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from fxai.effects import fx
from fxai.telemetry import convention
from tests.kit.traced_programs import TREES, programs
from tests.kit.traces import Traces

PAGE: Final = (Path(__file__).parents[3] / "docs/reference/telemetry.md").read_text()
TYPES: Final[Mapping[str, Any]] = {"text": str, "texts": tuple, "number": float, "whole": int, "truth": bool}


def _named(prefix: str, names: str, kind: str) -> dict[str, str]:
    return {f"{prefix}{name}": kind for name in names.split()}


USAGE: Final = _named(
    "gen_ai.usage.",
    "input_tokens output_tokens cache_read.input_tokens cache_write.input_tokens reasoning.output_tokens "
    "text.input_tokens image.input_tokens audio.input_tokens text.cache_read.input_tokens "
    "image.cache_read.input_tokens audio.cache_read.input_tokens text.output_tokens image.output_tokens "
    "audio.output_tokens",
    "whole",
)
CONTENT: Final = _named("gen_ai.", "system_instructions input.messages output.messages tool.definitions", "text")
SERVER: Final = {"server.address": "text", "server.port": "whole"}
REQUEST: Final = {
    **_named("gen_ai.request.", "max_tokens seed choice.count top_k", "whole"),
    **_named("gen_ai.request.", "temperature top_p frequency_penalty presence_penalty", "number"),
    **_named("gen_ai.request.", "model reasoning.level previous_response.id", "text"),
    "gen_ai.request.stop_sequences": "texts",
    "gen_ai.request.stream": "truth",
}
COMMON: Final = {
    "gen_ai.operation.name": "text",
    "error.type": "text",
    "gen_ai.conversation.id": "text",
    "gen_ai.response.finish_reasons": "texts",
    "gen_ai.output.type": "text",
}


class Shape(NamedTuple):
    """The span of an operation: its kind, the attribute that ends its name, what it must have, and what it may have."""

    kind: SpanKind
    target: str
    required: frozenset[str]
    attributes: Mapping[str, str]


SHAPES: Final = {
    "chat": Shape(
        SpanKind.CLIENT,
        "gen_ai.request.model",
        frozenset({"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}),
        {
            **COMMON,
            **REQUEST,
            **USAGE,
            **CONTENT,
            **SERVER,
            **_named("gen_ai.", "provider.name response.id response.model prompt.name prompt.version", "text"),
            "gen_ai.response.time_to_first_chunk": "number",
            "gen_ai.conversation.compacted": "truth",
        },
    ),
    "embeddings": Shape(
        SpanKind.CLIENT,
        "gen_ai.request.model",
        frozenset({"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}),
        {
            **SERVER,
            **_named("gen_ai.", "operation.name provider.name request.model response.model", "text"),
            "gen_ai.usage.input_tokens": "whole",
            "gen_ai.embeddings.dimension.count": "whole",
            "gen_ai.request.encoding_formats": "texts",
        },
    ),
    "invoke_agent": Shape(
        SpanKind.INTERNAL,
        "gen_ai.agent.name",
        frozenset({"gen_ai.operation.name", "gen_ai.agent.name"}),
        {
            **COMMON,
            **{name: kind for name, kind in REQUEST.items() if not re.search(r"top_k|stream|reasoning|previous", name)},
            **_named("gen_ai.usage.", "input_tokens output_tokens", "whole"),
            **CONTENT,
            **_named("gen_ai.", "agent.name agent.description data_source.id", "text"),
        },
    ),
    "execute_tool": Shape(
        SpanKind.INTERNAL,
        "gen_ai.tool.name",
        frozenset({"gen_ai.operation.name", "gen_ai.tool.name"}),
        {
            **_named("gen_ai.tool.", "name type description call.id call.arguments call.result", "text"),
            **_named("", "gen_ai.operation.name gen_ai.agent.name gen_ai.conversation.id error.type", "text"),
            **SERVER,
            **_named("", "mcp.method.name mcp.protocol.version mcp.session.id", "text"),
            **_named("network.", "transport protocol.name protocol.version", "text"),
            **_named("jsonrpc.", "request.id protocol.version", "text"),
        },
    ),
}
# What these programs cannot have: models are scripts here, no embedding fails, and the MCP server is a program.
NOT_HERE: Final = {
    "chat": {*SERVER},
    "embeddings": {"error.type"},
    "execute_tool": {*SERVER, "network.protocol.name"},
}


def _listed(operation: str) -> Iterator[str]:
    """The attributes that the page says are not recorded of an operation; those that end with a dot are prefixes."""
    for line in PAGE.partition("## Differences from the conventions")[2].partition(":::")[0].splitlines():
        cell = line.partition(" | ")[0]
        names, _, where = cell.partition(" on `")
        if not where or where.startswith(f"{operation}`"):
            yield from (name.removesuffix("*") for name in re.findall(r"`([\w.]+\*?)`", names))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """What all programs told, with content on the spans."""
    traces = Traces()
    for program in programs(tmp_path_factory.mktemp("runs")).values():
        fx.run(program.provide(traces.layer(content="span")))
    return traces


def _of(recorded: Traces, operation: str) -> list[tuple[ReadableSpan, dict[str, Any]]]:
    found = [(span, dict(span.attributes or {})) for span in recorded.spans]
    return [(span, own) for span, own in found if own.get("gen_ai.operation.name") == operation]


@pytest.mark.slow
def test_the_spans_of_programs_are_nested_as_the_programs_are(recorded: Traces) -> None:
    """Calls at once, a failing one, an approval, a sub-agent, a fallback, a stream, MCP, and a run that is resumed."""
    assert recorded.tree() == [[name, *tree] for name, tree in TREES.items()]


@pytest.mark.slow
@pytest.mark.parametrize("operation", SHAPES)
def test_a_span_has_what_it_must_have_and_nothing_that_is_unknown(recorded: Traces, operation: str) -> None:
    """Its kind, its name, its required attributes, and each attribute in its type; others are `fxai.` ones."""
    shape, found = SHAPES[operation], _of(recorded, operation)

    assert found
    for span, own in found:
        assert span.kind is shape.kind
        assert span.name == f"{operation} {own[shape.target]}" or own["gen_ai.tool.name"] not in span.name
        assert shape.required <= own.keys()
        assert ("server.port" in own) == ("server.address" in own)
        assert ("error.type" in own) == (span.status.status_code is StatusCode.ERROR)
        for name, value in own.items():
            if not name.startswith("fxai."):
                assert type(value) is TYPES[shape.attributes[name]], name


@pytest.mark.parametrize("operation", SHAPES)
def test_what_is_not_recorded_of_an_operation_is_listed(recorded: Traces, operation: str) -> None:
    """Each attribute of the conventions is on some span of these programs, or in the page, with the reason."""
    seen = {name for _, own in _of(recorded, operation) for name in own}
    missing = SHAPES[operation].attributes.keys() - seen - NOT_HERE.get(operation, set())
    listed = set(_listed(operation))
    prefixes = tuple(name for name in listed if name.endswith("."))

    assert {name for name in missing - listed if not name.startswith(prefixes)} == set()


def test_metrics_have_their_units_their_buckets_and_their_attributes(recorded: Traces) -> None:
    """As the conventions give them; what a metric is told of has few values, and nothing of what was said."""
    seconds = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
    tokens = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
    model = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}
    may = model | {"gen_ai.response.model", "server.address", "server.port", "error.type", "gen_ai.token.modality"}
    agent = {"gen_ai.agent.name", "gen_ai.operation.name", "error.type"}
    tool = {"gen_ai.tool.name", "gen_ai.tool.type", *agent}
    for metric in recorded.metrics():
        points = list(metric.data.data_points)
        required, allowed = (model, may) if ".client." in metric.name else ({"gen_ai.agent.name"}, agent)
        required, allowed = ({"gen_ai.tool.name"}, tool) if "execute_tool" in metric.name else (required, allowed)
        assert points
        for point in points:
            assert required <= set(point.attributes) <= allowed, metric.name
        if metric.name in convention.HISTOGRAMS:
            bounds = {"s": seconds, "{token}": tokens}.get(metric.unit)
            assert bounds is None or points[0].explicit_bounds == bounds
    kinds = {metric.name: metric.unit for metric in recorded.metrics()}
    counters = {convention.counter_of(attribute): "{token}" for attribute in convention.USAGE}
    assert kinds == {**{name: unit for name, (unit, _, _) in convention.HISTOGRAMS.items()}, **counters}


def test_the_page_names_every_metric() -> None:
    """In its table, whole or by what the name before has in common with it."""
    table = PAGE.partition("## Metrics")[2].partition("## Events")[0]
    for name in (*convention.HISTOGRAMS, *map(convention.counter_of, convention.USAGE)):
        assert f"`{name}`" in table or f"`….{name.partition('usage.')[2] or name.rpartition('.')[2]}`" in table


PARTS: Final = {
    "text": {"content"},
    "reasoning": {"content"},
    "tool_call": {"id", "name", "arguments"},
    "tool_call_response": {"id", "response"},
    "server_tool_call": {"id", "name", "server_tool_call"},
    "server_tool_call_response": {"id", "server_tool_call_response"},
    "blob": {"mime_type", "modality", "content"},
    "uri": {"mime_type", "modality", "uri"},
    "generic": {"generic_type"},
}


def _messages(recorded: Traces) -> Iterator[tuple[str, dict[str, Any]]]:
    for span in recorded.spans:
        for name, value in (span.attributes or {}).items():
            if name.endswith(".messages"):
                yield from ((name, message) for message in json.loads(str(value)))


def test_messages_have_the_form_of_the_conventions(recorded: Traces) -> None:
    """A role and parts of known kinds; an answer has the reason why it ended, and no results of tools that are ours."""
    found = list(_messages(recorded))

    assert {name for name, _ in found} == {"gen_ai.input.messages", "gen_ai.output.messages"}
    for name, message in found:
        is_answer = name == "gen_ai.output.messages"
        assert message.keys() == {"role", "parts", *(["finish_reason"] if is_answer else [])}
        assert message["role"] in {"user", "assistant", "tool"}
        for part in message["parts"]:
            assert part.keys() - {"type"} == PARTS[part["type"]]
            assert not is_answer or part["type"] != "tool_call_response"
