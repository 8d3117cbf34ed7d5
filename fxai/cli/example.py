"""The example agent of `fxai run`. It reads the files of the current folder and changes nothing.

The agent has one typed tool and two dynamic tools, which an MCP server listed. The handlers use the service `Folder`,
and the layer of the example provides the current folder.

>>> list(kit.tools)
['count_lines', 'list_directory', 'read_text_file']
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, final

import msgspec

from fxai.agents.agent import Agent
from fxai.agents.run_options import Budget
from fxai.cli.folder import REFUSED, Folder, Refused, folder
from fxai.effects.effect import Gen
from fxai.tools.tool import Tool
from fxai.tools.tool_options import Destructive, Example, OpenWorld, Readonly
from fxai.tools.toolkit import BoundToolkit, Toolkit

PROMPTS: Final = (
    "How many lines are in README.md?",
    "Which files are here?",
    "Count the words of README.md",
)
"""The prompts of `fxai run` without a prompt."""

_MOST_NAMES: Final = 40
_MOST_CHARACTERS: Final = 800


# ---- a tool of our own: types in, types out, a failure that is a type too


@final
class File(msgspec.Struct, frozen=True):
    """A file, by its path."""

    path: str


@final
class Counted(msgspec.Struct, frozen=True):
    """How long a text file is."""

    path: str
    lines: int
    words: int


def _count_text(counted: Counted) -> str:
    return f"{counted.path} has {counted.lines} lines and {counted.words} words"


count_lines: Final = Tool.make(
    "count_lines",
    description="Counts the lines and words of a text file.",
    parameters=File,
    success=Counted,
    failure=REFUSED,
    failure_mode="return",  # the model reads what went wrong, and the run goes on
    to_model_output=_count_text,
    input_examples=[
        Example("How many lines are in main.py?", {"path": "main.py"}),
        Example("Count the words of data.csv", {"path": "data.csv"}),
        Example("How many words does index.html have?", {"path": "index.html"}),
    ],
)


def on_count(file: File) -> Gen[Counted, Refused, Folder]:
    """Counts what the folder has."""
    here = yield from Folder
    text = yield from here.text(file.path)
    return Counted(file.path, len(text.splitlines()), len(text.split()))


# ---- tools that a server lists: their JSON Schemas as they came, handlers of our own


@cache
def _listed_tool(server: str, name: str) -> dict[str, Any]:
    """A tool as a server listed it."""
    document = json.loads(files("fxai.cli").joinpath("listed_tools.json").read_text(encoding="utf-8"))
    tools = next(each["tools"] for each in document["servers"] if each["server"] == server)
    found: dict[str, Any] = next(tool for tool in tools if tool["name"] == name)
    return found


@final
class Names(msgspec.Struct, frozen=True):
    """What is in a folder."""

    path: str
    names: tuple[str, ...]


def _names_text(found: Names) -> str:
    """As the local model copies it best."""
    here = found.path in ("", ".", "./")
    if not found.names:
        return "this folder is empty" if here else f"{found.path} is empty"
    more = len(found.names) - _MOST_NAMES
    names = ", ".join(found.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"this folder has {names}" if here else f"the files in {found.path} are {names}"


list_directory: Final = Tool.dynamic(
    "list_directory",
    description=_listed_tool("filesystem", "list_directory")["description"],
    parameters=_listed_tool("filesystem", "list_directory")["inputSchema"],
    success=Names,
    failure=REFUSED,
    failure_mode="return",
    to_model_output=_names_text,
    input_examples=[
        Example("Which files are here?", {"path": "."}),
        Example("Which files are in src?", {"path": "src"}),
        Example("List the folder img", {"path": "img"}),
        Example("What is in the folder lib?", {"path": "lib"}),
    ],
)


def on_list(params: object) -> Gen[Names, Refused, Folder]:
    """Lists what the folder has. The parameters are plain JSON, which the server's schema has let through."""
    path = msgspec.convert(params, File).path
    here = yield from Folder
    return Names(path, (yield from here.names(path)))


@final
class Text(msgspec.Struct, frozen=True):
    """The text of a file, or the part of it that was asked for."""

    path: str
    text: str


def _file_text(read: Text) -> str:
    text = read.text[:_MOST_CHARACTERS].strip()
    cut = f" … (the first {_MOST_CHARACTERS:,} of {len(read.text):,} characters)"
    return f"{read.path} says: {text}" + (cut if len(read.text) > _MOST_CHARACTERS else "")


read_text_file: Final = Tool.dynamic(
    "read_text_file",
    description=_listed_tool("filesystem", "read_text_file")["description"],
    parameters=_listed_tool("filesystem", "read_text_file")["inputSchema"],
    success=Text,
    failure=REFUSED,
    failure_mode="return",
    to_model_output=_file_text,
    input_examples=[
        Example("Show me the file setup.cfg", {"path": "setup.cfg"}),
        Example("What does todo.txt say?", {"path": "todo.txt"}),
        Example("Read letter.md", {"path": "letter.md"}),
    ],
)


@final
class _Reading(msgspec.Struct, frozen=True):
    path: str
    head: float | None = None
    tail: float | None = None


def _whole(number: float) -> int:
    """The number as a count: none below 0, and none that no file has."""
    return int(min(max(0.0, number), 1e9))


def on_read(params: object) -> Gen[Text, Refused, Folder]:
    """Reads a file of the folder, or its first or last lines."""
    wanted = msgspec.convert(params, _Reading)
    here = yield from Folder
    lines = (yield from here.text(wanted.path)).splitlines(keepends=True)
    if wanted.head is not None:
        lines = lines[: _whole(wanted.head)]
    if wanted.tail is not None:
        lines = lines[max(0, len(lines) - _whole(wanted.tail)) :]
    return Text(wanted.path, "".join(lines))


# ---- the tools with their handlers, on the current folder


kit: Final = Toolkit.make(count_lines, list_directory, read_text_file).annotate_all(
    {Readonly: True, Destructive: False, OpenWorld: False}
)
handlers: Final = kit.to_layer(
    count_lines.handler(on_count) | list_directory.handler(on_list) | read_text_file.handler(on_read)
)
layer: Final = handlers.provide(folder("."))
tools: Final = BoundToolkit.of(kit, layer)
"""The tools with their handlers, as a target of `fxai worker`."""
open_layer: Final = handlers.provide(folder(".", secrets=True))
"""The same where files are read, too, that may hold secrets."""
agent: Final = Agent.make(
    "files",
    toolkit=kit,
    budget=Budget(rounds=6),
    max_tokens=120,
    stop=(". ",),  # one sentence: after that, a model of this size repeats itself
)
