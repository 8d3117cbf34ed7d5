"""Local tools that OpenAI defines and your handler runs. Use a constructor to add a tool to a toolkit.

The tools exist on Responses. Chat Completions supports only `custom`.

>>> shell().requires_handler, shell(environment=ContainerReference(container_id="c-1")).requires_handler
(True, False)
"""

# The type variables of results and failures need defaults for the arguments that callers omit.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from typing import Annotated, Any, Literal, Never, TypeAlias, final, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack

from fxai.models.prepared_tools import HostedTool, Setting, local_tool
from fxai.providers.openai.hosted_tools import ContainerAuto, ContainerReference, HostedContainer, openai_tool
from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject
from fxai.tools.tool import Tool
from fxai.tools.tool_options import ToolOptions

# -- shell


@final
class ShellAction(msgspec.Struct, frozen=True, kw_only=True):
    """Commands to run one after another."""

    commands: tuple[str, ...]
    """The command lines for the shell."""
    timeout_ms: int | None = None
    """The time limit of each command in milliseconds. None if the model sets no limit."""
    max_output_length: int | None = None
    """The maximum number of characters of output. None if the model sets no limit."""


@final
class ShellExit(msgspec.Struct, frozen=True, tag_field="type", tag="exit"):
    """The normal end of a command, with its exit code."""

    exit_code: int


@final
class ShellTimeout(msgspec.Struct, frozen=True, tag_field="type", tag="timeout"):
    """The end of a command that exceeded its time limit."""


@final
class ShellOutput(msgspec.Struct, frozen=True):
    """The output and the end of a command."""

    stdout: str
    stderr: str
    outcome: ShellExit | ShellTimeout


@final
class LocalShellAction(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="exec"):
    """A command of `local_shell`."""

    command: tuple[str, ...]
    """The program and its arguments."""
    env: dict[str, str]
    """Environment variables to set."""
    timeout_ms: int | None = None
    """The time limit in milliseconds. None if the model sets no limit."""
    user: str | None = None
    """The user that runs the command. None if the model names no user."""
    working_directory: str | None = None
    """The working directory. None if the model names no directory."""

    def __hash__(self) -> int:
        return hash((self.command, frozenset(self.env.items()), self.working_directory))


# -- apply patch


@final
class CreateFile(msgspec.Struct, frozen=True, tag_field="type", tag="create_file"):
    """Write a new file. `diff` contains its lines in the V4A format."""

    path: str
    diff: str


@final
class UpdateFile(msgspec.Struct, frozen=True, tag_field="type", tag="update_file"):
    """Change a file with a diff in the V4A format."""

    path: str
    diff: str


@final
class DeleteFile(msgspec.Struct, frozen=True, tag_field="type", tag="delete_file"):
    """Delete a file."""

    path: str


PatchOperation: TypeAlias = CreateFile | UpdateFile | DeleteFile
"""An operation of `apply_patch`."""


# -- computer


@final
class Point(msgspec.Struct, frozen=True):
    """A position on the screen, in pixels from the left and the top."""

    x: int
    y: int


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """An action of a computer."""


@final
class Click(_Action, frozen=True, tag="click"):
    """Click while `keys` are pressed."""

    button: Literal["left", "right", "wheel", "back", "forward"]
    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class DoubleClick(_Action, frozen=True, tag="double_click"):
    """Click twice while `keys` are pressed."""

    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class Drag(_Action, frozen=True, tag="drag"):
    """Press the button at the first point, move along the points, and release it at the last point."""

    path: tuple[Point, ...]
    keys: tuple[str, ...] | None = None


@final
class Keypress(_Action, frozen=True, tag="keypress"):
    """Press several keys together."""

    keys: tuple[str, ...]


@final
class Move(_Action, frozen=True, tag="move"):
    """Move the pointer while `keys` are pressed."""

    x: int
    y: int
    keys: tuple[str, ...] | None = None


@final
class Screenshot(_Action, frozen=True, tag="screenshot"):
    """Take a screenshot."""


@final
class Scroll(_Action, frozen=True, tag="scroll"):
    """Scroll at a position by pixels while `keys` are pressed."""

    x: int
    y: int
    scroll_x: int
    scroll_y: int
    keys: tuple[str, ...] | None = None


@final
class Type(_Action, frozen=True, tag="type"):
    """Type text."""

    text: str


@final
class Wait(_Action, frozen=True, tag="wait"):
    """Wait for a short time."""


ComputerAction: TypeAlias = Click | DoubleClick | Drag | Keypress | Move | Screenshot | Scroll | Type | Wait
"""An action of a computer."""


@final
class SafetyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A risk that a person should check before the actions run."""

    id: str
    code: str | None = None
    message: str | None = None


@final
class ComputerActions(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of a computer in order, and the safety checks before them."""

    actions: tuple[ComputerAction, ...]
    """The actions. A single action is a tuple with one item."""
    pending_safety_checks: tuple[SafetyCheck, ...] = ()
    """The safety checks for a person."""


@final
class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A screenshot after the actions: a URL (also `data:`), or the id of an uploaded file."""

    image_url: str | None = None
    file_id: str | None = None


_P = TypeVar("_P")
_S = TypeVar("_S", default=str)
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
    """The environment of this machine. A handler runs the commands."""

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
    """Create a shell on this machine with a handler, or in a container of OpenAI without a handler.

    Args:
        name: The name of the tool in the toolkit.
        environment: The machine or container. By default this machine. The handler returns one `ShellOutput` for each
            command.
        options: The options of every tool.
    """
    if isinstance(environment, ContainerAuto | ContainerReference):
        return openai_tool("shell", name, _Shell, {"environment": environment}, options)
    make = local_tool("openai.shell", name, "shell", ShellAction, list[ShellOutput], _Shell)
    return make(environment=environment, **options)


def local_shell(*, name: str = "local_shell", **options: Unpack[ToolOptions]) -> Tool[LocalShellAction, str, str]:
    """Create the earlier shell on this machine. It runs one command per call, and its handler returns text."""
    return local_tool("openai.local_shell", name, "local_shell", LocalShellAction, str)(**options)


def apply_patch(*, name: str = "apply_patch", **options: Unpack[ToolOptions]) -> Tool[PatchOperation, str, str]:
    """Create a tool that changes files with diffs. Its handler applies them and returns a message for the model."""
    return local_tool("openai.apply_patch", name, "apply_patch", _PATCH, str)(**options)


def computer(*, name: str = "computer", **options: Unpack[ToolOptions]) -> Tool[ComputerActions, Screen, str]:
    """Create a computer for the model. Its handler runs the actions and returns a screenshot."""
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
    """Create the earlier `computer` with its size in pixels and its kind."""
    wire = "computer_use_preview"
    make = local_tool(f"openai.{wire}", name, wire, ComputerActions, Screen, _ComputerUsePreview)
    size = {"display_width": display_width, "display_height": display_height}
    return make(**size, environment=environment, **options)


@final
class Grammar(Setting, frozen=True, tag_field="type", tag="grammar"):
    """A grammar for the input, in the syntax of Lark or as a regular expression."""

    syntax: Literal["lark", "regex"]
    definition: str


class _Custom(Setting, frozen=True):
    format: Grammar | None = None


@overload
def custom(
    name: str,
    *,
    format: Grammar | None = None,
    success: type[_S] | Schema[_S] = ...,
    failure: type[_F] | Schema[_F] = ...,
    **options: Unpack[ToolOptions],
) -> Tool[str, _S, _F]: ...
@overload
def custom(
    name: str,
    *,
    format: Grammar | None = None,
    success: TypeForm[_S] = ...,
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
    """Create a tool whose input is a string instead of JSON. Your handler runs it.

    Args:
        name: The name of the tool for the model.
        format: The grammar of the input. By default any string.
        success: The type of the result. By default a string.
        failure: The type of failures. By default the tool has no failures.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type, if a type has no JSON form, or if the name is empty.
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
    parameters: JsonObject | None = None


@overload
def tool_search(*, name: str = ..., **options: Unpack[ToolOptions]) -> HostedTool: ...
@overload
def tool_search(
    *, name: str = ..., parameters: type[_P] | Schema[_P], **options: Unpack[ToolOptions]
) -> Tool[_P, list[JsonObject], str]: ...
@overload
def tool_search(
    *, name: str = ..., parameters: TypeForm[_P], **options: Unpack[ToolOptions]
) -> Tool[_P, list[JsonObject], str]: ...
def tool_search(*, name: str = "tool_search", parameters: Any = None, **options: Unpack[ToolOptions]) -> Any:
    """Create a search for tools with the annotation `DeferLoading`.

    Args:
        name: The name of the tool in the toolkit.
        parameters: The parameters of the search. If you set them, your handler searches and returns the tools in the
            provider's form. By default the provider searches.
        options: The options of every tool.
    """
    if parameters is None:
        return openai_tool("tool_search", name, _ToolSearch, {}, options)
    schema = Schema[Any].of(parameters)
    make = local_tool("openai.tool_search", name, "tool_search", schema, list[JsonObject], _ToolSearch)
    return make(execution="client", parameters=schema.json_schema(), **options)
