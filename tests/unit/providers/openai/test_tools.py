"""OpenAI's own tools, as tools: what they need, what their handlers get, and that they stay what they are."""

from __future__ import annotations

import pickle
import re
from functools import partial
from typing import Any, Never

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.annotations import DeferLoading
from fxai.effects import fx
from fxai.providers import openai
from fxai.providers.openai import Screen, ShellOutput
from fxai.schema import Empty, SchemaError
from fxai.tools import Tool, Toolkit
from tests.kit.every import every

SERVED: list[Any] = [
    openai.web_search(),
    openai.web_search_preview(),
    openai.file_search(vector_store_ids=["v"]),
    openai.code_interpreter(),
    openai.image_generation(),
    openai.mcp(server_label="docs", server_url="https://d.e"),
    openai.programmatic_tool_calling(),
    openai.tool_search(),
    openai.shell(environment=openai.ContainerAuto()),
]
HANDLED: list[Any] = [
    openai.shell(),
    openai.shell(environment=openai.LocalEnvironment()),
    openai.local_shell(),
    openai.apply_patch(),
    openai.computer(),
    openai.computer_use_preview(display_width=1, display_height=1, environment="mac"),
    openai.custom("sql"),
]


@every("tool", SERVED, ids=lambda tool: tool.name)
def test_what_the_provider_runs_needs_no_handler(tool: Any) -> None:
    """A toolkit of such tools is whole without a handler."""
    assert tool.kind == "provider-defined"
    assert not tool.requires_handler
    assert not tool.provider.requires_handler


@every("tool", [*SERVED, *HANDLED], ids=lambda tool: tool.name)
def test_a_tool_is_known_by_the_providers_name_for_it(tool: Any) -> None:
    """Its id is the provider and the type on the wire; what the provider runs gives anything, and never fails here."""
    kind = tool.provider.id.removeprefix("openai.")

    assert tool.provider.id.startswith("openai.")
    assert tool.provider.name == {"custom": None, "mcp": "mcp:docs"}.get(kind, kind)
    if tool in SERVED:
        assert (tool.parameters.type, tool.success.type, tool.failure.type) == (Empty, object, Never)


@every(
    ("tool", "success", "failure"),
    [
        (openai.shell(), list[ShellOutput], str),
        (openai.local_shell(), str, str),
        (openai.apply_patch(), str, str),
        (openai.computer(), Screen, str),
        (openai.computer_use_preview(display_width=1, display_height=1, environment="mac"), Screen, str),
        (openai.custom("sql"), str, Never),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_what_a_handler_of_ours_gives(tool: Any, success: Any, failure: Any) -> None:
    """What it may say went wrong is a text for the model, except where the model may call it as it likes."""
    assert (tool.success.type, tool.failure.type) == (success, failure)


@every("tool", HANDLED, ids=lambda tool: tool.name)
def test_what_we_run_needs_a_handler(tool: Any) -> None:
    """Its calls come back to us."""
    assert tool.kind == "provider-defined"
    assert tool.requires_handler
    assert tool.provider.requires_handler


@every("tool", [*SERVED, *HANDLED], ids=lambda tool: tool.name)
def test_a_providers_tool_is_a_value(tool: Any) -> None:
    """It keeps its kind and args through every combinator and through pickling."""
    changed = tool.rename("other").annotate(DeferLoading, True)

    assert changed.provider == tool.provider
    assert Tool.is_provider_defined(changed)
    assert pickle.loads(pickle.dumps(tool)) == tool
    assert hash(pickle.loads(pickle.dumps(tool))) == hash(tool)


MAKERS: list[Any] = [
    openai.web_search_preview,
    openai.code_interpreter,
    openai.image_generation,
    openai.programmatic_tool_calling,
    openai.tool_search,
    partial(openai.file_search, vector_store_ids=["v"]),
    partial(openai.shell, environment=openai.ContainerAuto()),
    openai.shell,
    openai.local_shell,
    openai.apply_patch,
    openai.computer,
]


@every("make", MAKERS)
def test_a_tool_may_have_a_name_of_ours(make: Any) -> None:
    """The provider's own name for it stays, and who runs it."""
    plain, named = make(name="shell"), make(name="box")

    assert (named.name, named.provider.name, named.provider.id) == ("box", plain.provider.name, plain.provider.id)
    assert named.requires_handler is plain.requires_handler is (plain.success.type is not object)


def test_a_filter_is_read_from_plain_data() -> None:
    """Compound ones with those inside them; a wrong one inside is found at once."""
    inside = {"type": "eq", "key": "year", "value": 2026}
    plain: Any = {"type": "and", "filters": [inside, {"type": "or", "filters": [inside]}]}
    tool = openai.file_search(vector_store_ids=["v"], filters=plain)
    same = openai.file_search(
        vector_store_ids=["v"],
        filters=openai.CompoundFilter(
            type="and",
            filters=(
                openai.ComparisonFilter(key="year", type="eq", value=2026),
                openai.CompoundFilter(type="or", filters=(openai.ComparisonFilter(key="year", type="eq", value=2026),)),
            ),
        ),
    )
    wrong: Any = {"type": "and", "filters": [{"type": "near"}]}

    assert tool.provider is not None
    assert tool.provider == same.provider
    assert msgspec.json.decode(msgspec.json.encode(tool.provider.args))["filters"] == plain
    with pytest.raises(SchemaError, match="near"):
        openai.file_search(vector_store_ids=["v"], filters=wrong)


@pytest.mark.parametrize("value", ["2026", 2026, 2026.0, 0.5, True, ["a", 1, 1.5], 2**60 + 1])
def test_a_value_of_a_filter_is_sent_as_it_was_given(value: Any) -> None:
    """An integer stays one, which is how an attribute that is one is compared; so do those in a list."""
    given: Any = {"type": "or", "filters": [{"type": "eq", "key": "year", "value": value}]}
    tool = openai.file_search(vector_store_ids=["v"], filters=given)

    assert tool.provider is not None
    sent = msgspec.json.encode(msgspec.to_builtins(tool.provider.args)["filters"]["filters"][0])
    assert sent == msgspec.json.encode({"key": "year", "type": "eq", "value": value})


WRONG_FILTERS: list[tuple[Any, str]] = [
    ({"type": "near", "key": "k", "value": 1}, "$.filters.type"),
    ({"type": "near", "filters": []}, "$.filters.type"),
    (7, "$.filters"),
    ({"type": "and", "filters": [{"type": "near"}]}, "$.filters.filters[0].type"),
    ({"type": "and", "filters": [{"type": "eq", "key": "k", "value": 1}, 7]}, "$.filters.filters[1]"),
    (
        {"type": "and", "filters": [{"type": "or", "filters": [{"type": "eq", "key": "k", "value": [1, {}]}]}]},
        "$.filters.filters[0].filters[0].value[1]",
    ),
]


@every(("filters", "location"), WRONG_FILTERS)
def test_a_wrong_filter_is_named_by_its_place(filters: Any, location: str) -> None:
    """However deep it stands in others."""
    with pytest.raises(SchemaError, match=re.escape(f"at `{location}`")):
        openai.file_search(vector_store_ids=["v"], filters=filters)


def test_what_an_earlier_search_looks_for_is_sent() -> None:
    """One kind or both; where nothing is said, nothing is sent."""
    both = openai.web_search_preview(search_content_types=["text", "image"]).provider
    plain = openai.web_search_preview().provider

    assert both is not None
    assert plain is not None
    assert msgspec.json.decode(msgspec.json.encode(both.args)) == {"search_content_types": ["text", "image"]}
    assert msgspec.to_builtins(plain.args) == {}


def test_args_and_options_stand_side_by_side() -> None:
    """An option of every tool is no arg of the provider's."""
    tool = openai.web_search(search_context_size="low", needs_approval=True, description="Looks things up.")

    assert (tool.needs_approval, tool.description) == (True, "Looks things up.")
    assert tool.provider is not None
    assert msgspec.to_builtins(tool.provider.args) == {"search_context_size": "low"}


def test_a_handler_gets_what_the_provider_asks_with() -> None:
    """The shell's action comes typed, and its output goes back as plain data."""

    def on_shell(action: openai.ShellAction) -> Result[list[openai.ShellOutput], str]:
        return Success([openai.ShellOutput(line, "", openai.ShellExit(0)) for line in action.commands])

    shell = openai.shell()
    kit = Toolkit.make(shell)
    call = kit.call("shell", {"commands": ["ls"], "timeout_ms": 5}).provide(kit.to_layer(shell.handler(on_shell)))

    assert fx.run_sync(call).encoded_result == [
        {"stdout": "ls", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    ]


def test_a_patch_may_fail_in_words() -> None:
    """The operation comes as what it is; a failure is a text for the model."""

    def on_patch(operation: openai.PatchOperation) -> Result[str, str]:
        return Failure("no such file") if isinstance(operation, openai.DeleteFile) else Success(operation.path)

    patch = openai.apply_patch(failure_mode="return")
    kit = Toolkit.make(patch)
    layer = kit.to_layer(patch.handler(on_patch))
    made = fx.run_sync(kit.call("apply_patch", {"type": "create_file", "path": "a", "diff": "+1"}).provide(layer))
    gone = fx.run_sync(kit.call("apply_patch", {"type": "delete_file", "path": "a"}).provide(layer))

    assert (made.result, made.is_failure) == ("a", False)
    assert (gone.result, gone.is_failure) == ("no such file", True)


def test_a_custom_tool_gets_a_text() -> None:
    """Its parameters are the text itself, and what comes out may be of any type."""

    def on_count(text: str) -> Result[int, Any]:
        return Success(len(text))

    count = openai.custom("count", success=int)
    kit = Toolkit.make(count)

    assert fx.run_sync(kit.call("count", "abc").provide(kit.to_layer(count.handler(on_count)))).result == 3


def test_a_computer_gets_its_actions_in_order() -> None:
    """Each action is what it is."""
    actions = [{"type": "click", "button": "left", "x": 1, "y": 2}, {"type": "type", "text": "hi"}]
    schema: Any = openai.computer().parameters

    assert schema.decode({"actions": actions}).unwrap() == openai.ComputerActions(
        actions=(openai.Click(button="left", x=1, y=2), openai.Type(text="hi"))
    )


def test_a_search_of_our_own_says_what_it_is_searched_by() -> None:
    """A tool search with parameters is ours to run; its schema and description go to the provider."""

    class Words(msgspec.Struct, frozen=True):
        """What to look for."""

        words: str

    tool = openai.tool_search(parameters=Words, description="Finds tools.")
    sent = openai.prepare_tools([tool], model="gpt-5.5").tools[0]

    assert tool.requires_handler
    assert (sent["execution"], sent["description"]) == ("client", "Finds tools.")
    assert sent["parameters"] == tool.json_schema()


def test_an_mcp_server_is_somewhere() -> None:
    """Without an address, a connector or a tunnel the provider could not ask it; one of them is enough."""
    with pytest.raises(SchemaError, match=r"MCP server 'docs': no address. Set server_url, connector_id, or tunnel_id"):
        openai.mcp(server_label="docs")
    for where in ({"server_url": "https://d.e"}, {"connector_id": "connector_gmail"}, {"tunnel_id": "t-1"}):
        given: Any = where

        assert openai.mcp(server_label="docs", **given).name == "docs"
