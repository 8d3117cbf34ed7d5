"""Anthropic's own tools, as tools: what they need, what their handlers get, and that they stay what they are."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.annotations import DeferLoading
from fxai.effects import fx
from fxai.providers import anthropic
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.sdk_samples import actions_of

SERVED: list[Any] = [
    anthropic.web_search(),
    anthropic.web_fetch(),
    anthropic.code_execution(),
    anthropic.tool_search(),
    anthropic.tool_search(by="regex"),
]
HANDLED: list[Any] = [
    anthropic.bash(),
    anthropic.text_editor(),
    anthropic.text_editor(version="20250124"),
    anthropic.memory(),
    anthropic.computer_toolset(),
    anthropic.browser_toolset(),
]


@every("tool", SERVED, ids=lambda tool: tool.provider.id)
def test_what_the_provider_runs_needs_no_handler(tool: Any) -> None:
    """A toolkit of such tools is whole without a handler."""
    assert tool.kind == "provider-defined"
    assert not tool.requires_handler
    assert not tool.provider.requires_handler


@every("tool", HANDLED, ids=lambda tool: tool.provider.id)
def test_what_we_run_needs_a_handler(tool: Any) -> None:
    """Its calls come back to us."""
    assert tool.kind == "provider-defined"
    assert tool.requires_handler
    assert tool.provider.requires_handler


@every("tool", [*SERVED, *HANDLED], ids=lambda tool: tool.provider.id)
def test_a_providers_tool_is_a_value(tool: Any) -> None:
    """It keeps its kind and args through every combinator and through pickling."""
    changed = tool.rename("other").annotate(DeferLoading, True)

    assert changed.provider == tool.provider
    assert Tool.is_provider_defined(changed)
    assert pickle.loads(pickle.dumps(tool)) == tool


@every(
    ("tool", "params", "asked"),
    [
        (anthropic.bash(), {"restart": True}, anthropic.BashCommand(restart=True)),
        (
            anthropic.text_editor(),
            {"command": "view", "path": "a", "view_range": [1, -1]},
            anthropic.View(path="a", view_range=(1, -1)),
        ),
        (
            anthropic.text_editor(version="20250124"),
            {"command": "insert", "path": "a", "insert_line": 0, "new_str": "x"},
            anthropic.InsertNewStr(path="a", insert_line=0, new_str="x"),
        ),
        (
            anthropic.memory(),
            {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
            anthropic.Rename(old_path="/memories/a", new_path="/memories/b"),
        ),
        (
            anthropic.computer_toolset(),
            {"action": "scroll", "scroll_direction": "up", "scroll_amount": 3},
            anthropic.computer_use.ComputerScroll(scroll_direction="up", scroll_amount=3),
        ),
        (
            anthropic.browser_toolset(),
            {
                "action": "left_click_drag",
                "from": {"type": "coordinate", "x": 1, "y": 2},
                "target": {"type": "coordinate", "x": 3, "y": 4},
            },
            anthropic.computer_use.BrowserLeftClickDrag(
                start=anthropic.computer_use.CoordinateTarget(x=1, y=2),
                target=anthropic.computer_use.CoordinateTarget(x=3, y=4),
            ),
        ),
    ],
    ids=lambda value: str(getattr(value, "name", "")),
)
def test_what_the_provider_asks_with_is_typed(tool: Any, params: Any, asked: Any) -> None:
    """Plain parameters become the command or action that they are."""
    assert tool.parameters.decode(params).unwrap() == asked


def test_a_handler_gets_commands_and_may_fail_in_words() -> None:
    """The editor's command comes typed; a failure is a text for the model."""

    def on_edit(command: anthropic.EditorCommand) -> Result[str, str]:
        return Success("1\thello") if isinstance(command, anthropic.View) else Failure(f"{command.path} is read-only")

    edit = anthropic.text_editor(name="edit", failure_mode="return")
    kit = Toolkit.make(edit)
    layer = kit.to_layer(edit.handler(on_edit))
    seen = fx.run_sync(kit.call("edit", {"command": "view", "path": "a"}).provide(layer))
    made = fx.run_sync(kit.call("edit", {"command": "create", "path": "a", "file_text": ""}).provide(layer))

    assert (seen.encoded_result, seen.is_failure) == ("1\thello", False)
    assert (made.encoded_result, made.is_failure) == ("a is read-only", True)


def test_an_action_gives_words_or_a_picture() -> None:
    """What a computer shows goes back as content, its bytes in base64."""
    tool: Any = anthropic.computer_toolset()
    shown = [anthropic.TextContent("here"), anthropic.ImageContent("image/png", b"\x89PNG")]

    assert tool.success.encode(shown).unwrap() == [
        {"type": "text", "text": "here"},
        {"type": "image", "media_type": "image/png", "data": "iVBORw=="},
    ]


def test_the_version_is_part_of_what_a_tool_is() -> None:
    """Two versions are two tools; the newest is the default."""
    old, new = anthropic.web_search(version="20250305"), anthropic.web_search()

    assert old.identity != new.identity
    assert new.provider is not None
    assert new.provider.id == "anthropic.web_search_20260318"
    assert msgspec.to_builtins(new.provider.args) == {}


@pytest.mark.parametrize(
    ("configs", "actions"),
    [
        (anthropic.ComputerConfigs, anthropic.ComputerAction),
        (anthropic.BrowserConfigs, anthropic.BrowserAction),
    ],
    ids=["computer", "browser"],
)
def test_every_action_of_a_toolset_can_be_configured(configs: Any, actions: Any) -> None:
    """The names in the settings of a toolset are the names of its actions."""
    assert sorted(actions_of(configs)) == sorted(action.__struct_config__.tag for action in get_args(actions))
