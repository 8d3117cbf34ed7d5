"""Runs as streams, read by the AI SDK's own clients of the versions 5, 6 and 7."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai import Agent, CallContext, Gen, Prompt, Tool, Toolkit, fx
from fxai.effects import LayerOf, StreamOf
from fxai.messages import File, FileUrl, Finish, NetworkError, Source, TextDelta, TextStart, ToolMessage
from fxai.testing import ScriptedModel, call, fails, reasoning, text
from fxai.ui import DONE, Chunk, DataPart, StreamOptions, Version, encode_stream, to_event
from tests.kit.node import Missing, installed, node

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
VERSIONS: tuple[Version, ...] = (5, 6, 7)


class City(msgspec.Struct, frozen=True):
    """A city."""

    city: str


class Celsius(msgspec.Struct, frozen=True):
    """A temperature."""

    celsius: int


weather = Tool.make("getWeather", parameters=City, success=Celsius, failure=str, failure_mode="return")
search = Tool.dynamic(
    "mcp_search",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    failure=str,
    failure_mode="return",
)
delete = Tool.make("deleteFile", parameters=City, success=bool, needs_approval=True)
where = Tool.make("getLocation", success=str).external()
kit = Toolkit.make(weather, search, delete)


def on_weather(asked: City) -> Result[Celsius, str]:
    """Knows one city."""
    return Success(Celsius(21)) if asked.city == "Paris" else Failure(f"CityNotFound: {asked.city}")


def on_search(asked: Any, call: CallContext) -> Gen[Any, str]:
    """Shows how far it is, then ends."""
    if asked["query"] == "bad":
        return (yield from fx.fail("no index"))
    yield from call.preliminary({"progress": 10})
    yield from call.preliminary({"progress": 60})
    return {"progress": 100}


handlers = kit.to_layer(
    weather.handler(on_weather) | search.handler(on_search) | delete.handler(lambda _: Success(True))
)
agent = Agent.make("desk", toolkit=kit)


def chunks_of(turns: Any, version: Version, prompt: Any = "Go on.", **options: Any) -> list[Chunk]:
    """The chunks of a run of the agent over a script."""
    parts: StreamOf[Any, Any, Any] = agent.stream(prompt).provide(handlers).provide(ScriptedModel.make(turns).layer)
    return _collect(parts, version, **options)


def _collect(parts: StreamOf[Any, Any, Any], version: Version, **options: Any) -> list[Chunk]:
    stream: StreamOf[Chunk, Any, None] = encode_stream(parts, StreamOptions(version, **options), message_id="m")
    return fx.run(stream.collect())


def read(chunks: list[Chunk], version: Version) -> tuple[dict[str, Any], list[str]]:
    """The message that a client of that version makes of the chunks, at last, and the errors that it tells."""
    try:
        modules = installed(HERE / "ai-clients")
    except Missing as missing:
        pytest.skip(str(missing))
    command = [node(), str(HERE / "read_stream.mjs"), str(modules), f"ai{version}"]
    done = subprocess.run(
        command, input=b"".join(map(to_event, chunks)) + DONE, capture_output=True, check=True, timeout=60
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    messages = [line["message"] for line in lines if "message" in line]
    return messages[-1], [line["error"] for line in lines if "error" in line]


def _try_later(_: object) -> str:
    return "Try later."


def _tools(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in message["parts"] if "toolCallId" in part]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_round_of_a_static_and_a_dynamic_tool(version: Version) -> None:
    """Each call is one part of its kind with its input and output; preliminary outputs gave way to the last one."""
    turns: list[Any] = [
        [call("getWeather", {"city": "Paris"}, id="c1"), call("mcp_search", {"query": "x"}, id="c2")],
        [reasoning("Hm."), text("21 degrees in Paris.")],
    ]
    chunks = chunks_of(turns, version)
    message, errors = read(chunks, version)
    static, dynamic = _tools(message)

    assert errors == []
    assert (static["type"], static["state"], static["input"], static["output"]) == (
        "tool-getWeather",
        "output-available",
        {"city": "Paris"},
        {"celsius": 21},
    )
    assert (dynamic["type"], dynamic["toolName"], dynamic["output"]) == (
        "dynamic-tool",
        "mcp_search",
        {"progress": 100},
    )
    assert "preliminary" not in dynamic
    assert [chunk["output"] for chunk in chunks if chunk.get("preliminary")] == [{"progress": 10}, {"progress": 60}]
    assert [part["type"] for part in message["parts"] if "toolCallId" not in part] == [
        "step-start",
        "step-start",
        "reasoning",
        "text",
    ]
    assert [chunk["type"] for chunk in chunks].count("finish-step") == 2
    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_that_fail_are_told_in_the_words_that_the_model_read(version: Version) -> None:
    """A typed failure, bad parameters and an unknown tool, which is dynamic: one part a call, and the text follows."""
    chunks = chunks_of(
        [
            [
                call("getWeather", {"city": "X"}, id="c1"),
                call("mcp_search", {"query": "bad"}, id="c2"),
                call("getWeather", {"town": 1}, id="c3"),
                call("nope", {}, id="c4"),
            ],
            text("Sorry."),
        ],
        version,
    )
    message, errors = read(chunks, version)
    parts = _tools(message)

    assert errors == []
    assert [(part["type"], part["state"]) for part in parts] == [
        ("tool-getWeather", "output-error"),
        ("dynamic-tool", "output-error"),
        ("tool-getWeather", "output-error"),
        ("dynamic-tool", "output-error"),
    ]
    assert [part["errorText"] for part in parts[:2]] == ["CityNotFound: X", "no index"]
    assert "city" in parts[2]["errorText"]
    assert parts[2]["input"] == {"town": 1}
    assert "unknown tool 'nope'" in parts[3]["errorText"]
    assert message["parts"][-1]["text"] == "Sorry."


@pytest.mark.parametrize("version", VERSIONS)
def test_data_sources_and_files(version: Version) -> None:
    """Data of one id takes its place, transient data is no part of the message; sources and files are shown."""
    parts: StreamOf[Any, Any, None] = StreamOf.make(
        DataPart("progress", {"pct": 10}, id="p"),
        DataPart("toast", "Saved.", transient=True),
        DataPart("progress", {"pct": 90}, id="p"),
        Source("s", title="Page", url="https://example.com/"),
        Source("d", media_type="application/pdf", file_name="a.pdf"),
        File("image/png", b"\x89PNG"),
        File("text/plain", FileUrl("https://example.com/a.txt")),
        TextStart("t"),
        TextDelta("t", "Done."),
        Finish("length"),
    )
    chunks = _collect(parts, version)
    message, errors = read(chunks, version)
    types = [part["type"] for part in message["parts"]]

    assert errors == []
    assert [part["data"] for part in message["parts"] if part["type"] == "data-progress"] == [{"pct": 90}]
    assert "data-toast" not in types
    assert [part["url"] for part in message["parts"] if part["type"] == "file"] == [
        "data:image/png;base64,iVBORw==",
        "https://example.com/a.txt",
    ]
    assert [part["title"] for part in message["parts"] if part["type"].startswith("source")] == ["Page", "a.pdf"]
    assert chunks[-1] == {"type": "finish", "finishReason": "length"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failure_of_the_run_is_masked_and_what_came_before_stays(version: Version) -> None:
    """The text of the error says nothing, unless the server words it."""
    turns: list[Any] = [[text("half"), fails(NetworkError("TransportError", "example.com refused"))]]
    message, errors = read(chunks_of(turns, version), version)

    assert [part["text"] for part in message["parts"] if part["type"] == "text"] == ["half"]
    assert errors == ["An error occurred."]
    assert read(chunks_of(turns, version, error_text=_try_later), version)[1] == ["Try later."]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_that_is_answered_outside_waits(version: Version) -> None:
    """The message ends with a call whose input is there, for the client to answer."""
    desk = Agent.make("desk", toolkit=where)
    layer: LayerOf[Any, Any, Any] = ScriptedModel.make([call("getLocation", {}, id="c1")]).layer
    message, errors = read(_collect(desk.stream("Where am I?").provide(layer), version), version)

    assert errors == []
    assert [(part["type"], part["state"]) for part in _tools(message)] == [("tool-getLocation", "input-available")]


@pytest.mark.parametrize("version", [6, 7])
def test_an_approval_is_asked_for(version: Version) -> None:
    """The call waits with the id of the request; the message ends as one that called tools."""
    chunks = chunks_of([call("deleteFile", {"city": "/x"}, id="c1")], version)
    message, errors = read(chunks, version)
    (part,) = _tools(message)

    assert errors == []
    assert part["state"] == "approval-requested"
    assert [chunk["approvalId"] for chunk in chunks if "approvalId" in chunk] == [part["approval"]["id"]]
    assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls"}


@pytest.mark.parametrize(("approved", "type_"), [(True, "tool-output-available"), (False, "tool-output-denied")])
def test_what_came_of_an_approval_comes_before_the_next_step(approved: bool, type_: str) -> None:
    """It belongs to the call of the message that goes on."""
    model = ScriptedModel.make([call("deleteFile", {"city": "/x"}, id="c1")])
    asked = fx.run(agent.execute("Delete it.").provide(handlers).provide(model.layer))
    (waiting,) = asked.pending
    answer = waiting.approve() if approved else waiting.deny("no")
    history: Prompt = asked.history.append(ToolMessage.make(answer))
    chunks = chunks_of([text("Well.")], 7, history)

    assert [chunk["type"] for chunk in chunks[:3]] == ["start", type_, "start-step"]
    assert chunks[1]["toolCallId"] == "c1"


def test_version_5_has_no_approvals() -> None:
    """What it lacks is data, which a page may show; its client reads the stream all the same."""
    chunks = chunks_of([call("deleteFile", {"city": "/x"}, id="c1")], 5)
    message, errors = read(chunks, 5)

    assert errors == []
    assert [part["data"]["toolCallId"] for part in message["parts"] if part["type"] == "data-approval-request"] == [
        "c1"
    ]
