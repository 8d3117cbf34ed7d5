"""The example agent of `fxai run`. It counts and lists the files of the current folder, and changes nothing.

>>> list(tools.toolkit.tools)
['count_lines', 'list_directory']
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import msgspec
from typing_extensions import TypeVar

from fxai.agents import Agent, Budget
from fxai.effects import Effect, fx, thread
from fxai.tools import BoundToolkit, Example, Tool, Toolkit
from fxai.tools.annotation import Destructive, OpenWorld, Readonly

_PLAIN_NAME: Final = re.compile(r"[A-Z]{4,}|[A-Za-z][\w-]*\.(md|txt|toml|py|json|csv|cfg|ini)")
_LARGEST: Final = 2 * 1024 * 1024
_MOST_NAMES: Final = 40

_A = TypeVar("_A")


@final
class InFolder(msgspec.Struct, frozen=True):
    """A file or a directory with its path."""

    path: str


@final
class Counted(msgspec.Struct, frozen=True):
    """The length of a text file."""

    path: str
    lines: int
    words: int


@final
class Names(msgspec.Struct, frozen=True):
    """The names in a directory, sorted, without hidden names. A slash ends the name of a directory."""

    path: str
    names: tuple[str, ...]


def _say_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _names_text(found: Names) -> str:
    here = found.path in ("", ".", "./")
    if not found.names:
        return "This folder is empty." if here else f"{found.path} is empty."
    more = len(found.names) - _MOST_NAMES
    names = ", ".join(found.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"This folder contains {names}." if here else f"{found.path} contains {names}."


count_lines: Final = Tool.make(
    "count_lines",
    description="Counts the lines and words of a text file.",
    parameters=InFolder,
    success=Counted,
    failure=str,
    failure_mode="return",  # the model reads the failure, and the run continues
    to_model_output=lambda at: f"{at.path} has {_say_count(at.lines, 'line')} and {_say_count(at.words, 'word')}.",
    input_examples=[
        Example("How many lines are in main.py?", {"path": "main.py"}),
        Example("Count the words of data.csv", {"path": "data.csv"}),
        Example("How many words does index.html have?", {"path": "index.html"}),
        Example("Please count the lines of app.js", {"path": "app.js"}),
        Example("words of intro.md?", {"path": "intro.md"}),
        Example("Tell me how many lines COPYING has", {"path": "COPYING"}),
    ],
)
list_directory: Final = Tool.make(
    "list_directory",
    description="Lists the files and directories in a directory.",
    parameters=InFolder,
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


@final
class _RefusedError(Exception):
    """Carries the reason why a path cannot be read out of a worker thread."""


def _inside(path: str) -> Path:
    """Return the path in the current folder. Refuse a path that leads outside, also through a link."""
    root = Path.cwd().resolve()
    try:
        found = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):  # an impossible name, or links in a circle
        raise _RefusedError("no such file") from None
    if not found.is_relative_to(root):
        raise _RefusedError("outside of this folder")
    return found


def _count_words(path: str) -> Counted:
    file = _inside(path)
    if not file.is_file():  # some devices act when a program opens them
        raise _RefusedError("no file" if file.exists() else "no such file")
    with file.open("rb") as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise _RefusedError("larger than 2 MB")
    if b"\0" in data:
        raise _RefusedError("no text file")
    text = data.decode("utf-8")
    return Counted(path, len(text.splitlines()), len(text.split()))


def _list_names(path: str) -> Names:
    shown = (entry for entry in _inside(path).iterdir() if not entry.name.startswith("."))
    return Names(path, tuple(sorted(entry.name + "/" * entry.is_dir() for entry in shown)))


def _in_thread(path: str, f: Callable[[str], _A]) -> Effect[_A, str]:
    def failure(raised: Exception) -> str | None:
        match raised:
            case _RefusedError():
                return f"{raised}: {path}"
            case UnicodeDecodeError():
                return f"no text file: {path}"
            case NotADirectoryError():
                return f"no folder: {path}"
            case FileNotFoundError():
                return f"no such file: {path}"
            case OSError():
                return f"not readable: {path}"
            case _:
                return None

    return fx.attempt_async(lambda: thread.in_thread(lambda: f(path)), failure)


def on_count(at: InFolder) -> Effect[Counted, str]:
    """Count the lines and words of a file in the current folder."""
    return _in_thread(at.path, _count_words)


def on_list(at: InFolder) -> Effect[Names, str]:
    """List a directory of the current folder."""
    return _in_thread(at.path, _list_names)


kit: Final = Toolkit.make(count_lines, list_directory).annotate_all(
    {Readonly: True, Destructive: False, OpenWorld: False}
)
layer: Final = kit.to_layer(count_lines.handler(on_count) | list_directory.handler(on_list))
tools: Final = BoundToolkit.of(kit, layer)
"""The tools with their handlers, as a target of `fxai worker`."""
agent: Final = Agent.make(
    "files",
    toolkit=kit,
    budget=Budget(rounds=6),
    max_tokens=120,
    stop=(". ",),  # a model of this size repeats itself after one sentence
)


def prompts() -> tuple[str, ...]:
    """Return the prompts of `fxai run` without a prompt. They name only text files of the current folder."""
    try:
        names = [name for name in _list_names(".").names if _PLAIN_NAME.fullmatch(name)]
    except OSError:
        names = []
    names.sort(key=lambda name: name != "README.md")
    found = [name for name in names if _is_text(name)]
    listing = "Which files are here?"
    if not found:
        return (listing,)
    return f"How many lines are in {found[0]}?", listing, f"How many words are in {found[-1]}?"


def _is_text(name: str) -> bool:
    try:
        _count_words(name)
    except (_RefusedError, OSError, UnicodeDecodeError):
        return False
    return True
