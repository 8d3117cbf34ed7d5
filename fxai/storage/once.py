"""Sets of what was used once: ids that are claimed once, in this process, in a file or in a SQLite database.

An id is claimed once or denied; of several answers the first one stands. A use may have a time after which it need not
be remembered; it is remembered a day longer, because the clocks of processes differ.

>>> uses = ProcessUses()
>>> uses.claim({"a": None, "b": None}, now=0.0), uses.claim({"b": None, "c": None}, now=0.0)
((), ('b',))
>>> uses.deny({"c": None}, now=0.0)
()
>>> uses.look_up(["a", "b", "c"])
{'a': 'begun', 'b': 'begun', 'c': 'denied'}
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast, final

import msgspec
from typing_extensions import override

from fxai.storage import is_intact, read_record, seal
from fxai.storage.private_file import update_file

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["FileUses", "ProcessUses", "TableUses", "Use", "Uses"]

Use: TypeAlias = Literal["begun", "ended", "denied", "used"]
"""What became of an id: it was claimed, and no end is known; what it was claimed for has ended; it was denied; it was
used, and that is all that is known."""

_GRACE: Final = 86_400.0  # seconds

# what became of an id has a table of its own: programs that know the first one alone go on using the file
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS used_approval (id TEXT PRIMARY KEY, until REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS approval_use (id TEXT PRIMARY KEY, use TEXT NOT NULL) STRICT",
)


class _Records(Protocol):
    """The uses, inside a transaction."""

    def find(self, ids: Iterable[str], /) -> dict[str, Use]: ...
    def add(self, uses: Mapping[str, float | None], use: Use, /) -> None: ...
    def end(self, ids: Iterable[str], /) -> None: ...


class Uses(ABC):
    """Which ids were used. Its methods block where `blocks` says so; then they are for worker threads.

    Raises:
        OSError: the system or the database refuses, or what stands there is damaged; then nothing was changed.
    """

    blocks: bool = True
    """Whether it waits for the disk and for other processes."""

    @abstractmethod
    def _transact(self, now: float | None) -> AbstractContextManager[_Records]:
        """A transaction in which no other changes the uses; those that were over long before `now` are forgotten."""

    def claim(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        """Marks ids as used: all of them, or, where some were used or denied before, none; gives those."""
        with self._transact(now) as records:
            before = tuple(records.find(uses))
            if not before:
                records.add(uses, "begun")
        return before

    def deny(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        """Marks ids as denied, each one that was not used before; gives those that were claimed."""
        with self._transact(now) as records:
            before = records.find(uses)
            records.add({one: until for one, until in uses.items() if one not in before}, "denied")
        return tuple(one for one, use in before.items() if use != "denied")

    def finish(self, ids: Iterable[str]) -> None:
        """Marks claimed ids as those of which what they were claimed for has ended."""
        with self._transact(None) as records:
            records.end(ids)

    def look_up(self, ids: Iterable[str]) -> dict[str, Use]:
        """What became of ids; those that were never used are not there."""
        with self._transact(None) as records:
            return records.find(ids)


_Table: TypeAlias = "dict[str, tuple[float | None, Use]]"


@final
class _Mapped:
    """The uses in a mapping."""

    def __init__(self, uses: _Table) -> None:
        self.uses = uses

    def forget(self, now: float | None) -> None:
        over = -inf if now is None else now - _GRACE
        for one in [one for one, (until, _) in self.uses.items() if until is not None and until < over]:
            del self.uses[one]

    def find(self, ids: Iterable[str]) -> dict[str, Use]:
        return {one: self.uses[one][1] for one in ids if one in self.uses}

    def add(self, uses: Mapping[str, float | None], use: Use) -> None:
        self.uses.update({one: (until, use) for one, until in uses.items()})

    def end(self, ids: Iterable[str]) -> None:
        for one, use in self.find(ids).items():
            if use == "begun":
                self.uses[one] = (self.uses[one][0], "ended")


@final
class ProcessUses(Uses):
    """Uses that are forgotten with the process."""

    blocks = False

    def __init__(self) -> None:
        self._records = _Mapped({})
        self._lock = threading.Lock()

    @override
    @contextmanager
    def _transact(self, now: float | None) -> Generator[_Records]:
        with self._lock:
            self._records.forget(now)
            yield self._records


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    used: _Table
    digest: str | None = None


@final
class FileUses(Uses):
    """Uses in a JSON file, which is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    @contextmanager
    def _transact(self, now: float | None) -> Generator[_Records]:
        with update_file(self._path) as file:
            records = _Mapped({} if file.content is None else self._read(file.content))
            records.forget(now)
            yield records
            file.content = seal(_File(1, records.uses))

    def _read(self, text: bytes) -> _Table:
        try:
            file = read_record(text, _File)
        except ValueError as error:
            raise OSError(f"{self._path} holds no uses: {error}; put it back from a copy") from error
        if not is_intact(text):
            raise OSError(
                f"{self._path} is damaged: what stands in it is not what was written; put it back from a copy"
            )
        return file.used


@final
class _Rows:
    """The uses in a database."""

    def __init__(self, database: Connection, now: float | None) -> None:
        self._database = database
        if now is not None:
            over = "SELECT id FROM used_approval WHERE until < ?"
            database.execute(f"DELETE FROM approval_use WHERE id IN ({over})", (now - _GRACE,))
            database.execute("DELETE FROM used_approval WHERE until < ?", (now - _GRACE,))

    def find(self, ids: Iterable[str]) -> dict[str, Use]:
        asked = tuple(ids)
        found = self._database.execute(
            "SELECT used_approval.id, coalesce(approval_use.use, 'used') "
            "FROM used_approval LEFT JOIN approval_use ON approval_use.id = used_approval.id "
            f"WHERE used_approval.id IN ({','.join('?' * len(asked))})",
            asked,
        )
        uses = dict(cast("Iterable[Any]", found))
        return {one: uses[one] for one in asked if one in uses}

    def add(self, uses: Mapping[str, float | None], use: Use) -> None:
        self._database.executemany("INSERT INTO used_approval VALUES (?, ?)", list(uses.items()))
        self._database.executemany("INSERT OR REPLACE INTO approval_use VALUES (?, ?)", [(one, use) for one in uses])

    def end(self, ids: Iterable[str]) -> None:
        statement = "UPDATE approval_use SET use = 'ended' WHERE id = ? AND use = 'begun'"
        self._database.executemany(statement, [(one,) for one in ids])


@final
class TableUses(Uses):
    """Uses in a SQLite database."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    @contextmanager
    def _transact(self, now: float | None) -> Generator[_Records]:
        from fxai.storage.database import connect, transact  # only where there is a database

        with connect(self._path, *_TABLES) as database, transact(database):
            yield _Rows(database, now)
