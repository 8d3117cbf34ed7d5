"""The parameters and results of OpenAI's own tools that run here.

>>> ShellAction(commands=("ls",)).timeout_ms is None
True
>>> Click(button="left", x=10, y=20).x
10
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

__all__ = [
    "Click",
    "ComputerAction",
    "ComputerActions",
    "CreateFile",
    "DeleteFile",
    "DoubleClick",
    "Drag",
    "Keypress",
    "LocalShellAction",
    "Move",
    "PatchOperation",
    "Point",
    "SafetyCheck",
    "Screen",
    "Screenshot",
    "Scroll",
    "ShellAction",
    "ShellExit",
    "ShellOutput",
    "ShellTimeout",
    "Type",
    "UpdateFile",
    "Wait",
]

# -- shell


@final
class ShellAction(msgspec.Struct, frozen=True, kw_only=True):
    """Commands to run, one after the other.

    Attributes:
        commands: Each a line for the shell.
        timeout_ms: How long each may take, in milliseconds; None: not said.
        max_output_length: How many characters of output it wants at most; None: not said.
    """

    commands: tuple[str, ...]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@final
class ShellExit(msgspec.Struct, frozen=True, tag_field="type", tag="exit"):
    """The command ended, with this exit code."""

    exit_code: int


@final
class ShellTimeout(msgspec.Struct, frozen=True, tag_field="type", tag="timeout"):
    """The command was stopped when its time was over."""


@final
class ShellOutput(msgspec.Struct, frozen=True):
    """What a command wrote, and how it ended."""

    stdout: str
    stderr: str
    outcome: ShellExit | ShellTimeout


@final
class LocalShellAction(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="exec"):
    """One command to run, as `local_shell` asks for it.

    Attributes:
        command: The program and its arguments.
        env: Environment variables to set.
        timeout_ms: How long it may take, in milliseconds; None: not said.
        user: Whom to run it as; None: not said.
        working_directory: Where to run it; None: not said.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None

    def __hash__(self) -> int:
        return hash((self.command, frozenset(self.env.items()), self.working_directory))


# -- apply patch


@final
class CreateFile(msgspec.Struct, frozen=True, tag_field="type", tag="create_file"):
    """Write a new file; `diff` holds its lines, in the V4A format."""

    path: str
    diff: str


@final
class UpdateFile(msgspec.Struct, frozen=True, tag_field="type", tag="update_file"):
    """Change a file by a diff in the V4A format."""

    path: str
    diff: str


@final
class DeleteFile(msgspec.Struct, frozen=True, tag_field="type", tag="delete_file"):
    """Delete a file."""

    path: str


PatchOperation: TypeAlias = CreateFile | UpdateFile | DeleteFile
"""What `apply_patch` asks for."""


# -- computer


@final
class Point(msgspec.Struct, frozen=True):
    """A place on the screen, in pixels from the left and the top."""

    x: int
    y: int


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What a computer is asked to do."""


@final
class Click(_Action, frozen=True, tag="click"):
    """Click, with `keys` held down."""

    button: Literal["left", "right", "wheel", "back", "forward"]
    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class DoubleClick(_Action, frozen=True, tag="double_click"):
    """Click twice, with `keys` held down."""

    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class Drag(_Action, frozen=True, tag="drag"):
    """Press the button at the first point, move along the others, let go at the last."""

    path: tuple[Point, ...]
    keys: tuple[str, ...] | None = None


@final
class Keypress(_Action, frozen=True, tag="keypress"):
    """Press keys together."""

    keys: tuple[str, ...]


@final
class Move(_Action, frozen=True, tag="move"):
    """Move the pointer, with `keys` held down."""

    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class Screenshot(_Action, frozen=True, tag="screenshot"):
    """Take a picture of the screen."""


@final
class Scroll(_Action, frozen=True, tag="scroll"):
    """Scroll at a point, by pixels, with `keys` held down."""

    x: int
    y: int
    scroll_x: int
    scroll_y: int
    keys: tuple[str, ...] | None = None


@final
class Type(_Action, frozen=True, tag="type"):
    """Type a text."""

    text: str


@final
class Wait(_Action, frozen=True, tag="wait"):
    """Wait a little."""


ComputerAction: TypeAlias = Click | DoubleClick | Drag | Keypress | Move | Screenshot | Scroll | Type | Wait
"""One thing that a computer is asked to do."""


@final
class SafetyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person should look at before the actions are done."""

    id: str
    code: str | None = None
    message: str | None = None


@final
class ComputerActions(msgspec.Struct, frozen=True, kw_only=True):
    """What a computer is asked to do, in this order, and what should be looked at first.

    Attributes:
        actions: What to do; where only one thing is asked for, a list of one.
        pending_safety_checks: What a person should look at.
    """

    actions: tuple[ComputerAction, ...]
    pending_safety_checks: tuple[SafetyCheck, ...] = ()


@final
class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of the screen afterwards: a URL (also `data:`), or the id of an uploaded file."""

    image_url: str | None = None
    file_id: str | None = None
