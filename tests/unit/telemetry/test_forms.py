"""The exact form of each part of a message, each definition of a tool, and each option of a request in telemetry."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Final

import msgspec
import pytest
from returns.result import Failure

from fxai import Agent
from fxai.effects import fx
from fxai.messages import (
    AssistantMessage,
    File,
    FilePart,
    InternalProviderError,
    Prompt,
    ReasoningPart,
    ResponseMetadata,
    TextPart,
    ToolApprovalResponsePart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    ToolResultPart,
    Usage,
    UserMessage,
)
from fxai.models import LanguageModel
from fxai.telemetry import convention
from fxai.testing import ScriptedModel, call, delay, fails, finish, reasoning, text
from fxai.tools import Tool, Toolkit
from tests.kit.traces import Traces

CITY: Final = {"city": "Oslo"}
SEARCH: Any = Tool.provider_defined(id="acme.search", name="look", provider_name="search")(description="Searches.")


class Location(msgspec.Struct, frozen=True):
    """A place."""

    city: str


def _asked(*turn: Any, prompt: Any = "?", toolkit: Any = None, **options: Any) -> Any:
    model = ScriptedModel.make([list(turn) or [text("Yes.")]])
    return LanguageModel.generate_text(prompt, toolkit=toolkit or Toolkit.make(), **options).provide(model.layer)


def _content(traces: Traces, name: str) -> Any:
    return json.loads(traces.attributes("chat scripted")[f"gen_ai.{name}"])


PARTS: Final[list[tuple[Any, dict[str, Any]]]] = [
    (TextPart("Hi."), {"type": "text", "content": "Hi."}),
    (ReasoningPart("Hm."), {"type": "reasoning", "content": "Hm."}),
    (ToolCallPart("c1", "rain", CITY), {"type": "tool_call", "id": "c1", "name": "rain", "arguments": CITY}),
    (
        ToolCallPart("c2", "search", CITY, provider_executed=True),
        {
            "type": "server_tool_call",
            "id": "c2",
            "name": "search",
            "server_tool_call": {"type": "search", "arguments": CITY},
        },
    ),
    (
        ToolResultPart("c2", "search", [1], provider_executed=True),
        {
            "type": "server_tool_call_response",
            "id": "c2",
            "server_tool_call_response": {"type": "search", "result": [1]},
        },
    ),
    (ToolResultPart("c1", "rain", [2]), {"type": "tool_call_response", "id": "c1", "response": [2]}),
    *(
        (
            FilePart(kind, b"hi"),
            {"type": "blob", "mime_type": kind, "modality": modality, "content": "aGk="},
        )
        for kind, modality in [
            ("image/png", "image"),
            ("audio/wav", "audio"),
            ("video/mp4", "video"),
            ("application/pdf", "document"),
            ("text/plain", "document"),
        ]
    ),
    (
        FilePart.of_url("image/png", "https://example.org/cat.png"),
        {"type": "uri", "mime_type": "image/png", "modality": "image", "uri": "https://example.org/cat.png"},
    ),
    (ToolApprovalResponsePart("a1", True), {"type": "generic", "generic_type": "tool-approval-response"}),
]


def test_each_part_of_a_history_has_the_form_of_the_conventions() -> None:
    """The messages of a request contain each kind of part, whoever executed a call and wherever a file is stored."""
    traces = Traces()
    by_user = [part for part, _ in PARTS if part.type in {"text", "file"}]
    by_tool = [part for part, _ in PARTS if part.type in {"tool-result", "tool-approval-response"}]
    by_tool = [part for part in by_tool if not getattr(part, "provider_executed", False)]
    by_model = [part for part, _ in PARTS if not any(part is one for one in (*by_user, *by_tool))]
    history = Prompt((UserMessage(tuple(by_user)), AssistantMessage(tuple(by_model)), ToolMessage(tuple(by_tool))))

    fx.run(_asked(prompt=history, resolve_tools=False).provide(traces.layer(content="span")))

    forms = {id(part): form for part, form in PARTS}
    assert _content(traces, "input.messages") == [
        {"role": role, "parts": [forms[id(part)] for part in parts]}
        for role, parts in (("user", by_user), ("assistant", by_model), ("tool", by_tool))
    ]


def test_an_answer_has_its_parts_in_the_form_of_the_conventions() -> None:
    """The message of the model contains calls and results of the provider, files, and the reason why it ended."""
    traces = Traces()
    turn = [
        ResponseMetadata("r1", "scripted-2"),
        reasoning("Hm."),
        text("Look."),
        ToolCall("c1", "search", CITY, provider_executed=True),
        ToolResult("c1", "search", [1], provider_executed=True),
        File("image/png", b"hi"),
        finish("content-filter"),
    ]

    fx.run(_asked(*turn).provide(traces.layer(content="span")))

    ((message),) = _content(traces, "output.messages")
    assert (message["role"], message["finish_reason"]) == ("assistant", "content_filter")
    assert message["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "Look."},
        {
            "type": "server_tool_call",
            "id": "c1",
            "name": "search",
            "server_tool_call": {"type": "search", "arguments": CITY},
        },
        {
            "type": "server_tool_call_response",
            "id": "c1",
            "server_tool_call_response": {"type": "search", "result": [1]},
        },
        {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGk="},
    ]


def test_an_answer_contains_no_results_of_own_tools() -> None:
    """The next request contains the result of a handler, so the message of the model contains the call only."""
    traces = Traces()
    tick = Tool.make("tick", success=str)
    asked = _asked(call("tick", {}, id="c1"), toolkit=Toolkit.make(tick))

    fx.run(asked.provide(tick.handler(lambda _: fx.succeed("tock"))).provide(traces.layer(content="span")))

    assert _content(traces, "output.messages") == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "tick", "arguments": {}}],
            "finish_reason": "tool_call",
        }
    ]


def test_each_kind_of_tool_has_its_definition() -> None:
    """A function has the schema of its parameters. A tool of the provider is an extension without a schema."""
    traces = Traces()
    double = Tool.make("double", parameters=int, success=int, description="Doubles.")

    asked = _asked(toolkit=Toolkit.make(double, SEARCH)).provide(double.handler(fx.succeed))

    fx.run(asked.provide(traces.layer(content="span")))

    function, extension = _content(traces, "tool.definitions")
    assert function == {
        "type": "function",
        "name": "double",
        "description": "Doubles.",
        "parameters": double.json_schema(),
    }
    assert extension == {"type": "extension", "name": "look", "description": "Searches."}


REQUESTS: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({}, {}),
    ({"max_tokens": 7}, {"gen_ai.request.max_tokens": 7}),
    ({"temperature": 1}, {"gen_ai.request.temperature": 1.0}),
    ({"stop": ("x", "y")}, {"gen_ai.request.stop_sequences": ("x", "y")}),
    ({"reasoning": "low"}, {"gen_ai.request.reasoning.level": "low"}),
]
COMMON: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "fxai.testing",
    "gen_ai.request.model": "scripted",
    "gen_ai.response.finish_reasons": ("stop",),
}


def test_each_option_of_a_request_is_an_attribute() -> None:
    """A span contains the options that the program sets, and no attribute for an option that is not set."""
    for options, expected in REQUESTS:
        traces = Traces()

        fx.run(_asked(**options).provide(traces.layer()))

        assert traces.attributes("chat scripted") == {**COMMON, **expected}, options


def test_a_request_for_an_object_has_the_output_type_json() -> None:
    """`gen_ai.output.type` is `json` if the request has a schema of its response."""
    traces = Traces()
    model = ScriptedModel.make(['{"city": "Oslo"}'])

    fx.run(LanguageModel.generate_object("?", Location).provide(model.layer).provide(traces.layer()))

    assert traces.attributes("chat scripted")["gen_ai.output.type"] == "json"


def test_a_run_with_an_output_type_has_the_output_type_json() -> None:
    """The span of the run has `gen_ai.output.type` if the agent has an output type, and not otherwise."""
    traces = Traces()
    model = ScriptedModel.make(['{"city": "Oslo"}', "Oslo."]).layer
    runs = (Agent.make("typed", output=Location).execute("Where?"), Agent.make("plain").execute("Where?"))

    for run in runs:
        fx.run(run.provide(model).provide(traces.layer()))

    assert traces.attributes("invoke_agent typed")["gen_ai.output.type"] == "json"
    assert "gen_ai.output.type" not in traces.attributes("invoke_agent plain")


def test_a_request_has_the_data_of_its_response() -> None:
    """The span contains the id and the model of the response, the reason why it ended, and its tokens."""
    traces = Traces()
    usage = Usage(10, 5, cached_input_tokens=4, cache_write_input_tokens=3, reasoning_tokens=2)

    fx.run(_asked(ResponseMetadata("r1", "scripted-2"), text("Yes"), finish("length", usage)).provide(traces.layer()))

    assert traces.attributes("chat scripted") == {
        **COMMON,
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "scripted-2",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_write.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }


@pytest.mark.parametrize("whole", [True, False])
def test_a_request_that_fails_ends_with_an_error(whole: bool) -> None:
    """The finish reason is `error`, and the error type is the class of the failure, in whole responses and streams."""
    traces = Traces()
    model = ScriptedModel.make([fails(InternalProviderError("a secret"))])
    asked: Any = LanguageModel.generate_text("?") if whole else LanguageModel.stream_text("?").collect()

    assert isinstance(fx.run_result(asked.provide(model.layer).provide(traces.layer())), Failure)

    found = traces.attributes("chat scripted")
    assert found["gen_ai.response.finish_reasons"] == ("error",)
    assert found["error.type"] == "InternalProviderError"


def test_a_request_that_is_interrupted_ends_with_an_error() -> None:
    """The finish reason is `error`, and the span is marked as interrupted, without an error type and an event."""
    traces = Traces()
    asked = LanguageModel.generate_text("?").timeout(0.001).provide(ScriptedModel.make([[delay(60)]]).layer)

    assert isinstance(fx.run_result(asked.provide(traces.layer())), Failure)

    found = traces.attributes("chat scripted")
    assert found["gen_ai.response.finish_reasons"] == ("error",)
    assert found["fxai.interrupted"] is True
    assert "error.type" not in found
    assert traces.events == []


def test_other_operations_that_fail_have_no_finish_reason() -> None:
    """Only a request to a model has a finish reason."""
    traces = Traces()

    assert isinstance(fx.run_result(fx.fail("no").span("work").provide(traces.layer())), Failure)

    assert traces.attributes("work") == {"error.type": "str"}


def test_all_signals_name_the_library_its_version_and_the_conventions() -> None:
    """The scope of spans, events, and metrics has the version of fxai and the schema of the conventions."""
    traces = Traces()

    fx.run(_asked().provide(traces.layer(content="event")))

    scope = {("fxai", version("fxai"), convention.SCHEMA_URL)}
    assert traces.scopes() == {"spans": scope, "events": scope, "metrics": scope}
