"""Uses: ids that are used once, remembered in this process, in a file or in a SQLite database.

An id is claimed or denied, and the first answer stands. A use may have a time until which it has to be remembered; it
is remembered a day longer, because the clocks of processes differ and are set back.

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
from collections.abc import Callable, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.storage import is_intact, read_record, seal
from fxai.storage.private_file import update_file

Use: TypeAlias = Literal["begun", "ended", "denied", "used"]
"""What became of an id: it was claimed, and no end is known; what it was claimed for has ended; it was denied; it was
used, and that is all that is known."""

_Until: TypeAlias = Mapping[str, float | None]
_Change: TypeAlias = Callable[[dict[str, Use]], Mapping[str, Use]]
_Table: TypeAlias = dict[str, tuple[float | None, Use]]

_GRACE: Final = 86_400.0  # seconds

# what became of an id has a table of its own: programs that know the first one alone go on using the file
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS used_approval (id TEXT PRIMARY KEY, until REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS approval_use (id TEXT PRIMARY KEY, use TEXT NOT NULL) STRICT",
)


class Uses(ABC):
    """Which ids were used. The methods block where `blocks` says so; then they are for worker threads.

    They raise an `OSError` where the system or the database refuses, or what stands there is damaged; then nothing was
    changed. Times are in seconds since 1970; None: to be remembered for ever.
    """

    blocks: bool = True
    """Whether it waits for the disk and for other processes."""

    @abstractmethod
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        """Makes the uses that `change` gives of those of the ids, with no other change in between; gives the latter.

        Uses that were over long before `now` are forgotten.
        """

    def claim(self, ids: _Until, now: float) -> tuple[str, ...]:
        """Claims ids: all of them, or, where some were claimed or denied before, none; gives those."""
        begun: dict[str, Use] = dict.fromkeys(ids, "begun")
        return tuple(self._update(ids, now, lambda before: {} if before else begun))

    def deny(self, ids: _Until, now: float) -> tuple[str, ...]:
        """Denies ids, each one that was not claimed before; gives those that were."""
        before = self._update(ids, now, lambda before: {one: "denied" for one in ids if one not in before})
        return tuple(one for one, use in before.items() if use != "denied")

    def finish(self, ids: Iterable[str]) -> None:
        """Marks claimed ids as those of which what they were claimed for has ended."""
        self._update(
            dict.fromkeys(ids), None, lambda before: {one: "ended" for one, use in before.items() if use == "begun"}
        )

    def look_up(self, ids: Iterable[str]) -> dict[str, Use]:
        """What became of ids; those that were never used are not there."""
        return self._update(dict.fromkeys(ids), None, lambda _: {})


def _update_table(table: _Table, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
    over = -inf if now is None else now - _GRACE
    for one in [one for one, (until, _) in table.items() if until is not None and until < over]:
        del table[one]
    before: dict[str, Use] = {one: table[one][1] for one in ids if one in table}
    for one, use in change(before).items():
        table[one] = (table[one][0] if one in table else ids[one], use)
    return before


@final
class ProcessUses(Uses):
    """Uses that are forgotten with the process."""

    blocks = False

    def __init__(self) -> None:
        self._table: _Table = {}
        self._lock = threading.Lock()

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        with self._lock:
            return _update_table(self._table, ids, now, change)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: Literal[1]
    used: _Table
    digest: str | None = None


@final
class FileUses(Uses):
    """Uses in a JSON file, which is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        with update_file(self._path) as file:
            table = {} if file.content is None else self._read(file.content)
            before = _update_table(table, ids, now, change)
            file.content = seal(_File(1, table))
        return before

    def _read(self, text: bytes) -> _Table:
        try:
            file = read_record(text, _File)
        except ValueError as error:
            raise OSError(f"{self._path} holds no uses: {error}; put it back from a copy") from error
        if not is_intact(text):
            raise OSError(f"{self._path} is damaged: it is not as it was written; put it back from a copy")
        return file.used


@final
class TableUses(Uses):
    """Uses in a SQLite database."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        from fxai.storage.database import connect, transact  # only where there is a database

        with connect(self._path, *_TABLES) as database, transact(database):
            if now is not None:
                over = "SELECT id FROM used_approval WHERE until < ?"
                database.execute(f"DELETE FROM approval_use WHERE id IN ({over})", (now - _GRACE,))
                database.execute("DELETE FROM used_approval WHERE until < ?", (now - _GRACE,))
            found: dict[str, Any] = dict(
                database.execute(
                    "SELECT used_approval.id, coalesce(approval_use.use, 'used') "
                    "FROM used_approval LEFT JOIN approval_use ON approval_use.id = used_approval.id "
                    f"WHERE used_approval.id IN ({','.join('?' * len(ids))})",
                    tuple(ids),
                )
            )
            before: dict[str, Use] = {one: found[one] for one in ids if one in found}
            changed = change(before)
            added = [(one, ids[one]) for one in changed if one not in before]
            database.executemany("INSERT INTO used_approval VALUES (?, ?)", added)
            database.executemany("INSERT OR REPLACE INTO approval_use VALUES (?, ?)", list(changed.items()))
        return before
