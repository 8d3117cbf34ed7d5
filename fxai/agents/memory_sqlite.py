"""Memories in SQLite: one row for each commit, in a transaction that is on the disk before it is acknowledged.

>>> import tempfile
>>> from fxai.effects import fx
>>> with tempfile.TemporaryDirectory() as folder:
...     ann, bob = (SqliteMemory(Path(folder) / "memory.db", name, None, None) for name in ("ann", "bob"))
...     fx.run(ann.commit(Prompt.make("I am Ann.")))
...     len(fx.run(ann.load())), len(fx.run(bob.load()))
(1, 0)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, final

from typing_extensions import override

from fxai.agents.memory import Memory, MemoryFailure, joined, told
from fxai.agents.memory_record import kept_text, read_turn, worked
from fxai.agents.memory_turn import owner, said
from fxai.agents.window import Window
from fxai.effects.effect import Effect
from fxai.messages.prompt import Prompt
from fxai.storage.database import connected, writing

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["SqliteMemory"]

_A = TypeVar("_A")

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS memory_turn (conversation TEXT, number INTEGER, part INTEGER, messages TEXT NOT NULL, "
    "PRIMARY KEY (conversation, number, part)) STRICT, WITHOUT ROWID"
)
_ROWS: Final = "SELECT number, part, messages FROM memory_turn WHERE conversation = ? ORDER BY number DESC, part DESC"
_NEWEST: Final = "SELECT coalesce(max(number), 0) FROM memory_turn WHERE conversation = ?"


@final
class SqliteMemory(Memory):
    """The memory of one conversation in a SQLite database, in WAL mode and synchronised at each commit.

    Readers and one writer go on side by side; a writer waits up to 30 s for others. The rows are read from the newest,
    so reading takes time by the turns in the window.
    """

    def __init__(
        self, path: str | os.PathLike[str], conversation: str, window: Window | None, keep: int | None
    ) -> None:
        """A memory in a database; use `Memory.sqlite`."""
        self._path = Path(path).absolute()
        self._window = window
        self._conversation = conversation
        self._keep = keep

    @override
    def __repr__(self) -> str:
        return told("sqlite", self._path, self._window, self._keep, conversation=self._conversation)

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return worked(self._place, "load", lambda: self._read(lambda turns: joined(self._window, turns)))

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return worked(self._place, "turns", lambda: self._read(lambda turns: tuple(turns)[::-1]))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return worked(self._place, "commit", lambda: self._commit(said(messages)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        return worked(self._place, "clear", self._clear)

    @property
    def _place(self) -> str:
        return f"{self._path}, conversation {self._conversation!r}"

    # -- what threads do

    def _read(self, f: Callable[[Iterator[Prompt]], _A]) -> _A:
        with connected(self._path, _TABLE) as database:
            return f(turn for _, _, turn in self._turns(database))

    def _turns(self, database: Connection) -> Iterator[tuple[int, int, Prompt]]:
        """Of each turn, the newest first: its number, of how many commits it is made, and its messages."""
        rows = database.execute(_ROWS, (self._conversation,))
        for number, group in islice(groupby(rows, lambda row: row[0]), self._keep):
            texts = [row[2] for row in group][::-1]
            try:
                yield number, len(texts), read_turn(texts)
            except OSError as error:
                raise OSError(
                    f"turn {number} is damaged: {error}; take its rows out of the table memory_turn"
                ) from error

    def _commit(self, messages: Prompt) -> None:
        if not len(messages):
            return
        text = kept_text(messages)
        with connected(self._path, _TABLE) as database, writing(database):
            number, part = self._next(database, messages)
            values = (self._conversation, number, part, text)
            database.execute("INSERT INTO memory_turn VALUES (?, ?, ?, ?)", values)
            if self._keep is not None and part == 0:
                old = (self._conversation, number - self._keep)
                database.execute("DELETE FROM memory_turn WHERE conversation = ? AND number <= ?", old)

    def _next(self, database: Connection, messages: Prompt) -> tuple[int, int]:
        """The turn that the messages go to, and as its which part."""
        read: list[tuple[int, int]] = []

        def reading() -> Iterator[Prompt]:
            for number, parts, turn in self._turns(database):
                read.append((number, parts))
                yield turn

        place = owner(messages, reading())
        if place is not None:
            return read[place]
        newest: tuple[int] = database.execute(_NEWEST, (self._conversation,)).fetchone()
        return newest[0] + 1, 0

    def _clear(self) -> None:
        with connected(self._path, _TABLE) as database, writing(database):
            database.execute("DELETE FROM memory_turn WHERE conversation = ?", (self._conversation,))
