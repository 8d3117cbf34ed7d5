"""Providers: the conformance cases of how tools and tool choices are written for OpenAI and Anthropic.

Where a case leaves `strict` out, our semantics says otherwise: each provider's own default is strict, and it is said.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
import pytest
from returns.result import Result, Success

from fxai.annotations import Strict
from fxai.effects import fx
from fxai.models import PreparationError, PreparedTools, ToolChoice
from fxai.providers import anthropic, openai
from fxai.schema import Schema, SchemaError
from fxai.schema.strict import OPENAI, rule_faults
from fxai.tools import Tool, Toolkit
from tests.kit.conformance import Case, case
from tests.kit.data import is_array, is_object

AnyTool: TypeAlias = Tool[Any, Any, Any]


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word, and how many at most."""

    q: str
    limit: float | msgspec.UnsetType = msgspec.UNSET


# As the cases have it, without words.
Query.__doc__ = None

NumberFromString = Annotated[int, Schema.codec(wire=str, decode=int, encode=str)]


class Numbered(msgspec.Struct, frozen=True):
    """A number, written as a text."""

    n: NumberFromString


def _function(given: dict[str, Any]) -> AnyTool:
    options: dict[str, Any] = {
        "description": given.get("description"),
        "input_examples": given.get("examples", ()),
        "provider_options": given.get("provider_options", {}),
    }
    made: AnyTool = Tool.dynamic(given["name"], parameters=given["input_schema"], **options)
    return made.annotate(Strict, given["strict"]) if "strict" in given else made


def _tools(case: Case) -> list[AnyTool]:
    return [_function(given) for given in case.given["tools"]]


def _choice(given: Any) -> Any:
    return ToolChoice.tool(given["tool"]) if is_object(given) else given


def _plain(value: Any) -> Any:
    """Wires without `strict`, which the cases leave out where nobody asks for it and we say what holds."""
    if is_object(value):
        return {key: _plain(inner) for key, inner in value.items() if key != "strict"}
    return [_plain(inner) for inner in value] if is_array(value) else value


def _stricts(wires: list[dict[str, Any]]) -> list[Any]:
    return [wire.get("function", wire).get("strict") for wire in wires]


def _chat(case: Case) -> PreparedTools:
    choice = _choice(case.given.get("tool_choice"))
    return openai.prepare_tools(_tools(case), model="gpt-5.5", api="chat", tool_choice=choice)


# -- OpenAI, of effect-ai


@case("provider.openai/169")
def test_a_strict_schema_is_closed_and_fully_required(case: Case) -> None:
    """What is optional is required and nullable, and nothing else may be there."""
    search = Tool.make("search", parameters=Query)
    sent = openai.prepare_tools([search], model="gpt-5.5").tools[0]
    parameters = {key: value for key, value in sent["parameters"].items() if key not in ("title", "description")}

    assert parameters == case.expect["parameters"]
    assert sent["strict"] == case.expect["strict"]


@case("provider.openai/170")
def test_a_null_for_what_is_optional_is_absent_for_the_handler(case: Case) -> None:
    """The call is led back to what the tool's own schema says, and then decoded."""
    search = Tool.make("search", parameters=Query)
    prepared = openai.prepare_tools([search], model="gpt-5.5")
    name, params = prepared.call("search", case.given["call"])

    assert (name, params) == ("search", case.expect["handler receives"])
    assert search.parameters.decode(params) == Success(Query("x")) if isinstance(search.parameters, Schema) else False


@case("provider.openai/171")
def test_what_is_not_strict_is_sent_untransformed(case: Case) -> None:
    """Strict mode off leaves the schema alone."""
    search = Tool.make("search", parameters=Query).annotate(Strict, False)
    sent = openai.prepare_tools([search], model="gpt-5.5").tools[0]

    assert sent["strict"] == case.expect["strict"]
    assert sent["parameters"]["required"] == case.expect["required"]
    assert sent["parameters"] == search.json_schema()


@case("provider.openai/172")
def test_a_raw_schema_goes_out_strict_only_in_its_strict_form(case: Case) -> None:
    """A raw document that is not strict as it is goes out as a strict copy, which keeps the provider's rules."""
    raw = Tool.dynamic("raw", parameters=case.given["dynamic"])
    sent = openai.prepare_tools([raw], model="gpt-5.5").tools[0]

    assert case.expect["or"] == "strictified copy"
    assert sent["strict"] is True
    assert sent["parameters"] != case.given["dynamic"]
    assert rule_faults(sent["parameters"], OPENAI) == ()


@case("provider.openai/174")
def test_a_codec_decodes_once(case: Case) -> None:
    """The way from the strict form leaves the text that carries a number for the tool's own schema to read."""
    got: list[Any] = []

    def on_numbered(params: Numbered) -> Result[None, Any]:
        got.append(params.n)
        return Success(None)

    numbered = Tool.make("numbered", parameters=Numbered)
    kit = Toolkit.make(numbered)
    name, params = openai.prepare_tools(kit, model="gpt-5.5").call("numbered", case.given["model"])
    outcome = fx.run_sync(kit.call(name, params).provide(kit.to_layer(numbered.handler(on_numbered))))

    assert not outcome.is_failure
    assert {"n": got[0]} == case.expect["handler receives"]


@case("provider.openai/175")
def test_choices_of_openai(case: Case) -> None:
    """A choice is sent in the provider's words; a hosted tool is chosen by our name and sent by theirs."""
    tools: list[AnyTool] = [Tool.make("TestTool"), Tool.make("OK"), openai.web_search(name="OpenAiWebSearch")]
    choices: list[Any] = [
        *("auto", "none", "required", ToolChoice.tool("TestTool"), ToolChoice.tool("OpenAiWebSearch")),
        *(ToolChoice.one_of(["OK"], mode="required"), ToolChoice.one_of(["OK"])),
    ]
    prepared = [openai.prepare_tools(tools, model="gpt-5.5", tool_choice=choice) for choice in choices]

    assert [one.tool_choice for one in prepared] == case.expect["wire"]
    assert [len(one.tools) for one in prepared] == [3, 3, 3, 3, 3, 1, 1]


# -- Anthropic, of effect-ai


@case("provider.anthropic/181")
def test_strict_only_where_the_model_has_it(case: Case) -> None:
    """A model without structured outputs is sent no flag. No beta is named: strict is generally available by now."""
    prepared = [anthropic.prepare_tools([Tool.make("T")], model=model) for model in case.given["models"]]

    assert [one.tools[0].get("strict", "omitted") for one in prepared] == case.expect["strict"]
    assert [one.betas for one in prepared] == [(), ()]


@case("provider.anthropic/182")
def test_choices_of_anthropic(case: Case) -> None:
    """A choice is sent in the provider's words. "none" keeps the tools, as VE-051 has it since."""
    choices: list[Any] = ["auto", "required", "none", ToolChoice.tool("T"), ToolChoice.one_of(["T"], mode="required")]
    prepared = [anthropic.prepare_tools([Tool.make("T")], model="claude-x", tool_choice=one) for one in choices]
    wires = [one.tool_choice for one in prepared]

    assert wires[2] == {"type": "none"}
    assert [*wires[:2], "no tools sent", *wires[3:]] == case.expect["wire"]


@case("provider.anthropic/183")
def test_our_own_configuration_is_not_sent(case: Case) -> None:
    """What configures the library is not in the request."""
    prepared = anthropic.prepare_tools([Tool.make("T")], model="claude-x", strict_json_schema=False)
    text = prepared.encoded.decode()

    assert not any(word in text for word in (*case.expect["absent"], "strict_json_schema", "supports_strict"))
    assert set(prepared.fields) == {"tools"}


@case("provider.anthropic/184")
def test_a_providers_tool_is_chosen_by_our_name(case: Case) -> None:
    """`one_of` and `tool` take the tool's own name, and send the provider's."""
    tools: list[AnyTool] = [anthropic.bash(name="AnthropicBash"), Tool.make("other")]
    some = anthropic.prepare_tools(tools, model="claude-x", tool_choice=ToolChoice.one_of(case.given["oneOf"]))
    one = anthropic.prepare_tools(tools, model="claude-x", tool_choice=ToolChoice.tool("AnthropicBash"))

    assert [wire["name"] for wire in some.tools] == case.expect["tools"]
    assert one.tool_choice == {"type": "tool", "name": "bash"}


# -- OpenAI Chat, of vercel


@case("VE-001", "VE-007")
def test_a_function_on_chat(case: Case) -> None:
    """Names, descriptions and schemas are where the wire has them; no description is no key. Strict is said by us."""
    prepared = _chat(case)
    off = openai.prepare_tools(_tools(case), model="gpt-5.5", api="chat", strict_json_schema=False)

    assert _plain(off.fields) == case.expect["body"]
    assert _stricts(prepared.tools) == [True]
    assert _stricts(off.tools) == [False]


@case("VE-003", "VE-004")
def test_strict_on_chat(case: Case) -> None:
    """True and false are both sent, and a schema that is strict already goes out as it is."""
    assert _chat(case).fields == case.expect["body"]


@case("VE-008", "VE-009", "VE-011")
def test_choices_on_chat(case: Case) -> None:
    """Each choice has the form of the wire."""
    prepared = _chat(case)

    assert _plain(prepared.fields) == case.expect["body"]
    assert prepared.tool_choice == case.expect["body"]["tool_choice"]


@case("VE-013")
def test_examples_have_no_place_on_chat(case: Case) -> None:
    """Input examples are not sent. The case says nothing of it; we do, since nothing is lost in silence."""
    prepared = _chat(case)

    assert _plain(prepared.fields) == case.expect["body"]
    assert [(one.kind, one.subject) for one in prepared.warnings] == [("unsupported-option", "get_weather")]


# -- OpenAI Responses, of vercel


def _responses(case: Case) -> PreparedTools:
    choice = _choice(case.given.get("tool_choice"))
    allowed = case.given.get("request_options", {}).get("openai", {}).get("allowed_tools")
    listed = ToolChoice.one_of(allowed["tool_names"]) if allowed else None
    return openai.prepare_tools(_tools(case), model="gpt-5.5", tool_choice=choice, allowed_tools=listed)


@case("VE-015", "VE-016", "VE-017", "VE-018", "VE-027", "VE-031")
def test_tools_on_responses(case: Case) -> None:
    """Flat functions, what only OpenAI has, namespaces in the place of their first tool, choices and allow-lists."""
    assert _plain(_responses(case).fields) == _plain(case.expect["body"])


@case("VE-015", "VE-017", "VE-027", "VE-031")
def test_strict_is_always_said_on_responses(case: Case) -> None:
    """Left out it would mean strict there. By our semantics nothing asked for is strict; switched off it is false."""
    off = openai.prepare_tools(_tools(case), model="gpt-5.5", strict_json_schema=False)

    assert off.tools == case.newer["expect"]["body"]["tools"]
    assert set(_stricts(_responses(case).tools)) == {True}


@case("VE-016")
def test_strict_on_responses(case: Case) -> None:
    """True and false are both sent."""
    assert _responses(case).fields == case.expect["body"]


@case("VE-018")
def test_strict_inside_namespaces(case: Case) -> None:
    """With strict switched off, a tool of a namespace that asks for it is strict and the others are not."""
    off = openai.prepare_tools(_tools(case), model="gpt-5.5", strict_json_schema=False)

    assert off.fields == case.newer["expect"]["body"]


@case("VE-019", "VE-032")
def test_what_contradicts_itself_is_refused(case: Case) -> None:
    """A namespace with two descriptions, and an allow-list of deferred tools alone, are errors before any request."""
    with pytest.raises(PreparationError) as raised:
        _responses(case)

    assert "error" in case.expect
    assert "two descriptions" in str(raised.value) or "deferred" in str(raised.value)


@case("VE-022", "VE-023", "VE-024", "VE-025", "VE-029", "VE-030")
def test_tools_that_openai_defines(case: Case) -> None:
    """Hosted and custom tools are sent with their args, and chosen by the name that they have here."""
    tools: dict[str, AnyTool] = {
        "VE-022": openai.code_interpreter(container="c-1"),
        "VE-023": openai.code_interpreter(container=openai.Container(file_ids=("f1",))),
        "VE-024": openai.file_search(
            vector_store_ids=["v1"],
            max_num_results=3,
            ranking_options=openai.Ranking(ranker="auto", score_threshold=0.5),
        ),
        "VE-025": openai.mcp(server_label="docs", server_url="https://docs.example.com/mcp", allowed_tools=["search"]),
        "VE-029": openai.web_search(name="look_up"),
        "VE-030": openai.custom("write_sql"),
    }
    choice = _choice(case.given.get("tool_choice"))
    prepared = openai.prepare_tools([tools[case.id]], model="gpt-5.5", tool_choice=choice)

    assert prepared.fields == case.expect["body"]


@case("VE-034")
def test_wrong_args_of_openai_are_refused(case: Case) -> None:
    """What a provider's tool needs must be there: as the call of a Python function, and as what it is given."""
    make: Any = openai.file_search

    assert "error" in case.expect
    with pytest.raises(TypeError, match="vector_store_ids"):
        make(**case.given["tools"][0]["args"])
    with pytest.raises(SchemaError, match="vector_store_ids"):
        make(vector_store_ids=[])


# -- Anthropic, of vercel


def _anthropic(case: Case, tools: list[AnyTool] | None = None) -> PreparedTools:
    parallel = not case.given.get("request_options", {}).get("anthropic", {}).get("disable_parallel_tool_use", False)
    return anthropic.prepare_tools(
        _tools(case) if tools is None else tools,
        model=case.given["model"],
        tool_choice=_choice(case.given.get("tool_choice")),
        parallel_tool_calls=parallel,
        stream=case.given.get("stream", False),
    )


@case("VE-035")
def test_no_tools_say_nothing(case: Case) -> None:
    """Without tools there is no field, no choice and no beta; that a required one is missing is said."""
    prepared = _anthropic(case)

    assert prepared.fields == case.expect["body"]
    assert list(prepared.betas) == case.expect["betas"]
    assert "a call is required, but this turn has no tools" in prepared.warnings[0].message


@case("VE-043")
def test_tools_that_programs_call(case: Case) -> None:
    """The callers are sent, without a beta. Such a tool cannot be strict at Anthropic: it is not, and that is said."""
    prepared = _anthropic(case)

    assert _plain(prepared.fields) == case.expect["body"]
    assert _stricts(prepared.tools) == [False]
    assert [warning.kind for warning in prepared.warnings] == ["not-strict"]
    assert prepared.betas == ()


@case("VE-036", "VE-041", "VE-044", "VE-046", "VE-047", "VE-048", "VE-049", "VE-052")
def test_tools_on_messages(case: Case) -> None:
    """What the case sends is sent, and strict, as our semantics has it. No beta: all of it is generally available."""
    prepared = _anthropic(case)

    assert _plain(prepared.fields) == case.expect["body"]
    assert _stricts(prepared.tools) == [True]
    assert prepared.betas == ()


@case("VE-038", "VE-039")
def test_strict_on_messages(case: Case) -> None:
    """True and false are both sent, without a beta: strict is generally available by now."""
    prepared = _anthropic(case)

    assert prepared.fields == case.expect["body"]
    assert list(prepared.warnings) == case.expect["warnings"]
    assert prepared.betas == ()


@case("VE-051")
def test_no_tool_may_be_called_on_messages(case: Case) -> None:
    """The tools stay and the choice says none, as the newer form of the case has it."""
    assert _plain(_anthropic(case).fields) == case.newer["expect"]["body"]


@case("VE-054", "VE-055", "VE-057", "VE-059")
def test_tools_that_anthropic_defines(case: Case) -> None:
    """They are sent by the provider's name, whatever they are called here. Web fetch needs no beta any more."""
    tools: dict[str, AnyTool] = {
        "VE-054": anthropic.web_search(name="look_up", version="20250305", max_uses=2, allowed_domains=["example.com"]),
        "VE-055": anthropic.web_fetch(
            name="fetch", version="20250910", max_uses=1, citations=anthropic.Citations(enabled=True)
        ),
        "VE-057": anthropic.text_editor(name="edit", max_characters=900),
        "VE-059": anthropic.tool_search(name="find_tool"),
    }
    prepared = _anthropic(case, [tools[case.id]])

    assert prepared.fields == case.expect["body"]
    assert prepared.names[prepared.tools[0]["name"]] == case.given["tools"][0]["name"]
    assert prepared.betas == ()
