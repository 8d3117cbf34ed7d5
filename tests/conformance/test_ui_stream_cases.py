"""The UI message stream, as the other system makes it of a run: chunk by chunk."""

from __future__ import annotations

from typing import Any

import msgspec

from fxai import Agent, CallContext, Gen, Schema, Tool, Toolkit, fx
from fxai.agents import step_count_is
from fxai.messages import Finish, ToolCall, ToolResult
from fxai.testing import ScriptedModel, call
from fxai.ui import Chunk, ChunkEncoder, encode_stream
from tests.kit.conformance import Case, case


class City(msgspec.Struct, frozen=True):
    """What every tool of the cases takes."""

    city: str


def _tool(name: str, *, dynamic: bool, needs_approval: bool) -> Any:
    if dynamic:
        return Tool.dynamic(name, parameters=City, failure=str, failure_mode="return")
    anything: Schema[Any] = Schema.of(Any)
    return Tool.make(
        name, parameters=City, success=anything, failure=str, failure_mode="return", needs_approval=needs_approval
    )


def _handler(does: dict[str, Any]) -> Any:
    def handle(_: City, context: CallContext) -> Gen[Any, Any]:
        if "raises" in does:
            return (yield from fx.fail(does["raises"]))
        for value in does.get("yields", ()):
            yield from context.preliminary(value)
        return does["yields"][-1] if "yields" in does else does["returns"]

    return handle


def _chunks(given: Any) -> list[Chunk]:
    """The chunks of a run as a case gives it: one tool, one turn of the model, which calls it."""
    ((name, spec),) = given["tools"].items()
    tool = _tool(name, dynamic=spec.get("dynamic", False), needs_approval=name in given.get("approval", {}))
    handler = spec["handler"]
    kit: Toolkit[Any] = Toolkit.make(tool.external() if handler is None else tool)
    (item,) = given["model"][0]["content"]
    made = item.get("stream_call") or item["tool_call"]
    turn = call(made["name"], msgspec.json.decode(made["arguments"]), id=made["id"])
    agent = Agent.make("a", toolkit=kit, stop_when=step_count_is(given["stop"]["steps"]))
    parts: Any = agent.stream("Go on.")
    if handler is not None:
        parts = parts.provide(kit.to_layer(tool.handler(_handler(handler))))
    chunks: list[Chunk] = fx.run(encode_stream(parts.provide(ScriptedModel.make([turn]).layer)).collect())
    return chunks


def _shape(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks as a case writes them: deltas of one call joined, ids of requests left open."""
    shape: list[Chunk] = []
    for chunk in chunks:
        if chunk["type"] == "tool-input-delta" and shape[-1]["type"] == "tool-input-delta":
            shape[-1] = {**shape[-1], "inputTextDelta": shape[-1]["inputTextDelta"] + chunk["inputTextDelta"]}
        else:
            shape.append({**chunk, "approvalId": "*"} if "approvalId" in chunk else chunk)
    return shape


@case("VE-139", "VE-144", "VE-145", "VE-148")
def test_a_streamed_call(case: Case) -> None:
    """Start, input in pieces, the input whole, and what came of it, each with the mark of a dynamic tool."""
    assert _shape(_chunks(case.given)) == case.expect["chunks"]


@case("VE-141")
def test_a_failed_call_is_told_as_the_model_read_it(case: Case) -> None:
    """The newer version does so, too; there it is masked unless the server opts in, before that."""
    assert case.newer is not None
    text = case.given["tools"]["weather"]["handler"]["raises"]
    chunks = _shape(_chunks(case.given))

    assert [chunk["errorText"] for chunk in chunks if "errorText" in chunk] == [text]
    assert [chunk["type"] for chunk in chunks] == [chunk["type"] for chunk in case.newer["expect"]["chunks"]]


@case("VE-149", "VE-150")
def test_a_call_that_arrives_whole(case: Case) -> None:
    """Nothing starts and no piece comes; an output that is nothing is null, and not left out."""
    returns = case.given["tools"]["weather"]["handler"]["returns"]
    encoder = ChunkEncoder()
    parts = (
        ToolCall("c1", "weather", {"city": "Oslo"}),
        ToolResult("c1", "weather", returns, returns),
        Finish("tool-calls"),
    )
    chunks = [*encoder.start(), *(chunk for part in parts for chunk in encoder.encode(part)), *encoder.finish()]

    assert chunks == case.expect["chunks"]
