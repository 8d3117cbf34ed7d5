"""What the SDKs' types list is offered: each tool that a provider defines, with each of its args."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
import typing_extensions
from anthropic.types import ToolUnionParam
from anthropic.types.beta import BetaToolUnionParam
from openai.types.chat import ChatCompletionToolUnionParam
from openai.types.responses import ToolParam

from fxai.annotations import Strict
from fxai.providers import anthropic, openai
from fxai.schema import SchemaError
from fxai.tools import Tool
from tests.kit import sdk_samples as samples
from tests.kit.every import every
from tests.kit.sdk_requests import anthropic_faults, responses_faults

pytestmark = pytest.mark.slow

BESIDE = Tool.make("beside")

# Types on the wire that we offer no constructor for.
NOT_OFFERED: Mapping[str, str] = {
    "tool_search_tool_bm25": "the same tool as tool_search_tool_bm25_20251119, whose version is said",
    "tool_search_tool_regex": "the same tool as tool_search_tool_regex_20251119, whose version is said",
}

BETA: Mapping[str, str] = {
    "bash_20241022": "replaced by bash_20250124",
    "text_editor_20241022": "replaced by the text editors that are generally available",
    "computer_20241022": "replaced by computer_toolset_20260801",
    "computer_20250124": "replaced by computer_toolset_20260801",
    "computer_20251124": "replaced by computer_toolset_20260801",
    "advisor_20260301": "in beta only; Tool.provider_defined with a beta in provider_options makes one",
    "mcp_toolset": "in beta only, and it needs mcp_servers beside the tools; our own MCP client needs neither",
}

# Fields of the wire that no sample sends, as "type.field".
NOT_SENT: Mapping[str, str] = {
    "custom.type": "Anthropic's tools of ours need no type: it is 'custom' by default",
}


def _members(union: Any) -> tuple[Any, ...]:
    arguments = typing_extensions.get_args(union)
    return _members(arguments[0]) if typing_extensions.get_origin(union) is typing_extensions.Annotated else arguments


def _fields(member: Any) -> Mapping[str, Any]:
    return typing_extensions.get_type_hints(member)


def _types(member: Any) -> Iterator[str]:
    """What the field `type` of a TypedDict may be, in the order of the SDK."""
    for hint in (_fields(member).get("type"),):
        for one in typing_extensions.get_args(hint):
            yield from (one,) if isinstance(one, str) else typing_extensions.get_args(one)


def _listed(union: Any) -> set[str]:
    return {kind for member in _members(union) for kind in _types(member)} - {""}


def _sent_by_openai() -> list[dict[str, Any]]:
    prepared = [
        openai.prepare_tools([form], model="gpt-5.5")
        for tool in samples.OPENAI
        for form in (tool, *samples.with_everything(tool))
    ]
    return [wire for one in prepared for wire in one.tools]


def _sent_by_anthropic() -> list[dict[str, Any]]:
    prepared = [
        anthropic.prepare_tools([form, BESIDE], model="claude-sonnet-5", stream=True)
        for tool in samples.ANTHROPIC
        for form in (tool, *samples.with_everything(tool))
    ]
    return [wire for one in prepared for wire in one.tools]


def _keys(wires: Iterable[dict[str, Any]], default: str) -> set[str]:
    return {f"{wire.get('type', default)}.{key}" for wire in wires for key in wire}


def test_each_tool_of_openai_is_offered() -> None:
    """Each type of tool of the Responses union is sent by a tool of ours, and by none that is not in it."""
    sent = {wire["type"] for wire in _sent_by_openai()}

    assert _listed(ToolParam) - sent - set(NOT_OFFERED) == set()
    assert sent - _listed(ToolParam) == set()
    assert len(sent) > 15


def test_each_tool_of_anthropic_is_offered() -> None:
    """Each type of tool of the Messages union is sent by a tool of ours; those in beta only are listed."""
    sent = {wire.get("type", "custom") for wire in _sent_by_anthropic()}
    listed = _listed(ToolUnionParam)

    assert listed - sent - set(NOT_OFFERED) == set()
    assert sent - listed == set()
    assert _listed(BetaToolUnionParam) - listed == set(BETA)
    assert set(NOT_OFFERED) <= listed


@pytest.mark.parametrize(
    ("union", "sent", "default"),
    [(ToolParam, _sent_by_openai, "function"), (ToolUnionParam, _sent_by_anthropic, "custom")],
    ids=["openai", "anthropic"],
)
def test_each_field_of_each_tool_is_sent(union: Any, sent: Any, default: str) -> None:
    """Each field that the SDK's types give a tool is sent by a sample, and fits."""
    keys = _keys(sent(), default)
    wanted = {
        f"{kind}.{field}" for member in _members(union) for kind in [next(_types(member))] for field in _fields(member)
    }

    assert wanted - keys - set(NOT_SENT) == set()


def _name(tool: Tool[Any, Any, Any]) -> str:
    return tool.provider.id if tool.provider else tool.name


@every("tool", samples.OPENAI, ids=_name)
def test_a_tool_of_openai_fits_the_sdk(tool: Tool[Any, Any, Any]) -> None:
    """A tool is what the SDK's types take, as it is and with all that annotations can say."""
    for form in (tool, *samples.with_everything(tool), tool.annotate(Strict, False)):
        assert responses_faults(openai.prepare_tools([form], model="gpt-5.5")) == []


@every("tool", samples.ANTHROPIC, ids=_name)
def test_a_tool_of_anthropic_fits_the_sdk(tool: Tool[Any, Any, Any]) -> None:
    """A tool is what the SDK's types take, as it is and with all that annotations can say."""
    for form in (tool, *samples.with_everything(tool), tool.annotate(Strict, False)):
        assert anthropic_faults(anthropic.prepare_tools([form, BESIDE], model="claude-sonnet-5", stream=True)) == []


def test_chat_has_functions_and_custom_tools() -> None:
    """The Chat Completions union holds the two kinds that are sent there."""
    sent = [openai.prepare_tools([tool], model="gpt-5.5", api="chat") for tool in samples.OPENAI]

    assert {wire["type"] for one in sent for wire in one.tools} == _listed(ChatCompletionToolUnionParam)


# Unknown to the checkers, which refuse each of these calls.
OF_OPENAI: Any = openai
OF_ANTHROPIC: Any = anthropic


@every(
    "make",
    [
        lambda: OF_OPENAI.web_search(search_context_size="huge"),
        lambda: OF_OPENAI.web_search(user_location={"city": 5}),
        lambda: OF_OPENAI.web_search(user_location={"town": "Oslo"}),
        lambda: OF_OPENAI.web_search(max_uses=2),
        lambda: OF_OPENAI.file_search(vector_store_ids=[]),
        lambda: OF_OPENAI.file_search(vector_store_ids="v-1"),
        lambda: OF_OPENAI.file_search(vector_store_ids=["v"], max_num_results=51),
        lambda: OF_OPENAI.file_search(vector_store_ids=["v"], filters={"key": "a", "type": "like", "value": 1}),
        lambda: OF_OPENAI.code_interpreter(container=5),
        lambda: OF_OPENAI.image_generation(size=5),
        lambda: OF_OPENAI.image_generation(colour="red"),
        lambda: OF_OPENAI.mcp(server_label="docs"),
        lambda: OF_OPENAI.mcp(server_label="docs", server_url="https://a.b", require_approval="sometimes"),
        lambda: OF_OPENAI.shell(environment="here"),
        lambda: OF_OPENAI.computer_use_preview(display_width=0, display_height=1, environment="mac"),
        lambda: OF_OPENAI.custom("sql", format={"type": "grammar", "syntax": "ebnf", "definition": "a"}),
        lambda: OF_OPENAI.custom(""),
        lambda: OF_ANTHROPIC.web_search(max_uses=0),
        lambda: OF_ANTHROPIC.web_search(version="20250305", response_inclusion="full"),
        lambda: OF_ANTHROPIC.web_search(allowed_domains=["a.b"], blocked_domains=["c.d"]),
        lambda: OF_ANTHROPIC.web_search(allowed_domains="a.b"),
        lambda: OF_ANTHROPIC.web_fetch(version="20250910", use_cache=True),
        lambda: OF_ANTHROPIC.web_fetch(citations=True),
        lambda: OF_ANTHROPIC.text_editor(version="20250429", max_characters=100),
        lambda: OF_ANTHROPIC.text_editor(max_characters="many"),
        lambda: OF_ANTHROPIC.computer_toolset(configs={"teleport": {}}),
        lambda: OF_ANTHROPIC.bash(shell="zsh"),
        lambda: OF_ANTHROPIC.bash(failure_mode="ignore"),
    ],
)
def test_wrong_args_are_refused_before_any_request(make: Any) -> None:
    """An arg that there is none of, of a wrong type or out of its bounds makes no tool."""
    with pytest.raises(SchemaError) as raised:
        make()

    assert str(raised.value)
