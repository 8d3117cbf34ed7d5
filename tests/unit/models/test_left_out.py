"""Tools that a request leaves out: the model does not see them, and no call of them runs."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Result, Success

from fxai import LanguageModel, Layer, Tool, Toolkit, fx
from fxai.messages import Finish, Part, ToolCall, WarningPart
from fxai.models import LeftOut, PreparedTools, ToolChoice
from fxai.providers import anthropic, openai
from fxai.schema import JsonSchema
from tests.kit.floor_schema import schema_of, tool_breaches

OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def _many(count: int) -> list[Any]:
    return [Tool.dynamic(f"t{number}", description="One.", parameters=OBJECT) for number in range(count)]


def _chat(tools: list[Any], **options: Any) -> PreparedTools:
    return openai.prepare_tools(Toolkit.of(tools), model="gpt-5.5", api="chat", **options)


def _names(prepared: PreparedTools) -> list[str]:
    return [tool["function"]["name"] for tool in prepared.tools]


def test_chat_sends_128_tools() -> None:
    """The tools after the first 128 are left out, and a warning names each tool and the rule."""
    prepared = _chat(_many(130))

    assert len(prepared.tools) == 128
    assert [one.tool for one in prepared.left_out] == ["t128", "t129"]
    assert str(prepared.left_out[0]).startswith("t128 /: number of tools: OpenAI's Chat Completions API accepts 128")
    assert [one.subject for one in prepared.warnings if one.kind == "unsupported-tool"] == ["t128", "t129"]


@pytest.mark.parametrize("field", ["tool_choice", "allowed_tools"])
def test_chosen_tools_are_sent_first(field: str) -> None:
    """A tool that the choice names is among the 128, in its own place."""
    choice = ToolChoice.tool("t129") if field == "tool_choice" else ToolChoice.one_of(["t129", "t3"], mode="required")
    prepared = _chat(_many(130), **{field: choice})

    assert _names(prepared)[-1] == "t129"
    assert "t3" in _names(prepared)
    assert [one.tool for one in prepared.left_out] == ["t127", "t128"]
    assert prepared.tool_choice is not None


def test_responses_and_other_servers_have_no_number() -> None:
    """Only OpenAI's Chat Completions has a known limit."""
    tools = Toolkit.make(*_many(130))

    assert len(openai.prepare_tools(tools, model="gpt-5.5").tools) == 130
    assert len(anthropic.prepare_tools(tools, model="claude-sonnet-5").tools) == 130


def test_a_long_description_is_cut_with_a_warning() -> None:
    """Chat Completions of OpenAI receives 1,024 characters, cut at a blank; Responses receives all."""
    tool = Tool.dynamic("long", description="word " * 300, parameters=OBJECT)
    chat = _chat([tool])
    text = chat.tools[0]["function"]["description"]

    assert 1000 < len(text) <= 1024
    assert text.endswith("word…")
    assert [(one.kind, one.subject) for one in chat.warnings] == [("unsupported-option", "long")]
    assert "1500 characters" in chat.warnings[0].message
    assert len(openai.prepare_tools([tool], model="gpt-5.5").tools[0]["description"]) == 1500


def test_a_tool_without_values_is_left_out_of_a_request() -> None:
    """A schema that no value satisfies has no form; the other tools are sent."""
    never = Tool.dynamic("never", description="d", parameters=JsonSchema.of(False))
    prepared = openai.prepare_tools([never, *_many(1)], model="gpt-5.5", tool_choice=ToolChoice.tool("never"))

    assert [tool["name"] for tool in prepared.tools] == ["t0"]
    assert prepared.left_out == (
        LeftOut("never", "schema", "/parameters", "OpenAI's Responses API: the schema accepts no value"),
    )
    assert prepared.tool_choice == "auto"
    assert [one.subject for one in prepared.warnings if one.kind == "unsupported-option"] == ["tool_choice"]


class _LeavesOut(LanguageModel):
    """A model whose request leaves out a tool, and that calls the tool all the same."""

    def ask(self, request: Any) -> Any:
        said = WarningPart("the tool 'gone' is not sent", kind="unsupported-tool", subject="gone")
        calls = [ToolCall("1", "gone", {}), ToolCall("2", "here", {})]
        parts: tuple[Part, ...] = (said, *calls, Finish("tool-calls"))
        return fx.succeed(parts)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("choice", ["auto", ToolChoice.tool("gone"), ToolChoice.one_of(["gone", "here"])])
def test_a_call_of_a_tool_that_was_left_out_does_not_run(choice: Any, streams: bool) -> None:
    """The call becomes an unknown tool that names the other tools, and the choice is narrowed."""
    ran: list[str] = []

    def handle(name: str) -> Any:
        def run(_: Any) -> Result[str, Any]:
            ran.append(name)
            return Success(name)

        return run

    gone, here = Tool.make("gone", success=str), Tool.make("here", success=str)
    kit = Toolkit.make(gone, here)
    handlers = kit.to_layer(gone.handler(handle("gone")) | here.handler(handle("here")))
    layer = Layer.succeed(LanguageModel, _LeavesOut())
    if streams:
        stream = LanguageModel.stream_text("Go.", toolkit=kit, tool_choice=choice)
        parts = fx.run(stream.collect().provide(handlers | layer))
        results = {part.id: part for part in parts if part.type == "tool-result"}
    else:
        asked = LanguageModel.generate_text("Go.", toolkit=kit, tool_choice=choice)
        results = {part.id: part for part in fx.run(asked.provide(handlers | layer)).tool_results}

    assert ran == ["here"]
    assert results["1"].is_failure
    assert "gone" in str(results["1"].encoded_result)
    assert not results["2"].is_failure


def test_every_tool_that_is_sent_keeps_the_rules() -> None:
    """Tools with refused roots, arrays and names are sent in the form of each API."""
    documents: list[Any] = [
        {"anyOf": [OBJECT, {"type": "object", "properties": {"b": {}}}]},
        {"type": "object", "properties": {"$top": {"type": "array"}}},
        {"type": ["object", "null"]},
        {"type": "string"},
        {},
        {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
    ]
    kit = [Tool.dynamic(f"d{at}", description="d", parameters=one) for at, one in enumerate(documents)]

    for strict in (None, False):
        responses = openai.prepare_tools(kit, model="gpt-5.5", strict_json_schema=strict)
        messages = anthropic.prepare_tools(kit, model="claude-sonnet-5", strict_json_schema=strict)
        assert tool_breaches(responses.tools, "responses") == []
        assert tool_breaches(messages.tools, "messages") == []
        assert tool_breaches(_chat(kit, strict_json_schema=strict).tools, "chat") == []
        assert len(responses.tools) == len(messages.tools) == len(documents)
        assert all(schema_of(tool) for tool in responses.tools)
