"""Shell, editor and memory: what Anthropic's own tools ask for when we run them.

>>> import msgspec
>>> msgspec.convert({"command": "view", "path": "a.txt"}, EditorCommand)
View(path='a.txt', view_range=None)
"""

from __future__ import annotations

from typing import TypeAlias, final

import msgspec

__all__ = [
    "BashCommand",
    "Create",
    "Delete",
    "EditorCommand",
    "EditorCommand20250124",
    "Insert",
    "InsertNewStr",
    "MemoryCommand",
    "Rename",
    "StrReplace",
    "UndoEdit",
    "View",
]


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
