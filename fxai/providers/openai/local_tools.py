"""Local tools: defined by OpenAI and run here, ready for a toolkit; each needs a handler.

They exist on Responses; Chat Completions has `custom` alone.

>>> shell().requires_handler, shell(environment=ContainerReference(container_id="c-1")).requires_handler
(True, False)
"""

# The type variable of failures has a default: that of the argument that it stands for.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from typing import Annotated, Any, Literal, Never, TypeAlias, final, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack

from fxai.models.prepared_tools import HostedTool, Setting, local_tool
from fxai.providers.openai.hosted_tools import ContainerAuto, ContainerReference, HostedContainer, openai_tool
from fxai.schema.codec import Schema
from fxai.tools.tool import Tool
from fxai.tools.tool_options import ToolOptions

# -- shell


@final
class ShellAction(msgspec.Struct, frozen=True, kw_only=True):
    """Commands to run, one after the other.

    Attributes:
        commands: Each a line for the shell.
        timeout_ms: How long each may take, in milliseconds; None: no wish.
        max_output_length: How many characters of output it wants at most; None: no wish.
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
        timeout_ms: How long it may take, in milliseconds; None: no wish.
        user: Whom to run it as; None: no wish.
        working_directory: Where to run it; None: no wish.
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


_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F", default=Never)


_PATCH: Schema[PatchOperation] = Schema.of(PatchOperation)


@final
class LocalSkill(Setting, frozen=True):
    """A skill in a folder of this machine."""

    name: str
    description: str
    path: str


@final
class LocalEnvironment(Setting, frozen=True, tag_field="type", tag="local"):
    """This machine: a handler runs the commands."""

    skills: tuple[LocalSkill, ...] | None = None


class _Shell(Setting, frozen=True):
    environment: ContainerAuto | ContainerReference | LocalEnvironment | None = None


@overload
def shell(
    *, name: str = ..., environment: LocalEnvironment | None = None, **options: Unpack[ToolOptions]
) -> Tool[ShellAction, list[ShellOutput], str]: ...
@overload
def shell(*, name: str = ..., environment: HostedContainer, **options: Unpack[ToolOptions]) -> HostedTool: ...
def shell(
    *,
    name: str = "shell",
    environment: LocalEnvironment | HostedContainer | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """A shell: on this machine, by a handler, or in a container of OpenAI's, without one.

    Args:
        name: its name in the toolkit.
        environment: where it is; None: here. The handler gives one `ShellOutput` for each command.
        options: those of every tool.
    """
    if isinstance(environment, ContainerAuto | ContainerReference):
        return openai_tool("shell", name, _Shell, {"environment": environment}, options)
    make = local_tool("openai.shell", name, "shell", ShellAction, list[ShellOutput], _Shell)
    return make(environment=environment, **options)


def local_shell(*, name: str = "local_shell", **options: Unpack[ToolOptions]) -> Tool[LocalShellAction, str, str]:
    """The earlier shell on this machine: one command at a time, its handler gives the output as text."""
    return local_tool("openai.local_shell", name, "local_shell", LocalShellAction, str)(**options)


def apply_patch(*, name: str = "apply_patch", **options: Unpack[ToolOptions]) -> Tool[PatchOperation, str, str]:
    """Changes to files, by diffs; its handler makes them and gives what the model should know, or why it could not."""
    return local_tool("openai.apply_patch", name, "apply_patch", _PATCH, str)(**options)


def computer(*, name: str = "computer", **options: Unpack[ToolOptions]) -> Tool[ComputerActions, Screen, str]:
    """A computer that the model uses; its handler does the actions and gives a picture of the screen."""
    return local_tool("openai.computer", name, "computer", ComputerActions, Screen)(**options)


class _ComputerUsePreview(Setting, frozen=True):
    display_width: Annotated[int, msgspec.Meta(ge=1)]
    display_height: Annotated[int, msgspec.Meta(ge=1)]
    environment: Literal["windows", "mac", "linux", "ubuntu", "browser"]


def computer_use_preview(
    *,
    display_width: int,
    display_height: int,
    environment: Literal["windows", "mac", "linux", "ubuntu", "browser"],
    name: str = "computer_use_preview",
    **options: Unpack[ToolOptions],
) -> Tool[ComputerActions, Screen, str]:
    """The earlier `computer`, which is set up with its size in pixels and what it is."""
    wire = "computer_use_preview"
    make = local_tool(f"openai.{wire}", name, wire, ComputerActions, Screen, _ComputerUsePreview)
    size = {"display_width": display_width, "display_height": display_height}
    return make(**size, environment=environment, **options)


@final
class Grammar(Setting, frozen=True, tag_field="type", tag="grammar"):
    """The input is a sentence of a grammar, in the syntax of Lark or as a regular expression."""

    syntax: Literal["lark", "regex"]
    definition: str


class _Custom(Setting, frozen=True):
    format: Grammar | None = None


@overload
def custom(
    name: str, *, format: Grammar | None = None, failure: type[_F] | Schema[_F] = ..., **options: Unpack[ToolOptions]
) -> Tool[str, str, _F]: ...
@overload
def custom(
    name: str,
    *,
    format: Grammar | None = None,
    success: type[_S] | Schema[_S],
    failure: type[_F] | Schema[_F] = ...,
    **options: Unpack[ToolOptions],
) -> Tool[str, _S, _F]: ...
@overload
def custom(
    name: str, *, format: Grammar | None = None, failure: TypeForm[_F] = ..., **options: Unpack[ToolOptions]
) -> Tool[str, str, _F]: ...
@overload
def custom(
    name: str,
    *,
    format: Grammar | None = None,
    success: TypeForm[_S],
    failure: TypeForm[_F] = ...,
    **options: Unpack[ToolOptions],
) -> Tool[str, _S, _F]: ...
def custom(
    name: str,
    *,
    format: Grammar | None = None,
    success: Any = str,
    failure: Any = Never,
    **options: Unpack[ToolOptions],
) -> Any:
    """A tool of our own whose input is a text, not JSON.

    Args:
        name: what the model calls it.
        format: the grammar that the text is a sentence of; None: any text.
        success: the type of what comes out; by default a text.
        failure: the type of what can go wrong; by default nothing can.
        options: those of every tool.

    Raises:
        SchemaError: an arg of a wrong type, a type without a JSON form, or an empty name.
    """
    make = Tool.provider_defined(
        id="openai.custom",
        name=name,
        provider_name=None,
        requires_handler=True,
        args=_Custom,
        parameters=str,
        success=success,
        failure=failure,
    )
    return make(format=format, **options)


class _ToolSearch(Setting, frozen=True):
    execution: Literal["client"] | None = None
    parameters: dict[str, Any] | None = None


@overload
def tool_search(*, name: str = ..., **options: Unpack[ToolOptions]) -> HostedTool: ...
@overload
def tool_search(
    *, name: str = ..., parameters: type[_P] | Schema[_P], **options: Unpack[ToolOptions]
) -> Tool[_P, list[dict[str, Any]], str]: ...
@overload
def tool_search(
    *, name: str = ..., parameters: TypeForm[_P], **options: Unpack[ToolOptions]
) -> Tool[_P, list[dict[str, Any]], str]: ...
def tool_search(*, name: str = "tool_search", parameters: Any = None, **options: Unpack[ToolOptions]) -> Any:
    """The search that finds tools annotated with `DeferLoading`.

    Args:
        name: its name in the toolkit.
        parameters: what the model searches by; then the search is ours, and its handler gives the tools that it
            found, as the provider has them. None: the provider searches.
        options: those of every tool.
    """
    if parameters is None:
        return openai_tool("tool_search", name, _ToolSearch, {}, options)
    schema = Schema[Any].of(parameters)
    make = local_tool("openai.tool_search", name, "tool_search", schema, list[dict[str, Any]], _ToolSearch)
    return make(execution="client", parameters=schema.json_schema(), **options)
