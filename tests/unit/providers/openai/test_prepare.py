"""What a request to OpenAI says of its tools."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.annotations import (
    AllowedCallers,
    CacheControl,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)
from fxai.models import PreparationError, ToolChoice
from fxai.providers import openai
from fxai.schema import JsonSchema
from fxai.tools import NameConflictError, Tool
from tests.kit.every import every

A, B = Tool.make("a"), Tool.make("b")
SCHEMA = {"type": "string"}


def _prepare(*tools: Any, **options: Any) -> Any:
    return openai.prepare_tools(tools, model="gpt-5.5", **options)


def _warned(prepared: Any) -> list[tuple[str, str | None]]:
    return [(warning.kind, warning.subject) for warning in prepared.warnings]


def test_annotations_are_sent() -> None:
    """Deferral, callers, output schema and namespace have their places on Responses."""
    tool = A.annotate(DeferLoading, True).annotate(AllowedCallers, ("programmatic",))
    tool = tool.annotate(OutputSchema, JsonSchema.of(SCHEMA)).annotate(Namespace, ToolNamespace("n", "Names."))
    prepared = _prepare(tool, openai.tool_search())
    group = prepared.tools[0]
    inside = group.pop("tools")

    assert group == {"type": "namespace", "name": "n", "description": "Names."}
    assert inside[0]["defer_loading"] is True
    assert inside[0]["allowed_callers"] == ["programmatic"]
    assert inside[0]["output_schema"] == SCHEMA
    assert prepared.warnings == ()


def test_provider_options_win_over_annotations() -> None:
    """What stands under the provider's own name is nearer to the wire."""
    tool = A.annotate(AllowedCallers, ("direct",)).annotate(DeferLoading, True)
    given = tool.with_options(
        provider_options={"openai": {"allowed_callers": ["programmatic"], "defer_loading": False}}
    )
    sent = _prepare(given).tools[0]

    assert (sent["allowed_callers"], sent["defer_loading"]) == (["programmatic"], False)


@pytest.mark.parametrize(
    ("time", "mark"),
    [("default", {"type": "ephemeral"}), ("5m", {"type": "ephemeral", "ttl": "5m"}), (None, None)],
)
def test_a_server_with_cache_marks_receives_the_mark_of_a_tool(time: Any, mark: Any) -> None:
    """On Chat Completions the mark is a field of the tool, and fxai warns of nothing. Elsewhere it warns."""
    tool = A if time is None else A.annotate(CacheControl, time)

    marked = _prepare(tool, api="chat", cache_marks=True)

    assert marked.tools[0].get("cache_control") == mark
    assert marked.warnings == ()
    for options in ({"api": "chat"}, {"api": "responses", "cache_marks": True}):
        plain = _prepare(tool, **options)
        assert "cache_control" not in plain.tools[0]
        assert len(plain.warnings) == (0 if time is None else 1)


def test_unknown_provider_options_are_refused() -> None:
    """A misspelt option is an error, not lost."""
    with pytest.raises(PreparationError, match="'defer_laoding'"):
        _prepare(A.with_options(provider_options={"openai": {"defer_laoding": True}}))


@every(
    ("tool", "what"),
    [
        (A.annotate(CacheControl, "5m"), "cache control"),
        (A.annotate(EagerInputStreaming, True), "eager input streaming"),
        (A.with_options(input_examples=[{}]), "input examples"),
        (openai.web_search().annotate(DeferLoading, True), "defer_loading"),
        (openai.web_search(description="Looks things up."), "description"),
        (openai.web_search().annotate(Strict, True), "strict mode"),
        (openai.web_search().annotate(Namespace, ToolNamespace("n", "N")), "namespace"),
    ],
)
def test_what_responses_has_no_place_for_is_said(tool: Any, what: str) -> None:
    """Whatever a tool asks for and the wire lacks is a warning that names the tool and the thing."""
    prepared = _prepare(tool)

    assert _warned(prepared) == [("unsupported-option", tool.name)]
    assert what in prepared.warnings[0].message


def test_what_chat_has_no_place_for_is_said() -> None:
    """Chat Completions has none of what Responses has beside name, description, schema and strict."""
    tool = A.annotate(DeferLoading, True).annotate(AllowedCallers, ("direct",))
    tool = tool.annotate(OutputSchema, JsonSchema.of(SCHEMA)).annotate(Namespace, ToolNamespace("n", "N"))
    prepared = _prepare(tool, api="chat")

    assert _warned(prepared) == [("unsupported-option", "a")] * 4
    assert set(prepared.tools[0]["function"]) == {"name", "parameters", "strict"}


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_tools_of_others_are_not_sent(api: str) -> None:
    """Another provider's tool is left out, with a warning; the others are sent."""
    other: Any = Tool.provider_defined(id="acme.search", name="look", provider_name="search")()
    prepared = _prepare(other, A, api=api)

    assert len(prepared.tools) == 1
    assert _warned(prepared) == [("unsupported-tool", "look")]
    assert "it is another provider's" in prepared.warnings[0].message


def test_hosted_tools_are_not_sent_to_chat() -> None:
    """Chat Completions runs no tools of its own; custom tools it has, in a form of its own."""
    grammar = openai.Grammar(syntax="regex", definition="[a-z]+")
    prepared = _prepare(openai.web_search(), openai.custom("word", format=grammar), api="chat")
    form = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}}

    assert prepared.tools == [{"type": "custom", "custom": {"name": "word", "format": form}}]
    assert _warned(prepared) == [("unsupported-tool", "web_search")]
    assert "it runs on the Responses API alone" in prepared.warnings[0].message


def test_a_tool_that_is_not_sent_cannot_be_chosen() -> None:
    """To ask for what cannot be sent is an error before the request."""
    with pytest.raises(PreparationError, match="cannot be sent"):
        _prepare(openai.web_search(), A, api="chat", tool_choice=ToolChoice.tool("web_search"))


@every(
    ("tool", "wire"),
    [
        (A, {"type": "function", "name": "a"}),
        (openai.custom("sql.query"), {"type": "custom", "name": "sql__query"}),
        (openai.mcp(server_label="docs", server_url="https://d.e"), {"type": "mcp", "server_label": "docs"}),
        (openai.image_generation(name="paint"), {"type": "image_generation"}),
        (openai.shell(), {"type": "shell"}),
        (openai.computer(), {"type": "computer"}),
        (openai.code_interpreter(name="code"), {"type": "code_interpreter"}),
        (openai.file_search(vector_store_ids=["v"]), {"type": "file_search"}),
        (openai.programmatic_tool_calling(), {"type": "programmatic_tool_calling"}),
        (openai.web_search(name="web"), {"type": "web_search"}),
        (openai.web_search_preview(), {"type": "web_search_preview"}),
        (
            openai.computer_use_preview(display_width=9, display_height=9, environment="linux"),
            {"type": "computer_use_preview"},
        ),
        (openai.apply_patch(), {"type": "apply_patch"}),
        (
            openai.local_shell(),
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "local_shell"}]},
        ),
    ],
)
def test_each_kind_of_tool_can_be_chosen(tool: Any, wire: Any) -> None:
    """By our name, in the provider's words; what has no words of its own is the only one of an allow-list."""
    assert _prepare(tool, B, tool_choice=ToolChoice.tool(tool.name)).tool_choice == wire


def test_an_allow_list_on_chat_has_its_own_form() -> None:
    """All tools are sent, and the choice takes the place of `tool_choice`."""
    listed = ToolChoice.one_of(["b"], mode="required")
    prepared = _prepare(A, B, api="chat", tool_choice="none", allowed_tools=listed)
    entry = {"type": "function", "function": {"name": "b"}}

    assert len(prepared.tools) == 2
    assert prepared.tool_choice == {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [entry]}}


def test_a_deferred_tool_is_left_out_of_an_allow_list() -> None:
    """It is not there until it was searched for; that is said, and the rest are allowed."""
    prepared = _prepare(A, B.annotate(DeferLoading, True), allowed_tools=ToolChoice.one_of(["a", "b"]))

    assert prepared.tool_choice["tools"] == [{"type": "function", "name": "a"}]
    assert ("unsupported-option", "b") in _warned(prepared)


def test_deferred_tools_need_a_search() -> None:
    """OpenAI refuses them without: that is said, with what to add."""
    lost = _prepare(A.annotate(DeferLoading, True))

    assert lost.tools[0]["defer_loading"] is True
    assert _warned(lost) == [("other", None)]
    assert "add openai.tool_search() for 'a'" in lost.warnings[0].message
    assert _prepare(A.annotate(DeferLoading, True), openai.tool_search()).warnings == ()


def test_an_allow_list_names_tools_that_are_there() -> None:
    """An unknown name is an error that says where it stands."""
    with pytest.raises(PreparationError, match=r"'allowed_tools'.*'c'"):
        _prepare(A, B, allowed_tools=ToolChoice.one_of(["c"]))


def test_without_tools_nothing_is_said() -> None:
    """No tools, no choice, no parallel calls; that a tool is required all the same is a warning."""
    assert _prepare(tool_choice="auto", parallel_tool_calls=False).fields == {}
    assert _warned(_prepare(tool_choice="required")) == [("unsupported-option", "tool_choice")]


def test_parallel_calls_are_a_field_of_the_request() -> None:
    """True and false are both sent; nothing is said where nothing is asked."""
    assert [
        _prepare(A, parallel_tool_calls=said).fields.get("parallel_tool_calls") for said in (True, False, None)
    ] == [
        True,
        False,
        None,
    ]


def test_several_servers_and_custom_tools_side_by_side() -> None:
    """MCP servers are told apart by their labels, custom tools by their names."""
    servers = [openai.mcp(server_label=label, server_url="https://d.e") for label in ("one", "two")]
    prepared = _prepare(*servers, openai.custom("x"), openai.custom("y"))

    assert dict(prepared.names) == {"mcp:one": "one", "mcp:two": "two", "x": "x", "y": "y"}


def test_two_tools_of_one_name_on_the_wire_are_refused() -> None:
    """The error names both."""
    with pytest.raises(NameConflictError, match=r"'a\.b' and 'a b'"):
        _prepare(Tool.make("a.b"), Tool.make("a b"))


@every(
    ("model", "strict"),
    [("gpt-5.5", True), ("gpt-4o-mini", True), ("gpt-4-0613", True), ("o9", True), ("gpt-4-0314", False)],
)
def test_strict_tools_follow_the_facts_of_the_model(model: str, strict: bool) -> None:
    """If a model lacks strict mode, fxai sends false on Responses and no flag on Chat Completions."""
    responses = openai.prepare_tools([A], model=model)
    chat = openai.prepare_tools([A], model=model, api="chat")

    assert openai.facts(model).strict_tools is strict
    assert responses.tools[0]["strict"] is strict
    assert chat.tools[0]["function"].get("strict") is (True if strict else None)


def test_a_server_of_others_may_lack_strict_mode() -> None:
    """The configuration wins over the model's name, both ways."""
    assert "strict" not in _prepare(A, api="chat", supports_strict=False).tools[0]["function"]
    assert openai.prepare_tools([A], model="gpt-4-0314", supports_strict=True).tools[0]["strict"] is True


def test_a_tool_that_nobody_knows_yet_can_be_sent() -> None:
    """A tool that this library has no constructor for is made by hand: its type is what stands behind `openai.`."""
    new: Any = Tool.provider_defined(id="openai.time_machine", name="back", provider_name="time_machine")()

    assert _prepare(new, tool_choice=ToolChoice.tool("back")).tools == [{"type": "time_machine"}]


def test_a_namespace_has_one_description() -> None:
    """Tools of one namespace stand in it together, in their order; two descriptions of it are refused."""
    one, two = ToolNamespace("files", "Of files."), ToolNamespace("files", "Of other files.")
    read, write = (Tool.make(name).annotate(Namespace, one) for name in ("read", "write"))
    (group,) = openai.prepare_tools([read, write], model="gpt-5.5").tools

    assert (group["type"], group["name"], group["description"]) == ("namespace", "files", "Of files.")
    assert [tool["name"] for tool in group["tools"]] == ["read", "write"]
    with pytest.raises(PreparationError, match=r"parameter 'tools'\. the namespace 'files' has two descriptions"):
        openai.prepare_tools([read, write.annotate(Namespace, two)], model="gpt-5.5")


def test_tools_may_come_one_by_one() -> None:
    """Any iterable of tools will do, read once."""
    prepared = openai.prepare_tools((tool for tool in (A, B)), model="m", allowed_tools=ToolChoice.one_of(["a"]))

    assert [wire["name"] for wire in prepared.tools] == ["a", "b"]


def test_nobody_is_asked_before_the_provider_runs_a_tool() -> None:
    """An approval that nobody could give is an error; a tool that we run may have one."""
    with pytest.raises(PreparationError, match="the provider runs the tool 'web_search'"):
        _prepare(openai.web_search(needs_approval=True))
    assert len(_prepare(openai.shell(needs_approval=True), A.with_options(needs_approval=True)).tools) == 2


def test_an_api_that_is_none_is_refused() -> None:
    """The error says which there are."""
    with pytest.raises(PreparationError, match=r"parameter 'api'.*'responses' or 'chat'"):
        _prepare(A, api="completions")


BOUNDED: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": "string", "minLength": 2, "maxLength": 9}},
    "required": ["code"],
}


def test_lengths_of_strings_are_kept_on_the_host_of_openai() -> None:
    """Strict mode there holds the model to them; nothing is weakened."""
    prepared = openai.prepare_tools([Tool.dynamic("t", parameters=BOUNDED)], model="gpt-5.5")
    (sent,) = prepared.tools

    assert sent["strict"]
    assert sent["parameters"]["properties"]["code"]["minLength"] == 2
    assert sent["parameters"]["properties"]["code"]["maxLength"] == 9
    assert prepared.strict["t"].weakened == ()


@pytest.mark.parametrize("options", [{"model": "ft:gpt-4o:acme"}, {"model": "gpt-5.5", "strict_keywords": ()}])
def test_lengths_of_strings_are_words_elsewhere(options: Any) -> None:
    """Fine-tuned models and other servers refuse the keywords, so the description has them."""
    prepared = openai.prepare_tools([Tool.dynamic("t", parameters=BOUNDED)], **options)
    code = prepared.tools[0]["parameters"]["properties"]["code"]

    assert code == {
        "type": "string",
        "description": "a value with a length of at least 2 and a value with a length of at most 9",
    }
    assert [one.keyword for one in prepared.strict["t"].weakened] == ["minLength", "maxLength"]
