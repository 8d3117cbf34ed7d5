"""The option `--memory`: a memory in the file that it names.

>>> memory_at("notes.jsonl")  # doctest: +ELLIPSIS
Memory.file('...notes.jsonl')
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fxai.agents.memory import Memory, MemoryFailure
from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.messages.calls import Pending
from fxai.messages.message import ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.tools.failure import ApprovalUnavailable, Interrupted, encode_failure

__all__ = ["close_calls", "memory_at", "write_obstacle"]

_LEFT: Final = "nobody approved or denied it before the conversation went on"
_UNRUN: Final = "nobody ran it before the conversation went on"
_LINES: Final = (".jsonl", ".ndjson")
_DATABASE: Final = (".db", ".sqlite", ".sqlite3")


def memory_at(path: str) -> Memory:
    """The memory in this file, which need not exist: JSON lines, or a SQLite database, by the end of its name.

    Raises:
        CliError: the name says neither, or no such file can be written.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix not in (*_LINES, *_DATABASE):
        remedy = f"end its name with {_LINES[0]} for a file of JSON lines, or with {_DATABASE[0]} for a SQLite database"
        raise CliError(f"{path} does not say what kind of memory it is", remedy, code=WRONG_USE)
    problem = write_obstacle(place)
    if problem is not None:
        raise CliError(f"nothing can be kept in {path}: {problem}", "name a file that can be written", code=WRONG_USE)
    return Memory.file(place) if suffix in _LINES else Memory.sqlite(place)


@fx.gen
def close_calls(memory: Memory) -> Gen[Prompt, MemoryFailure]:
    """The conversation in a memory; calls that were left open there are closed, so that it can go on."""
    before = yield from memory.load()
    if before.pending:
        left = [_closing_result(one) for one in before.pending]
        yield from memory.commit(Prompt((ToolMessage.make(*left),)))
        return (yield from memory.load())
    return before


def _closing_result(waiting: Pending) -> ToolResultPart:
    if waiting.approval_id is None:
        failure: ApprovalUnavailable | Interrupted = Interrupted(waiting.name, _UNRUN)
    else:
        failure = ApprovalUnavailable(waiting.name, _LEFT)
    encoded = encode_failure(failure)
    return ToolResultPart(waiting.id, waiting.name, encoded, is_failure=True, dynamic=waiting.dynamic)


def write_obstacle(place: Path) -> str | None:
    """Why no such file can be written; None where it can."""
    folder = place.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if place.exists() and not place.is_file():
        return "it is no file"
    return None if os.access(place if place.exists() else folder, os.W_OK) else "it may not be written"
