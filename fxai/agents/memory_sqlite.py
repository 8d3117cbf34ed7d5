"""Memories in SQLite: one row for each commit, in a transaction that is on the disk before it is acknowledged.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     ann, bob = (TurnTable(Path(folder) / "memory.db", name, None) for name in ("ann", "bob"))
...     ann.append(Prompt.make("I am Ann."))
...     ann.read(lambda turns: len(list(turns))), bob.read(lambda turns: len(list(turns)))
(1, 0)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, TypeVar, final

import msgspec

from fxai.agents.memory_record import kept_text, read_turn
from fxai.agents.memory_turn import owner
from fxai.messages.prompt import Prompt
from fxai.storage.database import connected, database_path, writing
from fxai.storage.private_file import is_intact, read_record, sealed, warn

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["TurnTable"]

_A = TypeVar("_A")

_TURNS: Final = (
    "CREATE TABLE IF NOT EXISTS memory_turn (conversation TEXT, number INTEGER, part INTEGER, messages TEXT NOT NULL, "
    "PRIMARY KEY (conversation, number, part)) STRICT, WITHOUT ROWID"
)
_HEADS: Final = (
    "CREATE TABLE IF NOT EXISTS memory_head (conversation TEXT PRIMARY KEY, oldest INTEGER NOT NULL, "
    "newest INTEGER NOT NULL) STRICT, WITHOUT ROWID"
)
_ROWS: Final = "SELECT number, part, messages FROM memory_turn WHERE conversation = ? ORDER BY number DESC, part DESC"
_HEAD: Final = "SELECT oldest, newest FROM memory_head WHERE conversation = ?"
_SET_HEAD: Final = (
    "INSERT INTO memory_head SELECT ?1, coalesce(min(number), 1), ?2 FROM memory_turn WHERE conversation = ?1 "
    "ON CONFLICT (conversation) DO UPDATE SET oldest = excluded.oldest, newest = excluded.newest"
)


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a row holds; earlier versions wrote the messages alone."""

    messages: msgspec.Raw
    parts: int = 1  # in the first row of a turn: of how many it is made
    digest: str | None = None

    @property
    def text(self) -> str:
        return sealed(msgspec.json.encode(self)).decode()


@final
class TurnTable:
    """The turns of one conversation in a SQLite database, in WAL mode and synchronised at each commit.

    Readers and one writer go on side by side; a writer waits up to 30 s for others. The rows are read from the newest,
    so reading takes time by the turns in the window.

    Each row has a digest, and the table `memory_head` says which turns there are: a row that was changed, and newest
    turns that are missing, are a failure that names them and what to do; other turns that are missing are told in the
    log `fxai.storage`. The database and its journals are their owner's alone, as `fxai.storage.database` says.
    """

    def __init__(self, path: str | os.PathLike[str], conversation: str, keep: int | None) -> None:
        """The turns of a conversation, of which `keep` are kept at most; use `Memory.sqlite`."""
        self.path = database_path(path)
        self._conversation = conversation
        self._keep = keep

    @property
    def place(self) -> str:
        """The path and the conversation."""
        return f"{self.path}, conversation {self._conversation!r}"

    def read(self, f: Callable[[Iterator[Prompt]], _A]) -> _A:
        """What `f` makes of the turns, the newest first."""
        with connected(self.path, _TURNS, _HEADS) as database:
            database.execute("BEGIN")  # what is read is of one moment
            return f(turn for _, _, turn in self._turns(database))

    def _turns(self, database: Connection) -> Iterator[tuple[int, int, Prompt]]:
        """Of each turn, the newest first: its number, of how many commits it is made, and its messages."""
        oldest, behind = self._head(database)
        rows = database.execute(_ROWS, (self._conversation,))
        count = 0
        for number, group in islice(groupby(rows, lambda row: _whole(row[0])), self._keep):
            texts = {_whole(row[1]): row[2] for row in group}
            self._tell_missing(number + 1, behind - 1)
            behind = number
            count += 1
            try:
                yield number, len(texts), _turn(texts)
            except OSError as error:
                raise OSError(
                    f"turn {number} is damaged: {error}; take its rows out of the table memory_turn"
                ) from error
        if count != self._keep:
            self._tell_missing(oldest, behind - 1)

    def _tell_missing(self, first: int, last: int) -> None:
        if first <= last:
            warn("turns %d to %d of the memory in %s are missing", first, last, self.place)

    def _head(self, database: Connection) -> tuple[int, int]:
        """The number of the oldest turn, and the one behind the newest.

        Raises:
            OSError: the newest turns that were committed are not there.
        """
        found: tuple[object, object] | None = database.execute(_HEAD, (self._conversation,)).fetchone()
        row: tuple[object, object, object] | None = database.execute(_ROWS, (self._conversation,)).fetchone()
        newest = 0 if row is None else _whole(row[0])
        if found is None and row is not None and str(row[2]).startswith("{"):
            raise self._lost("the row that says how many there are is", newest)
        if found is None:
            return 1, newest + 1
        oldest, last = map(_whole, found)
        if newest < last:
            raise self._lost(f"turns {max(newest + 1, oldest)} to {last} are", newest)
        return oldest, newest + 1

    def _lost(self, what: str, newest: int) -> OSError:
        name = self._conversation.replace("'", "''")
        return OSError(
            f"the database was cut short or damaged: {what} missing; put it back from a copy, or, to go on with what "
            f"is there, run INSERT OR REPLACE INTO memory_head VALUES ('{name}', 1, {newest})"
        )

    def append(self, messages: Prompt) -> None:
        """Adds the messages of a run; none are nothing. Raises as `TurnStore.append`."""
        if not len(messages):
            return
        row = _Row(msgspec.Raw(kept_text(messages).encode()))
        with connected(self.path, _TURNS, _HEADS) as database, writing(database):
            number, part = self._next(database, messages)
            values = (self._conversation, number, part, row.text)
            database.execute("INSERT INTO memory_turn VALUES (?, ?, ?, ?)", values)
            if part:
                self._count_parts(database, number, part + 1)
                return
            if self._keep is not None:
                old = (self._conversation, number - self._keep)
                database.execute("DELETE FROM memory_turn WHERE conversation = ? AND number <= ?", old)
            database.execute(_SET_HEAD, (self._conversation, number))

    def _next(self, database: Connection, messages: Prompt) -> tuple[int, int]:
        """The turn that the messages go to, and as its which part."""
        read: list[tuple[int, int]] = []

        def reading() -> Iterator[Prompt]:
            for number, parts, turn in self._turns(database):
                read.append((number, parts))
                yield turn

        place = owner(messages, reading())
        return (self._head(database)[1], 0) if place is None else read[place]

    def _count_parts(self, database: Connection, number: int, parts: int) -> None:
        first = (self._conversation, number)
        where = "WHERE conversation = ? AND number = ? AND part = 0"
        text: tuple[object] = database.execute(f"SELECT messages FROM memory_turn {where}", first).fetchone()
        row = msgspec.structs.replace(_row(text[0]), parts=parts, digest=None)
        database.execute(f"UPDATE memory_turn SET messages = ? {where}", (row.text, *first))

    def clear(self) -> None:
        """Forgets all turns."""
        with connected(self.path, _TURNS, _HEADS) as database, writing(database):
            for table in ("memory_turn", "memory_head"):
                database.execute(f"DELETE FROM {table} WHERE conversation = ?", (self._conversation,))


def _whole(number: object) -> int:
    """A number of a row, which in a damaged database may be anything.

    Raises:
        OSError: it is none.
    """
    if not isinstance(number, int):
        raise OSError(f"the database is damaged: {number!r} stands where a number does; put it back from a copy")
    return number


def _turn(texts: dict[int, object]) -> Prompt:
    """The messages of a turn, of its rows by their parts.

    Raises:
        OSError: a row is damaged or missing.
    """
    rows = [_row(texts[part]) for part in sorted(texts)]
    first = rows[0]
    if sorted(texts) != list(range(len(texts))) or (first.digest is not None and first.parts != len(rows)):
        raise OSError("a part of it is missing")
    return read_turn(bytes(row.messages) for row in rows)


def _row(text: object) -> _Row:
    if not isinstance(text, str):
        raise OSError("it holds no text")
    kept = text.encode()
    if not text.startswith("{"):
        return _Row(msgspec.Raw(kept))
    try:
        row = read_record(kept, _Row)
    except ValueError as error:
        raise OSError(f"it holds no messages ({error})") from error
    if not is_intact(kept):
        raise OSError("it was changed")
    return row
