"""Local tools that Anthropic defines and your handler runs. Use a constructor to add a tool to a toolkit.

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
    """A command line for a persistent shell, or a request to restart the shell.

    Attributes:
        command: The command line, or None with `restart`.
        restart: True to start the shell again.
    """

    command: str | None = None
    restart: bool = False


class _Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """A command for an editor or a memory."""


@final
class View(_Command, frozen=True, tag="view"):
    """Show a file or the contents of a folder.

    Attributes:
        path: The path of the file or folder.
        view_range: The first and the last line, from 1; -1 is the end. None shows all lines.
    """

    path: str
    view_range: tuple[int, int] | None = None


@final
class Create(_Command, frozen=True, tag="create"):
    """Write a file with the text `file_text`."""

    path: str
    file_text: str


@final
class StrReplace(_Command, frozen=True, tag="str_replace"):
    """Replace `old_str` with `new_str`. The file must contain `old_str` exactly once."""

    path: str
    old_str: str
    new_str: str = ""


@final
class Insert(_Command, frozen=True, tag="insert"):
    """Insert text after a line. Line 0 is the start of the file."""

    path: str
    insert_line: int
    insert_text: str


@final
class InsertNewStr(_Command, frozen=True, tag="insert"):
    """The command `Insert` of the editor of January 2025."""

    path: str
    insert_line: int
    new_str: str


@final
class UndoEdit(_Command, frozen=True, tag="undo_edit"):
    """Undo the last change of a file. Only the editor of January 2025 has this command."""

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
"""The commands of the text editor."""

EditorCommand20250124: TypeAlias = View | Create | StrReplace | InsertNewStr | UndoEdit
"""The commands of the text editor of January 2025."""

MemoryCommand: TypeAlias = View | Create | StrReplace | Insert | Delete | Rename
"""The commands of the memory. Paths start with `/memories`."""


class TextContent(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text for the model."""

    text: str


class ImageContent(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """An image for the model: its media type, such as `"image/png"`, and its bytes."""

    media_type: str
    data: bytes


ToolContent: TypeAlias = TextContent | ImageContent
"""The result of an action of a computer or a browser: text or an image."""

_EDITOR: Schema[EditorCommand] = Schema.of(EditorCommand)
_EDITOR_20250124: Schema[EditorCommand20250124] = Schema.of(EditorCommand20250124)
_MEMORY: Schema[MemoryCommand] = Schema.of(MemoryCommand)
_COMPUTER: Schema[ComputerAction] = Schema.of(ComputerAction)
_BROWSER: Schema[BrowserAction] = Schema.of(BrowserAction)


def bash(*, name: str = "bash", **options: Unpack[ToolOptions]) -> Tool[BashCommand, str, str]:
    """Create a tool for a shell on this machine. Its handler keeps the shell open and returns its output."""
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
    """Create a tool for an editor of files on this machine. Its handler runs the command and returns the output.

    Args:
        name: The name of the tool in the toolkit.
        version: The version. By default 20250728, for Claude 4 and newer. The version of January 2025 can undo.
        max_characters: The maximum number of characters of a file to show. Only in 20250728.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type, or if the version does not support it.
    """
    wire = "str_replace_editor" if version == "20250124" else "str_replace_based_edit_tool"
    parameters = cast("Schema[Any]", _EDITOR_20250124 if version == "20250124" else _EDITOR)
    args = _Editor if version == "20250728" else Setting
    make = local_tool(f"anthropic.text_editor_{version}", name, wire, parameters, str, args)
    return make(**({} if max_characters is None else {"max_characters": max_characters}), **options)


def memory(*, name: str = "memory", **options: Unpack[ToolOptions]) -> Tool[MemoryCommand, str, str]:
    """Create a tool for files that the model keeps between conversations. Its handler stores the files."""
    return local_tool("anthropic.memory_20250818", name, "memory", _MEMORY, str)(**options)


class _ComputerToolset(Setting, frozen=True):
    configs: ComputerConfigs | None = None


def computer_toolset(
    *, name: str = "computer", configs: ComputerConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[ComputerAction, list[ToolContent], str]:
    """Create a tool for a computer. The model sees a tool for each action.

    Args:
        name: The name of the tool in the toolkit.
        configs: The actions of the model.
        options: The options of every tool.
    """
    id_ = "anthropic.computer_toolset_20260801"
    make = local_tool(id_, name, "computer", _COMPUTER, list[ToolContent], _ComputerToolset)
    return make(configs=configs, **options)


class _BrowserToolset(Setting, frozen=True):
    configs: BrowserConfigs | None = None


def browser_toolset(
    *, name: str = "browser", configs: BrowserConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[BrowserAction, list[ToolContent], str]:
    """Create a tool for a browser. The model sees a tool for each action.

    Args:
        name: The name of the tool in the toolkit.
        configs: The actions of the model.
        options: The options of every tool.
    """
    id_ = "anthropic.browser_toolset_20260801"
    make = local_tool(id_, name, "browser", _BROWSER, list[ToolContent], _BrowserToolset)
    return make(configs=configs, **options)
