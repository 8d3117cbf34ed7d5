"""Local tools: defined by Anthropic and run here, by a handler, ready for a toolkit; with what each asks for.

>>> shell = bash(name="shell")
>>> shell.name, shell.provider.name, shell.requires_handler
('shell', 'bash', True)
>>> msgspec.convert({"command": "view", "path": "a.txt"}, EditorCommand)
View(path='a.txt', view_range=None)
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, cast, final, overload

import msgspec
from typing_extensions import Unpack

from fxai.models.prepared_tools import Setting, local_tool
from fxai.providers.anthropic.computer_use import BrowserAction, BrowserConfigs, ComputerAction, ComputerConfigs
from fxai.schema.codec import Schema
from fxai.tools.tool import Tool
from fxai.tools.tool_options import ToolOptions


@final
class BashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A line for a shell that stays open from call to call, or the wish for a fresh one.

    Attributes:
        command: The line; None with `restart`.
        restart: Whether the shell is to be started anew.
    """

    command: str | None = None
    restart: bool = False


class _Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """What an editor or a memory is asked to do."""


@final
class View(_Command, frozen=True, tag="view"):
    """Show a file, or what a folder holds.

    Attributes:
        path: Which.
        view_range: The first and the last line, from 1; -1 is the end. None: all.
    """

    path: str
    view_range: tuple[int, int] | None = None


@final
class Create(_Command, frozen=True, tag="create"):
    """Write a file with this text."""

    path: str
    file_text: str


@final
class StrReplace(_Command, frozen=True, tag="str_replace"):
    """Put `new_str` in the place of `old_str`, which must stand there once."""

    path: str
    old_str: str
    new_str: str = ""


@final
class Insert(_Command, frozen=True, tag="insert"):
    """Put a text after a line; 0 is the beginning."""

    path: str
    insert_line: int
    insert_text: str


@final
class InsertNewStr(_Command, frozen=True, tag="insert"):
    """`Insert`, as the editor of January 2025 asks for it."""

    path: str
    insert_line: int
    new_str: str


@final
class UndoEdit(_Command, frozen=True, tag="undo_edit"):
    """Take back the last change of a file; only the editor of January 2025 asks for it."""

    path: str


@final
class Delete(_Command, frozen=True, tag="delete"):
    """Delete a file or a folder of the memory."""

    path: str


@final
class Rename(_Command, frozen=True, tag="rename"):
    """Rename or move a file or a folder of the memory."""

    old_path: str
    new_path: str


EditorCommand: TypeAlias = View | Create | StrReplace | Insert
"""What the text editor asks for."""

EditorCommand20250124: TypeAlias = View | Create | StrReplace | InsertNewStr | UndoEdit
"""What the text editor of January 2025 asks for."""

MemoryCommand: TypeAlias = View | Create | StrReplace | Insert | Delete | Rename
"""What the memory asks for; paths start with `/memories`."""


class TextContent(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A text for the model."""

    text: str


class ImageContent(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture for the model: its media type, such as `"image/png"`, and its bytes."""

    media_type: str
    data: bytes


ToolContent: TypeAlias = TextContent | ImageContent
"""What an action of a computer or a browser gives: words or a picture."""

_EDITOR: Schema[EditorCommand] = Schema.of(EditorCommand)
_EDITOR_20250124: Schema[EditorCommand20250124] = Schema.of(EditorCommand20250124)
_MEMORY: Schema[MemoryCommand] = Schema.of(MemoryCommand)
_COMPUTER: Schema[ComputerAction] = Schema.of(ComputerAction)
_BROWSER: Schema[BrowserAction] = Schema.of(BrowserAction)


def bash(*, name: str = "bash", **options: Unpack[ToolOptions]) -> Tool[BashCommand, str, str]:
    """A shell on this machine; its handler keeps it open from call to call and gives what it wrote."""
    return local_tool("anthropic.bash_20250124", name, "bash", BashCommand, str)(**options)


class _Editor(Setting, frozen=True):
    max_characters: Annotated[int, msgspec.Meta(ge=1)] | None = None


@overload
def text_editor(
    *,
    name: str = ...,
    version: Literal["20250728", "20250429"] = ...,
    max_characters: int | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[EditorCommand, str, str]: ...
@overload
def text_editor(
    *, name: str = ..., version: Literal["20250124"], **options: Unpack[ToolOptions]
) -> Tool[EditorCommand20250124, str, str]: ...
def text_editor(
    *,
    name: str = "text_editor",
    version: Literal["20250728", "20250429", "20250124"] = "20250728",
    max_characters: int | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """An editor of files on this machine; its handler does what is asked and gives what the model should see.

    Args:
        name: its name in the toolkit.
        version: 20250728 (Claude 4 and newer), or an earlier one; that of January 2025 can undo.
        max_characters: how much of a file is shown at most; in 20250728 alone.
        options: those of every tool.

    Raises:
        SchemaError: an arg of a wrong type, or one that the version has not.
    """
    wire = "str_replace_editor" if version == "20250124" else "str_replace_based_edit_tool"
    parameters = cast("Schema[Any]", _EDITOR_20250124 if version == "20250124" else _EDITOR)
    args = _Editor if version == "20250728" else Setting
    make = local_tool(f"anthropic.text_editor_{version}", name, wire, parameters, str, args)
    return make(**({} if max_characters is None else {"max_characters": max_characters}), **options)


def memory(*, name: str = "memory", **options: Unpack[ToolOptions]) -> Tool[MemoryCommand, str, str]:
    """Files that the model keeps from one conversation to the next; its handler stores them."""
    return local_tool("anthropic.memory_20250818", name, "memory", _MEMORY, str)(**options)


class _ComputerToolset(Setting, frozen=True):
    configs: ComputerConfigs | None = None


def computer_toolset(
    *, name: str = "computer", configs: ComputerConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[ComputerAction, list[ToolContent], str]:
    """A computer that the model uses: one tool here, on the wire a tool for each action.

    Args:
        name: its name in the toolkit.
        configs: which actions the model has.
        options: those of every tool.
    """
    id_ = "anthropic.computer_toolset_20260801"
    make = local_tool(id_, name, "computer", _COMPUTER, list[ToolContent], _ComputerToolset)
    return make(configs=configs, **options)


class _BrowserToolset(Setting, frozen=True):
    configs: BrowserConfigs | None = None


def browser_toolset(
    *, name: str = "browser", configs: BrowserConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[BrowserAction, list[ToolContent], str]:
    """A browser that the model uses: one tool here, on the wire a tool for each action.

    Args:
        name: its name in the toolkit.
        configs: which actions the model has.
        options: those of every tool.
    """
    id_ = "anthropic.browser_toolset_20260801"
    make = local_tool(id_, name, "browser", _BROWSER, list[ToolContent], _BrowserToolset)
    return make(configs=configs, **options)
