"""The example agent of `fxai run`. It reads the files of the current folder and changes nothing.

The agent has one typed tool and two dynamic tools, which an MCP server listed. The handlers use the service `Folder`,
and the layer of the example provides the current folder.

>>> list(kit.tools)
['count_lines', 'list_directory', 'read_text_file']
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, final

import msgspec

from fxai.agents import Agent, Budget
from fxai.cli.folder import Folder, folder, is_readable
from fxai.effects import Gen
from fxai.tools import BoundToolkit, Example, Tool, Toolkit
from fxai.tools.annotation import Destructive, OpenWorld, Readonly

_PLAIN_NAME: Final = re.compile(r"[A-Z]{4,}|[A-Za-z][\w-]*\.(md|txt|toml|py|json|csv|cfg|ini)")
_MOST_NAMES: Final = 40
_MOST_CHARACTERS: Final = 800


# ---- a tool with Python types for its parameters, its result, and its failure


@final
class SampleFile(msgspec.Struct, frozen=True):
    """A file with its path."""

    path: str


@final
class Counted(msgspec.Struct, frozen=True):
    """The length of a text file."""

    path: str
    lines: int
    words: int


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


count_lines: Final = Tool.make(
    "count_lines",
    description="Counts the lines and words of a text file.",
    parameters=SampleFile,
    success=Counted,
    failure=str,
    failure_mode="return",  # the model reads the failure, and the run continues
    to_model_output=lambda at: f"{at.path} has {_count(at.lines, 'line')} and {_count(at.words, 'word')}.",
    input_examples=[
        Example("How many lines are in main.py?", {"path": "main.py"}),
        Example("Count the words of data.csv", {"path": "data.csv"}),
        Example("How many words does index.html have?", {"path": "index.html"}),
        Example("Please count the lines of app.js", {"path": "app.js"}),
        Example("words of intro.md?", {"path": "intro.md"}),
        Example("Tell me how many lines COPYING has", {"path": "COPYING"}),
    ],
)


def on_count(file: SampleFile) -> Gen[Counted, str, Folder]:
    """Count the lines and words of a file in the folder."""
    here = yield from Folder
    text = yield from here.text(file.path)
    return Counted(file.path, len(text.splitlines()), len(text.split()))


# ---- tools with the unchanged JSON Schemas of a server, and handlers in Python


_SERVERS: Final = json.loads(files("fxai.cli").joinpath("listed_tools.json").read_text(encoding="utf-8"))["servers"]
_LISTED: Final[dict[str, dict[str, Any]]] = {tool["name"]: tool for server in _SERVERS for tool in server["tools"]}


@final
class Names(msgspec.Struct, frozen=True):
    """The names in a directory."""

    path: str
    names: tuple[str, ...]


def _names_text(found: Names) -> str:
    here = found.path in ("", ".", "./")
    if not found.names:
        return "This folder is empty." if here else f"{found.path} is empty."
    more = len(found.names) - _MOST_NAMES
    names = ", ".join(found.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"This folder contains {names}." if here else f"{found.path} contains {names}."


list_directory: Final = Tool.dynamic(
    "list_directory",
    description=_LISTED["list_directory"]["description"],
    parameters=_LISTED["list_directory"]["inputSchema"],
    success=Names,
    failure=str,
    failure_mode="return",
    to_model_output=_names_text,
    input_examples=[
        Example("Which files are here?", {"path": "."}),
        Example("List this directory", {"path": "."}),
        Example("What is in this folder?", {"path": "."}),
        Example("What's in the current directory?", {"path": "."}),
        Example("Show me all files", {"path": "."}),
        Example("List the folder img", {"path": "img"}),
        Example("What is in the folder lib?", {"path": "lib"}),
        Example("Which files are in app?", {"path": "app"}),
    ],
)


def on_list(params: object) -> Gen[Names, str, Folder]:
    """List a directory of the folder. The server's schema has validated the parameters, which are JSON values."""
    path = msgspec.convert(params, SampleFile).path
    here = yield from Folder
    return Names(path, (yield from here.names(path)))


@final
class FileText(msgspec.Struct, frozen=True):
    """The text of a file, or the requested part of it."""

    path: str
    text: str


def _file_text(read: FileText) -> str:
    text = read.text[:_MOST_CHARACTERS].strip()
    cut = f" … (the first {_MOST_CHARACTERS:,} of {len(read.text):,} characters)"
    return f"{read.path} says: {text}" + (cut if len(read.text) > _MOST_CHARACTERS else "")


read_text_file: Final = Tool.dynamic(
    "read_text_file",
    description=_LISTED["read_text_file"]["description"],
    parameters=_LISTED["read_text_file"]["inputSchema"],
    success=FileText,
    failure=str,
    failure_mode="return",
    to_model_output=_file_text,
    input_examples=[
        Example("Show me the file setup.cfg", {"path": "setup.cfg"}),
        Example("What does todo.txt say?", {"path": "todo.txt"}),
        Example("Read letter.md", {"path": "letter.md"}),
        Example("Can you open plan.txt please?", {"path": "plan.txt"}),
        Example("cat main.c", {"path": "main.c"}),
        Example("Show the contents of COPYING", {"path": "COPYING"}),
    ],
)


@final
class _FileReading(msgspec.Struct, frozen=True):
    path: str
    head: float = 1e9
    tail: float = 1e9


def on_read(params: object) -> Gen[FileText, str, Folder]:
    """Read a file of the folder, or its first or last lines."""
    wanted = msgspec.convert(params, _FileReading)
    here = yield from Folder
    lines = (yield from here.text(wanted.path)).splitlines(keepends=True)
    lines = lines[: int(min(max(0, wanted.head), 1e9))]
    lines = lines[max(0, len(lines) - int(min(max(0, wanted.tail), 1e9))) :]
    return FileText(wanted.path, "".join(lines))


# ---- the tools with their handlers for the current folder


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
"""The layer of the handlers that also reads files with secrets."""


def prompts(root: str | Path = ".") -> tuple[str, ...]:
    """Return the prompts of `fxai run` without a prompt. They name only text files of the folder `root`.

    The last prompt names a short file, because its answer is the whole text.
    """
    found: list[Path] = []
    with suppress(OSError):
        found = [path for path in Path(root).iterdir() if _PLAIN_NAME.fullmatch(path.name) and is_readable(path)]
    found.sort(key=lambda path: (path.name != "README.md", path.name))
    listing = ("Which files are here?",)
    if not found:
        return listing
    shortest = min(found, key=lambda path: path.stat().st_size)
    shown = (f"What does {shortest.name} say?",) if shortest.stat().st_size <= 2000 else ()
    return (f"How many lines are in {found[0].name}?", *listing, *shown)


agent: Final = Agent.make(
    "files",
    toolkit=kit,
    budget=Budget(rounds=6),
    max_tokens=120,
    stop=(". ",),  # a model of this size repeats itself after one sentence
)
